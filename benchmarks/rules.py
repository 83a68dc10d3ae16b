"""Comparison of the selection rules "best", "simplest" and "margins" on many data sets.

Run ``python -m benchmarks.rules [--only NUMBER,...] [--minutes M]`` with TENSORMARGIN_DATA set. There is one search per
outer fold; every rule selects from the same validation scores, and the selected model is refitted and tested on the
held-out samples. Folds already in ``results/rules.csv`` are skipped; ``results/rules.md`` is made from that file.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.signal import decimate
from scipy.stats import binomtest, t, wilcoxon
from sklearn.base import clone

from tensormargin import TensorMarginClassifierCV, TensorScaler
from tensormargin.datasets import fetch_mnist, load_adrenal, load_eeg, load_haxby_slice, load_indian_pines
from tensormargin.fitting import sample_array
from tensormargin.io import replacing
from tensormargin.selection import Training, splits_of
from tensormargin.selection.grid import Candidate
from tensormargin.selection.scoring import select_candidate
from tensormargin.selection.training import refit

RULES = ("best", "simplest", "margins")
RESULTS = Path(__file__).parent / "results"
FIELDS = ("task", "samples", "classes", "divided", "fold", "tested", "rule", "right", "chosen", "seconds")
LAMS = (0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Task:
    """Labelled samples and how they are split: by an official split, or into folds that keep groups together."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray | None = None
    official: tuple[np.ndarray, np.ndarray] | None = None
    folds: int = 5

    def splits(self):
        """Return the outer splits."""
        return [self.official] if self.official is not None else splits_of(self.folds, self.y, self.groups, 0)

    @property
    def divided(self):
        """How the samples are split, in words."""
        if self.official is not None:
            return "official split"
        return f"{len(self.splits())} folds" + ("" if self.groups is None else " of groups")


def file(name):
    return np.load(Path(os.environ["TENSORMARGIN_DATA"]) / name / f"{name}.npz")


def plain(name, suffix="", folds=5):
    """Return a loader of the task in a file with X, y and optionally groups."""

    def load():
        arrays = file(name)
        groups = f"groups{suffix}"
        return Task(arrays[f"X{suffix}"], arrays[f"y{suffix}"], arrays.get(groups), folds=folds)

    return load


def official(name, path=None):
    """Return a loader of the task in a file with an official train-test split."""

    def load():
        arrays = file(name) if path is None else np.load(Path(os.environ["TENSORMARGIN_DATA"]) / path)
        X, y = (np.concatenate([arrays[f"{part}_train"], arrays[f"{part}_test"]]) for part in "Xy")
        rows = np.arange(len(X))
        first = len(arrays["X_train"])
        return Task(X, y, official=(rows[:first], rows[first:]))

    return load


def eeg():
    bunch = load_eeg()
    return Task(bunch.data, bunch.target)


def haxby(view, *categories):
    def load():
        bunch = load_haxby_slice(view, categories)
        return Task(bunch.data, bunch.target, bunch.groups, folds=3)

    return load


def pines(*classes):
    """Return a loader of random patches of two classes of the scene; folds keep squares of 8x8 pixels together."""

    def load():
        bunch = load_indian_pines(5, classes)
        rng = np.random.RandomState(0)
        rows = [rng.choice(np.flatnonzero(bunch.target == label), 75, replace=False) for label in classes]
        rows = np.sort(np.concatenate(rows))
        return Task(bunch.data[rows].astype(np.float32), bunch.target[rows], bunch.groups[rows], folds=3)

    return load


def ssvep():
    arrays = file("muse_ssvep")
    X = decimate(arrays["X"].astype(np.float64), 3, axis=2, ftype="fir").astype(np.float32)
    return Task(X, arrays["y"], arrays["groups"], folds=4)


def adrenal():
    bunch = load_adrenal(28)
    rows = np.random.RandomState(0).permutation(np.flatnonzero(bunch.split == "train"))[:300]
    test = np.flatnonzero(bunch.split == "test")
    images = bunch.data[np.r_[rows, test]].astype(np.float32)
    where = np.arange(len(images))
    return Task(images, bunch.target[np.r_[rows, test]], official=(where[:300], where[300:]))


