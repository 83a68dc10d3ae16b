"""GeoTIFF scenes, with rasterio. Runs in the reader process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import rasterio

from ...data import BadFileError, FileRules
from ...runtime import quoted
from .messages import Array

_MOST_BANDS = 100_000


def read_bands(path: Path, rules: FileRules) -> tuple[Array, list[float] | None, str]:
    """Return the bands along the first axis, and wavelengths with their unit if every band states one."""
    # Only the file itself: no files beside it, no other formats that lead to files elsewhere.
    settings = {"GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR", "GDAL_PAM_ENABLED": "NO", "GDAL_NUM_THREADS": "1"}
    with rasterio.Env(**settings), rasterio.open(path.resolve(), driver="GTiff", sharing=False) as scene:
        kinds = {np.dtype(kind) for kind in scene.dtypes}
        if any(kind.kind not in "biuf" for kind in kinds) or not 0 < scene.count <= _MOST_BANDS:
            raise BadFileError(
                f"{path}: must hold 1 to {_MOST_BANDS} bands of real numbers, has {scene.count} of "
                f"{quoted(', '.join(map(str, kinds)))}; export the magnitude of complex ones"
            )
        per_entry = max(kind.itemsize for kind in kinds)
        rules.admit(path, scene.count * scene.height * scene.width * per_entry, "the scene")
        wavelengths, unit = _wavelengths(scene)
        return scene.read(), wavelengths, unit


def _wavelengths(scene: Any) -> tuple[list[float] | None, str]:
    found, units = [], set()
    for band in range(1, scene.count + 1):
        tags = {name.lower(): text for name, text in scene.tags(band).items()}
        try:
            found.append(float(tags["wavelength"]))
        except (KeyError, ValueError):
            return None, ""
        units.add(tags.get("wavelength_units", tags.get("wavelength_unit", "")).strip().lower())
    return (found, units.pop()) if len(units) == 1 and np.isfinite(found).all() else (None, "")
