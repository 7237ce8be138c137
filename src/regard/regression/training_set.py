"""The training set as attention uses it: inputs are keys, targets are values, sample weights are a bias per key.

    key = (input - centre) / bandwidth,   value = (target - level) / spread

Keys are measured in bandwidths from their centre, so that squares stay small, and sorted along the axis of their
largest spread, so that the keys near a query are neighbours in memory.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

FARTHEST = 1e100
"""In bandwidths; the square of a larger distance may overflow."""


@dataclass(frozen=True, kw_only=True)
class TrainingSet:
    """Everything that prediction needs of the training data.

    `order` gives the training row of each key; `log_weights` are at most 0; `values` are scaled targets, at most 1,
    with one row per output and a last row of ones, which adds up the weights. All keys lie in the box between the
    `corners`, and within `radius` of 0.
    """

    keys: Float[Tensor, "K size"]
    values: Float[Tensor, "rows K"]
    log_weights: Float[Tensor, " K"]
    order: Int[Tensor, " K"]
    axis: int
    corners: Float[Tensor, "2 size"]
    radius: float
    centre: Float[np.ndarray, " size"]
    bandwidth: Float[np.ndarray, "..."]
    level: Float[np.ndarray, " value"]
    spread: Float[np.ndarray, " value"]
    num_rows: int

    def scale_inputs(self, inputs: Float[np.ndarray, "Q size"]) -> Float[Tensor, "Q size"]:
        """Inputs on the scale of the keys."""
        with np.errstate(over="ignore"):
            scaled = (inputs.astype(np.float64) - self.centre) / self.bandwidth
        # so far away that their squares would overflow, all distances are equal anyway
        return torch.from_numpy(np.clip(scaled, -FARTHEST, FARTHEST))

    def unscale_targets(self, context: Float[np.ndarray, "Q value"]) -> Float[np.ndarray, "Q value"]:
        """Predictions on the scale of the targets."""
        return self.level + self.spread * context


def prepare_training_set(
    inputs: Float[np.ndarray, "N size"],
    targets: Float[np.ndarray, "N value"],
    sample_weight: Float[np.ndarray, " N"],
    bandwidth: Float[np.ndarray, "..."],
) -> TrainingSet:
    """Drop rows of weight 0, then centre, scale and sort the others."""
    # a weight of 0 has no finite logarithm, and its row must not count in medians and corners
    rows = np.flatnonzero(sample_weight)
    weights = sample_weight[rows] / sample_weight[rows].max()
    inputs, targets = inputs[rows].astype(np.float64), targets[rows].astype(np.float64)
    # medians, because an outlier would move a mean away from the other rows; 4096 rows estimate them well enough
    centre, level = (np.median(part[:: max(len(part) // 4096, 1)], axis=0) for part in (inputs, targets))
    with np.errstate(over="ignore"):
        keys = (inputs - centre) / bandwidth
    # `not <=` also catches NaN
    if not np.abs(keys).max() <= FARTHEST:
        raise ValueError(
            f"bandwidth {bandwidth} is so small beside the inputs, which spread over {np.ptp(inputs, axis=0)}, that "
            f"distances overflow. Use a larger one, or 'learned'."
        )
    axis = int(np.ptp(keys, axis=0).argmax())
    # so that a window along this axis excludes the most keys
    order = keys[:, axis].argsort()
    spread = np.abs(targets - level).max(axis=0)
    # a constant target has no spread to divide by
    spread[spread == 0] = 1.0
    values = np.ones((targets.shape[1] + 1, len(rows)))
    values[:-1] = ((targets - level) / spread)[order].T
    return TrainingSet(
        keys=torch.from_numpy(keys[order]),
        values=torch.from_numpy(values),
        log_weights=torch.from_numpy(np.log(weights[order])),
        order=torch.from_numpy(rows[order]),
        axis=axis,
        corners=torch.from_numpy(np.stack([keys.min(axis=0), keys.max(axis=0)])),
        radius=float(np.sqrt(np.einsum("ij,ij->i", keys, keys).max())),
        centre=centre,
        bandwidth=bandwidth,
        level=level,
        spread=spread,
        num_rows=len(sample_weight),
    )
