"""Recordings and measurements: the UEA archive, robots, skeletons, spectra, satellites, pressure and genes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from ..io import BadFileError, read_arrays
from ..runtime import Array, warn_of_old_name
from . import _store

_OLIVE = _store.github(
    "LQBQ/Second-order-algorithms-", ("36978ebccfbf7826bdd753538df7c86e7f268ba0", "main"), "Samples/eem_data.mat"
)
_OLIVE_DIGEST = "14afcd7b50abe9877377b4a579f080c66158aa13cf330b09e070f213be5a455c"
_IFNB = _store.github(
    "lockEF/MultiwayClassification", ("e2a2efec15c8273582df2da6857c57db6b90556d", "master"), "data/IFNB_Data.rda"
)
_IFNB_DIGEST = "058940022a7b96f9c85bdf55f0d3946d80692105d24ff2aae4a3a532a6664891"

_POSTURE_FRAMES = {
    False: "Four frames of each of the 221 recordings; ``recording`` says of which.",
    True: "The mean of each of the 221 recordings.",
}
_PARTS = ("train", "test")
_BASIC_MOTIONS = _store.FOLDER / "data" / "basic_motions_6x100.npz"
_UEA = _store.github("mat-analysis/datasets", ("f50572553419e667e0bd89173a3e9cbe5b32a99d", "main"), "mts/")
_UEA_DIGESTS = {
    "Epilepsy": "a80d7a174c3d2ca2b6d3b9d2a789e09fe91a643c8b43c21d80f4f2b88b8c26af",
    "ERing": "6ec4b3613141af3a489e0c71ebae98b55a2fd0d77a0dc954c652b771639232ee",
    "Libras": "72bb39fef9d6736b46b5e89e0b453757a342c9e2f9d7801f56bf956b7f4524fb",
}
_ROBOT = _store.github("chutasano/machinelearning", ("298b9d7f1ea15bc537686e609f0dbba851b4073f", "master"), "data/")
_ROBOT_DIGEST = "1c109ddc1f40f25ba7fc89fa86b8ab1f0c1b14c2a498e481685b53f14f7b6dc0"
_ROBOT_CHANNELS = ("Fx", "Fy", "Fz", "Tx", "Ty", "Tz")
_ROBOT_TIMES = 15
PROBLEMS: Mapping[str, str] = MappingProxyType(
    {
        "lp1": "failures in the approach to a grasp",
        "lp2": "failures in the transfer of a part",
        "lp3": "position of the part after a failed transfer",
        "lp4": "failures in the approach to an ungrasp",
        "lp5": "failures in motion with a part",
    }
)


@_store.plain_loader
def load_eem_olive_oil(data_home: str | Path | None = None) -> Bunch:
    """Return fluorescence of 80 olive oils, 13 excitation x 501 emission wavelengths, pure or adulterated.

    ``data`` of shape (80, 13, 501) (float32), ``target`` ("pure", "adulterated"), ``groups`` (brands 0 to 3),
    ``excitation_nm``, ``emission_nm``, ``DESCR``.
    """
    path = _store.obtain("eem_olive_oil/eem_olive_oil.npz", _fetch_olive_oil, data_home, "its authors' file")
    stored = read_arrays(path, ("X", "y", "groups", "class_names", "excitation_nm", "emission_nm"))
    modes = {"excitation[nm]": stored["excitation_nm"], "emission[nm]": stored["emission_nm"]}
    return _store.described(
        "eem_olive_oil", modes, **_store.of_classes(stored, "groups", "excitation_nm", "emission_nm")
    )


def _fetch_olive_oil(path: Path) -> None:
    """Download the authors' cube; it has the adulterated oils first, each half sorted by brand, ten oils each."""
    with _store.downloaded(_OLIVE) as original:
        cube = read_arrays(original, ["cube"])["cube"]
    brands = np.repeat(np.arange(4), 10)
    arrays: dict[str, Array] = {
        "X": np.ascontiguousarray(cube.swapaxes(1, 2), np.float32),
        "y": np.repeat([1, 0], 40),
        "groups": np.concatenate([brands, brands]),
        "class_names": np.array(["pure", "adulterated"]),
        "excitation_nm": np.arange(310, 431, 10).astype(np.float32),
        "emission_nm": np.arange(300, 801).astype(np.float32),
    }
    _store.save_checked(path, arrays, _OLIVE_DIGEST)


