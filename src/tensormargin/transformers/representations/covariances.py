"""Matrices of channels or regions: covariances, in the log-Euclidean metric or a tangent space, and connectomes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np

from ...data import Axes, Axis, Metadata, fitted
from ...runtime import Array, FloatArray, as_like, to_host
from ..preparation._base import checked_choice
from ..preparation._passes import added, reduced
from .band_power import Band, band_axis, checked_bands, frequency_of
from .base import Representation, as_double

_FLOOR = 1e-10  # of the mean variance of the training samples: silent channels have no logarithm
_ORDER = 4  # of the band-pass filter
_ALMOST = 1.0 - 1e-7  # a correlation of 1 has no Fisher transform
_ROUNDING = 1e-5
_SMALLEST = 1e-6  # eigenvalue of a correlation matrix in the tangent space, where matrices given are not positive
_OF_IDENTITY = 0.1
"""Share of the identity in correlation matrices in the tangent space. With too few time points they are singular, and
the logarithms of eigenvalues that are almost zero would outweigh all others. Accuracy in percent without and with it
on connectomes made of 60 regions from 40, 80 and 240 time points, and of 100 regions from 90: 63, 78, 99, 62 and 64,
84, 99, 82; of schizophrenic patients 73 and 75."""
_CLOSE, _MOST_STEPS = 1e-10, 50  # of the Riemannian mean
RULES = ("ledoit-wolf", "oas")


@fitted.attributes(
    _axis=fitted.whole(1, "sample_shape_in_"),
    _time_axis=fitted.whole(1, "sample_shape_in_") | fitted.ABSENT,
    _filters=fitted.list_of(fitted.floats(None, 6)),
    reference_=fitted.floats(None, None, None) | None,
    floor_=fitted.number(0),
)
@dataclass(eq=False, repr=False)
class Covariances(Representation):
    """Replace samples by the covariance of their channels: channel x channel (x band).

    Second-order structure between channels, which does not depend on the phase of signals. A low-rank weight on such
    matrices is a sum of a few spatial patterns.

    Parameters
    ----------
    mode : int or str, default=0
        The mode of the channels, counted from 0 (negative numbers count from the last), or its name. Covariances are
        over all indices of the other modes.
    metric : {"log", "tangent", "none"}, default="log"
        "log" takes matrix logarithms (log-Euclidean metric; Arsigny et al. 2006), "tangent" maps to the tangent space
        of the training samples' Riemannian mean M, ``log(M^(-1/2) C M^(-1/2))`` (Barachant et al. 2012), "none" keeps
        the covariances.
    shrinkage : {"oas", "ledoit-wolf"} or float, default="oas"
        How the covariance of each sample is shrunk towards a multiple of the identity; needed as soon as there are not
        far more time points than channels.
    bands : "eeg", sequence or mapping, optional
        Frequency bands as in `BandPower`, but not a number: signals are filtered to each of them first (Butterworth
        filters without a shift in phase), and bands become the last mode.
    sfreq : float, optional
        Sampling frequency in Hz, needed for bands unless the samples state their times.
    time : int or str, default=-1
        The mode of time, which bands are filtered along.
    vectorize : bool, default=False
        Whether to return upper triangles as vectors, with entries off the diagonal multiplied by the root of 2. A
        weight without a low rank is the same either way, since scores and norms are.

    Attributes
    ----------
    reference_ : ndarray of shape (n_bands, n_channels, n_channels) or None
        Mean of the training samples' covariances in each band (or without any) for the tangent space.
    floor_ : float
        Smallest eigenvalue of a covariance matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Covariances
    >>> X = np.random.default_rng(0).normal(size=(20, 6, 512))
    >>> Covariances().fit_transform(X).shape
    (20, 6, 6)
    >>> Covariances(metric="tangent", bands=("alpha", "beta"), sfreq=128.0).fit_transform(X).shape
    (20, 6, 6, 2)
    """

    mode: int | str = 0
    metric: Literal["log", "tangent", "none"] = "log"
    shrinkage: str | float = "oas"
    bands: Any = None
    sfreq: float | None = None
    time: int | str = -1
    vectorize: bool = False

    _mode_parameters: ClassVar[tuple[str, ...]] = ("mode", "time")

    @property
    def makes_features(self) -> bool:
        """Whether the pairs of channels are no modes of their own."""
        return self.vectorize

    def _learn(self, X: Any, metadata: Metadata) -> None:
        checked_choice(self.metric, "metric", ("log", "tangent", "none"))
        check_shrinkage(self.shrinkage)
        order = X.ndim - 1
        self._axis = self._mode(self.mode, order) + 1
        self._filters = [] if self.bands is None else self._designed(X)
        self.floor_, self.reference_ = self._learned(X)

    def _shape_out(self) -> tuple[int, ...]:
        channels, bands = self.sample_shape_in_[self._axis - 1], (len(self._filters),) if self._filters else ()
        return (channels * (channels + 1) // 2, *bands) if self.vectorize else (channels, channels, *bands)

    def _fits(self) -> dict[str, Any]:
        check_shrinkage(self.shrinkage)
        fits, size = super()._fits(), self.sample_shape_in_[self._axis - 1]
        shape = (max(1, len(self._filters)), size, size) if self.metric == "tangent" else ()
        bands = [] if self.bands is None else self._bands()
        apart = not bands or getattr(self, "_time_axis", self._axis) != self._axis
        return {
            **fits,
            "reference_": getattr(self.reference_, "shape", ()) == shape,
            "_filters": len(self._filters) == len(bands) * apart,
        }

    def _designed(self, X: Any) -> list[Array]:
        """Return the filter of each band."""
        self._time_axis = self._mode(self.time, X.ndim - 1, "time") + 1
        bands = self._bands()
        if self._time_axis == self._axis:
            raise ValueError(f"time and channels must be two modes; got mode={self.mode} and time={self.time}")
        nyquist = float(frequency_of(self, self._time_axis - 1) or 0.0) / 2
        return [_filter(band, nyquist) for band in bands]

    def _bands(self) -> list[Band]:
        return checked_bands(self.bands, frequency_of(self, getattr(self, "_time_axis", self._axis) - 1))

    def _learned(self, X: Any) -> tuple[float, Array | None]:
        """Return the smallest eigenvalue to allow, and the means for the tangent space, from one pass."""
        if self.metric == "none":
            return 0.0, None
        if self.metric == "log":
            total, number = reduced(X, self._level, added)
            return _floor(total / number), None
        (covariances,) = reduced(X, self._covariances_of, lambda one, other: (np.concatenate([one[0], other[0]]),))
        floor = _floor(float(np.mean(np.trace(covariances, axis1=-2, axis2=-1))) / covariances.shape[-1])
        covariances = _positive(covariances, floor)
        means = np.stack([riemannian_mean(covariances[:, k]) for k in range(covariances.shape[1])])
        return floor, as_like(means, X)

    def _level(self, part: Any) -> tuple[float, int]:
        """Return the sum of the mean variances, and their number."""
        levels = np.trace(self._covariances(as_double(part)), axis1=-2, axis2=-1) / part.shape[self._axis]
        return float(levels.sum()), levels.size

    def _covariances_of(self, part: Any) -> tuple[Array]:
        return (self._covariances(as_double(part)),)

    def _covariances(self, part: FloatArray) -> FloatArray:
        """Return shrunk covariances, of shape (n_samples, n_bands or 1, n_channels, n_channels)."""
        from scipy.signal import sosfiltfilt

        if not self._filters:
            return _covariance(part, self._axis, self.shrinkage)[:, None]
        pad = min(3 * (2 * _ORDER + 1), part.shape[self._time_axis] - 1)
        filtered = (sosfiltfilt(to_host(sos), part, axis=self._time_axis, padlen=pad) for sos in self._filters)
        return np.stack([_covariance(one, self._axis, self.shrinkage) for one in filtered], axis=1)

    def _represent(self, part: FloatArray) -> Array:
        matrices = self._covariances(part)
        if self.metric != "none":
            matrices = _positive(matrices, self.floor_)
        if self.metric == "log":
            matrices = logarithms(matrices)
        elif self.metric == "tangent":
            matrices = tangent_vectors(matrices, as_double(self.reference_))
        matrices = np.moveaxis(matrices, 1, -1) if self._filters else matrices[:, 0]
        return triangle(matrices) if self.vectorize else matrices

    def _axes_out(self, axes: Axes) -> Axes:
        channel = axes[self._axis - 1]
        pair = (pair_axis(channel),) if self.vectorize else (channel, channel)
        if not self._filters:
            return pair
        return (*pair, band_axis(self._bands(), True))

    def words(self) -> str:
        kinds = {
            "log": "logarithms of the covariances",
            "tangent": "covariances, in the tangent space of their mean over the training samples,",
            "none": "covariances",
        }
        bands = "" if self.bands is None else " in frequency bands"
        how = self.shrinkage if isinstance(self.shrinkage, str) else f"{self.shrinkage:g}"
        return f"samples were replaced by {kinds[self.metric]} of their channels{bands} (shrinkage {how})"

    def brief(self) -> str:
        return "covariances of channels" + ("" if self.bands is None else " in frequency bands")


def pair_axis(channel: Axis, diagonal: bool = True) -> Axis:
    """Return the axis of the upper triangle of a matrix of channels: "Cz, Pz" for each pair."""
    if channel.values is None:
        return Axis("pair")
    names = [channel.spoken(index) for index in range(len(channel.values))]
    rows, columns = np.triu_indices(len(names), 0 if diagonal else 1)
    return Axis("pair", "", [f"{names[row]}, {names[column]}" for row, column in zip(rows, columns, strict=True)])


def _filter(band: Band, nyquist: float) -> Array:
    """Return second-order sections of a filter: band-pass, or low- or high-pass at the ends of the spectrum."""
    from scipy.signal import butter

    low, high = band.low / nyquist, band.high / nyquist
    if low == 0:
        return butter(1, 0.999, "low", output="sos") if high >= 1 else butter(_ORDER, high, "low", output="sos")
    return butter(_ORDER, *((low, "high") if high >= 1 else ((low, high), "band")), output="sos")


def _covariance(part: FloatArray, axis: int, shrinkage: str | float) -> FloatArray:
    """Return the shrunk covariance of the entries along an axis for each sample."""
    rows = np.moveaxis(part, axis, 1).reshape(len(part), part.shape[axis], -1)
    number = rows.shape[2]
    if number > 1:  # a single observation has no mean to be centred by
        rows = rows - rows.mean(axis=2, keepdims=True)
    fourth = np.sum(np.sum(rows * rows, axis=1) ** 2, axis=1)
    return shrunk(rows @ np.swapaxes(rows, 1, 2) / number, number, fourth, shrinkage)


def _floor(level: float) -> float:
    return _FLOOR * level if level > 0 else 1.0


def _positive(matrices: FloatArray, floor: float) -> FloatArray:
    """Return matrices with eigenvalues of at least ``floor``."""
    if len(matrices) == 0 or np.linalg.eigvalsh(matrices).min() >= floor:
        return matrices
    return of_eigenvalues(matrices, lambda values: np.maximum(values, floor))


@fitted.attributes(n_regions_=fitted.whole(2), reference_=fitted.floats("n_regions_", "n_regions_") | None)
@dataclass(eq=False, repr=False)
class Connectome(Representation):
    """Turn correlations between regions into symmetric matrices of Fisher's z.

    The weight on symmetric matrices is symmetric, and a low-rank weight is a sum of a few networks.

    Parameters
    ----------
    source : {"matrix", "series", "triangle"}, default="matrix"
        What samples are: symmetric region x region matrices of correlations; region x time series, whose correlations
        are computed; or vectors of the correlations above the diagonal, row by row.
    fisher : bool, default=True
        Whether to replace correlations r by ``arctanh(r)``. Leave it out for values that are transformed already.
    vectorize : bool, default=False
        Whether to return the entries above the diagonal as vectors, multiplied by the root of 2. A weight without a low
        rank is the same either way, since scores and norms are.
    tangent : bool, default=False
        Whether to map the correlation matrices to the tangent space of their mean over the training samples instead,
        which takes all correlations into account for each of them. They have a tenth of the identity then, so that few
        time points do not make them singular; ``fisher`` does not matter, and vectors include the diagonal. The
        Riemannian mean of `Covariances` takes most of the time, and is as good (on two data sets with 3 to 130 samples
        per class: 68.1 and 68.3 %).

    Attributes
    ----------
    n_regions_ : int
    reference_ : ndarray of shape (n_regions, n_regions) or None
        The mean, for ``tangent``.
    sample_shape_out_ : tuple of int
        The diagonal of matrices is zero, except in the tangent space.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Connectome
    >>> X = np.random.default_rng(0).normal(size=(20, 6, 100))
    >>> Connectome("series").fit_transform(X).shape
    (20, 6, 6)
    >>> Connectome("triangle").fit_transform(np.zeros((20, 15))).shape
    (20, 6, 6)
    """

    source: Literal["matrix", "series", "triangle"] = "matrix"
    fisher: bool = True
    vectorize: bool = False
    tangent: bool = False

    def _learn(self, X: Any, metadata: Metadata) -> None:
        checked_choice(self.source, "source", ("matrix", "series", "triangle"))
        self.n_regions_ = self._regions(tuple(int(size) for size in X.shape[1:]))
        self.reference_ = None
        if self.tangent:
            total, count = reduced(X, self._sum_of, added)
            self.reference_ = as_like(total / count, X)

    def _shape_out(self) -> tuple[int, ...]:
        pairs = self.n_regions_ * (self.n_regions_ + (1 if self.tangent else -1)) // 2
        return (pairs,) if self.vectorize else (self.n_regions_, self.n_regions_)

    def _fits(self) -> dict[str, Any]:
        known = self.n_regions_ == self._regions(self.sample_shape_in_)
        return {**super()._fits(), "n_regions_": known, "reference_": (self.reference_ is not None) == self.tangent}

    def _sum_of(self, part: Any) -> tuple[FloatArray, int]:
        """Return the sum of some correlation matrices, and their number."""
        matrices = self._correlations_of(part)
        return matrices.sum(axis=0), len(matrices)

    def _regions(self, shape: tuple[int, ...]) -> int:
        if self.source == "triangle":
            size = (1 + isqrt(1 + 8 * shape[0])) // 2
            if len(shape) == 1 and size * (size - 1) // 2 == shape[0]:
                return size
            rule = 'source="triangle" needs vectors of r (r - 1) / 2 entries for r regions'
        elif len(shape) == 2 and shape[0] > 1 and (self.source == "series" or shape[0] == shape[1]):
            return shape[0]
        else:
            kind = "region x time" if self.source == "series" else "region x region, symmetric"
            rule = f'source="{self.source}" needs matrices, {kind}, of at least two regions'
        raise ValueError(
            f"{rule}; got samples of shape {shape}, n_features = {shape[0]}. Reshape them, or name another"
        )

    def _represent(self, part: FloatArray) -> Array:
        if self.tangent:
            matrices = tangent_vectors(self._correlations_of(part), as_double(self.reference_))
            return triangle(matrices) if self.vectorize else matrices
        matrices = self._matrices(part) * (1.0 - np.eye(self.n_regions_))
        matrices = _fisher(matrices) if self.fisher else matrices
        if not self.vectorize:
            return matrices
        return triangle(matrices)[:, np.not_equal(*np.triu_indices(self.n_regions_))]

    def _correlations_of(self, part: Any) -> FloatArray:
        """Return positive definite correlation matrices, with ones on the diagonal."""
        eye = np.eye(self.n_regions_)
        matrices = (1.0 - _OF_IDENTITY) * self._matrices(as_double(part)) * (1.0 - eye) + eye
        try:
            np.linalg.cholesky(matrices - _SMALLEST * eye)
        except np.linalg.LinAlgError:
            matrices = of_eigenvalues(matrices, lambda values: np.maximum(values, _SMALLEST))
        return matrices

    def _matrices(self, part: FloatArray) -> FloatArray:
        """Return symmetric matrices of correlations, whatever their diagonal."""
        if self.source == "series":
            matrices = _correlations(part)
        elif self.source == "matrix":
            matrices = _symmetric(part)
        else:
            matrices = np.zeros((len(part), self.n_regions_, self.n_regions_))
            rows, columns = np.triu_indices(self.n_regions_, 1)
            matrices[:, rows, columns] = matrices[:, columns, rows] = part
        return matrices

    def _axes_out(self, axes: Axes) -> Axes:
        region = axes[0] if self.source != "triangle" else Axis()
        region = region if region.name else Axis("region", region.unit, region.values)
        return (pair_axis(region, self.tangent),) if self.vectorize else (region, region)

    @property
    def makes_features(self) -> bool:
        return self.vectorize

    def words(self) -> str:
        what = {"series": "series", "matrix": "matrices", "triangle": "vectors"}[self.source]
        kind = "Fisher's z of correlations" if self.fisher else "connectivity"
        kind = "correlations, in the tangent space of their mean over the training samples," if self.tangent else kind
        return f"{what} were turned into symmetric matrices of {kind} between regions"

    def brief(self) -> str:
        return "tangent space of correlations" if self.tangent else "Fisher's z" if self.fisher else "connectivity"


def _correlations(part: FloatArray) -> FloatArray:
    """Return the correlations of regions; those of a constant region are zero."""
    centred = part - part.mean(axis=2, keepdims=True)
    norms = np.linalg.norm(centred, axis=2, keepdims=True)
    varies = norms > 1e-12 * np.abs(part).max(axis=2, keepdims=True, initial=0.0)
    rows = np.where(varies, centred, 0.0) / np.where(varies, norms, 1.0)
    return rows @ np.swapaxes(rows, 1, 2)


def _symmetric(part: FloatArray) -> FloatArray:
    turned = np.swapaxes(part, 1, 2)
    apart = float(np.abs(part - turned).max(initial=0.0))
    if apart > _ROUNDING * float(np.abs(part).max(initial=1.0)):
        raise ValueError(
            f'source="matrix" needs symmetric matrices; got entries (i, j) and (j, i) that differ by {apart:.3g}. Pass '
            "X + X.transpose(0, 2, 1), or use the matrices without Connectome"
        )
    return (part + turned) / 2


def _fisher(matrices: FloatArray) -> FloatArray:
    largest = float(np.abs(matrices).max(initial=0.0))
    if largest > 1.0 + _ROUNDING:
        raise ValueError(
            f"fisher=True needs correlations from -1 to 1; got values of up to {largest:.3g}. Use fisher=False for "
            "values that are transformed already"
        )
    return np.arctanh(np.clip(matrices, -_ALMOST, _ALMOST))


def of_eigenvalues(matrices: FloatArray, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return symmetric matrices with a function applied to their eigenvalues."""
    values, vectors = np.linalg.eigh(matrices)
    return (vectors * function(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def logarithms(matrices: FloatArray) -> FloatArray:
    """Return matrix logarithms."""
    return of_eigenvalues(matrices, np.log)


def tangent_vectors(matrices: FloatArray, mean: FloatArray) -> FloatArray:
    """Return matrices in the tangent space of their Riemannian mean M, ``log(M^(-1/2) C M^(-1/2))``."""
    white = of_eigenvalues(mean, lambda values: values**-0.5)
    return logarithms(white @ matrices @ white)


def riemannian_mean(matrices: FloatArray) -> FloatArray:
    """Return the mean in the affine-invariant metric (Moakher 2005), by gradient steps.

    They begin midway between the arithmetic and the harmonic mean, and their lengths are those of Barzilai and Borwein
    (1988), from the last two gradients. They end where the gradient is close to zero, relative to the distances between
    samples and mean.
    """
    arithmetic, harmonic = matrices.mean(axis=0), np.linalg.inv(np.linalg.inv(matrices).mean(axis=0))
    mean, step, before = _moved(arithmetic, tangent_vectors(harmonic, arithmetic) / 2), 1.0, None
    for _ in range(_MOST_STEPS):
        vectors = tangent_vectors(matrices, mean)
        gradient, apart = vectors.mean(axis=0), float(np.linalg.norm(vectors)) / len(vectors) ** 0.5
        if float(np.linalg.norm(gradient)) <= _CLOSE * apart:
            break
        if before is not None:
            change = before - gradient
            along = float(np.vdot(before, change))
            step *= along / float(np.vdot(change, change)) if along > 0 else 0.5
        mean, before = _moved(mean, step * gradient), gradient
    return mean


def _moved(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    """Return where a vector of its tangent space leads from a matrix."""
    root = of_eigenvalues(matrix, np.sqrt)
    return root @ of_eigenvalues(vector, np.exp) @ root


def triangle(matrices: Array) -> Array:
    """Return the upper triangles of symmetric matrices (n, p, p, ...) as vectors of equal norm, (n, p(p+1)/2, ...)."""
    size = matrices.shape[1]
    rows, columns = np.triu_indices(size)
    factors = np.where(rows == columns, 1.0, np.sqrt(2.0))
    return matrices[:, rows, columns] * factors.reshape(-1, *(1,) * (matrices.ndim - 3))


def matrix_power(matrix: FloatArray, power: float) -> FloatArray:
    """Return powers of symmetric matrices; directions without variance stay zero."""

    def powers(values: FloatArray) -> FloatArray:
        positive = values > np.finfo(np.float64).eps * values.shape[-1] * np.max(values, axis=-1, keepdims=True)
        return np.where(positive, np.where(positive, values, 1.0) ** power, 0.0)

    return of_eigenvalues(matrix, powers)


def check_shrinkage(shrinkage: Any) -> None:
    """Raise ValueError unless a shrinkage is a rule or a number from 0 to 1."""
    known = isinstance(shrinkage, str) and shrinkage in RULES
    number = isinstance(shrinkage, Real) and not isinstance(shrinkage, bool)
    if not known and not (number and 0 <= shrinkage <= 1):
        raise ValueError(f'shrinkage must be "ledoit-wolf", "oas" or a number from 0 to 1; got shrinkage={shrinkage!r}')


def shrunk(covariance: FloatArray, number: float, fourth: Array | float, shrinkage: str | float) -> FloatArray:
    """Return covariance matrices (..., p, p) moved towards the mean of their variances on the diagonal.

    By the rule of Ledoit and Wolf (2004), the oracle approximating shrinkage of Chen et al. (2010), or a share of the
    identity. ``number`` is that of the vectors behind each matrix, ``fourth`` the sum of the fourth powers of their
    norms, which only "ledoit-wolf" needs.
    """
    size = covariance.shape[-1]
    level = np.trace(covariance, axis1=-2, axis2=-1) / size
    squares = np.sum(covariance * covariance, axis=(-2, -1)) / size
    apart = squares - level * level  # squared distance to the identity, per row
    with np.errstate(divide="ignore", invalid="ignore"):
        if shrinkage == "ledoit-wolf":
            noise = (np.asarray(fourth) / number - size * squares) / (size * number)
            share = np.where(apart > 0, np.minimum(noise, apart) / apart, 0.0)
        elif shrinkage == "oas":
            mean_square = squares / size
            share = (mean_square + level * level) / ((number + 1.0) * (mean_square - level * level / size))
            share = np.where(apart > 0, share, 1.0)
        else:
            share = np.full(np.shape(level), float(shrinkage))
    share = np.clip(share, 0.0, 1.0)[..., None, None]
    return (1.0 - share) * covariance + share * level[..., None, None] * np.eye(size)
