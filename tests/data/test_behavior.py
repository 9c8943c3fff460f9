"""How alike friends are equals its definition done with sets and loops, and planted friendship shows in it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.values import not_none

from mcne.data import behavior as module
from mcne.data.behavior import Behavior, Likeness, likeness
from mcne.data.dataset import SocialDataset
from mcne.data.graph import Graph, undirected
from mcne.data.ids import Ids
from mcne.data.synthetic import SyntheticConfig, generate

Pairs = list[tuple[int, int]]


def behavior_of(pairs: Pairs, name: str = "Books") -> Behavior:
    user, item = np.array(sorted(set(pairs)), dtype=np.int32).reshape(-1, 2).T
    items, rows = np.unique(item, return_inverse=True)
    return Behavior(name, Ids(items), user.copy(), rows.astype(np.int32))


def graph_of(n_users: int, links: Pairs, weights: list[float] | None = None) -> Graph:
    source, target = np.array(links, dtype=np.int32).reshape(-1, 2).T
    weight = None if weights is None else np.array(weights, dtype=np.float32)
    return undirected(n_users, source, target, weight)[0]


def renumbered(graph: Graph, order: NDArray[Any]) -> Graph:
    return undirected(graph.n_users, order[graph.sources()], order[graph.indices])[0]


@pytest.fixture(scope="module")
def planted() -> SocialDataset:
    return generate(SyntheticConfig(users=2000, seed=3))[0]


# --- the definition ---


def by_loops(links: Pairs, records: Pairs) -> Likeness:
    """Every link once, every pair of ends of links once in each order, every pair of links that share a user."""
    sets: dict[int, set[int]] = {}
    for user, item in records:
        sets.setdefault(user, set()).add(item)

    def cosine(a: int, b: int) -> float:
        return len(sets[a] & sets[b]) / math.sqrt(len(sets[a]) * len(sets[b]))

    counted = sorted({(min(a, b), max(a, b)) for a, b in links if a != b and a in sets and b in sets})
    if not counted:
        return Likeness(0, 0, 0, None, None, None)
    cosines = [cosine(a, b) for a, b in counted]
    friends = sum(cosines) / len(cosines)
    ends = [end for link in counted for end in link]
    met = [cosine(a, b) for a, b in itertools.product(ends, ends) if a != b]
    error = None
    sharing = sum(value > 0 for value in cosines)
    if len(counted) > 1 and sharing:
        off = [value - friends for value in cosines]
        independent = sum(value**2 for value in off) * len(off) / (len(off) - 1)
        shared = sum(
            off[i] * off[j] for i, j in itertools.product(range(len(off)), repeat=2) if {*counted[i]} & {*counted[j]}
        )
        error = math.sqrt(max(independent, shared)) / len(off)
    return Likeness(len(counted), len(counted), sharing, friends, sum(met) / len(met), error)


def check(actual: Likeness, expected: Likeness) -> None:
    assert (actual.links, actual.compared, actual.sharing) == (expected.links, expected.compared, expected.sharing)
    for value, wanted in (
        (actual.friends, expected.friends),
        (actual.chance, expected.chance),
        (actual.standard_error, expected.standard_error),
    ):
        assert value == (None if wanted is None else pytest.approx(wanted, rel=1e-9, abs=1e-9))


def test_by_hand() -> None:
    """0 has items {0, 1}, 1 has {0}, 2 has {0, 2}; 3 is a friend without records, 4 is linked to itself alone."""
    graph = graph_of(6, [(0, 1), (0, 2), (0, 3), (4, 4)])
    books = behavior_of([(0, 0), (0, 1), (1, 0), (2, 0), (2, 2), (4, 0), (5, 1), (5, 2)])
    alike = likeness(graph, books)
    root = math.sqrt(0.5)
    assert (alike.links, alike.compared) == (2, 2)
    assert alike.friends == pytest.approx((root + 0.5) / 2)
    # ends 0, 1, 0, 2: of their 16 pairs 6 are of a user and itself, 4 of 0 and 1, 4 of 0 and 2, 2 of 1 and 2
    assert alike.chance == pytest.approx((4 * root + 4 * 0.5 + 2 * root) / 10)
    assert alike.standard_error == pytest.approx((root - 0.5) / 2)
    assert alike.ratio == pytest.approx(not_none(alike.friends) / not_none(alike.chance))
    assert alike.ratio_error == pytest.approx(not_none(alike.standard_error) / not_none(alike.chance))
    assert alike.is_hardly_above_chance is None  # two links tell nothing


def test_links_of_one_user_are_not_independent() -> None:
    """Three friends of 0 are just like it, three of 4 have nothing of it: six links tell hardly more than two."""
    links = [(0, 1), (0, 2), (0, 3), (4, 5), (4, 6), (4, 7)]
    records = [(user, 0 if user < 4 else user) for user in range(8)]
    alike = likeness(graph_of(8, links), behavior_of(records))
    assert alike.friends == 0.5
    assert alike.standard_error == pytest.approx(math.sqrt(2 * 1.5**2) / 6)  # each three are off by 1.5 together
    check(alike, by_loops(links, records))


records_and_links = st.tuples(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 5)), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=25),
)


@settings(max_examples=200, deadline=None)
@given(records_and_links)
def test_any_network(network: tuple[Pairs, Pairs]) -> None:
    """Links to oneself, users without records, users without links and repeats are common here."""
    records, links = network
    alike = likeness(graph_of(9, links), behavior_of(records))
    check(alike, by_loops(links, records))
    if alike.chance == 0:  # exactly, or a ratio would be made of rounding errors
        assert (alike.friends, alike.ratio, alike.ratio_error, alike.is_hardly_above_chance) == (0, None, None, None)


@settings(max_examples=60, deadline=None)
@given(records_and_links, st.permutations(range(9)), st.data())
def test_neither_numbers_of_users_nor_weights_matter(
    network: tuple[Pairs, Pairs], order: list[int], data: st.DataObject
) -> None:
    records, links = network
    plain = likeness(graph_of(9, links), behavior_of(records))
    weights = [data.draw(st.floats(0.5, 100)) for _ in links]
    weighted = graph_of(9, [(order[a], order[b]) for a, b in links], weights)
    check(likeness(weighted, behavior_of([(order[user], item) for user, item in records])), plain)


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_what_is_held_at_once_leaves_no_trace(
    at_once: int, planted: SocialDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = planted.behaviors[0]
    few = Behavior("few", Ids(np.arange(40)), *_some(books, 40))
    whole = [likeness(planted.graph, few), likeness(planted.graph, few, most_links=50)]
    assert whole[0].links > 100
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    check(likeness(planted.graph, few), whole[0])
    check(likeness(planted.graph, few, most_links=50), whole[1])


def _some(behavior: Behavior, n_items: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The records of the most popular items, renumbered."""
    top = np.sort(np.argsort(-behavior.popularity(), kind="stable")[:n_items])
    kept = np.isin(behavior.item, top)
    return behavior.user[kept], np.searchsorted(top, behavior.item[kept]).astype(np.int32)


