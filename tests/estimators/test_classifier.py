"""Tests of the classifier's scikit-learn interface."""

from __future__ import annotations

import pickle
import warnings
from itertools import permutations

import joblib
import numpy as np
import pytest
import tensorly as tl
from conftest import low_rank_classes, sparse_product
from estimator_checks import every_check
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC
from sklearn.utils.multiclass import _ovr_decision_function

from tensormargin import TensorMarginClassifier
from tensormargin.fitting import FORMATS, combine_scores, predicted_codes

DECOMPOSITIONS = sorted(FORMATS)


@every_check(
    [
        *(TensorMarginClassifier(name) for name in DECOMPOSITIONS),
        TensorMarginClassifier("cp", probability=True),
        TensorMarginClassifier("full", multi_class="ovr", probability=True),
    ]
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def binary():
    return low_rank_classes(0, 80, (4, 5, 3), 3.0)


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(n_class=4, return_X_y=True)
    return images[:200].reshape(-1, 8, 8), labels[:200]


@pytest.mark.parametrize(("name", "shape"), sparse_product(DECOMPOSITIONS, [(6, 5), (3, 4, 5), (2, 3, 2, 3)]))
def test_search_validation_pipelines_clones_and_pickles(name, shape):
    X, y = low_rank_classes(1, 60, shape, 4.0)
    clf = TensorMarginClassifier(name)
    grid = GridSearchCV(clf, {"lam": [0.1, 1.0], "mu1": [0.0, 1.0]}, cv=3).fit(X, y)
    assert grid.best_score_ > 0.6
    assert cross_val_score(clf, X, y, cv=3).mean() > 0.6
    pipeline = make_pipeline(FunctionTransformer(np.tanh), clf).fit(X, y)
    assert pipeline.score(X, y) > 0.8
    assert clone(pipeline).get_params()["tensormarginclassifier__decomposition"] == name
    fitted = clf.fit(X, y)
    restored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(restored.decision_function(X), fitted.decision_function(X))


def test_calibration_gives_probabilities(binary):
    X, y = binary
    probabilities = CalibratedClassifierCV(TensorMarginClassifier("cp"), cv=3).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_fitted_attributes(name, binary):
    X, y = binary
    clf = TensorMarginClassifier(name).fit(X, y)
    dense = {"full": np.asarray, "cp": tl.cp_to_tensor, "tucker": tl.tucker_to_tensor, "tt": tl.tt_to_tensor}[name](
        clf.weight_
    )
    np.testing.assert_allclose(dense, clf.coef_[0], atol=1e-12)
    assert (
        type(clf.weight_).__name__
        == {"full": "ndarray", "cp": "CPTensor", "tucker": "TuckerTensor", "tt": "TTTensor"}[name]
    )
    assert clf.coef_.shape == (1, 4, 5, 3)
    assert clf.intercept_.shape == (1,)
    assert clf.sample_shape_ == (4, 5, 3)
    assert clf.n_features_in_ == 4
    np.testing.assert_array_equal(clf.classes_, [-1, 1])
    history = clf.history_
    assert clf.n_iter_ == len(history["objective"]) == len(history["seconds"]) == len(history["change"])
    assert history["gap"].shape == history["block_objective"].shape == (clf.n_iter_, len(history["blocks"]))
    assert np.all(history["gap"][-1] <= 1e-4)
    assert history["objective"][-1] == clf.objective_[0]
    expected = X.reshape(80, -1) @ clf.coef_.reshape(-1) + clf.intercept_[0]
    np.testing.assert_allclose(clf.decision_function(X), expected)
    np.testing.assert_array_equal(clf.predict(X), np.where(expected > 0, 1, -1))


@pytest.mark.parametrize("name", DECOMPOSITIONS)
@pytest.mark.parametrize("factor", [1e-3, 1e3, 1e6])
def test_the_default_does_not_depend_on_the_scale_of_the_samples(name, factor, binary):
    X, y = binary
    plain = TensorMarginClassifier(name).fit(X, y).decision_function(X)
    scaled = TensorMarginClassifier(name).fit(factor * X, y).decision_function(factor * X)
    np.testing.assert_allclose(scaled, plain, rtol=1e-5, atol=1e-6)


def test_numbers_are_the_papers_and_scale_as_it_says(binary):
    X, y = binary
    paper = TensorMarginClassifier("cp", lam=10.0, mu1=2.0, mu2=3.0, scale_free=False).fit(X, y)
    moved = TensorMarginClassifier("cp", lam=10.0 / 4, mu1=2.0 / 4, mu2=3.0 / 4, scale_free=False).fit(2 * X, y)
    np.testing.assert_allclose(moved.decision_function(2 * X), paper.decision_function(X), rtol=1e-5)


def test_scale_is_the_documented_number(binary):
    X, y = binary
    square = np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=(1, 2, 3)))
    default = TensorMarginClassifier("tucker").fit(X, y)
    spelled = TensorMarginClassifier(
        "tucker", lam=300 / square, mu1=100 / square, mu2=100 / square, scale_free=False
    ).fit(X, y)
    np.testing.assert_allclose(default.coef_, spelled.coef_, rtol=1e-6)
    tenth = TensorMarginClassifier("tucker", lam=0.1).fit(X, y)
    spelled = TensorMarginClassifier(
        "tucker", lam=30 / square, mu1=100 / square, mu2=100 / square, scale_free=False
    ).fit(X, y)
    np.testing.assert_allclose(tenth.coef_, spelled.coef_, rtol=1e-6)


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_adding_a_constant_tensor_hardly_changes_predictions(name, binary):
    X, y = binary
    constant = 100 * np.random.RandomState(0).standard_normal(X.shape[1:])
    plain = TensorMarginClassifier(name).fit(X, y).decision_function(X)
    moved = TensorMarginClassifier(name).fit(X + constant, y).decision_function(X + constant)
    np.testing.assert_allclose(moved, plain, atol=1e-5)


