"""Negatives: what may be drawn, how much of it, and with which chances."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mcne.data import negatives as module
from mcne.data.negatives import Negatives, draw_negatives
from mcne.randomness import Stream

Seen = set[tuple[int, int]]


def draw(
    users: list[int], seen: Seen, weights: list[int], *, count: int, seed: int = 0, purpose: str = "test"
) -> Negatives:
    pairs = np.array(sorted(seen), dtype=np.int64).reshape(-1, 2)
    return draw_negatives(
        np.array(users, dtype=np.int32),
        pairs[:, 0].astype(np.int32),
        pairs[:, 1].astype(np.int32),
        weights=np.array(weights, dtype=np.int64),
        stream=Stream(seed, purpose),
        count=count,
    )


def check_rows(drawn: Negatives, users: list[int], seen: Seen, weights: list[int], count: int) -> None:
    """Row by row: distinct unseen items of positive weight, as many as asked for or else all there are."""
    assert drawn.users.tolist() == users
    assert drawn.items.shape == (len(users), count)
    n_short = 0
    for user, row in zip(users, drawn.items.tolist(), strict=True):
        may_be = {item for item, weight in enumerate(weights) if weight and (user, item) not in seen}
        items = [item for item in row if item >= 0]
        assert row == items + [-1] * (count - len(items))  # −1 at the end only
        assert len(set(items)) == len(items) == min(count, len(may_be))
        assert set(items) <= may_be
        n_short += len(may_be) < count
    assert drawn.n_short == n_short


@st.composite
def cases(draw_from: st.DrawFn) -> tuple[list[int], Seen, list[int], int]:
    """Few to many items for the count, so that rounds, lists and both together take place."""
    n_items = draw_from(st.integers(1, 40))
    users = sorted(draw_from(st.sets(st.integers(0, 9))))
    pair = st.tuples(st.integers(0, 9), st.integers(0, n_items - 1))
    seen = draw_from(st.sets(pair, max_size=60))
    weights = draw_from(st.lists(st.sampled_from([0, 1, 1, 2, 1000]), min_size=n_items, max_size=n_items))
    return users, seen, weights, draw_from(st.integers(1, 8))


@settings(max_examples=200, deadline=None)
@given(cases(), st.integers(0, 5))
def test_every_row_holds_what_it_may_and_as_much_as_it_can(
    case: tuple[list[int], Seen, list[int], int], seed: int
) -> None:
    users, seen, weights, count = case
    drawn = draw(users, seen, weights, count=count, seed=seed)
    check_rows(drawn, users, seen, weights, count)
    again = draw(users, seen, weights, count=count, seed=seed)
    assert np.array_equal(drawn.items, again.items)


def test_many_users_are_drawn_for_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "USERS_AT_ONCE", 3)
    users, weights = list(range(0, 20, 2)), [1, 2, 3] * 10
    seen = {(user, item) for user in users for item in range(user)}
    check_rows(draw(users, seen, weights, count=5), users, seen, weights, 5)


def test_the_real_count_on_a_real_catalog() -> None:
    users, weights = [3, 5, 8], [1] * 500
    seen = {(5, item) for item in range(350)} | {(8, item) for item in range(420)}
    drawn = draw_negatives(
        np.array(users, np.int32),
        *np.array(sorted(seen), dtype=np.int32).T,
        weights=np.array(weights),
        stream=Stream(0, "x"),
    )
    check_rows(drawn, users, seen, weights, 100)
    assert drawn.n_short == 1  # 80 items are left for user 8


@pytest.mark.parametrize("word", [0, 2**64 - 1])
def test_the_ends_of_the_random_numbers_draw_nothing_of_weight_0(word: int) -> None:
    class Extreme(Stream):
        def bits(self, shape: int | tuple[int, ...]) -> np.ndarray:
            return np.full(shape, word, dtype=np.uint64)

    weights = [0, 3, 1, 2, 5, 1, 0, 0]
    nobody = np.zeros(0, np.int32)
    drawn = draw_negatives(
        np.array([0], np.int32), nobody, nobody, weights=np.array(weights), stream=Extreme(0, "x"), count=2
    )
    check_rows(drawn, [0], set(), weights, 2)


def test_nobody_and_nothing() -> None:
    nobody = draw([], set(), [1, 1], count=3)
    assert (nobody.items.shape, nobody.n_short) == ((0, 3), 0)
    nothing = draw([0, 1], set(), [0, 0, 0], count=2)
    assert nothing.items.tolist() == [[-1, -1], [-1, -1]]
    assert nothing.n_short == 2
    all_seen = draw([0], {(0, 0), (0, 1)}, [1, 1], count=2)
    assert all_seen.items.tolist() == [[-1, -1]]


def test_negatives_are_frozen() -> None:
    drawn = draw([0], set(), [1, 1, 1], count=2)
    for array in (drawn.users, drawn.items):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize("other", [{"seed": 1}, {"purpose": "validation"}])
def test_another_stream_draws_other_items(other: dict[str, Any]) -> None:
    users, weights = list(range(50)), [1] * 300
    ours, theirs = draw(users, set(), weights, count=20), draw(users, set(), weights, count=20, **other)
    assert not np.array_equal(ours.items, theirs.items)
    shared = np.mean([len(set(a) & set(b)) for a, b in zip(ours.items.tolist(), theirs.items.tolist(), strict=True)])
    assert shared == pytest.approx(20 * 20 / 300, abs=0.6)  # as many as by chance


# --- chances ---


def chances(weights: list[int], seen: set[int], count: int) -> dict[tuple[int, ...], float]:
    """Every ordered outcome of drawing one by one, in proportion to the weights of what is left, exactly."""
    left = [item for item, weight in enumerate(weights) if weight and item not in seen]
    by_order = {}
    for order in itertools.permutations(left, count):
        rest = sum(weights[item] for item in left)
        chance = 1.0
        for item in order:
            chance *= weights[item] / rest
            rest -= weights[item]
        by_order[order] = chance
    assert sum(by_order.values()) == pytest.approx(1)
    return by_order


def p_value(drawn: np.ndarray, expected: dict[tuple[int, ...], float]) -> float:
    """Of a chi-square test over the ordered outcomes; those expected fewer than 5 times are taken together."""
    counts = dict.fromkeys(expected, 0)
    for order in map(tuple, drawn.tolist()):
        counts[order] += 1  # an outcome that cannot be is a KeyError
    seen, wanted = np.array(list(counts.values())), len(drawn) * np.array(list(expected.values()))
    few = wanted < 5
    if few.any():
        seen, wanted = (np.append(values[~few], values[few].sum()) for values in (seen, wanted))
    return float(stats.chi2.sf(((seen - wanted) ** 2 / wanted).sum(), len(wanted) - 1))


CASES = {
    "uniform": ([1] * 5, set()),
    "popular": ([1, 2, 3, 4, 10], set()),
    "one item above all": ([100, 1, 1, 1, 1], set()),
    "weight 0": ([3, 0, 1, 1, 2, 5], set()),
    "seen": ([1, 2, 3, 4, 10, 6, 1], {1, 4}),
}


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("rounds", [0, 1, 4, 2000], ids=["list", "one round, then list", "as it is", "rounds alone"])
def test_each_way_of_drawing_has_the_exact_chances(case: str, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of five items for thousands of users: the frequency of every ordered pair against its chance."""
    weights, seen_items = CASES[case]
    n_users = 15_000
    listed: list[np.ndarray] = []
    complete = module._complete

    def listing(rows: np.ndarray, *rest: Any) -> Any:
        listed.extend(rows.copy())
        return complete(rows, *rest)

    monkeypatch.setattr(module, "ROUNDS", rounds)
    monkeypatch.setattr(module, "_complete", listing)
    users = list(range(n_users))
    seen = {(user, item) for user in users for item in seen_items}
    drawn = draw(users, seen, weights, count=2, purpose=f"{case} {rounds}").items

    if rounds == 0:
        assert len(listed) == n_users
    elif rounds == 2000:
        assert not listed
    elif rounds == 1 and case != "uniform":
        assert any(row[0] >= 0 for row in listed)  # rows that a round had begun
        assert len(listed) < n_users
    assert p_value(drawn, chances(weights, seen_items, 2)) > 1e-3


