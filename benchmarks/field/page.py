"""The page of results, made from the rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

import numpy as np

from .contenders import METHODS, OURS
from .rows import DONE, SLOW, Row, n_splits
from .run import SMALLEST
from .shipped import SHIPPED
from .statistics import (
    ALPHA,
    Table,
    all_pairs,
    average_ranks,
    best_known,
    bounds,
    hindsight,
    joined,
    lead,
    mean_known,
    signed_rank,
    table_of,
)
from .structure import summary
from .tasks import PER_CLASS, TASKS, named, with_few

_HEAD = """# Field benchmark

Made by `python -m benchmarks.field --page` from [all rows](../benchmarks/results/field.csv); do not edit it by hand.
`TENSORMARGIN_DATA=… python -m benchmarks.field --jobs 2` computes missing rows (with
`pip install aeon torch pyriemann tensorly sktime tslearn pyts nilearn`), and can be interrupted and resumed at any
time; `--samples-per-class 3,6,12` computes those with few training samples.

Every method sees the same training sets, chooses its hyperparameters in the same folds of them (of whole groups, if
there are any), and predicts the same test sets:

- LinearSVC on vectors: 5 values of C, samples as they are or each entry scaled;
- RBF SVC: 4 values of C, 3 widths, scaled as a whole or each entry;
- ANOVA + SVC, as nilearn's decoders do it: 5, 20 or 50 % of the entries, 5 values of C;
- CP-PLSR (TensorLy): 1 to 6 components, samples as they are or each entry scaled;
- tangent space: covariances of channels with OAS shrinkage in the tangent space of their mean (pyRiemann), LinearSVC
  with 6 values of C; for samples with two modes only. Connectivity matrices are used as they are;
