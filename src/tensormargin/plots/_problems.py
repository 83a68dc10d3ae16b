"""Names and attributes of the binary problems of a fitted classifier."""

from __future__ import annotations

from typing import Any

from ..inspection import ModelChain


def class_name(label: Any) -> str:
    """Return the name of a class; None stands for the rest."""
    return "rest" if label is None else str(label)


def problem_title(model: Any, problem: int) -> str:
    """Return the title of a binary problem, which names its classes; raise ValueError if there is no such problem."""
    names = ModelChain.of(model).problem_names
    if not 0 <= problem < len(names):
        raise ValueError(
            f"problem counts the binary problems from 0; got problem={problem!r}, and there are {len(names)}"
        )
    return names[problem]


def checked_view(model: Any, view: str | None) -> str | None:
    """Return the name of the view to draw, None for a model of one tensor; raise ValueError if there is none."""
    shape = ModelChain.of(model).classifier.sample_shape_
    if not isinstance(shape, dict):
        if view is not None:
            raise ValueError(
                f"view names one of several views; got view={view!r}, and the model has one tensor. Leave it out"
            )
        return None
    if view is None and len(shape) == 1:
        return next(iter(shape))
    if view not in shape:
        raise ValueError(f"view must be one of the model's views, {', '.join(map(repr, shape))}; got view={view!r}")
    return view


def of_problem(values: Any, problem: int) -> Any:
    """Return one problem's entry of an attribute, which is a list only if there are several problems."""
    return values[problem] if isinstance(values, list) else values
