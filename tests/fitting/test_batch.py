"""Tests of many fits as one batch: shared samples, blocks solved together, sweeps in lockstep, `fit_many`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from math import prod

import numpy as np
import pytest
from conftest import LIBRARIES, library, low_rank_classes
from hypothesis import given
from hypothesis import strategies as st
from reference import paper_block, random_block
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

import tensormargin.fitting.batched_alternation as batch
import tensormargin.fitting.samples.device as device_module
import tensormargin.fitting.samples.storage as storage
import tensormargin.fitting.solvers.interior_point as batched_module
from tensormargin import TensorMarginClassifier, fit_many
from tensormargin.fitting import (
    FORMATS,
    SOLVERS,
    BatchedFit,
    MarginProblem,
    MemorySamples,
    Objective,
    SharedSamples,
    Start,
    alternate,
    alternate_batched,
    sample_array,
    sweeps,
)
from tensormargin.fitting.batched_alternation import faster_on_device
from tensormargin.fitting.blocks import block_problem
from tensormargin.fitting.contractions import best_split
from tensormargin.fitting.samples.device import around, contract_half
from tensormargin.fitting.solvers.interior_point import Definite, LeastSquares, solve_batched
from tensormargin.runtime import device_of, inverses, to_host, tuning

FORMAT_NAMES = sorted(FORMATS)
every_library = pytest.mark.parametrize("name", LIBRARIES)
every_format = pytest.mark.parametrize("form", FORMAT_NAMES)
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
seeds = st.integers(0, 10**6)


def putting(name):
    """Return the function of the fixture ``put``; property tests may not use function-scoped fixtures."""
    module, device = library(name)
    return lambda array: module.asarray(np.array(array, order="C"), device=device)


def random_weight(form, shape, seed, rank=None):
    rng = np.random.RandomState(seed)
    return FORMATS[form].from_dense(rng.standard_normal(shape), FORMATS[form].valid_rank(rank, shape), rng)


def in_memory(design):
    return design if isinstance(design, np.ndarray) else design.to_numpy()


class TestSamplesOnADevice:
    @every_library
    @given(st.sampled_from(FORMAT_NAMES), shapes, st.booleans(), seeds)
    def test_designs_and_scores_are_those_of_samples_in_memory(self, name, form, shape, in_parts, seed):
        rng = np.random.RandomState(seed)
        X = rng.standard_normal((7, *shape)) + 3.0
        rows = np.flatnonzero(rng.rand(7) < 0.7) if seed % 2 else None
        pivot = X[0] if in_parts else None
        weight = random_weight(form, shape, seed)
        memory = MemorySamples(X, rows, pivot=pivot)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tuning, "DEVICE_CHUNK_BYTES", 8 * 2 * prod(shape))  # two samples
            samples = device_module.DeviceSamples(putting(name)(X), rows, pivot=pivot)
            assert len(samples) == len(memory)
            for index in range(len(weight.block_names)):
                contraction = weight.block(index).contraction
                expected = memory.design(contraction)
                np.testing.assert_allclose(in_memory(samples.design(contraction)), expected, atol=1e-11)
            dense = rng.standard_normal((3, *shape))
            np.testing.assert_allclose(samples.scores(dense), memory.scores(dense), atol=1e-11)

    @every_library
    @given(shapes, st.booleans(), st.sampled_from([0.0, 1e6]), seeds)
    def test_moments_are_those_of_samples_in_memory(self, name, shape, centred, offset, seed):
        rng = np.random.RandomState(seed)
        X = rng.standard_normal((9, *shape)) + offset
        weights, signs = rng.dirichlet(np.ones(9)), np.where(rng.rand(9) > 0.4, 1.0, -1.0)
        memory, samples = MemorySamples(X), sample_array(putting(name)(X)).samples()
        expected, moments = (each.first_pass(weights, signs, centred) for each in (memory, samples))
        unit = 1.0 if centred else 1.0 + offset**2
        np.testing.assert_allclose(moments.signed_mean, expected.signed_mean, atol=1e-8 * np.sqrt(unit))
        assert moments.mean_square == pytest.approx(expected.mean_square, rel=1e-8, abs=1e-8)
        assert (samples.pivot is None) == (memory.pivot is None)
        some = np.array([1, 4, 8])
        contraction = random_weight("full", shape, seed).block(0).contraction
        taken = in_memory(samples.take(some).design(contraction))
        np.testing.assert_allclose(taken, memory.take(some).design(contraction), atol=1e-8 * np.sqrt(unit))

    @every_library
    @given(shapes, st.integers(1, 5), seeds)
    def test_half_contractions_equal_einsum(self, name, shape, rank, seed):
        rng = np.random.RandomState(seed)
        put, split = putting(name), best_split(shape)
        X = rng.standard_normal((6, *shape))
        flat = X.reshape(6, prod(shape[:split]), -1)
        matrices = [rng.standard_normal((size, rank)) for size in shape]
        head = to_host(contract_half(put(X), "head", matrices[:split]))
        expected = np.einsum("nab,ar->nrb", flat, reduce(np.kron, matrices[:split]))
        np.testing.assert_allclose(head, expected.reshape(6, -1), atol=1e-10)
        tail = to_host(contract_half(put(X), "tail", matrices[split:]))
        expected = np.einsum("nab,br->nar", flat, reduce(np.kron, matrices[split:], np.ones((1, 1))))
        np.testing.assert_allclose(tail, expected.reshape(6, -1), atol=1e-10)

    @every_library
    @given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), seeds)
    def test_what_stands_around_an_axis_equals_einsum(self, name, count, lead, size, trail, columns, seed):
        rng = np.random.RandomState(seed)
        partial = rng.standard_normal((count, 5, lead, size, trail))
        kernel = rng.standard_normal((count, lead, trail, columns))
        put = putting(name)
        expected = np.einsum("bnlit,bltr->bnir", partial, kernel).reshape(count, 5, -1)
        made = around(put(partial.reshape(count, 5, -1)), size, put(kernel))
        np.testing.assert_allclose(to_host(made), expected, atol=1e-10)

    @every_library
    @pytest.mark.parametrize("chunk", [2**28, 300])
    def test_a_design_on_a_device_answers_as_one_in_memory(self, name, chunk, monkeypatch):
        from tensormargin.fitting.designs import Matrix

        monkeypatch.setattr(tuning, "DEVICE_CHUNK_BYTES", chunk)
        rng = np.random.RandomState(0)
        array = (rng.standard_normal((9, 31)) + 100).astype(np.float32)
        there, memory = device_module.DeviceDesign(putting(name)(array)), Matrix(array)
        assert there.shape == memory.shape
        assert there.dtype == memory.dtype
        weights, vector, centre = rng.rand(9), rng.rand(31), array.astype(float).mean(axis=0)
        np.testing.assert_array_equal(there.to_numpy(), array)
        np.testing.assert_allclose(there.weighted_sum(weights), memory.weighted_sum(weights), rtol=1e-12)
        np.testing.assert_allclose(there.products(vector), memory.products(vector), rtol=1e-12)
        np.testing.assert_allclose(there.gram(centre), memory.gram(centre), atol=1e-10)


@st.composite
def parts_of_samples(draw):
    """Return the number of samples and the rows of several problems: all, one, or any subset."""
    n_total = draw(st.integers(2, 12))
    some = st.sets(st.integers(0, n_total - 1), min_size=1).map(lambda rows: np.array(sorted(rows)))
    return n_total, draw(st.lists(st.one_of(st.none(), some), min_size=1, max_size=10))


class TestSharedSamples:
    @every_library
    @given(parts_of_samples(), st.sampled_from(FORMAT_NAMES), shapes, st.data())
    def test_designs_are_those_of_each_problem_alone_and_padding_is_zero(self, name, parts, form, shape, data):
        n_total, rows = parts
        X = np.random.RandomState(0).standard_normal((n_total, *shape))
        shared = SharedSamples(putting(name)(X), rows)
        for own, asked in zip(shared.rows, rows, strict=True):
            np.testing.assert_array_equal(np.sort(own), np.arange(n_total) if asked is None else asked)
        which = data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=6))  # repeats: several starts
        weights = [random_weight(form, shape, seed) for seed in range(len(which))]
        every = [[weight.block(index).contraction for index in range(len(weight.block_names))] for weight in weights]
        for first in every[0]:  # the order of the blocks depends on the entries of a weight
            contractions = [next(one for one in own if one.sizes == first.sizes) for own in every]
            designs = to_host(shared.designs(which, contractions))
            assert designs.shape == (len(which), max(len(shared.rows[k]) for k in which), contractions[0].width)
            for design, k, contraction in zip(designs, which, contractions, strict=True):
                count = len(shared.rows[k])
                expected = MemorySamples(X, shared.rows[k]).design(contraction)
                np.testing.assert_allclose(design[:count], expected, atol=1e-11)
                np.testing.assert_array_equal(design[count:], 0)

    @every_library
    @given(parts_of_samples(), shapes, st.booleans(), seeds)
    def test_moments_are_those_of_each_problem_alone(self, name, parts, shape, centred, seed):
        n_total, rows = parts
        rng = np.random.RandomState(seed)
        X = rng.standard_normal((n_total, *shape)) + 5.0
        shared = SharedSamples(putting(name)(X), rows)
        weights = [rng.dirichlet(np.ones(len(own))) for own in shared.rows]
        signs = [np.where(rng.rand(len(own)) > 0.5, 1.0, -1.0) for own in shared.rows]
        found = shared.first_pass(weights, signs, centred)
        for own, p, t, moments in zip(shared.rows, weights, signs, found, strict=True):
            expected = MemorySamples(X[own]).first_pass(p, t, centred)
            np.testing.assert_allclose(moments.signed_mean, expected.signed_mean, atol=1e-12)
            assert moments.mean_square == pytest.approx(expected.mean_square, rel=1e-12, abs=1e-12)

    @every_library
    def test_a_large_common_offset_is_subtracted_once_for_all(self, name):
        rng = np.random.RandomState(0)
        X = (rng.standard_normal((40, 5, 4)) + 1e4).astype(np.float32)
        given = putting(name)(X)
        shared = SharedSamples(given, [np.arange(30), np.arange(10, 40)], np.dtype(np.float32))
        shared.first_pass([np.full(30, 1 / 30)] * 2, [np.where(np.arange(30) % 2, 1.0, -1.0)] * 2, centred=True)
        assert shared.pivot(0) is not None
        np.testing.assert_array_equal(to_host(given), X)  # the input is unchanged
        less = X.astype(float) - shared.pivot(0)
        for form in FORMAT_NAMES:
            contraction = random_weight(form, (5, 4), 0).block(0).contraction
            designs = to_host(shared.designs([0, 1], [contraction] * 2))
            for design, own in zip(designs, shared.rows, strict=True):
                expected = MemorySamples(less, own).design(contraction)
                np.testing.assert_allclose(design, expected, atol=1e-5 * np.abs(expected).max())

    @every_library
    def test_classes_and_folds_are_the_cells(self, name):
        """Each cell is read once for all of its problems: ten cells for 45 pairs, five for five folds."""
        X = putting(name)(np.arange(400.0).reshape(100, 4))
        y = np.arange(100) % 10
        pairs = [np.flatnonzero((y == i) | (y == j)) for i in range(10) for j in range(i)]
        folds = [np.flatnonzero(y % 5 != k) for k in range(5)]
        assert len(SharedSamples(X, pairs)._cells) == 10
        assert len(SharedSamples(X, folds)._cells) == 5
        assert len(SharedSamples(X, [None, *folds])._cells) == 5
        assert len(SharedSamples(X, [None, None])._cells) == 1

    @pytest.mark.torch
    def test_samples_that_all_problems_use_are_not_copied(self):
        torch, _ = library("torch")
        X = torch.ones((6, 3, 2), dtype=torch.float64)
        assert SharedSamples(X, [None, np.arange(6)]).like.data_ptr() == X.data_ptr()

    @every_library
    def test_a_sample_that_no_problem_uses_is_left_out(self, name):
        X = np.random.RandomState(0).standard_normal((8, 3, 2))
        X[[0, 5]] = np.nan
        shared = SharedSamples(putting(name)(X), [np.array([1, 2, 6]), np.array([2, 3, 4, 7])])
        assert shared.like.shape[0] == 6
        contraction = random_weight("cp", (3, 2), 0).block(0).contraction
        assert np.all(np.isfinite(to_host(shared.designs([0, 1], [contraction] * 2))))


@dataclass(frozen=True)
class Case:
    """A design and its problem."""

    design: np.ndarray
    problem: MarginProblem


def problem(n, d, seed=0, lam=10.0, mu1=1.0, mu2=1.0, bias=1.0, scale=1.0, even=False):
    design, signs = random_block(n, d, seed)
    weights = np.ones(n) if even else np.random.RandomState(seed).rand(n) + 0.05
    objective = Objective(lam, mu1, mu2, weights / weights.sum())
    return Case(scale * design, MarginProblem(signs, objective, bias * scale))


def changed(one, change):
    return replace(one, design=change(one.design.copy()))


PROBLEMS = {
    "one alone": [problem(60, 5)],
    "of different lengths": [problem(60, 5), problem(2, 5, 1), problem(17, 5, 2), problem(5, 5, 3)],
    "even weights": [problem(40, 6, seed, even=True) for seed in range(3)],
    "of different strengths": [problem(50, 6, k, *s) for k, s in enumerate([(1e-3, 0, 0), (1e3, 10, 1), (10, 0, 50)])],
    "hinge only": [problem(80, 4, seed, mu1=0.0, mu2=0.0) for seed in range(3)],
    "hinge only with a large lambda": [problem(n, 6, n, 1e5, 0.0, 0.0) for n in (5, 25, 60)],
    "large samples with a large lambda": [problem(n, 9, n, 1e5, 0.0, 0.0, scale=30.0) for n in (3, 26, 50)],
    "a large lambda beside small ones": [problem(9, 7, 0, 1e5, 0.0, 0.0, scale=100.0), problem(40, 7, 1)],
    "strong variance": [problem(40, 5, seed, mu1=1e4) for seed in range(2)],
    "without intercept": [problem(n, 5, n, bias=0.0) for n in (8, 50)],
    "hinge only without intercept": [problem(n, 5, n, 1e5, 0.0, 0.0, bias=0.0) for n in (8, 50)],
    "one sample per class": [problem(2, d, d) for d in (3, 3)],
    "more columns than samples": [problem(12, 50, seed) for seed in range(2)],
    "equal samples": [changed(problem(30, 4, s), lambda z: np.repeat(z[:3], 10, axis=0)) for s in range(2)],
    "all samples equal": [changed(problem(20, 4), lambda z: 0 * z + 3.0), problem(20, 4)],
    "zero samples": [changed(problem(20, 4), lambda z: 0 * z)],
    "constant features": [changed(problem(30, 6, s), lambda z: np.where(np.arange(6) < 3, 7.0, z)) for s in range(2)],
    "equal columns": [changed(problem(30, 6, s), lambda z: np.repeat(z[:, :3], 2, axis=1)) for s in range(2)],
    "a large offset": [changed(problem(30, 6, s), lambda z: z + 1e4) for s in range(2)],
}
every_problem = pytest.mark.parametrize("case", PROBLEMS)


def solve(put, problems, tols):
    """Solve problems as one batch, with the shorter ones padded by rows of zeros."""
    designs = np.zeros((len(problems), max(len(one.design) for one in problems), problems[0].design.shape[1]))
    for padded, one in zip(designs, problems, strict=True):
        padded[: len(one.design)] = one.design
    return solve_batched(put(designs), [one.problem for one in problems], tols)


def optimum(one):
    """Return bounds on the true optimum, from coordinate descent with an exact finish."""
    block = block_problem(one.design, one.problem)
    certificate = SOLVERS["dual_cd"](block, tol=1e-12, max_epochs=50000).certificate
    assert certificate.relative_gap < 1e-7
    return certificate.dual, certificate.primal


def value(one, vector, intercept):
    """Return the value of Eq. 7, with the intercept's penalty, from its definition."""
    objective, bias = one.problem.objective, one.problem.bias_scale
    centred = intercept + objective.weights @ one.design @ vector
    penalty = (centred / bias) ** 2 if bias else 0.0
    return objective.value(vector @ vector + penalty, one.problem.signs * (one.design @ vector + intercept))


