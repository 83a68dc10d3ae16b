"""Array libraries: the only module that knows libraries other than NumPy.

The other modules get an array API namespace from here and write each formula once.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

_EXTRAS = {"torch": "torch", "cupy": "cupy"}  # library: the extra that installs its requirements
_GUESSED_BYTES = 2**31


def is_lazy(X: Any) -> bool:
    """Return whether X is a Dask array, without importing Dask."""
    dask = sys.modules.get("dask.array")
    return dask is not None and isinstance(X, dask.Array)


def is_foreign(X: Any) -> bool:
    """Return whether X is an array API array of a library other than NumPy (PyTorch, CuPy, ...)."""
    if isinstance(X, np.ndarray | np.generic) or is_lazy(X):
        return False
    return _library(X) in _EXTRAS or hasattr(X, "__array_namespace__")


def namespace(X: Any) -> Any:
    """Return the array API namespace of X."""
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
    """Return the device of X, as its library names it."""
    if not is_foreign(X):
        return "cpu"
    import array_api_compat

    return array_api_compat.device(X)


def on_cpu(X: Any) -> bool:
    """Return whether X is in CPU memory."""
    return "cpu" in str(device_of(X)).lower()


def has_float64(X: Any) -> bool:
    """Return whether the device of X supports float64 (Apple's does not)."""
    if not is_foreign(X):
        return True
    info = namespace(X).__array_namespace_info__()
    return "float64" in info.dtypes(device=device_of(X), kind="real floating")


def to_host(X: Any) -> Array:
    """Return X as a NumPy array: itself if it is one, otherwise a writable copy."""
    if not is_foreign(X):
        return np.asarray(X)
    import array_api_compat

    here = detached(X)
    if not on_cpu(X):
        strict = _library(X) == "array_api_strict"  # its mock devices have unusual names
        cpu = namespace(X).Device("CPU_DEVICE") if strict else "cpu"
        here = array_api_compat.to_device(here, cpu)
    return np.array(here if isinstance(here, np.ndarray) else np.from_dlpack(here))


def detached(X: Any) -> Any:
    """Return X detached from PyTorch's autograd graph, without a copy; other arrays unchanged."""
    return X.detach() if hasattr(X, "detach") else X


def like(array: Any, X: Any, dtype: Any = None) -> Any:
    """Return a NumPy array (or number) in the library and on the device of X, cast to ``dtype`` if given."""
    xp = namespace(X)
    if xp is np:
        return np.asarray(array, dtype)
    kind = None if dtype is None else getattr(xp, np.dtype(dtype).name)
    if isinstance(array, np.ndarray):  # PyTorch shares the memory and needs it writable, with positive strides
        array = np.array(array, order="C")
    return xp.asarray(array, dtype=kind, device=device_of(X))


def rows_of(X: Any, rows: Array) -> Any:
    """Return the given rows of an array of any library, on its device; lazily for a Dask array."""
    return namespace(X).take(X, like(rows, X), axis=0) if is_foreign(X) else X[rows]


def as_array(X: Any) -> Any:
    """Return X unchanged if it is an array of any library, otherwise converted to a NumPy array."""
    return X if is_lazy(X) or is_foreign(X) else np.asarray(X)


def as_like(array: Any, X: Any, dtype: Any = None) -> Any:
    """Return an array of any library in the library and on the device of X, cast to ``dtype`` if given."""
    if dtype is None and dtype_of(array) == np.float64 and not has_float64(X):
        dtype = np.float32
    return like(array if namespace(array) is namespace(X) else to_host(array), X, dtype)


def cast(X: Any, dtype: Any, copy: bool = False) -> Any:
    """Return X cast to ``dtype``, on its device; copied only if requested or needed."""
    xp = namespace(X)
    if xp is np:
        return X.astype(dtype, copy=copy)
    return xp.astype(X, getattr(xp, np.dtype(dtype).name), copy=copy)


def dtype_of(X: Any) -> np.dtype[Any]:
    """Return the NumPy dtype that corresponds to the dtype of X."""
    if isinstance(X.dtype, np.dtype):
        return X.dtype
    return np.dtype(str(X.dtype).rpartition(".")[2])


def thin_product(left: Any, right: Any) -> Any:
    """Return the product of samples with a matrix of few columns: (M, K) @ (K, R), or (R, K) @ (N, K, B)."""
    samples_first = right.ndim == 2
    kernels = _kernels_for(left if samples_first else right)
    columns = right.shape[1] if samples_first else left.shape[0]
    if kernels is None or not 1 < columns <= kernels.MOST_COLUMNS:  # libraries are fast at one column
        return left @ right
    product = kernels.tall_product if samples_first else kernels.wide_product
    return product(left.contiguous(), right.contiguous())


def inverse_of_factor(matrix: Any) -> Any:
    """Return ``L^-T`` of a positive definite matrix ``LL'``; None if it is not."""
    xp = namespace(matrix)
    unit = xp.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)
    if _library(matrix) == "torch":
        linear = sys.modules["torch"].linalg
        factor, failed = linear.cholesky_ex(matrix)
        inverse = linear.solve_triangular(factor, unit, upper=False)
    else:
        try:
            factor, failed = xp.linalg.cholesky(matrix), False
        except np.linalg.LinAlgError:
            return None
        inverse = xp.tril(xp.linalg.solve(factor, unit))
    return None if failed or not bool(xp.all(xp.isfinite(inverse))) else xp.matrix_transpose(inverse)


def inverses(matrices: Any) -> Any:
    """Return the inverses of a batch of matrices; singular ones give arbitrary values, not an error."""
    if _library(matrices) == "torch":
        return sys.modules["torch"].linalg.inv_ex(matrices).inverse  # also avoids a synchronisation
    xp = namespace(matrices)
    try:
        return xp.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        if matrices.shape[0] == 1:
            return xp.full_like(matrices, float("nan"))
        return xp.concat([inverses(matrices[k : k + 1, ...]) for k in range(matrices.shape[0])])


def free_bytes(X: Any) -> int:
    """Return the free memory on the device of X, in bytes; a guess if its library does not report it."""
    if _library(X) == "torch" and X.is_cuda:
        cuda = sys.modules["torch"].cuda
        kept = cuda.memory_reserved(X.device) - cuda.memory_allocated(X.device)  # cached by PyTorch for reuse
        return int(cuda.mem_get_info(X.device)[0]) + kept
    if _library(X) == "cupy":
        return int(X.device.mem_info[0]) + int(sys.modules["cupy"].get_default_memory_pool().free_bytes())
    return _GUESSED_BYTES


def _kernels_for(samples: Any) -> Any:
    """Return the module with faster products for such samples, or None."""
    if _library(samples) != "torch" or not samples.is_cuda or dtype_of(samples) != np.float32:
        return None
    try:
        from . import triton as _triton
    except ImportError:  # not every build of PyTorch includes Triton
        return None
    return _triton


def _library(X: Any) -> str:
    return type(X).__module__.partition(".")[0]


Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]
