"""How behaviors are weighed along links: of one link, of one user, and over a whole network and its communities.

A weight is a behavior's part in a message (Eq. 5); where all behaviors count alike each has 1/(C+1). Everything here is
plain data; ``weights``, ``hears``, ``sends``, ``effect`` and ``between`` have for each layer a number for each of
``behaviors``, of which the last is "other".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import Graph
from mcne.data.ids import name_of
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.explanation import attended
from mcne.embeddings.trunk import Trunk, link_weights
from mcne.errors import ArtifactError, DataError, UsageError
from mcne.text import with_name

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
N_UNUSUAL = 8  # links of a user that are shown beside the mean
N_COMMUNITIES = 8
SMALLEST_SHARE = 0.01  # of the users, in a community that is reported
KEYS = {
    "link": {"even", "behaviors", "messages"},
    "user": {"even", "behaviors", "user_id", "links", "hears", "sends", "unusual"},
    "network": {"even", "behaviors", "messages", "layers", "modularity", "seed"}
    | {"communities", "between_messages", "between", "faithfulness"},
}
"""What figures of a link, a user and a network need."""


def of_link(embeddings: ConditionalEmbeddings, user_id: int | str, other_id: int | str) -> dict[str, Any]:
    """How behaviors are weighed in both messages between two linked users."""
    trunk = trunk_of(embeddings)
    explanation = embeddings.explain(user_id, other_id)
    if not explanation.linked:
        near = embeddings.graph.symmetric().neighbors(embeddings.users.row(explanation.user_id))
        some = ", ".join(map(str, embeddings.users.take(near[:3]))) + (", …" if len(near) > 3 else "")
        raise UsageError(
            f"users {explanation.user_id!r} and {explanation.other_id!r} are not linked, so they exchange no messages",
            value=explanation.other_id,
            allowed=embeddings.users.take(near),
            remedy=f"choose one of the users linked to {explanation.user_id!r}: {some}"
            if some
            else "choose another user",
        )
    messages = [message.to_json() for message in explanation.messages]
    return _attention("link", attended(embeddings.behavior_names, trunk)) | {"messages": messages}


def of_user(embeddings: ConditionalEmbeddings, user_id: int | str) -> dict[str, Any]:
    """The attention of a user's links in both directions, and the links that differ most from the mean.

    In a directed network it hears whom it follows, and its ``followers``, counted only there, hear it. ``distance`` of
    such a link is half the sum of the differences from the mean, 0 to 1, averaged over layers.
    """
    trunk = trunk_of(embeddings)
    graph = embeddings.graph
    users = embeddings.users
    user = users.row(user_id, what="user")
    near = graph.neighbors(user).astype(np.int64)
    if not len(near):
        lacks = "follows nobody" if graph.is_directed else "has no links"
        raise UsageError(
            f"user {users[user]!r} {lacks}, so it receives no messages",
            value=users[user],
            remedy="choose another user",
        )
    heard = [trunk.weights(layer, near, np.full(len(near), user)) for layer in range(trunk.n_layers)]
    listeners = graph.followers(user)
    sent = [trunk.weights(layer, np.full(len(listeners), user), listeners) for layer in range(trunk.n_layers)]
    shares = graph.shares(weighted=trunk.weighted)[graph.indptr[user] : graph.indptr[user + 1]]
    means = [shares @ weights for weights in heard]
    distance = np.mean([np.abs(w - mean).sum(axis=1) / 2 for w, mean in zip(heard, means, strict=True)], axis=0)
    unusual = []
    for at in np.argsort(-distance, kind="stable")[:N_UNUSUAL]:
        own = [weights[at].tolist() for weights in heard]
        sender = _named(embeddings, "sender", int(near[at]))
        unusual.append(sender | {"distance": float(distance[at]), "weights": own})
    counts = {"links": len(near)} | ({"followers": len(listeners)} if graph.is_directed else {})
    return _attention("user", attended(embeddings.behavior_names, trunk)) | {
        **_named(embeddings, "user", user),
        **counts,
        "hears": [mean.tolist() for mean in means],  # over links, by their shares in what the user hears
        "sends": [weights.mean(axis=0).tolist() for weights in sent if len(weights)],  # over those who hear it, alike
        "unusual": unusual,  # the farthest from the mean first
    }


def of_network(embeddings: ConditionalEmbeddings, *, seed: int) -> dict[str, Any]:
    """How behaviors are weighed along all links, and within the communities found with this seed.

    The ``effect`` of a community is by how much its mean weights are above those between communities, in standard
    deviations over links. Where nothing is between communities, ``between`` and every ``effect`` are empty.
    """
    trunk = trunk_of(embeddings)
    graph = embeddings.graph
    if not graph.n_directions:
        raise DataError(
            "the network has no links, so there are no messages to analyze",
            remedy="use a run that was trained on a dataset with links",
        )
    names = attended(embeddings.behavior_names, trunk)
    label = communities(graph, seed=seed)
    sizes = np.bincount(label)
    large = np.flatnonzero(sizes >= max(3, SMALLEST_SHARE * graph.n_users))  # users join along links: all have some
    chosen = large[:N_COMMUNITIES]
    one, other = label[graph.sources()], label[graph.indices]  # [links]
    is_inside = (one == other) & (one == chosen[:, None])  # [communities, links]
    is_between = one != other
    layers = []
    between = []
    described: list[dict[str, Any]] = []
    for number, inside in zip(chosen, is_inside, strict=True):  # from the largest
        counts = {"users": int(sizes[number]), "messages": int(np.count_nonzero(inside))}
        described.append({"number": int(number)} | counts | {"weights": [], "effect": []})
    for layer in range(trunk.n_layers):
        weights = link_weights(trunk, graph, layer)  # [links, B]
        layers.append(_layer(names, weights))
        outside = weights[is_between].mean(axis=0, dtype=np.float64) if is_between.any() else None
        deviation = weights.std(axis=0, dtype=np.float64)
        if outside is not None:
            between.append(outside.tolist())
        for community, inside in zip(described, is_inside, strict=True):
            mean = weights[inside].mean(axis=0, dtype=np.float64)
            community["weights"].append(mean.tolist())
            if outside is not None:
                community["effect"].append(in_deviations(mean - outside, deviation).tolist())
    return _attention("network", names) | {
        "messages": graph.n_directions,  # in each layer
        "layers": layers,
        "modularity": modularity(graph.symmetric(), label),
        "seed": seed,
        "communities": described,
        "between_messages": int(np.count_nonzero(is_between)),
        "between": between,
    }


def communities(graph: Graph, *, seed: int) -> NDArray[np.int64]:
    """The community of every user by modularity (Louvain), [users], numbered from the largest.

    Links count alike, whoever follows whom; users without links are on their own. Of communities of equal size the one
    whose first user comes first has the lower number.
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
    """The share of undirected links within communities, less that expected by chance for users of these degrees."""
    if not graph.n_directions:
        return 0.0
    inner = float(np.mean(label[graph.sources()] == label[graph.indices]))
    degrees = np.bincount(label, graph.degrees) / graph.n_directions
    return inner - float(degrees @ degrees)


