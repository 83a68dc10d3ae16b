"""The classifier as a scikit-learn estimator, the paper's methods by name, and fits of many models at once.

It may import runtime, data, fitting and transformers. It knows nothing of searches, files or reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .binary_fit import SCALE_LAM as SCALE_LAM, SCALE_MU as SCALE_MU
    from .binary_fit import FirstPasses as FirstPasses, FitSpec as FitSpec
    from .classifier import AccuracyMixin as AccuracyMixin, NotebookMixin as NotebookMixin
    from .classifier import TensorMarginClassifier as TensorMarginClassifier
    from .devices import to_device as to_device
    from .engine import PLACES as PLACES, at_most as at_most, one_blas_thread as one_blas_thread
    from .fit_steps import ToFit as ToFit, fit_batch as fit_batch
    from .fit_steps import TrainingSet as TrainingSet, fit_training_set as fit_training_set
    from .fit_steps import keep_scheme as keep_scheme, specify as specify
    from .fit_steps import training_set as training_set
    from .fit_steps import without_convergence_warnings as without_convergence_warnings
    from .many_fits import fit_many as fit_many
    from .methods import KERNEL_METHODS as KERNEL_METHODS, METHODS as METHODS, check_methods as check_methods
    from .methods import make_method as make_method, method_name as method_name

__all__ = [
    "SCALE_LAM", "SCALE_MU", "TensorMarginClassifier", "fit_many", "to_device",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
