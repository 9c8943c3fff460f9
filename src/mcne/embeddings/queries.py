"""Questions that embeddings, methods without vectors and trained models all answer; raw ids in and out.

One id is answered with one :class:`Ranking`, a sequence of ids with :class:`Rankings`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, get_args, overload

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import Graph, offsets
from mcne.data.ids import Ids, Names, names_of
from mcne.embeddings.answers import Kind, Ranking, Rankings
from mcne.embeddings.explanation import Explanation, explain
from mcne.embeddings.ranking import RawId, RawIds, VectorTable, inverse_norms, is_one, rows_of
from mcne.embeddings.reasons import Level, LikenessParts, Reasons, likeness_parts, why
from mcne.errors import UnknownError, UsageError, warn_deprecated

if TYPE_CHECKING:
    from mcne.embeddings.artifact import ConditionalEmbeddings

FilterSeen = Literal["behavior", "all"] | bool
Friends = Literal["include", "exclude", "only"]
Rows = NDArray[np.integer[Any]]
Side = tuple[Ids, Names | None, Kind]
"""The users or the items of a question: their ids, their names, and what they are."""
WITH_VECTORS = "train a method with vectors, such as mcne or bpr"
Space = TypeVar("Space", bound="Catalog", covariant=True)


class Catalog:
    """The items of a behavior, and who has seen which of them."""

    name: str
    items: Ids
    names: Names | None  # of items, for people
    seen_indptr: NDArray[Any]  # [users + 1]
    seen_items: NDArray[np.int32]  # [seen] increasing within a user
    seen_known: NDArray[np.bool_] | None  # [seen] which are known and no records

    def seen(self, user: int) -> NDArray[np.int32]:
        """The items that one user has, or knows without having them, increasing."""
        return self.seen_items[self.seen_indptr[user] : self.seen_indptr[user + 1]]

    def known(self, user: int) -> NDArray[np.int32]:
        """Those that the user knows without having them, such as items that it rated badly."""
        return self.seen(user)[self._is_known(user)]

    def had(self, user: int) -> NDArray[np.int32]:
        """Those that the user has."""
        return self.seen(user)[~self._is_known(user)]

    def records(self) -> NDArray[np.int64]:
        """How many items each user has, [users]."""
        known = np.zeros(len(self.seen_items), dtype=bool) if self.seen_known is None else self.seen_known
        counts: NDArray[np.int64] = np.diff(offsets(~known)[self.seen_indptr])
        return counts

    def _is_known(self, user: int) -> NDArray[np.bool_]:
        start, stop = self.seen_indptr[user], self.seen_indptr[user + 1]
        return np.zeros(stop - start, dtype=bool) if self.seen_known is None else self.seen_known[start:stop]


class Queries(ABC):
    """The questions, given who answers them."""

    @property
    @abstractmethod
    def _queried(self) -> Answering[Catalog]:
        """Who answers."""

    @overload
    def recommend(  # type: ignore[overload-overlap]  # text is one id, though also a sequence of text
        self,
        user_ids: RawId,
        behavior: str | None = None,
        *,
        k: int = 10,
        filter_seen: FilterSeen = "behavior",
        items: RawIds | None = None,
        exclude: RawIds = (),
    ) -> Ranking: ...

    @overload
    def recommend(
        self,
        user_ids: RawIds,
        behavior: str | None = None,
        *,
        k: int = 10,
        filter_seen: FilterSeen = "behavior",
        items: RawIds | None = None,
        exclude: RawIds = (),
    ) -> Rankings: ...

    def recommend(
        self,
        user_ids: RawId | RawIds,
        behavior: str | None = None,
        *,
        k: int = 10,
        filter_seen: FilterSeen = "behavior",
        items: RawIds | None = None,
        exclude: RawIds = (),
    ) -> Ranking | Rankings:
        """The ``k`` items of a behavior with the highest scores for one user or several.

        ``filter_seen`` leaves out the items that the user has in this ``"behavior"``, or those with the id of an item
        that the user has in any (``"all"``); ``False`` leaves out neither. Items that the dataset knows to be none
        for the user, such as those rated badly, are never recommended. ``items`` limits the answer to these,
        ``exclude`` leaves these out. The behavior can be omitted where there is only one.
        """
        answering = self._queried
        at = place_of(answering, behavior)
        catalog = answering.spaces[at]
        users = rows_of(answering.users, user_ids, what="user")
        excluded = _seen(answering, at, users, filter_seen)
        of = f" of behavior {catalog.name!r}"
        left_out = rows_of(catalog.items, exclude, what="item", of=of)
        if len(left_out):
            excluded = [np.union1d(rows, left_out) for rows in excluded]
        among = None
        if items is not None:
            among = np.unique(rows_of(catalog.items, items, what="item", of=of))
            excluded = [np.flatnonzero(np.isin(among, rows)) for rows in excluded]
        rankings = answering.best_items(at, users, k=k, among=among, excluded=excluded)
        asked: Side = (answering.users, answering.user_names, "user")
        return _answer(user_ids, users, rankings, asked=asked, answered=(catalog.items, catalog.names, "item"))

    @overload
    def similar_users(  # type: ignore[overload-overlap]  # as for recommend
        self,
        user_ids: RawId,
        behavior: str | None = None,
        *,
        k: int = 10,
        cosine: bool = False,
        friends: Friends = "include",
    ) -> Ranking: ...

    @overload
    def similar_users(
        self,
        user_ids: RawIds,
        behavior: str | None = None,
        *,
        k: int = 10,
        cosine: bool = False,
        friends: Friends = "include",
    ) -> Rankings: ...

    def similar_users(
        self,
        user_ids: RawId | RawIds,
        behavior: str | None = None,
        *,
        k: int = 10,
        cosine: bool = False,
        friends: Friends = "include",
    ) -> Ranking | Rankings:
        """The ``k`` other users most similar on a behavior, or in the whole vector; by inner product or cosine.

        ``friends="exclude"`` leaves out the users who are linked already, so that the answer suggests new friends;
        ``friends="only"`` ranks just these. In a directed network they are the users whom one follows.
        """
        if friends not in get_args(Friends):
            raise UnknownError.of("value of friends", friends, get_args(Friends))
        embeddings = self._queried._embeddings(needs_width=True)
        matrix, mask = embeddings.matrix_and_mask(behavior)
        rows = rows_of(embeddings.users, user_ids, what="user")
        table = VectorTable(embeddings.users, matrix, kind="user", names=embeddings.user_names)
        excluded: list[Rows] = [np.array([row]) for row in rows]
        if friends != "include":
            everyone = np.arange(embeddings.n_users)
            for at, row in enumerate(rows):
                linked = embeddings.graph.neighbors(row)
                left_out = linked if friends == "exclude" else np.setdiff1d(everyone, linked, assume_unique=True)
                excluded[at] = np.union1d(left_out, row)
        rankings = _similar(table, mask, rows=rows, k=k, cosine=cosine, excluded=excluded)
        people: Side = (embeddings.users, embeddings.user_names, "user")
        return _answer(user_ids, rows, rankings, asked=people, answered=people)

    @overload
    def similar_items(  # type: ignore[overload-overlap]  # as for recommend
        self, item_ids: RawId, behavior: str | None = None, *, k: int = 10, cosine: bool = False
    ) -> Ranking: ...

    @overload
    def similar_items(
        self, item_ids: RawIds, behavior: str | None = None, *, k: int = 10, cosine: bool = False
    ) -> Rankings: ...

    def similar_items(
        self, item_ids: RawId | RawIds, behavior: str | None = None, *, k: int = 10, cosine: bool = False
    ) -> Ranking | Rankings:
        """The ``k`` other items of a behavior most similar within its mask; by inner product or cosine, no bias."""
        embeddings = self._queried._embeddings(needs_width=True)
        space = embeddings.spaces[place_of(embeddings, behavior)]
        rows = rows_of(space.items, item_ids, what="item", of=f" of behavior {space.name!r}")
        table = VectorTable(space.items, space.item_vectors, names=space.names)
        rankings = _similar(table, space.mask, rows=rows, k=k, cosine=cosine, excluded=list(rows[:, None]))
        catalog: Side = (space.items, space.names, "item")
        return _answer(item_ids, rows, rankings, asked=catalog, answered=catalog)

    def explain(self, user_id: RawId, other_id: RawId) -> Explanation:
        """Why two users are connected or alike: attention, similarity, dimensions, common friends and items."""
        return explain(self._queried._embeddings(), user_id, other_id)

    def why(self, user_id: RawId, item_id: RawId, behavior: str | None = None, *, level: Level = "own") -> Reasons:
        """Why a user gets the score of an item: the item's popularity, the user's learned taste, every record and
        attribute of the user, and with ``level="full"`` every friend. The reasons add up to the score, and ``without``
        is the score without one.

        ``full`` tells about other people; ``own``, for answers that others see, counts friends as learned taste.
        """
        embeddings = self._queried._embeddings()
        return why(embeddings, user_id, item_id, place_of(embeddings, behavior), level)

    def likeness(self, user_id: RawId, other_id: RawId, behavior: str | None = None) -> LikenessParts:
        """What makes two users alike on a behavior, or in the whole vector: a table of the parts of one and of the
        other, which adds up to their inner product. It tells about both, and by the part of friends about others.
        """
        return likeness_parts(self._queried._embeddings(), user_id, other_id, behavior)


class Answering(Queries, ABC, Generic[Space]):
    """Who answers: users of a network, a catalog for each of their behaviors, and what ranks its items."""

    users: Ids
    user_names: Names | None  # for people
    graph: Graph
    spaces: Sequence[Space]

    @property
    def n_users(self) -> int:
        """Users of the network, with or without behavior."""
        return len(self.users)

    @property
    def behavior_names(self) -> list[str]:
        """The behaviors' names, in order."""
        return [space.name for space in self.spaces]

    def space(self, behavior: str) -> Space:
        """The space of the behavior of that name: its items, and what was learned of them."""
        return self.spaces[place_of(self, behavior)]

    @abstractmethod
    def best_items(
        self, behavior: int, users: Rows, *, k: int, among: Rows | None, excluded: Sequence[Rows]
    ) -> list[Ranking]:
        """The ``k`` best items for each user, ``among`` these (increasing) or all, but for the rows ``excluded``."""

    @abstractmethod
    def _embeddings(self, *, needs_width: bool = False) -> ConditionalEmbeddings:
        """Who answers what needs vectors, if ``needs_width`` with dimensions; an error without."""

    @property
    def _queried(self) -> Self:
        return self


