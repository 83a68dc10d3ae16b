"""scikit-learn estimators."""

from ._scale import SCALE_LAM, SCALE_MU
from .classifier import TensorMarginClassifier
from .many import fit_many
from .moving import moved

__all__ = ["SCALE_LAM", "SCALE_MU", "TensorMarginClassifier", "fit_many", "moved"]
