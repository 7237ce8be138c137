"""Small causal sequence models that differ only in how they combine positions, and the path between two positions.

    window        h_t = tanh(W [x_{t-w+1}; ..; x_t])      one layer, nothing before the window
    recurrence    h_t = cell(x_t, h_{t-1})                  a path of one step per position
    convolution   h^l_t = h^{l-1}_t + GLU(W [h^{l-1}_{t-k+1}; ..; h^{l-1}_t])    a path of distance / (k - 1) layers
    attention     h_t = x_t + attend(x_t, x_1 .. x_t)       a path of one layer

Path lengths: Vaswani et al. 2017, section 4, table 1. https://arxiv.org/abs/1706.03762

Shapes: B batch, L positions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks import causal
from regard.attention.positions import Sinusoidal
from regard.experiments.lib.small_transformer import SmallBlock
from regard.layers import CausalConvolution, Embedding, Readout

CAUSAL = causal()


class SequenceLayers(nn.Module, ABC):
    """Layers that map vectors to vectors; an output depends on no later position."""

    @abstractmethod
    def forward(self, inputs: Float[Tensor, "B L size"]) -> Float[Tensor, "B L size"]:
        """Outputs at all positions."""

    @abstractmethod
    def sequence_of_results(self, inputs: Float[Tensor, "B L size"]) -> tuple[Float[Tensor, "B size"], list[Tensor]]:
        """The output at the last position, and the results before it, each of which needs the one in front of it."""


class StackedLayers(SequenceLayers):
    """Layers that process all positions at once: only layers follow one another."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, inputs: Float[Tensor, "B L size"]) -> Float[Tensor, "B L size"]:
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs

    def sequence_of_results(self, inputs: Float[Tensor, "B L size"]) -> tuple[Float[Tensor, "B size"], list[Tensor]]:
        results = []
        for layer in self.layers:
            inputs = layer(inputs)
            results.append(inputs)
        return inputs[:, -1], results


