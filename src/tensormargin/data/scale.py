"""The scale of samples: whether new ones are in the unit that a model was fitted to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runtime import Array
from .views import Views

ONE = ""
"""Name of the only view."""
_FACTOR = 10.0  # ratio of scales that is another unit
_FEW = 5  # new samples of which the median may be that of an unusual one
_MOST_SAMPLES = 500  # that an estimator looks at, and it takes as many to see whether a model has a scale
_TRIED = 20
_ENDS = ("minimum", "low", "high", "maximum")
_any_scale = ContextVar("any_scale", default=False)


@contextmanager
def any_scale() -> Iterator[None]:
    """Predict samples of another scale (unit) or sampling frequency than those of the fit, too, inside this context.

    Otherwise predictions are refused where samples are ten times as large or small as those of the fit, or sampled at
    another frequency.

    Examples
    --------
    >>> import tensormargin
    >>> from tensormargin.datasets import make_low_rank_classes
    >>> data = make_low_rank_classes(40, (4, 5), random_state=0)
    >>> model = tensormargin.TensorMarginClassifier("cp", 1).fit(data.data, data.target)
    >>> with tensormargin.any_scale():
    ...     model.predict(1e6 * data.data).shape
    (40,)
    """
    token = _any_scale.set(True)
    try:
        yield
    finally:
        _any_scale.reset(token)


def takes_any_scale() -> bool:
    """Return whether this is inside `any_scale`."""
    return _any_scale.get()


@dataclass(frozen=True)
class OtherScale:
    """A view ("" for the only one) whose median root mean square differs from training by this factor, ten or more."""

    view: str
    factor: float
    message: str

    @property
    def remedy(self) -> str:
        """How to bring the samples to the scale of training."""
        word = "Multiply" if self.factor < 1 else "Divide"
        return f"{word} them by about {max(self.factor, 1 / self.factor):.2g}"


def scale_facts(scale: Array) -> dict[str, float]:
    """Return the median, the extremes and the central 90 % of root mean squares, without those of empty samples."""
    scale = np.sort(scale[scale > 0])
    if not len(scale):
        return dict.fromkeys(("median", *_ENDS), 0.0)
    ends = scale[np.rint(np.array([0.0, 0.05, 0.95, 1.0]) * (len(scale) - 1)).astype(int)].tolist()
    middle = (scale[(len(scale) - 1) // 2] + scale[len(scale) // 2]) / 2
    return {"median": float(middle), **dict(zip(_ENDS, ends, strict=True))}


def other_scale(view: str, facts: Mapping[str, Any], scale: Array) -> OtherScale | None:
    """Return the difference of scales if it is one of units.

    The median of many samples must lie within a factor of ten of that of training, or among the central 90 % there.
    Few samples may be unusual: they must be ten times larger than the largest, or a hundred times smaller than the
    smallest training sample, since a dark picture is no other unit.
    """
    scale = scale[scale > 0]
    own = facts["scale"]
    typical = float(own["median"])
    if not len(scale) or not typical > 0:
        return None
    new = float(np.median(scale))
    least, most = min(typical / _FACTOR, own["low"]), max(typical * _FACTOR, own["high"])
    if len(scale) < _FEW:
        least, most = own["minimum"] / _FACTOR**2, own["maximum"] * _FACTOR
    if least < new < most:
        return None
    where = f"view {view!r}: " if view else ""
    unit = f", in {facts['unit']}" if facts["unit"] else ""
    message = (
        f"{where}the root mean square of a sample is {new:.3g}; that of the training samples was {typical:.3g} (from "
        f"{own['minimum']:.3g} to {own['maximum']:.3g}{unit})"
    )
    return OtherScale(view, new / typical, message)


def scale_of_fit(X: Any, unit: str = "") -> dict[str, Any]:
    """Return what an estimator keeps of the scale of its training samples, by view; none if not in memory."""
    return {name: {"scale": scale_facts(scale), "unit": unit or None} for name, scale in _scales(X)}


def check_scale(estimator: Any, X: Any, scores: Callable[[Any], Any]) -> None:
    """Raise ValueError for samples of another scale than those of the fit, unless scores do not depend on it."""
    known = estimator.__dict__.get("scale_in_")
    if not known or takes_any_scale():
        return
    for name, scale in _scales(X):
        other = other_scale(name, known[name], scale) if name in known else None
        if other is None:
            continue
        few = X[:_TRIED]
        scaled = few.replaced({**few, name: few[name] / other.factor}) if name else few / other.factor
        with any_scale(), np.errstate(all="ignore"):
            if np.allclose(scores(few), scores(scaled), 1e-3, 1e-6):
                continue
        raise ValueError(
            f"samples must have the scale of the training samples; {other.message}. {other.remedy}, or predict them as "
            "they are inside `with tensormargin.any_scale():` (command line: --any-scale)"
        )


def _scales(X: Any) -> Iterator[tuple[str, Array]]:
    """Yield the root mean squares of some samples of each view in memory, spread over all of them."""
    for name, array in X.items() if isinstance(X, Views) else [(ONE, X)]:
        if not isinstance(array, np.ndarray) or not len(array):
            continue
        some = array[:: -(-len(array) // _MOST_SAMPLES)]
        if some.dtype.kind == "O":  # samples that differ in length
            yield name, np.array([np.sqrt(np.nanmean(np.square(one, dtype=np.float64))) for one in some])
            continue
        rows = np.asarray(some).reshape(len(some), -1)
        rows = rows if rows.dtype.kind == "f" and rows.dtype.itemsize > 2 else rows.astype(np.float64)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            yield name, np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64) / rows.shape[1])