def test_the_intercept_pays_on_unbalanced_classes():
    X, y = low_rank_classes(3, 400, (4, 5), 2.0)
    rows = np.concatenate([np.flatnonzero(y > 0)[:15], np.flatnonzero(y < 0)])
    with_b = TensorMarginClassifier("cp", 1).fit(X[rows] + 1.0, y[rows]).score(X + 1.0, y)
    without = TensorMarginClassifier("cp", 1, fit_intercept=False).fit(X[rows] + 1.0, y[rows])
    assert without.intercept_ == 0
    assert with_b > without.score(X + 1.0, y)


@pytest.mark.parametrize("name", DECOMPOSITIONS)
@pytest.mark.parametrize("class_weight", [None, "balanced", {-1: 2, 1: 1}])
def test_integer_weights_equal_repeated_rows(name, class_weight):
    X, y = low_rank_classes(4, 40, (3, 4, 2), 1.0)
    weights = np.random.RandomState(0).randint(0, 4, 40)
    settings = {"class_weight": class_weight, "tol": 1e-4, "max_iter": 1000}
    weighted = TensorMarginClassifier(name, **settings).fit(X, y, weights)
    repeated = TensorMarginClassifier(name, **settings).fit(X.repeat(weights, axis=0), y.repeat(weights))
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), rtol=1e-5, atol=1e-7)
    assert weighted.objective_[0] == pytest.approx(repeated.objective_[0], rel=1e-9)


