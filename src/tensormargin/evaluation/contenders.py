"""The methods that take part in a comparison, with their hyperparameter grids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

from .._typing import Array
from ..methods import make_method
from ..peers import CPPLSClassifier
from ..samples.span import Span

PEERS = ("LinearSVC", "CP-PLSR")
"""Methods from scikit-learn and TensorLy that can be compared with the paper's."""

MAJORITY = "majority class"
"""Baseline that always predicts the most frequent class of the training set."""

LAM_GRID = (0.01, 0.1, 1.0, 10.0)
C_GRID = (0.01, 0.1, 1.0, 10.0, 100.0)
COMPONENTS = (1, 2, 3, 4, 6)


class FlatUnit(TransformerMixin, BaseEstimator):
    """Flatten the samples, subtract their mean and divide by a scalar, so that one grid of C suits all data.

    After scaling, the mean squared norm is 10. Centring helps the flat method, whose intercept is penalised and whose
    solver is slow if the mean is far from zero.

    If samples have more entries than there are samples, they are replaced by their coordinates in an orthonormal basis
    of the span of the training samples. A linear method with a squared penalty gives the same predictions, since its
    weight is in that span, and each step of its solver costs as if samples had no more entries than that (EEG, 61
    samples of 64x64: a tenth of the time).

    Attributes
    ----------
    n_entries_ : int
        Entries per sample.
    mean_ : ndarray of shape (n_entries_,)
    unit_ : float
    basis_ : ndarray of shape (n_samples + 1, n_entries_) or None
        Has rows of zeros, too: with more columns than rows, LinearSVC uses the same solver as for the samples.
    """

    def fit(self, X: Array, y: Any = None) -> FlatUnit:
        """Learn the mean, the scale and the basis."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Array, y: Any = None) -> Array:  # computes the centred samples once
        """Learn the mean, the scale and the basis, and return the samples as centred and scaled vectors."""
        self.mean_ = np.mean(X, axis=0, dtype=np.float64).ravel()
        self.n_entries_ = len(self.mean_)
        centred = X.reshape(len(X), -1) - self.mean_
        spread = float(np.vdot(centred, centred)) / len(centred)
        self.unit_ = np.sqrt(spread / 10) if spread > 0 else 1.0
        self.basis_ = _basis(centred) if len(X) < self.n_entries_ else None
        return self._scaled(centred)

    def transform(self, X: Array) -> Array:
        """Return the samples as centred and scaled vectors."""
        return self._scaled(X.reshape(len(X), -1) - self.mean_)

    def _scaled(self, centred: Array) -> Array:
        return (centred if self.basis_ is None else centred @ self.basis_.T) / self.unit_


def _basis(rows: Array) -> Array:
    """Return an orthonormal basis of the span of the rows, with zeros added up to one row more than there are rows."""
    shares = Span.of(rows @ rows.T).shares
    basis = np.zeros((len(rows) + 1, rows.shape[1]))
    np.matmul(shares.T, rows, out=basis[: shares.shape[1]])
    return basis


@dataclass(frozen=True)
class Contender:
    """An estimator and its hyperparameter grid."""

    name: str
    estimator: Any
    grid: Mapping[str, Sequence[Any]]

    @property
    def n_candidates(self) -> int:
        """Number of combinations of hyperparameters."""
        return len(ParameterGrid(self._lists))

    def candidate(self, number: int) -> dict[str, Any]:
        """Return one combination of hyperparameters, in the order of scikit-learn's searches."""
        return dict(ParameterGrid(self._lists)[number])

    @property
    def _lists(self) -> dict[str, list[Any]]:
        return {name: list(values) for name, values in self.grid.items()}

    def behind(self, *preparations: Any) -> Contender:
        """Return a copy with a transformer in front of the estimator; given several, they are added to the grid.

        ``None`` stands for no transformer.
        """
        if preparations == (None,):
            return self
        steps = ["passthrough" if one is None else one for one in preparations]
        estimator = Pipeline([("preparation", steps[0]), ("method", self.estimator)])
        grid: dict[str, Sequence[Any]] = {f"method__{name}": values for name, values in self.grid.items()}
        return Contender(self.name, estimator, grid | ({"preparation": steps} if len(steps) > 1 else {}))


def contender(name: str, lam_grid: Sequence[float] = LAM_GRID, class_weight: Any = None) -> Contender:
    """Return the contender with this name: a method of the paper, a peer or the majority class.

    ``class_weight`` is used by LinearSVC only.
    """
    if name == "LinearSVC":
        svc = LinearSVC(max_iter=2000, random_state=0, class_weight=class_weight)
        return Contender(name, Pipeline([("flat", FlatUnit()), ("svc", svc)]), {"svc__C": C_GRID})
    if name == MAJORITY:
        return Contender(name, DummyClassifier(strategy="most_frequent"), {})
    if name == "CP-PLSR":
        return Contender(name, CPPLSClassifier(), {"n_components": COMPONENTS})
    return Contender(name, make_method(name), {"lam": list(lam_grid)})
