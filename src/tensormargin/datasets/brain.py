"""Brain data: an open fMRI slice, EEG recordings, and the paper's fMRI data from files provided by the user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.utils import Bunch

from ..data import Axis, Views
from ..io import BadFileError, check_labelled, read_arrays
from ..runtime import Array
from . import _store

_PYMVPA = _store.github("PyMVPA/PyMVPA", ("20f0335f", "master"), "mvpa2/data/")
_TRES = _store.github("cran/TRES", ("9b095c1c", "master"), "data/EEG.rda")
_VIEWS = {
    "slice": ("haxby_slice/haxby2001_sub001_slice_40x20.npz", "40x20 pixels of one axial slice"),
    "brain": ("haxby_slice/haxby2001_sub001_25mm_6x10x10.npz", "6x10x10 voxels of 25 mm, the whole brain"),
}
_HAXBY_SLICE_DIGEST = "23c3f0e63e1d7883ceba4e831438ec94e84fb7ef38f819a27f57567a20f26847"
_EEG_DIGEST = "1fe1143892b436e64c9e988e12a2f0342b605ac1c44f702a67c14ac07e8278aa"

_ROUNDING = 1e-9


def load_haxby_slice(
    view: str = "slice",
    categories: Sequence[str] | None = None,
    standardise: bool = True,
    data_home: str | Path | None = None,
) -> Bunch:
    """Return fMRI volumes of one person looking at pictures (Haxby et al. 2001).

    Parameters
    ----------
    view : {"slice", "brain"}, default="slice"
        40x20 pixels of one axial slice, or the whole brain at 25 mm (6x10x10).
    categories : sequence of str, optional
        Categories to keep; by default the eight categories of pictures, without "rest".
    standardise : bool, default=True
        Detrend each voxel linearly and scale it to unit variance within each run, as usual for fMRI. Runs are
        standardised separately, so nothing leaks from a run that is left out.
    data_home : str or Path, optional
        Cache directory.

    Returns
    -------
    Bunch
        ``data``, ``target`` (names of the categories), ``groups`` (runs 0 to 11), ``DESCR``.

    Examples
    --------
    >>> from tensormargin.datasets import load_haxby_slice
    >>> haxby = load_haxby_slice(categories=("face", "house"))
    >>> haxby.data.shape, len(set(haxby.groups))
    ((216, 40, 20), 12)
    """
    if view not in _VIEWS:
        raise ValueError(f"view must be one of {', '.join(map(repr, _VIEWS))}; got {view!r}")
    relative, description = _VIEWS[view]
    by_run = _store.by_hand("it is distributed as one file per run; view='slice' can be fetched")
    fetch = _fetch_haxby_slice if view == "slice" else by_run
    stored = read_arrays(_store.obtain(relative, fetch, data_home, "PyMVPA's copy"), ("X", "y", "run"))
    data, target, runs = stored["X"], stored["y"], stored["run"]
    if standardise:
        data = standardise_runs(data, runs)
    known = sorted(set(target.tolist()))
    chosen = [name for name in known if name != "rest"] if categories is None else list(categories)
    unknown = [name for name in chosen if name not in known]
    if unknown:
        raise ValueError(f"unknown category {', '.join(map(repr, unknown))}; the categories are {', '.join(known)}")
    kept = np.isin(target, chosen)
    prepared = "Detrended and scaled to unit variance within each run." if standardise else "Raw signal."
    values = {"samples": len(data), "view": description, "prepared": prepared}
    return _store.described("haxby", None, values, data=data[kept], target=target[kept], groups=runs[kept].astype(int))


def standardise_runs(data: Array, runs: Array) -> Array:
    """Return the data with each entry linearly detrended and scaled to unit variance within each run (float32).

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.datasets import standardise_runs
    >>> runs = np.repeat([0, 1], 10)
    >>> volumes = np.random.default_rng(0).standard_normal((20, 3, 4)) + 5 * runs[:, None, None]
    >>> standardised = standardise_runs(volumes, runs)
    >>> bool(np.allclose(standardised[runs == 1].mean(axis=0), 0, atol=1e-5))
    True
    """
    from scipy.signal import detrend  # takes longer to import than most data sets to load

    standardised = np.empty(data.shape, np.float32)
    for run in np.unique(runs):
        raw = data[runs == run].astype(np.float64)
        part = detrend(raw, axis=0)
        spread = part.std(axis=0)
        constant = spread <= _ROUNDING * np.abs(raw).max(axis=0)  # the residual of a constant is rounding error
        standardised[runs == run] = np.where(constant, 0.0, part / np.where(constant, 1.0, spread))
    return standardised


def _fetch_haxby_slice(path: Path) -> None:
    """Download PyMVPA's example slice and write it as an .npz file."""
    try:
        import nibabel
    except ImportError as error:
        raise ImportError("reading NIfTI needs nibabel: pip install 'tensormargin[neuro]'") from error
    with _store.downloaded([folder + "bold.nii.gz" for folder in _PYMVPA]) as volumes:
        images = np.asarray(nibabel.Nifti1Image.from_filename(volumes).dataobj)
    with _store.downloaded([folder + "attributes_literal.txt" for folder in _PYMVPA]) as labels:
        rows = [line.split() for line in labels.read_text().splitlines() if line.strip()]
    arrays = {
        "X": np.moveaxis(images, -1, 0).reshape(len(rows), 40, 20).astype(np.int16),
        "y": np.array([name for name, _ in rows], "<U12"),
        "run": np.array([int(run) for _, run in rows], np.uint8),
    }
    _store.save_checked(path, arrays, _HAXBY_SLICE_DIGEST)


