"""Methods by name: the paper's seven, which are presets of one estimator, and their kernel versions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sklearn.pipeline import Pipeline

from ..transformers import TensorKernel
from .classifier import TensorMarginClassifier

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


KERNEL_METHODS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"RBF-SVM": ("rbf", "SVM"), "RBF-LMDM": ("rbf", "LMDM"), "DuSK": ("dusk", "SVM"), "TT-MMK": ("tt-mmk", "SVM")}
)
"""Kernel methods: the kernel of `TensorKernel`, and the flat method behind it.

"DuSK" (He et al. 2014) and "TT-MMK" (Kour et al. 2023) are support vector machines with these kernels of tensors.
"""


def make_method(name: str, **overrides: Any) -> Any:
    """Return an unfitted classifier for one of the paper's methods, or a pipeline for a kernel method.

    Parameters
    ----------
    name : str
        A key of `METHODS` or `KERNEL_METHODS`; upper and lower case, hyphens and underscores make no difference.
    **overrides
        Parameters of `TensorMarginClassifier` that override the preset. For a kernel method, names that begin with
        ``kernel__`` are parameters of `TensorKernel`.

    Returns
    -------
    TensorMarginClassifier, or a Pipeline of the steps "kernel" and "classifier"

    Examples
    --------
    >>> from tensormargin import make_method
    >>> make_method("STuM", rank=(4, 4))
    TensorMarginClassifier(mu1=0.0, mu2=0.0, rank=(4, 4))
    >>> make_method("DuSK", kernel__rank=3)["kernel"]
    TensorKernel(kernel='dusk', rank=3)
    """
    name = method_name(name)
    if name in METHODS:
        return TensorMarginClassifier(**{**METHODS[name], **overrides})
    kernel, flat = KERNEL_METHODS[name]
    of_kernel = {key.removeprefix("kernel__"): value for key, value in overrides.items() if key.startswith("kernel__")}
    others = {key: value for key, value in overrides.items() if not key.startswith("kernel__")}
    classifier = TensorMarginClassifier(**{**METHODS[flat], **others})
    return Pipeline([("kernel", TensorKernel(**{"kernel": kernel, **of_kernel})), ("classifier", classifier)])


def method_name(name: str, known: Collection[str] = (*METHODS, *KERNEL_METHODS)) -> str:
    """Return the name of a method as it is listed: "STuM" for "stum" or "STUM"; raise ValueError for others."""
    listed = {_bare(one): one for one in known}
    if not isinstance(name, str) or _bare(name) not in listed:
        raise ValueError(f"unknown method {name!r}; the methods are {', '.join(known)}")
    return listed[_bare(name)]


def _bare(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def check_methods(names: Sequence[str], known: Collection[str] = tuple(METHODS)) -> None:
    """Raise ValueError if a name is unknown (by default, not a key of `METHODS`) or there are none."""
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(f"unknown method {', '.join(unknown) or '(none)'}; the methods are {', '.join(known)}")
