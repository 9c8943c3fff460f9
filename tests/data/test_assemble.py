"""The paper's preprocessing equals its recipe done with sets and loops, and every row is accounted for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.errors import refused
from tests.values import not_none

from mcne.data.assemble import Ledger, Rules, UserFilter
from mcne.data.behavior import Attribute
from mcne.data.dataset import SocialDataset
from mcne.data.ids import Ids
from mcne.data.raw import Raw, RawInteractions, RawLinks, RawUsers
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.data.trust import PAPER_FILTER
from mcne.errors import DataError

FEW = settings(max_examples=150, deadline=None)
NAMES = {1: "Books", 2: "Beauty", 3: "Travel", 4: "Food"}

Records = list[tuple[int, int, int]]  # user, item, category
Trust = list[tuple[int, int]]


def place(what: str) -> Any:
    return lambda row, column: f"{what} row {row + 1}, column {column!r}"


def raw(records: Records, times: list[int] | None = None) -> RawInteractions:
    user, item, category = np.array(records, dtype=np.int64).reshape(-1, 3).T
    timestamp = None if times is None else np.array(times, dtype=np.int64)
    return RawInteractions(user, item, category, NAMES, timestamp)


def raw_links(trust: Trust, weights: list[float] | None = None) -> RawLinks:
    source, target = np.array(trust, dtype=np.int64).reshape(-1, 2).T
    weight = None if weights is None else np.array(weights, dtype=np.float32)
    return RawLinks(source, target, weight, place("trust"))


def build(records: Records, trust: Trust, times: list[int] | None = None, **options: Any) -> SocialDataset:
    rules = Rules(**{name: options.pop(name) for name in ("user_filter", "self_links", "strict") if name in options})
    links = raw_links(trust, options.pop("weights", None))
    options = {"behaviors": [2, 1]} | options
    return SocialDataset.from_raw(Raw(raw(records, times), links, **options), rules, name="toy")


def links_of(dataset: SocialDataset) -> set[tuple[int | str, int | str]]:
    ids = list(dataset.users)
    pairs = zip(dataset.graph.sources(), dataset.graph.indices, strict=True)
    return {(ids[source], ids[target]) for source, target in pairs}


def pairs_of(dataset: SocialDataset, name: str) -> set[tuple[int | str, int | str]]:
    behavior = dataset.behavior(name)
    rows = zip(behavior.user, behavior.item, strict=True)
    return {(dataset.users[int(user)], behavior.items[int(item)]) for user, item in rows}


def times_of(dataset: SocialDataset, name: str) -> list[int]:
    times: list[int] = not_none(dataset.behavior(name).timestamp).tolist()
    return times


def notes_of(dataset: SocialDataset) -> tuple[str, ...]:
    return tuple(not_none(dataset.report).notes)


def ledgers_of(dataset: SocialDataset) -> dict[str, Ledger]:
    return {ledger.what: ledger for ledger in not_none(dataset.report).ledgers}


# --- the recipe, step by step, from the description of the data ---


@dataclass
class Recipe:
    """Sets and loops only. ``known`` are the users that links or chosen behaviors name."""

    pairs: dict[int, set[tuple[int, int]]] = field(default_factory=dict)  # category -> (user, item) of those kept
    links: set[tuple[int, int]] = field(default_factory=set)  # stored directions among those kept
    users: set[int] = field(default_factory=set)
    ledgers: dict[str, Ledger] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.users or not all(self.pairs.values())


def follow_recipe(
    records: Records, trust: Trust, main: list[int], extra: list[int], wanted: UserFilter, *, keep_loops: bool
) -> Recipe:
    recipe = Recipe()
    chosen = [*main, *extra]
    # 1. the chosen categories, repeated (user, item) rows of a category collapsed to one
    pairs = {c: {(u, i) for u, i, category in records if category == c} for c in chosen}
    # 2. both directions, repeats dropped, loops as asked
    loops = [] if keep_loops else [(a, b) for a, b in trust if a == b]
    arcs = [(a, b) for a, b in trust if keep_loops or a != b]
    links = set(arcs) | {(b, a) for a, b in arcs}
    # 3. one pass: both counts on the unfiltered data
    named = {u for pair in trust for u in pair}
    universe = named | {u for c in chosen for u, _ in pairs[c]}
    degree = {u: sum(a == u for a, _ in links) for u in universe}
    count = {u: sum(user == u for c in main for user, _ in pairs[c]) for u in universe}
    strangers = {u for u in universe if u not in named and not count[u]}
    few_links = {u for u in universe - strangers if degree[u] < wanted.min_links}
    few_records = {u for u in universe - strangers - few_links if count[u] < wanted.min_records}
    kept = universe - strangers - few_links - few_records
    # 4. the graph of those kept; then those without a link go
    alone = {u for u in kept if wanted.drop_isolated and not any(a == u and b in kept for a, b in links)}
    kept -= alone
    recipe.users = kept
    recipe.links = {(a, b) for a, b in links if a in kept and b in kept}
    recipe.pairs = {c: {(u, i) for u, i in pairs[c] if u in kept} for c in chosen}

    reasons = {
        "known from an extra behavior alone": len(strangers),
        f"fewer than {wanted.min_links} links": len(few_links),
        f"fewer than {wanted.min_records} records": len(few_records),
        "no link to a user that stays": len(alone),
    }
    once = {frozenset(link) for link in links}
    once_kept = {frozenset(link) for link in recipe.links}
    recipe.ledgers["users"] = Ledger("users", len(universe), len(kept), dropped=reasons)
    recipe.ledgers["links"] = Ledger(
        "links",
        len(trust),
        len(once_kept),
        merged={
            "repeat of the same link": len(arcs) - len(set(arcs)),
            "other direction of a link": len(set(arcs)) - len(once),
        },
        dropped={"to oneself": len(loops), "to a user that is dropped": len(once) - len(once_kept)},
    )
    rest = sum(category not in chosen for *_, category in records)
    if rest:
        what = "interactions of other behaviors"
        recipe.ledgers[what] = Ledger(what, rest, 0, dropped={"behavior not chosen": rest})
    for c in chosen:
        read = sum(category == c for *_, category in records)
        recipe.ledgers[f"{NAMES[c]} interactions"] = Ledger(
            f"{NAMES[c]} interactions",
            read,
            len(recipe.pairs[c]),
            merged={"repeat of the same user and item": read - len(pairs[c])},
            dropped={"of a user that is dropped": len(pairs[c]) - len(recipe.pairs[c])},
        )
        items, items_kept = ({item for _, item in some} for some in (pairs[c], recipe.pairs[c]))
        recipe.ledgers[f"{NAMES[c]} items"] = Ledger(
            f"{NAMES[c]} items",
            len(items),
            len(items_kept),
            dropped={"not used by any remaining user": len(items) - len(items_kept)},
        )
    return recipe


def check(dataset: SocialDataset, expected: Recipe) -> None:
    assert list(dataset.users) == sorted(expected.users)
    assert links_of(dataset) == expected.links
    assert dataset.graph.n_directions == len(expected.links)  # "#Links" counts stored directions
    assert dataset.graph.n_links == len({frozenset(link) for link in expected.links})
    assert dataset.behavior_names == [NAMES[c] for c in expected.pairs]
    for c, pairs in expected.pairs.items():
        assert pairs_of(dataset, NAMES[c]) == pairs
        assert len(dataset.behavior(NAMES[c])) == len(pairs)
        assert list(dataset.behavior(NAMES[c]).items) == sorted({item for _, item in pairs})
    assert ledgers_of(dataset) == expected.ledgers


@st.composite
def networks(draw: st.DrawFn) -> tuple[Records, Trust]:
    """Few users and items, so that repeats, loops and links in both directions are common."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_users, n_records, n_links = draw(st.integers(2, 9)), draw(st.integers(15, 70)), draw(st.integers(4, 40))
    records = random.integers(1, (n_users + 1, 6, 5), (n_records, 3))
    trust = random.integers(1, n_users + 3, (n_links, 2))  # two users more, whom only links know
    return [tuple(row) for row in records.tolist()], [tuple(row) for row in trust.tolist()]


