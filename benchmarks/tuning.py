"""Effect on fit times of halving and doubling each constant in tensormargin.runtime.tuning.

Run ``python -m benchmarks.tuning [--only NAME,...] [--rounds N]``. Fits on synthetic samples of five kinds are timed
with every constant unchanged, halved and doubled, alternately, so that changes in machine speed affect all three alike;
the table shows ratios of median times. Constants that matter only for devices and Dask are left out: benchmarks/gpu.py
and benchmarks/dask_samples.py measure those. Writes results/tuning.md.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np
from joblib import cpu_count
from sklearn.exceptions import ConvergenceWarning

from tensormargin import TensorMarginClassifier, TensorScaler
from tensormargin.datasets import make_fmri_like, make_low_rank_classes
from tensormargin.io import replacing
from tensormargin.runtime import tuning

RESULTS = Path(__file__).parent / "results"
ELSEWHERE = ("DEVICE", "DESIGN_COPIES", "HOST_SECONDS", "ARRIVING", "CHUNKS_AT_ONCE", "COARSE_BYTES", "SLAB", "TREE")
ELSEWHERE += ("JOINED", "BATCH_", "LEAST_")
NOISE = 0.15  # ratios this close to 1 are noise


def names() -> list[str]:
    """Return the names of the constants that matter for in-memory fits."""
    return [name for name in vars(tuning) if name.isupper() and not name.startswith(ELSEWHERE)]


def cases() -> dict[str, list]:
    """Return the cases: lists of functions to time, by name."""
    many = make_low_rank_classes(12_000, (28, 28), rank=3, distance=3.0, random_state=0)
    few = make_fmri_like(100, (40, 40, 40), random_state=0)
    small = make_low_rank_classes(80, (16, 16), rank=2, distance=4.0, random_state=0)
    long = make_low_rank_classes(200_000, (8, 8), rank=1, distance=2.0, dtype=np.float32, random_state=0)
    hard = make_low_rank_classes(300, (6, 6, 6), rank=2, distance=1.0, random_state=0)

    def fit(bunch, *arguments, **parameters):
        return lambda: TensorMarginClassifier(*arguments, **parameters).fit(bunch.data, bunch.target)

    return {
        "12,000 x 28 x 28": [fit(many, "cp", 2), fit(many, "tucker", 4), fit(many, "full")],
        "100 x 40 x 40 x 40": [fit(few, "cp", 1), fit(few, "tucker", 3), fit(few, "full")],
        "80 x 16 x 16": [fit(small, name) for name in ("cp", "tucker", "tt", "full")],
        "200,000 x 8 x 8": [fit(long, "cp", 1)],
        "hinge only, large lambda": [fit(hard, name, lam=100, mu1=0, mu2=0) for name in ("cp", "full")],
        "scaling": [lambda: TensorScaler().fit(many.data).transform(many.data)],
    }


def seconds(fits: list) -> float:
    """Return the total time of the fits."""
    began = time.perf_counter()
    for fit in fits:
        fit()
    return time.perf_counter() - began


def changed(name: str, factor: float) -> float | int:
    """Return a multiple of a constant, with its type kept."""
    value = getattr(tuning, name)
    return max(1, round(value * factor)) if isinstance(value, int) else min(value * factor, 0.999 if value < 1 else 1e9)


def ratios(name: str, fits: list, rounds: int) -> tuple[float, float]:
    """Return the times with a constant halved and doubled, relative to the unchanged one."""
    original, times = getattr(tuning, name), {0.5: [], 1.0: [], 2.0: []}
    try:
        for _ in range(rounds):
            for factor in times:
                setattr(tuning, name, original if factor == 1.0 else changed(name, factor))
                times[factor].append(seconds(fits))
                setattr(tuning, name, original)
    finally:
        setattr(tuning, name, original)
    return median(times[0.5]) / median(times[1.0]), median(times[2.0]) / median(times[1.0])


def measure(chosen: list[str], rounds: int) -> dict[str, dict[str, tuple[float, float]]]:
    """Return the ratios by constant and case."""
    todo = cases()
    for fits in todo.values():
        seconds(fits)  # warm-up: compiles
    table = {}
    for name in chosen:
        table[name] = {case: ratios(name, fits, rounds) for case, fits in todo.items()}
        print(name, {case: f"{low:.2f} {high:.2f}" for case, (low, high) in table[name].items()}, flush=True)
    return table


def page(table: dict, rounds: int) -> str:
    """Return the table as Markdown."""
    titles = list(next(iter(table.values())))
    lines = [
        "# Half and twice of each number in `tuning.py`",
        "",
        f"Made by `python -m benchmarks.tuning` on {platform.machine()} with {cpu_count()} cores, medians of {rounds} "
        "rounds: time with half and with twice of the number over the time with the number as it is. Ratios within "
        f"{NOISE:.0%} of 1 are noise; bold ones are below that, so a fit is faster.",
        "",
        "| number | value | " + " | ".join(titles) + " | all |",
        "|---|---|" + "---|" * (len(titles) + 1),
    ]
    for name, row in table.items():
        mean = tuple(geometric_mean(pair[side] for pair in row.values()) for side in (0, 1))
        cells = [" · ".join(bold(value) for value in pair) for pair in (*row.values(), mean)]
        lines.append(f"| `{name}` | {getattr(tuning, name):g} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def bold(ratio: float) -> str:
    """Return a ratio as text, in bold if the fit is faster."""
    return f"**{ratio:.2f}**" if ratio < 1 - NOISE else f"{ratio:.2f}"


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of numbers, separated by commas")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    table = measure(options.only.split(",") if options.only else names(), options.rounds)
    if not options.only:
        with replacing(RESULTS / "tuning.md") as path:
            path.write_text(page(table, options.rounds))


if __name__ == "__main__":
    main()
