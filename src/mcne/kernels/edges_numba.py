"""Send and receive along edges in one pass over each edge, compiled for the CPU.

What is between the operations of :mod:`mcne.kernels.reference` stays in cache. The gradient takes two passes, by
receiver and by sender, so that no two threads ever add to the same number; what all edges add to (the gradients of
``score`` and ``masks``) is summed per block of receivers. Every function computes the rows from ``start`` to ``stop``.
Edges are added four at a time, so that what they are added to is read and written a quarter as often; an edge of a
receiver that is missing to the last four is the last once more, times 0.

Legend: m senders, n receivers, S edges to each, B behaviors, t attention width, d width of the vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.compilation import compiled
from mcne.kernels.groups_numba import grouped as grouped

Array = NDArray[Any]


@compiled
def forward(
    vectors: Array,  # [m, d]
    near: Array,  # [m, B, t]
    here: Array,  # [n, B, t]
    score: Array,  # [t]
    masks: Array,  # [B, d]
    sender: Array,  # [n, S]
    heard: Array,  # [n]
    scale: Any,  # 1 / S
    messages: Array,  # [n, d] what comes out
    weights: Array,  # [n, S, B] a of Eq. 4, kept for the gradient
    sums: Array,  # [n, B, d] Σ_s a_sc u_s, kept for the gradient
    start: int,
    stop: int,
) -> None:
    """Eq. 3–5 and the mean of Eq. 6; a receiver that hears nothing gets zeros."""
    n_behaviors, width, depth, n_edges = here.shape[1], here.shape[2], vectors.shape[1], sender.shape[1]
    zero = vectors.dtype.type(0)  # a plain 0 would make double precision of what it is added to
    for r in range(start, stop):
        sums[r] = 0
        weights[r] = 0
        if heard[r]:
            for s in range(n_edges):
                theirs, weight = near[sender[r, s]], weights[r, s]
                for c in range(n_behaviors):
                    their, own, logit = theirs[c], here[r, c], zero
                    for q in range(width):
                        logit += score[q] * max(their[q] + own[q], zero)
                    weight[c] = logit
                softmax(weight)
            for s in range(0, n_edges, 4):
                j = four(sender[r], s)
                x, y, z, w = vectors[j[0]], vectors[j[1]], vectors[j[2]], vectors[j[3]]
                for c in range(n_behaviors):
                    a0, a1, a2, a3 = four_of(weights[r, :, c], s)
                    total = sums[r, c]
                    for k in range(depth):
                        total[k] += a0 * x[k] + a1 * y[k] + a2 * z[k] + a3 * w[k]
        messages[r] = 0
        for c in range(n_behaviors):
            message, total, mask = messages[r], sums[r, c], masks[c]
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
def backward_by_receiver(
    gradient: Array,  # [n, d] of messages
    vectors: Array,
    near: Array,
    here: Array,
    score: Array,
    masks: Array,
    sender: Array,
    heard: Array,
    scale: Any,
    weights: Array,
    sums: Array,
    of_logits: Array,  # [n, S, B] out: the gradient before the softmax
    of_here: Array,  # [n, B, t] out
    of_score: Array,  # [t] added to
    of_masks: Array,  # [B, d] added to
    start: int,
    stop: int,
) -> None:
    """The gradients of ``here``, ``score`` and ``masks``, and those of the logits for :func:`backward_by_sender`."""
    n_behaviors, width, depth, n_edges = here.shape[1], here.shape[2], vectors.shape[1], sender.shape[1]
    masked, zero = np.empty((n_behaviors, depth), vectors.dtype), vectors.dtype.type(0)
    for r in range(start, stop):
        of_here[r] = 0
        of_logits[r] = 0
        if not heard[r]:
            continue
        for c in range(n_behaviors):
            for k in range(depth):
                each = gradient[r, k] * scale
                masked[c, k] = each * masks[c, k]
                of_masks[c, k] += each * sums[r, c, k]
        for s in range(n_edges):
            sent, weight, of_logit, mean = vectors[sender[r, s]], weights[r, s], of_logits[r, s], zero
            for c in range(n_behaviors):
                row, total = masked[c], zero
                for k in range(depth):
                    total += row[k] * sent[k]
                of_logit[c] = total
                mean += total * weight[c]
            for c in range(n_behaviors):
                of_logit[c] = weight[c] * (of_logit[c] - mean)
        for s in range(0, n_edges, 4):
            j = four(sender[r], s)
            for c in range(n_behaviors):
                a, own, of_own = four_of(of_logits[r, :, c], s), here[r, c], of_here[r, c]
                x, y, z, w = near[j[0], c], near[j[1], c], near[j[2], c], near[j[3], c]
                for q in range(width):
                    first, second = max(x[q] + own[q], zero), max(y[q] + own[q], zero)
                    third, fourth = max(z[q] + own[q], zero), max(w[q] + own[q], zero)
                    of_score[q] += a[0] * first + a[1] * second + a[2] * third + a[3] * fourth
                    of_own[q] += (
                        (a[0] if first > 0 else zero)
                        + (a[1] if second > 0 else zero)
                        + (a[2] if third > 0 else zero)
                        + (a[3] if fourth > 0 else zero)
                    )
        for c in range(n_behaviors):
            for q in range(width):
                of_here[r, c, q] *= score[q]


@compiled
def backward_by_sender(
    gradient: Array,
    near: Array,
    here: Array,
    score: Array,
    masks: Array,
    first: Array,  # [m + 1] where the edges of a sender begin
    edges: Array,  # [n · S] edges by sender
    scale: Any,
    weights: Array,
    of_logits: Array,
    of_vectors: Array,  # [m, d] out
    of_near: Array,  # [m, B, t] out
    start: int,
    stop: int,
) -> None:
    """The gradients of ``vectors`` and ``near``."""
    n_behaviors, width, depth, n_edges = here.shape[1], here.shape[2], masks.shape[1], weights.shape[1]
    totals, zero = np.empty((n_behaviors, depth), gradient.dtype), gradient.dtype.type(0)
    for j in range(start, stop):
        totals[:] = 0
        of_near[j] = 0
        own_edges = edges[first[j] : first[j + 1]]
        n_fours = len(own_edges) // 4
        for i in range(n_fours):
            edge = four(own_edges, 4 * i)
            (r0, s0), (r1, s1) = divmod(edge[0], n_edges), divmod(edge[1], n_edges)
            (r2, s2), (r3, s3) = divmod(edge[2], n_edges), divmod(edge[3], n_edges)
            x, y, z, w = gradient[r0], gradient[r1], gradient[r2], gradient[r3]
            for c in range(n_behaviors):
                a0, a1, a2, a3 = weights[r0, s0, c], weights[r1, s1, c], weights[r2, s2, c], weights[r3, s3, c]
                total = totals[c]
                for k in range(depth):
                    total[k] += a0 * x[k] + a1 * y[k] + a2 * z[k] + a3 * w[k]
                a0, a1, a2, a3 = of_logits[r0, s0, c], of_logits[r1, s1, c], of_logits[r2, s2, c], of_logits[r3, s3, c]
                own, of_own = near[j, c], of_near[j, c]
                h0, h1, h2, h3 = here[r0, c], here[r1, c], here[r2, c], here[r3, c]
                for q in range(width):
                    first_two = (a0 if own[q] + h0[q] > 0 else zero) + (a1 if own[q] + h1[q] > 0 else zero)
                    last_two = (a2 if own[q] + h2[q] > 0 else zero) + (a3 if own[q] + h3[q] > 0 else zero)
                    of_own[q] += first_two + last_two
        for i in range(4 * n_fours, len(own_edges)):  # many senders have fewer than four
            r, s = divmod(own_edges[i], n_edges)
            came = gradient[r]
            for c in range(n_behaviors):
                weight, of_logit, total = weights[r, s, c], of_logits[r, s, c], totals[c]
                for k in range(depth):
                    total[k] += weight * came[k]
                own, of_own, other = near[j, c], of_near[j, c], here[r, c]
                for q in range(width):
                    of_own[q] += of_logit if own[q] + other[q] > 0 else zero
        of_vectors[j] = 0
        for c in range(n_behaviors):
            of_vector, mask, total, of_own = of_vectors[j], masks[c], totals[c], of_near[j, c]
            for k in range(depth):
                of_vector[k] += scale * mask[k] * total[k]
            for q in range(width):
                of_own[q] *= score[q]
