"""Compiled code, and how Python calls it; see hatch_build.py for how it is made."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

_LIBRARY = Path(__file__).parent / "small.so"


class _Singles(ctypes.c_void_p):
    """An array of float32; all others are float64, int64 or uint64."""


_INTEGER, _NUMBER, _ARRAY = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_LOOPS = [_ARRAY, _NUMBER, _ARRAY, _Singles, *[_ARRAY] * 3, _Singles]
_ARGUMENTS: dict[str, list[Any]] = {
    "tensormargin_solve_small": [_INTEGER, _INTEGER, *[_ARRAY] * 4, _NUMBER, *[_ARRAY] * 4],
    "tensormargin_solve_flat": [*[_INTEGER] * 2, *[_ARRAY] * 3, _INTEGER, *[_ARRAY] * 10],
    "tensormargin_fit": [_INTEGER, _INTEGER, *[_ARRAY] * 9, _NUMBER, *[_ARRAY] * 7],
    "tensormargin_descend_products": [_INTEGER, *[_ARRAY] * 2, _NUMBER, *[_ARRAY] * 8, _NUMBER, _INTEGER],
    "tensormargin_convolutions": [*_LOOPS, _INTEGER, _ARRAY, _Singles],
    "tensormargin_proportions": [*_LOOPS, *[_INTEGER] * 3, *[_Singles] * 2],
    "tensormargin_winners": [_ARRAY, *[_Singles] * 2, *[_ARRAY] * 3, _Singles],
}
for _name, _rows in (("float32", _Singles), ("float64", _ARRAY)):
    _ARGUMENTS |= {
        f"tensormargin_multiply_{_name}": [_INTEGER, _INTEGER, _rows, *[_ARRAY] * 2],
        f"tensormargin_combine_{_name}": [_INTEGER, _INTEGER, _rows, *[_ARRAY] * 2],
        f"tensormargin_add_moments_{_name}": [_INTEGER, _INTEGER, *[_rows] * 2, *[_ARRAY] * 3],
        f"tensormargin_descend_{_name}": [_INTEGER, _INTEGER, _rows, *[_ARRAY] * 7, _NUMBER, _INTEGER],
    }
_TYPES = {_Singles: (np.dtype(np.float32),), _ARRAY: tuple(map(np.dtype, ("float64", "int64", "uint64")))}
_FUNCTIONS = ("tensormargin_abi", "tensormargin_compiler", *_ARGUMENTS)
_switched_off: ContextVar[bool] = ContextVar("_switched_off", default=False)
ABI = 8
"""Version of these signatures, as in small.h; a library with another one would be called with wrong arguments."""


class NativeCall:
    """A call of a compiled function (see `has_native`), which runs without Python's global lock.

    It takes numbers and C-contiguous arrays of the types that the function reads, and can be made again and again:
    arrays are read and written in place.
    """

    def __init__(self, name: str, *arguments: Any) -> None:
        self._function = _function(name)
        self._kept = arguments  # keeps the arrays alive, of which the function gets nothing but the addresses
        self._plain = tuple(map(_plain, arguments, _ARGUMENTS[name]))

    def __call__(self) -> int:
        return int(self._function(*self._plain))


def run_native(name: str, *arguments: Any) -> int | None:
    """Return what a compiled function returns; None if it was not compiled, and Python has to do its work."""
    return NativeCall(name, *arguments)() if has_native(name) else None


@cache
def _library() -> ctypes.CDLL | None:
    """Return the compiled library, or the second one of wheels for x86-64 if the processor has AVX2; see `_loaded`."""
    library, wide = _loaded(_LIBRARY), _LIBRARY.with_name("small_avx2.so")
    if library is not None and wide.exists() and library.tensormargin_has_avx2():
        return _loaded(wide) or library
    return library


def _loaded(path: Path) -> ctypes.CDLL | None:
    """Return a compiled library; None if there is none, or, with a warning, if it is not the one of this version."""
    if not path.exists():
        return None
    try:
        library = ctypes.CDLL(str(path))
        found = library.tensormargin_abi() if all(hasattr(library, name) for name in _FUNCTIONS) else 0
        fault = None if found == ABI else f"made for another version of tensormargin (interface {found}, not {ABI})"
    except OSError as error:
        fault = f"made for another machine ({error})"
    if fault is None:
        return library
    warnings.warn(
        f"{path} is not used, since it was {fault}; everything is slower without it. Install tensormargin again "
        "(in a checkout: python hatch_build.py)",
        RuntimeWarning,
        stacklevel=3,
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
    return not _switched_off.get() and _function(name) is not None


@contextmanager
def without_native() -> Iterator[None]:
    """Let Python make all steps within the context, as where nothing was compiled."""
    token = _switched_off.set(True)
    try:
        yield
    finally:
        _switched_off.reset(token)


def native_compiler() -> str | None:
    """Return the compiler that made the library; None if there is no library of this version."""
    library = _library()
    if library is None:
        return None
    library.tensormargin_compiler.restype = ctypes.c_char_p
    return str(library.tensormargin_compiler().decode())


def _plain(argument: Any, kind: Any) -> Any:
    """Return the address of an array; a number as it is."""
    if not isinstance(argument, np.ndarray):
        return argument
    if argument.dtype not in _TYPES[kind] or not argument.flags.c_contiguous:
        rule = " or ".join(map(str, _TYPES[kind]))
        raise TypeError(f"compiled code takes a contiguous array of {rule} here; got {argument.dtype}")
    return argument.__array_interface__["data"][0]  # the attribute ``ctypes`` takes three times as long
