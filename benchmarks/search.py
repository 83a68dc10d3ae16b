"""Searches: how fast they are, and what the race costs in accuracy.

``TENSORMARGIN_DATA=... python -m benchmarks.search [PART ...] [--cache FOLDER] [--minutes M]``

The part ``speed`` compares the processor time of searches with that of GridSearchCV over LinearSVC in the same process;
``many`` measures one automatic search each on samples of many classes or many entries;
``commands`` measures what a user waits for on this machine, with the accuracies that the commands report; ``race``
compares the race with the exhaustive search (`benchmarks.race`) on the tables in the cache, after measuring more of
them for so many minutes. Each part writes its section of ``results/search.md``. Broken bounds are listed, and
the exit status is then 1.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter, rotate
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import LinearSVC

from tensormargin import TensorMarginAutoClassifier, TensorMarginClassifier, TensorMarginClassifierCV, TrainingRecord
from tensormargin.datasets import load_basic_motions, load_by_name, load_eeg, make_low_rank_classes
from tensormargin.io import replacing, save_model

from . import race

RESULTS = Path(__file__).parent / "results"
ROUNDS = 3
LARGEST_TABLE = 100  # training samples


def planted(n_samples, shape, n_classes):
    """Return classes whose means differ by tensors of rank one, in noise."""
    if n_classes == 2:
        bunch = make_low_rank_classes(n_samples, shape, random_state=0)
        return bunch.data, bunch.target
    rng = np.random.default_rng(0)
    y = np.arange(n_samples) % n_classes
    rows, columns = rng.standard_normal((n_classes, shape[0])), rng.standard_normal((n_classes, shape[1]))
    means = np.einsum("ki,kj->kij", rows, columns)
    means *= 4 / np.linalg.norm(means, axis=(1, 2), keepdims=True)
    return means[y] + rng.standard_normal((n_samples, *shape)), y


def eeg():
    bunch = load_eeg()
    return bunch.data, bunch.target


def motions():
    bunch = load_basic_motions()
    return bunch.data, bunch.target


CASES = {
    "EEG, 61 of 64×64": (eeg, 1.5),
    "BasicMotions, 80 of 6×100, 4 classes": (motions, 4.0),
    "planted, 180 of 24×51, 6 classes": (lambda: planted(180, (24, 51), 6), 4.0),
    "planted, 32 of 332×332": (lambda: planted(32, (332, 332), 2), 1.0),
}
"""Samples, and the largest ratio of a search's processor time to that of the reference."""


def reference(X, y, splits):
    model = LinearSVC(loss="hinge", tol=1e-3, max_iter=10_000)
    return GridSearchCV(model, {"C": np.logspace(-3, 2, 6)}, cv=splits).fit(X.reshape(len(X), -1), y)


def searched(X, y, splits, exhaustive=False, multi_class="ovo"):
    return TensorMarginClassifierCV(
        cv=splits, exhaustive=exhaustive, multi_class=multi_class, random_state=0, n_jobs=1
    ).fit(X, y)


def processor_time(function):
    began = time.process_time()
    found = function()
    return time.process_time() - began, found


def speed():
    """Return the table of ratios in Markdown, and the broken bounds."""
    warnings.simplefilter("ignore")
    lines, broken = [_SPEED], []
    for name, (load, bound) in CASES.items():
        X, y = load()
        X = np.ascontiguousarray(X, np.float64)
        splits = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
        searched(X[:, :4, :4], y, splits)  # compiles
        seconds = {"reference": [], "race": [], "exhaustive": []}
        for _ in range(ROUNDS):
            seconds["reference"].append(processor_time(partial(reference, X, y, splits))[0])
            took, race_search = processor_time(partial(searched, X, y, splits))
            seconds["race"].append(took)
        seconds["exhaustive"].append(processor_time(partial(searched, X, y, splits, True))[0])
        unit = float(np.median(seconds["reference"]))
        ratios = {label: float(np.median(own)) / unit for label, own in seconds.items()}
        results = race_search.cv_results_
        lines.append(
            f"| {name} | {unit:.2f} | {ratios['race']:.2f} | {bound:g} | {ratios['exhaustive']:.1f} "
            f"| {results['n_splits_done'].sum()} of {5 * len(results['params'])} |"
        )
        print(lines[-1], flush=True)
        if ratios["race"] > bound:
            broken.append(f"{name}: {ratios['race']:.2f} times the reference, more than {bound:g}")
    return "\n".join(lines) + "\n", broken


