"""Summaries of rows: mean accuracies beside the paper's, fit times, and paired differences with intervals."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..estimators import METHODS
from ..evaluation import CONFIDENCE, corrected_error, holm, student_p_value, student_quantile
from ..io import BadFileError, neutral
from .protocols import Evaluation
from .rows import Row

_METHODS = ("SVM", "STM", "STuM", "LMDM", "SPMD-LRT", "HSPMD-LRT", "TuSPMD-LRT")
_REPORTED: dict[tuple[str, int | None], tuple[float | None, ...]] = {
    ("MNIST", 10_000): (91.64, 88.36, 90.45, 97.98, 95.66, 96.88, 98.09),
    ("MNIST", 20_000): (92.84, 89.96, 92.28, 98.22, 95.84, 97.19, 98.33),
    ("MNIST", 30_000): (93.28, 89.82, None, 98.33, 95.60, 97.38, 98.42),
    ("MNIST", 60_000): (93.99, 90.54, None, 98.48, 95.82, 97.24, None),
    ("ORL 32x32", None): (96.25, 93.75, 93.50, 95.83, 95.83, 96.67, 97.32),
    ("ORL 64x64", None): (96.25, 92.71, 94.40, 96.49, 95.83, 96.69, 97.50),
    ("ADNI", None): (55.56, 37.50, 37.50, 44.44, 50.00, 62.50, 66.67),
    ("ADHD-200", None): (42.50, 45.00, 54.00, 47.50, 42.50, 57.50, 62.50),
}
"""The accuracies in the paper's Tables 2, 4, 5 and 6, in percent; None for cells that it leaves empty."""


def reported(data: str, size: int, method: str) -> float | None:
    """Return the paper's accuracy in percent, None for a cell that is empty there."""
    values = _REPORTED.get((data, size), _REPORTED.get((data, None)))
    return None if values is None else values[_METHODS.index(method)]


@dataclass(frozen=True)
class CellSummary:
    """One cell of a table. Accuracies are in percent, times in seconds.

    ``accuracy`` is the mean over the pairs of classes of each split, then over the splits; ``sd`` is the standard
    deviation over the splits (NaN for a single one). ``fit_seconds`` is the median over all fits, on one core. ``lam``
    and ``mu`` are the values chosen most often, ``at_low`` and ``at_high`` the shares of splits that chose the smallest
    and the largest lambda. ``paper`` is the paper's figure (NaN if there is none, or none for this number of pairs).
    ``versions`` holds the software versions of all rows, as JSON objects separated by " | ".
    """

    data: str
    size: int
    method: str
    tuned: str
    accuracy: float
    sd: float
    paper: float
    n_splits: int
    n_fits: int
    fit_seconds: float
    lam: float
    mu: float
    at_low: float
    at_high: float
    sweeps: float
    largest_gap: float
    unconverged: int
    n_parameters: int
    seed: int
    versions: str


