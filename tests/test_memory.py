"""How much memory a fit takes, in processes of their own."""

from __future__ import annotations

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
rng = np.random.RandomState(0)
X = 30 * rng.standard_normal((32000, 28, 28)) + 128
X[1::2] += 3
X = X.astype(sys.argv[1])
y = np.arange(len(X)) % 2
if sys.argv[2] == "tucker":
    X = X.reshape(-1, 7, 4, 7, 4)
before = status("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
TensorMarginClassifier(sys.argv[2]).fit(X, y)
print((status("VmHWM") - before) / X.nbytes)
"""


def run(code: str, *arguments: str) -> float:
    command = [sys.executable, "-c", HELPERS + code, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return float(result.stdout.split()[-1])


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
    assert run(MAPPED, str(path), name) > 0.9


@linux
@pytest.mark.parametrize("name", ["full", "cp", "tucker", "tt"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_the_peak_of_a_fit(name, dtype):
    """At most 1.1 times the samples plus 50 MB; for small integers, whose working copy is larger than they, 300 MB."""
    n_bytes = 32000 * 28 * 28 * np.dtype(dtype).itemsize
    allowed = 1.3 * n_bytes + 300e6 if dtype == "uint8" else 1.1 * n_bytes + 50e6
    assert run(PEAK, dtype, name) * n_bytes <= allowed
