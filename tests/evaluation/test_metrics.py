"""Metrics: hand values, a slow textbook twin, and what must hold for any ranks."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcne.evaluation.metrics import METRICS, TITLES, pooled_recall, recall

Lists = list[list[int]]
MANY = settings(max_examples=200, deadline=None)

# one or more distinct places per user; few places, so that cutoffs cut
LISTS = st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True), min_size=1, max_size=8)
CUTOFFS = st.integers(1, 35)


def ragged(lists: Lists) -> tuple[np.ndarray, np.ndarray]:
    ranks = np.array([rank for one in lists for rank in one], dtype=np.int64)
    return ranks, np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)


def slow(name: str, places: list[int], cutoff: int) -> float:
    """The textbook's loop over the list of one user: is the item at each place relevant?"""
    relevant = [place in places for place in range(max([*places, cutoff]) + 1)]
    top = relevant[:cutoff]
    dcg = sum(1 / math.log2(place + 1) for place, hit in enumerate(top, start=1) if hit)
    ideal_hits = {"ndcg": sorted(relevant, reverse=True)[:cutoff], "hits_ideal_ndcg": sorted(top, reverse=True)}
    if name in ideal_hits:
        ideal = sum(1 / math.log2(place + 1) for place, hit in enumerate(ideal_hits[name], start=1) if hit)
        return dcg / ideal if ideal else 0.0
    if name == "mrr":
        return next((1 / place for place, hit in enumerate(top, start=1) if hit), 0.0)
    return {"recall": sum(top) / sum(relevant), "hit_rate": float(any(top))}[name]


def test_hand_values() -> None:
    ranks, offsets = ragged([[0, 3], [7], [25], [1, 40], [6, 5, 4, 3, 2, 1, 0], [9, 4, 2]])
    five = {name: metric(ranks, offsets, cutoff=5).tolist() for name, metric in METRICS.items()}
    assert five["recall"] == pytest.approx([1, 0, 0, 0.5, 5 / 7, 2 / 3])
    assert five["hit_rate"] == [1, 0, 0, 1, 1, 1]
    assert five["mrr"] == pytest.approx([1, 0, 0, 0.5, 1, 1 / 3])
    # 1 + 1/log2(5) = 1.430677 over 1 + 1/log2(3) = 1.630930; 0.630930; (0.5 + 0.386853) over 2.130930 and 1.630930
    assert five["ndcg"] == pytest.approx([0.877215, 0, 0, 0.386853, 1, 0.416181], abs=1e-6)
    assert five["hits_ideal_ndcg"] == pytest.approx([0.877215, 0, 0, 0.630930, 1, 0.543771], abs=1e-6)
    assert pooled_recall(ranks, cutoff=5) == pytest.approx(10 / 16)

    ten = {name: metric(ranks, offsets, cutoff=10).tolist() for name, metric in METRICS.items()}
    assert ten["recall"] == pytest.approx([1, 1, 0, 0.5, 1, 1])
    assert ten["mrr"] == pytest.approx([1, 1 / 8, 0, 0.5, 1, 1 / 3])
    assert ten["ndcg"][1] == ten["hits_ideal_ndcg"][1] == pytest.approx(1 / math.log2(9))
    assert pooled_recall(ranks, cutoff=10) == pytest.approx(14 / 16)


@pytest.mark.parametrize("name", METRICS)
@given(lists=LISTS, cutoff=CUTOFFS)
@MANY
def test_equals_the_slow_textbook_loop(name: str, lists: Lists, cutoff: int) -> None:
    got = METRICS[name](*ragged(lists), cutoff=cutoff)
    assert got.dtype == np.float64
    assert got.tolist() == pytest.approx([slow(name, places, cutoff) for places in lists], abs=1e-12)


def test_every_metric_has_a_slow_twin() -> None:
    assert len(METRICS) >= 5
    assert {metric.__name__: metric for metric in METRICS.values()} == METRICS
    assert {slow(name, [0], 5) for name in METRICS} == {1.0}
    assert set(TITLES) == {*METRICS, "pooled_recall"}


@given(lists=LISTS, cutoff=CUTOFFS)
@MANY
def test_what_holds_for_any_ranks(lists: Lists, cutoff: int) -> None:
    ranks, offsets = ragged(lists)
    got = {name: metric(ranks, offsets, cutoff=cutoff) for name, metric in METRICS.items()}
    for values in got.values():
        assert np.all(values >= 0)
        assert np.all(values <= 1 + 1e-12)
        assert np.array_equal(values > 0, got["hit_rate"] > 0)
    assert np.all(got["hits_ideal_ndcg"] >= got["ndcg"] - 1e-12)
    assert np.all(got["mrr"] <= got["hit_rate"])
    sizes = np.diff(offsets)
    assert pooled_recall(ranks, cutoff=cutoff) == pytest.approx(np.average(got["recall"], weights=sizes))
    for name in ("recall", "hit_rate", "mrr"):  # NDCG's ideal grows with the cutoff: it may fall
        assert np.all(METRICS[name](ranks, offsets, cutoff=cutoff + 1) >= got[name])


@given(lists=LISTS, cutoff=CUTOFFS, chance=st.randoms())
@MANY
def test_the_order_of_items_and_users_does_not_matter(lists: Lists, cutoff: int, chance: Random) -> None:
    order = list(range(len(lists)))
    chance.shuffle(order)
    shuffled = [chance.sample(lists[i], len(lists[i])) for i in order]
    for metric in METRICS.values():
        before, after = metric(*ragged(lists), cutoff=cutoff), metric(*ragged(shuffled), cutoff=cutoff)
        assert after.tolist() == pytest.approx(before[order].tolist(), abs=1e-12)


@given(places=st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True), cutoff=CUTOFFS, data=st.data())
@MANY
def test_an_item_moved_up_never_hurts(places: list[int], cutoff: int, data: st.DataObject) -> None:
    free = [place for place in range(max(places)) if place not in places]
    if not free:
        return
    better = data.draw(st.sampled_from(free))
    worst = places.index(max(places))
    moved = [better if i == worst else place for i, place in enumerate(places)]
    for name in ("recall", "ndcg", "hit_rate", "mrr"):  # hits-ideal NDCG may fall: a late hit spoils the order
        before, after = (METRICS[name](*ragged([one]), cutoff=cutoff)[0] for one in (places, moved))
        assert after >= before - 1e-12


def test_no_users() -> None:
    for metric in METRICS.values():
        assert metric(*ragged([]), cutoff=5).shape == (0,)
    assert pooled_recall(np.zeros(0, np.int64), cutoff=5) is None


def test_far_places_and_large_cutoffs() -> None:
    ranks, offsets = ragged([[2**40], [0, 1]])
    assert [metric(ranks, offsets, cutoff=20).tolist() for metric in METRICS.values()] == [[0, 1]] * len(METRICS)
    assert recall(ranks, offsets, cutoff=2**41).tolist() == [1, 1]
