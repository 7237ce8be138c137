"""Nadaraya-Watson kernel regression as scikit-learn estimators: average pooling, fixed kernel, learned bandwidth."""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("regard.regression needs scikit-learn: pip install 'regard[sklearn]'") from error

from regard.regression.bandwidth import LeaveOneOut
from regard.regression.estimators import AveragePooling, NadarayaWatson
from regard.regression.kernels import KERNELS

__all__ = ["KERNELS", "AveragePooling", "LeaveOneOut", "NadarayaWatson"]
