"""The TT-MMK kernel (Kour, Dolgov, Stoll and Benner 2023): fibres of a Tensor-Train of every sample."""

from __future__ import annotations

from math import prod

import numpy as np

from ...runtime import Array, FloatArray
from .components import ComponentKernel, signs_of_largest


class TTMMK(ComponentKernel):
    """Components of a Tensor-Train of rank ``rank`` at every bond: all chains of fibres through its cores.

    The signs of the singular vectors are made unique, and the norm of a chain is spread evenly over its fibres.
    """

    words = "TT-MMK kernel"

    def factors(self, X: Array) -> list[FloatArray]:
        """Return the fibres of all chains."""
        return chains(tensor_trains(X, self.rank))


def tensor_trains(X: FloatArray, rank: int) -> list[FloatArray]:
    """Return the Tensor-Train cores of every sample by truncated SVDs, of shape (n_samples, left, I_m, right)."""
    n_samples, *sizes = X.shape
    cores, rest, bond = list[FloatArray](), X, 1
    for mode, size in enumerate(sizes[:-1]):
        left, values, right = np.linalg.svd(
            rest.reshape(n_samples, bond * size, prod(sizes[mode + 1 :])), full_matrices=False
        )
        k = min(rank, values.shape[1])
        signs = signs_of_largest(left[:, :, :k].transpose(0, 2, 1))
        cores.append((left[:, :, :k] * signs[:, None, :]).reshape(n_samples, bond, size, k))
        rest, bond = right[:, :k] * (values[:, :k] * signs)[:, :, None], k
    return [*cores, rest.reshape(n_samples, bond, sizes[-1], 1)]


def chains(cores: list[FloatArray]) -> list[FloatArray]:
    """Return the fibres of all chains through the cores, an array of shape (n_samples, n_chains, I_m) per mode."""
    factors = [np.moveaxis(cores[0][:, 0], 2, 1)]
    ends = np.arange(cores[0].shape[3])  # the right index of each chain
    for core in cores[1:]:
        bond = core.shape[3]
        factors = [np.repeat(factor, bond, axis=1) for factor in factors]
        before, ends = np.repeat(ends, bond), np.tile(np.arange(bond), len(ends))
        factors.append(core[:, before, :, ends].transpose(1, 0, 2))
    return factors