def test_a_common_factor_of_the_weights_does_not_matter(binary):
    X, y = binary
    plain = TensorMarginClassifier("tt").fit(X, y)
    scaled = TensorMarginClassifier("tt").fit(X, y, np.full(len(X), 7.0))
    np.testing.assert_allclose(scaled.coef_, plain.coef_, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_kept(dtype, binary):
    X, y = binary
    clf = TensorMarginClassifier("tucker").fit(X.astype(dtype), y)
    assert clf.coef_.dtype == clf.intercept_.dtype == clf.weight_.core.dtype == dtype
    assert clf.decision_function(X.astype(dtype)).dtype == dtype


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.float16, bool])
def test_other_types_are_converted(dtype):
    images, labels = load_digits(n_class=2, return_X_y=True)
    X = images.reshape(-1, 8, 8).astype(dtype)
    clf = TensorMarginClassifier("cp", 1).fit(X, labels)
    same = TensorMarginClassifier("cp", 1).fit(X.astype(clf.coef_.dtype), labels)
    rounding = 100 * np.finfo(clf.coef_.dtype).eps  # the working copy of other dtypes is centred before rounding
    np.testing.assert_allclose(clf.coef_, same.coef_, atol=rounding * np.abs(same.coef_).max())
    np.testing.assert_allclose(
        clf.decision_function(X), same.decision_function(X.astype(clf.coef_.dtype)), rtol=1e-3, atol=1e-5
    )


def test_lists_fortran_order_views_and_read_only_arrays_give_the_same(binary):
    X, y = binary
    expected = TensorMarginClassifier("cp").fit(X, y).coef_
    frozen = X.copy()
    frozen.flags.writeable = False
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(X, 0, -1)), -1, 0)
    for variant in (X.tolist(), np.asfortranarray(X), last, frozen, np.repeat(X, 2, axis=0)[::2]):
        np.testing.assert_allclose(TensorMarginClassifier("cp").fit(variant, y).coef_, expected, rtol=1e-12)


def test_a_read_only_memory_map_is_fitted_in_place(tmp_path, binary):
    X, y = binary
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    clf = TensorMarginClassifier("tucker").fit(mapped, y)
    np.testing.assert_allclose(clf.coef_, TensorMarginClassifier("tucker").fit(X, y).coef_, rtol=1e-12)
    assert clf.score(mapped, y) > 0.8


def test_fitting_leaves_the_samples_alone(binary):
    X, y = binary
    before = X.copy()
    for name in DECOMPOSITIONS:
        TensorMarginClassifier(name).fit(X, y)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_several_classes(name, scheme, digits):
    X, y = digits
    clf = TensorMarginClassifier(name, multi_class=scheme).fit(X, y)
    n_problems = 6 if scheme == "ovo" else 4
    assert len(clf.weight_) == len(clf.history_) == n_problems
    assert clf.coef_.shape == (n_problems, 8, 8)
    assert clf.decision_function(X).shape == (len(X), 4)
    assert clf.score(X, y) > 0.95


def test_one_vs_one_fits_each_pair_on_its_own_samples(digits):
    X, y = digits
    clf = TensorMarginClassifier("cp", 1).fit(X, y)
    pair = np.isin(y, (1, 3))
    alone = TensorMarginClassifier("cp", 1).fit(X[pair], y[pair])
    np.testing.assert_allclose(clf.coef_[4], alone.coef_[0], rtol=1e-9)  # (0,1) (0,2) (0,3) (1,2) (1,3)
    np.testing.assert_allclose(clf.binary_scores(X[pair])[:, 4], alone.decision_function(X[pair]))


def test_votes_and_ties_are_those_of_svc(digits):
    X, y = digits
    svc = SVC(kernel="linear", decision_function_shape="ovo", break_ties=False).fit(X.reshape(len(X), -1), y)
    pairwise = -svc.decision_function(X.reshape(len(X), -1))  # libsvm's positive side is the earlier class
    svc.set_params(decision_function_shape="ovr", break_ties=True)
    expected = svc.decision_function(X.reshape(len(X), -1))
    np.testing.assert_allclose(combine_scores(pairwise, 4, "ovo"), expected)
    circle = np.array([[1.0, -1.0, 1.0], [0.5, -2.0, 0.1], [-1.0, 2.0, -0.5]])  # every class has one vote
    as_in_svc = _ovr_decision_function(-circle < 0, circle, 3)
    np.testing.assert_allclose(combine_scores(circle, 3, "ovo"), as_in_svc)
    np.testing.assert_array_equal(predicted_codes(combine_scores(circle, 3, "ovo")), [0, 0, 2])


