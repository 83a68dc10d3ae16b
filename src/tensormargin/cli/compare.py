"""``tensormargin compare``."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..runtime import counted
from . import _options as options
from ._data import (
    check_data,
    describe_samples,
    leakage_printed,
    load,
    mask_files,
    of_classes,
    one_tensor_only,
    recipe_of,
)
from ._options import FORMATS, names
from ._outputs import check_ending, check_outputs, display_of, print_json, refusals, written_together
from ._running import console_on, fits_on, processes, progress_bar, unfinished
from .compare_models import are_models, compare_models

if TYPE_CHECKING:
    from rich.table import Table

    from ..evaluation import CompareSettings
    from ..io import SampleSet
    from ..transformers import Recipe

_EXAMPLES = f"""
{FORMATS}
\b
Examples:
  tensormargin compare                                   recordings of a smart watch, built in
  tensormargin compare digits                            another public data set
  tensormargin compare samples.npz --report page.html    with an HTML report
  tensormargin compare faces/ --size 64x64 --methods SVM,STuM,LinearSVC,CP-PLSR
  tensormargin compare scans.nii.gz --labels-from runs.csv --by-group --json > result.json
  tensormargin compare old.skops new.skops new.npz       two models on new samples, paired

Besides the paper's methods: RBF-SVM, RBF-LMDM, DuSK and TT-MMK (kernels), LinearSVC (scikit-learn, flat) and CP-PLSR
(TensorLy).
"""


_DEFAULT = (Path("basic-motions"),)


@click.command(
    "compare",
    cls=options.Grouped,
    epilog=_EXAMPLES,
    most=("methods", "against", "repeats", "groups", "labels", "labels_from", "report", "as_json"),
)
@options.data(required=False)
@options.methods
@click.option("--kernels", is_flag=True, help="Add the kernel methods, tuned over the width of the kernel, too.")
@click.option("--against", help="Method that the others are compared with (by default the first one).")
@options.number("--repeats", 1, "Number of train-test splits.", default=8)
@click.option(
    "--test-size",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.25,
    show_default=True,
    help="Proportion of the samples in the test set.",
)
@options.number("--folds", 2, "Cross-validation folds used to choose lambda.", default=3)
@options.loading
@options.preparing
@options.of_classes
@options.seed
@options.jobs
@options.scheduler
@options.fresh
@click.option("--report", type=options.FILE, help="Write an HTML report.")
@options.display
@options.overwrite
@options.as_json
@options.as_namespace
def compare_command(given: Any) -> None:
    """Compare the paper's methods on DATA, all tuned in the same way.

    Every method gets the same splits, and lambda is chosen from the same values by cross-validation on the training
    set. Groups, if any, are never split between training and test set. Two models (OLD.skops NEW.skops DATA) are
    compared on labelled samples that neither was fitted to, of classes that both know. Without DATA, the recordings of
    a smart watch that come with the package are used. To resume a run that was stopped, repeat the same command.
    """
    data, loading, report = given.data or _DEFAULT, given.loading, given.report
    with refusals(ValueError):
        if are_models(data):
            compare_models(given)
            return
        check_data(*data)
        one_tensor_only(loading, "compare")
    started = processes(given.jobs, given.scheduler, "tensormargin.evaluation")
    with progress_bar(in_seconds=True) as show, started as ready:
        from ..data import Metadata
        from ..estimators import KERNEL_METHODS, METHODS
        from ..evaluation import CompareSettings, compare, comparison_content

        with refusals(ValueError):
            if given.background is not None and report is None:
                raise ValueError("--background is drawn in the report; add --report page.html, or leave it out")
            check_ending(report, "a report", ".html", ".htm")
            check_outputs(
                (*given.data, loading["labels_from"], given.background, *mask_files(given.preparing)), (report,)
            )
            recipe = recipe_of(given.preparing, loading)
            chosen = tuple(METHODS) if given.methods is None else names(given.methods)
            settings = CompareSettings(
                methods=tuple(dict.fromkeys((*chosen, *(KERNEL_METHODS if given.kernels else ())))),
                repeats=given.repeats,
                test_size=given.test_size,
                folds=given.folds,
                seed=given.seed,
                preparation=recipe.inner(),
                against=given.against,
            )
            _check_missing(recipe, settings.methods, METHODS)
            samples = load(data, loading, ragged=recipe.length is not None, missing=recipe.takes_missing)
            samples = of_classes(samples, given.classes, given.folds)
            recipe = recipe.numbered(samples.axes, samples.sample_shape, samples.affine)
            settings = replace(settings, preparation=recipe.inner())
            recipe.check_masks(samples.sample_shape, samples.affine)
            recipe.checked_shape(samples.data, Metadata(samples.groups, samples.confounds), samples.sample_shape)
            display = None if report is None else display_of(samples, {}, given.background, given.radiological)
            X = recipe.scaled_by_group(samples.data, samples.groups)
        checkpoint = unfinished(show, given.fresh)
        with leakage_printed(samples), fits_on(given.scheduler, X):
            with refusals(ValueError):
                results = compare(
                    X, samples.labels, settings, given.jobs, samples.groups, show, checkpoint, samples.confounds
                )
            work = f"{counted(len(settings.methods), 'method')} x {counted(settings.repeats, 'split')}"
            click.echo(f"{describe_samples(samples)}; {work}", err=True)
            ready()
            rows = list(results)
    rows.sort(key=lambda row: (settings.entries.index(row.method), row.repeat))
    content = comparison_content(samples, settings, recipe.words(), rows)
    if report is not None:
        from ..evaluation import fit_winner
        from ..report import comparison_page, write_page

        with refusals():
            compared = replace(samples, data=X)  # scaled by group if requested
            winner = fit_winner(compared, settings, rows, given.jobs)
            with written_together():
                write_page(report, comparison_page(content, winner, compared, display))
    if checkpoint is not None:
        checkpoint.remove()
    if given.as_json:
        print_json(content)
        return
    _print_table(samples, settings, content)
    if report is not None:
        click.echo(f"Wrote {report}")


def _check_missing(recipe: Recipe, methods: Collection[str], known: Collection[str]) -> None:
    """Raise ValueError for ways to fill in missing entries that a comparison does not have."""
    others = [method for method in methods if method not in known]
    if recipe.marks_missing and others:
        raise ValueError(
            f"--missing mask makes two views, and {', '.join(others)} takes one tensor per sample; use mean, "
            f"interpolate or em, or only the methods {', '.join(known)}"
        )
    if recipe.missing is not None and recipe.by_group:
        raise ValueError(
            "--by-group scales all samples before they are split, and --missing learns from training samples only; use "
            "`tensormargin fit`, or leave one of them out"
        )


def _print_table(samples: SampleSet, settings: CompareSettings, content: dict[str, Any]) -> None:
    from ..estimators import KERNEL_METHODS
    from ..report import format_differences

    console = console_on(sys.stdout)
    console.print(_table(samples, settings, content["summary"]))
    tuned = "lambda (and the width of kernels)" if set(settings.methods) & set(KERNEL_METHODS) else "lambda"
    kind = "stratified" if samples.groups is None else "that keeps groups together"
    splits = f"Mean ± standard deviation over {settings.repeats} folds" if settings.repeats > 1 else "One fold"
    lines = [
        *format_differences(content["differences"]),
        f"{splits}, {kind} ({1 - settings.test_size:.0%} training). {tuned} chosen for each method "
        f"by {settings.folds}-fold cross-validation on the training set. Differences are paired, and corrected for "
        "their number (Holm). Margins are of the test set; parameters and margins are per binary problem.",
    ]
    unfinished = sum(not row["converged"] for row in content["rows"])
    if unfinished:
        lines.append(f"{unfinished} of {len(content['rows'])} fits stopped before they converged.")
    for line in lines:
        console.print(line, highlight=False, markup=False)


def _table(samples: SampleSet, settings: CompareSettings, summaries: list[dict[str, Any]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    title = Text(f"{Path(samples.source).name}: {describe_samples(samples)}", style="table.title")
    table = Table(box=box.SIMPLE, title_justify="left", title=title)
    table.add_column("method")
    for heading in ("accuracy %", "fit s", "parameters", "margin mean", "variance"):
        table.add_column(heading, justify="right")
    best = max(summary["accuracy"] for summary in summaries)
    for summary in summaries:
        spread = f" ± {100 * summary['accuracy_sd']:.2f}" if settings.repeats > 1 else ""
        accuracy = f"{100 * summary['accuracy']:.2f}{spread}"
        margins = (summary[name] for name in ("margin_mean", "margin_variance"))
        table.add_row(
            summary["method"],
            f"[bold]{accuracy}[/bold]" if summary["accuracy"] == best else accuracy,
            f"{summary['fit_seconds']:.3f}",
            str(summary["n_parameters"]),
            *("" if value is None else f"{value:.2f}" for value in margins),
        )
    return table
