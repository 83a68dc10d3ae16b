"""Unbiased evaluation of models: held-out scores with confidence intervals, permutation tests, comparisons of methods.

It may import the wings up to selection and datasets. It knows nothing of figures, reports or the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_exports

if TYPE_CHECKING:
    from .comparison import CompareRow as CompareRow, CompareSettings as CompareSettings, compare as compare
    from .comparison import timed_fit as timed_fit
    from .comparison_summary import MethodDifference as MethodDifference, Summary as Summary
    from .comparison_summary import Winner as Winner, fit_winner as fit_winner
    from .comparison_summary import differences_to_best as differences_to_best, summarise as summarise
    from .contenders import GAMMA_FACTORS as GAMMA_FACTORS, MAJORITY as MAJORITY
    from .held_out import Reliability as Reliability, RocCurve as RocCurve, reliability as reliability, roc as roc
    from .intervals import CONFIDENCE as CONFIDENCE, PairedDifference as PairedDifference
    from .intervals import corrected_error as corrected_error, paired_difference as paired_difference
    from .intervals import score_interval as score_interval
    from .intervals import holm as holm, student_p_value as student_p_value, student_quantile as student_quantile
    from .nested import NestedEvaluation as NestedEvaluation, OuterFold as OuterFold
    from .nested import nested_evaluation as nested_evaluation
    from .permutation import PermutationTest as PermutationTest, permutation_test as permutation_test
    from .summaries import comparison_content as comparison_content, data_facts as data_facts
    from .without_views import ViewsEvaluation as ViewsEvaluation, evaluate_without_views as evaluate_without_views
    from .workflow import FitPlan as FitPlan, FittedModel as FittedModel, check_plan as check_plan
    from .workflow import fit_and_evaluate as fit_and_evaluate, with_kind as with_kind

__all__ = [
    "CompareRow", "CompareSettings", "FitPlan", "FittedModel", "MethodDifference", "NestedEvaluation", "OuterFold",
    "PermutationTest", "Reliability", "RocCurve", "Summary", "ViewsEvaluation", "Winner", "check_plan", "compare",
    "comparison_content", "data_facts", "differences_to_best", "evaluate_without_views", "fit_and_evaluate",
    "fit_winner", "nested_evaluation", "permutation_test", "reliability", "roc", "summarise", "with_kind",
]  # fmt: skip
__getattr__, __dir__ = lazy_exports(__name__)
