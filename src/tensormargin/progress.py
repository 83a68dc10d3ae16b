"""How long work tells how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Progress(Protocol):
    """Takes the state of a long piece of work."""

    def __call__(self, done: float, total: float, text: str) -> None:
        """Show it."""


def stage_progress(progress: Progress | None, lengths: Sequence[float], stage: int, name: str) -> Progress | None:
    """Return the progress of one of several stages as a part of the whole.

    Parameters
    ----------
    progress : callable or None
        That of the whole; None for nobody who looks.
    lengths : sequence of float
        The lengths of all stages, in any unit.
    stage : int
        The place of this one.
    name : str
        What it is called in front of its own text.
    """
    if progress is None:
        return None
    whole, before = progress, sum(lengths[:stage])

    def show(done: float, total: float, text: str) -> None:
        whole(before + done / total * lengths[stage], sum(lengths), f"{name}{text}")

    return show
