"""Reshaping, masking (by hand, by rule or by classes) and cropping of samples."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import partial
from math import ceil, prod
from typing import Any, ClassVar

import numpy as np

from ...data import NO_METADATA, Axes, Metadata, as_mask, fitted, format_shape, has_mask_image
from ...runtime import (
    Array,
    FloatArray,
    as_array,
    as_like,
    cast,
    computed,
    device_of,
    dtype_of,
    like,
    namespace,
    to_host,
)
from ._base import CanBeUndone, KeepsTensors, LearnsFromLabels, OptionError, check_sizes, checked_number, wrong_shape
from ._passes import added, floating, in_order, number_and_sum, reduced, statistics, widest
from .scaling import TensorScaler

RULES = ("varying", "bright")


@fitted.attributes()
@dataclass(eq=False, repr=False)
class Tensorize(CanBeUndone):
    """Reshape samples, e.g. from 28x28 to 7x4x7x4.

    Parameters
    ----------
    shape : tuple of int
        The new shape of a sample; one size may be -1. Entries keep their C order, so a mode can be split into
        neighbouring modes, and neighbouring modes can be joined.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import Tensorize
    >>> Tensorize((7, 4, 7, 4)).fit_transform(np.ones((5, 28, 28))).shape
    (5, 7, 4, 7, 4)
    """

    shape: tuple[int, ...] = (-1,)

    _keeps_modes: ClassVar[bool] = False

    def _axes_out(self, axes: Axes) -> Axes:
        same = self.sample_shape_in_ == self.sample_shape_out_
        return axes if same else super()._axes_out(axes)

    def _learn(self, X: Any, metadata: Metadata) -> None:
        check_sizes(self.shape)
        size = prod(X.shape[1:])
        known = prod(n for n in self.shape if n != -1)
        free = sum(n == -1 for n in self.shape)
        if free > 1 or min(self.shape) < -1 or known < 1 or (size % known if free else size != known):
            shape = self.sample_shape_in_
            raise wrong_shape(
                f"must have as many entries as the samples, whose shape {shape} makes {size} (one size may be -1)",
                self.shape,
            )

    def _shape_out(self) -> tuple[int, ...]:
        free = prod(self.sample_shape_in_) // max(1, prod(n for n in self.shape if n != -1))
        return tuple(free if n == -1 else n for n in self.shape)

    def _fits(self) -> dict[str, Any]:
        return {**super()._fits(), "shape": prod(self.sample_shape_in_) == prod(self.sample_shape_out_)}

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        return namespace(X).reshape(X, (X.shape[0], *self.sample_shape_out_))

    def _undo(self, X: Any) -> Any:
        return namespace(X).reshape(X, (X.shape[0], *self.sample_shape_in_))

    def _new_names(self) -> list[str]:
        """Return one name per entry of a vector, with its index in the tensor."""
        return ["x" + "_".join(map(str, place)) for place in np.ndindex(*self.sample_shape_in_)]

    def words(self) -> str:
        return f"samples were folded to {format_shape(getattr(self, 'sample_shape_out_', self.shape))}"


@fitted.attributes(_from=fitted.whole(0))
@dataclass(eq=False, repr=False)
class MoveMode(CanBeUndone):
    """Move one mode to the end, e.g. from time x channels to channels x time, as representations of series need it.

    Parameters
    ----------
    mode : int or str, default=0
        The mode, counted from 0; negative numbers count from the last. Or its name, if the samples have names.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import MoveMode
    >>> MoveMode().fit_transform(np.ones((5, 200, 8))).shape
    (5, 8, 200)
    """

    mode: int | str = 0

    _keeps_modes: ClassVar[bool] = False

    def _learn(self, X: Any, metadata: Metadata) -> None:
        self._from = self._mode(self.mode, len(X.shape) - 1)

    def _shape_out(self) -> tuple[int, ...]:
        return self._moved(self.sample_shape_in_, self._from)

    def _fits(self) -> dict[str, Any]:
        return {"_from": self._from < len(self.sample_shape_in_), **super()._fits()}

    @staticmethod
    def _moved(modes: Any, place: int) -> Any:
        return (*modes[:place], *modes[place + 1 :], modes[place])

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        return in_order(namespace(X).moveaxis(X, self._from + 1, -1))

    def _undo(self, X: Any) -> Any:
        return in_order(namespace(X).moveaxis(X, -1, self._from + 1))

    def _axes_out(self, axes: Axes) -> Axes:
        return self._moved(axes, self._from)

    def number_modes(self, axes: Any) -> Any:
        super().number_modes(axes)
        return None if axes is None else self._moved(axes, self._mode(self.mode, len(axes)))

    def words(self) -> str:
        return f"mode {self.mode + 1 if isinstance(self.mode, int) else self.mode} of the samples was made their last"


class _HasMask(KeepsTensors):
    """A transformer with a parameter ``mask``, which may be an image."""

    mask: Any

    def _format_mask(self) -> str:
        """Return the size of a mask that is not a rule."""
        return f"a mask of {_counted(as_mask(self.mask))}"

    def __getstate__(self) -> Any:
        """Return the state with an image mask replaced by an array, which can be loaded without nibabel."""
        state = super().__getstate__()
        return {**state, "mask": state["mask"] if isinstance(state["mask"], str) else as_mask(state["mask"])}

    def __sklearn_clone__(self) -> Any:
        """Return an unfitted copy; of a masker, only its mask image is kept, since a copy of it would not be fitted."""
        other = copy(self)
        other.mask = as_mask(self.mask) if has_mask_image(self.mask) else self.mask
        return super(_HasMask, other).__sklearn_clone__()


@fitted.attributes(mask_=fitted.flags("*sample_shape_in_"))
class SetsToZero(KeepsTensors):
    """A transformer that sets the entries outside ``mask_`` to zero."""

    mask_: Any

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        return namespace(X).where(as_like(self.mask_, X), X, like(0, X, dtype_of(X)))

    def pull_back(self, weight: Any) -> Array:
        """Return the weight, set to zero outside the mask."""
        return self._change(as_array(weight))


@fitted.attributes()
@dataclass(eq=False, repr=False)
class Mask(_HasMask, SetsToZero):
    """Set entries outside a mask to zero.

    Parameters
    ----------
    mask : "varying", "bright", array of bool, NIfTI image or masker, default="varying"
        Entries to keep. "varying": entries that are not constant over the training samples. "bright": entries whose
        mean over the training samples exceeds Otsu's threshold (the brain in a volume with a dark background).
        Otherwise, the true entries of an array, the non-zero voxels of a nibabel image, or those that a fitted masker
        of nilearn keeps. In copies and saved models an image or masker is replaced by its array.

    Attributes
    ----------
    mask_ : array of bool, of the sample shape
        In the library and on the device of the training samples (NumPy for a Dask array of NumPy arrays).

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import Mask
    >>> X = np.ones((6, 4, 5))
    >>> X[:, :2] = np.random.default_rng(0).standard_normal((6, 2, 5))
    >>> masked = Mask().fit_transform(X)
    >>> bool((masked[:, :2] == X[:, :2]).all()), bool((masked[:, 2:] == 0).all())
    (True, True)
    """

    mask: str | Any = "varying"

    def _learn(self, X: Any, metadata: Metadata) -> None:
        self.mask_ = like(_found_mask(X, self.mask), X)

    def words(self) -> str:
        if not isinstance(self.mask, str):
            return f"what is outside of {self._format_mask()} was set to zero"
        kept = f" ({_counted(self.mask_)} are left)" if hasattr(self, "mask_") else ""
        return f"entries that are not {self.mask} over the training samples were set to zero{kept}"

    def brief(self) -> str:
        return f"mask of {self.mask} entries" if isinstance(self.mask, str) else self._format_mask()[2:]


@fitted.attributes(f_=fitted.floats("*sample_shape_in_", low=0, finite=False))
@dataclass(eq=False, repr=False)
class AnovaMask(LearnsFromLabels, SetsToZero):
    """Set all entries to zero but those whose means differ most between the classes.

    Entries are ranked by the F statistic of an analysis of variance, as fMRI decoders select voxels. The mask is
    learned from training samples and their labels, and samples keep their shape.

    Parameters
    ----------
    share : float, default=0.2
        Share of the entries to keep, above 0 and at most 1; at least one is kept.

    Attributes
    ----------
    mask_ : array of bool, of the sample shape
    f_ : ndarray of the sample shape
        F of each entry, infinite where classes differ and samples of one class do not.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin.transformers import AnovaMask
    >>> X, y = np.random.default_rng(0).normal(size=(40, 5, 6)), np.arange(40) % 2
    >>> X[y == 1, 2, 3] += 5
    >>> AnovaMask(0.01).fit(X, y).mask_[2, 3]
    np.True_
    """

    share: float = 0.2

    def _learn(self, X: Any, metadata: Metadata) -> None:
        checked_number(self.share, "share", 0.0)
        if self.share > 1:
            raise ValueError(f"share must be at most 1; got share={self.share!r}")
        _, codes = self._coded(X)
        found = _f_statistics(X, codes)
        mask = np.zeros(found.size, bool)
        mask[np.argsort(-found.ravel(), kind="stable")[: ceil(self.share * mask.size)]] = True
        self.f_, self.mask_ = as_like(found, X), as_like(mask.reshape(found.shape), X)

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        return super()._change(cast(X, floating(X)), metadata)

    def brief(self) -> str:
        return f"the {100 * self.share:g} % of the entries that differ most between classes"

    def words(self) -> str:
        return (
            f"all but {100 * self.share:g} % of the entries, those with the largest F between classes in the training "
            "samples, were set to zero"
        )


@fitted.attributes(
    bounds_=fitted.list_of(fitted.tuple_of(fitted.whole(0), fitted.whole(1)), "sample_shape_in_", kind=tuple)
    | fitted.wholes("sample_shape_in_", 2, low=0)  # of version 0.1
)
@dataclass(eq=False, repr=False)
class Crop(_HasMask, CanBeUndone):
    """Crop samples to the bounding box of a mask.

    Parameters
    ----------
    mask : "varying", "bright", array of bool, NIfTI image or masker, default="varying"
        See `Mask`.
    margin : int, default=0
        Number of entries to keep around the box.

    Attributes
    ----------
    bounds_ : tuple of (int, int)
        Where the box begins and ends along each mode; ``box_`` has the same as slices.

    Examples
    --------
    >>> import numpy as np
    >>> from tensormargin import Crop
    >>> X = np.zeros((6, 10, 12))
    >>> X[:, 3:7, 2:5] = np.random.default_rng(0).standard_normal((6, 4, 3))
    >>> Crop().fit_transform(X).shape
    (6, 4, 3)
    >>> Crop(margin=1).fit_transform(X).shape
    (6, 6, 5)
    """

    mask: str | Any = "varying"
    margin: int = 0

    def _learn(self, X: Any, metadata: Metadata) -> None:
        if self.margin < 0:
            raise ValueError(f"margin must be at least 0; got margin={self.margin}")
        inside = np.argwhere(_found_mask(X, self.mask))
        first = np.maximum(inside.min(axis=0) - self.margin, 0)
        last = np.minimum(inside.max(axis=0) + self.margin + 1, tuple(X.shape[1:]))
        self.bounds_ = tuple(zip(first.tolist(), last.tolist(), strict=True))

    def _shape_out(self) -> tuple[int, ...]:
        return tuple(last - first for first, last in self.bounds_)

    def _fits(self) -> dict[str, Any]:
        ends = zip(self.bounds_, self.sample_shape_in_, strict=True)
        return {**super()._fits(), "bounds_": all(last <= size for (_, last), size in ends)}

    @property
    def box_(self) -> tuple[slice, ...]:
        """The box, one slice per mode."""
        return tuple(slice(first, last) for first, last in self.bounds_)

    def _change(self, X: Any, metadata: Metadata = NO_METADATA) -> Any:
        return X[(slice(None), *self.box_)]

    def _names_kept(self, names: Array) -> Array:
        return names[self.box_]

    def _axes_out(self, axes: Axes) -> Axes:
        return tuple(axis.at(np.arange(*bounds)) for axis, bounds in zip(axes, self.bounds_, strict=True))

    def _undo(self, X: Any) -> Any:
        """Return samples of the original shape, zero outside the box."""
        full = namespace(X).zeros((X.shape[0], *self.sample_shape_in_), dtype=X.dtype, device=device_of(X))
        full[(slice(None), *self.box_)] = X
        return full

    def words(self) -> str:
        around = f", with a margin of {self.margin}" if self.margin else ""
        sizes = f" ({format_shape(self.sample_shape_out_)})" if hasattr(self, "sample_shape_out_") else ""
        inside = f"what is {self.mask} over the training samples" if isinstance(self.mask, str) else None
        return f"samples were cut to the smallest box that holds {inside or self._format_mask()}{around}{sizes}"

    def brief(self) -> str:
        what = f"{self.mask} entries" if isinstance(self.mask, str) else self._format_mask()
        return f"cropped to the box of {what}"


def _counted(mask: Any) -> str:
    """Return how many entries a mask keeps; those of three modes are called voxels."""
    noun = "voxels" if mask.ndim == 3 else "entries"
    return f"{int(to_host(mask).sum()):,} of {prod(mask.shape):,} {noun}"


def _found_mask(X: Any, rule: Any) -> Array:
    """Return the mask as a NumPy array; only the required statistics leave the device or the workers."""
    shape = tuple(X.shape[1:])
    if isinstance(rule, str):
        if rule not in RULES:
            raise ValueError(f"mask must be {', '.join(map(repr, RULES))} or an array of bool; got {rule!r}")
        if rule == "varying":
            low, high = reduced(X, _range, _wider)
            mask = to_host(high > low)
        else:
            number, total = reduced(X, number_and_sum, added)
            mask = _bright(to_host(total) / number)
        if not mask.any():
            why = "all samples are the same" if rule == "varying" else "all entries have the same mean"
            number, size = X.shape[0], prod(shape)
            raise OptionError(
                f"mask={rule!r} leaves no entry: {why} (n_samples={number}, n_features={size})",
                f"it leaves no entry: {why} ({number} samples of {size} entries)",
            )
        return mask
    mask = as_mask(rule)
    if mask.shape != shape or not mask.any():
        raise ValueError(
            f"a mask needs the samples' shape {shape} and at least one true entry; got shape {mask.shape} with "
            f"{int(mask.sum())}"
        )
    return mask


def _range(part: Any) -> tuple[Any, Any]:
    xp = namespace(part)
    exact = cast(part, floating(part)) if dtype_of(part).itemsize < 8 else part  # some dtypes cannot be compared
    return xp.min(exact, axis=0), xp.max(exact, axis=0)


def _wider(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
    xp = namespace(one[0])
    return xp.minimum(one[0], other[0]), xp.maximum(one[1], other[1])


def _bright(mean: Array) -> Array:
    """Return a mask of the entries above Otsu's threshold, which best separates two classes of entries."""
    counts, edges = np.histogram(mean, bins=256)
    centres = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts)[:-1]
    above = mean.size - below
    sums = np.cumsum(counts * centres)
    with np.errstate(divide="ignore", invalid="ignore"):
        between = below * above * (sums[:-1] / below - (sums[-1] - sums[:-1]) / above) ** 2
    if not np.any(np.isfinite(between) & (between > 0)):
        return np.zeros(mean.shape, bool)
    return mean > edges[1:-1][np.nanargmax(between)]


def _f_statistics(X: Any, codes: Array) -> FloatArray:
    """Return F of each entry, from one pass for the mean and one for sums about it."""
    mean = to_host(TensorScaler(with_std=False).fit(X).mean_).reshape(X.shape[1:])
    sums = statistics(X, partial(_sums, mean=mean), added, codes)
    found = computed(*(one for _, one in sorted(sums.items())))
    number = sum(count for count, _, _ in found)
    between = np.sum([to_host(total) ** 2 / count for count, total, _ in found], axis=0)
    within = np.maximum(np.sum([to_host(squares) for _, _, squares in found], axis=0) - between, 0.0)
    free = max(number - len(found), 1)
    spread = within > 1e-12 * (within + between)
    ratio = np.divide(between * free, within * max(len(found) - 1, 1), out=np.zeros_like(between), where=spread)
    return np.where(~spread & (between > 0), np.inf, ratio)


def _sums(part: Any, mean: FloatArray) -> tuple[int, Any, Any]:
    xp = namespace(part)
    centred = cast(part, widest(part)) - like(mean, part, widest(part))
    return part.shape[0], xp.sum(centred, axis=0), xp.sum(centred * centred, axis=0)
