"""Save maps as NIfTI, NumPy, PNG or CSV files."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from ..data import AnyAxes, Axes, Orientation
from ..io import MARK, BadFileError, neutral, replacing, save_array
from .style import axes_or_empty, mode_label, save_png

ENDINGS = (".nii", ".nii.gz", ".npy", ".png", ".csv")
SEVERAL = ("auto", "last", "files", "no")
_DESCRIPTION_BYTES = 79  # of the field "descrip" in the header of a NIfTI file, which ends in a zero byte


def save_map(
    path: str | Path,
    map: Any,
    *,
    affine: Any = None,
    background: Any = None,
    title: str | Sequence[str] | None = None,
    several: str = "auto",
    mode_axes: AnyAxes = None,
    signs: str | Sequence[str] | None = None,
    space: int | Mapping[str, int | None] | None = None,
) -> list[Path]:
    """Write weight maps or activation patterns as NIfTI, ``.npy``, PNG or CSV.

    Parameters
    ----------
    path : str or Path
        The extension sets the format: ``.nii``, ``.nii.gz``, ``.npy``, ``.png``, or ``.csv`` for a table with one row
        per entry: its coordinates (or indices, counted from 0), then its value in each map.
    map : array-like
        One map, or several with the binary problems first, as `weight_maps` and `activation_pattern` return them. Of a
        dictionary of several views, each is written to a file of its own, ``NAME-VIEW.nii.gz``.
    affine : array-like of shape (4, 4), optional
        Maps voxel indices to millimetres. For NIfTI, the identity by default; with it, a PNG shows volumes in standard
        orientation (`plot_volume`). For several views it may be a dictionary.
    background, title : optional
        For PNG: see `plot_map`. With several files, a list of titles, one per file.
    several : {"auto", "last", "files", "no"}, default="auto"
        How several maps are written. "last": one NIfTI image with the problems along the last axis (``.npy`` keeps them
        first). "files": one file each, ``NAME-1.nii.gz`` and so on. "no": ``map`` is a single map. "auto": "last" for
        four axes and a NIfTI file, otherwise "no".
    mode_axes : tuple of Axis, or dictionary of them for several views, optional
        For PNG and CSV: names, units and coordinates of the modes of a map.
    signs : str or sequence of str, optional
        What the signs of a map mean, "positive = house, negative = face"; a list for several maps. It is written
        beside the colours and into the metadata of a PNG file ("Description"), into the header of a NIfTI file
        (``descrip``, 80 bytes; if it is longer, also into a header extension) and of a column in a CSV file.
    space : int, optional
        For NIfTI: the code of the coordinates of the affine, such as 4 for those of MNI152 (`SampleSet` has that of the
        samples). For several views it may be a dictionary.

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
        more: dict[str, Any] = {"background": background, "several": several, "signs": signs}
        several_given = {"affine": affine, "mode_axes": mode_axes, "space": space}
        return [
            file
            for name, own in map.items()
            for file in save_map(view_path(path, name), own, **more, **_of_view(name, title, several_given))
        ]
    if isinstance(mode_axes, Mapping):
        raise ValueError(f"mode_axes by name are those of several views; got one map and {list(mode_axes)}")
    values = np.asarray(map)
    if several not in SEVERAL:
        raise ValueError(f"several must be one of {', '.join(SEVERAL)}; got several={several!r}")
    if several == "auto":
        several = "last" if _is_nifti(path) and values.ndim == 4 else "no"
    if path.suffix.lower() == ".csv":
        _save_csv(path, values[None] if several == "no" else values, mode_axes, title, signs)
        return [path]
    if several == "files" and len(values) > 1:
        check_map_path(path, values.ndim - 1)
        files = [_with(path, str(number)) for number in range(1, len(values) + 1)]
        each = zip(files, values, _per_map(title, len(values)), _per_map(signs, len(values)), strict=True)
        for file, one, own_title, sign in each:
            _save_one(file, one, (affine, space), background, own_title, mode_axes, sign)
        return files
    if several != "no" and len(values) == 1:
        values = values[0]
    elif several == "last" and _is_nifti(path):
        values = np.moveaxis(values, 0, -1)
    check_map_path(path, values.ndim)
    _save_one(path, values, (affine, space), background, _per_map(title, 1)[0], mode_axes, signs)
    return [path]


def _per_map(texts: str | Sequence[str] | None, number: int) -> Sequence[str | None]:
    return [texts] * number if texts is None or isinstance(texts, str) else texts


def view_path(path: str | Path, view: str) -> Path:
    """Return the file for the map of one of several views: ``NAME-VIEW.npy``."""
    return _with(Path(path), re.sub(r"[^A-Za-z0-9_.-]+", "_", view))


