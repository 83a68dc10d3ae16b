"""Probabilities of a classifier, ranks as upper bounds, strengths as plain numbers: see also test_scikit_learn.py."""

from __future__ import annotations

import pickle
from itertools import combinations

import numpy as np
import pytest
from campaigns import chances
from conftest import low_rank_classes
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline

from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV, TensorScaler, make_method
from tensormargin.data import content_ranks
from tensormargin.estimators.classifier import _folds
from tensormargin.fitting import calibrate, class_probabilities
from tensormargin.report import describe_model
from tensormargin.report.sentences import describe_strengths


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(n_class=3, return_X_y=True)
    noise = np.random.default_rng(0).normal(0, 6, (150, 8, 8))
    return images[:150].reshape(-1, 8, 8) + noise, np.array(["zero", "one", "two"])[labels[:150]]


class TestProbabilities:
    @pytest.mark.parametrize("scheme", ["ovo", "ovr"])
    def test_calibrates_on_scores_of_left_out_samples(self, digits, scheme):
        X, y = digits
        clf = TensorMarginClassifier("cp", 1, multi_class=scheme, probability=True, random_state=0).fit(X, y)
        codes, scores, rows = np.searchsorted(clf.classes_, y), [], []
        folds = _folds(clf.classes_, codes, content_ranks(X), 0)
        for fold in range(5):
            test, train = folds == fold, folds != fold
            assert np.ptp(np.bincount(codes[test], minlength=3)) <= 4  # about ten of each class
            scores.append(clone(clf).set_params(probability=False).fit(X[train], y[train]).binary_scores(X[test]))
            rows.append(np.flatnonzero(test))
        codes = codes[np.concatenate(rows)]
        expected = calibrate(np.concatenate(scores), codes, None, 3, scheme)
        np.testing.assert_allclose(clf.calibration_, expected, rtol=1e-10)
        np.testing.assert_allclose(
            clf.predict_proba(X), class_probabilities(clf.binary_scores(X), clf.calibration_, scheme), rtol=1e-12
        )
        np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), clf.predict_proba(X), rtol=1e-12)

    def test_beats_the_base_rate_and_agrees_with_predict(self, digits):
        X, y = digits
        clf = TensorMarginClassifier("cp", 1, probability=True, random_state=0).fit(X[:100], y[:100])
        probabilities = clf.predict_proba(X[100:])
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        assert log_loss(y[100:], probabilities, labels=clf.classes_) < 0.7 * np.log(3)
        assert np.mean(clf.classes_[probabilities.argmax(axis=1)] == clf.predict(X[100:])) > 0.95

    def test_exist_only_where_asked_for(self, digits):
        clf = TensorMarginClassifier("cp", 1).fit(*digits)
        for method in ("predict_proba", "predict_log_proba"):
            assert not hasattr(clf, method)
            with pytest.raises(AttributeError) as caught:
                getattr(clf, method)
            for remedy in (f"{method} only with probability=True", "CalibratedClassifierCV", "MarginClassifierCV"):
                assert remedy in str(caught.value)
        assert hasattr(TensorMarginClassifier(probability=True), "predict_proba")

    def test_weights_count_as_copies_of_samples_and_zero_as_none(self, digits):
        X, y = digits
        counts = np.arange(len(X)) % 3
        clf = TensorMarginClassifier("full", probability=True, random_state=0, tol=1e-6)
        order = np.random.RandomState(0).permutation(int(counts.sum()))
        weighted = clone(clf).fit(X, y, counts)
        repeated = clone(clf).fit(np.repeat(X, counts, axis=0)[order], np.repeat(y, counts)[order])
        np.testing.assert_allclose(weighted.calibration_, repeated.calibration_, rtol=1e-4)

    def test_hold_for_new_groups_if_groups_are_given(self):
        """Each group has a fingerprint, which tells the label of its own samples and of no others."""
        rng = np.random.default_rng(0)
        groups = np.repeat(np.arange(40), 5)
        y = rng.permutation(np.arange(40) % 2)[groups]
        X = 3 * rng.standard_normal((40, 6, 10))[groups] + rng.standard_normal((200, 6, 10))
        clf = TensorMarginClassifier("full", probability=True, random_state=0)
        new = 3 * rng.standard_normal((200, 6, 10))
        confidence = [
            clone(clf).fit(X, y, groups=labels).predict_proba(new).max(axis=1).mean() for labels in (None, groups)
        ]
        assert confidence[0] > 0.8
        assert confidence[1] < 0.65

    def test_groups_are_routed_and_checked(self, digits):
        X, y = digits
        groups = np.arange(len(X)) // 3
        clf = TensorMarginClassifier("full", probability=True, random_state=0)
        expected = clone(clf).fit(X, y, groups=groups).calibration_
        with config_context(enable_metadata_routing=True):
            routed = make_pipeline(TensorScaler(), clf).fit(X, y, groups=groups)[-1].calibration_
        assert routed.shape == expected.shape
        assert not np.array_equal(expected, clone(clf).fit(X, y).calibration_)
        with pytest.raises(ValueError, match="groups"):
            clf.fit(X, y, groups=groups[1:])
        with pytest.raises(ValueError, match="'two' has 1"):
            clf.fit(X, y, groups=np.where(y == "two", 0, 1 + groups % 7))

    def test_no_copy_of_a_left_out_sample_is_trained_on(self, digits):
        X, y = np.repeat(digits[0], 2, axis=0), np.repeat(digits[1], 2)
        classes, codes = np.unique(y, return_inverse=True)
        folds = _folds(classes, codes, content_ranks(X), 0)
        np.testing.assert_array_equal(folds[::2], folds[1::2])

    def test_few_samples_of_a_class(self, digits):
        X, y = digits
        rows = np.r_[np.flatnonzero(y == "one")[:2], np.flatnonzero(y == "two")[:9]]
        clf = TensorMarginClassifier("cp", 1, probability=True, random_state=0).fit(X[rows], y[rows])
        assert np.all(np.isfinite(clf.predict_proba(X)))
        lonely = clone(clf).fit(X[rows[1:]], y[rows[1:]])  # a class of one sample is never left out
        assert np.all(np.isfinite(lonely.predict_proba(X)))
        with pytest.raises(ValueError, match=r"a class with at least two different samples.*probability=False"):
            clone(clf).fit(X[rows[1:3]], y[rows[1:3]])

    def test_a_pickle_and_a_refit_without_keep_their_word(self, digits):
        X, y = digits
        clf = TensorMarginClassifier("cp", 1, probability=True, random_state=0).fit(X, y)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(X), clf.predict_proba(X))
        np.testing.assert_array_equal(clone(clf).fit(X, y).predict_proba(X), clf.predict_proba(X))

    def test_the_search_has_logarithms_too(self, digits):
        search = TensorMarginClassifierCV(("cp",), ranks=(1,), lams=(1,), mus=(1,), cv=3, random_state=0).fit(*digits)
        np.testing.assert_allclose(np.exp(search.predict_log_proba(digits[0])), search.predict_proba(digits[0]))


