"""Significance: hand values, a resample by hand, null and planted differences, Holm's family."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.errors import refused
from tests.evaluation.test_protocol import Table, make, random_triples, tables
from tests.values import not_none

from mcne.data.split import random_split
from mcne.errors import UsageError
from mcne.evaluation import significance as module
from mcne.evaluation.protocol import Evaluation, evaluate
from mcne.evaluation.significance import BehaviorScores, UserScores, averaged, compare, holm
from mcne.randomness import Stream

SUBJECT = ("test", "full", "ndcg@5")
Records = dict[str, dict[int, float]]  # behavior -> user -> score


def scores(records: Records, weights: Records | None = None) -> UserScores:
    """Users count the same unless there are weights."""
    made = {}
    for behavior, each in records.items():
        share = np.array([1.0 if weights is None else weights[behavior][user] for user in each])
        users, values = np.array(list(each), np.int32), np.array(list(each.values()), np.float64)
        made[behavior] = BehaviorScores(users, share / share.sum(), values)
    return UserScores(SUBJECT, made)


def random_pair(seed: int, n: int, *, effect: float = 0.0, shared: float = 1.0) -> tuple[UserScores, UserScores]:
    """Two methods on behaviors of about 2n/3 of n users each; differences of a user are alike in all behaviors."""
    random = np.random.default_rng(seed)
    level, taste = random.normal(size=(2, n))
    one: Records = {}
    other: Records = {}
    for behavior in ("Books", "Travel", "Food"):
        users = np.flatnonzero(random.random(n) < 2 / 3).tolist()
        noise = shared * taste + random.normal(size=n)
        other[behavior] = {user: float(level[user]) for user in users}
        one[behavior] = {user: float(level[user] + noise[user] + effect) for user in users}
    return scores(one), scores(other)


def test_hand_values() -> None:
    one = {"Books": {0: 0.5, 1: 0.5, 4: 0.25, 7: 0.0}, "Travel": {1: 1.0, 2: 0.5}}
    other = {"Books": {0: 0.0, 1: 0.5, 4: 0.5, 7: 0.0}, "Travel": {1: 0.0, 2: 0.0}}
    got = compare(scores(one), {"line": scores(other)}, resamples=2000)["line"]
    # paired differences of Books: 0.5, 0, −0.25, 0; of Travel: 1, 0.5, with variance 0.125
    assert got.behaviors["Books"].difference == pytest.approx(0.0625)
    assert got.behaviors["Books"].effect_size == pytest.approx(0.0625 / np.std([0.5, 0, -0.25, 0], ddof=1))
    assert (got.behaviors["Books"].better, got.behaviors["Books"].worse, got.behaviors["Books"].users) == (
        0.25,
        0.25,
        4,
    )
    assert got.behaviors["Travel"].effect_size == pytest.approx(0.75 / 0.125**0.5)
    assert (got.behaviors["Travel"].low, got.behaviors["Travel"].high) == (0.5, 1.0)
    assert got.behaviors["Travel"].p == pytest.approx(0.0, abs=2e-3)  # no resample reaches 0
    assert got.overall.difference == pytest.approx((0.0625 + 0.75) / 2)
    variances = [float(np.var([0.5, 0, -0.25, 0], ddof=1)), 0.125]
    assert got.overall.effect_size == pytest.approx(got.overall.difference / np.sqrt(np.mean(variances)))
    assert (got.overall.better, got.overall.worse, got.overall.users) == ((0.25 + 1) / 2, 0.125, 5)


def by_hand(one: UserScores, other: UserScores, resamples: int, seed: int) -> list[dict[str, float]]:
    """Every resample as a list of users, its means by summing records one by one."""
    users = sorted({user for each in one.behaviors.values() for user in each.users.tolist()})
    records: dict[str, dict[int, tuple[float, float]]] = {}
    for name, each in one.behaviors.items():
        difference = (each.scores - other.behaviors[name].scores).tolist()
        records[name] = dict(zip(each.users.tolist(), zip(each.weights.tolist(), difference, strict=True), strict=True))
    resampled = []
    for drawn in Stream(seed, "bootstrap").integers(len(users), (resamples, len(users))).tolist():
        means = {}
        for name, mine in records.items():
            inside = [mine[users[row]] for row in drawn if users[row] in mine]
            if inside:
                means[name] = sum(w * d for w, d in inside) / sum(w for w, _ in inside)
        resampled.append(means | {"": sum(means.values()) / len(means)})
    return resampled


@pytest.mark.parametrize("at_once", [1 << 20, 100, 1])
def test_equals_resampling_by_hand(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    random = np.random.default_rng(0)
    one, other, weights = (
        {name: {u: float(x) for u, x in zip(users, random.random(len(users)), strict=True)} for name, users in rows}
        for rows in [[("Books", range(0, 20, 2)), ("Travel", range(14)), ("Rare", [31])]] * 3
    )
    pair = scores(one, weights), scores(other, weights)
    got = compare(pair[0], {"x": pair[1]}, resamples=300, seed=7)["x"]
    expected = by_hand(*pair, resamples=300, seed=7)
    assert 50 < sum("Rare" not in each for each in expected) < 200  # left out of the mean where it is not drawn
    for name, comparison in {"": got.overall, **got.behaviors}.items():
        drawn = np.array([each[name] for each in expected if name in each])
        assert (comparison.low, comparison.high) == pytest.approx(tuple(np.quantile(drawn, (0.025, 0.975))))
        tail = min(np.count_nonzero(drawn <= 0), np.count_nonzero(drawn >= 0))
        assert comparison.p == pytest.approx(min(1, 2 * (tail + 1) / (len(drawn) + 1)))
    weighted = [np.average(list(one[b].values()), weights=list(weights[b].values())) for b in one]
    assert pair[0].mean() == pytest.approx(np.mean(weighted))
    assert got.overall.difference == pytest.approx(not_none(pair[0].mean()) - not_none(pair[1].mean()))


def test_a_null_difference_is_rarely_found() -> None:
    pairs = [random_pair(seed, 60) for seed in range(200)]
    p = np.array(
        [compare(one, {"x": other}, resamples=400, seed=i)["x"].overall.p for i, (one, other) in enumerate(pairs)]
    )
    assert 0.02 <= np.mean(p < 0.05) <= 0.08
    assert 0.40 <= np.mean(p < 0.50) <= 0.60
    assert 0.80 <= np.mean(p < 0.90) <= 0.97


def test_a_planted_difference_is_found() -> None:
    comparisons = [
        compare(one, {"x": other}, resamples=400)["x"].overall
        for one, other in (random_pair(seed, 200, effect=0.5) for seed in range(20))
    ]
    # differences have mean 0.5 and deviation √2
    assert all(each.p < 0.05 and each.low > 0 for each in comparisons)
    assert np.mean([each.effect_size for each in comparisons]) == pytest.approx(0.5 / 2**0.5, abs=0.04)
    assert np.mean([each.low < 0.5 < each.high for each in comparisons]) >= 0.85
    assert all(each.better > each.worse for each in comparisons)


def test_behaviors_that_repeat_each_other_add_no_certainty() -> None:
    random = np.random.default_rng(3)
    mine = {user: float(x) for user, x in enumerate(random.normal(0.2, 1, 80))}
    zero = dict.fromkeys(mine, 0.0)
    once = compare(scores({"a": mine}), {"x": scores({"a": zero})})["x"].overall
    thrice = compare(scores(dict.fromkeys("abc", mine)), {"x": scores(dict.fromkeys("abc", zero))})["x"].overall
    assert (thrice.low, thrice.high, thrice.p) == pytest.approx((once.low, once.high, once.p))
    # users apart are three times as many
    apart = {name: {user + 80 * k: x for user, x in mine.items()} for k, name in enumerate("abc")}
    zeros = {name: dict.fromkeys(each, 0.0) for name, each in apart.items()}
    free = compare(scores(apart), {"x": scores(zeros)})["x"].overall
    assert (once.high - once.low) / (free.high - free.low) == pytest.approx(3**0.5, rel=0.05)


def test_the_interval_agrees_with_the_textbook() -> None:
    one, other = random_pair(5, 900, shared=0.0)
    got = compare(one, {"x": other})["x"].behaviors["Books"]
    d = one.behaviors["Books"].scores - other.behaviors["Books"].scores
    error = d.std(ddof=1) / len(d) ** 0.5
    assert (got.low, got.high) == pytest.approx((d.mean() - 1.96 * error, d.mean() + 1.96 * error), abs=0.08 * error)
    assert got.effect_size == pytest.approx(d.mean() / d.std(ddof=1))


def test_the_same_method_twice() -> None:
    one, _ = random_pair(1, 50)
    got = compare(one, {"itself": one}, resamples=200)["itself"].overall
    assert (got.difference, got.low, got.high, got.p, got.adjusted_p) == (0, 0, 0, 1, 1)
    assert (got.effect_size, got.better, got.worse) == (None, 0, 0)
    thirds = scores({"a": {0: 0.1 + 0.2, 1: 0.3, 2: 0.3}})  # rounding takes no side
    assert compare(thirds, {"x": scores({"a": dict.fromkeys(range(3), 0.3)})}, resamples=200)["x"].overall.p == 1


def test_turned_around() -> None:
    one, other = random_pair(2, 60, effect=0.2)
    for forth, back in zip(
        *(compare(a, {"x": b}, resamples=500)["x"].behaviors.values() for a, b in ((one, other), (other, one))),
        strict=True,
    ):
        assert (forth.difference, forth.low, forth.high) == pytest.approx((-back.difference, -back.high, -back.low))
        assert (forth.better, forth.worse, forth.p) == (back.worse, back.better, back.p)


def test_rivals_do_not_disturb_each_other_but_share_a_family() -> None:
    method, first = random_pair(6, 80, effect=0.25)
    shifted = {
        name: UserScores(SUBJECT, {b: replace(each, scores=each.scores + by) for b, each in first.behaviors.items()})
        for name, by in (("near", 0.1), ("far", -2.0))
    }
    rivals = {"first": first, **shifted}
    together = compare(method, rivals, resamples=1000)
    assert list(together) == ["first", "near", "far"]
    for name, rival in rivals.items():
        alone = compare(method, {name: rival}, resamples=1000)[name]
        assert alone.overall.adjusted_p == alone.overall.p == pytest.approx(together[name].overall.p)
        assert alone.overall.low == pytest.approx(together[name].overall.low)
    overall = [each.overall for each in together.values()]
    assert [each.adjusted_p for each in overall] == holm([each.p for each in overall])
    single = [each for comparisons in together.values() for each in comparisons.behaviors.values()]
    assert len(single) == 9
    assert [each.adjusted_p for each in single] == holm([each.p for each in single])
    assert together["far"].overall.adjusted_p == pytest.approx(3 * 2 / 1001)


def test_holm_by_hand() -> None:
    # sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1: 0.02, 0.03, 0.06, 0.04 which may not fall
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


@given(p=st.lists(st.floats(0, 1), max_size=12), level=st.floats(0.001, 0.999))
@settings(max_examples=200, deadline=None)
def test_holm_rejects_what_the_step_down_rule_rejects(p: list[float], level: float) -> None:
    rejected = set()
    for step, i in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if p[i] * (len(p) - step) > level:
            break
        rejected.add(i)
    assert {i for i, adjusted in enumerate(holm(p)) if adjusted <= level} == rejected


@pytest.fixture(scope="module")
def runs() -> dict[str, list[Evaluation]]:
    """Two scorers on three splits."""
    dataset, _ = make(random_triples(0, 40, 160, 0.05), random_triples(1, 40, 30, 0.1))
    splits = [random_split(dataset, seed=seed) for seed in range(3)]
    return {
        name: [evaluate(Table(*tables(dataset, seed, None)), dataset, split, seed=seed) for split in splits]
        for seed, name in enumerate(("one", "other"))
    }


def test_scores_are_averaged_over_the_splits_that_have_the_user(runs: Any) -> None:
    got = averaged(runs["one"], "recall@5")
    assert got.subject == ("test", "sampled", "recall@5")
    for name, result in got.behaviors.items():
        splits = [run.behaviors[name] for run in runs["one"]]
        by_user: dict[int, list[tuple[float, float]]] = {}
        for split in splits:
            for user, score in zip(split.users.tolist(), split.metrics["recall@5"].tolist(), strict=True):
                by_user.setdefault(user, []).append((1 / len(split.users), score))
        assert result.users.tolist() == sorted(by_user)
        assert len({len(each) for each in by_user.values()}) > 1  # not every split has every user
        for user, weight, score in zip(result.users.tolist(), result.weights, result.scores, strict=True):
            mine = by_user[user]
            assert weight == pytest.approx(sum(w for w, _ in mine) / 3)
            assert score == pytest.approx(sum(w * x for w, x in mine) / sum(w for w, _ in mine))


def test_the_difference_is_the_one_a_table_prints(runs: Any) -> None:
    for metric in ("ndcg@5", "recall@20"):
        printed = {name: np.mean([run.overall(metric) for run in each]) for name, each in runs.items()}
        one, other = (averaged(each, metric) for each in runs.values())
        assert one.mean() == pytest.approx(printed["one"])
        got = compare(one, {"other": other}, resamples=100)["other"]
        assert got.overall.difference == pytest.approx(printed["one"] - printed["other"])
        for behavior, single in got.behaviors.items():
            gap = np.mean(
                [a.mean(behavior, metric) - b.mean(behavior, metric) for a, b in zip(*runs.values(), strict=True)]
            )
            assert single.difference == pytest.approx(gap)


def test_behaviors_without_users_are_left_out(runs: Any) -> None:
    empty = make([(0, 0, 0), (0, 1, 2), (1, 1, 0)], [(0, 0, 0), (1, 0, 0)])
    scorer = Table(np.ones((2, 2)), np.ones((2, 1)))
    assert list(averaged([evaluate(scorer, *empty)], "recall@5").behaviors) == ["Books"]
    nobody = averaged([evaluate(scorer, *empty, part="validation")], "recall@5")
    assert nobody.mean() is None
    with pytest.raises(UsageError, match="nothing to compare"):
        compare(nobody, {"x": nobody})
    one = averaged(runs["one"], "ndcg@5")
    assert compare(one, {}) == {}


def test_what_is_no_pair_is_refused(runs: Any) -> None:
    one, other = runs["one"], runs["other"]
    with refused(UsageError, place="'x'", value="Books"):
        compare(averaged(one, "ndcg@5"), {"x": averaged(other[:2], "ndcg@5")})
    with pytest.raises(UsageError, match=r"'x': is evaluated on \('test', 'sampled', 'ndcg@10'\)"):
        compare(averaged(one, "ndcg@5"), {"x": averaged(other, "ndcg@10")})
    with pytest.raises(UsageError, match="unknown metric of users 'pooled_recall@5'"):
        averaged(one, "pooled_recall@5")
    with pytest.raises(UsageError, match="or there are none"):
        averaged([], "ndcg@5")
    with pytest.raises(UsageError, match="differ in part, protocol"):
        averaged([one[0], replace(one[1], protocol="full")], "ndcg@5")
    with pytest.raises(UsageError, match="resamples: 99 is too small; use 100"):
        compare(averaged(one, "ndcg@5"), {}, resamples=99)
