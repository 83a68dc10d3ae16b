"""Load labelled samples from all supported kinds of files and folders."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np

from .._typing import Array
from .._validation import text_or_numbers
from ..axes import Axes, checked_axes
from ..intake import Shape
from ..leakage import LeakageWarning, describe_duplicates
from ..metadata import checked_confounds
from ..readers.files import NIFTI
from ..readers.rules import (
    DEFAULT_RULES,
    BadFileError,
    FileRules,
    check_inside,
    check_text,
    listed,
    parsed_bytes,
    quoted,
)
from ..views import Shapes, shape_of
from .arrays import Stored, check_samples, container_endings, container_kind, open_arrays
from .covariates import Coding
from .digests import check_sha256
from .grouping import grouping_in_names, unused_grouping
from .images import (
    Stack,
    file_words,
    known_endings,
    lazy_nifti,
    lazy_stack,
    list_folder,
    must_be_read_whole,
    read_nifti,
    read_stack,
    stack_bytes,
    words_for,
)
from .labels import (
    PATHS,
    GroupsName,
    Labels,
    choose_entry,
    choose_groups,
    choose_labels,
    clean,
    confounds_in_container,
    confounds_in_table,
    describe,
    from_text,
    groups_in_container,
    groups_in_table,
    likely_groups,
    no_labels,
    read_labels,
    rows_by_path,
)
from .lazy import Chunks, check_dask, chunks_for, lazy_container, stays_in_files
from .tables import Table, is_table, read_table

_SAMPLES = ("X", "data", "samples", "images")
_WHOLE = "can only be read whole, which one task does; convert it to .npy, HDF5 or Zarr if that is too much for memory"
_LABELS_FROM = "give a file with the labels as labels_from=... (command line: --labels-from)"


@dataclass(frozen=True)
class SampleSet:
    """Samples with labels, groups and other information from their file.

    Attributes
    ----------
    data : ndarray or dask.array.Array, of shape (n_samples, I_1, ..., I_M), or Views
        With ``ragged=True``, a vector of arrays, one per sample, if the samples differ in length.
        A read-only memory map for ``.npy`` files. With ``lazy=True``, a Dask array with chunks along the samples;
        ``data.compute()`` reads it into memory.
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
        decides on the representations that ``tensormargin fit --auto`` tries.
    sfreq : float or None
        Sampling frequency in Hz along the last mode, for the same sources.
    axes : tuple of Axis or None
        Names, units and coordinates of the modes, as far as the source states them; a dictionary for several views.

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "confounds", checked_confounds(self.data, self.confounds))
        object.__setattr__(self, "axes", _checked_axes(self.axes, self.sample_shape))
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
            raise BadFileError(f"{self.source}: has no labels; {_LABELS_FROM}")
        return self.target


def _checked_axes(axes: Any, shape: Any) -> Any:
    """Return the axes of an array, or of each of several views, if they fit its shape."""
    if isinstance(axes, Mapping):
        return {name: checked_axes(own, shape[name]) for name, own in axes.items()}
    return checked_axes(axes, shape)


@dataclass(frozen=True)
class _Asked:
    """The arguments of `load_samples`.

    ``need_labels`` refers to the file of the samples, ``flat`` to a folder; ``other_labels`` is the name of the labels
    in a separate file.
    """

    samples: str | None = None
    labels: str | None = None
    groups: GroupsName = None
    axis: int = 0
    size: tuple[int, ...] | None = None
    need_labels: bool = True
    flat: bool = False
    lazy: bool | str = False
    chunks: Chunks = "auto"
    ragged: bool = False
    other_labels: str | None = None
    missing: bool = False
    rules: FileRules = DEFAULT_RULES


