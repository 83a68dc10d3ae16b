"""Experiments: methods in, rows of results out."""

from .auto import auto_model
from .compare import CompareRow, CompareSettings, compare
from .compare_summary import MethodDifference, Summary, differences_to_best, summarise
from .nested import NestedEvaluation, OuterFold, nested_evaluation
from .page import read_results, read_summaries, write_page, write_summaries
from .protocols import PROTOCOLS, Evaluation, Grid, quick
from .rows import Row, RowStore, TuningRow
from .runner import Progress, Run, RunSettings
from .workflow import FitPlan, FittedModel, check_plan, comparison_content, data_facts, fit_and_evaluate

__all__ = [
    "PROTOCOLS",
    "CompareRow",
    "CompareSettings",
    "Evaluation",
    "FitPlan",
    "FittedModel",
    "Grid",
    "MethodDifference",
    "NestedEvaluation",
    "OuterFold",
    "Progress",
    "Row",
    "RowStore",
    "Run",
    "RunSettings",
    "Summary",
    "TuningRow",
    "auto_model",
    "check_plan",
    "compare",
    "comparison_content",
    "data_facts",
    "differences_to_best",
    "fit_and_evaluate",
    "nested_evaluation",
    "quick",
    "read_results",
    "read_summaries",
    "summarise",
    "write_page",
    "write_summaries",
]
