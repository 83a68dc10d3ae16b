"""Samples that the options of a command describe, and how to prepare them."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ..runtime import counted, listed
from ._options import DATA_SETS, MISSING, names
from ._outputs import blaming, warn

if TYPE_CHECKING:
    from ..io import ModelFile, SampleSet
    from ..transformers import Recipe

_OF_COMMANDS = ("no_groups", "modes", "view", "covariates", "covariate_columns")  # not arguments of `load_samples`
_FOR_ALL = ("max_bytes", "allow_external", "fill_missing")  # options that a public data set and a scene may have


def load(
    path: Path | Sequence[Path],
    loading: dict[str, Any],
    need_labels: bool = True,
    ragged: bool = False,
    lazy: bool | Literal["auto", "blocks"] = False,
    missing: bool = False,
    like: ModelFile | None = None,
) -> SampleSet:
    """Return the samples that the options describe; leakage warnings are left to `leakage_printed`.

    The path may also be the name of a public data set, unless there is a file of that name. If ``lazy``, samples are
    left in their files as by `load_samples`. With ``missing``, entries may be NaN, which the model fills in.
    Samples for a fitted model are made ``like`` those that it was fitted to. Notes are printed on standard error.
    """
    paths = (path,) if isinstance(path, Path) else tuple(path)
    paths, loading = _with_tables(paths, loading)
    if len(paths) == 1 and not paths[0].exists():
        return _of_catalogue(paths[0], loading)
    from ..data import LeakageWarning
    from ..io import known_views, load_samples

    options = {name: value for name, value in loading.items() if name not in _OF_COMMANDS}
    options |= {"need_labels": need_labels, "like": like, "lazy": lazy}
    options["confounds"] = confounds_in(loading)
    if loading["no_groups"]:
        if options["groups"] is not None:
            raise ValueError("--groups and --no-groups contradict each other; leave one out")
        options["groups"] = False
    known = None if like is None else known_views(like)
    with warnings.catch_warnings(action="ignore", category=LeakageWarning):
        if known is not None or several_views(loading):
            if missing or ragged:
                option = "--missing" if missing else "--length"
                raise ValueError(f"{option} is for one file of samples; prepare those of several views beforehand")
            if len(paths) > 1:
                raise ValueError(f"DATA must be one file if there are several views; got {len(paths)} files")
            found = _load_views(paths[0], loading, known, options)
        else:
            options["mode_names"] = _one_tensor(loading.get("modes") or ())
            options |= {"ragged": ragged, "missing": "entries" if missing else False}
            found = load_samples(paths[0] if len(paths) == 1 else paths, **options)
    for note in found.notes:
        click.echo(f"Note: {note}", err=True)
    return found


def _with_tables(paths: tuple[Path, ...], loading: dict[str, Any]) -> tuple[tuple[Path, ...], dict[str, Any]]:
    """Return DATA without tables of events: --events run-1.tsv run-2.tsv has the first one as its value only."""
    events = loading.get("events")
    tables = [one for one in paths if one.suffix.lower() in (".tsv", ".csv")]
    if not tables or events is None or len(tables) == len(paths):
        return paths, loading
    return tuple(one for one in paths if one not in tables), {**loading, "events": [events, *map(str, tables)]}


def of_classes(samples: SampleSet, classes: dict[str, Any], folds: int) -> SampleSet:
    """Return the samples of the classes that the options name; notes name what is left out, and rare classes."""
    import numpy as np

    from ..data import no_classes, order_of

    only, exclude = (names(classes[option] or "") for option in ("only_classes", "exclude_classes"))
    found = samples.of_classes(only, exclude, classes["drop_rare"] or 1, options=True)
    notes = [*found.notes[len(samples.notes) :]]
    labels, counts = np.unique(found.labels, return_counts=True)
    rare = [
        f"{label} ({count})" for label, count in zip(labels.tolist(), counts.tolist(), strict=True) if count < folds
    ]
    if rare and no_classes(found.labels, in_folds=True) is None:
        notes.append(f"classes with fewer than {folds} samples: {listed(rare, most=8)}; --drop-rare leaves them out")
    elif order := order_of(found.labels):
        notes.append(order)
    for note in notes:
        click.echo(f"Note: {note}", err=True)
    return found


def _one_tensor(modes: Sequence[str]) -> str | None:
    """Return what --modes says of the one tensor per sample."""
    if len(modes) > 1:
        raise ValueError(f"--modes is given once, for one tensor per sample; got {len(modes)} of them")
    return modes[0] if modes else None


def _modes_by_view(modes: Sequence[str], views: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield views with what --modes says of their modes."""
    for text in modes:
        view, colon, described = text.partition(":")
        if not colon or (views and view not in views):
            among = f": {', '.join(views)}" if views else ""
            raise ValueError(f"--modes names a view first, VIEW:..., if there are several{among}; got {text!r}")
        yield view, described


