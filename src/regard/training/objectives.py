"""What training minimises: the cross-entropy of a batch's labels, summed, plus a model's own penalty.

    pairs:     features of the target given the source -> cross-entropy of its tokens
    segments:  state_0 = start,   loss_k, state_{k+1} = features(segment_k, detach(state_k))
    classes:   scores of the classes -> cross-entropy of the labels, + penalty

Segments are trained by truncated back-propagation: the state is carried from one segment to the next, gradients are
not. Batch elements that begin a new text (a new epoch, a crop) begin with the model's own start.

An objective is a module around the model, so that a wrapper (several processes, sharded weights, mixed precision) has
one forward from batch to loss. `fuse`, such as `regard.fused.fuse`, returns an object of the model's protocol that may
be faster; it is an argument, since this package imports no models. It is called at every step, because its result
depends on the model's type, which sharding changes. `training.compute.fused=False` replaces it by `unchanged`.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.contracts import (
    Batch,
    ClassificationBatch,
    ClassifierOutput,
    LanguageModel,
    Model,
    Segment,
    leaves,
    map_tensors,
    where_batch,
)


def unchanged(model: Any) -> Any:
    """The model itself: no fused code."""
    return model


class ModelObjective(nn.Module):
    """A module around a model, from a batch to the summed loss of its labels; the base of the objectives below."""

    def __init__(
        self, model: nn.Module, *, label_smoothing: float = 0.0, fuse: Callable[[Any], Any] = unchanged
    ) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.fuse = fuse


class Objective(ModelObjective):
    """A batch of pairs to the summed loss in nats."""

    def forward(self, batch: Batch) -> Float[Tensor, ""]:
        """Loss of the true targets; the readout computes it without all logits in memory."""
        model: Model = self.fuse(self.model)
        output = model.features(batch.source, batch.target)
        loss = model.readout.loss(output.features, batch.labels, label_smoothing=self.label_smoothing)
        return loss if output.penalty is None else loss + output.penalty


class CropObjective(ModelObjective):
    """A segment to the summed loss in nats; segments are independent."""

    def begin(self, segment: Segment) -> Any:
        """The state before the segment."""
        model: LanguageModel = self.fuse(self.model)
        return model.start(segment.tokens.shape[0])

    def end(self, state: Any) -> None:
        """The state after it is not needed."""

    def forward(self, segment: Segment) -> Float[Tensor, ""]:
        """Loss of the true continuations; the readout computes it without all logits in memory."""
        model: LanguageModel = self.fuse(self.model)
        output = model.features(segment.tokens, self.begin(segment))
        # nothing for crops; a stream copies the state here
        self.end(output.state)
        loss = model.readout.loss(output.features, segment.labels, label_smoothing=self.label_smoothing)
        return loss if output.penalty is None else loss + output.penalty


class StreamObjective(CropObjective):
    """The same with the state carried; its tensors keep their addresses, as a CUDA graph requires."""

    def __init__(
        self, model: nn.Module, *, label_smoothing: float = 0.0, fuse: Callable[[Any], Any] = unchanged
    ) -> None:
        super().__init__(model, label_smoothing=label_smoothing, fuse=fuse)
        self.carried: Any = None
        self.restored: list[Tensor] | None = None

    def begin(self, segment: Segment) -> Any:
        """The state after the last segment, or the start for batch elements that begin a new text."""
        start = super().begin(segment)
        if self.carried is None:
            # a checkpoint has the tensors alone; the model's start has the structure around them
            tensors = iter(self.restored if self.restored is not None else leaves(start))
            self.carried = map_tensors(lambda tensor: fit_rows(next(tensors), tensor), start)
        # rows of a new text begin with the start, the others with the carried state
        return where_batch(segment.fresh, start, self.carried)

    def end(self, state: Any) -> None:
        """Copy the state after the segment, without its graph."""
        for carried, tensor in zip(leaves(self.carried), leaves(state), strict=True):
            # in place: a captured graph reads this address at every replay
            carried.copy_(tensor.detach())

    def take(self) -> list[Tensor]:
        """The tensors of the carried state, to be saved."""
        return [] if self.carried is None else leaves(self.carried)

    def give(self, tensors: list[Tensor]) -> None:
        """Continue from tensors that were saved."""
        # the structure is built at the next step, from the model's start
        self.carried, self.restored = None, tensors or None


def fit_rows(saved: Tensor, start: Tensor) -> Tensor:
    """A copy of a saved state with as many rows as `start`: a text that has grown may fill more rows than before."""
    rows = saved[: len(start)].detach().to(start)
    # a concatenation copies, so that the state may be overwritten; rows without a saved state begin with the start
    return torch.cat([rows, start[len(rows) :].detach()])


class ClassificationObjective(ModelObjective):
    """A batch of labelled texts to the summed loss in nats.

    A label of -100, torch's index that is ignored, is a class that is not among those of the model: such a text has no
    cross-entropy.
    """

    def forward(self, batch: ClassificationBatch) -> Float[Tensor, ""]:
        """Loss of the true classes, plus the model's penalty."""
        output: ClassifierOutput = self.fuse(self.model)(batch.sentences)
        # a sum: the engine divides by the labels of the whole global batch
        loss = F.cross_entropy(output.logits, batch.labels, reduction="sum", label_smoothing=self.label_smoothing)
        return loss if output.penalty is None else loss + output.penalty
