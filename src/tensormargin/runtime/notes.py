"""Remarks to those who use the library from Python, each made once."""

from __future__ import annotations

import sys
import warnings
from functools import lru_cache

_PASSED_OVER = ("tensormargin", "sklearn", "contextlib")


@lru_cache(maxsize=1000)
def note(text: str) -> None:
    """Warn of something at the line of the user that led to it, unless the same was said before.

    Python's own filters forget what they have shown whenever another library changes them, as scikit-learn does.
    """
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED_OVER:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)
