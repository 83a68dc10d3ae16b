"""The race of a search against the exhaustive search, and what each axis of the grid is worth, on many data sets.

Part of ``python -m benchmarks.search``; needs TENSORMARGIN_DATA. For every outer fold of a data set, all candidates are
fitted once on all inner folds and once on the whole training set, which gives a table of validation scores and test
accuracies (`measure`). Every way to search is then replayed on these tables: fits are deterministic, so that it would
have seen the same scores. Tables are kept in a cache; those of large data sets use some of the samples and fewer
candidates, since all of them are fitted.
"""

from __future__ import annotations

import time
import warnings
from ast import literal_eval
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tensormargin import TensorMarginClassifier, TensorScaler
from tensormargin.datasets import fetch_orl, load_digits_tensor, load_haxby_slice
from tensormargin.estimators import fit_training_set, training_set
from tensormargin.io import replacing
from tensormargin.selection import splits_of
from tensormargin.selection.grid import MUS, weights
from tensormargin.selection.race import Race, similarity, smooth

from .rules import TASKS, Task, file, plain

LAMS = (0.1, 1.0, 10.0)
SEEDS = 5  # the race is replayed with several seeds
REPEATS = 2  # of the inner folds, if a class has fewer than so many samples:
TINY = 12
MOST_TESTED = 500


def haxby():
    bunch = load_haxby_slice("slice")
    return Task(bunch.data, bunch.target, bunch.groups, folds=3)


def digits():
    bunch = load_digits_tensor()
    rows = np.random.RandomState(0).permutation(len(bunch.target))[:500]
    return Task(bunch.data[rows], bunch.target[rows])


def orl():
    bunch = fetch_orl()
    some = bunch.target < 12
    return Task(bunch.data[some][:, ::4, ::4].astype(np.float64), bunch.target[some], folds=3)


def precog():
    arrays = file("precog_actions")
    return Task(arrays["X"][..., ::2], arrays["y"], arrays["groups"], folds=3)


ALL: dict[str, Callable[[], Task]] = {
    **TASKS,
    "robot_failures LP4": plain("robot_failures", "_lp4"),
    "digits, 500 images": digits,
    "Haxby slice, 8 categories": haxby,
    "precog_actions": precog,
    "ORL faces, 11 people": orl,
}

SMALL = {"Libras", "digits, 500 images", "Haxby slice, 8 categories", "precog_actions", "pmd_posture, recordings"}
SMALL |= {"robot_failures LP5", "ORL faces, 11 people"}
"""Data sets whose tables hold flat and rank-one weights and two values of lambda only."""


@dataclass
class Table:
    """Validation scores (candidates x splits) and test accuracies of all candidates of one outer fold.

    A candidate is a tuple of preparation, decomposition, rank, (mu1, mu2), scheme and lambda. The first ``n_once``
    splits hold out every sample once, the others repeat them.
    """

    task: str
    candidates: list[tuple]
    scores: np.ndarray
    tested: np.ndarray
    n_once: int
    n_tested: int
    n_classes: int

    def of(self, keep: Callable[[tuple], bool]) -> Table:
        """Return the table of some of the candidates."""
        rows = [row for row, one in enumerate(self.candidates) if keep(one)]
        picked = [self.candidates[row] for row in rows]
        return Table(
            self.task, picked, self.scores[rows], self.tested[rows], self.n_once, self.n_tested, self.n_classes
        )

    @property
    def levels(self) -> list[tuple]:
        """The values of the candidates on the axes of the grid."""
        return [(one[0], one[1:3], *one[3:]) for one in self.candidates]

    def best(self, scores: np.ndarray) -> int:
        """Return the candidate with the highest score; ties go to low ranks, and flat weights come last."""
        sizes = [np.inf if one[1] == "full" else np.max(one[2]) for one in self.candidates]
        near = np.flatnonzero(scores >= scores.max() - 1e-12)
        return int(near[np.argmin(np.array(sizes)[near])])


def measure(name: str, cache: Path, most_samples: int, seconds: float) -> None:
    """Fill the cache with the tables of a data set's outer folds, until so many seconds have passed."""
    began, task = time.perf_counter(), ALL[name]()
    forms = (("full", "cp"), (1,)) if name in SMALL else (("full", "cp", "tucker", "tt"), (1, 2, 4))
    lams = LAMS[:2] if name in SMALL else LAMS
    warnings.simplefilter("ignore")  # fits that do not converge count too
    for fold, (train, test) in enumerate(task.splits()):
        path = cache / f"{name.replace(' ', '_').replace(',', '')}.{fold}.npz"
        if path.exists() or time.perf_counter() - began > seconds:
            continue
        train, test = _some(train, task.y, most_samples, fold), np.random.RandomState(1).permutation(test)[:MOST_TESTED]
        schemes = ("ovo",) if len(np.unique(task.y)) == 2 else ("ovo", "ovr", "balanced")
        tried = [
            (which, form, rank, mu, scheme, lam)
            for which in (0, 1)
            for form, rank, _ in weights(task.X.shape[1:], *forms)
            for mu in MUS
            for scheme in schemes
            for lam in lams
        ]
        arrays = _correct(task, train, test, tried, fold)
        with replacing(path) as temporary, temporary.open("wb") as out:
            np.savez_compressed(out, cands=np.array([repr(one) for one in tried]), **arrays)
        print(f"{name}, fold {fold}: {len(tried)} candidates, {time.perf_counter() - began:.0f} s", flush=True)