@_store.plain_loader
def load_modis_matogrosso(data_home: str | Path | None = None) -> Bunch:
    """Return satellite image series of land use in Mato Grosso, 6 bands x 23 dates, nine classes.

    The file has to be put into the folder of TENSORMARGIN_DATA: the R package that has the samples stores them as
    nested tables. The classes "Forest" and "Soy_Fallow" are in one square each.

    ``data`` of shape (2115, 6, 23) (float32), ``target`` (names of the classes), ``groups`` (squares of half a
    degree), ``longitude``, ``latitude``, ``band_names``, ``DESCR``.
    """
    fetch = _store.by_hand("its samples are nested tables of the R package sits, github.com/e-sensing/sits at 8da5e1a9")
    stored = read_arrays(_store.obtain("modis_matogrosso/modis_matogrosso.npz", fetch, data_home))
    modes = {"band": stored["band_names"], "time[days]": stored["date_offset_days"]}
    return _store.described(
        "modis_matogrosso", modes, **_store.of_classes(stored, "groups", "longitude", "latitude", "band_names")
    )


def load_pmd_posture(classes: int = 3, means: bool = False, data_home: str | Path | None = None) -> Bunch:
    """Return pressure maps of 13 people in bed, 64 x 32 sensors, three or 17 postures.

    The file has to be put into the folder of TENSORMARGIN_DATA: it is made of 221 recordings.

    Parameters
    ----------
    classes : {3, 17}, default=3
        Supine, right or left, or all 17 postures.
    means : bool, default=False
        Whether to return the mean of each of the 221 recordings instead of four of its frames.
    data_home : str or Path, optional
        Cache directory.

    Returns
    -------
    Bunch
        ``data`` of shape (884, 64, 32), or (221, 64, 32) with ``means`` (float32), ``target`` (names of the postures),
        ``groups`` (people 1 to 13), ``recording``, ``DESCR``.

    Examples
    --------
    >>> from tensormargin.datasets import load_pmd_posture
    >>> load_pmd_posture(means=True).data.shape
    (221, 64, 32)
    """
    if classes not in (3, 17):
        raise ValueError(f"classes must be 3 or 17; got {classes}")
    fetch = _store.by_hand("it is made of 221 recordings of PhysioNet's pmd 1.0.0, physionet.org/content/pmd/1.0.0")
    stored = read_arrays(_store.obtain("pmd_posture/pmd_posture.npz", fetch, data_home))
    which, suffix = ("17" if classes == 17 else "", "_mean" if means else "")
    names = {"X": f"X{suffix}", "y": f"y{which}{suffix}", "class_names": f"class_names{which}"}
    content = _store.of_classes({part: stored[name] for part, name in names.items()})
    return _store.described(
        "pmd_posture",
        {"row": None, "column": None},
        {"classes": classes, "frames": _POSTURE_FRAMES[means]},
        **content,
        groups=stored[f"groups{suffix}"],
        recording=np.arange(len(content["data"])) if means else stored["recording"],
    )


@_store.plain_loader
def load_ifnb_ms(data_home: str | Path | None = None) -> Bunch:
    """Return gene expression of 53 patients with multiple sclerosis under interferon beta, 76 genes x 7 visits.

    ``data`` of shape (53, 76, 7) (float32), ``target`` ("poor_responder", "good_responder"), ``observed`` of shape
    (53, 7) (False for a missing visit, whose entries are zero), ``time_months``, ``DESCR``.
    """
    path = _store.obtain("ifnb_ms/ifnb_ms.npz", _fetch_ifnb, data_home, "MultiwayClassification's copy")
    stored = read_arrays(path)
    modes = {"gene": None, "time[months]": stored["time_months"]}
    return _store.described("ifnb_ms", modes, **_store.of_classes(stored, "observed", "time_months"))


def _fetch_ifnb(path: Path) -> None:
    """Download the patients x visits x genes of the R package; class 2 are the good responders."""
    study = _store.downloaded_r(_IFNB)
    visits, labels = np.asarray(study["DataArray"]), np.asarray(study["Class"]).ravel()
    arrays: dict[str, Array] = {
        "X": np.ascontiguousarray(visits.swapaxes(1, 2), np.float32),
        "y": (labels.astype(int) == 2).astype(np.int64),
        "class_names": np.array(["poor_responder", "good_responder"]),
        "time_months": np.array([0, 3, 6, 9, 12, 18, 24], np.float32),
        "observed": np.any(visits != 0, axis=2),
    }
    _store.save_checked(path, arrays, _IFNB_DIGEST)


