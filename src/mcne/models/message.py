"""Multi-aspect message passing (Eq. 3–6): neighbors send, weighed per behavior; receivers take the mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from mcne.data.graph import Graph
from mcne.embeddings.trunk import MessageKind
from mcne.kernels.edges import TensorHop, hear, hear_all, mean_of, receivers_of, shared_sum
from mcne.kernels.plain import edges
from mcne.kernels.products import gated, weighed
from mcne.kernels.projections import masked_halves
from mcne.models.tables import INIT_STD, new_table, take, to_device
from mcne.randomness import Stream

USERS_AT_ONCE = 1 << 16
NUMBERS_AT_ONCE = 1 << 26
"""Of projections of senders, and of what receivers have heard so far."""


@dataclass(frozen=True)
class Links:
    """Links of a network on the device, by receiver; the shares of what a receiver hears add up to 1."""

    first: Tensor  # [receivers + 1] where the links of a receiver begin
    sender: Tensor  # [E]
    share: Tensor  # [E]

    def to(self, start: int, stop: int) -> Links:
        """Those to the receivers from ``start`` to ``stop``."""
        first = self.first[start : stop + 1]
        own = slice(int(first[0]), int(first[-1]))
        return Links(first - own.start, self.sender[own], self.share[own])

    def sent_by(self, start: int, stop: int) -> Links:
        """Those from the senders from ``start`` to ``stop``, whose rows then count from ``start``."""
        chosen = (self.sender >= start) & (self.sender < stop)
        before = torch.cat([chosen.new_zeros(1, dtype=torch.int64), chosen.cumsum(0)])  # [E + 1]
        return Links(before[self.first], self.sender[chosen] - start, self.share[chosen])


class GraphLinks:
    """Those of a graph; ``weighted`` shares are in proportion to link weights.

    They are made when they are asked for, which takes less memory than to keep all: a graph is much smaller.
    """

    def __init__(self, graph: Graph, *, weighted: bool, device: torch.device) -> None:
        self._graph, self._weighted, self._device = graph, weighted, device
        self._last: tuple[tuple[int, int], Links] | None = None

    def to(self, start: int, stop: int) -> Links:
        """Those to the receivers from ``start`` to ``stop``; the last are kept, which are all of a small network."""
        if self._last is None or self._last[0] != (start, stop):
            self._last = (start, stop), self._made(start, stop)
        return self._last[1]

    def _made(self, start: int, stop: int) -> Links:
        graph, first = self._graph, self._graph.indptr[start : stop + 1].astype(np.int64)
        own = slice(first[0], first[-1])
        first -= first[0]
        some = Graph(first, graph.indices[own], None if graph.weights is None else graph.weights[own])
        arrays = (first, some.indices.astype(np.int64), some.shares(weighted=self._weighted).astype(np.float32))
        return Links(*(to_device(each, self._device) for each in arrays))


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
        if self.message == "neighbor" and self.project is not None:
            assert self.score is not None
            received = hear(vectors, masks, self.project, self.score, self.combine, hop)
            if received is not None:
                return received
        own = receivers_of(vectors, hop)  # [n, d_in]
        if self.score is None:
            sent = own if self.message == "literal" else mean_of(vectors, sender, heard, hop.by_sender)
            return self._receive(gated(sent, masks.mean(dim=0)) * heard[:, None], own)
        of_near, of_here = self._weights(masks)
        near, here = self._project(vectors, of_near), self._project(own, of_here)
        if self.message == "literal":
            weights = edges.attention(take(near, sender), here[:, None], self.score)  # [n, S, B]
            return self._receive(own * weighed(weights.mean(dim=1), masks.T) * heard[:, None], own)
        messages = edges.send_and_receive(vectors, near, here, self.score, masks, sender=sender, heard=heard)
        return self._receive(messages, own)

    @torch.no_grad()
    def receive_all(self, vectors: Tensor, masks: Tensor, links: Links | GraphLinks) -> Tensor:
        """The layer for all users, each hearing all its neighbors, [m, d_out].

        Some receivers hear some senders at a time, so that what is held beside the vectors hardly grows with the
        network. Senders come in their order, in which those of a receiver are too: the bytes of all at once.
        """
        size = len(vectors), len(self.combine)
        received = new_table(*size, dtype=vectors.dtype, device=vectors.device, lasts=False)
        n_senders, n_receivers = self._at_once(vectors, masks)
        for start, stop in _ranges(0, len(vectors), n_receivers):
            messages = self._hear_all(vectors, start, stop, masks, links, n_senders)
            for first, last in _ranges(start, stop, USERS_AT_ONCE):
                some = slice(first, last)
                received[some] = self._receive(messages[first - start : last - start], vectors[some])
        return received

    def _at_once(self, vectors: Tensor, masks: Tensor) -> tuple[int, int]:
        """How many senders are projected at a time, and for how many receivers, who project theirs for each time.

        Where all senders are projected at once, receivers need not wait for the next; few at a time take less.
        """
        numbers = max(NUMBERS_AT_ONCE, -(-vectors.numel() // 3))  # more pieces of a larger network would take longer
        projected = 0 if self.score is None else len(masks) * len(self.score)
        n_senders = max(USERS_AT_ONCE, numbers // max(1, projected)) if projected else len(vectors)
        if n_senders >= len(vectors):
            return len(vectors), USERS_AT_ONCE
        return n_senders, max(USERS_AT_ONCE, numbers // vectors.shape[1])

    def _hear_all(
        self, vectors: Tensor, start: int, stop: int, masks: Tensor, links: Links | GraphLinks, n_senders: int
    ) -> Tensor:
        """What the receivers from ``start`` to ``stop`` hear of all their neighbors, [stop − start, d_in]."""
        if self.score is None:
            return torch.cat(
                [self._hear_evenly(vectors, *some, masks, links) for some in _ranges(start, stop, USERS_AT_ONCE)]
            )
        of_near, of_here = self._weights(masks)
        is_literal = self.message == "literal"  # where it is weights that are heard: those of ones, a column for each
        taken = torch.eye(len(masks), dtype=masks.dtype, device=masks.device) if is_literal else masks
        heard = vectors.new_zeros(stop - start, taken.shape[1])
        for low, high in _ranges(0, len(vectors), n_senders):
            sent = vectors[low:high]
            near, said = self._project(sent, of_near), sent.new_ones(len(sent), len(masks)) if is_literal else sent
            for first, last in _ranges(start, stop, USERS_AT_ONCE):
                some = links.to(first, last)
                some = some if len(sent) == len(vectors) else some.sent_by(low, high)
                here, before = self._project(vectors[first:last], of_here), heard[first - start : last - start]
                hear_all(said, near, here, self.score, taken, some.first, some.sender, some.share, before)
        return vectors[start:stop] * weighed(heard, masks.T) if is_literal else heard

    def _hear_evenly(self, vectors: Tensor, start: int, stop: int, masks: Tensor, links: Links | GraphLinks) -> Tensor:
        """The same where all behaviors weigh the same."""
        own, some = vectors[start:stop], links.to(start, stop)
        heard = (some.first.diff() > 0)[:, None].to(own.dtype)
        sent = own * heard if self.message == "literal" else shared_sum(vectors, some.first, some.sender, some.share)
        return sent * masks.mean(dim=0)

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
        return weighed(nodes, weights).view(len(nodes), len(weights) // len(self.score), len(self.score))

    def _receive(self, messages: Tensor, own: Tensor) -> Tensor:
        """``W [h_N, u]`` of Eq. 6."""
        return weighed(torch.cat([messages, own], dim=1), self.combine)


def _normal(shape: tuple[int, ...], stream: Stream) -> nn.Parameter:
    drawn = torch.from_numpy(stream.normal(shape) * INIT_STD)
    return nn.Parameter(drawn.to(torch.get_default_dtype()))


def _ranges(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """From ``start`` to ``stop``, ``size`` at a time."""
    return ((low, min(low + size, stop)) for low in range(start, stop, size))
