"""Masks from files: which entries of the samples are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..data import DEFAULT_RULES, BadFileError, FileRules, check_text
from ..runtime import Array
from ..transformers import MaskImage
from .arrays import container_endings, container_kind, open_arrays
from .images import read_nifti
from .labels import describe
from .readers.files import NIFTI


def load_mask(path: str | Path, rules: FileRules = DEFAULT_RULES) -> MaskImage:
    """Load a mask: a NIfTI volume, or the only array of numbers of a container; what is not zero is inside.

    Parameters
    ----------
    path : str or Path
        ``.nii``, ``.nii.gz``, ``.npy``, ``.npz``, ``.mat``, HDF5 or Zarr.
    rules : FileRules, optional

    Returns
    -------
    MaskImage
        For `Recipe`; its ``entries`` for `Mask` and `Crop`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from tensormargin.io import load_mask
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/mask.npy", [[0, 1, 1], [0, 2, 0]])
    ...     mask = load_mask(f"{folder}/mask.npy")
    >>> int(mask.entries.sum()), mask.affine is None
    (3, True)
    """
    source = Path(path)
    if not source.exists():
        raise BadFileError(f'{source}: no such file; a mask is a file, or one of the words "varying" and "bright"')
    check_text(source, str(source))
    if source.name.lower().endswith(NIFTI):
        values, affine = read_nifti(source, rules)
        values = values.reshape(values.shape[:3]) if values.ndim > 3 and max(values.shape[3:]) == 1 else values
        return MaskImage(_entries(source, values), affine, str(path))
    if container_kind(source) is None:
        raise BadFileError(
            f"{source}: unknown kind of file {source.suffix!r} for a mask; give a NIfTI image (.nii, .nii.gz), or one "
            f"of {container_endings()}"
        )
    with open_arrays(source, rules=rules) as held:
        numeric = [name for name, one in held.items() if one.is_numeric]
        if len(numeric) != 1:
            raise BadFileError(
                f"{source}: a mask is alone in its file; it holds {describe(held)}. Write it to an .npy file"
            )
        return MaskImage(_entries(source, held[numeric[0]].read()), None, str(path))


def _entries(path: Path, values: Array) -> Array:
    if not np.isfinite(values).all():
        raise BadFileError(f"{path}: a mask must be zero outside and another number inside; it holds NaN. Set it to 0")
    entries = values != 0
    if not entries.any():
        raise BadFileError(f"{path}: a mask must have an entry that is not zero; it has none. Give another mask")
    return np.ascontiguousarray(entries)
