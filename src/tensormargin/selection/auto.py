"""The model that ``tensormargin fit --auto`` fits."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from ..transformers import MoveMode, TensorScaler, checked_mode
from .classifier import TensorMarginClassifierCV

BEFORE = "before"
"""Name of the step in front of all representations that a search chooses from."""

_BESIDE_VIEWS = {"rule": "default", "decompositions": ("full", "cp"), "ranks": (1, 2)}
"""Parameters of a search whose alternatives have several views, all of a kind's representations side by side. These are
chosen unless another one is better by more than chance allows. Of low-rank weights of single representations, CP of
rank 1 and 2 do what all others do (docs/field.md), in a fraction of the time."""


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
    kind : {"series", "eeg", "volume", "image", "spectra", "connectome", "plain"}, default="plain"
        Kind of the samples, which decides on the representations to try (`tensormargin.selection.kinds.KINDS`):
        "plain" has none but scaling. `tensormargin.selection.kinds.guess_kind` guesses it.
    shape : tuple of int, optional
        Shape of a sample before the ``preparation``'s result, that is, of what the representations take. Not needed for
        "plain".
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
    before = parameters.pop("preparation", None)
    if kind == "plain" and shape is None:
        scaler = TensorScaler() if scaler is None else scaler
        tried = [before, scaler if before is None else Pipeline([(BEFORE, before), ("scale", scaler)])]
        return TensorMarginClassifierCV(preparation=tried, **{"random_state": 0, **parameters})
    from .kinds import KINDS, alternatives, views_of  # imports all representations

    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
    if shape is None:
        raise ValueError(f"kind={kind!r} needs the shape of the samples; pass shape=X.shape[1:]")
    shape = tuple(shape)
    if time not in (-1, len(shape) - 1):
        time = checked_mode(time, len(shape), "time")
        move = MoveMode(time)
        before = move if before is None else Pipeline([("before", before), ("time_last", move)])
        shape = (*shape[:time], *shape[time + 1 :], shape[time])
    tried = alternatives(kind, shape, sfreq, before, linear)
    several = _BESIDE_VIEWS if views_of(kind, shape, linear) else {}
    return TensorMarginClassifierCV(preparation=tried, **{"random_state": 0, **several, **parameters})
