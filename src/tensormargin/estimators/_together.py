"""Binary problems fitted as one batch on the device that the samples lie on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._namespace import dtype_of
from .._typing import Array
from ..alternate import Fit, Start, sweeps
from ..batch import Member, alternate_together
from ..samples import Moments, working_dtype
from ..samples.shared import SharedSamples
from ._binary import Problem, best_fit, few_entries, fit_problem, in_range


def fit_together(X: Any, problems: Sequence[Problem], solver: str) -> list[Fit]:
    """Fit binary problems, each the best of its starts, all of them in lockstep; all with or without an intercept."""
    parts, numbers = _parts(problems)
    samples = SharedSamples(X, [part.rows for part in parts], np.dtype(np.float64) if few_entries(X) else None)
    orders = [_positions(part.rows, rows) for part, rows in zip(parts, samples.rows, strict=True)]
    signs = [part.signs[order] for part, order in zip(parts, orders, strict=True)]
    shares = [part.shares[order] for part, order in zip(parts, orders, strict=True)]
    moments = samples.first_pass(shares, signs, problems[0].settings.fit_intercept)
    own = working_dtype(dtype_of(X))  # float64 may hold what float32 samples are refused for
    if not all(in_range(one, own, len(part)) for one, part in zip(moments, shares, strict=True)):
        return [fit_problem(X, problem) for problem in problems]  # which knows what to say or do
    members: list[Member] = []
    owners: list[int] = []
    for owner, (problem, part) in enumerate(zip(problems, numbers, strict=True)):
        for member in _members(problem, part, signs[part], shares[part], moments[part]):
            members.append(member)
            owners.append(owner)
    fits = alternate_together(samples, members, solver)
    return [
        best_fit([fit for fit, whose in zip(fits, owners, strict=True) if whose == owner], samples.pivot)
        for owner in range(len(problems))
    ]


def _members(problem: Problem, part: int, signs: Array, shares: Array, moments: Moments) -> list[Member]:
    objective, bias_scale = problem.objective(moments)
    objective, settings = replace(objective, weights=shares), problem.settings
    return [
        Member(
            part, signs, objective, bias_scale, sweeps(Start(weight), settings.tol, settings.max_iter, problem.report)
        )
        for weight in problem.first_weights(moments)
    ]


def _parts(problems: Sequence[Problem]) -> tuple[list[Problem], list[int]]:
    """Return one problem for each distinct set of signed and weighted samples, and the number of each problem's."""
    known: dict[tuple[bytes, ...], int] = {}
    parts: list[Problem] = []
    numbers: list[int] = []
    for problem in problems:
        rows = b"" if problem.rows is None else problem.rows.tobytes()
        key = rows, problem.signs.tobytes(), problem.shares.tobytes()
        if key not in known:
            known[key] = len(parts)
            parts.append(problem)
        numbers.append(known[key])
    return parts, numbers


def _positions(rows: Array | None, ordered: Array) -> Array:
    """Return where in ``rows`` (rising) each of the same rows in another order stands."""
    return ordered if rows is None else np.searchsorted(rows, ordered)
