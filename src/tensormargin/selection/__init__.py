"""Searches over hyperparameters by cross-validation, and what kinds of samples ask for.

It may import the wings up to io. It knows nothing of data sets, evaluations or reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .classifier import TensorMarginClassifierCV as TensorMarginClassifierCV
    from .auto import TensorMarginAutoClassifier as TensorMarginAutoClassifier, auto_model as auto_model
    from .kinds import BEFORE as BEFORE, KINDS as KINDS, guess_kind as guess_kind
    from .kinds import sampling_frequency as sampling_frequency, time_mode as time_mode
    from .grid import MUS as MUS
    from .scoring import DEFAULT_RULE as DEFAULT_RULE
    from .splits import Split as Split, splits_of as splits_of
    from .training import PreparedSplit as PreparedSplit, Training as Training

__all__ = [
    "DEFAULT_RULE", "TensorMarginAutoClassifier", "TensorMarginClassifierCV", "auto_model", "splits_of",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