def _of_view(name: str, title: str | Sequence[str] | None, by_view: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `save_map` for one of several views, whose name comes first in titles."""
    titles = [f"{name}: {one}" for one in _per_map(title, 1)] if title is not None else [name]
    own = {key: value.get(name) if isinstance(value, Mapping) else value for key, value in by_view.items()}
    return {**own, "title": titles[0] if len(titles) == 1 else titles}


def _with(path: Path, more: str) -> Path:
    """Return a path with something more in its name, ``NAME-MORE.nii.gz``."""
    ending = next((one for one in sorted(ENDINGS, key=len, reverse=True) if path.name.lower().endswith(one)), "")
    place = len(path.name) - len(ending)
    return path.with_name(f"{path.name[:place]}-{more}{path.name[place:]}")


def _save_csv(
    path: Path, maps: Any, axes: Axes | None, title: str | Sequence[str] | None, signs: str | Sequence[str] | None
) -> None:
    """Write one row per entry: where it is, then its value in each of several maps."""
    shape = maps.shape[1:]
    known = axes_or_empty(axes, shape)
    titles = [title] if isinstance(title, str) else list(title or ["value"])
    if len(titles) != len(maps):
        titles = [f"{titles[0]}, map {number + 1}" for number in range(len(maps))]
    meanings = zip(titles, _per_map(signs, len(maps)), strict=True)
    titles = [f"{one} ({sign})" if sign else one for one, sign in meanings]
    places: list[list[str]] = []  # coordinates, or indices
    for axis, size in zip(known, shape, strict=True):
        values = range(size) if axis.values is None else axis.values.tolist()
        places.append([f"{one:.10g}" if axis.is_numeric else neutral(str(one)) for one in values])
    heads = [mode_label(axis, mode) for mode, axis in enumerate(known)]
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(map(neutral, (*heads, *titles)))
        for where, values in zip(product(*places), maps.reshape(len(maps), -1).T, strict=True):
            rows.writerow([*where, *(f"{one:.6g}" for one in values)])


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


def _save_nifti(path: Path, values: Any, place: tuple[Any, Any], signs: Sequence[str]) -> None:
    import nibabel

    affine, space = place
    volume = values.reshape(values.shape + (1,) * (3 - values.ndim)).astype(np.float32)
    make: Any = nibabel.Nifti1Image
    image = make(volume, np.eye(4) if affine is None else np.asarray(affine, np.float64))
    if space:
        image.set_sform(image.affine, space)
        image.set_qform(image.affine, space)
    _describe(image.header, signs)
    image.header["db_name"] = MARK
    with replacing(path) as temporary:
        content = image.to_bytes()
        if path.suffix.lower() == ".gz":
            import gzip

            content = gzip.compress(content, mtime=0)
        temporary.write_bytes(content)


def _describe(header: Any, signs: Sequence[str]) -> None:
    """Write what positive values mean into the header of a NIfTI file, for each volume if there are several."""
    from nibabel.nifti1 import Nifti1Extension

    numbered = [f"volume {number}, {one}" for number, one in enumerate(signs, 1)] if len(signs) > 1 else signs
    text = "; ".join(numbered).encode()
    if len(text) > _DESCRIPTION_BYTES:
        header.extensions.append(Nifti1Extension("comment", text))
        text = text[: _DESCRIPTION_BYTES - 3].decode(errors="ignore").encode() + b"..."
    header["descrip"] = text


def _drawn(values: Any, affine: Any, *, mode_axes: Axes | None, **more: Any) -> Any:
    """Draw a map, a volume with an affine in standard orientation with left and right."""
    from .maps import plot_map
    from .volumes import plot_volume

    if affine is not None and values.ndim == 3:
        with suppress(ValueError):  # of a file that says nothing sensible: shown as any other tensor
            Orientation.of(affine, values.shape)
            return plot_volume(values, affine, **more)
    return plot_map(values, mode_axes=mode_axes, **more)


def _save_one(
    path: Path, values: Any, place: tuple[Any, Any], background: Any, title: str | None, axes: Axes | None, signs: Any
) -> None:
    """Write a map as NIfTI, as ``.npy``, or as a figure; ``place`` is its affine and the code of its coordinates."""
    meanings = [signs] if isinstance(signs, str) else list(signs or [])
    if _is_nifti(path):
        return _save_nifti(path, values, place, meanings)
    if path.suffix.lower() == ".npy":
        with replacing(path) as temporary, temporary.open("wb") as file:
            return save_array(file, values)
    drawn = _drawn(values, place[0], background=background, title=title, label="; ".join(meanings), mode_axes=axes)
    known = {name: text for name, text in (("Title", title), ("Description", "; ".join(meanings))) if text}
    with replacing(path) as temporary:
        save_png(temporary, drawn, known)
    return None
