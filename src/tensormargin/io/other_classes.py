"""Declarations of the classes of scikit-learn and TensorLy that a model may hold, as those of this package have them.

Of scikit-learn these are scalers, principal components, selection of features, linear models, calibration, and what
holds other models. Their attributes are those of versions 1.8 and 1.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..data import fitted
from ..transformers import shapes_through

_model, _text, _plain, _flag = fitted.instance(), fitted.text, fitted.plain, fitted.flag
_floats, _whole, _number, _labels, _list = fitted.floats, fitted.whole, fitted.number, fitted.labels, fitted.list_of
_per_feature, _scale = _floats("n_features_in_"), _floats("n_features_in_", low=fitted.POSITIVE)
_count = _number(1)  # of samples, of which scikit-learn makes a float if they have weights
_ranks = _list(_whole(1), kind=tuple)
_variances = dict.fromkeys(
    ("explained_variance_", "explained_variance_ratio_", "singular_values_"), _floats("components_", finite=False)
)
_scores = _floats("n_features_in_", finite=False)
_linear = {"classes_": _labels(), "coef_": _floats(None, "n_features_in_"), "intercept_": _floats("coef_") | _number()}
_search = {
    "best_estimator_": _model,
    "best_params_": fitted.map_of(_plain),
    "best_score_": _number(),
    "best_index_": _whole(0),
    "cv_results_": fitted.map_of(_plain, params=_list(fitted.map_of(_plain))),
    "n_splits_": _whole(1),
    "refit_time_": _number(0),
    "multimetric_": _flag,
    "scorer_": fitted.instance("_PassthroughScorer"),
    "scoring": fitted.one_of(None),
}

_DECLARED: Mapping[str, Mapping[str, Any]] = {
    "tensorly.cp_tensor.CPTensor": dict(
        shape=fitted.shape, rank=_whole(1), weights=_floats("rank"), factors=_list(_floats(None, "rank"), "shape")
    ),
    "tensorly.tucker_tensor.TuckerTensor": dict(
        shape=fitted.shape, rank=_ranks, core=_floats("*rank"), factors=_list(_floats(None, None), "shape")
    ),
    "tensorly.tt_tensor.TTTensor": dict(
        shape=fitted.shape, rank=_ranks, factors=_list(_floats(None, None, None), "shape")
    ),
    "sklearn.preprocessing._data.StandardScaler": dict(
        **dict.fromkeys(("mean_", "var_"), _per_feature | None),
        scale_=_scale | None,
        n_samples_seen_=_count | fitted.wholes("n_features_in_", low=1),
    ),
    "sklearn.preprocessing._data.MinMaxScaler": dict(
        **dict.fromkeys(("min_", "scale_", "data_min_", "data_max_", "data_range_"), _per_feature),
        n_samples_seen_=_count,
        feature_range=fitted.tuple_of(_number(), _number()),
    ),
    "sklearn.preprocessing._data.MaxAbsScaler": dict(max_abs_=_per_feature, scale_=_scale, n_samples_seen_=_count),
    "sklearn.preprocessing._data.RobustScaler": dict(center_=_per_feature | None, scale_=_scale | None),
    "sklearn.preprocessing._data.Normalizer": {},
    "sklearn.decomposition._pca.PCA": dict(
        **_variances,
        components_=_floats("n_components_", "n_features_in_"),
        mean_=_per_feature,
        n_components_=_whole(1),
        n_samples_=_whole(1),
        noise_variance_=_number(0),
    ),
    "sklearn.decomposition._truncated_svd.TruncatedSVD": dict(
        **_variances, components_=_floats(None, "n_features_in_")
    ),
    "sklearn.feature_selection._univariate_selection.SelectKBest": dict(scores_=_scores, pvalues_=_scores | None),
    "sklearn.feature_selection._univariate_selection.SelectPercentile": dict(scores_=_scores, pvalues_=_scores | None),
    "sklearn.feature_selection._variance_threshold.VarianceThreshold": dict(variances_=_scores),
    "sklearn.linear_model._logistic.LogisticRegression": dict(**_linear, n_iter_=fitted.wholes(None, low=0)),
    "sklearn.svm._classes.LinearSVC": dict(**_linear, n_iter_=_whole(0)),
    "sklearn.calibration.CalibratedClassifierCV": dict(
        classes_=_labels(), calibrated_classifiers_=_list(fitted.instance("_CalibratedClassifier"))
    ),
    "sklearn.calibration._CalibratedClassifier": dict(
        estimator=_model,
        calibrators=_list(fitted.instance("_SigmoidCalibration", "_TemperatureScaling", "IsotonicRegression")),
        classes=_labels(),
        method=fitted.one_of("sigmoid", "isotonic", "temperature"),
    ),
    "sklearn.calibration._SigmoidCalibration": dict(a_=_number(), b_=_number()),
    "sklearn.calibration._TemperatureScaling": dict(beta_=_number(0)),
    "sklearn.isotonic.IsotonicRegression": dict(
        increasing_=_flag,
        X_min_=_number(),
        X_max_=_number(),
        X_thresholds_=_floats(None),
        y_thresholds_=_floats("X_thresholds_"),
    ),
    "sklearn.pipeline.Pipeline": dict(
        steps=_list(fitted.tuple_of(_text, fitted.instance(fitted=None) | fitted.one_of("passthrough") | None))
    ),
    "sklearn.frozen._frozen.FrozenEstimator": dict(estimator=_model),
    "sklearn.model_selection._classification_threshold.FixedThresholdClassifier": dict(estimator_=_model),
    "sklearn.model_selection._search.GridSearchCV": _search,
    "sklearn.model_selection._search.RandomizedSearchCV": _search,
    "sklearn.metrics._scorer._PassthroughScorer": dict(_estimator=_plain),
    **{
        f"sklearn.model_selection._split.{name}": {}
        for name in ("GroupKFold", "KFold", "StratifiedGroupKFold", "StratifiedKFold")
    },
}


def _of_tucker(own: Any) -> dict[str, Any]:
    sizes = list(zip(own.shape, own.core.shape, strict=True))
    return {"factors": [factor.shape for factor in own.factors] == sizes}


def _of_tensor_train(own: Any) -> dict[str, Any]:
    sizes = list(zip(own.rank[:-1], own.shape, own.rank[1:], strict=True))
    return {"factors": [core.shape for core in own.factors] == sizes, "rank": own.rank[0] == own.rank[-1] == 1}


def _of_standard_scaler(own: Any) -> dict[str, Any]:
    return {"mean_": own.mean_ is not None or not own.with_mean, "scale_": own.scale_ is not None or not own.with_std}


def _of_robust_scaler(own: Any) -> dict[str, Any]:
    centre, scale = own.center_ is not None, own.scale_ is not None
    return {"center_": centre or not own.with_centering, "scale_": scale or not own.with_scaling}


def _of_linear_model(own: Any) -> dict[str, Any]:
    return {"coef_": len(own.coef_) == (1 if len(own.classes_) == 2 else len(own.classes_))}


def _of_calibrated_part(own: Any) -> dict[str, Any]:
    known, classes = np.asarray(own.estimator.classes_).tolist(), own.classes.tolist()
    numbered = own.method == "temperature"  # its models are fitted to the places of the classes
    number = 1 if len(known) == 2 or numbered else len(known)
    same = known == list(range(len(classes))) if numbered else set(known) <= set(classes)
    return {"classes": same, "calibrators": len(own.calibrators) == number}


def _of_calibrated(own: Any) -> dict[str, Any]:
    parts = own.calibrated_classifiers_
    return {"classes_": parts and all(part.classes.tolist() == own.classes_.tolist() for part in parts)}


def _of_isotonic(own: Any) -> dict[str, Any]:
    x = own.X_thresholds_
    return {"X_thresholds_": (x[1:] > x[:-1]).all(), "X_min_": own.X_min_ == x[0], "X_max_": own.X_max_ == x[-1]}


def _of_pipeline(own: Any) -> dict[str, Any]:
    shapes_through(own.steps)
    steps, names = (
        [one for _, one in own.steps[:-1] if not isinstance(one, str | None)],
        {name for name, _ in own.steps},
    )
    return {"steps": len(names) == len(own.steps) > 0 and all(hasattr(one, "transform") for one in steps)}


def _of_search(own: Any) -> dict[str, Any]:
    return {"best_index_": own.best_index_ < len(own.cv_results_["params"])}


_CONDITIONS: Mapping[str, Callable[[Any], Mapping[str, Any]]] = {
    "CPTensor": lambda own: {"shape": own.shape == tuple(map(len, own.factors))},
    "TuckerTensor": _of_tucker,
    "TTTensor": _of_tensor_train,
    "StandardScaler": _of_standard_scaler,
    "RobustScaler": _of_robust_scaler,
    "LogisticRegression": _of_linear_model,
    "LinearSVC": _of_linear_model,
    "CalibratedClassifierCV": _of_calibrated,
    "_CalibratedClassifier": _of_calibrated_part,
    "IsotonicRegression": _of_isotonic,
    "Pipeline": _of_pipeline,
    "FixedThresholdClassifier": lambda own: {
        "pos_label": own.pos_label is None or own.pos_label in own.estimator_.classes_.tolist()
    },
    **dict.fromkeys(("GridSearchCV", "RandomizedSearchCV"), _of_search),
}

for _name, _attributes in _DECLARED.items():
    fitted.ELSEWHERE[_name] = _attributes, _CONDITIONS.get(_name.rpartition(".")[2])
