"""Choosing a model: what to try, how to score it, and what its decisions are worth as probabilities."""

from .classifier import TensorMarginClassifierCV
from .search import DEFAULT_RULE, Progress, splits_of

__all__ = ["DEFAULT_RULE", "Progress", "TensorMarginClassifierCV", "splits_of"]
