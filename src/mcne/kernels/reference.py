"""Send and receive along edges in plain PyTorch operations.

Exact and factored: what depends on a node alone is computed once per node by the caller (its projections per
behavior), an edge only adds two projections, applies ReLU and takes a dot product; the conditional vectors
``u ⊙ m_c`` are never formed, since ``Σ_c a_c (u ⊙ m_c) = Σ_c m_c ⊙ (a_c u)``.
"""

from __future__ import annotations

import torch
from torch import Tensor


def attention(sent: Tensor, heard: Tensor, score: Tensor) -> Tensor:
    """Eq. 4–5: how the behaviors are weighed along edges.

    ``sent`` [..., B, t] and ``heard`` [..., B, t] are the two halves of ``W_a [u_s|c, u_r|c]``, which broadcast against
    each other, ``score`` [t] is ``h``. Returns [..., B], summing to 1 over the B = C+1 behaviors.
    """
    return torch.softmax(torch.relu(sent + heard) @ score, dim=-1)


def aggregate(weights: Tensor, messages: Tensor, masks: Tensor) -> Tensor:
    """Eq. 3 and the mean of Eq. 6: the mean over S neighbors of ``Σ_c a_c (u ⊙ m_c)``.

    ``weights`` [n, S, B], ``messages`` [n, S, d] (the unmasked vectors that are sent), ``masks`` [B, d] → [n, d].
    """
    per_behavior = torch.bmm(weights.transpose(1, 2), messages) / messages.shape[1]  # [n, B, d]
    return (per_behavior * masks).sum(dim=1)


def send_and_receive(
    vectors: Tensor, near: Tensor, here: Tensor, score: Tensor, masks: Tensor, *, sender: Tensor, heard: Tensor
) -> Tensor:
    """Both along the edges of a step: see :func:`mcne.kernels.edges.send_and_receive`."""
    rows = sender.flatten()
    near_senders = near.index_select(0, rows).view(*sender.shape, *near.shape[1:])  # [n, S, B, t]
    weights = attention(near_senders, here[:, None], score)  # [n, S, B]
    sent = vectors.index_select(0, rows).view(*sender.shape, vectors.shape[1])  # [n, S, d]
    return aggregate(weights, sent, masks) * heard[:, None].to(vectors.dtype)
