"""Tests of the memory use of fits and predictions, in separate processes."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads memory figures that Linux gives")

HELPERS = """
import resource, sys
from pathlib import Path
import numpy as np
from tensormargin import TensorMarginClassifier

def status(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))

small = np.random.RandomState(0).rand(400, 12, 14, 16)  # large enough for what the large fits take, BLAS and threads
for name in ("full", "cp", "tucker"):
    TensorMarginClassifier(name).fit(small, np.arange(len(small)) % 2)
"""

FITS = """
for name, path in zip(("cp", "tucker"), sys.argv[1:]):
    X = np.load(path, mmap_mode="r")
    limit = status("VmData") + X.nbytes // 2
    unlimited = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, unlimited[1]))
    try:
        np.array(X)
        print("mapped", name, "the limit does not limit")
    except MemoryError:
        clf = TensorMarginClassifier(name, max_iter=2).fit(X, np.arange(len(X)) % 2)
        print("mapped", name, clf.score(X, np.arange(len(X)) % 2))
    resource.setrlimit(resource.RLIMIT_DATA, unlimited)

noise = np.random.RandomState(0).standard_normal((3000, 28, 28))
for dtype in ("float32", "float64", "uint8"):
    X = np.tile((30 * noise + 128).astype(dtype), (4, 1, 1))
    X[1::2] += 3
    y = np.arange(len(X)) % 2
    for name in ("full", "cp", "tucker", "tt"):
        samples = X.reshape(-1, 7, 4, 7, 4) if name == "tucker" else X
        before = status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        TensorMarginClassifier(name, max_iter=2).fit(samples, y)  # later sweeps take what these do
        print(dtype, name, status("VmHWM") - before)
"""


def run(code: str, *arguments: str) -> list[str]:
    """Run code in a process that returns freed arrays to the system; return the lines it prints."""
    command = [sys.executable, "-c", HELPERS + code, *arguments]
    # The threshold: if set, glibc does not raise it. One thread: OpenBLAS takes 32 MB for each.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(2**17), "OPENBLAS_NUM_THREADS": "1"}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """Return what one process prints of its fits, by dtype (or "mapped") and decomposition."""
    paths = []
    for dtype, shape in ((np.float32, (800, 32, 32, 32)), (np.float64, (800, 16, 32, 32))):
        paths.append(tmp_path_factory.mktemp("mapped") / "samples.npy")
        samples = np.lib.format.open_memmap(paths[-1], "w+", dtype, shape)
        noise = np.random.RandomState(0).standard_normal((50, *shape[1:])).astype(dtype)
        pattern = np.outer(np.sin(np.arange(shape[1])), np.cos(np.arange(32)))[:, :, None].astype(dtype)
        for i, sample in enumerate(samples):
            np.add(noise[i % 50], noise[(7 * i + 3) % 50], out=sample)
            sample += (i % 2) * pattern
        samples.flush()
        del samples
    lines = [line.split() for line in run(FITS, *map(str, paths))]
    for path in paths:
        path.unlink()
    return {(dtype, name): float(figure[-1]) for dtype, name, *figure in lines}


@linux
@pytest.mark.parametrize("name", ["cp", "tucker"])
def test_a_read_only_memory_map_larger_than_the_memory_allowed(name, figures):
    """Fit 100 MB of samples with half that much memory."""
    assert figures["mapped", name] > 0.9


@linux
@pytest.mark.parametrize("name", ["full", "cp", "tucker", "tt"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_the_peak_of_a_fit(name, dtype, figures):
    """Allow 12,000 images 1.1 times the samples plus 20 MB; more for small integers, whose copy is larger."""
    n_bytes = 12000 * 28 * 28 * np.dtype(dtype).itemsize
    allowed = 1.3 * n_bytes + 112e6 if dtype == "uint8" else 1.1 * n_bytes + 20e6
    assert figures[dtype, name] <= allowed


PREDICTIONS = """
from tensormargin.cli import main
from tensormargin.io import SampleSet, save_model
from tensormargin.runtime import tuning

