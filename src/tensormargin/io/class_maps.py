"""Write the classes of the pixels of a scene as a GeoTIFF or an ENVI classification, in the place of the scene."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from ..data import require_package
from ..runtime import Array, replacing
from .georeference import Georeference
from .outputs import MARK
from .readers.geotiff import class_names_tag

MAPS = (".tif", ".tiff", ".hdr")
UNCLASSIFIED = "Unclassified"
_MOST = np.iinfo(np.uint16).max


def class_map_files(path: Path) -> list[Path]:
    """Return the files of a map: a GeoTIFF and the names of its classes, or an ENVI header and its numbers."""
    if path.suffix.lower() == ".hdr":
        return [path, path.with_suffix(".img")]
    require_package(path, "rasterio", "geo", "a GeoTIFF")
    return [path, path.with_name(f"{path.name}.aux.xml")]


def class_numbers(classes: Sequence[Any], names: Mapping[int, str]) -> list[int]:
    """Return the number of each class in a map: its own, or that of its name, or else the next free one.

    0 is no class.
    """
    by_name = {name: number for number, name in names.items()}
    own = [by_name.get(label, int(label) if str(label).isdecimal() else label) for label in classes]
    numbers = [one if isinstance(one, int) and 0 < one <= _MOST else None for one in own]
    taken = [one for one in numbers if one is not None]
    free = count(1 + max([*taken, *names], default=0))
    found = [next(free) if one is None else one for one in numbers]
    return found if len(set(taken)) == len(taken) and max(found) <= _MOST else list(range(1, len(found) + 1))


def save_class_map(
    path: str | Path,
    predicted: Any,
    classes: Sequence[Any],
    colours: Any,
    names: Mapping[int, str] | None = None,
    georeference: Georeference | None = None,
) -> None:
    """Write the class of each pixel, with names and colours of the classes, as a GeoTIFF or an ENVI classification.

    Parameters
    ----------
    path : str or Path
        ``.tif`` or ``.tiff`` (with rasterio; names of the classes are also in ``.tif.aux.xml``, where GDAL and QGIS
        look for them), or ``.hdr`` (numbers are in ``.img``).
    predicted : array-like of shape (rows, columns)
        Class of each pixel.
    classes : sequence
        All classes. Whole numbers from 1, and classes that ``names`` has, keep their numbers; others get the next free
        ones. 0 is no class.
    colours : array-like of shape (n_classes, 3)
        Red, green and blue of each class, from 0 to 1.
    names : mapping from int to str, optional
        Names of classes by number.
    georeference : Georeference, optional
        That of the scene.

    Examples
    --------
    >>> import tempfile
    >>> from tensormargin.io import load_scene, save_class_map
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_class_map(f"{folder}/map.hdr", [["oats", "corn"]], ["corn", "oats"], [[1, 1, 0], [0, 1, 0]])
    ...     load_scene(f"{folder}/map.hdr").data[..., 0].tolist()
    [[2, 1]]
    """
    path, names = Path(path), names or {}
    numbers = class_numbers(classes, names)
    dtype = np.uint8 if max(numbers) < 256 else np.uint16
    found = np.asarray(predicted)
    pixels = np.zeros(found.shape, dtype)
    legend = [UNCLASSIFIED, *("" for _ in range(max(numbers)))]
    table = np.zeros((len(legend), 3), np.uint8)
    for label, number, colour in zip(classes, numbers, np.asarray(colours), strict=True):
        pixels[found == label] = number
        legend[number] = str(label if isinstance(label, str) else names.get(label, label))
        table[number] = np.rint(255 * colour)
    write = _write_envi if path.suffix.lower() == ".hdr" else _write_geotiff
    write(path, pixels, legend, table, georeference or Georeference())


def _plain(names: Sequence[str]) -> list[str]:
    """Return names without what ends an entry or a list in an ENVI header."""
    return [" ".join(name.translate(str.maketrans(",{}", ";()")).split()) for name in names]


def _write_envi(path: Path, pixels: Array, legend: Sequence[str], colours: Array, where: Georeference) -> None:
    rows, columns = pixels.shape
    fields = {
        "description": "{Class of each pixel, by tensormargin}",
        "samples": columns,
        "lines": rows,
        "bands": 1,
        "header offset": len(MARK),
        "file type": "ENVI Classification",
        "data type": 1 if pixels.dtype == np.uint8 else 12,
        "interleave": "bsq",
        "byte order": 0,
        **where.in_envi(),
        "classes": len(legend),
        "class lookup": f"{{{', '.join(map(str, colours.ravel().tolist()))}}}",
        "class names": f"{{{', '.join(_plain(legend))}}}",
    }
    header, numbers = class_map_files(path)
    with replacing(numbers) as temporary:
        temporary.write_bytes(MARK + pixels.astype(pixels.dtype.newbyteorder("<")).tobytes())
    with replacing(header) as temporary:
        text = "".join(f"{name} = {value}\n" for name, value in fields.items())
        temporary.write_text(f"ENVI\n{text}", encoding="utf-8", newline="\n")


def _write_geotiff(path: Path, pixels: Array, legend: Sequence[str], colours: Array, where: Georeference) -> None:
    import rasterio

    picture, categories = class_map_files(path)
    crs, transform = where.in_geotiff()
    rows, columns = pixels.shape
    about = {"height": rows, "width": columns, "count": 1, "dtype": pixels.dtype, "compress": "deflate"}
    about |= {"crs": crs or None, "transform": rasterio.Affine(*transform) if transform else None}
    with replacing(picture) as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        with rasterio.open(temporary, "w", driver="GTiff", **about) as file:
            file.write(pixels, 1)
            file.write_colormap(1, {number: (*colour, 255) for number, colour in enumerate(colours.tolist())})
            file.update_tags(ns="ENVI", **class_names_tag(_plain(legend)))
        with temporary.open("ab") as written:
            written.write(MARK)
    with replacing(categories) as temporary:
        lines = "".join(f"      <Category>{escape(name)}</Category>\n" for name in legend)
        temporary.write_text(
            f'<PAMDataset>\n  <!-- {MARK.decode()} -->\n  <PAMRasterBand band="1">\n    <CategoryNames>\n{lines}'
            "    </CategoryNames>\n  </PAMRasterBand>\n</PAMDataset>\n",
            encoding="utf-8",
        )
