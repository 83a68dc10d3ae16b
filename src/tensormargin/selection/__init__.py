"""Model selection by cross-validation, and calibrated probabilities."""

from .auto import auto_model
from .candidates import DEFAULT_RULE
from .classifier import TensorMarginClassifierCV
from .splits import splits_of

__all__ = ["DEFAULT_RULE", "TensorMarginClassifierCV", "auto_model", "splits_of"]
