"""Triples ranked by inner products, compiled for the CPU: by user for scores, then by item.

Triples come ordered by user, so that what belongs to them is read and written from front to back. Every gradient is
summed up by one thread, in the order of the triples, and written once.

Legend: b triples with N negatives each, ``users`` [n, d], ``items`` [m, d] and their ``bias`` [m, 1], or [0, 1] for
none; ``item`` [b, 1 + N] are rows of items, the positive first, and ``steps`` the gradient of each score. ``weight``
[b] is that of each triple in the loss, or None where all weigh 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.kernels.backend import BLOCKS, in_blocks
from mcne.kernels.compilation import compiled
from mcne.kernels.numba.rows import grouped

Array = NDArray[Any]
Arrays = tuple[Array, ...]

LARGE = 1e300
"""Where a product of numbers up to 2 ends, lest it overflow, and its logarithm is taken."""


@compiled
def by_user(
    tables: Arrays, item: Array, weight: Any, first: Array, steps: Array, of_users: Array, start: int, stop: int
) -> Any:
    """Eq. 7 of the users from ``start`` to ``stop``, whose triples begin at ``first`` [n + 1]: the sum of
    ``−ln σ(s_p − s_n)``, each times its weight. Writes ``steps``, and ``of_users`` [n, d], the gradient of the mean
    over all triples.
    """
    users, items, bias = tables
    zero, one = users.dtype.type(0), users.dtype.type(1)
    width, per_triple = users.shape[1], item.shape[1]
    each = users.dtype.type(1 / (len(item) * (per_triple - 1)))
    own, of_own = np.empty(width, users.dtype), np.empty(width, users.dtype)  # copies, so that loops vectorize
    has_bias = len(bias) > 0
    weighted, loss, product = 0.0, 0.0, 1.0
    for u in range(start, stop):
        own[:] = users[u]
        of_own[:] = zero
        for i in range(first[u], first[u + 1]):
            step = steps[i]
            for s in range(per_triple):  # scores first: none of these reads waits for another
                other = items[item[i, s]]
                score = bias[item[i, s], 0] if has_bias else zero
                for k in range(width):
                    score += own[k] * other[k]
                step[s] = score
            above = step[0]
            share = each
            if weight is not None:
                share *= weight[i]
            pull = zero
            for s in range(1, per_triple):
                difference = step[s] - above
                decayed = np.exp(-abs(difference))
                loss += max(difference, zero)
                product *= 1.0 + decayed  # ln(1 + decayed), of many at once
                if product > LARGE:
                    loss += np.log(product)
                    product = 1.0
                step[s] = share * (one if difference > 0 else decayed) / (one + decayed)  # σ(s_n − s_p) of the mean
                pull += step[s]
            step[0] = -pull
            if weight is not None:  # a product is of one triple then
                weighted += weight[i] * (loss + np.log(product))
                loss, product = 0.0, 1.0
            for s in range(per_triple):
                other, push = items[item[i, s]], step[s]
                for k in range(width):
                    of_own[k] += push * other[k]
        of_users[u] = of_own
    return weighted + loss + np.log(product)


@compiled
def by_item(users: Array, steps: Array, places: Arrays, of_items: Array, of_bias: Array, start: int, stop: int) -> None:
    """Write what the triples add to the gradients of the items from ``start`` to ``stop``.

    ``places`` are where the scores of an item begin, [m + 1], the scores by item, [b · (1 + N)], and their users.
    """
    first, scores, owner = places
    of_own = np.empty(users.shape[1], users.dtype)  # a copy, so that loops vectorize
    for j in range(start, stop):
        of_own[:] = 0
        total = users.dtype.type(0)
        for at in range(first[j], first[j + 1]):
            step, other = steps[scores[at]], users[owner[at]]
            total += step
            for k in range(len(of_own)):
                of_own[k] += step * other[k]
        of_items[j] = of_own
        if len(of_bias):
            of_bias[j, 0] = total


@compiled
def decay(rows: Array, share: Array) -> float:
    """``Σ_j share_j ‖row_j‖²``."""
    total = 0.0
    for j in range(len(rows)):
        square = share.dtype.type(0)
        for k in range(rows.shape[1]):
            square += rows[j, k] * rows[j, k]
        total += share[j] * square
    return total


@compiled
def add_decay(out: Array, gradient: Array, rows: Array, share: Array, ranking: Any, decaying: Any) -> None:
    """Write ``ranking · gradient + decaying · 2 share · rows`` to ``out``."""
    for j in range(len(rows)):
        factor = 2 * decaying * share[j]
        for k in range(rows.shape[1]):
            out[j, k] = ranking * gradient[j, k] + factor * rows[j, k]


class Rank(torch.autograd.Function):
    """:func:`mcne.kernels.triples.rank`, both numbers in one tensor."""

    @staticmethod
    def forward(
        ctx: Any,
        users: Tensor,
        items: Tensor,
        bias: Tensor,
        user: Tensor,
        positive: Tensor,
        negative: Tensor,
        weight: Tensor | None,
    ) -> Tensor:
        """See the function."""
        tables = tuple(each.detach().contiguous().numpy() for each in (users, items, bias))
        of_tables = tuple(np.empty_like(table) for table in tables)
        kind = tables[0].dtype
        first, order = grouped(user.contiguous().numpy(), len(users))  # by user, as the kernels want them
        item = torch.cat([positive[:, None], negative], dim=1).index_select(0, torch.from_numpy(order)).numpy()
        weights = None if weight is None else weight.numpy().astype(kind)[order]
        first_of_item, scores = grouped(item, len(items))
        owner = np.repeat(np.arange(len(users)), item.shape[1] * np.diff(first))[scores]
        steps = np.empty(item.shape, kind)
        losses = np.zeros(BLOCKS)

        def rank_users(start: int, stop: int, block: int) -> None:
            losses[block] = by_user(tables, item, weights, first, steps, of_tables[0], start, stop)

        by_score = (tables[0], steps.reshape(-1), (first_of_item, scores, owner), *of_tables[1:])
        numbers_read = item.size * users.shape[1]
        in_blocks(len(users), rank_users, numbers=numbers_read)
        in_blocks(len(items), lambda start, stop, _: by_item(*by_score, start, stop), numbers=numbers_read)
        liked, drawn = np.bincount(item[:, 0], minlength=len(items)), np.diff(first_of_item)
        user_share = (np.diff(first) / len(item)).astype(kind)
        share = ((liked + (drawn - liked) / negative.shape[1]) / len(item)).astype(kind)
        ctx.tables, ctx.of_tables = tables, of_tables
        ctx.shares = [user_share, share, share[: len(bias)]]
        total = sum(decay(table, each) for table, each in zip(ctx.tables, ctx.shares, strict=True))
        return torch.tensor([losses.sum() / negative.numel(), total], dtype=users.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """See the function."""
        ranking, decaying = gradients[0].numpy()
        totals = [np.empty_like(table) for table in ctx.tables]  # of their own: a gradient may be asked for twice
        for each in zip(totals, ctx.of_tables, ctx.tables, ctx.shares, strict=True):
            add_decay(*each, ranking, decaying)
        return *(torch.from_numpy(each) for each in totals), None, None, None, None
