"""CT volumes (AdrenalMNIST3D), motion sensor recordings (BasicMotions) and a hyperspectral scene (Indian Pines)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from ..io import read_arrays
from ..runtime import Array
from ..transformers import Patches
from ._store import described, download, found, obtain

_MEDMNIST = "https://zenodo.org/records/10519652/files/"
_ADRENAL_FILES = {
    28: ("adrenalmnist3d.npz", "8ffd78c0f000265deb7cf4ee0b454136fb3170f9839ecaa7bb01adf9f88aa7d1"),
    64: ("adrenalmnist3d_64.npz", "124a53ea2c66c8ac1985a4c98ea6f34d1ab35bdab1dc50947f80d4a87e54057d"),
}
_BASIC_MOTIONS = Path(__file__).parent / "data" / "basic_motions_6x100.npz"

_MOTIONS_CHANNELS = [f"{sensor} {axis}" for sensor in ("accelerometer", "gyroscope") for axis in (1, 2, 3)]

_ADRENAL_DESCR = """AdrenalMNIST3D (MedMNIST v2): adrenal glands from CT, {size}x{size}x{size}, values 0 or 255.

``target`` is 0 for normal glands and 1 for a mass or hyperplasia; ``split`` says "train", "val" or "test" as published.
The glands are the left and right ones of half as many people, whom the file does not identify: your own folds may put
the two glands of a person on both sides.
Yang et al.: MedMNIST v2. Scientific Data 10:41, 2023. Licence CC BY 4.0.
"""

_MOTIONS_DESCR = """BasicMotions: accelerometer and gyroscope of a watch, 6 channels x 100 time points, four activities.

Standing, walking, running and badminton, 20 recordings each by four students, whom the file does not identify: your own
folds may put recordings of one student on both sides. ``split`` says "train" or "test" as published, 40 each.
Bagnall et al.: The UEA multivariate time series classification archive, 2018. arXiv:1811.00075.
"""

_PINES_DESCR = """Indian Pines: patches of {size}x{size} pixels x 200 bands around labelled pixels of an AVIRIS scene.

``target`` has the class of the central pixel (1 to 16), ``positions`` its row and column. Neighbouring patches share
pixels: split by place (see ``groups``, squares of {tile}x{tile} pixels), or the test samples are partly known.
Baumgardner, Biehl, Landgrebe: 220 band AVIRIS hyperspectral image data set, 2015, doi:10.4231/R7RX991C. Licence CC BY
3.0. The scene comes with TensorLy.
"""
_TILE = 8


def load_adrenal(size: int = 28, data_home: str | Path | None = None) -> Bunch:
    """Return AdrenalMNIST3D: 1,584 binary volumes, two classes.

    Parameters
    ----------
    size : {28, 64}, default=28
        Side of the volumes.
    data_home : str or Path, optional
        Cache directory.

    Returns
    -------
    Bunch
        ``data`` of shape (1584, size, size, size) (uint8), ``target``, ``split`` ("train", "val", "test"), ``DESCR``.

    Examples
    --------
    >>> from tensormargin.datasets import load_adrenal
    >>> load_adrenal().data.shape
    (1584, 28, 28, 28)
    """
    if size not in _ADRENAL_FILES:
        raise ValueError(f"size must be 28 or 64; got {size}")
    name, checksum = _ADRENAL_FILES[size]
    path = obtain(f"adrenalmnist3d/{name}", download([f"{_MEDMNIST}{name}?download=1"], checksum), data_home)
    stored = read_arrays(path)
    parts = ("train", "val", "test")
    return Bunch(
        data=np.concatenate([stored[f"{part}_images"] for part in parts]),
        target=np.concatenate([stored[f"{part}_labels"].ravel() for part in parts]).astype(int),
        split=np.repeat(parts, [len(stored[f"{part}_labels"]) for part in parts]),
        DESCR=_ADRENAL_DESCR.format(size=size),
    )


def load_basic_motions() -> Bunch:
    """Return BasicMotions: 80 recordings of 6 channels x 100 time points, four activities.

    The data come with this package and need no download. They are from the UEA archive (Bagnall et al.: The UEA
    multivariate time series classification archive, 2018, arXiv:1811.00075), in the copy of the package aeon.

    Returns
    -------
    Bunch
        ``data`` of shape (80, 6, 100) (float32), ``target`` (names of the activities), ``split`` ("train", "test"),
        ``DESCR``.

    Examples
    --------
    >>> from tensormargin.datasets import load_basic_motions
    >>> load_basic_motions().data.shape
    (80, 6, 100)
    """
    stored = read_arrays(_BASIC_MOTIONS)
    parts = ("train", "test")
    return described(
        Bunch(
            data=np.concatenate([stored[f"X_{part}"] for part in parts]),
            target=np.concatenate([stored[f"y_{part}"] for part in parts]),
            split=np.repeat(parts, [len(stored[f"y_{part}"]) for part in parts]),
            DESCR=_MOTIONS_DESCR,
        ),
        ["channel", "time"],
        channel=_MOTIONS_CHANNELS,
    )


def load_indian_pines(
    patch: int = 5, classes: tuple[int, ...] | None = None, data_home: str | Path | None = None
) -> Bunch:
    """Return hyperspectral patches around the labelled pixels of the Indian Pines scene.

    Parameters
    ----------
    patch : int, default=5
        Side of the patches, an odd number; the scene is mirrored at its border.
    classes : tuple of int, optional
        Classes (1 to 16) to keep; all by default. The 10,249 patches of 5x5x200 take 100 MB.
    data_home : str or Path, optional
        Cache directory.

    Returns
    -------
    Bunch
        ``data`` of shape (n, patch, patch, 200) (uint16), ``target``, ``positions`` of shape (n, 2), ``groups``
        (squares of the scene), ``DESCR``.

    Examples
    --------
    >>> from tensormargin.datasets import load_indian_pines
    >>> load_indian_pines(patch=3, classes=(2, 3)).data.shape
    (2258, 3, 3, 200)
    """
    if patch < 1 or patch % 2 == 0:
        raise ValueError(f"patch must be an odd number of pixels; got {patch}")
    cube, truth = _indian_pines_scene(data_home)
    known = sorted(set(truth.ravel().tolist()) - {0})
    unknown = sorted(set(classes or ()) - set(known))
    if unknown:
        raise ValueError(f"unknown class {', '.join(map(str, unknown))}; the classes are {known[0]} to {known[-1]}")
    scene = Patches(patch, _TILE).cut(cube, truth, classes)
    return described(
        Bunch(
            data=scene.data,
            target=scene.target.astype(int),
            positions=scene.positions,
            groups=scene.groups,
            DESCR=_PINES_DESCR.format(size=patch, tile=_TILE),
        ),
        ["row", "column", "band"],
    )


def _indian_pines_scene(data_home: str | Path | None) -> tuple[Array, Array]:
    path = found("indian_pines/indian_pines_145x145x200.npz", data_home)
    if path is not None:
        stored = read_arrays(path, ("cube", "gt"))
        return stored["cube"], stored["gt"]
    from tensorly.datasets import load_indian_pines as load_scene

    scene = load_scene()
    return np.asarray(scene.tensor).astype(np.uint16), np.asarray(scene.ticks[0])
