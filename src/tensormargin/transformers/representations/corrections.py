"""Corrections: of drifts over the samples of a run or along a mode, of outliers, and of spectra, with derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from ...data import NO_METADATA, Metadata, fitted
from ...runtime import Array, FloatArray, as_array, as_like, cast, like, namespace
from ..preparation._base import checked_choice, checked_count, checked_number, needed_groups
from ..preparation._passes import added, by_chunk, chunked, floating, mapped, statistics, widest, without_explained
from ..preparation.resizing import apply_matrices
from ..preparation.scaling import TensorScaler
from .base import Representation, as_double
from .mode_maps import MapsModes


@fitted.attributes()
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

    def _learn(self, X: Any, metadata: Metadata) -> None:
        checked_count(self.degree, "degree", 0)
        if self.mode is not None:
            super()._learn(X, metadata)
        else:
            self._groups(metadata)
            self.matrices_, self.modes_ = [], ()

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


@fitted.attributes()
@dataclass(eq=False, repr=False)
class Clip(Representation):
    """Limit entries to an interval around zero, so that outliers do not dominate distances.

    Parameters
    ----------
    limit : float, default=2.0
        Largest absolute value; behind a `TensorScaler`, in standard deviations.

    Examples
    --------
    >>> from tensormargin.transformers import Clip
    >>> Clip().fit_transform([[[0.5, -7.0, 3.0]]]).tolist()
    [[[0.5, -2.0, 2.0]]]
    """

    limit: float = 2.0

    _keeps_modes: ClassVar[bool] = True

    def _learn(self, X: Any, metadata: Metadata) -> None:
        checked_number(self.limit, "limit")

    def _represent(self, part: FloatArray) -> Array:
        return np.clip(part, -self.limit, self.limit)

    def words(self) -> str:
        return f"entries were limited to at most {self.limit:g} in absolute value"

    def brief(self) -> str:
        return "outliers limited"


@fitted.attributes(
    _axis=fitted.whole(1, "sample_shape_in_"),
    _matrix=fitted.floats(None, None) | None,
    reference_=fitted.floats(None) | None,
)
@dataclass(eq=False, repr=False)
class Spectra(Representation):
    """Correct spectra for scatter, and take smoothed derivatives.

    Parameters
    ----------
    scatter : {"snv", "msc"} or None, default="snv"
        "snv" (standard normal variate) subtracts the mean of each spectrum and divides by its standard deviation. "msc"
        (multiplicative scatter correction) regresses each spectrum on the mean spectrum of the training samples, and
        removes offset and slope. None is linear: weights are pulled back through the derivative.
    derivative : int, default=0
        Order of the derivative of the Savitzky-Golay filter, taken after the correction; needs ``window`` if above 0.
    window : int, optional
        Entries of the filter's window, an odd number. None does not filter.
    degree : int, default=2
        Degree of the filter's polynomials, below ``window``.
    mode : int or str, default=-1
        The mode of wavelengths, counted from 0; negative numbers count from the last. Or its name, if samples have
        names.

    Attributes
    ----------
    reference_ : ndarray of shape (size,) or None
        Mean spectrum of the training samples, over all indices of the other modes, for "msc".

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Spectra
    >>> X = np.random.default_rng(0).normal(size=(20, 5, 5, 200))
    >>> Spectra("msc", derivative=1, window=11).fit_transform(X).shape
    (20, 5, 5, 200)
    """

    scatter: Literal["snv", "msc"] | None = "snv"
    derivative: int = 0
    window: int | None = None
    degree: int = 2
    mode: int | str = -1

    _keeps_modes: ClassVar[bool] = True

    @property
    def maps_after(self) -> bool:
        """Whether weight maps are drawn on the transformed samples: if spectra are corrected one by one."""
        return self.scatter is not None

    def _learn(self, X: Any, metadata: Metadata) -> None:
        checked_choice(self.scatter, "scatter", ("snv", "msc", None))
        mode = self._mode(self.mode, X.ndim - 1)
        self._axis = mode + 1
        matrix = self._filter(int(X.shape[mode + 1]))
        self._matrix = None if matrix is None else as_like(matrix, X)
        self.reference_ = None
        if self.scatter == "msc":
            mean = TensorScaler(mode, with_std=False).fit(X).mean_
            self.reference_ = namespace(mean).reshape(mean, (-1,))

    def _fits(self) -> dict[str, Any]:
        fits, size = super()._fits(), self.sample_shape_in_[self._axis - 1]
        reference, matrix = (size,) * (self.scatter == "msc"), (size, size) if self.window is not None else ()
        return {
            **fits,
            "reference_": getattr(self.reference_, "shape", ()) == reference,
            "_matrix": getattr(self._matrix, "shape", ()) == matrix,
        }

    def _filter(self, size: int) -> Array | None:
        """Return the matrix of the Savitzky-Golay filter, or None."""
        from scipy.signal import savgol_filter

        derivative = checked_count(self.derivative, "derivative", 0)
        if self.window is None:
            if derivative:
                raise ValueError(
                    f"a derivative needs a window; got derivative={derivative} and window=None. Pass window"
                )
            return None
        window = checked_count(self.window, "window", 1, size, f", as the mode has n_features = {size} entries")
        if window % 2 == 0:
            raise ValueError(f"window must be odd; got window={window}. Use {window - 1} or {window + 1}")
        degree = checked_count(self.degree, "degree", 0, window - 1, ", below the window")
        checked_count(derivative, "derivative", 0, degree, ", the degree: higher derivatives are zero")
        return savgol_filter(np.eye(size), window, degree, deriv=derivative, axis=0)

    def _represent(self, part: FloatArray) -> Array:
        spectra = np.moveaxis(part, self._axis, -1)
        if self.scatter == "snv":
            spectra = _standardised(spectra)
        elif self.scatter == "msc":
            spectra = _without_scatter(spectra, as_double(self.reference_))
        if self._matrix is not None:
            spectra = spectra @ as_double(self._matrix).T
        return np.moveaxis(spectra, -1, self._axis)

    def pull_back(self, weight: Any) -> Array:
        """Return the weight on the input; raise TypeError if spectra are corrected for scatter, which is not linear."""
        if self.scatter is not None:
            return super().pull_back(weight)
        matrices = [] if self._matrix is None else [as_double(self._matrix).T]
        return apply_matrices(as_array(weight), matrices, self._axis - 1)

    def words(self) -> str:
        done = {
            "snv": ["centred and scaled one by one (SNV)"],
            "msc": ["corrected for scatter (MSC) with the mean spectrum of the training samples"],
        }.get(str(self.scatter), [])
        if self.window is not None:
            what = f"replaced by derivatives of order {self.derivative}" if self.derivative else "smoothed"
            done.append(f"{what} (Savitzky-Golay, window {self.window}, degree {self.degree})")
        return f"spectra were {' and '.join(done) or 'left as they are'}"

    def brief(self) -> str:
        done = [] if self.scatter is None else [str(self.scatter).upper()]
        done += [] if self.window is None else ["derivatives" if self.derivative else "smoothed"]
        return " and ".join(done) or self.words()


def _standardised(spectra: FloatArray) -> FloatArray:
    """Return spectra of mean 0 and standard deviation 1; constant ones become zero."""
    centred = spectra - spectra.mean(axis=-1, keepdims=True)
    deviation = centred.std(axis=-1, keepdims=True)
    constant = deviation <= 1e-12 * np.abs(spectra).max(axis=-1, keepdims=True, initial=0.0)
    return np.where(constant, 0.0, centred) / np.where(constant, 1.0, deviation)


def _without_scatter(spectra: FloatArray, reference: FloatArray) -> FloatArray:
    """Return spectra without offset and slope relative to a reference; a slope of zero is left."""
    centred = reference - reference.mean()
    total = float(centred @ centred)
    slope = (spectra @ centred)[..., None] / (total if total > 0 else 1.0)
    offset = spectra.mean(axis=-1, keepdims=True) - slope * reference.mean()
    size = np.abs(spectra).max(axis=-1, keepdims=True, initial=0.0)
    flat = np.abs(slope) * np.sqrt(total) <= 1e-9 * size
    return np.where(flat, spectra, (spectra - offset) / np.where(flat | (slope == 0), 1.0, slope))
