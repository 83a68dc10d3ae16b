"""Compiled code for small problems; see hatch_build.py for how it is made."""

from __future__ import annotations

import ctypes
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


class NativeCall:
    """A call of a compiled function, which can be made again and again: arrays are read and written in place."""

    def __init__(self, function: Any, arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._kept = arguments  # keeps the arrays alive, of which the function gets nothing but the addresses
        self._plain = tuple(map(_plain, arguments))

    def __call__(self) -> int:
        return int(self._function(*self._plain))


@cache
def _function(name: str) -> Any:
    try:
        function = getattr(ctypes.CDLL(str(_LIBRARY)), name)
    except OSError:
        return None
    function.argtypes = _ARGUMENTS[name]
    function.restype = ctypes.c_int
    return function


def has_native(name: str) -> bool:
    """Return whether a function was compiled, for this platform."""
    return _function(name) is not None


def native_call(name: str, *arguments: Any) -> NativeCall:
    """Return the call of a compiled function (see `has_native`), which runs without Python's global lock.

    It takes numbers and C-contiguous arrays of float64 or int64.
    """
    return NativeCall(_function(name), arguments)


def _plain(argument: Any) -> Any:
    """Return the address of an array; a number as it is."""
    if not isinstance(argument, np.ndarray):
        return argument
    if argument.dtype not in (np.float64, np.int64) or not argument.flags.c_contiguous:
        raise TypeError(f"compiled code takes contiguous arrays of float64 or int64; got {argument.dtype}")
    return argument.ctypes.data
