"""scikit-learn estimators."""

from ._scale import SCALE_LAM, SCALE_MU
from .classifier import TensorMarginClassifier

__all__ = ["SCALE_LAM", "SCALE_MU", "TensorMarginClassifier"]
