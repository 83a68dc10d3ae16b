"""Tests of steps in the tangent space of the weights of one rank."""

from __future__ import annotations

import numpy as np
import pytest
from campaigns.optima import excess, hard_problem, only_passes
from campaigns.problems import fitted
from conftest import low_rank_classes

from tensormargin import TensorMarginClassifier
from tensormargin.fitting import FORMATS, SOLVERS, MarginProblem, MemorySamples, Objective, Start, alternate

pytestmark = pytest.mark.numerical

WEIGHTS = [
    *(("cp", shape, rank) for shape in ((5, 4), (4, 4)) for rank in (1, 2, 4)),
    *(("cp", shape, 1) for shape in ((5,), (5, 4, 3), (4, 3, 5, 2))),
    *(("cp", shape, rank) for shape in ((5, 4, 3), (4, 3, 5, 2)) for rank in (2, 4)),
    *(
        (name, shape, rank)
        for name in ("tucker", "tt")
        for shape in ((5, 4), (5, 4, 3), (4, 3, 5, 2))
        for rank in (1, 2, 4)
    ),
    ("tucker", (5, 4, 3), (1, 2, 2)),
    ("tt", (5, 4, 3), (2, 3)),
]


def random_weight(name, shape, rank, seed=0):
    rng = np.random.RandomState(seed)
    return FORMATS[name].from_dense(rng.standard_normal(shape), FORMATS[name].valid_rank(rank, shape), rng)


def design(X, tangent):
    samples = MemorySamples(X)
    return np.hstack([one.projected(samples.design(one)) for one in tangent.contractions])


def basis(tangent, shape):
    """Return the tangent space as the columns of a matrix: the design of all unit tensors."""
    return design(np.eye(int(np.prod(shape))).reshape(-1, *shape), tangent)


def n_free_parameters(name, shape, rank):
    """Return the dimension of the set of weights of one rank, as the books have it."""
    if name == "tt":
        bonds = (1, *rank, 1)
        return sum(a * size * b for a, size, b in zip(bonds, shape, bonds[1:], strict=False)) - sum(r * r for r in rank)
    if name == "cp" and rank > 1 and len(shape) > 2:
        return rank * (sum(shape) - len(shape) + 1)
    ranks = (rank,) * len(shape) if isinstance(rank, int) else rank
    return int(np.prod(ranks)) + sum(r * (size - r) for r, size in zip(ranks, shape, strict=True))


@pytest.mark.parametrize(("name", "shape", "rank"), WEIGHTS, ids=str)
class TestTheSpace:
    def test_the_weight_lies_in_it(self, name, shape, rank):
        weight = random_weight(name, shape, rank)
        tangent = weight.tangent()
        X = np.random.RandomState(1).standard_normal((7, *shape))
        np.testing.assert_allclose(
            design(X, tangent) @ tangent.vector, X.reshape(7, -1) @ weight.to_dense().ravel(), atol=1e-12
        )
        np.testing.assert_allclose(tangent.retract(tangent.vector).to_dense(), weight.to_dense(), atol=1e-12)

    def test_its_basis_is_orthonormal_but_for_removed_directions(self, name, shape, rank):
        weight = random_weight(name, shape, rank)
        columns = basis(weight.tangent(), shape)
        values = np.linalg.eigvalsh(columns.T @ columns)
        np.testing.assert_allclose(values, np.round(values), atol=1e-12)
        assert set(np.round(values)) <= {0.0, 1.0}
        assert round(values.sum()) == n_free_parameters(name, shape, weight.rank)

    def test_the_way_back_is_exact_to_first_order(self, name, shape, rank):
        weight = random_weight(name, shape, rank)
        tangent = weight.tangent()
        columns = basis(tangent, shape)
        direction = columns.T @ np.random.RandomState(2).standard_normal(len(columns))
        errors = []
        for step in (1e-2, 1e-3):
            there = tangent.retract(tangent.vector + step * direction)
            assert there.rank == weight.rank
            errors.append(
                np.linalg.norm(there.to_dense().ravel() - weight.to_dense().ravel() - step * columns @ direction)
            )
        assert errors[1] <= 0.02 * errors[0] + 1e-12

    def test_every_block_lies_in_it(self, name, shape, rank):
        weight = random_weight(name, shape, rank)
        columns = basis(weight.tangent(), shape)
        outside = np.eye(len(columns)) - columns @ columns.T
        for index in range(len(weight.block_names)):
            block = weight.block(index)
            moved = block.replace(block.vector + 1.0).to_dense().ravel()
            np.testing.assert_allclose(outside @ moved, 0, atol=1e-10)

    def test_the_refitted_block_is_the_weights(self, name, shape, rank):
        weight = random_weight(name, shape, rank)
        block = weight.refit()
        X = np.random.RandomState(1).standard_normal((7, *shape))
        scores = MemorySamples(X).design(block.contraction) @ block.vector
        np.testing.assert_allclose(scores, X.reshape(7, -1) @ weight.to_dense().ravel(), atol=1e-12)
        np.testing.assert_allclose(block.replace(block.vector).to_dense(), weight.to_dense(), atol=1e-12)


