"""Filling in missing entries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...data import Axes, Metadata, Views, fitted
from ...runtime import Array, FloatArray, as_like, is_lazy, like, to_host
from ..preparation._base import checked_choice, checked_count, checked_number
from ..preparation._passes import added, floating, mapped, reduced
from .base import Representation, as_double


@fitted.attributes(
    sample_shape_out_=fitted.shape | fitted.map_of(samples=fitted.shape, missing=fitted.shape),
    _axis=fitted.whole(1, "sample_shape_in_"),
    mean_=fitted.floats("*sample_shape_in_"),
    components_=fitted.floats(None, "*sample_shape_in_") | None,
    noise_=fitted.number(0) | None,
    n_iter_=fitted.whole(1),
)
@dataclass(eq=False, repr=False)
class Impute(Representation):
    """Fill in missing entries (NaN), and say which they were.

    It must be the first step, or come right after `EqualLength`, since no other transformer takes NaN.

    Parameters
    ----------
    method : {"mean", "interpolate", "low-rank"}, default="mean"
        "mean" fills in the mean of the training samples' entry. "interpolate" interpolates linearly along ``mode``,
        with the nearest value beyond the first and last, and the mean where nothing is known. "low-rank" describes
        samples by a few components, a probabilistic PCA fitted by the EM algorithm to the known entries of the training
        samples, and fills in what the known entries of a sample make most likely.
    mode : int or str, default=-1
        The mode to interpolate along, counted from 0; negative numbers count from the last. Or its name, if samples
        have names.
    rank : int, default=3
        Number of components of "low-rank".
    mask : bool, default=False
        Whether to return `Views` with two views: "samples", filled in, and "missing", 1 where an entry was missing and
        0 elsewhere, for classes that differ in what is missing.
    max_iter : int, default=100
        Maximum number of iterations of the EM algorithm, each one pass over the samples.
    tol : float, default=1e-4
        Relative change of the noise variance at which the iterations stop.

    Attributes
    ----------
    mean_ : ndarray of the sample shape
        Mean of the known entries; their overall mean where none is known.
    components_ : ndarray of shape ``(rank, *sample shape)`` or None
    noise_ : float or None
        Variance of what the components leave.
    n_iter_ : int
        Number of iterations of the EM algorithm.
    sample_shape_in_, sample_shape_out_ : tuple of int, the latter a dictionary of them with a mask

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Impute
    >>> X = np.array([[[1.0, np.nan, 3.0]], [[4.0, 5.0, 6.0]]])
    >>> Impute("interpolate").fit_transform(X)[0]
    array([[1., 2., 3.]])
    >>> Impute(mask=True).fit_transform(X)
    Views of 2 samples:
      samples  1 x 3, float64
      missing  1 x 3, float64
    """

    method: Literal["mean", "interpolate", "low-rank"] = "mean"
    mode: int | str = -1
    rank: int = 3
    mask: bool = False
    max_iter: int = 100
    tol: float = 1e-4

    _takes_nan: ClassVar[bool] = True
    _keeps_modes: ClassVar[bool] = True

    def _learn(self, X: Any, metadata: Metadata) -> None:
        checked_choice(self.method, "method", ("mean", "interpolate", "low-rank"))
        self._axis = self._mode(self.mode, X.ndim - 1) + 1
        rank = checked_count(self.rank, "rank")
        checked_count(self.max_iter, "max_iter")
        checked_number(self.tol, "tol")
        numbers, sums = reduced(X, _known_sums, added)
        overall = sums.sum() / max(numbers.sum(), 1)
        mean = np.where(numbers > 0, sums / np.maximum(numbers, 1), overall)
        self.components_: Any = None
        self.noise_: float | None = None
        self.n_iter_ = 1
        if self.method == "low-rank":
            mean = self._fit_components(X, mean, min(rank, prod(self.sample_shape_in_)))
        self.mean_ = as_like(mean, X)

    def _shape_out(self) -> Any:
        shape = self.sample_shape_in_  # shapes by name are those of views, which no other such transformer makes
        return {"samples": shape, "missing": shape} if self.mask else shape

    def _fits(self) -> dict[str, Any]:
        low_rank = self.components_ is not None and self.noise_ is not None
        return {**super()._fits(), "components_": low_rank == (self.method == "low-rank")}

    def _fit_components(self, X: Any, mean: FloatArray, rank: int) -> FloatArray:
        """Set the components and the noise, by the EM algorithm; return a better mean."""
        shape, mean = mean.shape, mean.reshape(-1)
        number, squares = reduced(X, partial(_squares, mean=mean), added)
        variance = float(squares) / max(float(number), 1.0)
        start = np.random.RandomState(0).standard_normal((len(mean), rank)) * np.sqrt(variance / rank)
        model = Components(start, np.zeros(len(mean)), variance)
        for iteration in range(1, int(self.max_iter) + 1):
            self.n_iter_ = iteration
            if model.noise <= 1e-10 * variance:
                break
            before = model.noise
            of_codes, crossed, (squares, known) = reduced(X, partial(_expected, model=model, mean=mean), added)
            solved = np.einsum("pab,pb->pa", np.linalg.pinv(of_codes, hermitian=True), crossed)  # the M step
            noise = (squares - np.sum(solved * crossed)) / max(known, 1.0)
            model = Components(solved[:, :-1], solved[:, -1], float(max(noise, 0.0)))
            if abs(before - model.noise) <= self.tol * before:
                break
        self.components_, self.noise_ = as_like(model.loadings.T.reshape(rank, *shape), X), model.noise
        return (mean + model.offset).reshape(shape)

    def transform(self, X: Any, groups: Any = None, confounds: Any = None) -> Any:
        """Return the samples with missing entries filled in, or `Views` of them and of what was missing."""
        filled = super().transform(X, groups, confounds)
        if not self.mask:
            return filled
        X = self._as_fitted(X)
        missing = mapped(X, _missing, dtype=floating(X)) if is_lazy(X) else like(_missing(to_host(X)), X, floating(X))
        return Views(samples=filled, missing=missing)

    def _shape_of_parts(self) -> tuple[int, ...]:
        return self.sample_shape_in_

    def _represent(self, part: FloatArray) -> Array:
        missing = _missing(part) > 0
        if not missing.any():
            return part
        mean = as_double(self.mean_)
        if self.components_ is not None:
            components = as_double(self.components_)
            flat, loadings = part.reshape(len(part), -1), components.reshape(len(components), -1).T
            model = Components(loadings, np.zeros(len(loadings)), float(self.noise_ or 0.0))
            codes, _ = _codes(np.where(missing.reshape(flat.shape), 0.0, flat - mean.reshape(-1)), ~missing, model)
            return np.where(missing, mean + (codes @ loadings.T).reshape(part.shape), part)
        filled = np.where(missing, mean, part)
        return _interpolated(filled, missing, self._axis) if self.method == "interpolate" else filled

    def _axes_out(self, axes: Axes) -> Any:
        return {"samples": axes, "missing": axes} if self.mask else axes

    def brief(self) -> str:
        return f"missing entries filled in{' and marked' if self.mask else ''} ({self.method})"

    def words(self) -> str:
        how = {
            "mean": "by the mean of the training samples",
            "interpolate": "by linear interpolation",
            "low-rank": f"by {self.rank} components of the training samples",
        }[self.method]
        return f"missing entries were filled in {how}{', and marked in a view of their own' if self.mask else ''}"


class Components(NamedTuple):
    """A probabilistic PCA: loadings of shape (n_entries, rank), an offset, and the variance of the noise."""

    loadings: FloatArray
    offset: FloatArray
    noise: float


def _missing(part: Array) -> FloatArray:
    """Return 1 for NaN and 0 for numbers; raise ValueError for infinity."""
    if np.isinf(part).any():
        raise ValueError("missing entries must be NaN; got infinity. Replace it by NaN, or leave those samples out")
    return np.isnan(part).astype(part.dtype if part.dtype.kind == "f" else np.float64)


def _known_sums(part: Any) -> tuple[Array, Array]:
    samples = as_double(part)
    known = _missing(samples) == 0
    return known.sum(axis=0), np.where(known, samples, 0.0).sum(axis=0)


def _squares(part: Any, mean: FloatArray) -> tuple[int, float]:
    known, centred = _centred(part, mean)
    return int(known.sum()), float(np.sum(centred * centred))


def _centred(part: Any, mean: FloatArray) -> tuple[Array, FloatArray]:
    """Return which entries are known, and samples as centred vectors with zeros for the others."""
    samples = as_double(part).reshape(part.shape[0], -1)
    known = ~np.isnan(samples)
    return known, np.where(known, samples - mean, 0.0)


def _codes(centred: FloatArray, known: Array, model: Components) -> tuple[Array, Array]:
    """Return the expected codes of samples given their known entries, and their covariances."""
    rank = model.loadings.shape[1]
    known = known.reshape(len(known), -1).astype(np.float64)
    products = (model.loadings[:, :, None] * model.loadings[:, None, :]).reshape(len(model.loadings), -1)
    precision = (known @ products).reshape(-1, rank, rank) + max(model.noise, 1e-300) * np.eye(rank)
    inverse = np.linalg.pinv(precision, hermitian=True)
    right = (centred - known * model.offset) @ model.loadings
    return np.einsum("nab,nb->na", inverse, right), model.noise * inverse


def _expected(part: Any, model: Components, mean: FloatArray) -> tuple[Array, Array, Array]:
    """Return the sums of the E step for every entry: products of codes, of entries and codes, and squares."""
    known, centred = _centred(part, mean)
    codes, covariances = _codes(centred, known, model)
    codes = np.column_stack([codes, np.ones(len(codes))])  # the last one stands for the offset
    products = codes[:, :, None] * codes[:, None, :]
    products[:, :-1, :-1] += covariances
    width = codes.shape[1]
    of_codes = (known.T.astype(np.float64) @ products.reshape(len(codes), -1)).reshape(-1, width, width)
    return of_codes, centred.T @ codes, np.array([np.sum(centred * centred), np.sum(known)])


def _interpolated(filled: FloatArray, missing: Array, axis: int) -> FloatArray:
    """Return samples with missing entries interpolated along an axis; where nothing is known, they stay as filled."""
    values, holes = (np.moveaxis(one, axis, -1) for one in (filled.copy(), missing))
    places = np.arange(values.shape[-1])
    for index in np.argwhere(holes.any(axis=-1) & ~holes.all(axis=-1)):
        fibre = tuple(index)
        known = ~holes[fibre]
        values[fibre] = np.interp(places, places[known], values[fibre][known])
    return np.moveaxis(values, -1, axis)
