"""What training a classifier of sentences minimises: the cross-entropy of the classes, summed, and the model's penalty.

A module around the model, as objective.py has it. A sentence whose label is torch's -100 is of a class that nobody can
learn: it has no cross-entropy.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.contracts import ClassificationBatch, ClassifierOutput


class ClassificationObjective(nn.Module):
    """Batch to summed loss in nats."""

    def __init__(self, model: nn.Module, *, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing

    def forward(self, batch: ClassificationBatch) -> Float[Tensor, ""]:
        """Loss of the true classes, and what the model adds to it."""
        said: ClassifierOutput = self.model(batch.sentences)
        loss = F.cross_entropy(said.logits, batch.labels, reduction="sum", label_smoothing=self.label_smoothing)
        return loss if said.penalty is None else loss + said.penalty
