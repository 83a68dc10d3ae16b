"""Loops of the convolutions in compiled code; where nothing was compiled, NumPy gives the same digits, more slowly.

Samples are float32: the features are counts, and twice as many entries are handled at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...fitting import check_indices, run_native
from ...runtime import Array

LENGTH = 9
"""Entries of a kernel."""


class Loops(NamedTuple):
    """Kernels, dilations and channels of all places (combination x kernel x dilation).

    A kernel has one value at most of its places (the background) and others at a few (the taps). The sum over the
    background is that of all nine places, which all kernels share, so that a convolution costs one addition and one per
    tap. ``starts`` says where the ``channels`` of each place begin.
    """

    background: float
    taps: Array
    values: Array
    dilations: Array
    starts: Array
    channels: Array

    def run(self, name: str, samples: Array, *more: Array | int) -> bool:
        """Return whether a compiled function did it; raise ValueError for what it could not index."""
        _check_places(samples, self.dilations, self.starts, self.channels)
        check_indices("taps of a kernel", self.taps, 0, LENGTH - 1)
        if self.taps.ndim != 2 or self.taps.shape != self.values.shape or self.taps.shape[1] not in (3, LENGTH):
            raise ValueError(
                f"every kernel needs 3 or {LENGTH} taps, each with a value; got taps of shape {self.taps.shape} and "
                f"values of shape {self.values.shape}"
            )
        if (len(self.starts) - 1) % (len(self.taps) * len(self.dilations)):
            raise ValueError(
                f"places must be combinations x {len(self.taps)} kernels x {len(self.dilations)} dilations; got "
                f"{len(self.starts) - 1}"
            )
        shape = np.array([*self.taps.shape, len(self.dilations), *samples.shape[1:]], np.int64)
        taps, dilations, starts, channels = map(_whole, (self.taps, self.dilations, self.starts, self.channels))
        given = shape, self.background, taps, self.values, dilations, starts, channels, samples
        return _ran(name, *given, *more)

    def places(self) -> Iterator[tuple[int, int, Array, Array, Array]]:
        """Yield kernel, number of the dilation, taps, their values and channels of each place."""
        for place in range(len(self.starts) - 1):
            kernel, which = place // len(self.dilations) % len(self.taps), place % len(self.dilations)
            own = self.channels[self.starts[place] : self.starts[place + 1]]
            yield kernel, which, self.taps[kernel], self.values[kernel], own


def _check_places(samples: Array, dilations: Array, starts: Array, channels: Array) -> None:
    """Raise ValueError unless dilations fit into samples, and the channels of each place are channels of them."""
    check_indices("dilations", dilations, 1, samples.shape[2])
    check_indices("starts of channels", starts, 0, len(channels))
    check_indices("channels", channels, 0, samples.shape[1] - 1)
    if np.any(np.diff(starts) < 0):
        raise ValueError("starts of channels must not descend. Fit again, or get the file of the model again")


def _whole(numbers: Array) -> Array:
    return np.ascontiguousarray(numbers, np.int64)


def _ran(name: str, *arguments: Array | float) -> bool:
    sizes = [one.size for one in arguments if isinstance(one, np.ndarray)]  # checked by the callers
    failed = run_native(name, *arguments, sizes=sizes)
    if failed:
        raise MemoryError("no memory is left for convolutions")
    return failed is not None


def convolutions(samples: Array, rows: Array, loops: Loops) -> Array:
    """Return one convolution per place, of the sample, kernel, dilation and channels that belong to it."""
    check_indices("rows", rows, 0, len(samples) - 1)
    if len(rows) != len(loops.starts) - 1:
        raise ValueError(f"every place needs a row; got {len(rows)} rows for {len(loops.starts) - 1} places")
    out = np.empty((len(rows), samples.shape[2]), np.float32)
    if not loops.run("tensormargin_convolutions", samples, len(rows), _whole(rows), out):
        for place, (_, which, *kernel) in enumerate(loops.places()):
            parts = _shifted(samples[rows[place], None], loops.dilations[which])
            out[place] = _convolved(parts, _totals(parts, loops.background), *kernel)[0]
    return out


def proportions(samples: Array, loops: Loops, biases: Array) -> Array:
    """Return the proportions of convolutions above each bias, of shape (n_samples, *biases.shape).

    Every other combination of kernel and dilation leaves out the ends, where a kernel reaches beyond the sample.
    """
    if biases.ndim != 2 or len(biases) != len(loops.starts) - 1:
        raise ValueError(f"every place needs biases; got {biases.shape} for {len(loops.starts) - 1} places")
    out = np.empty((len(samples), *biases.shape), np.float32)
    if loops.run("tensormargin_proportions", samples, len(samples), *biases.shape, biases, out):
        return out
    parts = [_shifted(samples, dilation) for dilation in loops.dilations]
    totals = [_totals(one, loops.background) for one in parts]
    for place, (kernel, which, *own) in enumerate(loops.places()):
        inside = LENGTH // 2 * loops.dilations[which] if (kernel + which) % 2 else 0
        convolved = _convolved(parts[which], totals[which], *own)
        kept = convolved[:, inside : convolved.shape[1] - inside]
        for b, bias in enumerate(biases[place]):
            out[:, place, b] = np.count_nonzero(kept > bias, axis=1).astype(np.float32) / np.float32(kept.shape[1])
    return out


def _shifted(samples: Array, dilation: int) -> list[Array]:
    """Return what a kernel's places see of samples (n_samples, n_channels, size), which zeros surround."""
    reach, size = LENGTH // 2 * int(dilation), samples.shape[-1]
    padded = np.pad(samples, [(0, 0)] * (samples.ndim - 1) + [(reach, reach)])
    return [padded[..., j * dilation : j * dilation + size] for j in range(LENGTH)]


