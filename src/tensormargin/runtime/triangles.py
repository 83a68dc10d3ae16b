"""Triangular factors and systems by LAPACK, without Python's global lock.

SciPy's own functions hold the lock for as long as they compute, so that fits in threads wait for each other. Here the
routines that SciPy offers to compiled code are called by their address. They see the transpose of a C-contiguous
matrix: a lower triangle is an upper one for them.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import scipy
from scipy.linalg import cython_blas, cython_lapack

from .array_api import Array, FloatArray


def cholesky(matrix: FloatArray) -> FloatArray | None:
    """Return L, lower triangular, with ``LL' = matrix``; None if the matrix is not positive definite.

    What is above the diagonal of L is arbitrary, and not read by the functions below.
    """
    lower, info = np.array(matrix, np.float64, order="C"), ctypes.c_int()
    if lower.size:
        _call(cython_lapack, "dpotrf", b"U", len(lower), lower, len(lower), info)
    return None if info.value else lower


def pivoted_cholesky(matrix: FloatArray, tol: float = -1.0) -> tuple[FloatArray, Array]:
    """Return L of full column rank, and an order of rows and columns in which ``LL'`` is a semi-definite matrix.

    A diagonal entry of the remaining matrix that is at most ``tol`` counts as zero (negative: n eps times the largest).
    """
    packed, pivots = np.array(matrix, np.float64, order="C"), np.empty(len(matrix), np.intc)
    rank, info = ctypes.c_int(), ctypes.c_int()
    size, work = len(packed), np.empty(2 * len(packed))
    if size:
        _call(cython_lapack, "dpstrf", b"U", size, packed, size, pivots, rank, float(tol), work, info)
    return np.tril(packed)[:, : rank.value], pivots.astype(np.intp) - 1


def inverse(lower: FloatArray) -> FloatArray | None:
    """Return the inverse of a lower triangle; None if it is singular."""
    inverted, info = np.array(lower, np.float64, order="C"), ctypes.c_int()
    if inverted.size:
        _call(cython_lapack, "dtrtri", b"U", b"N", len(inverted), inverted, len(inverted), info)
    return None if info.value else np.tril(inverted)


def solve(lower: FloatArray, right: Array, transposed: bool = False) -> FloatArray:
    """Return the x with ``lower @ x = row`` (``lower.T @ x`` if ``transposed``) for each row of ``right``, as rows."""
    lower, solution = np.ascontiguousarray(lower, np.float64), np.array(right, np.float64, order="C")
    size, count = len(lower), solution.size // max(len(lower), 1)
    turn = b"N" if transposed else b"T"
    if solution.size:
        _call(cython_blas, "dtrsm", b"L", b"U", turn, b"N", size, count, 1.0, lower, size, solution, size)
    return solution


def multiply(rows: Array, lower: Array) -> None:
    """Replace each row, C-contiguous like the triangle and of its dtype, by ``lower @ row``."""
    if rows.dtype != lower.dtype or not (rows.flags.c_contiguous and lower.flags.c_contiguous):
        raise TypeError(f"rows and triangle must be contiguous and of one dtype; got {rows.dtype} and {lower.dtype}")
    name, one = ("strmm" if rows.dtype == np.float32 else "dtrmm"), rows.dtype.type(1)
    count, size = rows.shape
    if rows.size:
        _call(cython_blas, name, b"L", b"U", b"T", b"N", size, count, one, lower, size, rows, size)


_TYPES: dict[type, Any] = {
    **{int: ctypes.c_int, bytes: ctypes.c_char, float: ctypes.c_double},
    **{np.float32: ctypes.c_float, np.float64: ctypes.c_double},
}


def _call(module: Any, name: str, *arguments: Any) -> None:
    """Call a routine, which takes the addresses of all its arguments."""
    kept, addresses = [], []
    for one in arguments:
        if type(one) is np.ndarray:
            addresses.append(one.__array_interface__["data"][0])
        else:
            variable = one if type(one) is ctypes.c_int else _TYPES[type(one)](one)
            kept.append(variable)  # as long as its address is used
            addresses.append(ctypes.addressof(variable))
    _function(module, name, len(addresses))(*addresses)


@cache
def _function(module: Any, name: str, n_arguments: int) -> Any:
    """Return a routine of SciPy that ctypes can call."""
    capsule, python = module.__pyx_capi__[name], ctypes.pythonapi
    python.PyCapsule_GetName.restype, python.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = python.PyCapsule_GetName(capsule)
    if signature.count(b",") + 1 != n_arguments or b" int *" not in signature:
        raise RuntimeError(f"SciPy {scipy.__version__} has another {name} than expected: {signature.decode()}")
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(python.PyCapsule_GetPointer(capsule, signature))
