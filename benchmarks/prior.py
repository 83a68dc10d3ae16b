"""Do the strengths and schemes that are best elsewhere help a search with few samples? Measured on left-out data sets.

``TENSORMARGIN_DATA=... python -m benchmarks.prior`` writes benchmarks/results/prior.csv and prior.md. Tasks are those
of the field benchmark with 3, 6 and 12 samples per class. Every candidate (lambda, mu, scheme, of flat weights on the
samples and on all representations side by side) has its score in the search and its accuracy on the test set, so that
rules of choice are compared without another fit. A prior is the mean difference of a candidate from the others, given
the number of classes and samples per class, on all data sets but the one that it is used for.
"""

from __future__ import annotations

import csv
import json
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tensormargin
from benchmarks.field.tasks import AT_HAND, Task, loaded
from tensormargin import TensorMarginClassifierCV
from tensormargin.selection import splits_of
from tensormargin.selection.kinds import settled

RESULTS = Path(__file__).parent / "results"
PER_CLASS, DRAWS, MOST_TESTED = (3, 6, 12), 3, 300
LEFT_OUT = ("haxby_brain", "haxby_bottle_shoe", "haxby_face_house")
"""Tasks of which others have the samples, too."""
SPREAD = 0.03
"""Standard deviation of a candidate's accuracy around its prior, about."""

Row = dict[str, Any]


def rows_of(task: Task, per_class: int, draw: int) -> Iterator[Row]:
    """Yield one row per candidate: its mean score in the search, and its accuracy on the test set."""
    bunch, rng = loaded(task), np.random.RandomState(100 * per_class + draw)
    y, splits = np.asarray(bunch.target), list(task.splits(1, 0))
    split = splits[draw % len(splits)]
    train = np.concatenate([rng.permutation(split.train[y[split.train] == k])[:per_class] for k in np.unique(y)])
    classes, counts = np.unique(y[train], return_counts=True)
    train = train[np.isin(y[train], classes[counts > 1])]
    test = rng.permutation(np.setdiff1d(split.test[np.isin(y[split.test], y[train])], train))[:MOST_TESTED]
    n_train, rows = len(train), np.concatenate([train, test])
    folds = splits_of(min(5, int(counts[counts > 1].min())), y[train], None, draw)
    every = [*folds, (np.arange(n_train), np.arange(n_train, len(rows)))]
    alternatives = settled(task.kind, bunch.data.shape[1:], task.sfreq)["preparation"]
    search = TensorMarginClassifierCV(
        ("full",), (1,), cv=every, preparation=[alternatives[0], alternatives[-1]], exhaustive=True, random_state=0
    ).fit(bunch.data[rows], y[rows])
    table = search.cv_results_
    for number, chosen in enumerate(table["params"]):
        names = ("lam", "mu1", "mu2", "multi_class", "class_weight")
        yield {
            "task": task.name,
            "per_class": per_class,
            "draw": draw,
            "classes": len(np.unique(y[train])),
            "n_scored": sum(len(held_out) for _, held_out in folds),
            "side_by_side": int(repr(chosen["preparation"]) != repr(alternatives[0])),
            "candidate": json.dumps([chosen[name] for name in names]),
            "search": round(float(np.mean([table[f"split{k}_test_score"][number] for k in range(len(folds))])), 4),
            "test": round(float(table[f"split{len(folds)}_test_score"][number]), 4),
            "version": tensormargin.__version__,
        }


def kind_of(one: list[Row]) -> tuple[int, int]:
    """Return what a prior depends on: few or many classes, and samples per class."""
    return int(np.digitize(one[0]["classes"], (3, 8))), one[0]["per_class"]