@_store.plain_loader
def load_eeg(data_home: str | Path | None = None) -> Bunch:
    """Return the EEG recordings of 61 people, alcoholics and controls (electrodes x time).

    ``data`` of shape (61, 64, 64), ``target`` (1 alcoholic, 0 control), ``DESCR``.
    """
    path = _store.obtain("eeg_alcoholism/eeg_alcoholism_61x64x64.npz", _fetch_eeg, data_home, "TRES's copy")
    stored = read_arrays(path, ("X", "y"))
    modes = {"electrode": None, "time[ms]": 1000 / 64 * np.arange(stored["X"].shape[2])}
    return _store.described("eeg", modes, data=stored["X"], target=stored["y"].astype(int))


def _fetch_eeg(path: Path) -> None:
    study = _store.downloaded_r(_TRES)["EEG"]
    recordings, labels = np.asarray(study["x"]), np.asarray(study["y"]).ravel()
    arrays: dict[str, Array] = {"X": np.moveaxis(recordings, -1, 0).astype(np.float32), "y": labels.astype(np.uint8)}
    _store.save_checked(path, arrays, _EEG_DIGEST)


@_store.plain_loader
def load_muse_ssvep(data_home: str | Path | None = None) -> Bunch:
    """Return EEG of two people looking at a flicker of 20 or 30 Hz, 5 channels x 768 time points.

    The file has to be put into the folder of TENSORMARGIN_DATA: trials are cut out of filtered recordings.

    ``data`` of shape (257, 5, 768) (float32), ``target`` ("20Hz", "30Hz"), ``groups`` (recordings 0 to 7),
    ``subject``, ``sfreq`` (256 Hz), ``channel_names``, ``DESCR``.
    """
    fetch = _store.by_hand("its trials are cut out of filtered recordings, github.com/NeuroTechX/eeg-notebooks_v0.1")
    stored = read_arrays(_store.obtain("muse_ssvep/muse_ssvep.npz", fetch, data_home))
    sfreq, names = float(stored["sfreq"]), stored["channel_names"]
    modes = {"channel": names, "time[s]": np.arange(stored["X"].shape[2]) / sfreq}
    return _store.described(
        "muse_ssvep", modes, **_store.of_classes(stored, "groups", "subject"), sfreq=sfreq, channel_names=names
    )


def load_schizo_fnc(
    path: str | Path | None = None, return_X_y: bool = False, view: Literal["connectivity", "loadings"] | None = None
) -> Any:
    """Return the 86 labelled subjects of the MLSP 2014 schizophrenia challenge (Silva et al. 2014) as two views.

    Parameters
    ----------
    path : str or Path, optional
        An ``.npz`` file with the arrays X (86, 28, 28), X_sbm (86, 32) and y; by default
        ``schizo_fnc/schizo_fnc.npz`` in the folder of TENSORMARGIN_DATA. The challenge's rules do not allow to
        redistribute it.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a Bunch.
    view : {"connectivity", "loadings"}, optional
        Return only this view, as an array; by default both, as `Views`.

    Returns
    -------
    Bunch
        ``data`` is `Views` with "connectivity", correlations of the activity of 28 brain networks (functional MRI), and
        "loadings", how strong 32 patterns of grey matter are (structural MRI); ``target`` is 0 for healthy people and 1
        for patients; ``DESCR``.

    Examples
    --------
    >>> from tensormargin.datasets import load_schizo_fnc
    >>> X, y = load_schizo_fnc(return_X_y=True)
    >>> X.names, len(y)
    (('connectivity', 'loadings'), 86)
    """
    if view not in (None, "connectivity", "loadings"):
        raise ValueError(f"view must be 'connectivity', 'loadings' or None (both); got {view!r}")
    name = "schizo_fnc/schizo_fnc.npz"
    file = _store.found(name) if path is None else Path(path)
    if file is None:
        reason = _store.ByHandError("it asks for an account, at kaggle.com/c/mlsp-2014-mri")
        raise _store.unavailable(name, "the challenge's data", None, reason)
    arrays = read_arrays(file, ["X", "X_sbm", "y"])
    views = Views(connectivity=arrays["X"], loadings=arrays["X_sbm"])
    data = views if view is None else views[view]
    target = arrays["y"].astype(np.int64)
    if return_X_y:
        return data, target
    component = Axis("component")
    axes = {"connectivity": (component, component), "loadings": (Axis("pattern"),)}
    return _store.described("schizo_fnc", data=data, target=target, axes=axes if view is None else axes[view])


