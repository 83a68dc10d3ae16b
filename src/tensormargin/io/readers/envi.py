"""ENVI scenes: a header in text, and a file of plain numbers. Read in Python; no native parser is involved."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...data import BadFileError, FileRules
from ...runtime import Array, listed, quoted
from .plain import numbers_or_map

GEOREFERENCE = ("map info", "projection info", "coordinate system string")
ENDINGS = (".hdr", ".img", ".bsq", ".bil", ".bip", ".dat")
_MOST_HEADER = 2**24
_MOST_LINE = 2**20
_MOST_SIZE = 2**31
_TYPES = {1: "u1", 2: "i2", 3: "i4", 4: "f4", 5: "f8", 12: "u2", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = (6, 9)
_ORDERS = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}
"""For each interleave, the axes (row, column, band) in the order in which the file has them."""
_UNITS = {
    **dict.fromkeys(("nanometers", "nanometres", "nanometer", "nanometre", "nm"), "nm"),
    **dict.fromkeys(("micrometers", "micrometres", "micrometer", "micrometre", "microns", "um", "µm"), "µm"),
    **dict.fromkeys(("wavenumber", "cm-1"), "cm⁻¹"),
    "ghz": "GHz",
    "mhz": "MHz",
}


class Header(NamedTuple):
    """The file of numbers of an ENVI scene, how they lie there, and what else the header says.

    That is wavelengths, names of the classes 0, 1, ..., the fields that say where the scene lies, and the value of
    pixels without data.
    """

    data: Path
    shape: tuple[int, int, int]
    dtype: str
    interleave: str
    offset: int
    wavelengths: Array | None
    unit: str
    class_names: tuple[str, ...]
    georeference: dict[str, str]
    nodata: float | None


def read_header(path: Path, rules: FileRules) -> Header:
    """Return the header that belongs to a path, which is that of the header or of the numbers."""
    header = path
    if path.suffix.lower() != ".hdr":
        tried = (path.with_suffix(".hdr"), path.with_name(f"{path.name}.hdr"), path.with_suffix(".HDR"))
        header = next((one for one in tried if one.is_file()), path)
        if header == path:
            raise BadFileError(
                f"{path}: an ENVI scene has a header beside it; there is no {tried[0].name}. Copy it, too"
            )
    beside = rules.inside(path.parent)
    (rules if header == path else beside).check_file(header)
    if header.stat().st_size > _MOST_HEADER:
        raise BadFileError(f"{header}: a header must have at most {_MOST_HEADER} bytes; write the scene again")
    fields = fields_of(header)
    shape = (_whole(header, fields, "lines"), _whole(header, fields, "samples"), _whole(header, fields, "bands"))
    offset = _whole(header, fields, "header offset", least=0, default=0)
    interleave = fields.get("interleave", "bsq").lower()
    if interleave not in _ORDERS:
        raise _wrong(header, "interleave", "bsq, bil or bip", interleave)
    code = _whole(header, fields, "data type")
    if code not in _TYPES:
        numbers = f"one of {', '.join(map(str, _TYPES))}, real numbers"
        numbers += "; the scene holds complex ones: export their magnitude" if code in _COMPLEX else ""
        raise _wrong(header, "data type", numbers, str(code))
    order = _whole(header, fields, "byte order", least=0, default=0)
    if order > 1:
        raise _wrong(header, "byte order", "0 or 1", str(order))
    dtype = "<>"[order] + _TYPES[code]
    data = path if path != header else _data_of(header, beside)
    needed = prod(shape) * np.dtype(dtype).itemsize + offset
    if data.stat().st_size < needed:
        raise BadFileError(
            f"{data}: cut short: its header asks for {needed} bytes ({' x '.join(map(str, shape))} numbers of type "
            f"{dtype}), and it has {data.stat().st_size}. Copy the scene again, with both of its files"
        )
    wavelengths = _numbers(header, fields, "wavelength", shape[2], f"one number per band, {shape[2]} of them")
    unit = "" if wavelengths is None else unit_of(fields.get("wavelength units", ""))
    class_names = listed_texts(fields.get("class names", ""))
    where = {name: " ".join(fields[name].split()) for name in GEOREFERENCE if name in fields}
    nodata = _numbers(header, fields, "data ignore value", 1, "one number", finite=False)
    ignored = None if nodata is None else float(nodata[0])
    return Header(data, shape, dtype, interleave, offset, wavelengths, unit, class_names, where, ignored)


def numbers_in(header: Header, rules: FileRules) -> Array:
    """Return the numbers of a scene, of shape (rows, columns, bands); large ones as a read-only memory map."""
    order = _ORDERS[header.interleave]
    shape = tuple(header.shape[axis] for axis in order)
    stored = numbers_or_map(header.data, header.offset, header.dtype, shape, "C", rules)
    return stored.transpose(np.argsort(order))


def unit_of(words: str) -> str:
    """Return the symbol of a unit of wavelengths that is given in words, "" if it is not known."""
    return _UNITS.get(words.strip().lower(), "")


def _data_of(header: Path, rules: FileRules) -> Path:
    """Return the file with the numbers, beside its header; a link that leads elsewhere is refused."""
    stem = header.with_suffix("")
    tried = (stem, *(stem.with_suffix(ending) for ending in (*ENDINGS[1:], ".raw", ".sli")))
    names = {one.name.lower() for one in (*tried, *(stem.with_name(stem.name + one) for one in ENDINGS[1:]))}
    beside = sorted(header.parent.iterdir(), key=lambda one: one.name)
    found = next((one for one in beside if one.name.lower() in names and not one.is_dir()), None)
    if found is None:
        raise BadFileError(
            f"{header}: the file with the numbers must lie beside its header, as {header.stem} or {header.stem}.img; "
            "there is none. Copy it, too"
        )
    rules.check_file(found)
    return found


def fields_of(header: Path) -> dict[str, str]:
    """Return the fields of a header by name, in lower case."""
    text = header.read_bytes().decode("utf-8", errors="replace")
    first, _, rest = text.partition("\n")
    if first.strip() != "ENVI":
        raise BadFileError(
            f'{header}: the header of an ENVI scene begins with "ENVI"; this one begins with {quoted(first[:20])!r}. '
            "An Analyze or NIfTI pair (.hdr, .img) is converted to .nii by nibabel.save"
        )
    lines = rest.split("\n")
    if max(map(len, lines)) > _MOST_LINE:
        raise BadFileError(f"{header}: its lines must have at most {_MOST_LINE} characters; divide the longer ones")
    found: dict[str, str] = {}
    last = max((place for place, line in enumerate(lines) if "}" in line), default=-1)
    place = 0
    while place < len(lines):
        begin = place
        name, equals, value = lines[begin].partition("=")
        if equals and not (";" in name or "{" in name or "}" in name):
            if value.lstrip().startswith("{") and place <= last:  # a list may go on over several lines
                while "}" not in lines[place]:
                    place += 1
                value = "\n".join([value, *lines[begin + 1 : place + 1]]).partition("}")[0] + "}"
            found[" ".join(name.lower().split())] = value.strip()
        place += 1
    return found


def listed_texts(text: str) -> tuple[str, ...]:
    """Return the entries of a list in a header, "{a, b}"."""
    inside = text.strip().removeprefix("{").removesuffix("}").strip()
    return tuple(" ".join(one.split()) for one in inside.split(",")) if inside else ()


def place_of(fields: Mapping[str, str]) -> tuple[str, tuple[float, ...]] | None:
    """Return the coordinate system in the words of "map info", and the transform; None if it has no such numbers."""
    name, *rest = listed_texts(fields.get("map info", "")) or ("",)
    try:
        column, row, x, y, width, height = map(float, rest[:6])
    except ValueError:
        return None
    system = [name, *(one for one in rest[6:] if not one.casefold().startswith("units"))]
    transform = (width, 0.0, x - (column - 1) * width, 0.0, -height, y + (row - 1) * height)
    return ", ".join(system).casefold(), transform


def _whole(header: Path, fields: dict[str, str], name: str, least: int = 1, default: int | None = None) -> int:
    text = fields.get(name)
    if text is None and default is not None:
        return default
    if text is None or not (text.isdecimal() and len(text) <= 10) or not least <= int(text) <= _MOST_SIZE:
        raise _wrong(header, name, f"a whole number of at least {least}", text)
    return int(text)


def _numbers(
    header: Path, fields: dict[str, str], name: str, length: int, rule: str, finite: bool = True
) -> Array | None:
    texts = listed_texts(fields.get(name, ""))
    if not texts:
        return None
    try:
        values = [float(text) for text in texts]
    except ValueError:
        raise _wrong(header, name, "numbers", listed(texts)) from None
    if len(values) != length or (finite and not all(map(isfinite, values))):
        raise _wrong(header, name, rule, f"{len(values)}: {listed(texts)}")
    return np.array(values)


def _wrong(header: Path, name: str, rule: str, got: str | None) -> BadFileError:
    found = "it is missing" if got is None else f"got {quoted(got)}"
    return BadFileError(f'{header}: "{name}" must be {rule}; {found}. Correct the header, which is text')