class TestRanksAreUpperBounds:
    @pytest.mark.parametrize(
        ("decomposition", "rank", "used"),
        [
            ("full", 3, None),
            ("full", (1, 1), None),
            ("cp", 99, 12),
            ("tucker", 99, (3, 4, 5)),
            ("tucker", (2, 1, 9), (2, 1, 2)),
            ("tt", 99, (3, 5)),
        ],
    )
    def test_rank_is_what_was_used(self, decomposition, rank, used):
        X, y = low_rank_classes(0, 40, (3, 4, 5), 3.0)
        clf = TensorMarginClassifier(decomposition, rank, random_state=0, tol=0.1).fit(X, y)
        assert clf.rank_ == used
        exact = TensorMarginClassifier(decomposition, used, random_state=0, tol=0.1).fit(X, y)
        np.testing.assert_array_equal(clf.coef_, exact.coef_)


class TestStrengthsAreNumbers:
    def test_every_entry_has_the_same_axis(self, digits):
        X, y = digits
        clf = TensorMarginClassifier("cp", 1, lam=10.0, mu1=0.5, mu2=0.5, random_state=0).fit(X, y)
        method = make_method("SPMD-LRT", lam=10.0, mu1=0.5, mu2=0.5, random_state=0).fit(X, y)
        search = TensorMarginClassifierCV(("cp",), ranks=(1,), lams=(10.0,), mus=(0.5,), cv=2, multi_class="ovo").fit(
            X, y
        )
        np.testing.assert_array_equal(method.coef_, clf.coef_)
        np.testing.assert_allclose(search.classifier_.coef_, clf.coef_, rtol=1e-10)
        params = {name: search.best_params_[name] for name in ("lam", "mu1", "mu2")}
        assert params == {"lam": 10.0, "mu1": 0.5, "mu2": 0.5}

    def test_a_number_for_lam_leaves_the_meaning_of_mu_alone(self, digits):
        X, y = digits
        both = [TensorMarginClassifier("full", lam=lam).fit(X, y) for lam in (1, 1.0)]
        np.testing.assert_array_equal(both[0].coef_, TensorMarginClassifier("full").fit(X, y).coef_)
        np.testing.assert_array_equal(both[0].coef_, both[1].coef_)