def assert_certified(one, solution, tol, bounds=None):
    """Check that the certificate is correct for the vector, encloses the optimum, and reaches the gap."""
    certificate, unit = solution.certificate, 1e-8 * solution.certificate.scale
    lowest, highest = bounds or optimum(one)
    assert certificate.relative_gap <= tol
    assert certificate.dual <= highest + unit
    assert certificate.primal >= lowest - unit
    assert certificate.primal == pytest.approx(value(one, solution.vector, solution.intercept), abs=unit)
    assert solution.intercept == 0.0 or one.problem.bias_scale


HARD_KINDS = {
    "plain": lambda z, rng: z,
    "nearly collinear columns": lambda z, rng: z[:, :1] + 1e-7 * z,
    "columns of different scales": lambda z, rng: z * 10.0 ** rng.uniform(-5, 5, z.shape[1]),
    "samples of different scales": lambda z, rng: z * 10.0 ** rng.uniform(-3, 3, (len(z), 1)),
    "repeated samples": lambda z, rng: np.resize(z[: -(-len(z) // 4)], z.shape),
    "an ill-conditioned design": lambda z, rng: z @ np.diag(10.0 ** -np.linspace(0, 9, z.shape[1])) @ rotation(z, rng),
    "a common offset": lambda z, rng: z + 1e3,
}


def rotation(z, rng):
    return np.linalg.qr(rng.standard_normal((z.shape[1], z.shape[1])))[0]


def hard_problems(kind, width):
    """Return problems with few and many samples, lambda from 1e-2 to 1e8, and sample norms far from one."""
    rng = np.random.RandomState(width)
    found = []
    for n, lam, mu1, mu2, scale in [
        (120, 1e-2, 0.0, 0.0, 1.0),
        (2, 1e2, 100.0, 0.0, 10.0),
        (40, 1e4, 1.0, 1.0, 100.0),
        (9, 1e5, 0.0, 0.0, 1000.0),
        (50, 1e6, 0.0, 10.0, 0.1),
        (20, 1e7, 1e4, 1.0, 10.0),
        (150, 1e8, 0.0, 0.0, 30.0),
        (5, 1e8, 0.0, 0.0, 100.0),
    ]:
        design, signs = random_block(n, width, rng.randint(1000))
        weights = rng.rand(n) + 0.05
        objective = Objective(lam, mu1, mu2, weights / weights.sum())
        found.append(Case(scale * HARD_KINDS[kind](design, rng), MarginProblem(signs, objective, scale)))
    return found


def exact_value(one, solution):
    """Return Eq. 7 at a solution, in extended precision if available: lambda magnifies rounding errors."""
    design, vector, weights, intercept = (
        np.asarray(part, np.longdouble)
        for part in (one.design, solution.vector, one.problem.objective.weights, solution.intercept)
    )
    objective = replace(one.problem.objective, weights=weights)
    return float(value(Case(design, replace(one.problem, objective=objective)), vector, intercept))


def assert_hard_ones_certified(put, problems):
    """Check that every gap is reached and that the certificates are correct.

    The value of the better of two solutions is an upper bound on the optimum, which the dual value must not exceed.
    """
    loose, tight = [1e-3, 1e-4, 1e-5, 1e-6] * (len(problems) // 4), [1e-6] * len(problems)
    both = [solve(put, problems, tols) for tols in (loose, tight)]
    for one, tols, solutions in zip(problems, zip(loose, tight, strict=True), zip(*both, strict=True), strict=True):
        lowest = min(exact_value(one, solution) for solution in solutions)
        for solution, tol in zip(solutions, tols, strict=True):
            certificate, unit = solution.certificate, 1e-8 * solution.certificate.scale
            assert certificate.relative_gap <= tol
            assert abs(exact_value(one, solution) - certificate.primal) <= unit
            assert certificate.dual <= lowest + unit


@pytest.mark.numerical
class TestBlocksSolvedTogether:
    @every_problem
    def test_the_gap_asked_for_is_reached_and_the_optimum_lies_in_it(self, case, put):
        problems = PROBLEMS[case]
        bounds = [optimum(one) for one in problems]
        for tol in (1e-2, 1e-6):
            solutions = solve(put, problems, [tol] * len(problems))
            for one, solution, enclosed in zip(problems, solutions, bounds, strict=True):
                assert_certified(one, solution, tol, enclosed)

    @every_library
    @given(
        st.lists(st.integers(2, 40), min_size=1, max_size=4),
        st.integers(1, 30),
        st.floats(1e-3, 1e4),
        st.floats(0, 100),
        st.floats(0, 100),
        st.sampled_from([0.0, 1.0]),
        st.integers(0, 99),
    )
    def test_whatever_the_strengths_and_lengths(self, name, lengths, d, lam, mu1, mu2, bias, seed):
        problems = [problem(n, d, seed + n, lam, mu1, mu2, bias) for n in lengths]
        for one, solution in zip(problems, solve(putting(name), problems, [1e-5] * len(problems)), strict=True):
            assert_certified(one, solution, 1e-5)

    @pytest.mark.parametrize("width", [4, 20])
    @pytest.mark.parametrize("kind", HARD_KINDS)
    def test_however_hard_the_problem_the_gap_is_reached_and_true(self, kind, width):
        assert_hard_ones_certified(np.asarray, hard_problems(kind, width))

    def test_hard_problems_in_every_library(self, put):
        assert_hard_ones_certified(put, hard_problems("samples of different scales", 4))

    def test_only_what_falls_short_is_solved_again(self, put, monkeypatch):
        problems = [problem(n, 5, n, lam) for n, lam in ((40, 1.0), (30, 2.0), (20, 3.0), (50, 4.0))]
        attempts, solve_all = [], batched_module._solve

        def spoiled(designs, asked, tols, careful):
            attempts.append([one.objective.lam for one in asked])
            solutions = solve_all(designs, asked, tols, careful=careful)
            if not careful:  # simulate rounding that keeps the second and third from converging
                solutions[1:3] = [
                    one._replace(certificate=replace(one.certificate, dual=-1.0)) for one in solutions[1:3]
                ]
            return solutions

        monkeypatch.setattr(batched_module, "_solve", spoiled)
        solutions = solve(put, problems, [1e-5] * 4)
        assert attempts == [[1.0, 2.0, 3.0, 4.0], [2.0], [3.0]]
        for one, solution in zip(problems, solutions, strict=True):
            assert_certified(one, solution, 1e-5)

    def test_a_problem_that_is_not_finite_is_not_solved_and_spoils_no_other_one(self, put):
        problems = [problem(30, 4, 1), changed(problem(20, 4, 2), lambda z: z * np.nan), problem(40, 4, 3)]
        solutions = solve(put, problems, [1e-6] * 3)
        assert solutions[1].certificate.relative_gap == np.inf
        assert not np.isfinite(solutions[1].certificate.primal)
        for k in (0, 2):
            assert_certified(problems[k], solutions[k], 1e-6)

    def test_no_dual_value_promises_too_much(self, put):
        """Check that the square subtracted from the dual value is not too small, even for nearly singular matrices."""
        rng = np.random.RandomState(0)
        for power in range(11):
            basis = np.linalg.qr(rng.standard_normal((20, 6, 6)))[0]
            spread = 10.0**power * basis[:, :1]  # I + spread'spread: one direction is large
            columns = np.swapaxes(basis[:, 1:2] + basis[:, :1], 1, 2)
            expected = 1.0 + 1.0 / (1.0 + 10.0 ** (2 * power))
            matrices = np.eye(6) + np.swapaxes(spread, 1, 2) @ spread
            bound = to_host(Definite(put(matrices)).inverse_square(put(columns)))
            assert np.all(bound >= expected * (1 - 1e-12))
            if power < 3:
                np.testing.assert_allclose(bound, expected, rtol=1e-8)
            exact = to_host(LeastSquares(put(spread)).inverse_square(put(columns)))
            np.testing.assert_allclose(exact, expected, rtol=1e-14 * 10.0**power)

    def test_a_singular_matrix_spoils_no_other_one(self, put):
        matrices = np.stack([2.0 * np.eye(3), np.zeros((3, 3)), np.diag([1.0, 4.0, 5.0])])
        for spoiled in (matrices, np.where(np.arange(3)[:, None, None] == 1, np.nan, matrices)):
            found = to_host(inverses(put(spoiled)))
            np.testing.assert_allclose(found[[0, 2]], np.linalg.inv(matrices[[0, 2]]), rtol=1e-12)

    def test_the_answer_is_the_papers(self, put):
        """Compare with Eq. 14, with H of Eq. 13 as printed, solved as a general QP; no intercept, equal weights."""
        strengths = [(10.0, 1.0, 1.0), (100.0, 0.5, 0.0), (1.0, 20.0, 5.0)]
        problems = [problem(20, 4, k, *each, bias=0.0, even=True) for k, each in enumerate(strengths)]
        solutions = solve(put, problems, [1e-9] * 3)
        for one, solution, strength in zip(problems, solutions, strengths, strict=True):
            expected = paper_block(one.design, one.problem.signs, *strength)
            np.testing.assert_allclose(solution.vector, expected, atol=1e-4 * np.abs(expected).max())
            assert solution.certificate.primal == pytest.approx(value(one, expected, 0.0), rel=1e-7)

    def test_each_problem_has_a_tolerance_of_its_own(self, put):
        problems = [problem(40, 5, seed) for seed in range(4)]
        tols = [1e-1, 1e-7, 1e-3, 1e-7]
        solutions = solve(put, problems, tols)
        for one, solution, tol in zip(problems, solutions, tols, strict=True):
            assert_certified(one, solution, tol)
        assert solutions[0].certificate.relative_gap > 1e-7  # already good enough, so not solved again

    def test_company_does_not_change_the_answer(self, put):
        problems = [problem(n, 5, n) for n in (40, 3, 25)]
        for one, together in zip(problems, solve(put, problems, [1e-9] * 3), strict=True):
            (alone,) = solve(put, [one], [1e-9])
            np.testing.assert_allclose(together.vector, alone.vector, atol=1e-7)
            assert together.certificate.primal == pytest.approx(alone.certificate.primal, rel=1e-9)

    def test_single_precision_is_solved_in_double(self, put):
        problems = [changed(problem(40, 5, seed), lambda z: z.astype(np.float32).astype(float)) for seed in range(2)]
        designs = np.stack([one.design for one in problems])
        each = [one.problem for one in problems]
        single, double = (
            solve_batched(put(designs.astype(dtype)), each, [1e-7] * 2) for dtype in (np.float32, np.float64)
        )
        for one, other in zip(single, double, strict=True):
            np.testing.assert_array_equal(one.vector, other.vector)
            assert one.certificate == other.certificate

    def test_the_designs_are_not_written_to(self, put):
        one = problem(10, 3)
        designs = put(one.design[None])
        solve_batched(designs, [one.problem], [1e-4])
        np.testing.assert_array_equal(to_host(designs)[0], one.design)


SHAPE = (4, 3, 3)
ROWS = [None, np.arange(0, 50), np.arange(10, 60), np.arange(0, 60, 3)]


def tasks(shared, X, signs, lams=(20.0, 5.0, 20.0, 100.0), bias=2.0):
    """Return in-memory samples and the problem for each part of the shared samples, in the same order."""
    found = []
    for own, lam in zip(shared.rows, lams, strict=True):
        weights = np.random.RandomState(len(own)).rand(len(own)) + 0.5
        objective = Objective(lam, 1.0, 1.0, weights / weights.sum())
        found.append((MemorySamples(X, own), MarginProblem(signs[own], objective, bias)))
    return found


def members(todo, starts, tol, max_iter):
    return [
        BatchedFit(k, task[1], sweeps(Start(weight), len(task[1]), tol, max_iter))
        for k, (task, weight) in enumerate(zip(todo, starts, strict=True))
    ]


class TestLockstep:
    @pytest.fixture
    def samples(self, put):
        X, signs = low_rank_classes(1, 60, SHAPE, 3.0)
        return X, signs, SharedSamples(put(X), ROWS)

    @every_format
    def test_solved_here_each_fit_is_the_one_alone(self, form, samples):
        X, signs, shared = samples
        todo = tasks(shared, X, signs)
        starts = [random_weight(form, SHAPE, seed) for seed in range(4)]
        together = alternate_batched(shared, members(todo, starts, 1e-3, 6), "host")
        for task, weight, fit in zip(todo, starts, together, strict=True):
            alone = alternate(*task, Start(weight), SOLVERS["dual_cd"], 1e-3, 6)
            assert len(fit.sweeps) == len(alone.sweeps)
            assert fit.converged == alone.converged
            assert fit.objective == pytest.approx(alone.objective, rel=1e-10)  # as the weight: it is no optimum
            unit = np.abs(alone.weight.to_dense()).max()
            np.testing.assert_allclose(fit.weight.to_dense(), alone.weight.to_dense(), atol=1e-10 * unit)
            assert fit.intercept == pytest.approx(alone.intercept, abs=1e-10)

    def test_members_of_different_formats_tolerances_and_lengths(self, samples):
        X, signs, shared = samples
        todo = tasks(shared, X, signs)
        starts = [random_weight(form, SHAPE, 0) for form in ("cp", "tucker", "tt", "full")]
        limits = [(1e-2, 9), (1e-3, 1), (1e-1, 20), (1e-6, 3)]
        batched = [
            BatchedFit(k, task[1], sweeps(Start(weight), len(task[1]), *limit))
            for k, (task, weight, limit) in enumerate(zip(todo, starts, limits, strict=True))
        ]
        together = alternate_batched(shared, batched, "host")
        for task, weight, limit, fit in zip(todo, starts, limits, together, strict=True):
            alone = alternate(*task, Start(weight), SOLVERS["dual_cd"], *limit)
            assert type(fit.weight) is type(weight)
            assert len(fit.sweeps) == len(alone.sweeps)
            assert fit.objective == pytest.approx(alone.objective, rel=1e-10)

    @pytest.mark.parametrize("solver", ["host", "device"])
    def test_a_batch_that_does_not_fit_into_memory_is_divided(self, solver, samples, monkeypatch):
        X, signs, shared = samples
        todo = tasks(shared, X, signs)
        starts = [random_weight("tt", SHAPE, seed) for seed in range(4)]
        whole = alternate_batched(shared, members(todo, starts, 1e-2, 2), solver)
        monkeypatch.setattr(batch, "free_bytes", lambda _: 1)
        sizes, solve_part = [], batch._solve
        monkeypatch.setattr(batch, "_solve", lambda *rest: sizes.append(len(rest[1])) or solve_part(*rest))
        divided = alternate_batched(shared, members(todo, starts, 1e-2, 2), solver)
        assert set(sizes) == {1}
        for one, other in zip(whole, divided, strict=True):
            assert other.objective == pytest.approx(one.objective, rel=1e-9)
            assert len(other.sweeps) == len(one.sweeps)

    @pytest.mark.parametrize("tol", [1e-2, 1e-4])
    def test_solved_on_the_device_a_convex_fit_is_optimal_to_within_its_gap(self, tol, samples):
        X, signs, shared = samples
        todo = tasks(shared, X, signs)
        starts = [random_weight("full", SHAPE, 0)] * 4
        for task, fit in zip(todo, alternate_batched(shared, members(todo, starts, tol, 5), "device"), strict=True):
            best = alternate(*task, Start(starts[0]), SOLVERS["dual_cd"], 1e-9, 5)
            (sweep,) = fit.sweeps
            assert fit.converged
            assert sweep.gaps[0] <= 0.1 * tol
            assert abs(fit.objective - best.objective) <= tol * abs(best.objective)
            assert fit.objective >= best.objective - 1e-9 * abs(best.objective)

    @pytest.mark.parametrize("form", ["cp", "tucker", "tt"])
    def test_solved_on_the_device_the_objective_falls_and_is_that_of_the_weight(self, form, samples):
        X, signs, shared = samples
        todo = tasks(shared, X, signs)
        starts = [random_weight(form, SHAPE, seed) for seed in range(4)]
        for task, fit in zip(todo, alternate_batched(shared, members(todo, starts, 1e-2, 4), "device"), strict=True):
            values = np.concatenate([sweep.objectives for sweep in fit.sweeps])
            assert np.all(np.diff(values) <= 0)
            assert values[-1] == fit.objective
            dense = fit.weight.to_dense().ravel()
            one = Case(task[0].matrix(), task[1])
            assert fit.objective == pytest.approx(value(one, dense, fit.intercept), rel=1e-7)

    @pytest.mark.parametrize("form", ["cp", "tt"])
    def test_a_block_is_kept_when_its_objective_is_not_a_number(self, form, samples, monkeypatch):
        """Check that a problem whose solves become NaN keeps its weight, and that the others are unaffected."""
        X, signs, shared = samples
        todo = tasks(shared, X, signs)
        starts = [random_weight(form, SHAPE, seed, 1 + (form == "cp")) for seed in range(4)]
        good = alternate_batched(shared, members(todo, starts, 1e-3, 2), "device")
        calls = []

        def spoiled(designs, problems, gaps):
            solutions = solve_batched(designs, problems, gaps)
            for k, problem in enumerate(problems):
                if problem is todo[1][1]:
                    calls.append(1)
                    if len(calls) > 3:
                        nothing = replace(solutions[k].certificate, primal=np.nan, scale=np.nan)
                        solutions[k] = solutions[k]._replace(vector=np.nan * solutions[k].vector, certificate=nothing)
            return solutions

        monkeypatch.setattr(batch, "solve_batched", spoiled)
        fits = alternate_batched(shared, members(todo, starts, 1e-3, 2), "device")
        values = np.concatenate([sweep.objectives for sweep in fits[1].sweeps])
        assert np.all(values[2:] == values[2])
        assert np.all(np.isfinite(fits[1].weight.to_dense()))
        assert not fits[1].converged
        for k in (0, 2, 3):
            assert fits[k].objective == pytest.approx(good[k].objective, rel=1e-9)

    def test_each_group_is_solved_where_it_is_faster(self, samples, monkeypatch):
        X, signs, shared = samples
        todo = tasks(shared, X, signs)
        asked, there = [], []
        solve_there = batch._solve_on_device
        monkeypatch.setattr(batch, "faster_on_device", lambda *sizes: asked.append(sizes) or sizes[0] == 4)
        monkeypatch.setattr(batch, "_solve_on_device", lambda *rest: there.append(len(rest[1])) or solve_there(*rest))
        starts = [random_weight("cp", SHAPE, 0)] * 4
        alternate_batched(shared, members(todo, starts, 1e-2, 5))
        assert there == [4] * sum(sizes[0] == 4 for sizes in asked)
        assert asked[0] == (4, 60, 8)  # all problems; the longest one; two columns of the longest mode, four entries
        for solver, expected in (("host", 0), ("device", len(asked))):
            there.clear()
            alternate_batched(shared, members(todo, starts, 1e-2, 1), solver)
            assert bool(there) == bool(expected)

    def test_many_problems_are_faster_on_a_device_and_one_small_one_is_not(self):
        assert not faster_on_device(1, 100, 10)
        assert faster_on_device(1000, 100, 10)
        assert faster_on_device(45, 12000, 60)
        assert not faster_on_device(2, 100, 3000)  # wide blocks cost N d^2 there


def assert_alike(one, other, tolerance=1e-9):
    """Check that two classifiers are the same fit, whatever their array library."""
    coef, expected = to_host(one.coef_), to_host(other.coef_)
    assert coef.dtype == expected.dtype
    np.testing.assert_allclose(coef, expected, atol=tolerance * np.abs(expected).max(), rtol=0)
    np.testing.assert_allclose(to_host(one.intercept_), to_host(other.intercept_), atol=tolerance)
    np.testing.assert_allclose(to_host(one.objective_), to_host(other.objective_), rtol=1e-9)
    np.testing.assert_array_equal(to_host(one.classes_), to_host(other.classes_))
    assert one.n_iter_ == other.n_iter_
    assert one.n_features_in_ == other.n_features_in_


def grid_of_folds(X, y, lams=(0.1, 1.0), **parameters):
    """Return classifiers and the rows they learn from: each value of lambda on each fold, and on all samples."""
    folds = [train for train, _ in StratifiedKFold(2).split(np.zeros(len(y)), y)]
    parameters = {"decomposition": "cp", "rank": 1, "tol": 1e-2, **parameters}
    made = [(TensorMarginClassifier(lam=lam, **parameters), rows) for lam in lams for rows in (None, *folds)]
    return [one for one, _ in made], [rows for _, rows in made]


def fitted_alone(classifiers, X, y, rows, sample_weight=None):
    return [
        clone(one).fit(X[own], y[own], None if sample_weight is None else sample_weight[own])
        for one, own in zip(classifiers, [slice(None) if own is None else own for own in rows], strict=True)
    ]


@pytest.fixture(params=[1e-9, 1e-6], ids=["one by one", "lockstep"])
def same(request, monkeypatch):
    """Fit the problems of a device array one by one, or in lockstep as on a GPU, with blocks solved on the host.

    Return the tolerance for the difference of the weights from those of separate fits. Shared samples are in a
    different order. In any order, small blocks are solved to a relative gap of 1e-12 in the objective, which
    determines the vector to its square root. (NumPy fits to reordered samples differ by 4e-9 in the second test.)
    """
    monkeypatch.setattr(storage, "on_cpu", lambda _: request.param == 1e-9)
    return request.param


@pytest.fixture(scope="module")
def three_classes():
    X, _ = low_rank_classes(1, 60, (4, 5), 3.0)
    y = np.tile([2, 0, 1], 20)
    X[y == 1] += 1.0
    return X, y


@pytest.mark.usefixtures("same")
class TestFitMany:
    @pytest.mark.parametrize("parameters", [{}, {"decomposition": "full", "rank": None, "multi_class": "ovr"}], ids=str)
    def test_folds_and_lambdas_give_what_separate_fits_give(self, parameters, three_classes, put, same):
        X, y = three_classes
        classifiers, rows = grid_of_folds(X, y, **parameters)
        expected = fitted_alone(classifiers, X, y, rows)
        fitted = fit_many(classifiers, put(X), y, rows)
        for one, made, other in zip(classifiers, fitted, expected, strict=True):
            assert made is one
            assert type(one.coef_) is type(put(X))
            assert device_of(one.coef_) == device_of(put(X))
            assert_alike(one, other, same)

    def test_classifiers_may_differ_in_everything(self, three_classes, put, same):
        X, y = three_classes
        classifiers = [
            TensorMarginClassifier("cp", 1, tol=1e-1),
            TensorMarginClassifier("cp", 1, fit_intercept=False, tol=1e-1),
            TensorMarginClassifier("tucker", 2, tol=1e-2, multi_class="ovr"),
            TensorMarginClassifier("tt", 2, tol=1e-2, class_weight="balanced", n_init=2, random_state=0),
            TensorMarginClassifier("full", fit_intercept=False, mu1=0.0, mu2=0.0),
            TensorMarginClassifier("full", lam=3.0, scale_free=False),
        ]
        # the last one has more entries than samples
        rows = [None, np.arange(40), None, np.arange(20, 60), np.arange(30), np.arange(15)]
        for made, other in zip(
            fit_many(classifiers, put(X), y, rows), fitted_alone(classifiers, X, y, rows), strict=True
        ):
            assert_alike(made, other, same)

    def test_too_few_sweeps_are_told_of_the_classifier_that_had_them(self, three_classes, put, same):
        X, y = three_classes
        classifiers = [TensorMarginClassifier("cp", 1, tol=tol, max_iter=n) for tol, n in ((1e-1, 100), (1e-9, 2))]
        with pytest.warns(ConvergenceWarning, match=r"did not converge to tol=1e-09 in max_iter=2") as told:
            fit_many(classifiers, put(X), y)
        assert len(told) == 1
        assert classifiers[1].n_iter_ == 2
        with pytest.warns(ConvergenceWarning):
            assert_alike(classifiers[1], fitted_alone(classifiers, X, y, [None, None])[1], same)

    def test_sample_weights_some_of_them_zero(self, three_classes, put, same):
        X, y = three_classes
        weights = np.random.RandomState(0).rand(60) * (np.arange(60) % 5 > 0)
        classifiers, rows = (some[:2] for some in grid_of_folds(X, y, lams=(1.0,), class_weight="balanced"))
        expected = fitted_alone(classifiers, X, y, rows, weights)
        for each in (weights, put(weights), weights.tolist()):
            for one, other in zip(fit_many(classifiers, put(X), y, rows, each), expected, strict=True):
                assert_alike(one, other, same)

    def test_labels_of_any_kind(self, three_classes, put):
        X, y = three_classes
        classifiers, rows = (some[:2] for some in grid_of_folds(X, y, lams=(1.0,)))
        expected = (
            fitted_alone(classifiers, X, y, rows),
            fitted_alone(classifiers, X, np.array(["b", "c", "a"])[y], rows),
        )
        for labels, others in (
            (put(y), expected[0]),
            (y.tolist(), expected[0]),
            (np.array(["b", "c", "a"])[y], expected[1]),
        ):
            fit_many(classifiers, put(X), labels, rows)
            for one, other in zip(classifiers, others, strict=True):
                assert_alike_in_scores(one, other)

    def test_warm_starts_go_on_from_the_last_fit(self, three_classes, put):
        X, y = three_classes
        classifiers, rows = (some[:3] for some in grid_of_folds(X, y, lams=(1.0,), warm_start=True, tol=1e-3))
        alone = fitted_alone(classifiers, X, y, rows)
        fit_many(classifiers, put(X), y, rows)
        for one, own in zip(alone, rows, strict=True):
            own = slice(None) if own is None else own
            one.set_params(lam=0.9).fit(X[own], y[own])
        fit_many([one.set_params(lam=0.9) for one in classifiers], put(X), y, rows)
        for one, other in zip(classifiers, alone, strict=True):
            assert to_host(one.objective_) == pytest.approx(other.objective_, rel=1e-2)
        cold = fitted_alone(classifiers, X, y, rows)
        assert sum(one.n_iter_ for one in classifiers) < sum(one.n_iter_ for one in cold)

    @pytest.mark.parametrize("solver", ["host", "device"])
    def test_a_row_that_comes_twice_counts_twice(self, solver, three_classes, put):
        X, y = three_classes
        drawn = np.random.RandomState(0).randint(0, 60, 90)
        tol = 1e-3
        expected = TensorMarginClassifier("full", tol=tol).fit(X[drawn], y[drawn])
        made = fit_many([TensorMarginClassifier("full", tol=tol, solver=solver)], put(X), y, [drawn])
        np.testing.assert_allclose(to_host(made[0].objective_), expected.objective_, rtol=tol)
        in_memory = fit_many([TensorMarginClassifier("full", tol=tol)], X, y, [drawn])
        np.testing.assert_allclose(in_memory[0].objective_, expected.objective_, rtol=1e-9)

    def test_solved_on_the_device_convex_fits_are_as_good(self, three_classes, put):
        X, y = three_classes
        tol = 1e-3
        classifiers, rows = grid_of_folds(X, y, decomposition="full", rank=None, tol=tol, solver="device")
        for one, other in zip(
            fit_many(classifiers, put(X), y, rows), fitted_alone(classifiers, X, y, rows), strict=True
        ):
            np.testing.assert_allclose(to_host(one.objective_), other.objective_, rtol=tol)
            agree = np.mean(to_host(one.predict(put(X))) == other.predict(X))
            assert agree >= 0.98

    def test_rows_that_are_none(self, three_classes, put):
        X, y = three_classes
        classifiers = [TensorMarginClassifier("cp"), TensorMarginClassifier("tt")]
        for samples in (X, put(X)):
            with pytest.raises(ValueError, match="one entry for each classifier; got 1 for 2 classifiers"):
                fit_many(classifiers, samples, y, [None])
            for rows, got in (
                (np.arange(61), "0 to 60"),
                (np.array([-1, 3]), "-1 to 3"),
                (np.arange(60) < 30, r"bool of shape \(60,\)"),
                (np.arange(3.0), r"float64 of shape \(3,\)"),
                (np.array([], int), r"int64 of shape \(0,\)"),
            ):
                words = rf"rows must be whole numbers from 0 to 59, .*; got {got}\. Of a mask take np.flatnonzero"
                with pytest.raises(ValueError, match=words):
                    fit_many(classifiers, samples, y, [None, rows])
            with pytest.raises(ValueError, match=r"at least two classes with positive weight; got one class, \[2\]"):
                fit_many(classifiers, samples, y, [None, np.flatnonzero(y == 2)])
            assert fit_many([], samples, y) == []

    def test_nan_is_refused(self, three_classes, put, monkeypatch):
        X, y = three_classes
        spoiled = X.copy()
        spoiled[7, 1, 1] = np.nan
        for large in (2**24, 0):  # checked beforehand, or detected by the fit itself
            monkeypatch.setattr("tensormargin.runtime.tuning.LOOKED_THROUGH_BYTES", large)
            with pytest.raises(ValueError, match="Input X contains NaN or infinity"):
                fit_many([TensorMarginClassifier("cp") for _ in range(2)], put(spoiled), y, [None, np.arange(30)])

    def test_what_is_no_classifier_or_comes_twice_is_refused(self, three_classes):
        X, y = three_classes
        one = TensorMarginClassifier("cp")
        with pytest.raises(ValueError, match=r"object of its own.*clone"):
            fit_many([one, one], X, y)
        with pytest.raises(ValueError, match="takes TensorMarginClassifier; got Pipeline"):
            fit_many([make_pipeline(one)], X, y)


def assert_alike_in_scores(one, other):
    np.testing.assert_allclose(to_host(one.objective_), other.objective_, rtol=1e-9)
    np.testing.assert_array_equal(to_host(one.classes_), other.classes_)


class TestFitManyElsewhere:
    def test_samples_in_memory_are_fitted_one_after_the_other(self, three_classes):
        X, y = three_classes
        weights = np.random.RandomState(0).rand(60)
        classifiers, rows = grid_of_folds(X, y, solver="device")
        fit_many(classifiers, X, y, rows, weights)
        for one, other in zip(classifiers, fitted_alone(classifiers, X, y, rows, weights), strict=True):
            np.testing.assert_array_equal(one.coef_, other.coef_)
            np.testing.assert_array_equal(one.objective_, other.objective_)

    def test_labels_and_weights_of_another_library(self, three_classes, put):
        X, y = three_classes
        weights = np.random.RandomState(0).rand(60)
        classifiers, rows = grid_of_folds(X, y, lams=(1.0,))
        fit_many(classifiers, X, put(y), rows, put(weights))
        for one, other in zip(classifiers, fitted_alone(classifiers, X, y, rows, weights), strict=True):
            np.testing.assert_array_equal(one.coef_, other.coef_)

    def test_samples_in_a_dask_array(self, three_classes):
        da = pytest.importorskip("dask.array", reason="needs Dask: pip install 'tensormargin[dask]'")
        from dask import config

        X, y = three_classes
        classifiers, rows = grid_of_folds(X, y, lams=(1.0,))
        with config.set(scheduler="synchronous"):
            fit_many(classifiers, da.from_array(X, chunks=(25, 4, 5)), y, rows)
        for one, other in zip(classifiers, fitted_alone(classifiers, X, y, rows), strict=True):
            assert isinstance(one.coef_, np.ndarray)
            assert_alike(one, other, 1e-8)
