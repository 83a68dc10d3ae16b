"""Load labelled samples from all supported kinds of files and folders."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..data import (
    AnyAxes,
    BadFileError,
    FileRules,
    LeakageWarning,
    as_known,
    axes_of,
    blocks_in_time,
    check_text,
    names_of,
    parsed_axes,
    taken_along,
)
from ..runtime import Array, counted, listed
from . import options
from .arrays import Missing, check_samples, container_endings, container_kind, open_arrays
from .bids import confounds_of, groups_by_name, is_bids, load_bids, runs_in
from .checksums import check_sha256
from .concatenate import FILE, files_in, joined, turned_like
from .containers import colours_in, load_container
from .events import parsed_events, parsed_names
from .images import file_words, load_file_table, load_folder, load_one_file
from .labels import Labels, confounds_in, entity, groups_in_names, read_labels, unused_groups
from .lazy import FileSamples, check_dask
from .matching import rows_of_labels
from .readers.entries import NIFTI
from .readers.envi import ENDINGS as SCENES
from .recordings import is_recording, load_recording, recording_endings
from .runs import events_beside
from .samples import IN_TIME, SampleSet
from .tables import is_list, is_table, read_table
from .volumes import load_volumes, nifti_shape

_COLOURS = (
    "treated as colour images, rows x columns x red, green and blue, by the shape and the range of the samples; "
    "change with mode_names=... (command line: --modes)"
)
_BLOCKS = (
    "the labels come in {} blocks of consecutive samples, and there are no groups: neighbours in time are alike, so "
    "that samples of one block in the training set and in the test set inflate accuracy. Name the run or block of each "
    "sample with groups=... (command line: --groups), or pass groups=False (--no-groups) if the samples are independent"
)


def load_samples(
    path: str | Path | Sequence[str | Path],
    *,
    samples: str | None = None,
    labels: str | None = None,
    groups: str | bool | None = None,
    labels_from: Any = None,
    axis: int | None = None,
    size: Sequence[int] | None = None,
    skip_damaged: bool = False,
    need_labels: bool = True,
    lazy: bool | Literal["auto", "blocks"] = False,
    chunks: options.Chunks = "auto",
    ragged: bool = False,
    confounds: str | Sequence[str] | None = None,
    missing: Missing = False,
    max_bytes: int | str | None = None,
    allow_external: bool = False,
    fill_missing: bool = False,
    sha256: str | None = None,
    mode_names: Sequence[str] | str | None = None,
    mode_values: Mapping[str, Any] | Sequence[Any] | None = None,
    events: str | Path | Sequence[str] | None = None,
    tmin: float | None = None,
    tmax: float | None = None,
    sfreq: float | None = None,
    tr: float | None = None,
    delay: float | None = None,
    detrend: int | None = None,
    run_confounds: str | Sequence[str] | None = None,
    run_confounds_from: str | Path | Sequence[str | Path] | None = None,
    like: Any = None,
) -> SampleSet:
    """Load samples with their labels from a file or folder; nothing is ever unpickled.

    Damaged and hostile files give a message, whatever their parsers do (docs/security.md).

    Parameters
    ----------
    path : str, Path, or sequence of them
        Several files or folders hold further samples of the same shape; so does a folder of containers or recordings.
        ``groups="file"`` makes each file a group. Otherwise one of

        - a container of arrays: ``.npz``, ``.npy``, ``.mat`` (MATLAB 4 to 7.3), HDF5 (``.h5``, ``.hdf5``, ``.hdf``),
          Zarr (a folder or ``.zip``), netCDF (``.nc``, 3 and 4), whose dimensions and coordinates become ``axes``;
          the one named sample, trial, epoch, event, subject, ... counts the samples, or else the first;
        - a BIDS data set of NIfTI files, ``sub-01[_ses-1][_run-1]_....nii.gz``: labels are a column of
          ``participants.tsv``, and subjects (runs, if there is one subject) are the groups;
        - a folder with one subfolder per class, holding images (PNG, JPEG, TIFF), NIfTI volumes or ``.npy`` files;
        - a table (``.csv``, ``.tsv``) with the columns path (relative to the table), label and optionally group;
        - a 4-D NIfTI file, samples along the last axis, with ``labels_from`` or ``events``;
        - epochs, or a continuous recording that is cut around events: EEGLAB (``.set``), FieldTrip (``.mat``), MNE
          (``.fif``) or BrainVision (``.vhdr``), in the unit of the file (volts for the last two). The labels are the
          names of the events, unless ``labels`` names another column of their metadata or ``trialinfo``.
    samples : str, optional
        Name of the array with the samples ("a/b" inside groups and MATLAB structures), or of a table's column of paths.
        By default X, data, samples or images, otherwise the only array that could be the samples. In a BIDS data set,
        the end of the file names ("T1w"), if there are several kinds of files.
    labels : str, optional
        Name of the array or column. By default y, labels, label, target or targets; in a netCDF file also the only
        other variable along the dimension of the samples.
    groups : str or False, optional
        Name of the array or column, in a BIDS data set "subject", "session" or "run". By default groups or group, if
        present and not used as labels. False ignores groups.
    labels_from : str, Path or array-like of shape (n_samples,), optional
        The labels, or a separate file with labels and optionally groups, one row per sample in the same order:
        ``.npy``, ``.npz``, ``.mat``, HDF5, a table (``.csv``, ``.tsv``, whitespace-separated ``.txt``), or a list with
        one label per line and no header. Rows are matched to files by the column that names them, whatever it is called
        (with or without folders, endings and Windows separators), and to a container with ids by its column of ids. A
        table that names no files is refused, unless it holds nothing but labels, groups and confounds; ``notes`` tell.
    axis : int, default=0
        Sample axis of the array in a container.
    size : sequence of int, optional
        Resize every image or volume file to this size, given without the colour axis.
    skip_damaged : bool, default=False
        Leave out files of one sample each that cannot be read, with a note, instead of an error that names all of them.
    need_labels : bool, default=True
        Whether missing labels are an error. If False, files may also be in the folder itself, and one file may be one
        sample: an image, a 3-D NIfTI file; with ``like`` also an array or recording of the shape of one sample.
    lazy : bool, "auto" or "blocks", default=False
        Leave the samples in their files: ``data`` is a Dask array with chunks along the samples, each of which is read
        and checked for NaN by the task that needs it; labels and groups are read immediately. All processes of a
        cluster must see the files under the same path. If every sample is a file, others than the first are checked
        when they are read. Compressed ``.npz``, ``.mat`` before 7.3, cell arrays and ``.nii.gz`` are read whole, by one
        task, and ``notes`` says so. "auto" does this for samples that can be read in parts and are larger than a share
        of the available memory (an eighth). With "blocks", samples that can be read in parts stay in their files
        without Dask: slices of ``data`` are arrays, and at most a block of 16 MiB is held in memory.
    chunks : int or str, default="auto"
        With ``lazy``: the number of samples per chunk, or its size in bytes as text ("64 MiB"), which is rounded to the
        chunks of the file; "auto" uses Dask's setting (128 MiB unless changed). A task reads at most 100 files.
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
        Maximum memory for an array or all samples together, in bytes or as text ("8 GB"). By default what is available,
        and no more than is plausible for the size of the file.
    allow_external : bool, default=False
        Whether a file or folder may lead to files elsewhere: by external or virtual HDF5 storage, links out of its
        folder, paths that leave the folder of a table, or, in BIDS derivatives, to the tables of the data set above.
    fill_missing : bool, default=False
        Whether chunks of a Zarr store or HDF5 file that were never written hold its fill value, instead of an error.
    sha256 : str, optional
        Digest that the file or folder must have, as `sha256_of` returns it; for formats without a checksum. Tables may
        have a column sha256 with the digest of each file instead.
    mode_names : sequence of str, or str, optional
        Names of the modes of a sample, with units in brackets: ``["channel", "time[ms]"]``; or all in one text, with
        coordinates, as ``--modes`` takes it. By default what the file states (`SampleSet.axes`).
    mode_values : mapping of str to array-like, or sequence of array-like or None, optional
        Coordinates of modes, one number or text per index, by name or one entry per mode.
    events : str, Path or sequence of them, optional
        For continuous recordings, arrays of channels × times (with ``sfreq``) and 4-D NIfTI files (with ``tr``): a
        table with the columns onset and duration, in seconds, and trial_type or label; or the names of the recording's
        own events, by default all of them. For epochs: the names of the events to take. Several files have one table
        each, in the same order; those of BIDS recordings (``..._events.tsv``) are found beside them.
    tmin, tmax : float, optional
        The part around each event, in seconds, or the part of epochs to keep. Without ``tmax`` it is as long as the
        event.
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
    run_confounds : str or sequence of str, optional
        Names or patterns ("trans_*") of confounds that are regressed out of a continuous recording, together with its
        drift, before it is cut: columns of the table with one row per volume or time point that fMRIPrep writes,
        ``..._desc-confounds_timeseries.tsv`` (or ``..._regressors.tsv``) beside ``..._bold.nii.gz``. Where derivatives
        begin with n/a, the mean of the column stands for it. Confounds of samples are ``confounds``.
    run_confounds_from : str, Path or sequence of them, optional
        The table of confounds, if it is elsewhere; of several files one each, in the same order. All of its columns are
        used unless ``run_confounds`` names some.
    like : ModelFile or SampleSet, optional
        Make the samples as those of a model (`load_model`) or of another set were made. Options given here override
        its ``loading``, which ``notes`` say; what does not apply to this kind of file is left out, and a table of
        ``events``, which belongs to one recording, must be given again.

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
    rules = FileRules(allow_external=allow_external)
    rules = rules.inside(Path(path)) if isinstance(path, str | Path) and Path(path).is_dir() else rules
    several = _several_files(path, given, rules)
    if like is not None and groups is None and like.loading.get("groups") == FILE:
        given["groups"] = FILE
        several = several or [Path(str(path))]
    if several is not None or not isinstance(path, str | Path):
        found = _from_several(several or [], given, rules)
    elif like is None:
        found = _load_one(path, given)
    else:
        found = _load_like(path, given, like)
    for text in found.warnings if need_labels else ():
        warnings.warn(text, LeakageWarning, stacklevel=2)
    return found


