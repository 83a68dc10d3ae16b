"""Samples stored as one file each: images, NIfTI volumes and arrays, in class folders or listed in a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import takewhile
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data import (
    DEFAULT_RULES,
    BadFileError,
    FileRules,
    check_inside,
    check_regular,
    check_text,
    format_shape,
    parsing,
    require_package,
    shape_of_samples,
    turned_to,
    vector_of,
)
from ..runtime import Array, counted, listed
from ..transformers import resize
from .arrays import ONLY, Missing, check_samples, plain_numbers, read_arrays
from .lazy import Chunks, along, lazily, samples_per_chunk
from .readers.files import IMAGE_WORDS, NIFTI, NIFTI_WORDS
from .readers.process import ParserFailedError, call

_WORDS = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".tif", ".tiff"), "images"),
    **dict.fromkeys(NIFTI, "NIfTI volumes"),
    ".npy": "arrays",
}
_LENGTHS = ", or ragged=True for EqualLength (`tensormargin fit --length resample`) to give them one length"
_FILES_AT_ONCE = 100  # most files that one task reads, however small they are
_FILES_PER_MESSAGE = 256  # most files that the reader process reads before it answers


def file_words(name: str) -> str | None:
    """Return the kind of a sample file ("images", "NIfTI volumes", "arrays"), None for other files."""
    return next((words for ending, words in _WORDS.items() if name.lower().endswith(ending)), None)


def words_for(names: Sequence[str]) -> str:
    """Return the kind of these sample files, "files" if they differ."""
    kinds = {file_words(name) for name in names}
    return str(kinds.pop()) if len(kinds) == 1 else "files"


def known_endings() -> str:
    """Return the extensions of sample files."""
    return ", ".join(_WORDS)


class Stack(NamedTuple):
    """Sample files, read into one array."""

    data: Array
    affine: Array | None
    notes: list[str]


def read_stack(
    folder: Path,
    names: Sequence[str],
    size: Sequence[int] | None,
    ragged: bool = False,
    rules: FileRules = DEFAULT_RULES,
) -> Stack:
    """Return the samples of several files in one array, allocated once from the first file's shape.

    Parameters
    ----------
    folder : Path
    names : sequence of str
        Paths of the files, relative to the folder.
    size : sequence of int, optional
        New size of the first axes of every file.
    ragged : bool, default=False
        Whether the samples may differ in the length of a mode; they are then a vector of arrays.
    rules : FileRules, optional
    """
    told: dict[str, list[str]] = {}
    files = _read_each(folder, names, size, rules, told=told)
    first, affine = next(files)
    rules.admit(folder, len(names) * first.nbytes, f"its {len(names)} samples of shape {first.shape}", stored=-1)
    data = np.empty((len(names), *first.shape), first.dtype)
    data[0] = first
    elsewhere = []
    for position, (name, (sample, its_affine)) in enumerate(zip(names[1:], files, strict=True), start=1):
        if ragged and sample.ndim == first.ndim and sample.shape != first.shape:
            return _read_ragged(folder, names, [*data[:position], sample], files)
        _check_shape(folder / names[0], first.shape, folder / name, sample.shape)
        if not np.can_cast(sample.dtype, data.dtype):
            data = data.astype(np.promote_types(sample.dtype, data.dtype))
        data[position] = sample
        if affine is not None and its_affine is not None and not np.allclose(affine, its_affine):
            elsewhere.append(name)
    notes = []
    if data.dtype != first.dtype:
        notes.append(f"the files hold numbers of different types, all of which became {data.dtype}")
    notes += [note(told[what], names[0]) for what, note in _NOTES.items() if what in told]
    if elsewhere:
        count = counted(len(elsewhere), "file")
        notes.append(f"{count} whose affine differs from that of {names[0]}, which is used, e.g. {elsewhere[0]}")
    return Stack(data, affine, notes)


def turned_note(turned: Sequence[str], first: str) -> str:
    """Return which files were turned to the orientation of the first one, in words."""
    has, was = ("has", "was") if len(turned) == 1 else ("have", "were")
    return f"{listed(turned, 4)} {has} another orientation than {first}, and {was} turned to its"


def _opaque_note(files: Sequence[str], first: str) -> str:
    return f"transparency that is the same everywhere was left out in {counted(len(files), 'image')}, e.g. {files[0]}"


def _transparent_note(files: Sequence[str], first: str) -> str:
    return f"{counted(len(files), 'image')} with transparent parts, put on white, e.g. {files[0]}"


_TURNED = "turned"
_NOTES = {_TURNED: turned_note, "opaque": _opaque_note, "transparent": _transparent_note}
"""Notes on files, by what became of them as `readers.pictures` and `_read_each` call it."""


def oriented(path: Path, values: Any, affine: Any, reference: Any, first: int = 0) -> tuple[Any, Any]:
    """Return the volumes of a file turned to the orientation of another affine; raise `BadFileError` if they cannot be.

    ``first`` is the first of the three modes of space.
    """
    if np.allclose(affine, reference):
        return values, affine
    try:
        return turned_to(values, affine, reference, first)
    except ValueError as error:
        raise BadFileError(
            f"{path}: its orientation cannot be compared with that of the other volumes: {error}. Correct the affine, "
            "or write the files again in one orientation"
        ) from error


def _read_ragged(folder: Path, names: Sequence[str], known: list[Array], rest: Iterator[_Sample]) -> Stack:
    """Return files that differ in length, the first of them known, as a vector; an affine would not fit them all."""
    samples = [*known, *(sample for sample, _ in rest)]
    for name, sample in zip(names, samples, strict=True):
        if sample.ndim != samples[0].ndim:
            _check_shape(folder / names[0], samples[0].shape, folder / name, sample.shape)
    data = vector_of(samples)
    return Stack(data, None, [f"the files differ in length: samples of {format_shape(shape_of_samples(data))}"])


def stack_bytes(folder: Path, names: Sequence[str], size: Sequence[int] | None, rules: FileRules) -> int:
    """Return the size of the samples of several files in memory, all like the first one."""
    return len(names) * next(_read_each(folder, names[:1], size, rules))[0].nbytes


def lazy_stack(
    folder: Path,
    names: Sequence[str],
    size: Sequence[int] | None,
    chunks: Chunks,
    rules: FileRules,
    missing: Missing = False,
) -> Stack:
    """Return the samples of several files as a Dask array, with a few files per task.

    Only the first file is read now; the others are checked against its shape and type when they are read.

    Parameters
    ----------
    folder : Path
    names : sequence of str
        Paths of the files, relative to the folder.
    size : sequence of int, optional
        New size of the first axes of every file.
    chunks : int or str
    rules : FileRules
    missing : optional
        See `check_samples`.
    """
    first, affine = next(_read_each(folder, names[:1], size, rules))
    folder = folder.resolve()
    read = partial(_read_alike, folder, size, rules, missing, folder / names[0], first.shape, first.dtype, affine)
    per = samples_per_chunk(chunks, first.nbytes, at_most=_FILES_AT_ONCE)
    notes = [f"the affine is that of {names[0]}; files in another orientation are turned to its when they are read"]
    data = lazily(read, np.array(names, object), (len(names), *first.shape), first.dtype, per)
    return Stack(data, affine, [] if affine is None or len(names) == 1 else notes)


def _read_alike(
    folder: Path,
    size: Sequence[int] | None,
    rules: FileRules,
    missing: Missing,
    first_path: Path,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    affine: Array | None,
    names: Sequence[str],
) -> Array:
    """Return the samples of some files, which must have the shape and type of the first one."""
    data = np.empty((len(names), *shape), dtype)
    files = _read_each(folder, list(names), size, rules, affine)
    for position, (name, (sample, _)) in enumerate(zip(names, files, strict=True)):
        _check_shape(first_path, shape, folder / name, sample.shape)
        if not np.can_cast(sample.dtype, dtype):
            raise BadFileError(
                f"{folder / name}: holds {sample.dtype}, which {dtype}, the type of {first_path}, does not hold "
                "exactly; convert the files to one type, or load them without lazy=True, which finds a common one"
            )
        data[position] = sample
        check_samples(folder / name, data[position : position + 1], "it", missing)
    return data


def _check_shape(first_path: Path, first: tuple[int, ...], path: Path, shape: tuple[int, ...]) -> None:
    if shape == first:
        return
    lengths = "" if sum(one != other for one, other in zip(first, shape, strict=False)) > 1 else _LENGTHS
    remedy = (
        f"give size=... (command line: --size), e.g. {'x'.join(map(str, first[:3]))}, to resize them{lengths}"
        if len(shape) == len(first)
        else "convert them to one kind: greyscale or colour, images or volumes"
    )
    raise BadFileError(
        f"{path}: has the shape {shape}, but {first_path} has {first}; all samples must have one shape: {remedy}"
    )


_Sample = tuple[Array, Array | None]
"""The sample of a file, and its affine if it has one."""


def _read_each(
    folder: Path,
    names: Sequence[str],
    size: Sequence[int] | None,
    rules: FileRules,
    reference: Array | None = None,
    told: dict[str, list[str]] | None = None,
) -> Iterator[_Sample]:
    """Yield the samples of files, resized if asked for, with their affines.

    Volumes are turned to the orientation of the ``reference``, by default that of the first of them. ``told`` gets the
    names of those that had another one ("turned"), and of images without their transparency.
    """
    done = 0
    told = {} if told is None else told
    while done < len(names):
        in_other_process = _native_files(folder, names[done:])
        if in_other_process:
            found = _read_some(folder, in_other_process, rules)
        else:
            found = [(_read_array(folder / names[done], rules), None, None)]
        for name, (sample, affine, became) in zip(names[done:], found, strict=False):
            if file_words(name) == "NIfTI volumes":
                sample = _volume(folder / name, sample)
                stored, reference = sample, affine if reference is None else reference
                sample, affine = oriented(folder / name, stored, affine, reference)
                became = None if sample is stored else _TURNED
            if became is not None:
                told.setdefault(became, []).append(name)
            yield (sample, affine) if size is None else _resized(folder / name, sample, affine, size, rules)
        done += len(found)


def _native_files(folder: Path, names: Sequence[str]) -> list[str]:
    """Return the first names up to the first array: images and volumes, which another process reads."""
    found = list(takewhile(lambda name: file_words(name) != "arrays", names[:_FILES_PER_MESSAGE]))
    if any(file_words(name) == "NIfTI volumes" for name in found):
        require_package(folder / found[0], "nibabel", "neuro", "a NIfTI file")
    return found


def _read_some(folder: Path, names: list[str], rules: FileRules) -> list[tuple[Array, Array | None, str | None]]:
    """Return the samples of the first of these files; if a parser fails, find the file that it fails on."""
    try:
        return list(zip(*call(".files.read_some", folder, names, rules), strict=True))
    except ParserFailedError:
        found: list[tuple[Array, Array | None, str | None]] = []
        for name in names:
            with parsing(folder / name, *(NIFTI_WORDS if file_words(name) == "NIfTI volumes" else IMAGE_WORDS)):
                found += zip(*call(".files.read_some", folder, [name], rules), strict=True)
        return found


def _resized(path: Path, sample: Array, affine: Array | None, size: Sequence[int], rules: FileRules) -> _Sample:
    if not 0 < len(size) <= sample.ndim or min(size) < 1:
        raise BadFileError(
            f"{path}: has the shape {sample.shape}, which cannot be resized to {'x'.join(map(str, size))}; size "
            "(command line: --size) must give a positive length for each axis, without the colours"
        )
    shape = (*size, *sample.shape[len(size) :])
    rules.admit(path, prod(shape) * 8, f"a sample of size {'x'.join(map(str, size))}", stored=-1)
    resized = resize(sample, tuple(size))
    return resized, None if affine is None else affine @ _stretch(sample.shape, resized.shape)


def _stretch(before: Sequence[int], after: Sequence[int]) -> Array:
    """Return the affine from the indices of the resized grid to those of the file; both grids span the same box."""
    steps = np.array(before[:3]) / np.array(after[:3])
    stretch = np.diag([*steps, 1.0])
    stretch[:3, 3] = (steps - 1) / 2
    return stretch


def _read_array(path: Path, rules: FileRules) -> Array:
    array = read_arrays(path, (ONLY,), rules)[ONLY]
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        raise BadFileError(f"{path}: must hold an array of real numbers; write it with numpy.save(path, array)")
    return array


def _volume(path: Path, values: Array) -> Array:
    if any(length > 1 for length in values.shape[3:]):
        raise BadFileError(
            f"{path}: has {values.ndim} axes {values.shape}, but a file that is one sample must be a volume with "
            "three; split it, or load the 4-D file by itself, with labels_from=... (command line: --labels-from)"
        )
    return values.reshape(values.shape[:3])


def read_nifti(path: Path, rules: FileRules) -> tuple[Array, Array]:
    """Return the values of a NIfTI file (float32, scaled according to its header) and its affine."""
    return _read_part(path, (), rules)


def turned_shape(path: Path, reference: Path, rules: FileRules) -> tuple[int, ...]:
    """Return the shape that the volumes of a NIfTI file have in the orientation of another one."""
    shape, affine, _ = _from_nifti(path, "read_header", rules)
    _, other, _ = _from_nifti(reference, "read_header", rules)
    if len(shape) < 3:
        return tuple(shape)
    return tuple(oriented(path, np.broadcast_to(0, shape), affine, other)[0].shape)


def nifti_shape(path: Path, rules: FileRules) -> tuple[int, ...]:
    """Return the shape of a NIfTI file, without axes of length 1 after the third."""
    shape = _from_nifti(path, "read_header", rules)[0]
    return tuple(shape[:3]) if all(size == 1 for size in shape[3:]) else tuple(shape)


def nifti_tr(path: Path, rules: FileRules) -> float | None:
    """Return the repetition time in seconds that the header of a 4-D NIfTI file states; None if it is not plausible."""
    found: float | None = _from_nifti(path, "read_header", rules)[2]
    return found


def lazy_nifti(path: Path, chunks: Chunks, rules: FileRules, missing: Missing = False) -> tuple[Any, Array]:
    """Return the values of a NIfTI file as a Dask array with chunks along the last axis, and its affine."""
    shape, affine, _ = _from_nifti(path, "read_header", rules)
    read = partial(_read_volumes, path.resolve(), len(shape), rules, missing)
    dtype = np.dtype(np.float32)
    per = samples_per_chunk(chunks, dtype.itemsize * prod(shape[:-1]))
    return lazily(read, np.arange(shape[-1]), shape, dtype, per, len(shape) - 1, must_be_read_whole(path)), affine


def must_be_read_whole(path: Path) -> bool:
    """Return whether the volumes of a NIfTI file cannot be read one by one."""
    return path.name.lower().endswith(".gz")


def _read_volumes(path: Path, order: int, rules: FileRules, missing: Missing, rows: Array) -> Array:
    volumes, _ = _read_part(path, along(order - 1, order, rows), rules)
    check_samples(path, np.moveaxis(volumes, -1, 0), "the array of samples", missing, first=int(rows[0]))
    return volumes


def _read_part(path: Path, where: tuple[slice, ...], rules: FileRules) -> tuple[Array, Array]:
    """Return values of a NIfTI file as float32, and its affine."""
    found, affine = _from_nifti(path, "find_volume", where, rules)
    if not isinstance(found, np.ndarray):
        with parsing(path, *NIFTI_WORDS):
            begin, dtype, shape = found
            found = plain_numbers(path, begin, dtype, shape, where, order="F")
    return found.astype(np.float32, copy=False), affine


def _from_nifti(path: Path, function: str, *arguments: Any) -> Any:
    """Return the result of a function of `readers.volumes`."""
    require_package(path, "nibabel", "neuro", "a NIfTI file")
    check_regular(path)
    with parsing(path, *NIFTI_WORDS):
        return call(f".volumes.{function}", path, *arguments)


class Listing(NamedTuple):
    """The sample files of a folder, with the names of their class folders (None for a flat folder)."""

    names: list[str]
    labels: list[str] | None
    notes: list[str]


def list_folder(folder: Path, flat: bool, rules: FileRules) -> Listing:
    """Return the sample files of a folder with one subfolder per class, sorted by name.

    Parameters
    ----------
    folder : Path
    flat : bool
        Whether the files may also be in the folder itself, without labels.
    rules : FileRules
    """
    top = _visible(folder)
    classes = {each: _visible(each) for each in top if each.is_dir()}
    inside = [path for content in classes.values() for path in content]
    in_classes, direct = ([path for path in paths if _is_sample(path)] for paths in (inside, top))
    files = in_classes or (direct if flat else [])
    if not files:
        raise _no_samples(folder, direct)
    names = [path.relative_to(folder).as_posix() for path in files]
    _check_listed(folder, files, names, rules)
    other = [path for path in (*top, *inside) if path.is_file() and not _is_sample(path)]
    empty = [each for each, content in classes.items() if not any(map(_is_sample, content))]
    notes = [
        *_left_out(folder, other, "file", "of other kinds"),
        *_left_out(folder, direct if in_classes else [], "file", "outside the class folders"),
        *_left_out(folder, [path for path in inside if path.is_dir()], "folder", "inside class folders"),
        *_left_out(folder, empty, "folder", "without samples"),
    ]
    labels = [path.parent.name for path in files] if in_classes else None
    return Listing(names, labels, notes)


def _check_listed(folder: Path, files: Sequence[Path], names: Sequence[str], rules: FileRules) -> None:
    """Raise `BadFileError` for sample files with unusable names, and for links that lead out of the folder."""
    root = folder.resolve()
    linked = {parent for parent in {path.parent for path in files} if parent.is_symlink()}
    for path, name in zip(files, names, strict=True):
        check_text(path, name)
        if path.is_symlink() or path.parent in linked:
            check_inside(path, root, rules, str(path))


def _visible(folder: Path) -> list[Path]:
    return sorted((path for path in folder.iterdir() if not path.name.startswith(".")), key=lambda path: path.name)


def _is_sample(path: Path) -> bool:
    return path.is_file() and file_words(path.name) is not None


def _no_samples(folder: Path, direct: Sequence[Path]) -> BadFileError:
    if direct:
        return BadFileError(
            f"{folder}: has {counted(len(direct), 'file')}, but no class folders: put the files of every class into a "
            "subfolder with its name, or give labels_from=... (command line: --labels-from)"
        )
    return BadFileError(
        f"{folder}: holds no samples; it must have one subfolder per class, with files of these kinds: "
        f"{known_endings()}"
    )


def _left_out(folder: Path, paths: Sequence[Path], noun: str, which: str) -> list[str]:
    if not paths:
        return []
    verb = "was" if len(paths) == 1 else "were"
    return [f"{counted(len(paths), noun)} {which} {verb} left out, e.g. {paths[0].relative_to(folder).as_posix()}"]
