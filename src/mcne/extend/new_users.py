"""``embed_users``: users who were unknown in training, beside those who were known, whose vectors stay as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mcne.data.graph import Graph, offsets, undirected
from mcne.data.ids import Ids, encode
from mcne.embeddings.artifact import BehaviorSpace, ConditionalEmbeddings
from mcne.embeddings.trunk import Trunk
from mcne.errors import UsageError
from mcne.extend.folding import Pairs, fold_in
from mcne.extend.given import NewUsers
from mcne.extend.network import Friends, FrozenNetwork

USERS_AT_ONCE = 512
KNOWN_AT_ONCE = 1 << 16


def embed_users(
    embeddings: ConditionalEmbeddings, *, links: Any = None, history: Any = None, attributes: Any = None
) -> ConditionalEmbeddings:
    """The same embeddings with users beside them who were unknown in training, from whatever is told of each.

    ``links`` has the columns ``source_id`` (a new user), ``target_id`` (a known one) and in a weighted network
    ``weight``; ``history`` has ``user_id, item_id, behavior``; ``attributes`` has ``user_id`` and those that the
    model was trained with. Each may be a frame or a file, and may be missing. A new user starts from the mean of its
    friends' initial vectors, or of all users', and its attributes; hears its friends as trained users do; and its
    history is folded in. Every row of a known user keeps its bytes, and the same input gives the same.
    """
    trunk = _trunk(embeddings)
    new = NewUsers.read(embeddings, links=links, history=history, attributes=attributes)
    levels = new_levels(trunk, embeddings.spaces, new)
    ids, (old_rows, new_rows) = encode(_column(embeddings.users), _column(new.ids))
    together = [
        _merged(old, own, old_rows, new_rows)
        for old, own in zip((*trunk.levels, embeddings.vectors), levels, strict=True)
    ]
    base = {"users": len(new), "known": embeddings.fingerprint}
    return ConditionalEmbeddings(
        ids,
        together[-1],
        tuple(
            _seen_too(space, pairs, old_rows, new_rows)
            for space, pairs in zip(embeddings.spaces, new.history, strict=True)
        ),
        _graph(embeddings.graph, new, old_rows, new_rows),
        replace(trunk, levels=tuple(together[:-1])),
        dict(embeddings.provenance) | {"new_users": base},
    )


def new_levels(trunk: Trunk, spaces: tuple[BehaviorSpace, ...], new: NewUsers) -> list[NDArray[np.float32]]:
    """Every level of the new users, K+1 × [n, d_k], some users at a time."""
    friends = _friends(new, weighted=trunk.weighted)
    mean, spread = _center(trunk.levels[0])
    start = _start(trunk, new, friends, mean)
    found = []
    for first in range(0, len(new), USERS_AT_ONCE):
        stop = min(first + USERS_AT_ONCE, len(new))
        network = FrozenNetwork(trunk, friends.of(first, stop))
        told = [_of(pairs, first, stop) for pairs in new.history]
        initial = fold_in(network, torch.from_numpy(start[first:stop]), spaces, told, spread=spread)
        with torch.no_grad():
            found.append(network.levels(initial))
    return [torch.cat(level).numpy() for level in zip(*found, strict=True)]


def _trunk(embeddings: ConditionalEmbeddings) -> Trunk:
    """What new users need of a network."""
    trunk = embeddings.trunk
    if trunk is None:
        raise UsageError(
            f"{embeddings.method!r} keeps no network that new users could be brought into; train mcne, mcne-a, mcne-f "
            "or mcne-plus"
        )
    if trunk.combine is None:
        raise UsageError(
            "these embeddings were saved without the weights of their layers, which new users need; train again with "
            "this version"
        )
    added = [space.name for space in embeddings.spaces[trunk.n_behaviors :]]
    if added:
        raise UsageError(
            f"{', '.join(added)}: added after the training, for the users that were known then; bring new users into "
            "the embeddings of before, and add it to what comes out"
        )
    return trunk


def _friends(new: NewUsers, *, weighted: bool) -> Friends:
    user, friend = new.links
    weights = new.weights if weighted and new.weights is not None else np.ones(len(user))
    total = np.bincount(user, weights, minlength=len(new))
    return Friends(user, friend, (weights / total[user]).astype(np.float32))


def _center(known: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    """The mean [d₀] of initial vectors, and their spread about it, over all dimensions."""
    total, squares = np.zeros(known.shape[1]), 0.0
    for start in range(0, len(known), KNOWN_AT_ONCE):
        some = known[start : start + KNOWN_AT_ONCE].astype(np.float64)
        total += some.sum(axis=0)
        squares += float(np.square(some).sum())
    mean = total / max(1, len(known))
    return mean.astype(np.float32), float(np.sqrt(max(0.0, squares / max(1, known.size) - np.square(mean).mean())))


def _start(trunk: Trunk, new: NewUsers, friends: Friends, mean: NDArray[np.float32]) -> NDArray[np.float32]:
    """Where each new user starts, [n, d₀]: at the mean of its friends, else of all, moved by what is special in it."""
    start = np.tile(mean, (len(new), 1))
    start[friends.receiver] = 0
    np.add.at(start, friends.receiver, trunk.levels[0][friends.sender] * friends.share[:, None])
    if new.described is not None and trunk.profile is not None:
        users, profile = new.described.users, trunk.profile
        start[users] += profile.vectors(new.described.attributes, len(users)) - profile.center
    return start


def _of(pairs: Pairs, start: int, stop: int) -> Pairs:
    """The pairs of the users from ``start`` to ``stop``, who then count from 0."""
    low, high = np.searchsorted(pairs[0], (start, stop))
    return pairs[0][low:high] - start, pairs[1][low:high]


def _column(ids: Ids) -> Any:
    return np.asarray(ids.arrow()) if ids.kind == "integer" else ids.arrow()


def _merged(old: NDArray[Any], new: NDArray[Any], old_rows: NDArray[Any], new_rows: NDArray[Any]) -> NDArray[Any]:
    merged = np.empty((len(old) + len(new), old.shape[1]), dtype=old.dtype)
    merged[old_rows], merged[new_rows] = old, new
    return merged


def _graph(graph: Graph, new: NewUsers, old_rows: NDArray[np.int32], new_rows: NDArray[np.int32]) -> Graph:
    """The network with the new links, in both directions, though only new users have heard along them."""
    user, friend = new.links
    source = np.concatenate([old_rows[graph.sources()], new_rows[user]])
    target = np.concatenate([old_rows[graph.indices], old_rows[friend]])
    weights = None
    if graph.weights is not None:
        told = np.zeros(0, np.float32) if new.weights is None else new.weights
        weights = np.concatenate([graph.weights, told])
    return undirected(len(old_rows) + len(new_rows), source, target, weights)[0]


def _seen_too(
    space: BehaviorSpace, pairs: Pairs, old_rows: NDArray[np.int32], new_rows: NDArray[np.int32]
) -> BehaviorSpace:
    """The behavior with the new users' items as seen; masks and items are the same arrays."""
    n_users = len(old_rows) + len(new_rows)
    user = np.concatenate([np.repeat(old_rows, np.diff(space.seen_indptr)), new_rows[pairs[0]]])
    item = np.concatenate([space.seen_items, pairs[1].astype(np.int32)])
    order = np.lexsort((item, user))
    return replace(space, seen_indptr=offsets(np.bincount(user, minlength=n_users)), seen_items=item[order])
