"""Why two users are connected or alike: everything the artifact knows of a pair."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mcne.data.ids import Ids, Names, name_of, names_of
from mcne.embeddings.answers import Frame
from mcne.embeddings.ranking import ZERO_NORM
from mcne.embeddings.reasons import likeness_parts
from mcne.errors import UsageError
from mcne.text import Table, joined, paragraph, with_name

if TYPE_CHECKING:
    from mcne.embeddings.artifact import BehaviorSpace, ConditionalEmbeddings
    from mcne.embeddings.trunk import Trunk

OTHER = "other"
"""The name of the last mask row, "all other behaviors"."""

N_DIMENSIONS = 5
N_COMMON = 10


class Line(NamedTuple):
    """A line of an explanation as a data frame."""

    part: str
    behavior: str | None
    what: str
    value: float | None


@dataclass(frozen=True)
class Message:
    """The message from one user to the other: a weight per layer and behavior, and its share among all neighbors."""

    sender_id: int | str
    receiver_id: int | str
    share: float  # in what the receiver aggregates: 1 / its neighbors, or by weight if the network was trained so
    attention: tuple[tuple[float, ...], ...]  # [layers][behaviors, then other]; each layer sums to 1
    sender_name: str = ""
    receiver_name: str = ""

    @property
    def sender(self) -> str:
        """The sender's id as text, with its name."""
        return with_name(self.sender_id, self.sender_name)

    @property
    def receiver(self) -> str:
        """The receiver's id as text, with its name."""
        return with_name(self.receiver_id, self.receiver_name)

    @property
    def path(self) -> str:
        """From whom to whom."""
        return f"{self.sender} → {self.receiver}"

    def to_json(self) -> dict[str, Any]:
        """Plain data; names only where there are any."""
        return dataclasses.asdict(self, dict_factory=_without_empty_names)


@dataclass(frozen=True)
class Contribution:
    """One dimension's part in an inner product."""

    dimension: int
    value: float


@dataclass(frozen=True)
class PartsProduct:
    """What a part of one user's vector, such as its history, adds to the inner product with a part of the other's."""

    part: str
    other_part: str
    value: float

    def __str__(self) -> str:
        return f"{self.part} × {self.other_part}"


@dataclass(frozen=True)
class Likeness:
    """Inner product and cosine of two vectors, and the dimensions that move the inner product most, either way; where
    vectors are sums of parts, also all products of parts that are not 0, the largest first.
    """

    inner_product: float
    cosine: float
    dimensions: tuple[Contribution, ...]
    parts: tuple[PartsProduct, ...] = ()

    def strongest(self, form: str, most: int | None = None) -> str:
        """What moves the inner product most: products of parts where there are any, otherwise dimensions."""
        told = [(str(each), each.value) for each in self.parts]
        told = told or [(str(each.dimension), each.value) for each in self.dimensions]
        return ", ".join(f"{name} ({value:{form}})" for name, value in told[:most])

    def lines(self, behavior: str | None) -> Iterator[Line]:
        """Its numbers as lines of a frame."""
        yield Line("similarity", behavior, "inner product", self.inner_product)
        yield Line("similarity", behavior, "cosine", self.cosine)
        for part in self.dimensions:
            yield Line("dimension", behavior, str(part.dimension), part.value)
        for each in self.parts:
            yield Line("parts", behavior, str(each), each.value)


@dataclass(frozen=True)
class Common:
    """What two users share: how many, and the first of them."""

    count: int
    ids: tuple[int | str, ...]
    names: tuple[str, ...] = ()  # of the ids, if any of them has one

    def labels(self) -> list[str]:
        """The ids as text, each with its name."""
        return list(map(with_name, self.ids, self.names or [""] * len(self.ids)))

    def lines(self, part: str, behavior: str | None) -> Iterator[Line]:
        """The count, and the ids that are listed, as lines of a frame."""
        yield Line(part, behavior, "count", float(self.count))
        for label in self.labels():
            yield Line(part, behavior, label, None)

    def __str__(self) -> str:
        more = ", …" if self.count > len(self.ids) else ""
        return f"{self.count}" + (f" ({', '.join(self.labels())}{more})" if self.ids else "")


@dataclass(frozen=True)
class OnBehavior:
    """How alike two users are on one behavior, and the items both have touched."""

    behavior: str
    likeness: Likeness
    common_items: Common


