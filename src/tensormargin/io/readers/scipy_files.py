"""Classic netCDF files (netCDF 3) and MATLAB 4 files, read by SciPy. Runs in the reader process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat, netcdf_file

from ...data import FileRules, check_members
from .entries import Entry, entry_of, rate_in, variable, with_attributes
from .messages import Array

_COPIES = 3  # of the file: as it is read, as variables, and in the other order of bytes


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
    """Return the variables with their values."""
    rules.admit(path, 2 * path.stat().st_size, "the file")
    found: dict[str, Any] = loadmat(path, variable_names=None if only is None else [only])
    return {name: variable(name, value) for name, value in found.items() if not name.startswith("__")}