@FEW
@given(networks(), st.booleans())
def test_the_papers_recipe(network: tuple[Records, Trust], with_extra: bool) -> None:
    records, trust = network
    extra = [4] if with_extra else []
    expected = follow_recipe(records, trust, [2, 1], extra, PAPER_FILTER, keep_loops=True)
    options: dict[str, Any] = {"extra_behaviors": extra, "user_filter": PAPER_FILTER, "self_links": "keep"}
    if expected.is_empty:
        with pytest.raises(DataError, match=r"none of the .* users has|no interactions|none of its users has"):
            build(records, trust, **options)
    else:
        check(build(records, trust, **options), expected)


@FEW
@given(
    networks(),
    st.lists(st.integers(1, 4), min_size=1, max_size=4, unique=True),
    st.builds(UserFilter, st.integers(0, 3), st.integers(0, 3), st.booleans()),
    st.booleans(),
    st.data(),
)
def test_any_filter_and_choice(
    network: tuple[Records, Trust], chosen: list[int], wanted: UserFilter, keep_loops: bool, data: st.DataObject
) -> None:
    records, trust = network
    cut = data.draw(st.integers(1, len(chosen)))
    main, extra = chosen[:cut], chosen[cut:]
    expected = follow_recipe(records, trust, main, extra, wanted, keep_loops=keep_loops)
    options: dict[str, Any] = {"behaviors": main, "extra_behaviors": extra, "user_filter": wanted}
    options["self_links"] = "keep" if keep_loops else "drop"
    if expected.is_empty:
        with pytest.raises(DataError):
            build(records, trust, **options)
    else:
        check(build(records, trust, **options), expected)


