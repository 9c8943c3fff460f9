"""``embed_users``: embeds users who were not in the training data; the vectors of known users stay the same.

A history is folded in: the vectors that new users start from move until their own items rank well, all else fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from mcne.data.graph import Graph, directed, offsets, undirected
from mcne.data.ids import Names, encode
from mcne.embeddings.artifact import BehaviorSpace, ConditionalEmbeddings
from mcne.embeddings.trunk import Trunk
from mcne.extend.checks import network_of
from mcne.extend.tables import NONE, NewUsers, Pairs
from mcne.kernels.edges import masked_halves
from mcne.models.mcne import attention
from mcne.models.tables import take
from mcne.randomness import Stream

USERS_AT_ONCE = 512
KNOWN_AT_ONCE = 1 << 16

# Folding in
STEPS = 60
LEARNING_RATE = 0.1
PULL = 0.1
"""How strongly a vector is held where it started, in spreads of the known users' initial vectors."""
NEGATIVES = 300
"""Items of a behavior that histories are ranked against: the same for all users, so none depends on another."""
SEED = 0


@dataclass(frozen=True)
class _Records:
    """The history of new users in one behavior, h records ranked against N items."""

    user: Tensor  # [h]
    positive: Tensor  # [h, d] items under the behavior's mask
    negative: Tensor  # [N, d] the same of those ranked against
    bias: Tensor  # [h, N] how much more bias these have
    share: Tensor  # [h, N] of each pair in the loss of its user; 0 where the item is the user's own


def embed_users(
    embeddings: ConditionalEmbeddings,
    *,
    links: Any = None,
    history: Any = None,
    attributes: Any = None,
    names: Any = None,
    skip_unknown: bool = False,
) -> ConditionalEmbeddings:
    """The embeddings with additional users who were not in the training data, from whatever is known of each.

    ``links`` has the columns ``source_id`` (a new user), ``target_id`` (a known one, whom it follows in a directed
    network) and in a weighted network ``weight``; ``history`` has ``user_id, item_id, behavior``; ``attributes`` has
    ``user_id`` and those that the model was trained with; ``names`` has ``user_id, name``. Each may be a frame or a
    file, and may be missing. A new user starts from the mean of its friends' initial vectors, or of all users', and its
    attributes; receives messages from its friends like trained users; and its history is folded in. A ``rating`` in the
    history counts as in the training data: pairs rated lower than its ``positive_from`` are known, not had. Every row
    of a known user stays byte-identical, and the same input gives the same result.

    With ``skip_unknown`` links to unknown people and records of unknown items or behaviors are skipped instead of
    refused, and so are new users of whom nothing else is known. The provenance counts them by reason, under
    ``["new_users"]["skipped"]``.
    """
    new = NewUsers.read(
        embeddings, links=links, history=history, attributes=attributes, names=names, skip_unknown=skip_unknown
    )
    return embedded(embeddings, new)


def embedded(embeddings: ConditionalEmbeddings, new: NewUsers) -> ConditionalEmbeddings:
    """The embeddings with these users."""
    trunk = network_of(embeddings)
    levels = new_levels(trunk, embeddings.spaces, new)
    columns = [np.asarray(ids.arrow()) if ids.kind == "integer" else ids.arrow() for ids in (embeddings.users, new.ids)]
    ids, (old_rows, new_rows) = encode(*columns)
    merged = []
    for old, own in zip((*trunk.levels, embeddings.vectors), levels, strict=True):
        both = np.empty((len(old) + len(own), old.shape[1]), dtype=old.dtype)
        both[old_rows] = old
        both[new_rows] = own
        merged.append(both)
    origin: dict[str, Any] = {"users": len(new), "known": embeddings.fingerprint}
    if new.skipped is not None:
        origin["skipped"] = dict(new.skipped)
    return ConditionalEmbeddings(
        ids,
        merged[-1],
        tuple(
            _seen_too(*each, old_rows, new_rows) for each in zip(embeddings.spaces, new.history, new.known, strict=True)
        ),
        _graph(embeddings.graph, new, old_rows, new_rows),
        replace(trunk, levels=tuple(merged[:-1])),
        dict(embeddings.provenance) | {"new_users": origin},
        _names_of_both(embeddings.user_names, new.names, old_rows, new_rows),
    )


