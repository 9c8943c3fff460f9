"""Held-out links, the pairs against them, and how they are told apart: numbers by hand and by loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.errors import refused

from mcne.analysis import links as module
from mcne.analysis.links import HEURISTICS, cosine_scores, hold_out, inner_product_scores, told_apart
from mcne.data.graph import Graph, directed, undirected
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.errors import DataError, UsageError


def numbers(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def graph_of(n_users: int, *pairs: tuple[int, int], weights: list[float] | None = None) -> Graph:
    ends = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    return undirected(n_users, ends[:, 0], ends[:, 1], None if weights is None else np.array(weights, np.float32))[0]


def social() -> Graph:
    return generate(SyntheticConfig(users=500, behaviors=2, seed=0))[0].graph


def pair_set(pairs: np.ndarray) -> set[tuple[int, int]]:
    return {(int(one), int(other)) for one, other in pairs}


def links_of(graph: Graph) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in zip(graph.sources(), graph.indices, strict=True) if a < b}


def auc(positive: np.ndarray, negative: np.ndarray) -> float:
    return told_apart(positive, negative)["auc"]


def average_precision(positive: np.ndarray, negative: np.ndarray) -> float:
    return told_apart(positive, negative)["ap"]


# metrics


def test_auc_and_average_precision_by_hand() -> None:
    positive, negative = numbers(4, 2), numbers(3, 1)
    assert auc(positive, negative) == 3 / 4
    assert average_precision(positive, negative) == pytest.approx((1 + 2 / 3) / 2)


def test_ties_by_hand() -> None:
    positive, negative = numbers(3, 2), numbers(2, 1)
    assert auc(positive, negative) == (1 + 1 + 0.5 + 1) / 4
    assert average_precision(positive, negative) == pytest.approx((1 + 2 / 3) / 2)  # 2 of the best 3, tie included
    assert auc(numbers(1, 1), numbers(1, 1, 1)) == 0.5
    assert average_precision(numbers(1, 1), numbers(1, 1, 1)) == pytest.approx(2 / 5)


def test_the_best_and_the_worst() -> None:
    high, low = numbers(9, 8), numbers(1, 0)
    assert (auc(high, low), average_precision(high, low)) == (1, 1)
    assert auc(low, high) == 0
    assert average_precision(low, high) == pytest.approx((1 / 3 + 2 / 4) / 2)


scores = st.lists(st.integers(-3, 3), min_size=1, max_size=12)


@given(scores, scores)
@settings(max_examples=80, deadline=None)
def test_metrics_are_those_of_loops(positive: list[int], negative: list[int]) -> None:
    wins = [1.0 if p > n else 0.5 if p == n else 0.0 for p in positive for n in negative]
    assert auc(numbers(*positive), numbers(*negative)) == pytest.approx(np.mean(wins))
    precision = [
        sum(p >= t for p in positive) / (sum(p >= t for p in positive) + sum(n >= t for n in negative))
        for t in positive
    ]
    assert average_precision(numbers(*positive), numbers(*negative)) == pytest.approx(np.mean(precision))


# scores


def test_scores_by_hand() -> None:
    vectors = np.array([[3, 4, 100], [4, 3, -7], [0, 0, 5]], dtype=np.float32)
    mask, pairs = np.array([True, True, False]), np.array([[0, 1], [0, 2]], dtype=np.int32)
    assert inner_product_scores(vectors, mask, pairs).tolist() == [24, 0]
    assert cosine_scores(vectors, mask, pairs) == pytest.approx([24 / 25, 0])  # nothing is left of the third


def test_heuristics_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(6, (0, 2), (1, 2), (0, 3), (1, 3), (3, 4), (0, 0), (0, 5))
    pairs = np.array([[0, 1], [2, 4], [4, 5]], dtype=np.int32)
    assert HEURISTICS["degree product"](graph, pairs).tolist() == [4 * 2, 2 * 1, 1]  # a link to oneself counts as one
    assert HEURISTICS["common friends"](graph, pairs).tolist() == [2, 0, 0]
    assert HEURISTICS["Adamic–Adar"](graph, pairs) == pytest.approx([1 / np.log(2) + 1 / np.log(3), 0, 0])
    whole = {name: score(graph, pairs).tolist() for name, score in HEURISTICS.items()}
    monkeypatch.setattr(module, "PAIRS_AT_ONCE", 1)
    assert {name: score(graph, pairs).tolist() for name, score in HEURISTICS.items()} == whole


# holding out


@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_what_is_held_out_is_gone_and_nobody_loses_the_last_link(share: float) -> None:
    graph = social()
    held = hold_out(graph, share=share, seed=1)
    held.graph.validate()
    assert len(held.links) == len(pair_set(held.links)) <= round(share * len(links_of(graph)))
    assert links_of(held.graph) | pair_set(held.links) == links_of(graph)
    assert not links_of(held.graph) & pair_set(held.links)
    assert np.array_equal(held.graph.degrees > 0, graph.degrees > 0)
    if share < 0.5:
        assert len(held.links) == round(share * len(links_of(graph)))


def test_other_pairs_are_no_links_and_as_many() -> None:
    graph = social()
    held = hold_out(graph, share=0.2, seed=0)
    assert list(held.others) == ["uniform", "degree"]
    for pairs in held.others.values():
        assert len(pair_set(pairs)) == len(held.links)
        assert np.all(pairs[:, 0] < pairs[:, 1])
        assert not pair_set(pairs) & links_of(graph)
    assert set(held.others["degree"].ravel()) <= set(held.links.ravel())
    mean = {kind: held.graph.degrees[pairs].mean() for kind, pairs in held.others.items()}
    of_links = held.graph.degrees[held.links].mean()
    assert mean["degree"] == pytest.approx(of_links, rel=0.1)
    assert mean["uniform"] < 0.75 * of_links


def test_degrees_say_nothing_of_pairs_of_the_same_degrees() -> None:
    """Users of held-out links have lost one at least; those of the pairs against them must have, too."""
    graph = graph_of(200, *((a, (a + step) % 200) for a in range(200) for step in (1, 2, 3)))  # all have six friends
    aucs = []
    for seed in range(20):
        held = hold_out(graph, share=0.1, seed=seed)
        aucs.append(
            auc(*(HEURISTICS["degree product"](held.graph, pairs) for pairs in (held.links, held.others["degree"])))
        )
    assert np.mean(aucs) == pytest.approx(0.5, abs=0.05)


def test_the_seed_decides() -> None:
    graph = social()
    one, same, other = (hold_out(graph, share=0.1, seed=seed) for seed in (4, 4, 5))
    assert np.array_equal(one.links, same.links)
    assert all(np.array_equal(one.others[kind], same.others[kind]) for kind in one.others)
    assert not np.array_equal(one.links, other.links)


def test_weights_and_links_to_oneself_stay() -> None:
    graph = graph_of(5, (0, 1), (1, 2), (2, 3), (0, 3), (0, 0), (3, 4), weights=[1, 2, 3, 4, 5, 6])
    held = hold_out(graph, share=0.4, seed=0)
    assert len(held.links) == 2
    assert graph.weights is not None
    assert held.graph.weights is not None
    assert held.graph.n_self_links() == 1
    before = {(a, b): w for a, b, w in zip(graph.sources(), graph.indices, graph.weights, strict=True)}
    after = {(a, b): w for a, b, w in zip(held.graph.sources(), held.graph.indices, held.graph.weights, strict=True)}
    assert after.items() <= before.items()
    assert (3, 4) not in pair_set(held.links)  # the last link of one


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 2.0, float("nan")])
def test_shares_out_of_range(share: float) -> None:
    with refused(UsageError, place="share", about=f"{share:g}"):
        hold_out(social(), share=share, seed=0)


def test_networks_without_links_to_spare() -> None:
    with pytest.raises(DataError, match="no links between users"):
        hold_out(graph_of(3, (0, 0)), share=0.5, seed=0)
    with pytest.raises(DataError, match="every link is the last one"):
        hold_out(graph_of(4, (0, 1), (0, 2), (0, 3)), share=0.5, seed=0)
    full = [(a, b) for a in range(5) for b in range(a)]
    with pytest.raises(DataError, match=r"only 0 pairs without a link.*smaller share"):
        hold_out(graph_of(5, *full), share=0.2, seed=0)


def test_of_a_directed_network_pairs_are_held_out_in_both_directions() -> None:
    random = np.random.default_rng(0)
    source, target = random.integers(0, 40, (2, 250)).astype(np.int32)
    graph, _ = directed(40, source, target, random.uniform(1, 2, 250).astype(np.float32))
    held = hold_out(graph, share=0.2, seed=0)
    whole = hold_out(graph.symmetric(), share=0.2, seed=0)
    assert np.array_equal(held.links, whole.links)
    assert all(np.array_equal(held.others[kind], whole.others[kind]) for kind in whole.others)
    held.graph.validate()
    assert held.graph.is_directed
    out = pair_set(held.links)
    assert graph.weights is not None
    assert held.graph.weights is not None
    before = zip(graph.sources().tolist(), graph.indices.tolist(), graph.weights.tolist(), strict=True)
    after = zip(held.graph.sources().tolist(), held.graph.indices.tolist(), held.graph.weights.tolist(), strict=True)
    assert list(after) == [(a, b, w) for a, b, w in before if (min(a, b), max(a, b)) not in out]
    mutual = {(a, b) for a, b in out if b in graph.neighbors(a) and a in graph.neighbors(b)}
    assert mutual
    left = held.graph.symmetric().degrees
    assert np.all(left[graph.symmetric().degrees > 0] > 0)  # nobody has lost the last link
    linked = {(min(a, b), max(a, b)) for a, b in zip(graph.sources().tolist(), graph.indices.tolist(), strict=True)}
    assert not any(pair_set(pairs) & linked for pairs in held.others.values())
