"""A matrix along a mode: smoothing, whitening, differences, decimation, projections and spatial filters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...data import NO_METADATA, Axes, Axis, Metadata, fitted
from ...runtime import Array, FloatArray, as_array, as_like, cast, computed, join_with_and, like, namespace, to_host
from ..preparation._base import KeepsTensors, LearnsFromLabels, checked_choice, checked_count, checked_number
from ..preparation._passes import added, floating, number_and_sum, reduced, statistics, widest
from ..preparation.resizing import apply_matrices, matrices_fit
from ..preparation.scaling import TensorScaler
from .covariances import check_shrinkage, matrix_power, shrunk


@fitted.attributes(
    modes_=fitted.list_of(fitted.whole(0), kind=tuple), matrices_=fitted.list_of(fitted.floats(None, None), "modes_")
)
class MapsModes(KeepsTensors):
    """A transformer that multiplies samples by one matrix along each of some modes.

    A subclass returns the matrix of a mode, learned from training samples (`_matrix`). Weights are pulled back by the
    transposed matrices.
    """

    _mixes_entries: ClassVar[bool] = True  # so that the mode has other coordinates afterwards
    mode: Any
    modes_: tuple[int, ...]
    matrices_: list[Array]

    def _learn(self, X: Any, metadata: Metadata) -> None:
        modes = tuple(self._mode(mode, len(self.sample_shape_in_)) for mode in self._given_modes())
        if len(set(modes)) < len(modes) or not modes:
            raise ValueError(f"mode must name at least one mode, and none of them twice; got mode={self.mode!r}")
        self.matrices_, self.modes_ = self._matrices(X, modes), modes

    def _shape_out(self) -> tuple[int, ...]:
        sizes = {mode: len(matrix) for mode, matrix in zip(self.modes_, self.matrices_, strict=True)}
        return tuple(sizes.get(mode, size) for mode, size in enumerate(self.sample_shape_in_))

    def _fits(self) -> dict[str, Any]:
        distinct = len(set(self.modes_)) == len(self.modes_)
        return {"modes_": distinct, **super()._fits(), "matrices_": matrices_fit(self, self.modes_)}

    def _given_modes(self) -> tuple[Any, ...]:
        return tuple(self.mode) if isinstance(self.mode, tuple | list) else (self.mode,)

    def _matrices(self, X: Any, modes: tuple[int, ...]) -> list[Array]:
        """Return one matrix per mode, of shape (new size, size)."""
        return [self._matrix(X, mode, self.sample_shape_in_[mode]) for mode in modes]

    def _matrix(self, X: Any, mode: int, size: int) -> Array:
        """Return the matrix of one mode."""
        raise NotImplementedError

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        return apply_matrices(X, self.matrices_, [mode + 1 for mode in self.modes_])

    def pull_back(self, weight: Any) -> Array:
        return apply_matrices(as_array(weight), [matrix.T for matrix in self.matrices_], self.modes_)

    def _along(self) -> str:
        """Return the modes in words, counted from 1 as far as their order is known."""
        given = getattr(self, "modes_", self._given_modes())
        modes = [mode if isinstance(mode, str) else mode + 1 for mode in given]
        names = ["the last mode" if mode == 0 else f"mode {mode}" for mode in modes]
        return join_with_and(names)

    def _axes_out(self, axes: Axes) -> Axes:
        along = dict(zip(self.modes_, self.matrices_, strict=True))
        return tuple(self._mapped_axis(axis, along[mode]) if mode in along else axis for mode, axis in enumerate(axes))

    def _mapped_axis(self, axis: Axis, matrix: Array) -> Axis:
        """Return the axis of a mode after its matrix."""
        return Axis("component", "", np.arange(1.0, len(matrix) + 1)) if self._mixes_entries else axis


@fitted.attributes()
@dataclass(eq=False, repr=False)
class ModeMap(MapsModes):
    """Multiply samples by a given matrix along a mode.

    Parameters
    ----------
    matrix : array-like of shape (new_size, size)
        Every fibre x of a sample along the mode becomes ``matrix @ x``.
    mode : int or str, default=-1
        Counted from 0; negative numbers count from the last. Or its name, if samples have names.

    Attributes
    ----------
    matrices_ : list of ndarray
        The matrix; one per mode in `Smooth` and other transformers that are such matrices.
    modes_ : tuple of int
        Their modes.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import ModeMap
    >>> average_reference = np.eye(6) - 1 / 6
    >>> bool(np.allclose(ModeMap(average_reference, mode=0).fit_transform(np.ones((5, 6, 100))), 0))
    True
    """

    matrix: Any = ((1.0,),)
    mode: int | str = -1

    def _matrix(self, X: Any, mode: int, size: int) -> Array:
        matrix = to_host(as_array(self.matrix))
        if matrix.ndim != 2 or len(matrix) == 0 or matrix.shape[1] != size:
            raise ValueError(
                f"matrix must have one column for each of the {size} entries along mode={self.mode!r}; got shape "
                f"{matrix.shape}. Pass a matrix of shape (new size, {size})"
            )
        if matrix.dtype.kind not in "biuf" or not np.all(np.isfinite(matrix)):
            raise ValueError(f"matrix must hold finite real numbers; got dtype {matrix.dtype}. Replace what is not")
        return matrix.astype(np.float64)

    def _mapped_axis(self, axis: Axis, matrix: Array) -> Axis:
        same = matrix.shape[0] == matrix.shape[1]  # such as another reference: each entry is still about itself
        return axis if same else super()._mapped_axis(axis, matrix)

    def words(self) -> str:
        return f"samples were multiplied by a given matrix along {self._along()}"


@fitted.attributes()
@dataclass(eq=False, repr=False)
class Smooth(MapsModes):
    """Smooth samples along modes, such as time, wavelength or space.

    A weight on smoothed samples is a smooth weight on the samples as they were: smoothing by ``S`` is the same as a
    penalty on the roughness of the weight, ``|S^-1 w|^2``.

    Parameters
    ----------
    width : float or tuple of float, default=1.0
        Standard deviation in entries of the mode, one for all modes or one per mode; 0 leaves samples as they are. A
        search chooses among ``preparation=[Smooth(1.0), Smooth(3.0)]``.
    mode : int, str or tuple of them, default=-1
        Modes counted from 0; negative numbers count from the last. Or their names, if samples have names.
    method : {"gaussian", "laplacian"}, default="gaussian"
        "gaussian" is SciPy's `gaussian_filter1d`, mirrored at the ends. "laplacian" multiplies by
        ``(I + width**2 L)^(-1/2)`` with the Laplacian L of the path, for which the penalty is
        ``|w|^2 + width^2 |differences of w|^2``; its tails are longer.

    Attributes
    ----------
    matrices_, modes_ : list of ndarray, tuple of int
        One matrix per mode, and the modes.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Smooth
    >>> noise = np.random.default_rng(0).normal(size=(50, 6, 100))
    >>> bool(Smooth(3.0).fit_transform(noise).std() < 0.4)
    True
    """

    width: float | tuple[float, ...] = 1.0
    mode: int | str | tuple[int | str, ...] = -1
    method: str = "gaussian"

    _mixes_entries = False

    def _matrices(self, X: Any, modes: tuple[int, ...]) -> list[Array]:
        checked_choice(self.method, "method", ("gaussian", "laplacian"))
        widths = self.width if isinstance(self.width, tuple | list) else (self.width,) * len(modes)
        if len(widths) != len(modes):
            raise ValueError(f"width must be one number, or one per mode ({len(modes)}); got width={self.width!r}")
        smoothing = _gaussian if self.method == "gaussian" else _laplacian
        wide = [checked_number(width, "width", included=True) for width in widths]
        return [smoothing(self.sample_shape_in_[mode], one) for mode, one in zip(modes, wide, strict=True)]

    def words(self) -> str:
        widths = self.width if isinstance(self.width, tuple | list) else (self.width,)
        kind = "Gaussian" if self.method == "gaussian" else "(I + width^2 L)^(-1/2)"
        return f"samples were smoothed along {self._along()} ({kind}, width {' and '.join(f'{w:g}' for w in widths)})"

    def brief(self) -> str:
        return f"smoothed ({self.words().rpartition(', ')[2]}"


def _gaussian(size: int, width: float) -> FloatArray:
    from scipy.ndimage import gaussian_filter1d

    return np.eye(size) if width == 0 else gaussian_filter1d(np.eye(size), width, axis=0, mode="reflect")


def _laplacian(size: int, width: float) -> FloatArray:
    """Return (I + width^2 L)^(-1/2); the eigenvectors of L are the cosines of the discrete cosine transform."""
    from scipy.fft import dct

    cosines = dct(np.eye(size), axis=0, norm="ortho")
    eigenvalues = 2.0 - 2.0 * np.cos(np.pi * np.arange(size) / size)
    return (cosines.T / np.sqrt(1.0 + width**2 * eigenvalues)) @ cosines


@fitted.attributes()
@dataclass(eq=False, repr=False)
class Differences(MapsModes):
    """Take differences of neighbouring entries along a mode, which removes levels and (in second order) drifts.

    Parameters
    ----------
    order : int, default=1
        How often differences are taken; the mode becomes shorter by as much.
    mode : int or str, default=-1
        Counted from 0; negative numbers count from the last. Or its name, if samples have names.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Differences
    >>> Differences().fit_transform(np.ones((5, 6, 100))).shape
    (5, 6, 99)
    """

    order: int = 1
    mode: int | str = -1

    def _matrix(self, X: Any, mode: int, size: int) -> Array:
        order = checked_count(self.order, "order", 1, size - 1, f", as the mode has n_features = {size} entries")
        return np.diff(np.eye(size), n=order, axis=0)

    def _mapped_axis(self, axis: Axis, matrix: Array) -> Axis:
        middle = axis.at(np.arange(len(matrix)) + self.order / 2)
        return middle if axis.is_numeric else Axis(axis.name, axis.unit)

    def words(self) -> str:
        times = "" if self.order == 1 else f" of order {self.order}"
        return f"samples were replaced by their differences{times} along {self._along()}"


@fitted.attributes()
@dataclass(eq=False, repr=False)
class Decimate(MapsModes):
    """Keep every q-th entry along a mode after a low-pass filter, as SciPy's `decimate` does.

    Parameters
    ----------
    factor : int, default=2
        What the number of entries is divided by.
    mode : int or str, default=-1
        Counted from 0; negative numbers count from the last. Or its name, if samples have names.
    method : {"fir", "iir"}, default="fir"
        Filter of `scipy.signal.decimate`, without a shift in phase. "iir" needs more than 27 entries.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Decimate
    >>> Decimate(4).fit_transform(np.ones((5, 6, 100))).shape
    (5, 6, 25)
    """

    factor: int = 2
    mode: int | str = -1
    method: str = "fir"

    def _matrix(self, X: Any, mode: int, size: int) -> Array:
        from scipy.signal import decimate

        checked_choice(self.method, "method", ("fir", "iir"))
        factor = checked_count(self.factor, "factor", 1, size, f", as the mode has n_features = {size} entries")
        if self.method == "iir" and size <= 27:
            raise ValueError(f'method="iir" needs more than 27 entries along the mode; got {size}. Use method="fir"')
        if factor == 1:
            return np.eye(size)
        return decimate(np.eye(size), factor, ftype=self.method, axis=0, zero_phase=True)

    def _mapped_axis(self, axis: Axis, matrix: Array) -> Axis:
        return axis.at(self.factor * np.arange(len(matrix)))

    def words(self) -> str:
        return f"samples were decimated along {self._along()} by {self.factor}, after a low-pass filter ({self.method})"


@fitted.attributes(covariance_=fitted.floats(None, None))
@dataclass(eq=False, repr=False)
class Whiten(MapsModes):
    """Make the entries along a mode, such as channels, uncorrelated and of unit variance over the training samples.

    Samples are multiplied by ``C^(-1/2)`` along the mode, where C is the covariance of the fibres along it, over all
    training samples and all indices of the other modes.

    Parameters
    ----------
    mode : int or str, default=0
        Counted from 0; negative numbers count from the last. Or its name, if samples have names.
    shrinkage : {"ledoit-wolf", "oas"} or float, default="ledoit-wolf"
        How C is shrunk towards a multiple of the identity; a number is the share of the identity.

    Attributes
    ----------
    covariance_ : ndarray of shape (size, size)
        The shrunk covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Whiten
    >>> X = np.random.default_rng(0).normal(size=(50, 6, 100)).cumsum(axis=1)
    >>> Z = np.moveaxis(Whiten().fit_transform(X), 1, 0).reshape(6, -1)
    >>> bool(np.abs(np.cov(Z) - np.eye(6)).max() < 0.02)
    True
    """

    mode: int | str = 0
    shrinkage: str | float = "ledoit-wolf"

    _mixes_entries = False  # C^(-1/2) is symmetric: of all whitening matrices it leaves channels closest to themselves

    def _matrix(self, X: Any, mode: int, size: int) -> Array:
        check_shrinkage(self.shrinkage)
        found = mode_moments(X, mode)
        covariance = shrunk(found.covariance, found.number, found.fourth, self.shrinkage)
        self.covariance_ = as_like(covariance, X)
        return matrix_power(covariance, -0.5)

    def words(self) -> str:
        how = self.shrinkage if isinstance(self.shrinkage, str) else f"{self.shrinkage:g}"
        return f"{self._along()} was whitened by its covariance over the training samples (shrinkage {how})"


@fitted.attributes(explained_variance_ratio_=fitted.floats(None) | None)
@dataclass(eq=False, repr=False)
class Project(MapsModes):
    """Project a mode, such as bands or voxels, on a few components: principal ones, a given basis, or an atlas.

    Parameters
    ----------
    n_components : int, default=10
        Number of principal components of the fibres along the mode, over all training samples and indices of the other
        modes; at most the size of the mode. Ignored if there is a basis.
    basis : array-like of shape (n_components, size) or (size,), optional
        Components to project on, one per row. A vector of whole numbers is an atlas: the region of each entry, with 0
        for none; entries of a region are averaged. For an atlas of volumes, `Tensorize` the samples to vectors first.
    mode : int or str, default=-1
        Counted from 0; negative numbers count from the last. Or its name, if samples have names.

    Attributes
    ----------
    explained_variance_ratio_ : ndarray of shape (n_components,) or None
        Share of the variance of each principal component; None with a basis.
    matrices_ : list of ndarray
        The components as rows.
    modes_ : tuple of int

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Project
    >>> X = np.random.default_rng(0).normal(size=(50, 5, 5, 200))
    >>> Project(8).fit_transform(X).shape
    (50, 5, 5, 8)
    >>> Project(basis=np.repeat([0, 1, 2, 3], 50)).fit_transform(X).shape
    (50, 5, 5, 3)
    """

    n_components: int = 10
    basis: Any = None
    mode: int | str = -1

    def _matrix(self, X: Any, mode: int, size: int) -> Array:
        if self.basis is not None:
            self.explained_variance_ratio_ = None
            return _given_basis(self.basis, size)
        count = checked_count(self.n_components, "n_components")
        covariance = mode_moments(X, mode).covariance
        values, vectors = np.linalg.eigh(covariance)
        values, rows = np.maximum(values[::-1], 0.0), vectors.T[::-1]
        signs = np.sign(rows[np.arange(size), np.argmax(np.abs(rows), axis=1)])
        total = float(values.sum())
        self.explained_variance_ratio_ = as_like(values[:count] / (total if total > 0 else 1.0), X)
        return (rows * signs[:, None])[:count]

    def _mapped_axis(self, axis: Axis, matrix: Array) -> Axis:
        given = None if self.basis is None else to_host(as_array(self.basis))
        if given is not None and given.ndim == 1:
            return Axis("region", "", np.unique(given[given != 0]).astype(np.float64))
        return super()._mapped_axis(axis, matrix)

    def words(self) -> str:
        count = len(self.matrices_[0]) if hasattr(self, "matrices_") else self.n_components
        if self.basis is not None:
            return f"{self._along()} was projected on a given basis"
        ratio = getattr(self, "explained_variance_ratio_", None)
        share = "" if ratio is None else f" ({100 * float(to_host(ratio).sum()):.3g} % of the variance)"
        return f"{self._along()} was projected on its {count} principal components{share}"


def _given_basis(basis: Any, size: int) -> FloatArray:
    """Return a basis as a matrix, or the means over the regions of an atlas."""
    given = to_host(as_array(basis))
    if given.ndim == 1 and len(given) == size and given.dtype.kind in "iu":
        regions = np.unique(given[given != 0])
        if len(regions):
            inside = (given == regions[:, None]).astype(np.float64)
            return inside / inside.sum(axis=1, keepdims=True)
    matrix = given.ndim == 2 and len(given) > 0 and given.shape[1] == size and given.dtype.kind in "biuf"
    if not matrix or not np.all(np.isfinite(given)):
        raise ValueError(
            f"basis must be finite components of shape (n_components, {size}), or the region of each of the {size} "
            f"entries, some of them not 0; got shape {given.shape}, dtype {given.dtype}"
        )
    return given.astype(np.float64)


@fitted.attributes(classes_=fitted.labels(), templates_=fitted.floats(...) | fitted.ABSENT)
@dataclass(eq=False, repr=False)
class Xdawn(LearnsFromLabels, MapsModes):
    """Spatial filters that enhance the responses evoked in each class (Rivet et al. 2009).

    For each class, the channels are combined such that the mean of its samples is as strong as possible relative to
    all samples. The filters are learned with the labels of the training samples.

    Parameters
    ----------
    n_filters : int, default=4
        Number of filters per class.
    mode : int or str, default=0
        Mode of the channels, counted from 0; negative numbers count from the last. Or its name, if samples have names.
    templates : bool, default=False
        Whether the filtered mean of each class comes in front of the filtered channels of every sample, as further
        channels. Covariances of such samples also tell how much a sample is like each mean, in the phase that all
        trials of a class share (Barachant and Congedo 2014): without templates that is lost.

    Attributes
    ----------
    classes_ : ndarray
        Classes in the order of the filters.
    matrices_ : list of ndarray
        The filters as rows, ``n_filters`` for each class.
    modes_ : tuple of int
    templates_ : ndarray
        With ``templates``: the mean of each class by the filters of that class, in the order of the filters.

    References
    ----------
    Rivet, Souloumiac, Attina and Gibert, "xDAWN algorithm to enhance evoked potentials: application to brain-computer
    interface", IEEE Transactions on Biomedical Engineering 56, 2009.
    Barachant and Congedo, "A plug&play P300 BCI using information geometry", arXiv:1409.0107, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from tensormargin.transformers import Covariances, Xdawn
    >>> X, y = np.random.default_rng(0).normal(size=(50, 6, 100)), np.arange(50) % 2
    >>> Xdawn(2).fit_transform(X, y).shape
    (50, 4, 100)
    >>> make_pipeline(Xdawn(2, templates=True), Covariances(metric="tangent")).fit_transform(X, y).shape
    (50, 8, 8)
    """

    n_filters: int = 4
    mode: int | str = 0
    templates: bool = False

    def _matrix(self, X: Any, mode: int, size: int) -> Array:
        from scipy.linalg import eigh

        count = checked_count(self.n_filters, "n_filters")
        self.classes_, codes = self._coded(X)
        noise = shrunk(mode_moments(X, mode).covariance, 1.0, 0.0, 1e-10)  # a constant channel has no inverse
        noise += np.eye(size) * (np.trace(noise) == 0)
        sums = statistics(X, number_and_sum, added, codes)
        filters, templates = [], []
        for number, total in computed(*(one for _, one in sorted(sums.items()))):
            evoked = to_host(total) / number
            fibres = np.moveaxis(evoked, mode, 0).reshape(size, -1)
            signal = np.atleast_2d(np.cov(fibres, bias=True)) if fibres.shape[1] > 1 else fibres @ fibres.T
            best = eigh(signal, noise)[1].T[::-1][:count]
            filters.append(best / np.linalg.norm(best, axis=1, keepdims=True))
            templates.append(np.moveaxis(np.tensordot(filters[-1], evoked, (1, mode)), 0, mode))
        self.__dict__.pop("templates_", None)
        if self.templates:
            self.templates_ = like(np.concatenate(templates, axis=mode), X)
        return np.concatenate(filters)

    def _shape_out(self) -> tuple[int, ...]:
        shape = list(super()._shape_out())
        if self.templates:
            shape[self.modes_[0]] *= 2
        return tuple(shape)

    def _fits(self) -> dict[str, Any]:
        shape, before = super()._shape_out(), self.sample_shape_in_[self.modes_[0]]
        there = getattr(self, "templates_", None)
        return {
            **super()._fits(),
            "matrices_": [matrix.shape for matrix in self.matrices_] == [(shape[self.modes_[0]], before)],
            "templates_": getattr(there, "shape", None) == (shape if self.templates else None),
        }

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        filtered = super()._change(X, metadata)
        if not self.templates:
            return filtered
        xp, templates = namespace(filtered), as_like(self.templates_, filtered, floating(filtered))
        repeated = xp.broadcast_to(templates, (filtered.shape[0], *templates.shape))
        return xp.concat([repeated, filtered], axis=self.modes_[0] + 1)

    def pull_back(self, weight: Any) -> Array:
        if self.templates:  # which are the same in all samples, and add a constant to scores
            mode = self.modes_[0]
            weight = as_array(weight)[(*[slice(None)] * mode, slice(self.templates_.shape[mode], None), ...)]
        return super().pull_back(weight)

    def _mapped_axis(self, axis: Axis, matrix: Array) -> Axis:
        count = len(matrix) // len(self.classes_)
        names = [f"{label} {k + 1}" for label in to_host(self.classes_) for k in range(count)]
        return Axis("filter", "", names if not self.templates else [*(f"mean of {name}" for name in names), *names])

    def words(self) -> str:
        more = ", with the mean of each class beside each sample" if self.templates else ""
        filters = f"{self.n_filters} filters per class, from the training samples"
        return f"{self._along()} was filtered by Xdawn ({filters}){more}"


class Moments(NamedTuple):
    """Number of fibres along a mode, their covariance, and the sum of the fourth powers of their centred norms."""

    number: int
    covariance: FloatArray
    fourth: float


def mode_moments(X: Any, mode: int) -> Moments:
    """Return the moments of the fibres along a mode, over all samples and indices of the other modes."""
    mean = TensorScaler(mode, with_std=False).fit(X).mean_
    number, products, fourth = reduced(X, partial(_products, mode=mode, mean=to_host(mean).reshape(-1)), added)
    return Moments(number, to_host(products) / number, float(fourth))


def _products(part: Any, mode: int, mean: FloatArray) -> tuple[int, Any, Any]:
    """Return the number of fibres, the sum of their products about the mean, and of the squares of their squares."""
    xp = namespace(part)
    fibres = xp.reshape(xp.moveaxis(cast(part, widest(part)), mode + 1, 0), (part.shape[mode + 1], -1))
    fibres = fibres - like(mean[:, None], part, widest(part))
    norms = xp.sum(fibres * fibres, axis=0)
    return int(fibres.shape[1]), fibres @ xp.matrix_transpose(fibres), xp.sum(norms * norms)