def new_levels(trunk: Trunk, spaces: tuple[BehaviorSpace, ...], new: NewUsers) -> list[NDArray[np.float32]]:
    """Every level of the new users, K+1 × [n, d_k], some users at a time."""
    user, friend = new.links
    weights = new.weights if trunk.weighted and new.weights is not None else np.ones(len(user))
    total = np.bincount(user, weights, minlength=len(new))
    friends = Friends(user, friend, (weights / total[user]).astype(np.float32))
    mean, spread = _center(trunk.levels[0])
    start = _start(trunk, new, friends, mean)
    parts = []
    for first in range(0, len(new), USERS_AT_ONCE):
        stop = min(first + USERS_AT_ONCE, len(new))
        network = FrozenNetwork(trunk, friends.of(first, stop))
        history, known = ([_pairs_of(first, stop, *pairs) for pairs in each] for each in (new.history, new.known))
        initial = fold_in(network, torch.from_numpy(start[first:stop]), spaces, history, spread=spread, known=known)
        with torch.no_grad():
            parts.append(network.levels(initial))
    return [torch.cat(level).numpy() for level in zip(*parts, strict=True)]


def _pairs_of(first: int, stop: int, user: NDArray[np.int64], item: NDArray[np.int64]) -> Pairs:
    """The pairs of the new users from ``first`` to ``stop``, who then count from 0."""
    low, high = np.searchsorted(user, (first, stop))
    return user[low:high] - first, item[low:high]


def fold_in(
    network: FrozenNetwork,
    start: Tensor,
    spaces: Sequence[BehaviorSpace],
    history: Sequence[Pairs],
    *,
    spread: float,
    known: Sequence[Pairs] = (),
) -> Tensor:
    """Initial vectors [n, d₀] that rank the ``history`` of n new users well, each near its ``start``.

    The items that a user has are ranked against others, but not against those that are only ``known``.

    Per user the mean BPR loss (Eq. 7) of all its records plus ``PULL`` times the mean square of what it moved, in
    spreads, by a fixed number of Adam's steps. Users without history stay at the start.
    """
    counts = sum(np.bincount(user, minlength=len(start)) for user, _ in history)
    parts = zip(spaces, history, known or [NONE] * len(spaces), strict=True)
    records = [_records(space, *pairs, np.asarray(counts), known=others) for space, pairs, others in parts]
    moved = torch.zeros_like(start, requires_grad=True)
    adam = torch.optim.Adam([moved], lr=LEARNING_RATE)
    for _ in range(STEPS if np.any(counts) else 0):
        last = network.levels(start + spread * moved)[-1]
        loss = torch.stack([_ranking_loss(last, each) for each in records]).sum() + PULL * moved.square().mean(1).sum()
        adam.zero_grad()
        torch.autograd.backward(loss)
        adam.step()
    return start + spread * moved.detach()


def _records(
    space: BehaviorSpace,
    user: NDArray[np.int64],
    item: NDArray[np.int64],
    counts: NDArray[np.int64],
    *,
    known: Pairs = NONE,
) -> _Records:
    """The pairs of users and items of one behavior, with the items they are ranked against."""
    drawn = Stream(SEED, "fold-in", space.name).permutation(len(space.items))[:NEGATIVES]
    own = np.zeros((len(counts), len(drawn)), dtype=bool)
    column = np.full(len(space.items), -1)
    column[drawn] = np.arange(len(drawn))
    for owner, their in ((user, item), known):
        is_drawn = column[their] >= 0
        own[owner[is_drawn], column[their[is_drawn]]] = True
    ranked = ~own[user]  # [h, N]
    weights = np.maximum(1, ranked.sum(axis=1)) * counts[user]
    bias = np.zeros(len(space.items), np.float32) if space.item_bias is None else space.item_bias
    vectors = space.item_vectors * space.mask
    arrays = (user, vectors[item], vectors[drawn], bias[drawn] - bias[item][:, None], ranked / weights[:, None])
    users, *numbers = map(torch.from_numpy, arrays)
    return _Records(users, *(each.to(torch.float32) for each in numbers))


