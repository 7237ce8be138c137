"""The training set as attention reads it: inputs are keys, targets are values, sample weights are a bias per key.

Keys are counted in bandwidths from their centre, so that squares stay small, and sorted along the axis on which they
spread most, so that the keys near a query are neighbours in memory.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

FARTHEST = 1e100
"""In bandwidths; the square of a distance beyond it is not safe from overflow."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What prediction needs of the training set.

    `order` says which training row each key was; `log_weights` are at most 0; `values` are targets less their `level`
    over their `spread`, at most 1, one row an output, and a last row of ones that adds up the weights. All keys lie in
    the box between the `corners`, and not farther than `radius` from 0.
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

    def in_bandwidths(self, inputs: Float[np.ndarray, "Q size"]) -> Float[Tensor, "Q size"]:
        """Inputs on the scale of the keys; farther away than can be squared counts as just so far."""
        with np.errstate(over="ignore"):
            scaled = (inputs.astype(np.float64) - self.centre) / self.bandwidth
        return torch.from_numpy(np.clip(scaled, -FARTHEST, FARTHEST))

    def in_targets(self, context: Float[np.ndarray, "Q value"]) -> Float[np.ndarray, "Q value"]:
        """What was read, on the scale of the targets."""
        return self.level + self.spread * context


def prepare_sample(
    inputs: Float[np.ndarray, "N size"],
    targets: Float[np.ndarray, "N value"],
    sample_weight: Float[np.ndarray, " N"],
    bandwidth: Float[np.ndarray, "..."],
) -> Sample:
    """Drop rows of weight 0, then centre, scale and sort the others."""
    kept = np.flatnonzero(sample_weight)
    weights = sample_weight[kept] / sample_weight[kept].max()
    inputs, targets = inputs[kept].astype(np.float64), targets[kept].astype(np.float64)
    # places to count from: an outlier does not drag a median away from the others, and some rows are enough for it
    centre, level = (np.median(part[:: max(len(part) // 4096, 1)], axis=0) for part in (inputs, targets))
    with np.errstate(over="ignore"):
        keys = (inputs - centre) / bandwidth
    if not np.abs(keys).max() <= FARTHEST:
        raise ValueError(
            f"bandwidth {bandwidth} is so small beside the inputs, which spread over {np.ptp(inputs, axis=0)}, that "
            f"distances overflow. Use a larger one, or 'learned'."
        )
    axis = int(np.ptp(keys, axis=0).argmax())
    order = keys[:, axis].argsort()
    spread = np.abs(targets - level).max(axis=0)
    spread[spread == 0] = 1.0
    values = np.ones((targets.shape[1] + 1, len(kept)))
    values[:-1] = ((targets - level) / spread)[order].T
    return Sample(
        keys=torch.from_numpy(keys[order]),
        values=torch.from_numpy(values),
        log_weights=torch.from_numpy(np.log(weights[order])),
        order=torch.from_numpy(kept[order]),
        axis=axis,
        corners=torch.from_numpy(np.stack([keys.min(axis=0), keys.max(axis=0)])),
        radius=float(np.sqrt(np.einsum("ij,ij->i", keys, keys).max())),
        centre=centre,
        bandwidth=bandwidth,
        level=level,
        spread=spread,
        num_rows=len(sample_weight),
    )
