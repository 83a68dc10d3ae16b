"""Models and rows in, one HTML file out."""

from .of_comparison import comparison_page, differences_in_words, read_comparison
from .of_model import model_page
from .page import Page, render, write_page
from .statements import evaluation_lines, said_model, statements

__all__ = [
    "Page",
    "comparison_page",
    "differences_in_words",
    "evaluation_lines",
    "model_page",
    "read_comparison",
    "render",
    "said_model",
    "statements",
    "write_page",
]