@dataclass(frozen=True)
class Explanation(Frame):
    """Why two users are connected or alike; as a data frame it has a line for every number and common id.

    The frame's columns: ``part`` is ``similarity``, ``dimension``, ``parts``, ``attention``, ``share``,
    ``common friends`` or ``common items``; ``behavior`` is missing where the whole vector or no behavior is meant;
    ``what`` is the measure, the dimension, the parts, the message or the id; ``value`` is the number, missing beside a
    common id. Iterates over the lines.
    """

    user_id: int | str
    other_id: int | str
    linked: bool
    attention_on: tuple[str, ...]  # what the attention weighs: the behaviors learned together, and "other"
    messages: tuple[Message, ...]  # both directions of the link; in a directed network to who follows the other
    remark: str  # where there are no messages, why
    whole: Likeness
    behaviors: tuple[OnBehavior, ...]
    common_friends: Common  # in a directed network whom both follow
    follows: tuple[tuple[int | str, int | str], ...] = ()  # in a directed network who of the two follows whom
    user_name: str = ""
    other_name: str = ""

    @property
    def users(self) -> tuple[str, str]:
        """Both ids as text, each with its name."""
        return with_name(self.user_id, self.user_name), with_name(self.other_id, self.other_name)

    @property
    def relation(self) -> str:
        """How the two are linked, in words."""
        if len(self.follows) == 2:
            return "follow each other"
        shown = dict(zip((self.user_id, self.other_id), self.users, strict=True))
        direction = "".join(f" ({shown[follower]} follows {shown[followed]})" for follower, followed in self.follows)
        return f"are linked{direction}" if self.linked else "are not linked"

    @property
    def made_of(self) -> str:
        """What likenesses are told by."""
        return "parts" if self.whole.parts else "dimensions"

    def to_json(self) -> dict[str, Any]:
        """Plain data: numbers, text, tuples and dictionaries; names and ``follows`` only where there are any."""
        data = dataclasses.asdict(self, dict_factory=_without_empty_names)
        return data if self.follows else {name: value for name, value in data.items() if name != "follows"}

    def __iter__(self) -> Iterator[Line]:
        wholes: list[tuple[str | None, Likeness]] = [(on.behavior, on.likeness) for on in self.behaviors]
        for behavior, likeness in [*wholes, (None, self.whole)]:
            yield from likeness.lines(behavior)
        for message in self.messages:
            yield Line("share", None, message.path, message.share)
            for layer, weights in enumerate(message.attention, start=1):
                for behavior, weight in zip(self.attention_on, weights, strict=True):
                    yield Line("attention", behavior, f"{message.path}, layer {layer}", weight)
        yield from self.common_friends.lines("common friends", None)
        for on in self.behaviors:
            yield from on.common_items.lines("common items", on.behavior)

    def columns(self) -> dict[str, list[Any]]:
        """``part``, ``behavior``, ``what``, ``value``."""
        lines = list(self)
        return {name: [getattr(line, name) for line in lines] for name in Line._fields}

    def _repr_html_(self) -> str:
        head, *_ = str(self).partition("\n")
        tables = [self._attention().section()] if self.messages else [paragraph(self.remark)]
        rows = [[on.behavior, str(on.common_items)] for on in self.behaviors]
        tables += [self._likenesses().section(), Table("", ["common items of", ""], rows).section()]
        return joined([paragraph(head), *tables])

    def __str__(self) -> str:
        lines = [f"users {' and '.join(self.users)} {self.relation}; common friends: {self.common_friends}", ""]
        lines += self._attention().lines() if self.messages else []
        lines += [self.remark] if self.remark else []
        lines += ["", *self._likenesses().lines(), "", "common items"]
        lines += [f"  {on.behavior}: {on.common_items}" for on in self.behaviors]
        return "\n".join(lines)

    def _attention(self) -> Table:
        rows = []
        for message in self.messages:
            for layer, weights in enumerate(message.attention, start=1):
                rows.append(
                    [message.path, str(layer), *(f"{weight:.3f}" for weight in weights), f"{message.share:.3f}"]
                )
        return Table("", ["message, attention on", "layer", *self.attention_on, "share"], rows)

    def _likenesses(self) -> Table:
        rows = []
        whole = [("the whole vector", self.whole)]
        for name, likeness in [(on.behavior, on.likeness) for on in self.behaviors] + whole:
            strongest = likeness.strongest("+.3g", N_DIMENSIONS) or "none"
            rows.append([name, f"{likeness.inner_product:.4g}", f"{likeness.cosine:.3f}", strongest])
        return Table("", ["similarity on", "inner product", "cosine", f"strongest {self.made_of}"], rows)


