"""Test-time training: the state of a layer is itself a model, which is trained on every token.

    W_t = W_{t-1} - eta_t grad ||f(W_K x_t; W) - W_V x_t||^2,      output_t = f(W_Q x_t; W_t)

Sun et al. 2024. https://arxiv.org/abs/2407.04620
The inner models f have their weights as state (section 2.7):

    bare:    f(x) = W x
    normed:  f(x) = x + LN(W x + b)

Each contains one linear map z = W x. Training needs only the derivative of the loss by z, since the derivative by W is
its product with x.

All gradients of a mini-batch are taken at the weights of its beginning, so that its positions are computed in parallel
(the dual form, section 2.5). With z = W x and g_j = eta_j d loss / d z_j at key j,

    z_i = W_0 q_i - s_i sum_{j <= i} (k_j . q_i) g_j

where s_i is a learned scale of position i in the mini-batch, initially 1 / i: the mean of the gradients so far.
`BareLinear` with eta = 1/2, W_0 = 0, s = 1 and a single mini-batch is linear attention (theorem 1 of the paper);
`NadarayaWatsonLearner`, which stores all examples, is softmax attention (theorem 2).

Departs from the paper: positions within a mini-batch are distinguished by s alone, without the rotary positions of the
authors' code, from which s is taken; and the gradient of the square keeps its factor 2, which that code omits.

Shapes: B batch, H heads, T tokens, d head size, i input size of the linear map.
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.scores import ScaledDot
from regard.contracts import Score
from regard.layers.linear_attention import check_heads, join_heads, split_heads


@runtime_checkable
class InnerModel(Protocol):
    """The inner model f around a linear map: the map's inputs, f from the map's result, and the gradient by it."""

    num_inputs: int

    def inputs(self, arguments: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T i"]:
        """The inputs of the linear map."""
        ...

    def output(self, inputs: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T d"]:
        """f, from its argument and the result of the linear map."""
        ...

    def gradient(
        self, inputs: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"], targets: Float[Tensor, "B H T d"]
    ) -> Float[Tensor, "B H T d"]:
        """The derivative of ||f - targets||^2 by the result of the linear map."""
        ...


class BareLinear(nn.Module):
    """f(x) = W x."""

    def __init__(self, *, num_heads: int, head_size: int) -> None:
        super().__init__()
        self.num_inputs = head_size

    def inputs(self, arguments: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T d"]:
        """The arguments of f."""
        return arguments

    def output(self, inputs: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T d"]:
        """The result of the linear map."""
        return linear

    def gradient(
        self, inputs: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"], targets: Float[Tensor, "B H T d"]
    ) -> Float[Tensor, "B H T d"]:
        """Twice the error."""
        return 2 * (linear - targets)


class NormedLinear(nn.Module):
    """f(x) = x + LN(W x + b), the paper's (section 2.7); b is the last row of W, whose input is 1."""

    def __init__(self, *, num_heads: int, head_size: int) -> None:
        super().__init__()
        self.num_inputs = head_size + 1
        # broadcasts over batch and tokens
        self.shape = (num_heads, 1, head_size)
        # one-dimensional, because weight decay excludes vectors
        self.gain = nn.Parameter(torch.ones(num_heads * head_size))
        self.shift = nn.Parameter(torch.zeros(num_heads * head_size))

    def inputs(self, arguments: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T i"]:
        """The arguments of f with a 1 appended."""
        return F.pad(arguments, (0, 1), value=1.0)

    def output(self, inputs: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T d"]:
        """Normalise, scale, shift and add the argument."""
        return inputs + self.gain.view(self.shape) * standardise(linear)[0] + self.shift.view(self.shape)

    def gradient(
        self, inputs: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"], targets: Float[Tensor, "B H T d"]
    ) -> Float[Tensor, "B H T d"]:
        """Backpropagate through the norm."""
        normal, scale = standardise(linear)
        gain, shift = self.gain.view(self.shape), self.shift.view(self.shape)
        # d ||f - targets||^2 / d normal; below it passes back through the norm
        slope = 2 * (inputs + gain * normal + shift - targets) * gain
        # the norm removes the mean and the component along its output
        along = (slope * normal).mean(dim=-1, keepdim=True)
        return (slope - slope.mean(dim=-1, keepdim=True) - normal * along) * scale


def standardise(
    inputs: Float[Tensor, "B H T d"], epsilon: float = 1e-5
) -> tuple[Float[Tensor, "B H T d"], Float[Tensor, "B H T 1"]]:
    """The inputs with mean 0 and variance 1, and the scale factor."""
    centred = inputs - inputs.mean(dim=-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + epsilon)
    return centred * scale, scale


@dataclass(frozen=True, kw_only=True)
class LearnerOutput:
    """Outputs of the inner model at every position, and the state after the last."""

    outputs: Float[Tensor, "B H T d"]
    state: Any


@runtime_checkable
class InnerLearner(Protocol):
    """A trained inner model: keys are training inputs, values their targets, queries the inputs to predict."""

    def start(self, batch_size: int) -> Any:
        """The state before the first token."""
        ...

    def update(
        self,
        queries: Float[Tensor, "B H T d"],
        keys: Float[Tensor, "B H T d"],
        values: Float[Tensor, "B H T d"],
        rates: Float[Tensor, "B H T"],
        state: Any,
    ) -> LearnerOutput:
        """At each position, train on its key and value, then predict for its query."""
        ...


@dataclass(frozen=True, kw_only=True)
class GradientState:
    """Weights at the beginning of the mini-batch, the sum of its gradients, and each element's position in it."""

    weights: Float[Tensor, "B H i d"]
    gradient: Float[Tensor, "B H i d"]
    position: Int[Tensor, " B"]


def descend(
    queries: Float[Tensor, "B H T d"],
    keys: Float[Tensor, "B H T d"],
    values: Float[Tensor, "B H T d"],
    rates: Float[Tensor, "B H T"],
    state: GradientState,
    *,
    model: InnerModel,
    scales: Float[Tensor, " T"],
) -> LearnerOutput:
    """All positions of one mini-batch in parallel; adds their gradients to the state and keeps its weights."""
    key_inputs, query_inputs = model.inputs(keys), model.inputs(queries)
    # (B, H, T, d), at the weights of the mini-batch's beginning; rates are (B, H, T)
    slopes = model.gradient(keys, key_inputs @ state.weights, values) * rates.unsqueeze(-1)
    # the sum over j <= i of (k_j . q_i) g_j: earlier calls are in state.gradient, this one is the causal product
    step = query_inputs @ state.gradient + (query_inputs @ key_inputs.transpose(-1, -2)).tril() @ slopes
    # scales (T,) -> (T, 1), the same for all batch elements and heads
    linear = query_inputs @ state.weights - scales.unsqueeze(-1) * step
    # not scaled: each later position applies its own scale to the sum
    gradient = state.gradient + key_inputs.transpose(-1, -2) @ slopes
    return LearnerOutput(outputs=model.output(queries, linear), state=replace(state, gradient=gradient))


class GradientLearner(nn.Module):
    """One gradient step per mini-batch from learned initial weights; each position uses the gradients up to it."""

    def __init__(self, *, model: InnerModel, num_heads: int, head_size: int, mini_batch: int = 16) -> None:
        super().__init__()
        if mini_batch < 1:
            raise ValueError(f"mini_batch is {mini_batch}, expected 1 token or more, such as 16.")
        self.model, self.mini_batch = model, mini_batch
        self.first = nn.Parameter(torch.zeros(num_heads, model.num_inputs, head_size))
        # the bias row of NormedLinear, after the first head_size rows, starts at 0
        nn.init.normal_(self.first.data[:, :head_size], std=0.02)
        self.scale_shift = nn.Parameter(torch.zeros(mini_batch))

    def scales(self) -> Float[Tensor, " places"]:
        """The scale s of each position in a mini-batch; never negative."""
        # in the parameters' precision: the quotient of integers would be float32 in any model
        numbers = torch.arange(1, self.mini_batch + 1, device=self.scale_shift.device, dtype=self.scale_shift.dtype)
        # clamped, because a negative scale would increase the loss
        return (1 / numbers + self.scale_shift).clamp_min(0.0)

    def start(self, batch_size: int) -> GradientState:
        """The learned initial weights, repeated over the batch."""
        weights = self.first.repeat(batch_size, 1, 1, 1)
        # one for each element and on the device: elements of a batch may be in different positions of a mini-batch
        position = torch.zeros(batch_size, dtype=torch.int64, device=weights.device)
        return GradientState(weights=weights, gradient=torch.zeros_like(weights), position=position)

    def update(
        self,
        queries: Float[Tensor, "B H T d"],
        keys: Float[Tensor, "B H T d"],
        values: Float[Tensor, "B H T d"],
        rates: Float[Tensor, "B H T"],
        state: GradientState,
    ) -> LearnerOutput:
        """One mini-batch after another; a batch element that starts inside a mini-batch is shifted to its position."""
        length, size = keys.shape[2], self.mini_batch
        # there would be no token to gather
        if not length:
            return LearnerOutput(outputs=queries, state=state)
        # enough slots for an element that starts at the last position of a mini-batch
        # their number follows from shapes: positions stay on the device
        slots = torch.arange(-(-(length + size - 1) // size) * size, device=keys.device)
        # (B, slots): which token is in each slot, outside of [0, length) where there is none
        index = slots - state.position[:, None]
        is_token = (index >= 0) & (index < length)
        index = index.clamp(0, length - 1)
        queries, keys, values = (gather_tokens(part, index) for part in (queries, keys, values))
        # a rate of 0 disables training at slots without a token
        rates = gather_tokens(rates.unsqueeze(-1), index)[..., 0] * is_token[:, None]
        scales, outputs, num_tokens = self.scales(), [], state.position + length
        for begin in range(0, len(slots), size):
            part = slice(begin, begin + size)
            output = descend(
                queries[:, :, part],
                keys[:, :, part],
                values[:, :, part],
                rates[:, :, part],
                state,
                model=self.model,
                scales=scales,
            )
            outputs.append(output.outputs)
            # the last scale is that of a full mini-batch
            state = finish(output.state, num_tokens >= begin + size, scale=scales[-1])
        positions = state.position[:, None] + torch.arange(length, device=keys.device)
        outputs_in_order = gather_tokens(torch.cat(outputs, dim=2), positions)
        return LearnerOutput(outputs=outputs_in_order, state=replace(state, position=num_tokens % size))


def finish(state: GradientState, full: Bool[Tensor, " B"], *, scale: Float[Tensor, ""]) -> GradientState:
    """Update the weights of batch elements whose mini-batch is full."""
    is_full = full[:, None, None, None]
    weights = torch.where(is_full, state.weights - scale * state.gradient, state.weights)
    return replace(state, weights=weights, gradient=state.gradient.masked_fill(is_full, 0.0))


def gather_tokens(part: Float[Tensor, "B H T d"], positions: Int[Tensor, "B N"]) -> Float[Tensor, "B H N d"]:
    """The tokens at these positions of each batch element."""
    # (B, N) -> (B, H, N, d) without a copy
    index = positions[:, None, :, None].expand(-1, part.shape[1], -1, part.shape[3])
    return part.gather(2, index)


@dataclass(frozen=True, kw_only=True)
class AttentionLearnerState:
    """All keys and values so far; None before the first token."""

    keys: Float[Tensor, "B H K d"] | None = None
    values: Float[Tensor, "B H K d"] | None = None


class NadarayaWatsonLearner(nn.Module):
    """f(q) = sum_j kernel(q, k_j) v_j / sum_j kernel(q, k_j), kernel = exp(score): kernel regression on the past.

    It has no weights: training stores the example, and the rate is not used. The state grows with the length.
    """

    def __init__(self, *, score: Score | None = None) -> None:
        super().__init__()
        self.score = ScaledDot() if score is None else score

    def start(self, batch_size: int) -> AttentionLearnerState:
        """An empty memory."""
        return AttentionLearnerState()

    def update(
        self,
        queries: Float[Tensor, "B H T d"],
        keys: Float[Tensor, "B H T d"],
        values: Float[Tensor, "B H T d"],
        rates: Float[Tensor, "B H T"],
        state: AttentionLearnerState,
    ) -> LearnerOutput:
        """Each position uses the examples up to its own."""
        if state.keys is not None and state.values is not None:
            keys, values = torch.cat([state.keys, keys], dim=-2), torch.cat([state.values, values], dim=-2)
        scores = self.score(queries, self.score.prepare(keys))
        # causal; stored keys come first, so the diagonal is shifted by their number
        allowed = torch.ones_like(scores, dtype=torch.bool).tril(keys.shape[-2] - queries.shape[-2])
        scores = scores.masked_fill(~allowed, -torch.inf)
        # a common factor of all kernels cancels in the ratio and prevents overflow
        # the maximum is finite: every query may attend to its own key
        kernels = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        outputs = kernels @ values / kernels.sum(dim=-1, keepdim=True)
        return LearnerOutput(outputs=outputs, state=AttentionLearnerState(keys=keys, values=values))


@dataclass(frozen=True, kw_only=True)
class TTTOutput:
    """Outputs of the layer at every position, and the learners' state after the last."""

    outputs: Float[Tensor, "B T size"]
    state: Any


class TTT(nn.Module):
    """One learner per head, with projections to its keys, values and queries.

    The learning rate of a token is eta = base_rate sigmoid(w . x + b) / d (section 2.7).
    """

    def __init__(self, *, hidden_size: int, num_heads: int, learner: InnerLearner, base_rate: float = 1.0) -> None:
        super().__init__()
        check_heads(hidden_size, num_heads)
        self.num_heads, self.learner, self.base_rate = num_heads, learner, base_rate
        self.query_proj, self.key_proj, self.value_proj, self.output_proj = (
            nn.Linear(hidden_size, hidden_size, bias=False) for _ in range(4)
        )
        self.rate_proj = nn.Linear(hidden_size, num_heads)
        self.norm = nn.LayerNorm(hidden_size)

    def start(self, batch_size: int) -> Any:
        """The learners' state before the first token."""
        return self.learner.start(batch_size)

    def forward(self, states: Float[Tensor, "B T size"], state: Any) -> TTTOutput:
        """Train and predict at every position."""
        queries, keys, values = (
            split_heads(proj(states), self.num_heads) for proj in (self.query_proj, self.key_proj, self.value_proj)
        )
        # divided by the head size, as in section 2.7
        rates = torch.sigmoid(self.rate_proj(states)).transpose(1, 2) * (self.base_rate / keys.shape[-1])
        output = self.learner.update(queries, keys, values, rates, state)
        return TTTOutput(outputs=self.output_proj(self.norm(join_heads(output.outputs))), state=output.state)
