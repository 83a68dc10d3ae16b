"""The paper's tables again: what is evaluated, the runs that can be stopped and continued, and the page of results."""

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
