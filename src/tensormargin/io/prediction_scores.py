"""How predictions agree with labels, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runtime import Array, listed
from . import BadFileError, Scene


@dataclass(frozen=True)
class Agreement:
    """How predictions agree with labels. Labels that the model does not know are left out and counted.

    Accuracies are None without such samples; ``new_accuracy`` is that of the ``n_new`` that were not used in the fit,
    None if it is not known.
    """

    accuracy: float | None
    n_known: int
    unknown: dict[str, int]
    new_accuracy: float | None = None
    n_new: int | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """The agreement as JSON types."""
        return {
            "accuracy": self.accuracy,
            "n_known": self.n_known,
            "n_unknown": sum(self.unknown.values()),
            "unknown_labels": list(self.unknown),
            "accuracy_on_new": self.new_accuracy,
            "n_new": self.n_new,
        }

    def lines(self, which: str, what: str = "samples") -> list[str]:
        """Return the accuracy on ``which`` samples in words, ``what`` naming their kind; empty without labels."""
        labels = listed(self.unknown)
        if self.accuracy is None:
            return [f"No accuracy: the labels {labels} are none of the model's classes"] if labels else []
        share = f"{100 * self.accuracy:.2f} %"
        said = f"Accuracy on {which}: {share}"
        if labels:
            n_unknown = sum(self.unknown.values())
            said = (
                f"Accuracy on {self.n_known} {what} of known classes: {share}; {n_unknown} {what} of classes the model "
                f"does not know ({labels}) left out"
            )
        if self.new_accuracy is None or self.n_new == self.n_known:
            return [said]
        return [said, f"Accuracy on the {self.n_new} of them not used in the fit: {100 * self.new_accuracy:.2f} %"]


def agreement(predicted: Array, labels: Array | None, classes: Sequence[Any], used: Array | None = None) -> Agreement:
    """Return how predictions agree with labels, compared as text; ``used`` says which were used in the fit."""
    if labels is None:
        return Agreement(None, 0, {})
    given = labels.astype(str)
    right, known = given == predicted.astype(str), np.isin(given, [str(label) for label in classes])
    names, counts = np.unique(labels[~known], return_counts=True)
    unknown = dict(zip(names.astype(str).tolist(), counts.tolist(), strict=True))
    if used is None:
        return Agreement(_share(right[known]), int(known.sum()), unknown)
    new = known & ~used
    return Agreement(_share(right[known]), int(known.sum()), unknown, _share(right[new]), int(new.sum()))


def _share(right: Array) -> float | None:
    return float(right.mean()) if right.size else None


def agreement_on_scene(predicted: Array, scene: Scene, classes: Sequence[Any], used: Array | None = None) -> Agreement:
    """Return how predictions agree with the ground truth, on the pixels that have a class.

    Raise `BadFileError` if none of its classes is one of the model's.
    """
    if scene.truth is None:
        return agreement(predicted, None, classes)
    marked = scene.truth != scene.background
    known = None if used is None else used.reshape(marked.shape)[marked]
    found = agreement(predicted[marked], scene.truth[marked], classes, known)
    if found.unknown and not found.n_known:
        raise BadFileError(
            f"{scene.source}: the classes of the ground truth must be those of the model, {listed(map(str, classes))}; "
            f"got {listed(found.unknown)}. Give the same --names as for `tensormargin patches`, or none"
        )
    return found
