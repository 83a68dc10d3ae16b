"""Samples with what their source says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import prod
from typing import Any

import numpy as np

from ..data import (
    Axes,
    BadFileError,
    Coding,
    Metadata,
    Shape,
    Shapes,
    checked_any_axes,
    checked_confounds,
    describe_confounds,
    describe_duplicates,
    describe_giveaways,
    describe_order,
    facts_table,
    format_shape,
    sample_picture,
    shape_of,
    text_or_numbers,
)
from ..runtime import Array, block_bytes, counted, listed, rows_of, tuning
from .lazy import in_blocks

IN_TIME = "around events"  # in the kind of samples that were cut from a recording, in the order of time
LABELS_FROM = "give a file with the labels as labels_from=... (command line: --labels-from)"
_MOST_CLASSES = 6  # in a summary
_MOST_PICTURES = 4


@dataclass(frozen=True)
class SampleSet:
    """Samples with labels, groups and other information from their file.

    Attributes
    ----------
    data : ndarray or dask.array.Array, of shape (n_samples, I_1, ..., I_M), or Views
        With ``ragged=True``, a vector of arrays, one per sample, if the samples differ in length.
        A read-only memory map for ``.npy`` files larger than an eighth of the available memory. With ``lazy=True``, a
        Dask array with chunks along the samples; ``data.compute()`` reads it into memory. With ``lazy="blocks"``, what
        gives arrays for slices of it.
    target : ndarray of shape (n_samples,) or None
        Labels, text or integers. A list or pandas Series is converted to an array in the same order.
    groups : ndarray of shape (n_samples,) or None
        Groups of samples that belong together (a person, a run), text or integers; converted like the labels.
    names : list of str or None
        File names of the samples, relative to the folder or as given in the table; None if they share one file.
    affine : ndarray of shape (4, 4) or None
        For NIfTI files: maps voxel indices, after resizing to ``size``, to millimetres. A dictionary for several views.
    source : str
        The path as given.
    kind : str
        Kind of the source, in words: "NumPy archive", "class folder of images", "4-D NIfTI".
    notes : tuple of str
        Remarks for the user: files that were left out, affines that differ.
    warnings : tuple of str
        Signs that samples belong together although there are no groups: a column ``subject``, BIDS file names; see
        `leakage_warnings`.
    confounds : ndarray of shape (n_samples,) or None
        Confounds by name (age, site, motion), a structured array of numbers and text; converted like the labels.
    coding : Coding or None
        How covariates were encoded, if there are any.
    sources : mapping of str to str or None
        The file of each of several views.
    field : str or None
        Kind of the samples themselves ("eeg", "spectra", ...), for sources that state it: the public data sets. It
        decides on the representations that ``tensormargin fit`` tries.
    sfreq : float or None
        Sampling frequency in Hz along the last mode, for the same sources.
    axes : tuple of Axis or None
        Names, units and coordinates of the modes, as far as the source states them; a dictionary for several views.
    files : ndarray of shape (n_samples,) or None
        The file of each sample, if they come from several.
    loading : mapping
        How the samples were made: the options that were given, and under "stated" what the file states (``tr``,
        ``sfreq``), as JSON types. `save_model` keeps it, and ``load_samples(path, like=...)`` repeats it.
    unit : str or None
        Unit of the entries, if the source states it; a dictionary for several views.
    positions : ndarray of shape (n_samples, 2) or None
        Row and column of each sample in its scene, for what ``tensormargin patches`` wrote.
    left_out : tuple of str
        Names of damaged files that ``skip_damaged`` left out.
    space : int or None
        For NIfTI files: the code of the coordinates of the affine, 4 for those of MNI152; a dictionary for several
        views.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from tensormargin import load_samples
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/study.npz", X=np.random.rand(6, 3, 4), y=["a", "b"] * 3, groups=[1, 1, 2, 2, 3, 3])
    ...     samples = load_samples(f"{folder}/study.npz")
    >>> samples.data.shape, samples.sample_shape
    ((6, 3, 4), (3, 4))
    >>> samples.target, samples.groups
    (array(['a', 'b', 'a', 'b', 'a', 'b'], dtype='<U1'), array([1, 1, 2, 2, 3, 3]))
    """

    data: Any
    target: Array | None
    groups: Array | None
    names: list[str] | None
    affine: Any
    source: str
    kind: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    confounds: Any = None
    coding: Coding | None = None
    sources: Mapping[str, str] | None = None
    field: str | None = None
    sfreq: float | None = None
    axes: Axes | Mapping[str, Axes | None] | None = None
    files: Array | None = None
    loading: Mapping[str, Any] = None  # type: ignore[assignment]  # becomes a dictionary
    unit: str | Mapping[str, str | None] | None = None
    positions: Array | None = None
    left_out: tuple[str, ...] = ()
    space: int | Mapping[str, int | None] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "loading", dict(self.loading or {}))
        object.__setattr__(self, "confounds", checked_confounds(self.data, self.confounds))
        object.__setattr__(self, "axes", checked_any_axes(self.axes, self.sample_shape))
        for name in ("target", "groups"):
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, text_or_numbers(values, name))

    @property
    def sample_shape(self) -> Shape | Shapes:
        """Shape of a sample, with None for a mode in which they differ; a dictionary for several views."""
        found: Shape | Shapes = shape_of(self.data)
        return found

    @property
    def labels(self) -> Array:
        """The labels; raises `BadFileError` if there are none."""
        if self.target is None:
            raise BadFileError(f"{self.source}: has no labels; {LABELS_FROM}")
        return self.target

    def of_classes(
        self, only: Sequence[str] = (), exclude: Sequence[str] = (), at_least: int = 1, options: bool = False
    ) -> SampleSet:
        """Return the samples of some classes, with a note on those that are left out.

        Parameters
        ----------
        only, exclude : sequence of str
            Classes to keep (all if there are none) and to leave out, by name or number.
        at_least : int
            Classes with fewer samples, or fewer groups if there are groups, are left out.
        options : bool
            Whether messages name the options of the commands.

        Examples
        --------
        >>> import numpy as np
        >>> from tensormargin.io import SampleSet
        >>> samples = SampleSet(np.zeros((5, 2, 2)), list("aabbc"), None, None, None, "noise", "plain", ())
        >>> samples.of_classes(at_least=2)
        SampleSet(4 samples of 2 x 2; a (2), b (2); from noise)
        """
        labels = self.labels
        classes = {str(label): label for label in np.unique(labels).tolist()}
        for name, given in (("only-classes" if options else "only", only), ("exclude" + "-classes" * options, exclude)):
            unknown = [str(one) for one in given if str(one) not in classes]
            if unknown:
                asked = f"--{name}" if options else name
                raise BadFileError(
                    f"{self.source}: {asked} names {listed(unknown)}, and the classes are {listed(list(classes))}"
                )
        kept = [one for one in classes if (not only or one in map(str, only)) and one not in map(str, exclude)]
        units = np.arange(len(labels)) if self.groups is None else self.groups
        rare = [one for one in kept if len(np.unique(units[labels == classes[one]])) < at_least]
        kept = [one for one in kept if one not in rare]
        if len(kept) == len(classes):
            return self
        if len(kept) < 2:
            raise BadFileError(f"{self.source}: a classifier needs two classes, and {listed(kept) or 'none'} is left")
        rows = np.flatnonzero(np.isin(labels, [classes[one] for one in kept]))
        left = listed([one for one in classes if one not in kept], most=8)
        what = "samples" if self.groups is None else "groups"
        few = f", {listed(rare, most=8)} for having fewer than {at_least} {what}" if rare else ""
        note = f"{counted(len(labels) - len(rows), 'sample')} of other classes left out ({left}{few})"
        return replace(self.taken(rows), notes=(*self.notes, note))

    def taken(self, rows: Array | slice) -> SampleSet:
        """Return some of the samples, by number."""
        own = {name: getattr(self, name) for name in ("target", "groups", "confounds", "files", "positions")}
        some = {name: value[rows] for name, value in own.items() if value is not None}
        names: Any = self.names
        if names is not None:
            names = names[rows] if isinstance(rows, slice) else [names[row] for row in rows]
        data = self.data[rows] if isinstance(rows, slice) else rows_of(self.data, rows)
        return replace(self, data=data, names=names, **some)

    def parts(self, whole_groups: bool = False) -> Iterator[SampleSet]:
        """Yield all samples, in their order, a few in memory at a time; samples without a name get their number.

        With ``whole_groups``, no part begins or ends within a group: a part may then be large.
        """
        numbers: dict[str, Iterator[int]] = {}
        samples = replace(self, data=in_blocks(self.data))
        for rows in self._rows_of_parts(whole_groups):
            part = samples.taken(rows)
            if part.files is not None and part.names is None:
                names = [str(next(numbers.setdefault(file, count()))) for file in part.files.tolist()]
            else:
                names = part.names or list(map(str, range(rows.start, rows.stop)))
            yield replace(part, names=names)

    def _rows_of_parts(self, whole_groups: bool) -> Iterator[slice]:
        n_samples = len(self.data)
        shapes = self.sample_shape.values() if isinstance(self.sample_shape, dict) else [self.sample_shape]
        n_bytes = 8 * sum(prod(size or 1 for size in shape) for shape in shapes)  # as models compute with them
        step = max(1, min(tuning.BLOCK_SAMPLES, block_bytes() // n_bytes))
        ends = np.arange(1, n_samples + 1)
        if whole_groups and self.groups is not None:
            names, codes = np.unique(self.groups, return_inverse=True)
            last = np.zeros(len(names), np.intp)
            np.maximum.at(last, codes, np.arange(n_samples))
            ends = ends[np.maximum.accumulate(last[codes]) < ends]
        start = 0
        while start < n_samples:
            stop = int(ends[min(int(np.searchsorted(ends, start + step)), len(ends) - 1)])
            yield slice(start, stop)
            start = stop

    @property
    def facts(self) -> dict[str, str]:
        """Number and shape of the samples, axes, classes and groups in words."""
        several = self.axes.items() if isinstance(self.axes, Mapping) else ()
        views = [f"{_labels(own)} ({name})" for name, own in several if own is not None]
        return {
            "samples": f"{counted(len(self.data), 'sample')} of {format_shape(self.sample_shape)}",
            "axes": _labels(self.axes) if isinstance(self.axes, tuple) else ", ".join(views),
            "classes": "no labels" if self.target is None else _classes(self.target),
            "groups": "" if self.groups is None else counted(len(np.unique(self.groups)), "group"),
        }

    def __repr__(self) -> str:
        parts = [*self.facts.values(), f"from {self.source}" if self.source else ""]
        return f"SampleSet({'; '.join(part for part in parts if part)})"

    def _repr_html_(self) -> str:
        source = f"{self.source} ({self.kind})" if self.kind else self.source
        rows = [*self.facts.items(), ("source", source), *(("note", note) for note in self.notes)]
        return facts_table("SampleSet", [row for row in rows if row[1]], self._pictures())

    def _pictures(self) -> str:
        """Return the first sample of each of the first classes as HTML, of all views."""
        if self.target is None:
            first = {f"sample {number + 1}": number for number in range(min(_MOST_PICTURES, len(self.data)))}
        else:
            classes, rows = np.unique(self.target, return_index=True)
            first = dict(zip(map(str, classes[:_MOST_PICTURES]), rows[:_MOST_PICTURES].tolist(), strict=True))
        some = rows_of(self.data, np.array(list(first.values())))
        views = some.items() if isinstance(self.sample_shape, dict) else [("", some)]
        return "".join(
            sample_picture(one, f"{view}, {name}".removeprefix(", "))
            for view, samples in views
            for name, one in zip(first, samples, strict=True)
        )


def _labels(axes: Axes) -> str:
    return " x ".join(axis.label or "?" for axis in axes)


def _classes(target: Array) -> str:
    names, counts = np.unique(target, return_counts=True)
    shown = [f"{name} ({count})" for name, count in zip(names[:_MOST_CLASSES], counts[:_MOST_CLASSES], strict=True)]
    more = [f"{len(names) - _MOST_CLASSES} more classes"] if len(names) > _MOST_CLASSES else []
    return ", ".join([*shown, *more])


def leakage_warnings(samples: SampleSet) -> tuple[str, ...]:
    """Return all signs of leakage between training and test sets, each with its remedy.

    Besides the warnings of `load_samples` these are duplicates among the samples, and covariates, views, groups or an
    order in time that determine the labels; the samples are read.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.io import SampleSet, leakage_warnings
    >>> X = np.random.default_rng(0).standard_normal((6, 3, 4))
    >>> samples = SampleSet(np.concatenate([X, X[:1]]), [0, 1, 0, 1, 0, 1, 0], None, None, None, "noise", "plain", ())
    >>> len(leakage_warnings(samples))
    1
    """
    found = [describe_duplicates(samples.data, samples.groups, names=samples.names)]
    if samples.target is not None:
        found += describe_giveaways(samples.data, samples.target, samples.groups, samples.axes)
    found += describe_confounds(Metadata(samples.groups, samples.confounds))
    if samples.target is not None and samples.kind.endswith(IN_TIME):
        found.append(describe_order(samples.target, samples.groups if samples.files is None else samples.files))
    return (*samples.warnings, *(f"{samples.source}: {text}" for text in found if text))
