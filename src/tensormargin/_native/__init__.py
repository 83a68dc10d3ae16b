"""Compiled code for small problems; see hatch_build.py for how it is made."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

_LIBRARY = Path(__file__).parent / "small.so"
_INTEGER, _NUMBER, _ARRAY = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_ARGUMENTS = {
    "tensormargin_solve_small": [_INTEGER, _INTEGER, *[_ARRAY] * 4, _NUMBER, *[_ARRAY] * 4],
    "tensormargin_sweep": [_INTEGER, _INTEGER, *[_ARRAY] * 6, _NUMBER, *[_ARRAY] * 7],
}


@cache
def native_function(name: str) -> Any:
    """Return a function of the compiled library, or None if it was not compiled (or is for another platform)."""
    try:
        function = getattr(ctypes.CDLL(str(_LIBRARY)), name)
    except OSError:
        return None
    function.argtypes = _ARGUMENTS[name]
    function.restype = ctypes.c_int
    return function
