"""Directed links: they stay as they are from the table to the disk and back, and users are counted from both ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.values import not_none

from mcne.data.assemble import Ledger, UserFilter
from mcne.data.behavior import likeness
from mcne.data.dataset import SocialDataset
from mcne.data.describe import describe
from mcne.data.exchange import FORMATS, export
from mcne.data.graph import Graph, directed, undirected

FEW = settings(max_examples=100, deadline=None)

Pairs = list[tuple[int, int]]
FOLLOWS = [(1, 2), (1, 3), (2, 1), (3, 4), (1, 2), (5, 5), (4, 6)]
"""1 and 2 follow each other; 1 follows 3, 3 follows 4, 4 follows 6, who follows nobody; 5 follows itself."""
RECORDS = [(user, item, "read") for user, item in ((1, 1), (1, 2), (2, 1), (3, 2), (4, 1), (5, 1), (6, 2))]


def columns(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    source, target = np.array(pairs, dtype=np.int32).reshape(-1, 2).T
    return source, target


def follow(pairs: Pairs = FOLLOWS, *, weights: list[float] | None = None, **options: Any) -> SocialDataset:
    links = dict(zip(("source_id", "target_id"), map(list, zip(*pairs, strict=True)), strict=True))
    links |= {} if weights is None else {"weight": weights}
    interactions = zip(("user_id", "item_id", "behavior"), map(list, zip(*RECORDS, strict=True)), strict=True)
    return SocialDataset.from_frames(pa.table(dict(interactions)), pa.table(links), directed=True, **options)


def followed_by(dataset: SocialDataset) -> dict[int | str, list[int | str]]:
    users = dataset.users
    return {users[row]: users.take(dataset.graph.neighbors(row)) for row in range(dataset.n_users)}


def ledgers(dataset: SocialDataset) -> dict[str, Ledger]:
    return {ledger.what: ledger for ledger in not_none(dataset.report).ledgers}


# the graph


@st.composite
def pair_lists(draw: st.DrawFn) -> tuple[int, Pairs, list[float]]:
    n = draw(st.integers(1, 7))
    ends = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=20))
    weights = draw(st.lists(st.sampled_from([0.25, 1.0, 3.0, 7.5]), min_size=len(pairs), max_size=len(pairs)))
    return n, pairs, weights


@FEW
@given(pair_lists())
def test_a_directed_graph_is_a_dictionary_of_links(case: tuple[int, Pairs, list[float]]) -> None:
    n, pairs, weights = case
    heaviest: dict[tuple[int, int], float] = {}
    for pair, weight in zip(pairs, weights, strict=True):
        heaviest[pair] = max(weight, heaviest.get(pair, weight))
    plain, repeats = directed(n, *columns(pairs))
    weighted, counted = directed(n, *columns(pairs), np.array(weights, np.float32))
    assert repeats == counted == len(pairs) - len(heaviest)
    for graph in (plain, weighted):
        graph.validate()
        assert graph.is_directed
        assert list(zip(graph.sources().tolist(), graph.indices.tolist(), strict=True)) == sorted(heaviest)
        assert graph.n_links == graph.n_directions == len(heaviest)
        for user in range(n):
            assert graph.followers(user).tolist() == sorted(a for a, b in heaviest if b == user)
    assert not_none(weighted.weights).tolist() == [heaviest[pair] for pair in sorted(heaviest)]


@FEW
@given(pair_lists())
def test_the_symmetric_graph_is_the_undirected_one_of_the_same_pairs(case: tuple[int, Pairs, list[float]]) -> None:
    n, pairs, weights = case
    given_weights = np.array(weights, np.float32)
    ours, theirs = (make(n, *columns(pairs), given_weights)[0] for make in (directed, undirected))
    ours = ours.symmetric()
    ours.validate()
    assert not ours.is_directed
    assert (ours.n_links, ours.n_links) == (theirs.n_links, len({frozenset(pair) for pair in pairs}))
    for field in ("indptr", "indices", "weights"):
        assert np.array_equal(getattr(ours, field), getattr(theirs, field))
    assert theirs.symmetric() is theirs
    for user in range(n):
        assert theirs.followers(user).tolist() == theirs.neighbors(user).tolist()


@FEW
@given(pair_lists(), st.data())
def test_a_restricted_graph_keeps_directions(case: tuple[int, Pairs, list[float]], data: st.DataObject) -> None:
    n, pairs, _ = case
    kept = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    rows = {user: row for row, user in enumerate(user for user in range(n) if kept[user])}
    left = directed(n, *columns(pairs))[0].restrict(np.array(kept))
    left.validate()
    assert left.is_directed
    expected = sorted({(rows[a], rows[b]) for a, b in pairs if a in rows and b in rows})
    assert list(zip(left.sources().tolist(), left.indices.tolist(), strict=True)) == expected


def test_only_directed_graphs_may_be_lopsided_and_only_they_say_so() -> None:
    lopsided = directed(2, *columns([(0, 1)]))[0]
    lopsided.validate()
    assert lopsided.arrays()["graph.directed"].tolist() == [True]
    assert Graph.from_arrays(lopsided.arrays()).is_directed
    with pytest.raises(ValueError, match="both directions"):
        Graph(lopsided.indptr, lopsided.indices).validate()
    both = undirected(2, *columns([(0, 1)]))[0]
    assert set(both.arrays()) == {"graph.indptr", "graph.indices"}
    assert not Graph.from_arrays(both.arrays()).is_directed


# the dataset


def test_users_follow_the_targets_of_their_links() -> None:
    dataset = follow()
    assert followed_by(dataset) == {1: [2, 3], 2: [1], 3: [4], 4: [6], 5: [], 6: []}
    assert ledgers(dataset)["links"] == Ledger(
        "links", 7, 5, merged={"repeat of the same link": 1}, dropped={"to oneself": 1}
    )
    assert repr(dataset).split("\n")[0] == (
        "SocialDataset 'frames': 6 users (integer ids), 5 unweighted directed links, 1 users without links"
    )
    assert followed_by(follow(self_links="keep"))[5] == [5]


def test_of_repeats_the_larger_weight_counts_and_another_direction_is_another_link() -> None:
    graph = follow([(1, 2), (2, 1), (1, 2), (2, 3)], weights=[1.0, 5.0, 3.0, 0.0]).graph
    assert (graph.indices.tolist(), not_none(graph.weights).tolist()) == ([1, 0], [3.0, 5.0])


def test_filters_count_people_in_either_direction() -> None:
    """1 and 2, who follow each other, are one link of each; 3 follows 4 and is followed by 1."""
    dataset = follow(user_filter=UserFilter(min_links=2))
    assert list(dataset.users) == [1, 3, 4]
    assert followed_by(dataset) == {1: [3], 3: [4], 4: []}
    assert ledgers(dataset)["users"].dropped == {"fewer than 2 links": 3}
    assert ledgers(dataset)["links"].dropped == {"to oneself": 1, "to a user that is dropped": 3}
    followed_alone = follow(user_filter=UserFilter(min_links=1, drop_isolated=True))
    assert list(followed_alone.users) == [1, 2, 3, 4, 6]


def test_it_is_saved_loaded_and_told_from_the_undirected_one(tmp_path: Path) -> None:
    dataset = follow([(1, 2), (2, 1)])
    saved = dataset.save(tmp_path / "kept")
    loaded = SocialDataset.load(tmp_path / "kept")
    assert loaded.graph.is_directed
    assert saved == loaded.fingerprint == follow([(2, 1), (1, 2)]).fingerprint
    both = undirected(6, *columns([(0, 1)]))[0]
    assert (both.indptr.tolist(), both.indices.tolist()) == (
        loaded.graph.indptr.tolist(),
        loaded.graph.indices.tolist(),
    )
    assert follow([(1, 2)]).fingerprint != saved


@pytest.mark.parametrize("file_format", FORMATS)
def test_what_is_exported_and_read_again_is_the_same(file_format: str, tmp_path: Path) -> None:
    dataset = follow(self_links="keep", weights=[1, 2, 3, 4, 5, 6, 7])
    interactions, links, users = export(dataset, tmp_path / "files", file_format=file_format)
    again = SocialDataset.from_frames(interactions, links, users=users, self_links="keep", directed=True)
    assert again.fingerprint == dataset.fingerprint


def test_a_description_counts_whom_users_follow_and_who_follows_them() -> None:
    description = describe(follow())
    counts = {name: description[name] for name in ("links", "directions", "directed", "users_without_links")}
    assert counts == {"links": 5, "directions": 5, "directed": True, "users_without_links": 1}
    assert (description["degree"]["max"], description["degree"]["mean"]) == (2, 5 / 6)
    assert [each["count"] for each in description["followers"]["histogram"]] == [1, 5]


def test_friends_are_as_alike_as_in_the_undirected_network() -> None:
    dataset = follow()
    alike = likeness(dataset.graph, dataset.behaviors[0])
    assert alike.links == 4
    assert alike == likeness(dataset.graph.symmetric(), dataset.behaviors[0])