def _several_files(path: Any, given: Mapping[str, Any], rules: FileRules) -> Sequence[str | Path] | None:
    """Return several files with samples each: as given, in a folder, or runs with events; None for everything else."""
    if not isinstance(path, str | Path):
        return list(path)
    source = Path(path)
    if not source.exists():
        raise BadFileError(f"{source}: no such file or folder; give the path of one that exists")
    if not source.is_dir() or container_kind(source) is not None:
        return [source] if _has_events(source, given, rules) else None
    runs = runs_in(source, rules) if given["labels"] is None and given["labels_from"] is None else []
    return runs or files_in(source, rules) or None


def _has_events(path: str | Path, given: Mapping[str, Any], rules: FileRules) -> bool:
    """Return whether a recording is cut around the events of a table beside it: nothing else gives labels."""
    labelled = any(given[name] is not None for name in ("labels", "labels_from", "events"))
    return not labelled and events_beside(Path(path), rules) is not None


def _from_several(paths: Sequence[str | Path], given: Mapping[str, Any], rules: FileRules) -> SampleSet:
    """Return the samples of several files; arguments that can belong to one file only are refused."""
    if not paths:
        raise BadFileError("no file was given; give at least one")
    by_file, tables = given["groups"] == FILE, _tables_of(paths, given, rules)
    named = tables is not None and all(entity(Path(path).name, "subject") is not None for path in paths)
    arguments = {**given, "groups": False if by_file or named else given["groups"]}
    alone = len(paths) == 1 and not by_file and not named
    for name in () if alone else ("sha256", "labels_from"):
        if given[name] is not None:
            raise BadFileError(
                f"{paths[0]} and {len(paths) - 1} more: {name}={str(given[name])!r} (command line: "
                f"--{name.replace('_', '-')}) can belong to one file only; leave it out, or give one file"
            )
    with warnings.catch_warnings(action="ignore", category=LeakageWarning):
        each = [arguments] * len(paths) if tables is None else [{**arguments, "events": table} for table in tables]
        confounds = _tables(given["run_confounds_from"])
        if confounds:
            _check_one_each(paths, confounds, "run_confounds_from")
            each = [{**own, "run_confounds_from": table} for own, table in zip(each, confounds, strict=True)]
        if alone:
            return _load_alone(paths[0], each[0])
        parts = [_load_alone(path, own) for path, own in zip(paths, each, strict=True)]
    found = joined(parts, by_file)
    if named and not by_file and given["groups"] is not False:
        names = [Path(part.source).name for part in parts for _ in range(len(part.data))]
        groups = groups_by_name(Path(paths[0]).parent, names, given["groups"])
        found = replace(found, groups=groups, warnings=found.warnings if groups is None else ())
    return found if given["groups"] is not False else replace(found, warnings=())


