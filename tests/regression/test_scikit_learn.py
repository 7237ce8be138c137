"""scikit-learn's own list of checks, over every kernel and way of choosing the bandwidth."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from regard.regression import KERNELS, AveragePooling, LeaveOneOut, NadarayaWatson

FIXED = [AveragePooling(), *(NadarayaWatson(kernel=kernel) for kernel in KERNELS)]
LEARNED = [
    NadarayaWatson(bandwidth=LeaveOneOut(widths=widths, steps=4), random_state=0) for widths in ("one", "per_dimension")
]


@parametrize_with_checks([*FIXED, *LEARNED])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


def test_searches_and_pipelines():
    rng = np.random.default_rng(0)
    inputs = rng.uniform(0, 5, size=(200, 1))
    targets = np.sin(inputs[:, 0])
    search = GridSearchCV(
        make_pipeline(StandardScaler(), NadarayaWatson()),
        {"nadarayawatson__bandwidth": [0.05, 10.0], "nadarayawatson__kernel": list(KERNELS)},
        cv=3,
    ).fit(inputs, targets)
    assert search.best_params_["nadarayawatson__bandwidth"] == 0.05
    assert search.best_score_ > 0.98
