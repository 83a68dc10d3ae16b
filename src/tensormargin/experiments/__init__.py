"""Experiments: methods in, rows of results out."""

from .compare import CompareRow, CompareSettings, Summary, compare, summarise

__all__ = ["CompareRow", "CompareSettings", "Summary", "compare", "summarise"]
