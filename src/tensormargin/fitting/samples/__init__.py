"""Samples in memory, on a device, or on the workers of a cluster.

Fits use them through the abstract class `Samples`. To support another kind of storage, add a file with a subclass here
and a `SampleArray` in `storage.py`, which recognises the kind of an array.
"""

from .base import Moments, NotFiniteError, Samples, ViewFacts, in_range, shares_of_variance, working_dtype
from .memory import MemorySamples
from .storage import MemoryArray, Reading, SampleArray, labels_at, loaded_if_small, sample_array

__all__ = [
    "MemoryArray",
    "MemorySamples",
    "Moments",
    "NotFiniteError",
    "Reading",
    "SampleArray",
    "Samples",
    "ViewFacts",
    "in_range",
    "labels_at",
    "loaded_if_small",
    "sample_array",
    "shares_of_variance",
    "working_dtype",
]
