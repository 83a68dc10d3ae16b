"""Contractions: how the design of a block is computed from the samples."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from ..runtime import Array


def best_split(shape: tuple[int, ...]) -> int:
    """Return the number of leading modes that minimises the total size of the two partial contractions."""
    if len(shape) == 1:
        return 1
    return min(range(1, len(shape)), key=lambda k: prod(shape[:k]) + prod(shape[k:]))


@dataclass(frozen=True)
class Contraction:
    """How the design of a block is computed from the samples, in two steps; small enough to send to a worker.

    One half of the modes (those before or after `best_split`) is contracted first, a result that the blocks of the
    other half share. Then all but one axis of that other half are contracted (`tensormargin.fitting.samples.memory`).
    """

    half: Literal["head", "tail"]  # that is contracted first; nothing is without matrices, since vectors have no tail
    matrices: tuple[Array, ...]  # one I_m x R_m matrix per mode of that half, or one for all of them together
    size: int  # of the remaining axis
    kernel: Array  # of shape (L, T, r): contracts the L entries before and the T after that axis to size * r columns
    removed: Array | None = None  # orthonormal directions (p, q) to project out of the leading p entries of the design

    @property
    def width(self) -> int:
        return self.size * self.kernel.shape[2]

    @property
    def wide(self) -> int:
        """Number of columns of the design, or of the half contraction that it is computed from if that has more."""
        return max(self.width, prod(self.kernel.shape[:2]) * self.size)

    @property
    def sizes(self) -> object:
        """The sizes that two contractions must share to be made together."""
        shapes = tuple(matrix.shape for matrix in self.matrices)
        removed = None if self.removed is None else self.removed.shape
        return self.half, shapes, self.size, self.kernel.shape, removed

    @property
    def is_whole(self) -> bool:
        """Whether the design is the flattened samples themselves."""
        return not self.matrices and self.kernel.size == 1 and self.kernel.item() == 1.0

    def projected(self, design: Array) -> Array:
        """Return a design without the ``removed`` directions."""
        if self.removed is None:
            return design
        along = design.reshape(len(design), len(self.removed), -1)
        removed = self.removed.astype(design.dtype, copy=False)
        return (along - removed @ (removed.T @ along)).reshape(design.shape)


@dataclass(frozen=True)
class Direction:
    """A single column: the scores of a dense weight."""

    weight: Array


@dataclass(frozen=True)
class OfView:
    """A part of a design that is computed from one of several views (`tensormargin.fitting.samples.views`)."""

    view: int
    contraction: Contraction | Direction


@dataclass(frozen=True)
class SideBySide:
    """The design of a block of several views: their parts side by side."""

    parts: tuple[OfView, ...]
