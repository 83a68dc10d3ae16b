"""Files in and out."""

from .npz import BadFileError, load_npz

__all__ = ["BadFileError", "load_npz"]