@dataclass(frozen=True)
class Difference:
    """Accuracy of ``first`` minus that of ``second`` in points, with a confidence interval (NaN if there is none).

    ``over`` says what the interval treats as random: classes (a jackknife that leaves out one class and all its pairs
    at a time, since pairs that share a class are not independent) or splits (Student's t with the variance corrected
    for overlapping training sets, Nadeau and Bengio 2003). ``df`` holds the degrees of freedom. ``p_value`` is that of
    Student's test of no difference, which is below 0.05 if the interval excludes 0; ``p_holm`` is corrected for the
    number of differences in the table (Holm 1979).
    """

    data: str
    size: int
    tuned: str
    first: str
    second: str
    difference: float
    low: float
    high: float
    over: str
    df: int
    p_value: float
    p_holm: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the uncorrected interval excludes 0."""
        return self.low > 0 or self.high < 0

    @property
    def verdict(self) -> str:
        """The verdict after correction for the number of differences."""
        if np.isnan(self.p_holm):
            return "no interval"
        if self.p_holm > 1 - CONFIDENCE:
            return "no difference shown"
        return "better" if self.difference > 0 else "worse"


Table = dict[tuple[int, int], dict[tuple[str, str], Row]]
"""The rows of one cell over all its splits: by (repeat, fold), then by pair."""
Gains = Mapping[tuple[int, int], Mapping[tuple[str, str], float]]
"""The differences in accuracy between two methods, with the same keys."""


def _cells(rows: Sequence[Row]) -> Mapping[tuple[str, int, str, str], Table]:
    cells: dict[tuple[str, int, str, str], Table] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        cells[row.data, row.size, row.method, row.tuned][row.repeat, row.fold][row.pair] = row
    return cells


def summarise_rows(rows: Sequence[Row], evaluations: Sequence[Evaluation]) -> list[CellSummary]:
    """Return one summary per cell, in the order of the evaluations, sizes and methods."""
    by_name = {evaluation.data: evaluation for evaluation in evaluations}
    cells = _cells(rows)
    order = {name: position for position, name in enumerate(by_name)}
    methods = list(METHODS)
    keys = sorted(cells, key=lambda key: (order[key[0]], key[1], methods.index(key[2]), key[3]))
    return [_summary(key, cells[key], by_name[key[0]]) for key in keys]


def _summary(key: tuple[str, int, str, str], cell: Table, evaluation: Evaluation) -> CellSummary:
    data, size, method, _ = key
    means = [np.mean([row.accuracy for row in pairs.values()]) for pairs in cell.values()]
    rows = [row for pairs in cell.values() for row in pairs.values()]
    chosen = [next(iter(pairs.values())).lam for pairs in cell.values()]
    paper = reported(data, size, method) if evaluation.pairs is None else None
    return CellSummary(
        *key,
        accuracy=100 * float(np.mean(means)),
        sd=100 * float(np.std(means, ddof=1)) if len(means) > 1 else float("nan"),
        paper=float("nan") if paper is None else paper,
        n_splits=len(cell),
        n_fits=len(rows),
        fit_seconds=float(np.median([row.fit_seconds for row in rows])),
        lam=_most_common(chosen),
        mu=_most_common([row.mu for row in rows]),
        at_low=float(np.mean([lam == evaluation.grid.lams[0] for lam in chosen])),
        at_high=float(np.mean([lam == evaluation.grid.lams[-1] for lam in chosen])),
        sweeps=float(np.mean([row.sweeps for row in rows])),
        largest_gap=max(row.gap for row in rows),
        unconverged=sum(not row.converged for row in rows),
        n_parameters=max(row.n_parameters for row in rows),
        seed=rows[0].seed,
        versions=" | ".join(sorted({row.versions for row in rows})),
    )


def _most_common(values: Sequence[Any]) -> Any:
    return Counter(values).most_common(1)[0][0]


def differences(rows: Sequence[Row], evaluations: Sequence[Evaluation]) -> list[Difference]:
    """Return the difference between every two methods on each data set and size, paired by split and pair of classes.

    The p-values of all differences are corrected as one family. With ``tuned`` "lam+mu", methods with margin terms use
    the chosen mu; only pairs with such a method are listed again.
    """
    cells = _cells(rows)
    found = []
    for evaluation in evaluations:
        for size in sorted({size for data, size, _, _ in cells if data == evaluation.data}):
            for tuned in ("lam", "lam+mu"):
                variants = _variants(cells, evaluation.data, size, tuned)
                for second, first in combinations([name for name in METHODS if name in variants], 2):
                    (a, mu_a), (b, mu_b) = variants[first], variants[second]
                    if tuned == "lam" or mu_a or mu_b:
                        column = evaluation.data, size, tuned
                        found.append(_difference(column, (first, a), (second, b), evaluation.interval_over))
    return corrected(found)


def corrected(found: Sequence[Difference]) -> list[Difference]:
    """Return the differences of a table with ``p_holm`` set."""
    adjusted = holm([one.p_value for one in found])
    return [replace(one, p_holm=float(p)) for one, p in zip(found, adjusted, strict=True)]


def _variants(
    cells: Mapping[tuple[str, int, str, str], Table], data: str, size: int, tuned: str
) -> dict[str, tuple[Table, bool]]:
    """Return each method's cell, tuned as requested if available, and whether its mu was tuned."""
    kinds = dict.fromkeys(("lam", tuned))  # what was requested replaces the other
    return {
        method: (cells[data, size, method, kind], kind == "lam+mu")
        for kind in kinds
        for method in METHODS
        if (data, size, method, kind) in cells
    }


