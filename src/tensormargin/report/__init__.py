"""HTML reports of fitted models and of comparisons, each a single self-contained file, and their sentences.

It may import the wings up to evaluation and plots. It knows nothing of the paper's tables or the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .comparison_report import comparison_page, read_comparison
    from .field_figures import field_pictures
    from .model_report import model_page
    from .page import Lead, Page, render, write_page
    from .sentences import beats_chance, format_halves
    from .sentences import describe_chosen, describe_model, evaluation_lines, format_differences, statements
    from .sentences import format_difference, without_views_line
    from .viewer import Display, ModelMaps, named_axes, read_anatomy

__all__ = [
    "Display", "Lead", "Page", "comparison_page", "describe_chosen", "describe_model", "evaluation_lines",
    "format_differences", "model_page", "read_anatomy", "read_comparison", "render", "statements", "write_page",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