def _tables_of(paths: Sequence[str | Path], given: Mapping[str, Any], rules: FileRules) -> list[Path] | None:
    """Return the table of events of each of several recordings: as given, or beside them; None if there is none."""
    events = given["events"]
    if all(_has_events(path, given, rules) for path in paths):
        return [table for path in paths if (table := events_beside(Path(path), rules)) is not None]
    several = not isinstance(events, str | Path) and events not in (None, options.TABLE)
    tables = [Path(one) for one in (events if several else [events] if events else []) if is_list(Path(str(one)))]
    if not tables:
        return None
    _check_one_each(paths, tables, "events")
    return tables


def _tables(given: Any) -> list[Path]:
    """Return tables that were given as one path, as several or not at all."""
    return [Path(one) for one in ([given] if isinstance(given, str | Path) else given or ())]


def _check_one_each(paths: Sequence[str | Path], tables: Sequence[Path], option: str) -> None:
    """Raise `BadFileError` if there is not one table per recording."""
    if len(tables) != len(paths):
        raise BadFileError(
            f"{paths[0]}{f' and {len(paths) - 1} more' if len(paths) > 1 else ''}: {option} (command line: "
            f"--{option.replace('_', '-')}) must be one table per recording, in the same order; got "
            f"{counted(len(tables), 'table')} for {counted(len(paths), 'file')}"
        )