- extra trees: 500 trees on the entries, nothing to choose;
- gradient boosting (scikit-learn's histogram boosting, 50 rounds) of at most 500 pooled numbers: mean, standard
  deviation and quartiles of dyadic intervals, or blocks of images and volumes; entries of other samples as they are;
- MiniRocket and MultiRocket-Hydra (aeon) with ridge regression, which chooses its strength by leave-one-out; all modes
  but the last are channels;
- QUANT (aeon): quantiles over dyadic intervals and extra trees, as its authors set them;
- ours: `tensormargin fit --kind KIND` with the kind in the table below.
"""

CHOICES = """## Which data sets were used for which choice

- The representations that a search tries for each kind of samples were designed while looking at the tasks of this
  package's data sets, the first 21 tasks. Accuracies on these are not those on sets that nobody had looked at.
- Which of them are tried side by side, the exponential kernel of clipped entries, the strengths and scheme that a
  search begins with, and the two standard errors by which another model must be better were chosen on all tasks but
  `haxby_brain`, `haxby_8_categories`, `modis_matogrosso` and `plaid`, with all, 12, 6 and 3 samples per class.
  [What a search begins with](../benchmarks/results/prior.md) shows for each kind what a choice without each data set
  would have led to there. That strengths were looked at again, with ten times the margin variance, is due to the
  test set of `plaid`; without it the other sets prefer them as well, by less than their standard error.
- Competing convolutions were chosen on six of these sets before, and on ACSF1, ArrowHead, GunPoint, ItalyPowerDemand,
  JapaneseVowels, OSULeaf, PickupGestureWiimoteZ and BasicMotions of aeon; histograms of gradients on the four tasks of
  images, with all, 12, 6 and 3 samples per class, and on the two pairs of Haxby's slices, so that they do no harm to
  samples that are only taken for images.
- The settings of the other methods are those of their authors, or grids that were written down once.
""".splitlines()


def page(rows: Sequence[Row], methods: Sequence[str], repeats: int, structure: Sequence[Row] = ()) -> str:
    """Return the page in Markdown; ``structure`` has the rows of `benchmarks.field.structure`."""
    kept = [row for row in rows if row.repeat < repeats]
    table = finished(kept, methods, repeats)
    parts = [_few(kept, repeats), summary(structure)]
    if table.tasks:
        parts = [_tasks(table), _accuracies(table), _summary(table), _probabilities(table), _end(table), *parts]
    else:
        parts = [[f"No task is finished by all of {', '.join(methods)}."], *parts]
    parts += [_missing(kept, table), CHOICES]
    return "\n".join([_HEAD, *(line for part in parts if part for line in (*part, ""))])


def finished(rows: Sequence[Row], methods: Sequence[str], repeats: int, per_class: int = 0) -> Table:
    """Return the results of the tasks that all methods have finished, with as many repeats as they all have."""
    names = [with_few(name, per_class) for name in TASKS]
    known: dict[str, int] = {}
    for most in range(repeats, 0, -1):
        kept = [row for row in rows if row.repeat < most and row.task in names]
        splits = n_splits(kept, {name: named(name).n_repeats(most) for name in names})
        own = table_of(kept, {task: splits[task] for task in names if task in splits}, methods)
        known = dict.fromkeys(own.tasks, most) | known
    kept = [row for row in rows if row.repeat < known.get(row.task, 0)]
    splits = n_splits(kept, {name: named(name).n_repeats(most) for name, most in known.items()})
    return table_of(kept, {task: splits[task] for task in names if task in splits}, methods)


def _tasks(table: Table) -> list[str]:
    lines = ["## Tasks", "", "| task | kind | samples | classes | test sets |", "|---|---|---|---|---|"]
    for name in table.tasks:
        task, own = TASKS[name], table.rows[name, table.methods[0]]
        rate = "" if task.sfreq is None else f", {task.sfreq:g} Hz"
        split = task.said_split(1 + max(row.repeat for row in own))
        lines.append(f"| {name} | {task.kind}{rate} | {own[0].samples} | {own[0].classes} | {split} |")
    return [
        *lines,
        "",
        "Haxby's volumes are detrended and scaled within each run. The two pairs of its categories are also among the",
        "eight; LP2 to LP4 of the robot failures are left out, since LP5 contains them. 19 of the 180 test samples of",
        "`libras` are in its training set, too. Two classes of `modis_matogrosso` are left out: all their samples are",
        "in one place. `vowel_correlations` are those of `japanese_vowels`. Series of different lengths are continued",
        "with zeros. `covid_serology` has several samples of a patient, who is not known, in training and test sets.",
        "",
        "The last tasks are samples that other libraries ship in their wheels:",
        "",
        "| library | has of labelled samples | taken |",
        "|---|---|---|",
        *(f"| {' | '.join(line)} |" for line in SHIPPED),
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


def _probabilities(table: Table) -> list[str]:
    """Return the means over tasks of what the probabilities are worth, for methods that have any."""
    own = [j for j in range(len(table.methods)) if not np.isnan(table.log_loss[:, j]).all()]
    if not own:
        return []
    both = ~np.isnan(table.log_loss[:, own]).any(axis=1)
    lines = ["## Probabilities", "", "| method | mean log loss | mean calibration error (%) |", "|---|---|---|"]
    for j in own:
        loss, error = table.log_loss[both, j], table.calibration[both, j]
        lines.append(f"| {table.methods[j]} | {mean_known(loss):.3f} | {_percent(mean_known(error))} |")
    return [
        *lines,
        "",
        f"Over the {both.sum()} tasks for which all of these have them. The log loss is in nats and no probability is",
        f"taken to be below {SMALLEST:g}; calibration errors are those of the most probable class in ten bins of equal",
        "width, per test set, and not zero by chance alone: small test sets have larger ones. Ours are calibrated on",
        "samples that the search has held out, which is part of its time; trees give shares of votes.",
    ]


def _few(rows: Sequence[Row], repeats: int) -> list[str]:
    """Return mean ranks and accuracies with few training samples, of the methods that have such rows."""
    lines: list[str] = []
    near: list[str] = []
    for per_class in PER_CLASS:
        own = [row for row in rows if named(row.task).per_class == per_class]
        methods = [method for method in METHODS if any(row.method == method for row in own)]
        table = finished(own, methods, repeats, per_class)
        ranks = average_ranks(table.accuracy)
        for j in np.argsort(ranks, kind="stable") if table.tasks else ():
            cells = [str(per_class), str(len(table.tasks)), methods[j], f"{ranks[j]:.2f}"]
            cells += [_percent(mean_known(values[:, j])) for values in (table.accuracy, table.balanced)]
            apart = OURS in methods and methods[j] != OURS
            p = signed_rank(table.column(OURS), table.column(methods[j])) if apart else 1.0
            cells += [f"{lead(table, methods[j]):+.1f}", f"{p:.2g}"] if apart else ["", ""]
            lines.append("| " + " | ".join(cells) + " |")
        if table.tasks and OURS in methods:
            close = next(bound.found for bound in bounds(table) if "points behind" in bound.statement)
            near.append(f"- {per_class} per class: {close}")
    if not lines:
        return []
    return [
        "## Few training samples",
        "",
        "The same test sets, with so many training samples per class, from as many groups as possible. Tasks are left",
        "out if a class has fewer. p is that of Wilcoxon's test against ours, not corrected.",
        "",
        "| per class | tasks | method | average rank | mean accuracy | mean balanced accuracy | ours minus it | p |",
        "|---|---|---|---|---|---|---|---|",
        *lines,
        "",
        "Ours is at most 2 points behind the best other, and further behind on:",
        "",
        *near,
    ]


def _missing(rows: Sequence[Row], table: Table) -> list[str]:
    """Return what the tables above lack: tasks, methods and training sets without all their rows."""
    lines = []
    for name in (name for name in TASKS if name not in table.tasks):
        known = {row.method for row in rows if row.task == name}
        left = [method for method in table.methods if method not in known]
        lines.append(f"- {name}: {'all' if not known else ', '.join(left) or 'some splits'}")
    lines += [f"- all tasks: {method}" for method in METHODS if not any(row.method == method for row in rows)]
    counts = {named(row.task).per_class for row in rows}
    lines += [f"- with {count} training samples per class: all" for count in PER_CLASS if count not in counts]
    head = ["## Missing", "", "Rows that were not computed yet, so that the tables above are without these tasks:", ""]
    return [*head, *lines] if lines else []


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
    return lines + _hindsight(table)


def _hindsight(table: Table) -> list[str]:
    """Return what the bounds are compared with a choice among the other methods that knows results."""
    one = hindsight(table)
    if one is None:
        return []
    above = f"{abs(one.lead):.1f} points {'above' if one.lead >= 0 else 'below'}"
    text = (
        "Some of these bounds are beyond a choice among the other methods that knows results. For each task, the one "
        "that is the best on a random half of the test samples, measured on the other half (means over 200 halvings), "
        f"has a mean rank of {one.rank:.2f} and is at most 2 points behind the best of the others on "
        f"{_percent(one.near)} % of the tasks. Ours, which sees no test sample, has {one.own_rank:.2f} and "
        f"{_percent(one.own_near)} % on the same halves, and is {above} that choice on average."
    )
    return ["", *wrap(text, 120)]


def draw(table: Table) -> object:
    """Return the figure with the critical-difference plot."""
    from .picture import plot_ranks

    ranks = average_ranks(table.accuracy)
    groups = joined(ranks, all_pairs(table.accuracy)[1])
    return plot_ranks(table.methods, ranks.tolist(), groups, OURS).figure
