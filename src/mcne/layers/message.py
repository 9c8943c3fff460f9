"""Multi-aspect message passing (Eq. 3–6): neighbors send, weighed per behavior; receivers take the mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from mcne.data.graph import Graph
from mcne.embeddings.trunk import MessageKind
from mcne.kernels import reference
from mcne.kernels.edges import TensorHop, hear_all, mean_of, receivers_of, send_and_receive, shared_sum
from mcne.kernels.projections import masked_halves
from mcne.layers.tensors import INIT_STD, take, to_device
from mcne.randomness import Stream

USERS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Links:
    """All links of a network on the device, by receiver; the shares of what a receiver hears add up to 1."""

    first: Tensor  # [users + 1] where the links of a receiver begin
    sender: Tensor  # [E]
    share: Tensor  # [E]

    @classmethod
    def of(cls, graph: Graph, *, weighted: bool, device: torch.device) -> Links:
        """Those of a graph; ``weighted`` shares are in proportion to link weights."""
        shares = graph.shares(weighted=weighted).astype(np.float32)
        arrays = (graph.indptr.astype(np.int64), graph.indices.astype(np.int64), shares)
        first, sender, share = (to_device(each, device) for each in arrays)
        return cls(first, sender, share)

    def to(self, start: int, stop: int) -> Links:
        """Those to the receivers from ``start`` to ``stop``."""
        first = self.first[start : stop + 1]
        own = slice(int(first[0]), int(first[-1]))
        return Links(first - own.start, self.sender[own], self.share[own])


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
        own = receivers_of(vectors, hop)  # [n, d_in]
        if self.score is None:
            sent = own if self.message == "literal" else mean_of(vectors, sender, heard, hop.by_sender)
            return self._receive(sent * masks.mean(dim=0) * heard[:, None], own)
        of_near, of_here = self._weights(masks)
        near, here = self._project(vectors, of_near), self._project(own, of_here)
        if self.message == "literal":
            weights = reference.attention(take(near, sender), here[:, None], self.score)  # [n, S, B]
            return self._receive(own * (weights.mean(dim=1) @ masks) * heard[:, None], own)
        messages = send_and_receive(
            vectors, near, here, self.score, masks, sender=sender, heard=heard, by_sender=hop.by_sender
        )
        return self._receive(messages, own)

    @torch.no_grad()
    def receive_all(self, vectors: Tensor, masks: Tensor, links: Links) -> Tensor:
        """The layer for all users, each hearing all its neighbors, [m, d_out]; some users at a time."""
        of_near, of_here = (None, None) if self.score is None else self._weights(masks)
        near = None if of_near is None else self._project(vectors, of_near)
        received = []
        for start in range(0, len(vectors), USERS_AT_ONCE):
            own = vectors[start : start + USERS_AT_ONCE]
            here = None if of_here is None else self._project(own, of_here)
            some = links.to(start, start + len(own))
            received.append(self._receive(self._hear_all(vectors, own, near, here, masks, some), own))
        return torch.cat(received) if received else vectors.new_zeros(0, len(self.combine))

    def _hear_all(
        self, vectors: Tensor, own: Tensor, near: Tensor | None, here: Tensor | None, masks: Tensor, links: Links
    ) -> Tensor:
        """What the receivers ``own`` [n, d_in] hear of all their neighbors, [n, d_in]."""
        is_literal, all_links = self.message == "literal", (links.first, links.sender, links.share)
        if self.score is None or near is None or here is None:
            heard = (links.first.diff() > 0)[:, None].to(own.dtype)
            sent = own * heard if is_literal else shared_sum(vectors, *all_links)
            return sent * masks.mean(dim=0)
        if is_literal:
            return own * (reference.mean_attention(near, here, self.score, *all_links) @ masks)
        return hear_all(vectors, near, here, self.score, masks, *all_links)

    def _weights(self, masks: Tensor) -> tuple[Tensor, Tensor]:
        """The halves of ``W_a`` for senders and for receivers, under every mask: twice [B · t, d_in].

        Neighbors send and so have the first half of ``W_a [u_s|c, u_r|c]``; literally it is the other way round.
        """
        assert self.project is not None
        first, second = masked_halves(self.project, masks)
        return (second, first) if self.message == "literal" else (first, second)

    def _project(self, nodes: Tensor, weights: Tensor) -> Tensor:
        """A half of ``W_a [u_s|c, u_r|c]``, each node once per behavior: [nodes, B, t]."""
        assert self.score is not None
        return (nodes @ weights.T).view(len(nodes), len(weights) // len(self.score), len(self.score))

    def _receive(self, messages: Tensor, own: Tensor) -> Tensor:
        """``W [h_N, u]`` of Eq. 6."""
        return torch.cat([messages, own], dim=1) @ self.combine.T


def _normal(shape: tuple[int, ...], stream: Stream) -> nn.Parameter:
    drawn = torch.from_numpy(stream.normal(shape) * INIT_STD)
    return nn.Parameter(drawn.to(torch.get_default_dtype()))
