"""Compiled code for small problems; see hatch_build.py for how it is made."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_LIBRARY = Path(__file__).parent / "small.so"
_INTEGER, _NUMBER, _ARRAY = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_ARGUMENTS = {
    "tensormargin_solve_small": [_INTEGER, _INTEGER, *[_ARRAY] * 4, _NUMBER, *[_ARRAY] * 4],
    "tensormargin_sweep": [_INTEGER, _INTEGER, *[_ARRAY] * 7, _NUMBER, *[_ARRAY] * 7],
}


@cache
def native_function(name: str) -> Callable[..., int] | None:
    """Return a function of the compiled library, or None if it was not compiled (or is for another platform).

    It takes numbers and C-contiguous arrays of float64 or int64, and runs without Python's global lock.
    """
    try:
        function = getattr(ctypes.CDLL(str(_LIBRARY)), name)
    except OSError:
        return None
    function.argtypes = _ARGUMENTS[name]
    function.restype = ctypes.c_int

    def call(*arguments: Any) -> int:
        # The arguments keep the arrays alive until the function returns: it gets nothing but their addresses.
        return int(function(*map(_plain, arguments)))

    return call


def _plain(argument: Any) -> Any:
    """Return the address of an array; a number as it is."""
    if not isinstance(argument, np.ndarray):
        return argument
    if argument.dtype not in (np.float64, np.int64) or not argument.flags.c_contiguous:
        raise TypeError(f"compiled code takes contiguous arrays of float64 or int64; got {argument.dtype}")
    return argument.ctypes.data