class TestTies:
    """Ties (a score of exactly 0, or several largest scores) go to the earlier class in every scheme."""

    @pytest.mark.parametrize("scheme", ["ovo", "ovr"])
    @pytest.mark.parametrize("n_classes", [2, 3, 4])
    def test_a_model_without_any_preference_predicts_the_first_class(self, n_classes, scheme):
        X, y = np.random.RandomState(0).standard_normal((24, 3, 2)), np.arange(24) % n_classes + 5
        model = TensorMarginClassifier("cp", multi_class=scheme, tol=1e-1).fit(X, y)
        model.coef_[...], model.intercept_[...] = 0.0, 0.0
        np.testing.assert_array_equal(model.predict(X), 5)

    def test_pairs_of_several_classes_vote_as_two_classes_alone_would(self):
        scores = np.array([[-1.0], [-0.0], [0.0], [1e-300], [1.0]])
        alone = predicted_codes(combine_scores(scores, 2, "ovo"))
        np.testing.assert_array_equal(alone, [0, 0, 0, 1, 1])
        for pair, (earlier, later) in enumerate([(0, 1), (0, 2), (1, 2)]):
            third = 3 - earlier - later  # which loses its other two votes
            three = np.empty((5, 3))
            three[:, pair] = scores[:, 0]
            for other, (first, _) in enumerate([(0, 1), (0, 2), (1, 2)]):
                if other != pair:
                    three[:, other] = 9.0 if first == third else -9.0
            found = predicted_codes(combine_scores(three, 3, "ovo"))
            np.testing.assert_array_equal(found, np.where(alone, later, earlier))

    def test_votes_are_those_of_scikit_learns_one_vs_one(self):
        """Each binary estimator of scikit-learn's one-vs-one (ours for two classes) votes for the class it predicts."""
        X, y = np.random.RandomState(0).standard_normal((30, 4)), np.arange(30) % 3
        ours = TensorMarginClassifier("full").fit(X, y)
        theirs = OneVsOneClassifier(TensorMarginClassifier("full")).fit(X, y)
        for undecided in ([], [0], [1], [2], [0, 1, 2]):
            for pair, one in enumerate(theirs.estimators_):
                if pair in undecided:
                    ours.coef_[pair], ours.intercept_[pair] = 0.0, 0.0
                one.coef_, one.intercept_ = ours.coef_[[pair]], ours.intercept_[[pair]]
            np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-12)
            np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_jobs_do_not_change_the_answer(backend, digits):
    X, y = digits
    one = TensorMarginClassifier("cp", 1).fit(X, y)
    with joblib.parallel_config(backend=backend):
        two = TensorMarginClassifier("cp", 1, n_jobs=2).fit(X, y)
    np.testing.assert_allclose(two.coef_, one.coef_, rtol=1e-6, atol=1e-9)


