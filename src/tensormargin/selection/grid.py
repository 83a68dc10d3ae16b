"""The grid of candidate models."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from ..fitting import FORMATS, Rank, plain_rank
from ..runtime import available_bytes, tuning

FULL, EQUAL = "full", "equal"
DECOMPOSITIONS = (FULL, "cp", "tucker", "tt")
RANKS = (1, 2, 4)
LAMS = (1.0, 10.0)
"""Values of lambda: these two do what more of them do (benchmarks/results/search.md)."""
MUS = ((0.0, 0.0), (1.0, 1.0), (10.0, 10.0), (100.0, 0.0))
"""Pairs (mu1, mu2), from the support vector machine to strong margin terms, with and without the margin mean."""

Mu = float | tuple[float, float]
"""The strength of both margin terms, or of margin variance and margin mean."""

Scheme = tuple[str, Any]
"""Values of ``multi_class`` and ``class_weight``."""


@dataclass(frozen=True)
class Candidate:
    """One model of a search: the number of a preparation, and parameters of `TensorMarginClassifier`.

    Decomposition and rank are dictionaries for several views with different ones. A rank that is too high for the
    prepared samples is lowered (one rank for all views not here, but in each fit); ``requested`` is the original one.
    ``view_scale`` is 0 for a view that is left out, and None for one tensor per sample.
    """

    preparation: int
    decomposition: Any
    rank: Any
    lam: float
    mu1: float
    mu2: float
    multi_class: str = "ovo"
    class_weight: Any = None
    requested: Rank = None
    view_scale: Any = None

    def within(self, shape: Any) -> Candidate:
        """Return the candidate with its rank lowered, if needed, to the largest valid one for samples of this shape.

        A preparation fitted on a split may give smaller samples than one fitted on all samples.
        """
        if self.rank is None or isinstance(shape, dict):
            return self
        return replace(self, rank=plain_rank(FORMATS[self.decomposition].valid_rank(self.rank, shape)))

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of `TensorMarginClassifier`."""
        names = ("decomposition", "rank", "lam", "mu1", "mu2", "multi_class", "class_weight")
        views = {} if self.view_scale is None else {"view_scale": self.view_scale}
        return {name: getattr(self, name) for name in names} | views

    @property
    def levels(self) -> tuple[Any, ...]:
        """The candidate's value on each axis of the grid; candidates that share some of them are close."""
        return (
            self.preparation,
            (self.decomposition, self.rank),
            (self.mu1, self.mu2),
            (self.multi_class, repr(self.class_weight)),
            self.lam,
            repr(self.view_scale),
        )


def candidates(
    shapes: Sequence[Any],
    decompositions: Sequence[str],
    ranks: Sequence[Rank],
    lams: Iterable[float],
    mus: Sequence[Mu],
    schemes: Sequence[Scheme] = (("ovo", None),),
) -> list[Candidate]:
    """Return the distinct models for samples of these shapes, one shape per alternative preparation.

    For several views (a dictionary of shapes), all have the same decomposition and rank, and one of them may be left
    out; `of_one_view` then refines them. Where they are one alternative among single tensors, all are used, with full
    weights: the other alternatives have them one by one.
    """
    lams, pairs = sorted(dict.fromkeys(map(float, lams))), dict.fromkeys(map(_mu_pair, mus))
    found = []
    for number, shape in enumerate(shapes):
        scales: list[Any] = [None]
        own = decompositions
        if side_by_side(shapes, number):
            scales, own = [EQUAL], [FULL] if FULL in decompositions else decompositions
        elif isinstance(shape, dict):
            scales = [EQUAL, *({name: 0.0} for name in shape if len(shape) > 1)]
        found += [
            Candidate(number, decomposition, rank, lam, *pair, *scheme, requested=requested, view_scale=scale)
            for scale in scales
            for decomposition, rank, requested in weights(shape, own, ranks)
            for pair in pairs
            for scheme in schemes
            for lam in lams
        ]
    return found


def _mu_pair(mu: Mu) -> tuple[float, float]:
    mu1, mu2 = np.broadcast_to(mu, 2).tolist()
    return float(mu1), float(mu2)


def side_by_side(shapes: Sequence[Any], number: int) -> bool:
    """Return whether an alternative has several views while another one has a single tensor."""
    return isinstance(shapes[number], dict) and not all(isinstance(shape, dict) for shape in shapes)


def of_one_view(
    candidate: Candidate, shape: Any, name: str, decompositions: Sequence[str], ranks: Sequence[Rank]
) -> list[Candidate]:
    """Return the candidates that differ from another one in the weight of one view that it uses."""
    left_out = isinstance(candidate.view_scale, dict) and candidate.view_scale.get(name) == 0.0
    if left_out or len(shape[name]) == 1:
        return []
    forms, used = (
        dict(value) if isinstance(value, dict) else dict.fromkeys(shape, value)
        for value in (candidate.decomposition, candidate.rank)
    )

    def meaning(decomposition: str, rank: Rank) -> Any:
        return _meaning(decomposition, FORMATS[decomposition].valid_rank(rank, shape[name]), shape[name])

    return [
        replace(candidate, decomposition={**forms, name: decomposition}, rank={**used, name: rank})
        for decomposition, rank, _ in weights(shape[name], decompositions, ranks)
        if meaning(decomposition, rank) != meaning(forms[name], used[name])
    ]