def _load_alone(path: str | Path, given: Mapping[str, Any]) -> SampleSet:
    """Return the samples of one of several files, which may be a folder of further ones."""
    if given["events"] is None or given["like"] is not None:
        return load_samples(path, **given)
    return _load_one(path, given)


def _load_like(path: str | Path, given: Mapping[str, Any], like: Any) -> SampleSet:
    """Return samples made as others were; remembered options that do not apply to this file are left out."""
    known = options.known_from(like)._replace(labels_given=given["labels"] is not None)
    remembered, without = options.defaults_from(known, given), dict[str, Any]()
    while True:
        try:
            found = _load_one(path, {**given, **remembered}, known)
            break
        except options.DoesNotApplyError as error:
            lost = [name for name in error.options if name in remembered]
            if not lost:
                raise
            without |= {name: remembered.pop(name) for name in lost}
    if found.axes is None:
        found = replace(found, axes=options.remembered_axes(like, found.sample_shape))
    found = _named_like(found, like.axes)
    found = turned_like(found, known_affine(like), "the model's samples")
    given_again = [name for name, value in given.items() if value is not None and name not in remembered]
    notes = options.contradictions(known, found.loading, given_again)
    silent = ("groups",) if found.target is not None else ("groups", "labels")
    left_out = options.describe_loading({name: value for name, value in without.items() if name not in silent})
    if left_out:
        notes.append(f"does not apply to this file, so it was left out: {left_out}")
    return replace(found, notes=(*found.notes, *(f"{path}: {note}" for note in notes)))


