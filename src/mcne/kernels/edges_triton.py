"""Send and receive along edges, for NVIDIA GPUs: one kernel forward, four backward.

As on the CPU (:mod:`mcne.kernels.edges_numba`), what is between the operations of :mod:`mcne.kernels.reference` never
reaches memory, and the gradient is taken by receiver and then by sender: nothing is added to by two programs, so that
every run gives the same bytes. A program of the first kind holds all edges of a receiver, one of the second takes the
edges of a sender some at a time.

Legend: m senders, n receivers, S edges to each, B behaviors, T attention width, D width of the vectors; blocks are
powers of two that hold them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from mcne.kernels.groups import Groups

EDGES_AT_ONCE = 16
"""Of a sender."""

COLUMNS_AT_ONCE = 256
"""Of the projections, B · T."""

RECEIVERS_AT_ONCE, PIECES = 16, 64
"""What masks hear of all receivers is summed up so many at a time, in so many pieces."""

MOST_NUMBERS = 1 << 14
"""Of a receiver's edges, S × D or S × T, or of a triple's items: more do not fit a program's registers."""


def fits(samples: Sequence[int], widest: int) -> bool:
    """Whether a program can hold all edges of a receiver."""
    return block(max(samples)) * block(widest) <= MOST_NUMBERS


def block(size: int) -> int:
    """The power of two that holds ``size``."""
    return int(triton.next_power_of_2(size))


@triton.jit
def _forward(
    vectors,  # [m, D]
    near,  # [m, B, T]
    here,  # [n, B, T]
    score,  # [T]
    masks,  # [B, D]
    sender,  # [n, S]
    heard,  # [n]
    messages,  # [n, D] out
    weights,  # [n, S, B] out, kept for the gradient
    sums,  # [n, B, D] out, kept for the gradient
    n_s: tl.constexpr,
    n_b: tl.constexpr,
    n_t: tl.constexpr,
    n_d: tl.constexpr,
    block_s: tl.constexpr,
    block_b: tl.constexpr,
    block_t: tl.constexpr,
    block_d: tl.constexpr,
):
    r = tl.program_id(0).to(tl.int64)
    s, b, t, d = tl.arange(0, block_s), tl.arange(0, block_b), tl.arange(0, block_t), tl.arange(0, block_d)
    is_t, is_d, is_s = t < n_t, d < n_d, s < n_s * tl.load(heard + r).to(tl.int32)
    j = tl.load(sender + r * n_s + s, mask=is_s, other=0)  # [S]
    scores = tl.load(score + t, mask=is_t, other=0.0)
    logits = tl.full((block_s, block_b), float("-inf"), tl.float32)
    for c in range(n_b):
        own = tl.load(here + (r * n_b + c) * n_t + t, mask=is_t, other=0.0)
        at = (j * n_b + c)[:, None] * n_t + t[None, :]
        theirs = tl.load(near + at, mask=is_s[:, None] & is_t[None, :], other=0.0)
        logit = tl.sum(tl.maximum(theirs + own[None, :], 0.0) * scores[None, :], axis=1)  # [S]
        logits = tl.where(b[None, :] == c, logit[:, None], logits)
    raised = tl.exp(logits - tl.max(logits, axis=1)[:, None])
    weight = tl.where(is_s[:, None], raised / tl.sum(raised, axis=1)[:, None], 0.0)  # [S, B]
    is_kept = (s < n_s)[:, None] & (b < n_b)[None, :]
    tl.store(weights + (r * n_s + s)[:, None] * n_b + b[None, :], weight, mask=is_kept)
    sent = tl.load(vectors + j[:, None] * n_d + d[None, :], mask=is_s[:, None] & is_d[None, :], other=0.0)
    message = tl.zeros((block_d,), tl.float32)
    for c in range(n_b):
        of_behavior = tl.sum(tl.where(b[None, :] == c, weight, 0.0), axis=1)  # [S]
        total = tl.sum(of_behavior[:, None] * sent, axis=0)  # [D]
        tl.store(sums + (r * n_b + c) * n_d + d, total, mask=is_d)
        message += total * tl.load(masks + c * n_d + d, mask=is_d, other=0.0)
    tl.store(messages + r * n_d + d, message / n_s, mask=is_d)


