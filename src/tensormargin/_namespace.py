"""Whose array it is: the one module that knows array libraries other than NumPy.

Everything else asks here for the namespace of the array API standard and writes its formulas once.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ._typing import Array

_EXTRAS = {"torch": "torch", "cupy": "cupy"}  # libraries by the extra that brings what their arrays need here


_GUESSED_BYTES = 2**31


def is_lazy(X: Any) -> bool:
    """Tell whether X is a Dask array, without importing Dask."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(X, dask.Array)


def is_foreign(X: Any) -> bool:
    """Tell whether X is an array of the array API standard that is not NumPy's (PyTorch, CuPy, ...)."""
    if isinstance(X, np.ndarray | np.generic) or is_lazy(X):
        return False
    return _library(X) in _EXTRAS or hasattr(X, "__array_namespace__")


def namespace(X: Any) -> Any:
    """Return the namespace of the array API standard that X belongs to."""
    if not is_foreign(X):
        return np
    try:
        import array_api_compat
    except ImportError as error:
        extra = _EXTRAS.get(_library(X), "torch")
        raise ImportError(
            f"samples in an array of {_library(X)} need array-api-compat: pip install 'tensormargin[{extra}]'"
        ) from error
    return array_api_compat.array_namespace(X)


def device_of(X: Any) -> Any:
    """Return where X lies, in the words of its library."""
    if not is_foreign(X):
        return "cpu"
    import array_api_compat

    return array_api_compat.device(X)


def on_cpu(X: Any) -> bool:
    """Tell whether the processor itself works on X."""
    return "cpu" in str(device_of(X)).lower()


def has_float64(X: Any) -> bool:
    """Tell whether the device that X lies on computes in float64 (Apple's does not)."""
    if not is_foreign(X):
        return True
    info = namespace(X).__array_namespace_info__()
    return "float64" in info.dtypes(device=device_of(X), kind="real floating")


def to_host(X: Any) -> Array:
    """Return X as a NumPy array that may be written to; without a copy only where it is one."""
    if not is_foreign(X):
        return np.asarray(X)
    import array_api_compat

    here = detached(X)
    if not on_cpu(X):
        strict = _library(X) == "array_api_strict"  # whose devices, made up for tests, have no usual names
        cpu = namespace(X).Device("CPU_DEVICE") if strict else "cpu"
        here = array_api_compat.to_device(here, cpu)
    return np.array(here if isinstance(here, np.ndarray) else np.from_dlpack(here))


def detached(X: Any) -> Any:
    """Return X without the record of a gradient, which PyTorch may keep of it; no copy."""
    return X.detach() if hasattr(X, "detach") else X


def like(array: Any, X: Any, dtype: Any = None) -> Any:
    """Return a NumPy array (or number) in the library and on the device of X, as the dtype of this name if given."""
    xp = namespace(X)
    if xp is np:
        return np.asarray(array, dtype)
    kind = None if dtype is None else getattr(xp, np.dtype(dtype).name)
    if isinstance(array, np.ndarray):  # PyTorch shares memory, and wants it writable and in rising order
        array = np.array(array, order="C")
    return xp.asarray(array, dtype=kind, device=device_of(X))


def rows_of(X: Any, rows: Array) -> Any:
    """Return some samples of an array of any library, where it lies; lazily of a Dask array."""
    return namespace(X).take(X, like(rows, X), axis=0) if is_foreign(X) else X[rows]


def as_array(X: Any) -> Any:
    """Return X itself if it is an array of whatever library, otherwise the NumPy array that it makes."""
    return X if is_lazy(X) or is_foreign(X) else np.asarray(X)


def beside(array: Any, X: Any, dtype: Any = None) -> Any:
    """Return an array of any library in the library and on the device of X, as the dtype of this name if given."""
    if dtype is None and dtype_of(array) == np.float64 and not has_float64(X):
        dtype = np.float32
    return like(array if namespace(array) is namespace(X) else to_host(array), X, dtype)


def cast(X: Any, dtype: Any, copy: bool = False) -> Any:
    """Return X as the dtype of this name, where it lies; without a copy where none is asked for or needed."""
    xp = namespace(X)
    if xp is np:
        return X.astype(dtype, copy=copy)
    return xp.astype(X, getattr(xp, np.dtype(dtype).name), copy=copy)


def dtype_of(X: Any) -> np.dtype[Any]:
    """Return NumPy's name for the dtype of X."""
    if isinstance(X.dtype, np.dtype):
        return X.dtype
    return np.dtype(str(X.dtype).rpartition(".")[2])


def thin_product(left: Any, right: Any) -> Any:
    """Return the matrix product of samples with a matrix of few columns: (M, K) @ (K, R), or (R, K) @ (N, K, B)."""
    samples_first = right.ndim == 2
    kernels = _kernels_for(left if samples_first else right)
    columns = right.shape[1] if samples_first else left.shape[0]
    if kernels is None or not 1 < columns <= kernels.MOST_COLUMNS:  # one column alone the libraries do well
        return left @ right
    product = kernels.tall_product if samples_first else kernels.wide_product
    return product(left.contiguous(), right.contiguous())


def inverses(matrices: Any) -> Any:
    """Return the inverses of a batch of matrices; whatever they hold where one of them is singular, but no error."""
    if _library(matrices) == "torch":
        return sys.modules["torch"].linalg.inv_ex(matrices).inverse  # which does not wait for the device either
    xp = namespace(matrices)
    try:
        return xp.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        return xp.stack([_inverse(matrices[k, ...]) for k in range(matrices.shape[0])])


def _inverse(matrix: Any) -> Any:
    """Return the inverse of a matrix, or NaN."""
    xp = namespace(matrix)
    try:
        return xp.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return xp.full_like(matrix, float("nan"))


def free_bytes(X: Any) -> int:
    """Return how much memory may still be taken on the device of X; a guess where its library does not tell."""
    if _library(X) == "torch" and X.is_cuda:
        cuda = sys.modules["torch"].cuda
        kept = cuda.memory_reserved(X.device) - cuda.memory_allocated(X.device)  # by PyTorch, for what comes next
        return int(cuda.mem_get_info(X.device)[0]) + kept
    if _library(X) == "cupy":
        return int(X.device.mem_info[0]) + int(sys.modules["cupy"].get_default_memory_pool().free_bytes())
    return _GUESSED_BYTES


def _kernels_for(samples: Any) -> Any:
    """Return the module with faster products for such samples, None where there is none."""
    if _library(samples) != "torch" or not samples.is_cuda or dtype_of(samples) != np.float32:
        return None
    try:
        from . import _triton
    except ImportError:  # not every build of PyTorch brings Triton
        return None
    return _triton


def _library(X: Any) -> str:
    return type(X).__module__.partition(".")[0]