_SPEED = """\
## Searches against GridSearchCV

Made by `python -m benchmarks.search speed`. Processor time on one core: `GridSearchCV(LinearSVC(loss="hinge"))` over 6
values of C in seconds, then one search of 32 models (4 decompositions, 4 pairs of μ, 2 values of λ; one-vs-one) as a
ratio to it, both with the same 5 folds and with the refit; the search also calibrates its probabilities.

| samples | GridSearchCV, s | search | bound | exhaustive | fits |
|---|---|---|---|---|---|"""


# ---- many classes, many entries ----


def turned_objects(n_classes, n_views, shape):
    """Return smooth random objects, seen from angles all around, in noise."""
    rng, side = np.random.default_rng(0), max(shape)
    from_middle = np.hypot(*(np.mgrid[:side, :side] - (side - 1) / 2))
    corner = [(side - size) // 2 for size in shape]
    window = tuple(slice(start, start + size) for start, size in zip(corner, shape, strict=True))
    samples = []
    for _ in range(n_classes):
        one = gaussian_filter(rng.standard_normal((side, side)), side / 10)
        one *= (from_middle < side * rng.uniform(0.3, 0.5)) / one.std()
        angles = np.arange(n_views) * 360 / n_views
        samples += [rotate(one, angle, reshape=False, order=1)[window] for angle in angles]
    X = np.array(samples)
    return X + 0.15 * rng.standard_normal(X.shape), np.repeat(np.arange(n_classes), n_views)


def varied(n_classes, n_each, shape, smooth):
    """Return means of classes, smooth along two modes, with changes that all classes have in common, in noise."""
    rng = np.random.default_rng(0)
    widths = (0, smooth, smooth, *(0,) * (len(shape) - 2))
    means, changes = (gaussian_filter(rng.standard_normal((n, *shape)), widths) for n in (n_classes, 12))
    y = np.repeat(np.arange(n_classes), n_each)
    common = np.tensordot(0.5 * rng.standard_normal((len(y), 12)), changes / changes.std(), 1)
    return means[y] / means.std() + common + 0.6 * rng.standard_normal((len(y), *shape)), y


def connectomes(n_samples, size):
    """Return correlations of series with common sources, which are stronger in some places of one class."""
    rng, y = np.random.default_rng(0), np.arange(n_samples) % 2
    sources, X = rng.standard_normal((6, size)), np.empty((n_samples, size, size))
    for k in range(n_samples):
        stronger = 1 + 0.3 * y[k] * (np.arange(size) < 20)
        X[k] = np.corrcoef(
            rng.standard_normal((120, 6)) @ sources * stronger + 2 * rng.standard_normal((120, size)), rowvar=False
        )
    return X, y


MANY = {
    "20 classes of 1,440 × 32×32": (lambda: turned_objects(20, 72, (32, 32)), 30),
    "35 classes of 1,365 × 20×16": (lambda: turned_objects(35, 39, (20, 16)), 40),
    "80 classes of 320 × 32×32": (lambda: varied(80, 4, (32, 32), 2), 30),
    "21 classes of 147 × 36×3×2": (lambda: varied(21, 7, (36, 3, 2), 0), 15),
    "2 classes of 180 × 200×200": (lambda: connectomes(180, 200), 40),
    "2 classes of 32 × 332×332": (lambda: connectomes(32, 332), 20),
}
"""Samples, and the most seconds of a search on two cores."""


def many(only):
    """Return the table of searches in Markdown, and the broken bounds."""
    warnings.simplefilter("ignore")
    lines, broken = [_MANY.format(cores=len(os.sched_getaffinity(0)))], []
    TensorMarginAutoClassifier(n_jobs=-1).fit(*planted(40, (6, 8), 3))  # compiles
    for name, (load, bound) in MANY.items():
        if only and only not in name:
            continue
        X, y = load()
        began, busy = time.perf_counter(), time.process_time()
        search = TensorMarginAutoClassifier(n_jobs=-1, random_state=0).fit(X, y)
        seconds, busy = time.perf_counter() - began, time.process_time() - busy
        lines.append(
            f"| {name} | {search.kind_} | {seconds:.1f} | {busy:.1f} | {bound} | {100 * search.best_score_:.1f} |"
        )
        print(lines[-1], flush=True)
        if seconds > bound:
            broken.append(f"{name}: {seconds:.1f} s, more than {bound}")
    return "\n".join(lines) + "\n", broken


_MANY = """\
## Many classes, many entries

Made by `python -m benchmarks.search many`. One fit of `TensorMarginAutoClassifier` to synthetic samples: the kind that
it guesses, seconds ({cores} cores), processor time, the bound for two cores, and the accuracy on the folds.

| samples | kind | seconds | processor | bound | accuracy |
|---|---|---|---|---|---|"""


# ---- what a user waits for ----


def two_classes(folder):
    X, y = planted(316, (28, 50), 2)
    np.savez(folder / "planted.npz", X=X, y=y)
    return folder / "planted.npz"


def pictures(folder):
    """Write 120 colour pictures of 64 × 64: bright or dark blobs."""
    X, y = varied(2, 60, (64, 64, 3), 4)
    np.savez(folder / "pictures.npz", X=np.clip(100 + 25 * X, 0, 255).astype(np.uint8), y=y)
    return folder / "pictures.npz"


def six_classes(folder):
    """Write 85 patches of each of the six largest classes of Indian Pines, grouped by squares of the scene."""
    bunch = load_by_name("indian-pines")
    labels, counts = np.unique(bunch.target, return_counts=True)
    rng = np.random.RandomState(0)
    largest = labels[np.argsort(-counts, kind="stable")[:6]]
    rows = np.sort(np.concatenate([rng.permutation(np.flatnonzero(bunch.target == one))[:85] for one in largest]))
    np.savez(folder / "six.npz", X=bunch.data[rows], y=bunch.target[rows], groups=bunch.groups[rows])
    return folder / "six.npz"


def model_of_few(folder):
    """Fit a model to 200 samples of 8 × 8."""
    X, y = planted(200, (8, 8), 2)
    model = TensorMarginClassifier("cp", 1, probability=True, random_state=0).fit(X, y)
    save_model(folder / "few.skops", model, training=TrainingRecord.of(X))
    return folder / "few.skops"


def a_million(folder):
    """Write a million samples of 8 × 8 in single precision."""
    X, y = planted(10**6, (8, 8), 2)
    np.savez(folder / "million.npz", X=X.astype(np.float32), y=y)
    return folder / "million.npz"


MORE_OPTIONS = {"compare": ["--fresh"], "fit": ["--fresh", "-o", "model.skops"], "predict": ["-o", "table.csv"]}
COMMANDS = {
    "compare": (["compare"], 10),
    "compare digits": (["compare", "digits"], 20),
    "fit basic-motions --auto": (["fit", "basic-motions", "--auto"], 10),
    "fit eeg --auto": (["fit", "eeg", "--auto"], 6),
    "fit, planted, 316 of 28×50, 2 classes, --auto": (["fit", two_classes, "--auto"], 20),
    **{f"fit {name}": (["fit", name], 60) for name in ("libras", "precog-actions", "muse-ssvep")},
    "fit modis-matogrosso without classes of one group": (
        ["fit", "modis-matogrosso", "--exclude-classes", "Forest,Soy_Fallow"],
        60,
    ),
    "fit, 120 colour pictures of 64×64": (["fit", pictures], 40),
    "fit haxby --auto (864 of 40×20, 8 categories)": (["fit", "haxby", "--auto"], 120),
    "fit, Indian Pines, 510 of 5×5×200, 6 classes, --auto": (["fit", six_classes, "--auto"], 120),
    "fit eeg --decomposition cp --rank 1 --permutations 200": (
        ["fit", "eeg", "--decomposition", "cp", "--rank", "1", "--permutations", "200"],
        30,
    ),
    "predict, 1,000,000 of 8×8": (["predict", model_of_few, a_million], 8),
}
"""Arguments of the command (a function writes its file), and the most seconds on two cores."""


def commands(only):
    """Return the table of commands in Markdown, and the broken bounds."""
    lines, broken = [_COMMANDS.format(cores=len(os.sched_getaffinity(0)))], []
    for name, (arguments, bound) in COMMANDS.items():
        if only and only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            given = [str(one(Path(folder))) if callable(one) else one for one in arguments]
            seconds, busy, found = timed([*given, *MORE_OPTIONS[given[0]], "--json"], folder)
        score = reference = "-"
        if "evaluation" in found:
            own, of_reference = found["evaluation"]["score"]["value"], found["evaluation"]["reference"]["score"]
            score, reference = f"{100 * own:.1f}", f"{100 * of_reference:.1f}"
        lines.append(f"| {name} | {seconds:.1f} | {busy:.1f} | {bound} | {score} | {reference} |")
        print(lines[-1], flush=True)
        if seconds > bound:
            broken.append(f"{name}: {seconds:.1f} s, more than {bound}")
    return "\n".join(lines) + "\n", broken


def timed(arguments, folder):
    """Run a command in a folder; return its time, its processor time and what it prints.

    Python keeps compiled modules, as it does where nothing forbids it: compiling all of them takes six seconds.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "tensormargin", *arguments]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=kept, cwd=folder)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, busy, json.loads(done.stdout)


_COMMANDS = """\
## Commands

Made by `python -m benchmarks.search commands`. Seconds until a command has finished ({cores} cores), its processor
time, the bound for two cores, and the accuracies of the nested evaluation: the model's and the flat LinearSVC's.

| command | seconds | processor | bound | accuracy | LinearSVC |
|---|---|---|---|---|---|"""


def raced(cache, minutes):
    began = time.perf_counter()
    cache.mkdir(parents=True, exist_ok=True)
    for name in race.ALL:
        left = 60 * minutes - (time.perf_counter() - began)
        if left > 0:
            race.measure(name, cache, LARGEST_TABLE, min(left, 180))
    return race.page(race.read(cache))


def write(sections):
    """Replace these sections of the page, and keep the others."""
    path = RESULTS / "search.md"
    old = path.read_text().split("\n## ")[1:] if path.exists() else []
    known = {part.split("\n", 1)[0]: f"## {part.rstrip()}\n" for part in old}
    known |= {text.split("\n", 1)[0].removeprefix("## "): f"{text.rstrip()}\n" for text in sections}
    with replacing(path) as temporary:
        temporary.write_text("\n".join(["# Searches\n", *known.values()]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = ["speed", "many", "commands", "race"]
    parser.add_argument("parts", nargs="*", choices=every, default=every)
    parser.add_argument("--cache", type=Path, default=Path("benchmarks/cache"))
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument(
        "--only", help="measure the searches or commands whose name contains this, and do not write the page"
    )
    options = parser.parse_args()
    parts = {
        "speed": speed,
        "many": lambda: many(options.only),
        "commands": lambda: commands(options.only),
        "race": lambda: raced(options.cache, options.minutes),
    }
    found = [parts[name]() for name in dict.fromkeys(options.parts)]
    if not options.only:
        write([text for text, _ in found])
    broken = [line for _, lines in found for line in lines]
    print("\n" + ("\n".join(broken) if broken else "all bounds hold"))
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
