"""Reproduction of the paper's tables: protocols, runs that can be stopped and resumed, and the results page."""

from .page import read_results, read_summaries, write_page, write_summaries
from .protocols import PROTOCOLS, Evaluation, Grid, quick
from .rows import Row, RowStore, TuningRow
from .runner import Run, RunSettings, RunState

__all__ = [
    "PROTOCOLS",
    "Evaluation",
    "Grid",
    "Row",
    "RowStore",
    "Run",
    "RunSettings",
    "RunState",
    "TuningRow",
    "quick",
    "read_results",
    "read_summaries",
    "write_page",
    "write_summaries",
]
