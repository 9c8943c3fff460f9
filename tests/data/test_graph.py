"""The graph of a list of pairs is what a dictionary of sets gives, and a broken one is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.values import not_none

from mcne.data import graph as graph_module
from mcne.data.graph import Graph, undirected

FEW = settings(max_examples=100, deadline=None)

Pairs = list[tuple[int, int]]
Neighbors = list[dict[int, float]]


@st.composite
def pair_lists(draw: st.DrawFn) -> tuple[int, Pairs, list[float]]:
    n = draw(st.integers(1, 7))
    ends = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=20))
    weights = draw(st.lists(st.sampled_from([0.25, 1.0, 3.0, 7.5]), min_size=len(pairs), max_size=len(pairs)))
    return n, pairs, weights


def slow_graph(n: int, pairs: Pairs, weights: list[float]) -> tuple[Neighbors, int]:
    """Neighbors with the largest weight of each link, and how many pairs repeat an earlier one as it stands."""
    neighbors: Neighbors = [{} for _ in range(n)]
    for (a, b), weight in zip(pairs, weights, strict=True):
        for user, other in ((a, b), (b, a)):
            neighbors[user][other] = max(weight, neighbors[user].get(other, weight))
    return neighbors, sum(pair in pairs[:k] for k, pair in enumerate(pairs))


def columns(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    source, target = np.array(pairs, dtype=np.int32).reshape(-1, 2).T
    return source, target


def check(graph: Graph, neighbors: Neighbors, *, weighted: bool) -> None:
    graph.validate()
    assert graph.n_users == len(neighbors)
    assert graph.n_directions == sum(map(len, neighbors))
    assert graph.degrees.tolist() == [len(mine) for mine in neighbors]
    assert graph.n_self_links() == sum(user in mine for user, mine in enumerate(neighbors))
    assert graph.sources().tolist() == [user for user, mine in enumerate(neighbors) for _ in mine]
    for user, mine in enumerate(neighbors):
        assert graph.neighbors(user).tolist() == sorted(mine)
    if weighted:
        assert graph.weights is not None
        assert graph.weights.dtype == np.float32
        assert graph.weights.tolist() == [mine[other] for mine in neighbors for other in sorted(mine)]
    else:
        assert graph.weights is None


@FEW
@given(pair_lists())
def test_undirected_equals_a_dictionary_of_neighbors(case: tuple[int, Pairs, list[float]]) -> None:
    n, pairs, weights = case
    neighbors, repeats = slow_graph(n, pairs, weights)
    plain, counted = undirected(n, *columns(pairs))
    check(plain, neighbors, weighted=False)
    assert counted == repeats
    weighted, counted = undirected(n, *columns(pairs), np.array(weights, dtype=np.float32))
    check(weighted, neighbors, weighted=True)
    assert counted == repeats


@FEW
@given(pair_lists(), st.randoms(use_true_random=False))
def test_the_order_and_direction_of_the_pairs_do_not_matter(case: tuple[int, Pairs, list[float]], random: Any) -> None:
    n, pairs, weights = case
    rows = list(zip(pairs, weights, strict=True))
    random.shuffle(rows)
    turned = [((b, a) if random.random() < 0.5 else (a, b), weight) for (a, b), weight in rows]
    one, _ = undirected(n, *columns(pairs), np.array(weights, dtype=np.float32))
    other, _ = undirected(n, *columns([p for p, _ in turned]), np.array([w for _, w in turned], dtype=np.float32))
    for field in ("indptr", "indices", "weights"):
        assert np.array_equal(getattr(one, field), getattr(other, field))


def test_a_hand_made_graph() -> None:
    # 0–1 in both directions and repeated once, 2 linked to itself, 3 alone
    graph, repeats = undirected(4, np.array([0, 1, 0, 2, 1]), np.array([1, 0, 1, 2, 2]))
    assert graph.indptr.tolist() == [0, 1, 3, 5, 5]
    assert graph.indices.tolist() == [1, 0, 2, 1, 2]
    assert (graph.n_links, graph.n_directions, graph.n_self_links(), repeats) == (3, 5, 1, 1)


def test_rows_beyond_16_bits_do_not_overflow() -> None:
    n = 3_000_000
    graph, _ = undirected(n, np.array([n - 1, 0], dtype=np.int32), np.array([n - 2, n - 1], dtype=np.int32))
    assert graph.neighbors(n - 1).tolist() == [0, n - 2]
    assert graph.neighbors(n - 2).tolist() == graph.neighbors(0).tolist() == [n - 1]
    graph.validate()


@FEW
@given(pair_lists(), st.data())
def test_restrict_equals_removing_users_one_by_one(case: tuple[int, Pairs, list[float]], data: st.DataObject) -> None:
    n, pairs, weights = case
    kept = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    neighbors, _ = slow_graph(n, pairs, weights)
    rows = {user: row for row, user in enumerate(u for u in range(n) if kept[u])}
    left = [{rows[v]: w for v, w in neighbors[u].items() if v in rows} for u in rows]
    plain, _ = undirected(n, *columns(pairs))
    check(plain.restrict(np.array(kept)), left, weighted=False)
    weighted, _ = undirected(n, *columns(pairs), np.array(weights, dtype=np.float32))
    check(weighted.restrict(np.array(kept)), left, weighted=True)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_graph_without_links(n: int) -> None:
    nobody = np.zeros(0, dtype=np.int32)
    for weight in (None, np.zeros(0, dtype=np.float32)):
        graph, repeats = undirected(n, nobody, nobody, weight)
        check(graph, [{} for _ in range(n)], weighted=weight is not None)
        assert repeats == 0
        check(graph.restrict(np.zeros(n, dtype=bool)), [], weighted=weight is not None)


# --- validate ---


def make(indptr: list[int], indices: list[int], weights: list[float] | None = None) -> Graph:
    w = None if weights is None else np.array(weights, dtype=np.float32)
    return Graph(np.array(indptr, dtype=np.int32), np.array(indices, dtype=np.int32), w)


def test_a_sound_graph_is_valid() -> None:
    make([0, 2, 3, 4, 4], [1, 2, 0, 0]).validate()
    make([0, 2, 3, 4, 4], [1, 2, 0, 0], [0.5, 2, 0.5, 2]).validate()
    make([0, 2, 3], [0, 1, 0]).validate()  # 0 is linked to itself, once
    make([0], []).validate()


@pytest.mark.parametrize(
    ("indptr", "indices", "weights", "message"),
    [
        ([1, 1, 2], [1, 0], None, "start at 0"),
        ([0, 1, 1], [1, 0], None, "end at the number of links"),
        ([0, 1, 3], [1, 0], None, "end at the number of links"),
        ([0, 2, 1, 2], [1, 0], None, "never decrease"),
        ([], [], None, "start at 0"),
        ([0, 1, 2], [1, 2], None, "rows below 2"),
        ([0, 1, 2], [1, -1], None, "rows below 2"),
        ([0, 2, 3, 4], [2, 1, 0, 0], None, "increasing, each once"),
        ([0, 2, 4], [1, 1, 0, 0], None, "increasing, each once"),
        ([0, 1, 1], [1], None, "both directions"),
        ([0, 1, 2, 3], [1, 2, 0], None, "both directions"),  # a circle: as many links in as out
        ([0, 1, 2], [1, 0], [1.0, 2.0], "both directions, with one weight"),
        ([0, 1, 2], [1, 0], [1.0, np.nextafter(np.float32(1), np.float32(2))], "with one weight"),
        ([0, 1, 2], [1, 0], [-1.0, -1.0], "finite and positive"),
        ([0, 1, 2], [1, 0], [0.0, 0.0], "finite and positive"),
        ([0, 1, 2], [1, 0], [np.nan, np.nan], "finite and positive"),
        ([0, 1, 2], [1, 0], [np.inf, np.inf], "finite and positive"),
        ([0, 1, 2], [1, 0], [1.0], "a weight for each link"),
        ([0, 1, 2], [1, 0], [1.0, 1.0, 1.0], "a weight for each link"),
    ],
)
def test_every_broken_promise_is_found(
    indptr: list[int], indices: list[int], weights: list[float] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        make(indptr, indices, weights).validate()


def test_other_types_are_refused() -> None:
    good = make([0, 1, 2], [1, 0], [1.0, 1.0])
    with pytest.raises(ValueError, match="int32 rows"):
        Graph(good.indptr, good.indices.astype(np.int64)).validate()
    with pytest.raises(ValueError, match="int32"):
        Graph(good.indptr.astype(np.int64), good.indices).validate()
    with pytest.raises(ValueError, match="float32"):
        Graph(good.indptr, good.indices, not_none(good.weights).astype(np.float64)).validate()


@FEW
@given(pair_lists(), st.data())
def test_one_direction_taken_away_is_always_noticed(case: tuple[int, Pairs, list[float]], data: st.DataObject) -> None:
    n, pairs, weights = case
    graph, _ = undirected(n, *columns(pairs), np.array(weights, dtype=np.float32))
    one_way = np.flatnonzero(graph.sources() != graph.indices)
    if not len(one_way):
        return
    gone = data.draw(st.sampled_from(one_way.tolist()))
    counts = np.bincount(np.delete(graph.sources(), gone), minlength=n)
    for w in (None, np.delete(not_none(graph.weights), gone)):
        broken = Graph(graph_module.offsets(counts), np.delete(graph.indices, gone), w)
        with pytest.raises(ValueError, match="both directions"):
            broken.validate()
    other = not_none(graph.weights).copy()
    other[gone] *= 2
    with pytest.raises(ValueError, match="with one weight"):
        Graph(graph.indptr, graph.indices, other).validate()


def test_symmetry_is_checked_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_module, "SYMMETRY_CHUNK", 2)
    make([0, 2, 4, 6], [1, 2, 0, 2, 0, 1], [1, 2, 1, 3, 2, 3]).validate()
    with pytest.raises(ValueError, match="with one weight"):
        make([0, 2, 4, 6], [1, 2, 0, 2, 0, 1], [1, 2, 1, 3, 2, 4]).validate()


def test_round_weights_do_not_weaken_the_check_of_symmetry() -> None:
    """A link of weight 2 in one direction, between the two users whose hashes suit such a weight best.

    The bits of 2.0 end in 30 zeros; multiplied as they are, they leave only 34 bits of the hashes to compare.
    """
    rows = np.arange(1_000_000, dtype=np.uint64)
    f, g = graph_module._mix(rows), graph_module._mix(rows + np.uint64(1 << 40))
    odd = np.flatnonzero(g & np.uint64(1))
    f, g = f[odd], g[odd]
    inverse = g.copy()
    for _ in range(5):
        inverse *= np.uint64(2) - g * inverse  # Newton's step doubles the correct bits
    ratio = (f * inverse) & np.uint64((1 << 34) - 1)
    order = np.argsort(ratio, kind="stable")
    alike = np.flatnonzero(np.diff(ratio[order]) == 0)
    assert len(alike)  # birthdays: 500,000² / 2 pairs for 2^34 values
    a, b = np.sort(odd[order[alike[0] : alike[0] + 2]])
    indptr = (np.arange(len(rows) + 1) > a).astype(np.int32)
    one_way = Graph(indptr, np.array([b], dtype=np.int32), np.array([2.0], dtype=np.float32))
    with pytest.raises(ValueError, match="both directions"):
        one_way.validate()


# --- frozen, compressed ---


def test_a_graph_is_frozen_and_leaves_the_callers_arrays_alone() -> None:
    indptr, indices = np.array([0, 1, 2], dtype=np.int32), np.array([1, 0], dtype=np.int32)
    weights = np.ones(2, dtype=np.float32)
    graph = Graph(indptr, indices, weights)
    for array in (graph.indptr, graph.indices, not_none(graph.weights), graph.neighbors(0)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        graph.indices = indices  # type: ignore[misc]
    assert indptr.flags.writeable
    assert indices.flags.writeable
    assert weights.flags.writeable


def test_offsets_are_int32_where_they_fit() -> None:
    assert graph_module.offsets(np.array([2, 0, 3])).tolist() == [0, 2, 2, 5]
    assert graph_module.offsets(np.zeros(0, np.int64)).tolist() == [0]
    most = 2**31 - 1
    fits, over = graph_module.offsets(np.array([most - 1, 1])), graph_module.offsets(np.array([most, 1]))
    assert (fits.dtype, fits.tolist()) == (np.dtype(np.int32), [0, most - 1, most])
    assert (over.dtype, over.tolist()) == (np.dtype(np.int64), [0, most, most + 1])
    assert graph_module.offsets(np.array([True, False, True])).tolist() == [0, 1, 1, 2]
    assert graph_module.offsets(np.array([2**31 - 1, 2**31 - 1], dtype=np.int32)).tolist()[-1] == 2**32 - 2


@FEW
@given(st.lists(st.integers(0, 5)))
def test_run_starts_equals_a_loop(values: list[int]) -> None:
    ordered = sorted(values)
    expected = [k == 0 or ordered[k] != ordered[k - 1] for k in range(len(ordered))]
    assert graph_module.run_starts(np.array(ordered, dtype=np.int64)).tolist() == expected
