"""Which views, strengths and schemes should a search begin with? Measured on data sets that they were not chosen on.

``TENSORMARGIN_DATA=... python -m benchmarks.prior [TASK...]`` writes benchmarks/results/prior.csv and prior.md. Tasks
are those of the field benchmark with all and with 12, 6 and 3 training samples per class, one split of each. Flat
weights on several views are fitted with one model; for each kind of samples, the views that a search begins with are
compared with those without one of them, with those of 0.2.0.dev0, and with those that are best on the other data sets.
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

import tensormargin
from benchmarks.field.tasks import TASKS, Split, Task, loaded
from tensormargin import TensorMarginClassifier, TensorUnion
from tensormargin.selection import KINDS
from tensormargin.selection.grid import PRIOR, PRIOR_OF_VIEWS
from tensormargin.selection.kinds import views_of, ways_of
from tensormargin.transformers import shared

RESULTS = Path(__file__).parent / "results"
PER_CLASS, MOST_TESTED = (0, 12, 6, 3), 300
LEFT_OUT = ("haxby_brain", "haxby_8_categories", "modis_matogrosso")
"""Tasks that take too long, or whose samples others have."""

VIEWS, BEFORE = "views of a search", "views of 0.2.0.dev0"
_ALONG_TIME = ("channels scaled", "smoothed", "covariances", "power", "convolutions", "kernel")
OF_BEFORE = {
    "series": _ALONG_TIME,
    "eeg": _ALONG_TIME,
    "volume": ("channels scaled", "blurred", "selected", "convolutions", "kernel"),
    "spectra": ("entries scaled", "selected", "scatter removed", "derivatives", "kernel"),
    "connectome": ("raw", "z", "tangent space", "kernel"),
    "plain": ("entries scaled", "kernel of entries"),
}
"""The same names; the kernel was an RBF kernel then, of samples whose channels were scaled. Those of images are no
longer tried."""

BEGINS = "what a search of views begins with"
MODELS: dict[str, dict[str, Any]] = {
    BEGINS: dict(PRIOR_OF_VIEWS),
    "lambda 1, mu 1, one-vs-one": {name: PRIOR[name] for name in ("lam", "mu1", "mu2", "multi_class")},
    "support vector machine, one-vs-one": {"lam": 1.0, "mu1": 0.0, "mu2": 0.0, "multi_class": "ovo"},
    "support vector machine, one-vs-rest": {"lam": 10.0, "mu1": 0.0, "mu2": 0.0, "multi_class": "ovr"},
    "lambda 10, mu 1, one-vs-rest, balanced": {**PRIOR_OF_VIEWS, "mu1": 1.0, "mu2": 1.0, "class_weight": "balanced"},
    "lambda 10, mu1 10, one-vs-rest": {**PRIOR_OF_VIEWS, "mu1": 10.0},
    "lambda 100, mu1 100, one-vs-rest": {**PRIOR_OF_VIEWS, "lam": 100.0},
    "lambda 10, mu1 100, one-vs-rest, balanced": {**PRIOR_OF_VIEWS, "class_weight": "balanced"},
}

Row = dict[str, Any]


def sets_of_views(kind: str, shape: tuple[int, ...]) -> dict[str, list[str]]:
    """Return the sets of views to compare for samples of a kind and shape, by name."""
    now, ways = views_of(kind, shape), ways_of(kind, shape)
    before = [name for name in OF_BEFORE.get(kind, now) if name in ways]
    fewer = {f"without {name}": [one for one in now if one != name] for name in now}
    return {VIEWS: now, **(fewer if len(now) > 2 else {}), **({BEFORE: before} if before != now else {})}


def rows_of(task: Task) -> Iterator[Row]:
    """Yield the accuracy of each set of views with the first model, and of each model with the views of a search."""
    bunch = loaded(task)
    split: Split | None = next(iter(task.splits(1, 0)), None)
    if split is None:  # too few samples
        return
    test = np.random.RandomState(0).permutation(split.test)[:MOST_TESTED]
    shape = tuple(bunch.data.shape[1:])
    ways, sets = ways_of(task.kind, shape), sets_of_views(task.kind, shape)
    tried = [(name, BEGINS) for name in sets] + [(VIEWS, name) for name in MODELS if name != BEGINS]
    with shared():
        for views, model in tried:
            made = [(name.replace(" ", "_"), ways[name].make(shape, task.sfreq)) for name in sets[views]]
            union = TensorUnion([(name, "passthrough" if one is None else one) for name, one in made])
            classifier = TensorMarginClassifier("full", **MODELS[model], random_state=0)
            fitted = make_pipeline(union, classifier).fit(bunch.data[split.train], bunch.target[split.train])
            yield {
                "task": task.name,
                "kind": "series" if task.kind == "eeg" else task.kind,
                "per_class": task.per_class,
                "classes": len(np.unique(bunch.target)),
                "views": views,
                "model": model,
                "accuracy": round(float(np.mean(fitted.predict(bunch.data[test]) == bunch.target[test])), 4),
                "version": tensormargin.__version__,
            }


def by_set(rows: list[Row], name: str) -> dict[str, dict[str, float]]:
    """Return the mean accuracy in percent on each data set, by ``views`` or ``model``, over its training sets."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row[name]][row["task"].removesuffix("_lp1").removesuffix("_lp5")].append(100 * float(row["accuracy"]))
    return {one: {task: float(np.mean(own)) for task, own in means.items()} for one, means in found.items()}


