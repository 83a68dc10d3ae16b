"""Division of a multi-class problem into binary ones, and their combination into one decision function."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from ..runtime import Array, dtype_of, like, namespace


@dataclass(frozen=True)
class BinaryProblem:
    """The samples and signs of one binary problem."""

    negative: int  # class index; -1 for all other classes
    positive: int
    rows: Array | None  # in ascending order; None for all samples
    signs: Array  # 1 for the positive class, -1 otherwise

    def weighted(self, weights: Array) -> tuple[BinaryProblem, Array]:
        """Return the problem without samples of weight zero, and the weights of the others, which sum to one."""
        rows, signs = self.rows, self.signs
        if not np.all(weights > 0):
            rows = np.arange(len(weights)) if rows is None else rows
            kept = weights[rows] > 0
            rows, signs = rows[kept], signs[kept]
        chosen = weights if rows is None else weights[rows]
        return replace(self, rows=rows, signs=signs), chosen / chosen.sum()

    def within(self, rows: Array) -> BinaryProblem:
        """Return the same problem for a larger array, in which its samples are the given rows."""
        return replace(self, rows=rows if self.rows is None else rows[self.rows])


def binary_problems(codes: Array, n_classes: int, scheme: str) -> list[BinaryProblem]:
    """Return the binary problems for class indices: one per pair, in scikit-learn's order, or with "ovr" per class.

    The later class of a pair is positive.
    """
    if n_classes == 2:
        return [BinaryProblem(0, 1, None, _signs(codes == 1))]
    if scheme == "ovr":
        return [BinaryProblem(-1, k, None, _signs(codes == k)) for k in range(n_classes)]
    own = [np.flatnonzero(codes == k) for k in range(n_classes)]
    problems = []
    for i, j in combinations(range(n_classes), 2):
        rows = np.sort(np.concatenate((own[i], own[j])))
        problems.append(BinaryProblem(i, j, rows, _signs(codes[rows] == j)))
    return problems


def problem_classes(classes: Array, scheme: str) -> list[tuple[Any, Any]]:
    """Return (negative, positive) class of each binary problem; the negative one of "ovr" is "rest"."""
    labels = classes.tolist()
    return [("rest", label) for label in labels] if scheme == "ovr" and len(labels) > 2 else [*combinations(labels, 2)]


def count_problems(n_classes: int, scheme: str) -> int:
    """Return the number of binary problems."""
    return n_classes if scheme == "ovr" and n_classes > 2 else n_classes * (n_classes - 1) // 2


def class_codes(y: Array, classes: Array) -> Array:
    """Return the index of each label in the sorted ``classes``; raise ValueError for unknown labels."""
    codes = np.searchsorted(classes, y)
    unknown = classes[np.minimum(codes, len(classes) - 1)] != y
    if np.any(unknown):
        strange, known = np.unique(y[unknown]).tolist(), classes.tolist()
        raise ValueError(f"y holds labels that were not seen in fit: {strange}; the known ones are {known}")
    return codes


def combine_scores(scores: Any, n_classes: int, scheme: str) -> Any:
    """Return the decision function, given one score per binary problem.

    One-vs-one counts votes and adds the summed scores squeezed into (-1/3, 1/3), so that they only break ties between
    classes with equally many votes: the rule of scikit-learn's ``SVC(break_ties=True)``. As with two classes, the later
    class needs a positive score; a score of 0 goes to the earlier one.
    """
    if n_classes == 2:
        return scores[:, 0]
    if scheme == "ovr":
        return scores
    xp = namespace(scores)
    pairs = np.array(list(combinations(range(n_classes), 2)))
    earlier, later = (like(np.eye(n_classes)[pairs[:, side]], scores, dtype_of(scores)) for side in (0, 1))
    won = xp.astype(scores > 0, scores.dtype)
    votes = (1 - won) @ earlier + won @ later
    sums = scores @ (later - earlier)
    return votes + sums / (3 * (xp.abs(sums) + 1))


def predicted_codes(decisions: Any) -> Any:
    """Return the index of the predicted class, from one score or several; ties go to the earlier class."""
    xp = namespace(decisions)
    return xp.astype(decisions > 0, xp.int64) if decisions.ndim == 1 else xp.argmax(decisions, axis=1)


def _signs(positive: Array) -> Array:
    return np.where(positive, 1.0, -1.0)
