"""HDF5 files and MATLAB 7.3 files, which are HDF5. Runs in the reader process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from math import ceil, prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ...data import MOST_DEPTH, BadFileError, FileRules, check_members, missing_chunks, shape_of_part
from ...runtime import Array, quoted
from .entries import RATES, Entry, described, entry_of, rate_in, texts_of, unusable, variable, with_attributes
from .process import ALLOCATOR

_CELL_BYTES = 64  # at least, that a cell takes in the file: it is a data set with a header
_ENTRY_BYTES = 128  # of a Python object that stands for an entry
_ATTRIBUTE_BYTES = 2**16
_EXTERNAL = (
    "lies in another file ({}); copy the data into this one, or give allow_external=True (command line: "
    "--allow-external) if you trust who made it"
)


def list_arrays(path: Path, only: str | None, rules: FileRules) -> dict[str, Entry]:
    """Return descriptions of all data sets, or of the only one of this name; links are not followed."""
    with h5py.File(path, "r") as file:
        found: dict[str, Entry] = {}
        seen = 0

        def add(name: str, item: Any) -> None:
            nonlocal seen
            seen += 1
            check_members(path, seen, name.count("/"))
            if isinstance(item, h5py.Dataset):
                found[name] = _with_dimensions(_entry(name, item, rules), item)

        if only is None:
            file.visititems(add)
        else:
            add(only, _at(path, file, only, rules))
        return found


def list_netcdf(path: Path, only: str | None, rules: FileRules) -> dict[str, Entry]:
    """Return descriptions of the variables of a netCDF 4 file, with their dimensions, units and packing."""
    found: dict[str, Entry] = {}
    listed_arrays = list_arrays(path, only, rules)
    with h5py.File(path, "r") as file:
        for name, entry in listed_arrays.items():
            one = entry if entry.fault is not None else _netcdf_variable(entry, file[name])
            if one is not None:
                found[name] = one
    return found


def _netcdf_variable(entry: Entry, dataset: Any) -> Entry | None:
    """Return a variable with its dimensions; None if it only stands for a dimension, and has no values."""
    marks = dataset.attrs
    if _text(marks.get("NAME")).startswith("This is a netCDF dimension but not a netCDF variable"):
        return None
    dims = [dataset.name.rpartition("/")[2]] if dataset.is_scale and dataset.ndim == 1 else None
    if "DIMENSION_LIST" in marks or "DIMENSION_LABELS" in marks:
        axes = [dataset.dims[axis] for axis in range(dataset.ndim)]
        scales = [next((scale.name.rpartition("/")[2] for scale in axis.values() if scale.name), "") for axis in axes]
        dims = [scale or _text(axis.label) for scale, axis in zip(scales, axes, strict=True)]
    names = ("units", "scale_factor", "add_offset", "missing_value", "_FillValue")
    return with_attributes(entry, dims, {name: marks[name] for name in names if name in marks})


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


def read_array(
    path: Path, name: str, where: tuple[slice, ...], rules: FileRules
) -> Array | tuple[int, str, tuple[int, ...]]:
    """Return a data set or a part; of plain numbers only where they begin in the file, their type and whole shape."""
    with h5py.File(path, "r") as file:
        dataset = _at(path, file, name, rules)
        begin = _begin_of_plain_numbers(path, dataset)
        if begin is None:
            return _values(path, name, dataset, where, rules)
        _admit(path, name, dataset, where, rules)
        return begin, dataset.dtype.str, tuple(dataset.shape)


def _begin_of_plain_numbers(path: Path, dataset: Any) -> int | None:
    """Return where the numbers of a data set begin if they lie in one piece and in a type of NumPy, otherwise None."""
    if dataset.dtype.kind not in "iuf" or dataset.ndim == 0 or _elsewhere(dataset) is not None:
        return None
    begin = dataset.id.get_offset()
    if begin is None or dataset.id.get_type() != h5py.h5t.py_create(dataset.dtype):
        return None
    n_bytes = dataset.size * dataset.dtype.itemsize
    in_file = begin > 0 and 0 < n_bytes <= path.stat().st_size - begin
    return int(begin) if in_file and dataset.id.get_storage_size() == n_bytes else None


def list_variables(path: Path, only: str | None, rules: FileRules) -> dict[str, Entry]:
    """Return the variables of a MATLAB 7.3 file, with values of text and cells; fields of structures are "a/b"."""
    with h5py.File(path, "r") as file:
        cells = _Cells(path, file, rules)
        found: dict[str, Entry] = {}
        for name, dataset in _variables(path, file, rules, [0]):
            if only in (None, name):
                found[name] = _variable(name, dataset, cells, rules)
        return found


def read_variable(path: Path, name: str, where: tuple[slice, ...], rules: FileRules) -> Array:
    """Return a variable of numbers with its axes in MATLAB's order, which HDF5 reverses."""
    with h5py.File(path, "r") as file:
        return np.transpose(_values(path, name, _at(path, file, name, rules), where[::-1], rules))


