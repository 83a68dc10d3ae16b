"""Descriptions of arrays in files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...runtime import quoted

_LONGEST_TEXT = 200  # characters of a name or a unit
RATES = ("sfreq", "fs", "srate", "fsample", "sampling_rate", "sample_rate", "samplingrate", "sampling_frequency")
"""Names of arrays and attributes that hold a sampling frequency, in lower case."""
NIFTI = (".nii", ".nii.gz")
NIFTI_WORDS = ("a NIfTI file", "export it again")
IMAGE_WORDS = ("an image that can be read", "save it again as PNG, JPEG or TIFF")
OPAQUE, TRANSPARENT, UPRIGHT = "opaque", "transparent", "upright"
"""What became of an image: transparency that is the same everywhere was dropped, others put on white; it was turned."""
NUMBERS, READABLE = "biuf", "biufcSUT"  # NumPy type kinds: real numbers; the same with complex numbers and text


class Entry(NamedTuple):
    """An array in a file.

    ``pieces`` is the chunk shape (None if the array can only be read as a whole), ``fault`` why it cannot be used,
    ``value`` its entries if they had to be read already: a list of the cells of a MATLAB cell array that differ in
    shape, as trials of different lengths do. As far as the file states them: ``dims`` are the names of its axes (""
    for one without), ``scales`` the arrays with their coordinates, ``unit`` that of its entries, ``packing`` how they
    become numbers (`packing_of`), ``rate`` the sampling frequency in Hz.
    """

    shape: tuple[int, ...]
    dtype: str
    pieces: tuple[int, ...] | None = None
    fault: str | None = None
    value: Any = None
    dims: tuple[str, ...] | None = None
    scales: tuple[str | None, ...] | None = None
    unit: str = ""
    packing: dict[str, float] | None = None
    rate: float | None = None


def entry_of(name: str, shape: Sequence[int], dtype: Any, pieces: Sequence[int] | None = None) -> Entry:
    """Return the description of an array, with a fault if it holds neither numbers nor text."""
    kind = np.dtype(dtype)
    shape = tuple(map(int, shape))
    if kind.kind in READABLE:
        return Entry(shape, "T" if kind.kind == "T" else kind.str, None if pieces is None else tuple(map(int, pieces)))
    return unusable(
        f"{quoted(name)} holds {quoted(str(kind))}: neither numbers nor text. Python objects are not accepted, since "
        "reading them runs their code; save it as an array of numbers or of text",
        shape,
    )


def texts_of(value: Any) -> list[str]:
    """Return an attribute as texts: a list of them, JSON, or names separated by commas; none if it is anything else."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        try:
            loaded = json.loads(value) if value.lstrip().startswith("[") else value.split(",")
        except ValueError:
            return []
        value = [one.strip() if isinstance(one, str) else one for one in loaded]
    if isinstance(value, np.ndarray):
        value = value.ravel().tolist()
    if not isinstance(value, list | tuple):
        return []
    texts = [one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in value]
    return [one[:_LONGEST_TEXT] for one in texts] if all(isinstance(one, str) for one in texts) else []


def described(entry: Entry, names: Sequence[Any], unit: Any, scales: Sequence[str | None] | None = None) -> Entry:
    """Return the description of an array with names of its axes, unless there are more or fewer of them."""
    texts = [one if isinstance(one, str) else "" for one in names]
    fits = len(texts) == len(entry.shape) and any(texts)
    unit = unit.decode("utf-8", "replace") if isinstance(unit, bytes) else unit
    return entry._replace(
        dims=tuple(one[:_LONGEST_TEXT] for one in texts) if fits else None,
        scales=None if scales is None or not any(scales) else tuple(scales),
        unit=unit[:_LONGEST_TEXT] if isinstance(unit, str) else "",
    )


def unusable(fault: str, shape: Sequence[int] = ()) -> Entry:
    """Return the description of an array that cannot be used."""
    return Entry(tuple(shape), "O", None, fault)


def variable(name: str, value: Any) -> Entry:
    """Return a MATLAB variable; a cell array whose cells have one shape is stacked along a new first axis."""
    if not isinstance(value, np.ndarray) or value.dtype.names is not None:
        return unusable(
            f"{quoted(name)} is a structure or an object, not an array; save its fields as variables of their own"
        )
    if value.dtype != object:
        return entry_of(name, value.shape, value.dtype)._replace(value=value)
    cells = [np.asarray(cell) for cell in value.ravel(order="F")]
    shapes = sorted({cell.shape for cell in cells})
    if len(shapes) != 1 or len({cell.dtype.kind in "UT" for cell in cells}) != 1:
        return _uneven(name, cells, shapes)
    if any(cell.dtype.kind not in READABLE for cell in cells):
        return entry_of(name, (len(cells), *shapes[0]), object)
    stacked = np.stack(cells)
    return entry_of(name, stacked.shape, stacked.dtype)._replace(value=stacked)


def _uneven(name: str, cells: list[Any], shapes: list[tuple[int, ...]]) -> Entry:
    """Return cells that differ: with one value or none each they are a vector of text or numbers (NaN for none)."""
    if cells and all(cell.size <= 1 and cell.dtype.kind in READABLE for cell in cells):
        is_text = any(cell.dtype.kind in "SUT" and cell.size for cell in cells)
        items: list[Any] = [cell.item() if cell.size else "" if is_text else np.nan for cell in cells]
        values = np.array([text_of(one) for one in items] if is_text else items)[:, None]
        return entry_of(name, values.shape, values.dtype)._replace(value=values)
    found = unusable(f"the cells of {quoted(name)} must have one shape; they have {shapes[:4]}")
    is_numeric = cells and all(cell.dtype.kind in NUMBERS and cell.ndim == cells[0].ndim for cell in cells)
    return found._replace(value=cells) if is_numeric else found


def text_of(value: Any) -> str:
    """Return a value as text: whole numbers without a decimal point."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def with_attributes(entry: Entry, dims: Sequence[str] | None, attributes: Mapping[str, Any]) -> Entry:
    """Return the description of an array of a netCDF file with its dimensions, unit and packing."""
    return described(entry, dims or (), _one(attributes.get("units")))._replace(packing=packing_of(attributes))


def rate_in(*attributes: Mapping[str, Any]) -> float | None:
    """Return the sampling frequency among the attributes of an array, or else of its group or file."""
    found = (as_rate(_one(marks[name])) for marks in attributes for name in marks if name.lower() in RATES)
    return next((rate for rate in found if rate is not None), None)


def as_rate(value: Any) -> float | None:
    """Return a number as a sampling frequency in Hz; None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < float("inf") else None


def packing_of(attributes: Mapping[str, Any]) -> dict[str, float] | None:
    """Return ``scale``, ``offset`` and ``fill`` (the mark of missing values) of an array, those that it has."""
    names = {"scale_factor": "scale", "add_offset": "offset", "missing_value": "fill", "_FillValue": "fill"}
    found = {}
    for name, short in names.items():
        value = _one(attributes.get(name))
        if isinstance(value, bool | int | float) and (short == "fill" or np.isfinite(value)):
            found[short] = value
    return found or None


def _one(value: Any) -> Any:
    """Return the only value of an attribute as a Python object, None if there are several."""
    array = np.asarray(value)
    return array.ravel()[0].item() if array.size == 1 and array.dtype.kind in "biufSU" else None