@triton.jit
def _backward_of_logits(
    gradient,  # [n, D] of messages
    vectors,
    masks,
    sender,
    heard,
    weights,
    of_logits,  # [n, S, B] out: the gradient before the softmax
    n_s: tl.constexpr,
    n_b: tl.constexpr,
    n_d: tl.constexpr,
    block_s: tl.constexpr,
    block_b: tl.constexpr,
    block_d: tl.constexpr,
):
    r = tl.program_id(0).to(tl.int64)
    s, b, d = tl.arange(0, block_s), tl.arange(0, block_b), tl.arange(0, block_d)
    is_d, is_s = d < n_d, s < n_s * tl.load(heard + r).to(tl.int32)
    j = tl.load(sender + r * n_s + s, mask=is_s, other=0)
    edge, is_kept = (r * n_s + s)[:, None] * n_b + b[None, :], (s < n_s)[:, None] & (b < n_b)[None, :]
    each = tl.load(gradient + r * n_d + d, mask=is_d, other=0.0) / n_s  # [D]
    sent = tl.load(vectors + j[:, None] * n_d + d[None, :], mask=is_s[:, None] & is_d[None, :], other=0.0)
    sent *= each[None, :]
    of_weight = tl.zeros((block_s, block_b), tl.float32)
    for c in range(n_b):
        mask = tl.load(masks + c * n_d + d, mask=is_d, other=0.0)
        of_weight = tl.where(b[None, :] == c, tl.sum(sent * mask[None, :], axis=1)[:, None], of_weight)
    weight = tl.load(weights + edge, mask=is_kept, other=0.0)
    of_logit = weight * (of_weight - tl.sum(weight * of_weight, axis=1)[:, None])  # [S, B]
    tl.store(of_logits + edge, of_logit, mask=is_kept)


