"""What a hop takes of the level below beside messages, for NVIDIA GPUs: its receivers, and the mean of neighbors.

As everywhere, nothing is added to by two programs. Legend: m senders, n receivers among them, S edges to each, D width.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from mcne.kernels.groups import Groups
from mcne.kernels.triton.edges import COLUMNS_AT_ONCE, NUMBERS_AT_ONCE, block


@triton.jit
def _backward_to_receivers(
    gradient,  # [n, D]
    order,
    start,
    stop,
    of_vectors,  # [m, D] out
    n_edges,
    n_d: tl.constexpr,
    block_d: tl.constexpr,
):
    j = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, block_d)
    last = tl.load(stop + j)
    place = tl.load(order + last - 1, mask=last > tl.load(start + j), other=-1).to(tl.int64) - n_edges
    # the receiver, or below 0
    own = tl.load(gradient + place * n_d + d, mask=d < n_d * (place >= 0).to(tl.int32), other=0.0)
    tl.store(of_vectors + j * n_d + d, own, mask=d < n_d)


class Receivers(torch.autograd.Function):
    """:func:`mcne.kernels.edges.receivers_of`, where the places after all edges are those of the receivers."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, receiver: Tensor, groups: Groups, n_edges: int) -> Tensor:
        """See the function."""
        ctx.groups, ctx.n_edges, ctx.shape = groups, n_edges, vectors.shape
        return vectors.index_select(0, receiver)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """See the function."""
        groups, (m, n_d) = ctx.groups, ctx.shape
        of_vectors = gradients[0].new_empty(m, n_d)
        _backward_to_receivers[(m,)](
            *(gradients[0].contiguous(), groups.order, groups.start, groups.stop, of_vectors),
            *(ctx.n_edges, n_d, block(n_d)),
        )
        return of_vectors, None, None, None


@triton.jit
def _mean(
    vectors,  # [m, D]
    sender,  # [n, S]
    heard,  # [n]
    messages,  # [n, D] out
    n_s: tl.constexpr,
    n_d: tl.constexpr,
    block_s: tl.constexpr,
    block_d: tl.constexpr,
):
    r = tl.program_id(0).to(tl.int64)
    s, d = tl.arange(0, block_s), tl.arange(0, block_d)
    is_d, is_s = d < n_d, s < n_s
    total = tl.zeros((block_d,), tl.float32)
    if tl.load(heard + r):
        j = tl.load(sender + r * n_s + s, mask=is_s, other=0).to(tl.int64)
        sent = tl.load(vectors + j[:, None] * n_d + d[None, :], mask=is_s[:, None] & is_d[None, :], other=0.0)
        total = tl.sum(sent, axis=0)
    tl.store(messages + r * n_d + d, total / n_s, mask=is_d)


@triton.jit
def _mean_backward(
    gradient,  # [n, D]
    order,
    start,
    stop,
    of_vectors,  # [m, D] out
    n_edges,
    n_s: tl.constexpr,
    n_d: tl.constexpr,
    block_e: tl.constexpr,
    block_c: tl.constexpr,
):
    j = tl.program_id(0).to(tl.int64)
    e, d = tl.arange(0, block_e), tl.program_id(1) * block_c + tl.arange(0, block_c)
    is_d = d < n_d
    some, last = tl.load(start + j), tl.load(stop + j)
    total = tl.zeros((block_c,), tl.float32)
    while some < last:
        edge = tl.load(order + some + e, mask=some + e < last, other=n_edges).to(tl.int64)
        at = (edge // n_s)[:, None] * n_d + d[None, :]
        total += tl.sum(tl.load(gradient + at, mask=(edge < n_edges)[:, None] & is_d[None, :], other=0.0), axis=0)
        some += block_e
    tl.store(of_vectors + j * n_d + d, total / n_s, mask=is_d)


class Mean(torch.autograd.Function):
    """:func:`mcne.kernels.edges.mean_of` in single precision, of edges that are grouped by sender."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, sender: Tensor, heard: Tensor, groups: Groups) -> Tensor:
        """See the function."""
        (n, n_s), n_d = sender.shape, vectors.shape[1]
        messages = vectors.new_empty(n, n_d)
        _mean[(n,)](vectors.contiguous(), sender, heard, messages, n_s, n_d, block(n_s), block(n_d))
        ctx.groups, ctx.shapes = groups, (len(vectors), n, n_s, n_d)
        return messages

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """See the function."""
        (m, n, n_s, n_d), groups = ctx.shapes, ctx.groups
        of_vectors = gradients[0].new_empty(m, n_d)
        columns = min(block(n_d), COLUMNS_AT_ONCE)
        _mean_backward[(m, triton.cdiv(n_d, columns))](
            *(gradients[0].contiguous(), groups.order, groups.start, groups.stop, of_vectors, n * n_s),
            *(n_s, n_d, max(1, NUMBERS_AT_ONCE // columns), columns),
            num_warps=1,
        )
        return of_vectors, None, None, None
