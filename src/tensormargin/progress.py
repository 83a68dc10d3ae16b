"""Progress callbacks for long computations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Progress(Protocol):
    """Callback that receives the progress of a long computation."""

    def __call__(self, done: float, total: float, text: str) -> None:
        """Show that ``done`` of ``total`` is finished, with a description."""


def stage_progress(progress: Progress | None, lengths: Sequence[float], stage: int, name: str) -> Progress | None:
    """Return a callback for one of several stages, which reports to the callback of the whole.

    Parameters
    ----------
    progress : callable or None
        Callback of the whole; with None, None is returned.
    lengths : sequence of float
        The lengths of all stages, in any unit.
    stage : int
        Index of this stage.
    name : str
        Prefix for the texts of this stage.
    """
    if progress is None:
        return None
    whole, before = progress, sum(lengths[:stage])

    def show(done: float, total: float, text: str) -> None:
        whole(before + done / total * lengths[stage], sum(lengths), f"{name}{text}")

    return show
