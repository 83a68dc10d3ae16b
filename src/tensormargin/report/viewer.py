"""Maps of a model, computed once for all sections of a page, and what the page's viewer gets of them.

Volumes are turned to the standard orientation and shown over an anatomical image, with tables of clusters. The viewer
gets two bytes per entry.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..data import (
    DEFAULT_RULES,
    AnyAxes,
    Axes,
    Axis,
    FileRules,
    Metadata,
    Orientation,
    TrainingRecord,
    colour_mode,
    colour_order,
    format_shape,
    resampled,
)
from ..inspection import (
    MapText,
    ModelChain,
    NotAffineError,
    Pattern,
    ViewMaps,
    cluster_table,
    feature_patterns,
    in_units,
    named_patterns,
    shown_patterns,
    view_maps,
    weight_maps,
)
from ..io import BadFileError, SampleSet, read_nifti
from ..plots import channel_name, fitting_axes
from ..runtime import Array, FloatArray, counted

LONGEST_MODE = 128
"""Longer modes are reduced to this size, to keep the page small enough to send."""
_POWERS = 36  # of ten that a code of two bytes can tell apart
_MOST_ENTRIES = 1_000_000  # of all maps: less than three megabytes of text, so that pages open in a second
_MOST_CLUSTERS = 15
_SMALLEST = 2  # entries of a cluster that is listed
_MOST_TABLES = 6


@dataclass(frozen=True)
class Anatomy:
    """An anatomical image on the grid of the samples, and the name of its file."""

    values: FloatArray
    name: str


@dataclass(frozen=True)
class Display:
    """How volumes are shown: over which image, and with which side on the left.

    Attributes
    ----------
    anatomy : Anatomy or None
        What maps are drawn over; the mean sample by default.
    radiological : bool
        Whether the left of the person is on the right at first; the page has a switch.

    Examples
    --------
    >>> from tensormargin.report import Display
    >>> Display(radiological=True)
    Display(anatomy=None, radiological=True)
    """

    anatomy: Anatomy | None = None
    radiological: bool = False


def read_anatomy(path: str | Path, shape: Any, affine: Any, rules: FileRules = DEFAULT_RULES) -> Anatomy:
    """Return the volume of a NIfTI file on the grid of samples with a shape and an affine.

    Raises
    ------
    BadFileError
        The file is no volume, or the samples have no place in space. The file is read as those of samples are.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import nibabel
    >>> from tensormargin.report import Display, read_anatomy
    >>> head = nibabel.Nifti1Image(np.ones((8, 8, 8), np.float32), np.diag([1, 1, 1, 1]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     nibabel.save(head, f"{folder}/head.nii")
    ...     anatomy = read_anatomy(f"{folder}/head.nii", (4, 4, 4), np.diag([2, 2, 2, 1]))
    >>> anatomy.name, anatomy.values.shape
    ('head.nii', (4, 4, 4))
    >>> display = Display(anatomy)  # for model_page
    """
    path = Path(path)
    if isinstance(shape, Mapping) or len(shape) != 3 or affine is None or isinstance(affine, Mapping):
        got = format_shape(shape) + ("" if affine is not None else ", without an affine")
        raise BadFileError(
            f"{path}: a background is for samples that are volumes with an affine (NIfTI); got samples of {got}. "
            "Leave --background out, or give the samples as NIfTI files"
        )
    values, own = read_nifti(path, rules)
    try:
        return Anatomy(resampled(values, own, shape, affine), path.name)
    except ValueError as error:
        raise BadFileError(f"{path}: cannot be drawn below the map: {error}") from error


@dataclass(frozen=True)
class ModelMaps:
    """The maps of a fitted model, given the samples that it was fitted to, or patterns that are known, or neither."""

    model: Any
    samples: SampleSet | None
    stored: Any = None
    training: Any = None  # the record of the training samples, which states their units

    @cached_property
    def chain(self) -> ModelChain:
        """The steps of the model."""
        return ModelChain.of(self.model)

    @cached_property
    def weights(self) -> Any:
        """Maps of the weight, with the binary problems first (a dictionary for views); an error if there are none."""
        try:
            self.chain.check_picture()
            return weight_maps(self.model, None if self.samples is None else self.samples.data.shape[1:])
        except NotAffineError as error:
            return error

    @cached_property
    def patterns(self) -> dict[str, Pattern]:
        """The activation patterns that may be shown, by view, in order; that on samples that are one tensor is ""."""
        samples = self.samples
        if self.stored is not None:
            return shown_patterns(self.model, named_patterns(self.stored))
        if samples is None or samples.target is None:
            return {}
        return feature_patterns(self.model, samples.data, samples.target, samples.groups, samples.confounds)

    @cached_property
    def by_view(self) -> ViewMaps | None:
        """Weights and patterns of each view; None for a model of one tensor per sample."""
        if not isinstance(self.chain.classifier.coef_, dict):
            return None
        found = view_maps(self.model)
        patterns = {name: self.patterns[name].maps for name in found.weights if name in self.patterns}
        seen = None if self.samples is None else self.seen
        if self.samples is not None and not found.on_samples:
            metadata = Metadata(self.samples.groups, self.samples.confounds)
            seen = self.chain.samples_for_classifier(self.samples.data, metadata)
        return found._replace(patterns=patterns or None, samples=seen)

    @cached_property
    def seen(self) -> Any:
        """The samples on the axes of the maps."""
        assert self.samples is not None
        return self.chain.samples_for_map(self.samples.data, Metadata(self.samples.groups, self.samples.confounds))

    def unit_of(self, view: str = "") -> str | None:
        """Return the unit of the pattern of a view, if it is on samples as they are, whose unit is known."""
        if self.chain.before_maps or view in self.chain.views_with_pattern:
            return None
        if self.samples is not None and self.samples.unit is not None:
            unit = self.samples.unit
            return unit.get(view) if isinstance(unit, Mapping) else unit
        scale: Mapping[str, Any] = TrainingRecord(self.training).scale if self.training else {}
        return scale.get(view, {}).get("unit")

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of a sample; that which the model has stored if there are none."""
        shape: Any = self.chain.sample_shape if self.samples is None else self.samples.sample_shape
        return tuple(shape or ())


def named_axes(axes: AnyAxes, facts: Mapping[str, Any]) -> AnyAxes:
    """Return the axes of samples; where their source names no mode, channel and time of the kind that was fitted."""
    plan, shape = facts.get("about", {}).get("plan") or {}, facts.get("sample_shape")
    if isinstance(axes, Mapping) or plan.get("kind") not in ("eeg", "series") or any(axis.name for axis in axes or ()):
        return axes
    if not isinstance(shape, Sequence) or len(shape) != 2 or list(shape) != list(plan.get("shape") or ()):
        return axes
    time, sfreq, known = int(plan.get("time", -1)) % 2, plan.get("sfreq"), list(axes or (Axis(), Axis()))
    if sfreq and shape[time] and known[time].values is None:
        known[time] = Axis("", "s", np.arange(shape[time]) / sfreq)
    return tuple(replace(axis, name="time" if mode == time else "channel") for mode, axis in enumerate(known))


def affine_of(samples: SampleSet | None, about: Mapping[str, Any], view: str | None = None) -> Any:
    """Return the affine of the samples, or that in the facts of a model; None if there is none."""
    for found in (None if samples is None else samples.affine, about.get("affine")):
        one = found.get(view) if isinstance(found, Mapping) else found
        if one is not None:
            return one
    return None


def n_shown(chain: ModelChain, maps: Mapping[str, Array]) -> int:
    """Return the number of binary problems whose maps are not too large for the page, at least one."""
    entries = max(values[0].size for values in maps.values())
    return max(1, min(len(chain.problem_names), _MOST_ENTRIES // max(1, len(maps) * entries)))


def map_content(
    chain: ModelChain,
    maps: Mapping[str, Array],
    background: Array | None,
    axes: Axes | None = None,
    affine: Any = None,
    display: Display | None = None,
    unit: str | None = None,
) -> dict[str, Any]:
    """Return maps by kind, each with the binary problems first, as the viewer takes them.

    The background is the mean sample, ``unit`` that of the pattern. Maps that are volumes with an affine are turned to
    the standard orientation and shown in mm, over the background and with tables of clusters.
    """
    display = display or Display()
    kind, names = "activation pattern" if "activation pattern" in maps else next(iter(maps)), chain.problem_names
    scaled = {
        what: in_units(own, chain.map_texts(what), unit if what == "activation pattern" else None)
        for what, own in maps.items()
    }
    maps = {what: readable for what, (readable, _) in scaled.items()}
    texts = {what: in_words for what, (_, in_words) in scaled.items()}
    shape = next(iter(maps.values())).shape[1:]
    space, below, under = _orientation(affine, shape), background, "the mean sample"
    if display.anatomy is not None and display.anatomy.values.shape == shape:  # not after a step that cannot be undone
        below, under = display.anatomy.values, display.anatomy.name
    if space is not None and below is not None:
        below = space.turned(below)
    known = fitting_axes(axes, shape)
    return {
        "modes": [
            {"name": axis.name, "values": axis.values if axis.values is None else list(map(axis.spoken, range(size)))}
            for axis, size in zip(known, shape, strict=True)
        ],
        "colours": _colours(known, shape),
        "counted": space is None and any(not axis.name or axis.values is None for axis in known),
        "kinds": list(maps),
        "background": None if below is None else packed_background(below),
        "under": under,
        "overlay": space is not None and below is not None,
        "radiological": display.radiological,
        "space": None
        if space is None
        else {
            "affine": space.affine.tolist(),
            "order": space.order,
            "flipped": space.flipped,
            "shape": space.shape,
            "extent": (np.array(space.shape)[list(space.order)] * space.voxel_size).tolist(),
        },
        "clusters": [] if space is None else _cluster_content(texts[kind], maps[kind], affine),
        "problems": [
            {
                "name": names[k],
                "maps": [
                    {**packed_map(values[k], kind, space), "signs": texts[kind][k].colours}
                    for kind, values in maps.items()
                ],
            }
            for k in range(n_shown(chain, maps))
        ],
    }


def _orientation(affine: Any, shape: Sequence[int]) -> Orientation | None:
    """Return how maps of a shape lie in space; None for other maps than volumes, or if that is not known."""
    if affine is None or isinstance(affine, Mapping) or len(shape) != 3:
        return None
    try:
        return Orientation.of(affine, shape)
    except ValueError:  # of a file that says nothing sensible: shown as any other tensor
        return None


def _colours(axes: Axes, shape: Sequence[int]) -> dict[str, Any] | None:
    """Return the mode of colours, the names of its entries and which are red, green and blue; None if there is none."""
    mode = colour_mode(axes, shape)
    if mode is None:
        return None
    names = [channel_name(axes[mode], index) for index in range(3)]
    return {"mode": mode, "names": names, "order": colour_order(axes[mode])}


def _cluster_content(texts: Sequence[MapText], maps: Array, affine: Any) -> list[dict[str, Any]]:
    """Return the tables of the clusters of a map per binary problem."""
    tables = []
    for text, one in zip(texts[:_MOST_TABLES], maps, strict=False):
        table = cluster_table(one, affine, smallest=_SMALLEST, signs=text.signs)
        shown = f", the {_MOST_CLUSTERS} largest peaks of which are listed" if len(table) > _MOST_CLUSTERS else ""
        words = (
            f"{table.signs}; {counted(len(table), 'cluster')} of {_SMALLEST} or more entries of at least "
            f"{table.threshold:.3g} in absolute value, half of the largest{shown}. "
            "The threshold is for display and tests nothing"
        )
        rows = table.rows()[:_MOST_CLUSTERS]
        if rows:
            tables.append({"title": text.title, "words": words, "columns": table.columns, "rows": rows})
    return tables


def packed_map(values: Array, name: str, space: Orientation | None = None) -> dict[str, Any]:
    """Return a map, turned into its orientation, as JSON types.

    "shape" and "codes" (base64) are those of the displayed map, with its values to the three digits that the page
    shows, see `three_digits`; "lowest" is the power of ten of the smallest ones and "largest" the largest absolute
    value. "edges" holds, for each mode of reduced size, the first index of each displayed entry, followed by the
    original size; None for other modes. "peak" is the entry of largest absolute value with its original indices,
    "start" the indices of the displayed entry that contains it.
    """
    values = np.nan_to_num(np.asarray(values if space is None else space.turned(values), np.float64))
    edges = [_edges(size) for size in values.shape]
    shown = _block_means(values, edges)
    peak = tuple(int(at) for at in np.unravel_index(np.argmax(np.abs(values)), values.shape))
    codes, lowest = three_digits(shown)
    return {
        "name": name,
        "shape": list(shown.shape),
        "largest": float(np.abs(shown).max(initial=0.0)),
        "lowest": lowest,
        "codes": base64.b64encode(codes.astype("<u2").tobytes()).decode(),
        "edges": [None if len(own) > size else own.tolist() for own, size in zip(edges, values.shape, strict=True)],
        "start": [int(np.searchsorted(own, at, side="right")) - 1 for own, at in zip(edges, peak, strict=True)],
        "peak": {"at": list(peak if space is None else space.indices(peak)), "value": float(values[peak])},
    }


def three_digits(values: FloatArray) -> tuple[Array, int]:
    """Return finite numbers to three significant digits, as whole numbers below 2**16, and the lowest power of ten.

    A number d.dd * 10**(lowest + k) is 1 + 2 * (900 * k + ddd - 100), plus 1 if it is negative. Zero is 0, and so are
    numbers that are smaller than the largest one by 36 powers of ten.
    """
    sizes = np.abs(values)
    with np.errstate(divide="ignore"):
        powers = np.maximum(np.floor(np.log10(sizes)), -290)
    lowest = int(powers.max(initial=-290)) - _POWERS + 1
    digits = np.rint(sizes / 10.0 ** (powers - 2))  # 1000 is the code of 1.00 at the next power
    codes = 1 + 2 * (900 * (powers - lowest) + digits - 100) + (values < 0)
    return np.where((digits >= 100) & (powers >= lowest), codes, 0).astype(np.uint16), lowest


def packed_background(values: Array) -> str:
    """Return a grey background for a map of the same shape, as bytes (base64) from 0 to 255."""
    values = np.nan_to_num(np.asarray(values, np.float64))
    shown = _block_means(values, [_edges(size) for size in values.shape])
    low, high = np.percentile(shown, [1, 99])
    scaled = np.clip((shown - low) / ((high - low) or 1.0), 0, 1)
    return base64.b64encode(np.round(scaled * 255).astype(np.uint8).tobytes()).decode()


def _edges(size: int) -> Array:
    """Return the first index of each displayed entry, followed by the size of the mode."""
    count = min(size, LONGEST_MODE)
    return np.arange(count + 1) * size // count


def _block_means(values: Array, edges: list[Array]) -> Array:
    """Return the mean over the block of each displayed entry."""
    for mode, own in enumerate(edges):
        if len(own) <= values.shape[mode]:
            lengths = np.diff(own).reshape(-1, *[1] * (values.ndim - mode - 1))
            values = np.add.reduceat(values, own[:-1], axis=mode) / lengths
    return values
