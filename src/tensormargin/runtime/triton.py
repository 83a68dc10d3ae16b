"""Products of float32 samples with matrices of few columns on an NVIDIA GPU, at close to memory bandwidth.

cuBLAS has no kernel for so few columns: without TF32, which rounds to three digits, it reaches a quarter to a half of
the copy bandwidth (benchmarks/results/gpu.md). Here each number is split into three TF32 numbers in registers, which
gives float32 accuracy on tensor cores. Triton comes with PyTorch's CUDA builds; only `array_api` imports this module.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

MOST_COLUMNS = 64
_LEAST_COLUMNS = 16  # minimum for a product on tensor cores
_ROWS, _DEPTH = 64, 64
_WIDTH, _DEPTH_IF_WIDE = 256, 32


@triton.jit
def _tall_kernel(
    left, right, out, n_rows, depth, n_columns, PADDED: tl.constexpr, ROWS: tl.constexpr, DEPTH: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, PADDED)
    total = tl.zeros((ROWS, PADDED), tl.float32)
    for first in range(0, depth, DEPTH):
        k = first + tl.arange(0, DEPTH)
        inside = (row[:, None] < n_rows) & (k[None, :] < depth)
        part = tl.load(left + row[:, None] * depth + k[None, :], mask=inside, other=0.0)
        inside = (k[:, None] < depth) & (column[None, :] < n_columns)
        factor = tl.load(right + k[:, None] * n_columns + column[None, :], mask=inside, other=0.0)
        total = tl.dot(part, factor, total, input_precision="tf32x3")
    inside = (row[:, None] < n_rows) & (column[None, :] < n_columns)
    tl.store(out + row[:, None] * n_columns + column[None, :], total, mask=inside)


@triton.jit
def _wide_kernel(
    left, right, out, n_rows, depth, width, PADDED: tl.constexpr, WIDTH: tl.constexpr, DEPTH: tl.constexpr
):
    sample = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    row = tl.arange(0, PADDED)
    total = tl.zeros((PADDED, WIDTH), tl.float32)
    for first in range(0, depth, DEPTH):
        k = first + tl.arange(0, DEPTH)
        inside = (k[:, None] < depth) & (column[None, :] < width)
        part = tl.load(right + (sample * depth + k[:, None]) * width + column[None, :], mask=inside, other=0.0)
        inside = (row[:, None] < n_rows) & (k[None, :] < depth)
        factor = tl.load(left + row[:, None] * depth + k[None, :], mask=inside, other=0.0)
        total = tl.dot(factor, part, total, input_precision="tf32x3")
    inside = (row[:, None] < n_rows) & (column[None, :] < width)
    tl.store(out + (sample * n_rows + row[:, None]) * width + column[None, :], total, mask=inside)


def tall_product(left: Any, right: Any) -> Any:
    """Return ``left @ right`` for (M, K) samples and a (K, R) matrix."""
    n_rows, depth = left.shape
    out = torch.empty((n_rows, right.shape[1]), device=left.device)
    with torch.cuda.device(left.device):
        _tall_kernel[(triton.cdiv(n_rows, _ROWS),)](
            left, right, out, n_rows, depth, right.shape[1], _padded(right.shape[1]), _ROWS, _DEPTH,
            num_warps=4, num_stages=3,
        )  # fmt: skip
    return out


def wide_product(left: Any, right: Any) -> Any:
    """Return ``left @ right`` for an (R, K) matrix and (N, K, B) samples."""
    count, depth, width = right.shape
    out = torch.empty((count, left.shape[0], width), device=right.device)
    with torch.cuda.device(right.device):
        _wide_kernel[(count, triton.cdiv(width, _WIDTH))](
            left, right, out, left.shape[0], depth, width, _padded(left.shape[0]), _WIDTH, _DEPTH_IF_WIDE,
            num_warps=4, num_stages=3,
        )  # fmt: skip
    return out


def _padded(count: int) -> int:
    return max(_LEAST_COLUMNS, triton.next_power_of_2(count))
