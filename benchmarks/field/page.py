"""The page of results, made from the rows alone."""

from __future__ import annotations

import json
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
from .tasks import AT_HAND, PER_CLASS, TASKS, named, whole_name, with_few

SHAPED, ADDED = "those that shaped the design", "those added later"

_HEAD = """# Field benchmark

Made by `python -m benchmarks.field --page` from [all rows](../benchmarks/results/field.csv); do not edit it by hand.
`TENSORMARGIN_DATA=… python -m benchmarks.field --jobs 2` computes missing rows (with
`pip install aeon torch pyriemann tensorly sktime tslearn pyts nilearn`), and can be interrupted and resumed at any
time; `--samples-per-class 3,6,12` computes those with few training samples.

Every method sees the same training sets and predicts the same test sets. What is chosen by cross-validation is chosen
in the same folds of the training sets (of whole groups, if there are any). Only ours is given the kind of samples of
each task, and their sampling frequency where the table below has one; without a kind it would have to guess it.

Tuned in these folds:

- LinearSVC on vectors: 5 values of C, samples as they are or each entry scaled;
- RBF SVC: 4 values of C, 3 widths, scaled as a whole or each entry;
- ANOVA + SVC, as nilearn's decoders do it: 5, 20 or 50 % of the entries, 5 values of C;
- CP-PLSR (TensorLy): 1 to 6 components, samples as they are or each entry scaled;
- tangent space: covariances of channels with OAS shrinkage in the tangent space of their mean (pyRiemann), LinearSVC
  with 6 values of C; for samples with two modes only. Connectivity matrices are used as they are;
- ours: `tensormargin fit --kind KIND`: representation, strengths, scheme for several classes, and the format of the
  weight, flat or low-rank.

Nothing is tuned in them:

- extra trees: 500 trees on the entries;
- gradient boosting (scikit-learn's histogram boosting, 50 rounds) of at most 500 pooled numbers: mean, standard
  deviation and quartiles of dyadic intervals, or blocks of images and volumes; entries of other samples as they are;
- MiniRocket and MultiRocket-Hydra (aeon) with ridge regression, which chooses its strength by leave-one-out; all modes
  but the last are channels;
- QUANT (aeon): quantiles over dyadic intervals and extra trees, as its authors set them.
"""

_OF_TIMES = """Of choosing hyperparameters, fitting and predicting, on one core, for the first split of {} tasks.
Medians are over the tasks that a method can take. Made by `python -m benchmarks.field --timing`
([rows](../benchmarks/results/field_times.csv)) on a machine that did nothing else, twelve at a time on 16
cores. A fit to a few samples comes before, so that no import and no compilation is in it, for any method.
The column processor_seconds of [all rows](../benchmarks/results/field.csv), which stood here up to 0.2, has
imports and compilation of aeon and pyRiemann in it, but not those of the other methods: 3.3 s for
QUANT, 4.8 to 6.0 s for MiniRocket, 6.8 s for MultiRocket-Hydra and 4.5 s for tangent space, of medians
of 4.7, 5.6, 7.2 and 5.0 s."""

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


def page(
    rows: Sequence[Row], methods: Sequence[str], repeats: int, structure: Sequence[Row] = (), times: Sequence[Row] = ()
) -> str:
    """Return the page in Markdown.

    ``structure`` has the rows of `benchmarks.field.structure`, ``times`` those of ``--timing``.
    """
    kept = [row for row in rows if row.repeat < repeats]
    table = finished(kept, methods, repeats)
    parts = [_times(times), _few(kept, repeats), summary(structure)]
    if table.tasks:
        of_tasks = (_tasks, _accuracies, _summary, _apart, _probabilities, _end)
        parts = [*(part(table) for part in of_tasks), *parts]
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
    heads = ["method", "average rank", "tasks finished", "mean accuracy", "mean balanced accuracy"]
    heads += ["ours minus it", "p", "p, Holm"] if with_ours else []
    lines = ["## Summary", "", "| " + " | ".join(heads) + " |", "|---|" + "---|" * (len(heads) - 1)]
    for j in np.argsort(ranks, kind="stable"):
        method, accuracy = table.methods[j], table.accuracy[:, j]
        cells = [method, f"{ranks[j]:.2f}", f"{np.sum(~np.isnan(accuracy))} of {len(accuracy)}"]
        cells += [_percent(mean_known(values[:, j])) for values in (table.accuracy, table.balanced)]
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
        "Wilcoxon's signed-rank test over tasks, two-sided, corrected for all pairs of methods (Holm 1979).",
    ]


def groups_of(table: Table) -> dict[str, list[int]]:
    """Return the tasks, as rows of a table, that are shown apart, by what they are."""
    kinds = {
        "series, EEG": ("series", "eeg"),
        "volumes, images": ("volume", "image"),
        "spectra, connectomes, plain": ("spectra", "connectome", "plain"),
    }
    names = [whole_name(task) for task in table.tasks]
    found = {
        "all": list(range(len(names))),
        SHAPED: [i for i, name in enumerate(names) if name in AT_HAND],
        ADDED: [i for i, name in enumerate(names) if name not in AT_HAND],
        **{words: [i for i, name in enumerate(names) if TASKS[name].kind in own] for words, own in kinds.items()},
    }
    return {words: rows for words, rows in found.items() if rows}


