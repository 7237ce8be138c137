"""Nadaraya-Watson regression, the oldest form of attention, and average pooling as scikit-learn estimators.

    f(x) = sum_i w_i K(|x - x_i| / h) y_i / sum_i w_i K(|x - x_i| / h)      NadarayaWatson
    f(x) = sum_i w_i y_i / sum_i w_i                                        AveragePooling, its limit for large h

The query is x, the keys are the training inputs x_i, the values their targets y_i; with the Gaussian kernel the weights
are softmax_i(-1/2 |x - x_i|^2 / h^2 + log w_i), with w_i the sample weights.
Nadaraya 1964, https://doi.org/10.1137/1109020; Watson 1964, https://www.jstor.org/stable/25049340
"""

import numbers
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags, check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from regard.attention import attend
from regard.regression.bandwidth import LeaveOneOut, learn_bandwidth
from regard.regression.exact import predict_exact
from regard.regression.grid import predict_binned
from regard.regression.kernels import Kernel, find_kernel, kernel_attention
from regard.regression.training_set import prepare_training_set

METHODS = ("auto", "exact", "binned")
LEARNED = {"learned": LeaveOneOut(), "learned_per_dimension": LeaveOneOut(widths="per_dimension")}
WORTH_A_GRID = 2**22
"""Query-key pairs in one dimension from which the grid is faster."""


def check_bandwidth(bandwidth: Any, num_features: int, kernel: Kernel) -> Float[np.ndarray, "..."] | LeaveOneOut:
    """Return one positive number, one per dimension, or the settings to learn it."""
    if isinstance(bandwidth, str):
        if bandwidth not in LEARNED:
            names = ", ".join(map(repr, LEARNED))
            raise ValueError(f"bandwidth is {bandwidth!r}, expected a positive number, one per feature, or {names}.")
        bandwidth = LEARNED[bandwidth]
    if isinstance(bandwidth, LeaveOneOut):
        if not kernel.differentiable:
            raise ValueError(
                "the boxcar kernel has no slope, so its bandwidth cannot be learned. Give a number, or use "
                "kernel='epanechnikov'."
            )
        return bandwidth
    # after the strings and options: what is left must be numbers
    widths = np.asarray(bandwidth, dtype=np.float64)
    if widths.ndim > 1 or (widths.ndim == 1 and len(widths) != num_features):
        raise ValueError(
            f"bandwidth has shape {widths.shape}, expected one number or one for each of the {num_features} features."
        )
    if not (np.isfinite(widths).all() and (widths > 0).all()):
        raise ValueError(f"bandwidth is {bandwidth}, expected positive and finite. Use 'learned' to choose one.")
    return widths


def check_method(method: Any, kernel: Kernel, num_features: int) -> None:
    """Refuse a method that does not serve this kernel or this number of dimensions."""
    if method not in METHODS:
        raise ValueError(f"method is {method!r}, expected one of {', '.join(map(repr, METHODS))}.")
    if method == "binned" and kernel.compact:
        raise ValueError("method 'binned' is for the Gaussian kernel. Use method='auto' for the others.")
    if method == "binned" and num_features != 1:
        raise ValueError(f"method 'binned' is for one feature, X has {num_features}. Use method='auto'.")


def check_weights(sample_weight: Any, num_rows: int) -> Float[np.ndarray, " N"]:
    """One weight per row, all 1 by default; refuse negative weights, and weights that are all 0."""
    if sample_weight is None:
        return np.ones(num_rows)
    if isinstance(sample_weight, numbers.Number):
        sample_weight = np.full(num_rows, sample_weight)
    weights = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weights.shape != (num_rows,):
        raise ValueError(f"sample_weight has the shape {weights.shape}, expected ({num_rows},): one number per row.")
    if (weights < 0).any():
        raise ValueError(
            f"sample_weight has a negative entry, {weights.min()}. A weight is how often a row counts: use 0 to "
            f"leave it out."
        )
    if not (weights > 0).any():
        raise ValueError(
            "sample_weight is zero for every row, so there is nothing to predict from. Give one row a positive weight."
        )
    return weights


def merge_duplicates(
    rows: Float[np.ndarray, "N columns"], weights: Float[np.ndarray, " N"]
) -> tuple[Float[np.ndarray, "M columns"], Float[np.ndarray, " M"]]:
    """The distinct rows, with the weights of equal rows added up.

    Leave-one-out must not predict a row from its copy, so two equal rows become one of weight 2.
    """
    used = np.flatnonzero(weights)
    distinct, inverse = np.unique(rows[used], axis=0, return_inverse=True)
    # numpy 2.0 returns the inverse with the shape of the rows
    return distinct, np.bincount(inverse.ravel(), weights=weights[used])


