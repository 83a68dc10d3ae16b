"""Unbiased evaluation of models: held-out scores with confidence intervals, permutation tests, comparisons of methods.

It may import the wings up to selection and datasets. It knows nothing of figures, reports or the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .comparison import CompareRow, CompareSettings, compare, timed_fit
    from .comparison_summary import MethodDifference, Summary, Winner, differences_from, fit_winner, summarise
    from .contenders import GAMMA_FACTORS, MAJORITY
    from .held_out import Reliability, RocCurve, reliability, roc
    from .intervals import CONFIDENCE, corrected_error, holm, paired_difference, score_interval
    from .intervals import student_p_value, student_quantile
    from .nested import NestedEvaluation, OuterFold, nested_evaluation
    from .permutation import PermutationTest, permutation_test
    from .summaries import comparison_content, data_facts
    from .without_views import ViewsEvaluation, evaluate_without_views
    from .workflow import FitPlan, FittedModel, check_folds, check_plan, fit_and_evaluate, with_kind

__all__ = [
    "CompareRow", "CompareSettings", "FitPlan", "FittedModel", "MethodDifference", "NestedEvaluation", "OuterFold",
    "PermutationTest", "Reliability", "RocCurve", "Summary", "ViewsEvaluation", "Winner", "check_plan", "compare",
    "comparison_content", "data_facts", "differences_from", "evaluate_without_views", "fit_and_evaluate",
    "fit_winner", "nested_evaluation", "permutation_test", "reliability", "roc", "summarise", "with_kind",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
