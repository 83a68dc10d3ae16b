"""Save maps as NIfTI, NumPy or PNG files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..io import BadFileError, replacing

ENDINGS = (".nii", ".nii.gz", ".npy", ".png")
SEVERAL = ("auto", "last", "files", "no")


def save_map(
    path: str | Path,
    map: Any,
    *,
    affine: Any = None,
    background: Any = None,
    title: str | Sequence[str] | None = None,
    several: str = "auto",
) -> list[Path]:
    """Write weight maps or activation patterns as NIfTI, ``.npy`` or PNG.

    Parameters
    ----------
    path : str or Path
        The extension sets the format: ``.nii``, ``.nii.gz``, ``.npy`` or ``.png``.
    map : array-like
        One map, or several with the binary problems first, as `weight_maps` and `activation_pattern` return them. Of a
        dictionary of several views, each is written to a file of its own, ``NAME-VIEW.nii.gz``.
    affine : array-like of shape (4, 4), optional
        For NIfTI: maps voxel indices to millimetres; the identity by default. For several views it may be a dictionary.
    background, title : optional
        For PNG: see `plot_map`. With several files, a list of titles, one per file.
    several : {"auto", "last", "files", "no"}, default="auto"
        How several maps are written. "last": one NIfTI image with the problems along the last axis (``.npy`` keeps them
        first). "files": one file each, ``NAME-1.nii.gz`` and so on. "no": ``map`` is a single map. "auto": "last" for
        four axes and a NIfTI file, otherwise "no".

    Returns
    -------
    list of Path
        The files written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from tensormargin import save_map
    >>> maps = np.random.default_rng(0).standard_normal((1, 8, 9))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save_map(f"{folder}/weight.npy", maps)]
    ['weight.npy']
    """
    path = Path(path)
    if isinstance(map, Mapping):
        files = {name: view_path(path, name) for name in map}
        affines = affine if isinstance(affine, Mapping) else dict.fromkeys(map, affine)
        options = {"background": background, "several": several}
        parts = [
            save_map(files[name], own, affine=affines.get(name), title=_of_view(title, name), **options)
            for name, own in map.items()
        ]
        return [file for part in parts for file in part]
    values = np.asarray(map)
    if several not in SEVERAL:
        raise ValueError(f"several must be one of {', '.join(SEVERAL)}; got several={several!r}")
    if several == "auto":
        several = "last" if _is_nifti(path) and values.ndim == 4 else "no"
    if several == "files" and len(values) > 1:
        check_map_path(path, values.ndim - 1)
        return _save_each(path, values, affine, background, title)
    if several != "no" and (len(values) == 1 or several == "files"):
        values = values[0]
    elif several == "last" and _is_nifti(path):
        values = np.moveaxis(values, 0, -1)
    check_map_path(path, values.ndim)
    _save_one(path, values, affine, background, title if title is None or isinstance(title, str) else title[0])
    return [path]


def view_path(path: str | Path, view: str) -> Path:
    """Return the file for the map of one of several views: ``NAME-VIEW.npy``."""
    stem, ending = _split(Path(path))
    return Path(path).with_name(f"{stem}-{re.sub(r'[^A-Za-z0-9_.-]+', '_', view)}{ending}")


def _of_view(title: str | Sequence[str] | None, view: str) -> str | list[str] | None:
    """Return titles with the name of a view in front."""
    if title is None:
        return view
    return f"{view}: {title}" if isinstance(title, str) else [f"{view}: {one}" for one in title]


def _split(path: Path) -> tuple[str, str]:
    """Return the name of a file without its ending, and the ending."""
    ending = next((one for one in sorted(ENDINGS, key=len, reverse=True) if path.name.lower().endswith(one)), "")
    return path.name[: len(path.name) - len(ending)], path.name[len(path.name) - len(ending) :]


def _save_each(path: Path, maps: Any, affine: Any, background: Any, title: Any) -> list[Path]:
    stem, ending = _split(path)
    titles = [title] * len(maps) if title is None or isinstance(title, str) else title
    files = [path.with_name(f"{stem}-{number}{ending}") for number in range(1, len(maps) + 1)]
    for file, one, name in zip(files, maps, titles, strict=True):
        _save_one(file, one, affine, background, name)
    return files


def _save_one(path: Path, values: Any, affine: Any, background: Any, title: str | None) -> None:
    if _is_nifti(path):
        _save_nifti(path, values, affine)
    elif path.suffix.lower() == ".npy":
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.save(file, values)
    else:
        _save_png(path, values, background, title)


def check_map_path(path: str | Path, n_axes: int) -> None:
    """Raise `BadFileError` if a map with ``n_axes`` axes cannot be written to this path; call before computing it.

    Examples
    --------
    >>> from tensormargin.plots import check_map_path
    >>> check_map_path("weight.nii.gz", n_axes=3)
    """
    if not Path(path).name.lower().endswith(ENDINGS):
        raise BadFileError(f"{path}: a map is written as {', '.join(ENDINGS)}; give a name with one of these endings")
    if _is_nifti(path):
        if n_axes > 4:
            raise BadFileError(f"{path}: a NIfTI map has at most four axes; this one has {n_axes}. Write it as .npy")
        if find_spec("nibabel") is None:
            raise BadFileError(f"{path}: writing NIfTI needs nibabel; pip install 'tensormargin[neuro]'")


def _is_nifti(path: str | Path) -> bool:
    return Path(path).name.lower().endswith((".nii", ".nii.gz"))


def _save_nifti(path: Path, values: Any, affine: Any) -> None:
    import nibabel

    volume = values.reshape(values.shape + (1,) * (3 - values.ndim)).astype(np.float32)
    make: Any = nibabel.Nifti1Image
    image = make(volume, np.eye(4) if affine is None else np.asarray(affine, np.float64))
    with replacing(path) as temporary:
        content = image.to_bytes()
        if path.suffix.lower() == ".gz":
            import gzip

            content = gzip.compress(content, mtime=0)
        temporary.write_bytes(content)


def _save_png(path: Path, values: Any, background: Any, title: str | None) -> None:
    import matplotlib.pyplot as plt

    from .maps import plot_map

    axes = plot_map(values, background=background, title=title)
    figure = axes[0].figure
    try:
        with replacing(path) as temporary:
            figure.savefig(temporary, format="png", dpi=150)
    finally:
        plt.close(figure)
