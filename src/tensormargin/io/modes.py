"""Names, units and coordinates of modes in containers of arrays.

A container describes the modes of its samples by an array ``mode_names`` of text, one per mode, with the unit in
brackets ("row", "column", "wavelength[nm]"), and by arrays ``mode_values_NAME`` with the coordinates of a mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..data import Axes, BadFileError, axes_of
from ..runtime import Array
from .arrays import Stored

NAMES, VALUES = "mode_names", "mode_values_"


def stored_axes(path: Path, held: Mapping[str, Stored], shape: Sequence[int]) -> Axes | None:
    """Return the axes that a container describes, None if it describes none.

    Parameters
    ----------
    path : Path
    held : mapping from names to Stored
    shape : sequence of int
        Shape of a sample.
    """
    if NAMES not in held:
        return None
    names = _texts(held[NAMES].read())
    plain = {name.partition("[")[0].strip() for name in names}
    values = {name: held[VALUES + name].read() for name in plain if VALUES + name in held}
    try:
        return axes_of(shape, names, {name: _flat(array) for name, array in values.items()})
    except ValueError as error:
        raise BadFileError(
            f"{path}: {NAMES} and {VALUES}NAME must describe the modes of the samples ({error}); write them again, or "
            "leave them out of the file"
        ) from error


def arrays_of(axes: Axes | None) -> dict[str, Array]:
    """Return the arrays that describe axes in a container; none for axes that are unknown."""
    if axes is None:
        return {}
    names = [f"{axis.name}[{axis.unit}]" if axis.unit else axis.name for axis in axes]
    known = {f"{VALUES}{axis.name}": axis.values for axis in axes if axis.values is not None and axis.name}
    return {NAMES: np.array(names, str), **known}


def _flat(array: Array) -> Array:
    return np.array(_texts(array), str) if array.dtype.kind in "SUT" else np.ravel(array)


def _texts(array: Array) -> list[str]:
    """Return text as a list; MATLAB pads it with blanks."""
    values = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    return [str(one).strip() for one in np.ravel(values)]