class TestWhatIsSaidOfThem:
    @pytest.mark.parametrize(("decomposition", "said"), [("cp", "rank 4"), ("tucker", "rank 4"), ("tt", "rank 4")])
    def test_the_rank_that_was_used(self, decomposition, said):
        X, y = low_rank_classes(0, 40, (4, 5), 3.0)
        assert describe_model(TensorMarginClassifier(decomposition, 99, tol=0.1).fit(X, y)).endswith(said)

    def test_the_axis_of_the_strengths(self):
        assert describe_strengths(TensorMarginClassifier(lam=10)) == "λ = 10, μ1 = 1, μ2 = 1 (scale-free)"
        paper = describe_strengths(TensorMarginClassifier(mu1=0, mu2=2, scale_free=False))
        assert paper.startswith("λ = 1, μ1 = 0, μ2 = 2 (as in the paper")


def expected_calibration_error(probabilities, codes):
    """Return the mean distance between the greatest probability and the share that is right, over ten bins."""
    top, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == codes
    bins = np.minimum((10 * top).astype(int), 9)
    return np.abs(np.bincount(bins, top - right)).sum() / len(codes)


@pytest.fixture(scope="module")
def many():
    images, labels = load_digits(return_X_y=True)
    rows = np.random.RandomState(0).permutation(len(labels))[:1200]
    return images[rows].reshape(-1, 8, 8), labels[rows]


@pytest.fixture(scope="module", params=["ovo", "ovr", "search"])
def fitted(many, request):
    X, y = many
    if request.param == "search":
        clf = TensorMarginClassifierCV(("cp",), (2,), (1,), (1,), multi_class="ovo", tol=1e-2, random_state=0)
    else:
        clf = TensorMarginClassifier("cp", 2, multi_class=request.param, probability=True, tol=1e-2, random_state=0)
    return clf.fit(X[:400], y[:400])


PAIRS = ((0, 1), (0, 2), (1, 2))


class TestManyClasses:
    def test_are_calibrated(self, fitted, many):
        """Sigmoids alone are 18 and 10 points off here."""
        X, y = many[0][400:], many[1][400:]
        assert expected_calibration_error(fitted.predict_proba(X), y) < 0.05
        scheme = getattr(fitted, "classifier_", fitted).multi_class
        alone = class_probabilities(fitted.binary_scores(X), fitted.calibration_[:, :2], scheme)
        assert expected_calibration_error(alone, y) > 0.08

    def test_power_and_share_leave_the_order_of_classes(self, fitted, many):
        X = many[0][400:]
        scheme = getattr(fitted, "classifier_", fitted).multi_class
        scores = fitted.binary_scores(X)
        flat = np.column_stack(
            [fitted.calibration_[:, :2], np.ones(len(fitted.calibration_)), np.zeros_like(scores[0])]
        )
        np.testing.assert_array_equal(
            fitted.predict_proba(X).argmax(axis=1), class_probabilities(scores, flat, scheme).argmax(axis=1)
        )

    @pytest.mark.parametrize("scheme", ["ovo", "ovr"])
    def test_hold_out_samples_that_are_all_right_give_no_certainty(self, scheme):
        codes = np.repeat(np.arange(3), 10)
        signs = np.where(codes[:, None] == np.arange(3), 5.0, -5.0)
        scores = signs if scheme == "ovr" else np.column_stack([signs[:, j] - signs[:, i] for i, j in PAIRS])
        calibration = calibrate(scores, codes, None, 3, scheme)
        top = class_probabilities(scores, calibration, scheme).max(axis=1)
        assert np.all((top > 0.9) & (top < 1 - 1 / 100))

    @pytest.mark.parametrize("scheme", ["ovo", "ovr"])
    @pytest.mark.parametrize("scale", [0.0, 1e-300, 1.0, 1e300])
    def test_scores_of_any_size_give_probabilities(self, scheme, scale):
        rng = np.random.RandomState(0)
        scores, codes = scale * rng.standard_normal((20, 3)), rng.randint(0, 3, 20)
        for weights in (None, np.zeros(20)):
            calibration = calibrate(scores, codes, weights, 3, scheme)
            found = class_probabilities(scores, calibration, scheme)
            assert np.isfinite(found).all()
            np.testing.assert_allclose(found.sum(axis=1), 1.0)