def _ranking_loss(last: Tensor, records: _Records) -> Tensor:
    """The sum over users of their mean of ``−ln σ(s_p − s_n)``, of one behavior's records."""
    positive = (take(last, records.user) * records.positive).sum(dim=1)  # [h]
    negative = take(last @ records.negative.T, records.user) + records.bias  # [h, N]
    return (functional.softplus(negative - positive[:, None]) * records.share).sum()


def _center(known: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    """The mean [d₀] of initial vectors, and their spread about it, over all dimensions."""
    total = np.zeros(known.shape[1])
    squares = 0.0
    for start in range(0, len(known), KNOWN_AT_ONCE):
        rows = known[start : start + KNOWN_AT_ONCE].astype(np.float64)
        total += rows.sum(axis=0)
        squares += float(np.square(rows).sum())
    mean = total / max(1, len(known))
    return mean.astype(np.float32), float(np.sqrt(max(0.0, squares / max(1, known.size) - np.square(mean).mean())))


def _start(trunk: Trunk, new: NewUsers, friends: Friends, mean: NDArray[np.float32]) -> NDArray[np.float32]:
    """Where each new user starts, [n, d₀]: at the mean of its friends, else of all, moved by what is special in it."""
    start = np.tile(mean, (len(new), 1))
    start[friends.receiver] = 0
    np.add.at(start, friends.receiver, trunk.levels[0][friends.sender] * friends.share[:, None])
    if new.attributes is not None and trunk.profile is not None:
        users, attributes = new.attributes
        start[users] += trunk.profile.vectors(attributes, len(users)) - trunk.profile.center
    return start


def _graph(graph: Graph, new: NewUsers, old_rows: NDArray[np.int32], new_rows: NDArray[np.int32]) -> Graph:
    """The network with the new links, in both directions, though only new users have heard along them.

    In a directed network new users follow known ones, and nobody follows them.
    """
    user, friend = new.links
    source = np.concatenate([old_rows[graph.sources()], new_rows[user]])
    target = np.concatenate([old_rows[graph.indices], old_rows[friend]])
    weights = None
    if graph.weights is not None:
        weights = np.concatenate([graph.weights, np.zeros(0, np.float32) if new.weights is None else new.weights])
    link = directed if graph.is_directed else undirected
    return link(len(old_rows) + len(new_rows), source, target, weights)[0]


def _names_of_both(
    old: Names | None, new: Names | None, old_rows: NDArray[np.int32], new_rows: NDArray[np.int32]
) -> Names | None:
    """The names of old and new users, if there are any."""
    if old is None and new is None:
        return None
    known = [Names([""] * len(old_rows)) if old is None else old]
    known += [Names([""] * len(new_rows)) if new is None else new]
    return Names.joined(known).subset(np.argsort(np.concatenate([old_rows, new_rows])))


def _seen_too(
    space: BehaviorSpace, pairs: Pairs, known_pairs: Pairs, old_rows: NDArray[np.int32], new_rows: NDArray[np.int32]
) -> BehaviorSpace:
    """The behavior with the new users' items as seen; masks and items are the same arrays."""
    n_users = len(old_rows) + len(new_rows)
    old_users = np.repeat(old_rows, np.diff(space.seen_indptr))
    user = np.concatenate([old_users, new_rows[pairs[0]], new_rows[known_pairs[0]]])
    item = np.concatenate([space.seen_items, pairs[1], known_pairs[1]]).astype(np.int32)
    order = np.lexsort((item, user))
    known = None
    if space.seen_known is not None or len(known_pairs[0]):
        before = np.zeros(len(space.seen_items), bool) if space.seen_known is None else space.seen_known
        known = np.repeat([False, True], [len(pairs[0]), len(known_pairs[0])])
        known = np.append(before, known)[order]
    indptr = offsets(np.bincount(user, minlength=n_users))
    return replace(space, seen_indptr=indptr, seen_items=item[order], seen_known=known)


# the trained network for new users: all is fixed but the vectors they start from


@dataclass(frozen=True, eq=False)
class Friends:
    """Whom each of n new users is linked to; the shares of one user's friends add up to 1."""

    receiver: NDArray[np.int64]  # [E] new users, never decreasing
    sender: NDArray[np.int64]  # [E] rows of known users
    share: NDArray[np.float32]  # [E]

    def of(self, start: int, stop: int) -> Friends:
        """Those of the new users from ``start`` to ``stop``, who then count from 0."""
        low, high = np.searchsorted(self.receiver, (start, stop))
        return Friends(self.receiver[low:high] - start, self.sender[low:high], self.share[low:high])


class FrozenNetwork:
    """Eq. 3–6 for new users: their friends' vectors stay what they are, so a friend is projected once for good."""

    def __init__(self, trunk: Trunk, friends: Friends) -> None:
        known, sender = np.unique(friends.sender, return_inverse=True)
        self._trunk = trunk
        self._receiver, self._sender = torch.from_numpy(friends.receiver), torch.from_numpy(sender)
        self._share = torch.from_numpy(friends.share)[:, None]
        self._layers = [_layer(trunk, k, known) for k in range(trunk.n_layers)]

    def levels(self, initial: Tensor) -> list[Tensor]:
        """Every level of the new users, K+1 × [n, d_k], from the vectors that they start from [n, d₀]."""
        levels = [initial]
        for k, (masks, combine, sent, halves) in enumerate(self._layers):
            own = levels[-1]
            gates = masks.mean(dim=0)  # [d] where all behaviors weigh the same
            if halves is not None:
                near, of_here, score = halves
                here = (own @ of_here.T).view(len(own), *near.shape[1:])
                weights = attention(take(near, self._sender), take(here, self._receiver), score)
                gates = weights @ masks  # [E, d] along every link, Σ_c a_c m_c
            is_literal = self._trunk.message == "literal"
            contents = take(own, self._receiver) if is_literal else take(sent, self._sender)
            messages = contents * gates * self._share  # [E, d]
            mean = torch.zeros_like(own).index_add(0, self._receiver, messages)  # [n, d], 0 without friends
            received = torch.cat([mean, own], dim=1) @ combine.T
            is_active = self._trunk.last_activation or k < len(self._layers) - 1
            levels.append(torch.relu(received) if is_active else received)
        return levels


def _layer(
    trunk: Trunk, k: int, known: NDArray[np.int64]
) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor, Tensor] | None]:
    """Masks [B, d], ``W`` [d_out, 2 d] and what f ``known`` users send [f, d].

    And with attention their half of it [f, B, t], the weights of the receivers' half [B · t, d], and ``h`` [t].
    """
    tensor = partial(torch.tensor, dtype=torch.float32)
    masks, combine, sent = map(tensor, (trunk.masks[k], trunk.combine[k], trunk.levels[k][known]))
    if trunk.attention is None:
        return masks, combine, sent, None
    project, score = tensor(trunk.attention[k].project), tensor(trunk.attention[k].score)
    of_near, of_here = masked_halves(project, masks)  # [B · t, d]: of the sender and the receiver
    if trunk.message == "literal":
        of_near, of_here = of_here, of_near
    near = (sent @ of_near.T).view(len(sent), len(masks), len(score))
    return masks, combine, sent, (near, of_here, score)
