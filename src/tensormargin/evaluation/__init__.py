"""Unbiased evaluation of models: held-out scores with confidence intervals, and comparisons between methods."""

from .comparison import CompareRow, CompareSettings, compare
from .comparison_summary import MethodDifference, Summary, differences_to_best, summarise
from .curves import Reliability, RocCurve, reliability, roc
from .facts import comparison_content, data_facts
from .nested import NestedEvaluation, OuterFold, nested_evaluation
from .permutation import PermutationTest, permutation_test
from .plan import FitPlan, check_plan, with_kind
from .winner import Winner, fit_winner
from .without_views import ViewsEvaluation, evaluate_without_views
from .workflow import FittedModel, fit_and_evaluate

__all__ = [
    "CompareRow",
    "CompareSettings",
    "FitPlan",
    "FittedModel",
    "MethodDifference",
    "NestedEvaluation",
    "OuterFold",
    "PermutationTest",
    "Reliability",
    "RocCurve",
    "Summary",
    "ViewsEvaluation",
    "Winner",
    "check_plan",
    "compare",
    "comparison_content",
    "data_facts",
    "differences_to_best",
    "evaluate_without_views",
    "fit_and_evaluate",
    "fit_winner",
    "nested_evaluation",
    "permutation_test",
    "reliability",
    "roc",
    "summarise",
    "with_kind",
]
