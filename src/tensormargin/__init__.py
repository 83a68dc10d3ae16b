"""Large margin distribution classifiers with low-rank tensor weights.

Names are imported on first use, so that the command line starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .estimators import TensorMarginClassifier as TensorMarginClassifier
    from .margins import Bound as Bound
    from .margins import MarginReport as MarginReport
    from .margins import margin_report as margin_report
    from .methods import METHODS as METHODS
    from .methods import make_method as make_method

_HOMES = {
    "TensorMarginClassifier": ".estimators",
    "METHODS": ".methods",
    "make_method": ".methods",
    "Bound": ".margins",
    "MarginReport": ".margins",
    "margin_report": ".margins",
}

__all__ = ["METHODS", "Bound", "MarginReport", "TensorMarginClassifier", "__version__", "make_method", "margin_report"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
