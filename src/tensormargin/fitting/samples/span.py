"""Coordinates of samples in an orthonormal basis of their span."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from ...runtime import FloatArray


@dataclass(frozen=True)
class Span:
    """The principal axes of some vectors, from the inner products of these: the axes themselves are not needed.

    Attributes
    ----------
    coordinates : ndarray of shape (n_vectors, n_axes)
        The vectors on the axes; they have the same inner products.
    shares : ndarray of shape (n_vectors, n_axes)
        Each axis as a combination of the vectors.
    """

    coordinates: FloatArray
    shares: FloatArray

    @classmethod
    def of(cls, gram: FloatArray) -> Span:
        """Return the axes that rounding has not made up, given the inner products, which are overwritten.

        There is always one, of length zero if all vectors are zero: a classifier needs a feature.
        """
        squares, vectors = eigh(gram, overwrite_a=True, check_finite=False)
        kept = squares > len(gram) * np.finfo(np.float64).eps * max(squares[-1], 0.0)
        kept[-1] = True
        axes, lengths = vectors[:, kept], np.sqrt(np.maximum(squares[kept], 0.0))
        return cls(axes * lengths, np.divide(axes, lengths, out=np.zeros_like(axes), where=lengths > 0))
