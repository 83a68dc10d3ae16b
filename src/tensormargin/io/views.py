"""Load several views per sample: from several files, from several arrays of a file, and from a table of covariates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from ..data import COVARIATE, COVARIATES, Axis, BadFileError, Coding, FileRules, Views, names_of
from ..runtime import Array, dtype_of, is_lazy, listed, quoted
from .arrays import container_kind, open_arrays
from .concatenate import turned_like
from .labels import GROUPS, LABELS, PATHS, confounds_in
from .lazy import FileSamples, in_blocks
from .load import known_affine, load_samples
from .matching import IDS, RepeatedNameError, ids_in, match_names
from .models import ModelFile
from .options import FileLimits, chosen_from, remembered_axes
from .samples import SampleSet
from .tables import is_table, read_table

_NOT_COVARIATES = (*IDS, *LABELS, *GROUPS, *PATHS)
_LIMITS = ("max_bytes", "allow_external", "fill_missing")  # options of `load_samples` that hold for all files


@dataclass(frozen=True)
class KnownViews:
    """What a fitted model knows of its views.

    Attributes
    ----------
    names : tuple of str
        In their order.
    coding : Coding or None
        How covariates were encoded.

    Examples
    --------
    >>> from tensormargin.io import KnownViews
    >>> KnownViews(("eeg", "age")).names
    ('eeg', 'age')
    """

    names: tuple[str, ...]
    coding: Coding | None = None


def known_views(file: ModelFile) -> KnownViews | None:
    """Return what a saved model knows of its views; None for a model of one tensor per sample.

    Examples
    --------
    >>> from tensormargin.io import ModelFile, known_views
    >>> known_views(ModelFile(None, {"sample_shape": {"eeg": [4, 5], "age": [1]}, "about": {}})).names
    ('eeg', 'age')
    """
    shape = file.facts["sample_shape"]
    if not isinstance(shape, dict):
        return None
    data = file.facts["about"].get("data") or {}
    return KnownViews(tuple(shape), Coding.from_facts(data.get("covariates")))


def load_views(
    path: str | Path,
    views: Mapping[str, str | Path] | Sequence[str | Path | tuple[str | None, Path]] = (),
    *,
    samples: str | Sequence[str] | None = None,
    covariates: str | Path | None = None,
    columns: Sequence[str] | None = None,
    known: KnownViews | None = None,
    **options: Any,
) -> SampleSet:
    """Load several views per sample.

    The samples are those of ``path``, which also has the labels. Other files are matched by sample id where both have
    one: an array or column ``id``, ``sample_id``, ``participant_id`` or ``subject_id``, or the names of files that are
    one sample each (without their endings, or by their ``sub-...``), in a column of any name. A sample without a row in
    another file lacks that view, and is NaN in it. Files without ids are matched by order; ``notes`` says which was
    done. A table of covariates must name the samples that are files.

    Parameters
    ----------
    path : str or Path
        As in `load_samples`. A sample that lacks the view is NaN in all of its entries.
    views : mapping of str to path, or sequence of path or (str or None, path)
        Further files, by the names of their views; by default the names of the files without their endings.
    samples : str or sequence of str, optional
        Name of the array with the samples, or names of several arrays of one file, which are then the names of views.
    covariates : path, optional
        A table (``.csv``, ``.tsv``) whose columns are the view "covariates": numbers, and text as one column per
        category. A row without any value lacks the view.
    columns : sequence of str, optional
        The columns to use; by default all but ids, paths, labels, groups and confounds.
    known : KnownViews, optional
        The views of a fitted model, for new samples: their names, and the categories of covariates.
    **options
        Further arguments of `load_samples`; ``mode_names`` and ``mode_values`` are mappings from the names of views.
        ``confounds`` may also be columns of the table of covariates, which come before those of the first file.

    Returns
    -------
    SampleSet
        ``data`` is `Views`; ``affine`` has the affines of NIfTI files by name.

    Examples
    --------
    >>> from tensormargin.io import load_views
    >>> load_views("eeg.npz", {"fmri": "fmri.nii.gz"}, covariates="people.csv").data.names  # doctest: +SKIP
    ('eeg', 'fmri', 'covariates')
    """
    path, rules = Path(path), chosen_from(FileLimits, options).rules
    own = _arrays_of(path, samples, known, rules)
    pairs = views.items() if isinstance(views, Mapping) else views
    given = [(one[0], Path(one[1])) if isinstance(one, tuple) else (None, Path(one)) for one in pairs]
    names = _names(path, own, given, covariates is not None, known)
    described = {key: options.pop(key, None) or {} for key in ("mode_names", "mode_values")}
    unknown = [view for by_view in described.values() for view in by_view if view not in names]
    if unknown:
        raise ValueError(
            f"mode_names (command line: --modes VIEW:...) must name views, {', '.join(names)}; got {unknown[0]!r}"
        )
    table = None if covariates is None else _table_of(Path(covariates), rules)
    confounds = _named_confounds(options)
    options["confounds"] = tuple(name for name in confounds if name not in (table or ()))
    parts: dict[str, SampleSet] = {}
    for name, view in zip(own, names, strict=False):
        found = load_samples(path, samples=name, missing=True, **options, **_of_view(described, view))
        parts[view] = _like_known(found, view, options.get("like"), found)
    first, labels_from = parts[names[0]], options.get("labels_from")
    ids = None if first.names is not None else ids_in(path, len(first.data), rules)
    if ids is None and isinstance(labels_from, str | Path) and first.names is None:
        ids = ids_in(Path(labels_from), len(first.data), rules)
    main = _Main(path, first, ids, rules)
    for view, (_, file) in zip(names[len(own) :], given, strict=True):
        parts[view] = _other_file(view, file, main, options, _of_view(described, view))
    coding = None
    if table is not None:
        taken = (options.get("labels"), options.get("groups"), *confounds)
        coding, parts[COVARIATES] = _covariates(Path(str(covariates)), table, columns, taken, confounds, known, main)
    found = _joined(main, parts, coding, confounds)
    return replace(found, loading={**found.loading, "modes": True}) if any(described.values()) else found


def _arrays_of(
    path: Path, samples: str | Sequence[str] | None, known: KnownViews | None, rules: FileRules
) -> list[str | None]:
    """Return the names of the arrays to take from the first file; None for the usual one."""
    if samples is not None:
        return [samples] if isinstance(samples, str) else list(samples)
    if known is None or not path.exists() or container_kind(path) is None:
        return [None]
    with open_arrays(path, rules=rules) as held:
        return [name for name in known.names if name in held] or [None]


def _stem_of(path: Path) -> str:
    """Return the name of a file without its endings."""
    name = path.name.removesuffix(".gz")
    return PurePath(name).stem or name


def _names(
    path: Path,
    own: Sequence[str | None],
    given: Sequence[tuple[str | None, Path]],
    has_covariates: bool,
    known: KnownViews | None,
) -> list[str]:
    """Return the names of the views of all files, those of the first file first."""
    several = len(own) > 1 or known is not None
    files = [*((name if several else None, path) for name in own), *given]
    names = [name or (_stem_of(file) if known is None else None) for name, file in files]
    if known is not None:
        names = _known_names(names, files, known, has_covariates)
    every = [*names, *([COVARIATES] if has_covariates else [])]
    twice = [name for name in every if every.count(name) > 1]
    if twice:
        raise BadFileError(
            f"two views are named {twice[0]!r}; name one of them: views={{'name': file}} (command line: --view "
            "NAME=FILE)"
        )
    return [str(name) for name in names]


def _known_names(
    names: Sequence[str | None], files: Sequence[tuple[str | None, Path]], known: KnownViews, has_covariates: bool
) -> list[str | None]:
    """Return the names of a model's views for files: as given, by the names of the files, then in the model's order."""
    expected = listed([repr(name) for name in known.names])
    wrong = [name for name in names if name is not None and name not in known.names]
    if has_covariates and COVARIATES not in known.names:
        wrong.append(COVARIATES)
    if wrong:
        raise BadFileError(f"the model has the views {expected}, and no view {wrong[0]!r}; leave it out, or rename it")
    free = [name for name in known.names if name not in names and not (has_covariates and name == COVARIATES)]
    found = list(names)
    for place, (name, (_, file)) in enumerate(zip(names, files, strict=True)):
        if name is None and _stem_of(file) in free:
            found[place] = _stem_of(file)
            free.remove(_stem_of(file))
    for place, name in enumerate(found):
        if name is None:
            if not free:
                raise BadFileError(f"{files[place][1]}: the model has the views {expected}, fewer than there are files")
            found[place] = free.pop(0)
    return found


@dataclass(frozen=True)
class _Main:
    """The first file: its samples, to which those of others are matched by ids or by the names of their files."""

    path: Path
    samples: SampleSet
    ids: Array | None
    rules: FileRules

    @property
    def names(self) -> list[str] | None:
        """The ids of the samples, or the names of their files."""
        return self.samples.names if self.ids is None else self.ids.tolist()

    def match(self, path: Path, columns: Mapping[str, Sequence[str]], n_others: int) -> tuple[Array, str, str | None]:
        """Return the row of each sample in another file (-1 for none), a note on how it was found, and the column."""
        main, n_samples, found = self.path, len(self.samples.data), None
        if self.names is not None:
            folder = None if self.ids is not None else main if main.is_dir() else main.parent
            with suppress(RepeatedNameError):
                found = match_names(path, self.names, columns, folder)
        if found is not None:
            lacking = int((found.rows < 0).sum())
            more = f"; {lacking} of {n_samples} samples lack it" if lacking else ""
            by = "" if found.column in IDS else f" ({quoted(found.column)})"
            return found.rows, f"{path}: matched to {main} by sample id{by}{more}{found.note}", found.column
        usual = next((name for name in columns if name.lower() in (*IDS, *PATHS)), None)
        several = usual is not None and len(set(columns[usual])) == len(columns[usual])
        if self.names is not None and (several or (self.ids is None and columns)):
            such = f", such as {quoted(columns[usual][0])!r}," if usual is not None else f" ({listed(columns)})"
            raise BadFileError(
                f"{path}: none of its sample ids{such} is one of {main}, such as {quoted(self.names[0])!r}; use the "
                "same ids, or the names of the files, in one column"
            )
        if n_others != n_samples:
            raise BadFileError(
                f"{path}: has {n_others} samples, but {main} has {n_samples}, and they cannot be matched by id (an "
                f"array or column {', '.join(IDS[::2])}, with different values, or file names). Add ids to both, or "
                "leave samples out"
            )
        order = f"{path}: matched to {main} by order, since they have no sample ids in common"
        return np.arange(n_samples), order, None


class _FileViews(Views):
    """Views of which some stay in their files: rows of them are views in memory."""

    def __init__(self, views: Mapping[str, Any]) -> None:
        self._arrays, self.sample_axes, self.contents = dict(views), None, None


def _at(data: Any, rows: Array) -> Any:
    """Return rows of an array, NaN for those of number -1."""
    if np.array_equal(rows, np.arange(int(data.shape[0]))):
        return data
    if (rows >= 0).all():
        return data[rows]
    dtype = dtype_of(data) if dtype_of(data).kind == "f" else np.dtype(np.float64)
    if is_lazy(data):
        from dask.array import concatenate, full

        nothing = full((1, *data.shape[1:]), np.nan, dtype=dtype)
        return concatenate([data.astype(dtype), nothing])[np.where(rows < 0, len(data), rows)]
    found = np.full((len(rows), *data.shape[1:]), np.nan, dtype)
    found[rows >= 0] = data[rows[rows >= 0]]
    return found


def _other_file(
    view: str, file: Path, main: _Main, options: Mapping[str, Any], described: Mapping[str, Any]
) -> SampleSet:
    """Return a view from another file, with its samples in the order of the first file's."""
    passed = {key: options[key] for key in ("size", "skip_damaged", "lazy", "chunks", *_LIMITS) if key in options}
    if passed.get("size") is None and options.get("like") is not None:
        passed["size"] = options["like"].loading.get("size")
    array = None
    if container_kind(file) is not None:
        with open_arrays(file, rules=main.rules) as held:
            array = view if view in held else None
    if container_kind(file) is not None or not (file.is_dir() or is_table(file)):
        passed.pop("size", None)
        passed.pop("skip_damaged", None)
    found = load_samples(file, samples=array, need_labels=False, groups=False, missing=True, **passed, **described)
    ids = found.names if found.names is not None else ids_in(file, len(found.data), main.rules)
    rows, note, _ = main.match(file, {} if ids is None else {"id": list(ids)}, len(found.data))
    found = _like_known(found, view, options.get("like"), main.samples)
    there, target = rows >= 0, main.samples.target
    if (
        found.target is not None
        and target is not None
        and np.any(found.target[rows[there]].astype(str) != target[there].astype(str))
    ):
        raise BadFileError(
            f"{file}: its labels are not those of {main.path} for the same samples, which were matched "
            f"{'by order' if 'by order' in note else 'by sample id'}; put the samples into the same order, or give "
            "both files sample ids"
        )
    none: dict[str, Any] = dict.fromkeys(("target", "groups", "names"))
    return replace(found, data=_at(found.data, rows), **none, source=str(file), notes=(*found.notes, note))