def explain(embeddings: ConditionalEmbeddings, user_id: int | str, other_id: int | str) -> Explanation:
    """What the artifact knows of two users; attention only where they are linked and the method has any."""
    users = embeddings.users
    graph = embeddings.graph
    user, other = (users.row(raw, what="user") for raw in (user_id, other_id))
    if user == other:
        raise UsageError(f"user {users[user]!r} is given twice", value=users[user], remedy="name two different users")
    ways = [
        (near, far) for near, far in ((user, other), (other, user)) if far in graph.neighbors(near)
    ]  # near hears far
    linked = bool(ways)
    trunk = embeddings.trunk if linked else None
    remark = ""
    if not linked:
        remark = "no attention: no message passes between users that are not linked"
    elif trunk is None and embeddings.parts is None:
        remark = f"no attention: {embeddings.method!r} passes no messages along links"
    elif trunk is not None and trunk.attention is None:
        remark = f"{embeddings.method!r} weighs all behaviors alike"
    friends = np.intersect1d(graph.neighbors(user), graph.neighbors(other), assume_unique=True)
    return Explanation(
        users[user],
        users[other],
        linked,
        () if trunk is None else attended(embeddings.behavior_names, trunk),
        () if trunk is None else tuple(_message(embeddings, trunk, far, near) for near, far in ways),
        remark,
        _likeness(embeddings.vectors[[user, other]], _products(embeddings, None, user, other)),
        tuple(_on_behavior(embeddings, space, user, other) for space in embeddings.spaces),
        _common(users, embeddings.user_names, friends[(friends != user) & (friends != other)]),
        tuple((users[near], users[far]) for near, far in ways) if graph.is_directed else (),
        name_of(embeddings.user_names, user),
        name_of(embeddings.user_names, other),
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
    names = (name_of(embeddings.user_names, row) for row in (sender, receiver))
    return Message(embeddings.users[sender], embeddings.users[receiver], share, layers, *names)


def _on_behavior(embeddings: ConditionalEmbeddings, space: BehaviorSpace, user: int, other: int) -> OnBehavior:
    matrix, mask = embeddings.matrix_and_mask(space.name)
    items = np.intersect1d(space.had(user), space.had(other), assume_unique=True)
    likeness = _likeness(matrix[[user, other]] * mask, _products(embeddings, space.name, user, other))
    return OnBehavior(space.name, likeness, _common(space.items, space.names, items))


def _products(
    embeddings: ConditionalEmbeddings, behavior: str | None, user: int, other: int
) -> tuple[PartsProduct, ...]:
    """The products of parts on a behavior, or in the whole vectors; none where vectors are no sums."""
    if embeddings.parts is None:
        return ()
    table = likeness_parts(embeddings, embeddings.users[user], embeddings.users[other], behavior)
    products = [
        PartsProduct(part, other_part, float(table.products[at, other_at]))
        for at, part in enumerate(table.parts)
        for other_at, other_part in enumerate(table.parts)
        if table.products[at, other_at]
    ]
    return tuple(sorted(products, key=lambda each: -abs(each.value)))


def _likeness(pair: NDArray[np.float32], products: tuple[PartsProduct, ...]) -> Likeness:
    """Of two vectors [2, d] that are already masked, in double precision."""
    u, v = pair.astype(np.float64)
    parts = u * v
    norms = float(np.linalg.norm(u)), float(np.linalg.norm(v))
    cosine = float((u / norms[0]) @ (v / norms[1])) if min(norms) > ZERO_NORM else 0.0
    strongest = np.argsort(-np.abs(parts), kind="stable")[:N_DIMENSIONS]
    shown = tuple(Contribution(int(at), float(parts[at])) for at in strongest if parts[at])
    return Likeness(float(parts.sum()), cosine, shown, products)


def _common(ids: Ids, names: Names | None, rows: NDArray[Any]) -> Common:
    shown = rows[:N_COMMON]
    known = names_of(names, shown) or ()
    return Common(len(rows), tuple(ids.take(shown)), known if any(known) else ())


def _without_empty_names(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping of fields that leaves out names, and products of parts, where there are none."""
    return {key: value for key, value in fields if value or not key.endswith(("_name", "names", "parts"))}
