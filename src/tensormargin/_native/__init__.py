"""Compiled code for small problems; see hatch_build.py for how it is made."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

_LIBRARY = Path(__file__).parent / "small_block.so"
_POINTER = ctypes.c_void_p


@cache
def solve_small() -> Any:
    """Return the C function ``tensormargin_solve_small``, or None if it was not compiled."""
    try:
        function = ctypes.CDLL(str(_LIBRARY)).tensormargin_solve_small
    except OSError:  # not compiled, or for another platform
        return None
    function.argtypes = [ctypes.c_int64, ctypes.c_int64, *[_POINTER] * 4, ctypes.c_double, *[_POINTER] * 4]
    function.restype = ctypes.c_int
    return function
