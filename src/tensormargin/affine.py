"""The affine form of a whole model: weights and offsets on the original samples, through all steps.

A registry says how a weight goes back through a transformer (`register_pull_back`), so that maps, explanations and
exports all read a model in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ._typing import Array
from .preparation import KeepsTensors, TensorScaler

PullBack = Callable[[Any, Array], tuple[Array, Array]]
"""Takes a fitted step and weights on its output, of shape (n_problems, *output shape); returns weights on its input and
one constant per problem, with ``<W, step(x)> = <W', x> + constant``."""


class AffineForm(NamedTuple):
    """Weights and offsets with ``scores = <W, x> + b`` for original samples x, one score per binary problem.

    Attributes
    ----------
    weights : ndarray of shape (n_problems, *sample shape)
    offsets : ndarray of shape (n_problems,)
    """

    weights: Array
    offsets: Array


class NotAffineError(TypeError):
    """A step of a model is not affine, or it is not known how a weight goes back through it."""


_PULL_BACKS: dict[str, PullBack] = {}


def register_pull_back(kind: type | str, pull_back: PullBack) -> None:
    """Say how a weight goes back through steps of a type and its subclasses.

    Parameters
    ----------
    kind : type or str
        A type, or ``"package.ClassName"`` (its top-level package and its name), for libraries that need not be
        installed.
    pull_back : callable
        ``pull_back(step, weights)`` returns weights on the step's input and one constant per weight, with
        ``<W, step.transform(x)> = <W', x> + constant`` for every sample x.
    """
    _PULL_BACKS[kind if isinstance(kind, str) else _name(kind)] = pull_back


def pulled_back(step: Any, form: AffineForm) -> AffineForm:
    """Return the form on the input of a fitted step; raise NotAffineError if the step has none."""
    for kind in type(step).__mro__:
        if _name(kind) in _PULL_BACKS:
            weights, constants = _PULL_BACKS[_name(kind)](step, form.weights)
            return AffineForm(weights, form.offsets + constants)
    raise NotAffineError(
        f"cannot take a weight back through {type(step).__name__}: it is not affine, or not known to be. If it is, "
        "tell how with tensormargin.register_pull_back"
    )


def _name(kind: type) -> str:
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"


def _through_our_own(step: KeepsTensors, weights: Array) -> tuple[Array, Array]:
    if isinstance(step, TensorScaler) and step.by_group:
        raise NotAffineError(
            "cannot take a weight back through TensorScaler(by_group=True): every group is scaled by its own "
            "statistics, so no one weight fits all original samples"
        )
    if None in step.sample_shape_in_:
        raise NotAffineError(
            f"cannot take a weight back through {type(step).__name__}: the training samples had different lengths, so "
            "that no one weight fits all original samples"
        )
    at_zero = step.transform(np.zeros((1, *step.sample_shape_in_)))[0]
    constants = np.tensordot(weights, at_zero, at_zero.ndim)
    return np.stack([step.pull_back(one) for one in weights]), constants


register_pull_back(KeepsTensors, _through_our_own)
