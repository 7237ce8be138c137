"""Errors have the value and a solution."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from regard.regression import AveragePooling, LeaveOneOut, NadarayaWatson

INPUTS, TARGETS = np.arange(12.0).reshape(6, 2), np.arange(6.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"kernel": "gausian"}, "kernel is 'gausian', did you mean 'gaussian'"),
        ({"kernel": "Epanechnikow"}, "did you mean 'epanechnikov'"),
        ({"kernel": None}, "kernel is None"),
        ({"bandwidth": 0.0}, "bandwidth is 0.0, expected positive"),
        ({"bandwidth": -1}, "bandwidth is -1, expected positive"),
        ({"bandwidth": float("nan")}, "bandwidth is nan"),
        ({"bandwidth": float("inf")}, "bandwidth is inf"),
        ({"bandwidth": [1.0, 2.0, 3.0]}, "one for each of the 2 features"),
        ({"bandwidth": [1.0, -2.0]}, r"bandwidth is \[1.0, -2.0\]"),
        ({"bandwidth": "scott"}, "bandwidth is 'scott', expected a positive number, one per feature, or 'learned'"),
        ({"bandwidth": 1e-200}, "so small beside the inputs"),
        ({"kernel": "boxcar", "bandwidth": "learned"}, "no slope"),
        ({"method": "fft"}, "method is 'fft', expected one of 'auto', 'exact', 'binned'"),
        ({"method": "binned"}, "for one feature, X has 2"),
        ({"method": "binned", "kernel": "boxcar"}, "for the Gaussian kernel"),
    ],
)
def test_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        NadarayaWatson(**arguments).fit(INPUTS, TARGETS)


@pytest.mark.parametrize("estimator", [NadarayaWatson(), AveragePooling()])
@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1, 1, 1, 1, 1, -1], "negative entry, -1.0"),
        ([0] * 6, "[Ss]ample"),
        ([1] * 5, "sample_weight"),
    ],
)
def test_weights(estimator, weights, words):
    with pytest.raises(ValueError, match=words):
        estimator.fit(INPUTS, TARGETS, sample_weight=weights)


@pytest.mark.parametrize(
    "arguments", [{"widths": "two"}, {"steps": 0}, {"rate": 0.0}, {"rate": float("nan")}, {"pairs": 0}]
)
def test_invalid_leave_one_out_settings_are_refused(arguments):
    with pytest.raises(ValueError, match=f"{next(iter(arguments))} is|rate {next(iter(arguments.values()))}|pairs 0"):
        LeaveOneOut(**arguments)


def test_predicting_needs_the_features_of_the_fit():
    model = NadarayaWatson()
    with pytest.raises(NotFittedError):
        model.predict(INPUTS)
    with pytest.raises(ValueError, match="2 features"):
        model.fit(INPUTS, TARGETS).predict(INPUTS[:, :1])


WITHOUT = """
import sys
sys.modules["sklearn"] = None
import regard
assert not any(name.startswith("sklearn.") for name in sys.modules)
try:
    import regard.regression
except ImportError as error:
    print(error)
"""


def test_without_scikit_learn_the_error_names_it():
    process = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "regard.regression needs scikit-learn: pip install 'regard[sklearn]'"
