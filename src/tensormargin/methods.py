"""The paper's seven methods by name: presets of one estimator."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from .estimators import TensorMarginClassifier

_HINGE_ONLY = {"mu1": 0.0, "mu2": 0.0}

METHODS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "SVM": {"decomposition": "full", **_HINGE_ONLY},
        "LMDM": {"decomposition": "full"},
        "STM": {"decomposition": "cp", "rank": 1, **_HINGE_ONLY},
        "STuM": {"decomposition": "tucker", **_HINGE_ONLY},
        "SPMD-LRT": {"decomposition": "cp", "rank": 1},
        "HSPMD-LRT": {"decomposition": "cp"},  # default rank: 2 if the sample shape allows it
        "TuSPMD-LRT": {"decomposition": "tucker"},
    }
)
"""Parameters of `TensorMarginClassifier` for each method of the paper (its Table 1)."""


def make_method(name: str, **overrides: Any) -> TensorMarginClassifier:
    """Return an unfitted classifier for one of the paper's methods.

    Parameters
    ----------
    name : str
        A key of `METHODS`.
    **overrides
        Parameters of `TensorMarginClassifier` that override the preset.

    Examples
    --------
    >>> from tensormargin import make_method
    >>> make_method("STuM", rank=(4, 4))
    TensorMarginClassifier(mu1=0.0, mu2=0.0, rank=(4, 4))
    """
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}; the paper's methods are {', '.join(METHODS)}")
    return TensorMarginClassifier(**{**METHODS[name], **overrides})


def check_methods(names: Sequence[str], known: Collection[str] = tuple(METHODS)) -> None:
    """Raise ValueError if a name is unknown (by default, not a key of `METHODS`) or there are none."""
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(f"unknown method {', '.join(unknown) or '(none)'}; the methods are {', '.join(known)}")
