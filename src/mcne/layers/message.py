"""Multi-aspect message passing (Eq. 3–6): neighbors send, weighed per behavior; receivers take the mean."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from mcne.kernels import reference
from mcne.randomness import Stream

Message = Literal["neighbor", "literal"]
INIT_STD = 0.01
EDGES_AT_ONCE = 1 << 17


class MessageLayer(nn.Module):
    """One layer: vectors of width ``d_in`` to vectors of width ``d_out``, before the activation.

    Legend: B = C+1 behaviors, t attention width, m users of the level below, n receivers among them, S neighbors each.

    With ``attention`` false all behaviors weigh 1/B (readings 13, 14). The message is what the *neighbor* sends
    (reading 1); ``message="literal"`` takes the paper's indices as printed: a user hears itself, weighed by its
    neighbors.
    """

    def __init__(
        self, d_in: int, d_out: int, *, attention_width: int, attention: bool, message: Message, stream: Stream
    ) -> None:
        super().__init__()
        self.message = message
        self.combine = _normal((d_out, 2 * d_in), stream)  # W^{k+1}, for [h_N, u]
        self.project: nn.Parameter | None = None
        self.score: nn.Parameter | None = None
        if attention:
            self.project = _normal((attention_width, 2 * d_in), stream)  # W_a^k, for [sender, receiver]
            self.score = _normal((attention_width,), stream)  # h^k

    def forward(self, vectors: Tensor, masks: Tensor, *, receiver: Tensor, sender: Tensor, heard: Tensor) -> Tensor:
        """``vectors`` [m, d_in], ``masks`` [B, d_in], ``receiver`` [n], ``sender`` [n, S], ``heard`` [n] → [n, d_out].

        ``heard`` is false for receivers without neighbors, whose senders mean nothing.
        """
        own = vectors.index_select(0, receiver)  # [n, d_in]
        if self.project is None or self.score is None:
            sent = own if self.message == "literal" else _rows(vectors, sender).mean(dim=1)
            messages = sent * masks.mean(dim=0)
        else:
            first, second = self._project(vectors, own, masks)
            if self.message == "literal":
                weights = reference.attention(first[:, None], _rows(second, sender), self.score)  # [n, S, B]
                messages = own * (weights.mean(dim=1) @ masks)
            else:
                weights = reference.attention(_rows(first, sender), second[:, None], self.score)  # [n, S, B]
                messages = reference.aggregate(weights, _rows(vectors, sender), masks)
        return self._receive(messages * heard[:, None].to(messages.dtype), own)

    @torch.no_grad()
    def receive_all(self, vectors: Tensor, masks: Tensor, *, indptr: Tensor, indices: Tensor) -> Tensor:
        """The layer for all users, each hearing all its neighbors ``indices[indptr[u]:indptr[u+1]]``, [m, d_out]."""
        degree = indptr[1:] - indptr[:-1]
        receivers = torch.repeat_interleave(torch.arange(len(degree), device=indptr.device), degree)  # [E]
        halves = None if self.project is None else self._project(vectors, vectors, masks)
        total = torch.zeros_like(vectors)
        for start in range(0, len(indices), EDGES_AT_ONCE):
            there, here = indices[start : start + EDGES_AT_ONCE], receivers[start : start + EDGES_AT_ONCE]
            sender, receiver = (here, there) if self.message == "literal" else (there, here)
            gate = masks.mean(dim=0)
            if halves is not None and self.score is not None:
                gate = reference.attention(halves[0][sender], halves[1][receiver], self.score) @ masks  # [e, d_in]
            total.index_add_(0, here, vectors[sender] * gate)
        return self._receive(total / degree.clamp(min=1)[:, None], vectors)

    def _project(self, vectors: Tensor, own: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
        """Both halves of ``W_a [u_s|c, u_r|c]``, each node once per behavior: [nodes, B, t].

        The half of the sender belongs to all users of the level, that of the receiver to the receivers (literally the
        other way round). ``W (u ⊙ m_c) = (W diag m_c) u`` makes each a single matrix product.
        """
        assert self.project is not None
        halves = self.project.chunk(2, dim=1)  # 2 × [t, d_in]
        nodes = (own, vectors) if self.message == "literal" else (vectors, own)
        first, second = (
            (node @ (masks[:, None, :] * half).flatten(0, 1).T).view(len(node), len(masks), len(half))
            for node, half in zip(nodes, halves, strict=True)
        )
        return first, second

    def _receive(self, messages: Tensor, own: Tensor) -> Tensor:
        """``W [h_N, u]`` of Eq. 6."""
        return torch.cat([messages, own], dim=1) @ self.combine.T


def _rows(vectors: Tensor, rows: Tensor) -> Tensor:
    """``vectors[rows]``, by a function whose gradient adds up fast and in a fixed order."""
    return vectors.index_select(0, rows.flatten()).view(*rows.shape, *vectors.shape[1:])


def _normal(shape: tuple[int, ...], stream: Stream) -> nn.Parameter:
    drawn = torch.from_numpy(stream.normal(shape) * INIT_STD)
    return nn.Parameter(drawn.to(torch.get_default_dtype()))