@pytest.mark.parametrize(("name", "rank"), [("cp", 1), ("cp", 2), ("tucker", 2), ("tt", 2)])
def test_a_fit_does_not_depend_on_the_order_of_the_modes(name, rank):
    X, y = low_rank_classes(0, 50, (6, 9), 1.0)
    one = TensorMarginClassifier(name, rank, lam=10.0, mu1=0.0, mu2=0.0).fit(X, y)
    other = TensorMarginClassifier(name, rank, lam=10.0, mu1=0.0, mu2=0.0).fit(X.transpose(0, 2, 1), y)
    np.testing.assert_allclose(one.coef_, other.coef_.transpose(0, 2, 1), atol=1e-6 * np.abs(one.coef_).max())


@pytest.mark.parametrize(
    ("name", "shape", "rank"), [("cp", (6, 5), 2), ("cp", (5, 4, 6), 2), ("tucker", (5, 4, 6), 2), ("tt", (5, 4, 6), 2)]
)
@pytest.mark.parametrize("mu", [0.0, 1.0])
def test_no_direction_of_the_space_leads_further_down(name, shape, rank, mu):
    """Check that the end is stationary, also where the hinge has a corner: block by block this need not hold."""
    X, signs = low_rank_classes(3, 30, shape, 1.0)
    problem = MarginProblem(signs, Objective(20.0, mu, mu, np.full(30, 1 / 30)), 2.0)
    weight = random_weight(name, shape, rank, seed=5)
    fit = alternate(MemorySamples(X), problem, Start(weight), SOLVERS["dual_cd"], 1e-7, 500)

    def value(dense):
        bias = fit.intercept + np.sum(fit.weight.to_dense() * X.mean(axis=0))  # the intercept of centred samples
        margins = signs * ((X - X.mean(axis=0)).reshape(30, -1) @ dense.ravel() + bias)
        return problem.objective.value(float(np.sum(dense**2)) + (bias / 2.0) ** 2, margins)

    tangent = fit.weight.tangent()
    columns = basis(tangent, shape)
    assert value(fit.weight.to_dense()) == pytest.approx(fit.objective, rel=1e-9)
    for seed in range(50):
        direction = columns.T @ np.random.RandomState(seed).standard_normal(len(columns))
        near = tangent.retract(tangent.vector + 1e-3 * direction / np.linalg.norm(direction))
        assert value(near.to_dense()) >= fit.objective - 1e-6 * abs(fit.objective)


def test_steps_of_sums_of_rank_one_tensors_end_lower_than_passes(monkeypatch):
    problems = [hard_problem(0, case) for case in range(70) if case % 7 in (1, 2)]  # CP of rank 2 and 4
    problems = [problem for problem in problems if problem.X.ndim > 3]
    steps = [fitted(problem) for problem in problems]
    monkeypatch.setattr(FORMATS["cp"], "has_tangent", property(lambda weight: weight.has_core))
    above = [excess(problem, fitted(problem), step) for problem, step in zip(problems, steps, strict=True)]
    assert len(above) > 10
    assert np.mean(above) > 0.05
    assert min(above) > -0.02


def test_nearly_equal_components_do_not_move_by_much():
    rng = np.random.RandomState(0)
    weight = random_weight("cp", (5, 4, 3), 2)
    near = [np.column_stack([factor[:, 0], factor[:, 0] + 1e-6 * factor[:, 1]]) for factor in weight.factors]
    twins = FORMATS["cp"].from_tensorly((np.array([1.0, -0.9]), near), (5, 4, 3))
    tangent = twins.tangent()
    moved = tangent.retract(tangent.vector + 0.1 * rng.standard_normal(len(tangent.vector)))
    assert np.linalg.norm(moved.to_dense() - twins.to_dense()) < 10.0


def test_fits_end_no_higher_than_the_best_of_eight_passes_over_the_blocks():
    """Check the claim of the guide, on average over fits with the hinge alone and a large lambda."""
    steps, passes, best_of_eight = [], [], []
    for seed in range(10):
        X, y = low_rank_classes(seed, 40, (8, 9), 1.0)
        model = TensorMarginClassifier("cp", 1 + seed % 2, lam=10.0, mu1=0.0, mu2=0.0, random_state=0)
        steps.append(model.fit(X, y).objective_[0])
        with only_passes():
            passes.append(model.fit(X, y).objective_[0])
            best_of_eight.append(model.set_params(n_init=8).fit(X, y).objective_[0])
    assert np.mean(np.divide(steps, best_of_eight)) <= 1.0
    assert np.mean(np.divide(passes, best_of_eight)) >= 1.1


def test_samples_that_are_symmetric_do_not_hold_the_weight_to_be():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, 8, 8))
    X += X.transpose(0, 2, 1)
    y = X[:, 0, 1] + 0.3 * rng.standard_normal(60) > 0  # the best weight of rank one is e_1 e_2'
    clf = TensorMarginClassifier("cp", 1).fit(X, y)
    weight = clf.coef_[0]
    assert np.linalg.norm(weight - weight.T) > 0.5 * np.linalg.norm(weight)
