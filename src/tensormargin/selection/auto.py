"""The model that ``tensormargin fit --auto`` fits."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from ..preparation import TensorScaler
from .classifier import TensorMarginClassifierCV


def auto_model(scaler: Any = None, **parameters: Any) -> TensorMarginClassifierCV:
    """Return a search over scaling (none or per entry), decomposition, rank, lambda, mu1 and mu2, and the scheme.

    Parameters
    ----------
    scaler : transformer, optional
        What scales the samples; by default a TensorScaler.
    **parameters
        Parameters of `TensorMarginClassifierCV`. A ``preparation`` (one transformer) is applied before the scaling.
    """
    before, scaler = parameters.pop("preparation", None), TensorScaler() if scaler is None else scaler
    scaled = scaler if before is None else Pipeline([("before", before), ("scale", scaler)])
    return TensorMarginClassifierCV(preparation=[before, scaled], **{"random_state": 0, **parameters})
