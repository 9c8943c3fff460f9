"""Rows of a table looked up, and moved by Adam (reading 17), for NVIDIA GPUs; a row below 0 is nobody's."""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor

from mcne.kernels.edges_triton import block


@triton.jit
def _gather(table, rows, values, width: tl.constexpr, block_d: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, block_d)
    row = tl.load(rows + i)
    own = tl.load(table + row * width + d, mask=d < width * (row >= 0).to(tl.int32), other=0.0)
    tl.store(values + i * width + d, own, mask=d < width)


@triton.jit
def _adam(
    table,  # [n, D]
    first,  # [n, D] both moments
    second,  # [n, D]
    rows,  # [r] distinct
    gradient,  # [r, D]
    steps,  # [] done, this one included
    learning_rate,
    keep: tl.constexpr,  # β₁ and β₂, and their logarithms
    keep_second: tl.constexpr,
    log_keep: tl.constexpr,
    log_keep_second: tl.constexpr,
    epsilon: tl.constexpr,
    width: tl.constexpr,
    block_d: tl.constexpr,
):
    i = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, block_d)
    row, done = tl.load(rows + i), tl.load(steps).to(tl.float64)
    scale = tl.sqrt(1.0 - tl.exp(done * log_keep_second)).to(tl.float32)
    rate = (learning_rate / (1.0 - tl.exp(done * log_keep))).to(tl.float32)
    at, is_here = row * width + d, d < width * (row >= 0).to(tl.int32)
    own = tl.load(gradient + i * width + d, mask=is_here, other=0.0)
    m = keep * tl.load(first + at, mask=is_here, other=0.0) + (1.0 - keep) * own
    v = keep_second * tl.load(second + at, mask=is_here, other=0.0) + (1.0 - keep_second) * own * own
    tl.store(first + at, m, mask=is_here)
    tl.store(second + at, v, mask=is_here)
    change = rate * m / (tl.sqrt(v) / scale + epsilon)
    tl.store(table + at, tl.load(table + at, mask=is_here, other=0.0) - change, mask=is_here)


def gather(table: Tensor, rows: Tensor) -> Tensor:
    """The ``rows`` [r] of a ``table`` [n, d], zeros for nobody's: [r, d]."""
    values, width = table.new_empty(len(rows), table.shape[1]), table.shape[1]
    _gather[(len(rows),)](table, rows, values, width, block(width))
    return values


def adam(
    table: Tensor,
    first: Tensor,
    second: Tensor,
    rows: Tensor,
    gradient: Tensor,
    *,
    steps: Tensor,
    betas: tuple[float, float],
    learning_rate: float,
    epsilon: float,
) -> None:
    """:func:`mcne.kernels.rows.adam_rows` after so many ``steps``, in one launch."""
    logs, width = tuple(math.log(beta) for beta in betas), table.shape[1]
    numbers = (learning_rate, *betas, *logs, epsilon, width, block(width))
    _adam[(len(rows),)](table, first, second, rows, gradient.contiguous(), steps, *numbers)
