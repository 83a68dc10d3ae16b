"""Reference implementations: the paper's dual as printed, solved by a general QP solver, and random problems."""

from __future__ import annotations

import numpy as np
import piqp


def random_block(n: int, d: int, seed: int):
    """Return (design, signs) of two overlapping, non-empty classes."""
    rng = np.random.RandomState(seed)
    signs = np.where(rng.permutation(n) < max(1, n // 3), 1.0, -1.0)
    return rng.standard_normal((n, d)) + 0.5 * signs[:, None], signs


def box_qp(quadratic: np.ndarray, linear: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return the minimiser of 1/2 x'Qx + q'x in a box, by an interior-point method."""
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-11
    solver.settings.eps_duality_gap_abs = solver.settings.eps_duality_gap_rel = 1e-11
    solver.settings.max_iter = 1000
    solver.setup(quadratic, linear, x_l=lower, x_u=upper)
    status = solver.solve()
    assert status in (piqp.PIQP_SOLVED, piqp.PIQP_MAX_ITER_REACHED)
    return np.asarray(solver.result.x)


def paper_coefficients(gram: np.ndarray, signs: np.ndarray, lam: float, mu1: float, mu2: float) -> np.ndarray:
    """Return beta with v = Z' beta of Eq. 14, with H of Eq. 13 formed as printed (N x N) from a Gram matrix."""
    n = len(gram)
    spread = 2 * mu1 / n**2 * (n * np.eye(n) - np.outer(signs, signs))
    inner = np.linalg.inv(np.eye(n) + spread @ gram)
    sign = np.diag(signs)
    dual = sign @ gram @ inner @ sign
    dual = (dual + dual.T) / 2
    alpha = box_qp(dual, mu2 / n * dual.sum(axis=1) - 1, np.zeros(n), np.full(n, lam / n))
    return inner @ sign @ (mu2 / n + alpha)


def paper_block(design: np.ndarray, signs: np.ndarray, lam: float, mu1: float, mu2: float) -> np.ndarray:
    """Return v of Eq. 14."""
    return design.T @ paper_coefficients(design @ design.T, signs, lam, mu1, mu2)
