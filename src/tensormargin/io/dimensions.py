"""Named dimensions of arrays in netCDF files: which one counts the samples, axes, and labels along it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .._typing import Array
from ..axes import Axes, Axis
from .arrays import Stored
from .grouping import unit_of

_SAMPLES = ("sample", "trial", "epoch", "event", "case", "observation", "obs", "subject", "participant")


def dims_of(stored: Stored) -> tuple[str, ...] | None:
    """Return the names of the dimensions of an array, None if its file does not name them."""
    return stored.dims if stored.dims is not None and len(stored.dims) == len(stored.shape) else None


def sample_axis(stored: Stored, asked: int) -> int:
    """Return the axis that counts the samples.

    That is the one asked for, if it is not the first; otherwise the only one with a name such as sample, trial, epoch
    or subject (also in the plural); otherwise the first.
    """
    named = [axis for axis, dim in enumerate(dims_of(stored) or ()) if dim.lower().removesuffix("s") in _SAMPLES]
    return named[0] if asked == 0 and len(named) == 1 else asked


def axes_in(held: Mapping[str, Stored], name: str, axis: int) -> Axes | None:
    """Return the axes of the samples in an array, with the coordinates that the file has under the same names."""
    stored = held[name]
    dims = dims_of(stored)
    if dims is None:
        return None
    group = name.rpartition("/")[0]
    found = []
    for place, (dim, size) in enumerate(zip(dims, stored.shape, strict=True)):
        if place == axis % len(dims):
            continue
        own = held.get(f"{group}/{dim}" if group else dim)
        values = None if own is None or own.shape != (size,) or not own.is_readable else _coordinates(own)
        found.append(Axis(dim, "" if own is None else own.unit, values))
    return tuple(found)


def _coordinates(stored: Stored) -> Array | None:
    values = stored.read()
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    usable = values.dtype.kind in "UT" or (values.dtype.kind in "iufb" and np.isfinite(values).all())
    return values if usable else None


def likely_labels(held: Mapping[str, Stored], name: str, axis: int) -> str | None:
    """Return the only variable along the dimension of the samples, besides its coordinates and groups; None if unclear.

    Parameters
    ----------
    held : mapping of str to Stored
    name : str
        The samples.
    axis : int
    """
    dims = dims_of(held[name])
    if dims is None or not -len(dims) <= axis < len(dims):
        return None
    group, dim = name.rpartition("/")[0], dims[axis]
    found = [
        other
        for other, stored in held.items()
        if dims_of(stored) == (dim,)
        and other.rpartition("/")[0] == group
        and other.rpartition("/")[2] != dim
        and not unit_of(other)
        and stored.dtype.kind in "iubSUT"
    ]
    return found[0] if len(found) == 1 else None