class TestRareClasses:
    @pytest.mark.parametrize(
        ("kind", "most"), [(chances.KINDS[0], 2.5), (chances.KINDS[1], 0.65)], ids=("two", "three")
    )
    def test_the_mean_probability_is_the_share(self, kind, most, monkeypatch):
        """With a likelihood-ratio test alone, they are 4.3 and 1.0 points too high."""
        monkeypatch.setattr(chances, "SHAPE", (4, 5))
        stated, true = np.mean([chances.stated_and_true(kind, [0, number]) for number in range(12)], axis=0)
        assert abs(stated - true) < most

    @pytest.mark.parametrize(("n_positive", "fitted"), [(20, False), (14, False), (13, True), (4, True)])
    def test_the_offset_is_fitted_where_shares_differ_clearly(self, n_positive, fitted):
        codes = (np.arange(40) < n_positive).astype(int)
        scores = 2.0 * codes - 1 + np.random.default_rng(0).normal(0, 1e-3, 40)  # these need no offset
        calibration = calibrate(scores[:, None], codes, None, 2, "ovo")
        assert (calibration[0, 1] != 0) == fitted
        if fitted:
            assert class_probabilities(scores[:, None], calibration, "ovo")[:, 1].mean() == pytest.approx(codes.mean())

    def test_one_class_against_the_rest_is_no_rare_class(self):
        codes = np.arange(60) % 4
        scores = np.where(codes[:, None] == np.arange(4), 1.0, -1.0)
        assert not calibrate(scores, codes, None, 4, "ovr")[:, 1].any()
        fewer = np.repeat(np.arange(4), (18, 18, 18, 6))  # 6 of 60 are not a quarter, 18 may be
        scores = np.where(fewer[:, None] == np.arange(4), 1.0, -1.0)
        assert (calibrate(scores, fewer, None, 4, "ovr")[:, 1] != 0).tolist() == [False, False, False, True]

    def test_pairs_of_few_of_the_samples_are_left_alone(self):
        """Offsets of the pairs of twelve classes made the most probable class wrong three points more often."""
        codes = np.repeat(np.arange(6), (15, 15, 15, 15, 15, 4))
        pairs = list(combinations(range(6), 2))
        scores = np.column_stack([np.where(codes == j, 1.0, -1.0) for _, j in pairs])
        assert not calibrate(scores, codes, None, 6, "ovo")[:, 1].any()
        weights = np.where(codes == 0, 20.0, 1.0)  # now pairs with the first class hold most of them
        found = calibrate(scores, codes, weights, 6, "ovo")[:, 1] != 0
        assert found.tolist() == [i == 0 for i, _ in pairs]


class TestChosenModels:
    """The search calibrates on the scores that it has chosen by: the best of several at chance seems to be better."""

    def test_a_search_at_chance_is_little_more_confident_than_right(self):
        """Over 24 data sets, 51.2 %; without shrinkage, 53.5 %."""
        grid = {"decompositions": ("cp", "full"), "ranks": (1, 2), "lams": (1, 10), "mus": (1,), "exhaustive": True}
        confidences = []
        for seed in range(24):
            rng = np.random.default_rng(seed)
            X, y = rng.normal(size=(440, 6, 8)), np.arange(440) % 2
            search = TensorMarginClassifierCV(**grid, random_state=seed).fit(X[:40], y[:40])
            confidences.append(search.predict_proba(X[40:]).max(axis=1).mean())
        assert np.mean(confidences) < 0.52

    @pytest.mark.parametrize("shares", [(0.5, 0.5), (0.8, 0.2), (0.4, 0.3, 0.3)])
    def test_only_what_may_be_luck_is_shrunk(self, shares):
        codes = np.repeat(np.arange(len(shares)), np.round(100 * np.array(shares)).astype(int))
        rng = np.random.default_rng(0)
        for distance, least, most in ((0.0, 0.0, 0.6), (2.0, 0.94, 1.0)):
            means = distance * (codes[:, None] == np.arange(len(shares)))
            scores = rng.normal(means - distance / 2)[:, -1:] if len(shares) == 2 else rng.normal(means - distance / 2)
            alone, chosen = (calibrate(scores, codes, None, len(shares), "ovr", one) for one in (False, True))
            column = 0 if len(shares) == 2 else 2
            assert least <= chosen[0, column] / alone[0, column] <= most
            if shares[0] == 0.8:  # the mean stays that of the smoothed targets
                means = [class_probabilities(scores, one, "ovr")[:, 1].mean() for one in (alone, chosen)]
                assert means[0] == pytest.approx(means[1], abs=1e-9)