def load_basic_motions(data_home: str | Path | None = None) -> Bunch:
    """Return BasicMotions: 80 recordings of 6 channels x 100 time points, four activities.

    The data come with this package and need no download. They are from the UEA archive (Bagnall et al.: The UEA
    multivariate time series classification archive, 2018, arXiv:1811.00075), in the copy of the package aeon.

    Parameters
    ----------
    data_home : None
        Ignored, with a warning if it is given; it will be gone in 0.3.

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
    if data_home is not None:
        warn_of_old_name("load_basic_motions(data_home=...)", "load_basic_motions()")
    content = _store.of_parts(read_arrays(_BASIC_MOTIONS), _PARTS, "X_{}", "y_{}")
    channels = [f"{sensor} {axis}" for sensor in ("accelerometer", "gyroscope") for axis in (1, 2, 3)]
    return _store.described("basic_motions", {"channel": channels, "time": None}, **content)


@_store.plain_loader
def load_epilepsy(data_home: str | Path | None = None) -> Bunch:
    """Return Epilepsy: 275 accelerometer recordings of 3 axes x 206 time points, four activities.

    Phases are not aligned: raw entries say little about the class, band power and convolutions say more.

    ``data`` of shape (275, 3, 206) (float32), ``target`` (names of the activities), ``split`` ("train" for 137
    samples, then "test"; other people), ``sfreq``, ``DESCR``.
    """
    content, sfreq = _uea("Epilepsy", data_home), 16.0
    times = np.arange(content["data"].shape[2]) / sfreq
    return _store.described("epilepsy", {"channel": None, "time[s]": times}, **content, sfreq=sfreq)


@_store.plain_loader
def load_ering(data_home: str | Path | None = None) -> Bunch:
    """Return ERing: 300 finger postures, 4 electrodes x 65 time points, six classes.

    ``data`` of shape (300, 4, 65) (float32), ``target`` (1 to 6), ``split`` ("train" for 30 samples, then "test"),
    ``DESCR``.
    """
    return _store.described("ering", {"electrode": None, "time": None}, **_uea("ERing", data_home))


@_store.plain_loader
def load_libras(data_home: str | Path | None = None) -> Bunch:
    """Return Libras: 360 hand movements, 2 coordinates x 45 video frames, 15 classes.

    Samples are repeated, 19 of them on both sides of the published split.

    ``data`` of shape (360, 2, 45) (float32), ``target`` (1 to 15), ``split`` ("train" for 180 samples, then
    "test"), ``DESCR``.
    """
    return _store.described("libras", {"coordinate": ["x", "y"], "frame": None}, **_uea("Libras", data_home))


def _uea(name: str, data_home: str | Path | None) -> dict[str, Any]:
    """Return the samples, labels and published split of a data set of the UEA archive."""
    relative = f"{name.lower()}/{name.lower()}.npz"
    path = _store.obtain(relative, lambda path: _fetch_uea(name, path), data_home, "the copy of the UEA archive")
    stored = read_arrays(path, ("X_train", "y_train", "X_test", "y_test", "class_names"))
    parts = _store.of_parts(stored, _PARTS, "X_{}", "y_{}")
    classes = _store.of_classes({"X": parts["data"], "y": parts["target"], "class_names": stored["class_names"]})
    return {**parts, **classes}


def _fetch_uea(name: str, path: Path) -> None:
    """Download both parts of a data set and write them as an .npz file."""
    arrays: dict[str, Array] = {}
    for part in _PARTS:
        with _store.downloaded([f"{folder}{name}/{name}_{part.upper()}.ts" for folder in _UEA]) as original:
            arrays[f"X_{part}"], labels, names = read_ts(original)
        arrays[f"y_{part}"] = np.array([names.index(label) for label in labels], np.int64)
        arrays["class_names"] = np.array(names)
    _store.save_checked(path, arrays, _UEA_DIGESTS[name])


def read_ts(path: Path) -> tuple[Array, list[str], list[str]]:
    """Return the samples (float32), labels and class names of a .ts file with series of equal length.

    The header has a line "@classLabel true NAME NAME ...". After "@data" there is one line per sample, with its
    channels separated by colons, their values by commas, and the label at the end.
    """
    header, mark, body = path.read_text(encoding="utf-8").partition("@data")
    names = next((line.split()[2:] for line in header.splitlines() if line.lower().startswith("@classlabel true")), [])
    if not mark or not names:
        raise BadFileError(f"{path}: not a .ts file with class labels")
    rows = [line.strip().split(":") for line in body.splitlines() if line.strip()]
    series = [[np.array(channel.split(","), np.float64) for channel in row[:-1]] for row in rows]
    return np.array(series, np.float32), [row[-1] for row in rows], names


def load_robot_failures(problem: str = "lp1", data_home: str | Path | None = None) -> Bunch:
    """Return forces and torques after failures of a robot, 6 channels x 15 time points, three to five classes.

    The problems overlap: LP2 and LP3 are the same recordings, and LP5 contains nearly all of LP2 and LP4.

    Parameters
    ----------
    problem : {"lp1", "lp2", "lp3", "lp4", "lp5"}, default="lp1"
        Approach to a grasp (88 samples), transfer of a part (47), position of the part after a failed transfer (47),
        approach to an ungrasp (117), motion with a part (164).
    data_home : str or Path, optional
        Cache directory.

    Returns
    -------
    Bunch
        ``data`` of shape (n, 6, 15) (float32), ``target`` (names of the failures), ``sfreq``, ``channel_names``,
        ``DESCR``.

    Examples
    --------
    >>> from tensormargin.datasets import load_robot_failures
    >>> load_robot_failures("lp4").data.shape
    (117, 6, 15)
    """
    if problem not in PROBLEMS:
        raise ValueError(f"problem must be one of {', '.join(map(repr, PROBLEMS))}; got {problem!r}")
    path = _store.obtain(
        "robot_failures/robot_failures.npz", _fetch_robot_failures, data_home, "the copy of UCI's files"
    )
    parts = ("X", "y", "class_names")
    stored = read_arrays(path, [*(f"{part}_{problem}" for part in parts), "channel_names"])
    content = _store.of_classes({part: stored[f"{part}_{problem}"] for part in parts})
    channels, times = stored["channel_names"], 315 / _ROBOT_TIMES * np.arange(_ROBOT_TIMES)
    return _store.described(
        "robot_failures",
        {"channel": channels, "time[ms]": times},
        {"name": problem.upper(), "what": PROBLEMS[problem]},
        **content,
        sfreq=_ROBOT_TIMES / 0.315,
        channel_names=channels,
    )


def _fetch_robot_failures(path: Path) -> None:
    """Download the five problems and write them as one .npz file."""
    arrays: dict[str, Array] = {"channel_names": np.array(_ROBOT_CHANNELS)}
    for problem in PROBLEMS:
        with _store.downloaded([f"{folder}{problem}.data" for folder in _ROBOT]) as original:
            samples, labels = read_robot_failures(original)
        names, codes = np.unique(labels, return_inverse=True)
        arrays |= {f"X_{problem}": samples, f"y_{problem}": codes.astype(np.int64), f"class_names_{problem}": names}
    _store.save_checked(path, arrays, _ROBOT_DIGEST)


def read_robot_failures(path: Path) -> tuple[Array, Array]:
    """Return the samples, channels x time (float32), and labels of one file: a line with the label, then 15 lines."""
    words = path.read_text(encoding="utf-8").split()
    size = _ROBOT_TIMES * len(_ROBOT_CHANNELS)
    if not words or len(words) % (1 + size):
        raise BadFileError(f"{path}: expected a label and {size} numbers per sample; got {len(words)} words in all")
    rows = np.array(words).reshape(-1, 1 + size)
    series = rows[:, 1:].astype(np.float32).reshape(len(rows), _ROBOT_TIMES, len(_ROBOT_CHANNELS))
    return np.ascontiguousarray(series.swapaxes(1, 2)), rows[:, 0]


@_store.plain_loader
def load_precog_actions(data_home: str | Path | None = None) -> Bunch:
    """Return PRECOG 2016: 350 actions of 12 people as skeletons, 20 joints x 3 coordinates x 32 frames, 8 classes.

    The samples are cut out of recordings and resampled; the file has to be put into the folder of TENSORMARGIN_DATA.

    ``data`` of shape (350, 20, 3, 32) (float32), ``target`` (names of the actions), ``groups`` (people 1 to 12),
    ``sequence``, ``position`` and ``n_frames`` (before resampling) per sample, ``joint_names``, ``DESCR``.
    """
    fetch = _store.by_hand("its samples are cut out of 72 recordings, github.com/DavidJardim/precog_dataset_16")
    stored = read_arrays(_store.obtain("precog_actions/precog_actions.npz", fetch, data_home))
    kept = ("groups", "sequence", "position", "n_frames", "joint_names")
    modes = {"joint": stored["joint_names"], "coordinate": ["x", "y", "z"], "frame": None}
    return _store.described("precog_actions", modes, **_store.of_classes(stored, *kept))
