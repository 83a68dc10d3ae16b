"""Kernels of tensors as a transformer: samples become vectors whose inner products are the kernel's values."""

from .base import Kernel
from .transformer import KERNELS, TensorKernel

__all__ = ["KERNELS", "Kernel", "TensorKernel"]