class NadarayaWatson(RegressorMixin, MultiOutputMixin, BaseEstimator):
    """Kernel regression with any number of inputs and outputs, in memory linear in both.

    Args:
        kernel: "boxcar", "triangular", "gaussian" or "epanechnikov"; all are functions of the Euclidean distance in
            bandwidths. Where no training input lies within a compact kernel's bandwidth, the nearest one predicts (the
            mean of the nearest, if several are equally near), which is also the Gaussian's limit far from all inputs.
        bandwidth: one positive number, or one per feature; "learned" or "learned_per_dimension" learns the one that
            predicts each training row best from the others, `LeaveOneOut(...)` sets its options.
        method: "exact" sums over all training rows that can matter; "binned" (Gaussian, one feature) uses a fast
            Fourier transform over a grid, with an error below 1e-8 of the targets' spread; "auto" chooses.
        random_state: seed of the batches from which a bandwidth is learned.

    float32 inputs are computed in float32 where that keeps 5 digits, all others in float64. After `fit`: `kernel_`,
    `bandwidth_`, a number or one per feature, `training_set_`, scaled and sorted, and `n_features_in_`.
    """

    # no checks here: scikit-learn sets parameters freely and expects the checks in fit
    def __init__(
        self, *, kernel: Any = "gaussian", bandwidth: Any = 1.0, method: Any = "auto", random_state: Any = None
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.method = method
        self.random_state = random_state

    def fit(self, X: object, y: object, sample_weight: object = None) -> "NadarayaWatson":  # noqa: N803 - scikit-learn's name
        """Store the training set, and learn the bandwidth if it is to be learned."""
        inputs, targets = validate_data(self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True)
        weights = check_weights(sample_weight, len(inputs))
        kernel = find_kernel(self.kernel)
        check_method(self.method, kernel, inputs.shape[1])
        bandwidth = check_bandwidth(self.bandwidth, inputs.shape[1], kernel)
        # predictions have the number of dimensions that y had
        self._one_output, self._single = targets.ndim == 1, inputs.dtype == np.float32
        # one column per output from here on
        targets = np.asarray(targets.reshape(len(targets), -1), dtype=np.float64)
        if isinstance(bandwidth, LeaveOneOut):
            bandwidth = self._learn(inputs, targets, weights, bandwidth)
        self.kernel_ = kernel
        self.bandwidth_ = float(bandwidth) if bandwidth.ndim == 0 else bandwidth
        self.training_set_ = prepare_training_set(inputs, targets, weights, bandwidth)
        return self

    def predict(self, X: object) -> Float[np.ndarray, "..."]:  # noqa: N803
        """The kernel-weighted mean of the targets around each row."""
        queries, dtype = self._queries(X)
        kernel, num_pairs = self.kernel_, len(queries) * len(self.training_set_.keys)
        uses_grid = self.method == "binned" or (self.method == "auto" and num_pairs >= WORTH_A_GRID)
        # method="auto" also passes kernels and dimensions that a grid does not serve
        if uses_grid and not kernel.compact and queries.shape[1] == 1:
            context = predict_binned(queries, self.training_set_, dtype=dtype)
        else:
            context = predict_exact(queries, self.training_set_, kernel, dtype=dtype)
        predictions = self.training_set_.unscale_targets(context.numpy())
        return predictions[:, 0] if self._one_output else predictions

    def weights(self, X: object) -> Float[np.ndarray, "Q N"]:  # noqa: N803
        """The weight of each training row for each row of X, as a matrix: the prediction is weights @ y.

        Rows sum to 1. A row without a training input in a compact kernel's bandwidth is 0; there the nearest predict.
        """
        queries, _ = self._queries(X)
        data = self.training_set_
        score, align = kernel_attention(self.kernel_, data.log_weights)
        attended = attend(queries, data.keys, data.values.T, score=score, align=align, return_weights=True)
        assert attended.weights is not None
        # back to the order of the training rows; rows of weight 0 have no key
        weights = queries.new_zeros(len(queries), data.num_rows)
        weights[:, data.order] = attended.weights
        return weights.numpy()

    def _queries(self, inputs: object) -> tuple[torch.Tensor, torch.dtype]:
        """Rows on the scale of the keys, and the precision of both X and the training inputs."""
        check_is_fitted(self)
        rows = validate_data(self, inputs, dtype=[np.float64, np.float32], reset=False)
        is_single = self._single and rows.dtype == np.float32
        return self.training_set_.scale_inputs(rows), torch.float32 if is_single else torch.float64

    def _learn(
        self,
        inputs: Float[np.ndarray, "N size"],
        targets: Float[np.ndarray, "N value"],
        weights: Float[np.ndarray, " N"],
        how: LeaveOneOut,
    ) -> Float[np.ndarray, "..."]:
        """The bandwidth by gradient descent."""
        # scikit-learn's random_state may be a seed, a generator or None
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        rows, counts = merge_duplicates(np.concatenate([inputs.astype(np.float64), targets], axis=1), weights)
        bandwidth = learn_bandwidth(
            torch.from_numpy(rows[:, : inputs.shape[1]].copy()),
            torch.from_numpy(rows[:, inputs.shape[1] :].copy()),
            torch.from_numpy(np.log(counts / counts.max())),
            kernel=find_kernel(self.kernel),
            how=how,
            generator=torch.Generator().manual_seed(int(seed)),
        )
        return bandwidth.numpy()


class AveragePooling(RegressorMixin, MultiOutputMixin, BaseEstimator):
    """Predicts the weighted mean of the targets for every input; a baseline for kernel regression.

    After `fit`: `mean_`, one number per output, and `n_features_in_`.
    """

    def fit(self, X: object, y: object, sample_weight: object = None) -> "AveragePooling":  # noqa: N803 - scikit-learn's name
        """Compute the weighted mean of the targets."""
        inputs, targets = validate_data(self, X, y, multi_output=True, y_numeric=True)
        weights = check_weights(sample_weight, len(inputs))
        self.mean_ = np.average(targets, axis=0, weights=weights)
        return self

    def predict(self, X: object) -> Float[np.ndarray, "..."]:  # noqa: N803
        """The mean, repeated for each row."""
        check_is_fitted(self)
        inputs = validate_data(self, X, reset=False)
        return np.tile(self.mean_, (len(inputs), *(1 for _ in np.shape(self.mean_))))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # scikit-learn's checks must not require a good score of a constant
        tags.regressor_tags.poor_score = True
        return tags