def _named_like(found: SampleSet, known: AnyAxes) -> SampleSet:
    """Return samples with the names along their modes in the order of others, without additional ones."""
    shape, data = found.sample_shape, found.data
    if not isinstance(known, tuple) or isinstance(shape, dict) or len(shape) != len(known):
        return found
    axes, places, left_out = as_known(known, found.axes)
    notes = list(found.notes)
    if left_out:
        notes.append(f"{found.source}: {listed(left_out)} left out, which the model's samples did not have")
    names = [axis.values.tolist() for axis in known if axis.values is not None and not axis.is_numeric]
    if found.axes is None and names:
        first = listed(names[0], most=5)
        notes.append(f"{found.source}: states no names; the model's samples had {first}, and must be in this order")
    if places:
        take = partial(taken_along, places=places)
        data = data.changed(take) if isinstance(data, FileSamples) else take(data)
    return replace(found, data=data, axes=axes, notes=tuple(notes))


def known_affine(like: Any) -> Any:
    """Return the affine, or those of several views, of the samples of a model file, or of other samples."""
    return like.affine if isinstance(like, SampleSet) else like.facts.get("about", {}).get("affine")


def _load_one(path: str | Path, given: Mapping[str, Any], known: options.Known = options.NOTHING_KNOWN) -> SampleSet:
    """Return the samples of one file or folder; ``given`` are the arguments of `load_samples`."""
    source = Path(path)
    check_text(source, str(source))
    request, second = _request(source, given, known)
    found = _read(source, request)
    found = replace(found, source=str(path), **_sampling(source, found, request.window))
    rows: Any = None  # of the separate file of labels
    if second is not None:
        rows, notes = rows_of_labels(source, found, second, request.rules)
        found = _with_labels(replace(found, notes=(*found.notes, *notes)), second, rows)
    found = _checked(source, found, second, request)
    found = replace(found, warnings=_warnings(found) if given["groups"] is not False else ())
    found = _with_axes(source, found, request)
    if request.select.confounds:
        found = _with_confounds(source, found, second, rows, request)
    select, layout, window = request.select, request.layout, request.window
    made = {"events": window.events, "run_confounds": window.run_confounds, "size": layout.size}
    made["confounds"] = select.confounds
    stated = {"stated": dict(found.loading)} if found.loading else {}
    return replace(found, loading={**options.loading_facts({**given, **made, "kind": found.kind}), **stated})


def _request(source: Path, given: Mapping[str, Any], known: options.Known) -> tuple[options.Request, Labels | None]:
    """Return the checked arguments of `load_samples`, and the labels of a separate file."""
    lazy, ragged, confounds = given["lazy"], given["ragged"], given["confounds"]
    tables = _tables(given["run_confounds_from"])
    if tables:
        _check_one_each([source], tables, "run_confounds_from")
    if lazy is True:
        check_dask(source)
    elif lazy not in (False, "auto", options.BLOCKS):
        raise ValueError(f'lazy must be True, False, "auto" or "blocks"; got {lazy!r}')
    if given["groups"] is True:
        raise ValueError("groups is the name of an array or column, None or False; got True. Name the groups")
    if lazy is True and ragged:
        raise ValueError("lazy samples must have one shape; got lazy=True and ragged=True. Leave one of them out")
    made = {
        **given,
        "confounds": (confounds,) if isinstance(confounds, str) else tuple(confounds or ()),
        "axis": given["axis"] or 0,
        "size": None if given["size"] is None else tuple(given["size"]),
        "events": parsed_events(given["events"]),
        "run_confounds": parsed_names(given["run_confounds"]) or (("*",) if tables else ()),
        "run_confounds_from": tables[0] if tables else None,
        "lazy": False if ragged else lazy,
    }
    select, window, limits = (
        options.chosen_from(group, made) for group in (options.Select, options.Window, options.FileLimits)
    )
    if limits.sha256 is not None:
        check_sha256(source, limits.sha256, limits.rules)
    second = None if select.labels_from is None else read_labels(select.labels_from, select, limits.rules)
    if second is not None:
        select = replace(select, labels=None, groups=select.groups if second.groups is None else None)
    in_folder = source.is_dir() and container_kind(source) is None
    request = options.Request(
        select,
        options.chosen_from(options.Layout, made),
        window,
        options.chosen_from(options.Lazy, made),
        limits.rules.inside(source) if in_folder else limits.rules,
        known,
        need_labels=given["need_labels"] and second is None,
        flat=not given["need_labels"] or second is not None,
        other_labels=None if second is None else second.name,
    )
    return request, second