def mnist(*pair):
    def load():
        parts = []
        for subset, count in (("train", 50), ("test", 500)):
            bunch = fetch_mnist(subset)
            rows = np.concatenate([np.flatnonzero(bunch.target == digit)[:count] for digit in pair])
            parts.append((bunch.data[rows].astype(np.float32), bunch.target[rows]))
        X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        where = np.arange(len(X))
        return Task(X, y, official=(where[: len(parts[0][0])], where[len(parts[0][0]) :]))

    return load


def modis():
    arrays = file("modis_matogrosso")
    rows = np.sort(np.random.RandomState(0).permutation(np.flatnonzero(np.isin(arrays["y"], (0, 3, 4, 5))))[:400])
    return Task(arrays["X"][rows], arrays["y"][rows], arrays["groups"][rows], folds=3)


TASKS: dict[str, Callable[[], Task]] = {
    "EEG": eeg,
    "schizo_fnc": plain("schizo_fnc"),
    "ifnb_ms": plain("ifnb_ms"),
    "BasicMotions": official("basic_motions", "basic_motions/basic_motions_6x100.npz"),
    "robot_failures LP1": plain("robot_failures", "_lp1"),
    "ERing": official("ering"),
    "eem_olive_oil": plain("eem_olive_oil"),
    "MNIST, 3 or 8, 100 images": mnist(3, 8),
    "MNIST, 4 or 9, 100 images": mnist(4, 9),
    "Epilepsy": official("epilepsy"),
    "pmd_posture, recordings": plain("pmd_posture", "_mean", 3),
    "Indian Pines, soybean 10 or 11": pines(10, 11),
    "Indian Pines, corn 2 or 3": pines(2, 3),
    "AdrenalMNIST3D, 300 images": adrenal,
    "modis_matogrosso, 4 classes": modis,
    "muse_ssvep, 85 Hz": ssvep,
    "Haxby brain, cat or scissors": haxby("brain", "cat", "scissors"),
    "Haxby brain, chair or scrambled": haxby("brain", "chair", "scrambledpix"),
    "Haxby slice, bottle or shoe": haxby("slice", "bottle", "shoe"),
    "Haxby slice, face or house": haxby("slice", "face", "house"),
    "robot_failures LP5": plain("robot_failures", "_lp5", 3),
    "Libras": official("libras"),
}


def searched(task, train):
    decompositions = ("full", "cp") if task.X.ndim == 3 else ("full", "cp", "tucker")
    search = TensorMarginClassifierCV(
        decompositions,
        (1, 2),
        LAMS,
        (0, 1),
        preparation=[None, TensorScaler()],
        rule="best",
        exhaustive=True,
        multi_class="ovo",
        random_state=0,
    )
    return search.fit(task.X[train], task.y[train], None if task.groups is None else task.groups[train])


def refitted(search, index, X, y):
    """Return a candidate of the search by its index, refitted as the search would do it."""
    params = dict(search.cv_results_["params"][index])
    preparation = params.pop("preparation")
    return refit(Training(sample_array(X), y, None, (preparation,)), clone(search.classifier_), Candidate(0, **params))


def tested(name, task, fold, split):
    """Return the result of one outer fold, one row per rule."""
    began = time.perf_counter()
    train, test = split
    search = searched(task, train)
    models = {search.best_index_: search.best_estimator_}
    rows = []
    for rule in RULES:
        index = select_candidate(search.cv_results_, search.n_splits_, rule)
        if index not in models:
            models[index] = refitted(search, index, task.X[train], task.y[train])
        right = int(np.sum(models[index].predict(task.X[test]) == task.y[test]))
        params = search.cv_results_["params"][index]
        rows.append(
            {
                "task": name,
                "samples": " x ".join(map(str, task.X.shape)),
                "classes": len(np.unique(task.y)),
                "divided": task.divided,
                "fold": fold,
                "tested": len(test),
                "rule": rule,
                "right": right,
                "chosen": f"{params['decomposition']} {params['rank'] or ''}".strip()
                + f", lam {params['lam']:g}, mu {params['mu1']:g}, {params['preparation']}",
                "seconds": round(time.perf_counter() - began, 1),
            }
        )
    return rows