@FEW
@given(networks(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_never_matters(network: tuple[Records, Trust], random: Any) -> None:
    records, trust = network
    timed = [(record, random.randrange(100)) for record in [*records, (1, 1, 1), (1, 1, 2)]]
    weighted = [(pair, random.choice([0.0, 0.5, 2.0])) for pair in trust]
    prints = set()
    for _ in range(3):
        dataset = build(
            [record for record, _ in timed],
            [pair for pair, _ in weighted],
            [time for _, time in timed],
            weights=[weight for _, weight in weighted],
        )
        prints.add((dataset.fingerprint, "\n".join(not_none(dataset.report).lines())))
        random.shuffle(timed)
        random.shuffle(weighted)
    assert len(prints) == 1


# --- the points of the recipe that are easy to get wrong ---


def two_records(*users: int) -> Records:
    return [(user, item, item) for user in users for item in (1, 2)]


def test_counts_are_never_taken_again() -> None:
    """Without user 9, who has no record, 1 and 2 have one link each: fewer than two, and they stay."""
    trust = [(1, 2), (1, 9), (9, 2)]
    dataset = build(two_records(1, 2), trust, user_filter=PAPER_FILTER, self_links="keep")
    assert list(dataset.users) == [1, 2]
    assert dataset.graph.degrees.tolist() == [1, 1]


def test_users_left_without_any_link_go_but_only_then() -> None:
    """Both friends of 3 are dropped for their records, so 3 goes; the chain does not go on from there."""
    trust = [(1, 2), (1, 8), (2, 8), (3, 8), (3, 9), (1, 3)]
    kept = build(two_records(1, 2, 3), trust, user_filter=PAPER_FILTER)
    assert list(kept.users) == [1, 2, 3]
    trust.remove((1, 3))
    dataset = build(two_records(1, 2, 3), trust, user_filter=PAPER_FILTER)
    assert list(dataset.users) == [1, 2]
    assert ledgers_of(dataset)["users"].dropped == {"fewer than 2 links": 1, "fewer than 2 records": 1} | {
        "no link to a user that stays": 1
    }


def test_a_link_to_oneself_is_a_link() -> None:
    """With its loop, 1 has two links; its one friend has too few, yet 1 is not alone."""
    trust = [(1, 1), (1, 2)]
    dataset = build(two_records(1, 2), trust, user_filter=PAPER_FILTER, self_links="keep")
    assert list(dataset.users) == [1]
    assert links_of(dataset) == {(1, 1)}
    with pytest.raises(
        DataError,
        match=r"toy: none of the 2 users has at least 2 links, at least 2 records and a link to .*; lower --min-links",
    ):
        build(two_records(1, 2), trust, user_filter=PAPER_FILTER, self_links="drop")


def test_a_link_in_both_directions_is_one_link() -> None:
    with pytest.raises(DataError, match="none of the 2 users has at least 2 links"):
        build(two_records(1, 2), [(1, 2), (2, 1), (1, 2)], user_filter=PAPER_FILTER)


def test_repeated_records_count_once_but_one_item_of_two_categories_twice() -> None:
    triangle = [(1, 2), (2, 3), (1, 3)]
    records = [(1, 7, 1), (1, 7, 1), (2, 7, 1), (2, 7, 2), (3, 7, 1), (3, 8, 1)]
    dataset = build(records, triangle, user_filter=PAPER_FILTER)
    assert list(dataset.users) == [2, 3]
    assert pairs_of(dataset, "Books") == {(2, 7), (3, 7), (3, 8)}
    assert pairs_of(dataset, "Beauty") == {(2, 7)}


def test_only_the_chosen_categories_count() -> None:
    triangle = [(1, 2), (2, 3), (1, 3)]
    records = [*two_records(1, 2), (3, 1, 1), (3, 1, 3), (3, 2, 3)]
    assert list(build(records, triangle, user_filter=PAPER_FILTER).users) == [1, 2]
    assert list(build(records, triangle, user_filter=PAPER_FILTER, behaviors=[2, 1, 3]).users) == [1, 2, 3]


def test_extra_behaviors_ride_along() -> None:
    """They neither count for the filter nor bring users; the items they bring are those of the users that stay."""
    triangle = [(1, 2), (2, 3), (1, 3)]
    records = [*two_records(1, 2), (3, 1, 4), (3, 2, 4), (3, 3, 4), (1, 5, 4), (6, 6, 4)]
    dataset = build(records, triangle, user_filter=PAPER_FILTER, extra_behaviors=[4])
    assert list(dataset.users) == [1, 2]
    assert dataset.behavior_names == ["Beauty", "Books", "Food"]
    assert pairs_of(dataset, "Food") == {(1, 5)}
    assert list(dataset.behavior("Food").items) == [5]
    everyone = build(records, triangle, extra_behaviors=[4])
    assert list(everyone.users) == [1, 2, 3]  # 6 is known from the extra behavior alone
    assert ledgers_of(everyone)["users"].dropped == {"known from an extra behavior alone": 1}


def test_users_known_from_links_alone_stay_without_a_filter() -> None:
    dataset = build(two_records(1), [(5, 6), (1, 5)])
    assert list(dataset.users) == [1, 5, 6]
    assert links_of(dataset) == {(1, 5), (5, 1), (5, 6), (6, 5)}
    loops = build(two_records(1), [(7, 7)])
    assert list(loops.users) == [1, 7]  # its loop is dropped, the user is not
    assert ledgers_of(loops)["links"].dropped == {"to oneself": 1}


def test_behaviors_come_in_the_order_asked_for() -> None:
    records = [(1, 1, 1), (1, 2, 2), (1, 3, 3)]
    assert build(records, [], behaviors=[3, 1, 2]).behavior_names == ["Travel", "Books", "Beauty"]


def test_the_earliest_time_of_a_repeated_record_counts() -> None:
    records = [(1, 1, 1), (1, 1, 1), (1, 1, 1), (2, 1, 1), (1, 1, 2), (2, 1, 2)]
    dataset = build(records, [], [30, 10, 20, 5, 1, 40])
    assert times_of(dataset, "Books") == [10, 5]
    assert times_of(dataset, "Beauty") == [1, 40]
    kept = build(records, [(1, 1)], [30, 10, 20, 5, 1, 40], user_filter=UserFilter(min_links=1), self_links="keep")
    assert times_of(kept, "Books") == [10]
    assert times_of(kept, "Beauty") == [1]


def test_weights_of_links() -> None:
    """Weight 0 is no link at all; of the weights of one link the largest counts."""
    trust = [(1, 2), (2, 1), (2, 3), (3, 3), (1, 3), (4, 4)]
    dataset = build(two_records(1, 2), trust, weights=[0.5, 2.0, 0.0, 0.0, 1.5, 1.0])
    weights = zip(dataset.graph.sources(), dataset.graph.indices, not_none(dataset.graph.weights), strict=True)
    assert [(int(a), int(b), float(w)) for a, b, w in weights] == [(0, 1, 2), (0, 2, 1.5), (1, 0, 2), (2, 0, 1.5)]
    links = ledgers_of(dataset)["links"]
    assert (links.read, links.kept) == (6, 2)
    assert links.merged == {"other direction of a link": 1}
    assert links.dropped == {"of weight 0": 2, "to oneself": 1}


# --- strict, and what else is refused ---


def test_strict_refuses_a_link_to_oneself() -> None:
    trust = [(1, 2), (2, 2), (1, 1)]
    with pytest.raises(DataError, match=r"^trust row 2, column 'target_id': a link of a user to itself \(2 rows\)"):
        build(two_records(1, 2), trust, strict=True)


@pytest.mark.parametrize(("pair", "column"), [((1, 9), "target_id"), ((9, 1), "source_id")])
def test_strict_refuses_links_of_users_without_records(pair: tuple[int, int], column: str) -> None:
    trust = [(1, 2), pair, pair]
    with pytest.raises(
        DataError,
        match=rf"^trust row 2, column '{column}': a user without a record .* \(2 rows\)",
    ):
        build(two_records(1, 2), trust, strict=True)
    listed = RawUsers(np.array([9]), {}, place("users"))
    assert list(build(two_records(1, 2), trust, strict=True, users=listed).users) == [1, 2, 9]


def test_strict_changes_nothing_where_nothing_is_strange() -> None:
    trust = [(1, 2), (2, 1)]
    strict = build(two_records(1, 2), trust, strict=True)
    assert strict.fingerprint == build(two_records(1, 2), trust).fingerprint


def test_a_behavior_without_interactions_is_refused() -> None:
    with refused(DataError, place="behavior 'Travel'", value="Travel", about="no interactions"):
        build(two_records(1), [], behaviors=[1, 3])


def test_a_behavior_whose_users_are_all_dropped_is_refused() -> None:
    records = [(1, 1, 1), (1, 2, 1), (2, 1, 1), (2, 2, 1), (3, 1, 3)]
    with pytest.raises(DataError, match=r"behavior 'Travel': none of its users has at least 2 records; lower"):
        build(records, [(1, 2)], behaviors=[1, 3], user_filter=UserFilter(min_records=2))


# --- attributes of users ---


def listed_users(users: list[int], ages: list[float], towns: list[int]) -> RawUsers:
    attributes = {
        "age": Attribute(np.array(ages, dtype=np.float64)),
        "town": Attribute(np.array(towns, dtype=np.int32), Ids(["Lyon", "Nice", "Paris"])),
    }
    return RawUsers(np.array(users), attributes, place("users"))


def town_of(dataset: SocialDataset) -> dict[int | str, int | str | None]:
    town = dataset.attributes["town"]
    assert town.categories is not None
    names = [None if code < 0 else town.categories[int(code)] for code in town.values]
    return dict(zip(dataset.users, names, strict=True))


def test_attributes_follow_their_users() -> None:
    users = listed_users([3, 1, 9], [30.0, np.nan, 90.0], [2, 0, -1])
    dataset = build(two_records(1, 2, 3), [], users=users)
    assert list(dataset.users) == [1, 2, 3, 9]  # 9 is known from the list of users alone
    assert np.array_equal(dataset.attributes["age"].values, [np.nan, np.nan, 30, 90], equal_nan=True)
    assert town_of(dataset) == {1: "Lyon", 2: None, 3: "Paris", 9: None}


def test_attributes_of_users_that_are_dropped_leave_no_trace() -> None:
    """Whether a dropped user was ever listed cannot be seen, so the same users give the same fingerprint."""
    records = two_records(1, 2)
    trust = [(1, 2)]
    wanted = UserFilter(min_records=1)
    with_nine = build(records, trust, users=listed_users([1, 2, 9], [1, 2, 9], [2, 0, 1]), user_filter=wanted)
    assert town_of(with_nine) == {1: "Paris", 2: "Lyon"}
    assert list(not_none(with_nine.attributes["town"].categories)) == ["Lyon", "Paris"]
    without = build(records, trust, users=listed_users([2, 1], [2, 1], [0, 2]), user_filter=wanted)
    assert with_nine.fingerprint == without.fingerprint


def test_a_categorical_attribute_that_nobody_has() -> None:
    users = RawUsers(np.array([1]), {"town": Attribute(np.array([-1], dtype=np.int32), Ids([]))}, place("users"))
    dataset = build(two_records(1, 2), [], users=users)
    assert dataset.attributes["town"].values.tolist() == [-1, -1]
    assert list(not_none(dataset.attributes["town"].categories)) == []


def test_a_user_listed_twice_is_refused() -> None:
    users = listed_users([3, 1, 2, 1, 1], [0.0] * 5, [0] * 5)
    with pytest.raises(DataError, match=r"^users row 4, column 'user_id': duplicate user \(2 rows\)"):
        build(two_records(1, 2, 3), [], users=users)


# --- friends who have nothing in common ---


def prepared_again(offset: int, *, behaviors: list[int] | None = None, n_links: int | None = None) -> SocialDataset:
    """Planted users whose links name them by an id that is off by this much."""
    planted, _ = generate(SyntheticConfig(users=500, behaviors=2, seed=1))
    user, item, code = (
        np.concatenate(
            [part[k] for part in ((b.user, b.item, np.full(len(b), c)) for c, b in enumerate(planted.behaviors))]
        )
        for k in range(3)
    )
    once = np.flatnonzero(planted.graph.sources() < planted.graph.indices)[:n_links]
    source, target = planted.graph.sources()[once] + offset, planted.graph.indices[once] + offset
    again = Raw(
        RawInteractions(user, item, code, {0: "Books", 1: "Movies"}, None),
        RawLinks(source, target, None, place("links")),
        behaviors=behaviors or [0, 1],
    )
    return SocialDataset.from_raw(again, Rules(), name="again")


def test_friends_who_are_strangers_are_noted() -> None:
    (note,) = notes_of(prepared_again(1))
    number = r"[01]\.\d\d ± 0\.\d\d"
    assert re.fullmatch(
        rf"linked users are hardly more similar than random pairs \(ratio: Books {number}, Movies {number}\); "
        r"do the ids of both tables mean the same users\?",
        note,
    )
    (note,) = notes_of(prepared_again(1, behaviors=[1]))
    assert "(ratio: Movies " in note


def test_friends_who_are_alike_or_too_few_are_not() -> None:
    assert notes_of(prepared_again(0)) == ()
    assert notes_of(prepared_again(1, n_links=40)) == ()


@pytest.mark.parametrize("sharing", [0, 3])
def test_couples_of_whom_hardly_any_share_an_item_tell_nothing(sharing: int) -> None:
    """A thousand couples, everyone with an item of their own; some have one in common as well."""
    records = [(user, user, 1) for user in range(1, 2001)]
    records += [(user + k, 5000 + user, 1) for user in range(1, 2 * sharing, 2) for k in (0, 1)]
    couples = [(user, user + 1) for user in range(1, 2001, 2)]
    assert notes_of(build(records, couples, behaviors=[1])) == ()


# --- text ids, provenance ---


def test_text_ids_take_the_same_way() -> None:
    records = two_records(1, 2, 3)
    trust = [(1, 2), (2, 3), (3, 1), (3, 4)]
    integers = build(records, trust, user_filter=PAPER_FILTER)
    rows = raw(records)
    user, item = (pa.array([f"u{number}" for number in column]) for column in (rows.user, rows.item))
    source, target = (pa.array([f"u{pair[end]}" for pair in trust]) for end in (0, 1))
    text_columns = Raw(
        RawInteractions(user, item, rows.behavior, NAMES, None),
        RawLinks(source, target, None, place("trust")),
        behaviors=[2, 1],
    )
    texts = SocialDataset.from_raw(text_columns, Rules(PAPER_FILTER), name="toy")
    assert list(texts.users) == [f"u{number}" for number in integers.users]
    assert links_of(texts) == {(f"u{a}", f"u{b}") for a, b in links_of(integers)}
    assert pairs_of(texts, "Books") == {(f"u{a}", f"u{b}") for a, b in pairs_of(integers, "Books")}


def test_the_report_is_part_of_the_provenance() -> None:
    dataset = build(two_records(1), [], provenance={"sources": {"x": "y"}}, notes=["look here"])
    assert dataset.provenance["sources"] == {"x": "y"}
    assert notes_of(dataset) == ("look here",)
    assert not_none(dataset.report).lines() == [
        "users: 1 read, 1 kept",
        "links: 0 read, 0 kept",
        "Beauty interactions: 1 read, 1 kept",
        "Beauty items: 1 read, 1 kept",
        "Books interactions: 1 read, 1 kept",
        "Books items: 1 read, 1 kept",
        "note: look here",
    ]


def test_a_ledger_that_does_not_balance_is_refused() -> None:
    with pytest.raises(ValueError, match="links: rows unaccounted for"):
        Ledger("links", 5, 3, merged={"repeat": 1})
    full = Ledger("links", 1005, 1000, merged={"repeat": 2, "none": 0}, dropped={"loop": 3})
    assert full.merged == {"repeat": 2}  # reasons without rows are left out
    assert UserFilter(0, 0, False) == UserFilter()
