"""Time of fits against the number of samples in a Zarr store, from 10^4 to 10^6, on two workers of 2 GB each.

``python -m benchmarks.dask_growth FOLDER [--sizes 10000 100000 1000000] [--search 100000 1000000]`` writes the stores
(64 x 64, float32: 16 GB for 10^6 samples) to the folder, fits and searches these sizes, and writes
benchmarks/results/dask_growth.csv and docs/dask_growth.png. The exit status is 1 if a bound is broken: 1.5 passes over
the samples per sweep, 2 GB per worker, and a slope of 1.05 of the time against the number of samples.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV
from tensormargin.runtime import software_versions, tuning

from .dask_samples import bytes_read, from_store, make_chunk, memory, reset_peak

SHAPE, CHUNK = (64, 64), 2_000  # a chunk has 32 MB
LIMIT = 2e9
MOST_PASSES, LARGEST_SLOPE = 1.5, 1.05
RESULTS = Path(__file__).parent / "results" / "dask_growth.csv"
FIGURE = Path(__file__).parents[1] / "docs" / "dask_growth.png"


def store(folder: Path, n_samples: int) -> Path:
    """Return the Zarr store of so many samples, written if it is not there."""
    import zarr

    path = folder / f"{n_samples}.zarr"
    if not path.exists():
        array = zarr.create_array(path, shape=(n_samples, *SHAPE), chunks=(CHUNK, *SHAPE), dtype="f4", compressors=None)
        for number in range(-(-n_samples // CHUNK)):
            part = make_chunk(SHAPE, CHUNK, n_samples, (number,))
            array[number * CHUNK : number * CHUNK + len(part)] = part
    return path


def measured(model: Any, path: Path, case: str) -> dict[str, Any]:
    """Return time, sweeps, passes over the samples and the workers' peak memory of a fit or a search."""
    from distributed import Client, LocalCluster

    X = from_store(str(path))
    y = np.arange(X.shape[0]) % 2
    workers = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": LIMIT, "dashboard_address": None}
    with LocalCluster(**workers) as cluster, Client(cluster) as client:
        TensorMarginClassifier("cp", 1).fit(X[:CHUNK], y[:CHUNK])  # imports and compiles
        client.run(reset_peak)
        client.run(bytes_read)
        began = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - began
        read = sum(client.run(bytes_read).values())
        peak = max(client.run(memory, "VmHWM").values())
    fitted = {"sweeps": model.n_iter_} if case == "fit" else {"sweeps": ""}
    return {
        **{"case": case, "samples": X.shape[0], "seconds": round(seconds, 2), **fitted},
        **{"passes": round(read / X.nbytes, 2), "worker_bytes": int(peak)},
        "versions": json.dumps(software_versions()),
    }


def slope(rows: list[dict[str, Any]]) -> float:
    """Return the exponent of the time per sweep against the number of samples."""
    fits = [row for row in rows if row["case"] == "fit"]
    return float(np.polyfit(*np.log([[row["samples"], row["seconds"] / row["sweeps"]] for row in fits]).T, 1)[0])


def broken(rows: list[dict[str, Any]]) -> list[str]:
    """Return the bounds that do not hold."""
    found = [f"{row['samples']}: {row['passes']} passes" for row in rows if row["passes"] > _most(row)]
    found += [f"{row['samples']}: {row['worker_bytes'] / 1e9:.1f} GB" for row in rows if row["worker_bytes"] > LIMIT]
    return found + ([f"slope {slope(rows):.2f}"] if slope(rows) > LARGEST_SLOPE else [])


def _most(row: dict[str, Any]) -> float:
    return MOST_PASSES * row["sweeps"] if row["case"] == "fit" else np.inf


def draw(rows: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes = figure.add_subplot(xlabel="samples of 64 × 64", ylabel="seconds per sweep", xscale="log", yscale="log")
    fits = [(row["samples"], row["seconds"] / row["sweeps"]) for row in rows if row["case"] == "fit"]
    axes.plot(*zip(*fits, strict=True), "o-", label=f"rank one, slope {slope(rows):.2f}")
    axes.legend(frameon=False)
    figure.savefig(FIGURE, dpi=150)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--search", type=int, nargs="*", default=[100_000, 1_000_000], help="samples of searches")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    tuning.LOADED_SHARE = 0.0  # small stores would be loaded, and compared with others that are not
    rows = []
    for size in options.sizes:
        rows.append(measured(TensorMarginClassifier("cp", 1), store(options.folder, size), "fit"))
        print(rows[-1], flush=True)
    for size in options.search:
        search = TensorMarginClassifierCV(("cp",), (1, 2), (1.0, 10.0), ((0, 0), (1, 1)), cv=3, random_state=0)
        rows.append(measured(search, store(options.folder, size), "search"))
        print(rows[-1], flush=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draw(rows)
    print("\n".join(broken(rows)) or "all bounds hold")
    return 1 if broken(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
