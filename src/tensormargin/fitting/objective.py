"""The paper's objective (Eq. 7), the optimisation problem of one binary problem, and optimality certificates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import NamedTuple

import numpy as np

from ..runtime import Array, FloatArray


@dataclass(frozen=True)
class Objective:
    """The parameters of Eq. 7, for samples that have not been rescaled, and the sample weights."""

    lam: float
    mu1: float
    mu2: float
    weights: FloatArray  # non-negative, summing to one

    def value(self, squared_norm: float, margins: Array) -> float:
        """Return the value of Eq. 7 for a weight with this squared norm and these margins."""
        mean = float(self.weights @ margins)
        variance = float(self.weights @ (margins - mean) ** 2)
        hinge = float(self.weights @ np.maximum(0.0, 1.0 - margins))
        return 0.5 * squared_norm + self.mu1 * variance - self.mu2 * mean + self.lam * hinge

    def certificate(self, half_square: float, margins: Array, dual: float) -> Certificate:
        """Return the values at a point with these margins, given ``1/2 |W|^2 + mu1 Var(m)``, and at a dual one."""
        mean_term = self.mu2 * float(self.weights @ margins)
        hinge_term = self.lam * float(self.weights @ np.maximum(0.0, 1.0 - margins))
        return Certificate(half_square - mean_term + hinge_term, dual, half_square + abs(mean_term) + hinge_term)

    def implied_dual(self, margins: Array) -> FloatArray:
        """Return the dual point with every sample at the bound that its margin implies (Eq. 14)."""
        return (self.mu2 + self.lam * (margins < 1.0)) * self.weights


@dataclass(frozen=True)
class MarginProblem:
    """The optimisation problem of one binary problem, without its samples: minimise Eq. 7 over weight and intercept."""

    signs: FloatArray  # the labels t_i, 1 or -1
    objective: Objective
    bias_scale: float  # zero for no intercept; else that of centred samples is penalised by ``1/2 (b' / bias_scale)^2``

    def __len__(self) -> int:
        return len(self.signs)

    def subset(self, rows: Array) -> MarginProblem:
        """Return the problem restricted to some of the samples, with their weights renormalised."""
        weights = self.objective.weights[rows]
        objective = replace(self.objective, weights=weights / weights.sum())
        return MarginProblem(self.signs[rows], objective, self.bias_scale)


@dataclass(frozen=True)
class Certificate:
    """Values of Eq. 12 and of its dual at one point; the optimum lies between them.

    The ``scale`` is the sum of the absolute values of the primal's terms: unlike the primal value, which it equals if
    ``mu2 = 0``, it cannot vanish or change sign.
    """

    primal: float
    dual: float
    scale: float

    @property
    def relative_gap(self) -> float:
        """``|primal - dual| / scale``; infinite if one of the values is not finite.

        No primal value is below a dual one but by rounding. As far as it is, the values say nothing about the solution,
        so that its absolute value counts.
        """
        gap = self.primal - self.dual
        if not isfinite(gap):
            return inf
        return abs(gap) / self.scale if self.scale > 0 else 0.0


class BlockSolution(NamedTuple):
    """The vector and intercept of one block problem, with their certificate for Eq. 12, and the dual point if kept."""

    vector: FloatArray
    intercept: float
    certificate: Certificate
    beta: FloatArray | None = None
