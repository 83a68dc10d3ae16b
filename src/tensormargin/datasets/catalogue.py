"""The data sets by name: loaded, or exported to files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
from sklearn.utils import Bunch

from ..io import replacing
from ._store import found
from .brain import load_eeg, load_haxby_slice
from .builtin import load_digits_tensor
from .images import fetch_mnist, fetch_orl
from .sensors import load_adrenal, load_basic_motions, load_indian_pines


@dataclass(frozen=True)
class Entry:
    """One data set.

    Attributes
    ----------
    what : str
        Samples and classes, in words.
    source : str
        Authors and origin.
    load : callable
        Returns a Bunch with ``data``, ``target`` and optionally ``groups``.
    files : tuple of str
        Paths relative to TENSORMARGIN_DATA or the cache; empty for data that come with this package or its
        dependencies.
    """

    what: str
    source: str
    load: Callable[[], Bunch]
    files: tuple[str, ...] = ()


CATALOGUE: Mapping[str, Entry] = MappingProxyType(
    {
        "digits": Entry("1,797 digits, 8 x 8, 10 classes", "scikit-learn", load_digits_tensor),
        "mnist": Entry(
            "70,000 digits, 28 x 28, 10 classes",
            "LeCun et al.; two mirrors",
            partial(fetch_mnist, "all"),
            tuple(f"mnist/{part}-ubyte.gz" for part in ("train-images-idx3", "t10k-images-idx3")),
        ),
        "orl": Entry(
            "400 faces, 112 x 92, 40 people", "AT&T Laboratories", fetch_orl, ("orl_faces/orl_faces_112x92.npz",)
        ),
        "haxby": Entry(
            "864 fMRI slices, 40 x 20, 8 categories, 12 runs",
            "Haxby et al. 2001; PyMVPA",
            load_haxby_slice,
            ("haxby_slice/haxby2001_sub001_slice_40x20.npz",),
        ),
        "eeg": Entry(
            "61 recordings, 64 electrodes x 64 times, 2 classes",
            "Zhang et al. 1995; R package TRES",
            load_eeg,
            ("eeg_alcoholism/eeg_alcoholism_61x64x64.npz",),
        ),
        "adrenal": Entry(
            "1,584 CT volumes, 28 x 28 x 28, 2 classes",
            "MedMNIST v2; Zenodo",
            load_adrenal,
            ("adrenalmnist3d/adrenalmnist3d.npz",),
        ),
        "basic-motions": Entry(
            "80 recordings, 6 channels x 100 times, 4 activities",
            "UEA archive; built in",
            load_basic_motions,
        ),
        "indian-pines": Entry(
            "10,249 patches, 5 x 5 x 200 bands, 16 classes, squares of the scene as groups",
            "Baumgardner et al. 2015; TensorLy",
            load_indian_pines,
        ),
    }
)
"""Data sets that `load_by_name` returns, `export` writes and ``tensormargin data`` lists."""


def is_at_hand(entry: Entry) -> bool:
    """Return whether a data set can be loaded without network access."""
    return all(found(file) is not None for file in entry.files)


def load_by_name(name: str) -> Bunch:
    """Return a data set of the catalogue, with ``data``, ``target`` and optionally ``groups``."""
    if name not in CATALOGUE:
        raise ValueError(f"unknown data set {name!r}; the data sets are {', '.join(CATALOGUE)}")
    return CATALOGUE[name].load()


def export(name: str, path: str | Path) -> tuple[int, ...]:
    """Write a data set as an .npz file with the arrays X, y and optionally groups; return the shape of X."""
    bunch = load_by_name(name)
    arrays = {"X": bunch.data, "y": bunch.target}
    if bunch.get("groups") is not None:
        arrays["groups"] = bunch.groups
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    return tuple(bunch.data.shape)
