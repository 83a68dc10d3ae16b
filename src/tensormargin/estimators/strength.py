"""The scale-free defaults of lambda, mu_1 and mu_2."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite

# For samples of mean squared norm 1. Chosen by benchmarks/scale_rule.py on real data with four kinds of weight: this
# pair has the smallest worst-case loss (docs/method.md has the table).
SCALE_LAM = 300.0
SCALE_MU = 100.0

_MULTIPLE_OF_SCALE = re.compile(r"^(?:(?P<factor>[^*]+)\*)?scale$")


@dataclass(frozen=True)
class Strength:
    """The coefficients of Eq. 7 before the scale of the samples is known.

    If ``relative``, they refer to samples of mean squared norm one.
    """

    lam: float
    mu1: float
    mu2: float
    relative: bool

    def on_samples(self, mean_square: float) -> tuple[float, float, float]:
        """Return (lam, mu1, mu2) of Eq. 7 for samples of this mean squared (centred) norm."""
        unit = mean_square if self.relative and mean_square > 0 else 1.0
        lam, mu1, mu2 = self.lam / unit, self.mu1 / unit, self.mu2 / unit
        if not isfinite(lam + mu1 + mu2):
            raise ValueError(
                f"lam, mu1 and mu2 must stay finite on the samples' scale; got {lam:g}, {mu1:g} and {mu2:g} for a mean "
                f"squared norm of {mean_square:g}. Lower them or scale X"
            )
        return lam, mu1, mu2


def parse_strength(lam: float | str, mu1: float, mu2: float) -> Strength:
    """Return the `Strength` for the parameters ``lam``, ``mu1`` and ``mu2`` of the estimator.

    If ``lam`` is a number, all three are the paper's and are used unscaled. With ``"scale"`` or ``"<factor>*scale"``
    they are in units of `SCALE_LAM` and `SCALE_MU` over the mean squared norm of the centred samples: under X -> sX the
    same classifier needs all three divided by s^2.
    """
    if not isinstance(lam, str):
        return Strength(float(lam), mu1, mu2, relative=False)
    match = _MULTIPLE_OF_SCALE.match(lam.replace(" ", ""))
    factor = _positive_number(match["factor"] or "1") if match else None
    if factor is None:
        raise ValueError(f'lam must be a positive number, "scale", or a multiple such as "0.1*scale"; got lam={lam!r}')
    return Strength(factor * SCALE_LAM, mu1 * SCALE_MU, mu2 * SCALE_MU, relative=True)


def _positive_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < float("inf") else None
