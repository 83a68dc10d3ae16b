"""``tensormargin fit``."""

from __future__ import annotations

import re
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, ClassVar

import click
from click.core import ParameterSource

from ..runtime import Deadline, counted
from . import _options as options
from ._data import (
    check_data,
    describe_samples,
    leakage_printed,
    load,
    mask_files,
    n_views,
    of_classes,
    recipe_of,
    view_files,
)
from ._options import FORMATS
from ._outputs import (
    beside,
    check_ending,
    check_outputs,
    display_of,
    map_files,
    print_json,
    refusals,
    say_written,
    write_maps,
    written_together,
)
from ._running import fits_on, processes, progress_bar, unfinished

_OUTPUTS = 1.6  # fewest seconds for the model file and its report, per second that imports take on the same machine
_DRAWN = 3.0  # seconds of a usual report, with its figures, per second of processor time that imports take
_LATE = 0.3  # share of the budget by which a run may end late, so that it has a report

if TYPE_CHECKING:
    from ..evaluation import FitPlan, FittedModel
    from ..inspection import Pattern
    from ..io import SampleSet

_EXAMPLES = f"""
{FORMATS}
\b
Examples:
  tensormargin fit eeg.npz                                     choose everything; writes eeg.skops and eeg.html
  tensormargin fit eeg.npz --budget 60s                        the same in a minute, as far as that goes
  tensormargin fit sub-1.set sub-2.set sub-3.set --groups file
  tensormargin fit bold.nii.gz --events events.tsv --delay 5 --detrend 2
  tensormargin fit scans/ --mask brain.nii.gz --linear         voxels outside of the mask are 0; a model with maps
  tensormargin fit eeg.npz --view fmri.nii.gz --covariates people.csv -o both.skops    several tensors per person
  tensormargin fit faces.npz --decomposition tucker --rank 8x8     one model instead of a search over many
  tensormargin fit eeg.npz --decomposition cp --kind auto          a CP weight on the representation that is best

Next: tensormargin predict MODEL NEWDATA -o predictions.csv
"""


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic in newer versions of click only
    """A time in seconds, written as 90, 90s, 1.5min or 2h."""

    name = "time"
    _units: ClassVar[dict[str, float]] = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number of seconds."""
        found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(s|min|h|)\s*", str(value))
        seconds = float(found[1]) * self._units[found[2]] if found else 0.0
        if not seconds > 0:
            self.fail(f"{value!r} is not a time of more than zero seconds; write 60s, 5min or 1h", param, ctx)
        return seconds


@click.command(
    "fit",
    cls=options.Grouped,
    epilog=_EXAMPLES,
    most=(
        "out",
        "groups",
        "labels",
        "labels_from",
        "events",
        "view",
        "kind",
        "decomposition",
        "rank",
        "budget",
        "report",
        "as_json",
    ),
)
@options.data()
@click.option(
    "-o",
    "--out",
    type=options.FILE,
    help="Model file. [default: DATA.skops beside DATA; of several files FOLDER.skops]",
)
@click.option("--auto", is_flag=True, help="Choose everything by cross-validation, as without options.")
@click.option(
    "--kind",
    type=click.Choice(["auto", "series", "eeg", "volume", "image", "spectra", "connectome", "plain"]),
    default="auto",
    show_default=True,
    help="Kind of the samples, which decides on the representations to try. Guessed by default.",
)
@click.option(
    "--linear", is_flag=True, help="Try only what is linear in the samples, for maps (which imply it) and export."
)
@click.option(
    "--decomposition",
    type=click.Choice(["full", "cp", "tucker", "tt"]),
    help="Form of the weight; chosen by default. If set, samples are used unchanged unless --kind is given.",
)
@click.option("--rank", type=options.Shape(), help="Rank of the weight, likewise: 3 or, without --kind, 4x4x2.")
@click.option("--method", metavar="NAME", help="A method of the paper, likewise: SVM, LMDM, STM, STuM, SPMD-LRT, ...")
@options.number("--folds", 2, "Inner folds, used for tuning.", default=5)
@options.number("--outer-folds", 0, "Outer folds of the nested evaluation; 0 for no evaluation.", default=5)
@options.number("--repeats", 1, "Repeats of the evaluation.", default=1)
@options.number(
    "--permutations", 0, "Number of permutations in a test against chance; the whole search is repeated for each.", 0
)
@click.option("--one-se", is_flag=True, help="Select the simplest model within one standard error of the best.")
@click.option(
    "--exhaustive", is_flag=True, help="Fit every model on every fold; otherwise the worst are dropped early."
)
@click.option(
    "--budget", type=Duration(), help="Time for the command, e.g. 60s or 5min; what would take longer is cut."
)
@click.option("--balanced", is_flag=True, help="Weight classes inversely to their size.")
@click.option("--without-views", is_flag=True, help="Repeat the evaluation without each of several views.")
@options.loading
@options.preparing
@options.of_classes
@options.maps
@options.display
@click.option("--report", type=options.FILE, help="HTML report. [default: OUT.html]")
@click.option("--no-report", is_flag=True, help="Do not write a report.")
@click.option("--dry-run", is_flag=True, help="Load DATA, show what was found and what would be done; fit nothing.")
@options.seed
@options.jobs
@options.scheduler
@options.fresh
@options.overwrite
@options.as_json
@options.as_namespace
def fit_command(given: Any) -> None:
    """Fit a classifier to DATA, evaluate it by nested cross-validation, and save it with an HTML report.

    Without options, everything is chosen by cross-validation: a representation that suits the kind of samples, the
    decomposition of the weight (also none), its rank, lambda, mu and the scheme of several classes. --method,
    --decomposition and --rank fix what they name, on the samples as they are; with --kind the representation is still
    chosen. The reported accuracy comes from samples held out from every choice. To resume a run that was stopped,
    repeat the same command.
    """
    deadline = Deadline.of(given.budget)
    began, busy = deadline.now(), process_time()
    with refusals(ValueError):
        check_data(*given.data)
    given.out = out = given.out or beside(*given.data)
    # Searches run in threads; only permutation tests need processes, whose start takes longer than a small fit.
    started = processes(given.jobs if given.permutations else 1, given.scheduler, "tensormargin.selection")
    with progress_bar() as show, started as ready, refusals(ValueError):
        from ..evaluation import check_folds, fit_and_evaluate, with_kind

        writing, page = _OUTPUTS * (deadline.now() - began), _page(given)
        show.expect(_DRAWN * (process_time() - busy) if page else 0.0)
        inputs = (*given.data, given.background, *view_files(given.loading), *mask_files(given.preparing))
        check_outputs(inputs, (out, page, given.weight_map, given.pattern_map))
        check_ending(out, "a model", ".skops")
        check_ending(page, "a report", ".html", ".htm")
        plan = _plan(given)
        recipe = plan.recipe
        samples = load(given.data, given.loading, ragged=bool(recipe.length), lazy="auto", missing=recipe.takes_missing)
        samples = of_classes(samples, given.classes, given.folds)
        check_folds(samples, plan)
        plan, guess = with_kind(samples, plan)
        maps = map_files(samples, given.weight_map, given.pattern_map)
        display = None if given.no_report else display_of(samples, {}, given.background, given.radiological)
        check_outputs(inputs, (out, page, *maps))
        checkpoint = unfinished(show, given.fresh)
        # A Dask array is read on the cluster throughout.
        with fits_on(given.scheduler, samples.data), leakage_printed(samples):
            n_searches = sum(plan.searches(n_views(samples)))
            parts = (describe_samples(samples), guess, counted(n_searches, "search", "searches"))
            click.echo("; ".join(part for part in parts if part), err=True)
            if given.dry_run:
                _say_understood(samples, [parts[-1], guess], [out, *([page] if page else []), *maps], given.as_json)
                return
            ready()
            within = deadline.sooner(min(writing, _LATE * deadline.budget)) if page and deadline.limited else deadline
            fitted = fit_and_evaluate(samples, plan, given.jobs, show, checkpoint, within)
            if page != given.report and deadline.limited and not deadline.allows(writing - _LATE * deadline.budget):
                page = None
                fitted.about["cut"].append(f"{deadline} left no time for the report, which `tensormargin report` makes")
            place = {"affine": samples.affine, "space": samples.space}
            with written_together():
                patterns = _write(fitted, samples, out, page, display)
                maps = write_maps(fitted.model, patterns, given, place, samples.axes)
        if checkpoint is not None:
            checkpoint.remove()
    written = [out, *([] if page is None else [page]), *maps]
    if given.as_json:
        from ..data import short_facts

        print_json({**short_facts(fitted.about), "written": [str(path) for path in written]})
    else:
        _print(fitted, written)
    if deadline.limited and not deadline.allows(-0.05 * deadline.budget):
        click.echo(
            f"Note: that took {deadline.now() - began:.0f} s, more than the {deadline.budget:g} s of --budget: "
            "loading, one model and the files are never cut",
            err=True,
        )


def _say_understood(samples: SampleSet, plan: list[str], files: list[Path], as_json: bool) -> None:
    """Print what DATA was understood as, and what a fit would do."""
    facts: dict[str, Any] = {**samples.facts, "plan": ", ".join(part for part in plan if part)}
    if as_json:
        found = {"notes": samples.notes, "html": samples._repr_html_(), "would_write": [str(path) for path in files]}
        print_json({**facts, **found})
        return
    for name, value in {**facts, "would write": ", ".join(map(str, files))}.items():
        if value:
            click.echo(f"{name.capitalize()}: {value}")


def _page(given: Any) -> Path | None:
    """Return the file of the report, None for none; raise ValueError for options that contradict each other."""
    fixed = [name for name in ("method", "decomposition", "rank") if getattr(given, name)]
    if given.auto and fixed:
        raise ValueError(f"--auto chooses everything, and --{fixed[0]} fixes it; leave one of them out")
    if given.method and given.decomposition:
        raise ValueError("--method has a decomposition of its own; leave out --decomposition, or --method")
    if given.report is not None and given.no_report:
        raise ValueError("--report and --no-report contradict each other; leave one out")
    if given.background is not None and given.no_report:
        raise ValueError("--background is drawn in the report; leave it or --no-report out")
    if given.outer_folds == 1:
        raise ValueError("--outer-folds must be at least 2, or 0 for no evaluation; got 1")
    return None if given.no_report else given.report or given.out.with_suffix(".html")


def _plan(given: Any) -> FitPlan:
    from ..estimators import METHODS, method_name
    from ..evaluation import FitPlan

    rank, loading = given.rank, given.loading
    with_kind = click.get_current_context().get_parameter_source("kind") is ParameterSource.COMMANDLINE
    auto = not (given.method or given.decomposition or rank) or with_kind or given.linear
    same = ("kind", "folds", "outer_folds", "repeats", "permutations", "exhaustive", "budget", "seed")
    return FitPlan(
        **{name: getattr(given, name) for name in (*same, "without_views")},
        auto=auto,
        sfreq=loading["sfreq"] if auto or loading["events"] is None else None,
        linear=given.linear or (auto and (given.weight_map or given.pattern_map) is not None),
        method=None if given.method is None else method_name(given.method, METHODS),
        decomposition=given.decomposition,
        rank=None if rank is None else rank[0] if len(rank) == 1 else rank,
        recipe=recipe_of(given.preparing, loading),
        rule="simplest" if given.one_se else None,
        class_weight="balanced" if given.balanced else None,
    )


def _write(fitted: FittedModel, samples: SampleSet, out: Path, page: Path | None, display: Any) -> dict[str, Pattern]:
    """Write the model and its report; return its activation patterns."""
    from ..inspection import feature_patterns
    from ..io import save_model

    patterns = feature_patterns(fitted.model, samples.data, samples.target, samples.groups, samples.confounds)
    facts = save_model(out, fitted.model, fitted.about, samples.axes, patterns=patterns)
    if page is not None:
        from ..report import model_page, write_page

        write_page(page, model_page(fitted.model, facts, samples, display, patterns))
    return patterns


def _print(fitted: FittedModel, written: list[Path]) -> None:
    from ..inspection import ModelChain
    from ..report import describe_chosen, describe_model, evaluation_lines, without_views_line
    from ..transformers import TensorUnion, describe_step

    chain, search = ModelChain.of(fitted.model), fitted.about["search"]
    chosen = f"{describe_model(chain.classifier, chain.steps)}, {describe_chosen(search['best'])}"
    steps = [step for step in chain.steps if not isinstance(step, TensorUnion)]  # its views have been named
    if steps:
        chosen += f"; preparation: {', then '.join(describe_step(step, brief=True) for step in steps)}"
    others = ", of which no other could be clearly better" if search["ended_at_once"] else ""
    click.echo(f"Chosen from {counted(search['n_models'], 'model')}{others}: {chosen}")
    if search["stopped"]:
        click.echo(f"Best so far: {search['stopped']}; a longer --budget allows more")
    for sentence in fitted.about["cut"]:
        click.echo(f"Cut: {sentence}")
    without = without_views_line(fitted.about)
    lines = evaluation_lines(fitted.about["evaluation"], fitted.about["chance"])
    for line in (*lines, *([without] if without else [])):
        click.echo(line)
    say_written(False, *written)
