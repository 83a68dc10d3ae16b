"""What there is to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..formats import FORMATS
from ..formats.base import Rank

DECOMPOSITIONS = ("full", "cp", "tucker", "tt")
RANKS = (1, 2, 4)
LAMS = (0.01, 0.1, 1.0, 10.0)
MUS = (0.0, 1.0)


@dataclass(frozen=True)
class Path:
    """One preparation, one way to write the weight, one strength of the margin terms; lambda runs along it.

    ``preparation`` is the place of the preparation in the list of alternatives.
    """

    preparation: int
    decomposition: str
    rank: Rank
    mu: float

    def parameters(self, lam: float) -> dict[str, Any]:
        """Return parameters of `TensorMarginClassifier` for one value of lambda, a multiple of the scale."""
        return {
            "decomposition": self.decomposition,
            "rank": self.rank,
            "lam": f"{lam:.15g}*scale",
            "mu1": self.mu,
            "mu2": self.mu,
        }


def paths(
    shapes: Sequence[tuple[int, ...]], decompositions: Sequence[str], ranks: Sequence[Rank], mus: Sequence[float]
) -> list[Path]:
    """Return the different models for samples of these shapes, one for each alternative of the preparation."""
    return [
        Path(number, decomposition, rank, mu)
        for number, shape in enumerate(shapes)
        for decomposition, rank in weights(shape, decompositions, ranks)
        for mu in mus
    ]


def weights(shape: tuple[int, ...], decompositions: Sequence[str], ranks: Sequence[Rank]) -> list[tuple[str, Rank]]:
    """Return the different ways to write a weight for samples of this shape.

    Ranks that are too high for the samples are lowered to what is possible. What would be the same set of weights is
    taken once, in the order of ``decompositions``: rank one in all low-rank formats, the formats of matrices of one
    rank, and every format of a vector.
    """
    found: dict[Any, tuple[str, Rank]] = {}
    for decomposition in decompositions:
        for cap in ranks:
            rank = _valid(decomposition, cap, shape)
            found.setdefault(_meaning(decomposition, rank, shape), (decomposition, _plain(rank)))
    return list(found.values())


def _valid(decomposition: str, rank: Rank, shape: tuple[int, ...]) -> Rank:
    """Return the rank for these samples: a whole number is lowered as needed, a complete one must be right."""
    if decomposition == "full":
        return None
    weight = FORMATS[decomposition]
    return (
        weight.rank_at_most(int(rank), shape) if isinstance(rank, int | np.integer) else weight.valid_rank(rank, shape)
    )


def _meaning(decomposition: str, rank: Rank, shape: tuple[int, ...]) -> Any:
    """Return a key that is the same for the same set of weights."""
    largest = max(rank) if isinstance(rank, tuple) and rank else rank
    if len(shape) == 1 or decomposition == "full" or (len(shape) == 2 and largest == min(shape)):
        return "any weight"
    if largest == 1 or len(shape) == 2:
        return largest
    return decomposition, rank


def _plain(rank: Rank) -> Rank:
    """Return equal numbers as one."""
    return rank[0] if isinstance(rank, tuple) and len(set(rank)) == 1 else rank