def _read(path: Path, request: options.Request) -> SampleSet:
    """Return the contents of a path by the loader of its family."""
    if container_kind(path) is not None:
        return load_container(path, request)
    if is_recording(path):
        return load_recording(path, request)
    if path.name.lower().endswith(NIFTI):
        is_one = request.flat and request.window.events in (None, options.TABLE)
        if is_one and len(nifti_shape(path, request.rules)) == 3:
            return load_one_file(path, replace(request, window=replace(request.window, events=None)))
        return load_volumes(path, request)
    if path.is_dir():
        return load_bids(path, request) if is_bids(path) else load_folder(path, request)
    if is_table(path):
        return load_file_table(path, request)
    may_be_scene = path.suffix.lower() in (*SCENES, ".tif", ".tiff") and not request.known.are_images
    if request.flat and file_words(path.name) is not None and not may_be_scene:
        return load_one_file(path, request)
    if may_be_scene or file_words(path.name) is not None:
        raise BadFileError(
            f"{path}: is one image or scene, not samples; cut a scene into samples with `tensormargin patches` "
            "(Python: load_scene and Patches), and put images of one sample each into one folder per class"
        )
    raise BadFileError(
        f"{path}: unknown kind of file {path.suffix!r}; give a folder with one subfolder per class, a table (.csv, "
        f".tsv) of paths and labels, a 4-D NIfTI file or one of {container_endings()}, {recording_endings()}"
    )


def _sampling(path: Path, found: SampleSet, window: options.Window) -> dict[str, Any]:
    """Return the sampling frequency, and notes and facts on what the file states of it and of the repetition time."""
    stated = dict(found.loading) if found.sfreq is None else {**found.loading, "sfreq": found.sfreq}
    notes = list(found.notes)
    for name, words in (("tr", "a repetition time of {:g} s"), ("sfreq", "a sampling frequency of {:g} Hz")):
        own, given = stated.get(name), getattr(window, name)
        if own is not None and given is not None:
            del stated[name]
            if abs(own / given - 1) > 1e-3:
                notes.append(f"{path.name}: states {words.format(own)}; {given:g} is used, as {name} (--{name}) says")
    return {"sfreq": window.sfreq or found.sfreq, "notes": tuple(notes), "loading": stated}


def _with_labels(found: SampleSet, second: Labels, rows: Any) -> SampleSet:
    """Return the samples with the labels of a second file."""
    others = {name: values[rows] for name, values in second.others.items()}
    return replace(
        found,
        target=second.target[rows],
        groups=found.groups if second.groups is None else second.groups[rows],
        warnings=(*unused_groups(second.path, others), *found.warnings),
    )


def _checked(path: Path, found: SampleSet, second: Labels | None, request: options.Request) -> SampleSet:
    """Return the samples; raise `BadFileError`, which names the axes, if they are not usable."""
    data = found.data
    for what, values in (("labels", found.target), ("groups", found.groups)):
        if values is not None and len(values) != data.shape[0]:
            raise _miscounted(path, found, second, request.layout.axis, f"{len(values)} {what}", len(values))
    if request.layout.missing is True and data.ndim == 1:  # one number per sample, such as an age
        found = replace(found, data=data[:, None])
    axes = found.axes if isinstance(found.axes, tuple) else None
    check = partial(check_samples, path, name="the array of samples", missing=request.layout.missing, axes=axes)
    check(found.data, files=found.names)
    if not isinstance(found.data, FileSamples):
        return found

    def check_block(block: Array, first: int) -> None:
        try:
            check(block, first=first)
        except BadFileError:
            check(data, files=found.names, values=True)  # its message counts those in all blocks
            raise

    return replace(found, data=data.checked(check_block))