def load_for(
    path: Path,
    model: ModelFile,
    data: Sequence[Path],
    loading: dict[str, Any],
    need_labels: bool,
    lazy: Literal["auto", "blocks"] = "auto",
) -> SampleSet:
    """Return samples for the fitted model of a file, made like those that it was fitted to; see `load`."""
    from ..io import confounds_needed
    from ..transformers import takes_nan, takes_ragged

    with blaming(path):
        loading["confounds"] = loading["confounds"] or confounds_needed(model.model)
        ragged, missing = takes_ragged(model.model), takes_nan(model.model)
    return load(data, loading, need_labels, ragged, lazy, missing, like=model)


def several_views(loading: dict[str, Any]) -> bool:
    """Return whether the options ask for several views per sample."""
    return bool(loading.get("view") or loading.get("covariates") or len(names(loading["samples"] or "")) > 1)


def _load_views(path: Path, loading: dict[str, Any], known: Any, options: dict[str, Any]) -> SampleSet:
    """Return several views per sample."""
    from ..io import load_views

    arrays = names(options.pop("samples") or "")
    columns = loading["covariate_columns"]
    if columns is not None and loading["covariates"] is None:
        raise ValueError("--covariate-columns are columns of a table; give it as --covariates FILE")
    return load_views(
        path,
        [_named_file(text) for text in loading["view"]],
        samples=arrays or None,
        covariates=loading["covariates"],
        columns=None if columns is None else names(columns),
        known=known,
        mode_names=dict(_modes_by_view(loading["modes"])),
        **options,
    )


def _named_file(text: str) -> tuple[str | None, Path]:
    """Return the name (None if there is none) and the path that --view gives."""
    name, sign, file = text.partition("=")
    return (name, Path(file)) if sign and not Path(text).exists() else (None, Path(text))


def view_files(loading: dict[str, Any]) -> list[Path | None]:
    """Return all files that are read beside DATA."""
    views, tables = (_named_file(text)[1] for text in loading["view"]), map(Path, loading["run_confounds_from"])
    return [loading["labels_from"], loading["covariates"], *views, *tables]


def one_tensor_only(loading: dict[str, Any], command: str) -> None:
    """Raise ValueError if the options ask for several views, which a command does not take."""
    if several_views(loading):
        raise ValueError(
            f"{command} takes one tensor per sample, not several views; give one of the files alone. "
            "`tensormargin fit` takes several, and compares with a flat reference on all of them"
        )


