"""Reproduction of the paper's tables: protocols, runs that can be stopped and resumed, and the results page.

It may import all wings below the command line. Nothing but the command line imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .page import read_results, read_summaries, write_page, write_summaries
    from .protocols import PROTOCOLS, Evaluation, Grid, quick
    from .rows import Row, RowStore, TuningRow
    from .runner import Run, RunSettings, RunState

__all__ = [
    "PROTOCOLS", "Evaluation", "Grid", "Row", "RowStore", "Run", "RunSettings", "RunState", "TuningRow", "quick",
    "read_results", "read_summaries", "write_page", "write_summaries",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
