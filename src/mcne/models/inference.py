"""Message passing for all users at once, each receiving from all its neighbors (reading 11), without gradients.

Some receivers take from some senders at a time, so that what is held beside the vectors hardly grows with the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mcne.data.graph import Graph
from mcne.embeddings.trunk import Attention, Trunk
from mcne.kernels.backend import backend_for
from mcne.kernels.edges import aggregate_all, shared_sum
from mcne.kernels.products import weighed
from mcne.models.tables import new_table, to_device, to_numpy

if TYPE_CHECKING:
    from mcne.models.mcne import ConditionalNetwork, MessageLayer

USERS_AT_ONCE = 1 << 16
LINKS_AT_ONCE = 1 << 17
NUMBERS_AT_ONCE = 1 << 26
"""Of projections of senders, and of what receivers have got so far."""


@dataclass(frozen=True)
class Links:
    """Links to some receivers on the device, ordered by receiver; the shares of a receiver's links add up to 1."""

    first: Tensor  # [receivers + 1] where the links of a receiver begin
    sender: Tensor  # [E]
    share: Tensor  # [E]

    def sent_by(self, start: int, stop: int) -> Links:
        """Those from the senders from ``start`` to ``stop``, whose rows then count from ``start``."""
        chosen = (self.sender >= start) & (self.sender < stop)
        before = torch.cat([chosen.new_zeros(1, dtype=torch.int64), chosen.cumsum(0)])  # [E + 1]
        return Links(before[self.first], self.sender[chosen] - start, self.share[chosen])


LinksTo = Callable[[int, int], Links]
"""Gives the links to the receivers from one to before another."""


def graph_links(graph: Graph, *, weighted: bool, device: torch.device) -> LinksTo:
    """Those of a graph; ``weighted`` shares are in proportion to link weights.

    They are computed when needed, which takes less memory than keeping all: a graph is much smaller. The last are
    cached, which is all of them in a small network.
    """

    @lru_cache(maxsize=1)
    def links_to(start: int, stop: int) -> Links:
        first = graph.indptr[start : stop + 1].astype(np.int64)
        own = slice(first[0], first[-1])
        first -= first[0]
        some = Graph(first, graph.indices[own], None if graph.weights is None else graph.weights[own])
        arrays = (first, some.indices.astype(np.int64), some.shares(weighted=weighted).astype(np.float32))
        return Links(*(to_device(each, device) for each in arrays))

    return links_to


@torch.no_grad()
def infer(network: ConditionalNetwork, vectors: Tensor, links: LinksTo) -> list[Tensor]:
    """Every level of all users from the initial ``vectors`` [users, d₀]: K+1 × [users, d_k]."""
    levels = [vectors]
    for k, layer in enumerate(network.message_layers()):
        received = receive_from_all(layer, levels[-1], network.masks[k](), links)
        levels.append(received.relu_() if network.is_active(k) else received)
    return levels


@torch.no_grad()
def receive_from_all(layer: MessageLayer, vectors: Tensor, masks: Tensor, links: LinksTo) -> Tensor:
    """The layer for all users, [m, d_out], from ``vectors`` [m, d_in] and ``masks`` [B, d_in].

    Senders come in their order, in which those of a receiver are too: the bytes of all at once.
    """
    received = new_table(len(vectors), len(layer.combine), like=vectors, lasts=False)
    n_senders, n_receivers = _at_once(layer, vectors, masks)
    for start, stop in _ranges(0, len(vectors), n_receivers):
        messages = _messages(layer, vectors, (start, stop), masks, links, n_senders)
        for first, last in _ranges(start, stop, USERS_AT_ONCE):
            some = slice(first, last)
            received[some] = layer.receive(messages[first - start : last - start], vectors[some])
    return received


