"""The check of attention: sure where it was planted, silent where there is nothing, and its numbers by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.analysis.trunks import embeddings_of, random_embeddings, random_graph
from tests.errors import refused

from mcne.analysis import faithfulness as module
from mcne.analysis.faithfulness import faithfulness
from mcne.data.graph import Graph, undirected
from mcne.embeddings import Attention, ConditionalEmbeddings, Trunk
from mcne.errors import UsageError

N, D = 60, 8


def some_graph() -> Graph:
    ends = np.random.default_rng(1).integers(0, N, (2, 300)).astype(np.int32)
    return undirected(N, *ends[:, ends[0] != ends[1]])[0]


def planted(*, pointing: float) -> ConditionalEmbeddings:
    """Users have numbers in the first half of the dimensions alone, which is the mask of the first of four rows; the
    others see nothing of them. Attention points at the first row, ``pointing`` > 0, or away from it."""
    random = np.random.default_rng(2)
    vectors = np.zeros((N, D), dtype=np.float32)
    vectors[:, : D // 2] = random.uniform(1, 2, (N, D // 2))
    masks = np.zeros((4, D), dtype=bool)
    masks[0, : D // 2] = True
    masks[1:, D // 2 :] = True
    weigh = Attention(np.ones((1, 2 * D), dtype=np.float32), np.full(1, pointing, dtype=np.float32))
    combine = np.abs(random.normal(size=(D, 2 * D))).astype(np.float32)
    trunk = Trunk((vectors,), (masks, np.ones((4, D), dtype=bool)), (weigh,), combine=(combine,))
    return embeddings_of(trunk, some_graph(), random)


def finding(result: dict[str, Any], *what: str) -> dict[str, Any]:
    one: dict[str, Any]
    (one,) = (each for each in result["findings"] if (each["part"], each["chance"], each["measure"]) == what)
    return one


def test_attention_that_points_at_what_matters_is_believed() -> None:
    result = faithfulness(planted(pointing=1.0), seed=0, draws=8)
    for chance in ("random", "swapped"):
        ratio = finding(result, "behaviors", chance, "vectors")["ratio"]
        assert ratio["value"] is not None
        assert ratio["low"] is not None
        assert ratio["value"] > 1.5
        assert ratio["low"] > 1
    least = finding(result, "behaviors", "random", "vectors")["least_ratio"]
    assert least["high"] is not None
    assert least["high"] < 1
    json.dumps(result, allow_nan=False)


def test_attention_that_points_away_is_not_which_independent_draws_do_not_notice() -> None:
    result = faithfulness(planted(pointing=-0.1), seed=0, draws=30)
    told = finding(result, "behaviors", "swapped", "vectors")
    assert told["most"] < told["by_chance"] < told["least"]
    assert told["ratio"]["high"] is not None
    assert told["ratio"]["high"] < 1
    assert told["least_ratio"]["low"] is not None
    assert told["least_ratio"]["low"] > 1
    unaware = finding(result, "behaviors", "random", "vectors")["ratio"]["low"]
    assert unaware is not None
    assert unaware > 1


def test_longer_messages_count_more_than_random_ones() -> None:
    """Where one friend in four says a hundred times as much as the others, to leave it out changes most."""
    random = np.random.default_rng(3)
    graph = some_graph()
    vectors = random.uniform(0.5, 1, (N, D)).astype(np.float32)
    vectors[::4] *= 100
    masks = np.ones((3, D), dtype=bool)
    combine = np.concatenate([np.eye(D), np.zeros((D, D))], axis=1).astype(np.float32)
    trunk = Trunk((vectors,), (masks, masks), None, combine=(combine,))
    result = faithfulness(embeddings_of(trunk, graph, random), seed=0, draws=5)
    assert {each["part"] for each in result["findings"]} == {"links"}  # all behaviors weigh the same: none is the most
    ratio = finding(result, "links", "random", "vectors")["ratio"]
    assert ratio["low"] is not None
    assert ratio["low"] > 1.2


def test_the_same_seed_says_the_same() -> None:
    made = random_embeddings(0, graph=random_graph(0, 40, 120))
    assert faithfulness(made, seed=1, draws=3) == faithfulness(made, seed=1, draws=3)
    assert faithfulness(made, seed=1, draws=3) != faithfulness(made, seed=2, draws=3)


def test_where_nothing_changes_there_is_no_ratio() -> None:
    made = planted(pointing=1.0)
    assert made.trunk is not None
    deaf = np.concatenate([np.zeros((D, D)), np.eye(D)], axis=1).astype(np.float32)  # hears, and does not care
    trunk = replace(made.trunk, combine=(deaf,))
    result = faithfulness(embeddings_of(trunk, made.graph, np.random.default_rng(0)), seed=0, draws=2)
    assert {each["ratio"]["value"] for each in result["findings"]} == {None}
    assert {each["most"] for each in result["findings"]} == {0.0}


def test_users_whose_vectors_are_nothing_are_left_aside() -> None:
    made = planted(pointing=1.0)
    assert made.trunk is not None
    dead = replace(made.trunk, combine=(-np.ones((D, 2 * D), dtype=np.float32),))
    result = faithfulness(embeddings_of(dead, made.graph, np.random.default_rng(0)), seed=0, draws=2)
    assert (result["users_with_vectors"], result["users_with_scores"]) == (0, 0)
    assert {each["ratio"]["value"] for each in result["findings"]} == {None}
    json.dumps(result, allow_nan=False)


def test_a_tenth_of_the_links_one_at_least_never_all() -> None:
    star = undirected(32, np.array([0] * 31 + [1], np.int32), np.array([*range(1, 32), 2], np.int32))[0]
    order = np.arange(star.n_directions, dtype=np.float64)
    chosen = module._highest(order, star)
    by_user = np.bincount(star.sources(), chosen, minlength=32)
    assert by_user[:4].tolist() == [3, 1, 1, 0]  # of 31, 2, 2 and 1
    hub = np.flatnonzero(chosen[: star.indptr[1]])
    assert hub.tolist() == [28, 29, 30]


def test_changes_by_hand() -> None:
    before, after = np.array([[0, 2, 4, 6]], np.float32), np.array([[1, 2, 4, 0]], np.float32)
    deviation = np.sqrt(5)
    assert module._difference(before, after) == pytest.approx([(1 + 6) / 4 / deviation])
    assert module._difference(before * 0, after) == pytest.approx([0])  # no spread to measure by
    assert sorted(module._top(before)[0]) == [2, 3]  # half of four
    assert module._replaced(module._top(before), module._top(after)) == pytest.approx([0.5])


def test_a_ratio_and_its_interval() -> None:
    columns = np.column_stack([np.full(50, 3.0), np.full(50, 0.5), np.full(50, 0.5), np.full(50, 1.5)])
    resampled = module._resampled(columns, seed=0)
    assert resampled.shape == (module.RESAMPLES, 3)
    assert set(np.round(resampled[:, 2], 9)) == {0.5, 1.0, 1.5}  # which of two draws: both, one, or the other
    ratio = module._ratio(columns.mean(axis=0), resampled, 0)
    assert (ratio["value"], ratio["low"], ratio["high"]) == pytest.approx((3.0, 2.0, 6.0))


def test_one_draw_has_no_spread() -> None:
    with refused(UsageError, place="draws", value=1):
        faithfulness(planted(pointing=1.0), seed=0, draws=1)
