"""The contenders: how each is tuned on a training set and fitted to it.

All but ours are `Contender`s of this package's comparisons, an estimator and a grid, tuned in the same folds of the
training set. The ridge regressions of MiniRocket and MultiRocket-Hydra choose their strength by leave-one-out, as their
authors do; QUANT and the other ensembles of trees have nothing to choose.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.feature_selection import SelectPercentile, f_classif
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from tensormargin import TensorScaler
from tensormargin.data import Metadata
from tensormargin.evaluation import GAMMA_FACTORS
from tensormargin.evaluation.contenders import C_GRID, Contender, contender, tuned
from tensormargin.evaluation.held_out import Labelled
from tensormargin.selection import auto_model
from tensormargin.transformers import Covariances

from .pooling import pooled
from .tasks import Task

FOLDS = 5
"""Of the training set, to choose hyperparameters; fewer if a class has fewer samples (groups)."""

OURS = "ours"
REFERENCE = "LinearSVC"

_SHORTEST = 9  # time points that the kernels of MiniRocket, MultiRocket and Hydra have
_FEWEST = 3  # time points that the second differences of QUANT need


class UnsuitableError(ValueError):
    """Raised if a method cannot take the samples of a task."""


def flattened(X: Any) -> np.ndarray:
    """Return samples as vectors."""
    return X.reshape(len(X), -1)


def as_series(X: Any) -> np.ndarray:
    """Return samples as channels x time, with all modes but the last as channels."""
    return np.ascontiguousarray(X.reshape(len(X), -1, X.shape[-1]))


# ---- ours ----


def ours(task: Task, shape: tuple[int, ...], seed: int) -> Any:
    """Return the search that ``tensormargin fit --auto --kind KIND`` does."""
    return auto_model(task.kind, shape, task.sfreq, random_state=seed)


def _fit_ours(task: Task, X: Any, y: Any, groups: Any, seed: int) -> tuple[Any, dict[str, Any]]:
    search = ours(task, X.shape[1:], seed).fit(X, y, groups)
    return search, search.best_params_


# ---- the others ----


def _linear_svc(task: Task, shape: tuple[int, ...], seed: int) -> Contender:
    return contender("LinearSVC").behind(None, TensorScaler())


def _rbf_svc(task: Task, shape: tuple[int, ...], seed: int) -> Contender:
    """Scaled to unit variance, so that widths are relative to the number of entries."""
    steps = [("flat", FunctionTransformer(flattened)), ("svc", SVC())]
    gammas = [factor / np.prod(shape) for factor in GAMMA_FACTORS]
    one = Contender("RBF SVC", Pipeline(steps), {"svc__C": (0.1, 1.0, 10.0, 100.0), "svc__gamma": gammas})
    return one.behind(TensorScaler("global"), TensorScaler())


def _cp_plsr(task: Task, shape: tuple[int, ...], seed: int) -> Contender:
    return contender("CP-PLSR").behind(None, TensorScaler())


def _from_aeon(method: str, module: str, name: str, shape: tuple[int, ...], shortest: int) -> Any:
    """Return a class of aeon; raise UnsuitableError for samples that have too few time points for it."""
    if shape[-1] < shortest:
        raise UnsuitableError(f"{method} needs at least {shortest} time points; the samples have {shape[-1]}")
    try:
        return getattr(import_module(f"aeon.{module}"), name)
    except ImportError as error:
        raise ImportError(
            f"{method} needs aeon (and PyTorch): pip install {' '.join(PACKAGES[method])}, or leave it out"
        ) from error


def _mini_rocket(task: Task, shape: tuple[int, ...], seed: int) -> Contender:
    module = "transformations.collection.convolution_based"
    mini_rocket = _from_aeon("MiniRocket", module, "MiniRocket", shape, _SHORTEST)
    steps = [
        ("series", FunctionTransformer(as_series)),
        ("convolutions", mini_rocket(random_state=seed)),
        ("scale", StandardScaler(with_mean=False)),
        ("ridge", RidgeClassifierCV(alphas=np.logspace(-3, 3, 10))),
    ]
    return Contender("MiniRocket", Pipeline(steps), {})


def _multi_rocket_hydra(task: Task, shape: tuple[int, ...], seed: int) -> Contender:
    module, name = "classification.convolution_based", "MultiRocketHydraClassifier"
    hydra = _from_aeon("MultiRocket-Hydra", module, name, shape, _SHORTEST)(random_state=seed)
    return Contender(
        "MultiRocket-Hydra", Pipeline([("series", FunctionTransformer(as_series)), ("classifier", hydra)]), {}
    )


def _quant(task: Task, shape: tuple[int, ...], seed: int) -> Contender:
    quant = _from_aeon("QUANT", "classification.interval_based", "QUANTClassifier", shape, _FEWEST)(random_state=seed)
    return Contender("QUANT", Pipeline([("series", FunctionTransformer(as_series)), ("classifier", quant)]), {})


def _extra_trees(task: Task, shape: tuple[int, ...], seed: int) -> Contender:
    trees = ExtraTreesClassifier(500, random_state=seed)
    steps = [("scale", TensorScaler()), ("flat", FunctionTransformer(flattened)), ("trees", trees)]
    return Contender("extra trees", Pipeline(steps), {})


def _boosting(task: Task, shape: tuple[int, ...], seed: int) -> Contender:
    """Pool along the last mode of signals and spectra, in all modes of pictures, and nothing of other samples."""
    modes = {"image": tuple(range(len(shape))), "volume": tuple(range(len(shape))), "connectome": (), "plain": ()}
    own = {
        "max_iter": 50,
        "learning_rate": 0.2,
        "max_leaf_nodes": 15,
    }  # fewer and smaller trees than by default, for time
    own |= {"min_samples_leaf": 3, "max_features": 0.3, "early_stopping": False}  # for small training sets
    boosting = HistGradientBoostingClassifier(**own, random_state=seed)
    pool = FunctionTransformer(pooled, kw_args={"modes": modes.get(task.kind, (len(shape) - 1,))})
    steps = [("pooled", pool), ("boosting", boosting)]
    return Contender("gradient boosting", Pipeline(steps), {})


def _tangent(task: Task, shape: tuple[int, ...], seed: int) -> Contender:
    """Covariances of channels over time; connectivity matrices are covariances already."""
    if len(shape) != 2:
        raise UnsuitableError(f"covariances need channels x time; the samples have {len(shape)} modes")
    steps = [*_tangent_space(task), ("scale", StandardScaler()), ("svc", LinearSVC(max_iter=2000, random_state=seed))]
    return Contender("tangent space", Pipeline(steps), {"svc__C": (0.001, *C_GRID)})


def _tangent_space(task: Task) -> list[tuple[str, Any]]:
    """Return pyRiemann's steps, or ours if it is not installed."""
    try:
        from pyriemann.estimation import Covariances as Estimation
        from pyriemann.tangentspace import TangentSpace
    except ImportError:
        if task.kind == "connectome":
            raise ImportError("the tangent space of given matrices needs pyriemann: pip install pyriemann") from None
        return [("tangent", Covariances(metric="tangent", vectorize=True))]
    matrices = FunctionTransformer(_as_doubles) if task.kind == "connectome" else Estimation("oas")
    return [("covariances", matrices), ("tangent", TangentSpace())]


