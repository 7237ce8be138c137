"""What fused training loops have in common: where they run, every reason why not, and a translation model's protocol.

A readable training step of a recurrent decoder launches some hundred small kernels for every target position. A fused
loop launches fewer, and forms the gradients of weights, keys and values once after the loop (kernels/recurrent). As one
CUDA graph on an H200 a training step is 1.6 to 1.9 times as fast; on a CPU it is 0.6 to 1.2 times as fast
(benchmarks/results/ablation*.json), and so loops run on CUDA devices only.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Attention
from regard.attention.alignments import Softmax
from regard.contracts import ModelOutput, OutputLayer, PaddedTokens, Step, device_of, unsupported_reasons

LOOP_DEVICES = frozenset({"cuda"})
"""Types of devices on which loops run. Tests add the CPU, to compare a loop with the readable code."""

ModelT = TypeVar("ModelT", bound=nn.Module)


def loop_reasons(model: nn.Module) -> list[str]:
    """Why a model's own loop runs at present; [] if a fused one does, with gradients or without, under autocast too.

    Attention is compared with that of a new model of the same class and config, as everything else is.
    """
    device = device_of(model).type
    on_device = [] if device in LOOP_DEVICES else [f"the device is {device}, where fused loops are not faster"]
    return on_device + unsupported_reasons(model, gradients=True, autocast=True)


def attention_reasons(attention: Attention, *scores: type) -> list[str]:
    """Why a loop cannot form this attention, whose score and alignment a config may choose."""
    reasons = []
    if type(attention.score) not in scores:
        names = ", ".join(score.__name__ for score in scores)
        reasons.append(f"the score is {type(attention.score).__name__}, and the fused loop supports {names}")
    if type(attention.align) is not Softmax:
        reasons.append(f"the alignment is {type(attention.align).__name__}, and the fused loop supports Softmax")
    if attention.dropout:
        reasons.append(f"attention has a dropout of {attention.dropout}, and the fused loop supports none")
    return reasons


class FusedTranslation(ABC, Generic[ModelT]):
    """A translation model whose training features come from a fused loop; all else is the model's own."""

    verb: ClassVar[str] = "trains"

    def __init__(self, model: ModelT) -> None:
        # Any: nn.Module declares none of the protocol's methods
        self.model: Any = model

    def unsupported_reasons(self) -> list[str]:
        """Why the model's own loop runs at present; [] if the fused one does."""
        # at every call, since modes, hooks and devices may change between two batches
        return loop_reasons(self.model)

    @property
    def readout(self) -> OutputLayer:
        """The model's own."""
        readout: OutputLayer = self.model.readout
        return readout

    def encode(self, source: PaddedTokens) -> Any:
        """The model's own."""
        return self.model.encode(source)

    def start(self, encoded: Any) -> Any:
        """The model's own."""
        return self.model.start(encoded)

    def step(self, tokens: Int[Tensor, " B"], state: Any, encoded: Any) -> Step:
        """The model's own: for a single step there is nothing to compute after the loop."""
        step: Step = self.model.step(tokens, state, encoded)
        return step

    def features(self, source: PaddedTokens, target: PaddedTokens) -> ModelOutput:
        """Inputs of the readout at every target position, by the fused loop unless there is a reason against it."""
        if self.unsupported_reasons():
            output: ModelOutput = self.model.features(source, target)
            return output
        return ModelOutput(features=self.loop(source, target))

    def forward(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T vocab"]:
        """The model's own."""
        logits: Tensor = self.model(source, target)
        return logits

    @abstractmethod
    def loop(self, source: PaddedTokens, target: PaddedTokens) -> Float[Tensor, "B T size"]:
        """The model's features by the fused loop."""
