"""Options for loading and preparing samples, shared by several commands."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ..runtime import counted
from ._options import blaming, names

if TYPE_CHECKING:
    from ..data import AnyAxes
    from ..io import KnownViews, ModelFile, SampleSet
    from ..transformers import Recipe

FORMATS = """
\b
DATA is one of
  array.npz  array.mat  array.h5  array.zarr      arrays X and y (or name them with --samples and --labels)
  array.npy  scans.nii.gz                         samples alone, with --labels-from labels.csv
  epochs.set  epochs-epo.fif  trials.mat          epochs of EEGLAB, MNE and FieldTrip; labels are the names of events
  recording.set  recording.vhdr  recording.fif    cut around events with --tmin and --tmax (--events names some)
  bold.nii.gz  series.npz                         the same with --events events.tsv (and --tr or --sfreq)
  study/                                          BIDS: NIfTI files sub-01_... and participants.tsv (--labels COLUMN)
  folder/                                         one subfolder per class with PNG, JPEG, TIFF, NIfTI or .npy files
  table.csv  table.tsv                            columns path, label and optionally group
  scene.hdr  scene.tif  cube.mat                  a scene: cut it into samples with `tensormargin patches` first
  digits  basic-motions  eeg  ...                 a public data set, see `tensormargin data list`
