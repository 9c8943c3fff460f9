"""From raw columns to a dataset: ids to rows, repeats merged, users filtered, every row accounted for.

The user filter is the paper's preprocessing ("users that have less than 2 social links and 2 multi-category behavior
records"), in the one reading that gives its Table 1: both counts are taken on the unfiltered data, both must suffice,
and users whose friends were all dropped are dropped at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mcne.data.behavior import Attribute, Behavior, likeness
from mcne.data.graph import Graph, directed, undirected
from mcne.data.ids import Ids, Names, encode
from mcne.data.raw import Locate, Raw, RawInteractions, RawItems, refuse_rows
from mcne.data.records import REPEATED, distinct, divide, known_rows, told_of_items, told_of_users, with_known
from mcne.errors import DataError, UnknownError
from mcne.text import counted, with_spread

SelfLinks = Literal["drop", "keep"]
FEW = 0.1  # below this share of linked users with records, the two tables hardly belong together


@dataclass(frozen=True)
class UserFilter:
    """Which users stay: those with this many links and records before filtering, then with a link left.

    A user has as many links as there are users whom it follows, who follow it, or both.
    """

    min_links: int = 0
    min_records: int = 0
    drop_isolated: bool = False

    def text(self) -> str:
        """What a user needs, in words."""
        needed = {
            f"at least {counted(self.min_links, 'link')}": self.min_links,
            f"at least {counted(self.min_records, 'record')}": self.min_records,
            "a link to a user who is kept": self.drop_isolated,
        }
        return _listed([words for words, is_needed in needed.items() if is_needed], "and")

    def remedy(self) -> str:
        """What to change where no user has that."""
        options = {"lower --min-links": self.min_links, "lower --min-records": self.min_records}
        options |= {"omit --drop-isolated": self.drop_isolated}
        return _listed([option for option, is_used in options.items() if is_used], "or")


def _listed(words: Sequence[str], last: str) -> str:
    """``a, b and c``."""
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


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
class Rules:
    """Which users and links of the raw data enter the dataset."""

    user_filter: UserFilter = UserFilter()
    self_links: SelfLinks = "drop"
    strict: bool = False  # refuse a link to oneself or to a user without records
    directed: bool = False  # keep the direction of links: from who follows to who is followed

    def __post_init__(self) -> None:
        if self.self_links not in get_args(SelfLinks):
            raise UnknownError.of("self_links", self.self_links, get_args(SelfLinks))


def assemble(
    raw: Raw, rules: Rules, *, name: str
) -> tuple[Ids, Graph, tuple[Behavior, ...], dict[str, Attribute], Names | None, PreparationReport]:
    """The users, graph, chosen behaviors (in that order), attributes and names of users, and report of a dataset.

    Whether a user is kept depends on its links and on its records in ``raw.behaviors``.
    """
    chosen = [*raw.behaviors, *raw.extra_behaviors]
    rows, below = divide(raw.interactions.of(chosen), raw.positive_from)
    links, users = raw.links, raw.users
    ids, (user, source, target, *listed) = encode(
        rows.user, links.source, links.target, *([users.user] if users else [])
    )
    recorded = np.zeros(len(ids), dtype=bool)
    recorded[np.concatenate([user, *listed])] = True
    if rules.strict:
        _refuse_strange_links(source, target, links.locate, recorded)
    graph, unused, repeats = _make_graph(len(ids), source, target, links.weight, rules)
    at = {code: np.flatnonzero(rows.behavior == code) for code in chosen}
    merged_rows = {code: distinct(rows, at[code], user, rows.names[code]) for code in chosen}

    records = np.zeros(len(ids), dtype=np.int64)
    for code in raw.behaviors:
        records += np.bincount(merged_rows[code].user, minlength=len(ids))
    known = records > 0
    known[np.concatenate([source, target, *listed])] = True
    kept, friends, dropped = _filter(graph, records, known, rules.user_filter)
    if not kept.any():
        wanted = rules.user_filter
        raise DataError(f"none of the {len(ids):,} users has {wanted.text()}", name, wanted.remedy())

    built = {code: _restrict(merged_rows[code], kept, rules.user_filter) for code in chosen}
    ledgers = [Ledger("users", len(ids), int(kept.sum()), dropped=dropped)]
    n_links, n_kept = graph.n_links, friends.n_links
    other_direction = len(source) - sum(unused.values()) - repeats - n_links  # 0 of directed links
    merged = {"repeat of the same link": repeats, "other direction of a link": other_direction}
    unused["to a user that is dropped"] = n_links - n_kept
    ledgers.append(Ledger("links", len(source), n_kept, merged, unused))
    if left := len(raw.interactions) - len(rows) - (0 if below is None else len(below)):
        ledgers.append(Ledger("interactions of other behaviors", left, 0, dropped={"behavior not chosen": left}))
    for code in chosen:
        ledgers += _behavior_ledgers(len(at[code]), merged_rows[code], built[code])
    stay = ids.subset(np.flatnonzero(kept))
    if below is not None or raw.known is not None:
        built, known_ledgers = _know(raw, below, stay, built)
        ledgers += known_ledgers
    behaviors = tuple(built.values())
    if raw.items is not None:
        behaviors, told = _tell(raw.items, behaviors)
        ledgers.append(told)
    notes = [*raw.notes, *_strangers(source, target, recorded, ids), *_unlike(friends, behaviors)]
    attributes, names = told_of_users(users, listed[0], kept) if users else ({}, None)
    return stay, friends, behaviors, attributes, names, PreparationReport(ledgers, notes)


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
    pairs = friends.symmetric()
    measured = {behavior.name: likeness(pairs, behavior) for behavior in behaviors}
    clear = {name: alike for name, alike in measured.items() if alike.is_hardly_above_chance is not None}
    if not clear or not all(alike.is_hardly_above_chance for alike in clear.values()):
        return []
    ratios = ", ".join(f"{name} {with_spread(alike.ratio, alike.ratio_error)}" for name, alike in clear.items())
    return [
        f"linked users are hardly more similar than random pairs (ratio: {ratios}); "
        "do the ids of both tables mean the same users?"
    ]


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
    n_users: int, source: NDArray[Any], target: NDArray[Any], weight: NDArray[np.float32] | None, rules: Rules
) -> tuple[Graph, dict[str, int], int]:
    """The graph, the rows that are no link of it by reason, and how many of the others are repeats."""
    is_link = np.ones(len(source), dtype=bool) if weight is None else weight > 0
    usable = is_link & (source != target) if rules.self_links == "drop" else is_link
    unused = {
        "of weight 0": int(np.count_nonzero(~is_link)),
        "to oneself": int(np.count_nonzero(is_link & ~usable)),
    }
    if not usable.all():
        source, target = source[usable], target[usable]
        weight = None if weight is None else weight[usable]
    link = directed if rules.directed else undirected
    graph, repeats = link(n_users, source, target, weight)
    return graph, unused, repeats


def _filter(
    graph: Graph, records: NDArray[Any], known: NDArray[np.bool_], wanted: UserFilter
) -> tuple[NDArray[np.bool_], Graph, dict[str, int]]:
    """Who stays, the graph among them, and how many were dropped for what; links count in either direction."""
    linked = graph.symmetric().degrees >= wanted.min_links
    recorded = records >= wanted.min_records
    kept = known & linked & recorded
    dropped = {
        "known from an extra behavior alone": int(np.count_nonzero(~known)),
        f"fewer than {wanted.min_links} links": int(np.count_nonzero(known & ~linked)),
        f"fewer than {wanted.min_records} records": int(np.count_nonzero(known & linked & ~recorded)),
    }
    friends = graph if kept.all() else graph.restrict(kept)
    if wanted.drop_isolated:
        has_friend = friends.symmetric().degrees > 0
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
        raise DataError(
            f"none of its users has {wanted.text()}",
            f"behavior {behavior.name!r}",
            wanted.remedy(),
            value=behavior.name,
        )
    touched = np.bincount(behavior.item[mine], minlength=behavior.n_items) > 0
    return behavior.restrict(kept, touched, mine)


def _behavior_ledgers(read: int, distinct: Behavior, kept: Behavior) -> list[Ledger]:
    merged = {REPEATED: read - len(distinct)}
    dropped = {"of a user that is dropped": len(distinct) - len(kept)}
    items = {"not used by any remaining user": distinct.n_items - kept.n_items}
    return [
        Ledger(f"{kept.name} interactions", read, len(kept), merged, dropped),
        Ledger(f"{kept.name} items", distinct.n_items, kept.n_items, dropped=items),
    ]


def _know(
    raw: Raw, below: RawInteractions | None, users: Ids, built: Mapping[int, Behavior]
) -> tuple[dict[int, Behavior], list[Ledger]]:
    """The behaviors with the pairs that are known and no records, and what became of each row of these."""
    knowing = {}
    ledgers = []
    n_listed = 0
    for code, behavior in built.items():
        sources, reason = known_rows(raw, below, code)
        user = np.concatenate([users.rows_in(rows.user) for rows in sources])
        item = np.concatenate([behavior.items.rows_in(rows.item) for rows in sources])
        knowing[code], merged, dropped = with_known(behavior, user, item)
        n_known = len(user) - sum(merged.values()) - sum(dropped.values())
        ledgers.append(Ledger(f"{behavior.name} known only ({reason})", len(user), n_known, merged, dropped))
        n_listed += len(sources[-1]) if raw.known is not None else 0
    if raw.known is not None and (left := len(raw.known) - n_listed):
        ledgers.append(Ledger("known pairs of other behaviors", left, 0, dropped={"behavior not chosen": left}))
    return knowing, ledgers


def _tell(items: RawItems, behaviors: Sequence[Behavior]) -> tuple[tuple[Behavior, ...], Ledger]:
    """The behaviors with names and attributes of their items, and which rows told of none."""
    told, has_told = told_of_items(items, behaviors)
    is_about_one = np.zeros(len(items), dtype=bool)
    for behavior in behaviors:
        is_about_one |= items.about(behavior.name)
    dropped = {
        "of a behavior that is not chosen": int(np.count_nonzero(~is_about_one)),
        "without interactions": int(np.count_nonzero(is_about_one & ~has_told)),
    }
    return tuple(told), Ledger("items listed", len(items), int(np.count_nonzero(has_told)), dropped=dropped)