# --- what has no answer ---


@pytest.mark.parametrize("links", [[], [(0, 0)], [(0, 2)], [(2, 3)]], ids=["none", "to oneself", "one cold", "both"])
def test_without_links_that_count(links: Pairs) -> None:
    alike = likeness(graph_of(4, links), behavior_of([(0, 0), (1, 0)]))
    assert alike == Likeness(0, 0, 0, None, None, None)
    assert (alike.ratio, alike.ratio_error, alike.is_hardly_above_chance) == (None, None, None)


def test_one_link_has_no_error_and_users_with_nothing_in_common_no_ratio() -> None:
    one = likeness(graph_of(2, [(0, 1)]), behavior_of([(0, 0), (1, 0)]))
    assert (one.friends, one.chance, one.standard_error) == (1, 1, None)
    assert (one.ratio, one.ratio_error, one.is_hardly_above_chance) == (1, None, None)
    apart = behavior_of([(user, 3 * user + k) for user in range(3) for k in range(3)])  # a third of 3 is not exact
    nothing = likeness(graph_of(3, [(0, 1), (1, 2)]), apart)
    assert (nothing.friends, nothing.chance, nothing.standard_error, nothing.ratio) == (0, 0, None, None)


# --- links that are drawn ---


def test_links_are_drawn_with_the_same_chance() -> None:
    """Of 7 links 3: one of each third, and each in 3 of 7 trials."""
    trials = [module._chosen(7, 3, f"trial {k}") for k in range(7000)]
    for chosen in trials[:50]:
        assert all(7 * k / 3 - 1 < link < 7 * (k + 1) / 3 for k, link in enumerate(chosen.tolist()))
        assert np.all(np.diff(chosen) >= 0)
    assert np.bincount(np.concatenate(trials)) == pytest.approx([3000] * 7, abs=4 * math.sqrt(7000 / 4))
    assert module._chosen(7, 7, "all").tolist() == list(range(7))


