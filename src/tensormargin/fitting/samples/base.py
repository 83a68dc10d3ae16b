"""The interface between a fit and its samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from math import prod
from typing import Any, TypeVar

import numpy as np

from ...runtime import Array, tuning
from ..designs import Design
from ..objective import MarginProblem

Made = TypeVar("Made")

_TYPICAL_OF = 5
_IN_SPAN = 1e-12
OFFSET_LOSS = 1e-4  # squared rounding error allowed for a common offset, in units of the spread


def working_dtype(dtype: np.dtype) -> np.dtype:
    """Return the floating dtype that holds samples of ``dtype`` without loss: float32 if it can, otherwise float64."""
    exact_in_single = np.can_cast(dtype, np.float32, casting="safe")
    return np.dtype(np.float32 if exact_in_single else np.float64)


@dataclass(frozen=True)
class Moments:
    """First and second moments of weighted, signed samples."""

    signed_mean: Array  # ``sum_i p_i t_i (Z_i - centre)``
    mean_square: float  # ``sum_i p_i ||Z_i - centre||^2``
    factors: Array | None = None  # what each of several views is multiplied by


class NotFiniteError(ValueError):
    """The samples or their squares are not finite."""


@dataclass(frozen=True)
class ViewFacts:
    """What is known of each of several views after a fit; each array has one entry per view."""

    factors: Array  # what the view was multiplied by
    mean_scores: Array  # by which samples that lack the view are scored
    shares: Array  # of the variance of the scores (`shares_of_variance`)


def shares_of_variance(scores: Array, weights: Array) -> Array:
    """Return ``Cov(s_v, s) / Var(s)`` for scores s_v of each view (last axis) and their sum s; 0 for a constant sum."""
    centred = scores - np.tensordot(weights / weights.sum(), scores, 1)
    total = centred.sum(axis=-1)
    variance = np.tensordot(weights, total**2, 1)
    covariances = np.tensordot(weights, centred * total[..., None], 1)
    variance = np.asarray(variance)[..., None]
    return np.divide(covariances, variance, out=np.zeros_like(covariances), where=variance > 0)


@dataclass(frozen=True)
class Sums:
    """Sums over samples minus a pivot: weighted, weighted with signs, and weighted squared norms."""

    weighted: Array
    signed: Array
    squares: float

    def moments(self, weights: Array, signs: Array, centred: bool, shape: tuple[int, ...]) -> Moments:
        """Return the moments about the mean of the samples (about zero if not ``centred``)."""
        signed, square = self.signed, self.squares
        if centred:
            signed = signed - float(weights @ signs) * self.weighted
            square -= float(self.weighted @ self.weighted)
        return Moments(signed.reshape(shape), max(square, 0.0))


@dataclass(frozen=True)
class HalfContraction:
    """The last result of contracting one half of the samples' modes, which the blocks of the other half share."""

    half: str = ""
    matrices: Sequence[Array] = ()
    result: Any = None

    def turns_to(self, half: str, matrices: Sequence[Array]) -> list[Array] | None:
        """Return what turns these matrices, if they have orthonormal columns, into others in their span, or None."""
        if half != self.half or len(matrices) != len(self.matrices):
            return None
        pairs = list(zip(self.matrices, matrices, strict=True))
        if any(len(own) != len(other) or own.shape[1] < other.shape[1] for own, other in pairs):
            return None
        turns = [own.T @ other for own, other in pairs]
        lost = max(float(np.abs(own @ turn - other).max()) for turn, (own, other) in zip(turns, pairs, strict=True))
        return turns if lost <= _IN_SPAN else None

    def is_of(self, half: str, matrices: Sequence[Array]) -> bool:
        """Return whether this is the contraction of a half with matrices equal to these."""
        return (
            half == self.half
            and len(matrices) == len(self.matrices)
            and all(map(np.array_equal, self.matrices, matrices))
        )


