"""Recommendations and similar users and items: by hand, and equal to sorting everything."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from tests.errors import refused

from mcne.data.ids import Ids
from mcne.embeddings import ConditionalEmbeddings, Ranking
from mcne.embeddings.ranking import VectorTable, inverse_norms
from mcne.errors import UsageError


def pairs(ranking: Ranking) -> list[tuple[int | str, float]]:
    assert len(ranking) == len(ranking.ids) == len(ranking.scores)
    return list(ranking)


# --- by hand ---


def test_recommend_by_hand(tiny: ConditionalEmbeddings) -> None:
    assert pairs(tiny.recommend(10, "Books")) == [("c", 3), ("b", 2)]
    assert pairs(tiny.recommend(10, "Books", filter_seen=False, k=2)) == [("c", 3), ("b", 2)]
    assert pairs(tiny.recommend(20, "Books", filter_seen=False)) == [("c", 3), ("a", 2), ("b", 1)]
    assert pairs(tiny.recommend(30, "Travel")) == [("x", 3.5)]


def test_a_new_user_gets_the_lower_rows_of_equal_items(tiny: ConditionalEmbeddings) -> None:
    assert pairs(tiny.recommend(40, "Books", k=2)) == [("a", 0), ("b", 0)]


def test_nothing_is_left_where_all_is_seen(tiny: ConditionalEmbeddings) -> None:
    assert pairs(tiny.recommend(10, "Travel")) == []
    assert [len(ranking) for ranking in tiny.recommend([10, 30], "Travel")] == [0, 1]


def test_similar_users_by_hand(tiny: ConditionalEmbeddings) -> None:
    assert pairs(tiny.similar_users(10, "Books")) == [(20, 4), (30, 0), (40, 0)]
    assert pairs(tiny.similar_users(20, "Travel", k=2)) == [(30, 3), (10, 2)]
    assert pairs(tiny.similar_users(20)) == [(10, 4), (30, 3), (40, 0)]
    by_cosine = tiny.similar_users(20, cosine=True)
    assert by_cosine.ids == (10, 30, 40)
    assert by_cosine.scores == pytest.approx([4 / np.sqrt(30), 1 / np.sqrt(6), 0])
    assert pairs(tiny.similar_users(40, "Books", cosine=True)) == [(10, 0), (20, 0), (30, 0)]


def test_similar_items_by_hand(tiny: ConditionalEmbeddings) -> None:
    assert pairs(tiny.similar_items("a", "Books")) == [("c", 1), ("b", 0)]
    assert tiny.similar_items("a", "Books", cosine=True).scores == pytest.approx([1 / np.sqrt(2), 0])
    assert pairs(tiny.similar_items("x", "Travel")) == []


def test_one_id_or_many(tiny: ConditionalEmbeddings) -> None:
    one = tiny.recommend(20, "Books")
    assert isinstance(one, Ranking)
    for many in ([20], (20,), np.array([20]), ["20"]):
        answers = tiny.recommend(many, "Books")
        assert [pairs(answer) for answer in answers] == [pairs(one)]
    of_numpy: Any = np.int32(20)
    assert pairs(tiny.recommend(of_numpy, "Books")) == pairs(tiny.recommend("20", "Books")) == pairs(one)
    assert tiny.recommend([], "Books") == []
    assert [pairs(answer) for answer in tiny.similar_users([30, 10, 30])] == [
        pairs(tiny.similar_users(user)) for user in (30, 10, 30)
    ]


def test_bias_alone_ranks_by_bias(bias_alone: ConditionalEmbeddings) -> None:
    assert bias_alone.scores(0, np.array([0, 3])).tolist() == [[2, 1, 2], [2, 1, 2]]
    assert bias_alone.scores(0, np.array([0]), np.array([[1, 0]])).tolist() == [[1, 2]]
    assert pairs(bias_alone.recommend(40, "Books")) == [("a", 2), ("c", 2), ("b", 1)]
    assert pairs(bias_alone.recommend(10, "Books")) == [("c", 2), ("b", 1)]
    assert bias_alone.user_vectors("Books").shape == (4, 0)
    with refused(UsageError, value="popularity"):
        bias_alone.similar_users(10)
    with refused(UsageError, value="popularity"):
        bias_alone.similar_items("a", "Books")


# --- against sorting everything ---


def brute(ids: Ids, scores: np.ndarray, k: int, without: Any = ()) -> list[tuple[int | str, float]]:
    """Sort all rows by falling score, then by row."""
    rows = [row for row in range(len(ids)) if row not in set(np.asarray(without, dtype=int).tolist())]
    best = sorted(rows, key=lambda row: (-scores[row], row))[:k]
    return [(ids[row], float(scores[row])) for row in best]


def exact(queries: np.ndarray, table: np.ndarray) -> np.ndarray:
    return queries.astype(np.float64) @ table.astype(np.float64).T


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("k", [1, 7, 29, 30, 1000])
def test_queries_equal_sorting_everything(random_embeddings: Any, seed: int, whole: bool, k: int) -> None:
    embeddings = random_embeddings(seed, whole=whole)
    users = embeddings.users[:]
    for space in embeddings.spaces:
        masked = embeddings.user_vectors(space.name)
        scores = exact(masked, space.item_vectors) + (0 if space.item_bias is None else space.item_bias)
        scores = scores.astype(np.float32)
        for filter_seen in (True, False):
            rankings = embeddings.recommend(users, space.name, k=k, filter_seen=filter_seen)
            for user, ranking in enumerate(rankings):
                seen = space.seen(user) if filter_seen else []
                assert pairs(ranking) == brute(space.items, scores[user], k, seen)
        likes = exact(masked, masked).astype(np.float32)
        for user, ranking in enumerate(embeddings.similar_users(users, space.name, k=k)):
            assert pairs(ranking) == brute(embeddings.users, likes[user], k, [user])
        items = space.item_vectors * space.mask
        likes = exact(items, items).astype(np.float32)
        for item, ranking in enumerate(embeddings.similar_items(space.items[:], space.name, k=k)):
            assert pairs(ranking) == brute(space.items, likes[item], k, [item])
    likes = exact(embeddings.vectors, embeddings.vectors).astype(np.float32)
    for user, ranking in enumerate(embeddings.similar_users(users, k=k)):
        assert pairs(ranking) == brute(embeddings.users, likes[user], k, [user])


@pytest.mark.parametrize("seed", range(4))
def test_cosine_equals_normalizing_everything(random_embeddings: Any, seed: int) -> None:
    embeddings = random_embeddings(seed, whole=False)
    for behavior in ("first", "added", None):
        masked = embeddings.vectors if behavior is None else embeddings.user_vectors(behavior)
        norms = np.linalg.norm(masked, axis=1)
        cosines = exact(masked, masked) / np.maximum(np.outer(norms, norms), 1e-30)
        for user, ranking in enumerate(embeddings.similar_users(embeddings.users[:], behavior, k=5, cosine=True)):
            expected = brute(embeddings.users, cosines[user], 5, [user])
            assert ranking.ids == tuple(raw for raw, _ in expected)
            assert ranking.scores == pytest.approx([score for _, score in expected], abs=1e-6)


def test_an_answer_does_not_depend_on_who_else_is_asked_about(random_embeddings: Any, monkeypatch: Any) -> None:
    embeddings = random_embeddings(0, whole=False, n_users=300, n_items=200, d=33)
    users = embeddings.users[:]
    for cosine in (False, True):
        together = embeddings.similar_users(users, "first", k=20, cosine=cosine)
        alone = [embeddings.similar_users(user, "first", k=20, cosine=cosine) for user in users]
        assert list(map(pairs, together)) == list(map(pairs, alone))
    together = embeddings.recommend(users, "first", k=20)
    monkeypatch.setattr("mcne.embeddings.ranking.AT_ONCE", 1000)
    assert list(map(pairs, together)) == list(map(pairs, embeddings.recommend(users, "first", k=20)))


def test_scores_closer_than_float32_rounding_keep_their_order() -> None:
    """Large terms that cancel: in float32 the order would be that of the rounding errors."""
    random = np.random.default_rng(0)
    direction = random.normal(size=64)
    rows = 1000 * random.normal(size=(500, 64))
    rows -= np.outer(rows @ direction / (direction @ direction), direction)
    query, table = direction.astype(np.float32), rows.astype(np.float32)
    truth = exact(query[None], table)[0].astype(np.float32)
    assert set(np.argsort(-(table @ query))[:20]) != set(np.argsort(-truth)[:20])
    ranking = VectorTable(Ids(np.arange(500)), table).search(query[None], k=20, excluded=[np.zeros(0, int)])[0]
    assert pairs(ranking) == brute(Ids(np.arange(500)), truth, 20)


def test_equal_vectors_tie_by_row_also_by_cosine() -> None:
    vectors = np.tile(np.random.default_rng(0).normal(size=37).astype(np.float32), (1003, 1))
    scale = inverse_norms(vectors, np.ones(37, bool))
    for table in (VectorTable(Ids(np.arange(1003)), vectors), VectorTable(Ids(np.arange(1003)), vectors, scale)):
        rankings = table.search(vectors[:3], k=4, excluded=[np.array([row]) for row in range(3)])
        assert [ranking.ids for ranking in rankings] == [(1, 2, 3, 4), (0, 2, 3, 4), (0, 1, 3, 4)]


def test_tiny_and_zero_vectors_have_a_cosine() -> None:
    vectors = np.array([[1e-10, 0], [0, 0], [1e-20, 0], [1e15, 1e15]], np.float32)
    assert inverse_norms(vectors, np.array([True, True])) == pytest.approx([1e10, 0, 0, 1 / np.sqrt(2e30)])
    assert inverse_norms(vectors, np.array([False, True])) == pytest.approx([0, 0, 0, 1e-15])


# --- mistakes ---


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda e: e.recommend(100, "Books"), "unknown user 100; did you mean 10.* from 10 to 40"),
        (lambda e: e.recommend([10, "11"], "Books"), "unknown user '11'"),
        (lambda e: e.recommend(1.5, "Books"), r"^user: 1\.5 "),
        (lambda e: e.recommend([1.5], "Books"), r"unknown user 1\.5"),
        (lambda e: e.recommend(None, "Books"), "^user: None "),
        (lambda e: e.recommend(10, "Book"), "unknown behavior 'Book'; did you mean 'Books'"),
        (lambda e: e.similar_users(10, "Sports"), "unknown behavior 'Sports'; .* Books, Travel"),
        (lambda e: e.similar_items("d", "Books"), "unknown item 'd' of behavior 'Books'; .* from 'a' to 'c'"),
        (lambda e: e.similar_items("x", "Books"), "unknown item 'x' of behavior 'Books'"),
        (lambda e: e.user_vectors("books"), "unknown behavior 'books'; did you mean 'Books'"),
        (lambda e: e.vector(50), "unknown user 50"),
        (lambda e: e.recommend(10, "Books", k=0), "k: 0 "),
        (lambda e: e.similar_users(10, k=-3), "k: -3 "),
        (lambda e: e.similar_items("a", "Books", k=0), "k: 0 "),
    ],
)
def test_mistakes_are_named(tiny: ConditionalEmbeddings, ask: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ask(tiny)


def test_text_ids_are_found(tiny: ConditionalEmbeddings) -> None:
    named = dataclasses.replace(tiny, users=Ids(["ann", "bob", "cid", "dee"]))
    assert pairs(named.similar_users("ann", "Books", k=1)) == [("bob", 4)]
    assert [answer.ids for answer in named.similar_users(["ann", "bob"], k=1)] == [("bob",), ("ann",)]
    with refused(UsageError, value="anne"):
        named.recommend("anne", "Books")
