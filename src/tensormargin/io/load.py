"""Load labelled samples from all supported kinds of files and folders."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..data import (
    DEFAULT_RULES,
    Axes,
    BadFileError,
    FileRules,
    LeakageWarning,
    Metadata,
    Shape,
    Shapes,
    axes_of,
    axes_of_picture,
    axes_of_volume,
    blocks_in_time,
    check_inside,
    check_text,
    checked_any_axes,
    checked_confounds,
    describe_confounds,
    describe_duplicates,
    describe_giveaways,
    describe_order,
    names_of,
    parsed_bytes,
    shape_of,
    text_or_numbers,
)
from ..runtime import Array, listed, quoted
from .arrays import Missing, Stored, check_samples, container_endings, container_kind, open_arrays
from .bids import columns_of, groups_of, is_bids, labels_of, list_bids, participants_of
from .checksums import check_sha256
from .concatenate import FILE, files_in, joined, turned_like
from .container_axes import axes_in_container, colours_in, sampling_rate
from .covariates import Coding
from .dimensions import likely_labels, sample_axis
from .events import IN_TIME, WHOLE, Window, checked_window, chosen, mean_volumes, read_events
from .grouping import grouping_in_names, unused_grouping
from .images import (
    Stack,
    file_words,
    known_endings,
    lazy_nifti,
    lazy_stack,
    list_folder,
    must_be_read_whole,
    nifti_shape,
    nifti_tr,
    oriented,
    read_nifti,
    read_stack,
    stack_bytes,
    turned_note,
    turned_shape,
    words_for,
)
from .labels import (
    PATHS,
    Chosen,
    GroupsName,
    Labels,
    choose_columns,
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
from .lazy import Chunks, check_dask, chunks_for, lazy_container, samples_per_chunk, stays_in_files
from .loading import (
    NOTHING_KNOWN,
    TABLE,
    WINDOW,
    DoesNotApplyError,
    Known,
    contradictions,
    defaults_from,
    describe_loading,
    known_from,
    loading_facts,
    remembered_axes,
)
from .modes import stored_axes
from .readers.envi import ENDINGS as SCENES
from .readers.files import NIFTI
from .recordings import (
    Cutting,
    Recording,
    continuous,
    epochs_of,
    find_recording,
    is_recording,
    parsed_events,
    read_recording,
    recording_endings,
)
from .summary import as_table, in_one_line
from .tables import Table, is_table, read_table

_SAMPLES = ("X", "data", "samples", "images")
_WHOLE = "can only be read whole, which one task does; convert it to .npy, HDF5 or Zarr if that is too much for memory"
_WINDOW = "a part around events (command line: --tmin, --tmax, --delay, --detrend)"
_COLOURS = (
    "taken for colour images, rows x columns x red, green and blue, by the shape and the range of the samples; "
    "mode_names=... (command line: --modes) changes that"
)
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
    files : ndarray of shape (n_samples,) or None
        The file of each sample, if they come from several.
    loading : mapping
        How the samples were made: the options that were given, and under "stated" what the file states (``tr``,
        ``sfreq``), as JSON types. `save_model` keeps it, and ``load_samples(path, like=...)`` repeats it.
    unit : str or None
        Unit of the entries, if the source states it; a dictionary for several views.

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
            raise BadFileError(f"{self.source}: has no labels; {_LABELS_FROM}")
        return self.target

    def __repr__(self) -> str:
        return in_one_line(self)

    def _repr_html_(self) -> str:
        return as_table(self)


def _axes_of(
    path: Path,
    found: SampleSet,
    axes: Axes | None,
    names: Sequence[str] | None,
    values: Mapping[str, Any] | Sequence[Any] | None,
) -> Axes | None:
    """Return the axes that were asked for, or else those of the file."""
    shape: Any = found.sample_shape
    if names is None and values is None:
        return axes if axes is None or len(axes) == len(shape) else None
    if names is None and axes is not None:
        names = [f"{axis.name}[{axis.unit}]" if axis.unit else axis.name for axis in axes]
    try:
        return axes_of(shape, names, values)
    except ValueError as error:
        raise BadFileError(f"{path}: {error}") from error


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
    missing: Missing = False
    events: Path | tuple[str, ...] | Literal[True] | None = None
    window: Window = WHOLE
    sfreq: float | None = None
    tr: float | None = None
    confounds: tuple[str, ...] = ()
    rules: FileRules = DEFAULT_RULES
    known: Known = NOTHING_KNOWN

    @property
    def cutting(self) -> Cutting:
        """How recordings become samples."""
        return Cutting(self.events, self.window, self.sfreq, self.labels)


def load_samples(
    path: str | Path | Sequence[str | Path],
    *,
    samples: str | None = None,
    labels: str | None = None,
    groups: str | bool | None = None,
    labels_from: Any = None,
    axis: int | None = None,
    size: Sequence[int] | None = None,
    need_labels: bool = True,
    lazy: bool | Literal["auto"] = False,
    chunks: Chunks = "auto",
    ragged: bool = False,
    confounds: str | Sequence[str] | None = None,
    missing: Missing = False,
    max_bytes: int | str | None = None,
    allow_external: bool = False,
    fill_missing: bool = False,
    sha256: str | None = None,
    mode_names: Sequence[str] | None = None,
    mode_values: Mapping[str, Any] | Sequence[Any] | None = None,
    events: str | Path | Sequence[str] | None = None,
    tmin: float | None = None,
    tmax: float | None = None,
    sfreq: float | None = None,
    tr: float | None = None,
    delay: float | None = None,
    detrend: int | None = None,
    like: Any = None,
) -> SampleSet:
    """Load samples with their labels from a file or folder; nothing is ever unpickled.

    Damaged and hostile files give a message, whatever their parsers do (docs/security.md).

    Parameters
    ----------
    path : str, Path, or sequence of them
        Several files or folders hold further samples of the same shape; so does a folder of containers or recordings.
        ``groups="file"`` makes each file a group. Otherwise one of

        - a container of arrays: ``.npz``, ``.npy``, ``.mat`` (MATLAB 5 to 7.3), HDF5 (``.h5``, ``.hdf5``, ``.hdf``),
          Zarr (a folder or ``.zip``), netCDF (``.nc``, 3 and 4), whose dimensions and coordinates become ``axes``;
          the one named sample, trial, epoch, event, subject, ... counts the samples, or else the first;
        - a BIDS data set of NIfTI files, ``sub-01[_ses-1][_run-1]_....nii.gz``: labels are a column of
          ``participants.tsv``, and subjects (runs, if there is one subject) are the groups;
        - a folder with one subfolder per class, holding images (PNG, JPEG, TIFF), NIfTI volumes or ``.npy`` files;
        - a table (``.csv``, ``.tsv``) with the columns path, label and optionally group; paths are relative to the
          table's folder;
        - a 4-D NIfTI file, samples along the last axis, with ``labels_from`` or ``events``;
        - epochs, or a continuous recording that is cut around events: EEGLAB (``.set``), FieldTrip (``.mat``), MNE
          (``.fif``) or BrainVision (``.vhdr``). Values have the unit of the file: volts for the last two, as MNE
          returns them. The labels are the names of the events, unless ``labels`` names another column of their
          metadata or ``trialinfo``.
    samples : str, optional
        Name of the array with the samples ("a/b" inside groups and MATLAB structures), or of a table's column of paths.
        By default X, data, samples or images, otherwise the only array that could be the samples. In a BIDS data set,
        the end of the file names ("T1w"), if there are several kinds of files.
    labels : str, optional
        Name of the array or column. By default y, labels, label, target or targets; in a netCDF file also the only
        other variable along the dimension of the samples.
    groups : str or False, optional
        Name of the array or column. By default groups or group, if present and not used as labels. False ignores
        groups. In a BIDS data set, "subject", "session" or "run".
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
        Whether missing labels are an error. If False, files may also be in the folder itself, and one file may be one
        sample: an image, a 3-D NIfTI file; with ``like`` also an array or recording of the shape of one sample.
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
    missing : bool or "entries", default=False
        True if the file holds one of several views (see `load_views`): samples that lack it are NaN in all entries,
        and one number per sample is enough. With "entries", any entry may be NaN, for models that begin with `Impute`.
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
    mode_names : sequence of str, optional
        Names of the modes of a sample, with units in brackets: ``["channel", "time[ms]"]``. By default what the file
        states (see `SampleSet.axes` and docs/guide.md).
    mode_values : mapping of str to array-like, or sequence of array-like or None, optional
        Coordinates of modes, one number or text per index, by name or one entry per mode.
    events : str, Path or sequence of str, optional
        For continuous recordings, arrays of channels × times (with ``sfreq``) and 4-D NIfTI files (with ``tr``): a
        table with the columns onset and duration, in seconds, and trial_type or label; or the names of the recording's
        own events, by default all of them. For epochs: the names of the events to take.
    tmin, tmax : float, optional
        The part around each event, in seconds. Without ``tmax`` it is as long as the event. Of epochs, the part that is
        kept.
    sfreq : float, optional
        Sampling frequency in Hz along the last mode. By default what the file states: a recording, a number named
        sfreq, fs, srate, ... in a container, or regular times.
    tr : float, optional
        Repetition time of a 4-D NIfTI file in seconds, by default that of its header. A sample is the mean of the
        volumes in the window of an event.
    delay : float, default=0.0
        Seconds to add to all onsets, such as 5 for a haemodynamic response.
    detrend : int, optional
        Degree of the polynomial over time to remove from a continuous recording before it is cut: the file is one run.
    like : ModelFile or SampleSet, optional
        Make the samples as those of a model (`load_model`) or of another set were made. Options given here override
        its ``loading``, which ``notes`` say, and what does not apply to this kind of file is left out. A table of
        events belongs to one recording, so ``events`` must be given again.

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
    given = {name: value for name, value in locals().items() if name != "path"}  # the arguments, for each of several
    several = _several_files(path, allow_external)
    if like is not None and groups is None and like.loading.get("groups") == FILE:
        given["groups"] = FILE
        several = several or [Path(str(path))]
    if several is not None or not isinstance(path, str | Path):
        return _from_several(several or [], **given)
    del given["like"]
    found = _load_one(path, given) if like is None else _load_like(path, given, like)
    for text in found.warnings if need_labels else ():
        warnings.warn(text, LeakageWarning, stacklevel=2)
    return found


