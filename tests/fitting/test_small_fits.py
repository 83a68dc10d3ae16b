"""Tests of compiled code for small problems: the same answers as the general way, to rounding."""

from __future__ import annotations

import platform
import re
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import low_rank_classes, sparse_product
from reference import box_qp

from tensormargin import TensorMarginClassifier
from tensormargin.fitting import (
    FORMATS,
    SOLVERS,
    MarginProblem,
    MemorySamples,
    Objective,
    Start,
    alternate,
    native,
    small_problems,
    without_native,
)
from tensormargin.fitting import alternation as alternate_module
from tensormargin.fitting.alternation import BlockRequest
from tensormargin.fitting.blocks import block_problem
from tensormargin.fitting.objective import Certificate
from tensormargin.fitting.solvers import solve_dual_cd, solve_small_block
from tensormargin.runtime import tuning

compiled = pytest.mark.skipif(
    not native.has_native("tensormargin_fit"), reason="compiled code is missing: there was no C compiler"
)
pytestmark = pytest.mark.numerical


def margin_problem(n, seed=0, lam=10.0, mu1=1.0, mu2=1.0, bias=1.0):
    rng = np.random.RandomState(seed)
    weights = rng.rand(n) + 0.1
    signs = np.where(rng.permutation(n) < max(1, n // 3), 1.0, -1.0)
    return MarginProblem(signs, Objective(lam, mu1, mu2, weights / weights.sum()), bias)


CASES = {
    "tall": ((120, 10), {}),
    "wide": ((30, 200), {}),
    "square": ((40, 39), {}),
    "hinge only": ((200, 8), {"mu1": 0.0, "mu2": 0.0}),
    "hinge only, wide, large lambda": ((40, 60), {"mu1": 0.0, "mu2": 0.0, "lam": 1e4}),
    "hinge only, tall, large lambda": ((150, 20), {"mu1": 0.0, "mu2": 0.0, "lam": 1e3}),
    "variance only": ((100, 8), {"mu1": 10.0, "mu2": 0.0}),
    "strong variance": ((100, 8), {"mu1": 1e4}),
    "strong mean": ((100, 8), {"mu2": 1e3}),
    "tiny lambda": ((100, 8), {"lam": 1e-6}),
    "no intercept": ((50, 8), {"bias": 0.0}),
    "two samples": ((2, 3), {}),
    "one column": ((60, 1), {}),
}


@compiled
@pytest.mark.parametrize("lam", [10.0, 1e3, 1e5])
@pytest.mark.parametrize("kind", ["copies", "rounded", "dependent columns"])
def test_many_samples_at_margin_one_are_solved_exactly(kind, lam):
    """Rows that depend on each other: more samples can be at margin one than there are columns."""
    problem = margin_problem(90, lam=lam, mu1=0.0, mu2=0.0)
    design = np.random.RandomState(1).standard_normal((90, 6)) + 0.5 * problem.signs[:, None]
    if kind == "copies":
        design[45:] = design[:45]
    elif kind == "rounded":
        design = np.round(design)
    else:
        design[:, 3:] = design[:, :1]
    solution = solve_small_block(design, problem, None, 1e-9)
    assert solution is not None
    assert solution.certificate.relative_gap < 1e-11


@compiled
@pytest.mark.parametrize("case", CASES)
class TestBlocks:
    def solve(self, case, **changes):
        (n, d), strengths = CASES[case]
        problem = margin_problem(n, **{**strengths, **changes})
        design = np.random.RandomState(1).standard_normal((n, d)) + 0.5 * problem.signs[:, None]
        return design, problem, solve_small_block(design, problem, None, 1e-9)

    def test_the_general_way_ends_at_the_same_vector(self, case):
        design, problem, solution = self.solve(case)
        block = block_problem(design, problem, 1e-10)
        general = solve_dual_cd(block, tol=1e-12, max_epochs=100000)
        recovered = block.recover(general.u, general.margins)
        scale = np.abs(recovered.vector).max()
        np.testing.assert_allclose(solution.vector, recovered.vector, atol=2e-5 * scale)
        assert solution.intercept == pytest.approx(recovered.intercept, abs=2e-5 * (scale + abs(recovered.intercept)))

    def test_a_general_qp_solver_finds_the_same_dual(self, case):
        design, problem, solution = self.solve(case)
        block = block_problem(design, problem, 1e-10)
        rows = np.asarray(block.rows, np.float64)
        reference = np.clip(
            box_qp(rows @ rows.T, -np.ones(len(rows)), block.lower, block.upper), block.lower, block.upper
        )
        u = reference @ rows
        best = block.certify(u, reference, rows @ u)
        assert abs(solution.certificate.dual - best.dual) <= 1e-7 * solution.certificate.scale

    def test_the_certificate_is_that_of_the_vector(self, case):
        design, problem, solution = self.solve(case)
        centre = problem.objective.weights @ design
        bias = (solution.intercept + solution.vector @ centre) / problem.bias_scale if problem.bias_scale else 0.0
        margins = problem.signs * (design @ solution.vector + solution.intercept)
        value = problem.objective.value(solution.vector @ solution.vector + bias**2, margins)
        assert value == pytest.approx(solution.certificate.primal, rel=1e-9, abs=1e-12)
        assert 0 <= solution.certificate.relative_gap <= 1e-9

    def test_any_start_leads_there(self, case):
        design, problem, solution = self.solve(case)
        start = np.random.RandomState(3).standard_normal(len(design))
        other = solve_small_block(design, problem, start, 1e-9)
        assert other.certificate.primal == pytest.approx(solution.certificate.primal, rel=1e-8)

    def test_nothing_is_written_to_its_input(self, case):
        design, problem, _ = self.solve(case)
        start = problem.objective.weights.copy()
        for array in (design, start, problem.signs, problem.objective.weights):
            array.flags.writeable = False
        assert solve_small_block(design, problem, start, 1e-9) is not None


@compiled
def test_only_arrays_that_c_can_read_are_passed_to_it():
    problem, answer = margin_problem(20), np.empty(4)
    objective = problem.objective
    strengths, limits = small_problems.strengths(objective), small_problems.limits()
    for design in (np.ones((20, 4), np.float32), np.ones((4, 20)).T):
        with pytest.raises(TypeError, match="contiguous array of float64"):
            native.NativeCall(
                "tensormargin_solve_small",
                *(20, 4, design, problem.signs, objective.weights, strengths, 1.0, limits),
                *(np.zeros(20), np.zeros(20), answer),
                sizes=(80, 20, 20, 3, 7, 20, 20, 4),
            )


@compiled
@pytest.mark.parametrize("which", range(3))
def test_arrays_of_a_block_that_do_not_fit_together_are_refused(which):
    problem, design = margin_problem(20), np.ones((20, 4))
    start, objective = np.zeros(20), problem.objective
    if which == 0:
        problem = replace(problem, signs=problem.signs[:-1])
    elif which == 1:
        problem = replace(problem, objective=replace(objective, weights=objective.weights[1:]))
    else:
        start = np.zeros(19)
    with pytest.raises(ValueError, match=r"tensormargin_solve_small needs arrays with \[80, 20, 20, 3"):
        solve_small_block(design, problem, start, 1e-9)


@compiled
@pytest.mark.parametrize(
    ("rows", "labels", "words"),
    [
        ([0, 1, 6], 3, "rows must be whole numbers from 0 to 5; got 0 to 6"),
        ([-1, 1, 2], 3, "rows must be whole numbers from 0 to 5; got -1 to 2"),
        ([0.0, 1.0, 2.0], 3, "rows must be whole numbers; got float64"),
        ([0, 1, 2], 2, r"needs arrays with .* entries"),
    ],
)
def test_rows_outside_the_inner_products_are_refused(rows, labels, words):
    grams, ranges = np.eye(6)[None], np.array([[1e-292, 1e308, 1e12]])
    kind, strengths = (True, False), np.array([1.0, 1.0, 1.0])
    signs, weights = np.ones(labels), np.full(labels, 1 / 3)
    with pytest.raises(ValueError, match=words):
        small_problems.solve_flat(grams, np.ones(1), ranges, [np.array(rows)], signs, weights, strengths, kind)


@compiled
def test_blocks_solved_in_threads_are_those_of_one():
    """Every argument must live as long as the call: other threads reuse freed memory at once."""
    cases = [(np.random.RandomState(k).standard_normal((40, 6)), margin_problem(40, k)) for k in range(200)]
    expected = [solve_small_block(*case, None, 1e-9).vector for case in cases]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            found = list(pool.map(lambda case: solve_small_block(*case, None, 1e-9).vector, cases))
            np.testing.assert_array_equal(found, expected)


@compiled
def test_nothing_is_solved_from_what_is_not_a_number():
    problem = margin_problem(20)
    design = np.random.RandomState(0).standard_normal((20, 4))
    design[3, 1] = np.nan
    assert solve_small_block(design, problem, None, 1e-9) is None


FITS = [
    ("cp", (8, 7), 1),
    ("cp", (8, 7), 2),
    ("tt", (8, 7), 3),
    ("tucker", (8, 7), 2),
    ("tucker", (3, 7), (3, 3)),
    ("cp", (4, 5, 6), 1),
    ("tucker", (4, 5, 6), 2),
    ("tucker", (4, 5, 6), (1, 2, 2)),
    ("tucker", (3, 2, 4, 3), 2),
    ("cp", (4, 5, 6), 2),
    ("cp", (4, 5, 6), 3),
    ("cp", (3, 2, 4), 4),  # more components than entries of a mode
    ("cp", (3, 2, 4, 3), 2),
    ("cp", (2, 3, 40), 2),  # one factor too large to be fitted after a step
    ("tt", (4, 5, 6), 2),
    ("tt", (4, 9, 5), (2, 3)),
]


def both_ways(name, X, signs, rank, tol=1e-6, **strengths):
    """Yield the fit by compiled code and then the one by Python, from the same start."""
    shape = X.shape[1:]
    problem = MarginProblem(
        signs, Objective(*strengths["lam_mu"], np.full(len(X), 1 / len(X))), strengths.get("bias", 2.0)
    )
    start = FORMATS[name].from_dense(
        (signs[:, None] * X.reshape(len(X), -1)).mean(axis=0).reshape(shape),
        FORMATS[name].valid_rank(rank, shape),
        np.random.RandomState(0),
    )
    yield alternate(MemorySamples(X), problem, Start(start), SOLVERS["dual_cd"], tol, 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alternate_module, "small_fit", lambda *_: None)
        yield alternate(MemorySamples(X), problem, Start(start), SOLVERS["dual_cd"], tol, 60)


@compiled
@pytest.mark.parametrize(("name", "shape", "rank"), FITS, ids=str)
@pytest.mark.parametrize("lam_mu", [(1.0, 1.0, 1.0), (50.0, 0.0, 0.0), (5.0, 10.0, 0.0)], ids=str)
class TestSweeps:
    def test_both_ways_make_the_same_sweeps(self, name, shape, rank, lam_mu):
        X, signs = low_rank_classes(1, 40, shape, 1.0)
        one, other = both_ways(name, X, signs, rank, lam_mu=lam_mu)
        n_sweeps = min(len(one.sweeps), len(other.sweeps), 6)  # rounding grows from sweep to sweep
        for a, b in zip(one.sweeps[:n_sweeps], other.sweeps[:n_sweeps], strict=True):
            assert a.objectives[-1] == pytest.approx(b.objectives[-1], rel=1e-6, abs=1e-9)
        assert one.objective == pytest.approx(other.objective, rel=1e-3, abs=1e-9)
        assert type(one.weight) is type(other.weight)
        assert one.weight.rank == other.weight.rank

    def test_the_objective_is_that_of_the_weight_and_never_rises(self, name, shape, rank, lam_mu):
        X, signs = low_rank_classes(2, 25, shape, 1.0)
        fit = next(both_ways(name, X, signs, rank, lam_mu=lam_mu))
        weight = fit.weight.to_dense()
        bias = (fit.intercept + np.sum(weight * X.mean(axis=0))) / 2.0
        margins = signs * (X.reshape(25, -1) @ weight.ravel() + fit.intercept)
        value = Objective(*lam_mu, np.full(25, 1 / 25)).value(np.sum(weight**2) + bias**2, margins)
        assert value == pytest.approx(fit.objective, rel=1e-9)
        assert np.all(np.diff([sweep.objectives[-1] for sweep in fit.sweeps]) <= 0)


@compiled
def test_single_precision_and_offsets_make_no_difference():
    X, y = low_rank_classes(0, 40, (6, 7), 1.0)
    clf = TensorMarginClassifier("cp", 2).fit(X, y)
    for other, tolerance in ((X.astype(np.float32), 1e-4), (X + 1e5, 1e-6)):
        again = TensorMarginClassifier("cp", 2).fit(other, y)
        np.testing.assert_allclose(again.coef_, clf.coef_, atol=tolerance * np.abs(clf.coef_).max())


@compiled
def test_a_gap_that_is_not_reached_hands_over_to_the_general_way(monkeypatch):
    monkeypatch.setattr(tuning, "CONVEX_WORK", 0)  # one start
    X, y = low_rank_classes(0, 40, (6, 7), 1.0)
    expected = TensorMarginClassifier("cp", 2).fit(X, y)
    run, made = small_problems.SmallFit.run, []

    def second_fails(self, most, from_all=False):
        made.append(run(self, 1, from_all))
        return False

    monkeypatch.setattr(small_problems.SmallFit, "run", second_fails)
    clf = TensorMarginClassifier("cp", 2).fit(X, y)
    assert made == [True]
    assert clf.n_iter_ > 1
    assert clf.objective_[0] == pytest.approx(expected.objective_[0], rel=1e-3)


@pytest.mark.parametrize(
    ("weight", "n_classes", "more"),
    sparse_product(
        [("full", None), ("cp", 1), ("cp", 2), ("tucker", 2), ("tt", 2)],
        [2, 3],
        [{}, {"fit_intercept": False, "multi_class": "ovr"}, {"mu1": 0.0, "mu2": 0.0}],
        length=10,  # both numbers of classes with every weight
    ),
    ids=str,
)
def test_compiled_code_and_python_give_the_same_answers(weight, n_classes, more):
    """Without a compiler everything works, in the same steps."""
    X, y = low_rank_classes(0, 40, (6, 7), 1.0)
    if n_classes == 3:
        y = np.arange(len(X)) % 3
        X = X + 0.8 * y[:, None, None]
    weights = np.linspace(0.5, 2.0, len(X))
    compiled_fit = TensorMarginClassifier(*weight, **more).fit(X, y, sample_weight=weights)
    with without_native():
        python_fit = TensorMarginClassifier(*weight, **more).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(python_fit.objective_, compiled_fit.objective_, rtol=1e-9)
    expected = compiled_fit.decision_function(X)
    np.testing.assert_allclose(python_fit.decision_function(X), expected, atol=1e-7 * np.abs(expected).max())
    np.testing.assert_array_equal(python_fit.predict(X), compiled_fit.predict(X))


@compiled
def test_fits_in_threads_are_those_of_one():
    """The compiled code runs without the GIL and shares no memory between calls."""
    X, y = low_rank_classes(0, 60, (8, 9), 1.0)
    lams = [0.1, 1.0, 10.0, 100.0] * 4
    found = [None] * len(lams)

    def fit(k):
        found[k] = TensorMarginClassifier("cp", 2, lam=lams[k]).fit(X, y).coef_

    threads = [threading.Thread(target=fit, args=(k,)) for k in range(len(lams))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, lam in enumerate(lams):
        np.testing.assert_array_equal(found[k], TensorMarginClassifier("cp", 2, lam=lam).fit(X, y).coef_)


@pytest.mark.parametrize(
    ("way", "shape"),
    [
        *(pytest.param("compiled", shape, marks=compiled) for shape in ((6, 7), (4, 5, 3))),
        ("python", (4, 5, 3)),
        pytest.param("python", (6, 7), marks=pytest.mark.campaign),
    ],
)
@pytest.mark.parametrize(("name", "rank"), [("full", None), ("cp", 1), ("cp", 2), ("tucker", 2), ("tt", 2)])
def test_a_scale_free_fit_does_not_depend_on_the_scale(name, rank, shape, way, monkeypatch):
    if way == "python":
        monkeypatch.setattr(native, "has_native", lambda _: False)
    X, y = low_rank_classes(0, 40, shape, 1.0)
    expected = TensorMarginClassifier(name, rank).fit(X, y)
    for exponent in (-144, -78, 78, 82, 150):
        clf = TensorMarginClassifier(name, rank).fit(X * 10.0**exponent, y)
        scores = clf.decision_function(X * 10.0**exponent)
        np.testing.assert_allclose(scores, expected.decision_function(X), atol=1e-6, rtol=1e-6)


def test_a_negative_gap_is_no_certificate():
    assert Certificate(1.0, 1.5, 1.0).relative_gap == pytest.approx(0.5)


def test_a_huge_variance_term_is_certified_only_where_it_is_solved():
    for seed in range(40):
        rng = np.random.RandomState(seed)
        design = rng.standard_normal((rng.randint(10, 60), rng.randint(2, 40)))
        mu1 = 10.0 ** rng.randint(13, 37)
        problem = margin_problem(len(design), seed, mu1=mu1, lam=100.0)
        solved = [
            alternate_module.solve_block(design, BlockRequest(None, None, 1e-4), problem, solver)
            for solver in SOLVERS.values()
        ]
        certified = [one.certificate for one in solved if one.gap <= 1e-4]
        assert len(certified) == len(solved) or mu1 > 1e24
        for certificate in certified:
            assert abs(certificate.primal - certificate.dual) <= 1e-4 * certificate.scale
            assert abs(certificate.primal - certified[0].primal) <= 2e-4 * certificate.scale


@compiled
@pytest.mark.parametrize("gap", [0.0, 0.1])
def test_a_fit_that_gives_up_leaves_what_belongs_to_its_weight(gap, monkeypatch):
    X, y = low_rank_classes(0, 40, (6, 7), 1.0)
    problem = margin_problem(len(y), bias=0.0)
    samples, weight = MemorySamples(X), FORMATS["tucker"].from_dense(X.mean(axis=0), 2, np.random.RandomState(0))
    monkeypatch.setattr(tuning, "GAP_SHARE", gap)  # no solve has a gap of zero
    small = small_problems.small_fit(samples, problem, weight, None, 1e-3)
    assert small.run(20) is (gap > 0.0)
    assert bool(small.converged) is (gap > 0.0)
    reached = small.weight().to_dense()
    margins = problem.signs * (X.reshape(len(X), -1) @ reached.ravel())
    assert small.objective == pytest.approx(problem.objective.value(np.sum(reached**2), margins))


@compiled
@pytest.mark.parametrize("shape", [(6, 7), (7, 6), (4, 5, 3), (7, 7)], ids=str)
@pytest.mark.parametrize(("name", "rank"), [("cp", 1), ("cp", 2), ("tucker", 2), ("tt", 2)])
def test_a_second_start_from_compiled_code_is_that_of_python(name, rank, shape, monkeypatch):
    X, y = low_rank_classes(3, 40, shape, 0.5)
    if shape[0] == shape[1]:
        X = X + X.transpose(0, 2, 1)  # the start of symmetric matrices takes random numbers
    settings = {"lam": 30.0, "mu1": 0.0, "mu2": 0.0}
    clf = TensorMarginClassifier(name, rank, **settings).fit(X, y)
    monkeypatch.setattr(tuning, "MOST_EIGENVECTORS", 0)
    other = TensorMarginClassifier(name, rank, **settings).fit(X, y)
    assert other.n_iter_ == clf.n_iter_
    np.testing.assert_allclose(other.history_["objective"], clf.history_["objective"], rtol=1e-8)


class TestLibrary:
    """Only the library of this version is called."""

    def prototypes(self):
        text = "".join(path.read_text() for path in sorted(Path(native.__file__).parent.glob("*.[ch]")))
        for real, name in (("float", "float32"), ("double", "float64")):  # rows.c includes rows.h twice
            rows = (Path(native.__file__).parent / "rows.h").read_text()
            text += re.sub(r"NAME\((\w+)\)", rf"\1{name}", rows.replace("REAL", real))
        return {
            name: found[1].split(",")
            for name in native._ARGUMENTS
            if (found := re.search(rf"{name}\(([^)]*)\) {{", text))
        }

    def test_the_signatures_are_those_of_the_sources(self):
        found = self.prototypes()
        assert set(found) == set(native._ARGUMENTS)
        arrays = {"float": "_Singles", "double": "_Doubles", "int64_t": "_Whole", "uint64_t": "_Seed"}
        for name, parameters in found.items():
            kinds = []
            for one in parameters:
                (kind,) = (word for word in one.replace("*", " ").split() if word in arrays)
                plain = native._INTEGER if kind == "int64_t" else native._NUMBER
                kinds.append(getattr(native, arrays[kind]) if "*" in one else plain)
            assert kinds == native._ARGUMENTS[name]

    def test_the_version_is_that_of_the_sources(self):
        header = (Path(native.__file__).parent / "small.h").read_text()
        assert f"#define ABI {native.ABI} " in header

    @compiled
    @pytest.mark.parametrize("fault", ["damaged", "another library", "without a function", "another version"])
    def test_another_library_is_not_used(self, fault, foreign_library):
        foreign_library(fault)
        with pytest.warns(RuntimeWarning, match="is not used") as caught:
            assert not native.has_native("tensormargin_fit")
        with warnings.catch_warnings(action="error"):
            assert not native.has_native("tensormargin_solve_small")
            X, y = low_rank_classes(0, 20, (4, 5), 2.0)
            assert TensorMarginClassifier("cp").fit(X, y).score(X, y) == 1.0
        assert len(caught) == 1

    @compiled
    @pytest.mark.parametrize("has_avx2", [False, True])
    @pytest.mark.parametrize("damaged", [False, True])
    def test_the_library_for_avx2_is_used_where_the_processor_has_it(
        self, has_avx2, damaged, foreign_library, monkeypatch
    ):
        content = native._LIBRARY.read_bytes()
        load = native._loaded

        def loaded(path):
            library = load(path)
            if library is not None:
                library.tensormargin_has_avx2 = lambda: has_avx2
            return library

        monkeypatch.setattr(native, "_loaded", loaded)
        foreign_library("none")
        wide = native._LIBRARY.with_name("small_avx2.so")
        wide.write_bytes(b"no library" if damaged else content)
        with (
            pytest.warns(RuntimeWarning, match=r"small_avx2\.so is not used") if has_avx2 and damaged else nullcontext()
        ):
            assert native.has_native("tensormargin_fit")
        assert Path(native._library()._name).name == ("small_avx2.so" if has_avx2 and not damaged else "small.so")

    @compiled
    @pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="asks Linux what the processor has")
    def test_the_processor_is_asked(self):
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
        emulated = platform.machine() != "x86_64"  # then the file may tell what the machine below has
        assert bool(native._library().tensormargin_has_avx2()) == ("avx2" in flags and not emulated)

    def test_only_the_library_of_the_package_is_loaded(self):
        assert native._LIBRARY.parent == Path(native.__file__).parent
