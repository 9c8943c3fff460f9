"""Messages along edges, for NVIDIA GPUs: one kernel forward, four backward, and one for all links of a network.

As on the CPU (:mod:`mcne.kernels.numba.edges`), what is between the operations of Eq. 3–5 never reaches memory. No two
programs add to the same number, so every run gives the same bytes; what many rows add to is summed up in pieces first.
Programs are small, because gathering rows is fast when many are on their way at once.

Legend: m senders, n receivers, S edges to each, B behaviors, T attention width, D width of the vectors; blocks are
powers of two that hold them, ``row_…`` is how far apart the rows of a matrix are.
"""

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from mcne.kernels.triton.rows import block

NUMBERS_AT_ONCE = 1024
"""Of a sender's edges, in programs of a single warp: more take registers from others."""

COLUMNS_AT_ONCE = 128

LINK_NUMBERS_AT_ONCE, LINK_NUMBERS_PER_WARP = 2048, 1024
"""Of the links that a program takes at a time where receivers get messages from all their neighbors."""


@triton.jit
def _attention(near, own, scores, j, is_edge, row_near: tl.constexpr, n_b: tl.constexpr, n_t: tl.constexpr):
    """Eq. 4–5 along edges from senders ``j`` [E] to one receiver, [E, B], still to be divided by the sum of a row.

    ``near`` [m, B, T], ``own`` [B, T] is the receiver's row of the other half, ``scores`` [T].
    """
    b, t = tl.arange(0, block(n_b)), tl.arange(0, block(n_t))
    is_t = t < n_t
    logits = tl.full((j.shape[0], block(n_b)), float("-inf"), tl.float32)
    for c in range(n_b):
        here = tl.load(own + c * n_t + t, mask=is_t, other=0.0)
        at = (j * row_near + c * n_t)[:, None] + t[None, :]
        theirs = tl.load(near + at, mask=is_edge[:, None] & is_t[None, :], other=0.0)
        logit = tl.sum(tl.maximum(theirs + here[None, :], 0.0) * scores[None, :], axis=1)  # [E]
        logits = tl.where(b[None, :] == c, logit[:, None], logits)
    return tl.exp(logits - tl.max(logits, axis=1)[:, None])


@triton.jit
def forward(
    vectors,  # [m, D]
    near,  # [m, B, T]
    here,  # [n, B, T]
    score,  # [T]
    masks,  # [B, D]
    sender,  # [n, S]
    has_neighbors,  # [n]
    messages,  # [n, D] out
    weights,  # [n, S, B] out, kept for the gradient; of those with neighbors
    sums,  # [n, B, D] out, kept for the gradient; of those with neighbors
    row_near: tl.constexpr,
    row_here: tl.constexpr,
    row_messages: tl.constexpr,
    n_s: tl.constexpr,
    n_b: tl.constexpr,
    n_t: tl.constexpr,
    n_d: tl.constexpr,
):
    """Eq. 3–5 and the mean of Eq. 6: what a receiver gets along its edges."""
    r = tl.program_id(0).to(tl.int64)
    s, d = tl.arange(0, block(n_s)), tl.arange(0, block(n_d))
    b, t = tl.arange(0, block(n_b)), tl.arange(0, block(n_t))
    is_d, is_s = d < n_d, s < n_s
    message = tl.zeros((block(n_d),), tl.float32)
    if tl.load(has_neighbors + r):
        j = tl.load(sender + r * n_s + s, mask=is_s, other=0).to(tl.int64)  # [S]
        scores = tl.load(score + t, mask=t < n_t, other=0.0)
        raised = _attention(near, here + r * row_here, scores, j, is_s, row_near, n_b, n_t)
        weight = tl.where(is_s[:, None], raised / tl.sum(raised, axis=1)[:, None], 0.0)  # [S, B]
        is_kept = is_s[:, None] & (b < n_b)[None, :]
        tl.store(weights + (r * n_s + s)[:, None] * n_b + b[None, :], weight, mask=is_kept)
        sent = tl.load(vectors + j[:, None] * n_d + d[None, :], mask=is_s[:, None] & is_d[None, :], other=0.0)
        for c in range(n_b):
            of_behavior = tl.sum(tl.where(b[None, :] == c, weight, 0.0), axis=1)  # [S]
            total = tl.sum(of_behavior[:, None] * sent, axis=0)  # [D]
            tl.store(sums + (r * n_b + c) * n_d + d, total, mask=is_d)
            message += total * tl.load(masks + c * n_d + d, mask=is_d, other=0.0)
    tl.store(messages + r * row_messages + d, message / n_s, mask=is_d)


