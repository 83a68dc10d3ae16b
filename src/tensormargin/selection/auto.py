"""The classifier that also finds out what its samples are, and chooses representations that suit them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..data import (
    AnyAxes,
    Metadata,
    Views,
    all_finite,
    as_samples,
    checked_any_axes,
    converted,
    fitted,
    is_ragged,
    shape_of_samples,
    unit_in,
    without_padding,
)
from ..inspection import weight_maps
from ..io import SampleSet
from ..runtime import is_lazy, note
from ..transformers import EqualLength, Recipe, describe_step, fit_transformed, takes_ragged
from .classifier import TensorMarginClassifierCV
from .grid import DECOMPOSITIONS, LAMS, MUS, RANKS, Mu
from .kinds import ALONG_TIME, KINDS, guess_kind, sampling_frequency, scaled_or_not, settled, time_mode
from .scoring import DEFAULT_RULE

_CHOSEN = {"decompositions": DECOMPOSITIONS, "ranks": RANKS, "rule": DEFAULT_RULE}


@fitted.attributes(
    kind_=fitted.one_of(*KINDS),
    why_=fitted.text,
    sfreq_=fitted.number(fitted.POSITIVE) | None,
    _settled=fitted.map_of(fitted.plain),
)
class TensorMarginAutoClassifier(TensorMarginClassifierCV):
    """The classifier to begin with: it finds out what the samples are and selects everything by cross-validation.

    At `fit` the kind of the samples is taken from what they state (channels of MNE Epochs, dimensions of xarray, NIfTI
    images) or guessed from their shape. The kind decides on the representations to try (filters, covariances,
    spectra, convolutions, kernels, one by one and side by side), of which the search selects one with decomposition,
    rank, lambda, mu1, mu2 and the scheme of several classes.

    Parameters
    ----------
    kind : {"auto", "series", "eeg", "volume", "image", "spectra", "connectome", "plain"}, default="auto"
        Kind of the samples; "auto" guesses it. "plain" has no representations but scaling and a kernel.
    sfreq : float or None, default=None
        Sampling frequency in Hz, for frequency bands; by default what the samples state.
    linear : bool, default=False
        Whether to try only representations that are linear in the samples, so that the model has a weight map on the
        samples (`weight_maps`) and can be exported.
    time : int or None, default=None
        The mode of time of series, counted from 0; by default what the samples state, or the last but for samples with
        many rows and few columns.
    preparation : transformer or None, default=None
        What comes first. Samples that differ in length, also if NaN pads shorter ones at their end, get one length
        without it (`EqualLength`).
    decompositions, ranks, rule : default=None
        As in `TensorMarginClassifierCV`; by default what suits the kind.
    lams, mus, cv, scoring, exhaustive, budget, class_weight, multi_class
        As in `TensorMarginClassifierCV`.
    fit_intercept, tol, max_iter, solver, n_jobs, random_state, verbose
        As in `TensorMarginClassifierCV`.

    Attributes
    ----------
    kind_ : str
        The kind of the samples.
    why_ : str
        What it was guessed from, in words; empty if it was given.
    sfreq_ : float or None
        The sampling frequency in Hz.
    best_estimator_, best_params_, best_score_, best_index_, cv_results_, stopped_, tried_, classes_, ...
        As in `TensorMarginClassifierCV`.

    See Also
    --------
    TensorMarginClassifierCV : The search without representations.
    tensormargin.nested_evaluation : An estimate of the accuracy on new samples; ``best_score_`` is optimistic.

    Examples
    --------
    >>> from tensormargin import TensorMarginAutoClassifier
    >>> from tensormargin.datasets import load_basic_motions
    >>> motions = load_basic_motions()
    >>> train = motions.split == "train"
    >>> model = TensorMarginAutoClassifier(random_state=0).fit(motions.data[train], motions.target[train])
    >>> model.kind_, bool(model.score(motions.data[~train], motions.target[~train]) > 0.95)
    ('series', True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **TensorMarginClassifierCV._parameter_constraints,
        "kind": [StrOptions({"auto", *KINDS})],
        "sfreq": [Interval(Real, 0, None, closed="neither"), None],
        "linear": ["boolean"],
        "time": [int, np.integer, None],
        **{name: [*TensorMarginClassifierCV._parameter_constraints[name], None] for name in _CHOSEN},
    }

    def __init__(
        self,
        kind: str = "auto",
        sfreq: float | None = None,
        linear: bool = False,
        time: int | None = None,
        preparation: Any = None,
        decompositions: Sequence[str] | None = None,
        ranks: Sequence[int | tuple[int, ...] | None] | None = None,
        lams: Sequence[float] = LAMS,
        mus: Sequence[Mu] = MUS,
        cv: Any = None,
        scoring: Any = None,
        rule: str | None = None,
        exhaustive: bool = False,
        budget: float | None = None,
        class_weight: dict[Any, float] | str | None = None,
        multi_class: str = "auto",
        fit_intercept: bool = True,
        tol: float = 1e-3,
        max_iter: int = 100,
        solver: str = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        for name, value in list(locals().items()):  # scikit-learn reads the parameters from this signature
            if name != "self":
                setattr(self, name, value)

    _settled: dict[str, Any] = {}  # noqa: RUF012 - replaced by each fit

    def _prepare_search(self, X: Any, y: Any, metadata: Metadata) -> tuple[Any, AnyAxes]:
        """Find out the kind of the samples, and settle what is tried; return the samples as an array, with axes."""
        self._settled = {}
        samples, before = _with_facts(X), self.preparation
        if samples is None:  # `_checked` says why
            return X, None
        samples = self._with_kind(samples)
        if before is None and is_ragged(samples.data):
            before = EqualLength(mode=shape_of_samples(samples.data).index(None))
        prepared = samples.data if before is None else fit_transformed(clone(before), samples.data, y, metadata)
        if isinstance(prepared, Views):
            if self.kind_ != "plain":
                raise ValueError(f"kind={self.kind_!r} is for one tensor per sample; leave it out for several views")
            self.sfreq_, self._settled = self.sfreq, scaled_or_not(Recipe().scaler(prepared.shapes), before)
            return samples.data, samples.axes
        shape = tuple(int(size or 1) for size in shape_of_samples(prepared))
        time = time_mode(samples, shape, self.kind_) if self.time is None else self.time
        same = shape == samples.sample_shape
        self.sfreq_ = samples.sfreq or (sampling_frequency(samples, time) if same else None)
        linear = self.linear or (self.kind_ == "plain" and is_lazy(samples.data))  # kernels would take too long
        self._settled = settled(self.kind_, shape, self.sfreq_, before, linear, time)
        return samples.data, samples.axes

    def _with_kind(self, samples: SampleSet) -> SampleSet:
        """Set ``kind_`` and ``why_``; return the samples without padding, with the sampling frequency that is given."""
        if self.preparation is None:
            samples = replace(samples, data=_unpadded(samples.data, self.time))
        samples = replace(samples, sfreq=self.sfreq or samples.sfreq)
        if self.kind != "auto":
            self.kind_, self.why_ = self.kind, ""
            return samples
        self.kind_, self.why_ = guess_kind(samples)
        if self.time is not None and self.kind_ not in ALONG_TIME and not isinstance(samples.data, Views):
            self.kind_, self.why_ = "series", "their mode of time is given"
        note(f"Samples are treated as {KINDS[self.kind_].words} because {self.why_} (change with kind=...)")
        return samples

    def settled_for(self, X: Any, axes: AnyAxes, affine: Any) -> Self:
        """Return a copy for parts of samples that will state nothing any more, for the kind that all of them have."""
        copy = clone(self)
        samples = copy._with_kind(SampleSet(X, None, None, None, affine, "samples", "", (), axes=axes))
        copy.kind = copy.kind_
        if self.preparation is None and copy.kind in ALONG_TIME and not is_ragged(samples.data):
            copy.time = time_mode(samples, samples.data.shape[1:], copy.kind) if self.time is None else self.time
            copy.sfreq = samples.sfreq or sampling_frequency(samples, copy.time)
        return copy

    @property
    def _takes_ragged(self) -> bool:  # before `fit`, which settles it
        return (self.preparation is None and not self._settled) or super()._takes_ragged

    def _apply(self, method: str, X: Any, *others: Any, **options: Any) -> Any:
        check_is_fitted(self)
        if self.preparation is None and takes_ragged(self.best_estimator_):
            data = as_samples(X, ragged=True)
            series = _unpadded(data, self.time)
            X = X if series is data else series  # with the axes that it states
        return super()._apply(method, X, *others, **options)

    def _setting(self, name: str) -> Any:
        value = getattr(self, name)
        if name == "preparation":
            return self._settled.get(name, value)
        return self._settled.get(name, _CHOSEN[name]) if value is None else value

    def weight_maps(self) -> Any:
        """Return the weights on the original samples, see `tensormargin.weight_maps`; ``linear=True`` ensures them."""
        return weight_maps(self)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = super().__repr__(N_CHAR_MAX)
        if not self.__sklearn_is_fitted__():
            return text
        best = self.best_params_
        weight = best["decomposition"] if best["rank"] is None else f"{best['decomposition']} of rank {best['rank']}"
        return f"{text}  # {self.kind_}: {weight}, {describe_step(best['preparation'], brief=True)}"


def _with_facts(X: Any) -> SampleSet | None:
    """Return samples with what X states about them; None for what is no samples."""
    data, axes = converted(X, ragged=True)
    if not isinstance(data, Views) and not hasattr(data, "shape"):
        data = np.asarray(data)
    if not isinstance(data, Views) and not is_ragged(data) and (len(data.shape) < 2 or 0 in data.shape):
        return None
    shape = data.shapes if isinstance(data, Views) else shape_of_samples(data)
    first = X[0] if isinstance(X, list | tuple) and X else X
    affine = getattr(first, "affine", None)  # of a NIfTI image
    stated: dict[str, Any] = {"axes": checked_any_axes(axes, shape), "unit": unit_in(X)}
    return SampleSet(data, None, None, None, affine, "samples", "", (), **stated)


def _unpadded(data: Any, time: int | None) -> Any:
    """Return series that NaN pads at their end, along any mode or that of time, as a vector; others as they are."""
    if not isinstance(data, np.ndarray) or is_ragged(data) or data.ndim < 3 or all_finite(data):
        return data
    order = data.ndim - 1
    for mode in range(order - 1, -1, -1) if time is None else (time % order,):
        found = without_padding(data, mode + 1)
        if all(map(all_finite, found)):
            return found
    first = int(np.isnan(data).any(axis=tuple(range(1, data.ndim))).argmax())
    raise ValueError(
        "NaN may only pad shorter series at their end, in all channels; it is elsewhere, too (the first sample with "
        f"NaN is {first}). Fill such entries in with preparation=tensormargin.Impute(), or leave those samples out"
    )


def auto_model(
    kind: str = "plain",
    shape: Any = None,
    sfreq: float | None = None,
    scaler: Any = None,
    linear: bool = False,
    time: int = -1,
    **parameters: Any,
) -> TensorMarginClassifierCV:
    """Return a search over representations, decomposition, rank, lambda, mu1 and mu2, and the scheme.

    Parameters
    ----------
    kind : {"auto", "series", "eeg", "volume", "image", "spectra", "connectome", "plain"}, default="plain"
        Kind of the samples, which decides on the representations to try (`tensormargin.selection.kinds.KINDS`):
        "plain" has none but scaling and, with a ``shape``, a kernel. "auto" returns a
        `TensorMarginAutoClassifier`, which guesses it at ``fit``.
    shape : tuple of int, optional
        Shape of a sample before the ``preparation``'s result, that is, of what the representations take. Not needed for
        "plain" and "auto".
    sfreq : float, optional
        Sampling frequency in Hz, for the names of frequency bands.
    scaler : transformer, optional
        For "plain" samples without a ``shape``: what scales them; by default a TensorScaler.
    linear : bool, default=False
        Try only representations that are linear in the samples, so that the model has a weight map on the samples
        (`tensormargin.weight_maps`) and can be exported.
    time : int, default=-1
        The mode of time of "series" and "eeg", whose representations go along the last one: it is made the last. 0 for
        time x channels.
    **parameters
        Parameters of `TensorMarginClassifierCV`. A ``preparation`` (one transformer) comes first.

    Examples
    --------
    >>> from tensormargin import auto_model
    >>> from tensormargin.datasets import load_basic_motions
    >>> motions = load_basic_motions()
    >>> train = motions.split == "train"
    >>> model = auto_model("series", motions.data.shape[1:]).fit(motions.data[train], motions.target[train])
    >>> bool(model.score(motions.data[~train], motions.target[~train]) > 0.95)
    True
    """
    parameters = {"random_state": 0, **parameters}
    before = parameters.pop("preparation", None)
    if kind == "auto":
        return TensorMarginAutoClassifier(kind, sfreq, linear, None, before, **parameters)
    found = scaled_or_not(scaler, before) if kind == "plain" and shape is None else None
    found = settled(kind, shape, sfreq, before, linear, time) if found is None else found
    return TensorMarginClassifierCV(**{**found, **parameters})