def read_attention(path: Path) -> dict[str, Any]:
    """The numbers of a link, a user or a network with its faithfulness, from a JSON file beside a figure."""
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(numbers, dict) or numbers.get("of") not in KEYS:
            raise ValueError("no attention of a link, a user or a network")
        _rename_of_0_1(numbers)
        if missing := KEYS[numbers["of"]] - set(numbers):
            raise ValueError(f"damaged (no {', '.join(sorted(missing))})")
    except ValueError as error:
        raise ArtifactError(str(error), path, "give a run, or the .json file beside such a figure") from error
    return numbers


def _rename_of_0_1(numbers: dict[str, Any]) -> None:
    """What version 0.1 called links in the numbers of a network are messages: a link has two."""
    if numbers["of"] != "network":
        return
    for counts in (numbers, *numbers.get("communities", ())):
        for old, new in (("links", "messages"), ("between_links", "between_messages")):
            if old in counts:
                counts[new] = counts.pop(old)


def user_label(numbers: Mapping[str, Any], kind: str) -> str:
    """A user in the numbers, ``"sender"``, ``"receiver"`` or ``"user"``: the id, with the name if it has one."""
    return with_name(numbers[f"{kind}_id"], numbers.get(f"{kind}_name", ""))


def _named(embeddings: ConditionalEmbeddings, kind: str, row: int) -> dict[str, Any]:
    """The id of a user, and the name if it has one."""
    name = name_of(embeddings.user_names, row)
    return {f"{kind}_id": embeddings.users[row]} | ({f"{kind}_name": name} if name else {})


def trunk_of(embeddings: ConditionalEmbeddings) -> Trunk:
    """The network behind the vectors; only some methods have one."""
    if embeddings.trunk is None:
        raise UsageError.of_method("has no attention over behaviors", embeddings.method, "plot a run of mcne")
    return embeddings.trunk


def in_deviations(values: NDArray[np.float64], deviation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values in standard deviations; 0 where nothing differs."""
    return np.divide(values, deviation, out=np.zeros(len(values)), where=deviation > 0)


def _attention(of: str, behaviors: tuple[str, ...]) -> dict[str, Any]:
    """The first fields of the numbers of a link, a user and a network."""
    quantiles = {"at": QUANTILES} if of == "network" else {}
    return {"of": of, "even": 1 / len(behaviors)} | quantiles | {"behaviors": behaviors}


def _layer(names: tuple[str, ...], weights: NDArray[np.float32]) -> dict[str, Any]:
    """``weights`` [links, B] in numbers. Entropy is 1 where all behaviors weigh the same, and 0 where one is all."""
    logs = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    entropy = -(weights * logs).sum(axis=1, dtype=np.float64) / np.log(weights.shape[1])
    first = (weights == weights.max(axis=1, keepdims=True)).mean(axis=0)
    spread = [
        {
            "behavior": name,
            "mean": float(column.mean(dtype=np.float64)),
            "deviation": float(column.std(dtype=np.float64)),
            "quantiles": np.quantile(column, QUANTILES).tolist(),
            "first": float(share),  # of the messages in which no behavior weighs more
        }
        for name, column, share in zip(names, weights.T, first, strict=True)
    ]
    quantiles = np.quantile(entropy, QUANTILES).tolist()
    return {"entropy": float(entropy.mean()), "entropy_quantiles": quantiles, "spread": spread}