def load_samples(
    path: str | Path,
    *,
    samples: str | None = None,
    labels: str | None = None,
    groups: str | bool | None = None,
    labels_from: Any = None,
    axis: int = 0,
    size: Sequence[int] | None = None,
    need_labels: bool = True,
    lazy: bool | Literal["auto"] = False,
    chunks: Chunks = "auto",
    ragged: bool = False,
    confounds: str | Sequence[str] | None = None,
    missing: bool = False,
    max_bytes: int | str | None = None,
    allow_external: bool = False,
    fill_missing: bool = False,
    sha256: str | None = None,
) -> SampleSet:
    """Load samples with their labels from a file or folder; nothing is ever unpickled.

    Damaged and hostile files give a message, whatever their parsers do (docs/security.md).

    Parameters
    ----------
    path : str or Path
        One of

        - a container of arrays: ``.npz``, ``.npy``, ``.mat`` (MATLAB 5 to 7.3), HDF5 (``.h5``, ``.hdf5``, ``.hdf``),
          Zarr (a folder or ``.zip``);
        - a folder with one subfolder per class, holding images (PNG, JPEG, TIFF), NIfTI volumes or ``.npy`` files;
        - a table (``.csv``, ``.tsv``) with the columns path, label and optionally group; paths are relative to the
          table's folder;
        - a 4-D NIfTI file, samples along the last axis, with ``labels_from``.
    samples : str, optional
        Name of the array with the samples ("a/b" inside groups), or of a table's column of paths. By default X, data,
        samples or images, otherwise the only array that could be the samples.
    labels : str, optional
        Name of the array or column. By default y, labels, label, target or targets.
    groups : str or False, optional
        Name of the array or column. By default groups or group, if present and not used as labels. False ignores
        groups.
    labels_from : str, Path or array-like of shape (n_samples,), optional
        The labels, in the order of the samples; or a separate file with the labels, and optionally groups: ``.npy``,
        ``.npz``, ``.mat``, HDF5, a table (``.csv``, ``.tsv``, whitespace-separated ``.txt``), or a list with one label
        per line and no header. It has one row per sample, in the same order; rows are matched by path if it has a
        column path and every sample is a file.
    axis : int, default=0
        Sample axis of the array in a container.
    size : sequence of int, optional
        Resize every image or volume file to this size, given without the colour axis.
    need_labels : bool, default=True
        Whether missing labels are an error. If False, files may also be in the folder itself.
    lazy : bool or "auto", default=False
        Leave the samples in their files: ``data`` is a Dask array with chunks along the samples, each of which is read
        and checked for NaN by the task that needs it. All processes of a cluster must see the files under the same
        path. Labels and groups are read immediately. If every sample is a file, only the first is opened now; the
        others are checked against it when they are read. Compressed ``.npz``, ``.mat`` before 7.3, cell arrays and
        ``.nii.gz`` cannot be read in parts: a single task reads the whole file, and ``notes`` says so. "auto" does this
        for samples that can be read in parts and are larger than a share of the available memory (an eighth).
    chunks : int or str, default="auto"
        With ``lazy``: the number of samples per chunk, or its size in bytes as text ("64 MiB"); "auto" uses Dask's
        setting (128 MiB unless changed). A size is rounded to the chunks of the HDF5 file or Zarr store; a task reads
        at most 100 files.
    ragged : bool, default=False
        Whether files of one sample each may differ in the length of a mode, which `EqualLength` then makes equal. Not
        with ``lazy``.
    confounds : str or sequence of str, optional
        Names of arrays or columns (age, site, motion) for `Deconfound`, one value per sample, numbers or text; in the
        file of the samples or in that of the labels.
    missing : bool, default=False
        Whether the file holds one of several views (see `load_views`): samples that lack it are NaN in all entries,
        and one number per sample is enough.
    max_bytes : int or str, optional
        Most memory that an array or all samples together may need, in bytes or as text ("8 GB"). By default what is
        available, and no more than is plausible for the size of the file.
    allow_external : bool, default=False
        Whether the samples may lie elsewhere: in external or virtual HDF5 storage, behind links that lead out of the
        folder, or at paths that leave the folder of the table.
    fill_missing : bool, default=False
        Whether chunks of a Zarr store or HDF5 file that were never written hold its fill value; otherwise they are an
        error.
    sha256 : str, optional
        Digest that the file or folder must have, as `sha256_of` returns it; for formats without a checksum. Tables may
        have a column sha256 with the digest of each file instead.

    Returns
    -------
    SampleSet

    Raises
    ------
    BadFileError
        The message names the file, the fault and the remedy.

    Warns
    -----
    LeakageWarning
        There are no groups, but the file or the file names suggest that samples belong together. Never with
        ``need_labels=False``, as for new samples, or ``groups=False``.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.io import load_samples
    >>> np.savez("faces.npz", X=np.ones((4, 8, 8)), y=["a", "b", "a", "b"])  # doctest: +SKIP
    >>> load_samples("faces.npz").data.shape  # doctest: +SKIP
    (4, 8, 8)
    """
    source = Path(path)
    if not source.exists():
        raise BadFileError(f"{source}: no such file or folder; give the path of one that exists")
    check_text(source, str(source))
    if lazy is True:
        check_dask(source)
    elif lazy not in (False, "auto"):
        raise ValueError(f'lazy must be True, False or "auto"; got {lazy!r}')
    if groups is True:
        raise ValueError("groups is the name of an array or column, None or False; got True. Name the groups")
    if lazy is True and ragged:
        raise ValueError("lazy samples must have one shape; got lazy=True and ragged=True. Leave one of them out")
    rules = FileRules(parsed_bytes(max_bytes), allow_external, fill_missing)
    if sha256 is not None:
        check_sha256(source, sha256)
    named = (confounds,) if isinstance(confounds, str) else tuple(confounds or ())
    second = None if labels_from is None else read_labels(labels_from, labels, groups, named, rules)
    asked = _Asked(
        samples=samples,
        labels=None if second else labels,
        groups=None if second and second.groups is not None else groups,
        axis=axis,
        size=None if size is None else tuple(size),
        need_labels=need_labels and second is None,
        flat=not need_labels or second is not None,
        lazy=lazy if not ragged else False,
        chunks=chunks,
        ragged=ragged,
        other_labels=None if second is None else second.name,
        missing=missing,
        rules=rules,
    )
    found = replace(_read(source, asked), source=str(path))
    found = found if second is None else _with_labels(source, found, second)
    found = _with_warnings(_samples_first(source, found, second, asked), use_groups=groups is not False)
    found = _with_confounds(source, found, named, second, rules) if named else found
    for text in found.warnings if need_labels else ():
        warnings.warn(text, LeakageWarning, stacklevel=2)
    return found


