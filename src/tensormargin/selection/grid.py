"""The grid of candidate models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..formats import FORMATS
from ..formats.base import Rank, plain_rank

DECOMPOSITIONS = ("full", "cp", "tucker", "tt")
RANKS = (1, 2, 4)
LAMS = (0.1, 1.0)
MUS = ((0.0, 0.0), (1.0, 1.0), (10.0, 10.0), (10.0, 0.0))

Mu = float | tuple[float, float]
"""The strength of both margin terms, or of margin variance and margin mean."""

Scheme = tuple[str, Any]
"""Values of ``multi_class`` and ``class_weight``."""


@dataclass(frozen=True)
class Candidate:
    """One model of a search.

    Attributes
    ----------
    preparation : int
        Index of the preparation in the list of alternatives.
    decomposition : str
    rank : int, tuple of int or None
        The requested rank, lowered if the shape of the prepared samples requires it.
    lam, mu1, mu2 : float
    multi_class : {"ovo", "ovr"}
    class_weight : dict, "balanced" or None
    asked : int, tuple of int or None
        The requested rank.
    """

    preparation: int
    decomposition: str
    rank: Rank
    lam: float
    mu1: float
    mu2: float
    multi_class: str = "ovo"
    class_weight: Any = None
    asked: Rank = None

    def within(self, shape: tuple[int, ...]) -> Candidate:
        """Return the candidate with its rank lowered, if needed, to the largest valid one for samples of this shape.

        A preparation fitted on a split may give smaller samples than one fitted on all samples.
        """
        if self.rank is None:
            return self
        return replace(self, rank=plain_rank(FORMATS[self.decomposition].valid_rank(self.rank, shape)))

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of `TensorMarginClassifier`."""
        names = ("decomposition", "rank", "lam", "mu1", "mu2", "multi_class", "class_weight")
        return {name: getattr(self, name) for name in names}

    @property
    def levels(self) -> tuple[Any, ...]:
        """The candidate's value on each axis of the grid; candidates that share some of them are close."""
        return (
            self.preparation,
            (self.decomposition, self.rank),
            (self.mu1, self.mu2),
            (self.multi_class, repr(self.class_weight)),
            self.lam,
        )


def candidates(
    shapes: Sequence[tuple[int, ...]],
    decompositions: Sequence[str],
    ranks: Sequence[Rank],
    lams: Iterable[float],
    mus: Sequence[Mu],
    schemes: Sequence[Scheme] = (("ovo", None),),
) -> list[Candidate]:
    """Return the distinct models for samples of these shapes, one shape per alternative preparation."""
    lams = sorted(dict.fromkeys(map(float, lams)))
    return [
        Candidate(number, decomposition, rank, lam, *pair, *scheme, asked=asked)
        for number, shape in enumerate(shapes)
        for decomposition, rank, asked in weights(shape, decompositions, ranks)
        for pair in dict.fromkeys(map(mu_pair, mus))
        for scheme in schemes
        for lam in lams
    ]


def mu_pair(mu: Mu) -> tuple[float, float]:
    """Return mu1 and mu2; a single number stands for both."""
    mu1, mu2 = np.broadcast_to(mu, 2).tolist()
    return float(mu1), float(mu2)


def schemes_of(multi_class: str, class_weight: Any, n_classes: int) -> list[Scheme]:
    """Return the schemes to try: the requested one, or with "auto" all that differ for this number of classes."""
    if n_classes == 2:
        return [("ovo" if multi_class == "auto" else multi_class, class_weight)]
    if multi_class != "auto":
        return [(multi_class, class_weight)]
    balanced = [("ovr", "balanced")] if class_weight is None else []
    return [("ovo", class_weight), ("ovr", class_weight), *balanced]


PRIOR = {"decomposition": "cp", "rank": 2, "lam": 1.0, "mu1": 1.0, "mu2": 1.0, "multi_class": "ovo"}


def default_of(tried: Sequence[Candidate]) -> int:
    """Return the index of the candidate that is closest to the one to try first, with the last preparation."""

    def agreement(number: int) -> tuple[int, int]:
        one = tried[number]
        return sum(getattr(one, name) == value for name, value in PRIOR.items()), one.preparation

    return max(range(len(tried)), key=lambda number: (*agreement(number), -number))


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
