"""The methods that take part in a comparison, with their hyperparameter grids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

from .._typing import Array
from ..chains import named_steps
from ..methods import KERNEL_METHODS, make_method
from ..peers import CPPLSClassifier

PEERS = ("LinearSVC", "CP-PLSR")
"""Methods from scikit-learn and TensorLy that can be compared with the paper's."""

MAJORITY = "majority class"
"""Baseline that always predicts the most frequent class of the training set."""

LAM_GRID = (0.01, 0.1, 1.0, 10.0)
C_GRID = (0.01, 0.1, 1.0, 10.0, 100.0)
COMPONENTS = (1, 2, 3, 4, 6)
GAMMA_FACTORS = (0.1, 1.0, 10.0)
"""Widths of kernels, relative to the scale of the samples."""


class FlatUnit(TransformerMixin, BaseEstimator):
    """Flatten the samples, subtract their mean and divide by a scalar, so that one grid of C suits all data.

    After scaling, the mean squared norm is 10. Centring helps the flat method, whose intercept is penalised and whose
    solver is slow if the mean is far from zero.
    """

    def fit(self, X: Array, y: Any = None) -> FlatUnit:
        """Learn the mean and the scale."""
        self.mean_ = np.mean(X, axis=0, dtype=np.float64).ravel()
        spread = float(np.mean(np.var(X, axis=0, dtype=np.float64))) * X[0].size
        self.unit_ = np.sqrt(spread / 10) if spread > 0 else 1.0
        return self

    def transform(self, X: Array) -> Array:
        """Return the samples as centred and scaled vectors."""
        return (X.reshape(len(X), -1) - self.mean_) / self.unit_


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

    def model(self, number: int) -> Any:
        """Return the unfitted estimator of one combination of hyperparameters."""
        values = {name: clone(value, safe=False) for name, value in self.candidate(number).items()}
        return clone(self.estimator).set_params(**values)

    def last(self, number: int) -> Any:
        """Return the last step of a candidate, with nested pipelines flattened."""
        model = self.model(number)
        while isinstance(model, Pipeline):
            model = model.steps[-1][1]
        return model

    def steps_before_last(self, number: int) -> Pipeline:
        """Return the other steps of a candidate as one pipeline; a step that does nothing if there are none."""
        model, steps = self.model(number), list[Any]()
        while isinstance(model, Pipeline):
            steps += [step for _, step in named_steps(model.steps[:-1])]
            model = model.steps[-1][1]
        return make_pipeline(*steps, "passthrough")

    def sharing_steps(self) -> list[list[int]]:
        """Return the numbers of the candidates, in groups that differ only in parameters of the last step."""
        prefix, model = "", self.estimator
        while isinstance(model, Pipeline):
            prefix += f"{model.steps[-1][0]}__"
            model = model.steps[-1][1]
        groups = defaultdict(list)
        for number in range(self.n_candidates):
            before = {name: value for name, value in self.candidate(number).items() if not name.startswith(prefix)}
            groups[repr(sorted(before.items(), key=lambda item: item[0]))].append(number)
        return list(groups.values())

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
    """Return the contender with this name: a method of the paper, a kernel method, a peer or the majority class.

    ``class_weight`` is used by LinearSVC only.
    """
    if name == "LinearSVC":
        svc = LinearSVC(max_iter=2000, random_state=0, class_weight=class_weight)
        return Contender(name, Pipeline([("flat", FlatUnit()), ("svc", svc)]), {"svc__C": C_GRID})
    if name == MAJORITY:
        return Contender(name, DummyClassifier(strategy="most_frequent"), {})
    if name == "CP-PLSR":
        return Contender(name, CPPLSClassifier(), {"n_components": COMPONENTS})
    if name in KERNEL_METHODS:
        grid = {"classifier__lam": list(lam_grid), "kernel__gamma_factor": list(GAMMA_FACTORS)}
        return Contender(name, make_method(name, kernel__random_state=0), grid)
    return Contender(name, make_method(name), {"lam": list(lam_grid)})