def table(means: dict[str, dict[str, float]], first: str, title: str) -> Iterator[str]:
    """Yield a table of mean accuracies, compared with the first, on the data sets that have each of them."""
    yield f"| {title} | data sets | accuracy in % | compared with the first |"
    yield "|---|---|---|---|"
    for name, own in {**means, "what is best on the other data sets": chosen_elsewhere(means, first)}.items():
        apart = np.array([accuracy - means[first][task] for task, accuracy in own.items()])
        error = f" ± {apart.std(ddof=1) / np.sqrt(len(apart)):.2f}" if len(apart) > 1 else ""
        yield f"| {name} | {len(own)} | {np.mean(list(own.values())):.1f} | {apart.mean():+.2f}{error} |"


def chosen_elsewhere(means: dict[str, dict[str, float]], first: str) -> dict[str, float]:
    """Return the accuracy on each data set of what gains most, compared with the first, on all others together."""
    found = {}
    for task in means[first]:
        tried = {name: own for name, own in means.items() if task in own}
        gains = {
            name: sum(accuracy - means[first][one] for one, accuracy in own.items() if one != task)
            for name, own in tried.items()
        }
        found[task] = tried[max(gains, key=gains.__getitem__)][task]
    return found


def page(rows: list[Row]) -> str:
    n_tasks = len({row["task"] for row in rows})
    lines = [
        "# What a search begins with",
        "",
        f"Made by `python -m benchmarks.prior`, tensormargin {tensormargin.__version__}: {n_tasks} tasks of the "
        "field benchmark with all, 12, 6 and 3 training samples per class. Means over data sets, differences with "
        "standard errors. The views were chosen on these very data sets; the last line of each table "
        "is what a choice on all others would have led to.",
    ]
    for kind in KINDS:
        own = [row for row in rows if row["kind"] == kind and row["model"] == BEGINS]
        if own:
            lines += ["", f"## Views of {kind}: {', '.join(KINDS[kind].together)}", ""]
            lines += table(by_set(own, "views"), VIEWS, "views")
    for title, several in (("two classes", False), ("several classes", True)):
        own = [row for row in rows if row["views"] == VIEWS and (int(row["classes"]) > 2) == several]
        if own:
            lines += ["", f"## Strengths and schemes: {title}", "", *table(by_set(own, "model"), BEGINS, "model")]
    return "\n".join(lines) + "\n"


def main() -> None:
    names = sys.argv[1:] or [name for name in TASKS if name not in LEFT_OUT]
    rows: list[Row] = []
    with warnings.catch_warnings(action="ignore"):
        for name in names:
            for per_class in PER_CLASS:
                rows += rows_of(replace(TASKS[name], per_class=per_class))
                print(name, per_class, flush=True)
    with (RESULTS / "prior.csv").open("w", newline="", encoding="utf-8") as file:
        written = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        written.writeheader()
        written.writerows(rows)
    (RESULTS / "prior.md").write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
