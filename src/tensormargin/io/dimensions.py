"""Named dimensions of arrays in netCDF files: which one counts the samples, and labels along it."""

from __future__ import annotations

from collections.abc import Mapping

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