def _miscounted(
    path: Path, found: SampleSet, second: Labels | None, axis: int, counted: str, count: int
) -> BadFileError:
    n_samples, *shape = found.data.shape
    shape.insert(axis % found.data.ndim, n_samples)  # as it is in the file
    origin = "" if second is None else f" with those of {second.path}"
    others = [other for other, length in enumerate(shape) if length == count]
    if others and found.names is None and found.affine is None:
        remedy = f"axis {others[0]} has that length: give axis={others[0]} (command line: --axis {others[0]})"
    else:
        remedy = "there must be one per sample, in the samples' order" + ("" if second is None else second.hint)
    where = f"(shape {tuple(shape)}, axis {axis})"
    return BadFileError(f"{path}: {counted}{origin}, but {n_samples} samples {where}; {remedy}")


def _warnings(found: SampleSet) -> tuple[str, ...]:
    """Return at most one warning about unused groups, and none if there are groups."""
    if found.groups is not None:
        return ()
    texts = [groups_in_names(found.names or ())]
    if found.target is not None and ("4-D NIfTI" in found.kind or found.kind.endswith(IN_TIME)):
        blocks = blocks_in_time(found.target)
        texts += [_BLOCKS.format(blocks)] if blocks > len(np.unique(found.target)) else []
    return (*found.warnings, *(f"{found.source}: {text}" for text in texts if text))[:1]


def _with_axes(path: Path, found: SampleSet, request: options.Request) -> SampleSet:
    """Return the samples with the requested axes, or else those of the file, or of colours."""
    names, values = request.layout.mode_names, request.layout.mode_values
    shape: Any = found.sample_shape
    axes: Any = found.axes
    if names is None and values is not None and axes is not None:
        names = [f"{axis.name}[{axis.unit}]" if axis.unit else axis.name for axis in axes]
    if names is not None or values is not None:
        try:
            axes = parsed_axes(names, shape) if isinstance(names, str) else axes_of(shape, names, values)
        except ValueError as error:
            raise BadFileError(f"{path}: {error}") from error
        return replace(found, axes=axes)
    if axes is not None or found.affine is not None or request.known.loading.get("modes"):
        return found
    colours = colours_in(found.data)
    notes = () if colours is None else (f"{path.name}: {_COLOURS}",)
    return replace(found, axes=colours, notes=(*found.notes, *notes))


def _with_confounds(
    path: Path, found: SampleSet, second: Labels | None, rows: Any, request: options.Request
) -> SampleSet:
    """Return the samples with confounds from their file or, if it has them, from the file of labels."""
    own, names = found.confounds, request.select.confounds
    columns = {} if own is None else {name: own[name] for name in names_of(own)}
    columns = columns or _own_confounds(path, found, request)
    if second is not None:
        columns |= {name: values[rows] for name, values in second.confounds.items()}
    missing = [name for name in names if name not in columns]
    if missing:
        where = "it has no" if second is None else f"neither it nor {second.path} has any"
        raise BadFileError(
            f"{path}: confounds must be names of arrays or columns with one value per sample; {where} "
            f"{listed(missing)}. Give others as confounds=... (command line: --confounds), or a table with these "
            "columns as labels_from=... (--labels-from) or covariates=... of load_views (--covariates)"
        )
    wrong = [name for name in names if len(columns[name]) != len(found.data)]
    if wrong:
        raise BadFileError(
            f"{path}: the confound {wrong[0]!r} has {len(columns[wrong[0]])} values, but there are {len(found.data)} "
            "samples; there must be one per sample, in the samples' order"
        )
    return replace(found, confounds={name: columns[name] for name in names})


def _own_confounds(path: Path, found: SampleSet, request: options.Request) -> dict[str, Array]:
    """Return those of the named confounds that are in the file of the samples, or of the participants."""
    names, rules = request.select.confounds, request.rules
    if path.is_dir() and found.names is not None and is_bids(path):
        return confounds_of(path, found.names, names, rules)
    if container_kind(path) is not None:
        with open_arrays(path, rules=rules) as held:
            return confounds_in(path, held, names)
    return confounds_in(path, read_table(path, rules=rules).columns, names) if is_table(path) else {}