def place_of(answering: Answering[Catalog], behavior: str | None) -> int:
    """Which behavior is asked about."""
    names = answering.behavior_names
    if behavior is None and len(names) > 1:
        raise UsageError(
            "required because the model has several", "behavior", f"choose one of {', '.join(names)}", allowed=names
        )
    if behavior is not None and behavior not in names:
        raise UnknownError.of("behavior", behavior, names)
    return 0 if behavior is None else names.index(behavior)


def _seen(answering: Answering[Catalog], at: int, users: Rows, filter_seen: FilterSeen) -> list[Rows]:
    """The items of a behavior that each user is not to be offered again."""
    which = _which_seen(filter_seen)
    if which not in (False, "behavior", "all"):
        raise UnknownError.of("value of filter_seen", filter_seen, ("behavior", "all", False))
    own = answering.spaces[at]
    if which is False:
        return [own.known(user) for user in users]
    seen: list[Rows] = [own.seen(user) for user in users]
    if which == "all":
        for other in answering.spaces:
            if other is not own and other.items.kind == own.items.kind:
                rows = own.items.rows(other.items.arrow())  # [items of the other behavior], −1 where it is not here
                here = (rows[other.seen(user)] for user in users)
                seen = [np.union1d(before, same[same >= 0]) for before, same in zip(seen, here, strict=True)]
    return seen


