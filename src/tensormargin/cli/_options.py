"""Options that several commands share, as decorators.

Those that say how DATA is loaded are derived from the declarations of the options of `load_samples`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click

from ..io import OPTIONS
from ._completing import DataPath, ModelPath, complete_classes

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

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

FILE = click.Path(path_type=Path, dir_okay=False)
PATH = click.Path(path_type=Path)
MODEL = ModelPath(path_type=Path)
OVERWRITE = "tensormargin.overwrite"
"""Where the context of a command holds whether --overwrite is given."""


# ---- help ----

GROUPS: dict[str, tuple[str, ...]] = {
    "Data": (
        "samples", "labels", "groups", "no_groups", "labels_from", "confounds", "axis", "size",
        "skip_damaged", "modes", "fill_missing", "sha256", "only_classes", "exclude_classes", "drop_rare",
    ),
    "Scenes": ("picture", "truth", "cube", "truth_name", "names", "truth_background"),
    "Events": ("events", "tmin", "tmax", "delay", "detrend", "run_confounds", "run_confounds_from", "tr", "sfreq"),
    "Views": ("view", "covariates", "covariate_columns", "without_views"),
    "Preparation": ("length", "scale", "by_group", "missing", "mask", "crop", "resize", "tensorize"),
    "Search": (
        "auto", "kind", "linear", "method", "decomposition", "rank", "methods", "kernels", "folds", "one_se",
        "exhaustive", "balanced",
    ),
    "Evaluation": ("outer_folds", "against", "repeats", "test_size", "permutations"),
    "Maps": ("pattern_map", "weight_map", "background", "radiological"),
    "Output": ("out", "report", "no_report", "dry_run", "as_json", "overwrite", "any_scale", "model_sha256"),
    "Limits": ("budget", "jobs", "scheduler", "seed", "fresh", "max_bytes", "allow_external"),
}  # fmt: skip
"""The options of commands with many of them, by what they are about."""


class Grouped(click.Command):
    """A command with many options: --help shows those that ``most`` need, --help-all all of them in groups.

    Examples and the table of DATA come before the options.
    """

    def __init__(self, *given: Any, most: tuple[str, ...] = (), **more: Any) -> None:
        super().__init__(*given, **more)
        self.most = most
        self.params.append(
            click.Option(
                ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=self._show_all,
                help="Show all options.",
            )
        )  # fmt: skip

    def _show_all(self, context: click.Context, option: click.Parameter, value: bool) -> None:
        if value and not context.resilient_parsing:
            context.meta[_ALL] = True
            click.echo(context.get_help(), color=context.color)
            context.exit()

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write usage, description, examples and options, in this order."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_epilog(ctx, formatter)
        self.format_options(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options that most need, or all in groups."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        records = {str(one.name): one.get_help_record(ctx) for one in options}
        shown = {name: record for name, record in records.items() if record is not None}
        if not ctx.meta.get(_ALL):
            first = [shown[name] for name in (*self.most, "help_all", "help") if name in shown]
            left = len(shown) - len(first)
            with formatter.section("Most used options"):
                formatter.write_dl(first)
            formatter.write_paragraph()
            formatter.write_text(f"{left} more options, in groups: {ctx.command_path} --help-all")
            return
        grouped = {name for names in GROUPS.values() for name in names}
        for title, names in {**GROUPS, "Help": tuple(name for name in shown if name not in grouped)}.items():
            found = [shown[name] for name in names if name in shown]
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)


_ALL = "tensormargin.all_options"


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


def names(text: str) -> tuple[str, ...]:
    """Return the comma-separated names without duplicates, in order."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


# ---- how options reach a command ----


def as_namespace(command: Callable[[Any], None]) -> Callable[..., None]:
    """Let a command take all of its options as the attributes of one object."""

    @wraps(command)
    def wrapped(**given: Any) -> None:
        command(SimpleNamespace(**given))

    return wrapped


def _all(*options: Decorator) -> Decorator:
    """Return several options as one decorator."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _gathered(name: str, *options: Decorator) -> Decorator:
    """Return several options as one decorator; the command gets them as a dictionary of this name."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(command)
        def wrapped(**given: Any) -> Any:
            return command(**{name: {part: given.pop(part) for part in parts}}, **given)

        before = len(getattr(wrapped, "__click_params__", ()))
        made = _all(*options)(wrapped)
        parts = [str(parameter.name) for parameter in vars(made)["__click_params__"][before:]]
        return made

    return decorate


def number(flag: str, least: int, help: str, default: int | None = None, metavar: str | None = None) -> Decorator:
    """Return an option that is a whole number of at least ``least``."""
    kind, shown = click.IntRange(least), default is not None
    return click.option(flag, type=kind, default=default, show_default=shown, help=help, metavar=metavar)


# ---- runs and outputs ----


def _nonzero(context: click.Context, parameter: click.Parameter, value: int) -> int:
    if value == 0:
        raise click.BadParameter("must be a number of processes, or -1 for one per core; got 0")
    return value


