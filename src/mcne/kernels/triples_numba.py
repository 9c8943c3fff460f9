"""Triples ranked by inner products, compiled for the CPU: by user for scores, then by item.

Every gradient is summed up by one thread, in the order of the triples, and written once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.compilation import compiled
from mcne.kernels.groups_numba import grouped as grouped

Array = NDArray[Any]


@compiled
def by_user(
    users: Array,  # [n, d]
    items: Array,  # [m, d]
    bias: Array,  # [m], or none
    item: Array,  # [b, 1 + N] rows of items, the positive first
    first: Array,  # [n + 1] where the triples of a user begin
    triples: Array,  # [b] triples by user
    steps: Array,  # [b, 1 + N] out: the gradient of each score
    of_users: Array,  # [n, d] out: the gradient of the mean over all triples
    start: int,
    stop: int,
) -> Any:
    """Eq. 7 of the users from ``start`` to ``stop``: the sum of ``−ln σ(s_p − s_n)``."""
    zero, one = users.dtype.type(0), users.dtype.type(1)
    width, n_negatives = users.shape[1], item.shape[1] - 1
    each = users.dtype.type(1 / (len(item) * n_negatives))
    own, of_own = np.empty(width, users.dtype), np.empty(width, users.dtype)  # copies, so that loops vectorize
    has_bias, loss = len(bias) > 0, 0.0
    for u in range(start, stop):
        own[:] = users[u]
        of_own[:] = zero
        for at in range(first[u], first[u + 1]):
            i = triples[at]
            liked, pull = items[item[i, 0]], zero
            above = bias[item[i, 0]] if has_bias else zero
            for k in range(width):
                above += own[k] * liked[k]
            for s in range(1, n_negatives + 1):
                other = items[item[i, s]]
                difference = (bias[item[i, s]] if has_bias else zero) - above
                for k in range(width):
                    difference += own[k] * other[k]
                decayed = np.exp(-abs(difference))
                loss += max(difference, zero) + np.log1p(decayed)
                push = each * (one if difference > 0 else decayed) / (one + decayed)  # σ(s_n − s_p) of the mean
                steps[i, s] = push
                pull += push
                for k in range(width):
                    of_own[k] += push * other[k]
            steps[i, 0] = -pull
            for k in range(width):
                of_own[k] -= pull * liked[k]
        of_users[u] = of_own
    return loss


@compiled
def by_item(
    users: Array,
    user: Array,  # [b] rows of users
    steps: Array,
    first: Array,  # [m + 1] where the scores of an item begin
    scores: Array,  # [b · (1 + N)] scores by item
    of_items: Array,  # [m, d] out
    of_bias: Array,  # [m] out, or none
    share: Array,  # [m] out: how much of the L2 is an item's own square
    start: int,
    stop: int,
) -> None:
    """What the triples add to the gradients of the items from ``start`` to ``stop``."""
    width, per_triple = users.shape[1], steps.shape[1]
    once = users.dtype.type(1 / len(steps))
    each = users.dtype.type(1 / (len(steps) * (per_triple - 1)))
    of_own = np.empty(width, users.dtype)  # a copy, so that loops vectorize
    for j in range(start, stop):
        of_own[:] = 0
        total, counted = once * 0, once * 0
        for at in range(first[j], first[j + 1]):
            i, s = divmod(scores[at], per_triple)
            step, other = steps[i, s], users[user[i]]
            total += step
            counted += each if s else once
            for k in range(width):
                of_own[k] += step * other[k]
        of_items[j] = of_own
        share[j] = counted
        if len(of_bias):
            of_bias[j] = total


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
def combine(found: Array, gradient: Array, rows: Array, share: Array, ranking: Any, decaying: Any) -> None:
    """``ranking · gradient + decaying · 2 share · rows`` comes out in ``found``."""
    for j in range(len(rows)):
        factor = 2 * decaying * share[j]
        for k in range(rows.shape[1]):
            found[j, k] = ranking * gradient[j, k] + factor * rows[j, k]