tuning.BLOCK_BYTES = 2**21  # so that smaller files show it
folder = Path(sys.argv[1])
X = np.load(folder / "small.npy")
model = TensorMarginClassifier("cp", probability=True, max_iter=2).fit(X, np.arange(len(X)) % 2)
save_model(folder / "m.skops", model, samples=SampleSet(X, None, None, None, None, "", "", ()))
for name in sys.argv[2:]:
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    main(["predict", str(folder / "m.skops"), str(folder / name), "-o", str(folder / "p.csv")], standalone_mode=False)
    print(name, status("VmHWM") - before)
"""


@linux
def test_the_peak_of_predictions(tmp_path):
    """Predict 31 MB in each kind of file that is read in parts with half as much memory."""
    h5py = pytest.importorskip("h5py", reason="needs h5py: pip install 'tensormargin[hdf5]'")
    zarr = pytest.importorskip("zarr", reason="needs zarr: pip install 'tensormargin[zarr]'")
    X = np.random.RandomState(0).standard_normal((10_000, 28, 28)).astype(np.float32)
    for size, rows in (("small", X[:400]), ("large", X)):
        np.save(tmp_path / f"{size}.npy", rows)
        np.savez(tmp_path / f"{size}.npz", X=rows, y=np.arange(len(rows)) % 2)
        with h5py.File(tmp_path / f"{size}.h5", "w") as file:
            file.create_dataset("X", data=rows, chunks=(200, 28, 28))
        zarr.open_group(str(tmp_path / f"{size}.zarr"), mode="w").create_array("X", data=rows, chunks=(200, 28, 28))
    names = [f"{size}.{ending}" for size in ("small", "large") for ending in ("npy", "npz", "h5", "zarr")]
    peaks = dict(line.split() for line in run(PREDICTIONS, str(tmp_path), *names) if line.startswith(tuple(names)))
    large = {name: int(peak) for name, peak in peaks.items() if name.startswith("large")}
    assert len(large) == 4
    assert max(large.values()) < X.nbytes / 2, large


STORE = """
from functools import partial
sys.stderr = sys.stdout  # notes
import tensormargin.evaluation.workflow as plan
import tensormargin.runtime.host as host
allowed = int(sys.argv[1])
host._free = lambda: allowed
from tensormargin.cli import main
plan.TensorMarginClassifierCV = partial(plan.TensorMarginClassifierCV, lams=(1.0,), mus=(1,), max_iter=1)
for path in sys.argv[2:]:
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    options = ["--decomposition", "cp", "--rank", "1", "--folds", "2", "--outer-folds", "2"]
    main(["fit", path, "-o", path + ".skops", *options], standalone_mode=False)
    main(["predict", path + ".skops", path, "-o", path + ".csv"], standalone_mode=False)
    print("took", status("VmHWM") - before)
"""


@pytest.mark.campaign
@linux
def test_a_store_larger_than_the_memory_from_the_command_line(tmp_path):
    """Evaluate, fit, report and predict 34 MB of samples with less than three quarters of that, as if 12 MB were free.

    The first store, which is tiny, makes the process import and compile.
    """
    zarr = pytest.importorskip("zarr", reason="needs zarr: pip install 'tensormargin[zarr]'")
    pytest.importorskip("dask.array", reason="needs Dask: pip install 'tensormargin[dask]'")
    stores = []
    for n_samples, side in ((240, 16), (1024, 32)):
        stores.append(str(tmp_path / f"{n_samples}.zarr"))
        group = zarr.open_group(stores[-1], mode="w")
        X = group.create_array(
            "X", shape=(n_samples, side, 16, 16), chunks=(60, side, 16, 16), dtype="f4", compressors=None
        )
        for start in range(0, n_samples, 60):
            part = np.random.RandomState(start).standard_normal((min(60, n_samples - start), side, 16, 16))
            part[(start + 1) % 2 :: 2, 4:8] += 0.1
            X[start : start + 60] = part
        group.create_array("y", data=np.arange(n_samples) % 2)
    lines = run(STORE, str(12 * 2**20), *stores)
    assert any("read in parts" in line for line in lines)
    accuracy = [float(line.split(":")[1].split()[0]) for line in lines if line.startswith("Accuracy on held-out")]
    assert accuracy[-1] > 70
    took = [int(line.split()[1]) for line in lines if line.startswith("took")]
    assert took[-1] < 24 * 2**20, took
