"""From raw columns to a dataset: ids to rows, repeats merged, users filtered, every row accounted for.

The user filter is the paper's preprocessing ("users that have less than 2 social links and 2 multi-category behavior
records"), in the one reading that gives its Table 1: both counts are taken on the unfiltered data, both must suffice,
and users whose friends were all dropped are dropped at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mcne.data.behavior import Attribute, Behavior, likeness
from mcne.data.graph import Graph, run_starts, undirected
from mcne.data.ids import IdColumn, Ids, encode
from mcne.errors import DataError, UsageError, unknown
from mcne.text import with_spread

Locate = Callable[[int, str], str]
"""Names the place of a row and column in its source: ``links.csv, line 7, column 'target_id'``."""

SelfLinks = Literal["drop", "keep"]
FEW = 0.1  # below this share of linked users with records, the two tables hardly belong together


def refuse_rows(rows: NDArray[Any], locate: Locate, column: str, problem: str, advice: str) -> None:
    """Refuse the bad ``rows`` of a source, if there are any: name the place of the first and count them."""
    if len(rows):
        raise DataError(f"{locate(int(rows[0]), column)}: {problem} ({len(rows):,} in all); {advice}")


@dataclass(frozen=True)
class RawInteractions:
    """Rows of (user, item, behavior[, time]) as read; ``behavior`` holds keys of ``names``."""

    user: IdColumn
    item: IdColumn
    behavior: NDArray[Any]  # [rows] small non-negative numbers
    names: Mapping[int, str]
    timestamp: NDArray[Any] | None

    def __len__(self) -> int:
        return len(self.behavior)

    def of(self, behaviors: Sequence[int]) -> RawInteractions:
        """The rows of these behaviors alone."""
        wanted = np.zeros(int(max(self.names)) + 1, dtype=bool)
        wanted[list(behaviors)] = True
        rows = np.flatnonzero(wanted[self.behavior])
        if len(rows) == len(self):
            return self
        times = None if self.timestamp is None else self.timestamp[rows]
        return RawInteractions(take(self.user, rows), take(self.item, rows), self.behavior[rows], self.names, times)


@dataclass(frozen=True)
class RawLinks:
    """Rows of (source, target[, weight]) as read."""

    source: IdColumn
    target: IdColumn
    weight: NDArray[np.float32] | None
    locate: Locate


@dataclass(frozen=True)
class RawUsers:
    """Rows of (user, attributes…) as read; an attribute is float64, or int32 rows of its categories."""

    user: IdColumn
    attributes: Mapping[str, Attribute]
    locate: Locate


@dataclass(frozen=True)
class UserFilter:
    """Which users stay: those with this many links and records before filtering, then with a link left."""

    min_links: int = 0
    min_records: int = 0
    drop_isolated: bool = False

    def text(self) -> str:
        """The filter in words."""
        last = " and one to a user that stays" if self.drop_isolated else ""
        return f"with {self.min_links} links or more{last}, and {self.min_records} records or more"


@dataclass(frozen=True)
class Ledger:
    """One kind of row, accounted for: ``read = kept + merged + dropped``."""

    what: str
    read: int
    kept: int
    merged: Mapping[str, int] = field(default_factory=dict)  # reason -> rows
    dropped: Mapping[str, int] = field(default_factory=dict)  # reason -> rows

    def __post_init__(self) -> None:
        for reasons in ("merged", "dropped"):
            counted = {reason: int(count) for reason, count in getattr(self, reasons).items() if count}
            object.__setattr__(self, reasons, counted)
        if self.read != self.kept + sum(self.merged.values()) + sum(self.dropped.values()):
            raise ValueError(f"{self.what}: rows unaccounted for in {self}")


@dataclass(frozen=True)
class PreparationReport:
    """What became of every row that was read, and what else a person should know."""

    ledgers: Sequence[Ledger]
    notes: Sequence[str]

    def lines(self) -> list[str]:
        """The report as text, a line per ledger and note."""
        lines = []
        for ledger in self.ledgers:
            parts = [f"{ledger.what}: {ledger.read:,} read, {ledger.kept:,} kept"]
            parts += [f"{count:,} merged ({reason})" for reason, count in ledger.merged.items()]
            parts += [f"{count:,} dropped ({reason})" for reason, count in ledger.dropped.items()]
            lines.append(", ".join(parts))
        return lines + [f"note: {note}" for note in self.notes]


@dataclass(frozen=True)
class Raw:
    """What a reader leaves: the columns of its tables, and which of their behaviors were chosen."""

    interactions: RawInteractions
    links: RawLinks
    users: RawUsers | None = None
    behaviors: Sequence[int] = ()  # keys of the interactions' names, in the order of the dataset
    extra_behaviors: Sequence[int] = ()  # additional ones; they do not affect which users are kept
    provenance: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()  # what a person should know of how the tables were read


@dataclass(frozen=True)
class Rules:
    """Which users and links of the raw data enter the dataset."""

    user_filter: UserFilter = UserFilter()
    self_links: SelfLinks = "drop"
    strict: bool = False  # refuse a link to oneself or to a user without records

    def __post_init__(self) -> None:
        if self.self_links not in get_args(SelfLinks):
            raise UsageError(unknown("self_links", self.self_links, get_args(SelfLinks)))


def assemble(
    raw: Raw, rules: Rules, *, name: str
) -> tuple[Ids, Graph, tuple[Behavior, ...], dict[str, Attribute], PreparationReport]:
    """The users, graph, chosen behaviors (in that order), attributes and report of a dataset.

    Whether a user is kept depends on its links and on its records in ``raw.behaviors``.
    """
    chosen = [*raw.behaviors, *raw.extra_behaviors]
    rows = raw.interactions.of(chosen)
    links, users = raw.links, raw.users
    ids, (user, source, target, *listed) = encode(
        rows.user, links.source, links.target, *([users.user] if users else [])
    )
    recorded = np.zeros(len(ids), dtype=bool)
    recorded[np.concatenate([user, *listed])] = True
    if rules.strict:
        _refuse_strange_links(source, target, links.locate, recorded)
    graph, unused, repeats = _make_graph(len(ids), source, target, links.weight, rules.self_links)
    at = {code: np.flatnonzero(rows.behavior == code) for code in chosen}
    distinct = {code: _distinct(rows, at[code], user, rows.names[code]) for code in chosen}

    records = np.zeros(len(ids), dtype=np.int64)
    for code in raw.behaviors:
        records += np.bincount(distinct[code].user, minlength=len(ids))
    known = records > 0
    known[np.concatenate([source, target, *listed])] = True
    kept, friends, dropped = _filter(graph, records, known, rules.user_filter)
    if not kept.any():
        raise DataError(f"{name}: no user is left of {len(ids):,} {rules.user_filter.text()}; lower the filter")

    built = {code: _restrict(distinct[code], kept, rules.user_filter) for code in chosen}
    ledgers = [Ledger("users", len(ids), int(kept.sum()), dropped=dropped)]
    n_links, n_kept = ((network.n_links + network.n_self_links()) // 2 for network in (graph, friends))
    other_direction = len(source) - sum(unused.values()) - repeats - n_links
    merged = {"repeat of the same link": repeats, "other direction of a link": other_direction}
    unused["to a user that is dropped"] = n_links - n_kept
    ledgers.append(Ledger("links", len(source), n_kept, merged, unused))
    if len(rows) < len(raw.interactions):
        left = len(raw.interactions) - len(rows)
        ledgers.append(Ledger("interactions of other behaviors", left, 0, dropped={"behavior not chosen": left}))
    for code in chosen:
        ledgers += _behavior_ledgers(len(at[code]), distinct[code], built[code])
    behaviors = tuple(built.values())
    notes = [*raw.notes, *_strangers(source, target, recorded, ids), *_unlike(friends, behaviors)]
    attributes = _align(users, listed[0], len(ids), kept) if users else {}
    return ids.subset(np.flatnonzero(kept)), friends, behaviors, attributes, PreparationReport(ledgers, notes)


def _strangers(source: NDArray[Any], target: NDArray[Any], recorded: NDArray[np.bool_], ids: Ids) -> list[str]:
    """A note if hardly any linked user has records: the ids of the two tables may be written differently."""
    linked = np.zeros(len(ids), dtype=bool)
    linked[source] = True
    linked[target] = True
    total = int(np.count_nonzero(linked))
    both = int(np.count_nonzero(linked & recorded))
    if not total or both > total * FEW:
        return []
    return [
        f"only {both:,} of {total:,} linked users have records; are the ids written alike? "
        f"(links have {ids[int(np.argmax(linked))]!r}, records {ids[int(np.argmax(recorded))]!r})"
    ]


def _unlike(friends: Graph, behaviors: Sequence[Behavior]) -> list[str]:
    """A note if friends have little in common: the ids of the two tables may mean different users."""
    measured = {behavior.name: likeness(friends, behavior) for behavior in behaviors}
    clear = {name: alike for name, alike in measured.items() if alike.is_hardly_above_chance is not None}
    if not clear or not all(alike.is_hardly_above_chance for alike in clear.values()):
        return []
    ratios = ", ".join(f"{name} {with_spread(alike.ratio, alike.ratio_error)}" for name, alike in clear.items())
    return [
        f"friends are hardly more alike than any two users (times as alike: {ratios}); "
        "do the ids of both tables mean the same users?"
    ]


def take(column: IdColumn, rows: NDArray[Any]) -> IdColumn:
    """Some rows of an id column."""
    return column[rows] if isinstance(column, np.ndarray) else column.take(rows)


def _refuse_strange_links(
    source: NDArray[Any], target: NDArray[Any], locate: Locate, recorded: NDArray[np.bool_]
) -> None:
    loops = np.flatnonzero(source == target)
    advice = "remove them, or leave out strict mode, which drops and counts them"
    refuse_rows(loops, locate, "target_id", "a link of a user to itself", advice)
    for column, ends in (("source_id", source), ("target_id", target)):
        strange = np.flatnonzero(~recorded[ends])
        advice = "add the user, or leave out strict mode"
        refuse_rows(strange, locate, column, "a user without a record in the chosen behaviors", advice)


def _make_graph(
    n_users: int, source: NDArray[Any], target: NDArray[Any], weight: NDArray[np.float32] | None, self_links: SelfLinks
) -> tuple[Graph, dict[str, int], int]:
    """The undirected graph, the rows that are no link of it by reason, and how many of the others are repeats."""
    is_link = np.ones(len(source), dtype=bool) if weight is None else weight > 0
    usable = is_link & (source != target) if self_links == "drop" else is_link
    unused = {
        "of weight 0": int(np.count_nonzero(~is_link)),
        "to oneself": int(np.count_nonzero(is_link & ~usable)),
    }
    if not usable.all():
        source, target = source[usable], target[usable]
        weight = None if weight is None else weight[usable]
    graph, repeats = undirected(n_users, source, target, weight)
    return graph, unused, repeats


def _distinct(rows: RawInteractions, at: NDArray[Any], user: NDArray[Any], name: str) -> Behavior:
    """The distinct (user, item) pairs of one behavior; of repeated pairs the earliest time counts."""
    if not len(at):
        raise DataError(f"behavior {name!r} has no interactions; leave it out or check its name")
    whole = len(at) == len(rows)
    items, (item,) = encode(rows.item if whole else take(rows.item, at))
    keys = (user if whole else user[at]).astype(np.int64) * len(items) + item
    times = None
    if rows.timestamp is None:
        keys.sort()
        first = run_starts(keys)
    else:
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        first = run_starts(keys)
        times = np.minimum.reduceat(rows.timestamp[at][order], np.flatnonzero(first))
    keys = keys[first]
    user_rows, item_rows = np.divmod(keys, len(items))
    return Behavior(name, items, user_rows.astype(np.int32), item_rows.astype(np.int32), times)


def _filter(
    graph: Graph, records: NDArray[Any], known: NDArray[np.bool_], wanted: UserFilter
) -> tuple[NDArray[np.bool_], Graph, dict[str, int]]:
    """Who stays, the graph among them, and how many were dropped for what."""
    linked = graph.degrees >= wanted.min_links
    recorded = records >= wanted.min_records
    kept = known & linked & recorded
    dropped = {
        "known from an extra behavior alone": int(np.count_nonzero(~known)),
        f"fewer than {wanted.min_links} links": int(np.count_nonzero(known & ~linked)),
        f"fewer than {wanted.min_records} records": int(np.count_nonzero(known & linked & ~recorded)),
    }
    friends = graph if kept.all() else graph.restrict(kept)
    if wanted.drop_isolated:
        has_friend = friends.degrees > 0
        dropped["no link to a user that stays"] = int(np.count_nonzero(~has_friend))
        kept[np.flatnonzero(kept)[~has_friend]] = False
        friends = friends if has_friend.all() else friends.restrict(has_friend)
    return kept, friends, dropped


def _restrict(behavior: Behavior, kept: NDArray[np.bool_], wanted: UserFilter) -> Behavior:
    """The interactions of the users that stay, and the items they touched."""
    if kept.all():
        return behavior
    mine = kept[behavior.user]
    if not mine.any():
        raise DataError(f"behavior {behavior.name!r}: none of its users is left {wanted.text()}; lower the filter")
    touched = np.bincount(behavior.item[mine], minlength=behavior.n_items) > 0
    return behavior.restrict(kept, touched, mine)


def _behavior_ledgers(read: int, distinct: Behavior, kept: Behavior) -> list[Ledger]:
    merged = {"repeat of the same user and item": read - len(distinct)}
    dropped = {"of a user that is dropped": len(distinct) - len(kept)}
    items = {"touched by no user that stays": distinct.n_items - kept.n_items}
    return [
        Ledger(f"{kept.name} interactions", read, len(kept), merged, dropped),
        Ledger(f"{kept.name} items", distinct.n_items, kept.n_items, dropped=items),
    ]


def _align(users: RawUsers, listed: NDArray[Any], n: int, kept: NDArray[np.bool_]) -> dict[str, Attribute]:
    """Attributes by user row: NaN or −1 for users that the table does not list."""
    order = np.argsort(listed, kind="stable")
    repeated = order[~run_starts(listed[order])]
    refuse_rows(repeated, users.locate, "user_id", "a user listed before", "list every user once")
    aligned = {}
    for name, attribute in users.attributes.items():
        categories = attribute.categories
        values = np.full(n, np.nan if categories is None else -1, dtype=attribute.values.dtype)
        values[listed] = attribute.values
        values = values[kept]
        if categories is not None:  # only those that a user has
            used = np.bincount(values[values >= 0], minlength=len(categories)) > 0
            rows = np.append(np.cumsum(used, dtype=np.int32) - np.int32(1), np.int32(-1))  # unknown, −1, stays
            values = rows[values]
            categories = categories.subset(np.flatnonzero(used))
        aligned[name] = Attribute(values, categories)
    return aligned
