"""Why two users are connected or alike: everything the artifact knows of a pair."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.ids import Ids
from mcne.embeddings.ranking import ZERO_NORM
from mcne.errors import UsageError
from mcne.text import Table

if TYPE_CHECKING:
    from mcne.embeddings.artifact import BehaviorSpace, ConditionalEmbeddings
    from mcne.embeddings.trunk import Trunk

OTHER = "other"
"""The name of the last mask row, "all other behaviors"."""

N_DIMENSIONS = 5
N_COMMON = 10


@dataclass(frozen=True)
class Message:
    """The message from one user to the other: a weight per layer and behavior, and its share among all neighbors."""

    sender_id: int | str
    receiver_id: int | str
    share: float  # in what the receiver aggregates: 1 / its neighbors, or by weight if the network was trained so
    attention: tuple[tuple[float, ...], ...]  # [layers][behaviors, then other]; each layer sums to 1


@dataclass(frozen=True)
class Contribution:
    """One dimension's part in an inner product."""

    dimension: int
    value: float


@dataclass(frozen=True)
class Likeness:
    """Inner product and cosine of two vectors, and the dimensions that move the inner product most, either way."""

    inner_product: float
    cosine: float
    dimensions: tuple[Contribution, ...]


@dataclass(frozen=True)
class Common:
    """What two users share: how many, and the first of them."""

    count: int
    ids: tuple[int | str, ...]

    def __str__(self) -> str:
        more = ", …" if self.count > len(self.ids) else ""
        return f"{self.count}" + (f" ({', '.join(map(str, self.ids))}{more})" if self.ids else "")


@dataclass(frozen=True)
class OnBehavior:
    """How alike two users are on one behavior, and the items both have touched."""

    behavior: str
    likeness: Likeness
    common_items: Common


@dataclass(frozen=True)
class Explanation:
    """Why two users are connected or alike."""

    user_id: int | str
    other_id: int | str
    linked: bool
    attention_on: tuple[str, ...]  # what the attention weighs: the behaviors learned together, and "other"
    messages: tuple[Message, ...]  # both directions of the link
    remark: str  # where there are no messages, why
    whole: Likeness
    behaviors: tuple[OnBehavior, ...]
    common_friends: Common

    def to_json(self) -> dict[str, Any]:
        """Plain data: numbers, text, and tuples and dictionaries of them."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        link = "linked" if self.linked else "not linked"
        lines = [f"users {self.user_id} and {self.other_id} are {link}; common friends: {self.common_friends}", ""]
        lines += self._attention().lines() if self.messages else []
        lines += [self.remark] if self.remark else []
        lines += ["", *self._likenesses().lines(), "", "common items"]
        lines += [f"  {on.behavior}: {on.common_items}" for on in self.behaviors]
        return "\n".join(lines)

    def _attention(self) -> Table:
        rows = []
        for message in self.messages:
            for layer, weights in enumerate(message.attention, start=1):
                path = f"{message.sender_id} → {message.receiver_id}"
                rows.append([path, str(layer), *(f"{weight:.3f}" for weight in weights), f"{message.share:.3f}"])
        return Table("", ["message, attention on", "layer", *self.attention_on, "share"], rows)

    def _likenesses(self) -> Table:
        rows = []
        whole = [("the whole vector", self.whole)]
        for name, likeness in [(on.behavior, on.likeness) for on in self.behaviors] + whole:
            dimensions = ", ".join(f"{part.dimension} ({part.value:+.3g})" for part in likeness.dimensions)
            rows.append([name, f"{likeness.inner_product:.4g}", f"{likeness.cosine:.3f}", dimensions or "none"])
        return Table("", ["similarity on", "inner product", "cosine", "strongest dimensions"], rows)


def explain(embeddings: ConditionalEmbeddings, user_id: int | str, other_id: int | str) -> Explanation:
    """What the artifact knows of two users; attention only where they are linked and the method has any."""
    users = embeddings.users
    graph = embeddings.graph
    user, other = (users.row(raw, what="user") for raw in (user_id, other_id))
    if user == other:
        raise UsageError(f"user {users[user]!r} is given twice", value=users[user], remedy="name two different users")
    linked = other in graph.neighbors(user)
    trunk = embeddings.trunk if linked else None
    remark = ""
    if not linked:
        remark = "no attention: no message passes between users that are not linked"
    elif trunk is None:
        remark = f"no attention: {embeddings.method!r} passes no messages along links"
    elif trunk.attention is None:
        remark = f"{embeddings.method!r} weighs all behaviors alike"
    friends = np.intersect1d(graph.neighbors(user), graph.neighbors(other), assume_unique=True)
    return Explanation(
        users[user],
        users[other],
        linked,
        () if trunk is None else attended(embeddings.behavior_names, trunk),
        () if trunk is None else tuple(_message(embeddings, trunk, *way) for way in ((other, user), (user, other))),
        remark,
        _likeness(*embeddings.vectors[[user, other]]),
        tuple(_on_behavior(embeddings, space, user, other) for space in embeddings.spaces),
        _common(users, friends[(friends != user) & (friends != other)]),
    )


def attended(names: Sequence[str], trunk: Trunk) -> tuple[str, ...]:
    """What attention weighs in a model with these behaviors: those that it was trained with, and "other"."""
    return (*names[: trunk.n_behaviors], other_name(names))


def other_name(names: Sequence[str]) -> str:
    """What the last mask row is called beside the behaviors' names."""
    return OTHER if OTHER not in names else f"{OTHER} (of no behavior)"


def _message(embeddings: ConditionalEmbeddings, trunk: Trunk, sender: int, receiver: int) -> Message:
    ends = np.array([sender]), np.array([receiver])
    layers = tuple(tuple(trunk.weights(layer, *ends)[0].tolist()) for layer in range(trunk.n_layers))
    share = embeddings.graph.share(sender, receiver, weighted=trunk.weighted)
    return Message(embeddings.users[sender], embeddings.users[receiver], share, layers)


def _on_behavior(embeddings: ConditionalEmbeddings, space: BehaviorSpace, user: int, other: int) -> OnBehavior:
    matrix, mask = embeddings.matrix_and_mask(space.name)
    items = np.intersect1d(space.seen(user), space.seen(other), assume_unique=True)
    return OnBehavior(space.name, _likeness(*(matrix[[user, other]] * mask)), _common(space.items, items))


def _likeness(user: NDArray[np.float32], other: NDArray[np.float32]) -> Likeness:
    """Of two vectors [d] that are already masked, in double precision."""
    u, v = user.astype(np.float64), other.astype(np.float64)
    parts = u * v
    norms = float(np.linalg.norm(u)), float(np.linalg.norm(v))
    cosine = float((u / norms[0]) @ (v / norms[1])) if min(norms) > ZERO_NORM else 0.0
    strongest = np.argsort(-np.abs(parts), kind="stable")[:N_DIMENSIONS]
    shown = tuple(Contribution(int(at), float(parts[at])) for at in strongest if parts[at])
    return Likeness(float(parts.sum()), cosine, shown)


def _common(ids: Ids, rows: NDArray[Any]) -> Common:
    return Common(len(rows), tuple(ids.take(rows[:N_COMMON])))
