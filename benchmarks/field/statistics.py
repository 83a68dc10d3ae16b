"""From rows to tables: accuracies, average ranks, tests, and whether the bounds of the benchmark hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.stats import rankdata, wilcoxon

from tensormargin.evaluation import corrected_error, holm
from tensormargin.evaluation.intervals import paired_difference

from .contenders import OURS, REFERENCE
from .rows import DONE, Row

ALPHA = 0.05
_RANK, _NEAR = 1.8, 0.9  # bounds: mean rank, and share of tasks on which ours is close to the best


@dataclass(frozen=True)
class Table:
    """Results with one row per task and one column per method; NaN where a method is unsuitable or too slow.

    Attributes
    ----------
    tasks, methods : list of str
    accuracy, balanced : ndarray of shape (n_tasks, n_methods)
        Share of correct predictions in all test sets of a task, and the mean of the balanced accuracies.
    log_loss, calibration : ndarray of shape (n_tasks, n_methods)
        Of all test samples, and the mean of the calibration errors; NaN for methods without probabilities.
    status : ndarray of str, of the same shape
    rows : dict
        The rows of each (task, method), sorted by split.
    """

    tasks: list[str]
    methods: list[str]
    accuracy: np.ndarray
    balanced: np.ndarray
    log_loss: np.ndarray
    calibration: np.ndarray
    status: np.ndarray
    rows: dict[tuple[str, str], list[Row]]

    def column(self, method: str) -> np.ndarray:
        """Return the accuracies of a method."""
        return self.accuracy[:, self.methods.index(method)]


def table_of(rows: Sequence[Row], splits: Mapping[str, int], methods: Sequence[str]) -> Table:
    """Return the results of the tasks on which every method is finished: on all splits, or unable to.

    Parameters
    ----------
    rows : sequence of Row
    splits : mapping of str to int
        Number of splits of each task, in the order in which tasks are listed.
    methods : sequence of str
    """
    own: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.key):
        own.setdefault((row.task, row.method), []).append(row)

    def status(task: str, method: str) -> str:
        """Return "done", why there is no result, or nothing if there is none yet."""
        found = own.get((task, method), [])
        failed = [row.status for row in found if row.status != DONE]
        return failed[0] if failed else DONE if len(found) == splits[task] else ""

    tasks = [task for task in splits if all(status(task, method) for method in methods)]
    states = np.array([[status(task, method) for method in methods] for task in tasks]).reshape(
        len(tasks), len(methods)
    )
    values = np.full((4, len(tasks), len(methods)), np.nan)
    for i, task in enumerate(tasks):
        for j, method in enumerate(methods):
            if states[i, j] == DONE:
                values[:, i, j] = _cell(own[task, method])
    return Table(tasks, list(methods), *values, states, own)


def _cell(rows: Sequence[Row]) -> tuple[float, ...]:
    sizes = [row.n_test for row in rows]
    return (
        float(np.average([row.accuracy for row in rows], weights=sizes)),
        float(np.mean([row.balanced_accuracy for row in rows])),
        float(np.average([row.log_loss for row in rows], weights=sizes)),
        float(np.average([row.calibration_error for row in rows], weights=sizes)),
    )


def mean_known(values: np.ndarray) -> float:
    """Return the mean of the values that are not NaN; NaN if there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def best_known(values: np.ndarray) -> np.ndarray:
    """Return the largest value of each row; minus infinity for a row of NaN."""
    return np.nan_to_num(values, nan=-np.inf).max(axis=1)


def average_ranks(accuracy: np.ndarray) -> np.ndarray:
    """Return the mean rank of each column, 1 being the best; ties share their ranks, and NaN comes last."""
    ranks = rankdata(-np.nan_to_num(accuracy, nan=-np.inf), axis=1)
    return ranks.mean(axis=0) if len(ranks) else np.full(accuracy.shape[1], np.nan)


