"""Why an item is recommended and why two users are alike, told exactly: every score is a sum over its reasons.

A reason is what one thing that is known adds to the score, with the normalizers (√n of the history, the number of
friends) as they are. ``without`` is the score if it had never been known, normalizers included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mcne.data.ids import name_of
from mcne.embeddings.answers import Frame
from mcne.embeddings.ranking import RawId
from mcne.errors import UnavailableError, UnknownError
from mcne.text import with_name

if TYPE_CHECKING:
    from mcne.embeddings.artifact import BehaviorSpace, ConditionalEmbeddings
    from mcne.embeddings.parts import Parts

Level = Literal["own", "full"]
"""How much reasons tell: ``own`` nothing about other people, ``full`` the friends too."""

Vector = NDArray[np.float64]


class Reason(NamedTuple):
    """What one thing that is known adds to a score."""

    kind: Literal["popularity", "taste", "record", "friend", "attribute"]
    behavior: str | None  # of a record
    id: int | str | None  # of a record's item or of a friend, or the name of an attribute
    name: str
    value: float
    without: float | None  # the score without it, of what can be taken away

    @property
    def label(self) -> str:
        """The reason for people."""
        if self.kind == "popularity":
            return "popularity of the item"
        if self.kind == "taste":
            return "learned taste"
        subject = with_name(self.id if self.id is not None else "", self.name)
        return f"{subject} ({self.behavior})" if self.kind == "record" else f"{self.kind} {subject}"


@dataclass(frozen=True, eq=False)
class Reasons(Frame):
    """Why a user gets the score of an item: reasons that add up to it, the largest first."""

    user_id: int | str
    item_id: int | str
    behavior: str
    score: float
    level: Level
    reasons: tuple[Reason, ...]

    def __len__(self) -> int:
        return len(self.reasons)

    def __iter__(self) -> Iterator[Reason]:
        return iter(self.reasons)

    def sentence(self, most: int = 3) -> str:
        """The largest reasons in a line, and what all others add."""
        told = [f"{each.label} {each.value:+.2f}" for each in self.reasons[:most]]
        rest = self.reasons[most:]
        return ", ".join([*told, *([f"{len(rest)} more {sum(each.value for each in rest):+.2f}"] if rest else [])])

    def columns(self) -> dict[str, list[Any]]:
        """A row for each reason; ids as text, for they are of items, users and attributes."""
        columns = {name: [getattr(each, name) for each in self.reasons] for name in Reason._fields}
        return columns | {"id": [None if each.id is None else str(each.id) for each in self.reasons]}

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        own = {name: getattr(self, name) for name in ("user_id", "item_id", "behavior", "score", "level")}
        return own | {"reasons": [each._asdict() for each in self.reasons]}


@dataclass(frozen=True, eq=False)
class LikenessParts(Frame):
    """Two users' likeness on a behavior as a table: what each part of one adds with each part of the other."""

    behavior: str | None
    parts: tuple[str, ...]
    products: NDArray[np.float64]  # [parts of one, parts of the other]

    def columns(self) -> dict[str, Any]:
        """A row for each part of the first user, a column for each of the second."""
        rows = {"part": list(self.parts)}
        return rows | {name: self.products[:, k].tolist() for k, name in enumerate(self.parts)}


def why(
    embeddings: ConditionalEmbeddings, user_id: RawId, item_id: RawId, behavior: int, level: Level = "own"
) -> Reasons:
    """Why a user gets the score of an item."""
    if level not in get_args(Level):
        raise UnknownError.of("level", level, get_args(Level))
    space = embeddings.spaces[behavior]
    row = embeddings.users.row(user_id, what="user")
    item = space.items.row(item_id, what=f"item of {space.name}")
    user = _User(embeddings, row)
    aim = space.item_vectors[item].astype(np.float64) * space.mask  # m ⊙ z
    score = float(user.vector() @ aim)
    bias = 0.0 if space.item_bias is None else float(space.item_bias[item])
    reasons = [Reason("popularity", None, None, "", bias, None)]
    taste = float(user.own @ aim)
    friends = list(_friends(embeddings, user, aim, score + bias))
    if level == "full":
        reasons += friends
    else:
        taste += sum(each.value for each in friends)
    reasons.append(Reason("taste", None, None, "", taste, None))
    reasons += _records(embeddings, user, aim, score + bias)
    for name, vector, unknown in user.attributes:
        value = float(vector @ aim)
        without = None if unknown is None else score + bias - value + float(unknown @ aim)
        label = name if unknown is not None else f"{name}, which is unknown"
        reasons.append(Reason("attribute", None, label, "", value, without))
    ordered = sorted(reasons, key=lambda each: -abs(each.value))
    return Reasons(embeddings.users[row], space.items[item], space.name, score + bias, level, tuple(ordered))


