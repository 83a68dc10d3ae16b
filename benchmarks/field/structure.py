"""Low-rank against flat weights on representations that keep their modes, with few samples per class.

``TENSORMARGIN_DATA=... python -m benchmarks.field.structure [TASK,...]`` computes the rows that
``results/structure.csv`` does not have yet: of all tasks with signals or images, the first split with 3, 6 and 12
training samples per class, whose lambda is chosen in the same folds for every weight. The page of the field benchmark
has their summary.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

from tensormargin import TensorMarginClassifierCV, TensorScaler
from tensormargin.transformers import BandPower, CompetingConvolutions, Convolutions, Covariances, IntervalQuantiles

from .contenders import FOLDS
from .rows import Row, RowFile
from .run import Job, result
from .tasks import PER_CLASS, TASKS, Task, loaded, named, with_few

ROWS = Path(__file__).parents[1] / "results" / "structure.csv"
_KINDS = ("series", "eeg", "image")
_MOST = 2000  # features of a sample: with more, low-rank fits take minutes

Shape = tuple[int, ...]

REPRESENTATIONS: dict[str, tuple[Callable[[], Any], Callable[[Shape], bool]]] = {
    "convolutions": (lambda: Convolutions(_MOST), lambda shape: shape[-1] >= 9),
    "competing convolutions": (lambda: CompetingConvolutions(16), lambda shape: shape[-1] >= 9),
    "interval quantiles": (lambda: IntervalQuantiles(_MOST), lambda shape: shape[-1] >= 9),
    "band power": (lambda: BandPower(8), lambda shape: shape[-1] >= 32),
    "covariances": (Covariances, lambda shape: len(shape) == 2 and 1 < shape[0] <= 64),
}
"""Transformers that keep their modes, and the shapes of samples that each takes."""

FLAT = "flat"
WEIGHTS = {FLAT: ("full", 1), "CP rank 1": ("cp", 1), "CP rank 2": ("cp", 2), "Tucker rank 2": ("tucker", 2)}
"""Decompositions and ranks."""

_BETWEEN = ", "


def method_name(representation: str, weight: str) -> str:
    """Return the name that a row has for a weight on a representation."""
    return representation + _BETWEEN + weight


def fitted(method: str, task: Task, X: Any, y: Any, groups: Any, seed: int) -> tuple[Any, dict[str, Any]]:
    """Return a model whose lambda is chosen in folds of the training set, and what was chosen."""
    representation, _, weight = method.partition(_BETWEEN)
    decomposition, rank = WEIGHTS[weight]
    search = TensorMarginClassifierCV(
        *((decomposition,), (rank,), (0.1, 1.0, 10.0), (1.0,)),
        preparation=make_pipeline(REPRESENTATIONS[representation][0](), TensorScaler()),
        cv=FOLDS,
        exhaustive=True,
        multi_class="ovr",
        random_state=seed,
    ).fit(X, y, groups)
    return search, {"lam": search.best_params_["lam"]}


def jobs_of(names: Sequence[str]) -> Iterator[Job]:
    """Yield the jobs of tasks: all sizes of training sets, representations that suit, and weights."""
    for name in names:
        for few in (with_few(name, count) for count in PER_CLASS):
            if next(named(few).splits(1, 0), None) is None:
                continue
            shape = tuple(loaded(named(few)).data.shape[1:])
            for representation, (_, suits) in REPRESENTATIONS.items():
                if suits(shape):
                    yield from (Job(few, method_name(representation, weight), 0, 0, 0, 1) for weight in WEIGHTS)


def summary(rows: Sequence[Row]) -> list[str]:
    """Return the section of the page: by how much low-rank weights are better than flat ones, and where."""
    accuracy = {(row.method, row.task): 100 * row.accuracy for row in rows}
    lines, clear = [], []
    for representation in REPRESENTATIONS:
        for count in PER_CLASS:
            tasks = [with_few(name, count) for name in TASKS]
            names = [method_name(representation, weight) for weight in WEIGHTS]
            tasks = [task for task in tasks if all((name, task) in accuracy for name in names)]
            if tasks:
                values = np.array([[accuracy[name, task] for task in tasks] for name in names])
                clear += [np.sign(mean) * (abs(mean) > 2 * error) for mean, error in _differences(values)]
                lines.append(f"| {representation} | {count} | {len(tasks)} | {' | '.join(_cells(values))} |")
    if not lines:
        return []
    heads = [
        "representation",
        "per class",
        "tasks",
        FLAT,
        *(f"{weight} minus flat" for weight in WEIGHTS if weight != FLAT),
    ]
    return [
        "## Low-rank against flat weights on these features",
        "",
        "Made by `python -m benchmarks.field.structure` ([rows](../benchmarks/results/structure.csv)): representations",
        f"that keep their modes, with at most about {_MOST} features, one-vs-rest, mu = 1, lambda of 0.1, 1 or 10",
        "chosen in the same folds for every weight; the first split of tasks with signals or images. Differences in",
        "points are means over tasks with standard errors; in brackets, on how many tasks low rank is better by more",
        "than two points, and on how many it is worse.",
        "",
        "| " + " | ".join(heads) + " |",
        "|---|" + "---|" * (len(heads) - 1),
        *lines,
        "",
        f"Of these {len(clear)} differences, {clear.count(1)} are above zero by more than two standard errors and "
        f"{clear.count(-1)} below; the others can be chance.",
    ]


def _differences(values: np.ndarray) -> Iterator[tuple[float, float]]:
    """Yield the mean difference of each row from the first one, and its standard error."""
    for apart in values[1:] - values[0]:
        error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else float("nan")
        yield float(apart.mean()), float(error)


def _cells(values: np.ndarray) -> list[str]:
    """Return the mean of the first row, and how the others differ from it."""
    cells = [f"{values[0].mean():.1f}"]
    for apart, (mean, error) in zip(values[1:] - values[0], _differences(values), strict=True):
        cells.append(f"{mean:+.1f} ± {error:.1f} ({np.sum(apart > 2)}, {np.sum(apart < -2)})")
    return cells


def main() -> None:
    signals = [name for name, task in TASKS.items() if task.kind in _KINDS]
    names = sys.argv[1].split(",") if sys.argv[1:] else signals
    store = RowFile(ROWS)
    done = {row.key for row in store.read()}
    for job in jobs_of(names):
        if job.key not in done:
            row = result(job, fitted)
            store.add(row)
            print(row.task, row.method, f"{100 * row.accuracy:.1f}", row.processor_seconds, flush=True)
    print("\n".join(summary(store.read())))


if __name__ == "__main__":
    main()
