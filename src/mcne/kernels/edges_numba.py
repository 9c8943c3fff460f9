"""Send and receive along edges in one pass over each edge, compiled for the CPU.

What is between the operations of :mod:`mcne.kernels.reference` stays in cache. The gradient takes two passes, by
receiver and by sender, so that no two threads ever add to the same number; what all edges add to (the gradients of
``score`` and ``masks``) is summed per block of receivers. Every function computes the rows from ``start`` to ``stop``.

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
    n_behaviors, width, depth = here.shape[1], here.shape[2], vectors.shape[1]
    logits = np.empty(n_behaviors, vectors.dtype)
    for r in range(start, stop):
        sums[r] = 0
        weights[r] = 0
        if heard[r]:
            for s in range(sender.shape[1]):
                j = sender[r, s]
                for c in range(n_behaviors):
                    total = scale * 0
                    for q in range(width):
                        total += score[q] * max(near[j, c, q] + here[r, c, q], scale * 0)
                    logits[c] = total
                top = logits[0]
                for c in range(1, n_behaviors):
                    top = max(top, logits[c])
                total = scale * 0
                for c in range(n_behaviors):
                    logits[c] = np.exp(logits[c] - top)
                    total += logits[c]
                for c in range(n_behaviors):
                    weight = logits[c] / total
                    weights[r, s, c] = weight
                    for k in range(depth):
                        sums[r, c, k] += weight * vectors[j, k]
        for k in range(depth):
            total = scale * 0
            for c in range(n_behaviors):
                total += sums[r, c, k] * masks[c, k]
            messages[r, k] = total * scale


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
    n_behaviors, width, depth = here.shape[1], here.shape[2], vectors.shape[1]
    masked = np.empty((n_behaviors, depth), vectors.dtype)
    of_weights = np.empty(n_behaviors, vectors.dtype)
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
        for s in range(sender.shape[1]):
            j = sender[r, s]
            mean = scale * 0
            for c in range(n_behaviors):
                total = scale * 0
                for k in range(depth):
                    total += masked[c, k] * vectors[j, k]
                of_weights[c] = total
                mean += total * weights[r, s, c]
            for c in range(n_behaviors):
                of_logit = weights[r, s, c] * (of_weights[c] - mean)
                of_logits[r, s, c] = of_logit
                for q in range(width):
                    active = max(near[j, c, q] + here[r, c, q], scale * 0)
                    of_score[q] += of_logit * active
                    of_here[r, c, q] += of_logit * score[q] if active > 0 else scale * 0


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
    sums = np.empty((n_behaviors, depth), gradient.dtype)
    for j in range(start, stop):
        sums[:] = 0
        of_near[j] = 0
        for at in range(first[j], first[j + 1]):
            r, s = divmod(edges[at], n_edges)
            for c in range(n_behaviors):
                weight, of_logit = weights[r, s, c], of_logits[r, s, c]
                for k in range(depth):
                    sums[c, k] += weight * gradient[r, k]
                for q in range(width):
                    of_near[j, c, q] += of_logit if near[j, c, q] + here[r, c, q] > 0 else scale * 0
        for k in range(depth):
            total = scale * 0
            for c in range(n_behaviors):
                total += sums[c, k] * masks[c, k]
            of_vectors[j, k] = total * scale
        for c in range(n_behaviors):
            for q in range(width):
                of_near[j, c, q] *= score[q]