def likeness_parts(
    embeddings: ConditionalEmbeddings, user_id: RawId, other_id: RawId, behavior: str | None = None
) -> LikenessParts:
    """What makes two users alike on a behavior, part by part; the table adds up to their inner product."""
    _, mask = embeddings.matrix_and_mask(behavior)
    pair = [_User(embeddings, embeddings.users.row(raw, what="user")).parts() for raw in (user_id, other_id)]
    first, second = (np.stack(list(parts.values())) for parts in pair)
    return LikenessParts(behavior, tuple(pair[0]), (first * mask) @ second.T)


class _User:
    """A user's vector as the parts that it is the sum of, in double precision."""

    def __init__(self, embeddings: ConditionalEmbeddings, row: int) -> None:
        parts = parts_of(embeddings)
        self.own: Vector = parts.own[row].astype(np.float64)
        self.history, self.friends = parts.history, parts.friends
        self.records: list[tuple[BehaviorSpace, int, Vector]] = []
        for space, each in zip(embeddings.spaces, parts.records, strict=True):
            place = slice(space.seen_indptr[row], space.seen_indptr[row + 1])
            for item in space.seen_items[place][each.counted[place]] if parts.history else ():
                self.records.append((space, int(item), each.vectors[item].astype(np.float64)))
        near = embeddings.graph.neighbors(row) if parts.friends else np.zeros(0, np.int32)
        self.near = [(int(friend), parts.own[friend].astype(np.float64)) for friend in near]
        self.attributes: list[tuple[str, Vector, Vector | None]] = []  # and what they add where they are unknown
        if parts.profile is not None and parts.features is not None:
            index, amount = (each[row] for each in parts.features)
            owner = np.searchsorted(parts.profile.encoding.first, index, side="right") - 1
            for k, column in enumerate(parts.profile.encoding.columns):
                mine = owner == k
                vector = amount[mine].astype(np.float64) @ parts.profile.weights[index[mine]]
                feature = parts.profile.encoding.unknown[k]
                is_known = not np.any(amount[mine][index[mine] == feature])
                unknown = parts.profile.weights[feature].astype(np.float64) if is_known else None
                self.attributes.append((column.name, vector, unknown))

    def parts(self) -> dict[str, Vector]:
        """The vectors that are added up, by name."""
        none = np.zeros_like(self.own)
        history = self.history * sum((vector for *_, vector in self.records), none)
        friends = self.friends * sum((vector for _, vector in self.near), none)
        return {
            "own": self.own,
            "history": history / np.sqrt(max(1, len(self.records))),
            "friends": friends / max(1, len(self.near)),
            "attributes": sum((vector for _, vector, _ in self.attributes), none),
        }

    def vector(self) -> Vector:
        """Their sum."""
        total: Vector = sum(self.parts().values(), np.zeros_like(self.own))
        return total


def parts_of(embeddings: ConditionalEmbeddings) -> Parts:
    """The parts of the vectors, of a method whose vectors are sums."""
    if embeddings.parts is None:
        raise UnavailableError(
            f"{embeddings.method!r} has no exact reasons here: its vectors are not stored as sums of what is known",
            value=embeddings.method,
            remedy="train mcne-plus, without --separate",
        )
    return embeddings.parts


def _records(embeddings: ConditionalEmbeddings, user: _User, aim: Vector, score: float) -> Iterator[Reason]:
    n = len(user.records)
    total = sum(float(vector @ aim) for *_, vector in user.records) * user.history
    for space, item, vector in user.records:
        product = user.history * float(vector @ aim)
        left = (total - product) / np.sqrt(max(1, n - 1))
        name = name_of(space.names, item)
        without = score - total / np.sqrt(n) + left
        yield Reason("record", space.name, space.items[item], name, float(product / np.sqrt(n)), float(without))


def _friends(embeddings: ConditionalEmbeddings, user: _User, aim: Vector, score: float) -> Iterator[Reason]:
    n = len(user.near)
    total = sum(float(vector @ aim) for _, vector in user.near) * user.friends
    for friend, vector in user.near:
        product = user.friends * float(vector @ aim)
        without = score - total / n + (total - product) / max(1, n - 1)
        name = name_of(embeddings.user_names, friend)
        yield Reason("friend", None, embeddings.users[friend], name, float(product / n), float(without))