def schemes_of(multi_class: str, class_weight: Any, n_classes: int) -> list[Scheme]:
    """Return the schemes to try: the requested one, or with "auto" all that differ for this number of classes.

    Ties go to earlier ones. With many classes the rest outnumbers each of them, so that balanced one-vs-rest comes
    first (15 classes of 3 to 12 samples: 1.8 points above the other one, benchmarks/results/prior.csv).
    """
    if n_classes == 2:
        return [("ovo" if multi_class == "auto" else multi_class, class_weight)]
    if multi_class != "auto":
        return [(multi_class, class_weight)]
    against_rest = [("ovr", class_weight), *([("ovr", "balanced")] if class_weight is None else [])]
    return [("ovo", class_weight), *against_rest[:: -1 if n_classes >= tuning.MANY_CLASSES else 1]]


def without_full_if_too_large(
    decompositions: Sequence[str], n_samples: int, shapes: Sequence[tuple[int, ...]]
) -> Sequence[str]:
    """Return the decompositions that can be fitted to samples in a Dask array.

    A full weight needs the samples, or their inner products, in memory. If these are too large, it is left out with a
    warning; raise ValueError if no other decomposition is requested.
    """
    bytes_of_one = tuning.COORDINATE_COPIES * 8 * n_samples
    largest = max(min(n_samples, prod(shape)) for shape in shapes)
    if FULL not in decompositions or bytes_of_one * largest <= available_bytes() / 4:
        return decompositions
    why = (
        f"a full weight of {n_samples} samples with {prod(shapes[0])} entries needs the samples, or their inner "
        "products, in memory, which they would fill"
    )
    others = [name for name in decompositions if name != FULL]
    if not others:
        raise ValueError(f"{why}. Use another decomposition, or fewer samples")
    warnings.warn(f"{why}: it is not among the candidates", stacklevel=6)
    return others


PRIOR = MappingProxyType({"decomposition": "cp", "rank": 1, "lam": 1.0, "mu1": 1.0, "mu2": 1.0, "multi_class": "ovo"})
"""The model that is tried first. On each axis but the decomposition it has the best mean over the data sets of
benchmarks/search.py; of decompositions, none is better than another on average, and this one has the fewest numbers."""

PRIOR_OF_VIEWS = MappingProxyType({"lam": 10.0, "mu1": 100.0, "mu2": 0.0, "multi_class": "ovr", "class_weight": None})
"""The same for several views side by side: 1.2 points above one-vs-one with the values of `PRIOR` for several classes,
as good as any other for two (benchmarks/results/prior.md). Less margin variance is as good but for many samples of many
classes, which it hardly separates: PLAID, 537 samples of 11 classes, loses two points with a tenth of it. With so much
of it, balanced classes are as good; but one-vs-rest problems that are not balanced share one factorisation."""


def default_of(tried: Sequence[Candidate], shapes: Sequence[Any] = (), only: int | None = None) -> int:
    """Return the index of the candidate that is closest to the prior; ties go to the last preparation.

    With ``only``, it is one of those after this preparation. If ``shapes`` has several views side by side beside single
    tensors, it is one of theirs: no single representation is as good on average (docs/field.md).
    """
    together = [number for number, _ in enumerate(shapes) if side_by_side(shapes, number)]
    prior = PRIOR_OF_VIEWS if together else PRIOR

    def agreement(number: int) -> tuple[bool, int, int, int]:
        one = tried[number]
        same = sum(getattr(one, name) == value for name, value in prior.items())
        return one.preparation in together, same, one.preparation, -number

    return max((number for number, one in enumerate(tried) if only in (None, one.preparation)), key=agreement)


def weights(shape: Any, decompositions: Sequence[str], ranks: Sequence[Rank]) -> list[tuple[str, Rank, Rank]]:
    """Return the distinct weight formats for samples of this shape, as (decomposition, rank, requested rank).

    Ranks that are too high for the samples are lowered. Equivalent formats are listed once, in the order of
    ``decompositions``: all low-rank formats of rank one, formats of equal rank for matrices, and all formats for
    vectors. For several views the rank is the requested one, which is lowered in each view.
    """
    found: dict[Any, tuple[str, Rank, Rank]] = {}
    several, shapes = isinstance(shape, dict), _shapes(shape)
    for decomposition in decompositions:
        for requested in ranks:
            used = [FORMATS[decomposition].valid_rank(requested, own) for own in shapes]
            key = tuple(_meaning(decomposition, rank, own) for rank, own in zip(used, shapes, strict=True))
            given = None if decomposition == FULL else plain_rank(requested)
            found.setdefault(key, (decomposition, given if several else plain_rank(used[0]), given))
    return list(found.values())


def _shapes(shape: Any) -> list[tuple[int, ...]]:
    """Return the shapes of the views whose weights are not flat, or the only one."""
    return [own for own in shape.values() if len(own) > 1] if isinstance(shape, dict) else [shape]


def lowered_ranks(
    shapes: Sequence[Any], decompositions: Sequence[str], ranks: Sequence[Rank]
) -> list[tuple[str, Rank, Rank]]:
    """Return each decomposition whose rank is lowered, with the requested rank and the rank used."""
    every = (
        (decomposition, plain_rank(requested), plain_rank(FORMATS[decomposition].valid_rank(requested, shape)))
        for one in shapes
        for shape in _shapes(one)
        for decomposition in decompositions
        for requested in ranks
        if decomposition != FULL and requested is not None
    )
    return list(dict.fromkeys(one for one in every if one[1] != one[2]))


def _meaning(decomposition: str, rank: Rank, shape: tuple[int, ...]) -> Any:
    """Return a key that is equal for equivalent formats."""
    largest = max(rank) if isinstance(rank, tuple) and rank else rank
    if len(shape) == 1 or decomposition == FULL or (len(shape) == 2 and largest == min(shape)):
        return "any weight"
    if largest == 1 or len(shape) == 2:
        return largest
    return decomposition, rank
