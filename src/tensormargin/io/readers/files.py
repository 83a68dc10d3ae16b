"""Files of one sample each, many at a time. Runs in the reader process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...data import FileRules, check_regular, parsing
from ...runtime import Array

_BATCH_BYTES = 2**25

NIFTI = (".nii", ".nii.gz")
NIFTI_WORDS = ("a NIfTI file", "export it again")
IMAGE_WORDS = ("an image that can be read", "save it again as PNG, JPEG or TIFF")


def read_some(
    folder: Path, names: Sequence[str], rules: FileRules
) -> tuple[Array | list[Array], list[Array | None], list[str | None]]:
    """Return a batch of the first of these files, in one array if possible, affines, and remarks on transparency."""
    samples: list[Array] = []
    affines: list[Array | None] = []
    remarks: list[str | None] = []
    n_bytes = 0
    for name in names:
        sample, affine, remark = _read_one(folder / name, rules)
        samples.append(sample)
        affines.append(affine)
        remarks.append(remark)
        n_bytes += sample.nbytes
        if n_bytes >= _BATCH_BYTES:
            break
    alike = len({(sample.shape, sample.dtype) for sample in samples}) == 1 and len(samples) > 1
    return np.stack(samples) if alike else samples, affines, remarks


def _read_one(path: Path, rules: FileRules) -> tuple[Array, Array | None, str | None]:
    check_regular(path)
    if path.name.lower().endswith(NIFTI):
        from .volumes import read_volume

        with parsing(path, *NIFTI_WORDS):
            return (*read_volume(path, (), rules), None)
    from .pictures import read_image

    with parsing(path, *IMAGE_WORDS):
        pixels, remark = read_image(path, rules)
        return pixels, None, remark
