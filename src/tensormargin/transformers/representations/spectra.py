"""Corrections and derivatives of spectra."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...data import Metadata
from ...runtime import Array, FloatArray, as_array, as_like, namespace
from ..preparation._base import checked_choice, checked_count
from ..preparation.resizing import apply_matrices
from ..preparation.scaling import TensorScaler
from .base import Representation, as_double


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

    scatter: str | None = "snv"
    derivative: int = 0
    window: int | None = None
    degree: int = 2
    mode: int | str = -1

    _keeps_modes: ClassVar[bool] = True

    @property
    def maps_after(self) -> bool:
        """Whether weight maps are drawn on the transformed samples: if spectra are corrected one by one."""
        return self.scatter is not None

    def _learn(self, X: Any, metadata: Metadata) -> tuple[int, ...]:
        checked_choice(self.scatter, "scatter", ("snv", "msc", None))
        mode = self._mode(self.mode, X.ndim - 1)
        self._axis = mode + 1
        matrix = self._filter(int(X.shape[mode + 1]))
        self._matrix = None if matrix is None else as_like(matrix, X)
        self.reference_ = None
        if self.scatter == "msc":
            mean = TensorScaler(mode, with_std=False).fit(X).mean_
            self.reference_ = namespace(mean).reshape(mean, (-1,))
        return self.sample_shape_in_

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
