"""Compiled code, and how Python calls it; see hatch_build.py for how it is made."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...runtime import Array

_LIBRARY = Path(__file__).parent / "small.so"


class _Singles(ctypes.c_void_p):
    """An array of float32."""


class _Doubles(ctypes.c_void_p):
    """An array of float64."""


class _Whole(ctypes.c_void_p):
    """An array of int64."""


class _Seed(ctypes.c_void_p):
    """An array of uint64."""


_INTEGER, _NUMBER = ctypes.c_int64, ctypes.c_double
_LOOPS = [_Whole, _NUMBER, _Whole, _Singles, *[_Whole] * 3, _Singles]
_ARGUMENTS: dict[str, list[Any]] = {
    "tensormargin_solve_small": [_INTEGER, _INTEGER, *[_Doubles] * 4, _NUMBER, *[_Doubles] * 4],
    "tensormargin_solve_flat": [
        *[_INTEGER] * 2,
        *[_Doubles] * 3,
        _INTEGER,
        *[_Whole] * 2,
        *[_Doubles] * 3,
        _Whole,
        *[_Doubles] * 4,
    ],
    "tensormargin_fit": [_INTEGER, _INTEGER, *[_Whole] * 4, *[_Doubles] * 5, _NUMBER, *[_Doubles] * 7],
    "tensormargin_descend_products": [
        _INTEGER,
        *[_Doubles] * 2,
        _NUMBER,
        *[_Doubles] * 6,
        _Whole,
        _Seed,
        _NUMBER,
        _INTEGER,
    ],
    "tensormargin_convolutions": [*_LOOPS, _INTEGER, _Whole, _Singles],
    "tensormargin_proportions": [*_LOOPS, *[_INTEGER] * 3, *[_Singles] * 2],
    "tensormargin_winners": [_Whole, *[_Singles] * 2, *[_Whole] * 3, _Singles],
}
for _name, _rows in (("float32", _Singles), ("float64", _Doubles)):
    _ARGUMENTS |= {
        f"tensormargin_multiply_{_name}": [_INTEGER, _INTEGER, _rows, *[_Doubles] * 2],
        f"tensormargin_combine_{_name}": [_INTEGER, _INTEGER, _rows, *[_Doubles] * 2],
        f"tensormargin_add_moments_{_name}": [_INTEGER, _INTEGER, *[_rows] * 2, *[_Doubles] * 3],
        f"tensormargin_descend_{_name}": [_INTEGER, _INTEGER, _rows, *[_Doubles] * 5, _Whole, _Seed, _NUMBER, _INTEGER],
    }
_TYPES = {kind: np.dtype(name) for kind, name in zip((_Singles, _Doubles, _Whole, _Seed), "fdqQ", strict=True)}
_FUNCTIONS = ("tensormargin_abi", "tensormargin_compiler", *_ARGUMENTS)
_switched_off: ContextVar[bool] = ContextVar("_switched_off", default=False)
ABI = 9
"""Version of these signatures, as in small.h; a library with another one would be called with wrong arguments."""


class NativeCall:
    """A call of a compiled function (see `has_native`), which runs without Python's global lock.

    It takes numbers and C-contiguous arrays of the types that the function reads, and can be made again and again:
    arrays are read and written in place. The function gets nothing but their addresses, so ``sizes`` are how many
    entries it reads or writes in each of them; what it takes for indices is checked by `check_indices`.
    """

    def __init__(self, name: str, *arguments: Any, sizes: Sequence[int]) -> None:
        self._function = _function(name)
        self._kept = arguments  # keeps the arrays alive
        self._plain = tuple(map(_plain, arguments, _ARGUMENTS[name]))
        found = [argument.size for argument in arguments if isinstance(argument, np.ndarray)]
        if found != list(sizes):
            raise ValueError(
                f"{name} needs arrays with {list(sizes)} entries; got {found}. Pass arrays that fit together"
            )

    def __call__(self) -> int:
        return int(self._function(*self._plain))


def run_native(name: str, *arguments: Any, sizes: Sequence[int]) -> int | None:
    """Return what a compiled function returns; None if it was not compiled, and Python has to do its work."""
    return NativeCall(name, *arguments, sizes=sizes)() if has_native(name) else None


def check_indices(name: str, indices: Array, least: int, most: int) -> None:
    """Raise ValueError if indices are no whole numbers in a range; compiled code would read or write anywhere."""
    if indices.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers; got {indices.dtype}. Cast them to int64")
    if indices.size and (indices.min() < least or indices.max() > most):
        raise ValueError(
            f"{name} must be whole numbers from {least} to {most}; got {indices.min()} to {indices.max()}. Fit again, "
            "or get the file of the model again"
        )


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
    if argument.dtype != _TYPES[kind] or not argument.flags.c_contiguous:
        raise TypeError(f"compiled code takes a contiguous array of {_TYPES[kind]} here; got {argument.dtype}")
    return argument.__array_interface__["data"][0]  # the attribute ``ctypes`` takes three times as long
