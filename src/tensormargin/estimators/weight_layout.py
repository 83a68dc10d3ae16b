"""What differs between one tensor per sample and several views: the format of a weight, and how a fit is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from ..data import Shapes
from ..fitting import FORMATS, Fit, Format, SampleArray, ViewArray, ViewsFormat, ViewsWeight, Weight, working_dtype
from ..runtime import Array, is_foreign, to_host

_SAME = 1e-3  # largest relative difference between a weight and its decomposition, both perhaps in single precision
FULL = "full"
EQUAL = "equal"


@dataclass(frozen=True)
class OneTensor:
    """One tensor per sample."""

    shape: tuple[int, ...]

    def format_and_rank(self, classifier: Any) -> tuple[Format, Any]:
        """Return the format of the weights, and their complete rank."""
        for name in ("decomposition", "rank"):
            value = getattr(classifier, name)
            if isinstance(value, dict):
                raise ValueError(
                    f"{name} by name is for several views; got {name}={value!r} and one array. Pass Views, or one value"
                )
        form = FORMATS[classifier.decomposition]
        return form, form.valid_rank(_as_tuple(classifier.rank), self.shape)

    def view_scales(self, classifier: Any) -> None:
        """Return the factor of each view that is used, None for "equal"; None for one tensor."""

    def kept_weights(self, classifier: Any) -> Sequence[Weight] | None:
        """Return the weights of the last fit, one per binary problem; None if they are of another format."""
        form, stored = FORMATS[classifier.decomposition], _as_list(classifier.weight_)
        return [form.from_tensorly(one, self.shape) for one in stored] if all(map(form.wrote, stored)) else None

    def keep(self, classifier: Any, fits: Sequence[Fit], array: SampleArray) -> None:
        """Set ``coef_`` and ``rank_``, and for several views what else scoring needs."""
        dense = np.stack([fit.weight.to_dense() for fit in fits]).astype(working_dtype(array.dtype), copy=False)
        classifier.rank_, classifier.coef_ = fits[0].weight.rank, array.kept(dense)
        for name in ("view_scale_", "view_shares_", "mean_scores_", "n_missing_"):  # of a fit to several views
            classifier.__dict__.pop(name, None)

    def keep_weights(self, classifier: Any, fits: Sequence[Fit], array: SampleArray) -> None:
        """Set ``weight_``."""
        weights = [array.kept(fit.weight.to_tensorly(working_dtype(array.dtype))) for fit in fits]
        classifier.weight_ = weights[0] if len(weights) == 1 else weights


@dataclass(frozen=True)
class SeveralViews:
    """Several views, with their shapes by name; the methods are those of `OneTensor`."""

    shapes: Shapes

    def format_and_rank(self, classifier: Any) -> tuple[Format, Any]:
        names = tuple(self.view_scales(classifier))
        decompositions = self._by_name("decomposition", classifier.decomposition, "tucker")
        ranks = self._by_name("rank", classifier.rank, None)
        unknown = [one for one in decompositions.values() if not isinstance(one, str) or one not in FORMATS]
        if unknown:
            raise ValueError(f"decomposition must be one of {', '.join(FORMATS)} for every view; got {unknown[0]!r}")
        flat = {name: FULL for name, shape in self.shapes.items() if len(shape) == 1}
        formats = tuple(FORMATS[flat.get(name, decompositions[name])] for name in names)
        form = ViewsFormat(names, tuple(self.shapes[name] for name in names), formats)
        return form, form.valid_ranks([_as_tuple(ranks[name]) for name in names])

    def view_scales(self, classifier: Any) -> Mapping[str, float | None]:
        scales = self._by_name("view_scale", classifier.view_scale, EQUAL)
        for name, scale in scales.items():
            is_number = isinstance(scale, Real) and not isinstance(scale, bool)
            if scale != EQUAL and not (is_number and 0 <= scale < np.inf):
                raise ValueError(
                    f"view_scale must be 'equal' or a number of at least 0 for every view; got {scale!r} for {name!r}. "
                    "0 leaves a view out"
                )
        used = {name: None if scale == EQUAL else float(scale) for name, scale in scales.items() if scale != 0}
        if not used:
            raise ValueError("view_scale must leave at least one view; got 0 for all of them")
        return used

    def _by_name(self, parameter: str, value: Any, default: Any) -> dict[str, Any]:
        """Return one value per view from one for all, or from a dictionary in which all names are known ones."""
        if not isinstance(value, dict):
            return dict.fromkeys(self.shapes, value)
        unknown = [name for name in value if name not in self.shapes]
        if unknown:
            raise ValueError(
                f"{parameter} names the view {unknown[0]!r}; the views are {', '.join(map(repr, self.shapes))}"
            )
        return {name: value.get(name, default) for name in self.shapes}

    def kept_weights(self, classifier: Any) -> Sequence[Weight] | None:
        form, _ = self.format_and_rank(classifier)
        assert isinstance(form, ViewsFormat)
        used = [name for name, scale in classifier.view_scale_.items() if np.any(scale)]
        if tuple(used) != form.names:
            return None
        by_view = [_as_list(classifier.weight_[name]) for name in used]
        every = list(zip(form.formats, form.shapes, by_view, strict=True))
        if not all(own.wrote(one) for own, _, stored in every for one in stored):
            return None
        return [
            ViewsWeight.of(form, [own.from_tensorly(stored[k], shape) for own, shape, stored in every])
            for k in range(len(by_view[0]))
        ]

    def keep(self, classifier: Any, fits: Sequence[Fit], array: SampleArray) -> None:
        assert isinstance(array, ViewArray)
        n_problems, form = len(fits), _form_of(fits[0])
        dense = [form.split(fit.weight.to_dense()) for fit in fits]
        of_views = {name: place for place, name in enumerate(form.names)}
        facts = [fit.views for fit in fits if fit.views is not None]
        classifier.coef_, classifier.rank_, classifier.mean_scores_ = {}, {}, {}
        classifier.view_scale_, classifier.view_shares_ = {}, {}
        for name, one in array.arrays.items():
            place = of_views.get(name)
            if place is None:  # left out
                coef, (scales, means, shares) = np.zeros((n_problems, *one.sample_shape)), np.zeros((3, n_problems))
            else:
                coef = np.stack([own[place] for own in dense])
                of_view = [(own.factors[place], own.mean_scores[place], own.shares[place]) for own in facts]
                scales, means, shares = np.array(of_view).T
            dtype = working_dtype(one.dtype)
            classifier.coef_[name] = one.kept(coef.astype(dtype, copy=False))
            classifier.mean_scores_[name] = one.kept(means.astype(dtype, copy=False))
            classifier.view_scale_[name], classifier.view_shares_[name] = scales, shares
            classifier.rank_[name] = None if place is None else fits[0].weight.rank[place]  # type: ignore[index]
        classifier.n_missing_ = {name: len(rows) for name, rows in array.missing.items()}

    def keep_weights(self, classifier: Any, fits: Sequence[Fit], array: SampleArray) -> None:
        assert isinstance(array, ViewArray)
        form = _form_of(fits[0])
        classifier.weight_ = {}
        for name, one in array.arrays.items():
            dtype = working_dtype(one.dtype)
            if name in form.names:
                place = form.names.index(name)
                weights = [fit.weight.weights[place].to_tensorly(dtype) for fit in fits]  # type: ignore[attr-defined]
            else:
                weights = [np.zeros(one.sample_shape, dtype) for _ in fits]
            kept = [one.kept(weight) for weight in weights]
            classifier.weight_[name] = kept[0] if len(kept) == 1 else kept


Layout = OneTensor | SeveralViews
"""How a classifier's parameters give the format of its weights, and its weights the fitted attributes."""


