"""What the reader process costs: `load_samples` against the libraries that it reads with, in one run.

``python benchmarks/loading.py`` prints, for about 50 MB per format in the page cache, the median seconds of each and
their ratio, and how long the first file takes that needs the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import h5py
import nibabel
import numpy as np
import zarr
from PIL import Image
from scipy.io import loadmat, savemat

from tensormargin import load_samples

RUNS = 7


def write_all(folder: Path) -> dict[str, tuple[Path, Callable[[], Any]]]:
    """Write the samples in every format; return paths, and functions that read them without tensormargin."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 64, 1000)).astype(np.float32)
    with h5py.File(folder / "a.h5", "w") as file:
        file["X"] = X
    with h5py.File(folder / "gzip.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(10, 64, 1000), compression="gzip", compression_opts=1)
    savemat(folder / "a.mat", {"X": X})
    savemat(folder / "packed.mat", {"X": X[:50]}, do_compression=True)
    zarr.open_group(str(folder / "a.zarr"), mode="w").create_array("X", data=X, chunks=(10, 64, 1000))
    volumes = nibabel.Nifti1Image(rng.integers(0, 1000, (64, 64, 40, 60)).astype(np.int16), np.eye(4))
    nibabel.save(volumes, folder / "a.nii")
    nibabel.save(volumes, folder / "a.nii.gz")
    (folder / "png").mkdir()
    for number in range(1000):
        Image.fromarray(rng.integers(0, 255, (64, 64)).astype(np.uint8)).save(folder / "png" / f"{number}.png")
    files = sorted((folder / "png").iterdir())

    def hdf5(name: str) -> Any:
        with h5py.File(folder / name) as file:
            return file["X"][()]

    return {
        "HDF5": (folder / "a.h5", lambda: hdf5("a.h5")),
        "HDF5, gzip": (folder / "gzip.h5", lambda: hdf5("gzip.h5")),
        "MATLAB 5": (folder / "a.mat", lambda: loadmat(folder / "a.mat")),
        "MATLAB 5, compressed": (folder / "packed.mat", lambda: loadmat(folder / "packed.mat")),
        "Zarr": (folder / "a.zarr", lambda: zarr.open_group(str(folder / "a.zarr"))["X"][...]),
        "NIfTI": (folder / "a.nii", lambda: np.asarray(nibabel.load(folder / "a.nii").dataobj, np.float32)),
        "NIfTI, gzip": (folder / "a.nii.gz", lambda: np.asarray(nibabel.load(folder / "a.nii.gz").dataobj, np.float32)),
        "1,000 PNG files": (folder / "png", lambda: np.stack([np.asarray(Image.open(file)) for file in files])),
    }


def seconds(function: Callable[[], Any]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def main() -> None:
    with TemporaryDirectory() as name:
        formats = write_all(Path(name))
        first = seconds(lambda: load_samples(formats["1,000 PNG files"][0], need_labels=False))
        print(f"{'format':22} {'library':>8} {'ours':>8} {'ratio':>6}")
        for words, (path, read) in formats.items():
            pairs = [(seconds(read), seconds(lambda path=path: load_samples(path, need_labels=False)))
                     for _ in range(RUNS)]  # fmt: skip
            library, ours = (median(column) for column in zip(*pairs, strict=True))
            print(f"{words:22} {library:8.3f} {ours:8.3f} {ours / library:6.2f}", flush=True)
        print(f"the first file, with the start of the process, takes {first - ours:.2f} s longer")


if __name__ == "__main__":
    main()