def test_labels_may_be_strings_and_keep_their_type(binary):
    X, y = binary
    names = np.where(y > 0, "yes", "no")
    clf = TensorMarginClassifier("cp").fit(X, names)
    assert set(clf.predict(X)) == {"yes", "no"}
    np.testing.assert_array_equal(clf.predict(X) == "yes", clf.decision_function(X) > 0)


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_same_random_state_same_bits(name, binary):
    X, y = binary
    fits = [TensorMarginClassifier(name, init="random", n_init=2, random_state=3).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


def test_restarts_keep_the_lowest_objective():
    X, y = low_rank_classes(5, 60, (5, 5, 5), 1.0, rank=4)
    single = [
        TensorMarginClassifier("cp", 2, init="random", random_state=seed).fit(X, y).objective_[0] for seed in range(4)
    ]
    assert max(single) > min(single) * 1.0001  # otherwise this test is vacuous
    one = TensorMarginClassifier("cp", 2, init="random", random_state=0).fit(X, y).objective_[0]
    many = TensorMarginClassifier("cp", 2, init="random", n_init=3, random_state=0).fit(X, y).objective_[0]
    mean_first = TensorMarginClassifier("cp", 2, n_init=3, random_state=0).fit(X, y).objective_[0]
    assert many <= one
    assert mean_first <= TensorMarginClassifier("cp", 2).fit(X, y).objective_[0]


@pytest.mark.parametrize("name", ["cp", "tucker", "tt"])
def test_the_mean_start_needs_fewer_sweeps_than_random_ones(name):
    X, y = low_rank_classes(6, 100, (15, 15, 15), 5.0)
    mean = TensorMarginClassifier(name, 2).fit(X, y).n_iter_
    random = [TensorMarginClassifier(name, 2, init="random", random_state=seed).fit(X, y).n_iter_ for seed in range(5)]
    assert mean < np.mean(random)


@pytest.mark.parametrize("name", ["cp", "tucker", "tt"])
def test_a_warm_start_goes_on_from_the_last_weight(name, binary):
    X, y = binary
    clf = TensorMarginClassifier(name, 2, warm_start=True, tol=1e-5, max_iter=500).fit(X, y)
    sweeps, objective = clf.n_iter_, clf.objective_[0]
    clf.fit(X, y)
    assert clf.n_iter_ < sweeps
    assert clf.objective_[0] <= objective
    with pytest.warns(ConvergenceWarning):
        short = TensorMarginClassifier(name, 2, warm_start=True, max_iter=1, tol=1e-9).fit(X, y)
    before = short.objective_[0]
    with pytest.warns(ConvergenceWarning):
        assert short.fit(X, y).objective_[0] < before


class TestWarmStartsThatDoNotFitAreColdOnes:
    @staticmethod
    def assert_cold(before, changes, first, second):
        """Check that a warm-started fit after a change of parameters or samples equals a cold one."""
        model = TensorMarginClassifier(tol=1e-2, warm_start=True, **before).fit(*first)
        expected = clone(model).set_params(**changes).fit(*second)
        model.set_params(**changes).fit(*second)
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        np.testing.assert_array_equal(model.objective_, expected.objective_)
        assert model.n_iter_ == expected.n_iter_

    @pytest.mark.parametrize("shape", [(4,), (2, 3), (4, 5, 3)], ids=str)
    @pytest.mark.parametrize(("before", "after"), list(permutations(DECOMPOSITIONS, 2)))
    def test_of_another_decomposition(self, before, after, shape):
        samples = low_rank_classes(0, 40, shape, 3.0)
        for rank in (None, 1):  # a CP weight of rank 1 could be read as a Tucker one
            ranks = [rank if name != "full" else None for name in (before, after)]
            self.assert_cold(
                {"decomposition": before, "rank": ranks[0]},
                {"decomposition": after, "rank": ranks[1]},
                samples,
                samples,
            )

    @pytest.mark.parametrize(
        ("decomposition", "rank"), [("cp", 3), ("tucker", (2, 2, 2)), ("tucker", (4, 4, 3)), ("tt", (2, 3))], ids=str
    )
    def test_of_another_rank(self, decomposition, rank, binary):
        self.assert_cold({"decomposition": decomposition, "rank": 1}, {"rank": rank}, binary, binary)

    @pytest.mark.parametrize("name", DECOMPOSITIONS)
    def test_of_another_shape_or_order(self, name, binary):
        for shape in ((5, 4, 3), (4, 5), (60,)):
            self.assert_cold({"decomposition": name}, {}, binary, low_rank_classes(1, 40, shape, 3.0))

    @pytest.mark.parametrize("name", DECOMPOSITIONS)
    def test_of_other_classes_or_another_scheme(self, name, binary):
        X, y = binary
        three = np.arange(len(X)) % 3
        for before, after in ((y, y + 5), (y, three), (three, y), (three, three + 1)):
            self.assert_cold({"decomposition": name}, {}, (X, before), (X, after))
        self.assert_cold({"decomposition": name}, {"multi_class": "ovr"}, (X, three), (X, three))


def test_too_few_sweeps_warn_with_a_remedy(binary):
    X, y = binary
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1 sweeps.*Increase max_iter") as caught:
        TensorMarginClassifier("tucker", max_iter=1, tol=1e-6).fit(X, y)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TensorMarginClassifier("tucker").fit(X, y)


def test_verbose_prints_and_the_default_does_not(binary, capsys):
    X, y = binary
    TensorMarginClassifier("cp").fit(X, y)
    assert capsys.readouterr().out == ""
    TensorMarginClassifier("cp", verbose=1).fit(X, y)
    assert "sweep 1: objective" in capsys.readouterr().out


BAD_FITS = {
    "nan": ({}, lambda X, y: (_spoiled(X, np.nan), y), "NaN"),
    "infinity": ({}, lambda X, y: (_spoiled(X, np.inf), y), "infinity"),
    "one class": ({}, lambda X, y: (X, np.ones_like(y)), "at least two classes"),
    "one sample": ({}, lambda X, y: (X[:1], y[:1]), "one class"),
    "no samples": ({}, lambda X, y: (X[:0], y[:0]), "0 sample"),
    "no entries": ({}, lambda X, y: (X[:, :, :0], y), "at least one entry|0 feature"),
    "one number per sample": ({}, lambda X, y: (X[:, 0, 0, 0], y), "2D array"),
    "too few labels": ({}, lambda X, y: (X, y[1:]), "inconsistent numbers of samples"),
    "regression targets": ({}, lambda X, y: (X, y + np.linspace(0, 0.4, len(y))), "Unknown label type"),
    "text": ({}, lambda X, y: (np.full(X.shape, "a"), y), "dtype|convert"),
    "overflow": ({}, lambda X, y: (X * 1e200, y), "squares do not overflow.*divide X"),
    "negative lam": ({"lam": -1.0}, None, "'lam' parameter"),
    "zero lam": ({"lam": 0}, None, "'lam' parameter"),
    "lam in words": ({"lam": "auto"}, None, "lam must be a positive number.*write lam=1.0"),
    "the spelling of 0.1": ({"lam": "0.1*scale"}, None, "write lam=0.1, or scale_free=False"),
    "its default": ({"lam": "scale"}, None, "write lam=1, or scale_free=False"),
    "negative mu1": ({"mu1": -0.1}, None, "'mu1' parameter"),
    "negative mu2": ({"mu2": -0.1}, None, "'mu2' parameter"),
    "nan mu1": ({"mu1": float("nan")}, None, "'mu1' parameter"),
    "unknown decomposition": ({"decomposition": "svd"}, None, "'decomposition' parameter"),
    "rank of zero": ({"rank": 0}, None, "'rank' parameter"),
    "negative rank": ({"rank": -2}, None, "'rank' parameter"),
    "too many ranks": ({"rank": (2, 2, 2, 2)}, None, "one number per mode"),
    "zero class weight": ({"class_weight": {-1: 0, 1: 1}}, None, "class_weight must be positive"),
    "unknown class": ({"class_weight": {5: 1}}, None, "class"),
    "no sweeps": ({"max_iter": 0}, None, "'max_iter' parameter"),
    "no tolerance": ({"tol": 0}, None, "'tol' parameter"),
}


def _spoiled(X, value):
    X = X.copy()
    X[3, 1, 1, 1] = value
    return X


@pytest.mark.parametrize("case", BAD_FITS)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_bad_input_is_refused_with_a_reason(case, binary):
    parameters, change, message = BAD_FITS[case]
    X, y = change(*binary) if change else binary
    with pytest.raises(ValueError, match=message):
        TensorMarginClassifier(**parameters).fit(X, y)


@pytest.mark.parametrize("name", DECOMPOSITIONS)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_strengths_that_overflow_give_no_nan(name, binary):
    binary = [some[:30] for some in binary]
    with pytest.raises(ValueError, match=r"mu2 is too large .*; lower it or scale the samples"):
        TensorMarginClassifier(name, lam=1.0, mu1=0.0, mu2=1e300, scale_free=False).fit(*binary)
    with pytest.warns(ConvergenceWarning, match="lower lam, or scale X"):  # weight zero has a finite objective
        model = TensorMarginClassifier(name, lam=1e160, mu1=0.0, mu2=0.0, scale_free=False, max_iter=3).fit(*binary)
    assert np.all(np.isfinite(model.objective_))
    assert np.all(np.isfinite(model.coef_))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (lambda n: -np.ones(n), "[Nn]egative"),
        (lambda n: np.full(n, np.nan), "NaN"),
        (lambda n: np.ones(n - 1), "shape"),
        (lambda n: np.zeros(n), "zero|two classes"),
    ],
)
def test_bad_weights_are_refused(weights, message, binary):
    X, y = binary
    with pytest.raises(ValueError, match=message):
        TensorMarginClassifier().fit(X, y, weights(len(X)))


