"""Send and receive along edges in plain PyTorch operations.

Exact and factored: what depends on a node alone is computed once per node by the caller (its projections per
behavior), an edge only adds two projections, applies ReLU and takes a dot product; the conditional vectors
``u ⊙ m_c`` are never formed, since ``Σ_c a_c (u ⊙ m_c) = Σ_c m_c ⊙ (a_c u)``.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

LINKS_AT_ONCE = 1 << 17


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
    """Both along the edges of a step, [n, d]; ``heard`` is false for receivers without neighbors.

    ``vectors`` [m, d], ``near`` [m, B, t], ``here`` [n, B, t], ``score`` [t], ``masks`` [B, d], ``sender`` [n, S].
    """
    rows = sender.flatten()
    near_senders = near.index_select(0, rows).view(*sender.shape, *near.shape[1:])  # [n, S, B, t]
    weights = attention(near_senders, here[:, None], score)  # [n, S, B]
    sent = vectors.index_select(0, rows).view(*sender.shape, vectors.shape[1])  # [n, S, d]
    return aggregate(weights, sent, masks) * heard[:, None].to(vectors.dtype)


def hear_all(
    vectors: Tensor,
    near: Tensor,
    here: Tensor,
    score: Tensor,
    masks: Tensor,
    first: Tensor,
    sender: Tensor,
    share: Tensor,
    before: Tensor | None = None,
) -> Tensor:
    """The same of all neighbors: see :func:`mcne.kernels.edges.hear_all`."""
    messages = vectors.new_zeros(len(here), vectors.shape[1]) if before is None else before
    for receiver, some, part in _pieces(first, sender, share):
        gate = attention(near[some], here[receiver], score) @ masks  # [e, d]
        messages.index_add_(0, receiver, vectors[some] * gate * part[:, None])
    return messages


def _pieces(first: Tensor, sender: Tensor, share: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The receiver, the sender and the share of some links at a time."""
    receiver = torch.repeat_interleave(torch.arange(len(first) - 1, device=first.device), first.diff())  # [E]
    return zip(*(torch.split(each, LINKS_AT_ONCE) for each in (receiver, sender, share)), strict=True)
