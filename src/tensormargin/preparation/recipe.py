"""A compact description of a preparation, for the command line and the methods section of a report."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone
from sklearn.pipeline import Pipeline

from .._typing import Array
from .confounds import Deconfound
from .lengths import EqualLength
from .resizing import Resize
from .scaling import TensorScaler
from .shaping import Crop, Mask, Tensorize
from .union import ViewTransformer

COVARIATES = "covariates"
"""Name of the view that holds one column per covariate."""

_LENGTH = re.compile(
    r"(resample|edge|mean|[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?:\s+([1-9]\d*))?(?:\s+mode\s+([1-9]\d*))?"
)


@dataclass(frozen=True)
class Recipe:
    """The steps before the classifier, in this order.

    Attributes
    ----------
    length : str or None
        One length for samples of several: "resample", "edge", "mean" or the number to pad with ("0"), then perhaps the
        length ("resample 128"; see `EqualLength` for the one it has otherwise), then perhaps the mode, counted from 1
        ("edge 128 mode 1"; the last one otherwise).
    by_group : bool
        Whether to scale every entry separately within each group.
    mask, crop : str or None
        "varying" or "bright", see `Mask` and `Crop`.
    resize, tensorize : tuple of int or None
        New sizes, see `Resize` and `Tensorize`.
    scale : str
        "none", "entry", "global", or "mode K" (K from 1): see `TensorScaler`.
    confounds : tuple of str
        Names of the confounds to remove, see `Deconfound`; on each training set, before the other steps but the length.

    Examples
    --------
    >>> from tensormargin.preparation import Recipe
    >>> Recipe(resize=(16, 16)).words()
    ['samples were resized to 16 x 16']
    """

    by_group: bool = False
    mask: str | None = None
    crop: str | None = None
    resize: tuple[int, ...] | None = None
    scale: str = "none"
    tensorize: tuple[int, ...] | None = None
    length: str | None = None
    confounds: tuple[str, ...] = ()

    def outer(self, shape: Any = None) -> list[tuple[str, Any]]:
        """Return the steps that need groups, and those that must come before them.

        Scaling by group carries nothing over from one group to another; a length is learned from the training samples.
        For ``shape`` see `inner`.
        """
        if not self.by_group:
            return []
        steps = [*self._length_step(), ("scale_by_group", TensorScaler(by_group=True))]
        return [(name, self._per_view(step, shape)) for name, step in steps]

    def scaled_by_group(self, X: Any, groups: Array | None) -> Any:
        """Return the samples, scaled within each group if ``by_group``; raise ValueError if groups are missing.

        Arrays stay in their library, and Dask arrays stay lazy.
        """
        if not self.by_group:
            return X
        for _, step in self._length_step():
            X = step.fit_transform(X)
        return TensorScaler(by_group=True).fit_transform(X, groups=groups)

    def inner(self, shape: Any = None) -> Any:
        """Return one transformer for the other steps, to be fitted on each training set; None if there are none.

        ``shape`` is the shape of the samples. For several views, a dictionary, each view is prepared by itself.
        Covariates are only scaled, since their columns have different units.
        """
        if self.by_group and "bright" in (self.mask, self.crop):
            raise ValueError(
                'no entry is brighter than others after scaling by group, which makes every mean zero; use "varying", '
                "or leave one of them out"
            )
        steps = self._inner_steps()
        one = Pipeline(steps) if len(steps) > 1 else steps[0][1] if steps else None
        if isinstance(shape, dict) and COVARIATES in shape:
            of_view = {} if one is None else self._per_view(one, shape).transformers
            return ViewTransformer({**of_view, COVARIATES: TensorScaler()})
        return None if one is None else self._per_view(one, shape)

    def scaler(self, shape: Any = None) -> Any:
        """Return what scales every entry of the samples, of several views but the covariates."""
        return self._per_view(TensorScaler(), shape)

    def _per_view(self, step: Any, shape: Any) -> Any:
        """Return a step for samples of a shape: the step itself, or for several views one copy for each."""
        if not isinstance(shape, dict):
            return step
        names = [name for name in shape if name != COVARIATES]
        given = [option for option in ("length", "resize", "tensorize") if getattr(self, option) is not None]
        if given and len(names) > 1:
            raise ValueError(
                f"{given[0]} (--{given[0]}) gives samples one shape, and there are {len(names)} views: "
                f"{', '.join(names)}. Prepare the files first, or use tensormargin.ViewTransformer in Python"
            )
        return ViewTransformer({name: clone(step) for name in names})

    def _inner_steps(self) -> list[tuple[str, Any]]:
        steps = [] if self.by_group else self._length_step()
        if self.confounds:
            steps.append(("confounds", Deconfound(self.confounds)))
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

    def _length_step(self) -> list[tuple[str, Any]]:
        if self.length is None:
            return []
        found = _LENGTH.fullmatch(self.length.strip())
        if found is None:
            raise ValueError(
                'length must be "resample", "edge", "mean" or a number to pad with, then perhaps the length and '
                f'"mode K" with K from 1, such as "resample 128" or "0 128 mode 1"; got {self.length!r}'
            )
        how, length, mode = found.groups()
        named = how in ("resample", "edge", "mean")
        step = EqualLength(
            length=None if length is None else int(length),
            method=how if named else "constant",
            value=0.0 if named else float(how),
            mode=-1 if mode is None else int(mode) - 1,
        )
        return [("length", step)]

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