def leakage_warnings(samples: SampleSet) -> tuple[str, ...]:
    """Return all signs of leakage between training and test sets, each with its remedy.

    Besides the warnings of `load_samples` these are duplicates among the samples; the search reads some of the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.io import SampleSet, leakage_warnings
    >>> X = np.random.default_rng(0).standard_normal((6, 3, 4))
    >>> samples = SampleSet(np.concatenate([X, X[:1]]), [0, 1, 0, 1, 0, 1, 0], None, None, None, "noise", "plain", ())
    >>> len(leakage_warnings(samples))
    1
    """
    copies = describe_duplicates(samples.data, samples.groups)
    return samples.warnings if copies is None else (*samples.warnings, f"{samples.source}: {copies}")


def _with_warnings(found: SampleSet, use_groups: bool) -> SampleSet:
    """Return the samples with at most one warning about unused groups, and with none if there are groups."""
    if not use_groups or found.groups is not None:
        return replace(found, warnings=())
    names = grouping_in_names(found.names or ())
    said = (*found.warnings, *(() if names is None else (f"{found.source}: {names}",)))
    return replace(found, warnings=said[:1])


def _read(path: Path, asked: _Asked) -> SampleSet:
    """Return the contents of a path; the samples of a container are not yet moved to the first axis."""
    kind = container_kind(path)
    if kind is not None:
        return _from_container(path, kind, asked)
    if path.is_dir():
        return _from_folder(path, asked)
    if is_table(path):
        return _from_table(path, asked)
    if path.name.lower().endswith(NIFTI):
        return _from_nifti(path, asked)
    raise BadFileError(
        f"{path}: unknown kind of file {path.suffix!r}; give a folder with one subfolder per class, a table (.csv, "
        f".tsv) of paths and labels, a 4-D NIfTI file or one of {container_endings()}"
    )


