"""Base classes of the transformers, which keep samples as tensors and can map a weight back to the original samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from ...data import (
    NO_METADATA,
    SEEN,
    Axes,
    Axis,
    Metadata,
    as_samples,
    checked_any_axes,
    checked_axes,
    checked_labels,
    checked_samples,
    chunked_along_samples,
    fitted,
    same_library,
    samples_as_fitted,
    seen_fits,
    shape_of_samples,
)
from ...runtime import Array, as_array, is_lazy, like
from ._passes import mapped


class OptionError(ValueError):
    """An error of a parameter that also has the text for the command line, which counts modes from 1."""

    def __init__(self, message: str, for_options: str) -> None:
        super().__init__(message, for_options)

    def __str__(self) -> str:
        return str(self.args[0])


def in_options(error: ValueError) -> str:
    """Return the text of an error for the command line."""
    return str(error.args[1] if isinstance(error, OptionError) else error)


def wrong_mode(message: str, mode: Any, order: int) -> OptionError:
    """Return the error for a mode that samples of this order do not have."""
    got = mode + 1 if isinstance(mode, Integral) else mode
    return OptionError(message, f"K in mode K must be from 1 to {order}, the number of modes; got mode {got}")


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
        known = [f'"{one}"' if isinstance(one, str) else repr(one) for one in choices]
        raise ValueError(f"{name} must be {', '.join(known[:-1])} or {known[-1]}; got {name}={value!r}")


def check_sizes(shape: Any) -> None:
    """Raise ValueError unless a shape is a tuple (or list) of integers."""
    if not isinstance(shape, tuple | list) or not shape or not all(isinstance(size, Integral) for size in shape):
        raise ValueError(f"shape must be a tuple of whole numbers, one per mode; got shape={shape!r}")


def wrong_shape(rule: str, shape: Any) -> OptionError:
    """Return the error for sizes that do not suit the samples."""
    return OptionError(f"shape {rule}; got shape={shape!r}", f"the sizes {rule}; got {'x'.join(map(str, shape))}")


def checked_mode(mode: Any, order: int, name: str = "mode", axes: Axes | None = None) -> int:
    """Return a mode as a non-negative index; raise ValueError if samples of this order do not have it.

    A mode may be given by its name if the axes of the samples are known.

    Examples
    --------
    >>> from tensormargin.transformers import checked_mode
    >>> checked_mode(-1, order=3)
    2
    """
    whole = isinstance(mode, Integral) and not isinstance(mode, bool)
    names = [axis.name for axis in axes or ()]
    if isinstance(mode, str) and names.count(mode) == 1:
        return names.index(mode)
    if not whole or not -order <= mode < order:
        known = "" if not isinstance(mode, str) else f", and the modes are {names}" if any(names) else _NO_NAMES
        rule = f"{name} must be one of the {order} modes of the samples, from {-order} to {order - 1}"
        raise wrong_mode(f"{rule}; got {name}={mode!r}{known}", mode, order)
    return int(mode) % order


_NO_NAMES = (
    ", and the modes of these samples have no names. They have if samples are an xarray DataArray, which only the "
    "first step of a pipeline sees; give a number, or set the numbers of all steps with "
    "tensormargin.transformers.with_mode_numbers(model, axes)"
)


def takes_ragged(model: Any) -> bool:
    """Return whether a transformer or model takes samples of different lengths; its first step decides.

    Examples
    --------
    >>> from tensormargin import EqualLength, TensorMarginClassifier
    >>> from tensormargin.transformers import takes_ragged
    >>> takes_ragged(EqualLength()), takes_ragged(TensorMarginClassifier())
    (True, False)
    """
    return bool(getattr(_first_step(model), "_takes_ragged", False))


def takes_nan(model: Any) -> bool:
    """Return whether a transformer or model takes samples with missing entries (NaN); its first step decides.

    Examples
    --------
    >>> from tensormargin import Impute, TensorMarginClassifier
    >>> from tensormargin.transformers import takes_nan
    >>> takes_nan(Impute()), takes_nan(TensorMarginClassifier())
    (True, False)
    """
    return bool(getattr(_first_step(model), "_takes_nan", False))


def _first_step(model: Any) -> Any:
    while isinstance(model, Pipeline):
        model = next((step for _, step in model.steps if step not in (None, "passthrough")), None)
    return model


def _makes_vectors(transformer: Any) -> bool:
    """Return whether the transformed samples are vectors, which can have feature names; True before `fit`."""
    return len(getattr(transformer, "sample_shape_out_", (1,))) == 1


def needed_groups(groups: Array | None, rule: str, remedy: str) -> Array:
    """Return groups; raise ValueError if there are none."""
    if groups is None:
        raise ValueError(
            f"{rule}: pass groups= to fit and transform (in a pipeline, with scikit-learn's enable_metadata_routing), "
            f"or {remedy}"
        )
    return groups


class TakesMetadata(TransformerMixin, BaseEstimator):
    """A transformer whose `fit` and `transform` take groups and confounds."""

    # Under scikit-learn's metadata routing, groups and confounds reach these methods without a request.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"groups": True, "confounds": True}
    __metadata_request__transform: ClassVar[dict[str, bool]] = {"groups": True, "confounds": True}

    @property
    def needed_metadata(self) -> set[str]:
        """Names of the metadata, "groups" or "confounds", that `fit` and `transform` cannot do without."""
        return set()


@fitted.attributes(
    sample_shape_in_=fitted.shape, sample_shape_out_=fitted.shape, _seen=fitted.floats(0) | fitted.ABSENT, **SEEN
)
class KeepsTensors(TakesMetadata, ABC):
    """A transformer of tensor samples of shape ``sample_shape_in_`` to others of shape ``sample_shape_out_``.

    A subclass defines what it learns (`_learn`), the shape of samples that follows from this (`_shape_out`), what it
    does (`_change`), how a weight on its output translates to its input (`pull_back`), and a description (`words`).
    It declares what it learns by `fitted.attributes`.

    Samples may be NumPy arrays (or array-likes), array API arrays, which stay in their library and on their device
    (the same in `fit` and `transform`, as in scikit-learn), or Dask arrays: `fit` then takes one pass over the chunks,
    on the workers, and `transform` computes nothing and returns a Dask array with the same chunks along the samples.
    Other input that `tensormargin.data.conversion.as_samples` accepts is converted to an array first.

    After ``set_output(transform="pandas")`` vectors are returned as a data frame; tensors stay arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import Resize
    >>> from tensormargin.transformers import KeepsTensors
    >>> step = Resize((2, 3)).fit(np.zeros((5, 4, 6)))
    >>> isinstance(step, KeepsTensors), step.sample_shape_in_, step.sample_shape_out_
    (True, (4, 6), (2, 3))
    """

    sample_shape_in_: tuple[Any, ...]  # sizes; None for a mode in which samples differ
    sample_shape_out_: tuple[int, ...]
    _takes_ragged: ClassVar[bool] = False  # whether samples may differ in length
    _takes_nan: ClassVar[bool] = False  # whether entries may be missing
    _mode_parameters: ClassVar[tuple[str, ...]] = ("mode",)  # those that name modes, by number or by name
    _keeps_modes: ClassVar[bool] = True  # whether output samples have the modes of input samples, in any size
    _seen: Any = np.empty(0)  # empty array in the library and on the device of the training samples

    def fit(self, X: Any, y: Any = None, groups: Any = None, confounds: Any = None) -> Self:
        """Learn from training samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, I_1, ..., I_M)
        y : ignored
        groups : array-like of shape (n_samples,), optional
            Run, session or subject of each sample, for transformers that work by group.
        confounds : array-like of shape (n_samples, n_confounds), optional
            Age, site, ... of each sample, for `Deconfound`.
        """
        X = checked_samples(self, X, finite=not self._takes_nan, ragged=self._takes_ragged)
        self.sample_shape_in_ = shape_of_samples(X)
        self._seen = like(np.empty(0, np.float32), X)
        self._learn(X, Metadata.checked(X, groups, confounds))
        self.sample_shape_out_ = self._shape_out()
        return self

    def transform(self, X: Any, groups: Any = None, confounds: Any = None) -> Array:
        """Return the transformed samples, of shape ``(n_samples, *sample_shape_out_)``."""
        check_is_fitted(self)
        X = self._as_fitted(X)
        same_library(self, X, "_seen", "transform")
        metadata = Metadata.checked(X, groups, confounds)
        return self._change_lazily(X, metadata) if is_lazy(X) else self._change(X, metadata)

    def fit_transform(self, X: Any, y: Any = None, groups: Any = None, confounds: Any = None) -> Array:
        """Fit to the samples and return them transformed."""
        return self.fit(X, y, groups, confounds).transform(X, groups, confounds)

    @property
    def maps_after(self) -> bool:
        """Whether weight maps are drawn on the transformed samples, as no weight can be pulled back to the input."""
        return False

    @property
    def makes_features(self) -> bool:
        """Whether the transformed samples are features, of a kernel for example, which no map can show."""
        return False

    def axes_out(self, axes: Axes | None = None) -> Any:
        """Return names, units and coordinates of the modes of the transformed samples, as far as they are known.

        ``axes`` are those of the samples; by default what `fit` has seen, if X was an xarray DataArray or a data frame.
        Where the transformer returns Views, the result is a dictionary.
        """
        check_is_fitted(self)
        seen = getattr(self, "axes_in_", None) if axes is None else axes
        known = seen if seen is not None else (Axis(),) * len(self.sample_shape_in_)
        known = checked_axes(known, self.sample_shape_in_) or known
        return checked_any_axes(self._axes_out(known), self.sample_shape_out_)

    def _axes_out(self, axes: Axes) -> Any:
        """Return the axes of the output; by default those of modes that keep their size, and names of the others."""
        sizes = self.sample_shape_in_, self.sample_shape_out_
        if not self._keeps_modes or len(sizes[0]) != len(sizes[1]):
            return (Axis(),) * len(sizes[1])
        return tuple(
            axis if old == new else Axis(axis.name, axis.unit) for axis, old, new in zip(axes, *sizes, strict=True)
        )

    def number_modes(self, axes: Any) -> Any:
        """Replace names of modes among the parameters by their numbers; return the axes after this step.

        See `with_mode_numbers`. Only names are returned, since the transformer is not fitted.
        """
        for name in self._mode_parameters:
            if hasattr(self, name):
                setattr(self, name, self._numbered(getattr(self, name), axes, name))
        return axes if self._keeps_modes else None

    def _numbered(self, value: Any, axes: Any, name: str) -> Any:
        if isinstance(value, tuple | list):
            return type(value)(self._numbered(one, axes, name) for one in value)
        if isinstance(value, str) and axes is None:
            raise ValueError(
                f"{name}={value!r} is the name of a mode, and the names of the modes are not known before "
                f"{type(self).__name__}: the samples have none, or a step has made other modes. Give the number"
            )
        return checked_mode(value, len(axes), name, axes) if isinstance(value, str) else value

    def _mode(self, mode: Any, order: int, name: str = "mode") -> int:
        """Return a mode, given by number or name, as a non-negative index."""
        return checked_mode(mode, order, name, getattr(self, "axes_in_", None))

    def _as_fitted(self, X: Any) -> Any:
        return samples_as_fitted(self, X, self.sample_shape_in_, finite=not self._takes_nan)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set the output container of `transform` ("default", "pandas", "polars"), as in scikit-learn.

        Tensors stay arrays, and None leaves the setting unchanged.
        """
        # scikit-learn's method has the same effect, but is unavailable once a fit has returned tensors.
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    @available_if(_makes_vectors)
    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the feature names of the transformed samples; available only if these are vectors.

        If the samples are vectors, too, the names of features that are kept are ``input_features``, by default those
        seen in `fit`, or x0, x1, ...
        """
        check_is_fitted(self)
        if len(self.sample_shape_in_) == 1 and None not in self.sample_shape_in_:
            kept = self._names_kept(_check_feature_names_in(self, input_features))
            if kept is not None:
                return kept
        return np.array(self._new_names(), dtype=object)

    def _names_kept(self, names: Array) -> Array | None:
        """Return the output names if every output feature is an input feature, otherwise None."""
        return names if self.sample_shape_out_ == self.sample_shape_in_ else None

    def _new_names(self) -> list[str]:
        stem = type(self).__name__.lower()
        return [f"{stem}{entry}" for entry in range(self.sample_shape_out_[0])]

    @abstractmethod
    def pull_back(self, weight: Any) -> Array:
        """Return the weight on the input with the same scores, up to a constant, as ``weight`` on the output."""

    @abstractmethod
    def words(self) -> str:
        """Return a description as a sentence without the full stop; the transformer need not be fitted."""

    def brief(self) -> str:
        """Return a description in a few words, for lists of alternatives; by default `words`."""
        return self.words()

    @abstractmethod
    def _learn(self, X: Any, metadata: Metadata) -> None:
        """Learn from samples of any library, including lazy ones."""

    def _shape_out(self) -> tuple[int, ...]:
        """Return the shape of the output samples, from what was learned; by default that of the input samples."""
        return self.sample_shape_in_

    def _fits(self) -> dict[str, Any]:
        """Return conditions on several learned attributes by name, such as those in the file of a model."""
        known = self._takes_ragged or None not in self.sample_shape_in_
        return {
            "sample_shape_in_": known,
            "sample_shape_out_": known and self.sample_shape_out_ == self._shape_out(),
            **seen_fits(self, self.sample_shape_in_),
        }

    @abstractmethod
    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        """Return the transformed samples; X is not lazy."""

    def _change_lazily(self, X: Any, metadata: Metadata) -> Any:
        return mapped(X, self._snapshot()._change)

    def _snapshot(self) -> Self:
        """Return a copy for use in a Dask graph, which a later `fit` does not change."""
        return copy(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self._takes_nan
        tags.array_api_support = True
        return tags


class CanBeUndone(KeepsTensors):
    """A transformer with an inverse, which a subclass defines (`_undo`)."""

    def inverse_transform(self, X: Any) -> Array:
        """Return the (approximate) original samples; lazily for a Dask array."""
        check_is_fitted(self)
        X = as_array(as_samples(X))
        same_library(self, X, "_seen", "inverse_transform")
        return mapped(chunked_along_samples(X), self._snapshot()._undo) if is_lazy(X) else self._undo(X)

    def pull_back(self, weight: Any) -> Array:
        return self._undo(as_array(weight)[None, ...])[0, ...]

    @abstractmethod
    def _undo(self, X: Any) -> Any:
        """Return the samples with their original shape and values; X is not lazy."""


class LearnsFromLabels(KeepsTensors):
    """A transformer that needs the labels of the training samples; `_labels` has them in `_learn`."""

    _labels: Any

    def fit(self, X: Any, y: Any = None, groups: Any = None, confounds: Any = None) -> Self:
        """Learn from samples and their labels y."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: it learns from classes. "
                "Pass the labels of the training samples"
            )
        self._labels = y
        try:
            return super().fit(X, y, groups, confounds)
        finally:
            del self._labels

    def _coded(self, X: Any) -> tuple[Array, Array]:
        """Return the classes, and the code of each sample."""
        classes, codes = np.unique(checked_labels(X, self._labels), return_inverse=True)
        return classes, codes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
