"""What users hear of all their neighbors, for NVIDIA GPUs: a program for a receiver and some columns.

It takes some links at a time, in their order, however many there are, and nothing is added to by two programs: every
run gives the same bytes. Each program weighs the links anew, which takes less than to write and read their weights.

Legend: m senders, n receivers, B behaviors, T attention width, D width of the vectors.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from mcne.kernels.triton.edges import COLUMNS_AT_ONCE, block

NUMBERS_AT_ONCE, NUMBERS_PER_WARP = 2048, 1024
"""Of the links that a program takes at a time."""


@triton.jit
def _hear_all(
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
    block_b: tl.constexpr,
    block_t: tl.constexpr,
    block_c: tl.constexpr,
):
    r = tl.program_id(0).to(tl.int64)
    e, b, t = tl.arange(0, block_e), tl.arange(0, block_b), tl.arange(0, block_t)
    d = tl.program_id(1) * block_c + tl.arange(0, block_c)
    is_t, is_d = t < n_t, d < n_d
    some, last = tl.load(first + r), tl.load(first + r + 1)
    scores = tl.load(score + t, mask=is_t, other=0.0)
    message = tl.load(messages + r * n_d + d, mask=is_d, other=0.0)
    while some < last:
        is_link = some + e < last
        j = tl.load(sender + some + e, mask=is_link, other=0)  # [E]
        sent = tl.load(vectors + j[:, None] * n_d + d[None, :], mask=is_link[:, None] & is_d[None, :], other=0.0)
        logits = tl.full((block_e, block_b), float("-inf"), tl.float32)
        for c in range(n_b):
            own = tl.load(here + (r * n_b + c) * n_t + t, mask=is_t, other=0.0)
            at = (j * n_b + c)[:, None] * n_t + t[None, :]
            theirs = tl.load(near + at, mask=is_link[:, None] & is_t[None, :], other=0.0)
            logit = tl.sum(tl.maximum(theirs + own[None, :], 0.0) * scores[None, :], axis=1)  # [E]
            logits = tl.where(b[None, :] == c, logit[:, None], logits)
        raised = tl.exp(logits - tl.max(logits, axis=1)[:, None])
        part = tl.load(share + some + e, mask=is_link, other=0.0) / tl.sum(raised, axis=1)
        weight = raised * part[:, None]  # [E, B]
        gate = tl.zeros((block_e, block_c), tl.float32)
        for c in range(n_b):
            of_behavior = tl.sum(tl.where(b[None, :] == c, weight, 0.0), axis=1)  # [E]
            gate += of_behavior[:, None] * tl.load(masks + c * n_d + d, mask=is_d, other=0.0)[None, :]
        message += tl.sum(gate * sent, axis=0)
        some += block_e
    tl.store(messages + r * n_d + d, message, mask=is_d)


def hear_all(
    vectors: Tensor,
    near: Tensor,
    here: Tensor,
    score: Tensor,
    masks: Tensor,
    first: Tensor,
    sender: Tensor,
    share: Tensor,
    messages: Tensor,
) -> None:
    """Add to ``messages`` [n, D] what :func:`mcne.kernels.edges.hear_all` gives, in single precision."""
    given = [each.contiguous() for each in (vectors, near, here, score, masks, first, sender, share)]
    (n_b, n_d), n_t = masks.shape, len(score)
    columns, wide = min(block(n_d), COLUMNS_AT_ONCE), (block(n_b), block(n_t))
    tall = max(1, NUMBERS_AT_ONCE // max(columns, *wide))
    _hear_all[(len(here), triton.cdiv(n_d, columns))](
        *(*given, messages, n_b, n_t, n_d, tall, *wide, columns),
        num_warps=min(8, max(1, tall * max(columns, *wide) // NUMBERS_PER_WARP)),
    )
