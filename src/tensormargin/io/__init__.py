"""Files in and out."""

from .arrays import BadFileError, check_labelled, digest, read_arrays
from .atomic import replacing
from .npz import load_npz

__all__ = ["BadFileError", "check_labelled", "digest", "load_npz", "read_arrays", "replacing"]