def _load_like(path: str | Path, given: dict[str, Any], like: Any) -> SampleSet:
    """Return samples made as others were; remembered options that do not apply to this file are left out."""
    known = known_from(like)._replace(labels_given=given["labels"] is not None)
    remembered, without = defaults_from(known, given), dict[str, Any]()
    while True:
        try:
            found = _load_one(path, {**given, **remembered}, known)
            break
        except DoesNotApplyError as error:
            lost = [name for name in error.options if name in remembered]
            if not lost:
                raise
            without |= {name: remembered.pop(name) for name in lost}
    if found.axes is None:
        found = replace(found, axes=remembered_axes(like, found.sample_shape))
    found = turned_like(found, known_affine(like), "the model's samples")
    given_again = [name for name, value in given.items() if value is not None and name not in remembered]
    notes = contradictions(known, found.loading, given_again)
    silent = ("groups",) if found.target is not None else ("groups", "labels")
    left_out = describe_loading({name: value for name, value in without.items() if name not in silent})
    if left_out:
        notes.append(f"does not apply to this file, so it was left out: {left_out}")
    return replace(found, notes=(*found.notes, *(f"{path}: {note}" for note in notes)))


def known_affine(like: Any) -> Any:
    """Return the affine, or those of several views, of the samples of a model file, or of other samples."""
    return like.affine if isinstance(like, SampleSet) else like.facts.get("about", {}).get("affine")


