"""A compact description of a preparation, for the command line and the methods section of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.pipeline import Pipeline

from .._typing import Array
from .resizing import Resize
from .scaling import TensorScaler
from .shaping import Crop, Mask, Tensorize


@dataclass(frozen=True)
class Recipe:
    """The steps before the classifier, in this order.

    Attributes
    ----------
    by_group : bool
        Whether to scale every entry separately within each group.
    mask, crop : str or None
        "varying" or "bright", see `Mask` and `Crop`.
    resize, tensorize : tuple of int or None
        New sizes, see `Resize` and `Tensorize`.
    scale : str
        "none", "entry", "global", or "mode K" (K from 1): see `TensorScaler`.
    """

    by_group: bool = False
    mask: str | None = None
    crop: str | None = None
    resize: tuple[int, ...] | None = None
    scale: str = "none"
    tensorize: tuple[int, ...] | None = None

    def outer(self) -> list[tuple[str, Any]]:
        """Return the steps that need groups; they carry nothing over from one group to another."""
        return [("scale_by_group", TensorScaler(by_group=True))] if self.by_group else []

    def scaled_by_group(self, X: Any, groups: Array | None) -> Any:
        """Return the samples, scaled within each group if ``by_group``; raise ValueError if groups are missing.

        Arrays stay in their library, and Dask arrays stay lazy.
        """
        return TensorScaler(by_group=True).fit_transform(X, groups=groups) if self.by_group else X

    def inner(self) -> Any:
        """Return one transformer for the other steps, to be fitted on each training set; None if there are none."""
        if self.by_group and "bright" in (self.mask, self.crop):
            raise ValueError(
                'no entry is brighter than others after scaling by group, which makes every mean zero; use "varying", '
                "or leave one of them out"
            )
        steps = self._inner_steps()
        return Pipeline(steps) if len(steps) > 1 else steps[0][1] if steps else None

    def _inner_steps(self) -> list[tuple[str, Any]]:
        steps: list[tuple[str, Any]] = []
        if self.mask is not None:
            steps.append(("mask", Mask(self.mask)))
        if self.crop is not None:
            steps.append(("crop", Crop(self.crop)))
        if self.resize is not None:
            steps.append(("resize", Resize(self.resize)))
        if self.scale != "none":
            steps.append(("scale", TensorScaler(self._per())))
        if self.tensorize is not None:
            steps.append(("tensorize", Tensorize(self.tensorize)))
        return steps

    def _per(self) -> str | int:
        if self.scale in ("entry", "global"):
            return self.scale
        kind, _, number = self.scale.partition(" ")
        if kind != "mode" or not number.isdigit() or int(number) < 1:
            raise ValueError(f'scale must be "none", "entry", "global" or "mode K" with K from 1; got {self.scale!r}')
        return int(number) - 1

    def words(self) -> list[str]:
        """Return one sentence per step."""
        return [step.words() for _, step in (*self.outer(), *self._inner_steps())]
