"""Patches of a scene, such as a hyperspectral cube, as samples, and predictions back as a map."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch, check_random_state

from ...runtime import Array, as_array, to_host
from ..preparation._base import checked_count


@dataclass(eq=False, repr=False)
class Patches(BaseEstimator):
    """Cut a scene into patches around its pixels, with places as groups, and paint predictions back.

    Neighbouring patches share pixels: a random split of them tests on pixels that were trained on. Pass ``groups``,
    squares of the scene, to splits and searches instead.

    Parameters
    ----------
    size : int, default=5
        Side of the patches, an odd number; the scene is mirrored at its border.
    tile : int, default=8
        Side of the squares that are one group, in pixels.
    apart : bool, default=False
        Leave out pixels whose patch would overlap one of another group, so that no two groups share a pixel. Pixels of
        rare classes come first, and those of one class in random order.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Patches
    >>> cube, truth = np.zeros((20, 30, 7)), np.zeros((20, 30), int)
    >>> truth[:10, :5], truth[:10, 20:] = 1, 2
    >>> patches = Patches(3)
    >>> scene = patches.cut(cube, truth)
    >>> scene.data.shape, np.unique(scene.groups).size
    ((150, 3, 3, 7), 6)
    >>> bool(np.array_equal(patches.paint(scene.target, scene), truth))
    True
    """

    size: int = 5
    tile: int = 8
    apart: bool = False

    def cut(
        self,
        cube: Any,
        truth: Any = None,
        classes: Any = None,
        background: Any = 0,
        per_class: int | None = None,
        random_state: Any = None,
        lacking: Array | None = None,
    ) -> Bunch:
        """Return the patches around labelled pixels, or around all pixels.

        Parameters
        ----------
        cube : array-like of shape (rows, columns, ...)
            The scene; modes after the first two (bands) are kept.
        truth : array-like of shape (rows, columns), optional
            Label of each pixel. By default there is one patch per pixel, without labels.
        classes : sequence, optional
            Labels to keep; all but ``background`` by default.
        background : default=0
            Label of pixels without a class.
        per_class : int, optional
            Number of pixels to draw from each class, without repetition; all of a class that has fewer. By default all
            pixels are taken.
        random_state : int, RandomState or None, default=None
            Seed of the draw, and of which pixels ``apart`` leaves out.
        lacking : ndarray of bool, of shape (rows, columns), optional
            Pixels without data, as `io.load_scene` returns them. They should have no label, and get the values of the
            pixel at the centre in patches around others.

        Returns
        -------
        Bunch
            ``data`` of shape (n, size, size, ...), ``target`` (None without ``truth``), ``positions`` of shape (n, 2),
            ``groups`` (squares of the scene) and ``shape`` (of the scene).
        """
        cube = to_host(as_array(cube))
        scene = self.places(cube.shape, truth, classes, background, per_class, random_state)
        return Bunch(data=self._around(cube, scene.positions, lacking), **scene)

    def places(
        self,
        shape: tuple[int, ...],
        truth: Any = None,
        classes: Any = None,
        background: Any = 0,
        per_class: int | None = None,
        random_state: Any = None,
    ) -> Bunch:
        """Return what `cut` does for a scene of this shape, without the patches themselves, row by row."""
        border = self._border()
        if len(shape) < 2 or min(shape[:2]) <= border:
            raise ValueError(
                f"a scene needs more rows and columns than half a patch, {border}; got shape {shape}. Use smaller "
                "patches"
            )
        labels = None if truth is None else to_host(as_array(truth))
        if labels is not None and labels.shape != shape[:2]:
            raise ValueError(f"truth must have one label per pixel of the scene, {shape[:2]}; got shape {labels.shape}")
        wanted = np.ones(shape[:2], bool) if labels is None else _wanted(labels, classes, background)
        positions = np.argwhere(wanted)
        own = np.zeros(len(positions), int) if labels is None else labels[wanted]
        groups = self.groups_of(positions, shape)
        if self.apart or (per_class is not None and labels is not None):
            most = len(own) if per_class is None else checked_count(per_class, "per_class")
            takes = _Apart(shape[:2], int(self.size), positions, groups) if self.apart else None
            drawn = _drawn(own, most, random_state, takes)
            positions, own, groups = positions[drawn], own[drawn], groups[drawn]
        return Bunch(target=None if labels is None else own, positions=positions, groups=groups, shape=shape[:2])

    def groups_of(self, positions: Array, shape: tuple[int, ...]) -> Array:
        """Return the number of the square that holds each position, for a scene of this shape."""
        tile = checked_count(self.tile, "tile")
        rows, columns = positions.T // tile
        groups: Array = rows * (shape[1] // tile + 1) + columns
        return groups

    def pieces(
        self, cube: Array, positions: Array, n_bytes: int = 2**25, *, lacking: Array | None = None
    ) -> Iterator[tuple[slice, Array]]:
        """Yield slices of positions, as `places` returns them, and the patches around them, a few rows at a time.

        The cube may be a memory map, of which only the rows of a piece are read. ``lacking`` says which of its pixels
        have no data. A piece has ``n_bytes``, unless a single row has more.
        """
        of_row = prod(cube.shape[1:]) * cube.dtype.itemsize * int(self.size) ** 2
        step = max(1, n_bytes // max(of_row, 1))
        rows = positions[:, 0]
        for start in range(0, cube.shape[0], step):
            where = slice(*np.searchsorted(rows, (start, start + step)).tolist())
            if where.start < where.stop:
                yield where, self._around(cube, positions[where], lacking)

    def _around(self, cube: Array, positions: Array, lacking: Array | None = None) -> Array:
        """Return the patches around positions; only the rows that they touch are read, mirrored at the border.

        Pixels that lack data get the values of the pixel at the centre.
        """
        border, (rows, columns) = self._border(), positions.T
        first, last = int(rows.min()), int(rows.max())
        mirrored = [np.pad(np.arange(length), border, mode="reflect") for length in cube.shape[:2]]
        near = np.ix_(mirrored[0][first : last + 2 * border + 1], mirrored[1])
        part = cube[near].astype(cube.dtype.newbyteorder("="), copy=False)
        window = (int(self.size), int(self.size))
        windows = sliding_window_view(part, window, axis=(0, 1))
        patches = np.ascontiguousarray(np.moveaxis(windows[rows - first, columns], (-2, -1), (1, 2)))
        if lacking is not None:
            sample, *place = np.nonzero(sliding_window_view(lacking[near], window)[rows - first, columns])
            patches[sample, *place] = patches[sample, border, border]
        return patches

    def paint(self, values: Any, scene: Bunch, fill: Any = 0) -> Array:
        """Return values of patches, such as predictions or scores, as a map of the scene.

        Parameters
        ----------
        values : array-like of shape (n, ...)
            One value (or array) per patch.
        scene : Bunch
            What `cut` returned: positions of the patches and shape of the scene.
        fill : default=0
            Value of pixels without a patch.

        Returns
        -------
        ndarray of shape (rows, columns, ...)
        """
        values = to_host(as_array(values))
        if values.ndim < 1 or len(values) != len(scene.positions):
            raise ValueError(
                f"there must be one value for each of the {len(scene.positions)} patches; got shape {values.shape}. "
                "Pass the predictions of all patches of the scene, in their order"
            )
        painted = np.full((*scene.shape, *values.shape[1:]), fill, np.result_type(values, np.min_scalar_type(fill)))
        painted[tuple(scene.positions.T)] = values
        return painted

    def _border(self) -> int:
        size = checked_count(self.size, "size")
        if size % 2 == 0:
            raise ValueError(f"size must be an odd number of pixels; got size={size}. Use {size - 1} or {size + 1}")
        return size // 2


class _Apart:
    """Takes pixels one by one, unless their patch overlaps one of another group that was taken before."""

    def __init__(self, shape: tuple[int, ...], size: int, positions: Array, groups: Array) -> None:
        self.owner = np.full(shape, -1)
        self.size, self.positions, self.groups = size, positions.tolist(), groups.tolist()

    def __call__(self, pixel: int) -> bool:
        (row, column), group, reach = self.positions[pixel], self.groups[pixel], self.size - 1
        near = self.owner[max(0, row - reach) : row + self.size, max(0, column - reach) : column + self.size]
        free = bool(((near == -1) | (near == group)).all())
        if free:
            self.owner[row, column] = group
        return free


def _drawn(labels: Array, per_class: int, random_state: Any, takes: _Apart | None) -> Array:
    """Return which pixels are drawn, at most a number per class, in their order."""
    rng = check_random_state(random_state)
    found, counts = np.unique(labels, return_counts=True)
    order = found if takes is None else found[np.argsort(counts, kind="stable")]
    each = (rng.permutation(np.flatnonzero(labels == label)) for label in order)
    if takes is not None:
        each = (np.fromiter(islice(filter(takes, rows.tolist()), per_class), int) for rows in each)
    return np.sort(np.concatenate([rows[:per_class] for rows in each]))


def _wanted(labels: Array, classes: Any, background: Any) -> Array:
    """Return which pixels have one of the classes."""
    known = [label for label in np.unique(labels).tolist() if label != background]
    unknown = [] if classes is None else sorted(set(classes) - set(known))
    if unknown or not known:
        raise ValueError(
            f"classes must be labels of the scene, {', '.join(map(str, known)) or 'which has none'}; got "
            f"{', '.join(map(str, unknown)) or f'only the background, {background}'}"
        )
    return np.isin(labels, known if classes is None else list(classes))
