"""The data sets by name: loaded, or exported to files."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
from sklearn.utils import Bunch

from ..io import MARK, replacing
from . import brain, images, measurements
from ._store import FOLDER, found


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
    kind : str
        Kind of the samples, as ``tensormargin fit --kind`` takes it.
    sfreq : float or None
        Sampling frequency in Hz along the last mode, where it is known.

    Examples
    --------
    >>> from tensormargin.datasets import CATALOGUE
    >>> entry = CATALOGUE["digits"]
    >>> entry.what, entry.kind
    ('1,797 digits, 8 x 8, 10 classes', 'image')
    >>> entry.load().data.shape
    (1797, 8, 8)
    """

    what: str
    source: str
    load: Callable[[], Bunch]
    files: tuple[str, ...] = ()
    kind: str = "plain"
    sfreq: float | None = None


_LOADERS: Mapping[str, Callable[..., Bunch]] = {
    "digits": images.load_digits_tensor,
    "mnist": images.fetch_mnist,
    "orl": images.fetch_orl,
    "haxby": brain.load_haxby_slice,
    "eeg": brain.load_eeg,
    "adrenal": images.load_adrenal,
    "basic-motions": measurements.load_basic_motions,
    "indian-pines": images.load_indian_pines,
    "epilepsy": measurements.load_epilepsy,
    "ering": measurements.load_ering,
    "libras": measurements.load_libras,
    **{
        f"robot-failures-{problem}": partial(measurements.load_robot_failures, problem)
        for problem in measurements.PROBLEMS
    },
    "precog-actions": measurements.load_precog_actions,
    "muse-ssvep": brain.load_muse_ssvep,
    "eem-olive-oil": measurements.load_eem_olive_oil,
    "modis-matogrosso": measurements.load_modis_matogrosso,
    "pmd-posture": measurements.load_pmd_posture,
    "ifnb-ms": measurements.load_ifnb_ms,
    "schizo-fnc": partial(brain.load_schizo_fnc, view="connectivity"),
}


def _catalogue() -> Iterator[tuple[str, Entry]]:
    """Yield the names and entries of the table descr/catalogue.txt."""
    for line in (FOLDER / "descr" / "catalogue.txt").read_text("utf-8").splitlines()[1:]:
        name, kind, sfreq, what, source, files = (cell.strip() for cell in line.split("|"))
        rate = float(sfreq) if sfreq else None
        yield name, Entry(what, source, _LOADERS[name], tuple(files.split()), kind, rate)


CATALOGUE: Mapping[str, Entry] = MappingProxyType(dict(_catalogue()))
"""Data sets that `load_by_name` returns, `export` writes and ``tensormargin data`` lists."""


def is_at_hand(entry: Entry) -> bool:
    """Return whether a data set can be loaded without network access.

    Examples
    --------
    >>> from tensormargin.datasets import CATALOGUE, is_at_hand
    >>> is_at_hand(CATALOGUE["digits"])
    True
    """
    return all(found(file) is not None for file in entry.files)


def load_by_name(name: str) -> Bunch:
    """Return a data set of the catalogue, with ``data``, ``target`` and optionally ``groups``.

    Examples
    --------
    >>> from tensormargin.datasets import load_by_name
    >>> load_by_name("basic-motions").data.shape
    (80, 6, 100)
    """
    if name not in CATALOGUE:
        raise ValueError(f"unknown data set {name!r}; the data sets are {', '.join(CATALOGUE)}")
    return CATALOGUE[name].load()


def export(name: str, path: str | Path) -> tuple[int, ...]:
    """Write a data set as an .npz file with the arrays X, y and optionally groups; return the shape of X.

    Examples
    --------
    >>> import tempfile
    >>> from tensormargin.datasets import export
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export("basic-motions", f"{folder}/motions.npz")
    (80, 6, 100)
    """
    bunch = load_by_name(name)
    arrays = {"X": bunch.data, "y": bunch.target}
    if bunch.get("groups") is not None:
        arrays["groups"] = bunch.groups
    with replacing(path) as temporary:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)
        with zipfile.ZipFile(temporary, "a") as archive:
            archive.comment = MARK
    return tuple(bunch.data.shape)
