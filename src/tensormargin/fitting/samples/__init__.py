"""Samples in memory, on a device, or on the workers of a cluster.

Fits use them through the abstract class `Samples`. To support another kind of storage, add a file with a subclass here
and a `SampleArray` in `storage.py`, which recognises the kind of an array.
"""
