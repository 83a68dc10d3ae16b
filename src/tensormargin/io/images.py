"""Samples stored as one file each: images, NIfTI volumes and arrays, in class folders or listed in a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..data import (
    BadFileError,
    FileRules,
    axes_of_picture,
    axes_of_volume,
    check_text,
    format_shape,
    parsing,
    require_package,
    shape_of_samples,
    vector_of,
)
from ..runtime import Array, counted, listed, quoted, tuning
from ..transformers import resize
from .arrays import ONLY, Missing, check_samples, read_arrays
from .checksums import check_sha256
from .labels import PATHS, choose_columns, choose_entry, describe, from_text
from .lazy import chunks_for, in_parts, lazily, samples_per_chunk, stays_in_files
from .options import BLOCKS, FILE_TABLE, FOLDER, ONE_FILE, Lazy, Request
from .readers.entries import IMAGE_WORDS, NIFTI, NIFTI_WORDS
from .readers.process import ParserFailedError, call
from .samples import SampleSet
from .tables import read_table
from .volumes import oriented, turned_note

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


def _words_for(names: Sequence[str]) -> str:
    """Return the kind of these sample files, "files" if they differ."""
    kinds = {file_words(name) for name in names}
    return str(kinds.pop()) if len(kinds) == 1 else "files"


def load_folder(path: Path, request: Request) -> SampleSet:
    """Return the sample files of a folder, whose subfolders are the classes."""
    FOLDER.check(path, request)
    names, labels, notes = _list_folder(path, request.flat, request.rules)
    target = None if labels is None else from_text(path, labels, "labels")
    kind = f"{'folder' if target is None else 'class folder'} of {_words_for(names)}"
    return stacked_samples(path, names, request, kind, target=target, notes=notes)


def load_one_file(path: Path, request: Request) -> SampleSet:
    """Return the one sample that an image or a volume is."""
    ONE_FILE.check(path, request)
    return stacked_samples(path.parent, [path.name], request, str(file_words(path.name)).removesuffix("s"))


def load_file_table(path: Path, request: Request) -> SampleSet:
    """Return the sample files that a table lists, with its labels and groups."""
    FILE_TABLE.check(path, request)
    columns = read_table(path, rules=request.rules).columns
    paths = choose_entry(path, columns, request.select.samples, PATHS, "samples") or _column_of_files(path, columns)
    names = columns[paths] = [_as_path(path.parent, name) for name in columns[paths]]
    request = replace(request, rules=request.rules.inside(path.parent))
    _check_files(path, names, request.rules)
    digests = next((columns[name] for name in columns if name.lower() == "sha256"), ())
    for name, expected in zip(names, digests, strict=False):
        check_sha256(path.parent / name, expected)
    chosen = choose_columns(path, columns, None, request, paths)
    return stacked_samples(path.parent, names, request, f"table of {_words_for(names)}", **chosen)


def _column_of_files(path: Path, columns: Mapping[str, Sequence[str]]) -> str:
    """Return the only column whose entries are names of sample files."""
    likely = [one for one, entries in columns.items() if all(file_words(entry) is not None for entry in entries)]
    if len(likely) == 1:
        return likely[0]
    if likely:
        raise BadFileError(
            f"{path}: its columns {listed(likely)} all hold names of files; choose one with samples=... (command line: "
            "--samples)"
        )
    raise BadFileError(
        f"{path}: a table of samples needs a column with the path of each file, {', '.join(_WORDS)}; its columns are "
        f"{describe(columns)}. Values themselves do not go into such a table: save the samples as arrays X and y in "
        "an .npz file, numpy.savez(path, X=X, y=y)"
    )


def _as_path(folder: Path, name: str) -> str:
    """Return the name of a file in a table; those written on Windows have backslashes."""
    return name.replace("\\", "/") if "\\" in name and not (folder / name.replace("\0", "")).is_file() else name


def _check_files(path: Path, names: Sequence[str], rules: FileRules) -> None:
    for row, name in enumerate(names, start=1):
        shown = repr(quoted(name))
        if "\0" in name or not (path.parent / name).is_file():
            raise BadFileError(
                f"{path}: row {row} names {shown}, which is no file in {path.parent}; write paths relative to the "
                "table's folder"
            )
        if file_words(name) is None:
            raise BadFileError(f"{path}: row {row} names {shown}, whose kind is none of {', '.join(_WORDS)}")
        rules.check_file(path.parent / name, f"{path}: row {row}, {shown},")


def _list_folder(folder: Path, flat: bool, rules: FileRules) -> tuple[list[str], list[str] | None, list[str]]:
    """Return the sample files of a folder, sorted by name, their class folders (None if ``flat``), and notes."""
    top = _visible(folder)
    classes = {each: _visible(each) for each in top if each.is_dir()}
    inside = [path for content in classes.values() for path in content]
    in_classes, direct = ([path for path in paths if _is_sample(path)] for paths in (inside, top))
    files = in_classes or (direct if flat else [])
    if direct and not files:
        raise BadFileError(
            f"{folder}: has {counted(len(direct), 'file')}, but no class folders: put the files of every class into a "
            "subfolder with its name, or give labels_from=... (command line: --labels-from)"
        )
    if not files:
        raise BadFileError(
            f"{folder}: holds no samples; it must have one subfolder per class, with files of these kinds: "
            f"{', '.join(_WORDS)}"
        )
    names = [path.relative_to(folder).as_posix() for path in files]
    linked = {parent for parent in {path.parent for path in files} if parent.is_symlink()}
    for path, name in zip(files, names, strict=True):
        check_text(path, name)
        if path.is_symlink() or path.parent in linked:
            rules.check_place(path)
    other = [path for path in (*top, *inside) if path.is_file() and not _is_sample(path)]
    empty = [each for each, content in classes.items() if not any(map(_is_sample, content))]
    notes = [
        *_left_out(folder, other, "file", "of other kinds"),
        *_left_out(folder, direct if in_classes else [], "file", "outside the class folders"),
        *_left_out(folder, [path for path in inside if path.is_dir()], "folder", "inside class folders"),
        *_left_out(folder, empty, "folder", "without samples"),
    ]
    labels = [path.parent.name for path in files] if in_classes else None
    return names, labels, notes


def _visible(folder: Path) -> list[Path]:
    return sorted((path for path in folder.iterdir() if not path.name.startswith(".")), key=lambda path: path.name)


def _is_sample(path: Path) -> bool:
    return path.is_file() and file_words(path.name) is not None


def _left_out(folder: Path, paths: Sequence[Path], noun: str, which: str) -> list[str]:
    if not paths:
        return []
    verb = "was" if len(paths) == 1 else "were"
    return [f"{counted(len(paths), noun)} {which} {verb} left out, e.g. {paths[0].relative_to(folder).as_posix()}"]


def stacked_samples(
    folder: Path, names: Sequence[str], request: Request, kind: str, notes: Sequence[str] = (), **known: Any
) -> SampleSet:
    """Return the samples of several files as one array, a Dask array if they stay there, with what is ``known``."""
    layout, lazy, rules = request.layout, request.lazy, request.rules
    files = _Files(folder, layout.size, rules, layout.missing)
    by_size = lazy.lazy in ("auto", BLOCKS) and bool(names)
    n_bytes = len(names) * next(files.each(names[:1]))[0].nbytes if by_size else 0  # all like the first one
    many = lazy.lazy != BLOCKS or n_bytes > tuning.BLOCK_BYTES
    if stays_in_files(folder, lazy.lazy, n_bytes, in_parts=many):
        data, affine, more = files.lazy_stack(names, lazy)
        more += in_parts(folder, lazy, n_bytes)
    else:
        data, affine, more = files.stack(names, layout.ragged)
    shape = shape_of_samples(data)
    axes = None if affine is None else axes_of_volume(affine, shape)
    if "image" in kind and len(shape) == 3 and shape[-1] == 3:
        axes = axes_of_picture()
    known = {"target": None, "groups": None, "axes": axes, "notes": (*notes, *more), **known}
    return SampleSet(data, names=list(names), affine=affine, source="", kind=kind, **known)


_Stack = tuple[Array, Array | None, list[str]]  # the samples of several files in one array, their affine, and notes
_Sample = tuple[Array, Array | None]  # the sample of a file, and its affine if it has one


@dataclass(frozen=True)
class _Files:
    """How sample files of a folder are read: their new size, if any, rules, and which entries may be missing."""

    folder: Path
    size: Sequence[int] | None
    rules: FileRules
    missing: Missing = False

    def stack(self, names: Sequence[str], ragged: bool) -> _Stack:
        """Return the samples in one array, or with ``ragged`` as a vector of arrays if they differ in length."""
        folder, told = self.folder, dict[str, list[str]]()
        files = self.each(names, told=told)
        first, affine = next(files)
        n_bytes = len(names) * first.nbytes
        self.rules.admit(folder, n_bytes, f"its {len(names)} samples of shape {first.shape}", stored=-1)
        data = np.empty((len(names), *first.shape), first.dtype)
        data[0] = first
        elsewhere = []
        for position, (name, (sample, its_affine)) in enumerate(zip(names[1:], files, strict=True), start=1):
            if ragged and sample.ndim == first.ndim and sample.shape != first.shape:
                return self._ragged(names, [*data[:position], sample], files)
            _check_shape(folder / names[0], first.shape, folder / name, sample.shape)
            if not np.can_cast(sample.dtype, data.dtype):
                data = data.astype(np.promote_types(sample.dtype, data.dtype))
            data[position] = sample
            if affine is not None and its_affine is not None and not np.allclose(affine, its_affine):
                elsewhere.append(name)
        notes = []
        if data.dtype != first.dtype:
            notes.append(f"the files hold numbers of different types, all of which became {data.dtype}")
        notes += [turned_note(told[_TURNED], names[0])] if _TURNED in told else []
        notes += [
            note.format(counted(len(told[what]), "image"), told[what][0])
            for what, note in _NOTES.items()
            if what in told
        ]
        if elsewhere:
            count = counted(len(elsewhere), "file")
            notes.append(f"{count} whose affine differs from that of {names[0]}, which is used, e.g. {elsewhere[0]}")
        return data, affine, notes

    def _ragged(self, names: Sequence[str], known: list[Array], rest: Iterator[_Sample]) -> _Stack:
        """Return files that differ in length, the first of them known; an affine would not fit them all."""
        samples = [*known, *(sample for sample, _ in rest)]
        for name, sample in zip(names, samples, strict=True):
            if sample.ndim != samples[0].ndim:
                _check_shape(self.folder / names[0], samples[0].shape, self.folder / name, sample.shape)
        data = vector_of(samples)
        return data, None, [f"the files differ in length: samples of {format_shape(shape_of_samples(data))}"]

    def lazy_stack(self, names: Sequence[str], lazy: Lazy) -> _Stack:
        """Return the samples in their files; only the first one is read now, others are compared with it later."""
        first, affine = next(self.each(names[:1]))
        there = replace(self, folder=self.folder.resolve())
        per = samples_per_chunk(chunks_for(lazy), first.nbytes, at_most=_FILES_AT_ONCE)
        notes = [f"the affine is that of {names[0]}; files in another orientation are turned to its when they are read"]
        read = partial(there.read_alike, names[0], (first.shape, first.dtype), affine, lazy.lazy == BLOCKS)
        data = lazily(lazy, read, np.array(names, object), (len(names), *first.shape), first.dtype, per)
        return data, affine, [] if affine is None or len(names) == 1 else notes

    def read_alike(
        self, first: str, like: tuple[tuple[int, ...], np.dtype[Any]], affine: Array | None, widen: bool, names: Any
    ) -> Array:
        """Return the samples of some files in the shape and type of the first one, or in a wider type."""
        folder, (shape, dtype) = self.folder, like
        data = np.empty((len(names), *shape), dtype)
        for position, (name, (sample, _)) in enumerate(zip(names, self.each(list(names), affine), strict=True)):
            _check_shape(folder / first, shape, folder / name, sample.shape)
            if not np.can_cast(sample.dtype, data.dtype):
                if not widen:
                    raise BadFileError(
                        f"{folder / name}: holds {sample.dtype}, which {dtype}, the type of {folder / first}, does not "
                        "hold exactly; convert the files to one type, or load them without lazy=True, which finds a "
                        "common one"
                    )
                data = data.astype(np.promote_types(sample.dtype, data.dtype))
            data[position] = sample
            check_samples(folder / name, data[position : position + 1], "it", self.missing)
        return data

    def each(
        self, names: Sequence[str], reference: Array | None = None, told: dict[str, list[str]] | None = None
    ) -> Iterator[_Sample]:
        """Yield the samples of files, resized if requested, with their affines.

        Volumes are turned to the orientation of the ``reference``, by default that of the first of them. ``told`` gets
        the names of those that had another one ("turned"), and of images without their transparency.
        """
        done, folder = 0, self.folder
        told = {} if told is None else told
        while done < len(names):
            found = _read_first(folder, names[done:], self.rules)
            for name, (sample, affine, became) in zip(names[done:], found, strict=False):
                if file_words(name) == "NIfTI volumes":
                    if any(length > 1 for length in sample.shape[3:]):
                        raise BadFileError(
                            f"{folder / name}: has {sample.ndim} axes {sample.shape}, but a file that is one sample "
                            "must be a volume with three; split it, or load the 4-D file by itself, with "
                            "labels_from=... (command line: --labels-from)"
                        )
                    sample = sample.reshape(sample.shape[:3])
                    stored, reference = sample, affine if reference is None else reference
                    sample, affine = oriented(folder / name, stored, affine, reference)
                    became = None if sample is stored else _TURNED
                if became is not None:
                    told.setdefault(became, []).append(name)
                yield (sample, affine) if self.size is None else self._resized(folder / name, sample, affine)
            done += len(found)

    def _resized(self, path: Path, sample: Array, affine: Array | None) -> _Sample:
        size = tuple(self.size or ())
        if not 0 < len(size) <= sample.ndim or min(size) < 1:
            raise BadFileError(
                f"{path}: has the shape {sample.shape}, which cannot be resized to {'x'.join(map(str, size))}; size "
                "(command line: --size) must give a positive length for each axis, without the colours"
            )
        shape = (*size, *sample.shape[len(size) :])
        self.rules.admit(path, prod(shape) * 8, f"a sample of size {'x'.join(map(str, size))}", stored=-1)
        resized = resize(sample, size)
        if affine is None:
            return resized, None
        steps = np.array(sample.shape[:3]) / np.array(resized.shape[:3])
        stretch = np.diag([*steps, 1.0])  # from the indices of the resized grid to those of the file: in the same box
        stretch[:3, 3] = (steps - 1) / 2
        return resized, affine @ stretch


_TURNED = "turned"
_NOTES = {
    "opaque": "transparency that is the same everywhere was left out in {}, e.g. {}",
    "transparent": "{} with transparent parts, put on white, e.g. {}",
}
"""Notes on images, by what became of them as `readers.pictures` calls it."""


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


_Read = tuple[Array, Array | None, str | None]  # values of a file, its affine, and what became of an image


def _read_first(folder: Path, names: Sequence[str], rules: FileRules) -> list[_Read]:
    """Return the first of these files: one array, or all images and volumes before one, from another process."""
    native = list(takewhile(lambda name: file_words(name) != "arrays", names[:_FILES_PER_MESSAGE]))
    if not native:
        array = read_arrays(folder / names[0], (ONLY,), rules)[ONLY]
        if array.dtype.kind not in "biuf" or array.ndim == 0:
            raise BadFileError(
                f"{folder / names[0]}: must hold an array of real numbers; write it with numpy.save(path, array)"
            )
        return [(array, None, None)]
    if any(file_words(name) == "NIfTI volumes" for name in native):
        require_package(folder / native[0], "nibabel", "neuro", "a NIfTI file")
    else:
        require_package(folder / native[0], "PIL", "cli", "an image")
    try:
        return list(zip(*call(".pictures.read_some", folder, native, rules), strict=True))
    except ParserFailedError:  # find the file that the parser fails on
        found: list[_Read] = []
        for name in native:
            with parsing(folder / name, *(NIFTI_WORDS if file_words(name) == "NIfTI volumes" else IMAGE_WORDS)):
                found += zip(*call(".pictures.read_some", folder, [name], rules), strict=True)
        return found
