"""Send and receive along edges, compiled for the CPU.

What is between the operations of :mod:`mcne.kernels.plain.edges` stays in cache. The gradient takes two passes, by
receiver and by sender, so that no two threads ever add to the same number; what all edges add to (the gradients of
``score`` and ``masks``) is summed per block of rows. Every function computes the rows from ``start`` to ``stop``, and
gathers rows of one table only, so that more of it stays in cache.

Edges are added four at a time, so that what they are added to is read and written a quarter as often; an edge that is
missing to the last four is the last once more, times 0.

Legend: m senders, n receivers, S edges to each, B behaviors, t attention width, d width of the vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.kernels.compilation import compiled

Array = NDArray[Any]


@compiled
def attend(
    near: Array,  # [m, B, t]
    here: Array,  # [n, B, t]
    score: Array,  # [t]
    sender: Array,  # [n, S]
    heard: Array,  # [n]
    weights: Array,  # [n, S, B] out: a of Eq. 4
    start: int,
    stop: int,
) -> None:
    """Eq. 4–5; zeros for a receiver that hears nothing."""
    zero = near.dtype.type(0)  # a plain 0 would make double precision of what it is added to
    for r in range(start, stop):
        weights[r] = 0
        if heard[r]:
            for s in range(sender.shape[1]):
                theirs, weight = near[sender[r, s]], weights[r, s]
                for c in range(len(weight)):
                    their, own, logit = theirs[c], here[r, c], zero
                    for q in range(len(own)):
                        logit += score[q] * max(their[q] + own[q], zero)
                    weight[c] = logit
            for s in range(sender.shape[1]):
                softmax(weights[r, s])


@compiled
def send(
    vectors: Array,  # [m, d]
    masks: Array,  # [B, d]
    sender: Array,
    heard: Array,
    weights: Array,
    scale: Any,  # 1 / S
    joined: Array,  # [n, 2d] out: the first half, what receivers hear
    start: int,
    stop: int,
) -> None:
    """Eq. 3 and the mean of Eq. 6; zeros for a receiver that hears nothing."""
    n_behaviors, depth = masks.shape
    totals = np.empty((n_behaviors, depth), vectors.dtype)  # Σ_s a_sc u_s
    for r in range(start, stop):
        message = joined[r, :depth]
        message[:] = 0
        if not heard[r]:
            continue
        totals[:] = 0
        for s in range(0, sender.shape[1], 4):
            j = four(sender[r], s)
            x, y, z, w = vectors[j[0]], vectors[j[1]], vectors[j[2]], vectors[j[3]]
            for c in range(n_behaviors):
                a, total = four_of(weights[r, :, c], s), totals[c]
                for k in range(depth):
                    total[k] += a[0] * x[k] + a[1] * y[k] + a[2] * z[k] + a[3] * w[k]
        for c in range(n_behaviors):
            total, mask = totals[c], masks[c]
            for k in range(depth):
                message[k] += scale * mask[k] * total[k]


@compiled
def hear_all(
    vectors: Array,
    near: Array,
    here: Array,
    score: Array,
    masks: Array,
    first: Array,  # [n + 1] where the links of a receiver begin
    sender: Array,  # [E]
    share: Array,  # [E]
    messages: Array,  # [n, d] added to
    start: int,
    stop: int,
) -> None:
    """The same of all neighbors, each by its share; nothing is kept.

    The weights of an edge are written out again: as a function that both call, the forward pass takes a seventh longer.
    """
    n_behaviors, width, depth, zero = here.shape[1], here.shape[2], vectors.shape[1], vectors.dtype.type(0)
    weight = np.empty(n_behaviors, vectors.dtype)
    for r in range(start, stop):
        for at in range(first[r], first[r + 1]):
            theirs, sent, message = near[sender[at]], vectors[sender[at]], messages[r]
            for c in range(n_behaviors):
                their, own, logit = theirs[c], here[r, c], zero
                for q in range(width):
                    logit += score[q] * max(their[q] + own[q], zero)
                weight[c] = logit
            softmax(weight)
            for c in range(n_behaviors):
                part, mask = weight[c] * share[at], masks[c]
                for k in range(depth):
                    message[k] += part * mask[k] * sent[k]


@compiled
def softmax(values: Array) -> None:
    """In place, [B]."""
    top, total = values[0], values.dtype.type(0)
    for c in range(1, len(values)):
        top = max(top, values[c])
    for c in range(len(values)):
        values[c] = np.exp(values[c] - top)
        total += values[c]
    for c in range(len(values)):
        values[c] /= total


@compiled
def four(values: Array, s: int) -> Any:
    """Four numbers from ``s`` on, the last one again where there are fewer."""
    last = len(values) - 1
    return values[s], values[min(s + 1, last)], values[min(s + 2, last)], values[min(s + 3, last)]


@compiled
def four_of(values: Array, s: int) -> Any:
    """Four numbers from ``s`` on, 0 where there are fewer."""
    n, zero = len(values), values.dtype.type(0)
    second = values[s + 1] if s + 1 < n else zero
    third = values[s + 2] if s + 2 < n else zero
    return values[s], second, third, values[s + 3] if s + 3 < n else zero


@compiled
def backward_of_logits(
    of_joined: Array,  # [n, 2d] the gradient of what receivers hear, and then that of what they are themselves
    vectors: Array,
    masks: Array,
    sender: Array,
    heard: Array,
    weights: Array,
    scale: Any,
    of_logits: Array,  # [n, S, B] out: the gradient before the softmax
    start: int,
    stop: int,
) -> None:
    """By receiver."""
    (n_behaviors, depth), n_edges, zero = masks.shape, sender.shape[1], vectors.dtype.type(0)
    masked, found = np.empty((n_behaviors, depth), vectors.dtype), np.empty((n_edges + 3, n_behaviors), vectors.dtype)
    for r in range(start, stop):
        of_logits[r] = 0
        if not heard[r]:
            continue
        gradient = of_joined[r, :depth]
        for c in range(n_behaviors):
            row, mask = masked[c], masks[c]
            for k in range(depth):
                row[k] = scale * mask[k] * gradient[k]
        for s in range(0, n_edges, 4):
            j = four(sender[r], s)
            x, y, z, w = vectors[j[0]], vectors[j[1]], vectors[j[2]], vectors[j[3]]
            for c in range(n_behaviors):
                row, first, second, third, fourth = masked[c], zero, zero, zero, zero
                for k in range(depth):
                    first += row[k] * x[k]
                    second += row[k] * y[k]
                    third += row[k] * z[k]
                    fourth += row[k] * w[k]
                found[s, c], found[s + 1, c], found[s + 2, c], found[s + 3, c] = first, second, third, fourth
        for s in range(n_edges):
            of_weight, weight, of_logit, mean = found[s], weights[r, s], of_logits[r, s], zero
            for c in range(n_behaviors):
                mean += of_weight[c] * weight[c]
            for c in range(n_behaviors):
                of_logit[c] = weight[c] * (of_weight[c] - mean)


@compiled
def backward_of_here(
    near: Array,
    here: Array,
    score: Array,
    sender: Array,
    heard: Array,
    of_logits: Array,
    of_here: Array,  # [n, B, t] out
    of_score: Array,  # [t] added to
    start: int,
    stop: int,
) -> None:
    """By receiver."""
    zero = near.dtype.type(0)
    for r in range(start, stop):
        of_here[r] = 0
        if not heard[r]:
            continue
        for s in range(0, sender.shape[1], 4):
            j = four(sender[r], s)
            for c in range(here.shape[1]):
                a, own, of_own = four_of(of_logits[r, :, c], s), here[r, c], of_here[r, c]
                x, y, z, w = near[j[0], c], near[j[1], c], near[j[2], c], near[j[3], c]
                for q in range(len(own)):
                    first, second = max(x[q] + own[q], zero), max(y[q] + own[q], zero)
                    third, fourth = max(z[q] + own[q], zero), max(w[q] + own[q], zero)
                    of_score[q] += a[0] * first + a[1] * second + a[2] * third + a[3] * fourth
                    of_own[q] += (
                        (a[0] if first > 0 else zero)
                        + (a[1] if second > 0 else zero)
                        + (a[2] if third > 0 else zero)
                        + (a[3] if fourth > 0 else zero)
                    )
        times_score(of_here[r], score)


@compiled
def backward_of_vectors(
    of_joined: Array,
    vectors: Array,
    masks: Array,
    weights: Array,
    scale: Any,
    first: Array,  # [m + 1] where the edges of a sender begin
    edges: Array,  # [n · S] edges by sender
    first_own: Array,  # [m + 1] where the places of a sender among the receivers begin
    receivers: Array,  # [n] places among the receivers, by sender
    of_vectors: Array,  # [m, d] out
    of_masks: Array,  # [B, d] added to
    start: int,
    stop: int,
) -> None:
    """By sender, who may also receive."""
    (n_behaviors, depth), n_edges = masks.shape, weights.shape[1]
    by_edge, totals = weights.reshape(-1, n_behaviors), np.empty((n_behaviors, depth), vectors.dtype)
    for j in range(start, stop):
        totals[:] = 0  # Σ_r a_rc g_r
        own_edges = edges[first[j] : first[j + 1]]
        for i in range(0, len(own_edges), 4):
            e, n_left = four(own_edges, i), len(own_edges) - i
            x, y = of_joined[e[0] // n_edges, :depth], of_joined[e[1] // n_edges, :depth]
            z, w = of_joined[e[2] // n_edges, :depth], of_joined[e[3] // n_edges, :depth]
            for c in range(n_behaviors):
                a, total = four_at(by_edge[:, c], e, n_left), totals[c]
                for k in range(depth):
                    total[k] += a[0] * x[k] + a[1] * y[k] + a[2] * z[k] + a[3] * w[k]
        of_vectors[j] = 0
        of_vector, vector = of_vectors[j], vectors[j]
        for i in range(first_own[j], first_own[j + 1]):
            of_own = of_joined[receivers[i], depth:]
            for k in range(depth):
                of_vector[k] += of_own[k]
        for c in range(n_behaviors):
            mask, of_mask, total = masks[c], of_masks[c], totals[c]
            for k in range(depth):
                of_vector[k] += scale * mask[k] * total[k]
            for k in range(depth):
                of_mask[k] += scale * vector[k] * total[k]


@compiled
def backward_of_near(
    near: Array,
    here: Array,
    score: Array,
    of_logits: Array,
    first: Array,
    edges: Array,
    of_near: Array,  # [m, B, t] out
    start: int,
    stop: int,
) -> None:
    """By sender."""
    _, n_edges, n_behaviors = of_logits.shape
    by_edge, zero = of_logits.reshape(-1, n_behaviors), near.dtype.type(0)
    for j in range(start, stop):
        of_near[j] = 0
        own_edges = edges[first[j] : first[j + 1]]
        for i in range(0, len(own_edges), 4):
            e, n_left = four(own_edges, i), len(own_edges) - i
            x, y, z, w = here[e[0] // n_edges], here[e[1] // n_edges], here[e[2] // n_edges], here[e[3] // n_edges]
            for c in range(n_behaviors):
                a, own, of_own = four_at(by_edge[:, c], e, n_left), near[j, c], of_near[j, c]
                h0, h1, h2, h3 = x[c], y[c], z[c], w[c]
                for q in range(len(own)):
                    first_two = (a[0] if own[q] + h0[q] > 0 else zero) + (a[1] if own[q] + h1[q] > 0 else zero)
                    last_two = (a[2] if own[q] + h2[q] > 0 else zero) + (a[3] if own[q] + h3[q] > 0 else zero)
                    of_own[q] += first_two + last_two
        times_score(of_near[j], score)


@compiled
def four_at(values: Array, places: Any, n: int) -> Any:
    """Four numbers at ``places``, 0 after the first ``n``."""
    zero = values.dtype.type(0)
    second, third = values[places[1]] if n > 1 else zero, values[places[2]] if n > 2 else zero
    return values[places[0]], second, third, values[places[3]] if n > 3 else zero


@compiled
def times_score(rows: Array, score: Array) -> None:
    """In place, [B, t]."""
    for c in range(len(rows)):
        for q in range(len(score)):
            rows[c, q] *= score[q]
