"""What training minimises: the cross-entropy of the labels, summed over a batch.

A module around the model, so that whatever wraps it (several processes, sharded weights, mixed precision) sees one
forward from batch to loss.
"""

from typing import cast

from jaxtyping import Float
from torch import Tensor, nn

from regard.contracts import Batch, Model


class Objective(nn.Module):
    """Batch to summed loss in nats."""

    def __init__(self, model: nn.Module, *, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing

    def forward(self, batch: Batch) -> Float[Tensor, ""]:
        """Loss of the true targets, the readout never writing more logits down than it must."""
        model = cast(Model, self.model)
        features = model.features(batch.source, batch.target).features
        return model.readout.loss(features, batch.labels, label_smoothing=self.label_smoothing)
