"""Compiled loops of the convolutions, in a module of their own: importing numba takes a while.

As in `numba_kernels`, functions have no annotations, since numba infers the types. Samples are float32: the
features are counts, and twice as many entries are handled at a time.

A kernel has one value at most of its places (the background) and others at a few (the taps). The sum over the
background is that of all nine places, which all kernels share, so that a convolution costs one addition and one per
tap.
"""

from __future__ import annotations

import numpy as np
from numba import njit

LENGTH = 9
"""Entries of a kernel."""


@njit(cache=True, nogil=True)
def pad(sample, reach, out):
    """Write a sample to the middle of ``out``, whose entries beyond its ends are zero."""
    size = sample.shape[1]
    for channel in range(sample.shape[0]):
        for t in range(size):
            out[channel, reach + t] = sample[channel, t]


@njit(cache=True, nogil=True)
def add_up(padded, reach, dilation, background, out):
    """Write the convolution of every channel with nine equal entries to ``out``."""
    n_channels, size = out.shape
    for channel in range(n_channels):
        row, total = padded[channel], out[channel]
        for t in range(size):
            total[t] = 0.0
        for j in range(LENGTH):
            moved = row[reach + (j - LENGTH // 2) * dilation :]
            for t in range(size):
                total[t] += background * moved[t]


@njit(cache=True, nogil=True)
def convolve(padded, totals, reach, dilation, channels, kernel, out):
    """Write the sum over channels of their convolutions with one kernel (taps, values) to ``out``."""
    (taps, values), size = kernel, out.size
    for t in range(size):
        out[t] = 0.0
    for place in range(channels.size):
        row, total = padded[channels[place]], totals[channels[place]]
        if taps.size == 3:  # in one go
            first = row[reach + (taps[0] - LENGTH // 2) * dilation :]
            second = row[reach + (taps[1] - LENGTH // 2) * dilation :]
            third = row[reach + (taps[2] - LENGTH // 2) * dilation :]
            for t in range(size):
                out[t] += total[t] + values[0] * first[t] + values[1] * second[t] + values[2] * third[t]
        else:
            for t in range(size):
                out[t] += total[t]
            for j in range(taps.size):
                moved = row[reach + (taps[j] - LENGTH // 2) * dilation :]
                for t in range(size):
                    out[t] += values[j] * moved[t]


@njit(cache=True, nogil=True)
def convolutions(samples, rows, loops, out):
    """Write one convolution to each row of ``out``: of the sample, kernel, dilation and channels that belong to it."""
    background, taps, values, dilations, starts, channels = loops
    n_channels, size = samples.shape[1:]
    n_kernels, n_dilations = taps.shape[0], dilations.size
    reach = LENGTH // 2 * dilations.max()
    padded = np.zeros((n_channels, size + 2 * reach), np.float32)
    totals = np.empty((n_channels, size), np.float32)
    for place in range(rows.size):
        kernel, dilation = (place // n_dilations) % n_kernels, dilations[place % n_dilations]
        own = channels[starts[place] : starts[place + 1]]
        pad(samples[rows[place]], reach, padded)
        add_up(padded, reach, dilation, background, totals)
        convolve(padded, totals, reach, dilation, own, (taps[kernel], values[kernel]), out[place])


@njit(cache=True, nogil=True)
def proportions(samples, loops, biases, out):
    """Write the proportions of convolutions above each bias to ``out``, of shape (n_samples, *biases.shape).

    Every other combination of kernel and dilation leaves out the ends, where a kernel reaches beyond the sample.
    """
    background, taps, values, dilations, starts, channels = loops
    n_samples, n_channels, size = samples.shape
    n_kernels, n_dilations = taps.shape[0], dilations.size
    reach = LENGTH // 2 * dilations.max()
    padded = np.zeros((n_channels, size + 2 * reach), np.float32)
    totals = np.empty((n_channels, size), np.float32)
    convolved = np.empty(size, np.float32)
    for i in range(n_samples):
        pad(samples[i], reach, padded)
        for which in range(n_dilations):
            dilation = dilations[which]
            add_up(padded, reach, dilation, background, totals)
            for place in range(which, biases.shape[0], n_dilations):
                kernel = (place // n_dilations) % n_kernels
                own = channels[starts[place] : starts[place + 1]]
                convolve(padded, totals, reach, dilation, own, (taps[kernel], values[kernel]), convolved)
                inside = LENGTH // 2 * dilation if (kernel + which) % 2 else 0
                kept = convolved[inside : size - inside]
                for b in range(biases.shape[1]):
                    out[i, place, b] = np.float32(above(kept, biases[place, b])) / np.float32(kept.size)


@njit(cache=True, nogil=True)
def above(values, threshold):
    """Return how many values exceed a threshold."""
    count = np.int32(0)
    for t in range(values.size):
        count += np.int32(values[t] > threshold)
    return count


@njit(cache=True, nogil=True)
def winners(samples, kernels, dilations, starts, channels, out):
    """Add what the winners of each group have to ``out``: (n_samples, signal, group, dilation, kernel, count).

    The signals are the samples and their differences. Counts are the sums of the largest results, and how often a
    result is the smallest one.
    """
    n_samples, n_channels, size = samples.shape
    reach = LENGTH // 2 * dilations.max()
    total = np.zeros(size + 2 * reach, np.float32)
    results = np.empty((kernels.shape[2], size), np.float32)
    for i in range(n_samples):
        series = samples[i].copy()
        for signal in range(2):
            length = size - signal
            for channel in range(n_channels * signal):
                for t in range(length):
                    series[channel, t] = series[channel, t + 1] - series[channel, t]
            for group in range(kernels.shape[1]):
                for which in range(dilations.size):
                    total[:] = 0.0
                    place = (signal * kernels.shape[1] + group) * dilations.size + which
                    for channel in channels[starts[place] : starts[place + 1]]:
                        row = series[channel]
                        for t in range(length):
                            total[reach + t] += row[t]
                    compete(total, reach, dilations[which], kernels[signal, group], length, results)
                    count(results, length, out[i, signal, group, which])


@njit(cache=True, nogil=True)
def compete(padded, reach, dilation, kernels, size, results):
    """Write the convolution of a series with every kernel to ``results``."""
    first = reach - LENGTH // 2 * dilation
    a, b, c = padded[first:], padded[first + dilation :], padded[first + 2 * dilation :]
    d, e, f = padded[first + 3 * dilation :], padded[first + 4 * dilation :], padded[first + 5 * dilation :]
    g, h, i = padded[first + 6 * dilation :], padded[first + 7 * dilation :], padded[first + 8 * dilation :]
    for k in range(kernels.shape[0]):
        w, row = kernels[k], results[k]
        for t in range(size):  # in one go: nine times faster than adding to the row nine times
            row[t] = (
                (w[0] * a[t] + w[1] * b[t] + w[2] * c[t])
                + (w[3] * d[t] + w[4] * e[t] + w[5] * f[t])
                + (w[6] * g[t] + w[7] * h[t] + w[8] * i[t])
            )


@njit(cache=True, nogil=True)
def count(results, size, out):
    """Add the largest result of every point of time to that of its kernel, and one to the kernel of the smallest."""
    most, least = np.zeros(size, np.int32), np.zeros(size, np.int32)
    high, low = results[0, :size].copy(), results[0, :size].copy()
    for k in range(1, results.shape[0]):  # kernel by kernel, many points of time at once
        row, own = results[k], np.int32(k)
        for t in range(size):
            most[t] = own if row[t] > high[t] else most[t]
            high[t] = max(row[t], high[t])
            least[t] = own if row[t] < low[t] else least[t]
            low[t] = min(row[t], low[t])
    for t in range(size):
        out[most[t], 0] += high[t]
        out[least[t], 1] += np.float32(1.0)