def _from_container(path: Path, kind: str, asked: _Asked) -> SampleSet:
    _refuse(path, asked, ("size",), "only files that are one sample each can be resized")
    with open_arrays(path, rules=asked.rules) as held:
        label_name = choose_labels(path, held, asked.labels, asked.groups)
        if label_name is None and asked.need_labels:
            no_labels(path, held, _LABELS_FROM)
        not_groups = (label_name, asked.other_labels)
        taken = (label_name, choose_groups(path, held, asked.groups, not_groups))
        others = {name: stored for name, stored in held.items() if name not in taken}
        name = choose_entry(path, held, asked.samples, _SAMPLES, "samples") or _likely_samples(path, others)
        target = None if label_name is None else clean(path, held[label_name].read(), "labels")
        groups = groups_in_container(path, held, asked.groups, not_groups)
        data, notes = _samples_in(path, name, held[name], asked)
        n_samples = data.shape[asked.axis] if -data.ndim <= asked.axis < data.ndim else 0
        unused = _unused(path, likely_groups(held, (*not_groups, name), n_samples))
        return SampleSet(data, target, groups, None, None, "", kind, notes, unused)


def _unused(path: Path, columns: Mapping[str, Sequence[Any] | Array]) -> tuple[str, ...]:
    said = unused_grouping(columns)
    return () if said is None else (f"{path}: {said}",)


def _samples_in(path: Path, name: str, stored: Stored, asked: _Asked) -> tuple[Any, tuple[str, ...]]:
    """Return the samples of a container, in memory or lazy, and notes."""
    if not stored.is_numeric or len(stored.shape) < 2:  # will be refused later
        return stored.read(), ()
    n_bytes = stored.dtype.itemsize * prod(stored.shape)
    if not stays_in_files(path, asked.lazy, n_bytes, stored.pieces is not None):
        return stored.read(), ()
    _check_axis(path, stored.shape, asked.axis)
    chunks = chunks_for(asked.lazy, asked.chunks)
    data = lazy_container(path, name, stored, asked.axis, chunks, asked.rules, asked.missing)
    return data, (f"{path.name} {_WHOLE}",) if stored.pieces is None else _in_parts(path, asked, n_bytes)


def _in_parts(path: Path, asked: _Asked, n_bytes: int) -> tuple[str, ...]:
    """Return a note about samples that were left in their files because of their size."""
    said = f"{path.name}: its {n_bytes / 1e9:.3g} GB of samples are read in parts, since they would fill the memory"
    return (said,) if asked.lazy == "auto" else ()


def _likely_samples(path: Path, held: Mapping[str, Stored]) -> str:
    """Return the name of the only numeric array with two or more axes; MATLAB vectors, with an axis of 1, do not count.

    Raise `BadFileError` if there is none, or more than one.
    """
    likely = [
        name
        for name, stored in held.items()
        if stored.is_numeric and len(stored.shape) >= 2 and not (len(stored.shape) == 2 and 1 in stored.shape)
    ]
    if len(likely) == 1:
        return likely[0]
    raise BadFileError(
        f"{path}: {len(likely) or 'none'} of its arrays could be the samples; it holds {describe(held)}. Name the one "
        "that is: samples=... (command line: --samples)"
    )


def _from_folder(path: Path, asked: _Asked) -> SampleSet:
    why = "a folder of files has no arrays or columns; its labels are the names of its subfolders"
    _refuse(path, asked, ("samples", "labels", "groups", "axis"), why)
    listing = list_folder(path, asked.flat, asked.rules)
    stack = _stacked(path, listing.names, asked)
    target = None if listing.labels is None else from_text(path, listing.labels, "labels")
    kind = f"{'folder' if target is None else 'class folder'} of {words_for(listing.names)}"
    return SampleSet(stack.data, target, None, listing.names, stack.affine, "", kind, (*listing.notes, *stack.notes))


def _stacked(folder: Path, names: Sequence[str], asked: _Asked) -> Stack:
    if asked.lazy is True:
        return lazy_stack(folder, names, asked.size, asked.chunks, asked.rules)
    if asked.lazy == "auto" and names:
        n_bytes = stack_bytes(folder, names, asked.size, asked.rules)
        if stays_in_files(folder, asked.lazy, n_bytes, True):
            stack = lazy_stack(folder, names, asked.size, chunks_for(asked.lazy, asked.chunks), asked.rules)
            return stack._replace(notes=[*stack.notes, *_in_parts(folder, asked, n_bytes)])
    return read_stack(folder, names, asked.size, asked.ragged, asked.rules)