def _at(path: Path, file: Any, name: str, rules: FileRules) -> Any:
    """Return a member; raise `BadFileError` if links lead to it, perhaps from another file."""
    item = file
    for part in name.strip("/").split("/"):
        if not _may_follow(path, item.get(part, getlink=True), rules):
            raise BadFileError(f"{path}: {quoted(name)} {_EXTERNAL.format('a link')}")
        item = item[part]
    return item


def _may_follow(path: Path, link: Any, rules: FileRules) -> bool:
    """Return whether a link may be followed; raise `BadFileError` if it leads to a pipe or device."""
    if isinstance(link, h5py.ExternalLink) and rules.allow_external:
        _check_regular(path, [link.filename], rules)
    return rules.allow_external or isinstance(link, h5py.HardLink)


def _variables(
    path: Path, group: Any, rules: FileRules, seen: list[int], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield names and data sets, None for links that are not to be followed; ``seen`` counts members."""
    for name in group:
        seen[0] += 1  # a group may contain itself, several times
        check_members(path, seen[0], prefix.count("/"))
        if name.startswith("#"):
            continue
        if not _may_follow(path, group.get(name, getlink=True), rules):
            yield prefix + name, None
        elif isinstance(group[name], h5py.Dataset):
            yield prefix + name, group[name]
        elif isinstance(group[name], h5py.Group):
            yield from _variables(path, group[name], rules, seen, f"{prefix}{name}/")


def _entry(name: str, dataset: Any, rules: FileRules) -> Entry:
    shape = dataset.shape or ()
    elsewhere = _elsewhere(dataset)
    if elsewhere is not None and not rules.allow_external:
        return unusable(f"{quoted(name)} {_EXTERNAL.format(elsewhere)}", shape)
    if h5py.check_string_dtype(dataset.dtype) is not None:
        return entry_of(name, shape, str)
    return entry_of(name, shape, dataset.dtype, dataset.chunks or (1,) * len(shape))


def _with_dimensions(entry: Entry, dataset: Any) -> Entry:
    """Return the description of a data set with the names, scales, units and rate that the file states."""
    if entry.fault is not None or not entry.shape:
        return entry
    # Whatever is wrong with attributes and scales, the samples themselves may be in order.
    try:
        unit = _small_attribute(dataset, "units") or _small_attribute(dataset, "unit")
        names = [dimension.label for dimension in dataset.dims]
        scales = [dimension[0] if len(dimension) else None for dimension in dataset.dims]
        for attribute in ("_ARRAY_DIMENSIONS", "dims"):
            names = names if any(names) else texts_of(_small_attribute(dataset, attribute)) or names
        pairs = zip(names, scales, strict=True)
        names = [name or ("" if one is None else one.name.rpartition("/")[2]) for name, one in pairs]
        marks = [
            {name: _small_attribute(place, name) for name in place.attrs if name.lower() in RATES}
            for place in (dataset, dataset.parent, dataset.file)
        ]
        scale_names = [None if one is None else one.name.lstrip("/") for one in scales]
        return described(entry, names, unit, scale_names)._replace(rate=rate_in(*marks))
    except (ValueError, TypeError, KeyError, RuntimeError, OSError, AttributeError, IndexError):
        return entry


def _small_attribute(dataset: Any, name: str) -> Any:
    if name not in dataset.attrs or dataset.attrs.get_id(name).get_storage_size() > _ATTRIBUTE_BYTES:
        return None
    return dataset.attrs[name]


def _elsewhere(dataset: Any) -> str | None:
    """Return in words how the entries of a data set come from other files, None if they do not."""
    if dataset.is_virtual:
        return "a virtual data set"
    return "external storage" if dataset.id.get_create_plist().get_external_count() else None


def _check_elsewhere(path: Path, name: str, dataset: Any, rules: FileRules) -> bool:
    """Return whether the entries of a data set come from other files; raise `BadFileError` unless that is allowed."""
    elsewhere = _elsewhere(dataset)
    if elsewhere is None:
        return False
    if not rules.allow_external:
        raise BadFileError(f"{path}: {quoted(name)} {_EXTERNAL.format(elsewhere)}")
    if dataset.is_virtual:
        _check_regular(path, [source.file_name for source in dataset.virtual_sources()], rules)
    else:
        _check_regular(path, [os.fsdecode(file) for file, _, _ in dataset.external or ()], rules)
    return True


def _check_regular(path: Path, names: Iterable[str], rules: FileRules) -> None:
    """Raise `BadFileError` for names in a file that lead to a pipe or device; HDF5 looks in two folders."""
    for name in names:
        for file in (path.parent / name, Path(name)):
            if file.exists() and name != ".":  # this file
                rules.check_file(file, f"{path}: {quoted(name)}")


def _values(path: Path, name: str, dataset: Any, where: tuple[slice, ...], rules: FileRules) -> Array:
    """Return the entries of a data set of numbers or text; memory is taken only after it was allowed."""
    elsewhere = _check_elsewhere(path, name, dataset, rules)
    _admit(path, name, dataset, where, rules, -1 if elsewhere else None)
    shape = shape_of_part(dataset.shape or (), where)
    size = prod(shape)
    if not elsewhere and not rules.fill_missing:
        _check_written(path, name, dataset)
    if h5py.check_string_dtype(dataset.dtype) is not None:
        rules.admit(path, size * _ENTRY_BYTES, quoted(name))
        texts = np.asarray(dataset.asstr()[where], object)
        longest = max(map(len, texts.ravel().tolist()), default=0)
        rules.admit(path, 4 * size * longest, quoted(name))
        return np.asarray(texts, str)
    if not size or not shape:
        return np.asarray(dataset[where])
    values = ALLOCATOR.empty(shape, dataset.dtype)
    dataset.read_direct(values, source_sel=where or (...,))
    return values


def _admit(
    path: Path, name: str, dataset: Any, where: tuple[slice, ...], rules: FileRules, stored: int | None = None
) -> None:
    entries = prod(shape_of_part(dataset.shape or (), where)) + prod(dataset.chunks or (0,))
    rules.admit(path, entries * dataset.dtype.itemsize, quoted(name), stored)


def _check_written(path: Path, name: str, dataset: Any) -> None:
    """Raise `BadFileError` if parts of a data set were never written: they would be read as zeros."""
    size = prod(dataset.shape or ())
    if not size:
        return
    if dataset.chunks:
        pieces = zip(dataset.shape, dataset.chunks, strict=True)
        there, all_of_them = dataset.id.get_num_chunks(), prod(ceil(length / part) for length, part in pieces)
    else:
        there, all_of_them = int(dataset.id.get_storage_size() > 0), 1
    if there < all_of_them:
        raise missing_chunks(path, name, there, all_of_them)


def _variable(name: str, dataset: Any, cells: _Cells, rules: FileRules) -> Entry:
    """Return a variable with its axes in MATLAB's order, which HDF5 reverses; plain numbers are not read yet."""
    if dataset is None:
        return unusable(f"{quoted(name)} {_EXTERNAL.format('a link')}")
    marks = dataset.attrs
    special = "MATLAB_object_decode" in marks or marks.get("MATLAB_empty") or marks.get("MATLAB_class") == b"char"
    found = _entry(name, dataset, rules)
    if found.fault is None and not special:
        pieces = found.pieces or ()
        return found._replace(shape=found.shape[::-1], pieces=pieces[::-1])
    if _elsewhere(dataset) is not None and not rules.allow_external:
        return found
    try:
        return variable(name, cells.read(dataset))
    except BadFileError as error:  # another variable may be asked for
        return unusable(str(error).removeprefix(f"{cells.path}: "))


class _Cells:
    """Reads cells, which refer to other data sets of the file: also to themselves, if someone wanted that."""

    def __init__(self, path: Path, file: Any, rules: FileRules) -> None:
        self.path, self.file, self.rules = path, file, rules
        self.left = 16 + path.stat().st_size // _CELL_BYTES
        self.n_bytes = 0

    def read(self, dataset: Any, depth: int = 0) -> Any:
        """Return a data set with its axes in MATLAB's order; cells become an object array, structures None."""
        if not isinstance(dataset, h5py.Dataset):
            return None
        if "MATLAB_object_decode" in dataset.attrs:  # string, table, categorical: the numbers are only a reference
            return None
        if dataset.attrs.get("MATLAB_empty"):
            return np.empty((0, 0))  # what is stored is the shape
        is_cell = h5py.check_ref_dtype(dataset.dtype) is h5py.Reference
        self._count(dataset, depth, is_cell)
        if is_cell:
            _check_elsewhere(self.path, dataset.name or "a cell", dataset, self.rules)
            cells = np.empty(dataset.size, object)
            for position, reference in enumerate(dataset[()].T.ravel(order="F")):
                cells[position] = self.read(self.file[reference], depth + 1)
            return cells
        if dataset.dtype == object:
            return None
        values = _values(self.path, dataset.name or "a cell", dataset, (), self.rules)
        if dataset.attrs.get("MATLAB_class") == b"char":
            return np.array(["".join(map(chr, row)) for row in np.transpose(values)])
        return np.transpose(values)

    def _count(self, dataset: Any, depth: int, is_cell: bool) -> None:
        self.left -= 1 + (dataset.size if is_cell else 0)
        is_text = dataset.attrs.get("MATLAB_class") == b"char"
        before = self.n_bytes
        self.n_bytes += dataset.size * (_ENTRY_BYTES if is_cell or is_text else dataset.dtype.itemsize)
        self.rules.admit(self.path, self.n_bytes, "its cells", before=before)
        if self.left < 0 or depth > MOST_DEPTH:
            raise BadFileError(
                f"{self.path}: cells must be nested at most {MOST_DEPTH} deep, and no more than fit into the file; "
                "these refer to each other again and again. Save the arrays as variables of their own"
            )