jobs = click.option(
    "--jobs", type=int, default=-1, show_default=True, callback=_nonzero, help="Number of processes; -1 uses all cores."
)
scheduler = click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Run the fits on all workers of the Dask scheduler at this address (tcp://host:8786) or in this file.",
)
seed = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of the splits."
)
methods = click.option("--methods", help="Comma-separated method names; by default all seven of the paper.")
model_sha256 = click.option(
    "--model-sha256",
    metavar="DIGEST",
    help="Digest that the model (or comparison) must have, as sha256sum prints it; see docs/security.md.",
)
fresh = click.option("--fresh", is_flag=True, help="Start anew instead of resuming an interrupted run.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
overwrite = click.option(
    "--overwrite",
    is_flag=True,
    expose_value=False,
    callback=lambda context, option, value: context.meta.update({OVERWRITE: value}),
    help="Replace existing files that tensormargin has not written, too.",
)
maps = _all(
    click.option(
        "--pattern-map",
        type=FILE,
        help="Write the activation pattern, which may be interpreted: .nii, .nii.gz, .npy, .png or .csv.",
    ),
    click.option("--weight-map", type=FILE, help="Write the weight, which only says how classes are told apart."),
)
display = _all(
    click.option("--background", type=PATH, help="Anatomical NIfTI volume to draw maps of volumes over in the report."),
    click.option("--radiological", is_flag=True, help="Show volumes with left on the right; the report can switch."),
)


# ---- samples ----

# The keys of `datasets.CATALOGUE`, copied so that a wrong name is refused at once; a test compares the two.
DATA_SETS = names(
    "digits,mnist,orl,haxby,eeg,adrenal,basic-motions,indian-pines,epilepsy,ering,libras,robot-failures-lp1,"
    "robot-failures-lp2,robot-failures-lp3,robot-failures-lp4,robot-failures-lp5,precog-actions,muse-ssvep,"
    "eem-olive-oil,modis-matogrosso,pmd-posture,ifnb-ms,schizo-fnc"
)


def data(required: bool = True) -> Decorator:
    """Return the argument DATA, one or more paths; the command gets a tuple."""
    return click.argument("data", nargs=-1, required=required, type=DataPath(DATA_SETS))


_TYPES = {"number": float, "count": int, "shape": Shape(), "path": PATH}


def _declared(name: str, help: str | None = None) -> Decorator:
    """Return an option of `load_samples` as one of the command line."""
    option = OPTIONS[name]
    kinds: dict[str, dict[str, Any]] = {"flag": {"is_flag": True}, "texts": {"multiple": True}}
    settings = kinds.get(option.kind, {"type": _TYPES.get(option.kind, str), "metavar": option.metavar})
    return click.option(f"--{(option.flag or name).replace('_', '-')}", help=help or option.help, **settings)


loading = _gathered(
    "loading",
    *(_declared(name) for name, option in OPTIONS.items() if option.help),
    click.option("--no-groups", is_flag=True, help="Ignore groups, even if there is an array or column of that name."),
    click.option(
        "--view",
        multiple=True,
        metavar="[NAME=]FILE",
        help="Another tensor of the same samples, matched by sample id or by order; may be repeated.",
    ),
    click.option(
        "--covariates",
        type=FILE,
        help="Table whose columns (age, sex) are another view; text becomes one column per category.",
    ),
    click.option("--covariate-columns", metavar="NAMES", help="Comma-separated columns to use as covariates."),
)


def _classes(flag: str, help: str) -> Decorator:
    return click.option(flag, metavar="CLASSES", shell_complete=complete_classes, help=help)


of_classes = _gathered(
    "classes",
    _classes("--only-classes", "Comma-separated classes to keep; all by default."),
    _classes("--exclude-classes", "Comma-separated classes to leave out."),
    number("--drop-rare", 2, "Leave out classes with fewer samples (or groups, if there are any).", metavar="N"),
)

MISSING: dict[str, dict[str, Any]] = {
    "mask": {"mask": True},
    "mean": {"method": "mean"},
    "interpolate": {"method": "interpolate"},
    "em": {"method": "low-rank"},
}
"""The values of --missing, as parameters of `Impute`."""

preparing = _gathered(
    "preparing",
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
        type=click.Choice(list(MISSING)),
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

scene = _gathered(
    "scene",
    click.option("--cube", metavar="NAME", help="Array with the cube, if a file has several that could be it."),
    click.option("--truth-name", metavar="NAME", help="Array with the ground truth, likewise."),
    click.option("--background", type=int, default=0, show_default=True, help="Label of unclassified pixels."),
    click.option(
        "--names",
        metavar="NAMES|TABLE",
        help="Names of the classes 1, 2, ... (comma-separated), or a table with the columns number and name.",
    ),
)
scene_limits = _all(
    _declared("max_bytes", "Maximum memory for the scene, e.g. 8GB."),
    _declared("allow_external", "Follow links to files elsewhere."),
)
