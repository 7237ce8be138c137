"""Training on the model's own outputs: some target tokens are replaced by the model's predictions.

    input_t = argmax p(. | input_{<t})  with probability `ratio`,  else y_{t-1}

Bengio et al. 2015, scheduled sampling, here with a constant ratio. https://arxiv.org/abs/1506.03099
A ratio of 0 is teacher forcing, which the other objective computes for all positions at once; 1 is free running.
"""

from collections.abc import Callable
from typing import Any, cast

from jaxtyping import Float
from torch import Tensor, nn

from regard.contracts import PAD, Batch, Model
from regard.kernels.cross_entropy import cross_entropy_of_logits
from regard.layers import unroll
from regard.training import ModelObjective


class OwnOutputObjective(ModelObjective):
    """A batch of pairs to the summed loss in nats, step by step."""

    def __init__(
        self, model: nn.Module, *, own_output_ratio: float, label_smoothing: float = 0.0, fuse: Callable[[Any], Any]
    ) -> None:
        super().__init__(model, label_smoothing=label_smoothing, fuse=fuse)
        self.own_output_ratio = own_output_ratio

    def forward(self, batch: Batch) -> Float[Tensor, ""]:
        """Loss of the true targets, given inputs that are partly predictions."""
        # not fused: fused steps have no gradient
        model = cast(Model, self.model)
        encoded = model.encode(batch.source)
        logits = unroll(
            model.step,
            batch.target.ids,
            state=model.start(encoded),
            encoded=encoded,
            own_output_ratio=self.own_output_ratio,
        )
        return cross_entropy_of_logits(logits, batch.labels, ignored=PAD, label_smoothing=self.label_smoothing)
