"""Triples ranked by inner products in one pass over each, compiled for the CPU: loss and gradient together."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

compile_ = numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz", "arcp", "afn"})


@compile_
def rank(
    users: Array,  # [n, d]
    items: Array,  # [m, d]
    bias: Array,  # [m], or none
    user: Array,  # [b] rows of users
    positive: Array,  # [b] rows of items
    negative: Array,  # [b, N] rows of items
    of_users: Array,  # [n, d] added to: the gradient of the mean over all b triples
    of_items: Array,  # [m, d] added to
    of_bias: Array,  # [m] added to, or none
    user_share: Array,  # [n] added to: how much of the decay is a row's own square
    item_share: Array,  # [m] added to
    start: int,
    stop: int,
) -> Any:
    """Eq. 7 of the triples from ``start`` to ``stop``: the sum of ``−ln σ(s_p − s_n)``, and what they add."""
    width, n_negatives = users.shape[1], negative.shape[1]
    zero, one = users.dtype.type(0), users.dtype.type(1)
    each, once = users.dtype.type(1 / max(1, negative.size)), users.dtype.type(1 / max(1, len(user)))
    own, of_own = np.empty(width, users.dtype), np.empty(width, users.dtype)  # copies, so that loops vectorize
    has_bias, loss = len(bias) > 0, 0.0
    for i in range(start, stop):
        u, p = user[i], positive[i]
        own[:] = users[u]
        of_own[:] = zero
        liked, pull = items[p], zero
        above = bias[p] if has_bias else zero
        for k in range(width):
            above += own[k] * liked[k]
        user_share[u] += once
        item_share[p] += once
        for s in range(n_negatives):
            n = negative[i, s]
            other, of_other = items[n], of_items[n]
            difference = (bias[n] if has_bias else zero) - above
            for k in range(width):
                difference += own[k] * other[k]
            decayed = np.exp(-abs(difference))
            loss += max(difference, zero) + np.log1p(decayed)
            push = each * (one if difference > 0 else decayed) / (one + decayed)  # σ(s_n − s_p) of the mean
            pull += push
            item_share[n] += each
            for k in range(width):
                of_own[k] += push * other[k]
            for k in range(width):
                of_other[k] += push * own[k]
            if has_bias:
                of_bias[n] += push
        of_user, of_liked = of_users[u], of_items[p]
        for k in range(width):
            of_user[k] += of_own[k] - pull * liked[k]
        for k in range(width):
            of_liked[k] -= pull * own[k]
        if has_bias:
            of_bias[p] -= pull
    return loss


@compile_
def decay(rows: Array, share: Array) -> float:
    """``Σ_j share_j ‖row_j‖²``."""
    total = 0.0
    for j in range(len(rows)):
        square = share.dtype.type(0)
        for k in range(rows.shape[1]):
            square += rows[j, k] * rows[j, k]
        total += share[j] * square
    return total


@compile_
def combine(gradient: Array, rows: Array, share: Array, ranking: Any, decaying: Any) -> None:
    """``gradient = ranking · gradient + decaying · 2 share · rows``, in place."""
    for j in range(len(rows)):
        factor = 2 * decaying * share[j]
        for k in range(rows.shape[1]):
            gradient[j, k] = ranking * gradient[j, k] + factor * rows[j, k]
