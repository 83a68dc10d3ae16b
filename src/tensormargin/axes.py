"""Names, units and coordinates of the modes of samples: channels by name, time in ms, wavelength in nm.

An `Axis` describes one mode, a tuple of them one tensor (without the axis of the samples). Nothing depends on them in a
fit: they label figures and tables, and let modes be given by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._typing import Array

_FORM = "write name, name[unit], name[unit]=start:step or name=a|b|c for each mode, separated by commas"


@dataclass(frozen=True, eq=False)
class Axis:
    """One mode of the samples.

    Attributes
    ----------
    name : str
        What the mode is: "channel", "time"; "" if unknown.
    unit : str
        Unit of its coordinates: "ms", "nm"; "" if they have none.
    values : ndarray of shape (size,) or None
        One coordinate per index, numbers or text; None if they are unknown.

    Examples
    --------
    >>> Axis("time", "ms", [-200, -196, -192]).label
    'time (ms)'
    """

    name: str = ""
    unit: str = ""
    values: Any = None

    def __post_init__(self) -> None:
        if self.values is not None:
            object.__setattr__(self, "values", _checked_values(self.values, self.name))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Axis) or (self.name, self.unit) != (other.name, other.unit):
            return False
        if self.values is None or other.values is None:
            return self.values is other.values
        return bool(np.array_equal(self.values, other.values))

    __hash__ = None  # type: ignore[assignment]

    @property
    def label(self) -> str:
        """Name with the unit, for figures."""
        return f"{self.name} ({self.unit})" if self.name and self.unit else self.name or self.unit

    @property
    def is_numeric(self) -> bool:
        """Whether the coordinates are known numbers."""
        return self.values is not None and self.values.dtype.kind == "f"

    def spoken(self, index: int) -> str:
        """Return an index in words: "Cz", "132 ms", or the number of the index, counted from 1."""
        if self.values is None:
            return str(index + 1)
        value = f"{self.values[index]:.6g}" if self.is_numeric else str(self.values[index])
        return f"{value} {self.unit}" if self.unit else value


Axes = tuple[Axis, ...]


def _checked_values(values: Any, name: str) -> Array:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iufbUST":
        raise ValueError(
            f"the coordinates of mode {name!r} must be one number or text per index; got an array of shape "
            f"{array.shape} and type {array.dtype}"
        )
    array = array.astype(np.str_) if array.dtype.kind in "UST" else array.astype(np.float64)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"the coordinates of mode {name!r} must be finite; got {array[~np.isfinite(array)][0]}")
    array.flags.writeable = False
    return array


def checked_axes(axes: Sequence[Axis] | None, shape: Sequence[int | None]) -> Axes | None:
    """Return the axes as a tuple if they fit samples of a shape; None if they say nothing.

    Parameters
    ----------
    axes : sequence of Axis, or None
    shape : sequence of int or None
        Shape of a sample; None for a mode in which samples differ.
    """
    if axes is None:
        return None
    if len(axes) != len(shape):
        named = ", ".join(axis.name or "?" for axis in axes)
        raise ValueError(
            f"there must be one axis per mode; got {len(axes)} ({named}) for samples with {len(shape)} modes. "
            "Describe every mode, those without a name by an empty Axis()"
        )
    for axis, size in zip(axes, shape, strict=True):
        if axis.values is not None and size is not None and len(axis.values) != size:
            raise ValueError(
                f"mode {axis.name!r} must have one coordinate per index; got {len(axis.values)} for {size} indices"
            )
    found = tuple(axes)
    return found if any(axis.name or axis.unit or axis.values is not None for axis in found) else None


def axes_of(
    shape: Sequence[int],
    mode_names: Sequence[str] | None = None,
    mode_values: Mapping[str, Any] | Sequence[Any] | None = None,
) -> Axes | None:
    """Return axes from names, with units in brackets, and coordinates.

    Parameters
    ----------
    shape : sequence of int
        Shape of a sample.
    mode_names : sequence of str, optional
        One per mode: "channel", "time[ms]".
    mode_values : sequence with one array or None per mode, or mapping from names to arrays, optional

    Examples
    --------
    >>> [axis.label for axis in axes_of((64, 3), ["channel", "time[ms]"], {"time": [0, 4, 8]})]
    ['channel', 'time (ms)']
    """
    names = [_name_and_unit(text) for text in (mode_names if mode_names is not None else [""] * len(shape))]
    if len(names) != len(shape):
        raise ValueError(
            f"mode_names must have one name per mode; got {len(names)} for samples with {len(shape)} modes: {names}"
        )
    if isinstance(mode_values, Mapping):
        unknown = sorted(set(mode_values) - {name for name, _ in names})
        if unknown:
            raise ValueError(
                f"mode_values must be given for modes in mode_names; got {unknown}, and the modes are "
                f"{[name for name, _ in names]}"
            )
        values: Sequence[Any] = [mode_values.get(name) for name, _ in names]
    else:
        values = [None] * len(names) if mode_values is None else mode_values
    if len(values) != len(names):
        raise ValueError(f"mode_values must have one entry per mode; got {len(values)} for {len(names)} modes")
    return checked_axes([Axis(*pair, own) for pair, own in zip(names, values, strict=True)], shape)


def parsed_axes(text: str, shape: Sequence[int | None]) -> Axes | None:
    """Return the axes that one line of text describes.

    Parameters
    ----------
    text : str
        One description per mode, separated by commas: a name, with a unit in brackets, and coordinates after "=",
        either as start:step or as names separated by "|".
    shape : sequence of int or None

    Examples
    --------
    >>> [axis.label for axis in parsed_axes("channel=Fz|Cz,time[ms]=-200:4", (2, 100))]
    ['channel', 'time (ms)']
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != len(shape):
        raise ValueError(
            f"modes must be described one by one; got {len(parts)} in {text!r} for samples with {len(shape)} modes. "
            f"For each, {_FORM}"
        )
    return checked_axes([_parsed(part, size) for part, size in zip(parts, shape, strict=True)], shape)


def _parsed(part: str, size: int | None) -> Axis:
    described, equals, coordinates = part.partition("=")
    name, unit = _name_and_unit(described)
    if not equals:
        return Axis(name, unit)
    if "|" in coordinates or ":" not in coordinates:
        return Axis(name, unit, [own.strip() for own in coordinates.split("|")])
    start, _, step = coordinates.partition(":")
    try:
        begin, by = float(start), float(step)
    except ValueError:
        raise ValueError(f"coordinates must be start:step in numbers; got {coordinates!r}. {_FORM}") from None
    if size is None:
        raise ValueError(f"mode {name!r} has no coordinates, since samples differ in its length; leave ={coordinates}")
    return Axis(name, unit, begin + by * np.arange(size))


def _name_and_unit(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"\s*([^\[\]=|,]*?)\s*(?:\[([^\[\]]*)\])?\s*", text)
    if found is None:
        raise ValueError(f"a mode must be described as name or name[unit]; got {text!r}. {_FORM}")
    return found[1], (found[2] or "").strip()


def mode_number(mode: int | str, axes: Axes | None, order: int) -> int:
    """Return the number of a mode, counted from 0, that is given by number or by name."""
    if not isinstance(mode, str):
        return int(mode) % order if -order <= mode < order else int(mode)
    names = [axis.name for axis in axes or ()]
    if names.count(mode) != 1:
        known = f"the modes are {names}" if any(names) else "the modes of these samples have no names"
        raise ValueError(f"a mode must be given by its number or by one of the names; got {mode!r}, and {known}")
    return names.index(mode)
