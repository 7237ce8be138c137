"""Errors that say which argument is wrong, what it is, and the way out."""

from typing import Any

import numpy as np
from jaxtyping import Float

from regard.regression.kernels import Kernel
from regard.regression.learned import LeaveOneOut

METHODS = ("auto", "exact", "binned")
LEARNED = {"learned": LeaveOneOut(), "learned_per_dimension": LeaveOneOut(widths="per_dimension")}


def check_bandwidth(bandwidth: Any, num_features: int, kernel: Kernel) -> Float[np.ndarray, "..."] | LeaveOneOut:
    """One positive number, one per dimension, or how to learn it."""
    if isinstance(bandwidth, str):
        if bandwidth not in LEARNED:
            names = ", ".join(map(repr, LEARNED))
            raise ValueError(f"bandwidth is {bandwidth!r}, expected a positive number, one per feature, or {names}.")
        bandwidth = LEARNED[bandwidth]
    if isinstance(bandwidth, LeaveOneOut):
        if not kernel.slope:
            raise ValueError(
                "the boxcar kernel has no slope from which a bandwidth could be learned. Give a number, or use "
                "kernel='epanechnikov'."
            )
        return bandwidth
    widths = np.asarray(bandwidth, dtype=np.float64)
    if widths.ndim > 1 or (widths.ndim == 1 and len(widths) != num_features):
        raise ValueError(
            f"bandwidth has shape {widths.shape}, expected one number or one for each of the {num_features} features."
        )
    if not (np.isfinite(widths).all() and (widths > 0).all()):
        raise ValueError(f"bandwidth is {bandwidth}, expected positive and finite. To have one found, use 'learned'.")
    return widths


def check_method(method: Any, kernel: Kernel, num_features: int) -> None:
    """A way to compute that serves this kernel and this number of dimensions."""
    if method not in METHODS:
        raise ValueError(f"method is {method!r}, expected one of {', '.join(map(repr, METHODS))}.")
    if method == "binned" and kernel.compact:
        raise ValueError("method 'binned' is for the Gaussian kernel. Use method='auto' for the others.")
    if method == "binned" and num_features != 1:
        raise ValueError(f"method 'binned' is for one feature, X has {num_features}. Use method='auto'.")


def check_weights(sample_weight: Float[np.ndarray, " N"]) -> None:
    """Weights of which none is negative and some are not 0."""
    if (sample_weight < 0).any():
        raise ValueError(
            f"sample_weight has a negative entry, {sample_weight.min()}. A weight says how often a row counts: use 0 "
            f"to leave it out."
        )
    if not (sample_weight > 0).any():
        raise ValueError("sample_weight is 0 for every row, so that nothing is left to predict from. Keep one row.")
