"""A compact description of a preparation, for the command line and the methods section of a report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from ...data import (
    COVARIATES,
    AnyAxes,
    Metadata,
    Views,
    all_finite,
    format_shape,
    is_ragged,
    mode_number,
    reject_not_finite,
    shape_of,
    shape_of_samples,
    turned_to,
)
from ...runtime import Array, is_lazy
from ._base import in_options
from .confounds import Deconfound
from .resizing import EqualLength, Resize
from .scaling import TensorScaler
from .shaping import Crop, Mask, Tensorize
from .steps import fit_transformed, needed_metadata
from .union import ViewTransformer

_NAME = r"[1-9]\d*|[^\W\d][\w -]*"
_LENGTH = re.compile(
    r"(resample|edge|mean|[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?:\s+([1-9]\d*))?"
    rf"(?:\s+mode\s+({_NAME}))?"
)
_MODE = re.compile(_NAME)


def _mode(text: str) -> int | str:
    """Return the number of a mode, counted from 0, or its name."""
    return int(text) - 1 if text.isdigit() else text


def _numbered(option: Any, axes: AnyAxes, shape: Any) -> Any:
    """Return an option of a recipe with the number of the mode that it names, the same one in all views."""
    words, found, name = ("", "", "") if option is None else option.partition("mode ")
    if not found or not _MODE.fullmatch(name) or name.isdigit():
        return option
    views = {view: own for view, own in shape.items() if view != COVARIATES} if isinstance(shape, dict) else {"": shape}
    numbers = []
    for view, own in views.items():
        known = axes.get(view) if isinstance(axes, Mapping) else axes
        try:
            numbers.append(mode_number(name, known, len(own)))
        except ValueError as error:
            where = f"view {view!r}: " if view else ""
            raise ValueError(f"{where}{error}. Name the modes with --modes (mode_names), or count from 1") from error
    if len(set(numbers)) > 1:
        raise ValueError(
            f"{option!r} names modes of different numbers in the views {', '.join(views)}; prepare them first"
        )
    return f"{words}mode {numbers[0] + 1}"


FILLED, MISSING = "samples", "missing"
"""Names of the views that `Impute` returns with a mask."""


@dataclass(frozen=True, eq=False)
class MaskImage:
    """A mask from a file, with what is needed to compare it with samples.

    Attributes
    ----------
    entries : ndarray of bool
    affine : ndarray of shape (4, 4) or None
        Maps voxel indices to millimetres, if the file has one.
    source : str
        The file, as given.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import MaskImage
    >>> mask = MaskImage(np.ones((2, 3, 4), bool), np.diag([2.0, 2.0, 2.0, 1.0]), "mask.nii")
    >>> mask.check((2, 3, 4), np.diag([2.0, 2.0, 2.0, 1.0]))
    >>> mask.check((2, 3, 5), None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: mask.nii: a mask must have the shape of the samples, ...
    """

    entries: Array
    affine: Array | None
    source: str

    def turned(self, affine: Any) -> MaskImage:
        """Return the mask in the orientation of an affine, or of that of the only view that has one."""
        affine = next(iter(affine.values()), None) if isinstance(affine, Mapping) else affine
        if self.affine is None or affine is None or self.entries.ndim != 3 or np.allclose(self.affine, affine):
            return self
        return MaskImage(*turned_to(self.entries, self.affine, affine), self.source)

    def check(self, shape: Any, affine: Any) -> None:
        """Raise ValueError unless samples of this shape and affine lie where the mask does."""
        if tuple(self.entries.shape) != tuple(shape):
            raise ValueError(
                f"{self.source}: a mask must have the shape of the samples, {format_shape(tuple(shape))}; it has "
                f"{format_shape(self.entries.shape)}. Resample the mask to the samples, e.g. with "
                "nilearn.image.resample_to_img(mask, image, interpolation='nearest'), or give the one that was made "
                "from them"
            )
        if self.affine is None or affine is None or np.allclose(self.affine, affine, rtol=1e-4, atol=1e-3):
            return
        raise ValueError(
            f"{self.source}: a mask must lie where the samples do; its affine is {_rows(self.affine)}, that of the "
            f"samples {_rows(affine)}. Resample the mask to the samples, e.g. with "
            "nilearn.image.resample_to_img(mask, image, interpolation='nearest')"
        )


def _rows(affine: Any) -> str:
    rows = (" ".join(f"{value:g}" for value in row) for row in np.asarray(affine)[:3])
    return f"[{'; '.join(rows)}]"


@dataclass(frozen=True)
class Recipe:
    """The steps before the classifier, in this order.

    Attributes
    ----------
    length : str or None
        One length for samples of several: "resample", "edge", "mean" or the number to pad with ("0"), then perhaps the
        length ("resample 128"; see `EqualLength` for the one it has otherwise), then perhaps the mode, counted from 1
        or by name ("edge 128 mode 1", "edge mode time"; the last one otherwise).
    by_group : bool
        Whether to scale every entry separately within each group.
    mask, crop : str, MaskImage or None
        "varying" or "bright", see `Mask` and `Crop`, or a mask from a file.
    resize, tensorize : tuple of int or None
        New sizes, see `Resize` and `Tensorize`.
    scale : str
        "none", "entry", "global", or "mode K" (K from 1, or the name of a mode): see `TensorScaler`.
    confounds : tuple of str
        Names of the confounds to remove, see `Deconfound`; on each training set, before the other steps but the length.
    missing : transformer or None
        What fills in missing entries, `Impute`; it comes first, or right after the length.

    Examples
    --------
    >>> from tensormargin.transformers import Recipe
    >>> Recipe(resize=(16, 16)).words()
    ['samples were resized to 16 x 16']
    """

    by_group: bool = False
    mask: str | MaskImage | None = None
    crop: str | MaskImage | None = None
    resize: tuple[int, ...] | None = None
    scale: str = "none"
    tensorize: tuple[int, ...] | None = None
    length: str | None = None
    confounds: tuple[str, ...] = ()
    missing: Any = None

    @property
    def marks_missing(self) -> bool:
        """Whether samples become two views, one of which says what was missing."""
        return bool(getattr(self.missing, "mask", False))

    @property
    def takes_missing(self) -> bool:
        """Whether entries may be NaN: what is missing is filled in, or padding at the end of shorter samples."""
        return self.missing is not None or self.length is not None

    @property
    def facts(self) -> dict[str, Any]:
        """The recipe as JSON types: a mask by the name of its file, and what fills in missing entries in words."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("mask", "crop"):
            given[name] = given[name].source if isinstance(given[name], MaskImage) else given[name]
        given["missing"] = None if self.missing is None else self.missing.brief()
        return given

    def outer(self, shape: Any = None) -> list[tuple[str, Any]]:
        """Return the steps that need groups, and those that must come before them.

        Scaling by group carries nothing over from one group to another; a length is learned from the training samples.
        For ``shape`` see `inner`.
        """
        if not self.by_group:
            return []
        steps = [*self._first_steps(), ("scale_by_group", TensorScaler(by_group=True))]
        return [(name, self._per_view(step, shape)) for name, step in steps]

    def scaled_by_group(self, X: Any, groups: Array | None) -> Any:
        """Return the samples, scaled within each group if ``by_group``; raise ValueError if groups are missing."""
        if not self.by_group:
            return X
        if groups is None:
            raise ValueError("scaling by group (by_group, --by-group) needs groups; name them with groups (--groups)")
        for _, step in self._first_steps():
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
        if self.marks_missing and self.by_group:
            raise ValueError(
                'missing "mask" (--missing mask) makes two views, and by_group (--by-group) scales one; leave one out'
            )
        steps = self._of_filled(self._inner_steps())
        one = _as_one(steps) if steps else None
        if isinstance(shape, dict) and COVARIATES in shape:
            of_view = {} if one is None else self._per_view(one, shape).transformers
            return ViewTransformer({**of_view, COVARIATES: TensorScaler()})
        return None if one is None else self._per_view(one, shape)

    def checked_shape(self, X: Any, metadata: Metadata, shape: Any = None) -> Any:
        """Return the shape of a sample after all steps, fitted to all samples; a dictionary for several views.

        Raise ValueError if a step does not suit the samples: the message names its option.
        """
        self.check_filled(X)
        X = self.scaled_by_group(X, metadata.groups)
        inner = self.inner(shape)
        if inner is None:
            return shape_of_samples(X)
        try:
            if needed_metadata(inner):
                return shape_of(fit_transformed(inner, X, None, metadata))
            return shape_of(inner.fit(X).transform(X[:1]))
        except ValueError as error:
            raise self._blamed(X, metadata, error) from error

    def check_filled(self, X: Any) -> None:
        """Raise ValueError if entries within samples are missing and no option fills them in."""
        if self.length is None or self.missing is not None or is_lazy(X) or isinstance(X, Views):
            return
        if is_ragged(X) or not all_finite(X):
            try:
                reject_not_finite(self._length_step()[0][1].fit_transform(X))
            except ValueError as error:
                raise ValueError(f"--length {self.length}: {in_options(error)}") from error

    def _blamed(self, X: Any, metadata: Metadata, error: ValueError) -> ValueError:
        """Return an error that names the option of the step that fails, and says the rest in the words of options."""
        before = shape_of_samples(X)
        for name, step in self._inner_steps() if not is_lazy(X) else ():
            try:
                X = fit_transformed(step, X, None, metadata)
                X = X[FILLED] if name == "missing" and self.marks_missing else X
            except ValueError as own:
                value = self.missing.method if name == "missing" else self.facts[name]
                between = "," if name == "confounds" else "x"
                shown = between.join(map(str, value)) if isinstance(value, tuple) else value
                return ValueError(
                    f"--{name} {shown} does not suit samples of {format_shape(before)}: {in_options(own)}"
                )
            before = shape_of_samples(X)
        return ValueError(f"the preparation does not suit these samples: {in_options(error)}")

    def check_masks(self, shape: Any, affine: Any) -> None:
        """Raise ValueError unless masks from files lie where samples of this shape and affine do."""
        for name in ("mask", "crop"):
            mask = getattr(self, name)
            if not isinstance(mask, MaskImage):
                continue
            if isinstance(shape, dict):
                views = [view for view in shape if view != COVARIATES]
                if len(views) > 1:
                    raise ValueError(
                        f"a mask from a file (--{name} {mask.source}) is for one tensor per sample, and there are "
                        f"{len(views)} views: {', '.join(views)}. Mask the files first"
                    )
                shape = shape[views[0]]
                affine = affine.get(views[0]) if isinstance(affine, dict) else affine
            mask.check(shape, affine)

    def scaler(self, shape: Any = None) -> Any:
        """Return what scales every entry of the samples, of several views but the covariates."""
        if self.marks_missing:
            return ViewTransformer({FILLED: TensorScaler()})
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
        steps = {
            "confounds": Deconfound(self.confounds) if self.confounds else None,
            "mask": None if self.mask is None else Mask(_given(self.mask)),
            "crop": None if self.crop is None else Crop(_given(self.crop)),
            "resize": None if self.resize is None else Resize(self.resize),
            "scale": None if self.scale == "none" else TensorScaler(self._per()),
            "tensorize": None if self.tensorize is None else Tensorize(self.tensorize),
        }
        first = [] if self.by_group else self._first_steps()
        return first + [(name, step) for name, step in steps.items() if step is not None]

    def _first_steps(self) -> list[tuple[str, Any]]:
        """Return the steps that must come before all others: a length for all samples, or no missing entries."""
        return [*self._length_step(), *([] if self.missing is None else [("missing", clone(self.missing))])]

    def _of_filled(self, steps: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Return the steps, with those after `Impute` for the filled-in samples only if it marks what was missing."""
        filled = [name for name, _ in steps].index("missing") + 1 if self.marks_missing else len(steps)
        rest = steps[filled:]
        if not rest:
            return steps
        return [*steps[:filled], ("filled", ViewTransformer({FILLED: _as_one(rest)}))]

    def _length_step(self) -> list[tuple[str, Any]]:
        if self.length is None:
            return []
        found = _LENGTH.fullmatch(self.length.strip())
        if found is None:
            raise ValueError(
                'length (--length) must be "resample", "edge", "mean" or a number to pad with, then perhaps the length '
                'and "mode K" with K from 1 or the name of a mode, such as "resample 128" or "0 128 mode 1"; got '
                f"{self.length!r}"
            )
        how, length, mode = found.groups()
        named = how in ("resample", "edge", "mean")
        step = EqualLength(
            length=None if length is None else int(length),
            method=how if named else "constant",
            value=0.0 if named else float(how),
            mode=-1 if mode is None else _mode(mode),
        )
        return [("length", step)]

    def _per(self) -> str | int:
        if self.scale in ("entry", "global"):
            return self.scale
        kind, _, mode = self.scale.partition(" ")
        if kind != "mode" or not _MODE.fullmatch(mode):
            raise ValueError(
                'scale (--scale) must be "none", "entry", "global", "mode NAME" or "mode K" with K from 1; got '
                f"{self.scale!r}"
            )
        return _mode(mode)

    def numbered(self, axes: AnyAxes, shape: Any, affine: Any = None) -> Recipe:
        """Return the recipe with modes by number, for samples of these axes and shape; steps get arrays without names.

        Masks from files are turned to the orientation of the samples. Raise ValueError, with the names that there are,
        for a name that is none of them.
        """
        mask, crop = (one.turned(affine) if isinstance(one, MaskImage) else one for one in (self.mask, self.crop))
        length, scale = (_numbered(one, axes, shape) for one in (self.length, self.scale))
        return replace(self, mask=mask, crop=crop, length=length, scale=scale)

    def words(self) -> list[str]:
        """Return one sentence per step."""
        return [step.words() for _, step in (*self.outer(), *self._inner_steps())]


def _given(mask: str | MaskImage) -> Any:
    return mask.entries if isinstance(mask, MaskImage) else mask


def _as_one(steps: list[tuple[str, Any]]) -> Any:
    return Pipeline(steps) if len(steps) > 1 else steps[0][1]
