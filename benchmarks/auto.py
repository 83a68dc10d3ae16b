"""Accuracy of ``fit --auto`` compared with a tuned flat LinearSVC, on four real data sets.

Run ``python -m benchmarks.auto [--jobs N] [--only NUMBER,...] [--out FILE]`` with TENSORMARGIN_DATA set or with network
access. Both are tuned on the same training sets, including the preparation, and scored on the same test sets.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from tensormargin.datasets import load_basic_motions, load_eeg, load_haxby_slice, load_indian_pines
from tensormargin.evaluation import nested_evaluation
from tensormargin.io import replacing
from tensormargin.runtime import software_versions
from tensormargin.selection import auto_model


def eeg():
    bunch = load_eeg()
    return bunch.data, bunch.target, None


def motions():
    bunch = load_basic_motions()
    return bunch.data, bunch.target, None


def haxby(*categories):
    def load():
        bunch = load_haxby_slice(categories=categories)
        return bunch.data, bunch.target, bunch.groups

    return load


def pines(each, *classes):
    """Return a loader of random patches of some classes of the scene; folds keep squares of 8x8 pixels together."""

    def load():
        bunch = load_indian_pines(5, classes)
        rng = np.random.RandomState(0)
        rows = [rng.choice(np.flatnonzero(bunch.target == label), each, replace=False) for label in classes]
        rows = np.sort(np.concatenate(rows))
        return bunch.data[rows].astype(np.float32), bunch.target[rows], bunch.groups[rows]

    return load


TASKS = {  # name: (loader, outer folds, repeats)
    "EEG, 61 people": (eeg, 5, 5),
    "BasicMotions, 4 activities": (motions, 5, 5),
    "Haxby, bottle or shoe": (haxby("bottle", "shoe"), 12, 1),
    "Haxby, face or house": (haxby("face", "house"), 12, 1),
    "Indian Pines, soybean 10 or 11, 2 x 75 patches": (pines(75, 10, 11), 5, 2),
}


def measured(name, jobs):
    load, folds, repeats = TASKS[name]
    X, y, groups = load()
    began = time.perf_counter()
    result = nested_evaluation(auto_model(n_jobs=jobs), X, y, groups, folds, repeats)
    chosen = Counter(f"{f.chosen['decomposition']} {f.chosen['rank'] or ''}".strip() for f in result.folds)
    return {
        "task": name,
        "shape": list(X.shape),
        "scheme": result.scheme,
        "auto": 100 * result.accuracy,
        "linear_svc": 100 * result.reference,
        "gain": 100 * result.difference.difference,
        "gain_error": 100 * result.difference.error,
        "gain_interval": [100 * result.difference.low, 100 * result.difference.high],
        "chosen": dict(chosen.most_common()),
        "minutes": (time.perf_counter() - began) / 60,
        "seed": result.seed,
        "versions": software_versions(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument(
        "--only", default=",".join(str(number) for number in range(len(TASKS))), help="numbers of tasks"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    names = [list(TASKS)[int(number)] for number in options.only.split(",")]
    rows = []
    print("| task | samples | auto | LinearSVC | gain ± standard error | 95 % | chosen | min |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        row = measured(name, options.jobs)
        rows.append(row)
        chosen = ", ".join(f"{what} ({count})" for what, count in row["chosen"].items())
        print(
            f"| {name} | {' x '.join(map(str, row['shape']))} | {row['auto']:.1f} | {row['linear_svc']:.1f} "
            f"| {row['gain']:+.1f} ± {row['gain_error']:.1f} | {row['gain_interval'][0]:+.1f} to "
            f"{row['gain_interval'][1]:+.1f} | {chosen} | {row['minutes']:.1f} |",
            flush=True,
        )
        if options.out:
            with replacing(options.out) as temporary:
                temporary.write_text(json.dumps(rows, indent=1))
    worse = [row["task"] for row in rows if row["gain"] < -row["gain_error"]]
    print(f"\nworse by more than a standard error: {', '.join(worse) or 'none'}")
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