class Samples(ABC):
    """N tensors of one shape that can be contracted."""

    shape: tuple[int, ...]  # of one sample
    dtype: np.dtype  # of the computations
    pivot: Array | None = None  # subtracted from every sample after `first_pass`, if that decided so

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of samples."""

    @property
    def n_entries(self) -> int:
        return len(self) * prod(self.shape)

    @property
    def in_memory(self) -> bool:
        """Whether the samples are in host memory, so that `matrix` can be used."""
        return False

    @property
    def is_remote(self) -> bool:
        """Whether a pass over the samples takes far longer than the solves that it serves."""
        return False

    @property
    def coarse_share(self) -> int:
        """One in how many samples the first sweeps use."""
        return tuning.COARSE_SHARE

    def matrix(self) -> Array:
        """Return the samples as rows of an N x prod(I) matrix; a view if possible."""
        raise NotImplementedError  # for samples `in_memory`

    @cached_property
    def columns(self) -> Array:
        """The samples as columns, in float64: compiled code then makes every step for all samples in one go."""
        return np.ascontiguousarray(self.matrix().T, np.float64)

    @cached_property
    def kept_of_all(self) -> list[tuple[MarginProblem, Array]]:
        """What the solution over all tensors has left for fits with other strengths; see `small_problems`."""
        return []

    @property
    def nbytes(self) -> int:
        """Size of all samples in the dtype of the computations."""
        return self.n_entries * self.dtype.itemsize

    @abstractmethod
    def take(self, rows: Array) -> Samples:
        """Return a subset of the samples (rows in ascending order), gathered in place."""

    def noise(self, weights: Array, signs: Array) -> Array:
        """Return how some samples differ from the mean of their class, as rows times the root of their weight."""
        rows = rows_of_noise(signs, self.shape)
        return deviations(self.take(rows).matrix(), weights[rows], signs[rows])

    @abstractmethod
    def first_pass(self, weights: Array, signs: Array, centred: bool, noise: bool = False) -> Moments:
        """Return moments, summed relative to a typical sample, and decide whether to subtract that pivot in future.

        Samples that are read in passes bring those of `noise` in this one, if it is asked for as well.
        """

    def for_another_fit(self) -> Samples:
        """Return the same samples, to be contracted by another fit at the same time."""
        return self

    @abstractmethod
    def vary(self, centred: bool) -> bool:
        """Return whether any sample differs from the first one (from zero if not ``centred``)."""

    @abstractmethod
    def scores(self, weights: Array) -> Array:
        """Return ``<W_k, Z_i>`` for dense weights of shape (n_weights, I_1, ..., I_M), as an N x n_weights array."""

    def view_facts(self, weight: Array) -> ViewFacts | None:
        """Return what is known of each view after a fit; None for one tensor per sample."""
        return None

    @abstractmethod
    def design(self, contraction: Any) -> Array | Design:
        """Return the N x d design of a contraction, in memory or with the samples. The next call may overwrite it."""

    def within(self, bases: Sequence[Array]) -> Samples:
        """Return the samples contracted with an orthonormal basis per mode: as tensors in these bases, in float64."""
        raise NotImplementedError  # for samples `in_memory`

    def side_by_side(self, contractions: Sequence[Any]) -> Array | Design:
        """Return the designs of several contractions as one matrix in memory, without their removed directions."""

        def projected(contraction: Any) -> Array:
            part = self.design(contraction)
            return contraction.projected(part if isinstance(part, np.ndarray) else part.to_numpy())

        return np.hstack(made_by_halves(contractions, projected))


def made_by_halves(contractions: Sequence[Any], make: Callable[[Any], Made]) -> list[Made]:
    """Return what is made of each contraction.

    Those that share a half of the modes with the first one are made first: the last half contracted is kept.
    """
    halves = [getattr(one, "half", None) for one in contractions]
    order = sorted(range(len(halves)), key=lambda k: halves[k] != halves[0])
    made = {k: make(contractions[k]) for k in order}
    return [made[k] for k in range(len(halves))]


def drawn_rows(signs: Array, share: int) -> Array:
    """Return one in so many rows of each class, in ascending order, the same ones every time."""
    rng = np.random.RandomState(0)
    classes = [np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)]
    drawn = [rng.permutation(rows)[: max(1, len(rows) // share)] for rows in classes]
    return np.sort(np.concatenate(drawn))


def rows_of_noise(signs: Array, shape: tuple[int, ...]) -> Array:
    """Return the rows of some samples of each class, enough for second moments along the modes."""
    share = -(-len(signs) // max(tuning.NOISE_SAMPLES, tuning.NOISE_ENTRIES // prod(shape)))
    return np.sort(np.concatenate([np.flatnonzero(own)[::share] for own in (signs > 0, signs < 0)]))


def deviations(rows: Array, weights: Array, signs: Array) -> Array:
    """Return samples, as rows, minus the mean of their class, times the root of their weight."""
    shares = np.stack([np.where(signs > 0, weights, 0.0), np.where(signs > 0, 0.0, weights)])
    means = shares @ rows / shares.sum(axis=1, keepdims=True)
    found: Array = np.sqrt(weights)[:, None] * (rows - means[(signs < 0).astype(int)])
    return found


@lru_cache
def typical_rows(count: int) -> Array:
    """Return the rows of the few samples whose entrywise median, robust to an outlier, is the pivot."""
    return np.unique(np.linspace(0, count - 1, _TYPICAL_OF).astype(int))


def offset_costs_digits(pivot: Array, mean_square: float, samples: Samples) -> bool:
    """Return whether a common offset is so large that rounding would blur the differences between samples.

    For small samples, where subtracting it is cheap, any offset larger than the spread counts: libraries that sum in a
    different order then agree as if there were no offset.
    """
    offset = float(np.sum(pivot.astype(np.float64) ** 2))
    if samples.n_entries <= tuning.FEW_ENTRIES:
        return offset > mean_square
    return bool(offset * np.finfo(samples.dtype).eps > OFFSET_LOSS * mean_square)


def in_range(mean_square: float, dtype: np.dtype, n_samples: int) -> bool:
    """Return whether squared norms are within the range of the dtype."""
    smallest, largest = range_of(dtype)
    return smallest <= mean_square <= largest / n_samples


@cache
def range_of(dtype: np.dtype) -> tuple[float, float]:
    """Return the smallest mean and the largest sum of squared norms that a dtype has room for."""
    limits = np.finfo(dtype)
    return float(limits.tiny) / float(limits.eps), float(limits.max)