def signed_rank(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Return the two-sided p-value of Wilcoxon's test over the tasks that both have finished; 1 if they are equal.

    Equal results are left out. The p-value is exact unless some differences have the same size.
    """
    differences = np.round(ours - theirs, 9)  # so that ties stay ties
    differences = differences[~np.isnan(differences) & (differences != 0)]
    if len(differences) == 0:
        return 1.0
    tied = len(np.unique(np.abs(differences))) < len(differences)
    return float(wilcoxon(differences, method="approx" if tied else "exact").pvalue)


def all_pairs(accuracy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the p-values of all pairs of columns as symmetric matrices, as they are and corrected (Holm 1979)."""
    n = accuracy.shape[1]
    pairs = list(combinations(range(n), 2))
    raw = np.array([signed_rank(accuracy[:, i], accuracy[:, j]) for i, j in pairs])
    found = []
    for values in (raw, holm(raw)):
        matrix = np.ones((n, n))
        for (i, j), value in zip(pairs, values, strict=True):
            matrix[i, j] = matrix[j, i] = value
        found.append(matrix)
    return found[0], found[1]


def joined(ranks: np.ndarray, p_values: np.ndarray, alpha: float = ALPHA) -> list[tuple[int, ...]]:
    """Return the groups that a critical-difference plot joins, as columns in the order of their ranks.

    A group is a run of neighbours in that order, no two of which differ significantly, that is not part of a longer
    one.
    """
    order = np.argsort(ranks, kind="stable")
    found: list[tuple[int, int]] = []
    for start in range(len(order)):
        end = start + 1
        while end < len(order) and np.all(p_values[order[end], order[start:end]] > alpha):
            end += 1
        if end - start > 1 and not any(end <= other for _, other in found):
            found.append((start, end))
    return [tuple(int(column) for column in order[start:end]) for start, end in found]


@dataclass(frozen=True)
class Bound:
    """A statement that must hold, whether it does, and the numbers."""

    statement: str
    holds: bool
    found: str


@dataclass(frozen=True)
class Hindsight:
    """Ours beside the best other method of each task, chosen by results: means over halves of the test sets.

    Ranks are among all methods, with the choice in place of the one it takes; ``near`` are shares of the tasks on which
    no other is better by more than two points, and ``lead`` is that of ours over the choice, in points.
    """

    lead: float
    rank: float
    near: float
    own_rank: float
    own_near: float


def hindsight(table: Table, halvings: int = 200) -> Hindsight | None:
    """Choose the best other method of each task on a random half of its test samples, and measure it on the other.

    None if there is no task that ours and two others have finished.
    """
    rng, found = np.random.RandomState(0), []
    for task, status in zip(table.tasks, table.status, strict=True):
        done = [method for method, state in zip(table.methods, status, strict=True) if state == DONE]
        if OURS not in done or len(done) < 3:
            continue
        done.sort(key=lambda method: method != OURS)  # ours first
        right = np.stack([np.concatenate([row.right for row in table.rows[task, method]]) for method in done])
        for _ in range(halvings):
            order = rng.permutation(right.shape[1])
            seen, unseen = (right[:, half].mean(axis=1) for half in np.array_split(order, 2))
            ties = np.flatnonzero(seen[1:] == seen[1:].max())
            chosen = 1 + rng.choice(ties)
            rest = np.delete(unseen, [0, chosen])
            found.append((unseen[0] - unseen[chosen], *_place(unseen[chosen], rest), *_place(unseen[0], unseen[1:])))
    if not found:
        return None
    lead, rank, near, own_rank, own_near = np.mean(found, axis=0).tolist()
    return Hindsight(100 * lead, rank, near, own_rank, own_near)


def _place(score: float, others: np.ndarray) -> tuple[float, bool]:
    """Return the rank of a score beside others, and whether none of these is better by more than two points."""
    rank = 1 + np.sum(others > score) + 0.5 * np.sum(others == score)
    return float(rank), bool(score >= others.max() - 0.02 - 1e-9)


def bounds(table: Table) -> list[Bound]:
    """Return what must hold for ours, if it takes part."""
    if OURS not in table.methods or len(table.tasks) < 2 or len(table.methods) < 2:
        return []
    checks = [_rank_bound, _mean_bound, _near_best_bound]
    if REFERENCE in table.methods:
        checks += [_better_bound, _nowhere_worse_bound]
    return [check(table) for check in checks]


def _others(table: Table) -> list[str]:
    return [method for method in table.methods if method != OURS]


def lead(table: Table, method: str) -> float:
    """Return by how many points ours is better on average, over the tasks that both have finished (NaN: none)."""
    return 100 * mean_known(table.column(OURS) - table.column(method))


def _rank_bound(table: Table) -> Bound:
    ranks = dict(zip(table.methods, average_ranks(table.accuracy), strict=True))
    other = min(_others(table), key=lambda method: ranks[method])
    holds = ranks[OURS] < ranks[other] and ranks[OURS] <= _RANK
    return Bound(f"best mean rank, at most {_RANK}", bool(holds), f"{ranks[OURS]:.2f}, next {other} {ranks[other]:.2f}")


def _mean_bound(table: Table) -> Bound:
    leads = {method: lead(table, method) for method in _others(table)}
    closest = min(leads, key=lambda method: np.nan_to_num(leads[method], nan=np.inf))
    statement = "mean accuracy at least 3 points above every other, on the tasks that it has finished"
    return Bound(statement, leads[closest] >= 3, f"{leads[closest]:+.1f} points against {closest}")


def _near_best_bound(table: Table) -> Bound:
    best = best_known(np.column_stack([table.column(method) for method in _others(table)]))
    behind = 100 * (best - table.column(OURS))
    near = behind <= 2 + 1e-9  # False where ours has no result
    needed = int(np.ceil(_NEAR * len(near)))
    worse = [f"{task} {value:.1f}" for task, value, close in zip(table.tasks, behind, near, strict=True) if not close]
    statement = f"at most 2 points behind the best other on {needed} of {len(near)} tasks (nine of ten)"
    return Bound(statement, int(near.sum()) >= needed, f"on {near.sum()}; more behind: {', '.join(worse) or 'nowhere'}")


def _better_bound(table: Table) -> Bound:
    raw, corrected = all_pairs(table.accuracy)
    where = table.methods.index(OURS), table.methods.index(REFERENCE)
    holds = bool(corrected[where] < 0.01) and lead(table, REFERENCE) > 0
    return Bound(f"better than {REFERENCE}, p < 0.01", holds, f"p = {raw[where]:.2g}, corrected {corrected[where]:.2g}")


def _nowhere_worse_bound(table: Table) -> Bound:
    found = {task: difference(table, task, OURS, REFERENCE) for task in table.tasks}
    worse = [
        f"{task} {100 * value:+.1f} ± {100 * error:.1f}" for task, (value, error) in found.items() if value < -error
    ]
    statement = f"nowhere worse than {REFERENCE} by more than one standard error"
    worse += [
        f"{task} has no result" for task, value in zip(table.tasks, table.column(OURS), strict=True) if np.isnan(value)
    ]
    return Bound(statement, not worse, f"worse: {', '.join(worse) or 'nowhere'}")


def difference(table: Table, task: str, first: str, second: str) -> tuple[float, float]:
    """Return the difference between two methods on a task, and its standard error.

    Over several splits, the error is corrected for overlapping training sets (Nadeau and Bengio 2003); for a single
    split it is that of paired samples.
    """
    ours, theirs = (table.rows.get((task, method), []) for method in (first, second))
    if any(row.status != DONE for row in (*ours, *theirs)) or not ours or not theirs:
        return float("nan"), float("nan")
    value = _cell(ours)[0] - _cell(theirs)[0]
    if len(ours) == 1:
        return value, paired_difference(ours[0].right[None], theirs[0].right[None]).error or 0.0
    by_split = [row.accuracy - other.accuracy for row, other in zip(ours, theirs, strict=True)]
    ratio = sum(row.n_test for row in ours) / sum(row.n_train for row in ours)
    return value, corrected_error(by_split, ratio)
