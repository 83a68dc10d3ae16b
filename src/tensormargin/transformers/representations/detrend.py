"""Removal of drifts: over the samples of a run, or along a mode."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...data import NO_METADATA, Metadata
from ...runtime import Array, FloatArray, cast, like, namespace
from ..preparation._base import checked_count, needed_groups
from ..preparation._passes import added, by_chunk, chunked, floating, mapped, statistics, widest, without_explained
from .mode_maps import MapsModes


@dataclass(eq=False, repr=False)
class Detrend(MapsModes):
    """Remove polynomial drifts from each run of samples, or from each sample along a mode.

    Parameters
    ----------
    degree : int, default=1
        Degree of the polynomials; 0 removes means, 1 straight lines as well.
    mode : int, str or tuple of them, optional
        None removes, for every entry, the drift over the samples of each group (run, session), which must be in their
        order in time; pass ``groups`` to ``fit`` and ``transform``. Groups do not depend on each other, and nothing is
        carried over to new ones. Otherwise the modes (counted from 0, or by name) along which each sample is detrended.

    Attributes
    ----------
    matrices_ : list of ndarray
        The matrix of each mode; none without modes.
    modes_ : tuple of int

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Detrend
    >>> drift = np.linspace(0, 5, 20)[:, None, None] * np.ones((20, 4, 3))
    >>> bool(np.allclose(Detrend().fit_transform(drift, groups=[1] * 20), 0))
    True
    """

    degree: int = 1
    mode: int | str | tuple[int | str, ...] | None = None

    _mixes_entries = False

    @property
    def needed_metadata(self) -> set[str]:
        """Groups unless samples are detrended one by one."""
        return {"groups"} if self.mode is None else set()

    @property
    def maps_after(self) -> bool:
        """Whether weight maps are drawn on the transformed samples: if these depend on others of their run."""
        return self.mode is None

    def _learn(self, X: Any, metadata: Metadata) -> tuple[int, ...]:
        checked_count(self.degree, "degree", 0)
        if self.mode is not None:
            return super()._learn(X, metadata)
        self._groups(metadata)
        self.matrices_, self.modes_ = [], ()
        return self.sample_shape_in_

    def _matrix(self, X: Any, mode: int, size: int) -> Array:
        basis = _polynomials(size, int(self.degree))
        return np.eye(size) - basis @ basis.T

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        if self.mode is not None:
            return super()._change(X, metadata)
        rows, positions = self._rows(metadata), np.arange(X.shape[0])
        return _without_drift(X, positions, _drifts(X, rows, positions), rows)

    def _change_lazily(self, X: Any, metadata: Metadata) -> Any:
        if self.mode is not None:
            return super()._change_lazily(X, metadata)
        from dask.graph_manipulation import clone

        rows, positions = self._rows(metadata), np.arange(X.shape[0])
        drifts = _drifts(clone(X), rows, positions)  # shared chunks would stay in memory until all are read
        beside = chunked(positions, X), by_chunk(X, np.zeros_like(positions), drifts)
        return mapped(X, partial(_without_drift, rows=rows), *beside, dtype=floating(X))

    def _groups(self, metadata: Metadata) -> Array:
        rule = "Detrend(mode=None) needs groups, the run of each sample"
        return needed_groups(metadata.groups, rule, "a mode to detrend each sample along")

    def _rows(self, metadata: Metadata) -> FloatArray:
        """Return orthonormal polynomials of the samples' places in their groups, with columns of each group's own."""
        groups = self._groups(metadata)
        blocks = []
        for group in np.unique(groups):
            own = np.flatnonzero(groups == group)
            basis = _polynomials(len(own), int(self.degree))
            block = np.zeros((len(groups), basis.shape[1]))
            block[own] = basis
            blocks.append(block)
        return np.hstack(blocks)

    def pull_back(self, weight: Any) -> Array:
        """Return the weight on the input; raise TypeError without modes, where samples depend on their run."""
        if self.mode is not None:
            return super().pull_back(weight)
        raise TypeError(
            "cannot pull a weight back through Detrend: the drift of a run depends on all of its samples, so there is "
            "no weight on single ones. The weight on detrended samples is the classifier's own"
        )

    def words(self) -> str:
        where = "over the samples of each run" if self.mode is None else f"of each sample along {self._along()}"
        return f"drifts (polynomials of degree {self.degree}) {where} were removed"


def _polynomials(size: int, degree: int) -> FloatArray:
    """Return orthonormal polynomials up to a degree on equal steps, as columns."""
    powers = np.polynomial.legendre.legvander(np.linspace(-1.0, 1.0, size), min(degree, size - 1))
    return np.linalg.qr(powers)[0]


def _drifts(X: Any, rows: FloatArray, positions: Array) -> dict[int, Any]:
    """Return the coefficients of the drifts of all groups; lazily if X is lazy."""
    return statistics(X, partial(_products, rows=rows), added, beside=positions)


def _products(part: Any, positions: Array, rows: FloatArray) -> tuple[Any]:
    flat = namespace(part).reshape(cast(part, widest(part)), (part.shape[0], -1))
    return (like(rows[positions].T, part, widest(part)) @ flat,)


def _without_drift(X: Any, positions: Array, drifts: dict[int, Any], rows: FloatArray) -> Any:
    return without_explained(X, positions, rows, drifts[0][0]) if len(positions) else cast(X, floating(X), copy=True)