def _load_one(path: str | Path, given: Mapping[str, Any], known: Known = NOTHING_KNOWN) -> SampleSet:
    """Return the samples of one file or folder; ``given`` are the arguments of `load_samples`."""
    source = Path(path)
    check_text(source, str(source))
    asked, second = _asked(source, given, known)
    found, axes = _read(source, asked)
    found = replace(found, source=str(path), **_sampling(source, found, asked))
    found = found if second is None else _with_labels(source, found, second)
    found = _with_warnings(_samples_first(source, found, second, asked, axes), use_groups=given["groups"] is not False)
    found = replace(found, axes=_axes_of(source, found, axes, given["mode_names"], given["mode_values"]))
    if found.axes is None and found.affine is None and not known.loading.get("modes"):
        colours = colours_in(found.data)
        notes = (*found.notes, *(() if colours is None else (f"{source.name}: {_COLOURS}",)))
        found = replace(found, axes=colours, notes=notes)
    found = _with_confounds(source, found, asked.confounds, second, asked.rules) if asked.confounds else found
    made = {**given, "kind": found.kind, "events": asked.events, "size": asked.size, "confounds": asked.confounds}
    stated = {"stated": dict(found.loading)} if found.loading else {}
    return replace(found, loading={**loading_facts(made), **stated})


def _asked(source: Path, given: Mapping[str, Any], known: Known) -> tuple[_Asked, Labels | None]:
    """Return the checked arguments of `load_samples`, and the labels of a separate file."""
    lazy, groups, ragged = given["lazy"], given["groups"], given["ragged"]
    if lazy is True:
        check_dask(source)
    elif lazy not in (False, "auto"):
        raise ValueError(f'lazy must be True, False or "auto"; got {lazy!r}')
    if groups is True:
        raise ValueError("groups is the name of an array or column, None or False; got True. Name the groups")
    if lazy is True and ragged:
        raise ValueError("lazy samples must have one shape; got lazy=True and ragged=True. Leave one of them out")
    window = checked_window(*(given[name] for name in (*WINDOW, *("tr", "sfreq"))))
    rules = FileRules(parsed_bytes(given["max_bytes"]), given["allow_external"], given["fill_missing"])
    if given["sha256"] is not None:
        check_sha256(source, given["sha256"])
    confounds = given["confounds"]
    named = (confounds,) if isinstance(confounds, str) else tuple(confounds or ())
    second = None
    if given["labels_from"] is not None:
        second = read_labels(given["labels_from"], given["labels"], groups, named, rules)
    same = {name: given[name] for name in ("samples", "chunks", "ragged", "missing", "sfreq", "tr")}
    asked = _Asked(
        **same,
        labels=None if second else given["labels"],
        groups=None if second and second.groups is not None else groups,
        axis=given["axis"] or 0,
        size=None if given["size"] is None else tuple(given["size"]),
        need_labels=given["need_labels"] and second is None,
        flat=not given["need_labels"] or second is not None,
        lazy=lazy if not ragged else False,
        other_labels=None if second is None else second.name,
        events=parsed_events(given["events"]),
        window=window,
        confounds=named,
        rules=rules,
        known=known,
    )
    return asked, second