@triton.jit
def backward_of_logits(
    gradient,  # [n, D] of messages
    vectors,
    masks,
    sender,
    has_neighbors,
    weights,
    of_logits,  # [n, S, B] out: the gradient before the softmax; of those with neighbors
    row_gradient: tl.constexpr,
    n_s: tl.constexpr,
    n_b: tl.constexpr,
    n_d: tl.constexpr,
):
    """The gradient of the weights of a receiver's edges, before the softmax."""
    r = tl.program_id(0).to(tl.int64)
    s, b, d = tl.arange(0, block(n_s)), tl.arange(0, block(n_b)), tl.arange(0, block(n_d))
    is_d, is_s = d < n_d, s < n_s
    if tl.load(has_neighbors + r):
        j = tl.load(sender + r * n_s + s, mask=is_s, other=0).to(tl.int64)
        edge = (r * n_s + s)[:, None] * n_b + b[None, :]
        is_kept = is_s[:, None] & (b < n_b)[None, :]
        each = tl.load(gradient + r * row_gradient + d, mask=is_d, other=0.0) / n_s  # [D]
        sent = tl.load(vectors + j[:, None] * n_d + d[None, :], mask=is_s[:, None] & is_d[None, :], other=0.0)
        sent *= each[None, :]
        of_weight = tl.zeros((block(n_s), block(n_b)), tl.float32)
        for c in range(n_b):
            mask = tl.load(masks + c * n_d + d, mask=is_d, other=0.0)
            of_weight = tl.where(b[None, :] == c, tl.sum(sent * mask[None, :], axis=1)[:, None], of_weight)
        weight = tl.load(weights + edge, mask=is_kept, other=0.0)
        of_logit = weight * (of_weight - tl.sum(weight * of_weight, axis=1)[:, None])  # [S, B]
        tl.store(of_logits + edge, of_logit, mask=is_kept)


@triton.jit
def backward_by_receiver(
    near,
    here,
    score,
    sender,
    has_neighbors,
    of_logits,
    of_here,  # [n, B, T] out
    of_score,  # [P, T] out: to be summed up
    n,
    row_near: tl.constexpr,
    row_here: tl.constexpr,
    n_s: tl.constexpr,
    n_b: tl.constexpr,
    n_t: tl.constexpr,
):
    """The gradients of the receivers' projections, and of the score."""
    piece = tl.program_id(0).to(tl.int64)
    s, t = tl.arange(0, block(n_s)), tl.arange(0, block(n_t))
    is_t, is_s = t < n_t, s < n_s
    scores = tl.load(score + t, mask=is_t, other=0.0)
    total = tl.zeros((block(n_t),), tl.float32)
    for r in range(piece, n, tl.num_programs(0)):
        is_receiving = tl.load(has_neighbors + r)
        is_edge = is_s & is_receiving
        both = is_edge[:, None] & is_t[None, :]
        j = tl.load(sender + r * n_s + s, mask=is_edge, other=0).to(tl.int64)
        for c in range(n_b):
            through = tl.zeros((block(n_t),), tl.float32)
            if is_receiving:
                step = tl.load(of_logits + (r * n_s + s) * n_b + c, mask=is_edge, other=0.0)  # [S]
                own = tl.load(here + r * row_here + c * n_t + t, mask=is_t, other=0.0)
                theirs = tl.load(near + (j * row_near + c * n_t)[:, None] + t[None, :], mask=both, other=0.0)
                active = theirs + own[None, :]
                through = tl.sum(tl.where(active > 0, step[:, None], 0.0), axis=0) * scores
                total += tl.sum(step[:, None] * tl.maximum(active, 0.0), axis=0)
            tl.store(of_here + r * row_here + c * n_t + t, through, mask=is_t)
    tl.store(of_score + piece * n_t + t, total, mask=is_t)


