"""The data sets by name: loaded, or exported to files."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
from sklearn.utils import Bunch

from ..io import MARK, replacing
from ._store import found
from .brain import load_eeg, load_haxby_slice, load_muse_ssvep, load_schizo_fnc
from .builtin import load_digits_tensor
from .images import fetch_mnist, fetch_orl
from .measurements import load_eem_olive_oil, load_ifnb_ms, load_modis_matogrosso, load_pmd_posture
from .sensors import load_adrenal, load_basic_motions, load_indian_pines
from .series import load_epilepsy, load_ering, load_libras, load_precog_actions, load_robot_failures


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


CATALOGUE: Mapping[str, Entry] = MappingProxyType(
    {
        "digits": Entry("1,797 digits, 8 x 8, 10 classes", "scikit-learn", load_digits_tensor, kind="image"),
        "mnist": Entry(
            "70,000 digits, 28 x 28, 10 classes",
            "LeCun et al.; two mirrors",
            partial(fetch_mnist, "all"),
            tuple(f"mnist/{part}-ubyte.gz" for part in ("train-images-idx3", "t10k-images-idx3")),
            kind="image",
        ),
        "orl": Entry(
            "400 faces, 112 x 92, 40 people",
            "AT&T Laboratories",
            fetch_orl,
            ("orl_faces/orl_faces_112x92.npz",),
            kind="image",
        ),
        "haxby": Entry(
            "864 fMRI slices, 40 x 20, 8 categories, 12 runs",
            "Haxby et al. 2001; PyMVPA",
            load_haxby_slice,
            ("haxby_slice/haxby2001_sub001_slice_40x20.npz",),
            kind="volume",
        ),
        "eeg": Entry(
            "61 recordings, 64 electrodes x 64 times, 2 classes",
            "Zhang et al. 1995; R package TRES",
            load_eeg,
            ("eeg_alcoholism/eeg_alcoholism_61x64x64.npz",),
            kind="eeg",
            sfreq=64.0,
        ),
        "adrenal": Entry(
            "1,584 CT volumes, 28 x 28 x 28, 2 classes",
            "MedMNIST v2; Zenodo",
            load_adrenal,
            ("adrenalmnist3d/adrenalmnist3d.npz",),
            kind="volume",
        ),
        "basic-motions": Entry(
            "80 recordings, 6 channels x 100 times, 4 activities",
            "UEA archive; built in",
            load_basic_motions,
            kind="series",
        ),
        "indian-pines": Entry(
            "10,249 patches, 5 x 5 x 200 bands, 16 classes, squares of the scene as groups",
            "Baumgardner et al. 2015; TensorLy",
            load_indian_pines,
            kind="spectra",
        ),
        "epilepsy": Entry(
            "275 recordings, 3 axes x 206 times, 4 activities",
            "UEA archive",
            load_epilepsy,
            ("epilepsy/epilepsy.npz",),
            kind="series",
            sfreq=16.0,
        ),
        "ering": Entry(
            "300 recordings, 4 electrodes x 65 times, 6 postures",
            "UEA archive",
            load_ering,
            ("ering/ering.npz",),
            kind="series",
        ),
        "libras": Entry(
            "360 hand movements, 2 coordinates x 45 frames, 15 classes, some twice",
            "UEA archive",
            load_libras,
            ("libras/libras.npz",),
            kind="series",
        ),
        **{
            f"robot-failures-{problem}": Entry(
                f"{samples} recordings, 6 forces and torques x 15 times, {classes} classes{note}",
                "Seabra Lopes, Camarinha-Matos 1998; UCI",
                partial(load_robot_failures, problem),
                ("robot_failures/robot_failures.npz",),
                kind="series",
                sfreq=47.6,
            )
            for problem, samples, classes, note in (
                ("lp1", 88, 4, ""),
                ("lp2", 47, 5, ""),
                ("lp3", 47, 4, " (the recordings of LP2)"),
                ("lp4", 117, 3, ""),
                ("lp5", 164, 5, " (nearly all of LP2 and LP4)"),
            )
        },
        "precog-actions": Entry(
            "350 actions, 20 joints x 3 coordinates x 32 frames, 8 classes, 12 people",
            "Jardim 2016; by hand",
            load_precog_actions,
            ("precog_actions/precog_actions.npz",),
            kind="series",
        ),
        "muse-ssvep": Entry(
            "257 EEG trials, 5 channels x 768 times, 2 frequencies, 8 recordings",
            "Barachant et al.; by hand",
            load_muse_ssvep,
            ("muse_ssvep/muse_ssvep.npz",),
            kind="eeg",
            sfreq=256.0,
        ),
        "eem-olive-oil": Entry(
            "80 oils, 13 excitation x 501 emission wavelengths, 2 classes, 4 brands",
            "Alves et al. 2025",
            load_eem_olive_oil,
            ("eem_olive_oil/eem_olive_oil.npz",),
            kind="spectra",
        ),
        "modis-matogrosso": Entry(
            "2,115 places, 6 bands x 23 dates, 9 classes of land use, squares of half a degree as groups",
            "Picoli et al. 2018; by hand",
            load_modis_matogrosso,
            ("modis_matogrosso/modis_matogrosso.npz",),
            kind="series",
        ),
        "pmd-posture": Entry(
            "884 pressure maps, 64 x 32, 3 postures, 13 people",
            "Pouyan et al. 2017; by hand",
            load_pmd_posture,
            ("pmd_posture/pmd_posture.npz",),
            kind="image",
        ),
        "ifnb-ms": Entry(
            "53 patients, 76 genes x 7 visits, 2 classes",
            "Baranzini et al. 2005; R package MultiwayClassification",
            load_ifnb_ms,
            ("ifnb_ms/ifnb_ms.npz",),
            kind="plain",
        ),
        "schizo-fnc": Entry(
            "86 people, 28 x 28 connectivity, 2 classes (load_schizo_fnc has a second view)",
            "Silva et al. 2014; by hand",
            partial(load_schizo_fnc, view="connectivity"),
            ("schizo_fnc/schizo_fnc.npz",),
            kind="connectome",
        ),
    }
)
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