def _sampling(path: Path, found: SampleSet, asked: _Asked) -> dict[str, Any]:
    """Return the sampling frequency, and notes and facts on what the file states of it and of the repetition time."""
    stated = dict(found.loading) if found.sfreq is None else {**found.loading, "sfreq": found.sfreq}
    notes = list(found.notes)
    for name, words in (("tr", "a repetition time of {:g} s"), ("sfreq", "a sampling frequency of {:g} Hz")):
        own, given = stated.get(name), getattr(asked, name)
        if own is not None and given is not None:
            del stated[name]
            if abs(own / given - 1) > 1e-3:
                notes.append(f"{path.name}: states {words.format(own)}; {given:g} is used, as {name} (--{name}) says")
    sfreq = found.sfreq if asked.sfreq is None else asked.sfreq
    return {"sfreq": sfreq, "notes": tuple(notes), "loading": stated}


def _several_files(path: Any, allow_external: bool) -> Sequence[str | Path] | None:
    """Return several files with samples each: as given, or in a folder; None for everything else."""
    if not isinstance(path, str | Path):
        return list(path)
    source = Path(path)
    if not source.exists():
        raise BadFileError(f"{source}: no such file or folder; give the path of one that exists")
    if not source.is_dir() or container_kind(source) is not None:
        return None
    return files_in(source, FileRules(allow_external=allow_external)) or None


def _from_several(paths: Sequence[str | Path], **given: Any) -> SampleSet:
    """Return the samples of several files; arguments that can belong to one file only are refused."""
    if not paths:
        raise BadFileError("no file was given; give at least one")
    by_file = given["groups"] == FILE
    options = given | {"groups": False if by_file else given["groups"]}
    if len(paths) == 1 and not by_file:
        return load_samples(paths[0], **options)
    for name in ("sha256", "labels_from", "events"):
        if given[name] is not None and (name != "events" or isinstance(parsed_events(given[name]), Path)):
            raise BadFileError(
                f"{paths[0]} and {len(paths) - 1} more: {name}={str(given[name])!r} (command line: "
                f"--{name.replace('_', '-')}) can belong to one file only; leave it out, or give one file"
            )
    with warnings.catch_warnings(action="ignore", category=LeakageWarning):
        found = joined([load_samples(path, **options) for path in paths], by_file)
    found = found if given["groups"] is not False else replace(found, warnings=())
    for text in found.warnings if given["need_labels"] else ():
        warnings.warn(text, LeakageWarning, stacklevel=3)
    return found


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


def _with_warnings(found: SampleSet, use_groups: bool) -> SampleSet:
    """Return the samples with at most one warning about unused groups, and with none if there are groups."""
    if not use_groups or found.groups is not None:
        return replace(found, warnings=())
    names = grouping_in_names(found.names or ())
    said = (*found.warnings, *(f"{found.source}: {text}" for text in (names, _blocks(found)) if text))
    return replace(found, warnings=said[:1])


def _blocks(found: SampleSet) -> str | None:
    """Return a warning if the labels of a recording without groups come in blocks, several for some class."""
    if found.target is None or not ("4-D NIfTI" in found.kind or found.kind.endswith(IN_TIME)):
        return None
    blocks = blocks_in_time(found.target)
    if blocks <= len(np.unique(found.target)):
        return None
    return (
        f"the labels come in {blocks} blocks of consecutive samples, and there are no groups: neighbours in time are "
        "alike, so that samples of one block in the training set and in the test set inflate accuracy. Name the run or "
        "block of each sample with groups=... (command line: --groups), or pass groups=False (--no-groups) if the "
        "samples are independent"
    )


def _read(path: Path, asked: _Asked) -> tuple[SampleSet, Axes | None]:
    """Return the contents of a path, and axes; the samples of a container are not yet moved to the first axis."""
    kind = container_kind(path)
    return _with_places(_from_files(path, asked)) if kind is None else _from_container(path, kind, asked)


