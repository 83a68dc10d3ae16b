"""A set of samples in one line, and as a small table for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..data import facts_table, format_shape
from ..runtime import counted

_MOST_CLASSES = 6


def in_one_line(samples: Any) -> str:
    """Return number, shape, axes, classes and groups of a `SampleSet` in one line."""
    parts = [
        f"{counted(len(samples.data), 'sample')} of {format_shape(samples.sample_shape)}",
        _axes(samples),
        _classes(samples),
    ]
    parts += [_groups(samples), f"from {samples.source}" if samples.source else ""]
    return f"SampleSet({'; '.join(part for part in parts if part)})"


def as_table(samples: Any) -> str:
    """Return the same as HTML, with the notes."""
    rows = [
        ("samples", f"{counted(len(samples.data), 'sample')} of {format_shape(samples.sample_shape)}"),
        ("axes", _axes(samples)),
        ("classes", _classes(samples)),
        ("groups", _groups(samples)),
        ("source", f"{samples.source} ({samples.kind})" if samples.kind else samples.source),
        *(("note", note) for note in samples.notes),
    ]
    return facts_table("SampleSet", [row for row in rows if row[1]])


def _axes(samples: Any) -> str:
    if samples.axes is None:
        return ""
    if isinstance(samples.axes, Mapping):
        return ", ".join(f"{_labels(own)} ({name})" for name, own in samples.axes.items() if own is not None)
    return _labels(samples.axes)


def _labels(axes: Any) -> str:
    return " x ".join(axis.label or "?" for axis in axes)


def _classes(samples: Any) -> str:
    if samples.target is None:
        return "no labels"
    names, counts = np.unique(samples.target, return_counts=True)
    listed = [f"{name} ({count})" for name, count in zip(names[:_MOST_CLASSES], counts[:_MOST_CLASSES], strict=True)]
    more = [f"{len(names) - _MOST_CLASSES} more classes"] if len(names) > _MOST_CLASSES else []
    return ", ".join([*listed, *more])


def _groups(samples: Any) -> str:
    if samples.groups is None:
        return ""
    return counted(len(np.unique(samples.groups)), "group")
