"""NIfTI volumes: 4-D files of samples, runs of a BIDS data set, and masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ..data import (
    DEFAULT_RULES,
    BadFileError,
    FileRules,
    axes_of_volume,
    check_text,
    parsing,
    require_package,
    turned_to,
)
from ..runtime import Array, listed
from ..transformers import MaskImage
from .arrays import Missing, check_samples, container_endings, container_kind, open_arrays
from .events import choose_events, mean_volumes, needs_table, read_events
from .labels import choose_columns, describe
from .lazy import (
    READ_WHOLE,
    FileSamples,
    along,
    chunks_for,
    concatenated,
    in_parts,
    lazily,
    samples_per_chunk,
    stays_in_files,
)
from .options import BLOCKS, VOLUMES, Lazy, Request
from .readers.entries import NIFTI, NIFTI_WORDS
from .readers.plain import plain_numbers
from .readers.process import call
from .samples import LABELS_FROM, SampleSet


def load_volumes(path: Path, request: Request) -> SampleSet:
    """Return the volumes of a 4-D NIfTI file, or their means around events."""
    VOLUMES.check(path, request)
    if request.window.events is None:
        request.refuse(path, ("labels", "groups"), VOLUMES.why)
        request.refuse_window(path)
        if request.need_labels:
            raise BadFileError(
                f"{path}: a NIfTI file has no labels; {LABELS_FROM}, or a table of events as events=... (--events)"
            )
    in_one, n_bytes = path.name.lower().endswith(".gz"), path.stat().st_size
    if request.lazy.lazy == BLOCKS and request.window.events is not None:  # their means are fewer than the volumes
        request = replace(request, lazy=Lazy("auto"))
    stays = stays_in_files(path, request.lazy.lazy, n_bytes, not in_one)
    data, affine = read_volumes(path, request, stays)
    if data.ndim != 4:
        shape = (*data.shape[1:], data.shape[0])
        raise BadFileError(
            f"{path}: must have four axes, the last counting the samples; its shape is {shape}. Where every "
            "file is one sample, give a folder with one subfolder per class, or a table of paths and labels"
        )
    notes = [f"{path.name} {READ_WHOLE}"] if stays and in_one else []
    notes += in_parts(path, request.lazy, n_bytes) if stays else ()
    axes, space = axes_of_volume(affine, data.shape[1:]), nifti_space(path, request.rules)
    found = SampleSet(data, None, None, None, affine, "", "4-D NIfTI", tuple(notes), axes=axes, space=space)
    return found if request.window.events is None else _around_events(path, found, request)


def _around_events(path: Path, found: SampleSet, request: Request) -> SampleSet:
    """Return one volume per event: the mean of those in its window."""
    window = request.window
    if not isinstance(window.events, Path):
        raise needs_table(path, window.events)
    stated = _from_nifti(path, "read_header", request.rules)[2]
    tr = stated if window.tr is None else window.tr
    if tr is None:
        raise BadFileError(
            f"{path}: needs the repetition time, which its header does not state plausibly; give it as tr=... (command "
            "line: --tr), in seconds"
        )
    check_samples(path, found.data, "the recording", request.layout.missing)
    events, notes = choose_events(read_events(window.events, request.rules), None, request.select.labels)
    data, rows, more = mean_volumes(path, found.data, tr, events, window, request.rules)
    return replace(
        found,
        data=data,
        kind=f"4-D NIfTI, means {events.around}",
        notes=(*found.notes, *notes, *more),
        loading={} if stated is None else {"tr": stated},
        **choose_columns(window.events, events.take(rows).columns, events.label, request),
    )


def read_runs(folder: Path, names: Sequence[str], request: Request) -> tuple[Any, Array, list[str], list[int]]:
    """Return the volumes of runs, one after the other, their affine, notes, and the number of volumes of each."""
    headers = [_from_nifti(folder / name, "read_header", request.rules) for name in names]
    shapes = []
    for name, (shape, own, *_) in zip(names, headers, strict=True):
        values = np.broadcast_to(0, shape)
        turned_values = values if len(shape) < 3 else oriented(folder / name, values, own, headers[0][1])[0]
        shapes.append(tuple(turned_values.shape))
    for name, shape in zip(names, shapes, strict=True):
        if shape[:3] != shapes[0][:3] or len(shape) != 4:
            raise BadFileError(
                f"{folder / name}: has the shape {shape}, but {folder / names[0]} has {shapes[0]}; all volumes must "
                "have one shape: resample them to one space first"
            )
    n_bytes = sum(4 * prod(shape) for shape in shapes)
    stays = stays_in_files(folder, request.lazy.lazy, n_bytes, True)
    if not stays:
        request.rules.admit(folder, n_bytes, f"its {len(names)} runs of volumes", stored=-1)
    volumes, affine, notes, turned = [], None, [], []
    for name in names:
        stored, own = read_volumes(folder / name, request, stays)
        affine = own if affine is None else affine
        data, own = oriented(folder / name, stored, own, affine, first=1)
        turned += [] if data is stored else [name]
        if not np.allclose(affine, own):
            notes = [f"affines differ between runs, and that of {names[0]} is used, e.g. {name} has another"]
        volumes.append(data)
    notes += [turned_note(turned, names[0])] if turned else []
    return concatenated(volumes), np.asarray(affine), notes, [shape[3] for shape in shapes]


def read_volumes(path: Path, request: Request, stays: bool) -> tuple[Any, Array]:
    """Return the volumes of a NIfTI file, along the first axis and lazy if they stay in it, and their affine."""
    if not stays:
        volumes, affine = read_nifti(path, request.rules)
        return np.moveaxis(volumes, -1, 0), affine
    shape, affine, *_ = _from_nifti(path, "read_header", request.rules)
    checked = None if request.lazy.lazy == BLOCKS else request.layout.missing  # as in `lazy_container`
    read = partial(_read_rows, path.resolve(), len(shape), request.rules, checked)
    dtype, last, whole = np.dtype(np.float32), len(shape) - 1, path.name.lower().endswith(".gz")
    per = samples_per_chunk(chunks_for(request.lazy), dtype.itemsize * prod(shape[:-1]))
    return lazily(request.lazy, read, np.arange(shape[-1]), shape, dtype, per, last, whole), affine


def oriented(path: Path, values: Any, affine: Any, reference: Any, first: int = 0) -> tuple[Any, Any]:
    """Return volumes turned to the orientation of another affine; their modes of space begin with ``first``."""
    if np.allclose(affine, reference):
        return values, affine
    try:
        stand_in = np.broadcast_to(0, values.shape) if isinstance(values, FileSamples) else values
        turned, own = turned_to(stand_in, affine, reference, first)
        if stand_in is values:
            return turned, own
        same = turned is stand_in
        return values if same else values.changed(lambda block: turned_to(block, affine, reference, first)[0]), own
    except ValueError as error:
        raise BadFileError(
            f"{path}: its orientation cannot be compared with that of the other volumes: {error}. Correct the affine, "
            "or write the files again in one orientation"
        ) from error


def turned_note(turned: Sequence[str], first: str) -> str:
    """Return which files were turned to the orientation of the first one, in words."""
    return f"{listed(turned, 4)} {'was' if len(turned) == 1 else 'were'} reoriented to match {first}"


def nifti_shape(path: Path, rules: FileRules) -> tuple[int, ...]:
    """Return the shape of a NIfTI file, without axes of length 1 after the third."""
    shape = _from_nifti(path, "read_header", rules)[0]
    return tuple(shape[:3]) if all(size == 1 for size in shape[3:]) else tuple(shape)


def nifti_space(path: Path, rules: FileRules) -> int:
    """Return the code of the coordinates of a NIfTI file."""
    return int(_from_nifti(path, "read_header", rules)[3])


def _read_rows(path: Path, order: int, rules: FileRules, missing: Missing | None, rows: Array) -> Array:
    volumes, _ = read_nifti(path, rules, along(order - 1, order, rows))
    if missing is not None:
        check_samples(path, np.moveaxis(volumes, -1, 0), "the array of samples", missing, first=int(rows[0]))
    return volumes


def read_nifti(path: Path, rules: FileRules, where: tuple[slice, ...] = ()) -> tuple[Array, Array]:
    """Return the values of a NIfTI file (float32, scaled according to its header) or a part of them, and its affine."""
    found, affine = _from_nifti(path, "find_volume", rules, where)
    if not isinstance(found, np.ndarray):
        with parsing(path, *NIFTI_WORDS):
            begin, dtype, shape = found
            found = plain_numbers(path, begin, dtype, shape, where, order="F")
    return found.astype(np.float32, copy=False), affine


def _from_nifti(path: Path, function: str, rules: FileRules, *arguments: Any) -> Any:
    """Return the result of a function of `readers.volumes`."""
    require_package(path, "nibabel", "neuro", "a NIfTI file")
    rules.check_file(path)
    with parsing(path, *NIFTI_WORDS):
        return call(f".volumes.{function}", path, *arguments, rules)


def load_mask(path: str | Path, rules: FileRules = DEFAULT_RULES) -> MaskImage:
    """Load a mask: a NIfTI volume, or the only array of numbers of a container; what is not zero is inside.

    Parameters
    ----------
    path : str or Path
        ``.nii``, ``.nii.gz``, ``.npy``, ``.npz``, ``.mat``, HDF5 or Zarr.
    rules : FileRules, optional

    Returns
    -------
    MaskImage
        For `Recipe`; its ``entries`` for `Mask` and `Crop`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from tensormargin.io import load_mask
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/mask.npy", [[0, 1, 1], [0, 2, 0]])
    ...     mask = load_mask(f"{folder}/mask.npy")
    >>> int(mask.entries.sum()), mask.affine is None
    (3, True)
    """
    source = Path(path)
    if not source.exists():
        raise BadFileError(f'{source}: no such file; a mask is a file, or one of the words "varying" and "bright"')
    check_text(source, str(source))
    if source.name.lower().endswith(NIFTI):
        values, affine = read_nifti(source, rules)
        values = values.reshape(values.shape[:3]) if values.ndim > 3 and max(values.shape[3:]) == 1 else values
        return MaskImage(_mask_entries(source, values), affine, str(path))
    if container_kind(source) is None:
        raise BadFileError(
            f"{source}: unknown kind of file {source.suffix!r} for a mask; give a NIfTI image (.nii, .nii.gz), or one "
            f"of {container_endings()}"
        )
    with open_arrays(source, rules=rules) as held:
        numeric = [name for name, one in held.items() if one.is_numeric]
        if len(numeric) != 1:
            raise BadFileError(
                f"{source}: a mask is alone in its file; it holds {describe(held)}. Write it to an .npy file"
            )
        return MaskImage(_mask_entries(source, held[numeric[0]].read()), None, str(path))


def _mask_entries(path: Path, values: Array) -> Array:
    if not np.isfinite(values).all():
        raise BadFileError(f"{path}: a mask must be zero outside and another number inside; it holds NaN. Set it to 0")
    entries = values != 0
    if not entries.any():
        raise BadFileError(f"{path}: a mask must have an entry that is not zero; it has none. Give another mask")
    return np.ascontiguousarray(entries)
