"""The network of a trunk run anew, without torch: all levels of all users, with parts of the messages left out.

Links stand as in the graph: along link ``e`` the user ``graph.sources()[e]`` hears ``graph.indices[e]``. Every user is
projected once and links come a few at a time, so what is held beside the vectors hardly grows with the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.compressed import run_starts
from mcne.data.graph import Graph
from mcne.embeddings.trunk import Trunk
from mcne.errors import UsageError

LINKS_AT_ONCE = 1 << 13

Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Without:
    """What every layer leaves out of its messages.

    Of a message one behavior: the others are weighed as if it had never been there, a softmax of their scores. Or whole
    messages: those that are left share what the receiver hears in the same proportions.
    """

    behavior: NDArray[np.integer[Any]] | None = None  # [K, links] a row of the masks, or −1 for none
    message: NDArray[np.bool_] | None = None  # [K, links]


def levels(trunk: Trunk, graph: Graph, *, without: Without | None = None) -> list[Vectors]:
    """Every level of all users, each hearing all its neighbors: K+1 × [users, d_k] (Eq. 3–6)."""
    if trunk.combine is None:
        raise UsageError("these embeddings keep no weights of their layers, so no message can be left out; train again")
    left_out = Without() if without is None else without
    found = [trunk.levels[0]]
    for layer, combine in enumerate(trunk.combine):
        heard = _heard(trunk, graph, layer, found[-1], left_out)
        received: Vectors = np.concatenate([heard, found[-1]], axis=1) @ combine.T
        if trunk.last_activation or layer < trunk.n_layers - 1:
            np.maximum(received, 0, out=received)
        found.append(received)
    return found


def link_weights(trunk: Trunk, graph: Graph, layer: int) -> Vectors:
    """How the B behaviors are weighed along every link, [links, B]: :meth:`Trunk.weights`, for all at once."""
    weights = np.empty((graph.n_links, len(trunk.masks[layer])), dtype=np.float32)
    for part, some in _weighed(trunk, graph, layer, trunk.levels[layer]):
        weights[part] = some
    return weights


def message_lengths(trunk: Trunk, graph: Graph, layer: int) -> Vectors:
    """The length of what every link adds to what its receiver hears, its share included, [links]."""
    shares, masks = graph.shares(weighted=trunk.weighted), trunk.masks[layer].astype(np.float32)
    vectors, sent = trunk.levels[layer], _sent_by(trunk, graph)
    lengths = np.empty(graph.n_links, dtype=np.float32)
    for part, weights in _weighed(trunk, graph, layer, vectors):
        lengths[part] = np.linalg.norm(vectors[sent[part]] * (weights @ masks), axis=1) * shares[part]
    return lengths


def _heard(trunk: Trunk, graph: Graph, layer: int, vectors: Vectors, without: Without) -> Vectors:
    """What every user hears, [users, d_k]."""
    masks, receiver, sent = trunk.masks[layer].astype(np.float32), graph.sources(), _sent_by(trunk, graph)
    shares = graph.shares(weighted=trunk.weighted)
    if without.message is not None:
        shares = _shared_anew(shares, receiver, ~without.message[layer], graph.n_users)
    behavior = None if without.behavior is None else without.behavior[layer]
    heard = np.zeros_like(vectors, dtype=np.float32)
    for part, weights in _weighed(trunk, graph, layer, vectors, behavior):
        messages = vectors[sent[part]] * (weights @ masks) * shares[part, None].astype(np.float32)
        starts = np.flatnonzero(run_starts(receiver[part]))
        heard[receiver[part][starts]] += np.add.reduceat(messages, starts)
    return heard


def _sent_by(trunk: Trunk, graph: Graph) -> NDArray[np.int32]:
    """Whose vector each message is made of: the neighbor's, or literally the receiver's own (reading 1)."""
    return graph.sources() if trunk.message == "literal" else graph.indices


def _weighed(
    trunk: Trunk, graph: Graph, layer: int, vectors: Vectors, behavior: NDArray[np.integer[Any]] | None = None
) -> Iterator[tuple[slice, Vectors]]:
    """Eq. 4–5 along some links at a time, with the ``vectors`` of the level, without a ``behavior`` [links] of each."""
    n_rows = len(trunk.masks[layer])
    for part, scores in _scored(trunk, graph, layer, vectors):
        if behavior is not None:
            scores = np.where(np.arange(n_rows) == behavior[part, None], -np.inf, scores)
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        yield part, (raised / raised.sum(axis=1, keepdims=True)).astype(np.float32)


def _scored(trunk: Trunk, graph: Graph, layer: int, vectors: Vectors) -> Iterator[tuple[slice, Vectors]]:
    """Eq. 4, the scores [n, B] that the softmax takes; all alike where there is no attention."""
    masks, receiver = trunk.masks[layer], graph.sources()
    parts = (slice(at, min(at + LINKS_AT_ONCE, graph.n_links)) for at in range(0, graph.n_links, LINKS_AT_ONCE))
    if trunk.attention is None:
        for part in parts:
            yield part, np.zeros((part.stop - part.start, len(masks)), dtype=np.float32)
        return
    attention, d = trunk.attention[layer], masks.shape[1]
    first, second = (_projected(vectors, masks, attention.project[:, at : at + d]) for at in (0, d))
    near, here = (second, first) if trunk.message == "literal" else (first, second)  # of the neighbor, of the receiver
    for part in parts:
        hidden = np.maximum(near[graph.indices[part]] + here[receiver[part]], 0)  # [n, B, t]
        yield part, hidden @ attention.score


def _projected(vectors: Vectors, masks: NDArray[np.bool_], half: Vectors) -> Vectors:
    """A half of ``W_a [u_s ⊙ m_c, u_r ⊙ m_c]``, every user once per behavior: [users, B, t]."""
    return np.stack([vectors @ (half * mask).T for mask in masks], axis=1)


def _shared_anew(
    shares: NDArray[np.float64], receiver: NDArray[np.int32], kept: NDArray[np.bool_], n_users: int
) -> NDArray[np.float64]:
    """The shares of the kept messages, which sum to 1 again wherever one is left."""
    left = shares * kept
    total = np.bincount(receiver, left, minlength=n_users)[receiver]
    return np.divide(left, total, out=np.zeros_like(left), where=total > 0)