@triton.jit
def _backward_by_receiver(
    near,
    here,
    score,
    sender,
    heard,
    of_logits,
    of_here,  # [n, B, T] out
    of_score,  # [n, B, T] out: to be summed up
    n_s: tl.constexpr,
    n_b: tl.constexpr,
    n_t: tl.constexpr,
    block_s: tl.constexpr,
    block_q: tl.constexpr,
):
    r = tl.program_id(0).to(tl.int64)
    s, q = tl.arange(0, block_s), tl.program_id(1) * block_q + tl.arange(0, block_q)  # some of B · T
    is_q, is_s = q < n_b * n_t, s < n_s * tl.load(heard + r).to(tl.int32)
    both = is_s[:, None] & is_q[None, :]
    j = tl.load(sender + r * n_s + s, mask=is_s, other=0)
    step = tl.load(of_logits + (r * n_s + s)[:, None] * n_b + (q // n_t)[None, :], mask=both, other=0.0)  # [S, Q]
    own = tl.load(here + r * n_b * n_t + q, mask=is_q, other=0.0)
    active = tl.load(near + j[:, None] * n_b * n_t + q[None, :], mask=both, other=0.0) + own[None, :]
    through = tl.sum(tl.where(active > 0, step, 0.0), axis=0) * tl.load(score + q % n_t, mask=is_q, other=0.0)
    tl.store(of_here + r * n_b * n_t + q, through, mask=is_q)
    tl.store(of_score + r * n_b * n_t + q, tl.sum(step * tl.maximum(active, 0.0), axis=0), mask=is_q)


@triton.jit
def _backward_by_sender(
    gradient,
    near,
    here,
    score,
    masks,
    order,  # [n · S + …] edges by sender, and larger numbers, which are none
    start,  # [m] where the edges of a sender begin
    stop,  # [m] and end
    weights,
    of_logits,
    of_vectors,  # [m, D] out
    of_near,  # [m, B, T] out
    n_edges,
    n_s: tl.constexpr,
    n_b: tl.constexpr,
    n_t: tl.constexpr,
    n_d: tl.constexpr,
    block_e: tl.constexpr,
    block_q: tl.constexpr,
    block_d: tl.constexpr,
):
    j, part = tl.program_id(0).to(tl.int64), tl.program_id(1)  # part 0 is of vectors, the others of some of near
    e = tl.arange(0, block_e)
    some, last = tl.load(start + j), tl.load(stop + j)
    if part == 0:
        d = tl.arange(0, block_d)
        is_d = d < n_d
        total = tl.zeros((block_d,), tl.float32)
        while some < last:
            edge = tl.load(order + some + e, mask=some + e < last, other=n_edges)
            is_edge = edge < n_edges
            gate = tl.zeros((block_e, block_d), tl.float32)
            for c in range(n_b):
                weight = tl.load(weights + edge * n_b + c, mask=is_edge, other=0.0)
                gate += weight[:, None] * tl.load(masks + c * n_d + d, mask=is_d, other=0.0)[None, :]
            at = (edge // n_s)[:, None] * n_d + d[None, :]
            total += tl.sum(gate * tl.load(gradient + at, mask=is_edge[:, None] & is_d[None, :], other=0.0), axis=0)
            some += block_e
        tl.store(of_vectors + j * n_d + d, total / n_s, mask=is_d)
    else:
        q = (part - 1) * block_q + tl.arange(0, block_q)  # of B · T
        is_q = q < n_b * n_t
        own = tl.load(near + j * n_b * n_t + q, mask=is_q, other=0.0)
        through = tl.zeros((block_q,), tl.float32)
        while some < last:
            edge = tl.load(order + some + e, mask=some + e < last, other=n_edges)
            both = (edge < n_edges)[:, None] & is_q[None, :]
            at = (edge // n_s)[:, None] * n_b * n_t + q[None, :]
            active = tl.load(here + at, mask=both, other=0.0) + own[None, :]
            of_logit = tl.load(of_logits + edge[:, None] * n_b + (q // n_t)[None, :], mask=both, other=0.0)
            through += tl.sum(tl.where(active > 0, of_logit, 0.0), axis=0)
            some += block_e
        scores = tl.load(score + q % n_t, mask=is_q, other=0.0)
        tl.store(of_near + j * n_b * n_t + q, through * scores, mask=is_q)


@triton.jit
def _backward_of_masks(
    gradient,  # [n, D]
    sums,  # [n, B, D]
    of_masks,  # [P, B, D] out: to be summed up
    n,
    n_b: tl.constexpr,
    n_d: tl.constexpr,
    block_r: tl.constexpr,
    block_d: tl.constexpr,
):
    piece, c = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i, d = tl.arange(0, block_r), tl.arange(0, block_d)
    is_d = d < n_d
    total = tl.zeros((block_d,), tl.float32)
    for some in range(piece * block_r, n, tl.num_programs(0) * block_r):
        r = some + i
        both = (r < n)[:, None] & is_d[None, :]
        sent = tl.load(sums + (r[:, None] * n_b + c) * n_d + d[None, :], mask=both, other=0.0)
        total += tl.sum(sent * tl.load(gradient + r[:, None] * n_d + d[None, :], mask=both, other=0.0), axis=0)
    tl.store(of_masks + (piece * n_b + c) * n_d + d, total, mask=is_d)


class SendAndReceive(torch.autograd.Function):
    """:func:`mcne.kernels.edges.send_and_receive` in single precision, of edges that are grouped by sender."""

    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,
        near: Tensor,
        here: Tensor,
        score: Tensor,
        masks: Tensor,
        sender: Tensor,
        heard: Tensor,
        groups: Groups,
    ) -> Tensor:
        """See the function."""
        given = [each.contiguous() for each in (vectors, near, here, score, masks, sender, heard)]
        (n, n_s), (n_b, n_d), n_t = sender.shape, masks.shape, len(score)
        messages, weights = vectors.new_empty(n, n_d), vectors.new_empty(n, n_s, n_b)
        sums = vectors.new_empty(n, n_b, n_d)
        sizes = (n_s, n_b, n_t, n_d, *map(block, (n_s, n_b, n_t, n_d)))
        _forward[(n,)](*given, messages, weights, sums, *sizes)
        ctx.save_for_backward(*given, weights, sums)
        ctx.groups, ctx.sizes = groups, sizes
        return messages

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """See the function."""
        *given, weights, sums = ctx.saved_tensors
        vectors, near, here, score, masks, sender, heard = given
        gradient, groups = gradients[0].contiguous(), ctx.groups
        n_s, n_b, n_t, n_d, block_s, block_b, _, block_d = ctx.sizes
        of_logits, of_here, of_scores = torch.empty_like(weights), torch.empty_like(here), torch.empty_like(here)
        _backward_of_logits[(len(here),)](
            *(gradient, vectors, masks, sender, heard, weights, of_logits, n_s, n_b, n_d, block_s, block_b, block_d)
        )
        block_q = min(block(n_b * n_t), COLUMNS_AT_ONCE, MOST_NUMBERS // block_s)
        pieces = triton.cdiv(n_b * n_t, block_q)
        _backward_by_receiver[(len(here), pieces)](
            *(near, here, score, sender, heard, of_logits, of_here, of_scores, n_s, n_b, n_t, block_s, block_q)
        )
        of_vectors, of_near = torch.empty_like(vectors), torch.empty_like(near)
        _backward_by_sender[(len(vectors), 1 + pieces)](
            *(gradient, near, here, score, masks, groups.order, groups.start, groups.stop, weights, of_logits),
            *(of_vectors, of_near, sender.numel(), n_s, n_b, n_t, n_d, EDGES_AT_ONCE, block_q, block_d),
        )
        of_masks = masks.new_empty(PIECES, *masks.shape)
        _backward_of_masks[(PIECES, len(masks))](
            *(gradient, sums, of_masks, len(here), n_b, n_d, RECEIVERS_AT_ONCE, block_d)
        )
        found = (of_vectors, of_near, of_here, of_scores.sum(dim=(0, 1)), of_masks.sum(dim=0) / n_s)
        return *found, None, None, None
