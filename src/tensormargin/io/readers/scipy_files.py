"""Classic netCDF files (netCDF 3) and MATLAB 4 to 7 files, read by SciPy. Runs in the reader process."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat, netcdf_file, whosmat
from scipy.io.matlab import MatlabFunction, MatlabObject, MatlabOpaque

from ...data import BadFileError, FileRules, check_members, vector_of
from ...runtime import Array, quoted
from .entries import Entry, entry_of, rate_in, unusable, variable, with_attributes

_COPIES = 3  # of the file: as it is read, as variables, and in the other order of bytes
_COMPRESSED, _PEEK = 15, 4096  # type of a compressed variable, and bytes that have its type and size


def list_arrays(path: Path, only: str | None, rules: FileRules) -> dict[str, Entry]:
    """Return the variables with their values, dimensions and attributes."""
    rules.admit(path, _COPIES * path.stat().st_size, "the file")
    with netcdf_file(path, "r", mmap=False) as file:
        check_members(path, len(file.variables), 0)
        of_numbers = {dim for one in file.variables.values() if one.data.dtype.kind != "S" for dim in one.dimensions}
        found = {}
        for name, one in file.variables.items():
            if only in (None, name):
                values, dims = _values(one, of_numbers)
                entry = entry_of(name, values.shape, values.dtype)._replace(value=values)
                entry = entry._replace(rate=rate_in(one._attributes, file._attributes))
                found[name] = with_attributes(entry, dims, one._attributes)
        return found


def _values(one: Any, of_numbers: set[str]) -> tuple[Array, list[str]]:
    """Return the values of a variable, and its dimensions; characters are joined along the last one."""
    values, dims = np.asarray(one.data), [str(dim) for dim in one.dimensions]
    if values.dtype.kind != "S":
        return values.astype(values.dtype.newbyteorder("=")), dims
    if dims and dims[-1] not in of_numbers and values.shape[-1]:
        values = np.ascontiguousarray(values).view(f"S{values.shape[-1]}")[..., 0]
        dims = dims[:-1]
    return np.char.decode(values, "utf-8", "replace"), dims


def list_variables(path: Path, only: str | None, rules: FileRules) -> dict[str, Entry]:
    """Return the variables of a MATLAB file with their values; fields of structures are "a/b"."""
    wanted = None if only is None else only.partition("/")[0]
    found: dict[str, Entry] = {}
    names = []
    for (name, shape, _), n_bytes in zip(whosmat(path), _sizes(path), strict=True):
        if name.startswith("__") or wanted not in (None, name):
            continue
        try:
            rules.admit(path, _COPIES * n_bytes, quoted(name))
            names.append(name)
        except BadFileError as error:  # another variable may be asked for
            found[name] = unusable(str(error).removeprefix(f"{path}: "), shape)
    values: dict[str, Any] = loadmat(path, variable_names=names)
    for name in names:
        found |= _described(path, name, values[name], 0) or {name: variable(name, None)}
    return found if only is None else {name: found[name] for name in found if name == only}


def _sizes(path: Path) -> Iterator[int]:
    """Yield the size of each variable once it is unpacked, which a compressed one states at its beginning."""
    with path.open("rb") as file:
        head = file.read(128)
        if 0 in head[:4]:  # a number, where version 5 has text: version 4 does not compress
            yield from [path.stat().st_size] * len(whosmat(path))
            return
        order = "<" if head.endswith(b"IM") else ">"
        while tag := file.read(8):
            kind, length = struct.unpack(f"{order}II", tag)
            after = file.tell() + length
            if kind == _COMPRESSED:
                first = zlib.decompressobj().decompress(file.read(min(length, _PEEK)), 8)
                length = struct.unpack(f"{order}II", first)[1]
            yield length
            file.seek(after)


def _described(path: Path, name: str, value: Any, depth: int) -> dict[str, Entry]:
    """Return a variable or field by name, or the fields of a structure; an array of them has one cell per element."""
    check_members(path, 0, depth)
    is_object = isinstance(value, MatlabFunction | MatlabObject | MatlabOpaque)
    if is_object or not isinstance(value, np.ndarray) or value.dtype.names is None:
        return {name: variable(name, None if is_object else value)}
    found: dict[str, Entry] = {}
    for field in value.dtype.names if value.size else ():
        cells = value[field].ravel(order="F")
        if len(cells) == 1:
            found |= _described(path, f"{name}/{field}", cells[0], depth + 1)
        else:
            found[f"{name}/{field}"] = variable(f"{name}/{field}", vector_of(cells))
        check_members(path, len(found), 0)
    return found
