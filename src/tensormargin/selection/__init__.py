"""Searches over hyperparameters by cross-validation, and what kinds of samples ask for.

It may import the wings up to io. It knows nothing of data sets, evaluations or reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .auto import TensorMarginAutoClassifier, auto_model
    from .classifier import TensorMarginClassifierCV
    from .grid import DECOMPOSITIONS, MUS
    from .inner_products import kept_products
    from .kinds import BEFORE, KINDS, guess_kind, sampling_frequency, time_mode
    from .scoring import DEFAULT_RULE
    from .splits import Split, splits_of
    from .training import PreparedSplit, Training

__all__ = [
    "DEFAULT_RULE", "TensorMarginAutoClassifier", "TensorMarginClassifierCV", "auto_model", "splits_of",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
