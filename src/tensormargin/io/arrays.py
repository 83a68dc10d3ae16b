"""Arrays by name from the files that people bring: NumPy archives and MATLAB files. Nothing is ever unpickled."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._typing import Array

_HDF5_MAGIC = b"\x89HDF"  # at offset 512 of a MATLAB 7.3 file, at 0 of one that another program wrote


class BadFileError(ValueError):
    """A file that cannot be used; the message names the file, the fault and the remedy."""


def read_arrays(path: str | Path, names: Sequence[str] | None = None) -> dict[str, Array]:
    """Read named arrays from an ``.npz`` or ``.mat`` file (MATLAB 5 to 7.3).

    Parameters
    ----------
    path : str or Path
    names : sequence of str, optional
        The arrays to read; all that hold numbers or text by default. A name that is not there raises `BadFileError`.

    Returns
    -------
    dict of str to ndarray
        MATLAB's cell arrays of equally shaped numbers are stacked along a new first axis.
    """
    path = Path(path)
    if not path.is_file():
        raise BadFileError(f"{path}: no such file; give the path of an .npz or .mat file")
    if path.suffix.lower() == ".npz":
        return _read_npz(path, names)
    if path.suffix.lower() == ".mat":
        return _read_mat(path, names)
    raise BadFileError(f"{path}: unknown kind of file {path.suffix!r}; give an .npz or .mat file")


def _read_npz(path: Path, names: Sequence[str] | None) -> dict[str, Array]:
    if not zipfile.is_zipfile(path):
        raise BadFileError(f"{path}: not an .npz file, or cut short; write it with numpy.savez(path, X=..., y=...)")
    try:
        with np.load(path, allow_pickle=False) as stored:
            wanted = _present(path, list(stored), names)
            return {name: stored[name] for name in wanted}
    except BadFileError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise BadFileError(f"{path}: cannot be read ({error}); arrays of Python objects are not accepted") from error


def _read_mat(path: Path, names: Sequence[str] | None) -> dict[str, Array]:
    with path.open("rb") as file:
        head = file.read(1024)
    try:
        stored = _read_mat73(path) if _HDF5_MAGIC in (head[:4], head[512:516]) else _read_mat5(path)
    except BadFileError:
        raise
    # SciPy and h5py raise whatever their parsers stumble over: a damaged file must end in one clear message.
    except Exception as error:
        raise BadFileError(f"{path}: not a MATLAB file, or damaged ({error}); save it again from MATLAB") from error
    wanted = _present(path, list(stored), names)
    if names is None:  # what cannot be an array of samples or labels does not make the others unreadable
        wanted = [name for name in wanted if _is_plain(stored[name]) and len(_cell_shapes(stored[name])) == 1]
    return {name: _stacked(path, name, stored[name]) for name in wanted}


def _read_mat5(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    return {name: value for name, value in loadmat(path).items() if not name.startswith("__")}


def _read_mat73(path: Path) -> dict[str, Any]:
    try:
        import h5py
    except ImportError as error:
        raise BadFileError(
            f"{path}: a MATLAB 7.3 file, which needs h5py; pip install 'tensormargin[hdf5]', or save it with -v7"
        ) from error
    with h5py.File(path, "r") as file:
        return {
            name: _from_hdf5(file, value)
            for name, value in file.items()
            if isinstance(value, h5py.Dataset) and not name.startswith("#")
        }


def _from_hdf5(file: Any, dataset: Any) -> Any:
    """Return a data set in MATLAB's order of axes, which HDF5 reverses; cells as an object array of their arrays."""
    values = dataset[()]
    if values.dtype != object:
        return np.transpose(values)
    cells = np.empty(values.size, object)
    for position, reference in enumerate(values.T.ravel(order="F")):
        cells[position] = np.transpose(file[reference][()])
    return cells


def _is_plain(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.names is None


def _stacked(path: Path, name: str, value: Any) -> Array:
    """Return a cell array of equally shaped numbers as one array, samples first; other arrays as they are."""
    if not _is_plain(value):
        raise BadFileError(f"{path}: {name} is a structure, not an array; save its fields as variables of their own")
    if value.dtype != object:
        return value
    shapes = _cell_shapes(value)
    if len(shapes) != 1:
        raise BadFileError(f"{path}: the cells of {name} must have one shape; they have {shapes[:4]}")
    return np.stack([np.asarray(cell) for cell in value.ravel(order="F")])


def _cell_shapes(value: Array) -> list[tuple[int, ...]]:
    """Return the shapes of a cell array's cells, each once; that of an array that is none."""
    return sorted({np.shape(cell) for cell in value.ravel()}) if value.dtype == object else [value.shape]


def _present(path: Path, held: Sequence[str], names: Sequence[str] | None) -> Sequence[str]:
    if names is None:
        return held
    missing = [name for name in names if name not in held]
    if missing:
        raise BadFileError(f"{path}: has no array {' and '.join(missing)}; it holds {', '.join(held) or 'none'}")
    return names


def check_labelled(path: str | Path, X: Array, y: Array, samples: str = "X", labels: str = "y") -> tuple[Array, Array]:
    """Return samples and labels (as a vector), or raise `BadFileError` for what no classifier could use."""
    if not (np.issubdtype(X.dtype, np.number) or X.dtype == bool) or np.iscomplexobj(X):
        raise BadFileError(f"{path}: {samples} must hold real numbers, has dtype {X.dtype}")
    if X.ndim < 2 or X.size == 0:
        raise BadFileError(
            f"{path}: {samples} must have the shape (n_samples, I_1, ...), none of them 0; has {X.shape}"
        )
    if y.ndim == 2 and 1 in y.shape:
        y = y.ravel()
    if np.issubdtype(y.dtype, np.inexact) and not np.all(np.isfinite(y)):
        raise BadFileError(f"{path}: {labels} holds NaN or infinity; leave samples without a label out")
    if y.shape != X.shape[:1]:
        raise BadFileError(f"{path}: {labels} must hold one label a sample, {len(X)} of them; its shape is {y.shape}")
    if np.issubdtype(X.dtype, np.inexact) and not np.all(np.isfinite(X)):
        raise BadFileError(f"{path}: {samples} holds NaN or infinity; remove or impute those entries first")
    return X, y


def digest(arrays: Mapping[str, Array]) -> str:
    """Return a checksum of the contents of arrays, however they are packed: names, shapes, types and values."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name}:{array.shape}:{array.dtype.str}:".encode())
        total.update(array.tobytes())
    return total.hexdigest()