def _at_once(layer: MessageLayer, vectors: Tensor, masks: Tensor) -> tuple[int, int]:
    """How many senders are projected at a time, and for how many receivers, who are projected anew each time.

    Where all senders are projected at once, receivers need not wait for the next; few at a time take less memory.
    """
    numbers = max(NUMBERS_AT_ONCE, -(-vectors.numel() // 3))  # more pieces of a larger network would take longer
    projected = 0 if layer.score is None else len(masks) * len(layer.score)
    n_senders = max(USERS_AT_ONCE, numbers // max(1, projected)) if projected else len(vectors)
    if n_senders >= len(vectors):
        return len(vectors), USERS_AT_ONCE
    return n_senders, max(USERS_AT_ONCE, numbers // vectors.shape[1])


def _messages(
    layer: MessageLayer, vectors: Tensor, receivers: tuple[int, int], masks: Tensor, links: LinksTo, n_senders: int
) -> Tensor:
    """Eq. 3–5 and the mean of Eq. 6 for the receivers from the first to before the second, [n, d_in].

    Taken literally, a user's message is its own vector under the mean weights: those are summed up as if they were
    sent, by ones under a mask for each behavior.
    """
    start, stop = receivers
    if layer.score is None:
        return torch.cat([_even(layer, vectors, some, masks, links) for some in _ranges(start, stop, USERS_AT_ONCE)])
    of_sender, of_receiver = layer.projections(masks)
    gates = torch.eye(len(masks), dtype=masks.dtype, device=masks.device) if layer.is_literal else masks
    messages = vectors.new_zeros(stop - start, gates.shape[1])
    for low, high in _ranges(0, len(vectors), n_senders):
        senders = vectors[low:high]
        near = layer.project_all(senders, of_sender)  # [high − low, B, t]
        sent = senders.new_ones(len(senders), len(masks)) if layer.is_literal else senders
        for first, last in _ranges(start, stop, USERS_AT_ONCE):
            some = links(first, last)
            some = some if len(senders) == len(vectors) else some.sent_by(low, high)
            here = layer.project_all(vectors[first:last], of_receiver)
            add_messages(layer, sent, near, here, gates, some, messages[first - start : last - start])
    return vectors[start:stop] * weighed(messages, masks.T) if layer.is_literal else messages


def _even(layer: MessageLayer, vectors: Tensor, receivers: tuple[int, int], masks: Tensor, links: LinksTo) -> Tensor:
    """The same where all behaviors weigh the same."""
    own = vectors[slice(*receivers)]
    some = links(*receivers)
    has_neighbors = (some.first.diff() > 0)[:, None].to(own.dtype)
    sent = own * has_neighbors if layer.is_literal else shared_sum(vectors, some.first, some.sender, some.share)
    return sent * masks.mean(dim=0)


def add_messages(
    layer: MessageLayer, sent: Tensor, near: Tensor, here: Tensor, gates: Tensor, links: Links, messages: Tensor
) -> None:
    """Add to ``messages`` [n, d] what goes along links, ``Σ share · sent ⊙ Σ_c a_c gate_c``.

    ``sent`` [m, d], ``near`` [m, B, t] and ``here`` [n, B, t] both halves of the attention, ``gates`` [B, d].
    """
    assert layer.score is not None
    if backend_for(sent.device) != "torch":
        along = (links.first, links.sender, links.share)
        aggregate_all(sent, near, here, layer.score, gates, along, messages)
        return
    of_receiver = torch.arange(len(here), device=here.device).repeat_interleave(links.first.diff())  # [E]
    for some in torch.split(torch.arange(len(of_receiver), device=here.device), LINKS_AT_ONCE):
        sender, receiver = links.sender[some], of_receiver[some]
        gate = layer.weigh(near[sender], here[receiver], layer.score) @ gates  # [e, d]
        messages.index_add_(0, receiver, sent[sender] * gate * links.share[some, None])


def trunk_of(network: ConditionalNetwork, levels: Sequence[Tensor], *, weighted: bool) -> Trunk:
    """What an artifact keeps of a network to explain links and to add users, with its ``levels`` below the last."""
    layers = network.message_layers()
    attention = tuple(
        Attention(to_numpy(layer.project).copy(), to_numpy(layer.score).copy())
        for layer in layers
        if layer.project is not None and layer.score is not None
    )
    return Trunk(
        tuple(to_numpy(level) for level in levels),
        tuple(to_numpy(mask).astype(bool) for mask in network.binary_masks()),
        attention or None,
        tuple(to_numpy(layer.combine).copy() for layer in layers),
        layers[0].message,
        weighted,
        network.last_activation,
    )


def _ranges(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """From ``start`` to ``stop``, ``size`` at a time."""
    return ((low, min(low + size, stop)) for low in range(start, stop, size))
