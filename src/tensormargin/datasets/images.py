"""Images, volumes and scenes: digits, MNIST and ORL faces of the paper, adrenal glands, and Indian Pines."""

from __future__ import annotations

import gzip
import warnings
import zlib
from math import prod
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from ..data import axes_of
from ..io import BadFileError, read_arrays
from ..runtime import Array
from ..transformers import Patches
from ._store import described, download, found, obtain, of_parts, unavailable

_PIXELS = {"row": None, "column": None}
_MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_MNIST_FILES = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
_MEDMNIST = "https://zenodo.org/records/10519652/files/"
_ADRENAL_FILES = {
    28: ("adrenalmnist3d.npz", "8ffd78c0f000265deb7cf4ee0b454136fb3170f9839ecaa7bb01adf9f88aa7d1"),
    64: ("adrenalmnist3d_64.npz", "124a53ea2c66c8ac1985a4c98ea6f34d1ab35bdab1dc50947f80d4a87e54057d"),
}
_TILE = 8


def load_digits_tensor() -> Bunch:
    """Return scikit-learn's 1,797 handwritten digits as 8x8 tensors.

    Returns
    -------
    Bunch
        ``data`` of shape (1797, 8, 8), ``target`` with the digits 0 to 9, and ``DESCR``.

    Examples
    --------
    >>> from tensormargin.datasets import load_digits_tensor
    >>> digits = load_digits_tensor()
    >>> digits.data.shape, digits.target[:5]
    ((1797, 8, 8), array([0, 1, 2, 3, 4]))
    """
    from sklearn.datasets import load_digits  # also imports what downloads other data sets

    bunch = load_digits()
    axes = axes_of((8, 8), ["row", "column"])
    return Bunch(data=bunch.images, target=bunch.target, DESCR=bunch.DESCR, axes=axes)


def fetch_mnist(subset: str = "all", data_home: str | Path | None = None) -> Bunch:
    """Return MNIST, the data of the paper's Table 2.

    Parameters
    ----------
    subset : {"all", "train", "test"}, default="all"
        "all" returns the 60,000 training images followed by the 10,000 test images.
    data_home : str or Path, optional
        Cache directory for the four original files, if they have to be downloaded.

    Returns
    -------
    Bunch
        ``data`` of shape (n, 28, 28) and ``target`` (digits 0 to 9), both uint8, ``n_train`` (the number of training
        images) and ``DESCR``.

    Examples
    --------
    >>> from tensormargin.datasets import fetch_mnist
    >>> mnist = fetch_mnist("test")
    >>> mnist.data.shape, mnist.data.dtype
    ((10000, 28, 28), dtype('uint8'))
    """
    if subset not in ("all", "train", "test"):
        raise ValueError(f"subset must be 'all', 'train' or 'test'; got {subset!r}")
    parts = {"all": ("train", "t10k"), "train": ("train",), "test": ("t10k",)}[subset]
    images = [_read_idx(f"{part}-images-idx3-ubyte.gz", data_home) for part in parts]
    labels = [_read_idx(f"{part}-labels-idx1-ubyte.gz", data_home) for part in parts]
    counts = [(len(some), len(other)) for some, other in zip(images, labels, strict=True)]
    if any(n_images != n_labels for n_images, n_labels in counts):
        raise BadFileError(f"MNIST's files do not belong together: (images, labels) are {counts}; fetch them again")
    return described(
        "mnist",
        _PIXELS,
        data=images[0] if len(images) == 1 else np.concatenate(images),
        target=labels[0] if len(labels) == 1 else np.concatenate(labels),
        n_train=0 if subset == "test" else len(labels[0]),
    )