def _as_doubles(X: Any) -> np.ndarray:
    return np.asarray(X, np.float64)


def _anova(task: Task, shape: tuple[int, ...], seed: int) -> Contender:
    """Select the entries with the largest F of an analysis of variance, as nilearn's decoders select voxels."""
    steps = [
        ("scale", TensorScaler()),
        ("flat", FunctionTransformer(flattened)),
        ("select", SelectPercentile(f_classif)),
        ("svc", LinearSVC(max_iter=2000, random_state=seed)),
    ]
    grid = {"select__percentile": (5, 20, 50), "svc__C": (0.0001, 0.001, 0.01, 0.1, 1.0)}
    return Contender("ANOVA + SVC", Pipeline(steps), grid)


_OTHERS: dict[str, Callable[[Task, tuple[int, ...], int], Contender]] = {
    REFERENCE: _linear_svc,
    "RBF SVC": _rbf_svc,
    "ANOVA + SVC": _anova,
    "CP-PLSR": _cp_plsr,
    "tangent space": _tangent,
    "extra trees": _extra_trees,
    "gradient boosting": _boosting,
    "MiniRocket": _mini_rocket,
    "MultiRocket-Hydra": _multi_rocket_hydra,
    "QUANT": _quant,
}

METHODS = (*_OTHERS, OURS)
"""Names of all contenders."""

PACKAGES = {
    "MiniRocket": ("aeon",),
    "MultiRocket-Hydra": ("aeon", "torch"),
    "QUANT": ("aeon", "torch"),
    "tangent space": ("pyriemann",),
}
"""Optional packages that contenders use."""

IMPORTED = (
    "aeon.transformations.collection.convolution_based",
    "aeon.classification.convolution_based",
    "aeon.classification.interval_based",
    "pyriemann.estimation",
    "pyriemann.tangentspace",
    "tensorly.regression.cp_plsr",
)
"""Modules of these that are imported before anything is timed, as far as they are there."""

WITH_PROBABILITIES = ("extra trees", "gradient boosting", "QUANT", OURS)
"""Contenders whose ``predict_proba`` is more than the predicted class (that of MultiRocket-Hydra is not)."""


def fitted(method: str, task: Task, X: Any, y: Any, groups: Any, seed: int) -> tuple[Any, dict[str, Any]]:
    """Return a contender, tuned on a training set and fitted to it, and what was chosen.

    Raises
    ------
    UnsuitableError
        If the method cannot take such samples.
    """
    if method == OURS:
        return _fit_ours(task, X, y, groups, seed)
    samples = Labelled(X, y, Metadata(groups))
    chosen = tuned(_OTHERS[method](task, X.shape[1:], seed), samples, FOLDS, seed, n_jobs=1)
    return chosen.estimator.fit(X, y), chosen.values