def _like_known(found: SampleSet, view: str, like: Any, main: SampleSet) -> SampleSet:
    """Return a view in the orientation of a model's, or else of the first file, with modes that a model remembers."""
    known = None if like is None else known_affine(like)
    affine = known.get(view) if isinstance(known, Mapping) else None
    found = turned_like(found, *((main.affine, main.source) if affine is None else (affine, "the model's samples")))
    if like is None or found.axes is not None:
        return found
    return replace(found, axes=remembered_axes(like, found.sample_shape, view))


def _of_view(described: Mapping[str, Mapping[str, Any]], view: str) -> dict[str, Any]:
    """Return the names and coordinates of the modes of one view, as `load_samples` takes them."""
    return {key: by_view[view] for key, by_view in described.items() if view in by_view}


def _table_of(path: Path, rules: FileRules) -> dict[str, list[str]]:
    """Return the columns of the table of covariates."""
    if not path.is_file() or not is_table(path):
        raise BadFileError(f"{path}: covariates are a table, .csv or .tsv, with one row per sample and a header")
    return read_table(path, rules=rules).columns


def _named_confounds(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the confounds that are given, or else those of the model that the samples are for."""
    given, like = options.get("confounds"), options.get("like")
    if given is None and like is not None:
        given = like.loading.get("confounds")
    return (given,) if isinstance(given, str) else tuple(given or ())


def _covariates(
    path: Path,
    table: Mapping[str, Sequence[str]],
    columns: Sequence[str] | None,
    taken: Sequence[str | None],
    confounds: Sequence[str],
    known: KnownViews | None,
    main: _Main,
) -> tuple[Coding, SampleSet]:
    """Return the coding of some columns of a table, and the view that they are, with the confounds in the table."""
    n_rows = len(next(iter(table.values())))
    rows, note, named = main.match(path, {name: table[name] for name in table if name not in taken}, n_rows)
    if columns is None:
        columns = [name for name in table if name.lower() not in _NOT_COVARIATES and name not in (*taken, named)]
    unknown = [name for name in columns if name not in table]
    if unknown:
        raise BadFileError(f"{path}: has no column {unknown[0]!r}; its columns are {listed(table)}")
    coding = None if known is None else known.coding
    wanted = [name for name, _ in coding.columns] if coding is not None else columns
    if not wanted:
        raise BadFileError(
            f"{path}: has no columns but {listed(table)}; add the covariates, one column each, or, for a table of "
            "labels and confounds only, give it as labels_from=... (command line: --labels-from)"
        )
    used = rows[rows >= 0].tolist()
    if coding is None:
        coding = Coding.of(path, {name: [table[name][row] for row in used] for name in wanted})
    numbers = np.full((len(rows), len(coding.entries)), np.nan)
    numbers[rows >= 0] = coding.encode(path, table, used)
    axes = (Axis(COVARIATE, "", coding.entries),)
    of_samples = {name: [table[name][row] if row >= 0 else "" for row in rows] for name in confounds if name in table}
    values = confounds_in(path, of_samples, confounds) or None
    return coding, SampleSet(numbers, None, None, None, None, str(path), "table", (note,), confounds=values, axes=axes)


def _joined(main: _Main, parts: Mapping[str, SampleSet], coding: Coding | None, confounds: Sequence[str]) -> SampleSet:
    """Return the samples with all views; confounds are those of the first file and of the covariates."""
    arrays = {view: part.data for view, part in parts.items()}
    in_files = any(isinstance(array, FileSamples) for array in arrays.values())
    if in_files:
        arrays = {view: in_blocks(array) for view, array in arrays.items()}
    elif any(map(is_lazy, arrays.values())):  # all of them must be of one kind
        from dask.array import from_array

        chunks = next(array.chunks[0] for array in arrays.values() if is_lazy(array))
        arrays = {
            view: (array if is_lazy(array) else from_array(array)).rechunk({0: chunks})
            for view, array in arrays.items()
        }
    stated: dict[str, Any] = {
        name: {view: own for view, part in parts.items() if (own := getattr(part, name)) is not None} or None
        for name in ("affine", "axes", "unit", "space")
    }
    values = {
        name: part.confounds[name]
        for part in (main.samples, *parts.values())
        for name in (() if part.confounds is None else names_of(part.confounds))
    }
    samples, covariates = main.samples, {} if coding is None else {"covariates": [name for name, _ in coding.columns]}
    remembered = {"confounds": list(confounds)} if confounds else {}
    return replace(
        samples,
        data=(_FileViews if in_files else Views)(arrays),
        names=main.names,
        kind="; ".join(dict.fromkeys(part.kind for part in parts.values())),
        notes=tuple(dict.fromkeys(note for part in parts.values() for note in part.notes)),
        coding=coding,
        confounds={name: values[name] for name in confounds} or None,
        sources={view: part.source for view, part in parts.items()},
        loading={**samples.loading, "views": list(parts), **covariates, **remembered},
        **stated,
    )