Several files, or a folder of them, hold further samples; --groups file keeps those of a file together.
"""

# The keys of `datasets.CATALOGUE`, copied so that a wrong name is refused at once; a test compares the two.
DATA_SETS = (
    *(
        "digits",
        "mnist",
        "orl",
        "haxby",
        "eeg",
        "adrenal",
        "basic-motions",
        "indian-pines",
        "epilepsy",
        "ering",
        "libras",
    ),
    *(f"robot-failures-lp{number}" for number in range(1, 6)),
    *("precog-actions", "muse-ssvep", "eem-olive-oil", "modis-matogrosso", "pmd-posture", "ifnb-ms", "schizo-fnc"),
)

_VIEWS = ("view", "covariates", "covariate_columns")
_FOR_ALL = ("max_bytes", "allow_external", "fill_missing")  # options that a public data set and a scene may have


class Shape(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer versions of click only
    """Sizes such as 28x28 or 7,4,7,4."""

    name = "shape"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the sizes as a tuple."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(int(part) for part in str(value).replace(",", "x").split("x"))
        except ValueError:
            self.fail(f"must be whole numbers such as 28x28; got {value!r}", param, ctx)


_LOADING = (
    click.option(
        "--samples",
        metavar="NAME[,NAME]",
        help="Array with the samples, or table column with their paths; several arrays are several views.",
    ),
    click.option("--labels", metavar="NAME", help="Array or column with the labels."),
    click.option("--groups", metavar="NAME", help="Array or column with the groups (subject, run), kept together."),
    click.option("--no-groups", is_flag=True, help="Ignore groups, even if there is an array or column of that name."),
    click.option("--labels-from", type=click.Path(path_type=Path), help="File with the labels and optionally groups."),
    click.option("--axis", type=int, help="Sample axis of the array. [default: 0]"),
    click.option(
        "--confounds",
        metavar="NAMES",
        help="Comma-separated arrays or columns (age,site); what they explain linearly is removed.",
    ),
    click.option("--size", type=Shape(), help="Resize image and volume files on loading, e.g. 64x64."),
    click.option(
        "--view",
        multiple=True,
        metavar="[NAME=]FILE",
        help="Another tensor of the same samples, matched by sample id or by order; may be repeated.",
    ),
    click.option(
        "--covariates",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Table whose columns (age, sex) are another view; text becomes one column per category.",
    ),
    click.option("--covariate-columns", metavar="NAMES", help="Comma-separated columns to use as covariates."),
    click.option(
        "--modes",
        multiple=True,
        metavar="[VIEW:]TEXT",
        help='Names, units and coordinates of the modes of a sample, e.g. "channel=Fz|Cz,time[ms]=-200:4" (start and '
        "step); by default what the file states. Once per view if there are several.",
    ),
    click.option(
        "--events",
        metavar="TABLE|NAMES",
        help="Table with onset, duration (seconds) and trial_type to cut DATA with, or comma-separated events to take.",
    ),
    click.option("--tmin", type=float, metavar="SECONDS", help="Start of a sample, relative to event onset."),
    click.option("--tmax", type=float, metavar="SECONDS", help="End of a sample; by default that of its event."),
    click.option(
        "--sfreq", type=float, metavar="HZ", help="Sampling frequency of series; by default what the file states."
    ),
    click.option(
        "--tr",
        type=float,
        metavar="SECONDS",
        help="Repetition time of a 4-D NIfTI file that is cut; by default that of its header.",
    ),
    click.option(
        "--delay", type=float, metavar="SECONDS", help="Added to all onsets: about 5 s for the haemodynamic response."
    ),
    click.option(
        "--detrend",
        type=int,
        metavar="DEGREE",
        help="Remove a polynomial over time from a recording before cutting it.",
    ),
    click.option("--max-bytes", metavar="SIZE", help="Maximum memory for the samples, e.g. 8GB."),
    click.option(
        "--allow-external", is_flag=True, help="Follow links, table paths and HDF5 storage to files elsewhere."
    ),
    click.option("--fill-missing", is_flag=True, help="Treat missing chunks (Zarr, HDF5) as fill values."),
    click.option("--sha256", metavar="DIGEST", help="Digest that DATA must have, as sha256sum prints it."),
)

_MISSING: dict[str, dict[str, Any]] = {
    "mask": {"mask": True},
    "mean": {"method": "mean"},
    "interpolate": {"method": "interpolate"},
    "em": {"method": "low-rank"},
}
"""The values of --missing, as parameters of `Impute`."""

_PREPARING = (
    click.option(
        "--length",
        metavar="resample|edge|mean|VALUE [N] [mode K]",
        help="Give samples that differ in length one length: resample them linearly, or pad with the last entry, the "
        "mean or a value. N: the length (default: the median, or the longest). K: the mode, from 1 or by name "
        "(default: last).",
    ),
    click.option(
        "--scale",
        default="none",
        show_default=True,
        metavar="none|entry|global|mode K",
        help="Centre and scale to unit variance: each entry, all entries together, or each index of mode K (from 1, or "
        "its name).",
    ),
    click.option("--by-group", is_flag=True, help="Centre and scale each entry separately within each group."),
    click.option(
        "--missing",
        type=click.Choice(list(_MISSING)),
        help="Fill in missing entries (NaN): the mean of the training samples, interpolation along the last mode, what "
        "a few components make likely (em), or the mean, with what was missing as a second view (mask).",
    ),
    click.option(
        "--mask",
        metavar="varying|bright|FILE",
        help="Keep these entries and set the others to 0; FILE is a mask image (.nii.gz) or array (.npy).",
    ),
    click.option("--crop", metavar="varying|bright|FILE", help="Crop to the bounding box of these entries."),
    click.option("--resize", type=Shape(), help="New sizes of the first modes, e.g. 32x32."),
    click.option("--tensorize", type=Shape(), help="Reshape samples, e.g. to 7x4x7x4."),
)


def loading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `load_samples` to a command, passed as one dictionary ``loading``."""
    return _gathered(command, _LOADING, "loading")


