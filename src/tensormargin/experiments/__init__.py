"""Experiments: methods in, rows of results out."""

from .compare import CompareRow, CompareSettings, Summary, compare, summarise
from .page import read_results, write_page, write_summaries
from .protocols import PROTOCOLS, Evaluation, Grid, quick
from .rows import Row, RowStore, TuningRow
from .runner import Progress, Run, RunSettings

__all__ = [
    "PROTOCOLS",
    "CompareRow",
    "CompareSettings",
    "Evaluation",
    "Grid",
    "Progress",
    "Row",
    "RowStore",
    "Run",
    "RunSettings",
    "Summary",
    "TuningRow",
    "compare",
    "quick",
    "read_results",
    "summarise",
    "write_page",
    "write_summaries",
]
