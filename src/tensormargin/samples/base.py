"""What a fit asks of its samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod

import numpy as np

from .. import tuning
from .._typing import Array
from ..contractions import Contraction
from ..designs import Design

_TYPICAL_OF = 5
_OFFSET_LOSS = 1e-4  # in units of the spread; what rounding may take from samples with a common offset, squared


def working_dtype(dtype: np.dtype) -> np.dtype:
    """Return the floating type that holds samples of ``dtype`` without loss.

    That is float32 for float32, float16, integers of 16 bits and booleans, and float64 for all others.
    """
    exact_in_single = np.can_cast(dtype, np.float32, casting="safe")
    return np.dtype(np.float32 if exact_in_single else np.float64)


@dataclass(frozen=True)
class Moments:
    """First and second moments of weighted, signed samples.

    Attributes
    ----------
    signed_mean : ndarray of shape (I_1, ..., I_M)
        ``sum_i p_i t_i (Z_i - centre)``.
    mean_square : float
        ``sum_i p_i ||Z_i - centre||^2``.
    """

    signed_mean: Array
    mean_square: float


@dataclass(frozen=True)
class Sums:
    """Sums over samples less a pivot, added up part by part: with their weights, with their signs too, of squares."""

    weighted: Array
    signed: Array
    squares: float

    def moments(self, weights: Array, signs: Array, centred: bool, shape: tuple[int, ...]) -> Moments:
        """Return the moments about the samples' mean (about zero if not ``centred``)."""
        signed, square = self.signed, self.squares
        if centred:
            signed = signed - float(weights @ signs) * self.weighted
            square -= float(self.weighted @ self.weighted)
        return Moments(signed.reshape(shape), max(square, 0.0))


class Samples(ABC):
    """N tensors of one shape that can be contracted.

    Attributes
    ----------
    shape : tuple of int
        Of one sample.
    dtype : dtype
        What is computed in.
    pivot : ndarray of shape (I_1, ..., I_M) or None
        What `first_pass` has decided to subtract from every sample that is read from then on; None for nothing.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    pivot: Array | None = None

    @abstractmethod
    def __len__(self) -> int:
        """Return how many there are."""

    @property
    def nbytes(self) -> int:
        """Size of all samples in the dtype that is computed in."""
        return len(self) * prod(self.shape) * self.dtype.itemsize

    @abstractmethod
    def take(self, rows: Array) -> Samples:
        """Return some of the samples (positions in rising order), gathered where they live."""

    @abstractmethod
    def first_pass(self, weights: Array, signs: Array, centred: bool) -> Moments:
        """Return signed mean and mean squared norm, and settle how the samples are read from now on.

        Distances are taken from a typical sample, the pivot, so that a large common offset does not cancel digits.
        """

    @abstractmethod
    def vary(self, centred: bool) -> bool:
        """Tell whether any sample differs from the first one (from zero if not ``centred``)."""

    @abstractmethod
    def scores(self, weights: Array) -> Array:
        """Return ``<W_k, Z_i>`` for dense weights of shape (n_weights, I_1, ..., I_M), as an N x n_weights array."""

    @abstractmethod
    def design(self, contraction: Contraction) -> Array | Design:
        """Return the N x d design matrix of a block, here or where the samples live. The next call may overwrite it."""


def typical_rows(count: int) -> Array:
    """Return the positions of the few samples whose entrywise median is the pivot.

    It is near the others even where one of the few is far from them.
    """
    return np.unique(np.linspace(0, count - 1, _TYPICAL_OF).astype(int))


def offset_costs_digits(pivot: Array, mean_square: float, samples: Samples) -> bool:
    """Tell whether a common offset of this size is so large that rounding it blurs the differences of the samples.

    Every digit counts where subtracting it costs next to nothing: libraries that add up in another order then agree as
    if there were no offset.
    """
    offset = float(np.sum(pivot.astype(np.float64) ** 2))
    if len(samples) * prod(samples.shape) <= tuning.FEW_ENTRIES:
        return offset > mean_square
    return bool(offset * np.finfo(samples.dtype).eps > _OFFSET_LOSS * mean_square)
