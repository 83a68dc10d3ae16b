"""Tensor classifiers from other authors, for comparison."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data import samples_as_fitted
from ..fitting import numpy_backend, predicted_codes
from ..runtime import Array, FloatArray, to_host


class CPPLSClassifier(ClassifierMixin, BaseEstimator):
    """Partial least squares for tensors (Bro 1996): TensorLy's ``CP_PLSR`` fitted to class indicators.

    Parameters
    ----------
    n_components : int, default=2
        Rank of the weight. Fewer components are used if the centred samples do not have that many.

    Attributes
    ----------
    classes_ : ndarray
    regressor_ : tensorly.regression.CP_PLSR
    n_parameters_ : int
        Number of factor entries (for the modes of the samples) and coefficients.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")]
    }

    def __init__(self, n_components: int = 2) -> None:
        self.n_components = n_components

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to samples of shape (n_samples, I_1, ..., I_M)."""
        X, y = validate_data(self, X, y, dtype=np.float64, allow_nd=True, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"a classifier needs samples of at least two classes; got one class, {self.classes_}")
        self.sample_shape_ = X.shape[1:]
        self._unit = float(np.sqrt(np.mean(np.square(X - X.mean(axis=0))))) or 1.0  # CP_PLSR's tolerance is absolute
        self.regressor_ = self._largest_fit(X / self._unit, np.eye(len(self.classes_))[codes])
        self.n_parameters_ = sum(f.size for f in self.regressor_.X_factors[1:]) + self.regressor_.coef_.size
        return self

    def _largest_fit(self, X: Array, indicators: FloatArray) -> Any:
        from tensorly.regression import CP_PLSR

        for count in range(self.n_components, 0, -1):
            with numpy_backend(), np.errstate(all="ignore"):
                try:
                    regressor = CP_PLSR(count).fit(X, indicators)
                    if np.all(np.isfinite(regressor.predict(X[:1]))):
                        return regressor
                except np.linalg.LinAlgError:
                    continue
        raise ValueError("CP_PLSR finds no component: all samples are the same")

    def decision_function(self, X: Any) -> FloatArray:
        """Return the predicted indicators, one column per class; for two classes their difference."""
        check_is_fitted(self)
        X = to_host(samples_as_fitted(self, X, self.sample_shape_))
        with numpy_backend():
            scores = np.asarray(self.regressor_.predict(X.astype(np.float64) / self._unit))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """Return the predicted labels."""
        codes = predicted_codes(self.decision_function(X))
        return self.classes_[codes]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