def known_rows(path):
    if not path.exists():
        return []
    with path.open(newline="") as text:
        return list(csv.DictReader(text))


def write_rows(path, rows):
    with replacing(path) as temporary, temporary.open("w", newline="") as text:
        writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def accuracies(rows):
    """Return the task names, and the accuracies in percent with one row per task and one column per rule."""
    names = list(dict.fromkeys(row["task"] for row in rows))
    table = np.zeros((len(names), len(RULES)))
    for i, name in enumerate(names):
        for j, rule in enumerate(RULES):
            own = [row for row in rows if row["task"] == name and row["rule"] == rule]
            table[i, j] = 100 * sum(int(row["right"]) for row in own) / sum(int(row["tested"]) for row in own)
    return names, table


def compared(table, first, second):
    """Return a table row with the difference between two rules, paired by task."""
    differences = table[:, RULES.index(first)] - table[:, RULES.index(second)]
    wins, losses = int(np.sum(differences > 1e-9)), int(np.sum(differences < -1e-9))
    half = t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / np.sqrt(len(differences))
    signed = wilcoxon(differences).pvalue if wins + losses else 1.0
    sign = binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    mean, ties = differences.mean(), len(differences) - wins - losses
    return (
        f"| {first} − {second} | {mean:+.2f} | {mean - half:+.2f} to {mean + half:+.2f} "
        f"| {np.median(differences):+.2f} | {wins} / {ties} / {losses} | {signed:.2f} | {sign:.2f} |"
    )


def page(rows):
    names, table = accuracies(rows)
    facts = {row["task"]: row for row in rows}
    lines = [
        "# Which rule chooses the model",
        "",
        "Made by `python -m benchmarks.rules` from `rules.csv`. Accuracy in percent on samples that no choice has",
        "seen, all outer folds taken together. Every rule chooses from the same search: two preparations, flat and CP",
        "weights of rank 1 and 2, Tucker weights of rank 2 for samples of order 3, 3 values of λ, 2 of μ, 5 folds.",
        "",
        "| task | samples | classes | outer | " + " | ".join(RULES) + " |",
        "|---|---|---|---|" + "---|" * len(RULES),
    ]
    for name, values in zip(names, table, strict=True):
        row = facts[name]
        cells = [name, row["samples"].replace(" x ", "×"), row["classes"], row["divided"]]
        lines.append("| " + " | ".join([*map(str, cells), *(f"{value:.1f}" for value in values)]) + " |")
    means = " | ".join(f"**{value:.2f}**" for value in table.mean(axis=0))
    lines += [f"| **mean of {len(names)} tasks** | | | | {means} |", ""]
    lines += [
        "Differences in points, paired by task:",
        "",
        "| | mean | 95 % interval (Student) | median | wins / ties / losses | p (Wilcoxon) | p (sign test) |",
        "|---|---|---|---|---|---|---|",
        *(compared(table, *pair) for pair in (("margins", "best"), ("simplest", "best"), ("margins", "simplest"))),
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="numbers of tasks, from 0")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no fold after so many")
    options = parser.parse_args()
    names = list(TASKS) if options.only is None else [list(TASKS)[int(number)] for number in options.only.split(",")]
    rows = known_rows(RESULTS / "rules.csv")
    done = {(row["task"], int(row["fold"])) for row in rows}
    began = time.perf_counter()
    warnings.simplefilter("ignore")  # fits that do not converge count too
    for name in names:
        task = TASKS[name]()
        for fold, split in enumerate(task.splits()):
            if (name, fold) in done or time.perf_counter() - began > 60 * options.minutes:
                continue
            rows += tested(name, task, fold, split)
            write_rows(RESULTS / "rules.csv", rows)
            print(name, fold, [(row["rule"], row["right"]) for row in rows[-3:]], rows[-1]["seconds"], flush=True)
    (RESULTS / "rules.md").write_text(page(rows))
    print(page(rows))


if __name__ == "__main__":
    main()
