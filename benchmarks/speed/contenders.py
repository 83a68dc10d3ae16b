"""The contenders: the methods of this library, and alternatives from other libraries.

Each contender is a function that takes `Data` and returns a function without arguments, which fits and returns a
`Model`; only the latter is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cases import Data

_TIGHT = 1e-6
_N_JOBS = -1  # for the 45 pairs; our methods and LinearSVC both use all cores


@dataclass(frozen=True)
class Model:
    """A fitted linear classifier in the form expected by `value` and `accuracy`.

    ``mu`` is the weight of the margin terms in the fit; ``converge`` continues the fit to a tight tolerance and returns
    the model (None if that is not possible).
    """

    estimator: Any
    weight: np.ndarray | None
    intercept: float
    mu: float
    sweeps: int
    predict: Callable[[np.ndarray], np.ndarray]
    converge: Callable[[], Model] | None = None


Fit = Callable[[], Model]


def value(model: Model, data: Data) -> tuple[float, float]:
    """Return Eq. 7, without the penalty of the intercept, and the sum of the absolute values of its terms.

    All models are compared by this function.
    """
    if model.weight is None:
        return float("nan"), float("nan")
    positive = data.y == np.unique(data.y)[1]
    scores = data.X.reshape(len(data.X), -1) @ model.weight.ravel().astype(data.X.dtype) + model.intercept
    margins = np.where(positive, scores, -scores).astype(np.float64)
    hinge = np.mean(np.maximum(0.0, 1.0 - margins))
    squared = np.sum(np.square(model.weight, dtype=np.float64))
    terms = [0.5 * squared, model.mu * np.var(margins), -model.mu * np.mean(margins), data.lam * hinge]
    return float(np.sum(terms)), float(np.sum(np.abs(terms)))


def accuracy(model: Model, data: Data) -> float:
    """Return the accuracy on the test set."""
    return float(np.mean(model.predict(data.X_test) == data.y_test))


def ours(name: str, data: Data, **overrides: Any) -> Fit:
    """Return the fit of a method of the paper, by its name."""
    from tensormargin import make_method

    mu = 0.0 if name in ("SVM", "STM", "STuM") else data.mu
    n_jobs = _N_JOBS if len(np.unique(data.y)) > 2 else None
    settings = {"lam": data.lam, "mu1": mu, "mu2": mu, "scale_free": False, "n_jobs": n_jobs, **overrides}

    def fit() -> Model:
        return _our_model(make_method(name, **settings).fit(data.X, data.y), data, mu)

    return fit


def _our_model(clf: Any, data: Data, mu: float) -> Model:
    def converge() -> Model:
        clf.set_params(warm_start=True, tol=_TIGHT, max_iter=1000).fit(data.X, data.y)
        return _our_model(clf, data, mu)

    binary = len(clf.coef_) == 1
    weight = clf.coef_[0] if binary else None
    intercept = float(clf.intercept_[0]) if binary else 0.0
    return Model(clf, weight, intercept, mu, clf.n_iter_, clf.predict, converge if binary else None)


def linear_svc(data: Data, tol: float = 1e-3) -> Fit:
    """Return the fit of scikit-learn's LinearSVC on flattened samples, with the same lambda."""
    from sklearn.multiclass import OneVsOneClassifier
    from sklearn.svm import LinearSVC

    n_classes = len(np.unique(data.y))
    n_pair = 2 * len(data.y) / n_classes
    X = data.X.reshape(len(data.X), -1)

    def fit() -> Model:
        clf = LinearSVC(loss="hinge", C=data.lam / n_pair, tol=tol, max_iter=10**6, random_state=0)
        if n_classes > 2:
            pairs = OneVsOneClassifier(clf, n_jobs=_N_JOBS).fit(X, data.y)
            return Model(pairs, None, 0.0, 0.0, 0, lambda samples: pairs.predict(samples.reshape(len(samples), -1)))
        clf.fit(X, data.y)
        return Model(
            clf,
            clf.coef_[0],
            float(clf.intercept_[0]),
            0.0,
            int(clf.n_iter_),
            lambda samples: clf.predict(samples.reshape(len(samples), -1)),
            None if tol < _TIGHT else linear_svc(data, _TIGHT / 10),
        )

    return fit


def regressor(make: Callable[[], Any], data: Data) -> Fit:
    """Return the fit of a TensorLy regressor on the labels 1 and -1."""
    classes = np.unique(data.y)
    target = np.where(data.y == classes[1], 1.0, -1.0)

    def fit() -> Model:
        model = make()
        model.fit(data.X, target)
        weight = getattr(model, "weight_tensor_", None)
        return Model(
            model, weight, 0.0, data.mu, 0, lambda samples: classes[(np.ravel(model.predict(samples)) > 0).astype(int)]
        )

    return fit


def cp_regressor(rank: int, data: Data) -> Fit:
    """Return the fit of TensorLy's CPRegressor with default parameters."""
    from tensorly.regression import CPRegressor

    return regressor(lambda: CPRegressor(weight_rank=rank, verbose=0, random_state=0), data)


def tucker_regressor(data: Data) -> Fit:
    """Return the fit of TensorLy's TuckerRegressor with default parameters and the rank of our Tucker weight."""
    from tensorly.regression import TuckerRegressor

    ranks = [4] * (data.X.ndim - 1)
    return regressor(lambda: TuckerRegressor(weight_ranks=ranks, verbose=0, random_state=0), data)


def cp_plsr(data: Data) -> Fit:
    """Return the fit of TensorLy's partial least squares with two components."""
    from tensorly.regression import CP_PLSR

    return regressor(lambda: CP_PLSR(n_components=2), data)


def lsstm(data: Data) -> Fit:
    """Return the fit of HOTTBOX's least squares support tensor machine (rank 1) with default parameters."""
    from hottbox.algorithms.classification import LSSTM
    from hottbox.core import Tensor

    samples = [Tensor(sample) for sample in data.X]

    def fit() -> Model:
        np.random.seed(0)  # noqa: NPY002 - LSSTM draws its initial weight from the global state
        clf = LSSTM()
        clf.fit(samples, data.y)
        return Model(
            clf, None, 0.0, 0.0, len(clf.bias_history_), lambda X: clf.predict([Tensor(sample) for sample in X])
        )

    return fit


def contender(name: str, data: Data) -> Fit:
    """Return the fit of a contender by its name; raise ImportError if its library is not installed."""
    others: dict[str, Callable[[Data], Fit]] = {
        "LinearSVC": linear_svc,
        "LSSTM": lsstm,
        "CPRegressor-1": lambda data: cp_regressor(1, data),
        "CPRegressor-2": lambda data: cp_regressor(2, data),
        "TuckerRegressor": tucker_regressor,
        "CP_PLSR": cp_plsr,
    }
    if name in others:
        return others[name](data)
    if name.startswith("CP-"):
        return ours("HSPMD-LRT", data, rank=int(name[3:]))
    if name.startswith("Tucker-"):
        return ours("TuSPMD-LRT", data, rank=int(name[7:]))
    return ours(name, data)
