"""Networks and trunks small enough for loops."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import Graph, undirected
from mcne.data.ids import Ids
from mcne.embeddings import Attention, BehaviorSpace, ConditionalEmbeddings, Trunk
from mcne.embeddings.trunk import MessageKind, levels

NAMES = ("Books", "Movies", "Travel", "Food", "Music", "Games", "Beauty", "Sports", "Cars", "Garden", "Fashion", "Art")


def random_graph(seed: int, n_users: int = 12, n_links: int = 26) -> Graph:
    """Weighted; the last two users have no links, and the first is linked to itself."""
    random = np.random.default_rng(seed)
    ends = random.integers(0, n_users - 2, (2, n_links)).astype(np.int32)
    ends[:, 0] = 0
    weights = random.uniform(0.5, 2, n_links).astype(np.float32)
    return undirected(n_users, ends[0], ends[1], weights)[0]


def random_embeddings(
    seed: int,
    *,
    graph: Graph | None = None,
    behaviors: int = 3,
    attention: bool = True,
    message: MessageKind = "neighbor",
    weighted: bool = False,
    last_activation: bool = True,
    widths: tuple[int, ...] = (7, 5, 6),
) -> ConditionalEmbeddings:
    """A trunk of random numbers, and the vectors that it makes."""
    random = np.random.default_rng(seed)
    graph = random_graph(seed) if graph is None else graph
    n = graph.n_users

    def draw(*shape: int) -> NDArray[np.float32]:
        return random.normal(size=shape).astype(np.float32)

    trunk = Trunk(
        tuple(draw(n, width) for width in widths[:-1]),
        tuple(random.random((behaviors + 1, width)) < 0.6 for width in widths),
        tuple(Attention(draw(4, 2 * width), draw(4)) for width in widths[:-1]) if attention else None,
        tuple(draw(high, 2 * low) / np.float32(3) for low, high in pairwise(widths)),
        message,
        weighted,
        last_activation,
    )
    return embeddings_of(trunk, graph, random)


def embeddings_of(trunk: Trunk, graph: Graph, random: np.random.Generator) -> ConditionalEmbeddings:
    """What a trunk makes of its first level, with random items."""
    computed = levels(trunk, graph)
    fields: dict[str, Any] = vars(trunk) | {"levels": tuple(computed[:-1])}
    trunk = Trunk(**fields)
    n, width = computed[-1].shape
    spaces = tuple(
        BehaviorSpace(
            name, mask, Ids(np.arange(30)), random.normal(size=(30, width)).astype(np.float32),
            np.zeros(n + 1, np.int32), np.zeros(0, np.int32),
        )
        for name, mask in zip(NAMES, trunk.masks[-1][:-1], strict=False)
    )  # fmt: skip
    users = Ids([f"u{number:04d}" for number in range(n)])
    return ConditionalEmbeddings(users, computed[-1], spaces, graph, trunk, {"method": "mcne"})