def is_within_three_errors(drawn: Likeness, every: Likeness) -> bool:
    return abs(not_none(drawn.friends) - not_none(every.friends)) < 3 * not_none(drawn.standard_error)


def test_drawn_links_tell_what_all_links_tell(planted: SocialDataset) -> None:
    for behavior in planted.behaviors:
        every, drawn = (likeness(planted.graph, behavior, most_links=most) for most in (10**9, 3000))
        assert (every.compared, drawn.compared, drawn.links) == (every.links, 3000, every.links)
        assert drawn.chance == every.chance
        assert drawn.friends != every.friends
        assert is_within_three_errors(drawn, every)
        assert drawn == likeness(planted.graph, behavior, most_links=3000)


# --- planted friendship ---


def test_planted_friends_are_alike(planted: SocialDataset) -> None:
    for behavior in planted.behaviors:
        alike = likeness(planted.graph, behavior)
        assert not_none(alike.ratio) > 2.5
        assert alike.is_hardly_above_chance is False


def test_friends_of_other_users_are_not(planted: SocialDataset) -> None:
    """The same network with its users renumbered: as many links of each, and nobody's own."""
    ratios, surprises = [], []
    for seed in range(8):
        strangers = renumbered(planted.graph, np.random.default_rng(seed).permutation(planted.n_users))
        for behavior in planted.behaviors:
            alike = likeness(strangers, behavior)
            ratios.append(not_none(alike.ratio))
            above_chance = not_none(alike.friends) - not_none(alike.chance)
            surprises.append(above_chance / not_none(alike.standard_error))
    assert np.mean(ratios) == pytest.approx(1, abs=0.05)
    assert np.abs(surprises).max() < 3.5
    assert np.mean(np.array(surprises) > 2) < 0.1


def test_ids_off_by_one_are_told_where_neighboring_ids_are_not_alike(planted: SocialDataset) -> None:
    off_by_one = renumbered(planted.graph, np.roll(np.arange(planted.n_users), 1))
    assert all(likeness(off_by_one, behavior).is_hardly_above_chance for behavior in planted.behaviors)


@pytest.mark.parametrize(("sharing", "error", "says"), [(29, 0.1, None), (30, 0.1, True), (30, 0.15, False)])
def test_what_tells_that_friends_are_strangers(sharing: int, error: float, says: bool | None) -> None:
    """1.2 ratio: by two errors below 1.5 times, or not, or of too few links."""
    assert Likeness(900, 900, sharing, 0.12, 0.1, error / 10).is_hardly_above_chance is says


def test_users_with_many_records_are_compared_less_often(
    planted: SocialDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = planted.behaviors[0]
    every = likeness(planted.graph, books)
    monkeypatch.setattr(module, "MOST_RECORDS", 10_000)
    some = likeness(planted.graph, books)
    assert (some.links, some.chance) == (every.links, every.chance)
    assert 100 < some.compared < every.compared / 4
    assert is_within_three_errors(some, every)