def _read_idx(name: str, data_home: str | Path | None) -> Array:
    """Return the array of an MNIST file: two zero bytes, type (8: uint8), order, sizes as big-endian int32, values."""
    urls = [mirror + name for mirror in _MNIST_MIRRORS]
    path = obtain(f"mnist/{name}", download(urls, _MNIST_FILES[name]), data_home)
    try:
        raw = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise BadFileError(f"{path}: damaged ({error}); remove it to have it fetched again") from error
    order = raw[3] if raw[:3] == b"\0\0\x08" else 0
    shape = tuple(int.from_bytes(raw[4 * axis : 4 * axis + 4]) for axis in range(1, order + 1))
    if not shape or len(raw) != 4 + 4 * order + prod(shape):
        raise BadFileError(f"{path}: not a whole file in MNIST's format; remove it to have it fetched again")
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * order).reshape(shape)


def fetch_orl(size: int = 32, data_home: str | Path | None = None) -> Bunch:
    """Return the ORL faces, the data of the paper's Tables 4 and 5.

    Parameters
    ----------
    size : int, default=32
        Side of the images in pixels; 32 and 64 in the paper.
    data_home : str or Path, optional
        Cache directory of scikit-learn's `fetch_olivetti_faces`, used if the original images are not at hand.

    Returns
    -------
    Bunch
        ``data`` of shape (400, size, size) in [0, 1] (float32), ``target`` (people 1 to 40), ``DESCR``.

    Notes
    -----
    The original images have 112x92 pixels. The whole image is resized, each new pixel being the mean over the area that
    it covers, so the aspect ratio changes as in the paper. scikit-learn's copy is already cropped and resized to 64x64:
    results differ in the first decimal, and ``DESCR`` says which version was used.

    Examples
    --------
    >>> from tensormargin.datasets import fetch_orl
    >>> fetch_orl(32).data.shape
    (400, 32, 32)
    """
    if size < 1:
        raise ValueError(f"size must be a number of pixels, at least 1; got {size}")
    images, people, origin = _orl_images(data_home)
    rows, columns = (_area_means(length, size) for length in images.shape[1:])
    small = np.einsum("ai,nij,bj->nab", rows, images, columns, optimize=True)
    values = {"size": size, "origin": origin}
    return described("orl", _PIXELS, values, data=small.astype(np.float32), target=people)


def _orl_images(data_home: str | Path | None) -> tuple[Array, Array, str]:
    relative = "orl_faces/orl_faces_112x92.npz"
    path = found(relative, data_home)
    if path is not None:
        stored = read_arrays(path, ("X", "y"))
        return stored["X"] / 255.0, stored["y"], "Scaled from the original 112x92 pixels by area means."
    from sklearn.datasets import fetch_olivetti_faces

    home = None if data_home is None else str(data_home)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about the retry; the error below says what went wrong
            faces = fetch_olivetti_faces(data_home=home, n_retries=1)
    except OSError as error:
        raise unavailable(relative, "scikit-learn's Olivetti faces", data_home, error) from error
    return faces.images, faces.target + 1, "From scikit-learn's Olivetti faces, which are cropped and scaled to 64x64."


def _area_means(length: int, size: int) -> Array:
    """Return the (size, length) matrix that averages pixels over the area covered by each new pixel."""
    edges = np.linspace(0, length, size + 1)
    pixel = np.arange(length)
    covered = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    weights = np.clip(covered, 0, None)
    return weights / weights.sum(axis=1, keepdims=True)


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
    content = of_parts(read_arrays(path), ("train", "val", "test"), "{}_images", "{}_labels")
    content["target"] = content["target"].ravel().astype(int)
    return described("adrenal", None, {"size": size}, **content)


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
        "indian_pines",
        {**_PIXELS, "band": None},
        {"size": patch, "tile": _TILE},
        data=scene.data,
        target=scene.target.astype(int),
        positions=scene.positions,
        groups=scene.groups,
    )


def _indian_pines_scene(data_home: str | Path | None) -> tuple[Array, Array]:
    path = found("indian_pines/indian_pines_145x145x200.npz", data_home)
    if path is not None:
        stored = read_arrays(path, ("cube", "gt"))
        return stored["cube"], stored["gt"]
    from tensorly.datasets import load_indian_pines as load_scene

    scene = load_scene()
    return np.asarray(scene.tensor).astype(np.uint16), np.asarray(scene.ticks[0])
