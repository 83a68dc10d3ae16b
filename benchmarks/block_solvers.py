"""Comparison of solvers for one block problem, at the same relative duality gap.

``pip install ".[benchmarks]" && python benchmarks/block_solvers.py``

Our solvers (coordinate descent, interior point) are compared with PIQP and Clarabel on the dual box QP, skglm's
coordinate descent with its SVM datafit, and SciPy's L-BFGS-B. Solvers that are not installed are reported and skipped.
All gaps are computed by the same function (`BlockProblem.certify`), never by the solver.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from tensormargin.fitting import SOLVERS, MarginProblem, Objective
from tensormargin.fitting.blocks import BlockProblem, block_problem
from tensormargin.fitting.solvers.base import solution_at

CASES = {  # N, d, lam, mu on unit-norm samples
    "1000 x 500": (1000, 500, 100.0, 10.0),
    "12000 x 28": (12000, 28, 100.0, 10.0),
    "100 x 20000": (100, 20000, 1000.0, 10.0),
    "2000 x 60, no margin terms": (2000, 60, 1000.0, 0.0),
}


def make_problem(n: int, d: int, lam: float, mu: float) -> BlockProblem:
    rng = np.random.RandomState(0)
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)
    design = (rng.standard_normal((n, d)) + 2.0 * signs[:, None] * rng.standard_normal(d) / np.sqrt(d)) / np.sqrt(d)
    return block_problem(design, MarginProblem(signs, Objective(lam, mu, mu, np.full(n, 1 / n)), 1.0))


def ours(name: str) -> Callable[[BlockProblem, float], np.ndarray]:
    return lambda problem, tol: SOLVERS[name](problem, tol=tol, max_epochs=100_000).beta


def piqp(problem: BlockProblem, tol: float) -> np.ndarray:
    import piqp as library

    if len(problem.rows) > 3000:
        raise ValueError("it needs the N x N matrix")
    solver = library.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-3 * tol
    solver.settings.eps_duality_gap_rel = tol
    solver.setup(problem.rows @ problem.rows.T, -np.ones(len(problem.rows)), x_l=problem.lower, x_u=problem.upper)
    solver.solve()
    return np.asarray(solver.result.x)


def clarabel(problem: BlockProblem, tol: float) -> np.ndarray:
    """Run Clarabel on the sparse form: variables (u, beta) with u = A'beta."""
    import clarabel as library
    from scipy import sparse

    n, k = problem.rows.shape
    quadratic = sparse.block_diag([sparse.eye(k), sparse.csc_matrix((n, n))], format="csc")
    linear = np.concatenate([np.zeros(k), -np.ones(n)])
    identity = sparse.eye(n)
    empty = sparse.csc_matrix((n, k))
    constraints = sparse.vstack(
        [
            sparse.hstack([sparse.eye(k), -sparse.csc_matrix(problem.rows.T)]),
            sparse.hstack([empty, -identity]),
            sparse.hstack([empty, identity]),
        ],
        format="csc",
    )
    right = np.concatenate([np.zeros(k), -problem.lower, problem.upper])
    settings = library.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = tol
    cones = [library.ZeroConeT(k), library.NonnegativeConeT(2 * n)]
    solution = library.DefaultSolver(quadratic, linear, constraints, right, cones, settings).solve()
    return np.asarray(solution.x)[k:]


def skglm(problem: BlockProblem, tol: float) -> np.ndarray:
    """Run skglm's accelerated coordinate descent with its QuadraticSVC datafit, for boxes that start at 0 only."""
    from skglm.datafits import QuadraticSVC
    from skglm.penalties import IndicatorBox
    from skglm.solvers import AndersonCD
    from skglm.utils.jit_compilation import compiled_clone

    if np.any(problem.lower > 0):
        raise ValueError("its box starts at 0, so mu2 must be 0")
    rows = np.asfortranarray(problem.rows.T)
    solver = AndersonCD(tol=tol, max_iter=200, fit_intercept=False)
    datafit, penalty = compiled_clone(QuadraticSVC()), compiled_clone(IndicatorBox(float(problem.upper[0])))
    return solver.solve(rows, np.ones(rows.shape[1]), datafit, penalty)[0]


def lbfgsb(problem: BlockProblem, tol: float) -> np.ndarray:
    rows = problem.rows

    def value_and_gradient(beta: np.ndarray) -> tuple[float, np.ndarray]:
        u = beta @ rows
        return 0.5 * u @ u - beta.sum(), rows @ u - 1.0

    def stop(intermediate_result: object) -> None:
        if solution_at(problem, intermediate_result.x, 0, tol).converged:
            raise StopIteration

    bounds = np.column_stack([problem.lower, problem.upper])
    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 0.0, "gtol": 0.0}
    return minimize(value_and_gradient, problem.lower, jac=True, bounds=bounds, callback=stop, options=options).x


CONTENDERS: dict[str, tuple[str | None, Callable[[BlockProblem, float], np.ndarray]]] = {
    "dual_cd (ours)": (None, ours("dual_cd")),
    "interior_point (ours)": (None, ours("interior_point")),
    "piqp": ("piqp", piqp),
    "clarabel": ("clarabel", clarabel),
    "skglm": ("skglm", skglm),
    "L-BFGS-B": (None, lbfgsb),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tol", type=float, default=1e-6, help="relative duality gap asked for")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    for case, parameters in CASES.items():
        problem = make_problem(*parameters)
        print(f"\n{case} (columns after whitening: {problem.rows.shape[1]}): seconds, relative gap reached")
        for name, (package, solve) in CONTENDERS.items():
            try:
                if package:
                    importlib.import_module(package)
                solve(problem, arguments.tol)  # compiles
                times = []
                for _ in range(arguments.runs):
                    began = time.perf_counter()
                    beta = solve(problem, arguments.tol)
                    times.append(time.perf_counter() - began)
            except ImportError:
                print(f"{name:>22}  left out: {package} is not installed")
                continue
            except ValueError as error:
                print(f"{name:>22}  left out: {error}")
                continue
            beta = np.clip(beta, problem.lower, problem.upper)
            gap = solution_at(problem, beta, 0, arguments.tol).certificate.relative_gap
            print(f"{name:>22}  {np.median(times):8.4f}  {gap:.1e}", flush=True)


if __name__ == "__main__":
    main()