class WindowLayer(nn.Module):
    """A hidden layer over the last `window` positions, as in the language model of Bengio et al. 2003."""

    def __init__(self, *, size: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.hidden = nn.Linear(window * size, size)

    def forward(self, inputs: Float[Tensor, "B L size"]) -> Float[Tensor, "B L size"]:
        # zeros stand before the first position
        padded = nn.functional.pad(inputs, (0, 0, self.window - 1, 0))
        # (B, L, size, window)
        return torch.tanh(self.hidden(padded.unfold(1, self.window, 1).flatten(2)))


class PointLayer(nn.Module):
    """A hidden layer at each position on its own."""

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(size, size)

    def forward(self, inputs: Float[Tensor, "B L size"]) -> Float[Tensor, "B L size"]:
        return torch.tanh(self.hidden(inputs))


class ConvolutionLayer(nn.Module):
    """A gated causal convolution with a residual connection."""

    def __init__(self, *, size: int, kernel_size: int) -> None:
        super().__init__()
        self.convolution = CausalConvolution(hidden_size=size, kernel_size=kernel_size)

    def forward(self, inputs: Float[Tensor, "B L size"]) -> Float[Tensor, "B L size"]:
        # times sqrt(1/2), so that the variance of the sum is that of its parts (Gehring et al. 2017, section 3.5)
        return (inputs + self.convolution(inputs, self.convolution.start(inputs)).states) * 0.5**0.5


class AttentionLayer(nn.Module):
    """A block of causal self-attention and feed-forward."""

    def __init__(self, *, size: int, num_heads: int = 1) -> None:
        super().__init__()
        self.block = SmallBlock(size=size, num_heads=num_heads)

    def forward(self, inputs: Float[Tensor, "B L size"]) -> Float[Tensor, "B L size"]:
        outputs: Tensor = self.block(inputs, CAUSAL)
        return outputs


class RecurrentLayers(SequenceLayers):
    """`nn.RNN` (tanh) or `nn.LSTM`, whose steps follow one another; each is one result (layers, B, size)."""

    def __init__(self, cell: type[nn.RNN] | type[nn.LSTM], *, size: int, num_layers: int) -> None:
        super().__init__()
        self.cell = cell(size, size, num_layers, batch_first=True)
        if isinstance(self.cell, nn.LSTM):
            # forget gates start open, so that the cells keep their content; torch's order of the gates is i, f, g, o
            with torch.no_grad():
                for layer in range(num_layers):
                    getattr(self.cell, f"bias_ih_l{layer}")[size : 2 * size] = 1.0

    def forward(self, inputs: Float[Tensor, "B L size"]) -> Float[Tensor, "B L size"]:
        outputs: Tensor = self.cell(inputs)[0]
        return outputs

    def sequence_of_results(self, inputs: Float[Tensor, "B L size"]) -> tuple[Float[Tensor, "B size"], list[Tensor]]:
        results: list[Tensor] = []
        state = None
        # step by step, with the same numbers: one call would hide the states in between
        for position in inputs.split(1, dim=1):
            state = self.cell(position, state)[1]
            # an LSTM has hidden and cell; (layers, B, size)
            results.append(state[0] if isinstance(self.cell, nn.LSTM) else state)
        return results[-1][-1], results


WINDOW, KERNEL = 8, 3
"""Positions that the window and one convolution cover."""


def window_layers(*, size: int, num_layers: int) -> SequenceLayers:
    """A window, then layers at each position on its own: more of them do not widen the window."""
    points = [PointLayer(size=size) for _ in range(num_layers - 1)]
    return StackedLayers([WindowLayer(size=size, window=WINDOW), *points])


def convolution_layers(*, size: int, num_layers: int) -> SequenceLayers:
    return StackedLayers([ConvolutionLayer(size=size, kernel_size=KERNEL) for _ in range(num_layers)])


def attention_layers(*, size: int, num_layers: int) -> SequenceLayers:
    """Positions are added once, before the first block."""
    blocks = [AttentionLayer(size=size) for _ in range(num_layers)]
    return StackedLayers([nn.Sequential(Sinusoidal(hidden_size=size), blocks[0]), *blocks[1:]])


LAYERS: Mapping[str, Callable[..., SequenceLayers]] = {
    "MLP": window_layers,
    "CNN": convolution_layers,
    "RNN": partial(RecurrentLayers, nn.RNN),
    "LSTM": partial(RecurrentLayers, nn.LSTM),
    "Attention": attention_layers,
}
"""Builders by name, in history order; all take `size` and `num_layers`."""


class SequenceModel(nn.Module):
    """Embedding, layers and output layer."""

    def __init__(self, layers: SequenceLayers, *, vocab_size: int, num_outputs: int, size: int) -> None:
        super().__init__()
        self.embedding = Embedding(vocab_size=vocab_size, hidden_size=size)
        self.layers = layers
        self.readout = Readout(hidden_size=size, vocab_size=num_outputs)

    def forward(self, ids: Int[Tensor, "B L"]) -> Float[Tensor, "B L outputs"]:
        """Logits at every position."""
        return self.readout(self.layers(self.embedding(ids)))


def path_length(
    build: Callable[..., SequenceLayers], distance: int, *, size: int = 4, max_layers: int | None = None
) -> int | None:
    """The results that a gradient passes from an output to the input `distance` before it; None if it never arrives.

    The smallest number of layers is taken with which it arrives. A layer reaches at least one position further, so
    that `distance` layers suffice where depth helps at all.
    """
    for num_layers in range(1, (max_layers or distance) + 1):
        # float64, because the gradient of a recurrence may be far below the smallest float32
        layers = build(size=size, num_layers=num_layers).double()
        inputs = torch.randn(1, distance + 1, size, dtype=torch.float64, requires_grad=True)
        output, results = layers.sequence_of_results(inputs)
        (gradient,) = torch.autograd.grad(output.sum(), inputs, retain_graph=True)
        if gradient[:, 0].any():
            return sum(passes(result, inputs, output) for result in results)
    return None


def passes(result: Tensor, inputs: Tensor, output: Tensor) -> bool:
    """True if the result depends on the first input, and the output at the last position on the result."""
    (after,) = torch.autograd.grad(output.sum(), result, retain_graph=True, allow_unused=True)
    (before,) = torch.autograd.grad(result.sum(), inputs, retain_graph=True)
    return after is not None and bool(after.any()) and bool(before[:, 0].any())
