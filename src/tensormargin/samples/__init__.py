"""Samples, wherever they live: in memory, on a device, on the workers of a cluster.

What a fit asks of them is the abstract class `Samples`. A new home of samples is a file here with a subclass of it, and
a `SampleArray` in `door.py`, where the kind of an array is decided.
"""

from .base import Moments, Samples, working_dtype
from .door import MemoryArray, SampleArray, labels_at, sample_array
from .memory import MemorySamples

__all__ = [
    "MemoryArray",
    "MemorySamples",
    "Moments",
    "SampleArray",
    "Samples",
    "labels_at",
    "sample_array",
    "working_dtype",
]