def prior_from(cases: list[list[Row]]) -> dict[Any, float]:
    """Return the mean difference of each candidate from the others, by kind; shrunk where few data sets speak."""
    found: dict[Any, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in cases:
        for side in (0, 1):
            own = [row for row in one if row["side_by_side"] == side]
            mean = np.mean([row["test"] for row in own])
            for row in own:
                found[kind_of(one), row["candidate"]][data_set(one)].append(row["test"] - mean)
    means = {key: [np.mean(values) for values in by_set.values()] for key, by_set in found.items()}
    return {key: float(np.sum(values) / (len(values) + 2)) for key, values in means.items()}


def data_set(one: list[Row]) -> str:
    return str(one[0]["task"]).removesuffix("_lp1").removesuffix("_lp5")


def rules(one: list[Row], prior: dict[Any, float]) -> Iterator[tuple[str, float]]:
    """Yield the accuracy that each rule of choice arrives at; ties are averaged."""
    search, test = (np.array([row[name] for row in one], float) for name in ("search", "test"))
    own = np.array([prior.get((kind_of(one), row["candidate"]), 0.0) for row in one])
    default = [row["side_by_side"] == 1 and row["candidate"] == '[1.0, 1.0, 1.0, "ovo", null]' for row in one].index(
        True
    )
    n_scored = one[0]["n_scored"]
    share = (search[default] * n_scored + 2) / (n_scored + 4)
    error = np.sqrt(2 * share * (1 - share) / (n_scored + 4))

    def best(scores: np.ndarray) -> float:
        return float(test[scores >= scores.max() - 1e-9].mean())

    yield "best score", best(search)
    yield "best score and prior, weighted by samples", best(search + own * 0.5 * error**2 / SPREAD**2)
    yield "best prior", best(own)
    for times in (1, 2):
        is_default = search.max() - search[default] <= times * error
        yield f"default unless {times} standard errors better", float(test[default]) if is_default else best(search)
    yield "default", float(test[default])
    yield "best test accuracy, which nobody knows", best(test)


def compared(cases: list[list[Row]]) -> dict[str, dict[str, float]]:
    """Return the mean accuracy of each rule on each data set, whose prior is that of the others."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for name in sorted({data_set(one) for one in cases}):
        prior = prior_from([one for one in cases if data_set(one) != name])
        for one in cases:
            if data_set(one) == name:
                for rule, accuracy in rules(one, prior):
                    found[rule][name].append(100 * accuracy)
    return {rule: {name: float(np.mean(own)) for name, own in by_set.items()} for rule, by_set in found.items()}


def page(means: dict[str, dict[str, float]], n_cases: int) -> str:
    first = means["best score"]
    lines = [
        "# Priors for strengths and schemes",
        "",
        f"Made by `python -m benchmarks.prior`, tensormargin {tensormargin.__version__}: {n_cases} training sets of "
        f"{len(first)} data sets with 3, 6 or 12 samples per class. Differences are means over data sets, with "
        "standard errors; every prior is that of the other data sets.",
        "",
        "| the choice | accuracy in % | compared with the best score |",
        "|---|---|---|",
    ]
    for rule, by_set in means.items():
        apart = np.array([by_set[name] - first[name] for name in first])
        error = apart.std(ddof=1) / np.sqrt(len(apart))
        lines.append(f"| {rule} | {np.mean(list(by_set.values())):.2f} | {apart.mean():+.2f} ± {error:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    names = sys.argv[1:] or [name for name in AT_HAND if name not in LEFT_OUT]
    cases = []
    with warnings.catch_warnings(action="ignore"):
        for name in names:
            for per_class in PER_CLASS:
                for draw in range(DRAWS):
                    cases.append(list(rows_of(AT_HAND[name], per_class, draw)))
                    print(name, per_class, draw, flush=True)
    with (RESULTS / "prior.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(cases[0][0]), lineterminator="\n")
        table.writeheader()
        table.writerows(row for one in cases for row in one)
    (RESULTS / "prior.md").write_text(page(compared(cases), len(cases)), encoding="utf-8")


if __name__ == "__main__":
    main()
