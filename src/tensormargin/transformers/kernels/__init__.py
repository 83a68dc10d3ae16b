"""Kernels of tensors as a transformer: samples become vectors whose inner products are the kernel's values."""