def data_argument(required: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the argument DATA, one or more paths, as a decorator; the command gets a tuple."""
    return click.argument("data", nargs=-1, required=required, type=click.Path(path_type=Path))


def preparing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a `Recipe` to a command, passed as one dictionary ``preparing``."""
    return _gathered(command, _PREPARING, "preparing")


def _gathered(command: Callable[..., Any], options: Any, name: str) -> Callable[..., Any]:
    @wraps(command)
    def wrapped(**given: Any) -> Any:
        gathered = {part: given.pop(part) for part in parts}
        return command(**{name: gathered}, **given)

    before = len(getattr(wrapped, "__click_params__", ()))
    for option in reversed(options):
        wrapped = option(wrapped)
    parts = [str(parameter.name) for parameter in vars(wrapped)["__click_params__"][before:]]
    return wrapped


def load(
    path: Path | Sequence[Path],
    loading: dict[str, Any],
    need_labels: bool = True,
    ragged: bool = False,
    in_parts: bool = False,
    missing: bool = False,
    like: ModelFile | None = None,
) -> SampleSet:
    """Return the samples that the options describe; leakage warnings are left to `leakage_said`.

    The path may also be the name of a public data set, unless there is a file of that name. With ``in_parts``, samples
    that would fill the memory are left in their files. With ``missing``, entries may be NaN, which the model fills in.
    Samples for a fitted model are made ``like`` those that it was fitted to. Notes are printed on standard error.
    """
    paths = (path,) if isinstance(path, Path) else tuple(path)
    found = _loaded(paths, loading, need_labels, ragged, in_parts, missing, like)
    for note in found.notes:
        if not (loading.get("modes") and "taken for" in note):  # what is guessed of modes does not matter then
            click.echo(f"Note: {note}", err=True)
    return _with_modes(found, loading["modes"]) if loading.get("modes") else found


def load_for(
    path: Path, model: ModelFile, data: Sequence[Path], loading: dict[str, Any], need_labels: bool
) -> SampleSet:
    """Return samples for the fitted model of a file, made like those that it was fitted to; see `load`."""
    from ..io import confounds_needed
    from ..transformers import takes_nan, takes_ragged

    with blaming(path):
        loading["confounds"] = loading["confounds"] or confounds_needed(model.model)
        ragged, missing = takes_ragged(model.model), takes_nan(model.model)
    return load(data, loading, need_labels, ragged, in_parts=True, missing=missing, like=model)


def _loaded(
    paths: tuple[Path, ...],
    loading: dict[str, Any],
    need_labels: bool,
    ragged: bool,
    in_parts: bool,
    missing: bool,
    like: ModelFile | None,
) -> SampleSet:
    if len(paths) == 1 and not paths[0].exists():
        return _of_catalogue(paths[0], loading)
    from ..data import LeakageWarning

    options = {name: value for name, value in loading.items() if name not in ("no_groups", "modes", *_VIEWS)}
    options["confounds"] = confounds_in(loading)
    if loading["no_groups"]:
        if options["groups"] is not None:
            raise ValueError("--groups and --no-groups contradict each other; leave one out")
        options["groups"] = False
    options["like"] = like
    with warnings.catch_warnings(action="ignore", category=LeakageWarning):
        known = _known_views(like)
        lazy: Literal["auto", False] = "auto" if in_parts else False
        if known is not None or several_views(loading):
            if missing:
                raise ValueError("--missing is for one file of samples; fill in the entries of several views first")
            if len(paths) > 1:
                raise ValueError(f"DATA must be one file if there are several views; got {len(paths)} files")
            return _views(paths[0], loading, {**options, "need_labels": need_labels, "lazy": lazy}, ragged, known)
        from ..io import load_samples

        one_or_more = paths[0] if len(paths) == 1 else paths
        entries: Literal["entries", False] = "entries" if missing else False
        return load_samples(one_or_more, **options, need_labels=need_labels, ragged=ragged, lazy=lazy, missing=entries)


def _known_views(model: ModelFile | None) -> KnownViews | None:
    from ..io import known_views

    return None if model is None else known_views(model)


def _with_modes(samples: SampleSet, described: Sequence[str]) -> SampleSet:
    """Return the samples with the axes that --modes gives."""
    from ..data import parsed_axes

    shape, made = samples.sample_shape, {**samples.loading, "modes": True}
    if not isinstance(shape, dict):
        if len(described) > 1:
            raise ValueError(f"--modes is given once, for one tensor per sample; got {len(described)} of them")
        return replace(samples, axes=parsed_axes(described[0], shape), loading=made)
    axes = dict(samples.axes) if isinstance(samples.axes, Mapping) else {}
    for text in described:
        view, colon, modes = text.partition(":")
        if not colon or view not in shape:
            raise ValueError(
                f"--modes names a view first, VIEW:..., if there are several: {', '.join(shape)}; got {text!r}"
            )
        axes[view] = parsed_axes(modes, shape[view])
    return replace(samples, axes=axes, loading=made)


def several_views(loading: dict[str, Any]) -> bool:
    """Return whether the options ask for several views per sample."""
    return bool(loading.get("view") or loading.get("covariates") or len(names(loading["samples"] or "")) > 1)


def _views(
    path: Path, loading: dict[str, Any], options: dict[str, Any], ragged: bool, known: KnownViews | None
) -> SampleSet:
    """Return several views per sample."""
    from ..io import load_views

    if ragged:
        raise ValueError("--length is for one file of samples; make the samples of several views equally long first")
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
        **options,
    )


