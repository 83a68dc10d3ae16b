"""``tensormargin reproduce`` and ``tensormargin results``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import _options as options
from ._options import names
from ._outputs import print_json, refusals, say_written, written_together
from ._running import console_on, fits_on, processes, progress_bar

if TYPE_CHECKING:
    from ..paper import Run

# The keys of `reproduce.PROTOCOLS`, copied because that import would slow down every --help; a test compares the two.
TABLES = ("table2", "table4", "table5", "table6", "open")

_EXAMPLES = """
\b
Examples:
  tensormargin reproduce table2 --quick              under a minute, to check that it works
  tensormargin reproduce table2                      all of Table 2, about an hour on two cores
  tensormargin reproduce table4 --methods SVM,STM --repeats 2 --out my-results
  tensormargin reproduce table6 --adni adni.mat      with your own copy of the data
  tensormargin results --out my-results -o results.md

To resume a run that was stopped, repeat the same command.
"""


def _out_option(text: str) -> Any:
    folder = click.Path(path_type=Path, file_okay=False)
    return click.option("--out", type=folder, default=Path("results"), show_default=True, help=text)


@click.command("reproduce", hidden=True, epilog=_EXAMPLES)
@click.argument("table", type=click.Choice(TABLES))
@click.option("--quick", is_flag=True, help="A few pairs, one repeat, fewer samples, to check that everything runs.")
@options.methods
@click.option("--sizes", help="Comma-separated training sizes; by default those of the paper.")
@options.number("--repeats", 1, "Number of random repeats; by default that of the paper.")
@click.option("--tune-mu", is_flag=True, help="Choose mu1 = mu2 as well, in separate rows.")
@options.seed
@options.jobs
@options.scheduler
@_out_option("Folder for rows and summaries, with one subfolder per table.")
@click.option("--adni", type=options.PATH, help="table6: file with the ADNI arrays (.mat or .npz).")
@click.option("--adhd", type=options.PATH, help="table6: file with the ADHD-200 arrays (.mat or .npz).")
@options.as_json
@options.as_namespace
def reproduce_command(given: Any) -> None:
    """Run the paper's evaluation: seven methods on real data, all tuned in the same way.

    TABLE is table2 (MNIST), table4 or table5 (ORL faces), table6 (ADNI and ADHD-200, with your own copies of the data),
    or open (Haxby, EEG, Indian Pines, AdrenalMNIST3D). Rows go to OUT/TABLE/rows.parquet, means and paired differences
    to summary.csv, differences.csv and summary.md in the same folder.
    """
    from ..estimators import METHODS
    from ..io import BadFileError
    from ..paper import PROTOCOLS, Run, RunSettings, quick, write_summaries

    table = given.table
    with refusals(ValueError):
        settings = RunSettings(
            table=table,
            methods=tuple(METHODS) if given.methods is None else names(given.methods),
            seed=given.seed,
            tune_mu=given.tune_mu,
            sizes=None if given.sizes is None else _numbers(given.sizes),
            repeats=given.repeats,
        )
        if table != "table6" and (given.adni or given.adhd):
            raise ValueError(f"--adni and --adhd belong to table6; {table} fetches its own data")
        evaluations = PROTOCOLS[table](given.adni, given.adhd) if table == "table6" else PROTOCOLS[table]()
        evaluations = quick(evaluations) if given.quick else evaluations
        run = Run(evaluations, settings, given.out / (f"{table}-quick" if given.quick else table))
    with refusals(BadFileError):
        started = processes(given.jobs, given.scheduler, "tensormargin.paper.runner")
        with fits_on(given.scheduler, *run.data_sets()), progress_bar() as show, started as ready:
            show.kept = True
            ready()
            for state in run.go(given.jobs):
                show(state.work, state.all_work, f"{state.rows} of {state.all_rows} rows, {state.doing}")
        with written_together():
            text = write_summaries(run)
        _print_summary(run, text, given.as_json)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(name) for name in names(text))
    except ValueError as error:
        raise ValueError(f"--sizes must be whole numbers separated by commas; got {text!r}") from error


def _print_summary(run: Run, text: str, as_json: bool) -> None:
    if as_json:
        from ..paper import read_summaries

        print_json({"folder": str(run.folder), **read_summaries(run.folder)})
        return
    from rich.markdown import Markdown

    console = console_on(sys.stdout)
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        click.echo(text)
    click.echo(f"Rows and summaries are in {run.folder}")


@click.command("results", hidden=True)
@_out_option("Output folder of `tensormargin reproduce`.")
@click.option(
    "-o",
    "--page",
    type=options.FILE,
    default=Path("results.md"),
    show_default=True,
    help="Markdown file to write; its figures go to a folder of the same name next to it.",
)
@options.as_json
def results_command(out: Path, page: Path, as_json: bool) -> None:
    """Write the results page: accuracies next to the paper's, paired differences, fit times and figures.

    Example: tensormargin results --out results -o docs/results.md
    """
    from ..io import BadFileError
    from ..paper import write_page

    with refusals(BadFileError):
        write_page(out, page)
    say_written(as_json, page)
