"""Save maps as NIfTI, NumPy or PNG files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..io import BadFileError, replacing

ENDINGS = (".nii", ".nii.gz", ".npy", ".png")


def save_map(
    path: str | Path, map: Any, *, affine: Any = None, background: Any = None, title: str | None = None
) -> None:
    """Write a weight map or activation pattern as NIfTI, ``.npy`` or PNG.

    Parameters
    ----------
    path : str or Path
        The extension sets the format: ``.nii``, ``.nii.gz``, ``.npy`` or ``.png``.
    map : array-like
        See `tensormargin.model_steps.weight_maps` and `tensormargin.patterns.activation_pattern`.
    affine : array-like of shape (4, 4), optional
        For NIfTI: maps voxel indices to millimetres; the identity by default.
    background, title : optional
        For PNG: see `plot_map`.
    """
    path = Path(path)
    values = np.asarray(map)
    check_map_path(path, values.ndim)
    if path.name.lower().endswith((".nii", ".nii.gz")):
        _save_nifti(path, values, affine)
    elif path.suffix.lower() == ".npy":
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.save(file, values)
    else:
        _save_png(path, values, background, title)


def check_map_path(path: str | Path, n_axes: int) -> None:
    """Raise `BadFileError` if a map with ``n_axes`` axes cannot be written to this path; call before computing it."""
    name = Path(path).name.lower()
    if not name.endswith(ENDINGS):
        raise BadFileError(f"{path}: a map is written as {', '.join(ENDINGS)}; give a name with one of these endings")
    if name.endswith((".nii", ".nii.gz")):
        if n_axes > 4:
            raise BadFileError(f"{path}: a NIfTI map has at most four axes; this one has {n_axes}. Write it as .npy")
        if find_spec("nibabel") is None:
            raise BadFileError(f"{path}: writing NIfTI needs nibabel; pip install 'tensormargin[neuro]'")


def _save_nifti(path: Path, values: Any, affine: Any) -> None:
    import nibabel

    volume = values.reshape(values.shape + (1,) * (3 - values.ndim)).astype(np.float32)
    make: Any = nibabel.Nifti1Image
    image = make(volume, np.eye(4) if affine is None else np.asarray(affine, np.float64))
    with replacing(path) as temporary:
        content = image.to_bytes()
        if path.suffix.lower() == ".gz":
            import gzip

            content = gzip.compress(content, mtime=0)
        temporary.write_bytes(content)


def _save_png(path: Path, values: Any, background: Any, title: str | None) -> None:
    import matplotlib.pyplot as plt

    from .maps import plot_map

    axes = plot_map(values, background=background, title=title)
    figure = axes[0].figure
    try:
        with replacing(path) as temporary:
            figure.savefig(temporary, format="png", dpi=150)
    finally:
        plt.close(figure)
