"""How behaviors are weighed along links: of one link, of one user, and over a whole network and its communities.

A weight is a behavior's part in a message (Eq. 5); where all behaviors count alike each has 1/(C+1). Everything here is
plain data; fields named ``weights`` have a number for each of ``behaviors``, of which the last is "other".
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import Graph
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.explanation import Message, attended
from mcne.embeddings.trunk import Trunk, link_weights
from mcne.errors import ArtifactError, DataError, UsageError

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
N_UNUSUAL = 8  # links of a user that are shown beside the mean
N_COMMUNITIES = 8
SMALLEST_SHARE = 0.01  # of the users, in a community that is reported

Weights = tuple[float, ...]


@dataclass(frozen=True)
class Attention:
    """How behaviors are weighed along links."""

    of: ClassVar[str]
    behaviors: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        quantiles = {"at": QUANTILES} if self.of == "network" else {}
        return {"of": self.of, "even": 1 / len(self.behaviors)} | quantiles | dataclasses.asdict(self)


@dataclass(frozen=True)
class LinkAttention(Attention):
    """Both messages along a link."""

    of = "link"
    messages: tuple[Message, ...]


@dataclass(frozen=True)
class HeardLink:
    """A link of a user whose weights differ from the mean of what the user hears."""

    sender_id: int | str
    distance: float  # half the sum of the differences, 0 to 1, the mean over layers
    weights: tuple[Weights, ...]  # by layer


@dataclass(frozen=True)
class UserAttention(Attention):
    """What a user hears from all its neighbors and what these hear from it, and the links that differ most."""

    of = "user"
    user_id: int | str
    links: int
    hears: tuple[Weights, ...]  # by layer: the mean over links, by their shares in what the user hears
    sends: tuple[Weights, ...]  # by layer: the plain mean over those who hear it
    unusual: tuple[HeardLink, ...]  # the farthest from the mean first


@dataclass(frozen=True)
class Spread:
    """The weights of one behavior over all messages of a layer."""

    behavior: str
    mean: float
    deviation: float
    quantiles: Weights  # at QUANTILES
    first: float  # the share of the messages in which no behavior weighs more; of equals each


@dataclass(frozen=True)
class LayerAttention:
    """The messages of one layer. Entropy is 1 where all behaviors weigh the same, and 0 where one is all."""

    entropy: float  # the mean
    entropy_quantiles: Weights
    spread: tuple[Spread, ...]


@dataclass(frozen=True)
class Community:
    """A community and how the links within it are weighed."""

    number: int  # from the largest
    users: int
    links: int  # messages between its users
    weights: tuple[Weights, ...]  # by layer, the mean
    effect: tuple[Weights, ...]  # by layer, less the mean between communities, in standard deviations over links


@dataclass(frozen=True)
class NetworkAttention(Attention):
    """All messages of a network, and the communities that they hold together."""

    of = "network"
    links: int  # messages in each layer
    layers: tuple[LayerAttention, ...]
    modularity: float
    seed: int  # of the communities
    communities: tuple[Community, ...]
    between_links: int
    between: tuple[Weights, ...]  # by layer, the mean over messages between communities; empty where there are none


def of_link(embeddings: ConditionalEmbeddings, user_id: int | str, other_id: int | str) -> LinkAttention:
    """How behaviors are weighed between two linked users."""
    trunk = trunk_of(embeddings)
    explanation = embeddings.explain(user_id, other_id)
    if not explanation.linked:
        near = embeddings.graph.neighbors(embeddings.users.row(explanation.user_id))
        some = ", ".join(map(str, embeddings.users.take(near[:3]))) + (", …" if len(near) > 3 else "")
        raise UsageError(
            f"users {explanation.user_id!r} and {explanation.other_id!r} are not linked, so no message passes between "
            f"them; user {explanation.user_id!r} is linked to {some or 'nobody'}"
        )
    return LinkAttention(attended(embeddings.behavior_names, trunk), explanation.messages)


def of_user(embeddings: ConditionalEmbeddings, user_id: int | str) -> UserAttention:
    """How behaviors are weighed along all links of a user."""
    trunk, graph, users = trunk_of(embeddings), embeddings.graph, embeddings.users
    user = users.row(user_id, what="user")
    near = graph.neighbors(user).astype(np.int64)
    if not len(near):
        raise UsageError(f"user {users[user]!r} has no links, so it hears nobody; choose another user")
    same = np.full(len(near), user)
    heard = [trunk.weights(layer, near, same) for layer in range(trunk.n_layers)]
    sent = [trunk.weights(layer, same, near) for layer in range(trunk.n_layers)]
    shares = graph.shares(weighted=trunk.weighted)[graph.indptr[user] : graph.indptr[user + 1]]
    means = [shares @ weights for weights in heard]
    distance = np.mean([np.abs(w - mean).sum(axis=1) / 2 for w, mean in zip(heard, means, strict=True)], axis=0)
    unusual = tuple(
        HeardLink(users[int(near[at])], float(distance[at]), tuple(_plain(weights[at]) for weights in heard))
        for at in np.argsort(-distance, kind="stable")[:N_UNUSUAL]
    )
    return UserAttention(
        attended(embeddings.behavior_names, trunk),
        users[user],
        len(near),
        tuple(map(_plain, means)),
        tuple(_plain(weights.mean(axis=0)) for weights in sent),
        unusual,
    )


def of_network(embeddings: ConditionalEmbeddings, *, seed: int) -> NetworkAttention:
    """How behaviors are weighed along all links, and within the communities found with this seed."""
    trunk, graph = trunk_of(embeddings), embeddings.graph
    if not graph.n_links:
        raise DataError("the network has no links, so there are no messages to look at")
    names, label = attended(embeddings.behavior_names, trunk), communities(graph, seed=seed)
    sizes = np.bincount(label)
    large = np.flatnonzero(sizes >= max(3, SMALLEST_SHARE * graph.n_users))  # users join along links: all have some
    chosen = large[:N_COMMUNITIES]
    one, other = label[graph.sources()], label[graph.indices]  # [links]
    is_inside = (one == other) & (one == chosen[:, None])  # [communities, links]
    is_between = one != other
    layers, between, within, effects = [], [], [], []
    for layer in range(trunk.n_layers):
        weights = link_weights(trunk, graph, layer)  # [links, B]
        layers.append(_layer(names, weights))
        means = [weights[each].mean(axis=0, dtype=np.float64) for each in is_inside]
        within.append([_plain(mean) for mean in means])
        if is_between.any():
            outside = weights[is_between].mean(axis=0, dtype=np.float64)
            deviation = weights.std(axis=0, dtype=np.float64)
            between.append(_plain(outside))
            effects.append([_plain(in_deviations(mean - outside, deviation)) for mean in means])
    described = tuple(
        Community(
            int(number),
            int(sizes[number]),
            int(np.count_nonzero(is_inside[at])),
            tuple(each[at] for each in within),
            tuple(each[at] for each in effects),
        )
        for at, number in enumerate(chosen)
    )
    n_between = int(np.count_nonzero(is_between))
    q = modularity(graph, label)
    return NetworkAttention(names, graph.n_links, tuple(layers), q, seed, described, n_between, tuple(between))


def communities(graph: Graph, *, seed: int) -> NDArray[np.int64]:
    """The community of every user by modularity (Louvain), [users], numbered from the largest.

    Links count alike; users without links are on their own. Of communities of equal size the one whose first user comes
    first has the lower number.
    """
    import networkx

    network = networkx.Graph()
    network.add_nodes_from(range(graph.n_users))
    network.add_edges_from(zip(graph.sources().tolist(), graph.indices.tolist(), strict=True))
    members = networkx.community.louvain_communities(network, weight=None, seed=seed) if graph.n_users else []
    label = np.zeros(graph.n_users, dtype=np.int64)
    for number, users in enumerate(sorted(members, key=lambda users: (-len(users), min(users)))):
        label[list(users)] = number
    return label


def modularity(graph: Graph, label: NDArray[Any]) -> float:
    """The share of links within communities, less the share expected by chance for users of these degrees."""
    if not graph.n_links:
        return 0.0
    inner = float(np.mean(label[graph.sources()] == label[graph.indices]))
    degrees = np.bincount(label, graph.degrees) / graph.n_links
    return inner - float(degrees @ degrees)


def read_attention(path: Path) -> dict[str, Any]:
    """The numbers of a link, a user or a network with its faithfulness, from a JSON file beside a figure."""
    kinds = {"link": LinkAttention, "user": UserAttention, "network": NetworkAttention}
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(numbers, dict) or numbers.get("of") not in kinds:
            raise ValueError("no attention of a link, a user or a network")
        needed = {"even", *(field.name for field in dataclasses.fields(kinds[numbers["of"]]))}
        needed |= {"faithfulness"} if numbers["of"] == "network" else set()
        if missing := needed - set(numbers):
            raise ValueError(f"damaged (no {', '.join(sorted(missing))})")
    except ValueError as error:
        raise ArtifactError(f"{path}: {error}; give a run, or the .json beside such a figure") from error
    return numbers


def trunk_of(embeddings: ConditionalEmbeddings) -> Trunk:
    """The network behind the vectors, which only some methods have."""
    if embeddings.trunk is None:
        raise UsageError(f"{embeddings.method!r} passes no messages that weigh behaviors; train mcne for that")
    return embeddings.trunk


def _layer(names: tuple[str, ...], weights: NDArray[np.float32]) -> LayerAttention:
    """``weights`` [links, B] in numbers."""
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    entropy = -(weights * logs).sum(axis=1, dtype=np.float64) / np.log(weights.shape[1])
    first = (weights == weights.max(axis=1, keepdims=True)).mean(axis=0)
    spread = tuple(
        Spread(
            name,
            float(column.mean(dtype=np.float64)),
            float(column.std(dtype=np.float64)),
            _plain(np.quantile(column, QUANTILES)),
            float(first[at]),
        )
        for at, (name, column) in enumerate(zip(names, weights.T, strict=True))
    )
    return LayerAttention(float(entropy.mean()), _plain(np.quantile(entropy, QUANTILES)), spread)


def in_deviations(values: NDArray[np.float64], deviation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values in standard deviations; 0 where nothing differs."""
    return np.divide(values, deviation, out=np.zeros(len(values)), where=deviation > 0)


def _plain(values: NDArray[Any]) -> Weights:
    return tuple(float(value) for value in values)