def load_adni(path: str | Path | None = None, samples: str | None = None, labels: str | None = None) -> Bunch:
    """Return the ADNI volumes of the paper's Table 6 (33 of 61x73x61) from a file provided by the user.

    Parameters
    ----------
    path : str or Path
        ``.mat`` (MATLAB 5 to 7.3) or ``.npz`` file with an array of volumes (samples along the first or last axis, or a
        cell array of volumes) and a vector of labels.
    samples, labels : str, optional
        Names of the two arrays; by default they are found by their shapes.

    Returns
    -------
    Bunch
        ``data`` of shape (n, I_1, I_2, I_3), ``target``, ``DESCR``.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from tensormargin.datasets import load_adni
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/adni.npz", volumes=np.random.rand(8, 4, 5, 6), labels=[0, 1] * 4)
    ...     adni = load_adni(f"{folder}/adni.npz")
    >>> adni.data.shape, adni.target.shape
    ((8, 4, 5, 6), (8,))
    """
    return _load_fmri("ADNI", "33 x 61x73x61", path, samples, labels)


def load_adhd(path: str | Path | None = None, samples: str | None = None, labels: str | None = None) -> Bunch:
    """Return the ADHD-200 volumes of the paper's Table 6 (200 of 49x58x47) from a file provided by the user.

    See `load_adni` for the parameters and the result.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from tensormargin.datasets import load_adhd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/adhd.npz", volumes=np.random.rand(8, 4, 5, 6), labels=[0, 1] * 4)
    ...     adhd = load_adhd(f"{folder}/adhd.npz")
    >>> adhd.data.shape, adhd.target.shape
    ((8, 4, 5, 6), (8,))
    """
    return _load_fmri("ADHD-200", "200 x 49x58x47", path, samples, labels)


def _load_fmri(name: str, form: str, path: str | Path | None, samples: str | None, labels: str | None) -> Bunch:
    if path is None:
        raise ValueError(
            f"the {name} arrays of He et al. ({form}) may not be redistributed: ask their authors or the study for "
            "them and pass path='file.mat' or path='file.npz'. For an open counterpart use load_haxby_slice, or "
            "make_fmri_like for volumes of that size"
        )
    arrays = read_arrays(path, [key for key in (samples, labels) if key] if samples and labels else None)
    volumes_key = samples or _the_one(path, arrays, 4, "volumes", ("x", "samples", "data", "fmri"))
    labels_key = labels or _the_one(path, arrays, 1, "labels", ("y", "labels", "label", "target"))
    for key in (volumes_key, labels_key):
        if key not in arrays:
            raise BadFileError(f"{path}: has no array {key}; it holds {', '.join(arrays) or 'none'}")
    target = arrays[labels_key].ravel()
    volumes = _samples_first(path, arrays[volumes_key], len(target))
    volumes, target = check_labelled(path, volumes, target, volumes_key, labels_key)
    shape = "x".join(map(str, volumes.shape[1:]))
    values = {"name": name, "samples": len(volumes), "shape": shape, "file": Path(path).name}
    return _store.described("fmri", None, values, data=volumes, target=target)


def _the_one(path: str | Path, arrays: dict[str, Array], order: int, what: str, usual: Sequence[str]) -> str:
    """Return the name of the only array of this order, axes of 1 not counted, or the only one with a usual name."""
    names = [name for name, array in arrays.items() if len([n for n in array.shape if n > 1]) == order]
    usually = [name for name in names if name.lower() in usual]
    if len(names) == 1 or len(usually) == 1:
        return (usually or names)[0]
    held = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
    raise BadFileError(
        f"{path}: {len(names)} of its arrays could be the {what} (order {order}); it holds {held}. Give one of them "
        f"the name {usual[0]}, or name it in the call"
    )


def _samples_first(path: str | Path, volumes: Array, n: int) -> Array:
    """Return the volumes with samples along the first axis; in MATLAB files they are usually along the last."""
    first, last = volumes.shape[0] == n, volumes.shape[-1] == n
    if not (first or last):
        raise BadFileError(
            f"{path}: {n} labels, but volumes of shape {volumes.shape}: the first or the last axis must have length {n}"
        )
    if first and last and Path(path).suffix.lower() != ".npz":
        raise BadFileError(
            f"{path}: the volumes' shape {volumes.shape} does not tell which axis of length {n} counts the samples; "
            "save it as .npz, samples first"
        )
    return volumes if first else np.ascontiguousarray(np.moveaxis(volumes, -1, 0))