def layout_of(shape: Any) -> Layout:
    """Return the layout for samples of a shape, or of a dictionary of shapes."""
    return SeveralViews(shape) if isinstance(shape, dict) else OneTensor(shape)


def weights_fit(classifier: Any) -> dict[str, Any]:
    """Return whether weights are there for each view, and the decomposed ones are those of ``coef_``."""
    shape, several = classifier.sample_shape_, isinstance(classifier.sample_shape_, dict)
    by_view = "coef_", "weight_", "rank_", "view_scale_", "view_shares_", "mean_scores_", "n_missing_"
    if several and any(getattr(classifier, name, {}).keys() != shape.keys() for name in by_view):
        return {"sample_shape_": False}
    views = [(classifier.coef_[name], classifier.weight_[name], shape[name]) for name in shape] if several else []
    found = {"coef_": True, "weight_": True}
    for coef, weights, sizes in views or [(classifier.coef_, classifier.weight_, shape)]:
        found["coef_"] &= coef.shape == (classifier._n_problems, *sizes)
        weights = weights if isinstance(weights, list) else [weights]
        found["weight_"] &= len(weights) == len(coef) and all(map(_is_same, weights, coef))
    return found


def _is_same(weight: Any, dense: Array) -> bool:
    """Return whether a decomposed weight is a tensor, up to rounding; one of another shape is not multiplied out."""
    form = next(form for form in FORMATS.values() if form.wrote(weight))
    if tuple(weight.shape) not in (dense.shape, (*dense.shape, 1)):
        return False
    room = _SAME * float(np.abs(dense).max(initial=0.0)) + float(np.finfo(np.float32).tiny)
    made = form.from_tensorly(weight, dense.shape).to_dense()
    return made.shape == dense.shape and float(np.abs(made - dense).max(initial=0.0)) <= room


def _form_of(fit: Fit) -> ViewsFormat:
    assert isinstance(fit.weight, ViewsWeight)
    return fit.weight.form


def _as_tuple(rank: Any) -> Any:
    return tuple(rank) if isinstance(rank, list) else rank


def _as_list(weights: Any) -> list[Any]:
    """Return the weights of one or several binary problems, on the host."""
    every = weights if isinstance(weights, list) else [weights]
    return [to_host(one) if is_foreign(one) else one for one in every]