def _some(train: np.ndarray, y: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Return at most about so many of the training samples, of each class the same share."""
    rng, share = np.random.RandomState(seed), min(1.0, most / len(train))
    own = [train[y[train] == label] for label in np.unique(y[train])]
    return np.sort(np.concatenate([rng.choice(rows, max(4, round(share * len(rows))), replace=False) for rows in own]))


def _correct(task: Task, train: np.ndarray, test: np.ndarray, tried: list[tuple], fold: int) -> dict[str, np.ndarray]:
    """Return whether each candidate predicts each inner held-out sample and each test sample correctly."""
    y, groups = task.y[train], None if task.groups is None else task.groups[train]
    counts = np.unique(y, return_counts=True)[1]
    inner = [splits_of(5, y, groups, 1000 * k + fold) for k in range(REPEATS if counts.min() < TINY else 1)]
    where = np.full((len(inner), len(y)), -1)
    right = np.full((len(tried), *where.shape), 2, np.uint8)
    for repeat, splits in enumerate(inner):
        for k, (fitted, held_out) in enumerate(splits):
            where[repeat, held_out] = k
            for row, correct in enumerate(_predictions(task, train[fitted], train[held_out], tried)):
                right[row, repeat, held_out] = correct
    outer = np.array(list(_predictions(task, train, test, tried)), np.uint8)
    return {"right": right, "where": where, "outer": outer, "counts": counts}


def _predictions(task: Task, train: np.ndarray, test: np.ndarray, tried: list[tuple]) -> Iterable[np.ndarray]:
    X, y = task.X.astype(np.float64), task.y
    parts = [(X[train], X[test])]
    scaler = TensorScaler().fit(X[train])
    parts.append((scaler.transform(X[train]), scaler.transform(X[test])))
    validated = [training_set(TensorMarginClassifier(), fitted, y[train], None) for fitted, _ in parts]
    for which, form, rank, (mu1, mu2), scheme, lam in tried:
        settings = {"multi_class": "ovo" if scheme == "ovo" else "ovr", "random_state": 0}
        settings["class_weight"] = "balanced" if scheme == "balanced" else None
        model = TensorMarginClassifier(form, rank, lam=lam, mu1=mu1, mu2=mu2, **settings)
        yield fit_training_set(model, validated[which], for_scoring=True).predict(parts[which][1]) == y[test]


def read(cache: Path) -> dict[str, list[Table]]:
    """Return the tables of each data set in the cache."""
    tables: dict[str, list[Table]] = {}
    for path in sorted(cache.glob("*.[0-9].npz")):
        arrays = np.load(path)
        right, where = arrays["right"], arrays["where"]
        columns = [
            right[:, repeat, where[repeat] == k].mean(axis=1)
            for repeat in range(len(where))
            for k in range(where[repeat].max() + 1)
        ]
        name = path.name.rsplit(".", 2)[0].replace("_", " ")
        table = Table(
            name,
            [literal_eval(str(one)) for one in arrays["cands"]],
            np.array(columns).T,
            arrays["outer"].mean(axis=1),
            where[0].max() + 1,
            arrays["outer"].shape[1],
            len(arrays["counts"]),
        )
        tables.setdefault(name, []).append(table)
    return tables


# ---- ways to search: each returns the chosen candidates, and the number of fits ----

Search = Callable[[Table], tuple[list[int], float]]


def exhaustive(table: Table, repeated: bool = False) -> tuple[list[int], float]:
    """Fit everything, choose the best mean."""
    scores = table.scores if repeated else table.scores[:, : table.n_once]
    return [table.best(scores.mean(axis=1))], scores.size


def smoothed(table: Table) -> tuple[list[int], float]:
    """Fit everything, choose the best smoothed mean."""
    scores = table.scores[:, : table.n_once]
    return [table.best(smooth(similarity(table.levels), scores).mean)], scores.size


def ties_smoothed(table: Table) -> tuple[list[int], float]:
    """Fit everything, choose the best mean; ties go to the best smoothed mean."""
    scores = table.scores[:, : table.n_once]
    means = scores.mean(axis=1)
    near = np.where(means >= means.max() - 1e-12, smooth(similarity(table.levels), scores).mean, -np.inf)
    return [table.best(near)], scores.size


def raced(table: Table, rule: str = "best") -> tuple[list[int], float]:
    """Race, choose the best mean (or smoothed mean) of those that are left."""
    scores, chosen, fits = table.scores[:, : table.n_once], [], []
    for seed in range(SEEDS):
        race = Race(table.levels, scores.shape[1], 0, False, np.random.RandomState(seed))
        while units := race.units:
            for unit in units:
                race.scores[unit] = scores[unit]
            race.advance()
        found = scores.mean(axis=1) if rule == "best" else race.smoothed().mean
        chosen.append(table.best(np.where(race.alive, found, -np.inf)))
        fits.append(np.isfinite(race.scores).sum())
    return chosen, float(np.mean(fits))


def only(keep: Callable[[tuple], bool]) -> Search:
    """Return the exhaustive search over some of the candidates."""

    def search(table: Table) -> tuple[list[int], float]:
        rows = [row for row, one in enumerate(table.candidates) if keep(one)]
        chosen, fits = exhaustive(table.of(keep))
        return [rows[row] for row in chosen], fits

    return search


SEARCHES: dict[str, Search] = {
    "exhaustive": exhaustive,
    "race": raced,
    "race, smoothed": lambda table: raced(table, "smoothed"),
    "exhaustive, smoothed": smoothed,
    "exhaustive, ties smoothed": ties_smoothed,
    "exhaustive, folds of tiny classes twice": lambda table: exhaustive(table, True),
    **{f"λ {', '.join(map(str, own))}": only(lambda one, own=own: one[5] in own) for own in ((1,), (0.1, 1), (1, 10))},
    **{f"μ {own}": only(lambda one, own=own: one[3] in own) for own in (MUS[:1], MUS[1:2], MUS[:2], MUS[:3])},
    "one-vs-one": only(lambda one: one[4] == "ovo"),
    "one-vs-one, one-vs-rest": only(lambda one: one[4] != "balanced"),
}


def page(tables: dict[str, list[Table]]) -> tuple[str, list[str]]:
    """Return the results in Markdown, and the broken bounds."""
    accuracy = {label: np.empty(len(tables)) for label in SEARCHES}
    share = {label: np.empty(len(tables)) for label in SEARCHES}
    for place, own in enumerate(tables.values()):
        for label, search in SEARCHES.items():
            found = [search(table) for table in own]
            right = [table.tested[rows].mean() for table, (rows, _) in zip(own, found, strict=True)]
            every = [table.scores[:, : table.n_once].size for table in own]
            accuracy[label][place] = 100 * np.mean(right)
            share[label][place] = np.mean([fits / size for (_, fits), size in zip(found, every, strict=True)])
    lines = [
        _HEAD,
        "| search | mean accuracy | difference ± standard error | better / worse | fits |",
        "|---|---|---|---|---|",
    ]
    for label in SEARCHES:
        difference = accuracy[label] - accuracy["exhaustive"]
        error = difference.std(ddof=1) / np.sqrt(len(difference))
        wins, losses = int(np.sum(difference > 1e-9)), int(np.sum(difference < -1e-9))
        lines.append(
            f"| {label} | {accuracy[label].mean():.2f} | {difference.mean():+.2f} ± {error:.2f} | {wins} / {losses} "
            f"| {share[label].mean():.2f} |"
        )
    lines += [
        "",
        "| data set | classes | outer folds | candidates | exhaustive | race | best candidate | mean candidate |",
    ]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for place, (name, own) in enumerate(tables.items()):
        oracle, mean = (100 * np.mean([getattr(one.tested, kind)() for one in own]) for kind in ("max", "mean"))
        cells = [name, own[0].n_classes, len(own), len(own[0].candidates)]
        numbers = [accuracy["exhaustive"][place], accuracy["race"][place], oracle, mean]
        lines.append("| " + " | ".join([*map(str, cells), *(f"{value:.1f}" for value in numbers)]) + " |")
    difference = accuracy["race"] - accuracy["exhaustive"]
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    broken = [f"the race loses {-difference.mean():.2f} ± {error:.2f} points"] if difference.mean() < -error else []
    if share["race"].max() > 0.25:
        broken.append(f"the race makes {share['race'].max():.2f} of the fits, more than a quarter")
    return "\n".join(lines) + "\n", broken


_HEAD = f"""\
## The race against the exhaustive search

Made by `python -m benchmarks.search race`. Accuracy in percent on samples that no choice has seen, mean over the data
sets; *difference* to the exhaustive search, paired by data set; *fits* as a share of those of the exhaustive search.
The race is the mean over {SEEDS} seeds. Training sets have at most about 100 samples. The tables of validation scores
behind the committed numbers come from a forerunner of `benchmarks.race`, whose balanced one-vs-rest weighted the class
against the rest but not the classes of the rest; several data sets were too slow for it and are missing.
"""
