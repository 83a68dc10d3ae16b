"""Flat weights of binary problems that share samples and sample weights, by inner products: one-vs-rest.

Their quadratic forms (Eq. 12) are ``Q = I + 2 mu1 (S - mm')``, where the second moments S are the same and only the
mean margins m, which depend on the signs, differ. With inner products G of the samples and a diagonal matrix P of their
weights, the inner products in coordinates in which ``I + 2 mu1 S`` is the identity are

    H = G - G P^1/2 (I / (2 mu1) + P^1/2 G P^1/2)^-1 P^1/2 G.

They are computed once. Each problem then adds a change of rank one; no coordinates are ever formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..runtime import Array, FloatArray, triangles, tuning
from .blocks import moments_are_too_coarse
from .objective import Certificate, MarginProblem, Objective
from .row_loops import descend_products
from .solvers.dual_cd import face_minimum

_EXACT = 1e-13  # relative gap: rounding leaves about as much


class FlatSolution(NamedTuple):
    """A flat weight as a combination of samples, its intercept, and its certificate for Eq. 7."""

    shares: FloatArray
    intercept: float
    certificate: Certificate


@dataclass(frozen=True)
class SharedForm:
    """Inner products of samples as they are, and where the part of the form that all signs share is the identity."""

    gram: FloatArray
    products: FloatArray
    problem: MarginProblem  # whose signs do not matter

    @classmethod
    def of(cls, gram: FloatArray, problem: MarginProblem, tol: float) -> SharedForm | None:
        """Return the form for the inner products of samples, which are centred if there is an intercept.

        None if rounding of the second moments would change a relative gap by a good part of ``tol``.
        """
        objective = problem.objective
        gram = gram + problem.bias_scale**2  # of the intercept's column
        if objective.mu1 == 0.0:
            return cls(gram, gram, problem)
        mean_square = objective.weights @ np.diagonal(gram)
        if moments_are_too_coarse(np.array([mean_square]), objective.mu1, tol):
            return None
        roots = np.sqrt(2.0 * objective.mu1 * objective.weights)
        weighted = gram * roots
        form = weighted * roots[:, None]
        form.flat[:: len(form) + 1] += 1.0
        factor = triangles.cholesky(form)
        if factor is None:
            return None
        whitened = triangles.solve(factor, weighted)
        return cls(gram, gram - whitened @ whitened.T, problem)

    def solve(self, signs: FloatArray, tol: float) -> FlatSolution:
        """Return the solution for samples with these labels, 1 or -1, to a relative gap of ``tol`` if that is found."""
        problem = _SignedForm.of(self, signs)
        return problem.recovered(*problem.dual_point(tol))


@dataclass(frozen=True)
class _SignedForm:
    """One of the problems: ``H + factor vv'`` are the inner products of its samples, which have signs."""

    form: SharedForm
    signs: FloatArray
    vector: FloatArray
    factor: float

    @classmethod
    def of(cls, form: SharedForm, signs: FloatArray) -> _SignedForm:
        objective = form.problem.objective
        signed = objective.weights * signs
        vector = form.products @ signed
        left = 1.0 - 2.0 * objective.mu1 * float(signed @ vector)  # positive but for rounding
        # (I - 2 mu1 mm')^-1 = I + factor mm'
        return cls(form, signs, vector, 2.0 * objective.mu1 / max(left, np.finfo(float).eps))

    @property
    def objective(self) -> Objective:
        return self.form.problem.objective

    @cached_property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Bounds of the dual point (Eq. 14)."""
        weights = self.objective.weights
        return self.objective.mu2 * weights, (self.objective.mu2 + self.objective.lam) * weights

    def margins(self, beta: FloatArray) -> FloatArray:
        """Return the margins that belong to a dual point."""
        signed = self.signs * beta
        own: FloatArray = self.form.products @ signed
        own += self.factor * float(self.vector @ signed) * self.vector
        return self.signs * own

    def dual_point(self, tol: float) -> tuple[FloatArray, FloatArray, float]:
        """Return a dual point, its margins and its dual value.

        Its relative gap is ``tol``, or as small as is found; for few samples it is exact.
        """
        lower, _ = self.bounds
        if self.form.products.size <= tuning.SMALL_GRAM:
            tol = _EXACT
        beta, seed, epochs = lower.copy(), np.array([1], np.uint64), tuning.FIRST_ROUND
        best, least = (beta, beta, -np.inf), np.inf
        for _ in range(tuning.PRODUCT_ROUNDS):
            margins = self.margins(beta)
            half_square = 0.5 * float(beta @ margins)
            at = self.objective.certificate(half_square, margins, float(np.sum(beta - lower)) - half_square)
            if at.relative_gap < least:
                best, least = (beta, margins, at.dual), at.relative_gap
            if least <= tol:
                break
            beta = self._descended(beta, margins, seed, 0.5 * tol * at.scale, epochs)
            epochs *= 2
        return best

    def _descended(self, beta: FloatArray, margins: FloatArray, seed: Array, target: float, most: int) -> FloatArray:
        """Return a better dual point; if so many epochs are not enough, minimise over the free coordinates as well."""
        signed, bounds = self.signs * beta, self.bounds
        along = np.array([self.vector @ signed])
        scores = self.signs * margins - self.factor * along[0] * self.vector
        beta = beta.copy()
        products = self.form.products, self.vector, self.factor
        if descend_products(products, (self.signs, *bounds), (beta, scores, along), seed, target, most) < most:
            return beta
        free = np.flatnonzero((beta > bounds[0]) & (beta < bounds[1]))
        if 0 < free.size <= tuning.MOST_FREE:
            signs, vector = self.signs[free], self.vector[free]
            gram = (self.form.products[np.ix_(free, free)] + self.factor * np.outer(vector, vector)) * np.outer(
                signs, signs
            )
            missing = 1.0 - signs * (scores[free] + self.factor * along[0] * vector)
            own = bounds[0][free], bounds[1][free]
            beta[free] = face_minimum(beta[free], gram, missing, own, tuning.FACE_EPOCHS * self.form.products.size)
        return beta

    def recovered(self, beta: FloatArray, margins: FloatArray, dual: float) -> FlatSolution:
        """Return the weight that belongs to a dual point, with a certificate of its own inner products."""
        objective, weights = self.objective, self.objective.weights
        # Qw = Z'(signs * beta) is solved by w = Z'shares
        excess = weights * (margins - float(weights @ margins))
        shares = self.signs * (beta - 2.0 * objective.mu1 * excess)
        scores = self.form.gram @ shares
        margins = self.signs * scores
        variance = float(weights @ (margins - float(weights @ margins)) ** 2)
        half_square = 0.5 * float(shares @ scores) + objective.mu1 * variance
        bias = self.form.problem.bias_scale**2 * float(shares.sum())
        return FlatSolution(shares, bias, objective.certificate(half_square, margins, dual))
