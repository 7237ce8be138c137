"""Small random systems with fused training loops, and their outputs and gradients in a training step."""

from dataclasses import dataclass, replace

import pytest
import torch

from regard.contracts import PaddedTokens, leaves
from regard.fused import fuse
from regard.models.language_modeling import LSTMNLanguageConfig, LSTMNLanguageModel
from regard.models.text_classification import LSTMNEncoder, LSTMNEncoderConfig
from regard.models.translation import LSTMN, Bahdanau, BahdanauConfig, LSTMNConfig, Luong, LuongConfig

SIZES = {"source_vocab_size": 11, "target_vocab_size": 13, "embedding_size": 4, "hidden_size": 5}
SOURCES = [[4, 7, 5, 9, 3, 8, 2], [9, 2], [2]]
TARGETS = [[1, 9, 12, 4, 7], [1, 3], [1, 5, 6, 6, 6]]
TOKENS = torch.tensor([[4, 7, 5, 1, 9, 8], [2, 2, 3, 6, 10, 4]])
SENTENCES = PaddedTokens.from_lists([[4, 5, 6, 7], [8], [5, 4, 4], []])


def translate(model, device="cpu"):
    """Features at the real positions of a batch."""
    source, target = PaddedTokens.from_lists(SOURCES), PaddedTokens.from_lists(TARGETS)
    source, target = (PaddedTokens(side.ids.to(device), side.lengths.to(device)) for side in (source, target))
    return [model.features(source, target).features[target.mask]]


def run_language_model(model, device="cpu"):
    """Features of two segments, the second continued from the state after the first, and the state after it."""
    first, second = TOKENS.to(device).split([4, 2], dim=1)
    first_output = model.features(first, model.start(len(TOKENS)))
    output = model.features(second, first_output.state)
    return [
        first_output.features,
        output.features,
        *(leaf for leaf in leaves(output.state) if leaf.is_floating_point()),
    ]


def classify(model, device="cpu"):
    """Scores of the classes."""
    return [model(PaddedTokens(SENTENCES.ids.to(device), SENTENCES.lengths.to(device))).logits]


@dataclass(frozen=True)
class System:
    """A model's class and config, the function that uses its fused loop, and the paths of linear layers in it."""

    kind: type
    config: object
    run: object
    linears: tuple[str, ...]

    def make(self, dtype=torch.float64, dropout=0.0):
        """The same large random weights every time."""
        model = self.kind(replace(self.config, dropout=dropout))
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        return model.to(dtype)

    def layers(self, model):
        """The linear layers, whose calls the loop skips."""
        return [model.get_submodule(path) for path in self.linears]


CELL = "look.attention.score.key_proj"
LUONG = ("gates.0", "combine")
SYSTEMS = {
    "bahdanau": System(
        Bahdanau, BahdanauConfig(**SIZES, alignment_size=6, maxout_size=3), translate,
        ("decoder.candidate", "attention.score.query_proj"),
    ),
    **{
        f"luong-{score}-{'fed' if feeding else 'unfed'}": System(
            Luong, LuongConfig(**SIZES, num_layers=2, score=score, input_feeding=feeding), translate, LUONG
        )
        for score in ("dot", "general", "concat")
        for feeding in (True, False)
    },
    **{
        f"lstmn-deep-{layers}": System(
            LSTMN, LSTMNConfig(**SIZES, fusion="deep", num_layers=layers), translate,
            ("decoder.layers.0.gate", f"encoder.cells.0.{CELL}"),
        )
        for layers in (1, 2)
    },
    **{
        f"lstmn-shallow-{layers}": System(
            LSTMN, LSTMNConfig(**SIZES, fusion="shallow", num_layers=layers), translate,
            ("decoder.context_proj", "decoder.stack.cells.0.gates"),
        )
        for layers in (1, 2)
    },
    "lstmn-deep-zero-cell": System(
        LSTMN, LSTMNConfig(**SIZES, fusion="deep", num_layers=2, zero_cell=True), translate,
        ("decoder.layers.0.gate", f"encoder.cells.0.{CELL}"),
    ),
    "lstmn-shallow-zero-cell": System(
        LSTMN, LSTMNConfig(**SIZES, fusion="shallow", num_layers=2, zero_cell=True), translate,
        ("decoder.context_proj", "decoder.stack.cells.0.gates"),
    ),
    "luong-bidirectional": System(
        Luong, LuongConfig(**SIZES | {"hidden_size": 6}, num_layers=2, encoder="bidirectional"), translate, LUONG
    ),
    **{
        f"language-{layers}-{span}": System(
            LSTMNLanguageModel,
            LSTMNLanguageConfig(vocab_size=11, embedding_size=4, hidden_size=5, num_layers=layers, span=span),
            run_language_model, ("cells.0.gates", f"cells.0.{CELL}"),
        )
        for layers, span in ((1, 3), (2, 3), (1, 1), (1, 9))
    },
    **{
        f"classifier-{layers}": System(
            LSTMNEncoder,
            LSTMNEncoderConfig(vocab_size=11, num_classes=3, embedding_size=4, hidden_size=5, num_layers=layers),
            classify, ("encoder.cells.0.gates", f"encoder.cells.0.{CELL}"),
        )
        for layers in (1, 2)
    },
}  # fmt: skip
FEW = ("bahdanau", "luong-general-fed", "lstmn-deep-2", "lstmn-shallow-1", "language-2-3", "classifier-1")

every_system = pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
few_systems = pytest.mark.parametrize("system", [SYSTEMS[name] for name in FEW], ids=FEW)


def learn(system, model, *, fused, device="cpu"):
    """Outputs, and the gradient of a weighted sum of them for every parameter by name."""
    outputs = system.run(fuse(model) if fused else model, device)
    total = sum(
        (output * torch.linspace(-1, 1, output.numel(), dtype=output.dtype, device=device).view_as(output)).sum()
        for output in outputs
    )
    parameters = dict(model.named_parameters())
    grads = torch.autograd.grad(total, parameters.values(), allow_unused=True)
    return outputs, dict(zip(parameters, grads, strict=True))


def assert_equal(actual, expected, tolerance):
    """Outputs and gradients of `learn` agree."""
    for ours, theirs in zip(actual[0], expected[0], strict=True):
        torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)
    for name, grad in expected[1].items():
        assert (actual[1][name] is None) == (grad is None), name
        if grad is not None:
            torch.testing.assert_close(actual[1][name], grad, atol=tolerance, rtol=tolerance, msg=name)
