"""scikit-learn: searches, ensembles, thresholds, curves and displays.

The classifiers pass `check_estimator`, and samples with any number of modes go through everything that does not check
`X` itself: pipelines, searches, cross-validation, stacking, soft voting, calibration, thresholds, learning and
validation curves. Probabilities are calibrated in the fit with `probability=True`; the search always has them.

Tools that handle columns, or that check `X` themselves, take vectors only and refuse samples with more modes:
`SelectFromModel`, `RFE`, `permutation_importance`, `ColumnTransformer`, `BaggingClassifier`, `OneVsOneClassifier`,
`SelfTrainingClassifier` and `StackingClassifier(passthrough=True)`. To use tensors there, flatten `X` and put
`Tensorize(shape)` first in the pipeline.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn
from conftest import low_rank_classes
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, StackingClassifier
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import SelfTrainingClassifier

from tensormargin import Tensorize, TensorMarginClassifier, TensorMarginClassifierCV, TensorScaler

SHAPE = (4, 5)
X, SIGNS = low_rank_classes(0, 60, SHAPE, 3.0)
Y = np.where(SIGNS > 0, "yes", "no")
GROUPS = np.arange(60) // 10
CP = TensorMarginClassifier("cp", 1, random_state=0, tol=0.1)
FLAT = X.reshape(60, -1)


def test_decompositions_are_searched():
    y = Y
    # page: `rank` is an upper bound, so a grid over decompositions and ranks has no failing fits:
    from sklearn.model_selection import GridSearchCV

    from tensormargin import TensorMarginClassifier

    grid = {"decomposition": ["full", "cp", "tucker", "tt"], "rank": [1, 4, 16]}
    search = GridSearchCV(TensorMarginClassifier(), grid, cv=2, error_score="raise").fit(X, y)
    search.best_estimator_.rank_  # what was used
    # page ends
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))


def test_halving_searches():
    y = Y
    # page: Halving searches; strengths are plain numbers, so any distribution of positive numbers will do:
    from scipy.stats import loguniform
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401
    from sklearn.model_selection import HalvingRandomSearchCV

    from tensormargin import TensorMarginClassifier

    search = HalvingRandomSearchCV(TensorMarginClassifier(), {"lam": loguniform(0.01, 100)}, cv=3, random_state=0)
    search.fit(X, y)
    # page ends
    assert search.score(X, y) > 0.8


def test_ensembles():
    y = Y
    # page: Stacking, and soft voting, which averages probabilities:
    from sklearn.ensemble import StackingClassifier, VotingClassifier

    from tensormargin import TensorMarginClassifier

    models = [(name, TensorMarginClassifier(name, probability=True)) for name in ("cp", "full")]
    stacked = StackingClassifier(models, cv=3).fit(X, y)
    voting = VotingClassifier(models, voting="soft").fit(X, y)
    # page ends
    assert stacked.score(X, y) > 0.8
    mean = np.mean([one.predict_proba(X) for one in voting.estimators_], axis=0)
    np.testing.assert_array_equal(voting.predict(X), voting.classes_[mean.argmax(axis=1)])


def test_thresholds():
    y = Y
    # page: A threshold that is tuned for a metric:
    from sklearn.model_selection import TunedThresholdClassifierCV

    from tensormargin import TensorMarginClassifier

    tuned = TunedThresholdClassifierCV(TensorMarginClassifier(), scoring="balanced_accuracy", cv=3).fit(X, y)
    tuned.best_threshold_  # on the axis of decision_function
    # page ends
    assert tuned.score(X, y) > 0.8


def test_curves():
    y, X_new, y_new = Y, X, Y
    # page: Curves and displays; λ is drawn on a logarithmic axis:
    from sklearn.calibration import CalibrationDisplay
    from sklearn.model_selection import LearningCurveDisplay, ValidationCurveDisplay

    from tensormargin import TensorMarginClassifier

    clf = TensorMarginClassifier("cp", rank=1)
    curve = ValidationCurveDisplay.from_estimator(clf, X, y, param_name="lam", param_range=[0.01, 0.1, 1, 10], cv=2)
    LearningCurveDisplay.from_estimator(clf, X, y, train_sizes=[0.5, 0.75, 1.0], cv=2)
    calibrated = TensorMarginClassifier("cp", rank=1, probability=True).fit(X, y)
    CalibrationDisplay.from_estimator(calibrated, X_new, y_new, n_bins=5)
    # page ends
    assert curve.ax_.get_xscale() == "log"
    assert np.all(np.isfinite(curve.test_scores))


def test_metadata_is_routed():
    y, groups, weights = Y, GROUPS, np.linspace(0.5, 2, 60)
    # page: Metadata routing takes groups to the search and to a scaling by group, which ask for them:
    import sklearn
    from sklearn.model_selection import GroupKFold, cross_validate
    from sklearn.pipeline import make_pipeline

    from tensormargin import TensorMarginClassifierCV, TensorScaler

    search = TensorMarginClassifierCV(("cp",), ranks=(1,), lams=(0.1, 1), mus=(1,), random_state=0)
    model = make_pipeline(TensorScaler(by_group=True), search)
    with sklearn.config_context(enable_metadata_routing=True):
        scores = cross_validate(model, X, y, params={"groups": groups}, cv=GroupKFold(3))
    # page ends
    assert scores["test_score"].mean() > 0.7
    with sklearn.config_context(enable_metadata_routing=True):
        weighted = clone(CP).set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        inner = GridSearchCV(weighted, {"lam": [1.0]}, cv=GroupKFold(3), error_score="raise")
        inner.fit(X, y, groups=groups, sample_weight=weights)
    np.testing.assert_array_equal(inner.best_estimator_.coef_, clone(CP).fit(X, y, weights).coef_)


def test_tables():
    from pandas import DataFrame

    y, X, X_new = Y, DataFrame(FLAT).rename(columns="f{}".format), DataFrame(FLAT).rename(columns="f{}".format)
    # page: Data frames, here with 20 columns. Between the steps vectors stay frames, and tensors are arrays:
    from sklearn.pipeline import make_pipeline

    from tensormargin import Tensorize, TensorMarginClassifier, TensorScaler

    model = make_pipeline(TensorScaler(), Tensorize((4, 5)), TensorMarginClassifier())
    model.set_output(transform="pandas").fit(X, y).predict(X_new)
    model[0].transform(X_new)  # a frame with the columns of X
    # page ends
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model[0].transform(X_new).columns.equals(X.columns)
        assert model.score(X_new, y) > 0.8
    assert model[-1].sample_shape_ == SHAPE


def test_scorers_that_need_probabilities():
    three = np.arange(60) % 3
    clf = clone(CP).set_params(probability=True)
    for scoring in ("neg_log_loss", "roc_auc_ovr"):
        assert np.all(np.isfinite(cross_val_score(clf, X, three, cv=2, scoring=scoring, error_score="raise")))
    assert cross_val_predict(clf, X, three, cv=2, method="predict_log_proba").shape == (60, 3)


def test_samples_with_many_modes_where_tools_do_not_look_at_them():
    assert AdaBoostClassifier(CP, n_estimators=2).fit(X, Y).score(X, Y) > 0.7
    assert OneVsRestClassifier(CP).fit(X, np.arange(60) % 3).predict(X).shape == (60,)


@pytest.mark.parametrize(
    "use",
    [
        SelectFromModel(CP).fit_transform,
        RFE(CP).fit,
        BaggingClassifier(CP).fit,
        OneVsOneClassifier(CP).fit,
        SelfTrainingClassifier(clone(CP).set_params(probability=True)).fit,
        StackingClassifier([("cp", CP)], passthrough=True, cv=2).fit,
        ColumnTransformer([("scaled", TensorScaler(), [0])]).fit_transform,
        lambda X, y: permutation_importance(clone(CP).fit(X, y), X, y),
    ],
)
def test_what_takes_vectors_only_says_so(use):
    with pytest.raises(ValueError, match=r"dim 3|3 dimension"):
        use(X, Y)


@pytest.mark.parametrize("ensemble", [BaggingClassifier, SelfTrainingClassifier])
def test_flattened_samples_are_folded_back(ensemble):
    y = (SIGNS > 0).astype(int)
    some = np.where(np.arange(60) < 50, y, -1) if ensemble is SelfTrainingClassifier else y  # -1: no label
    model = ensemble(make_pipeline(Tensorize(SHAPE), clone(CP).set_params(probability=True))).fit(FLAT, some)
    assert model.score(FLAT, y) > 0.8
    fitted = model.estimators_[0] if hasattr(model, "estimators_") else model.estimator_
    assert fitted[-1].sample_shape_ == SHAPE


def test_groups_and_weights_of_the_search_are_routed():
    search = TensorMarginClassifierCV(("cp",), (1,), (1,), (1,), random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        search.set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        routed = GridSearchCV(search, {"rule": ["best"]}, cv=GroupKFold(3), error_score="raise")
        routed.fit(X, Y, groups=GROUPS, sample_weight=np.linspace(0.5, 2, 60))
    expected = clone(search).fit(X, Y, GROUPS, np.linspace(0.5, 2, 60))
    np.testing.assert_array_equal(routed.predict_proba(X), expected.predict_proba(X))
