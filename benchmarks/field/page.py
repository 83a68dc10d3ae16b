"""The page of results, made from the rows alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .contenders import OURS
from .rows import DONE, SLOW, Row, n_splits
from .statistics import ALPHA, Table, all_pairs, average_ranks, best_known, bounds, joined, lead, mean_known, table_of
from .tasks import TASKS

_HEAD = """# Field benchmark

Made by `python -m benchmarks.field --page` from [all rows](../benchmarks/results/field.csv); do not edit it by hand.
`TENSORMARGIN_DATA=… python -m benchmarks.field --jobs 2` computes missing rows (with `pip install aeon pyriemann`),
and can be interrupted and resumed at any time.

Every method sees the same training sets, chooses its hyperparameters in the same folds of them (of whole groups, if
there are any), and predicts the same test sets:

- LinearSVC on vectors: 5 values of C, samples as they are or each entry scaled;
- RBF SVC: 4 values of C, 3 widths, scaled as a whole or each entry;
- ANOVA + SVC, as nilearn's decoders do it: 5, 20 or 50 % of the entries, 5 values of C;
- CP-PLSR (TensorLy): 1 to 6 components, samples as they are or each entry scaled;
- tangent space: covariances of channels with OAS shrinkage in the tangent space of their mean (pyRiemann), LinearSVC
  with 6 values of C; for samples with two modes only. Connectivity matrices are used as they are;
- MiniRocket (aeon) with ridge regression, which chooses its strength by leave-one-out; all modes but the last are
  channels;
- ours: `tensormargin fit --kind KIND` with the kind in the table below.
"""


def page(rows: Sequence[Row], methods: Sequence[str], repeats: int) -> str:
    """Return the page in Markdown."""
    kept = [row for row in rows if row.repeat < repeats]
    table = finished(kept, methods, repeats)
    if not table.tasks:
        return f"{_HEAD}\nNo task is finished by all of {', '.join(methods)}.\n"
    return "\n".join([_HEAD, *_tasks(table, repeats), "", *_accuracies(table), "", *_summary(table), "", *_end(table)])


def finished(rows: Sequence[Row], methods: Sequence[str], repeats: int) -> Table:
    """Return the results of the tasks that all methods have finished."""
    splits = n_splits(rows, {name: task.n_repeats(repeats) for name, task in TASKS.items()})
    return table_of(rows, {task: splits[task] for task in TASKS if task in splits}, methods)


def _tasks(table: Table, repeats: int) -> list[str]:
    lines = ["## Tasks", "", "| task | kind | samples | classes | test sets |", "|---|---|---|---|---|"]
    for name in table.tasks:
        task, row = TASKS[name], table.rows[name, table.methods[0]][0]
        rate = "" if task.sfreq is None else f", {task.sfreq:g} Hz"
        lines.append(f"| {name} | {task.kind}{rate} | {row.samples} | {row.classes} | {task.said_split(repeats)} |")
    return [
        *lines,
        "",
        "Haxby's volumes are detrended and scaled within each run. The two pairs of its categories are also among the",
        "eight; LP2 to LP4 of the robot failures are left out, since LP5 contains them. 19 of the 180 test samples of",
        "`libras` are in its training set, too. Two classes of `modis_matogrosso` are left out: all their samples are",
        "in one place.",
    ]


def _accuracies(table: Table) -> list[str]:
    lines = [
        "## Accuracy in percent",
        "",
        "All test sets of a task together; the best of each task in bold. – : cannot take such samples; slow: over the",
        "limit of processor time.",
        "",
        "| task | " + " | ".join(table.methods) + " |",
        "|---|" + "---|" * len(table.methods),
    ]
    best = best_known(table.accuracy)
    for i, task in enumerate(table.tasks):
        cells = [
            _cell(table.status[i, j], table.accuracy[i, j], table.accuracy[i, j] >= best[i] - 1e-12)
            for j in range(len(table.methods))
        ]
        lines.append(f"| {task} | " + " | ".join(cells) + " |")
    return lines


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{100 * share:.1f}"


def _cell(status: str, accuracy: float, best: bool) -> str:
    if status != DONE:
        return "slow" if status == SLOW else "–"
    return f"**{_percent(accuracy)}**" if best else _percent(accuracy)


def _summary(table: Table) -> list[str]:
    """Return one line per method, in the order of average ranks."""
    ranks = average_ranks(table.accuracy)
    raw, corrected = all_pairs(table.accuracy)
    with_ours = OURS in table.methods
    heads = [
        "method",
        "average rank",
        "tasks finished",
        "mean accuracy",
        "mean balanced accuracy",
        "processor time (s)",
    ]
    heads += ["ours minus it", "p", "p, Holm"] if with_ours else []
    lines = ["## Summary", "", "| " + " | ".join(heads) + " |", "|---|" + "---|" * (len(heads) - 1)]
    for j in np.argsort(ranks, kind="stable"):
        method, accuracy = table.methods[j], table.accuracy[:, j]
        cells = [method, f"{ranks[j]:.2f}", f"{np.sum(~np.isnan(accuracy))} of {len(accuracy)}"]
        cells += [_percent(mean_known(values[:, j])) for values in (table.accuracy, table.balanced)]
        seconds = table.seconds[~np.isnan(accuracy), j]
        cells.append(f"{np.median(seconds):.1f}" if len(seconds) else "–")
        if with_ours:
            where = table.methods.index(OURS), j
            same = method == OURS
            cells += (
                ["", "", ""]
                if same
                else [f"{lead(table, method):+.1f}", f"{raw[where]:.2g}", f"{corrected[where]:.2g}"]
            )
        lines.append("| " + " | ".join(cells) + " |")
    return [
        *lines,
        "",
        f"Over {len(table.tasks)} tasks. A method that cannot take the samples of a task, or is too slow, is ranked",
        "last there and left out of the means; differences are over the tasks that both have finished. p is that of",
        "Wilcoxon's signed-rank test over tasks, two-sided, corrected for all pairs of methods (Holm 1979). Processor",
        "time: the median over tasks of the mean per split, including the choice of hyperparameters, on a machine that",
        "was also used for other things.",
    ]


def _end(table: Table) -> list[str]:
    lines = [
        "![Average ranks](../benchmarks/results/field.png)",
        "",
        f"Average ranks; bars join methods that do not differ significantly (corrected p > {ALPHA:g}).",
    ]
    checked = bounds(table)
    if checked:
        lines += ["", "## Bounds", "", "| ours | | |", "|---|---|---|"]
        lines += [f"| {one.statement} | {'holds' if one.holds else '**missed**'} | {one.found} |" for one in checked]
    return [*lines, ""]


def draw(table: Table) -> object:
    """Return the figure with the critical-difference plot."""
    from .picture import plot_ranks

    ranks = average_ranks(table.accuracy)
    groups = joined(ranks, all_pairs(table.accuracy)[1])
    return plot_ranks(table.methods, ranks.tolist(), groups, OURS).figure
