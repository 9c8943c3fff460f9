"""The triples of all behaviors ranked by masked inner products at once, for NVIDIA GPUs.

Scores take one kernel. The gradient takes one for each triple's user, and then one each to sum up over the triples of
users, items and masks. Nothing is added to by two programs.

Legend: n users, m items, T triples (b of each behavior, one behavior after the other), N negatives each, C behaviors,
D width. ``users`` are [n, D] and ``items`` [m, D], ``masks`` [C, D] and ``bias`` [m] or None. ``user`` [T] and
``item`` [T, 1 + N], the positive first, are rows of these. ``steps`` [T, 1 + N] are the gradients of scores in the mean
of their behavior, ``of_own`` [T, D] those of u|c; ``weight`` [T] is that of each triple in the loss, or None. ``order``
has the places of a row from ``start`` to before ``stop``.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from mcne.kernels.backend import MOST_NUMBERS
from mcne.kernels.triples import AllTriples
from mcne.kernels.triton.rows import block

AT_ONCE = 16
"""Triples of a user or an item."""

COLUMNS_AT_ONCE, PARTS_AT_ONCE = 16, 2048
"""Sums over all triples, for masks and behaviors, are left to few programs that take so much at a time."""


@triton.jit
def _score(
    users,
    masks,
    items,
    bias,
    user,
    item,
    weight,
    steps,
    parts,
    per_behavior,
    n_n: tl.constexpr,
    n_d: tl.constexpr,
):
    """Write ``steps``, and ``parts`` [T, 2]: what a triple adds to the loss of its behavior, and to its L2."""
    i = tl.program_id(0).to(tl.int64)
    s, d = tl.arange(0, block(n_n)), tl.arange(0, block(n_d))
    is_n, is_d = s < n_n, d < n_d
    row, behavior = tl.load(user + i), i // per_behavior
    own = tl.load(users + row * n_d + d, mask=is_d, other=0.0)
    if masks is not None:
        own *= tl.load(masks + behavior * n_d + d, mask=is_d, other=0.0)  # u|c
    positive = tl.load(item + i * (n_n + 1))
    liked = tl.load(items + positive * n_d + d, mask=is_d, other=0.0)
    negative = tl.load(item + i * (n_n + 1) + 1 + s, mask=is_n, other=0)
    others = tl.load(items + negative[:, None] * n_d + d[None, :], mask=is_n[:, None] & is_d[None, :], other=0.0)
    difference = tl.sum(others * own[None, :], axis=1) - tl.sum(own * liked, axis=0)  # s_n − s_p
    squares = tl.sum(own * own, axis=0) + tl.sum(liked * liked, axis=0)
    squares += tl.sum(tl.sum(others * others, axis=1), axis=0) / n_n
    if bias is not None:
        its, theirs = tl.load(bias + positive), tl.load(bias + negative, mask=is_n, other=0.0)
        difference += theirs - its
        squares += its * its + tl.sum(theirs * theirs, axis=0) / n_n
    decayed = tl.exp(-tl.abs(difference))
    soft = tl.maximum(difference, 0.0) + tl.log(1.0 + decayed)
    push = tl.where(difference > 0, 1.0, decayed) / (1.0 + decayed) / (n_n * per_behavior)
    if weight is not None:
        times = tl.load(weight + i)
        soft *= times
        push *= times
    push = tl.where(is_n, push, 0.0)
    tl.store(steps + i * (n_n + 1) + 1 + s, push, mask=is_n)
    tl.store(steps + i * (n_n + 1), -tl.sum(push, axis=0))
    tl.store(parts + 2 * i, tl.sum(tl.where(is_n, soft, 0.0), axis=0) / (n_n * per_behavior))
    tl.store(parts + 2 * i + 1, squares / per_behavior)


@triton.jit
def _total(parts, ranking, decay, n_behaviors, per_behavior, block_b: tl.constexpr, block_i: tl.constexpr):
    """Write the loss of each behavior to ``ranking`` [C], and the mean of their L2 to ``decay`` []."""
    c, i = tl.arange(0, block_b), tl.arange(0, block_i)
    losses, squares = tl.zeros((block_b,), tl.float32), tl.zeros((block_b,), tl.float32)
    for some in range(0, per_behavior, block_i):
        both = (c < n_behaviors)[:, None] & (some + i < per_behavior)[None, :]
        at = 2 * (c[:, None] * per_behavior + some + i[None, :])
        losses += tl.sum(tl.load(parts + at, mask=both, other=0.0), axis=1)
        squares += tl.sum(tl.load(parts + at + 1, mask=both, other=0.0), axis=1)
    tl.store(ranking + c, losses, mask=c < n_behaviors)
    tl.store(decay, tl.sum(squares, axis=0) / n_behaviors)


@triton.jit
def _of_triples(
    users,
    masks,
    items,
    user,
    item,
    steps,
    of_ranking,  # [C] the gradient of the loss of each behavior
    of_decay,  # [] and of their mean L2
    of_own,  # [T, D] out: of u|c
    n_behaviors,
    per_behavior,
    n_n: tl.constexpr,
    n_d: tl.constexpr,
):
    i = tl.program_id(0).to(tl.int64)
    s, d = tl.arange(0, block(n_n + 1)), tl.arange(0, block(n_d))
    is_s, is_d = s < n_n + 1, d < n_d
    row, behavior = tl.load(user + i), i // per_behavior
    own = tl.load(users + row * n_d + d, mask=is_d, other=0.0)
    if masks is not None:
        own *= tl.load(masks + behavior * n_d + d, mask=is_d, other=0.0)
    scored = tl.load(item + i * (n_n + 1) + s, mask=is_s, other=0)
    step = tl.load(steps + i * (n_n + 1) + s, mask=is_s, other=0.0)
    vectors = tl.load(items + scored[:, None] * n_d + d[None, :], mask=is_s[:, None] & is_d[None, :], other=0.0)
    gradient = tl.load(of_ranking + behavior) * tl.sum(step[:, None] * vectors, axis=0)
    gradient += tl.load(of_decay) * 2.0 / (n_behaviors * per_behavior) * own
    tl.store(of_own + i * n_d + d, gradient, mask=is_d)


@triton.jit
def _of_users(masks, of_own, order, start, stop, of_users, per_behavior, n_d: tl.constexpr, block_i: tl.constexpr):
    """Write ``of_users`` [n, D]; places in ``order`` are triples."""
    row = tl.program_id(0).to(tl.int64)
    i, d = tl.arange(0, block_i), tl.arange(0, block(n_d))
    is_d = d < n_d
    last = tl.load(stop + row)
    total = tl.zeros((block(n_d),), tl.float32)
    some = tl.load(start + row)
    while some < last:
        is_here = some + i < last
        triple = tl.load(order + some + i, mask=is_here, other=0)
        both = is_here[:, None] & is_d[None, :]
        gradient = tl.load(of_own + triple[:, None] * n_d + d[None, :], mask=both, other=0.0)
        if masks is not None:
            gradient *= tl.load(masks + (triple // per_behavior)[:, None] * n_d + d[None, :], mask=both, other=0.0)
        total += tl.sum(gradient, axis=0)
        some += block_i
    tl.store(of_users + row * n_d + d, total, mask=is_d)


@triton.jit
def _of_items(
    users,
    masks,
    items,
    bias,
    user,
    steps,
    of_ranking,
    of_decay,
    order,  # [T · (1 + N)] scores by item
    start,
    stop,
    of_items,  # [m, D] out
    of_bias,  # [m] out, or None
    n_behaviors,
    per_behavior,
    n_n: tl.constexpr,
    n_d: tl.constexpr,
    block_i: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    i, d = tl.arange(0, block_i), tl.arange(0, block(n_d))
    is_d = d < n_d
    last = tl.load(stop + row)
    total, shares = tl.zeros((block(n_d),), tl.float32), tl.zeros((block_i,), tl.float32)
    pushes = tl.zeros((block_i,), tl.float32)
    some = tl.load(start + row)
    while some < last:
        is_here = some + i < last
        score = tl.load(order + some + i, mask=is_here, other=0)
        triple = score // (n_n + 1)
        behavior = triple // per_behavior
        both = is_here[:, None] & is_d[None, :]
        step = tl.load(steps + score, mask=is_here, other=0.0) * tl.load(of_ranking + behavior)
        who = tl.load(user + triple, mask=is_here, other=0)
        own = tl.load(users + who[:, None] * n_d + d[None, :], mask=both, other=0.0)
        if masks is not None:
            own *= tl.load(masks + behavior[:, None] * n_d + d[None, :], mask=both, other=0.0)
        total += tl.sum(step[:, None] * own, axis=0)
        pushes += step
        shares += tl.where(is_here, tl.where(score % (n_n + 1) == 0, 1.0, 1.0 / n_n), 0.0)
        some += block_i
    decay = tl.sum(shares, axis=0) * tl.load(of_decay) * 2.0 / (n_behaviors * per_behavior)
    total += decay * tl.load(items + row * n_d + d, mask=is_d, other=0.0)
    tl.store(of_items + row * n_d + d, total, mask=is_d)
    if bias is not None:
        tl.store(of_bias + row, tl.sum(pushes, axis=0) + decay * tl.load(bias + row))


@triton.jit
def _of_masks(
    users,
    user,
    of_own,
    of_masks,  # [C or more, D] out: zeros of those that are no behavior's
    n_behaviors,
    per_behavior,
    n_d: tl.constexpr,
    block_i: tl.constexpr,
    block_c: tl.constexpr,
):
    behavior = tl.program_id(0).to(tl.int64)
    i, d = tl.arange(0, block_i), tl.program_id(1) * block_c + tl.arange(0, block_c)
    is_d = d < n_d
    total = tl.zeros((block_c,), tl.float32)
    for some in range(0, tl.where(behavior < n_behaviors, per_behavior, 0), block_i):
        is_here = some + i < per_behavior
        triple = behavior * per_behavior + some + i
        both = is_here[:, None] & is_d[None, :]
        who = tl.load(user + triple, mask=is_here, other=0)
        own = tl.load(users + who[:, None] * n_d + d[None, :], mask=both, other=0.0)
        total += tl.sum(own * tl.load(of_own + triple[:, None] * n_d + d[None, :], mask=both, other=0.0), axis=0)
    tl.store(of_masks + behavior * n_d + d, total, mask=is_d)


class Rank(torch.autograd.Function):
    """:func:`mcne.kernels.triples.rank_all`."""

    @staticmethod
    def forward(
        ctx: Any, users: Tensor, masks: Tensor | None, items: Tensor, bias: Tensor | None, triples: AllTriples
    ) -> tuple[Tensor, Tensor]:
        """See the function."""
        users, items = users.contiguous(), items.contiguous()
        masks = None if masks is None else masks.contiguous()
        (n_triples, per_triple), n_d = triples.item.shape, users.shape[1]
        each = triples.per_behavior
        n_n, n_behaviors = per_triple - 1, n_triples // each
        steps, parts = users.new_empty(n_triples, per_triple), users.new_empty(n_triples, 2)
        rows = (triples.user, triples.item, triples.weight)
        _score[(n_triples,)](*(users, masks, items, bias, *rows, steps, parts, each, n_n, n_d))
        ranking, decay = users.new_empty(n_behaviors), users.new_empty(())
        wide = block(n_behaviors)
        _total[(1,)](parts, ranking, decay, n_behaviors, each, wide, max(1, PARTS_AT_ONCE // wide))
        ctx.save_for_backward(users, masks, items, bias, steps)
        ctx.triples = triples
        return ranking, decay

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """See the function."""
        users, masks, items, bias, steps = ctx.saved_tensors
        triples = ctx.triples
        n_n, n_d = steps.shape[1] - 1, users.shape[1]
        user, item, by_user, by_item = triples.user, triples.item, triples.by_user, triples.by_item
        upstream = [each.contiguous() for each in gradients]
        counts = (len(user) // triples.per_behavior, triples.per_behavior)
        of_own, of_users, of_items = users.new_empty(len(user), n_d), torch.empty_like(users), torch.empty_like(items)
        of_bias = None if bias is None else torch.empty_like(bias)
        _of_triples[(len(user),)](*(users, masks, items, user, item, steps, *upstream, of_own, *counts, n_n, n_d))
        tall = max(1, min(AT_ONCE, MOST_NUMBERS // block(n_d)))
        _of_users[(len(users),)](
            *(masks, of_own, by_user.order, by_user.start, by_user.stop, of_users, counts[1], n_d, tall)
        )
        _of_items[(len(items),)](
            *(users, masks, items, bias, user, steps, *upstream, by_item.order, by_item.start, by_item.stop),
            *(of_items, of_bias, *counts, n_n, n_d, tall),
        )
        of_masks = None
        if masks is not None:
            of_masks = torch.empty_like(masks)
            _of_masks[(len(masks), triton.cdiv(n_d, COLUMNS_AT_ONCE))](
                *(users, user, of_own, of_masks, *counts, n_d, PARTS_AT_ONCE // COLUMNS_AT_ONCE, COLUMNS_AT_ONCE)
            )
        return of_users, of_masks, of_items, of_bias, None
