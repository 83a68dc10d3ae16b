"""The model that ``tensormargin fit --auto`` fits."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from ..preparation import TensorScaler
from .classifier import TensorMarginClassifierCV


def auto_model(**parameters: Any) -> TensorMarginClassifierCV:
    """Return a search over everything: the samples as they come or every entry scaled, decomposition, rank, strengths.

    Parameters
    ----------
    **parameters
        Of `TensorMarginClassifierCV`; a ``preparation`` (one transformer) comes before the choice of scaling.
    """
    before = parameters.pop("preparation", None)
    scaled = TensorScaler() if before is None else Pipeline([("before", before), ("scale", TensorScaler())])
    return TensorMarginClassifierCV(preparation=[before, scaled], **{"random_state": 0, **parameters})