def _from_table(path: Path, asked: _Asked) -> SampleSet:
    _refuse(path, asked, ("axis",), "each of the files in a table is one sample")
    table = read_table(path, rules=asked.rules)
    paths = choose_entry(path, table.columns, asked.samples, PATHS, "samples")
    if paths is None:
        raise BadFileError(
            f"{path}: has no column named path; its columns are {describe(table.columns)}: give the one with the paths "
            "of the files as samples=... (command line: --samples)"
        )
    label_name = choose_labels(path, table.columns, asked.labels, asked.groups)
    if label_name is None and asked.need_labels:
        no_labels(path, table.columns, _LABELS_FROM)
    target = None if label_name is None else from_text(path, table.columns[label_name], "labels")
    groups = groups_in_table(table, asked.groups, (label_name, asked.other_labels))
    names = table.columns[paths]
    _check_files(path, names, asked.rules)
    _check_digests(path, table, paths)
    stack = _stacked(path.parent, names, asked)
    taken = (paths, label_name, asked.other_labels)
    unused = _unused(path, {name: table.columns[name] for name in table.columns if name not in taken})
    kind = f"table of {words_for(names)}"
    return SampleSet(stack.data, target, groups, names, stack.affine, "", kind, tuple(stack.notes), unused)


def _check_files(path: Path, names: Sequence[str], rules: FileRules) -> None:
    root = path.parent.resolve()
    for row, name in enumerate(names, start=1):
        shown = repr(quoted(name))
        if "\0" in name or not (path.parent / name).is_file():
            raise BadFileError(
                f"{path}: row {row} names {shown}, which is no file in {path.parent}; paths are relative to the "
                "table's folder"
            )
        if file_words(name) is None:
            raise BadFileError(f"{path}: row {row} names {shown}, whose kind is none of {known_endings()}")
        check_inside(path.parent / name, root, rules, f"{path}: row {row}, {shown},")


def _check_digests(path: Path, table: Table, paths: str) -> None:
    """Raise `BadFileError` if a table has a column of digests, and a file has another one."""
    column = next((name for name in table.columns if name.lower() == "sha256"), None)
    if column is not None:
        for name, expected in zip(table.columns[paths], table.columns[column], strict=True):
            check_sha256(path.parent / name, expected)


def _from_nifti(path: Path, asked: _Asked) -> SampleSet:
    why = "the samples of a 4-D NIfTI file are along its last axis, and it has no names; convert it to .npz"
    _refuse(path, asked, ("samples", "labels", "groups", "axis", "size"), why)
    if asked.need_labels:
        raise BadFileError(f"{path}: a NIfTI file has no labels; {_LABELS_FROM}")
    lazily = stays_in_files(path, asked.lazy, path.stat().st_size, not must_be_read_whole(path))
    chunks = chunks_for(asked.lazy, asked.chunks)
    volumes, affine = lazy_nifti(path, chunks, asked.rules) if lazily else read_nifti(path, asked.rules)
    if volumes.ndim != 4:
        raise BadFileError(
            f"{path}: must have four axes, the last counting the samples; its shape is {volumes.shape}. Where every "
            "file is one sample, give a folder with one subfolder per class, or a table of paths and labels"
        )
    whole = (f"{path.name} {_WHOLE}",) if lazily and must_be_read_whole(path) else ()
    notes = (*whole, *(_in_parts(path, asked, path.stat().st_size) if lazily else ()))
    return SampleSet(np.moveaxis(volumes, -1, 0), None, None, None, affine, "", "4-D NIfTI", notes)


def _refuse(path: Path, asked: _Asked, options: Sequence[str], why: str) -> None:
    for option in options:
        given = getattr(asked, option)
        if given is not False and given != getattr(_Asked, option):
            raise BadFileError(f"{path}: {option}={given!r} (command line: --{option}) is of no use here: {why}")