def _from_files(path: Path, asked: _Asked) -> SampleSet:
    """Return the contents of anything but a container of arrays."""
    if is_recording(path):
        return _from_recording(path, read_recording(path, asked.rules), asked)
    if path.name.lower().endswith(NIFTI):
        return _from_nifti(path, asked)
    _refuse(path, asked, ("events", "window", "tr"), "only recordings and 4-D NIfTI files are cut around events")
    if path.is_dir():
        return _from_bids(path, asked) if is_bids(path) else _from_folder(path, asked)
    if is_table(path):
        return _from_table(path, asked)
    may_be_scene = path.suffix.lower() in (*SCENES, ".tif", ".tiff") and not asked.known.are_images
    if asked.flat and file_words(path.name) is not None and not may_be_scene:
        return _from_one_file(path, asked)
    if may_be_scene or file_words(path.name) is not None:
        raise BadFileError(
            f"{path}: is one image or scene, not samples; cut a scene into samples with `tensormargin patches` "
            "(Python: load_scene and Patches), and put images of one sample each into one folder per class"
        )
    raise BadFileError(
        f"{path}: unknown kind of file {path.suffix!r}; give a folder with one subfolder per class, a table (.csv, "
        f".tsv) of paths and labels, a 4-D NIfTI file or one of {container_endings()}, {recording_endings()}"
    )


def _from_recording(path: Path, recording: Recording, asked: _Asked) -> SampleSet:
    """Return epochs with the labels and groups among their columns."""
    _refuse(path, asked, ("axis", "size", "tr"), "the samples of a recording are its epochs, channels by times")
    if recording.events is not None and _is_one_epoch(recording, asked):
        recording = replace(recording, data=recording.data[None], kind=f"{recording.kind}, one epoch", events=None)
    elif asked.events is TABLE:
        if recording.events is not None:
            raise _needs_table(path, TABLE)
        raise DoesNotApplyError(f"{path}: is cut into epochs already, without a table of events", "events")
    made = epochs_of(path, recording, asked.cutting, asked.rules)
    found = _chosen(path, made.columns, made.label, asked)
    data, notes = _whole_recording(path, made, asked)
    return replace(
        SampleSet(data, found.target, found.groups, None, None, "", made.kind, notes, _unused(path, found.others)),
        confounds=found.confounds,
        field=made.field,
        sfreq=made.sfreq,
        axes=made.axes,
        unit=made.unit or None,
    )


def _is_one_epoch(recording: Recording, asked: _Asked) -> bool:
    """Return whether a recording without events to cut it at is one sample of a model that was fitted to epochs."""
    alone = asked.flat and asked.events is None and asked.window == WHOLE
    return alone and not asked.known.are_cut and asked.known.fits(recording.data.shape)


def _chosen(path: Path, columns: Mapping[str, Array], usual: str | None, asked: _Asked) -> Chosen:
    """Return labels, groups and confounds among the columns of a recording; ``usual`` are its usual labels."""
    labels = (asked.labels, usual)
    found = choose_columns(path, columns, labels, asked.groups, asked.other_labels, asked.confounds)
    if found.target is None and asked.need_labels:
        no_labels(path, columns, _LABELS_FROM)
    return found


def _whole_recording(path: Path, made: Recording, asked: _Asked) -> tuple[Any, tuple[str, ...]]:
    """Return the epochs, as a Dask array if asked for, and notes."""
    check_samples(path, made.data, "the recording", asked.missing)
    if made.data.dtype == object and not asked.ragged:
        lengths = [int(one.shape[-1]) for one in made.data]
        raise BadFileError(
            f"{path}: its {len(lengths)} trials last {min(lengths)} to {max(lengths)} time points, but all samples "
            "must have one shape; give ragged=True for EqualLength (`tensormargin fit --length resample`), or cut them "
            "to one length"
        )
    if asked.lazy is not True:
        return made.data, made.notes
    from dask.array import from_array

    per = samples_per_chunk(asked.chunks, made.data[0].nbytes)
    return from_array(made.data, chunks=(per, *made.data.shape[1:])), (*made.notes, f"{path.name} {_WHOLE}")


def _from_container(path: Path, kind: str, asked: _Asked) -> tuple[SampleSet, Axes | None]:
    """Return the samples, and the axes that they have once the samples are along the first axis."""
    _refuse(path, asked, ("size",), "only files that are one sample each can be resized")
    with open_arrays(path, rules=asked.rules) as held:
        recording = _recording_in(path, held, asked)
        if recording is not None:
            return _with_places(_from_recording(path, recording, asked))
        name, label_name = _samples_and_labels(path, held, asked)
        rate = sampling_rate(held)
        not_groups = (label_name, asked.other_labels)
        target = None if label_name is None else clean(path, np.atleast_1d(held[label_name].read()), "labels")
        if asked.flat and asked.known.is_one(held[name].shape):
            _refuse(path, asked, ("groups",), "the array is one sample")
            one = np.expand_dims(held[name].read(), asked.axis)
            return SampleSet(one, target, None, [path.name], None, "", f"{kind}, one sample", (), sfreq=rate), None
        groups = groups_in_container(path, held, asked.groups, not_groups)
        axis = sample_axis(held[name], asked.axis)
        data, notes = _samples_in(path, name, held[name], replace(asked, axis=axis))
        n_samples = data.shape[axis] if -data.ndim <= axis < data.ndim else 0
        unused = _unused(path, likely_groups(held, (*not_groups, name), n_samples))
        if axis != asked.axis:  # by its name
            data = np.moveaxis(data, axis, asked.axis)
        axes, said = _axes_in(path, held, name, axis, not_groups)
        found = SampleSet(data, target, groups, None, None, "", kind, (*notes, *said), unused, sfreq=rate)
        return replace(found, unit=held[name].unit or None), axes