def confounds_in(loading: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the confounds."""
    given = loading.get("confounds")
    return names(given) if isinstance(given, str) else tuple(given or ())


def check_data(*paths: Path) -> None:
    """Raise ValueError if there is neither a file nor a public data set of a name; several must be files."""
    unknown = [path for path in paths if not path.exists() and (len(paths) > 1 or str(path) not in DATA_SETS)]
    if not unknown:
        return
    path, files = unknown[0], list[str]()
    with suppress(OSError):
        files = [str(one) for one in path.parent.iterdir()]
    close = get_close_matches(str(path), [*DATA_SETS, *files], n=2)
    question = f"Did you mean {' or '.join(close)}? " if close else ""
    raise ValueError(
        f"{path}: no such file or folder, and no data set of that name. {question}Give the path of one that exists, or "
        f"one of the data sets {', '.join(DATA_SETS)}"
    )


def _of_catalogue(path: Path, loading: dict[str, Any]) -> SampleSet:
    """Return the public data set of this name; raise ValueError if there is none."""
    check_data(path)
    from ..data import parsed_axes
    from ..datasets import CATALOGUE, load_by_name
    from ..io import SampleSet

    name = str(path)
    why = f"for files only, and {name} is a public data set. Leave it out, or make a file of the data set with "
    refuse_given(loading, (*_FOR_ALL, "no_groups", "modes", "sfreq"), f"{why}`tensormargin data fetch {name}`")
    bunch = load_by_name(name)
    groups = None if loading["no_groups"] else bunch.get("groups")
    entry = CATALOGUE[name]
    kind = f"public data set ({entry.source})"
    known = {"field": entry.kind, "sfreq": entry.sfreq, "axes": bunch.get("axes")}
    found = SampleSet(bunch.data, bunch.target, groups, None, None, name, kind, (), **known)
    if not loading.get("modes"):
        return found
    shape = found.sample_shape
    if isinstance(shape, dict):
        axes: Any = {view: parsed_axes(text, shape[view]) for view, text in _modes_by_view(loading["modes"], shape)}
    else:
        axes = parsed_axes(str(_one_tensor(loading["modes"])), shape)
    return replace(found, axes=axes, loading={"modes": True})


def refuse_given(loading: dict[str, Any], allowed: Sequence[str], why: str) -> None:
    """Raise ValueError for options of loading that were given and are not allowed here."""
    given = [
        f"--{name.replace('_', '-')}"
        for name, value in loading.items()
        if name not in allowed and value not in (None, ()) and value is not False
    ]
    if given:
        raise ValueError(f"{', '.join(given)}: {why}")


def describe_samples(samples: SampleSet) -> str:
    """Return number and shape of the samples and the number of classes, in words."""
    from ..data import format_shape

    classes = len(set(samples.labels.tolist()))
    shape = format_shape(samples.sample_shape)
    return f"{counted(len(samples.data), 'sample')} of {shape}, {counted(classes, 'class', 'classes')}"


def n_views(samples: SampleSet) -> int:
    """Return the number of views, one for a single tensor per sample."""
    shape = samples.sample_shape
    return len(shape) if isinstance(shape, dict) else 1


@contextmanager
def leakage_printed(samples: SampleSet) -> Iterator[None]:
    """Print leakage warnings (samples that are not independent) on standard error, and silence them inside."""
    from ..data import LeakageWarning
    from ..io import leakage_warnings

    warn(*leakage_warnings(samples))
    with warnings.catch_warnings(action="ignore", category=LeakageWarning):
        yield


@contextmanager
def unseen_categories_printed() -> Iterator[None]:
    """Print each warning of unseen categories of confounds once on standard error: models transform several times."""
    from ..transformers import UnseenCategoryWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnseenCategoryWarning)
        yield
    warn(*dict.fromkeys(str(one.message) for one in caught if one.category is UnseenCategoryWarning))
    for other in (one for one in caught if one.category is not UnseenCategoryWarning):
        warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)


def recipe_of(preparing: dict[str, Any], loading: dict[str, Any]) -> Recipe:
    """Return the recipe that the options describe; raise ValueError if it is invalid."""
    from ..io import load_mask
    from ..transformers import Impute, Recipe

    given = dict(preparing)
    for name in ("mask", "crop"):
        if given[name] not in (None, "varying", "bright"):
            given[name] = load_mask(given[name])
    if given["missing"] is not None:
        given["missing"] = Impute(**MISSING[given["missing"]])
    recipe = Recipe(**given, confounds=confounds_in(loading))
    recipe.inner()
    return recipe


def mask_files(preparing: dict[str, Any]) -> list[Path]:
    """Return the files of masks."""
    return [Path(preparing[name]) for name in ("mask", "crop") if preparing[name] not in (None, "varying", "bright")]
