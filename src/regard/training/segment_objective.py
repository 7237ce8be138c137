"""What a language model minimises: the cross-entropy of what comes next, over one segment of a stream after another.

    state_0 = start,   loss_k, state_{k+1} = read(segment_k, detach(state_k))

Truncated back-propagation: what was read is carried from segment to segment, gradients are not. Rows that begin anew
(a new epoch, a crop out of the middle) begin with the model's own start.
"""

from typing import Any, cast

from jaxtyping import Float
from torch import Tensor, nn

from regard.contracts import LanguageModel, Segment, leaves, map_tensors, where_batch


class CropObjective(nn.Module):
    """Segment to summed loss in nats; every segment by itself."""

    def __init__(self, model: nn.Module, *, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing

    def begin(self, segment: Segment) -> Any:
        """The state before the segment."""
        return cast(LanguageModel, self.model).start(segment.tokens.shape[0])

    def end(self, state: Any) -> None:
        """The state after it is nobody's."""

    def forward(self, segment: Segment) -> Float[Tensor, ""]:
        """Loss of the true continuations, the readout never writing more logits down than it must."""
        model = cast(LanguageModel, self.model)
        done = model.features(segment.tokens, self.begin(segment))
        self.end(done.state)
        return model.readout.loss(done.features, segment.labels, label_smoothing=self.label_smoothing)


class StreamObjective(CropObjective):
    """The same with the state carried; its tensors stay where they are, so that a CUDA graph finds them again."""

    def __init__(self, model: nn.Module, *, label_smoothing: float = 0.0) -> None:
        super().__init__(model, label_smoothing=label_smoothing)
        self.carried: Any = None
        self.given: list[Tensor] | None = None

    def begin(self, segment: Segment) -> Any:
        """Where the last segment ended, or the start for rows that begin anew."""
        start = super().begin(segment)
        if self.carried is None:
            # whoever resumes gives the tensors, the model knows what they are
            saved = iter(self.given if self.given is not None else leaves(start))
            self.carried = map_tensors(lambda tensor: next(saved)[: len(tensor)].detach().to(tensor).clone(), start)
        return where_batch(segment.fresh, start, self.carried)

    def end(self, state: Any) -> None:
        """Keep what was read, without the way back to it."""
        for kept, new in zip(leaves(self.carried), leaves(state), strict=True):
            kept.copy_(new.detach())

    def take(self) -> list[Tensor]:
        """What is carried, to be saved."""
        return [] if self.carried is None else leaves(self.carried)

    def give(self, tensors: list[Tensor]) -> None:
        """Go on with what was saved."""
        self.carried, self.given = None, tensors or None