def _totals(parts: list[Array], background: float) -> Array:
    total = np.zeros_like(parts[0])
    for part in parts:
        total += np.float32(background) * part
    return total


def _convolved(parts: list[Array], totals: Array, taps: Array, values: Array, channels: Array) -> Array:
    """Return the sums over channels of their convolutions with one kernel, added up as compiled code does."""
    out = np.zeros((len(totals), totals.shape[2]), np.float32)
    for channel in channels:
        of_taps = [value * parts[tap][:, channel] for tap, value in zip(taps, values, strict=True)]
        if len(taps) == 3:
            out += ((totals[:, channel] + of_taps[0]) + of_taps[1]) + of_taps[2]
        else:
            for one in (totals[:, channel], *of_taps):
                out += one
    return out


def winners(samples: Array, kernels: Array, dilations: Array, starts: Array, channels: Array) -> Array:
    """Return what the winners of each group have: (n_samples, signal, group, dilation, kernel, count).

    The signals are the samples and their differences. Counts are the sums of the largest results, and how often a
    result is the smallest one.
    """
    groups, count = kernels.shape[1:3]
    _check_places(samples, dilations, starts, channels)
    if kernels.shape != (2, groups, count, LENGTH) or len(starts) - 1 != 2 * groups * len(dilations):
        raise ValueError(
            f"kernels must have the shape (2, groups, kernels, {LENGTH}), with channels for each signal, group and "
            f"dilation; got {kernels.shape} and {len(starts) - 1} places"
        )
    out = np.zeros((len(samples), 2, groups, len(dilations), count, 2), np.float32)
    shape = np.array([*samples.shape, groups, count, len(dilations)], np.int64)
    where = map(_whole, (dilations, starts, channels))
    if _ran("tensormargin_winners", shape, samples, kernels, *where, out):
        return out
    for place in range(len(starts) - 1):
        signal, group, which = np.unravel_index(place, out.shape[1:4])
        series = np.diff(samples) if signal else samples
        total = np.zeros_like(series[:, 0])
        for channel in channels[starts[place] : starts[place + 1]]:
            total += series[:, channel]
        parts = _shifted(total, dilations[which])
        for found, results in zip(out[:, signal, group, which], _results(parts, kernels[signal, group]), strict=True):
            np.add.at(found[:, 0], np.argmax(results, axis=0), np.max(results, axis=0))
            np.add.at(found[:, 1], np.argmin(results, axis=0), np.float32(1.0))
    return out


def _results(parts: list[Array], kernels: Array) -> Array:
    """Return the convolutions of all samples with every kernel: (n_samples, kernel, size)."""
    out = np.empty((len(parts[0]), len(kernels), parts[0].shape[1]), np.float32)
    for k, kernel in enumerate(kernels):
        a, b, c, d, e, f, g, h, i = (value * part for value, part in zip(kernel, parts, strict=True))
        out[:, k] = ((a + b + c) + (d + e + f)) + (g + h + i)
    return out
