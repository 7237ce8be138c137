"""Average pooling: attention without a query, the baseline of kernel regression.

    f(x) = sum_i y_i / n

Nadaraya-Watson regression as its bandwidth grows without bound.
"""

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from regard.regression.check import check_weights


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
