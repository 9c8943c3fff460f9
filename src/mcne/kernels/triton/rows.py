"""Rows of a table looked up, and moved by Adam (reading 17), for NVIDIA GPUs; a row below 0 is nobody's."""

from __future__ import annotations

import math
from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from mcne.kernels import backend
from mcne.kernels.rows import BETAS, EPSILON

block = triton.constexpr_function(backend.block)
"""Which kernels take as well, for a size that is a constant."""

CONSTANTS = (*BETAS, *(math.log(beta) for beta in BETAS), EPSILON)

AT_ONCE = 512
"""Numbers of a table that moves as a whole."""


@triton.jit
def _gather(table, rows, values, row_values: tl.constexpr, width: tl.constexpr):
    i = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, block(width))
    row = tl.load(rows + i)
    own = tl.load(table + row * width + d, mask=d < width * (row >= 0).to(tl.int32), other=0.0)
    tl.store(values + i * row_values + d, own, mask=d < width)


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
):
    i = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, block(width))
    row = tl.load(rows + i)
    done = tl.load(steps).to(tl.float64)
    scale = tl.sqrt(1.0 - tl.exp(done * log_keep_second)).to(tl.float32)
    rate = (learning_rate / (1.0 - tl.exp(done * log_keep))).to(tl.float32)
    at = row * width + d
    is_here = d < width * (row >= 0).to(tl.int32)
    own = tl.load(gradient + i * width + d, mask=is_here, other=0.0)
    m = keep * tl.load(first + at, mask=is_here, other=0.0) + (1.0 - keep) * own
    v = keep_second * tl.load(second + at, mask=is_here, other=0.0) + (1.0 - keep_second) * own * own
    tl.store(first + at, m, mask=is_here)
    tl.store(second + at, v, mask=is_here)
    change = rate * m / (tl.sqrt(v) / scale + epsilon)
    tl.store(table + at, tl.load(table + at, mask=is_here, other=0.0) - change, mask=is_here)


@triton.jit
def _adam_all(
    tables,  # each [size]: a tuple, as all below are
    firsts,
    seconds,
    gradients,
    steps,  # each [] done, this one included
    sizes,
    turned,  # [n_bounded, pieces] how often a value of a piece has changed its side of 0; added to
    learning_rate,
    keep: tl.constexpr,
    keep_second: tl.constexpr,
    log_keep: tl.constexpr,
    log_keep_second: tl.constexpr,
    epsilon: tl.constexpr,
    n_bounded: tl.constexpr,  # so many of the first stay in [−1, 1]
    block: tl.constexpr,
):
    piece, which = tl.program_id(0), tl.program_id(1)
    at = piece * block + tl.arange(0, block)
    for k in tl.static_range(len(tables)):
        if which == k and piece * block < sizes[k]:
            is_here = at < sizes[k]
            done = tl.load(steps[k]).to(tl.float64)
            scale = tl.sqrt(1.0 - tl.exp(done * log_keep_second)).to(tl.float32)
            rate = (learning_rate / (1.0 - tl.exp(done * log_keep))).to(tl.float32)
            own = tl.load(gradients[k] + at, mask=is_here, other=0.0)
            before = tl.load(tables[k] + at, mask=is_here, other=0.0)
            m = keep * tl.load(firsts[k] + at, mask=is_here, other=0.0) + (1.0 - keep) * own
            v = keep_second * tl.load(seconds[k] + at, mask=is_here, other=0.0) + (1.0 - keep_second) * own * own
            tl.store(firsts[k] + at, m, mask=is_here)
            tl.store(seconds[k] + at, v, mask=is_here)
            after = before - rate * m / (tl.sqrt(v) / scale + epsilon)
            if k < n_bounded:
                after = tl.clamp(after, -1.0, 1.0, propagate_nan=tl.PropagateNan.ALL)  # what diverged is seen
                slot = turned + k * tl.num_programs(0) + piece
                n_turned = tl.sum((is_here & ((before >= 0) != (after >= 0))).to(tl.int64), axis=0)
                tl.store(slot, tl.load(slot) + n_turned)
            tl.store(tables[k] + at, after, mask=is_here)


def gather(table: Tensor, rows: Tensor, into: Tensor | None = None) -> Tensor:
    """The ``rows`` [r] of a ``table`` [n, d], zeros for nobody's: [r, d], ``into`` others whose rows may be apart."""
    width = table.shape[1]
    values = table.new_empty(len(rows), width) if into is None else into
    _gather[(len(rows),)](table.contiguous(), rows, values, values.stride(0), width)
    return values


def adam(
    table: Tensor, first: Tensor, second: Tensor, rows: Tensor, gradient: Tensor, *, steps: Tensor, learning_rate: float
) -> None:
    """:func:`mcne.kernels.rows.update_rows` after so many ``steps``, in one launch."""
    tensors = (table, first, second, rows, gradient.contiguous(), steps)
    _adam[(len(rows),)](*tensors, learning_rate, *CONSTANTS, table.shape[1])


def adam_all(moved: Sequence[tuple[Tensor, ...]], *, turned: Tensor, learning_rate: float) -> None:
    """Move whole tables of any shapes in one launch: each with both its moments, its gradient and its steps, [].

    The first ``len(turned)`` stay in [−1, 1], and how often a value changed its side of 0 is added to ``turned``
    [bounded, pieces of the largest], to a place of its own in each program.
    """
    tables, *others = zip(*moved, strict=True)
    sizes = tuple(table.numel() for table in tables)
    _adam_all[(pieces_of(max(sizes)), len(tables))](
        *(tables, *others, sizes, turned, learning_rate, *CONSTANTS, len(turned), AT_ONCE)
    )


def pieces_of(size: int) -> int:
    """How many programs :func:`adam_all` gives a table of so many numbers."""
    return int(triton.cdiv(size, AT_ONCE))