def test_rows_too_short_for_rounds_have_the_exact_chances_too() -> None:
    """Four items for two draws come from the list at once; users side by side with other histories do not matter."""
    weights = [1, 2, 3, 4, 10]
    n_users = 16_000
    users = list(range(n_users))
    seen = {(user, 3) for user in users[::2]}
    drawn = draw(users, seen, weights, count=2).items
    for start, seen_items in ((0, {3}), (1, set())):
        assert p_value(drawn[start::2], chances(weights, seen_items, 2)) > 1e-3


def test_uniform_negatives_are_uniform_over_a_large_catalog() -> None:
    """Items by how often they come, each against its own expectation, since users exclude what they saw."""
    n_users, n_items, count = 400, 1000, 100
    random = np.random.default_rng(0)
    seen = {
        (int(u), int(i)) for u, i in zip(random.integers(0, n_users, 8000), random.integers(0, 200, 8000), strict=True)
    }
    drawn = draw(list(range(n_users)), seen, [1] * n_items, count=count).items
    is_seen = np.zeros((n_users, n_items), dtype=bool)
    is_seen[tuple(np.array(sorted(seen)).T)] = True
    chance = np.where(is_seen, 0, count / (n_items - is_seen.sum(axis=1, keepdims=True)))
    came = np.bincount(drawn.ravel(), minlength=n_items)
    z = (came - chance.sum(axis=0)) / np.sqrt((chance * (1 - chance)).sum(axis=0))
    assert 1e-3 < stats.chi2.sf((z**2).sum(), n_items - 1) < 1 - 1e-3
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 0.2  # neighbors in a row do not go together


# --- the pieces ---


def slow_first_fresh(before: list[int], candidates: list[int]) -> list[int]:
    kept: list[int] = []
    for item in [*before, *candidates]:
        if item >= 0 and item not in kept:
            kept.append(item)
    return (kept + [-1] * len(before))[: len(before)]


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5), st.integers(0, 8), st.integers(1, 4), st.data())
def test_first_fresh_equals_a_loop(count: int, n_candidates: int, n_rows: int, data: st.DataObject) -> None:
    before, candidates = [], []
    for _ in range(n_rows):
        have = data.draw(st.lists(st.integers(0, 9), max_size=count, unique=True))
        before.append(have + [-1] * (count - len(have)))
        candidates.append(data.draw(st.lists(st.integers(-1, 9), min_size=n_candidates, max_size=n_candidates)))
    fresh = module._first_fresh(
        np.array(before, dtype=np.int32), np.array(candidates, dtype=np.int32).reshape(n_rows, n_candidates)
    )
    assert fresh.tolist() == [slow_first_fresh(*pair) for pair in zip(before, candidates, strict=True)]
