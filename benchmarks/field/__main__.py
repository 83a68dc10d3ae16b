"""Methods that people in the field use, and ours, on many open tasks.

``TENSORMARGIN_DATA=... python -m benchmarks.field [--tasks a,b] [--methods a,b] [--repeats N] [--jobs N] [--limit S]
[--samples-per-class 3,6,12]``

computes the rows that ``results/field.csv`` does not have yet and prints the summary; ``--page`` only makes
docs/field.md, the table of the README and the plot from the rows. Rows are kept as soon as they are finished. To
compute rows again, for a method that has changed, give ``--redo``. ``--timing`` computes the first split of each task,
for the processor times, into ``results/field_times.csv``.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tensormargin.io import replacing

from .contenders import METHODS
from .page import draw, finished, page, short_table
from .rows import DONE, Row, RowFile
from .run import all_jobs, go
from .statistics import bounds
from .structure import ROWS as STRUCTURE
from .tasks import TASKS, with_few

RESULTS = Path(__file__).parents[1] / "results"
TIMES = RESULTS / "field_times.csv"
PAGE = Path(__file__).parents[2] / "docs" / "field.md"
README = PAGE.parents[1] / "README.md"
_IN_README = re.compile(r"^\| \| ours \|.*\n(\|.*\n)*", re.MULTILINE)


def chosen(text: str | None, known: list[str], what: str) -> list[str]:
    """Return the names in a comma-separated list, all if there is none; raise ValueError for unknown ones."""
    names = known if text is None else [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"unknown {what} {', '.join(unknown)}; there are {', '.join(known)}")
    return names


def counts(text: str | None) -> list[int]:
    """Return the numbers of training samples per class in a comma-separated list; 0, all of them, if there is none."""
    found = [0] if text is None else [int(count) for count in text.split(",")]
    if text is not None and min(found) < 2:
        raise ValueError(f"--samples-per-class must be at least 2, to choose hyperparameters; got {text}")
    return found


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.field", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", help=f"comma-separated, of {', '.join(TASKS)}")
    parser.add_argument("--methods", help=f"comma-separated, of {', '.join(METHODS)}")
    parser.add_argument(
        "--samples-per-class", help="comma-separated: the tasks with so few training samples of each class instead"
    )
    parser.add_argument("--repeats", type=int, default=2, help="of the folds of tasks without an official split")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument(
        "--limit", type=float, default=600.0, help="seconds of processor time per split, then a method is slow"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--redo", action="store_true", help="compute rows again")
    parser.add_argument(
        "--timing", action="store_true", help="only the first split of each task, for the times of the page"
    )
    parser.add_argument("--page", action="store_true", help="compute nothing, write docs/field.md and the plot")
    parser.add_argument("--out", type=Path, help="file of rows (default: field.csv, or field_times.csv for --timing)")
    return parser


def said(found: Row | str) -> str:
    """Return a row, or the message of an error, as a line of text."""
    if isinstance(found, str):
        return f"ERROR {found}"
    text = f"{100 * found.accuracy:.1f} %" if found.status == DONE else f"{found.status} ({found.chosen})"
    return f"{found.task} {found.repeat}.{found.fold} {found.method}: {text}, {found.seconds:g} s"


def write_page(rows: list[Row], methods: list[str], repeats: int) -> None:
    times = RowFile(TIMES).read()
    with replacing(PAGE) as temporary:
        temporary.write_text(page(rows, methods, repeats, RowFile(STRUCTURE).read(), times), encoding="utf-8")
    table = finished([row for row in rows if row.repeat < repeats], methods, repeats)
    if table.tasks:
        with replacing(README) as temporary:
            lines = "\n".join([*short_table(table, times), ""])
            temporary.write_text(_IN_README.sub(lines, README.read_text(encoding="utf-8")), encoding="utf-8")
        with replacing(RESULTS / "field.png") as temporary:
            draw(table).savefig(temporary, dpi=150, format="png")


def main() -> int:
    parser = arguments()
    options = parser.parse_args()
    try:
        tasks = chosen(options.tasks, list(TASKS), "task")
        tasks = [with_few(task, count) for count in counts(options.samples_per_class) for task in tasks]
        methods = chosen(options.methods, list(METHODS), "method")
        if min(options.repeats, options.jobs) < 1 or options.limit <= 0 or options.seed < 0:
            raise ValueError("--repeats and --jobs must be at least 1, --limit above 0, --seed at least 0")
    except ValueError as error:
        parser.error(str(error))
    store = RowFile(options.out or (TIMES if options.timing else RESULTS / "field.csv"))
    failed = 0
    if not options.page:
        jobs = all_jobs(tasks, methods, options.repeats, options.seed)
        jobs = [job for job in jobs if not options.timing or (job.repeat, job.fold) == (0, 0)]
        for found in go(jobs, store, options.jobs, options.limit, options.redo):
            failed += isinstance(found, str)
            print(said(found), flush=True)
    # other runs may be adding rows to the file, so it is only rewritten where rows were replaced
    rows = [row for row in (store.compact() if options.redo else store.read()) if row.seed == options.seed]
    methods = [method for method in methods if any(row.method == method for row in rows)]
    if options.page:
        write_page(rows, methods, options.repeats)
    kept = [row for row in rows if row.repeat < options.repeats and row.task in tasks]
    table = finished(kept, methods, options.repeats)
    print(page(kept, methods, options.repeats))
    missed = [bound for bound in bounds(table) if not bound.holds]
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