@triton.jit
def backward_by_sender(
    gradient,  # [n, D]
    of_own,  # [n, D] of the receivers' own vectors
    near,
    here,
    score,
    masks,
    order,  # [n · S + n] edges by sender, and after them, for a receiver, n · S and its number
    start,  # [m] where the edges of a sender begin
    stop,  # [m] and end
    weights,
    of_logits,
    of_vectors,  # [m, D] out
    of_near,  # [m, B, T] out
    n_edges,
    row_gradient: tl.constexpr,
    row_near: tl.constexpr,
    row_here: tl.constexpr,
    n_s: tl.constexpr,
    n_b: tl.constexpr,
    n_t: tl.constexpr,
    n_d: tl.constexpr,
    block_e: tl.constexpr,  # edges of as many columns of vectors
    block_c: tl.constexpr,
    block_i: tl.constexpr,  # and of the projections for a behavior
):
    """The gradients of the senders: some programs take columns of the vector, others a behavior's projection."""
    j, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    some, last = tl.load(start + j), tl.load(stop + j)
    n_parts: tl.constexpr = (n_d + block_c - 1) // block_c
    if part < n_parts:
        e, d, b = tl.arange(0, block_e), part * block_c + tl.arange(0, block_c), tl.arange(0, block(n_b))
        is_d, is_b = d < n_d, (b < n_b)[None, :]
        own = tl.load(order + last - 1, mask=last > some, other=0).to(tl.int64) - n_edges  # the receiver, or below 0
        total = tl.zeros((block_c,), tl.float32)
        edge = tl.load(order + some + e, mask=some + e < last, other=n_edges).to(tl.int64)
        while some < last:
            some += block_e
            following = tl.load(order + some + e, mask=some + e < last, other=n_edges).to(tl.int64)
            is_edge = edge < n_edges
            weight = tl.load(weights + edge[:, None] * n_b + b[None, :], mask=is_edge[:, None] & is_b, other=0.0)
            at = (edge // n_s * row_gradient)[:, None] + d[None, :]
            upstream = tl.load(gradient + at, mask=is_edge[:, None] & is_d[None, :], other=0.0)
            for c in range(n_b):
                of_behavior = tl.sum(tl.where(b[None, :] == c, weight, 0.0), axis=1)  # [E]
                mask = tl.load(masks + c * n_d + d, mask=is_d, other=0.0)
                total += tl.sum(of_behavior[:, None] * upstream, axis=0) * mask
            edge = following
        kept = tl.load(of_own + own * row_gradient + d, mask=is_d & (own >= 0), other=0.0)
        tl.store(of_vectors + j * n_d + d, total / n_s + kept, mask=is_d)
    else:
        i, q = tl.arange(0, block_i), (part - n_parts) * n_t + tl.arange(0, block(n_t))
        is_q = tl.arange(0, block(n_t)) < n_t
        mine = tl.load(near + j * row_near + q, mask=is_q, other=0.0)
        through = tl.zeros((block(n_t),), tl.float32)
        place = tl.load(order + some + i, mask=some + i < last, other=n_edges).to(tl.int64)
        while some < last:
            some += block_i
            next_one = tl.load(order + some + i, mask=some + i < last, other=n_edges).to(tl.int64)
            is_place = place < n_edges
            their_row = (place // n_s * row_here)[:, None] + q[None, :]
            theirs = tl.load(here + their_row, mask=is_place[:, None] & is_q[None, :], other=0.0)
            step = tl.load(of_logits + place * n_b + part - n_parts, mask=is_place, other=0.0)
            through += tl.sum(tl.where(theirs + mine[None, :] > 0, step[:, None], 0.0), axis=0)
            place = next_one
        scores = tl.load(score + tl.arange(0, block(n_t)), mask=is_q, other=0.0)
        tl.store(of_near + j * row_near + q, through * scores, mask=is_q)


@triton.jit
def backward_of_masks(
    gradient,  # [n, D]
    sums,  # [n, B, D]
    has_neighbors,
    of_masks,  # [P, B, D] out: to be summed up
    n,
    row_gradient: tl.constexpr,
    n_s: tl.constexpr,
    n_b: tl.constexpr,
    n_d: tl.constexpr,
    block_r: tl.constexpr,
):
    """The gradient of a mask: some receivers at a time."""
    piece, c = tl.program_id(0).to(tl.int64), tl.program_id(1)
    i, d = tl.arange(0, block_r), tl.arange(0, block(n_d))
    is_d = d < n_d
    total = tl.zeros((block(n_d),), tl.float32)
    for some in range(piece * block_r, n, tl.num_programs(0) * block_r):
        r = some + i
        both = tl.load(has_neighbors + r, mask=r < n, other=0)[:, None] & is_d[None, :]
        sent = tl.load(sums + (r[:, None] * n_b + c) * n_d + d[None, :], mask=both, other=0.0)
        total += tl.sum(sent * tl.load(gradient + r[:, None] * row_gradient + d[None, :], mask=both, other=0.0), axis=0)
    tl.store(of_masks + (piece * n_b + c) * n_d + d, total / n_s, mask=is_d)


@triton.jit
def _aggregate_all(
    vectors,  # [m, D]
    near,  # [m, B, T]
    here,  # [n, B, T]
    score,  # [T]
    masks,  # [B, D]
    first,  # [n + 1] where the links of a receiver begin
    sender,  # [links]
    share,  # [links]
    messages,  # [n, D] added to
    n_b: tl.constexpr,
    n_t: tl.constexpr,
    n_d: tl.constexpr,
    block_e: tl.constexpr,
    block_c: tl.constexpr,
):
    """What a receiver gets from all its neighbors: some columns of it, from some links at a time, in their order.

    Each program weighs the links anew, which takes less than to write and read their weights.
    """
    r = tl.program_id(0).to(tl.int64)
    e, b, t = tl.arange(0, block_e), tl.arange(0, block(n_b)), tl.arange(0, block(n_t))
    d = tl.program_id(1) * block_c + tl.arange(0, block_c)
    is_d = d < n_d
    some, last = tl.load(first + r), tl.load(first + r + 1)
    scores = tl.load(score + t, mask=t < n_t, other=0.0)
    message = tl.load(messages + r * n_d + d, mask=is_d, other=0.0)
    while some < last:
        is_link = some + e < last
        j = tl.load(sender + some + e, mask=is_link, other=0)  # [E]
        sent = tl.load(vectors + j[:, None] * n_d + d[None, :], mask=is_link[:, None] & is_d[None, :], other=0.0)
        raised = _attention(near, here + r * n_b * n_t, scores, j, is_link, n_b * n_t, n_b, n_t)
        part = tl.load(share + some + e, mask=is_link, other=0.0) / tl.sum(raised, axis=1)
        weight = raised * part[:, None]  # [E, B]
        gate = tl.zeros((block_e, block_c), tl.float32)
        for c in range(n_b):
            of_behavior = tl.sum(tl.where(b[None, :] == c, weight, 0.0), axis=1)  # [E]
            gate += of_behavior[:, None] * tl.load(masks + c * n_d + d, mask=is_d, other=0.0)[None, :]
        message += tl.sum(gate * sent, axis=0)
        some += block_e
    tl.store(messages + r * n_d + d, message, mask=is_d)


def aggregate_all(tensors: Sequence[Tensor], messages: Tensor) -> None:
    """:func:`mcne.kernels.edges.aggregate_all`, in single precision, of its ``tensors`` in their order."""
    tensors = [each.contiguous() for each in tensors]
    _, _, here, score, masks, *_ = tensors
    (n_b, n_d), n_t = masks.shape, len(score)
    columns, wide = min(block(n_d), COLUMNS_AT_ONCE), (block(n_b), block(n_t))
    tall = max(1, LINK_NUMBERS_AT_ONCE // max(columns, *wide))
    _aggregate_all[(len(here), triton.cdiv(n_d, columns))](
        *(*tensors, messages, n_b, n_t, n_d, tall, columns),
        num_warps=min(8, max(1, tall * max(columns, *wide) // LINK_NUMBERS_PER_WARP)),
    )
