"""A mask of the entries that differ most between classes."""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import Any

import numpy as np

from ...data import NO_METADATA, Metadata
from ...runtime import Array, FloatArray, as_like, cast, computed, like, namespace, to_host
from ..preparation._base import checked_number
from ..preparation._passes import added, floating, statistics, widest
from ..preparation.scaling import TensorScaler
from ..preparation.shaping import SetsToZero
from .base import LearnsFromLabels


class AnovaMask(LearnsFromLabels, SetsToZero):
    """Set all entries to zero but those whose means differ most between the classes.

    Entries are ranked by the F statistic of an analysis of variance, as fMRI decoders select voxels. The mask is
    learned from training samples and their labels, and samples keep their shape.

    Parameters
    ----------
    share : float, default=0.2
        Share of the entries to keep, above 0 and at most 1; at least one is kept.

    Attributes
    ----------
    mask_ : array of bool, of the sample shape
    f_ : ndarray of the sample shape
        F of each entry, infinite where classes differ and samples of one class do not.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import AnovaMask
    >>> X, y = np.random.default_rng(0).normal(size=(40, 5, 6)), np.arange(40) % 2
    >>> X[y == 1, 2, 3] += 5
    >>> AnovaMask(0.01).fit(X, y).mask_[2, 3]
    np.True_
    """

    def __init__(self, share: float = 0.2) -> None:
        self.share = share

    def _learn(self, X: Any, metadata: Metadata) -> tuple[int, ...]:
        checked_number(self.share, "share", 0.0)
        if self.share > 1:
            raise ValueError(f"share must be at most 1; got share={self.share!r}")
        _, codes = self._coded(X)
        found = _f_statistics(X, codes)
        mask = np.zeros(found.size, bool)
        mask[np.argsort(-found.ravel(), kind="stable")[: ceil(self.share * mask.size)]] = True
        self.f_, self.mask_ = as_like(found, X), as_like(mask.reshape(found.shape), X)
        return self.sample_shape_in_

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        return super()._change(cast(X, floating(X)), metadata)

    def brief(self) -> str:
        return f"the {100 * self.share:g} % of the entries that differ most between classes"

    def words(self) -> str:
        return (
            f"all but {100 * self.share:g} % of the entries, those with the largest F between classes in the training "
            "samples, were set to zero"
        )


def _f_statistics(X: Any, codes: Array) -> FloatArray:
    """Return F of each entry, from one pass for the mean and one for sums about it."""
    mean = to_host(TensorScaler(with_std=False).fit(X).mean_).reshape(X.shape[1:])
    sums = statistics(X, partial(_sums, mean=mean), added, codes)
    found = computed(*(one for _, one in sorted(sums.items())))
    number = sum(count for count, _, _ in found)
    between = np.sum([to_host(total) ** 2 / count for count, total, _ in found], axis=0)
    within = np.maximum(np.sum([to_host(squares) for _, _, squares in found], axis=0) - between, 0.0)
    free = max(number - len(found), 1)
    spread = within > 1e-12 * (within + between)
    ratio = np.divide(between * free, within * max(len(found) - 1, 1), out=np.zeros_like(between), where=spread)
    return np.where(~spread & (between > 0), np.inf, ratio)


def _sums(part: Any, mean: FloatArray) -> tuple[int, Any, Any]:
    xp = namespace(part)
    centred = cast(part, widest(part)) - like(mean, part, widest(part))
    return part.shape[0], xp.sum(centred, axis=0), xp.sum(centred * centred, axis=0)