def test_a_class_without_weight_is_refused():
    X, y = low_rank_classes(0, 30, (3, 4), 2.0)
    y[:5] = 7
    with pytest.raises(ValueError, match="all of them have sample_weight 0"):
        TensorMarginClassifier().fit(X, y, (y != 7).astype(float))


@pytest.mark.parametrize(
    "change", [lambda X: X[:, :3], lambda X: X[:, :, :, :2], lambda X: X[0], lambda X: X.reshape(len(X), 4, 15)]
)
def test_another_sample_shape_at_prediction_is_refused(change, binary):
    X, y = binary
    clf = TensorMarginClassifier("cp").fit(X, y)
    with pytest.raises(ValueError, match=r"\(4, 5, 3\)|expecting 4 features"):
        clf.predict(change(X))


def test_predicting_before_fitting_is_refused(binary):
    with pytest.raises(NotFittedError):
        TensorMarginClassifier().predict(binary[0])


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_constant_samples_and_constant_entries(name):
    rng = np.random.RandomState(0)
    y = np.where(np.arange(20) % 2, 1, -1)
    for labels in (y, np.where(np.arange(20) % 4, 1, -1)):  # only the intercept can learn the class frequencies
        clf = TensorMarginClassifier(name).fit(np.ones((20, 3, 4)), labels)
        np.testing.assert_array_equal(clf.coef_, 0)
        expected = np.sign(labels.sum())
        np.testing.assert_array_equal(np.sign(clf.decision_function(np.ones((20, 3, 4)))), expected)
    X = rng.standard_normal((20, 3, 4))
    X[:, 1] = 5.0
    coef = TensorMarginClassifier(name).fit(X, y).coef_[0]
    assert np.abs(coef[1]).max() <= 1e-12 * np.abs(coef).max()  # constant entries get no weight


@pytest.mark.parametrize("name", DECOMPOSITIONS)
def test_two_samples_are_enough(name):
    X = np.random.RandomState(0).standard_normal((2, 4, 5))
    clf = TensorMarginClassifier(name).fit(X, ["a", "b"])
    np.testing.assert_array_equal(clf.predict(X), ["a", "b"])


def test_parameters_are_checked_by_type_and_value_at_every_fit():
    X, y = low_rank_classes(0, 20, (3, 4), 2.0)
    classifier = TensorMarginClassifier("cp", 1).fit(X, y)
    for wrong in ({"max_iter": 100.0}, {"lam": -1.0}, {"rank": "1"}):  # 100.0 equals the valid default, 100
        with pytest.raises(ValueError, match=f"'{next(iter(wrong))}' parameter"):
            TensorMarginClassifier("cp", 1).set_params(**wrong).fit(X, y)
    assert classifier.set_params(class_weight={-1: 1.0, 1: 2.0}, rank=1).fit(X, y).n_iter_
