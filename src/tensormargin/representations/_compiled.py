"""Compiled loops of the convolutions, in a module of their own: importing numba takes a while.

As in `tensormargin._kernels`, functions have no annotations, since numba infers the types.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LENGTH = 9
"""Entries of a kernel."""


@njit(cache=True, nogil=True)
def convolve(sample, weights, dilation, channels, out):
    """Write the sum over channels of their convolutions with one kernel to ``out``; zeros lie beyond the ends."""
    size = out.size
    for t in range(size):
        out[t] = 0.0
    for j in range(LENGTH):
        shift = (j - LENGTH // 2) * dilation
        first, last = max(0, -shift), min(size, size - shift)
        weight = weights[j]
        for place in range(channels.size):
            row = sample[channels[place]]
            for t in range(first, last):
                out[t] += weight * row[t + shift]


@njit(cache=True, nogil=True)
def convolutions(samples, rows, weights, dilations, starts, channels, out):
    """Write one convolution to each row of ``out``: of the sample, kernel, dilation and channels that belong to it."""
    n_kernels, n_dilations = weights.shape[0], dilations.size
    for place in range(rows.size):
        kernel, dilation = (place // n_dilations) % n_kernels, dilations[place % n_dilations]
        own = channels[starts[place] : starts[place + 1]]
        convolve(samples[rows[place]], weights[kernel], dilation, own, out[place])


@njit(cache=True, nogil=True)
def proportions(samples, weights, dilations, starts, channels, biases, out):
    """Write the proportions of convolutions above each bias to ``out``, of shape (n_samples, *biases.shape).

    Every other combination of kernel and dilation leaves out the ends, where a kernel reaches beyond the sample.
    """
    n_samples, _, size = samples.shape
    n_kernels, n_dilations = weights.shape[0], dilations.size
    convolved = np.empty(size)
    for i in range(n_samples):
        for place in range(biases.shape[0]):
            kernel, which = (place // n_dilations) % n_kernels, place % n_dilations
            own = channels[starts[place] : starts[place + 1]]
            convolve(samples[i], weights[kernel], dilations[which], own, convolved)
            inside = LENGTH // 2 * dilations[which] if (kernel + which) % 2 else 0
            number = size - 2 * inside
            for b in range(biases.shape[1]):
                bias, count = biases[place, b], 0
                for t in range(inside, size - inside):
                    count += convolved[t] > bias
                out[i, place, b] = count / number
