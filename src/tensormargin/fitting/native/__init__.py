"""Compiled code for small problems; see hatch_build.py for how it is made."""

from __future__ import annotations

import ctypes
import warnings
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
_FUNCTIONS = ("tensormargin_abi", *_ARGUMENTS)
ABI = 1
"""Version of these signatures, as in small.h; a library with another one would be called with wrong arguments."""


class NativeCall:
    """A call of a compiled function, which can be made again and again: arrays are read and written in place."""

    def __init__(self, function: Any, arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._kept = arguments  # keeps the arrays alive, of which the function gets nothing but the addresses
        self._plain = tuple(map(_plain, arguments))

    def __call__(self) -> int:  # noqa: D102
        return int(self._function(*self._plain))


@cache
def _library() -> ctypes.CDLL | None:
    """Return the compiled library; None if there is none, or, with a warning, if it is not the one of this version."""
    if not _LIBRARY.exists():
        return None
    try:
        library = ctypes.CDLL(str(_LIBRARY))
        found = library.tensormargin_abi() if all(hasattr(library, name) for name in _FUNCTIONS) else 0
        fault = None if found == ABI else f"made for another version of tensormargin (interface {found}, not {ABI})"
    except OSError as error:
        fault = f"made for another machine ({error})"
    if fault is None:
        return library
    warnings.warn(
        f"{_LIBRARY} is not used, since it was {fault}; small fits are slower without it. Install tensormargin again "
        "(in a checkout: python hatch_build.py)",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


@cache
def _function(name: str) -> Any:
    library = _library()
    if library is None:
        return None
    function = getattr(library, name)
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
