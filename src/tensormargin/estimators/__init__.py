"""The classifier as a scikit-learn estimator, the paper's methods by name, and fits of many models at once.

It may import runtime, data, fitting and transformers. It knows nothing of searches, files or reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .binary_fit import SCALE_LAM, SCALE_MU, FitSpec
    from .classifier import AccuracyMixin, NotebookMixin, TensorMarginClassifier, are_classes
    from .devices import to_device
    from .engine import PLACES, at_most, one_blas_thread
    from .fit_steps import ToFit, TrainingSet, fit_batch, fit_training_set, keep_scheme, training_set
    from .fit_steps import without_convergence_warnings
    from .flat_fits import ALONE, Products, suits_products
    from .many_fits import fit_many
    from .methods import KERNEL_METHODS, METHODS, check_methods, make_method, method_name

__all__ = [
    "SCALE_LAM", "SCALE_MU", "TensorMarginClassifier", "fit_many", "to_device",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
