"""scikit-learn estimators."""

from .classifier import TensorMarginClassifier

__all__ = ["TensorMarginClassifier"]
