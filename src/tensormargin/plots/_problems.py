"""The binary problems of a fitted classifier, one at a time."""

from __future__ import annotations

from typing import Any

from ..model_steps import problem_names


def class_name(label: Any) -> str:
    """Return what a class is called; None stands for all the others."""
    return "rest" if label is None else str(label)


def problem_title(model: Any, problem: int) -> str:
    """Return which classes a binary problem tells apart; raise for one that the fitted model does not have."""
    names = problem_names(model)
    if not 0 <= problem < len(names):
        raise ValueError(
            f"problem counts the binary problems from 0; got problem={problem!r}, and there are {len(names)}"
        )
    return names[problem]


def of_problem(values: Any, problem: int) -> Any:
    """Return one problem's entry of an attribute that is a list only where there are several problems."""
    return values[problem] if isinstance(values, list) else values
