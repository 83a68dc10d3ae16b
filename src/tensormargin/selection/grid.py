"""The grid of candidate models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..formats import FORMATS
from ..formats.base import Rank, plain_rank

DECOMPOSITIONS = ("full", "cp", "tucker", "tt")
RANKS = (1, 2, 4)
LAMS = (0.01, 0.1, 1.0, 10.0)
MUS = (0.0, 1.0)


@dataclass(frozen=True)
class LambdaPath:
    """Candidates that differ only in lambda: one preparation, decomposition, rank and mu.

    Attributes
    ----------
    preparation : int
        Index of the preparation in the list of alternatives.
    decomposition : str
    rank : int, tuple of int or None
        The requested rank, lowered if the shape of the prepared samples requires it.
    mu : float
    asked : int, tuple of int or None
        The requested rank.
    """

    preparation: int
    decomposition: str
    rank: Rank
    mu: float
    asked: Rank = None

    def within(self, shape: tuple[int, ...]) -> LambdaPath:
        """Return the path with its rank lowered, if needed, to the largest valid one for samples of this shape.

        A preparation fitted on a split may give smaller samples than one fitted on all samples.
        """
        if self.rank is None:
            return self
        return replace(self, rank=plain_rank(FORMATS[self.decomposition].valid_rank(self.rank, shape)))

    def parameters(self, lam: float) -> dict[str, Any]:
        """Return parameters of `TensorMarginClassifier` for one value of lambda."""
        return {
            "decomposition": self.decomposition,
            "rank": self.rank,
            "lam": lam,
            "mu1": self.mu,
            "mu2": self.mu,
        }


def lambda_paths(
    shapes: Sequence[tuple[int, ...]], decompositions: Sequence[str], ranks: Sequence[Rank], mus: Sequence[float]
) -> list[LambdaPath]:
    """Return the distinct models for samples of these shapes, one shape per alternative preparation."""
    return [
        LambdaPath(number, decomposition, rank, mu, asked)
        for number, shape in enumerate(shapes)
        for decomposition, rank, asked in weights(shape, decompositions, ranks)
        for mu in mus
    ]


def weights(
    shape: tuple[int, ...], decompositions: Sequence[str], ranks: Sequence[Rank]
) -> list[tuple[str, Rank, Rank]]:
    """Return the distinct weight formats for samples of this shape, as (decomposition, rank, requested rank).

    Ranks that are too high for the samples are lowered. Equivalent formats are listed once, in the order of
    ``decompositions``: all low-rank formats of rank one, formats of equal rank for matrices, and all formats for
    vectors.
    """
    found: dict[Any, tuple[str, Rank, Rank]] = {}
    for decomposition in decompositions:
        for asked in ranks:
            rank = FORMATS[decomposition].valid_rank(asked, shape)
            key = _meaning(decomposition, rank, shape)
            found.setdefault(key, (decomposition, plain_rank(rank), None if rank is None else plain_rank(asked)))
    return list(found.values())


def lowered_ranks(
    shapes: Sequence[tuple[int, ...]], decompositions: Sequence[str], ranks: Sequence[Rank]
) -> list[tuple[str, Rank, Rank]]:
    """Return each decomposition whose rank is lowered, with the requested rank and the rank used."""
    every = (
        (decomposition, plain_rank(asked), plain_rank(FORMATS[decomposition].valid_rank(asked, shape)))
        for shape in shapes
        for decomposition in decompositions
        for asked in ranks
        if decomposition != "full" and asked is not None
    )
    return list(dict.fromkeys(one for one in every if one[1] != one[2]))


def _meaning(decomposition: str, rank: Rank, shape: tuple[int, ...]) -> Any:
    """Return a key that is equal for equivalent formats."""
    largest = max(rank) if isinstance(rank, tuple) and rank else rank
    if len(shape) == 1 or decomposition == "full" or (len(shape) == 2 and largest == min(shape)):
        return "any weight"
    if largest == 1 or len(shape) == 2:
        return largest
    return decomposition, rank
