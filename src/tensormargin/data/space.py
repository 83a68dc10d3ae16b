"""Volumes in space: orientation and millimetres from an affine, and resampling to another grid.

An affine maps voxel indices to millimetres: x to the right, y to the front, z up. Samples and models keep the
orientation of their first file: volumes are turned for display, and other files are turned to that orientation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np

from ..runtime import Array, FloatArray

_SAME_PLACE = 0.1  # voxels by which rounded affines may differ
_BLUR = 2.355  # full width at half maximum of a Gaussian, in standard deviations


def checked_affine(affine: Any) -> FloatArray:
    """Return an affine as an array; raise ValueError if it does not map voxels to space one to one."""
    matrix = np.array(affine, np.float64)
    if matrix.shape != (4, 4) or not np.isfinite(matrix).all() or not np.allclose(matrix[3], [0, 0, 0, 1]):
        raise ValueError(
            f"an affine must be a matrix of shape (4, 4) of finite numbers with the last row 0, 0, 0, 1; got shape "
            f"{matrix.shape}: {matrix.tolist()!r:.200}"
        )
    sizes = np.linalg.norm(matrix[:3, :3], axis=0)
    if not sizes.all() or abs(np.linalg.det(matrix[:3, :3] / sizes)) < 1e-6:
        raise ValueError(f"an affine must map different voxels to different places; got {matrix.tolist()}")
    return matrix


@dataclass(frozen=True)
class Orientation:
    """How to turn a volume to x, y and z: the mode along each, which are flipped, its shape, and the turned affine."""

    order: tuple[int, ...]
    flipped: tuple[bool, ...]
    shape: tuple[int, ...]
    affine: FloatArray

    @classmethod
    def of(cls, affine: Any, shape: Sequence[int]) -> Orientation:
        """Return the orientation of a volume with an affine; for an oblique one, that of the closest directions."""
        matrix, shape = checked_affine(affine), tuple(int(size) for size in shape[:3])
        if len(shape) != 3:
            raise ValueError(f"only volumes with three modes have an orientation; got shape {shape}")
        directions = matrix[:3, :3] / np.linalg.norm(matrix[:3, :3], axis=0)
        order = max(permutations(range(3)), key=lambda one: sum(abs(directions[k, one[k]]) for k in range(3)))
        flipped = tuple(bool(directions[k, mode] < 0) for k, mode in enumerate(order))
        turn = _turn(order, flipped, shape)
        return cls(order, flipped, shape, matrix @ turn)

    def turned(self, values: Array) -> Array:
        """Return a volume (with more modes behind the first three, if it has any) with its axes along x, y and z."""
        moved = np.moveaxis(values, self.order, (0, 1, 2))
        steps = tuple(slice(None, None, -1 if backwards else 1) for backwards in self.flipped)
        return moved[steps]

    def indices(self, turned: Sequence[int]) -> tuple[int, ...]:
        """Return the indices in the volume as it is stored of a voxel of the turned one."""
        found = [0, 0, 0]
        for place, mode, backwards in zip(turned, self.order, self.flipped, strict=True):
            found[mode] = self.shape[mode] - 1 - int(place) if backwards else int(place)
        return tuple(found)

    @property
    def voxel_size(self) -> FloatArray:
        """Size of a voxel along x, y and z in mm."""
        return np.asarray(np.linalg.norm(self.affine[:3, :3], axis=0))


def _turn(order: Sequence[int], flipped: Sequence[bool], shape: Sequence[int]) -> FloatArray:
    """Return the affine from indices of a turned volume to those of the stored one."""
    turn = np.diag([0.0, 0.0, 0.0, 1.0])
    for k, (mode, backwards) in enumerate(zip(order, flipped, strict=True)):
        turn[mode, k] = -1 if backwards else 1
        turn[mode, 3] = shape[mode] - 1 if backwards else 0
    return turn


def turned_to(values: Any, affine: Any, reference: Any, first: int = 0) -> tuple[Any, FloatArray]:
    """Return volumes, modes exchanged and flipped from ``first`` on as a reference affine has it, and their affine."""
    shape = tuple(int(size) for size in values.shape[first : first + 3])
    own, other = Orientation.of(affine, shape), Orientation.of(reference, shape)
    if (own.order, own.flipped) == (other.order, other.flipped):
        return values, np.asarray(affine, np.float64)
    source = tuple(first + own.order[other.order.index(mode)] for mode in range(3))
    moved = np.moveaxis(values, source, range(first, first + 3))
    worlds = [other.order.index(mode) for mode in range(3)]
    flipped = [own.flipped[world] != other.flipped[world] for world in worlds]
    steps = [slice(None)] * first + [slice(None, None, -1 if flip else 1) for flip in flipped]
    turn = _turn([own.order[world] for world in worlds], flipped, shape)
    return moved[tuple(steps)], checked_affine(affine) @ turn


def differing_places(fitted: Any, new: Any, shape: Sequence[int | None]) -> str | None:
    """Return both affines in words if voxels of this shape do not lie in the same places; None if they do."""
    if fitted is None or new is None:
        return None
    first, second = checked_affine(fitted), checked_affine(new)
    corners = np.array(list(product(*((0, int(size or 1) - 1) for size in shape[:3]))))
    apart = np.abs(millimetres(first, corners) - millimetres(second, corners)).max()
    if apart <= _SAME_PLACE * np.linalg.norm(first[:3, :3], axis=0).min():
        return None
    return (
        f"voxels do not lie where those of the fit did: these have {_format_affine(second)}, those of the fit had "
        f"{_format_affine(first)}. Resample them to the grid of the fit, e.g. with nilearn.image.resample_to_img"
    )


def _format_affine(affine: FloatArray) -> str:
    """Return size, turn and place of the voxels of an affine in words."""
    sizes = np.linalg.norm(affine[:3, :3], axis=0)
    directions = affine[:3, :3] / sizes
    aligned = max(sum(abs(directions[one[k], k]) for k in range(3)) for one in permutations(range(3)))
    turn = np.degrees(np.arccos(np.clip((aligned - 1) / 2, -1, 1)))
    turned = f", turned by {turn:.0f} degrees" if turn >= 0.5 else ""
    place = ", ".join(f"{round(one, 1) + 0.0:g}" for one in affine[:3, 3].tolist())
    return f"{' x '.join(f'{size:.3g}' for size in sizes)} mm{turned}, the first at {place} mm"


def millimetres(affine: Any, indices: Any) -> FloatArray:
    """Return the places of voxels in mm; the last axis of ``indices`` has the three indices."""
    matrix = np.asarray(affine, np.float64)
    return np.asarray(np.asarray(indices, np.float64) @ matrix[:3, :3].T + matrix[:3, 3])


def resampled(volume: Any, affine: Any, shape: Sequence[int], to_affine: Any) -> FloatArray:
    """Return a volume on another grid, interpolated linearly; its minimum outside, and where it is not finite."""
    from scipy.ndimage import affine_transform, gaussian_filter

    values = np.asarray(volume, np.float32)
    while values.ndim > 3 and values.shape[-1] == 1:
        values = values[..., 0]
    if values.ndim != 3 or not values.size:
        raise ValueError(f"a background must be one volume with three modes; got shape {values.shape}")
    lowest = float(values[np.isfinite(values)].min()) if np.isfinite(values).any() else 0.0
    values = np.where(np.isfinite(values), values, lowest)
    between = np.linalg.inv(checked_affine(affine)) @ checked_affine(to_affine)
    steps = np.abs(between[:3, :3]).max(axis=1)  # of the new grid, in voxels of the old one
    widths = np.sqrt(np.maximum(steps**2 - 1, 0)) / _BLUR
    if widths.any():
        values = gaussian_filter(values, np.minimum(widths, values.shape), mode="nearest")
    found = affine_transform(
        values, between[:3, :3], between[:3, 3], tuple(shape[:3]), order=1, mode="constant", cval=lowest
    )
    return np.asarray(found, np.float64)
