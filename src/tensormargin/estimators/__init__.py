"""The classifier, as a scikit-learn estimator, and functions to fit many of them."""

from .classifier import TensorMarginClassifier
from .devices import to_device
from .many_fits import fit_many
from .strength import SCALE_LAM, SCALE_MU

__all__ = ["SCALE_LAM", "SCALE_MU", "TensorMarginClassifier", "fit_many", "to_device"]