def _difference(
    column: tuple[str, int, str], first: tuple[str, Table], second: tuple[str, Table], over: str
) -> Difference:
    """Return the mean difference over the splits and pairs that both have, with its uncorrected interval."""
    (first_name, a), (second_name, b) = first, second
    gains = {
        split: {pair: row.accuracy - b[split][pair].accuracy for pair, row in pairs.items() if pair in b[split]}
        for split, pairs in a.items()
        if split in b
    }
    mean = 100 * float(np.mean([np.mean(list(gain.values())) for gain in gains.values()]))
    if over == "classes":
        share, df = _error_over_classes(gains)
    else:  # corrected for overlapping training sets
        means = np.array([np.mean(list(gain.values())) for gain in gains.values()])
        rows = [row for split in gains for row in a[split].values()]
        ratio = sum(row.n_test for row in rows) / sum(row.n_train for row in rows)
        share, df = corrected_error(means, ratio), len(means) - 1
    half, p_value = 100 * student_quantile(df) * share, student_p_value(mean, 100 * share, df)
    return Difference(*column, first_name, second_name, mean, mean - half, mean + half, over, df, p_value, p_value)


def _error_over_classes(gains: Gains) -> tuple[float, int]:
    """Return the standard error by the delete-one-class jackknife, and its degrees of freedom."""
    of_pair: dict[tuple[str, str], list[float]] = defaultdict(list)
    for gain in gains.values():
        for pair, value in gain.items():
            of_pair[pair].append(value)
    means = {pair: float(np.mean(values)) for pair, values in of_pair.items()}
    classes = sorted({name for pair in means for name in pair})
    left = [[value for pair, value in means.items() if name not in pair] for name in classes]
    if len(classes) < 3 or not all(left):
        return float("nan"), 0
    estimates = np.array([np.mean(values) for values in left])
    n = len(classes)
    variance = (n - 1) / n * np.sum((estimates - estimates.mean()) ** 2)
    return float(np.sqrt(variance)), n - 1


# ------------------------------------------------------------------------------------------------------------ files

Record = TypeVar("Record", CellSummary, Difference)


def csv_text(records: Sequence[Record]) -> str:
    """Return summaries or differences as CSV, one per line, with six digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(records[0])] if records else [], lineterminator="\n")
    writer.writeheader()
    for record in records:
        shown = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in asdict(record).items()}
        writer.writerow({name: neutral(value) for name, value in shown.items()})
    return text.getvalue()


def from_csv(text: str, kind: type[Record]) -> list[Record]:
    """Return the records that `csv_text` wrote."""
    readers = {"int": int, "float": float, "str": str}
    return [
        kind(**{field.name: readers[str(field.type)](line[field.name]) for field in fields(kind)})
        for line in csv.DictReader(io.StringIO(text))
    ]


def read_csv(path: Path, kind: type[Record]) -> list[Record]:
    """Return the records of a CSV file."""
    try:
        return from_csv(path.read_text(encoding="utf-8"), kind)
    except (KeyError, TypeError, ValueError) as error:
        raise BadFileError(f"{path}: not a summary of this version ({error}); run the table again") from error