def ranks_apart(table: Table) -> list[str]:
    """Return average ranks on all tasks and on groups of them."""
    methods = np.argsort(average_ranks(table.accuracy), kind="stable")
    lines = [
        f"| average rank | tasks | {' | '.join(table.methods[j] for j in methods)} |",
        "|---|---|" + "---|" * len(methods),
    ]
    for words, tasks in groups_of(table).items():
        ranks = average_ranks(table.accuracy[tasks])
        lines.append(f"| {words} | {len(tasks)} | {' | '.join(f'{ranks[j]:.2f}' for j in methods)} |")
    return lines


def _apart(table: Table) -> list[str]:
    """Return ranks and differences on groups of tasks, and what was chosen for ours."""
    if OURS not in table.methods:
        return []
    ranks = average_ranks(table.accuracy)
    others = [j for j in np.argsort(ranks, kind="stable") if table.methods[j] != OURS]
    ours, lines = table.column(OURS), []
    for words, tasks in groups_of(table).items():
        cells = []
        for j in others:
            theirs = table.accuracy[tasks, j]
            apart = 100 * mean_known(ours[tasks] - theirs)
            p = signed_rank(ours[tasks], theirs)
            cells.append("–" if np.isnan(apart) else f"{apart:+.1f} ({p:.2g})")
        lines.append(f"| {words} | {len(tasks)} | {' | '.join(cells)} |")
    splits = [row for task in table.tasks for row in table.rows[task, OURS] if row.status == DONE]
    n_flat = sum(json.loads(row.chosen).get("decomposition") == "full" for row in splits)
    return [
        "## What the lead rests on",
        "",
        "The representations were designed while looking at the first 21 tasks. The other 20 were added later; [some",
        "choices](#which-data-sets-were-used-for-which-choice) were made on these, too.",
        "",
        *ranks_apart(table),
        "",
        f"| ours minus it (p) | tasks | {' | '.join(table.methods[j] for j in others)} |",
        "|---|---|" + "---|" * len(others),
        *lines,
        "",
        "Differences are in points, over the tasks that both have finished; p as above, but not corrected.",
        "",
        f"Ours chose a flat weight in {n_flat} of {len(splits)} splits: the lead is that of the representations and of",
        "the choice among them, not of a low rank.",
    ]


def median_times(times: Sequence[Row]) -> tuple[dict[str, float], list[str]]:
    """Return the median processor time of each method, and the tasks for which all of them have a row."""
    methods = [method for method in METHODS if any(row.method == method for row in times)]
    seconds = {(row.task, row.method): row.processor_seconds for row in times}
    tasks = [task for task in TASKS if methods and all((task, method) in seconds for method in methods)]
    return {method: _median([seconds[task, method] for task in tasks]) for method in methods if tasks}, tasks


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.median(known)) if known else float("nan")


def _times(times: Sequence[Row]) -> list[str]:
    """Return processor times without imports and compilation."""
    medians, tasks = median_times(times)
    if not tasks:
        return []
    return [
        "## Processor time",
        "",
        f"| median | {' | '.join(medians)} |",
        "|---|" + "---|" * len(medians),
        f"| seconds | {' | '.join(f'{seconds:.2f}' for seconds in medians.values())} |",
        "",
        *wrap(_OF_TIMES.format(len(tasks)), 120),
    ]


def short_table(table: Table, times: Sequence[Row]) -> list[str]:
    """Return the table of the README: ranks on all tasks and apart, accuracies and times."""
    ranks = average_ranks(table.accuracy)
    order = np.argsort(ranks, kind="stable").tolist()
    medians, timed = median_times(times)
    rows = {
        f"average rank, {words} ({len(tasks)} tasks)": [f"{average_ranks(table.accuracy[tasks])[j]:.2f}" for j in order]
        for words, tasks in groups_of(table).items()
    }
    rows["mean accuracy, %"] = [_percent(mean_known(table.accuracy[:, j])) for j in order]
    if timed:
        rows[f"processor time, s ({len(timed)} tasks)"] = [f"{medians[table.methods[j]]:.2f}" for j in order]
    head = ["", *(table.methods[j] for j in order)]
    lines = [f"| {' | '.join(head)} |".replace("|  |", "| |"), "|---|" + "---|" * len(order)]
    return lines + [f"| {' | '.join([name, *cells])} |" for name, cells in rows.items()]


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
    near, apart = list[str](), list[str]()
    for per_class in PER_CLASS:
        own = [row for row in rows if named(row.task).per_class == per_class]
        methods = [method for method in METHODS if any(row.method == method for row in own)]
        table = finished(own, methods, repeats, per_class)
        ranks = average_ranks(table.accuracy)
        for j in np.argsort(ranks, kind="stable") if table.tasks else ():
            cells = [str(per_class), str(len(table.tasks)), methods[j], f"{ranks[j]:.2f}"]
            cells += [_percent(mean_known(values[:, j])) for values in (table.accuracy, table.balanced)]
            compared = OURS in methods and methods[j] != OURS
            p = signed_rank(table.column(OURS), table.column(methods[j])) if compared else 1.0
            cells += [f"{lead(table, methods[j]):+.1f}", f"{p:.2g}"] if compared else ["", ""]
            lines.append("| " + " | ".join(cells) + " |")
        if table.tasks and OURS in methods:
            close = next(bound.found for bound in bounds(table) if "points behind" in bound.statement)
            near.append(f"- {per_class} per class: {close}")
            apart += ["", f"{per_class} per class:", "", *ranks_apart(table)]
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
        *apart,
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
