"""Strengths of the terms of Eq. 7: scale-free, or as in the paper."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

# For samples of mean squared norm 1. Chosen by benchmarks/scale_rule.py on real data with four kinds of weight: this
# pair has the smallest worst-case loss (docs/method.md has the table).
SCALE_LAM = 300.0
SCALE_MU = 100.0


@dataclass(frozen=True)
class Strength:
    """The coefficients of Eq. 7, relative to a mean squared norm of one or not, before the samples' scale is known."""

    lam: float
    mu1: float
    mu2: float
    relative: bool

    def on_samples(self, mean_square: float) -> tuple[float, float, float]:
        """Return lam, mu1 and mu2 of Eq. 7 for samples with this mean squared (centred) norm."""
        unit = mean_square if self.relative and mean_square > 0 else 1.0
        lam, mu1, mu2 = self.lam / unit, self.mu1 / unit, self.mu2 / unit
        if not isfinite(lam + mu1 + mu2):
            raise ValueError(
                f"lam, mu1 and mu2 must stay finite on the samples' scale; got {lam:g}, {mu1:g} and {mu2:g} for a mean "
                f"squared norm of {mean_square:g}. Lower them or scale X"
            )
        return lam, mu1, mu2


def strength_of(estimator: Any) -> Strength:
    """Return the strengths set by the parameters ``lam``, ``mu1``, ``mu2`` and ``scale_free`` of a classifier.

    Scale-free strengths are in units of `SCALE_LAM` and `SCALE_MU` over the mean squared norm of the centred samples:
    under X -> sX the same classifier needs all three divided by s^2.
    """
    lam, mu1, mu2 = float(estimator.lam), float(estimator.mu1), float(estimator.mu2)
    if not estimator.scale_free:
        return Strength(lam, mu1, mu2, relative=False)
    return Strength(lam * SCALE_LAM, mu1 * SCALE_MU, mu2 * SCALE_MU, relative=True)


def reject_old_spelling(lam: Any) -> None:
    """Raise ValueError for ``lam="10*scale"``, the notation of version 0.1; the message gives the present one."""
    if isinstance(lam, str):
        factor = number_before_scale(lam)
        now = "lam=1.0" if factor is None else f"lam={factor:g}"
        raise ValueError(
            f"lam must be a positive number; got lam={lam!r}. Strengths are scale-free by default: write {now}, "
            "or scale_free=False for the paper's lam, mu1 and mu2 on the original samples"
        )


def number_before_scale(text: str) -> float | None:
    """Return the factor of ``"<factor>*scale"``, 1 for ``"scale"``, or None for other text."""
    factor, star, word = text.replace(" ", "").rpartition("*")
    try:
        return None if word != "scale" else float(factor) if star else 1.0
    except ValueError:
        return None


def parameters_since(state: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a classifier saved by version 0.1, with its parameters converted to this version."""
    lam, factor = state["lam"], number_before_scale(str(state["lam"]))
    return {**state, "lam": lam if factor is None else factor, "scale_free": factor is not None, "probability": False}
