"""Measurements with two modes: fluorescence spectra, satellite images, pressure maps and gene expression."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from ..io import read_arrays
from ..runtime import Array
from ._store import by_hand, described, downloaded, downloaded_r, obtain, of_classes, save_checked

_OLIVE = tuple(
    f"https://raw.githubusercontent.com/LQBQ/Second-order-algorithms-/{version}/Samples/eem_data.mat"
    for version in ("36978ebccfbf7826bdd753538df7c86e7f268ba0", "main")
)
_OLIVE_DIGEST = "14afcd7b50abe9877377b4a579f080c66158aa13cf330b09e070f213be5a455c"
_IFNB = tuple(
    f"https://raw.githubusercontent.com/lockEF/MultiwayClassification/{version}/data/IFNB_Data.rda"
    for version in ("e2a2efec15c8273582df2da6857c57db6b90556d", "master")
)
_IFNB_DIGEST = "058940022a7b96f9c85bdf55f0d3946d80692105d24ff2aae4a3a532a6664891"

_POSTURE_FRAMES = {
    False: "Four frames of each of the 221 recordings; ``recording`` says of which.",
    True: "The mean of each of the 221 recordings.",
}


def load_eem_olive_oil(data_home: str | Path | None = None) -> Bunch:
    """Return fluorescence of 80 olive oils, 13 excitation x 501 emission wavelengths, pure or adulterated.

    Parameters
    ----------
    data_home : str or Path, optional
        Cache directory.

    Returns
    -------
    Bunch
        ``data`` of shape (80, 13, 501) (float32), ``target`` ("pure", "adulterated"), ``groups`` (brands 0 to 3),
        ``excitation_nm``, ``emission_nm``, ``DESCR``.

    Examples
    --------
    >>> from tensormargin.datasets import load_eem_olive_oil
    >>> oils = load_eem_olive_oil()
    >>> oils.data.shape, len(oils.emission_nm)
    ((80, 13, 501), 501)
    """
    path = obtain("eem_olive_oil/eem_olive_oil.npz", _fetch_olive_oil, data_home, "its authors' file")
    stored = read_arrays(path, ("X", "y", "groups", "class_names", "excitation_nm", "emission_nm"))
    modes = {"excitation[nm]": stored["excitation_nm"], "emission[nm]": stored["emission_nm"]}
    return described("eem_olive_oil", modes, **of_classes(stored, "groups", "excitation_nm", "emission_nm"))


def _fetch_olive_oil(path: Path) -> None:
    """Download the authors' cube; it has the adulterated oils first, each half sorted by brand, ten oils each."""
    with downloaded(_OLIVE) as original:
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
    save_checked(path, arrays, _OLIVE_DIGEST)


def load_modis_matogrosso(data_home: str | Path | None = None) -> Bunch:
    """Return satellite image series of land use in Mato Grosso, 6 bands x 23 dates, nine classes.

    The file has to be put into the folder of TENSORMARGIN_DATA: the R package that has the samples stores them as
    nested tables. The classes "Forest" and "Soy_Fallow" are in one square each.

    Parameters
    ----------
    data_home : str or Path, optional
        Cache directory.

    Returns
    -------
    Bunch
        ``data`` of shape (2115, 6, 23) (float32), ``target`` (names of the classes), ``groups`` (squares of half a
        degree), ``longitude``, ``latitude``, ``band_names``, ``DESCR``.

    Examples
    --------
    >>> from tensormargin.datasets import load_modis_matogrosso
    >>> load_modis_matogrosso().data.shape
    (2115, 6, 23)
    """
    fetch = by_hand("its samples are nested tables of the R package sits, github.com/e-sensing/sits at 8da5e1a9")
    stored = read_arrays(obtain("modis_matogrosso/modis_matogrosso.npz", fetch, data_home))
    modes = {"band": stored["band_names"], "time[days]": stored["date_offset_days"]}
    return described("modis_matogrosso", modes, **of_classes(stored, "groups", "longitude", "latitude", "band_names"))


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
    fetch = by_hand("it is made of 221 recordings of PhysioNet's pmd 1.0.0, physionet.org/content/pmd/1.0.0")
    stored = read_arrays(obtain("pmd_posture/pmd_posture.npz", fetch, data_home))
    which, suffix = ("17" if classes == 17 else "", "_mean" if means else "")
    names = {"X": f"X{suffix}", "y": f"y{which}{suffix}", "class_names": f"class_names{which}"}
    content = of_classes({part: stored[name] for part, name in names.items()})
    return described(
        "pmd_posture",
        {"row": None, "column": None},
        {"classes": classes, "frames": _POSTURE_FRAMES[means]},
        **content,
        groups=stored[f"groups{suffix}"],
        recording=np.arange(len(content["data"])) if means else stored["recording"],
    )


def load_ifnb_ms(data_home: str | Path | None = None) -> Bunch:
    """Return gene expression of 53 patients with multiple sclerosis under interferon beta, 76 genes x 7 visits.

    Parameters
    ----------
    data_home : str or Path, optional
        Cache directory.

    Returns
    -------
    Bunch
        ``data`` of shape (53, 76, 7) (float32), ``target`` ("poor_responder", "good_responder"), ``observed`` of shape
        (53, 7) (False for a missing visit, whose entries are zero), ``time_months``, ``DESCR``.

    Examples
    --------
    >>> from tensormargin.datasets import load_ifnb_ms
    >>> ifnb = load_ifnb_ms()
    >>> ifnb.data.shape, ifnb.observed.shape
    ((53, 76, 7), (53, 7))
    """
    path = obtain("ifnb_ms/ifnb_ms.npz", _fetch_ifnb, data_home, "MultiwayClassification's copy")
    stored = read_arrays(path)
    modes = {"gene": None, "time[months]": stored["time_months"]}
    return described("ifnb_ms", modes, **of_classes(stored, "observed", "time_months"))


def _fetch_ifnb(path: Path) -> None:
    """Download the patients x visits x genes of the R package; class 2 are the good responders."""
    study = downloaded_r(_IFNB)
    visits, labels = np.asarray(study["DataArray"]), np.asarray(study["Class"]).ravel()
    arrays: dict[str, Array] = {
        "X": np.ascontiguousarray(visits.swapaxes(1, 2), np.float32),
        "y": (labels.astype(int) == 2).astype(np.int64),
        "class_names": np.array(["poor_responder", "good_responder"]),
        "time_months": np.array([0, 3, 6, 9, 12, 18, 24], np.float32),
        "observed": np.any(visits != 0, axis=2),
    }
    save_checked(path, arrays, _IFNB_DIGEST)