def _named_file(text: str) -> tuple[str | None, Path]:
    """Return the name (None if there is none) and the path that --view gives."""
    name, sign, file = text.partition("=")
    return (name, Path(file)) if sign and not Path(text).exists() else (None, Path(text))


def view_files(loading: dict[str, Any]) -> list[Path | None]:
    """Return all files that are read beside DATA."""
    return [loading["labels_from"], loading["covariates"], *(_named_file(text)[1] for text in loading["view"])]


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
    for path in paths:
        _check_one(path, len(paths) > 1)


def _check_one(path: Path, must_be_file: bool) -> None:
    if path.exists() or (str(path) in DATA_SETS and not must_be_file):
        return
    try:
        files = [str(one) for one in path.parent.iterdir()]
    except OSError:
        files = []
    close = get_close_matches(str(path), [*DATA_SETS, *files], n=2)
    question = f"Did you mean {' or '.join(close)}? " if close else ""
    raise ValueError(
        f"{path}: no such file or folder, and no data set of that name. {question}Give the path of one that exists, or "
        f"one of the data sets {', '.join(DATA_SETS)}"
    )


def _of_catalogue(path: Path, loading: dict[str, Any]) -> SampleSet:
    """Return the public data set of this name; raise ValueError if there is none."""
    check_data(path)
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
    return SampleSet(bunch.data, bunch.target, groups, None, None, name, kind, (), **known)


def refuse_given(loading: dict[str, Any], allowed: Sequence[str], why: str) -> None:
    """Raise ValueError for options of loading that were given and are not allowed here."""
    given = [
        f"--{name.replace('_', '-')}"
        for name, value in loading.items()
        if name not in allowed and value not in (None, ()) and value is not False
    ]
    if given:
        raise ValueError(f"{', '.join(given)}: {why}")


def in_words(samples: SampleSet) -> str:
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
def leakage_said(samples: SampleSet) -> Iterator[None]:
    """Print leakage warnings (samples that are not independent) on standard error, and silence them inside."""
    from ..data import LeakageWarning
    from ..io import leakage_warnings

    for text in leakage_warnings(samples):
        click.echo(f"Warning: {text}", err=True)
    with warnings.catch_warnings(action="ignore", category=LeakageWarning):
        yield


@contextmanager
def unseen_said() -> Iterator[None]:
    """Print each warning of unseen categories of confounds once on standard error: models transform several times."""
    from ..transformers import UnseenCategoryWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnseenCategoryWarning)
        yield
    for text in dict.fromkeys(str(one.message) for one in caught if one.category is UnseenCategoryWarning):
        click.echo(f"Warning: {text}", err=True)
    for other in (one for one in caught if one.category is not UnseenCategoryWarning):
        warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)


def warn_of_axes(samples: SampleSet, axes: AnyAxes) -> None:
    """Print a warning if the times or wavelengths of samples are not those of a model."""
    from ..io import axes_warning

    warning = axes_warning(samples, axes)
    if warning is not None:
        click.echo(f"Warning: {warning}", err=True)


def recipe_of(preparing: dict[str, Any], loading: dict[str, Any]) -> Recipe:
    """Return the recipe that the options describe; raise ValueError if it is invalid."""
    from ..io import load_mask
    from ..transformers import Impute, Recipe

    given = dict(preparing)
    for name in ("mask", "crop"):
        if given[name] not in (None, "varying", "bright"):
            given[name] = load_mask(given[name])
    if given["missing"] is not None:
        given["missing"] = Impute(**_MISSING[given["missing"]])
    recipe = Recipe(**given, confounds=confounds_in(loading))
    recipe.inner()
    return recipe


def mask_files(preparing: dict[str, Any]) -> list[Path]:
    """Return the files of masks."""
    return [Path(preparing[name]) for name in ("mask", "crop") if preparing[name] not in (None, "varying", "bright")]
