"""Nadaraya-Watson kernel regression as scikit-learn estimators: average pooling, fixed kernel, learned width."""

try:
    import sklearn  # noqa: F401
except ImportError as missing:
    raise ImportError("regard.regression needs scikit-learn: pip install 'regard[sklearn]'") from missing

from regard.regression.bandwidth import LeaveOneOut
from regard.regression.estimators import AveragePooling, NadarayaWatson
from regard.regression.kernels import KERNELS

__all__ = ["KERNELS", "AveragePooling", "LeaveOneOut", "NadarayaWatson"]
