"""Clusters of a map: connected entries above a threshold, with their peaks and sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import Axes, Axis, checked_affine, checked_axes, millimetres, rows_table
from ..runtime import FloatArray

SHARE = 0.5
"""The default threshold, as a share of the largest absolute value. It is a choice for display, not a test."""


@dataclass(frozen=True)
class Cluster:
    """Neighbouring entries of one sign above the threshold."""

    peak: float  # the entry of largest absolute value
    index: tuple[int, ...]
    place: str  # its coordinates in words, or the index
    mm: tuple[float, ...] | None  # place of the peak in millimetres, if there is an affine
    size: int  # number of entries
    volume: float | None  # in cubic millimetres, if there is an affine


@dataclass(frozen=True)
class ClusterTable:
    """Clusters of a map, those with the largest peaks first.

    Attributes
    ----------
    threshold : float
        Entries with at least this absolute value, and not zero, belong to clusters.
    clusters : tuple of Cluster
    signs : str
        What the signs mean, if it is known.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import cluster_table
    >>> table = cluster_table(np.array([0.0, 3.0, 2.0, 0.0, -4.0]), threshold=1.5)
    >>> [(one.peak, one.index, one.size) for one in table]
    [(-4.0, (4,), 1), (3.0, (1,), 2)]
    """

    threshold: float
    clusters: tuple[Cluster, ...]
    signs: str = ""

    def __len__(self) -> int:
        return len(self.clusters)

    def __iter__(self) -> Iterator[Cluster]:
        return iter(self.clusters)

    def __getitem__(self, place: int) -> Cluster:
        return self.clusters[place]

    @property
    def columns(self) -> list[str]:
        """Names of the columns of `rows`."""
        with_mm = any(one.mm is not None for one in self.clusters)
        where = "at" if any(one.place != _format_index(one.index) for one in self.clusters) else "index"
        return ["peak", "x mm", "y mm", "z mm", where, "entries", "mm³"] if with_mm else ["peak", where, "entries"]

    def rows(self) -> list[list[str]]:
        """Return the clusters as text, one row each."""
        return [
            [
                f"{one.peak:.3g}",
                *([] if one.mm is None else [f"{place + 0.0:.1f}" for place in np.round(one.mm, 1)]),
                one.place,
                str(one.size),
                *([] if one.volume is None else [f"{one.volume:.0f}"]),
            ]
            for one in self.clusters
        ]

    def __repr__(self) -> str:
        rows = [self.columns, *self.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([f"{self._title}:", *lines])

    def _repr_html_(self) -> str:
        return rows_table(self._title, self.columns, self.rows())

    @property
    def _title(self) -> str:
        signs = f"; {self.signs}" if self.signs else ""
        return f"{len(self)} clusters of at least {self.threshold:.3g} in absolute value{signs}"


def cluster_table(
    map: Any,
    affine: Any = None,
    threshold: float | None = None,
    *,
    smallest: int = 1,
    signs: str = "",
    mode_axes: Axes | None = None,
) -> ClusterTable:
    """Return the clusters of a map, such as an activation pattern.

    Entries belong together if they have the same sign and share a face. The threshold is for display and says nothing
    about significance.

    Parameters
    ----------
    map : array-like of shape (I_1, ..., I_M)
        Entries that are not finite count as zero.
    affine : array-like of shape (4, 4), optional
        Of a volume (M = 3): maps indices to millimetres.
    threshold : float, optional
        Least absolute value; half of the largest one by default.
    smallest : int, default=1
        Least number of entries of a cluster.
    signs : str, optional
        What the signs mean, to be written above the table: "positive = house, negative = face".
    mode_axes : sequence of M Axis, optional
        Names, units and coordinates of the modes, in which the places of peaks are told: "Pz, 383 ms".

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import cluster_table
    >>> pattern = np.zeros((4, 4, 4))
    >>> pattern[1, 1, 1:3], pattern[3, 3, 3] = [5.0, 3.0], -4.0
    >>> cluster_table(pattern, np.diag([2, 2, 2, 1]))
    2 clusters of at least 2.5 in absolute value:
    peak  x mm  y mm  z mm    index  entries  mm³
       5   2.0   2.0   2.0  1, 1, 1        2   16
      -4   6.0   6.0   6.0  3, 3, 3        1    8
    """
    values = np.nan_to_num(np.asarray(map, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    if values.ndim == 0 or not values.size:
        raise ValueError(f"a map needs at least one mode and one entry; got an array of shape {values.shape}")
    if affine is not None:
        if values.ndim != 3:
            raise ValueError(f"only a volume with three modes has an affine; got a map of shape {values.shape}")
        affine = checked_affine(affine)
    least = SHARE * float(np.abs(values).max()) if threshold is None else float(threshold)
    if not least >= 0:
        raise ValueError(f"threshold must be a number of at least 0; got threshold={threshold!r}")
    axes = checked_axes(mode_axes, values.shape) or (Axis(),) * values.ndim
    found = [
        one for sign in (1, -1) for one in _of_one_sign(values, sign, least, (affine, axes)) if one.size >= smallest
    ]
    return ClusterTable(least, tuple(sorted(found, key=lambda one: (-abs(one.peak), one.index))), signs)


def _format_index(index: tuple[int, ...], axes: Axes | None = None) -> str:
    """Return an index in words where modes have coordinates, with the names of the others."""
    axes = axes or (Axis(),) * len(index)
    names = [
        f"{axis.name} {at}".strip() if axis.values is None else axis.spoken(at)
        for axis, at in zip(axes, index, strict=True)
    ]
    return ", ".join(names)


def _of_one_sign(values: FloatArray, sign: int, least: float, space: tuple[FloatArray | None, Axes]) -> list[Cluster]:
    from scipy.ndimage import label, maximum_position

    affine, axes = space
    inside = (sign * values >= least) & (sign * values > 0)
    numbers, count = label(inside)
    if not count:
        return []
    peaks = maximum_position(sign * values, numbers, np.arange(1, count + 1))
    sizes = np.bincount(numbers.ravel(), minlength=count + 1)[1:]
    volume = None if affine is None else abs(float(np.linalg.det(affine[:3, :3])))
    return [
        Cluster(
            peak=float(values[peak]),
            index=tuple(int(place) for place in peak),
            place=_format_index(tuple(int(place) for place in peak), None if affine is not None else axes),
            mm=None if affine is None else tuple(millimetres(affine, peak).tolist()),
            size=int(size),
            volume=None if volume is None else int(size) * volume,
        )
        for peak, size in zip(peaks, sizes, strict=True)
    ]
