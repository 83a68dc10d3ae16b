"""MNIST digits and ORL faces, the image data of the paper."""

from __future__ import annotations

import gzip
import warnings
import zlib
from math import prod
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from ..io import BadFileError, read_arrays
from ..runtime import Array
from ._store import described, download, found, obtain, unavailable

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

_MNIST_DESCR = """MNIST: 70,000 handwritten digits, 28x28 grey values from 0 to 255.

The first 60,000 are the training set, the last 10,000 the test set, in their original order.
LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition. Proceedings of the IEEE 86(11),
1998. Licence CC BY-SA 3.0.
"""

_ORL_DESCR = """ORL (AT&T) faces: 40 people, 10 grey images each, values in [0, 1], {size}x{size} pixels.

{origin}
Samaria, Harter: Parameterisation of a stochastic model for human face identification. IEEE Workshop on Applications of
Computer Vision, 1994. Credit: Olivetti Research Laboratory. Images of identifiable people: for research only.
"""


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
        Bunch(
            data=images[0] if len(images) == 1 else np.concatenate(images),
            target=labels[0] if len(labels) == 1 else np.concatenate(labels),
            n_train=0 if subset == "test" else len(labels[0]),
            DESCR=_MNIST_DESCR,
        ),
        ["row", "column"],
    )


def _read_idx(name: str, data_home: str | Path | None) -> Array:
    """Return the array of an MNIST file.

    Format: two zero bytes, type (8: uint8), order, sizes as big-endian int32, values.
    """
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
    return described(
        Bunch(data=small.astype(np.float32), target=people, DESCR=_ORL_DESCR.format(size=size, origin=origin)),
        ["row", "column"],
    )


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
