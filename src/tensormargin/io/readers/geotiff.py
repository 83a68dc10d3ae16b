"""GeoTIFF scenes, and where scenes lie in the words of GeoTIFF and ENVI, by rasterio. Runs in the reader process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ...data import BadFileError, FileRules
from ...runtime import quoted
from .envi import GEOREFERENCE, fields_of, listed_texts

_MOST_BANDS = 100_000
_NAMES = "class_names"  # as GDAL names this field of ENVI headers
_ONE_PIXEL = """ENVI
samples = 1
lines = 1
bands = 1
header offset = 0
data type = 1
interleave = bsq
byte order = 0
"""


@contextmanager
def _opened(path: Path, driver: str, beside: str = "EMPTY_DIR") -> Iterator[Any]:
    """Open the file itself: no files beside it unless TRUE, no other formats that lead to files elsewhere."""
    import rasterio

    settings = {"GDAL_DISABLE_READDIR_ON_OPEN": beside, "GDAL_PAM_ENABLED": "NO", "GDAL_NUM_THREADS": "1"}
    with rasterio.Env(**settings), rasterio.open(path.resolve(), driver=driver, sharing=False) as file:
        yield file


def read_geotiff(path: Path, rules: FileRules) -> dict[str, Any]:
    """Return the bands along the first axis, wavelengths with their unit if every band states one, and the rest.

    That is ``class_names`` as `save_class_map` writes them, coordinate system (WKT), transform, and what says which
    pixels have no data. Returns nothing for a plain TIFF with several pages, of which rasterio reads one.
    """
    with _opened(path, "GTiff") as scene:
        if len(scene.subdatasets) > 1:
            return {}
        kinds = {np.dtype(kind) for kind in scene.dtypes}
        if any(kind.kind not in "biuf" for kind in kinds) or not 0 < scene.count <= _MOST_BANDS:
            raise BadFileError(
                f"{path}: must hold 1 to {_MOST_BANDS} bands of real numbers, has {scene.count} of "
                f"{quoted(', '.join(map(str, kinds)))}; export the magnitude of complex ones"
            )
        per_entry = max(kind.itemsize for kind in kinds)
        rules.admit(path, scene.count * scene.height * scene.width * per_entry, "the scene")
        crs, transform = _place_of(scene)
        return {
            "bands": scene.read(),
            **_wavelengths(scene),
            "class_names": listed_texts(scene.tags(ns="ENVI").get(_NAMES, "")),
            "crs": crs,
            "transform": transform,
            "nodata": scene.nodata,
            "lacking": _masked(scene),
        }


def _masked(scene: Any) -> Any:
    """Return which pixels a mask of the whole file leaves out; None without a mask."""
    from rasterio.enums import MaskFlags

    flags = scene.mask_flag_enums[0]
    return scene.read_masks(1) == 0 if MaskFlags.per_dataset in flags and MaskFlags.alpha not in flags else None


def _wavelengths(scene: Any) -> dict[str, Any]:
    found, units = [], set()
    for band in range(1, scene.count + 1):
        tags = {name.lower(): text for name, text in scene.tags(band).items()}
        with suppress(KeyError, ValueError):
            found.append(float(tags["wavelength"]))
            units.add(tags.get("wavelength_units", tags.get("wavelength_unit", "")).strip().lower())
    known = len(found) == scene.count and len(units) == 1 and bool(np.isfinite(found).all())
    return {"wavelengths": found if known else None, "unit": units.pop() if known else ""}


def _place_of(file: Any) -> tuple[str, list[float]]:
    """Return the coordinate system, "" if it is unknown, and the transform, [] if there is none."""
    crs, transform = file.crs, list(file.transform)[:6]
    known = crs is not None and (crs.is_geographic or crs.is_projected)
    return crs.to_wkt() if known else "", [] if file.transform.is_identity else transform


def place_in_envi(path: Path, crs: str, transform: Sequence[float]) -> dict[str, str]:
    """Return the fields of an ENVI header for a place on earth; none if they could not say it exactly (shear)."""
    import rasterio

    with TemporaryDirectory() as folder:
        numbers = Path(folder, "place.img")
        about = {"width": 1, "height": 1, "count": 1, "dtype": "uint8", "crs": crs or None}
        with rasterio.open(numbers, "w", driver="ENVI", **about, transform=rasterio.Affine(*transform)) as file:
            file.write(np.zeros((1, 1, 1), np.uint8))
        found = fields_of(numbers.with_suffix(".hdr"))
    fields = {name: found[name] for name in GEOREFERENCE if name in found}
    size = max(map(abs, (*transform[:2], *transform[3:5])))
    same = np.allclose(place_in_geotiff(path, fields)[1], transform, rtol=1e-9, atol=1e-6 * size)
    return fields if same else {}


def place_in_geotiff(path: Path, fields: Mapping[str, str]) -> tuple[str, list[float]]:
    """Return coordinate system (WKT) and transform for the fields of an ENVI header."""
    with TemporaryDirectory() as folder:
        numbers = Path(folder, "place.img")
        numbers.write_bytes(bytes(16))  # GDAL takes no shorter file
        lines = "".join(f"{name} = {text}\n" for name, text in fields.items())
        numbers.with_suffix(".hdr").write_text(_ONE_PIXEL + lines, encoding="utf-8")
        with _opened(numbers, "ENVI", beside="TRUE") as file:
            return _place_of(file)


def same_system(path: Path, first: str, second: str) -> bool:
    """Return whether two coordinate systems (WKT) are the same one in other words."""
    import rasterio

    with rasterio.Env():
        return bool(rasterio.CRS.from_wkt(first) == rasterio.CRS.from_wkt(second))


def class_names_tag(names: Sequence[str]) -> dict[str, str]:
    """Return the tag of a GeoTIFF that holds the names of the classes 0, 1, ..., for the domain "ENVI"."""
    return {_NAMES: f"{{{', '.join(names)}}}"}
