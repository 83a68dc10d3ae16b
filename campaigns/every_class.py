"""A small fitted model for every class that a file of a model may hold, so that none can be forgotten."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest, SelectPercentile, VarianceThreshold
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    KFold,
    RandomizedSearchCV,
    StratifiedGroupKFold,
    StratifiedKFold,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from sklearn.svm import LinearSVC

from tensormargin import (
    TensorMarginAutoClassifier,
    TensorMarginClassifier,
    TensorMarginClassifierCV,
    TensorUnion,
    Views,
    ViewTransformer,
    transformers,
)
from tensormargin.data import Metadata, fitted
from tensormargin.inspection import fit_model
from tensormargin.io import other_classes  # noqa: F401 - declares classes of other libraries

N_SAMPLES, SHAPE = 32, (4, 12)
SMALL = {"decompositions": ("cp",), "ranks": (1,), "lams": (1,), "mus": ((1, 1),), "cv": 2, "random_state": 0}
LAST = TensorMarginClassifier("cp", 1, random_state=0)


def samples() -> tuple[np.ndarray, np.ndarray]:
    """Return samples of two classes that differ."""
    y = np.arange(N_SAMPLES) % 2
    X = np.random.default_rng(0).normal(size=(N_SAMPLES, *SHAPE))
    return X + y[:, None, None] * np.sin(np.arange(12)), np.array(["no", "yes"])[y]


def _steps() -> Iterator[Any]:
    """Yield transformers, each of which comes before a classifier."""
    t = transformers
    yield from (t.TensorScaler(), t.TensorScaler(0, with_mean=False), t.Tensorize((6, -1)), t.MoveMode(), t.Mask())
    yield from (t.AnovaMask(0.5), t.Crop("varying"), t.Resize((3, 6)), t.EqualLength(8), t.EqualLength(14, "mean"))
    yield from (t.BandPower(4), t.BandPower([(1, 4), (4, 9)], 20.0, method="multitaper", n_windows=2))
    yield from (t.Covariances(), t.Covariances(metric="tangent", bands=[(1, 4), (4, 9)], sfreq=20.0, vectorize=True))
    yield from (t.Connectome("series"), t.Connectome("series", tangent=True, vectorize=True), t.GradientHistograms(3))
    yield from (t.Convolutions(200), t.Convolutions(300, "each", "random", vectorize=True), t.Convolutions(400, 2))
    yield from (t.CompetingConvolutions(4), t.CompetingConvolutions(4, 3, vectorize=True), t.Clip(), t.Detrend(mode=-1))
    yield from (t.Spectra("msc", 1, 5), t.Spectra(None, 0, 3, 1), t.Impute(), t.Impute("low-rank"), t.Impute(mask=True))
    yield from (t.IntervalQuantiles(4000), t.Decimate(2), t.Differences(), t.ModeMap(np.eye(4)[:3], mode=0))
    yield from (
        t.Project(3),
        t.Project(basis=np.arange(12) // 3, mode=-1),
        t.Smooth((1.0, 2.0), (0, 1)),
        t.Whiten(),
        t.Xdawn(2),
    )
    for kernel in ("rbf", "exponential", "linear", "grassmann", "dusk", "tt-mmk"):
        yield t.TensorKernel(kernel, random_state=0)
    yield t.TensorKernel("rbf", n_components=3, n_landmarks=6, method="nystroem", random_state=0)
    yield TensorUnion([("raw", "passthrough"), ("scaled", make_pipeline(t.TensorScaler(), t.Clip())), ("off", "drop")])


def _vector_steps() -> Iterator[Any]:
    """Yield transformers of scikit-learn, which take vectors."""
    yield from (StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler(), Normalizer(), PCA(5), TruncatedSVD(5))
    yield from (PCA(5, whiten=True), SelectKBest(k=20), SelectPercentile(percentile=50), VarianceThreshold())


def _classifiers() -> Iterator[Any]:
    """Yield classifiers of tensors, and others that hold one."""
    yield from (
        TensorMarginClassifier(name, probability=True, random_state=0) for name in ("full", "cp", "tucker", "tt")
    )
    yield TensorMarginClassifierCV(**SMALL, preparation=[None, make_pipeline(transformers.TensorScaler())])
    for split in (GroupKFold(2), KFold(2), StratifiedGroupKFold(2), StratifiedKFold(2)):
        yield TensorMarginClassifierCV(**{**SMALL, "cv": split})
    yield TensorMarginAutoClassifier("plain", **{**SMALL, "decompositions": None})
    for method in ("sigmoid", "isotonic", "temperature"):
        yield CalibratedClassifierCV(LAST, method=method, cv=2)
    yield CalibratedClassifierCV(make_pipeline(transformers.TensorScaler(), LAST), ensemble=False, cv=2)
    yield GridSearchCV(make_pipeline(transformers.TensorScaler(), LAST), {"tensormarginclassifier__rank": [1, 2]}, cv=2)
    yield RandomizedSearchCV(LAST, {"lam": [0.1, 1.0, 10.0]}, n_iter=2, cv=2, random_state=0)
    yield FixedThresholdClassifier(LAST, threshold=0.1, pos_label="yes")


@cache
def every_model() -> dict[str, tuple[Any, Any, Metadata]]:
    """Return fitted models by name, each with samples that it predicts, and their metadata."""
    X, y = samples()
    three = np.array(["a", "b", "c"])[np.arange(N_SAMPLES) % 3]
    flat, none = X.reshape(N_SAMPLES, -1), Metadata()
    found: dict[str, tuple[Any, Any, Metadata]] = {}

    def add(model: Any, X: Any = X, y: Any = y, metadata: Metadata = none) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit_model(model, X, y, metadata)
        found[f"{len(found)} {_name(model)}"] = model, X, metadata

    for step in _steps():
        add(make_pipeline(step, clone(LAST)))
    for step in _vector_steps():
        add(make_pipeline(step, clone(LAST)), flat)
        add(make_pipeline(transformers.Tensorize((-1,)), step, LogisticRegression()))
    groups = Metadata(np.arange(N_SAMPLES) // 8)
    for model in _classifiers():
        add(model, metadata=groups if hasattr(model, "decompositions") else none)
        if not isinstance(model, FixedThresholdClassifier):
            add(clone(model), X, three, groups if hasattr(model, "decompositions") else none)
    for model in (LinearSVC(), LogisticRegression()):
        add(make_pipeline(StandardScaler(), clone(model)), flat)
        add(clone(model), flat, three)
    add(make_pipeline(transformers.TensorScaler(), FrozenEstimator(clone(LAST).fit(X, y))))
    add(make_pipeline(transformers.Deconfound(), clone(LAST)), metadata=Metadata.checked(X, None, X[:, 0, :2]))
    add(make_pipeline(transformers.TensorScaler(by_group=True), clone(LAST)), metadata=groups)
    add(make_pipeline(transformers.TensorKernel("precomputed"), clone(LAST)), flat @ flat.T)
    named = pd.MultiIndex.from_product([list("abcd"), np.arange(12) / 10], names=["channel", "time"])
    add(make_pipeline(transformers.TensorScaler("channel"), clone(LAST)), pd.DataFrame(flat, columns=named))
    add(make_pipeline(StandardScaler(), clone(LAST)), pd.DataFrame(flat, columns=[f"c{k}" for k in range(48)]))
    views = Views(eeg=X, age=X[:, 0, :3])
    add(make_pipeline(ViewTransformer({"age": StandardScaler(), "eeg": transformers.Smooth()}), clone(LAST)), views)
    add(TensorMarginClassifier({"eeg": "tt"}, probability=True, random_state=0), views, three)
    add(TensorMarginClassifierCV(**SMALL), views)
    return found


def _name(model: Any) -> str:
    parts = [step for _, step in model.steps] if hasattr(model, "steps") else [model]
    return ", ".join(type(part).__name__ for part in parts)


def declared_classes() -> dict[str, type]:
    """Return the classes that models may have, by the names that files give them."""
    found = {
        name: getattr(import_module(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in fitted.ELSEWHERE
    }
    for public in (import_module("tensormargin"), transformers):
        kinds = [getattr(public, name) for name in public.__all__]
        ours = [kind for kind in kinds if isinstance(kind, type) and fitted.declaration_of(kind) is not None]
        found |= {f"{kind.__module__}.{kind.__qualname__}": kind for kind in ours if not _is_abstract(kind)}
    return found


def _is_abstract(kind: type) -> bool:
    return bool(getattr(kind, "__abstractmethods__", ()))


def without_a_model() -> set[str]:
    """Return the names of declared classes of which no model above has an object."""
    held = {
        f"{type(part).__module__}.{type(part).__qualname__}"
        for model, _, _ in every_model().values()
        for part in fitted.check_attributes(model, lambda one: one.__getstate__())
    }
    return set(declared_classes()) - held


Use = Callable[[Any, Any, Metadata], Any]