def _axes_in(
    path: Path, held: Mapping[str, Stored], name: str, axis: int, taken: tuple[str | None, ...]
) -> tuple[Axes | None, list[str]]:
    """Return the axes of the samples in a container, as it describes them or as its arrays suggest, and notes."""
    shape = held[name].shape
    described = stored_axes(path, held, [size for place, size in enumerate(shape) if place != axis % len(shape)])
    if described is not None:
        return described, []
    stated = axes_in_container(held, name, axis, taken)
    return stated.axes, [f"{path.name}: {note}" for note in stated.notes]


def _with_places(found: SampleSet) -> tuple[SampleSet, Axes | None]:
    """Return samples with the axes that they have, that an affine gives their first three modes, or of colours."""
    shape: Any = found.sample_shape
    if found.axes is None and "image" in found.kind and len(shape) == 3 and shape[-1] == 3:
        return found, axes_of_picture()
    if found.axes is not None or found.affine is None:
        return found, found.axes if isinstance(found.axes, tuple) else None
    return found, axes_of_volume(found.affine, shape)


def _samples_and_labels(path: Path, held: Mapping[str, Stored], asked: _Asked) -> tuple[str, str | None]:
    """Return the names of the samples and of the labels (None for a file without labels, if it needs none)."""
    label_name = choose_labels(path, held, asked.labels, asked.groups)
    taken = (label_name, choose_groups(path, held, asked.groups, (label_name, asked.other_labels)))
    others = {name: stored for name, stored in held.items() if name not in taken}
    name = choose_entry(path, held, asked.samples, _SAMPLES, "samples")
    if label_name is None and asked.need_labels:
        of_samples = name or _likely_samples(path, others, must=False)
        if of_samples is not None and asked.labels is None:
            label_name = likely_labels(held, of_samples, sample_axis(held[of_samples], asked.axis))
        if label_name is None:
            no_labels(path, held, _LABELS_FROM)
    return name or str(_likely_samples(path, others)), label_name


def _recording_in(path: Path, held: Mapping[str, Stored], asked: _Asked) -> Recording | None:
    """Return the recording in a container: a structure of EEGLAB or FieldTrip, or an array with events."""
    found = find_recording(path, held, asked.samples, asked.rules)
    if found is not None:
        return found
    if asked.events is None:
        _refuse(path, asked, ("window", "tr"), "arrays are cut around events=... (command line: --events) only")
        return None
    name = choose_entry(path, held, asked.samples, _SAMPLES, "samples") or str(_likely_samples(path, held))
    if asked.events is TABLE and (len(held[name].shape) != 2 or asked.known.fits(held[name].shape[1:])):
        raise DoesNotApplyError(f"{path}: holds samples that are cut already, or no series", "events")
    return continuous(path, name, held[name].read(), sampling_rate(held))


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


def _likely_samples(path: Path, held: Mapping[str, Stored], must: bool = True) -> str | None:
    """Return the name of the only numeric array with two or more axes; MATLAB vectors, with an axis of 1, do not count.

    If there is none, or more than one: None, or `BadFileError` if there ``must`` be one.
    """
    likely = [
        name
        for name, stored in held.items()
        if stored.is_numeric and len(stored.shape) >= 2 and not (len(stored.shape) == 2 and 1 in stored.shape)
    ]
    if len(likely) != 1:  # fields of a structure or group count only if nothing else could be the samples
        likely = [name for name in likely if "/" not in name] or likely
    if len(likely) == 1 or not must:
        return likely[0] if len(likely) == 1 else None
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


def _from_one_file(path: Path, asked: _Asked) -> SampleSet:
    """Return the one sample that an image or a volume is."""
    _refuse(path, asked, ("samples", "labels", "groups", "axis"), "a file of one sample has no arrays or columns")
    stack = _stacked(path.parent, [path.name], asked)
    kind = str(file_words(path.name)).removesuffix("s")
    return SampleSet(stack.data, None, None, [path.name], stack.affine, "", kind, tuple(stack.notes))


