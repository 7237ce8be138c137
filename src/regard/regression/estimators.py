"""Nadaraya-Watson regression and average pooling as scikit-learn estimators.

Errors that say which argument is wrong, what it is, and the way out.

Nadaraya-Watson regression: the oldest attention, as a scikit-learn estimator.

    f(x) = sum_i w_i K(|x - x_i| / h) y_i / sum_i w_i K(|x - x_i| / h)

The query is x, the keys are the training inputs, the values their targets; with the Gaussian kernel the weights are
softmax_i(-1/2 |x - x_i|^2 / h^2 + log w_i), w_i the sample weights.
Nadaraya 1964, https://doi.org/10.1137/1109020; Watson 1964, https://www.jstor.org/stable/25049340

Average pooling: attention without a query, the baseline of kernel regression.

    f(x) = sum_i y_i / n

Nadaraya-Watson regression as its bandwidth grows without bound.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from regard.attention import attend
from regard.regression.bandwidth import LeaveOneOut, learn_bandwidth
from regard.regression.exact import read_exact
from regard.regression.grid import read_binned
from regard.regression.kernels import Kernel, attention_of, kernel_named
from regard.regression.training_set import prepare_sample

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


WORTH_A_GRID = 2**22
"""Query-key pairs in one dimension from which the grid is faster."""


def distinct(
    rows: Float[np.ndarray, "N columns"], weights: Float[np.ndarray, " N"]
) -> tuple[Float[np.ndarray, "M columns"], Float[np.ndarray, " M"]]:
    """Rows that differ, with the weights of their repetitions added up.

    Left out, a row must not see its own repetition; so two equal rows are one of weight 2.
    """
    kept = np.flatnonzero(weights)
    found, place = np.unique(rows[kept], axis=0, return_inverse=True)
    return found, np.bincount(place.ravel(), weights=weights[kept])


class NadarayaWatson(RegressorMixin, MultiOutputMixin, BaseEstimator):
    """Kernel regression with any number of inputs and outputs, in memory linear in both.

    Args:
        kernel: "boxcar", "triangular", "gaussian" or "epanechnikov"; all are functions of the Euclidean distance in
            bandwidths. Where a compact kernel reaches no training input, the nearest one predicts (the mean of the
            nearest, if several are equally near), as the Gaussian does by itself far from all.
        bandwidth: one positive number, or one per feature; "learned" or "learned_per_dimension" finds the one that
            predicts each training row best from the others, `LeaveOneOut(...)` says how.
        method: "exact" sums over all training rows that can matter; "binned" (Gaussian, one feature) takes a fast
            Fourier transform over a grid, its error below 1e-8 of the targets' spread; "auto" chooses.
        random_state: which rows ask in which batch, where a bandwidth is learned from many.

    float32 inputs are computed in float32 where that keeps 5 digits, all others in float64. After `fit`: `kernel_`,
    `bandwidth_`, a number or one per feature, `sample_`, the training set as it is read, and `n_features_in_`.
    """

    # scikit-learn sets anything and checks it in fit
    def __init__(
        self, *, kernel: Any = "gaussian", bandwidth: Any = 1.0, method: Any = "auto", random_state: Any = None
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.method = method
        self.random_state = random_state

    def fit(self, X: object, y: object, sample_weight: object = None) -> "NadarayaWatson":  # noqa: N803 - scikit-learn's name
        """Remember the training set, and learn the bandwidth if that was asked."""
        inputs, targets = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True)
        weights = _check_sample_weight(sample_weight, inputs, dtype=np.float64)
        check_weights(weights)
        kernel = kernel_named(self.kernel)
        check_method(self.method, kernel, inputs.shape[1])
        bandwidth = check_bandwidth(self.bandwidth, inputs.shape[1], kernel)
        self._one_output, self._single = targets.ndim == 1, inputs.dtype == np.float32
        targets = np.asarray(targets.reshape(len(targets), -1), dtype=np.float64)
        if isinstance(bandwidth, LeaveOneOut):
            bandwidth = self._learn(inputs, targets, weights, bandwidth)
        self.kernel_ = kernel
        self.bandwidth_ = float(bandwidth) if bandwidth.ndim == 0 else bandwidth
        self.sample_ = prepare_sample(inputs, targets, weights, bandwidth)
        return self

    def predict(self, X: object) -> Float[np.ndarray, "..."]:  # noqa: N803
        """The kernel-weighted mean of the targets around each row."""
        queries, dtype = self._queries(X)
        kernel, pairs = self.kernel_, len(queries) * len(self.sample_.keys)
        grid = self.method == "binned" or (self.method == "auto" and pairs >= WORTH_A_GRID)
        if grid and not kernel.compact and queries.shape[1] == 1:
            context = read_binned(queries, self.sample_, dtype=dtype)
        else:
            context = read_exact(queries, self.sample_, kernel, dtype=dtype)
        predictions = self.sample_.in_targets(context.numpy())
        return predictions[:, 0] if self._one_output else predictions

    def weights(self, X: object) -> Float[np.ndarray, "Q N"]:  # noqa: N803
        """How much each row attends to each training row, all of them formed: the prediction is weights @ y.

        Each row sums to 1. Where a compact kernel reaches nothing its row is 0, and the nearest rows predict.
        """
        queries, _ = self._queries(X)
        sample = self.sample_
        score, align = attention_of(self.kernel_, sample.log_weights)
        read = attend(queries, sample.keys, sample.values.T, score=score, align=align, return_weights=True)
        assert read.weights is not None
        weights = queries.new_zeros(len(queries), sample.num_rows)
        weights[:, sample.order] = read.weights
        return weights.numpy()

    def _queries(self, inputs: object) -> tuple[torch.Tensor, torch.dtype]:
        """Rows in bandwidths, and the precision in which they and the training set were given."""
        check_is_fitted(self)
        rows = validate_data(self, inputs, dtype=[np.float64, np.float32], reset=False)
        single = self._single and rows.dtype == np.float32
        return self.sample_.in_bandwidths(rows), torch.float32 if single else torch.float64

    def _learn(
        self,
        inputs: Float[np.ndarray, "N size"],
        targets: Float[np.ndarray, "N value"],
        weights: Float[np.ndarray, " N"],
        how: LeaveOneOut,
    ) -> Float[np.ndarray, "..."]:
        """The bandwidth by gradient descent."""
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        rows, counts = distinct(np.concatenate([inputs.astype(np.float64), targets], axis=1), weights)
        learned = learn_bandwidth(
            torch.from_numpy(rows[:, : inputs.shape[1]].copy()),
            torch.from_numpy(rows[:, inputs.shape[1] :].copy()),
            torch.from_numpy(np.log(counts / counts.max())),
            kernel=kernel_named(self.kernel),
            how=how,
            generator=torch.Generator().manual_seed(int(seed)),
        )
        return learned.numpy()


class AveragePooling(RegressorMixin, MultiOutputMixin, BaseEstimator):
    """Predicts the weighted mean of the targets, whatever the input.

    After `fit`: `mean_`, one number an output, and `n_features_in_`.
    """

    def fit(self, X: object, y: object, sample_weight: object = None) -> "AveragePooling":  # noqa: N803 - scikit-learn's name
        """Remember the mean."""
        inputs, targets = validate_data(self, X, y, multi_output=True, y_numeric=True)
        weights = _check_sample_weight(sample_weight, inputs, dtype=np.float64)
        check_weights(weights)
        self.mean_ = np.average(targets, axis=0, weights=weights)
        return self

    def predict(self, X: object) -> Float[np.ndarray, "..."]:  # noqa: N803
        """The mean, once for each row."""
        check_is_fitted(self)
        inputs = validate_data(self, X, reset=False)
        return np.tile(self.mean_, (len(inputs), *(1 for _ in np.shape(self.mean_))))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # a baseline explains nothing
        tags.regressor_tags.poor_score = True
        return tags