def _with_labels(path: Path, found: SampleSet, second: Labels) -> SampleSet:
    """Return the samples with the labels of a second file."""
    target, groups, others, notes = second.target, second.groups, second.others, found.notes
    if second.paths is not None and found.names is not None:
        folder = path if path.is_dir() else path.parent
        rows = rows_by_path(second.path, second.paths, found.names, folder)
        target, groups = target[rows], None if groups is None else groups[rows]
        others = {name: values[rows] for name, values in others.items()}
        left = len(second.paths) - len(set(rows))
        notes += (f"rows of {second.path.name} that name no sample: {left}",) if left else ()
    groups = found.groups if groups is None else groups
    unused = (*_unused(second.path, others), *found.warnings)
    return replace(found, target=target, groups=groups, notes=notes, warnings=unused)


def _with_confounds(
    path: Path, found: SampleSet, names: Sequence[str], second: Labels | None, rules: FileRules
) -> SampleSet:
    """Return the samples with confounds from their file or, if it has them, from the file of labels."""
    columns = _own_confounds(path, names, rules)
    if second is not None:
        rows: Any = slice(None)
        if second.paths is not None and found.names is not None:
            rows = rows_by_path(second.path, second.paths, found.names, path if path.is_dir() else path.parent)
        columns |= {name: values[rows] for name, values in second.confounds.items()}
    missing = [name for name in names if name not in columns]
    if missing:
        where = "it" if second is None else f"neither it nor {second.path}"
        raise BadFileError(
            f"{path}: confounds must be names of arrays or columns with one value per sample; {where} has "
            f"{'no' if second is None else 'any'} {listed(missing)}. Give others as confounds=... (command line: "
            "--confounds), or a table with these columns as labels_from=... (--labels-from)"
        )
    wrong = [name for name in names if len(columns[name]) != len(found.data)]
    if wrong:
        raise BadFileError(
            f"{path}: the confound {wrong[0]!r} has {len(columns[wrong[0]])} values, but there are {len(found.data)} "
            "samples; there must be one per sample, in the samples' order"
        )
    return replace(found, confounds={name: columns[name] for name in names})


def _own_confounds(path: Path, names: Sequence[str], rules: FileRules) -> dict[str, Array]:
    """Return those of the named confounds that are in the file of the samples."""
    if container_kind(path) is not None:
        with open_arrays(path, rules=rules) as held:
            return confounds_in_container(path, held, names)
    return confounds_in_table(read_table(path, rules=rules), names) if is_table(path) else {}


def _samples_first(path: Path, found: SampleSet, second: Labels | None, asked: _Asked) -> SampleSet:
    """Return the samples along the first axis; raise `BadFileError` if they are not usable."""
    data, axis = found.data, asked.axis
    _check_axis(path, data.shape, axis)
    for what, values in (("labels", found.target), ("groups", found.groups)):
        if values is not None and len(values) != data.shape[axis]:
            raise _miscounted(path, found, second, axis, f"{len(values)} {what}", len(values))
    data = data if axis == 0 else np.moveaxis(data, axis, 0)
    if asked.missing and data.ndim == 1:  # one number per sample, such as an age
        data = data[:, None]
    check_samples(path, data, "the array of samples", asked.missing)
    return replace(found, data=data)


def _check_axis(path: Path, shape: tuple[int, ...], axis: int) -> None:
    if not -len(shape) <= axis < len(shape):
        raise BadFileError(
            f"{path}: axis={axis} (command line: --axis) must be one of the {len(shape)} axes of the samples, of shape "
            f"{shape}; the first is 0"
        )


def _miscounted(
    path: Path, found: SampleSet, second: Labels | None, axis: int, counted: str, count: int
) -> BadFileError:
    shape = found.data.shape
    origin = "" if second is None else f" with those of {second.path}"
    others = [other for other, length in enumerate(shape) if length == count]
    if others and found.names is None and found.affine is None:
        remedy = f"axis {others[0]} has that length: give axis={others[0]} (command line: --axis {others[0]})"
    else:
        remedy = "there must be one per sample, in the samples' order" + ("" if second is None else second.hint)
    return BadFileError(f"{path}: {counted}{origin}, but {shape[axis]} samples (shape {shape}, axis {axis}); {remedy}")