def _from_bids(path: Path, asked: _Asked) -> SampleSet:
    _refuse(path, asked, ("axis",), "volumes are along the last axis of NIfTI files, or one file each")
    files = list_bids(path, asked.samples, asked.rules)
    in_runs = len(nifti_shape(path / files.names[0], asked.rules)) == 4
    runs = None
    names, target, notes = files.names, None, list[str]()
    if in_runs:
        _refuse(path, asked, ("size", "ragged"), "its files are runs of volumes; resize them first")
        runs, lengths = _runs(path, files.names, asked)
        names = [name for name, length in zip(files.names, lengths, strict=True) for _ in range(length)]
    kept = np.arange(len(names))
    if asked.need_labels or asked.labels is not None:
        kept, target, notes = _bids_labels(path, names, asked)
    whole = runs is not None and len(kept) < len(names)
    names = [names[row] for row in kept]
    stack = _stacked(path, names, asked) if runs is None else runs._replace(data=runs.data[kept]) if whole else runs
    groups = None if asked.groups is False else groups_of(path, names, asked.groups)
    shown = names if runs is None else [f"{name}:{place}" for name, place in _numbered(names)]
    kind = f"BIDS data set ({files.kind})"
    return SampleSet(stack.data, target, groups, shown, stack.affine, "", kind, (*notes, *stack.notes))


def _bids_labels(path: Path, names: Sequence[str], asked: _Asked) -> tuple[Array, Array | None, list[str]]:
    """Return the samples with a label, the labels, and notes; all samples, if only a model remembers the column."""
    known, everyone = asked.known, np.arange(len(names))
    remembered = not asked.need_labels and not known.labels_given and asked.labels == known.loading.get("labels")
    try:
        kept, target = labels_of(path, participants_of(path, asked.rules), names, asked.labels)
    except BadFileError:
        if not remembered:
            raise
        return everyone, None, []
    if len(kept) == len(names):
        return kept, target, []
    lacking = f"samples of participants without a label: {len(names) - len(kept)} of {len(names)}"
    if remembered:
        said = f"{lacking}; none is compared with its label unless --labels {asked.labels} leaves these out"
        return everyone, None, [said]
    return kept, target, [f"{lacking}, which were left out"]


