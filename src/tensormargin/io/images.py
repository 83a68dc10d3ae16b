"""Samples stored as one file each: images, NIfTI volumes and arrays, in class folders or listed in a table."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..data import (
    BadFileError,
    DamagedFileError,
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
from .options import BLOCKS, FILE_TABLE, FOLDER, ONE_FILE, Known, Lazy, Request
from .readers.entries import IMAGE_WORDS, NIFTI, NIFTI_WORDS, OPAQUE, TRANSPARENT, UPRIGHT
from .readers.process import ParserFailedError, call
from .samples import SampleSet
from .tables import read_table
from .volumes import nifti_space, oriented, turned_note

_WORDS = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".tif", ".tiff"), "images"),
    **dict.fromkeys(NIFTI, "NIfTI volumes"),
    ".npy": "arrays",
}
_LENGTHS = ", or ragged=True for EqualLength (`tensormargin fit --length resample`) to give them one length"
_MOST_NAMED = 50  # damaged files in a message
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
    files = _Files(folder, layout.size, rules, layout.missing, _colours_of(request.known), layout.skip_damaged)
    by_size = lazy.lazy in ("auto", BLOCKS) and bool(names)
    n_bytes = len(names) * files.first(names)[1].nbytes if by_size else 0  # all like the first one
    many = lazy.lazy != BLOCKS or n_bytes > tuning.BLOCK_BYTES
    if stays_in_files(folder, lazy.lazy, n_bytes, in_parts=many):
        kept, data, affine, more = files.lazy_stack(names, lazy)
        more += in_parts(folder, lazy, n_bytes)
    else:
        kept, data, affine, more = files.stack(names, layout.ragged)
    if len(kept) < len(names):
        rows = np.isin(np.array(names, object), kept)
        known = {what: values[rows] if isinstance(values, np.ndarray) else values for what, values in known.items()}
        if known.get("confounds"):
            known["confounds"] = {name: values[rows] for name, values in known["confounds"].items()}
        left_out = tuple(name for name, is_kept in zip(names, rows, strict=True) if not is_kept)
        more.append(f"{counted(len(left_out), 'damaged file')} left out: {listed(left_out, most=_MOST_NAMED)}")
        known["left_out"] = left_out
    shape = shape_of_samples(data)
    axes = None if affine is None else axes_of_volume(affine, shape)
    if "image" in kind and len(shape) == 3 and shape[-1] == 3:
        axes = axes_of_picture()
    space = None if affine is None else nifti_space(folder / kept[0], rules)
    known = {"target": None, "groups": None, "axes": axes, "space": space, "notes": (*notes, *more), **known}
    return SampleSet(data, names=kept, affine=affine, source="", kind=kind, **known)


def _colours_of(known: Known) -> bool | None:
    """Return whether the pictures of a model have colours; None if there is no model of pictures."""
    if not known.are_images or known.shape is None or len(known.shape) not in (2, 3):
        return None
    if len(known.shape) == 2:
        return False
    return True if known.shape[-1] == 3 else None  # pages of a TIFF


_Stack = tuple[list[str], Array, Array | None, list[str]]  # names, samples in one array, their affine, and notes
_Sample = tuple[str, Array, Array | None]  # the name of a file, its sample, and its affine if it has one


@dataclass(frozen=True)
class _Files:
    """How sample files of a folder are read: their new size, if any, rules, and which entries may be missing.

    Images become coloured or grey, if ``colours`` says which. Damaged files are an error that names all of them, unless
    they are skipped.
    """

    folder: Path
    size: Sequence[int] | None
    rules: FileRules
    missing: Missing = False
    colours: bool | None = None
    skip_damaged: bool = False

    def first(self, names: Sequence[str]) -> _Sample:
        """Return the first sample that can be read."""
        try:
            return next(self.each(names[:1]))
        except DamagedFileError:  # of which there may be more
            return next(self.each(names))

    def stack(self, names: Sequence[str], ragged: bool) -> _Stack:
        """Return the samples in one array, or with ``ragged`` as a vector of arrays if they differ in length."""
        folder, told = self.folder, dict[str, list[str]]()
        files = self.each(names, told=told)
        first_name, first, affine = next(files)
        n_bytes = len(names) * first.nbytes
        self.rules.admit(folder, n_bytes, f"its {len(names)} samples of shape {first.shape}", stored=-1)
        data = np.empty((len(names), *first.shape), first.dtype)
        data[0] = first
        elsewhere, kept = [], [first_name]
        for name, sample, its_affine in files:
            if ragged and sample.ndim == first.ndim and sample.shape != data.shape[1:]:
                return self._ragged([*kept, name], [*data[: len(kept)], sample], files)
            data, sample = self._in_colours(data, sample, [*kept, name], told)
            _check_shape(folder / first_name, data.shape[1:], folder / name, sample.shape)
            if not np.can_cast(sample.dtype, data.dtype):
                data = data.astype(np.promote_types(sample.dtype, data.dtype))
            data[len(kept)] = sample
            kept.append(name)
            if affine is not None and its_affine is not None and not np.allclose(affine, its_affine):
                elsewhere.append(name)
        notes, data = [], data[: len(kept)]
        if data.dtype != first.dtype:
            notes.append(f"the files hold numbers of different types, all of which became {data.dtype}")
        notes += [turned_note(told[_TURNED], first_name)] if _TURNED in told else []
        notes += _notes_on_images(told)
        if elsewhere:
            count = counted(len(elsewhere), "file")
            notes.append(f"{count} whose affine differs from that of {first_name}, which is used, e.g. {elsewhere[0]}")
        return kept, data, affine, notes

    def _in_colours(
        self, data: Array, sample: Array, names: Sequence[str], told: dict[str, list[str]]
    ) -> tuple[Array, Array]:
        """Return images so far and the next one with three channels, if one is grey and the other one is not."""
        *before, name = names
        if file_words(before[0]) != "images" or file_words(name) != "images":
            return data, sample
        if sample.shape == (*data.shape[1:], 3):
            self.rules.admit(self.folder, 3 * data.nbytes, f"its {len(data)} images in colours", stored=-1)
            told[_GREY] = before
            return np.repeat(data[..., None], 3, axis=-1), sample
        if (*sample.shape, 3) == data.shape[1:]:
            told.setdefault(_GREY, []).append(name)
            return data, np.repeat(sample[..., None], 3, axis=-1)
        return data, sample

    def _ragged(self, names: list[str], samples: list[Array], rest: Iterator[_Sample]) -> _Stack:
        """Return files that differ in length, the first of them known; an affine would not fit them all."""
        for name, sample, _ in rest:
            names.append(name)
            samples.append(sample)
        for name, sample in zip(names, samples, strict=True):
            if sample.ndim != samples[0].ndim:
                _check_shape(self.folder / names[0], samples[0].shape, self.folder / name, sample.shape)
        data = vector_of(samples)
        return names, data, None, [f"the files differ in length: samples of {format_shape(shape_of_samples(data))}"]

    def lazy_stack(self, names: Sequence[str], lazy: Lazy) -> _Stack:
        """Return the samples in their files; only the first one is read now, others are compared with it later.

        Damaged ones are looked for now if they are to be skipped.
        """
        told = dict[str, list[str]]()
        kept = [name for name, *_ in self.each(names, told=told)] if self.skip_damaged else list(names)
        first_name, first, affine = self.first(kept)
        colours = True if file_words(first_name) == "images" and first.shape[2:] == (3,) else self.colours
        there = replace(self, folder=self.folder.resolve(), colours=colours, skip_damaged=False)
        per = samples_per_chunk(chunks_for(lazy), first.nbytes, at_most=_FILES_AT_ONCE)
        turned = f"the affine is that of {first_name}; other files are reoriented to match it when they are read"
        notes = [*([] if affine is None or len(kept) == 1 else [turned]), *_notes_on_images(told)]
        in_blocks = lazy.lazy == BLOCKS
        like = (first.shape, first.dtype)
        read = partial(there.read_alike, first_name, like, affine, in_blocks, kept if in_blocks else ())
        return (
            kept,
            lazily(lazy, read, np.array(kept, object), (len(kept), *first.shape), first.dtype, per),
            affine,
            notes,
        )

    def read_alike(
        self,
        first: str,
        like: tuple[tuple[int, ...], np.dtype[Any]],
        affine: Array | None,
        widen: bool,
        every: Sequence[str],
        names: Any,
    ) -> Array:
        """Return the samples of some files in the shape and type of the first one, or in a wider type.

        If one of them is damaged, the error is about ``every`` file.
        """
        folder, (shape, dtype) = self.folder, like
        data = np.empty((len(names), *shape), dtype)
        try:
            for position, (name, sample, _) in enumerate(self.each(list(names), affine)):
                _check_shape(folder / first, shape, folder / name, sample.shape)
                if not np.can_cast(sample.dtype, data.dtype):
                    if not widen:
                        raise BadFileError(
                            f"{folder / name}: holds {sample.dtype}, which {dtype}, the type of {folder / first}, does "
                            "not hold exactly; convert the files to one type, or load them without lazy=True, which "
                            "finds a common one"
                        )
                    data = data.astype(np.promote_types(sample.dtype, data.dtype))
                data[position] = sample
                check_samples(folder / name, data[position : position + 1], "it", self.missing)
        except DamagedFileError:
            deque(self.each(every, affine), maxlen=0)
            raise
        return data

    def each(
        self, names: Sequence[str], reference: Array | None = None, told: dict[str, list[str]] | None = None
    ) -> Iterator[_Sample]:
        """Yield the samples of files, resized if requested, with their affines.

        Volumes are turned to the orientation of the ``reference``, by default that of the first of them. ``told`` gets
        the names of those that had another one ("turned"), and of images that were changed.
        """
        done, faults, folder = 0, list[tuple[str, DamagedFileError]](), self.folder
        told, deep = {} if told is None else told, None
        while done < len(names):
            for found in _read_first(folder, names[done:], self.rules):
                name, done = names[done], done + 1
                if isinstance(found, DamagedFileError):
                    faults.append((name, found))
                if isinstance(found, DamagedFileError) or (faults and not self.skip_damaged):
                    continue  # there will be an error, which names all of them
                sample, affine, became = found
                if file_words(name) == "NIfTI volumes":
                    reference = affine if reference is None else reference
                    sample, affine = self._volume(name, sample, affine, reference, became)
                elif file_words(name) == "images":
                    deep = _checked_depth(folder, name, sample, deep)
                    sample = self._picture(sample, became)
                for what in became:
                    told.setdefault(what, []).append(name)
                yield (name, sample, affine) if self.size is None else self._resized(name, sample, affine)
        if faults and (not self.skip_damaged or len(faults) == len(names)):
            raise _all_damaged(folder, faults, len(names))

    def _volume(
        self, name: str, sample: Array, affine: Array | None, reference: Array | None, became: list[str]
    ) -> tuple[Array, Array | None]:
        """Return a volume in the orientation of the reference."""
        if any(length > 1 for length in sample.shape[3:]):
            raise BadFileError(
                f"{self.folder / name}: has {sample.ndim} axes {sample.shape}, but a file that is one sample must be a "
                "volume with three; split it, or load the 4-D file by itself, with labels_from=... (command line: "
                "--labels-from)"
            )
        stored = sample.reshape(sample.shape[:3])
        sample, affine = oriented(self.folder / name, stored, affine, reference)
        if sample is not stored:
            became.append(_TURNED)
        return sample, affine

    def _picture(self, sample: Array, became: list[str]) -> Array:
        """Return an image in colours or grey, as the others are."""
        if self.colours is True and sample.ndim == 2:
            became.append(_GREY)
            return np.repeat(sample[..., None], 3, axis=-1)
        if self.colours is False and sample.ndim == 3 and sample.shape[-1] == 3:
            became.append(_COLOURED)
            return np.rint(sample @ _LUMINANCE).astype(sample.dtype)
        return sample

    def _resized(self, name: str, sample: Array, affine: Array | None) -> _Sample:
        path, size = self.folder / name, tuple(self.size or ())
        if not 0 < len(size) <= sample.ndim or min(size) < 1:
            raise BadFileError(
                f"{path}: has the shape {sample.shape}, which cannot be resized to {'x'.join(map(str, size))}; size "
                "(command line: --size) must give a positive length for each axis, without the colours"
            )
        shape = (*size, *sample.shape[len(size) :])
        self.rules.admit(path, prod(shape) * 8, f"a sample of size {'x'.join(map(str, size))}", stored=-1)
        resized = resize(sample, size)
        if affine is None:
            return name, resized, None
        steps = np.array(sample.shape[:3]) / np.array(resized.shape[:3])
        stretch = np.diag([*steps, 1.0])  # from the indices of the resized grid to those of the file: in the same box
        stretch[:3, 3] = (steps - 1) / 2
        return name, resized, affine @ stretch


_TURNED, _GREY, _COLOURED = "turned", "grey", "coloured"
_NOTES = {
    UPRIGHT: "{} turned upright, as the camera noted that it was held (EXIF), e.g. {}",
    OPAQUE: "transparency that is the same everywhere was left out in {}, e.g. {}",
    TRANSPARENT: "{} with transparent parts, put on white, e.g. {}",
    _GREY: "{} in grey, made into colour images like the others, e.g. {}",
    _COLOURED: "{} in colours, made grey as those of the model are, e.g. {}",
}
"""Notes on images, by what became of them as `readers.pictures` and `_Files` call it."""
_LUMINANCE = np.array([0.299, 0.587, 0.114])  # of red, green and blue (ITU-R BT.601)


def _notes_on_images(told: Mapping[str, list[str]]) -> list[str]:
    return [
        note.format(counted(len(told[what]), "image"), told[what][0]) for what, note in _NOTES.items() if what in told
    ]


def _all_damaged(folder: Path, faults: Sequence[tuple[str, DamagedFileError]], n_files: int) -> DamagedFileError:
    """Return the error for damaged files, all of which it names."""
    fault, skip = faults[0][1], "with skip_damaged=True (command line: --skip-damaged)"
    if n_files == 1:
        return fault
    if len(faults) == 1:
        return DamagedFileError(f"{fault}, or leave it out {skip}")
    names = listed([name for name, _ in faults], most=_MOST_NAMED)
    return DamagedFileError(
        f"{folder}: {len(faults)} of {n_files} files are damaged: {names}. Replace them, or leave them out {skip}. "
        f"The first fault: {fault}"
    )


_Depth = tuple[str, np.dtype[Any]]


def _checked_depth(folder: Path, name: str, sample: Array, first: _Depth | None) -> _Depth:
    """Return the first image and its type; raise `BadFileError` for another one with 16 bits where it has 8."""
    if first is not None and (sample.dtype.itemsize == 1) != (first[1].itemsize == 1):
        raise BadFileError(
            f"{folder / name}: has {8 * sample.dtype.itemsize} bits per value, but {folder / first[0]} has "
            f"{8 * first[1].itemsize}; pictures of different depth differ in brightness by a factor. Save all of them "
            "with 8 bits, or all with 16"
        )
    return first or (name, sample.dtype)


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


_Read = tuple[Array, Array | None, list[str]]  # values of a file, its affine, and what became of an image


def _read_first(folder: Path, names: Sequence[str], rules: FileRules) -> Iterable[_Read | DamagedFileError]:
    """Return the first of these files: one array, or all images and volumes before one, from another process."""
    native = list(takewhile(lambda name: file_words(name) != "arrays", names[:_FILES_PER_MESSAGE]))
    if not native:
        try:
            array = read_arrays(folder / names[0], (ONLY,), rules)[ONLY]
        except DamagedFileError as error:
            return [error]
        if array.dtype.kind not in "biuf" or array.ndim == 0:
            raise BadFileError(
                f"{folder / names[0]}: must hold an array of real numbers; write it with numpy.save(path, array)"
            )
        return [(array, None, [])]
    if any(file_words(name) == "NIfTI volumes" for name in native):
        require_package(folder / native[0], "nibabel", "neuro", "a NIfTI file")
    else:
        require_package(folder / native[0], "PIL", "cli", "an image")
    try:
        return list(zip(*call(".pictures.read_some", folder, native, rules), strict=True))
    except (ParserFailedError, DamagedFileError):
        return (_read_alone(folder, name, rules) for name in native)


def _read_alone(folder: Path, name: str, rules: FileRules) -> _Read | DamagedFileError:
    """Return a file, or the error if it is damaged or makes its parser fail."""
    try:
        with parsing(folder / name, *(NIFTI_WORDS if file_words(name) == "NIfTI volumes" else IMAGE_WORDS)):
            ((values,), (affine,), (became,)) = call(".pictures.read_some", folder, [name], rules)
    except DamagedFileError as error:
        return error
    return values, affine, became
