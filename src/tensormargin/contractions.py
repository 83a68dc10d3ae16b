"""How the design of a block is made of the samples: what formats ask for, and samples answer."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

from ._typing import Array


def best_split(shape: tuple[int, ...]) -> int:
    """Return the number of leading modes that makes the two partial contractions smallest together."""
    if len(shape) == 1:
        return 1
    return min(range(1, len(shape)), key=lambda k: prod(shape[:k]) + prod(shape[k:]))


@dataclass(frozen=True)
class Contraction:
    """How the design of a block is made of the samples, in two steps; small data that can be sent to where they live.

    The modes of one half (before or from `best_split` on) are contracted first, which the blocks of the other half
    share; what is left of the other half but one axis is contracted then (`tensormargin.samples.memory`).

    Attributes
    ----------
    half : {"head", "tail"}
        Which half is contracted first. Without matrices nothing is: vectors have no tail.
    matrices : tuple of ndarray
        One I_m x R_m matrix per mode of that half, or one for all of them together.
    size : int
        Length of the axis that is kept.
    kernel : ndarray of shape (L, T, r)
        Contracts what stands before (L entries) and after (T entries) that axis; the design has ``size * r`` columns.
    """

    half: Literal["head", "tail"]
    matrices: tuple[Array, ...]
    size: int
    kernel: Array

    @property
    def width(self) -> int:
        """Number of columns of the design."""
        return self.size * self.kernel.shape[2]

    @property
    def is_whole(self) -> bool:
        """Whether the design is the samples themselves, as they are."""
        return not self.matrices and self.kernel.size == 1 and self.kernel.item() == 1.0
