"""How much memory a fit takes, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from tensormargin.formats import FORMATS

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads memory figures that Linux gives")

HELPERS = """
import resource, sys
from pathlib import Path
import numpy as np
from tensormargin import TensorMarginClassifier

def status(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))

small = np.random.RandomState(0).rand(60, 6, 7)
for name in ("cp", "tucker"):
    TensorMarginClassifier(name).fit(small, np.arange(60) % 2)
"""

MAPPED = """
X = np.load(sys.argv[1], mmap_mode="r")
limit = status("VmData") + X.nbytes // 2
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
try:
    np.array(X)
    print("the limit does not limit")
except MemoryError:
    clf = TensorMarginClassifier(sys.argv[2]).fit(X, np.arange(len(X)) % 2)
    print(clf.score(X, np.arange(len(X)) % 2))
"""

PEAK = """
X = np.tile(30 * np.random.RandomState(0).standard_normal((4000, 28, 28)) + 128, (8, 1, 1)).astype(sys.argv[1])
X[1::2] += 3
y = np.arange(len(X)) % 2
for name in sys.argv[2:]:
    samples = X.reshape(-1, 7, 4, 7, 4) if name == "tucker" else X
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    TensorMarginClassifier(name, max_iter=2).fit(samples, y)  # later sweeps take what these do
    print(status("VmHWM") - before)
"""


def run(code: str, *arguments: str) -> list[float]:
    """Run code in a process that gives arrays back to the system when they are freed; return what it prints."""
    command = [sys.executable, "-c", HELPERS + code, *arguments]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(2**17)}  # once it is set, glibc does not raise it
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    return [float(line) for line in result.stdout.splitlines()]


@linux
@pytest.mark.parametrize(
    ("name", "dtype", "shape"), [("cp", np.float32, (3200, 32, 32, 32)), ("tucker", np.float64, (3200, 16, 32, 32))]
)
def test_a_read_only_memory_map_larger_than_the_memory_allowed(name, dtype, shape, tmp_path):
    """400 MB of samples, half of that allowed."""
    path = tmp_path / "samples.npy"
    samples = np.lib.format.open_memmap(path, "w+", dtype, shape)
    noise = np.random.RandomState(0).standard_normal((50, *shape[1:]))
    pattern = np.outer(np.sin(np.arange(shape[1])), np.cos(np.arange(32)))[:, :, None]
    for i, sample in enumerate(samples):
        np.add(noise[i % 50], noise[(7 * i + 3) % 50], out=sample, casting="same_kind")
        sample += (i % 2) * pattern
    samples.flush()
    del samples
    (score,) = run(MAPPED, str(path), name)
    assert score > 0.9


@linux
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_the_peak_of_a_fit(dtype):
    """At most 1.1 times the samples plus 50 MB; for small integers, whose working copy is larger than they, 300 MB."""
    n_bytes = 32000 * 28 * 28 * np.dtype(dtype).itemsize
    allowed = 1.3 * n_bytes + 300e6 if dtype == "uint8" else 1.1 * n_bytes + 50e6
    peaks = dict(zip(FORMATS, run(PEAK, dtype, *FORMATS), strict=True))
    assert {name: peak for name, peak in peaks.items() if peak > allowed} == {}
