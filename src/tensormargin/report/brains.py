"""Volumes on the page: their orientation, an anatomical background, and tables of clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data import DEFAULT_RULES, FileRules, Orientation, format_shape, resampled
from ..inspection import ClusterTable, cluster_table, meaning_of_sign
from ..io import BadFileError, SampleSet, read_nifti
from ..runtime import Array, FloatArray, counted

_MOST_CLUSTERS = 15
_SMALLEST = 2  # entries of a cluster that is listed
_MOST_TABLES = 6


@dataclass(frozen=True)
class Anatomy:
    """An anatomical image on the grid of the samples, and the name of its file."""

    values: FloatArray
    name: str


@dataclass(frozen=True)
class Display:
    """How volumes are shown: over which image, and with which side on the left.

    Attributes
    ----------
    anatomy : Anatomy or None
        What maps are drawn over; the mean sample by default.
    radiological : bool
        Whether the left of the person is on the right at first; the page has a switch.

    Examples
    --------
    >>> from tensormargin.report import Display
    >>> Display(radiological=True)
    Display(anatomy=None, radiological=True)
    """

    anatomy: Anatomy | None = None
    radiological: bool = False


def read_anatomy(path: str | Path, shape: Any, affine: Any, rules: FileRules = DEFAULT_RULES) -> Anatomy:
    """Return the volume of a NIfTI file on the grid of samples with a shape and an affine.

    Raises
    ------
    BadFileError
        The file is no volume, or the samples have no place in space. The file is read as those of samples are.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import nibabel
    >>> from tensormargin.report import Display, read_anatomy
    >>> head = nibabel.Nifti1Image(np.ones((8, 8, 8), np.float32), np.diag([1, 1, 1, 1]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     nibabel.save(head, f"{folder}/head.nii")
    ...     anatomy = read_anatomy(f"{folder}/head.nii", (4, 4, 4), np.diag([2, 2, 2, 1]))
    >>> anatomy.name, anatomy.values.shape
    ('head.nii', (4, 4, 4))
    >>> display = Display(anatomy)  # for model_page
    """
    path = Path(path)
    if isinstance(shape, Mapping) or len(shape) != 3 or affine is None or isinstance(affine, Mapping):
        words = format_shape(shape) + ("" if affine is not None else ", without an affine")
        raise BadFileError(
            f"{path}: a background is for samples that are volumes with an affine (NIfTI); got samples of {words}. "
            "Leave --background out, or give the samples as NIfTI files"
        )
    values, own = read_nifti(path, rules)
    try:
        return Anatomy(resampled(values, own, shape, affine), path.name)
    except ValueError as error:
        raise BadFileError(f"{path}: cannot be drawn below the map: {error}") from error


def volume_space(affine: Any, shape: Sequence[int]) -> Orientation | None:
    """Return how maps of a shape lie in space; None for other maps than volumes, or if that is not known."""
    if affine is None or isinstance(affine, Mapping) or len(shape) != 3:
        return None
    try:
        return Orientation.of(affine, shape)
    except ValueError:  # of a file that says nothing sensible: shown as any other tensor
        return None


def affine_of(samples: SampleSet | None, about: Mapping[str, Any], view: str | None = None) -> Any:
    """Return the affine of the samples, or that in the facts of a model; None if there is none."""
    for found in (None if samples is None else samples.affine, about.get("affine")):
        one = found.get(view) if isinstance(found, Mapping) else found
        if one is not None:
            return one
    return None


def space_content(space: Orientation) -> dict[str, Any]:
    """Return an orientation as JSON types, for the viewer."""
    turned = [space.shape[mode] for mode in space.order]
    return {
        "affine": space.affine.tolist(),
        "order": list(space.order),
        "flipped": list(space.flipped),
        "shape": list(space.shape),
        "extent": (np.array(turned) * space.voxel_size).tolist(),
    }


def cluster_content(names: Sequence[str], kind: str, maps: Array, affine: Any) -> list[dict[str, Any]]:
    """Return the tables of the clusters of a map per binary problem."""
    tables = [
        (name, cluster_table(one, affine, smallest=_SMALLEST, signs=meaning_of_sign(name)))
        for name, one in zip(names[:_MOST_TABLES], maps, strict=False)
    ]
    return [
        {
            "name": name,
            "kind": kind,
            "words": f"{table.signs}; {_in_words(table)}",
            "columns": table.columns,
            "rows": table.rows()[:_MOST_CLUSTERS],
        }
        for name, table in tables
        if len(table)
    ]


def _in_words(table: ClusterTable) -> str:
    count = counted(len(table), "cluster")
    shown = f", the {_MOST_CLUSTERS} largest peaks of which are listed" if len(table) > _MOST_CLUSTERS else ""
    return (
        f"{count} of {_SMALLEST} or more entries of at least {table.threshold:.3g} in absolute value, half of the "
        f"largest{shown}. "
        "The threshold is for display and tests nothing"
    )