def _numbered(names: Sequence[str]) -> list[tuple[str, int]]:
    """Return the names of runs with the number of each of their volumes, from 0."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        found.append((name, seen.get(name, 0)))
        seen[name] = seen.get(name, 0) + 1
    return found


def _runs(folder: Path, names: Sequence[str], asked: _Asked) -> tuple[Stack, list[int]]:
    """Return the volumes of runs, one after the other, and the number of volumes of each."""
    shapes = [turned_shape(folder / name, folder / names[0], asked.rules) for name in names]
    for name, shape in zip(names, shapes, strict=True):
        if shape[:3] != shapes[0][:3] or len(shape) != 4:
            raise BadFileError(
                f"{folder / name}: has the shape {shape}, but {folder / names[0]} has {shapes[0]}; all volumes must "
                "have one shape: resample them to one space first"
            )
    n_bytes = sum(4 * prod(shape) for shape in shapes)
    lazily = stays_in_files(folder, asked.lazy, n_bytes, True)
    if not lazily:
        asked.rules.admit(folder, n_bytes, f"its {len(names)} runs of volumes", stored=-1)
    volumes, affine, notes, turned = [], None, [], []
    for name in names:
        data, own = _volumes(folder / name, asked, lazily)
        affine = own if affine is None else affine
        stored, (data, own) = data, oriented(folder / name, data, own, affine)
        turned += [] if data is stored else [name]
        if not np.allclose(affine, own):
            notes = [f"affines differ between runs, and that of {names[0]} is used, e.g. {name} has another"]
        volumes.append(np.moveaxis(data, -1, 0))
    notes += [turned_note(turned, names[0])] if turned else []
    if lazily:
        from dask.array import concatenate

        return Stack(concatenate(volumes), affine, notes), [shape[3] for shape in shapes]
    return Stack(np.concatenate(volumes), affine, notes), [shape[3] for shape in shapes]


def _stacked(folder: Path, names: Sequence[str], asked: _Asked) -> Stack:
    if asked.lazy is True:
        return lazy_stack(folder, names, asked.size, asked.chunks, asked.rules, asked.missing)
    if asked.lazy == "auto" and names:
        n_bytes = stack_bytes(folder, names, asked.size, asked.rules)
        if stays_in_files(folder, asked.lazy, n_bytes, True):
            chunks = chunks_for(asked.lazy, asked.chunks)
            stack = lazy_stack(folder, names, asked.size, chunks, asked.rules, asked.missing)
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
    if asked.flat and asked.events in (None, TABLE) and len(nifti_shape(path, asked.rules)) == 3:
        return _from_one_file(path, replace(asked, events=None))
    _refuse(path, asked, ("samples", "axis", "size"), why)
    if asked.events is None:
        _refuse(path, asked, ("labels", "groups"), why)
        _refuse(path, asked, ("window", "tr"), "volumes are cut around events=... (command line: --events) only")
    if asked.need_labels and asked.events is None:
        raise BadFileError(
            f"{path}: a NIfTI file has no labels; {_LABELS_FROM}, or a table of events as events=... (--events)"
        )
    lazily = stays_in_files(path, asked.lazy, path.stat().st_size, not must_be_read_whole(path))
    volumes, affine = _volumes(path, asked, lazily)
    if volumes.ndim != 4:
        raise BadFileError(
            f"{path}: must have four axes, the last counting the samples; its shape is {volumes.shape}. Where every "
            "file is one sample, give a folder with one subfolder per class, or a table of paths and labels"
        )
    whole = (f"{path.name} {_WHOLE}",) if lazily and must_be_read_whole(path) else ()
    notes = (*whole, *(_in_parts(path, asked, path.stat().st_size) if lazily else ()))
    found = SampleSet(np.moveaxis(volumes, -1, 0), None, None, None, affine, "", "4-D NIfTI", notes)
    return found if asked.events is None else _around_events(path, found, asked)


def _around_events(path: Path, found: SampleSet, asked: _Asked) -> SampleSet:
    """Return one volume per event: the mean of those in its window."""
    if not isinstance(asked.events, Path):
        raise _needs_table(path, asked.events)
    stated = nifti_tr(path, asked.rules)
    tr = stated if asked.tr is None else asked.tr
    if tr is None:
        raise BadFileError(
            f"{path}: needs the repetition time, which its header does not state plausibly; give it as tr=... (command "
            "line: --tr), in seconds"
        )
    check_samples(path, found.data, "the recording", asked.missing)
    events, notes = chosen(read_events(asked.events, asked.rules), None, asked.labels)
    data, rows, more = mean_volumes(path, found.data, tr, events, asked.window)
    own = _chosen(asked.events, events.take(rows).columns, events.label, asked)
    return replace(
        found,
        data=data,
        target=own.target,
        groups=own.groups,
        confounds=own.confounds,
        kind=f"4-D NIfTI, means {events.around}",
        notes=(*found.notes, *notes, *more),
        warnings=_unused(asked.events, own.others),
        loading={} if stated is None else {"tr": stated},
    )


def _needs_table(path: Path, events: Any) -> BadFileError:
    why = "the samples of the model were cut around the events of a table, so those of this recording are needed, too"
    said = why if events is TABLE else f"names of events, {listed(events)}, are for recordings that hold events"
    return BadFileError(
        f"{path}: needs a table of events, with onset, duration (in seconds) and trial_type, as events=... (command "
        f"line: --events TABLE); {said}"
    )


def _volumes(path: Path, asked: _Asked, lazily: bool) -> tuple[Any, Array]:
    """Return the volumes of a NIfTI file, along its last axis, and their affine."""
    if not lazily:
        return read_nifti(path, asked.rules)
    return lazy_nifti(path, chunks_for(asked.lazy, asked.chunks), asked.rules, asked.missing)


def _refuse(path: Path, asked: _Asked, options: Sequence[str], why: str) -> None:
    for option in options:
        given = getattr(asked, option)
        if given is not False and given != getattr(_Asked, option):
            said = _WINDOW if option == "window" else f"{option}={given!r} (command line: --{option})"
            names = WINDOW if option == "window" else (option,)
            raise DoesNotApplyError(f"{path}: {said} does not apply here: {why}", *names)


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
    own = found.confounds
    columns = {} if own is None else {name: own[name] for name in names_of(own)}
    columns = columns or _own_confounds(path, names, rules, found.names)
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


def _own_confounds(path: Path, names: Sequence[str], rules: FileRules, files: Sequence[str] | None) -> dict[str, Array]:
    """Return those of the named confounds that are in the file of the samples, or of the participants."""
    if path.is_dir() and files is not None and is_bids(path):
        table = participants_of(path, rules)
        return {} if table is None else confounds_in_table(replace(table, columns=columns_of(table, files)), names)
    if container_kind(path) is not None:
        with open_arrays(path, rules=rules) as held:
            return confounds_in_container(path, held, names)
    return confounds_in_table(read_table(path, rules=rules), names) if is_table(path) else {}


def _samples_first(path: Path, found: SampleSet, second: Labels | None, asked: _Asked, axes: Axes | None) -> SampleSet:
    """Return the samples along the first axis; raise `BadFileError`, which names the axes, if they are not usable."""
    data, axis = found.data, asked.axis
    _check_axis(path, data.shape, axis)
    for what, values in (("labels", found.target), ("groups", found.groups)):
        if values is not None and len(values) != data.shape[axis]:
            raise _miscounted(path, found, second, axis, f"{len(values)} {what}", len(values))
    if axis != 0:
        data = np.moveaxis(data, axis, 0)
    if asked.missing is True and data.ndim == 1:  # one number per sample, such as an age
        data = data[:, None]
    check_samples(path, data, "the array of samples", asked.missing, axes, files=found.names)
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
