"""HTML reports of fitted models and of comparisons, each a single self-contained file."""

from ..statements import describe_chosen, describe_model, evaluation_lines, statements
from .brains import Display, read_anatomy
from .comparison_report import comparison_page, differences_in_words, read_comparison
from .model_report import model_page
from .page import Lead, Page, render, write_page

__all__ = [
    "Display",
    "Lead",
    "Page",
    "comparison_page",
    "describe_chosen",
    "describe_model",
    "differences_in_words",
    "evaluation_lines",
    "model_page",
    "read_anatomy",
    "read_comparison",
    "render",
    "statements",
    "write_page",
]
