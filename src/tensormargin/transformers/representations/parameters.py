"""Checks of parameters, shared by the representations."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np


def checked_count(value: Any, name: str, least: int = 1, most: int | None = None, of: str = "") -> int:
    """Return a whole number; raise ValueError if it is none, or too small or large. ``of`` says what the most is."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}{of}"
        raise ValueError(f"{name} must be a whole number {bounds}; got {name}={value!r}")
    return int(value)


def checked_number(value: Any, name: str, above: float = 0.0, included: bool = False) -> float:
    """Return a finite number above a bound; raise ValueError otherwise."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not np.isfinite(value) or value < above or (value == above and not included):
        bound = f"of at least {above:g}" if included else f"above {above:g}"
        raise ValueError(f"{name} must be a finite number {bound}; got {name}={value!r}")
    return float(value)


def checked_choice(value: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Raise ValueError unless a value is one of some choices."""
    if not any(value is one or (isinstance(value, str) and value == one) for one in choices):
        known = ", ".join('"' + one + '"' if isinstance(one, str) else repr(one) for one in choices[:-1])
        last = f'"{choices[-1]}"' if isinstance(choices[-1], str) else repr(choices[-1])
        raise ValueError(f"{name} must be {known} or {last}; got {name}={value!r}")
