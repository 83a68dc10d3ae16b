"""Load scenes: a cube of rows, columns and bands, and the class of each pixel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..data import Axes, Axis, BadFileError, FileRules, check_text, parsed_bytes, parsing, require_package
from ..runtime import Array, counted, listed
from .arrays import container_endings, container_kind, open_arrays
from .containers import stored_axes
from .georeference import Georeference, placement
from .labels import clean, describe
from .readers import envi
from .readers.process import call
from .tables import read_table

NO_CLASS = ""  # class of pixels that have none, where classes have names
_PIECE = 2**25  # bytes of rows that are looked at together
_PICTURES = (".tif", ".tiff", ".png")
_TRUTH = ("truth", "gt", "ground_truth", "groundtruth", "labels")
_WAVELENGTHS = ("wavelength", "wavelengths")
_TIFF_REMEDY = "export it with one number per pixel and band; other kinds of TIFF need rasterio: pip install "


@dataclass(frozen=True)
class Scene:
    """A scene and what is known of it.

    Attributes
    ----------
    data : ndarray of shape (rows, columns, bands)
        A read-only memory map for ENVI and ``.npy`` files larger than an eighth of the available memory.
    truth : ndarray of shape (rows, columns) or None
        Class of each pixel, integers or text.
    background : int or str
        Label of unclassified pixels in ``truth``.
    axes : tuple of three Axis
        Row, column and wavelength, the latter with its values if the file has them.
    source : str
        The path as given.
    kind : str
        Kind of the file, in words.
    georeference : Georeference
        Where it lies: that of the cube, or else that of the ground truth.
    class_names : mapping from int to str
        Names of the classes by number, if they have names.
    lacking : ndarray of bool, of shape (rows, columns), or None
        Pixels without data: NaN, infinite or the file's value for no data in a band, or masked. They have no class in
        ``truth`` and get none. None if all pixels have data.
    notes : tuple of str
        Remarks for the user: pixels without data, a ground truth that was moved to the place of the scene.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import Axis
    >>> from tensormargin.io import Scene
    >>> axes = (Axis("row"), Axis("column"), Axis("wavelength", "nm", [500, 600]))
    >>> Scene(np.ones((3, 4, 2)), None, 0, axes, "field.hdr", "ENVI scene").data.shape
    (3, 4, 2)
    """

    data: Array
    truth: Array | None
    background: int | str
    axes: Axes
    source: str
    kind: str
    georeference: Georeference = field(default_factory=Georeference)
    class_names: Mapping[int, str] = field(default_factory=dict)
    lacking: Array | None = None
    notes: tuple[str, ...] = ()

    def named(self, names: Mapping[int, str]) -> Scene:
        """Return the scene with names of its classes; those without a name keep their number, as text."""
        if self.truth is None:
            return replace(self, background=NO_CLASS, class_names=names)
        classes, places = np.unique(self.truth, return_inverse=True)
        texts = [NO_CLASS if one == self.background else names.get(one, str(one)) for one in classes.tolist()]
        truth = np.array(texts)[places.reshape(self.truth.shape)]
        return replace(self, truth=truth, background=NO_CLASS, class_names=names)


@dataclass(frozen=True)
class _Found:
    """Arrays of a file that may be a cube or a ground truth, by name, and what else it says."""

    arrays: Mapping[str, Any]
    kind: str
    axis: Axis = field(default_factory=lambda: Axis("wavelength"))
    class_names: tuple[str, ...] = ()
    georeference: Georeference = field(default_factory=Georeference)
    nodata: float | None = None
    lacking: Array | None = None

    def without_data(self, values: Array) -> Array:
        """Return which entries of an array of the file are not finite, or are its value for no data."""
        with np.errstate(over="ignore"):
            ignored = np.zeros(values.shape, bool) if self.nodata is None else values == self.nodata
        return ignored if values.dtype.kind != "f" else ignored | ~np.isfinite(values)


def load_scene(
    path: str | Path,
    truth: str | Path | None = None,
    *,
    cube: str | None = None,
    truth_name: str | None = None,
    background: int = 0,
    names: Mapping[int, str] | str | None = None,
    max_bytes: int | str | None = None,
    allow_external: bool = False,
) -> Scene:
    """Load a scene, and the class of each pixel if there is a ground truth; nothing is ever unpickled.

    Parameters
    ----------
    path : str or Path
        ENVI (the header ``.hdr`` or the file of numbers beside it), GeoTIFF (with rasterio; without it, plain TIFF with
        one page per band), or a container of arrays: ``.mat``, ``.npy``, ``.npz``, HDF5, Zarr.
    truth : str or Path, optional
        File with the ground truth, of the same kinds or PNG. By default an array of ``path`` with one number per pixel
        is taken, if there is exactly one. If both files say where they lie on earth, it is moved and flipped to the
        pixels of the scene, and refused if it is not on the same grid.
    cube, truth_name : str, optional
        Names of the arrays, where a container has several that could be meant.
    background : int, default=0
        Label of unclassified pixels.
    names : mapping from int to str, or str, optional
        Names of the classes by number, or text or a table of them as `named_classes` reads it; by default those in an
        ENVI header or in a map of `tensormargin predict`. With names, the classes are text.
    max_bytes, allow_external : optional
        See `load_samples`.

    Returns
    -------
    Scene

    Raises
    ------
    BadFileError
        The message names the file, the fault and the remedy.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from tensormargin.io import load_scene
    >>> truth = np.array([[1, 1, 0], [2, 2, 0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/scene.npz", cube=np.ones((2, 3, 5)), truth=truth)
    ...     scene = load_scene(f"{folder}/scene.npz", names="corn, oats")
    >>> scene.data.shape, scene.truth[0].tolist()
    ((2, 3, 5), ['corn', 'corn', ''])
    """
    rules = FileRules(parsed_bytes(max_bytes), allow_external)
    source = Path(path)
    found = _read(source, rules)
    name, data = _cube(source, found, cube)
    axis = found.axis if found.axis.values is None or len(found.axis.values) == data.shape[2] else Axis("wavelength")
    shape, (lacking, notes) = data.shape[:2], _lacking(source, found, data)
    if truth is None:
        other_path, other = source, _classes_only(found, background)
    else:
        other_path, other = Path(truth), _classes_only(_read(Path(truth), rules), background)
        other, moved = _moved(other_path, other, found.georeference, shape, background)
        notes += moved
    pixels = _truth(other_path, other, shape, truth_name, name if truth is None else None, truth is not None)
    if pixels is not None and lacking is not None:
        pixels[lacking] = background
    if names is None:
        names = {number: text for number, text in enumerate(other.class_names) if text}
    where = found.georeference if found.georeference.is_known else other.georeference
    axes = (Axis("row"), Axis("column"), axis)
    scene = Scene(data, pixels, background, axes, str(path), found.kind, where, lacking=lacking, notes=notes)
    names = named_classes(names) if isinstance(names, str) else names
    return scene.named(names) if names else scene


def named_classes(text: str) -> dict[int, str]:
    """Return the names of classes from a table with the columns number and name, or from text separated by commas.

    In text, names are those of the classes 1, 2, ...

    Examples
    --------
    >>> from tensormargin.io import named_classes
    >>> named_classes("corn, oats")
    {1: 'corn', 2: 'oats'}
    """
    path = Path(text)
    if path.suffix.lower() in (".csv", ".tsv") and not path.is_file():
        raise BadFileError(f"{path}: no such file; names of classes (--names) are a table that exists, or a,b,c")
    if not path.suffix or not path.is_file():
        return {number: name.strip() for number, name in enumerate(text.split(","), start=1) if name.strip()}
    columns = read_table(path).columns
    lower = {name.lower(): name for name in columns}
    number = next((lower[one] for one in ("number", "class", "label", "value", "index", "id") if one in lower), None)
    name = next((lower[one] for one in ("name", "class_name", "names") if one in lower), None)
    if number is None or name is None:
        raise BadFileError(
            f"{path}: a table of classes has the columns number and name; its columns are {describe(columns)}. Rename "
            "them"
        )
    try:
        return {int(one): other for one, other in zip(columns[number], columns[name], strict=True)}
    except ValueError as error:
        raise BadFileError(f"{path}: the column {number} must hold whole numbers ({error}); correct them") from error


def is_scene(path: Path, shape: Sequence[int | None], rules: FileRules) -> bool:
    """Return whether a file holds a scene, and not samples, for a model of spectra or patches of this shape."""
    if not is_patch(shape):
        return False
    if container_kind(path) is None:
        return path.is_file() and path.suffix.lower() in (*envi.ENDINGS, ".tif", ".tiff")
    with open_arrays(path, rules=rules) as held:
        likely = [one.shape for one in held.values() if one.is_numeric and len(_without_ones(one.shape)) == 3]
    return shape[-1] != 3 and any(one[-1] == shape[-1] and tuple(one) != tuple(shape) for one in likely)  # 3: colours


def is_patch(shape: Sequence[int | None]) -> bool:
    """Return whether samples of this shape may be the spectra of pixels, or patches of a scene."""
    square = len(shape) == 3 and shape[0] == shape[1] and shape[0] is not None and shape[0] % 2 == 1
    return len(shape) == 1 or square


def patch_size(shape: Sequence[int]) -> int:
    """Return the side of patches of this shape, 1 for spectra."""
    return 1 if len(shape) == 1 else shape[0]


def _read(path: Path, rules: FileRules) -> _Found:
    if not path.exists():
        raise BadFileError(f"{path}: no such file; give the path of one that exists")
    check_text(path, str(path))
    ending = path.suffix.lower()
    if container_kind(path) is None and not path.is_dir():
        rules.check_file(path)
    if ending in envi.ENDINGS or (not ending and path.is_file()):
        with parsing(path, "an ENVI scene", "export it again"):
            header = envi.read_header(path, rules)
            axis = Axis("wavelength", header.unit, header.wavelengths)
            where = Georeference(str(path), header.georeference)
            cube = {"scene": envi.numbers_in(header, rules)}
            return _Found(cube, "ENVI scene", axis, header.class_names, where, header.nodata)
    if ending in _PICTURES:
        return _picture(path, rules)
    kind = container_kind(path)
    if kind is None:
        raise BadFileError(
            f"{path}: unknown kind of scene {ending!r}; give an ENVI scene (.hdr), a GeoTIFF (.tif), or one of "
            f"{container_endings()}"
        )
    with open_arrays(path, rules=rules) as held:
        likely = {name: one for name, one in held.items() if one.is_numeric and len(_without_ones(one.shape)) in (2, 3)}
        cubes = [name for name, one in likely.items() if len(_without_ones(one.shape)) == 3]
        axes = stored_axes(path, held, likely[cubes[0]].shape) if len(cubes) == 1 else None
        by_name = {name.lower(): one for name, one in held.items() if one.is_numeric}
        vectors = [np.ravel(by_name[name].read()) for name in _WAVELENGTHS if name in by_name and axes is None]
        values = vectors[0] if vectors and np.isfinite(vectors[0]).all() else None
        axis = Axis("wavelength", "", values) if axes is None else axes[2]
        return _Found({name: one.read() for name, one in likely.items()}, kind, axis)


def _picture(path: Path, rules: FileRules) -> _Found:
    """Return the bands of a TIFF or PNG file, read by rasterio if it is installed and by Pillow otherwise."""
    if path.suffix.lower() != ".png" and find_spec("rasterio") is not None:
        with parsing(path, "a GeoTIFF file", "export it again"):
            found = call(".geotiff.read_geotiff", path, rules)
        if found:
            axis = Axis("wavelength", envi.unit_of(found["unit"]), found["wavelengths"])
            where = Georeference(str(path), {}, found["crs"], tuple(found["transform"]))
            cube = {"scene": np.moveaxis(found["bands"], 0, -1)}
            names, lacking = tuple(found["class_names"]), found["lacking"]
            return _Found(cube, "GeoTIFF scene", axis, names, where, found["nodata"], lacking)
    require_package(path, "PIL", "cli", "an image")
    with parsing(path, "a TIFF or PNG file with bands", f"{_TIFF_REMEDY}'tensormargin[geo]'"):
        return _Found({"scene": np.moveaxis(call(".pictures.read_pages", path, rules), 0, -1)}, "TIFF scene")


def _without_ones(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _cube(path: Path, found: _Found, name: str | None) -> tuple[str, Array]:
    """Return the name and the values of the cube: the array of this name, or the only one that could be it."""
    cubes = [one for one, array in found.arrays.items() if array.ndim == 3 and array.shape[2] > 1]
    cubes = list(found.arrays) if len(found.arrays) == 1 else cubes
    if name is None and len(cubes) != 1:
        raise BadFileError(
            f"{path}: {len(cubes) or 'none'} of its arrays could be the cube, of rows, columns and bands; it holds "
            f"{_described(found)}. Name the one that is: cube=... (command line: --cube)"
        )
    name = name or cubes[0]
    if name not in found.arrays:
        raise _unknown(path, found, name, "cube", "--cube")
    data = np.asanyarray(found.arrays[name])
    data = data[:, :, None] if data.ndim == 2 else data
    if data.ndim != 3 or 0 in data.shape or data.dtype.kind not in "biuf":
        raise BadFileError(
            f"{path}: a scene has rows, columns and bands of real numbers; {name} is {data.dtype} of shape "
            f"{data.shape}. Name another array: cube=... (command line: --cube)"
        )
    return name, data


def _lacking(path: Path, found: _Found, data: Array) -> tuple[Array | None, tuple[str, ...]]:
    """Return which pixels have no data, None if all have, and a note."""
    lacking = np.zeros(data.shape[:2], bool) if found.lacking is None else np.array(found.lacking)
    empty = np.ones(data.shape[2], bool)
    step = max(1, _PIECE // max(1, data[:1].nbytes))
    if found.nodata is not None or data.dtype.kind == "f":
        for start in range(0, len(data), step):
            entries = found.without_data(data[start : start + step])
            lacking[start : start + step] |= entries.any(axis=2)
            empty &= entries.all(axis=(0, 1))
        if lacking.all():
            bands = listed([str(1 + band) for band in np.flatnonzero(empty).tolist()])
            which = (
                f"the bands {bands} (counted from 1) have data nowhere. Leave them out"
                if empty.any()
                else ("correct its value for no data, or leave out bands that lack it in many places")
            )
            raise BadFileError(f"{path}: a pixel needs data in all bands, and none has them; {which}")
    if not lacking.any():
        return None, ()
    return lacking, (f"{path.name}: {counted(int(lacking.sum()), 'pixel')} without data left out",)


def _classes_only(found: _Found, background: int) -> _Found:
    """Return arrays that may be a ground truth with the background where they have no data."""
    arrays = dict(found.arrays)
    for name, array in arrays.items():
        if array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 1):
            lacking = found.without_data(array)
            if found.lacking is not None:
                lacking |= found.lacking.reshape(lacking.shape)
            arrays[name] = np.where(lacking, background, array) if lacking.any() else array
    return replace(found, arrays=arrays)


def _moved(
    path: Path, found: _Found, scene: Georeference, shape: tuple[int, ...], background: int
) -> tuple[_Found, tuple[str, ...]]:
    """Return a ground truth with its pixels where the scene has them, and a note if they had another place."""
    arrays, notes = dict(found.arrays), []
    for name, array in arrays.items():
        place = placement(scene, shape, found.georeference, array.shape)
        if place is None or (place.words == "" and array.shape[:2] == shape):
            continue
        arrays[name] = place.placed(array, shape, background)
        n_outside = int((array != background).sum() - (arrays[name] != background).sum())
        outside = f"; {counted(n_outside, 'pixel')} with a class outside of the scene left out" if n_outside else ""
        notes.append(f"{path.name}: {place.words or 'cut'} to lie where its georeference puts it{outside}")
    return replace(found, arrays=arrays), tuple(notes)


def _truth(
    path: Path, found: _Found, shape: tuple[int, ...], name: str | None, taken: str | None, needed: bool
) -> Array | None:
    """Return the class of each pixel, None if there is no array for it and none is needed."""
    if name is not None and name not in found.arrays:
        raise _unknown(path, found, name, "ground truth", "--truth-name")
    plain = {one: array for one, array in found.arrays.items() if one != taken}
    plain |= {one: array[:, :, 0] for one, array in plain.items() if array.ndim == 3 and array.shape[2] == 1}
    fitting = [one for one, array in plain.items() if array.shape == shape and (name is None or one == name)]
    named = [one for one in fitting if one.lower() in _TRUTH]
    chosen = fitting if len(fitting) == 1 else named
    if len(chosen) != 1 and (needed or name is not None):
        raise BadFileError(
            f"{path}: the ground truth has one number per pixel of the scene, {shape[0]} x {shape[1]}; "
            f"{len(fitting) or 'none'} of its arrays could be it: {_described(found)}. Name it: truth_name=... "
            "(command line: --truth-name), or give the file that belongs to the scene"
        )
    if len(chosen) != 1:
        return None
    return clean(path, np.ascontiguousarray(plain[chosen[0]]).ravel(), "classes of pixels").reshape(shape)


def _described(found: _Found) -> str:
    return describe({f"{name} {tuple(one.shape)}": None for name, one in found.arrays.items()})


def _unknown(path: Path, found: _Found, name: str, what: str, option: str) -> BadFileError:
    return BadFileError(
        f"{path}: has no array {name!r} for the {what}; it holds {_described(found)}: give one of them ({option})"
    )
