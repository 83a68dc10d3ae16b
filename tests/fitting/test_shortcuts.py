"""Tests that shortcuts do not change the result of a fit."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from conftest import low_rank_classes
from reference import random_block
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

import tensormargin.estimators.binary_fit as binary
import tensormargin.fitting.alternation as alternate_module
from tensormargin import TensorMarginClassifier, TensorMarginClassifierCV, TensorScaler, Views
from tensormargin.estimators import training_set
from tensormargin.evaluation.contenders import FlatUnit, candidate_scores, contender
from tensormargin.evaluation.held_out import Labelled
from tensormargin.fitting import FORMATS, SOLVERS, MarginProblem, MemorySamples, Objective, Sweep
from tensormargin.fitting.alternation import _left_to_fall
from tensormargin.fitting.blocks import SignedDesign, block_problem
from tensormargin.fitting.formats.tucker import TuckerWeight
from tensormargin.fitting.native import has_native
from tensormargin.fitting.samples.base import drawn_rows
from tensormargin.fitting.small_problems import SmallFit, small_fit
from tensormargin.runtime import rows_of, tuning
from tensormargin.selection import splits_of
from tensormargin.selection.inner_products import InnerProducts

compiled = pytest.mark.skipif(not has_native("tensormargin_fit"), reason="needs compiled code")
WEIGHTS = [("full", None), ("cp", 2), ("tucker", 2), ("tt", 2)]


def images(n=6000, shape=(14, 14), seed=0, delta=2.0):
    return low_rank_classes(seed, n, shape, delta)


class TestSinglePrecision:
    @pytest.mark.parametrize(("name", "rank"), WEIGHTS)
    def test_large_samples_in_double_give_the_same_in_single(self, name, rank, monkeypatch):
        X, y = images()
        short = TensorMarginClassifier(name, rank).fit(X + 3.0, y)
        monkeypatch.setattr(tuning, "MANY_ENTRIES", np.inf)
        full = TensorMarginClassifier(name, rank).fit(X + 3.0, y)
        assert short.coef_.dtype == full.coef_.dtype == np.float64
        assert short.objective_[0] == pytest.approx(full.objective_[0], rel=1e-4)
        np.testing.assert_allclose(short.coef_, full.coef_, atol=5e-3 * np.abs(full.coef_).max())

    @pytest.mark.parametrize(("tol", "dtype"), [(1e-3, np.float32), (1e-4, np.float64)])
    def test_a_small_tol_asks_for_double(self, tol, dtype, monkeypatch):
        seen = []
        first_pass = MemorySamples.first_pass
        monkeypatch.setattr(
            MemorySamples, "first_pass", lambda self, *rest: seen.append(self.dtype) or first_pass(self, *rest)
        )
        X, y = images()
        TensorMarginClassifier("cp", 1, tol=tol).fit(X, y)
        assert seen[0] == dtype

    @pytest.mark.parametrize("scale", [1e-30, 1e30])
    def test_values_outside_its_range_stay_double(self, scale):
        X, y = images()
        clf = TensorMarginClassifier("cp", 1).fit(scale * X, y)
        plain = TensorMarginClassifier("cp", 1).fit(X, y)
        np.testing.assert_allclose(clf.decision_function(scale * X), plain.decision_function(X), atol=2e-2)

    @pytest.mark.parametrize("mu1", [0.5, 50.0])
    def test_second_moments_in_single_where_their_rounding_is_far_below_the_gap(self, mu1):
        design, signs = random_block(4000, 30, seed=0)
        design = design.astype(np.float32)
        objective = Objective(20.0, mu1, 1.0, np.full(4000, 1 / 4000))
        values = []
        for tol in (1e-3, 0.0):
            problem = block_problem(design, MarginProblem(signs, objective, 1.0), tol)
            solution = SOLVERS["dual_cd"](problem, tol=1e-5)
            found = problem.recover(solution.u, solution.margins)
            values.append(objective.value(found.squared_norm, found.margins))
        assert values[0] == pytest.approx(values[1], rel=2e-5)

    @pytest.mark.parametrize(
        ("mu1", "tol", "dtype", "passes"),
        [(1.0, 1e-2, "f4", 1), (1e5, 1e-2, "f4", 2), (1.0, 1e-9, "f4", 2), (1e5, 0.0, "f8", 1)],
    )
    def test_otherwise_in_double(self, mu1, tol, dtype, passes, monkeypatch):
        calls = []
        moments = SignedDesign.second_moments
        monkeypatch.setattr(
            SignedDesign, "second_moments", lambda self, dtype: calls.append(dtype) or moments(self, dtype)
        )
        design, signs = random_block(4000, 30, seed=0)
        objective = Objective(20.0, mu1, 1.0, np.full(4000, 1 / 4000))
        block_problem(design.astype(dtype), MarginProblem(signs, objective, 1.0), tol)
        assert len(calls) == passes


class TestStepsInASubspace:
    """Where contracting costs far more than solving, steps are made in the span of the factors and their changes."""

    CASES = (
        ("tucker", (12, 11, 10), 2),
        ("tucker", (16, 3, 14), (2, 3, 2)),
        ("cp", (12, 11, 10), 1),
        ("tt", (30, 40), 2),
    )

    def fit(self, monkeypatch, case, cheap, lam=1.0, **settings):
        name, shape, rank = case
        monkeypatch.setattr(tuning, "SMALL_SAMPLES", 50_000)  # less than the samples, more than those in the span
        monkeypatch.setattr(tuning, "CHEAP_SOLVES", cheap)
        X, y = low_rank_classes(0, 200, shape, 6.0)
        return TensorMarginClassifier(name, rank, lam=lam, **settings).fit(X, y)

    @pytest.mark.parametrize("mu", [0.0, 1.0])
    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_fewer_steps_lead_no_higher_and_the_objective_never_rises(self, case, mu, monkeypatch):
        settings = {"mu1": mu, "mu2": mu, "tol": 1e-6}
        plain = self.fit(monkeypatch, case, np.inf, **settings)
        made, within = [], alternate_module.Solving.within
        monkeypatch.setattr(alternate_module.Solving, "within", lambda *rest: made.append(within(*rest)) or made[-1])
        short = self.fit(monkeypatch, case, 0.0, **settings)
        assert any(state is not None for state in made)
        assert short.n_iter_ <= plain.n_iter_
        assert np.all(np.diff(short.history_["objective"]) <= 0)  # Theorem 2
        assert short.objective_[0] == pytest.approx(plain.objective_[0], rel=1e-5)
        assert short.history_["gap"].max() <= 1e-6

    def test_a_step_that_would_raise_the_objective_is_not_made(self, monkeypatch):
        plain = self.fit(monkeypatch, self.CASES[0], np.inf)
        within = alternate_module.Solving.within

        def worse(*rest):
            state = within(*rest)
            state.objective = np.inf
            return state

        monkeypatch.setattr(alternate_module.Solving, "within", worse)
        np.testing.assert_allclose(self.fit(monkeypatch, self.CASES[0], 0.0).coef_, plain.coef_)

    @pytest.mark.parametrize("shape", [(6, 5), (6, 5, 4), (3, 4, 5, 6), (7,)])
    def test_samples_in_bases_and_contractions_that_follow_from_them(self, shape):
        rng = np.random.RandomState(0)
        X = rng.standard_normal((9, *shape))
        bases = [np.linalg.qr(rng.standard_normal((size, min(3, size))))[0] for size in shape]
        samples, fresh = MemorySamples(X), MemorySamples(X)
        expected = X
        for mode, one in enumerate(bases):
            expected = np.moveaxis(np.tensordot(one.T, expected, (1, mode + 1)), 0, mode + 1)
        np.testing.assert_allclose(next(samples.within(bases).chunks())[1], expected, atol=1e-12)
        turned = [one @ np.linalg.qr(rng.standard_normal((one.shape[1], 2)))[0] for one in bases[: samples.split]]
        np.testing.assert_allclose(samples.partial("head", turned), fresh.partial("head", turned), atol=1e-12)
        outside = [rng.standard_normal((len(one), 2)) for one in bases[: samples.split]]
        np.testing.assert_allclose(samples.partial("head", outside), fresh.partial("head", outside), atol=1e-12)


class TestWorkingSet:
    @pytest.mark.parametrize("mu", [0.0, 1.0])
    @pytest.mark.parametrize("start", ["cold", "warm"])
    def test_it_finds_what_descent_over_all_samples_finds(self, mu, start, monkeypatch):
        design, signs = random_block(5000, 20, seed=1)
        problem = block_problem(design, MarginProblem(signs, Objective(30.0, mu, mu, np.full(5000, 1 / 5000)), 1.0))
        beta = None
        if start == "warm":
            nearby = block_problem(design, MarginProblem(signs, Objective(20.0, mu, mu, np.full(5000, 1 / 5000)), 1.0))
            beta = SOLVERS["dual_cd"](nearby, tol=1e-6).beta * 1.5
        some = SOLVERS["dual_cd"](problem, beta, tol=1e-8)
        monkeypatch.setattr(tuning, "NEAR_MARGIN", np.inf)
        everything = SOLVERS["dual_cd"](problem, beta, tol=1e-8)
        assert some.converged
        assert everything.converged
        assert some.certificate.dual == pytest.approx(everything.certificate.dual, rel=1e-7)
        np.testing.assert_allclose(some.u, everything.u, atol=1e-3 * np.abs(everything.u).max())

    def test_a_warm_start_whitens_few_rows(self, monkeypatch):
        design, signs = random_block(5000, 20, seed=1)
        design += 1.5 * signs[:, None] * (np.arange(20) < 2)  # few samples are near the boundary
        problem = block_problem(design, MarginProblem(signs, Objective(30.0, 1.0, 1.0, np.full(5000, 1 / 5000)), 1.0))
        solution = SOLVERS["dual_cd"](problem, tol=1e-3)
        asked = []
        rows_at = type(problem).rows_at
        monkeypatch.setattr(
            type(problem), "rows_at", lambda self, which: asked.append(len(which)) or rows_at(self, which)
        )
        assert SOLVERS["dual_cd"](problem, solution.beta, tol=1e-8).converged
        assert 0 < sum(asked) < 2500

    def test_a_wrong_guess_of_the_dual_point_costs_time_only(self):
        design, signs = random_block(5000, 20, seed=2)
        problem = block_problem(design, MarginProblem(signs, Objective(30.0, 1.0, 1.0, np.full(5000, 1 / 5000)), 1.0))
        right = SOLVERS["dual_cd"](problem, tol=1e-8)
        for guess in (problem.upper, problem.lower, problem.lower + problem.upper - right.beta):
            found = SOLVERS["dual_cd"](problem, guess, tol=1e-8)
            assert found.converged
            assert found.certificate.dual == pytest.approx(right.certificate.dual, rel=1e-7)


class TestCoarseStart:
    @pytest.mark.parametrize(("name", "rank"), WEIGHTS)
    def test_many_samples_end_where_they_would_have_ended_anyway(self, name, rank, monkeypatch):
        X, y = images(20000, (8, 8))
        short = TensorMarginClassifier(name, rank).fit(X, y)
        monkeypatch.setattr(tuning, "COARSE_SAMPLES", np.inf)
        full = TensorMarginClassifier(name, rank).fit(X, y)
        assert short.objective_[0] == pytest.approx(full.objective_[0], rel=2e-3)
        assert np.mean(short.predict(X) == full.predict(X)) > 0.99

    def test_it_is_left_out_for_few_samples(self, monkeypatch):
        def fail(*_):
            raise AssertionError("few samples need no coarse start")

        monkeypatch.setattr(alternate_module, "dual_guess", fail)
        X, y = images(3000, (8, 8))
        TensorMarginClassifier("cp", 1).fit(X, y)
        with pytest.raises(AssertionError, match="few samples"):
            TensorMarginClassifier("cp", 1).fit(*images(20000, (8, 8)))

    def test_a_warm_start_is_not_spoiled_by_it(self, monkeypatch):
        X, y = images(20000, (8, 8))
        clf = TensorMarginClassifier("cp", 1, warm_start=True).fit(X, y)
        objective = clf.objective_[0]

        def fail(*_):
            raise AssertionError("a warm start needs no coarse one")

        monkeypatch.setattr(binary, "coarse_start", fail)
        clf.fit(X, y)
        assert clf.objective_[0] <= objective * (1 + 1e-6)

    def test_both_classes_are_drawn_and_the_same_way_every_time(self):
        signs = np.where(np.arange(20000) < 9, 1.0, -1.0)
        rows = drawn_rows(signs, 8)
        assert np.sum(signs[rows] > 0) == 1
        assert len(rows) == 1 + 19991 // 8
        np.testing.assert_array_equal(rows, drawn_rows(signs, 8))

    def test_weights_go_along(self):
        """Samples of weight two count like two samples, in the subset as well."""
        X, y = images(20000, (6, 6))
        weights = 1.0 + (np.arange(20000) % 3 == 0)
        clf = TensorMarginClassifier("cp", 1).fit(X, y, sample_weight=weights)
        copies = np.repeat(np.arange(20000), weights.astype(int))
        same = TensorMarginClassifier("cp", 1).fit(X[copies], y[copies])
        assert clf.objective_[0] == pytest.approx(same.objective_[0], rel=2e-3)


@pytest.fixture
def only_passes_over_blocks(monkeypatch):
    """Let no sweep be a step in the tangent space."""
    monkeypatch.setattr(tuning, "SAMPLES_PER_PARAMETER", 0)
    monkeypatch.setattr(tuning, "SMALL_SAMPLES", 0)
    monkeypatch.setattr(tuning, "FAST_SWEEPS", 10**6)


@pytest.mark.usefixtures("only_passes_over_blocks")
class TestExtrapolation:
    @pytest.mark.parametrize("name", sorted(FORMATS))
    def test_coordinates_lead_back_to_the_weight(self, name):
        shape = (4, 5, 6)
        rng = np.random.RandomState(0)
        weight = FORMATS[name].from_dense(rng.standard_normal(shape), FORMATS[name].valid_rank(None, shape), rng)
        again = weight.at_coordinates(weight.coordinates())
        np.testing.assert_allclose(again.to_dense(), weight.to_dense(), atol=1e-10)
        assert again.rank == weight.rank

    @pytest.mark.parametrize("name", ["cp", "tucker", "tt"])
    def test_nonsense_is_refused(self, name, monkeypatch):
        """An extrapolation that does not lower the objective is discarded; descent continues from the last weight."""
        X, y = low_rank_classes(0, 2000, (6, 7, 5), 2.0)  # many samples: all starts lead to one optimum
        at_coordinates = FORMATS[name].at_coordinates
        monkeypatch.setattr(FORMATS[name], "at_coordinates", lambda self, vector: at_coordinates(self, 0 * vector + 1))
        clf = TensorMarginClassifier(name, 2, max_iter=500).fit(X, y)
        monkeypatch.undo()
        monkeypatch.setattr(alternate_module._State, "extrapolate", lambda *_: None)
        plain = TensorMarginClassifier(name, 2, max_iter=500).fit(X, y)
        assert np.all(np.diff(clf.history_["block_objective"].ravel()) <= 0)
        assert clf.objective_[0] == pytest.approx(plain.objective_[0], rel=1e-2)

    @pytest.mark.parametrize("name", ["cp", "tucker", "tt"])
    def test_it_ends_where_plain_alternation_ends_in_fewer_sweeps(self, name, monkeypatch):
        X, y = low_rank_classes(3, 60, (10, 10, 10), 3.0)
        fast = TensorMarginClassifier(name, 3, tol=1e-5, max_iter=1000).fit(X, y)
        monkeypatch.setattr(alternate_module._State, "extrapolate", lambda *_: None)
        plain = TensorMarginClassifier(name, 3, tol=1e-5, max_iter=1000).fit(X, y)
        assert fast.objective_[0] == pytest.approx(plain.objective_[0], rel=1e-2)
        assert fast.n_iter_ < plain.n_iter_


class TestStopping:
    def sweeps(self, *falls):
        return [Sweep((0.0,), (0.0,), 1.0, fall, 0.0) for fall in falls]

    def test_a_geometric_series_is_summed(self):
        assert _left_to_fall(self.sweeps(1.0, 0.08, 0.04, 0.02)) == pytest.approx(0.02)
        assert _left_to_fall(self.sweeps(1.0, 0.9, 0.09, 0.009)) == pytest.approx(0.001)

    def test_steady_progress_is_not_taken_for_the_end(self):
        assert _left_to_fall(self.sweeps(1.0, 1e-3, 1e-3, 1e-3)) > 0.09
        assert _left_to_fall(self.sweeps(1.0, 1e-4, 1e-3, 1e-3)) > 0.09

    def test_little_is_known_after_few_sweeps(self):
        assert _left_to_fall(self.sweeps(1.0)) == np.inf
        assert _left_to_fall(self.sweeps(1.0, 1e-4)) == pytest.approx(99e-4)

    def test_no_progress_is_the_end(self):
        assert _left_to_fall(self.sweeps(1.0, 0.0)) == 0.0
        assert _left_to_fall(self.sweeps(1.0, 1e-3, 1e-4, 0.0)) == 0.0

    def test_a_solver_that_gets_no_further_is_not_asked_forever(self, monkeypatch):
        """Rounding may keep a gap above the tolerance; the fit then stops when sweeps change nothing, and warns."""
        X, y = low_rank_classes(0, 60, (4, 5), 2.0)
        solve = SOLVERS["dual_cd"]

        def never_good_enough(problem, start=None, tol=1e-4, max_epochs=1000):
            solution = solve(problem, start, tol, max_epochs)
            worse = replace(solution.certificate, dual=solution.certificate.dual - 0.1 * solution.certificate.scale)
            return replace(solution, certificate=worse)

        monkeypatch.setitem(SOLVERS, "dual_cd", never_good_enough)
        with pytest.warns(ConvergenceWarning, match="left a duality gap of 1"):
            clf = TensorMarginClassifier("full").fit(X, y)
        assert clf.n_iter_ <= 4

    @pytest.mark.parametrize(("name", "rank"), [("cp", 1), ("cp", 2), ("tucker", 2), ("tt", 2)])
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_the_default_ends_within_one_percent(self, name, rank, seed):
        X, y = low_rank_classes(seed, 400, (8, 9, 10), 3.0)
        clf = TensorMarginClassifier(name, rank, warm_start=True).fit(X, y)
        objective = clf.objective_[0]
        clf.set_params(tol=1e-6, max_iter=2000).fit(X, y)
        assert objective - clf.objective_[0] <= 1e-2 * abs(clf.objective_[0])


class TestTuckerBlocks:
    def test_square_factors_are_left_out_and_could_not_improve_anything(self):
        X, y = low_rank_classes(0, 300, (6, 3, 7), 2.0)
        clf = TensorMarginClassifier("tucker", (3, 3, 3), lam=5.0, scale_free=False, tol=1e-7, max_iter=2000).fit(X, y)
        assert clf.history_["blocks"] == ["core", "factor 3", "factor 1"]
        weight = TuckerWeight.from_tensorly(clf.weight_, X.shape[1:])
        block = weight._factor_block(1)
        spread = np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=(1, 2, 3)))
        objective = Objective(5.0, 1.0, 1.0, np.full(300, 1 / 300))
        problem = block_problem(
            MemorySamples(X).design(block.contraction), MarginProblem(y, objective, float(np.sqrt(spread)))
        )
        best = SOLVERS["dual_cd"](problem, tol=1e-9).certificate
        assert clf.objective_[0] - best.primal <= 1e-5 * best.scale

    def test_a_sweep_starts_with_the_core(self):
        X, y = low_rank_classes(0, 40, (9, 10, 11), 2.0)
        clf = TensorMarginClassifier("tucker", 2).fit(X, y)
        assert clf.history_["blocks"] == ["core", "factor 3", "factor 2", "factor 1"]

    @pytest.mark.parametrize(("shape", "rank"), [((3, 4), (3, 3)), ((2, 2, 2), (2, 2, 2)), ((3, 3), (3, 3))])
    def test_a_weight_of_full_rank_is_the_flat_one(self, shape, rank):
        X, y = low_rank_classes(0, 60, shape, 2.0)
        clf = TensorMarginClassifier("tucker", rank).fit(X, y)
        flat = TensorMarginClassifier("full").fit(X, y)
        assert clf.objective_[0] == pytest.approx(flat.objective_[0], rel=1e-6)


class TestMissingValues:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_the_first_pass_over_large_samples_finds_them(self, dtype, value, n_classes, monkeypatch):
        monkeypatch.setattr(tuning, "LOOKED_THROUGH_BYTES", 0)
        monkeypatch.setattr(tuning, "MANY_ENTRIES", 0)
        X = np.random.RandomState(0).standard_normal((60, 5, 6)).astype(dtype)
        X[17, 2, 3] = value
        with pytest.raises(ValueError, match=r"contains NaN or infinity.*tensormargin.Impute\(\).*sample 17"):
            TensorMarginClassifier("cp").fit(X, np.arange(60) % n_classes)

    def test_a_sample_of_weight_zero_is_looked_at_as_well(self, monkeypatch):
        monkeypatch.setattr(tuning, "LOOKED_THROUGH_BYTES", 0)
        X = np.random.RandomState(0).standard_normal((60, 5, 6))
        X[17, 2, 3] = np.nan
        with pytest.raises(ValueError, match="contains NaN"):
            TensorMarginClassifier("cp").fit(X, np.arange(60) % 2, sample_weight=np.arange(60) != 17)

    def test_samples_too_large_for_single_precision_are_told_apart(self, monkeypatch):
        monkeypatch.setattr(tuning, "LOOKED_THROUGH_BYTES", 0)
        X = np.random.RandomState(0).standard_normal((60, 5, 6)).astype(np.float32)
        with pytest.raises(ValueError, match="overflow float32"):
            TensorMarginClassifier("cp").fit(np.float32(1e30) * X, np.arange(60) % 2)


@pytest.mark.filterwarnings("ignore", category=ConvergenceWarning)
def test_the_mean_tensor_is_approximated_better_than_by_singular_vectors(monkeypatch):
    """CP starts are refined by least squares; otherwise the components of different modes are paired at random."""
    rng = np.random.RandomState(0)
    tensor = sum(scale * np.einsum("i,j,k", *(rng.standard_normal(n) for n in (8, 9, 10))) for scale in (3, 2.5, 2))

    def distance():
        fitted = FORMATS["cp"].from_dense(tensor, 3, np.random.RandomState(0)).to_dense()
        cosine = np.sum(fitted * tensor) / np.linalg.norm(fitted) / np.linalg.norm(tensor)
        return 1 - cosine

    refined = distance()
    monkeypatch.setattr(tuning, "CP_REFINEMENTS", 0)
    assert refined < 0.5 * distance()


class TestSearches:
    """What a search shares between candidates changes neither their scores nor the choice."""

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("intercept", [True, False])
    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_flat_weights_in_the_span_of_the_samples(self, dtype, intercept, n_classes, monkeypatch):
        rng = np.random.default_rng(0)
        y = np.arange(24) % n_classes
        X = (rng.standard_normal((24, 9, 11)) + 0.3 * y[:, None, None] + 50).astype(dtype)
        settings = {"mus": (0, 1, (10, 0)), "lams": (1, 10), "fit_intercept": intercept, "tol": 1e-6, "random_state": 0}
        settings |= {"scoring": _mean_margin, "exhaustive": True, "cv": 3}
        searches = []
        for n_bytes in (tuning.FLAT_BASIS_BYTES, 0):
            monkeypatch.setattr(tuning, "FLAT_BASIS_BYTES", n_bytes)
            searches.append(TensorMarginClassifierCV(("full",), **settings).fit(X, y))
        short, long = (search.cv_results_ for search in searches)
        np.testing.assert_allclose(short["mean_test_score"], long["mean_test_score"], rtol=2e-3)
        np.testing.assert_array_equal(short["n_parameters"], long["n_parameters"])

    @pytest.mark.parametrize("intercept", [True, False])
    @pytest.mark.parametrize("scale", [None, "equal", {"b": 0.0}, {"a": 3.0}])
    @pytest.mark.parametrize(("scheme", "weight"), [("ovo", None), ("ovr", "balanced"), ("ovr", None)])
    @pytest.mark.parametrize(("small", "mu1"), [(True, 2.0), (False, 2.0), (False, 0.0)])
    def test_problems_solved_together_give_the_fits_of_each(
        self, scheme, weight, scale, intercept, small, mu1, monkeypatch
    ):
        if small and not has_native("tensormargin_solve_flat"):
            pytest.skip("needs compiled code")
        if not small:  # one-vs-rest then shares a factorisation
            monkeypatch.setattr(tuning, "SMALL_GRAM", 0)
        rng = np.random.default_rng(1)
        y = np.arange(40) % 4
        X = rng.standard_normal((40, 6, 9)) + 3 + 0.2 * y[:, None, None]
        if scale is not None:
            X = Views(a=X, b=rng.standard_normal((40, 3, 4)), c=5 * rng.standard_normal((40, 60)) - 1)
        settings = {"multi_class": scheme, "class_weight": weight, "fit_intercept": intercept, "tol": 1e-6}
        settings |= {} if scale is None else {"view_scale": scale}
        model, weights = TensorMarginClassifier("full", lam=3.0, mu1=mu1, **settings), rng.uniform(0.5, 2, 40)
        together = clone(model).fit(X, y, weights)
        monkeypatch.setattr(tuning, "MOST_INNER_PRODUCTS", 0)
        alone = clone(model).fit(X, y, weights)
        for name in ("coef_", "intercept_", "objective_", "mean_scores_", "view_scale_", "view_shares_"):
            own, other = getattr(together, name, {}), getattr(alone, name, {})
            pairs = [(own[view], other[view]) for view in other] if isinstance(other, dict) else [(own, other)]
            for found, expected in pairs:
                np.testing.assert_allclose(found, expected, atol=1e-5 * (1e-9 + np.abs(expected).max()), err_msg=name)
        assert max(one["gap"].max() for one in together.history_) <= 1e-6

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("intercept", [True, False])
    def test_inner_products_give_the_scores_of_a_fit(self, dtype, intercept):
        rng = np.random.default_rng(0)
        y = np.arange(30) % 3
        a, b, c = (rng.standard_normal((30, *shape)) + 5 for shape in ((6, 7), (3, 4), (90,)))
        several = Views(a=a, b=b, c=(c + 0.3 * y[:, None]).astype(dtype))
        train, test = np.arange(24), np.arange(24, 30)
        for X, scale in ((a.astype(dtype), None), (several, "equal"), (several, {"b": 0.0}), (several, {"a": 3.0})):
            for scheme, weight in (("ovo", None), ("ovr", "balanced"), ("ovr", None)):
                settings = {"multi_class": scheme, "class_weight": weight, "fit_intercept": intercept, "tol": 1e-6}
                settings |= {} if scale is None else {"view_scale": scale}
                model = TensorMarginClassifier("full", lam=3.0, mu1=2.0, **settings)
                own, other = rows_of(X, train), rows_of(X, test)
                products = InnerProducts(training_set(model, own, y[train], None), other, model)
                assert products.is_worthwhile(model)
                fitted, scores = products.fit(clone(model))
                long = clone(model).fit(own, y[train])
                close = 1e-5 if dtype == np.float64 else 2e-3
                np.testing.assert_allclose(scores, long.binary_scores(other), atol=close)
                assert fitted.n_parameters_ == long.n_parameters_
                rough = InnerProducts(products.training, other, clone(model).set_params(tol=1e-2))
                np.testing.assert_allclose(rough.fit(clone(model))[1], scores, atol=2e-3)

    @pytest.mark.parametrize("unit", [1e-25, 1e-8, 1e8, 1e25])
    def test_inner_products_of_samples_in_any_unit(self, unit):
        X, y = images(40, (6, 9), delta=0.5)
        model = TensorMarginClassifier("full", lam=3.0, mu1=2.0, tol=1e-2)
        scores = [
            InnerProducts(training_set(model, own[:30], y[:30], None), own[30:], model).fit(clone(model))[1]
            for own in (X, unit * X)
        ]
        np.testing.assert_allclose(*scores, atol=2e-3)

    def test_inner_products_are_for_flat_weights_of_complete_samples(self):
        rng = np.random.default_rng(0)
        y, X = np.arange(10) % 2, rng.standard_normal((10, 5, 6))
        flat, low_rank = TensorMarginClassifier("full"), TensorMarginClassifier("cp", 1)
        products = InnerProducts(training_set(flat, X, y, None), X[:3], flat)
        assert products.is_worthwhile(flat)
        assert not products.is_worthwhile(low_rank)
        lacking = X.copy()
        lacking[0] = np.nan
        views = Views(a=X, b=lacking)
        for own, other in ((views, rows_of(views, np.arange(3))), (X[:, 0], X[:3, 0])):  # the latter: more samples
            assert not InnerProducts(training_set(flat, own, y, None), other, flat).is_worthwhile(flat)

    @pytest.mark.parametrize("scoring", [None, "roc_auc", "neg_log_loss", "balanced_accuracy"])
    def test_searches_by_inner_products_choose_alike(self, scoring, monkeypatch):
        rng = np.random.default_rng(0)
        y = np.arange(40) % 2
        X = rng.standard_normal((40, 9, 11)) + 0.25 * y[:, None, None]
        searches = []
        for most in (tuning.MOST_INNER_PRODUCTS, 0):
            monkeypatch.setattr(tuning, "MOST_INNER_PRODUCTS", most)
            settings = {"scoring": scoring, "exhaustive": True, "cv": 3, "random_state": 0}
            searches.append(TensorMarginClassifierCV(("full", "cp"), (1,), (0.1, 1), (0, 1), **settings).fit(X, y))
        short, long = (search.cv_results_["mean_test_score"] for search in searches)
        np.testing.assert_allclose(short, long, atol=2e-3)
        np.testing.assert_allclose(searches[0].calibration_, searches[1].calibration_, rtol=2e-2)

    @pytest.mark.parametrize("classes", [(0, 1), ("a", "b", "c")])
    def test_accuracy_from_scores_is_that_of_the_scorer(self, classes):
        X, _ = images(60, (5, 6))
        y = np.array(classes)[np.arange(60) % len(classes)]
        settings = {"lams": (1,), "mus": (0, 1), "cv": 3, "random_state": 0, "exhaustive": True}
        short, long = (
            TensorMarginClassifierCV(("full", "cp"), (1,), scoring=scoring, **settings).fit(X, y).cv_results_
            for scoring in (None, make_scorer(accuracy_score))
        )
        np.testing.assert_array_equal(short["mean_test_score"], long["mean_test_score"])

    def test_kept_splits(self, monkeypatch):
        X, y = images(60, (5, 6))
        searches = []
        for n_bytes in (tuning.KEPT_SPLITS_BYTES, 0):
            monkeypatch.setattr(tuning, "KEPT_SPLITS_BYTES", n_bytes)
            searches.append(TensorMarginClassifierCV(preparation=[None, TensorScaler()], random_state=0).fit(X, y))
        short, long = (search.cv_results_ for search in searches)
        np.testing.assert_array_equal(short["mean_test_score"], long["mean_test_score"])
        np.testing.assert_array_equal(short["dropped"], long["dropped"])

    def test_kept_scores(self, monkeypatch):
        X, y = images(60, (5, 6))
        searches = []
        for n_bytes in (tuning.KEPT_SCORES_BYTES, 0):
            monkeypatch.setattr(tuning, "KEPT_SCORES_BYTES", n_bytes)
            searches.append(TensorMarginClassifierCV(("cp",), (1,), random_state=0).fit(X, y))
        np.testing.assert_array_equal(searches[0].calibration_, searches[1].calibration_)

    @pytest.mark.parametrize(("shape", "n_jobs"), [((5, 6), 1), ((3, 4, 3), 4)])
    def test_kept_first_passes(self, shape, n_jobs, monkeypatch):
        X, y = images(60, shape)
        y = np.where(np.arange(60) % 5, y, 7)
        reads = []
        first_pass = MemorySamples.first_pass
        monkeypatch.setattr(MemorySamples, "first_pass", lambda self, *rest: reads.append(1) or first_pass(self, *rest))
        settings = {"random_state": 0, "exhaustive": True, "cv": 2, "scoring": _mean_margin, "n_jobs": n_jobs}
        settings |= {"lams": (1.0,) if n_jobs > 1 else (0.1, 1.0, 10.0), "mus": (0, 1), "multi_class": "ovo"}
        searches, counts = [], []
        for n_bytes in (tuning.KEPT_PASSES_BYTES, 0):
            monkeypatch.setattr(tuning, "KEPT_PASSES_BYTES", n_bytes)
            reads.clear()
            searches.append(TensorMarginClassifierCV(ranks=(1, 2), **settings).fit(X + 20, y).cv_results_)
            counts.append(len(reads))
        np.testing.assert_array_equal(searches[0]["mean_test_score"], searches[1]["mean_test_score"])
        assert counts[0] < 0.1 * counts[1] or n_jobs > 1  # threads may read the same thing at the same time

    @compiled
    @pytest.mark.parametrize("n_jobs", [1, 4])
    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_kept_solutions_over_all_tensors(self, n_classes, n_jobs, monkeypatch):
        rng = np.random.default_rng(0)
        y = np.arange(36) % n_classes
        X = rng.standard_normal((36, 9, 11)) + 0.2 * y[:, None, None]
        settings = {"random_state": 0, "exhaustive": True, "cv": 2, "scoring": _mean_margin, "n_jobs": n_jobs}
        kept, found, searches = SmallFit._kept, [], []

        def counted(self):
            found.append(bool(kept(self)[-1]))
            return kept(self)

        for memory in (counted, lambda self: np.zeros_like(kept(self))):
            monkeypatch.setattr(SmallFit, "_kept", memory)
            searches.append(TensorMarginClassifierCV(("cp", "tucker"), (1, 2), **settings).fit(X, y).cv_results_)
        np.testing.assert_array_equal(searches[0]["mean_test_score"], searches[1]["mean_test_score"])
        assert np.mean(found) > 0.5

    @compiled
    def test_problems_of_other_labels_or_weights_keep_their_own(self):
        X, y = images(20, (5, 6))
        samples, start = MemorySamples(X), FORMATS["cp"].from_dense(X[0], 1, np.random.RandomState(0))

        def fit(signs=y, lam=1.0, weights=(1.0,) * 20, bias=1.0):
            shares = np.array(weights) / sum(weights)
            problem = MarginProblem(signs.astype(float), Objective(lam, 1.0, 1.0, shares), bias)
            return small_fit(samples, problem, start, None, 1e-3)

        assert fit()._kept()[-1] == 0
        fit().run(9, from_all=True)
        assert fit(lam=5.0)._kept()[-1] != 0
        for other in (fit(signs=-y), fit(bias=2.0), fit(weights=np.arange(1.0, 21.0))):
            assert other._kept()[-1] == 0

    @pytest.mark.parametrize("random_state", [3, np.int64(3), None])
    def test_problems_of_a_scheme_are_those_of_each_fit(self, random_state):
        X, _ = images(40, (4, 5))
        y = np.arange(40) % 4
        shared = training_set(TensorMarginClassifier(), X, y, None)
        for settings in ({}, {"lam": 3.0}, {"multi_class": "ovr"}, {"multi_class": "ovr", "class_weight": "balanced"}):
            model = TensorMarginClassifier(random_state=random_state, **settings)
            specs = [one.specify(model) for one in (shared, training_set(model, X, y, None))]
            np.testing.assert_array_equal(*(spec.classes for spec in specs))
            for own, alone in zip(*(spec.fits for spec in specs), strict=True):
                np.testing.assert_array_equal(own.problem.signs, alone.problem.signs)
                np.testing.assert_array_equal(own.shares, alone.shares)
                assert own.settings == alone.settings
                assert own.seed == alone.seed or random_state is None


class TestReference:
    """What the flat reference and the methods of a comparison share between candidates changes no score."""

    @pytest.mark.parametrize("name", ["LinearSVC", "SVM", "STM", "TuSPMD-LRT", "CP-PLSR"])
    def test_scores_of_candidates_are_those_of_a_grid_search(self, name):
        X, _ = images(45, (6, 9), delta=0.5)
        y = np.arange(45) % 3
        X[y == 2] += 0.2
        splits = splits_of(3, y, None, 0)
        one = contender(name).behind(None, TensorScaler())
        grid = {key: list(values) for key, values in one.grid.items()}
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            expected = GridSearchCV(one.estimator, grid, cv=splits, refit=False, scoring="balanced_accuracy").fit(X, y)
        scores = candidate_scores(one, Labelled(X, y), splits, scoring="balanced_accuracy")
        columns = [expected.cv_results_[f"split{number}_test_score"] for number in range(3)]
        np.testing.assert_allclose(scores, np.column_stack(columns), atol=1e-12)

    def test_candidates_that_fail_have_no_score_and_an_error_is_raised_if_all_do(self):
        X, y = images(30, (4, 5))
        splits = splits_of(3, y, None, 0)
        scores = candidate_scores(contender("STM", lam_grid=(-1.0, 1.0)), Labelled(X, y), splits)
        np.testing.assert_array_equal(np.isnan(scores), [[True] * 3, [False] * 3])
        with pytest.raises(ValueError, match="lam"):
            candidate_scores(contender("STM", lam_grid=(-1.0, -2.0)), Labelled(X, y), splits)

    @pytest.mark.parametrize("preparations", [(None,), (TensorScaler(),)])
    def test_candidates_share_first_passes(self, preparations, monkeypatch):
        X, y = images(30, (4, 5))
        reads, first_pass = [], MemorySamples.first_pass
        monkeypatch.setattr(MemorySamples, "first_pass", lambda self, *rest: reads.append(1) or first_pass(self, *rest))
        one = contender("STM", lam_grid=(0.1, 1.0, 10.0)).behind(*preparations)
        scores = candidate_scores(one, Labelled(X, y), splits_of(3, y, None, 0))
        assert scores.shape == (3, 3)
        assert len(reads) == 3  # one per split

    @pytest.mark.parametrize("shape", [(6, 9), (4, 5)])
    def test_coordinates_give_the_decisions_of_the_samples(self, shape):
        X, y = images(40, shape, delta=0.5)
        unit = FlatUnit()
        svc = LinearSVC(random_state=0, tol=1e-8, max_iter=10**5).fit(unit.fit_transform(X[:30]), y[:30])
        flat = (X.reshape(40, -1) - unit.mean_) / unit.unit_
        plain = LinearSVC(random_state=0, tol=1e-8, max_iter=10**5).fit(flat[:30], y[:30])
        assert unit.transform(X).shape[1] == min(31, unit.n_entries_)
        np.testing.assert_allclose(svc.decision_function(unit.transform(X)), plain.decision_function(flat), atol=1e-6)
        assert np.mean(np.sum(flat[:30] ** 2, axis=1)) == pytest.approx(10)


def _mean_margin(estimator, X, y):
    """Return a score that depends on every decision value."""
    return float(np.mean(np.tanh(estimator.decision_function(X))))
