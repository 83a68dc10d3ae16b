"""Data sets as tensors."""

from .builtin import load_digits_tensor

__all__ = ["load_digits_tensor"]
