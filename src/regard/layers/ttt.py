"""Test-time training: the state of a layer is a model that is trained while it runs.

What a test-time training layer learns: small models whose weights are its state.

    bare:    f(x) = W x
    normed:  f(x) = x + LN(W x + b)

Sun et al. 2024, section 2.7. https://arxiv.org/abs/2407.04620
Each is a linear map z = W x with something around it. Learning needs no more of it than the loss's derivative by z,
since that by W is its product with x.

Shapes: B batch, H heads, T tokens, d size of a head, i size of what the linear map reads.

Test-time training: the state of a layer is itself a model, which learns from every token it reads.

    W_t = W_{t-1} - eta_t grad ||f(W_K x_t; W) - W_V x_t||^2,      output_t = f(W_Q x_t; W_t)

Sun et al. 2024. https://arxiv.org/abs/2407.04620
Gradients of a mini-batch are all taken at the weights of its beginning, so that its places are computed side by side
(the dual form, section 2.5). With z = W x and g_j = eta_j d loss / d z_j at key j,

    z_i = W_0 q_i - s_i sum_{j <= i} (k_j . q_i) g_j

where s_i is a learned scale of place i in the mini-batch, 1 / i at first: the mean of the gradients so far.
`BareLinear` with eta = 1/2, W_0 = 0, s = 1 and one mini-batch for all is linear attention (theorem 1 of the paper);
`NadarayaWatsonLearner`, which learns by heart, is softmax attention (theorem 2).

Departs from the paper: the mini-batch's places are told by s alone, without the rotary positions of the authors' code,
whose s this is; and the square's gradient keeps its factor 2, which that code leaves out.

Shapes: B batch, H heads, T tokens, d size of a head, i size of what the linear map reads.
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
    """f, whose weights are the state: what its linear map reads, what becomes of the map's result, and how to learn."""

    num_inputs: int

    def inputs(self, given: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T i"]:
        """What the linear map reads."""
        ...

    def output(self, given: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T d"]:
        """f, from what it was given and the linear map's result."""
        ...

    def gradient(
        self, given: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"], wanted: Float[Tensor, "B H T d"]
    ) -> Float[Tensor, "B H T d"]:
        """The derivative of ||f - wanted||^2 by the linear map's result."""
        ...


class BareLinear(nn.Module):
    """f(x) = W x."""

    def __init__(self, *, num_heads: int, head_size: int) -> None:
        super().__init__()
        self.num_inputs = head_size

    def inputs(self, given: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T d"]:
        """As it is."""
        return given

    def output(self, given: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T d"]:
        """As it is."""
        return linear

    def gradient(
        self, given: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"], wanted: Float[Tensor, "B H T d"]
    ) -> Float[Tensor, "B H T d"]:
        """Twice the error."""
        return 2 * (linear - wanted)


class NormedLinear(nn.Module):
    """f(x) = x + LN(W x + b), the paper's (section 2.7); b is W's last row, which reads a 1."""

    def __init__(self, *, num_heads: int, head_size: int) -> None:
        super().__init__()
        self.num_inputs = head_size + 1
        self.shape = (num_heads, 1, head_size)
        # vectors, as those of any norm: weight decay is for matrices
        self.gain = nn.Parameter(torch.ones(num_heads * head_size))
        self.shift = nn.Parameter(torch.zeros(num_heads * head_size))

    def inputs(self, given: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T i"]:
        """A 1 beside it."""
        return F.pad(given, (0, 1), value=1.0)

    def output(self, given: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T d"]:
        """Normalise and add."""
        return given + self.gain.view(self.shape) * standardise(linear)[0] + self.shift.view(self.shape)

    def gradient(
        self, given: Float[Tensor, "B H T d"], linear: Float[Tensor, "B H T d"], wanted: Float[Tensor, "B H T d"]
    ) -> Float[Tensor, "B H T d"]:
        """Back through the norm."""
        normal, scale = standardise(linear)
        gain, shift = self.gain.view(self.shape), self.shift.view(self.shape)
        slope = 2 * (given + gain * normal + shift - wanted) * gain
        along = (slope * normal).mean(dim=-1, keepdim=True)
        return (slope - slope.mean(dim=-1, keepdim=True) - normal * along) * scale


def standardise(
    inputs: Float[Tensor, "B H T d"], epsilon: float = 1e-5
) -> tuple[Float[Tensor, "B H T d"], Float[Tensor, "B H T 1"]]:
    """Mean 0 and variance 1, and the scale that made it so."""
    centred = inputs - inputs.mean(dim=-1, keepdim=True)
    scale = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + epsilon)
    return centred * scale, scale


@dataclass(frozen=True, kw_only=True)
class LearnerOutput:
    """What the inner model says at every place, and the state after the last."""

    outputs: Float[Tensor, "B H T d"]
    state: Any


@runtime_checkable
class InnerLearner(Protocol):
    """A model and how it learns: keys are its examples, values their answers, queries what it is asked."""

    def start(self, batch_size: int) -> Any:
        """The state before the first token."""
        ...

    def read(
        self,
        queries: Float[Tensor, "B H T d"],
        keys: Float[Tensor, "B H T d"],
        values: Float[Tensor, "B H T d"],
        rates: Float[Tensor, "B H T"],
        state: Any,
    ) -> LearnerOutput:
        """Learn each place's example, then answer its query."""
        ...


@dataclass(frozen=True, kw_only=True)
class GradientState:
    """Weights at the mini-batch's beginning, the sum of its gradients so far, and how many they are in each row."""

    weights: Float[Tensor, "B H i d"]
    gradient: Float[Tensor, "B H i d"]
    place: Int[Tensor, " B"]


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
    """Places of one mini-batch side by side, `scales` being their own; the state's gradient grows, and only that."""
    given, asked = model.inputs(keys), model.inputs(queries)
    slopes = model.gradient(keys, given @ state.weights, values) * rates.unsqueeze(-1)
    moved = asked @ state.gradient + (asked @ given.transpose(-1, -2)).tril() @ slopes
    linear = asked @ state.weights - scales.unsqueeze(-1) * moved
    gradient = state.gradient + given.transpose(-1, -2) @ slopes
    return LearnerOutput(outputs=model.output(queries, linear), state=replace(state, gradient=gradient))


class GradientLearner(nn.Module):
    """One gradient step a mini-batch, from a learned start; every place sees the step as far as it has come."""

    def __init__(self, *, model: InnerModel, num_heads: int, head_size: int, mini_batch: int = 16) -> None:
        super().__init__()
        if mini_batch < 1:
            raise ValueError(f"mini_batch is {mini_batch}, expected 1 token or more, such as 16.")
        self.model, self.mini_batch = model, mini_batch
        self.first = nn.Parameter(torch.zeros(num_heads, model.num_inputs, head_size))
        nn.init.normal_(self.first.data[:, :head_size], std=0.02)
        self.scale_shift = nn.Parameter(torch.zeros(mini_batch))

    def scales(self) -> Float[Tensor, " places"]:
        """How much of the sum of gradients each place of a mini-batch goes; never uphill."""
        numbers = torch.arange(1, self.mini_batch + 1, device=self.scale_shift.device)
        return (1 / numbers + self.scale_shift).clamp_min(0.0)

    def start(self, batch_size: int) -> GradientState:
        """The learned start, for every row."""
        weights = self.first.repeat(batch_size, 1, 1, 1)
        place = torch.zeros(batch_size, dtype=torch.int64, device=weights.device)
        return GradientState(weights=weights, gradient=torch.zeros_like(weights), place=place)

    def read(
        self,
        queries: Float[Tensor, "B H T d"],
        keys: Float[Tensor, "B H T d"],
        values: Float[Tensor, "B H T d"],
        rates: Float[Tensor, "B H T"],
        state: GradientState,
    ) -> LearnerOutput:
        """Mini-batch by mini-batch; a row that begins inside one is moved up to its place there."""
        length, size = keys.shape[2], self.mini_batch
        if not length:
            return LearnerOutput(outputs=queries, state=state)
        # as many as a row needs that begins at a mini-batch's last place
        slots = torch.arange(-(-(length + size - 1) // size) * size, device=keys.device)
        given = slots - state.place[:, None]
        real = (given >= 0) & (given < length)
        given = given.clamp(0, length - 1)
        queries, keys, values = (lay(part, given) for part in (queries, keys, values))
        # where there is no token, nothing is learned
        rates = lay(rates.unsqueeze(-1), given)[..., 0] * real[:, None]
        scales, outputs, read = self.scales(), [], state.place + length
        for begin in range(0, len(slots), size):
            some = slice(begin, begin + size)
            done = descend(
                queries[:, :, some],
                keys[:, :, some],
                values[:, :, some],
                rates[:, :, some],
                state,
                model=self.model,
                scales=scales,
            )
            outputs.append(done.outputs)
            state = finish(done.state, read >= begin + size, scale=scales[-1])
        places = state.place[:, None] + torch.arange(length, device=keys.device)
        return LearnerOutput(outputs=lay(torch.cat(outputs, dim=2), places), state=replace(state, place=read % size))


def finish(state: GradientState, full: Bool[Tensor, " B"], *, scale: Float[Tensor, ""]) -> GradientState:
    """Rows whose mini-batch is full take their step."""
    whole = full[:, None, None, None]
    weights = torch.where(whole, state.weights - scale * state.gradient, state.weights)
    return replace(state, weights=weights, gradient=state.gradient.masked_fill(whole, 0.0))


def lay(part: Float[Tensor, "B H T d"], places: Int[Tensor, "B N"]) -> Float[Tensor, "B H N d"]:
    """The tokens of these places, row by row."""
    index = places[:, None, :, None].expand(-1, part.shape[1], -1, part.shape[3])
    return part.gather(2, index)


@dataclass(frozen=True, kw_only=True)
class AttentionLearnerState:
    """Everything learned by heart; None before the first."""

    keys: Float[Tensor, "B H K d"] | None = None
    values: Float[Tensor, "B H K d"] | None = None


class NadarayaWatsonLearner(nn.Module):
    """f(q) = sum_j kernel(q, k_j) v_j / sum_j kernel(q, k_j), kernel = exp(score): kernel regression on the past.

    It has no weights, so learning is keeping the example and the rate is not asked. Its state grows.
    """

    def __init__(self, *, score: Score | None = None) -> None:
        super().__init__()
        self.score = ScaledDot() if score is None else score

    def start(self, batch_size: int) -> AttentionLearnerState:
        """No example yet."""
        return AttentionLearnerState()

    def read(
        self,
        queries: Float[Tensor, "B H T d"],
        keys: Float[Tensor, "B H T d"],
        values: Float[Tensor, "B H T d"],
        rates: Float[Tensor, "B H T"],
        state: AttentionLearnerState,
    ) -> LearnerOutput:
        """Each place knows the examples up to its own."""
        if state.keys is not None and state.values is not None:
            keys, values = torch.cat([state.keys, keys], dim=-2), torch.cat([state.values, values], dim=-2)
        scores = self.score(queries, self.score.prepare(keys))
        known = torch.ones_like(scores, dtype=torch.bool).tril(keys.shape[-2] - queries.shape[-2])
        scores = scores.masked_fill(~known, -torch.inf)
        # a factor that is all kernels' own leaves their ratio as it is
        kernels = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        outputs = kernels @ values / kernels.sum(dim=-1, keepdim=True)
        return LearnerOutput(outputs=outputs, state=AttentionLearnerState(keys=keys, values=values))


@dataclass(frozen=True, kw_only=True)
class TTTRead:
    """What the layer says at every place, and the learners' state after the last."""

    outputs: Float[Tensor, "B T size"]
    state: Any


class TTT(nn.Module):
    """A learner a head, with projections for what it learns from, learns to say, and is asked.

    A token's rate is eta = base_rate sigmoid(w . x + b) / d (section 2.7).
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

    def forward(self, states: Float[Tensor, "B T size"], state: Any) -> TTTRead:
        """Learn and answer at every place."""
        queries, keys, values = (
            split_heads(proj(states), self.num_heads) for proj in (self.query_proj, self.key_proj, self.value_proj)
        )
        rates = torch.sigmoid(self.rate_proj(states)).transpose(1, 2) * (self.base_rate / keys.shape[-1])
        done = self.learner.read(queries, keys, values, rates, state)
        return TTTRead(outputs=self.output_proj(self.norm(join_heads(done.outputs))), state=done.state)
