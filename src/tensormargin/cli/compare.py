"""``tensormargin compare``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ._options import jobs_option, methods_option, names, progress_bar, seed_option

if TYPE_CHECKING:
    from .._typing import Array
    from ..experiments import CompareRow, CompareSettings, Summary

_EXAMPLES = """
\b
Examples:
  tensormargin compare                        the built-in digits, 8x8
  tensormargin compare samples.npz            arrays X (n_samples, I_1, ...) and y
  tensormargin compare --methods SVM,STuM --repeats 10 --json > result.json
"""


@click.command("compare", epilog=_EXAMPLES)
@click.argument("data", required=False, type=click.Path(path_type=Path))
@methods_option
@click.option("--repeats", type=click.IntRange(1), default=5, show_default=True, help="Random stratified splits.")
@click.option(
    "--test-size",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.25,
    show_default=True,
    help="Share of the samples to test on.",
)
@click.option("--folds", type=click.IntRange(2), default=3, show_default=True, help="Folds that choose lambda.")
@seed_option
@jobs_option
@click.option("--json", "as_json", is_flag=True, help="Print all rows as JSON instead of a table.")
def compare_command(
    data: Path | None,
    methods: str | None,
    repeats: int,
    test_size: float,
    folds: int,
    seed: int,
    jobs: int,
    as_json: bool,
) -> None:
    """Compare the paper's methods on DATA, an .npz file with arrays X and y.

    Every method gets the same splits and chooses lambda from the same values, by cross-validation on the training part.
    """
    from ..experiments import CompareSettings, compare, summarise
    from ..methods import METHODS

    settings = CompareSettings(
        methods=tuple(METHODS) if methods is None else names(methods),
        repeats=repeats,
        test_size=test_size,
        folds=folds,
        seed=seed,
    )
    try:
        name, X, y = _load(data)
        results = compare(X, y, settings, jobs)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    rows = _with_progress(results, len(settings.methods) * repeats)
    rows.sort(key=lambda row: (settings.methods.index(row.method), row.repeat))
    summaries = summarise(rows, settings.methods)
    if as_json:
        _print_json(name, X, settings, rows, summaries)
    else:
        _print_table(name, X, y, settings, rows, summaries)


def _load(path: Path | None) -> tuple[str, Array, Array]:
    if path is None:
        from ..datasets import load_digits_tensor

        digits = load_digits_tensor()
        return "digits (built in)", digits.data, digits.target
    from ..io import load_npz

    return path.name, *load_npz(path)


def _with_progress(rows: Iterable[CompareRow], total: int) -> list[CompareRow]:
    """Collect the rows under a progress bar on standard error."""
    collected: list[CompareRow] = []
    with progress_bar() as show:
        show(0, total, f"0 of {total} fits")
        for row in rows:
            collected.append(row)
            show(len(collected), total, f"{len(collected)} of {total} fits, {row.method}")
    return collected


def _print_table(
    name: str, X: Array, y: Array, settings: CompareSettings, rows: list[CompareRow], summaries: list[Summary]
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    shape = " x ".join(str(size) for size in X.shape[1:])
    title = f"{name}: {len(X)} samples of {shape}, {len(set(y.tolist()))} classes"
    table = Table(box=box.SIMPLE, title_justify="left", title=title)
    table.add_column("method")
    for heading in ("accuracy %", "fit s", "parameters", "margin mean", "variance"):
        table.add_column(heading, justify="right")
    best = max(summary.accuracy for summary in summaries)
    for summary in summaries:
        accuracy = f"{100 * summary.accuracy:.2f} ± {100 * summary.accuracy_sd:.2f}"
        table.add_row(
            summary.method,
            f"[bold]{accuracy}[/bold]" if summary.accuracy == best else accuracy,
            f"{summary.fit_seconds:.3f}",
            str(summary.n_parameters),
            f"{summary.margin_mean:.2f}",
            f"{summary.margin_variance:.2f}",
        )
    console = Console()
    console.print(table)
    console.print(
        f"Mean ± standard deviation over {settings.repeats} stratified splits ({1 - settings.test_size:.0%} training). "
        f"lambda chosen for each method by {settings.folds}-fold cross-validation on the training part. Margins are of "
        "the test part; parameters and margins are per binary problem.",
        highlight=False,
    )
    unfinished = sum(not row.converged for row in rows)
    if unfinished:
        console.print(f"{unfinished} of {len(rows)} fits stopped before they converged.", highlight=False)


def _print_json(
    name: str, X: Array, settings: CompareSettings, rows: list[CompareRow], summaries: list[Summary]
) -> None:
    from ..experiments.versions import software_versions

    content = {
        "data": {"name": name, "n_samples": len(X), "sample_shape": list(X.shape[1:])},
        "settings": asdict(settings),
        "versions": software_versions(),
        "summary": [asdict(summary) for summary in summaries],
        "rows": [asdict(row) for row in rows],
    }
    click.echo(json.dumps(content, indent=2))
