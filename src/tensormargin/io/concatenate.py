"""Several files of one kind as one set of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data import (
    Axes,
    Axis,
    BadFileError,
    FileRules,
    axes_of_volume,
    check_text,
    format_shape,
    is_ragged,
    names_of,
    vector_of,
)
from ..runtime import Array, listed
from .arrays import container_kind
from .images import file_words
from .lazy import concatenated
from .recordings import is_recording
from .samples import SampleSet
from .volumes import oriented

FILE = "file"  # the groups that say which file a sample comes from
_UNUSED = (
    "the samples come from {} files, but there are no groups: if each file is a person or a run, samples of one may be "
    "in the training set and in the test set, which inflates accuracy. Use the files with "
    'groups="file" (command line: --groups file), or pass groups=False (--no-groups) if the samples are independent'
)


def files_in(folder: Path, rules: FileRules) -> list[Path]:
    """Return the containers and recordings in a folder (that of the rules); none if it holds other samples."""
    visible = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    inner = [one for path in visible if path.is_dir() and container_kind(path) is None for one in path.iterdir()]
    if any(file_words(path.name) is not None and path.is_file() for path in (*visible, *inner)):
        return []
    found = [path for path in visible if container_kind(path) is not None or is_recording(path)]
    for path in found:
        check_text(path, path.name)
        rules.check_place(path)
    return found


def turned_like(samples: SampleSet, affine: Any, of: str) -> SampleSet:
    """Return volumes turned to the affine ``of`` other samples, with a note; samples without one as they are."""
    shape = samples.sample_shape
    if affine is None or samples.affine is None or isinstance(affine, Mapping) or isinstance(samples.affine, Mapping):
        return samples
    if isinstance(shape, Mapping) or len(shape) < 3 or None in shape:
        return samples
    path = Path(samples.source)
    data, own = oriented(path, samples.data, np.asarray(samples.affine), np.asarray(affine, np.float64), first=1)
    if data is samples.data:
        return samples
    notes = (*samples.notes, f"{samples.source} was reoriented to match {of}")
    axes = None if samples.axes is None else axes_of_volume(own, data.shape[1:])
    return replace(samples, data=data, affine=own, notes=notes, axes=axes)


def joined(parts: Sequence[SampleSet], by_file: bool) -> SampleSet:
    """Return the samples of several files, one after the other; with ``by_file``, the file of a sample is its group."""
    first = parts[0]
    parts = [first, *(turned_like(part, first.affine, first.source) for part in parts[1:])]
    files = np.repeat([part.source for part in parts], [len(part.data) for part in parts])
    groups = files if by_file else _labels(parts, "groups")
    notes = [note for part in parts for note in part.notes]
    affine = first.affine
    if any((part.affine is None) != (affine is None) for part in parts) or (
        affine is not None and not all(np.allclose(part.affine, affine) for part in parts)
    ):
        notes.append(f"the files have different affines; that of {first.source} is used")
    kinds = ", ".join(dict.fromkeys(part.kind for part in parts))
    kind = kinds if len(parts) == 1 else f"{len(parts)} files: {kinds}"
    own = next((part.warnings for part in parts if part.warnings), ())
    confounds = None
    if first.confounds is not None:
        confounds = {one: _as_one([part.confounds[one] for part in parts]) for one in names_of(first.confounds)}
    positions = [part.positions for part in parts if part.positions is not None]
    names = [name for part in parts for name in part.names or map(str, range(len(part.data)))]
    return replace(
        first,
        data=_data(parts),
        target=_labels(parts, "target"),
        groups=groups,
        names=None if all(part.names is None for part in parts) else names,
        affine=affine,
        source=first.source if len(parts) == 1 else f"{first.source} and {len(parts) - 1} more",
        kind=kind,
        notes=tuple(dict.fromkeys(notes)),
        warnings=() if groups is not None else own or (_UNUSED.format(len(parts)),),
        confounds=confounds,
        sfreq=_common(parts, "sfreq"),
        field=_common(parts, "field"),
        axes=_axes(parts),
        files=None if len(parts) == 1 else files,
        loading={**first.loading, "kind": kind, **({"groups": FILE} if by_file else {})},
        unit=_common(parts, "unit"),
        positions=np.concatenate(positions) if len(positions) == len(parts) else None,
        left_out=tuple(name for part in parts for name in part.left_out),
    )


def _data(parts: Sequence[SampleSet]) -> Any:
    arrays = [part.data for part in parts]
    shapes = [part.sample_shape for part in parts]
    ragged = any(map(is_ragged, arrays))
    for part, shape in zip(parts, shapes, strict=True):
        if shape != shapes[0] and not ragged:
            raise BadFileError(
                f"{part.source}: has samples of {format_shape(shape)}, but {parts[0].source} has "
                f"{format_shape(shapes[0])}; all files must hold samples of one shape. Bring them to one shape first"
            )
    if ragged:
        return vector_of([sample for array in arrays for sample in array])
    return concatenated(arrays)


def _labels(parts: Sequence[SampleSet], name: str) -> Array | None:
    """Return the labels or groups of all files, as text if any of them are; None if a file has none."""
    found = [getattr(part, name) for part in parts]
    lacking = [part.source for part, values in zip(parts, found, strict=True) if values is None]
    if len(lacking) == len(parts):
        return None
    if lacking:
        word = {"target": "labels", "groups": "groups"}[name]
        option = {"target": "leave it out, or add them", "groups": "add them, or give groups=False (--no-groups)"}[name]
        raise BadFileError(f"{lacking[0]}: has no {word}, but other files have; {option}")
    return _as_one(found)


def _as_one(columns: Sequence[Array]) -> Array:
    """Return columns one after the other, as text if any of them are."""
    text = any(column.dtype.kind in "UT" for column in columns)
    return np.concatenate([column.astype(str) if text else column for column in columns])


def _common(parts: Sequence[SampleSet], name: str) -> Any:
    """Return what all files say, None if they say different things."""
    stated = {getattr(part, name) for part in parts}
    if name == "sfreq" and len(stated) > 1 and None not in stated:
        raise BadFileError(
            f"{parts[0].source} and the other files have different sampling frequencies, {listed(map(str, stated), 2)} "
            "Hz; resample them to one"
        )
    return stated.pop() if len(stated) == 1 else None


def _axes(parts: Sequence[SampleSet]) -> Axes | None:
    """Return what the axes of all files have in common; raise `BadFileError` if channels have different names."""
    axes = [part.axes for part in parts]
    if any(own is None or isinstance(own, Mapping) for own in axes):
        return None
    found = []
    for modes in zip(*axes, strict=True):
        first = modes[0]
        for part, mode in zip(parts, modes, strict=True):
            if _are_texts(first) and _are_texts(mode) and mode != first:
                other = next(
                    (own, theirs) for own, theirs in zip(mode.values, first.values, strict=True) if own != theirs
                )
                raise BadFileError(
                    f"{part.source}: its {mode.name or 'mode'} {other[0]} is in the place of {other[1]} in "
                    f"{parts[0].source}; all files must have the same ones, in the same order. Reorder them first"
                )
        found.append(first if all(_alike(mode, first) for mode in modes) else replace(first, values=None))
    return tuple(found)


def _are_texts(axis: Axis) -> bool:
    return axis.values is not None and not axis.is_numeric


def _alike(axis: Axis, other: Axis) -> bool:
    if axis.is_numeric and other.is_numeric and (axis.name, axis.unit) == (other.name, other.unit):
        return len(axis.values) == len(other.values) and bool(np.allclose(axis.values, other.values))
    return axis == other