def _which_seen(filter_seen: object) -> object:
    """``filter_seen`` in today's values; ``True`` means the behavior."""
    if not isinstance(filter_seen, str | bool | np.bool_):
        warn_deprecated(f"filter_seen={filter_seen!r}", 'use "behavior", "all" or False', stacklevel=5)
    if isinstance(filter_seen, str):
        return filter_seen
    return "behavior" if filter_seen else False


def _similar(
    table: VectorTable, mask: NDArray[np.bool_], *, rows: Rows, k: int, cosine: bool, excluded: Sequence[Rows]
) -> list[Ranking]:
    """The best for these rows of the table itself."""
    queries = table.vectors[rows] * mask
    if cosine:
        table = replace(table, scale=inverse_norms(table.vectors, mask))
        queries *= inverse_norms(table.vectors[rows], mask)[:, None]
    return table.search(queries, k=k, excluded=excluded)


def _answer(
    raw: RawId | RawIds, rows: Rows, rankings: list[Ranking], *, asked: Side, answered: Side
) -> Ranking | Rankings:
    """One ranking if one id was asked about, else all."""
    if is_one(raw):
        return rankings[0]
    ids, names, kind = asked
    others, other_names, other_kind = answered
    return Rankings(
        ids.take(rows),
        rankings,
        asked_kind=kind,
        asked_names=names_of(names, rows),
        asked_id_kind=ids.kind,
        like=Ranking((), np.zeros(0, np.float32), other_kind, None if other_names is None else (), others.kind),
    )
