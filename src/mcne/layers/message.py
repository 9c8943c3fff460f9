"""Multi-aspect message passing (Eq. 3–6): neighbors send, weighed per behavior; receivers take the mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mcne.embeddings.trunk import MessageKind
from mcne.kernels import reference
from mcne.kernels.edges import TensorHop, mean_of, send_and_receive
from mcne.layers.tensors import INIT_STD, take
from mcne.randomness import Stream

LINKS_AT_ONCE, USERS_AT_ONCE = 1 << 17, 1 << 16


@dataclass(frozen=True)
class Links:
    """All links of a network on the device, by receiver; the shares of what a receiver hears add up to 1."""

    receiver: Tensor  # [E] increasing
    sender: Tensor  # [E]
    share: Tensor  # [E]

    def pieces(self, size: int) -> Iterator[Links]:
        """At most ``size`` links at a time."""
        parts = (torch.split(each, size) for each in (self.receiver, self.sender, self.share))
        return (Links(*piece) for piece in zip(*parts, strict=True) if len(piece[0]))


class MessageLayer(nn.Module):
    """One layer: vectors of width ``d_in`` to vectors of width ``d_out``, before the activation.

    Legend: B = C+1 behaviors, t attention width, m users of the level below, n receivers among them, S neighbors each.

    With ``attention`` false all behaviors weigh 1/B (readings 13, 14). The message is what the *neighbor* sends
    (reading 1); ``message="literal"`` takes the paper's indices as printed: a user hears itself, weighed by its
    neighbors.
    """

    def __init__(
        self, d_in: int, d_out: int, *, attention_width: int, attention: bool, message: MessageKind, stream: Stream
    ) -> None:
        super().__init__()
        self.message = message
        self.combine = _normal((d_out, 2 * d_in), stream)  # W^{k+1}, for [h_N, u]
        self.project: nn.Parameter | None = None
        self.score: nn.Parameter | None = None
        if attention:
            self.project = _normal((attention_width, 2 * d_in), stream)  # W_a^k, for [sender, receiver]
            self.score = _normal((attention_width,), stream)  # h^k

    def forward(self, vectors: Tensor, masks: Tensor, hop: TensorHop) -> Tensor:
        """``vectors`` [m, d_in], ``masks`` [B, d_in], a hop to n receivers that hear S neighbors each → [n, d_out].

        ``heard`` is false for receivers without neighbors, whose senders mean nothing.
        """
        sender, heard = hop.sender, hop.heard
        own = vectors.index_select(0, hop.receiver)  # [n, d_in]
        if self.score is None:
            sent = own if self.message == "literal" else mean_of(vectors, sender, heard, hop.by_sender)
            return self._receive(sent * masks.mean(dim=0) * heard[:, None], own)
        near, here = self._project(vectors, masks, near=True), self._project(own, masks, near=False)
        if self.message == "literal":
            weights = reference.attention(take(near, sender), here[:, None], self.score)  # [n, S, B]
            return self._receive(own * (weights.mean(dim=1) @ masks) * heard[:, None], own)
        messages = send_and_receive(
            vectors, near, here, self.score, masks, sender=sender, heard=heard, by_sender=hop.by_sender
        )
        return self._receive(messages, own)

    @torch.no_grad()
    def receive_all(self, vectors: Tensor, masks: Tensor, links: Links) -> Tensor:
        """The layer for all users, each hearing all its neighbors, [m, d_out]; a piece at a time, for many users."""
        near = None if self.score is None else self._project(vectors, masks, near=True)
        messages = torch.zeros_like(vectors)
        for piece in links.pieces(LINKS_AT_ONCE):
            first, end = int(piece.receiver[0]), int(piece.receiver[-1]) + 1
            gate = masks.mean(dim=0)
            if near is not None and self.score is not None:
                here = self._project(vectors[first:end], masks, near=False)[piece.receiver - first]
                gate = reference.attention(near[piece.sender], here, self.score) @ masks  # [e, d_in]
            sent = vectors[piece.receiver if self.message == "literal" else piece.sender]
            messages.index_add_(0, piece.receiver, sent * gate * piece.share[:, None])
        pieces = zip(torch.split(messages, USERS_AT_ONCE), torch.split(vectors, USERS_AT_ONCE), strict=True)
        return torch.cat([self._receive(*piece) for piece in pieces])

    def _project(self, nodes: Tensor, masks: Tensor, *, near: bool) -> Tensor:
        """A half of ``W_a [u_s|c, u_r|c]``, each node once per behavior: [nodes, B, t].

        Neighbors (``near``) send and so have the first half; literally it is the other way round.
        ``W (u ⊙ m_c) = (W diag m_c) u`` makes it a single matrix product.
        """
        assert self.project is not None
        half = self.project.chunk(2, dim=1)[near == (self.message == "literal")]  # [t, d_in]
        return (nodes @ (masks[:, None, :] * half).flatten(0, 1).T).view(len(nodes), len(masks), len(half))

    def _receive(self, messages: Tensor, own: Tensor) -> Tensor:
        """``W [h_N, u]`` of Eq. 6."""
        return torch.cat([messages, own], dim=1) @ self.combine.T


def _normal(shape: tuple[int, ...], stream: Stream) -> nn.Parameter:
    drawn = torch.from_numpy(stream.normal(shape) * INIT_STD)
    return nn.Parameter(drawn.to(torch.get_default_dtype()))
