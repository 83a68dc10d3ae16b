"""Transformers that make several views: of one input, or of views, one transformer each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from ...data import (
    SEEN,
    AnyAxes,
    Axes,
    Metadata,
    Views,
    axes_in,
    checked_axes,
    errors_name_view,
    fitted,
    in_order_of_fit,
    is_views,
    missing_samples,
    remember_axes,
    samples_as_fitted,
    seen_fits,
    shape_of,
    views_or_array,
    views_or_samples,
    with_known_categories,
)
from ...runtime import (
    Array,
    as_array,
    cast,
    dtype_of,
    is_foreign,
    is_lazy,
    join_with_and,
    like,
    namespace,
    rows_of,
    worker_options,
)
from ._base import TakesMetadata, takes_ragged
from ._passes import floating
from .steps import (
    agree,
    axes_through,
    describe_step,
    fit_transformed,
    flat_steps,
    is_masker,
    needed_metadata,
    number_modes,
    shapes_through,
    transformed,
)

Members = list[tuple[str, Any]]

_KEPT, _DROPPED = "passthrough", "drop"
_MEMBER = fitted.instance(fitted=False) | fitted.one_of(_KEPT, _DROPPED)
_SHAPES = fitted.map_of(fitted.shape)


@fitted.attributes(
    sample_shape_in_=fitted.shapes,
    sample_shape_out_=_SHAPES,
    transformers_=fitted.list_of(fitted.tuple_of(fitted.text, fitted.instance() | fitted.one_of(_KEPT))),
    views_=fitted.map_of(fitted.map_of(fitted.text)),
    **SEEN,
)
class Composite(TakesMetadata, _BaseComposition):
    """A transformer with named members, whose results are views.

    Attributes
    ----------
    transformers_ : list of (str, transformer)
        The fitted members, or "passthrough"; dropped ones are left out.
    sample_shape_in_, sample_shape_out_ : tuple of int, or dict of str to tuple of int
        Shape of a sample before and after; by name for several views.
    views_ : dict of str to dict of str to str
        The views that each member makes: their names in its result ("" for an array), and their names here.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import Resize, TensorUnion
    >>> from tensormargin.transformers import Composite
    >>> union = TensorUnion([("raw", "passthrough"), ("small", Resize((2, 3)))]).fit(np.zeros((5, 4, 6)))
    >>> isinstance(union, Composite), union.sample_shape_out_
    (True, {'raw': (4, 6), 'small': (2, 3)})
    """

    transformers_: Members
    sample_shape_in_: Any
    sample_shape_out_: dict[str, tuple[int, ...]]
    views_: dict[str, dict[str, str]]
    n_jobs: int | None

    @property
    @abstractmethod
    def _named(self) -> Members:
        """The members as they were given."""

    @property
    def members(self) -> Members:
        """The fitted members, or before `fit` those that were given."""
        return getattr(self, "transformers_", None) or [(name, one) for name, one in self._named if one != _DROPPED]

    @property
    def needed_metadata(self) -> set[str]:
        """Names of the metadata that the members need."""
        return set().union(*(needed_metadata(member) for _, member in self.members))

    def fit(self, X: Any, y: Any = None, groups: Any = None, confounds: Any = None) -> Self:
        """Fit all members to training samples; labels, groups and confounds are for the members that use them."""
        self.fit_transform(X, y, groups, confounds)
        return self

    def fit_transform(self, X: Any, y: Any = None, groups: Any = None, confounds: Any = None) -> Views:
        """Fit all members and return the views."""
        self._check_members()
        remember_axes(self, axes_in(X))
        X = self._converted(X)
        chosen = {name: one if isinstance(one, str) else clone(one) for name, one in self._chosen(X)}
        for name, member in chosen.items():
            own = self._axes_for(name, getattr(self, "axes_in_", None))
            if own is not None:  # members see arrays; without names, those that ask for some say so themselves
                number_modes(member, own)
        metadata = Metadata.checked(X, groups, confounds)
        jobs = {name: (member, self._input_of(name, X), y, metadata) for name, member in chosen.items()}
        fitted = self._in_parallel(X, _fit_member, jobs)
        self.sample_shape_in_ = shape_of(X)
        self.transformers_ = [(name, member) for name, (member, _) in fitted.items()]
        made = {name: result for name, (_, result) in fitted.items()}
        self.views_ = {
            name: {inner: f"{name}_{inner}" for inner in result} if isinstance(result, Views) else {"": name}
            for name, result in made.items()
        }
        views = self._joined(X, made)
        self.sample_shape_out_ = views.shapes
        return views

    def transform(self, X: Any, groups: Any = None, confounds: Any = None) -> Views:
        """Return the views of samples."""
        check_is_fitted(self)
        X = with_known_categories(self, X)
        axes = axes_in(X)
        X = self._as_fitted(in_order_of_fit(self, self._converted(X), axes))
        metadata = Metadata.checked(X, groups, confounds)
        jobs = {}
        for name, member in self.transformers_:
            if self._has_input(name, X):
                shapes = {inner: self.sample_shape_out_[outer] for inner, outer in self.views_[name].items()}
                jobs[name] = member, self._input_of(name, X), metadata, shapes
        return self._joined(X, self._in_parallel(X, _transform_member, jobs))

    def _in_parallel(self, X: Any, call: Callable[..., Any], jobs: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
        """Return what a function returns for each member, given its arguments."""
        arrays = list(X.values()) if isinstance(X, Views) else [X]
        n_jobs = 1 if any(is_lazy(array) or is_foreign(array) for array in arrays) else self.n_jobs
        run = Parallel(n_jobs=n_jobs, **worker_options(n_jobs))
        return dict(
            zip(jobs, run(delayed(_call_for_view)(call, name, *own) for name, own in jobs.items()), strict=True)
        )

    def _fits(self) -> dict[str, Any]:
        known, names = self.sample_shape_in_, [name for name, _ in self.transformers_]
        found, shapes = seen_fits(self, known), dict(self._axes_of_others(known))
        for name, member in self.transformers_:
            before, (taken, made) = self._axes_for(name, known), shapes_through([(name, member)])
            made = before if member == _KEPT else made
            by_name = made if isinstance(made, Mapping) else {"": made}
            found[name] = before is not None and agree(before, taken) and self.views_[name].keys() == by_name.keys()
            found[name] &= member == _KEPT or hasattr(member, "transform")
            shapes |= {outer: by_name[inner] for inner, outer in self.views_[name].items()}
        returned = {name: shapes[name] for name in self.sample_shape_out_}
        return {
            **found,
            "views_": list(self.views_) == names,
            "sample_shape_out_": agree(returned, self.sample_shape_out_),
        }

    def _check_members(self) -> None:
        for name, one in self._named:
            if one not in (_KEPT, _DROPPED) and not (hasattr(one, "fit_transform") and hasattr(one, "transform")):
                found = repr(one) if isinstance(one, str | int | float) else f"of type {type(one).__name__}"
                raise ValueError(f"every member must be a transformer, 'passthrough' or 'drop'; {name!r} is {found}")
        self._validate_names([name for name, _ in self._named])

    def with_steps(self, change: Callable[[list[Any]], list[Any]]) -> Self:
        """Return a copy of the fitted transformer, with ``change`` applied to the steps of each member."""
        other = copy(self)
        other.transformers_ = [
            (name, _as_one(change(flat_steps([(name, member)])))) for name, member in self.transformers_
        ]
        return other

    def axes_out(self, axes: AnyAxes = None) -> dict[str, Axes | None]:
        """Return the axes of each view, given those of the samples (by default those seen in `fit`)."""
        check_is_fitted(self)
        known = getattr(self, "axes_in_", None) if axes is None else axes
        views: dict[str, Axes | None] = self._axes_of_others(known)
        for name, member in self.transformers_:
            made = axes_through(flat_steps([(name, member)]), self._axes_for(name, known))
            for inner, outer in self.views_[name].items():
                own = made.get(inner) if isinstance(made, Mapping) else made
                views[outer] = checked_axes(own, self.sample_shape_out_[outer])
        return {name: views.get(name) for name in self.sample_shape_out_}

    def number_modes(self, axes: AnyAxes) -> AnyAxes:
        """Replace names of modes in the parameters of the members by their numbers."""
        for name, member in self._named:
            number_modes(member, self._axes_for(name, axes))
        return None

    def _axes_for(self, name: str, axes: Any) -> Any:
        """Return the axes (or the shape) of the samples that a member takes, from those of all samples."""
        return axes

    def _axes_of_others(self, axes: Any) -> dict[str, Any]:
        """Return the axes (or the shapes) of views that no member makes."""
        return {}

    def set_output(self, *, transform: str | None = None) -> Self:
        """Return the transformer unchanged: views hold arrays, whatever the output container."""
        return self

    @abstractmethod
    def words(self) -> str:
        """Return a description as a sentence without the full stop."""

    @abstractmethod
    def brief(self) -> str:
        """Return a description in a few words, for lists of alternatives."""

    @abstractmethod
    def _converted(self, X: Any) -> Any:
        """Return X as members take it."""

    @abstractmethod
    def _as_fitted(self, X: Any) -> Any:
        """Return X; raise ValueError if it is not like the training samples."""

    @abstractmethod
    def _chosen(self, X: Any) -> Members:
        """Return the members to fit; raise ValueError if they do not suit X."""

    def _has_input(self, name: str, X: Any) -> bool:
        """Return whether there are samples for a member."""
        return True

    def _input_of(self, name: str, X: Any) -> Any:
        """Return the samples that a member takes."""
        return X

    def _joined(self, X: Any, made: Mapping[str, Any]) -> Views:
        """Return the results of the members, and other views as they are, by the names that they have here."""
        views: dict[str, Any] = {}
        for member, result in made.items():
            for inner, name in self.views_.get(member, {"": member}).items():
                if name in views:
                    raise ValueError(f"there are two views {name!r}; give one of them another name")
                views[name] = result[inner] if inner else result
        return Views(views)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.array_api_support = True
        return tags


@fitted.attributes(transformer_list=fitted.list_of(fitted.tuple_of(fitted.text, _MEMBER)))
class TensorUnion(Composite):
    """Several transformers of the same samples, whose results are views.

    It is scikit-learn's `FeatureUnion` for tensors: results are not flattened and put side by side, each is a view of
    its own, with a weight of its own format and rank in the classifier behind it.

    Parameters
    ----------
    transformer_list : list of (str, transformer)
        Names of the views, and what makes them: transformers (or pipelines of them) that take X and return an array
        of samples of any order, "passthrough" for X as it is, or "drop" for none. Where a transformer returns Views,
        their names follow its own, after an underscore.
    n_jobs : int or None, default=None
        Number of members that are fitted at the same time; -1 uses all cores.

    Attributes
    ----------
    transformers_, sample_shape_in_, sample_shape_out_ : see `Composite`

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from tensormargin import Resize, TensorKernel, TensorMarginClassifier, TensorUnion
    >>> X, y = np.random.default_rng(0).normal(size=(40, 5, 8)), np.repeat([0, 1], 20)
    >>> union = TensorUnion([("raw", "passthrough"), ("coarse", Resize((5, 4))), ("rbf", TensorKernel("rbf"))])
    >>> union.fit_transform(X)
    Views of 40 samples:
      raw     5 x 8, float64
      coarse  5 x 4, float64
      rbf     40, float64
    >>> model = make_pipeline(union, TensorMarginClassifier("cp", rank=1)).fit(X, y)
    >>> model.set_params(tensorunion__coarse__shape=(5, 2), tensorunion__rbf="drop").fit(X, y)[-1].rank_
    {'raw': 1, 'coarse': 1}
    """

    def __init__(self, transformer_list: Members, *, n_jobs: int | None = None) -> None:
        self.transformer_list = transformer_list
        self.n_jobs = n_jobs

    @property
    def _named(self) -> Members:
        return list(self.transformer_list)

    @property
    def _takes_ragged(self) -> bool:
        return bool(self.members) and all(takes_ragged(member) for _, member in self.members)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return dict(self._get_params("transformer_list", deep=deep))

    def set_params(self, **parameters: Any) -> Self:
        self._set_params("transformer_list", **parameters)
        return self

    def words(self) -> str:
        described = "; ".join(f"{name} ({describe_step(member)})" for name, member in self.members)
        return f"each sample became the views {described}"

    def brief(self) -> str:
        return f"{join_with_and([name.replace('_', ' ') for name, _ in self._named])} side by side"

    def _converted(self, X: Any) -> Any:
        first = (next(iter(flat_steps([(name, member)])), None) for name, member in self.members)
        return X if any(map(is_masker, first)) else views_or_samples(X, ragged=self._takes_ragged)

    def _as_fitted(self, X: Any) -> Any:
        if all(member == _KEPT for _, member in self.transformers_):
            return samples_as_fitted(self, X, self.sample_shape_in_)
        return X  # members check their samples themselves

    def _chosen(self, X: Any) -> Members:
        chosen = [(name, member) for name, member in self._named if member != _DROPPED]
        if not chosen:
            raise ValueError("TensorUnion needs at least one transformer that is not 'drop'; got none")
        return chosen


@fitted.attributes(sample_shape_in_=_SHAPES, transformers=fitted.map_of(_MEMBER))
class ViewTransformer(Composite):
    """One transformer per view; the other views stay as they are.

    A sample that lacks a view (NaN in all entries) is kept from its transformer and lacks the result, too.

    Parameters
    ----------
    transformers : dict of str to transformer
        Transformers by the names of the views. "passthrough" keeps a view as it is, like those that are not named, and
        "drop" leaves it out. A transformer that returns Views (`TensorUnion`) replaces the view by several, whose names
        follow its own, after an underscore.
    n_jobs : int or None, default=None
        Number of transformers that are fitted at the same time; -1 uses all cores.

    Attributes
    ----------
    transformers_, sample_shape_in_, sample_shape_out_ : see `Composite`

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import TensorScaler, ViewTransformer, Views
    >>> X = Views(eeg=np.random.default_rng(0).normal(size=(40, 5, 8)), age=np.arange(40.0))
    >>> scaled = ViewTransformer({"age": TensorScaler()}).fit_transform(X)
    >>> round(float(scaled["age"].std()), 6), scaled["eeg"] is X["eeg"]
    (1.0, True)
    """

    def __init__(self, transformers: Mapping[str, Any], *, n_jobs: int | None = None) -> None:
        self.transformers = transformers
        self.n_jobs = n_jobs

    @property
    def _named(self) -> Members:
        return list(self.transformers.items())

    @_named.setter
    def _named(self, pairs: Members) -> None:  # as scikit-learn replaces members
        self.transformers = dict(pairs)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return dict(self._get_params("_named", deep=deep))

    def set_params(self, **parameters: Any) -> Self:
        if "transformers" in parameters:  # before its members
            self.transformers = parameters.pop("transformers")
        self._set_params("_named", **parameters)
        return self

    def words(self) -> str:
        kept = [(name, member) for name, member in self._named if member not in (_KEPT, _DROPPED)]
        fitted = dict(self.members)
        described = [f"view {name}: {describe_step(fitted.get(name, member))}" for name, member in kept]
        described += [f"view {name} was left out" for name, member in self._named if member == _DROPPED]
        return "; ".join(described) or "views as they came"

    def brief(self) -> str:
        changed = [(name, member) for name, member in self._named if member != _KEPT]
        described = [
            f"{name} {'left out' if one == _DROPPED else describe_step(one, brief=True)}" for name, one in changed
        ]
        return "; ".join(described) or "views as they came"

    def _converted(self, X: Any) -> Any:
        if not is_views(X):
            raise ValueError(
                f"ViewTransformer takes several views; got {type(X).__name__}. Pass Views, or a dictionary of arrays, "
                "or use TensorUnion, which makes several views of one array"
            )
        return views_or_samples(X)

    def _as_fitted(self, X: Any) -> Any:
        shapes = self.sample_shape_in_  # a view that is missing may be one that the classifier does not use
        return samples_as_fitted(self, X, {name: shapes[name] for name in shapes if name in X} or shapes)

    def _chosen(self, X: Any) -> Members:
        unknown = [name for name, _ in self._named if name not in X]
        if unknown:
            raise ValueError(
                f"there is no view {unknown[0]!r} to transform; the views are {', '.join(map(repr, X.names))}"
            )
        if all(self.transformers.get(name) == _DROPPED for name in X):
            raise ValueError("ViewTransformer needs at least one view that is not dropped; all of them are")
        return [(name, member) for name, member in self._named if member not in (_KEPT, _DROPPED)]

    def _axes_for(self, name: str, axes: Any) -> Any:
        return axes.get(name) if isinstance(axes, Mapping) else None

    def _axes_of_others(self, axes: Any) -> dict[str, Any]:
        made = {name for name, _ in self.transformers_}
        return {name: own for name, own in axes.items() if name not in made} if isinstance(axes, Mapping) else {}

    def _has_input(self, name: str, X: Any) -> bool:
        return name in X

    def _input_of(self, name: str, X: Any) -> Any:
        return _Incomplete.of(X[name])

    def _joined(self, X: Any, made: Mapping[str, Any]) -> Views:
        kept = {name: array for name, array in X.items() if self.transformers.get(name) != _DROPPED}
        return super()._joined(X, {name: made.get(name, array) for name, array in kept.items()})


@dataclass(frozen=True)
class _Incomplete:
    """A view that some of ``n_samples`` lack: the ``array`` of those that have it, ``present`` rows of all."""

    array: Any
    present: Array
    n_samples: int

    @classmethod
    def of(cls, array: Any) -> Any:
        """Return the array itself if no sample lacks it."""
        missing = missing_samples(array)
        if not len(missing):
            return array
        there = np.setdiff1d(np.arange(int(array.shape[0])), missing)
        return cls(rows_of(array, there), there, int(array.shape[0]))

    def completed(self, made: Any, shapes: Mapping[str, tuple[int, ...]]) -> Any:
        """Return the results of the samples that have the view among NaN for the others."""
        if isinstance(made, Views):
            return Views({name: self._filled(array, shapes[name]) for name, array in made.items()})
        return self._filled(made, shapes[""])

    def _filled(self, made: Any, shape: tuple[int, ...]) -> Any:
        missing = np.setdiff1d(np.arange(self.n_samples), self.present)
        known = made if dtype_of(made).kind == "f" else cast(made, floating(made))
        nothing = like(np.full((len(missing), *shape), np.nan), made, dtype_of(known))
        order = np.argsort(np.concatenate([self.present, missing]))
        return rows_of(namespace(made).concat([known, nothing], axis=0), order)


def _fit_member(member: Any, X: Any, y: Any, metadata: Metadata) -> tuple[Any, Any]:
    """Return the fitted member and its result."""
    if isinstance(X, _Incomplete):
        if not len(X.present):
            raise ValueError("all training samples lack it, so nothing can be learned; leave the view out")
        labels = None if y is None else rows_of(as_array(y), X.present)
        member, made = _fit_member(member, X.array, labels, metadata.rows(X.present))
        return member, X.completed(made, made.shapes if isinstance(made, Views) else {"": shape_of(made)})
    if member == _KEPT:
        return member, views_or_array(X)
    return member, _as_view(fit_transformed(member, X, y, metadata))


def _transform_member(member: Any, X: Any, metadata: Metadata, shapes: Mapping[str, tuple[int, ...]]) -> Any:
    """Return the result of a fitted member; ``shapes`` are those of the samples that it returns."""
    if isinstance(X, _Incomplete):
        if len(X.present):
            return X.completed(_transform_member(member, X.array, metadata.rows(X.present), shapes), shapes)
        none = {name: like(np.empty((0, *shape)), X.array) for name, shape in shapes.items()}
        return X.completed(none[""] if "" in none else Views(none), shapes)
    return views_or_array(X) if member == _KEPT else _as_view(transformed(member, X, metadata))


def _as_view(made: Any) -> Any:
    """Return the result of a transformer as an array or Views."""
    made = views_or_array(made)
    return made.toarray() if hasattr(made, "toarray") else made  # of a sparse matrix


def _call_for_view(call: Callable[..., Any], name: str, *arguments: Any) -> Any:
    with errors_name_view(name):
        return call(*arguments)


def _as_one(steps: Sequence[Any]) -> Any:
    """Return steps as one member."""
    if len(steps) < 2:
        return steps[0] if steps else _KEPT
    return Pipeline([(str(place), step) for place, step in enumerate(steps)])
