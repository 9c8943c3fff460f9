"""Protocols: who is ranked against what, ties by chance, and the fast path equal to a loop over users."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.errors import refused

from mcne.data.behavior import Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.graph import undirected
from mcne.data.ids import Ids
from mcne.data.split import PARTS, TEST, TRAIN, VALIDATION, Split, random_split, supplied_split
from mcne.errors import UsageError
from mcne.evaluation import protocol as module
from mcne.evaluation.metrics import METRICS
from mcne.evaluation.protocol import Evaluation, Part, ProtocolName, coverage, evaluate
from mcne.randomness import Stream

PROTOCOLS: tuple[ProtocolName, ...] = ("sampled", "popular", "full")
SCORED: tuple[Part, ...] = ("validation", "test")
EVERY = [(part, protocol) for part in SCORED for protocol in PROTOCOLS]

Triples = list[tuple[int, int, int]]  # user, item, part


class Table:
    """A scorer that looks scores up, [users, items] per behavior, and remembers what it was asked."""

    def __init__(self, *tables: np.ndarray) -> None:
        self.tables = [np.asarray(table, dtype=np.float32) for table in tables]
        self.asked: list[tuple[int, list[int], Any]] = []

    def scores(self, behavior: int, users: np.ndarray, items: np.ndarray | None = None) -> np.ndarray:
        self.asked.append((behavior, users.tolist(), None if items is None else items.tolist()))
        table = self.tables[behavior]
        scores: np.ndarray = table[users] if items is None else table[users[:, None], items]
        return scores


def make(*behaviors: Triples, n_items: int = 0) -> tuple[SocialDataset, Split]:
    """Behaviors "Books" and "Travel" of these users, items and parts, split as they say."""
    made, parts = [], []
    n_users = 1 + max(user for triples in behaviors for user, _, _ in triples)
    for name, triples in zip(("Books", "Travel"), behaviors, strict=False):
        user, item, part = np.array(sorted(triples), dtype=np.int32).T
        made.append(Behavior(name, Ids(np.arange(max(n_items, int(item.max()) + 1))), user, item))
        parts.append(part.astype(np.uint8))
    nobody = np.zeros(0, np.int32)
    dataset = SocialDataset("toy", Ids(np.arange(n_users)), undirected(n_users, nobody, nobody)[0], tuple(made))
    return dataset, supplied_split(dataset, parts, seed=3)


def random_triples(seed: int, n_users: int, n_items: int, share: float) -> Triples:
    """Random pairs, the first users the busiest, in random parts; every item is in someone's training part."""
    random = np.random.default_rng(seed)
    chance = share * 2 * np.linspace(1, 0.05, n_users)[:, None]
    touched = random.random((n_users, n_items)) < chance
    part = random.choice(3, size=touched.shape, p=(0.5, 0.2, 0.3))
    owner = random.integers(0, n_users, n_items)
    touched[owner, np.arange(n_items)] = True
    part[owner, np.arange(n_items)] = TRAIN
    return [(int(u), int(i), int(part[u, i])) for u, i in np.argwhere(touched)]


@pytest.fixture(scope="module")
def toy() -> tuple[SocialDataset, Split]:
    """Two behaviors: in Books the busiest users have fewer than 100 negatives; in Travel everyone has."""
    dataset, split = make(random_triples(0, 40, 160, 0.35), random_triples(1, 40, 30, 0.2))
    for part in SCORED:
        books = split.negatives[part]["uniform"][0]
        assert 0 < books.n_short < len(books.users)
    return dataset, split


def tables(dataset: SocialDataset, seed: int, levels: int | None) -> list[np.ndarray]:
    """Random scores, of few values where ties are wanted."""
    random = np.random.default_rng(seed)
    shapes = [(dataset.n_users, behavior.n_items) for behavior in dataset.behaviors]
    return [random.random(shape) if levels is None else random.integers(0, levels, shape) for shape in shapes]


def test_known_pairs_are_no_candidates() -> None:
    """User 0 has item 0 in training and item 1 in test, and knows items 2 and 3, which score higher."""
    dataset, split = make([(0, 0, TRAIN), (0, 1, TEST), (1, 0, TEST), *((2, item, TRAIN) for item in range(5))])
    known: dict[str, Any] = {"known_user": np.array([0, 0], np.int32), "known_item": np.array([2, 3], np.int32)}
    (behavior,) = dataset.behaviors
    knowing = dataclasses.replace(dataset, behaviors=(dataclasses.replace(behavior, **known),))
    scorer = Table(np.array([[9, 2, 4, 5, 3], [1, 2, 4, 5, 3], [0, 0, 0, 0, 0]]))
    for data, places in ((dataset, [3, 4]), (knowing, [1, 4])):
        parts = supplied_split(data, split.parts, seed=3)
        result = evaluate(scorer, data, parts, protocol="full", cutoffs=(5,))
        assert result.behaviors["Books"].ranks.tolist() == places
    shares = [
        coverage(scorer, data, supplied_split(data, split.parts, seed=3), cutoffs=(1,)) for data in (dataset, knowing)
    ]
    assert [share["Books"]["coverage@1"] for share in shares] == [
        1 / 5,
        2 / 5,
    ]  # of user 1 item 3, of user 0 item 3 or 4


def naive_ranks(table: np.ndarray, dataset: SocialDataset, split: Split, k: int, part: str, protocol: str) -> Any:
    """Per user the places of its items, by sorting lists; ties by shuffling each group with the stream's numbers."""
    behavior = dataset.behaviors[k]
    scored = PARTS.index(part)
    rows = list(zip(behavior.user.tolist(), behavior.item.tolist(), split.parts[k].tolist(), strict=True))
    chance = iter(Stream(5, "ties", part, protocol, behavior.name).uniform(len(rows)).tolist())
    result: dict[int, list[int]] = {}
    for user in range(dataset.n_users):
        own = [item for u, item, p in rows if u == user and p == scored]
        if not own:
            continue
        if protocol == "full":
            known = {item for u, item, p in rows if u == user and p < scored}
            others = [item for item in range(behavior.n_items) if item not in known and item not in own]
        else:
            drawn = split.negatives[part]["uniform" if protocol == "sampled" else "popular"][k]
            others = [item for item in drawn.items[drawn.users.tolist().index(user)].tolist() if item >= 0]
        score = {item: float(table[user, item]) for item in own + others}
        draws = {item: next(chance) for item in own}
        places = {}
        for value in sorted(set(score.values())):
            group = [item for item in own if score[item] == value]
            seats = list(range(sum(other == value for other in score.values())))
            for j, item in enumerate(group):
                chosen = j + int(draws[item] * (len(seats) - j))
                seats[j], seats[chosen] = seats[chosen], seats[j]
                places[item] = sum(other > value for other in score.values()) + seats[j]
        result[user] = [places[item] for item in own]
    return result


@pytest.mark.parametrize("levels", [None, 6, 1])
@pytest.mark.parametrize(("part", "protocol"), EVERY)
def test_equals_a_loop_over_users(toy: Any, part: Any, protocol: Any, levels: int | None) -> None:
    dataset, split = toy
    scores = tables(dataset, 2, levels)
    got = evaluate(Table(*scores), dataset, split, part=part, protocol=protocol, seed=5)
    for k, behavior in enumerate(dataset.behaviors):
        expected = naive_ranks(scores[k].astype(np.float32), dataset, split, k, part, protocol)
        result = got.behaviors[behavior.name]
        assert result.users.tolist() == list(expected)
        assert result.counts.tolist() == [len(places) for places in expected.values()]
        assert list(result.metrics) == [f"{name}@{k}" for name in METRICS for k in (5, 10, 20)]
        for label, values in result.metrics.items():
            name, at = label.split("@")
            one = [METRICS[name](np.array(r), np.array([0, len(r)]), cutoff=int(at))[0] for r in expected.values()]
            assert values.tolist() == pytest.approx(one, abs=1e-12)
        for cutoff in (5, 10, 20):
            every = [place < cutoff for places in expected.values() for place in places]
            assert result.pooled[f"pooled_recall@{cutoff}"] == pytest.approx(np.mean(every))


def same(one: Evaluation, other: Evaluation) -> bool:
    return one.summary() == other.summary() and all(
        np.array_equal(values, other.behaviors[name].metrics[metric])
        for name, result in one.behaviors.items()
        for metric, values in result.metrics.items()
    )


@pytest.mark.parametrize("levels", [None, 6])
@pytest.mark.parametrize(("part", "protocol"), EVERY)
def test_the_size_of_chunks_changes_nothing(
    toy: Any, part: Any, protocol: Any, levels: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, split = toy
    scores = tables(dataset, 3, levels)
    whole = evaluate(Table(*scores), dataset, split, part=part, protocol=protocol)
    for at_once in (1, 700, 1500):
        monkeypatch.setattr(module, "SAMPLED_AT_ONCE", at_once)
        monkeypatch.setattr(module, "FULL_AT_ONCE", at_once)
        scorer = Table(*scores)
        assert same(whole, evaluate(scorer, dataset, split, part=part, protocol=protocol))
        for k, behavior in enumerate(dataset.behaviors):
            chunks = [(users, items) for b, users, items in scorer.asked if b == k]
            assert (
                sorted(user for users, _ in chunks for user in users) == whole.behaviors[behavior.name].users.tolist()
            )
            for users, items in chunks:
                width = behavior.n_items if items is None else len(items[0])
                assert len(users) == 1 or len(users) * width <= at_once


def test_hand_values_of_full_ranking() -> None:
    # user 0: trains on 0, validates on 1, tests on 2 and 4; user 1 trains on the rest
    dataset, split = make([(0, 0, TRAIN), (0, 1, VALIDATION), (0, 2, TEST), (0, 4, TEST), (1, 3, TRAIN), (1, 5, TRAIN)])
    scorer = Table(np.array([[9, 8, 7, 6, 5, 4], [0, 0, 0, 0, 0, 0]]))
    test = evaluate(scorer, dataset, split, protocol="full", cutoffs=(1, 2, 3))
    assert test.behaviors["Books"].users.tolist() == [0]
    assert test.behaviors["Books"].counts.tolist() == [2]
    # the list is 2 3 4 5: places 0 and 2
    assert [test.mean("Books", f"recall@{k}") for k in (1, 2, 3)] == [0.5, 0.5, 1.0]
    assert test.mean("Books", "ndcg@3") == pytest.approx(1.5 / (1 + 1 / math.log2(3)))
    # in validation the list is 1 2 3 4 5
    validation = evaluate(scorer, dataset, split, part="validation", protocol="full", cutoffs=(1,))
    assert validation.mean("Books", "recall@1") == 1.0
    # and a test item above counts like any other
    above = evaluate(Table(np.array([[9, 6, 7, 8, 5, 4]] * 2)), dataset, split, part="validation", protocol="full")
    assert above.mean("Books", "mrr@5") == pytest.approx(1 / 3)


def test_hand_values_of_sampled_ranking() -> None:
    # user 0 has trained on 0, tests on 1 and 2 and is ranked against 3, 4 and 5, all there is
    dataset, split = make([(0, 0, TRAIN), (0, 1, TEST), (0, 2, TEST), *((1, item, TRAIN) for item in (3, 4, 5))])
    assert sorted(split.negatives["test"]["uniform"][0].items[0, :4].tolist()) == [-1, 3, 4, 5]
    scorer = Table(np.array([[9, 1, 3, 2, 4, 0]] * 2))  # 4 2 3 1 5: places 1 and 3
    for protocol in ("sampled", "popular"):
        got = evaluate(scorer, dataset, split, protocol=protocol, cutoffs=(2,))
        assert got.behaviors["Books"].metrics["recall@2"].tolist() == [0.5]
        assert got.behaviors["Books"].metrics["mrr@2"].tolist() == [0.5]
        assert got.behaviors["Books"].pooled == {"pooled_recall@2": 0.5}


@pytest.mark.parametrize(("part", "protocol"), EVERY)
def test_an_oracle_gets_everything_and_its_opposite_nothing(toy: Any, part: Any, protocol: Any) -> None:
    dataset, split = toy
    wanted = []
    for k, behavior in enumerate(dataset.behaviors):
        table = np.zeros((dataset.n_users, behavior.n_items))
        table[split.of(behavior, k, PARTS.index(part))] = 1
        wanted.append(table)
    oracle = evaluate(Table(*wanted), dataset, split, part=part, protocol=protocol)
    for result in oracle.behaviors.values():
        for name in ("ndcg", "hit_rate", "mrr", "hits_ideal_ndcg"):
            assert np.allclose(result.metrics[f"{name}@5"], 1)
        assert np.allclose(result.metrics["recall@5"], np.minimum(1, 5 / result.counts))
    fool = evaluate(Table(*(-table for table in wanted)), dataset, split, part=part, protocol=protocol, cutoffs=(1,))
    lists = fool.behaviors["Books"]
    assert np.all(lists.metrics["hit_rate@1"] == 0)


def expected_of_chance(m: int, width: int, cutoff: int) -> dict[str, float]:
    """The mean of each metric over all arrangements of ``m`` items among ``width`` candidates."""
    places = range(min(cutoff, width))
    ideal = sum(1 / math.log2(r + 2) for r in range(min(m, cutoff)))
    arrangements = math.comb(width, m)
    first = [math.comb(width - r - 1, m - 1) / arrangements for r in places]  # the first item is at r
    return {
        "recall": len(places) / width,
        "ndcg": sum(m / width / math.log2(r + 2) for r in places) / ideal,
        "hit_rate": sum(first),
        "mrr": sum(chance / (r + 1) for r, chance in enumerate(first)),
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_constant_scorer_gets_what_chance_gives(toy: Any, protocol: Any) -> None:
    dataset, split = toy
    scorer = Table(*tables(dataset, 0, 1))
    runs = [evaluate(scorer, dataset, split, protocol=protocol, seed=seed, cutoffs=(5,)) for seed in range(150)]
    for k, behavior in enumerate(dataset.behaviors):
        result = runs[0].behaviors[behavior.name]
        if protocol == "full":
            earlier = behavior.user[split.parts[k] < TEST]
            widths = behavior.n_items - np.bincount(earlier, minlength=dataset.n_users)[result.users]
        else:
            kind = "uniform" if protocol == "sampled" else "popular"
            widths = result.counts + (split.negatives["test"][kind][k].items >= 0).sum(axis=1)
        pairs = zip(result.counts.tolist(), widths.tolist(), strict=True)
        by_user = [expected_of_chance(m, width, 5) for m, width in pairs]
        for name in ("recall", "ndcg", "hit_rate", "mrr"):
            means = np.array([run.mean(behavior.name, f"{name}@5") for run in runs])
            expected = np.mean([one[name] for one in by_user])
            assert abs(means.mean() - expected) < 4.5 * means.std(ddof=1) / math.sqrt(len(runs)), name


def test_every_arrangement_of_ties_is_equally_likely() -> None:
    user, above, equal = np.zeros(3, np.int32), np.array([2, 2, 7]), np.array([4, 4, 1])
    seen = [
        tuple(module._places_in_ties(user, above, equal=equal, stream=Stream(seed, "test")).tolist())
        for seed in range(3000)
    ]
    arrangements, times = np.unique(seen, axis=0, return_counts=True)
    assert len(arrangements) == 12  # two distinct places of four; the item alone stays
    assert np.all(arrangements[:, 2] == 0)
    assert stats.chisquare(times).pvalue > 1e-4


@given(sizes=st.lists(st.tuples(st.integers(1, 12), st.integers(0, 30)), max_size=10), seed=st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_places_in_ties_are_distinct_and_within_the_group(sizes: list[tuple[int, int]], seed: int) -> None:
    """Groups of ``m`` items among ``m + more`` equal candidates, two groups to a user."""
    group = np.repeat(np.arange(len(sizes)), [m for m, _ in sizes])
    equal = np.array([m + more for m, more in sizes], dtype=np.int64)[group]
    user, above = (group // 2).astype(np.int32), group % 2 * 50
    places = module._places_in_ties(user, above, equal=equal, stream=Stream(seed, "test"))
    assert np.all((places >= 0) & (places < equal))
    for g in range(len(sizes)):
        assert len(set(places[group == g].tolist())) == sizes[g][0]


def test_the_seed_decides_ties_and_nothing_else(toy: Any) -> None:
    dataset, split = toy
    for levels, equal in ((None, True), (3, False)):
        scorer = Table(*tables(dataset, 4, levels))
        one, again, other = (evaluate(scorer, dataset, split, protocol="full", seed=seed) for seed in (1, 1, 2))
        assert same(one, again)
        recall, other_recall = (run.behaviors["Books"].metrics["recall@5"] for run in (one, other))
        assert np.array_equal(recall, other_recall) == equal


def test_more_cutoffs_change_no_metric(toy: Any) -> None:
    dataset, split = toy
    scorer = Table(*tables(dataset, 4, 3))
    for protocol in PROTOCOLS:
        few, many = (
            evaluate(scorer, dataset, split, protocol=protocol, cutoffs=cutoffs) for cutoffs in ((5,), (1, 5, 100))
        )
        for name, result in few.behaviors.items():
            for metric, values in result.metrics.items():
                assert np.array_equal(values, many.behaviors[name].metrics[metric])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_validation_never_sees_the_test_part(protocol: Any) -> None:
    triples = random_triples(0, 40, 160, 0.2)
    kept = [triple for triple in triples if triple[2] != TEST]
    taken = {(user, item) for user, item, _ in kept}
    random = np.random.default_rng(9)
    poison = {(int(u), int(i)) for u, i in zip(random.integers(0, 40, 900), random.integers(0, 160, 900), strict=True)}
    worlds = [make(triples), make(kept), make(kept + [(u, i, TEST) for u, i in sorted(poison - taken)])]
    assert len({dataset.fingerprint for dataset, _ in worlds}) == 3
    scorers = [Table(*tables(worlds[0][0], 5, 4)) for _ in worlds]
    runs = [
        evaluate(scorer, *world, part="validation", protocol=protocol)
        for scorer, world in zip(scorers, worlds, strict=True)
    ]
    for (one, other), (scorer, next_scorer) in zip(pairwise(runs), pairwise(scorers), strict=True):
        assert same(one, other)
        assert scorer.asked == next_scorer.asked


def test_a_part_without_users_is_a_defined_answer() -> None:
    books = [(0, 0, TRAIN), (0, 1, TEST), (1, 1, TRAIN)]
    dataset, split = make(books, [(0, 0, TRAIN), (1, 0, TRAIN)])
    for protocol in PROTOCOLS:
        scorer = Table(np.ones((2, 2)), np.ones((2, 1)))
        nothing = evaluate(scorer, dataset, split, part="validation", protocol=protocol)
        assert not scorer.asked
        assert nothing.overall("ndcg@5") is None
        assert nothing.mean("Books", "pooled_recall@5") is None
        assert nothing.behaviors["Books"].metrics["ndcg@5"].shape == (0,)
        summary = json.loads(json.dumps(nothing.summary(), allow_nan=False))
        assert summary["behaviors"]["Travel"]["users"] == summary["behaviors"]["Travel"]["scored_items"] == 0
        assert set(summary["mean"].values()) == {None}
        assert nothing.to_arrow()["recall@5"].to_pylist() == [None, None, None]
        test = evaluate(scorer, dataset, split, protocol=protocol)
        assert test.mean("Travel", "recall@5") is None
        assert test.overall("recall@5") == test.mean("Books", "recall@5") == 1.0


def test_the_mean_over_behaviors_counts_each_the_same(toy: Any) -> None:
    dataset, split = toy
    got = evaluate(Table(*tables(dataset, 6, None)), dataset, split)
    for metric in ("ndcg@5", "pooled_recall@20"):
        books, travel = got.mean("Books", metric), got.mean("Travel", metric)
        assert books is not None
        assert travel is not None
        assert got.overall(metric) == pytest.approx((books + travel) / 2)
    summary = got.summary()
    assert (summary["part"], summary["protocol"], summary["seed"]) == ("test", "sampled", 0)
    assert summary["behaviors"]["Books"]["ndcg@5"] == got.behaviors["Books"].metrics["ndcg@5"].mean()
    assert summary["behaviors"]["Books"]["scored_items"] == np.count_nonzero(split.parts[0] == TEST)
    assert summary["mean"]["ndcg@5"] == got.overall("ndcg@5")
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_an_evaluation_is_a_data_frame(toy: Any) -> None:
    dataset, split = toy
    got = evaluate(Table(*tables(dataset, 6, None)), dataset, split)
    frame = got.to_pandas().set_index("behavior")
    assert frame.index.tolist() == ["Books", "Travel", "mean"]
    assert frame.columns.tolist() == ["users", *got.summary()["mean"]]
    for metric in got.summary()["mean"]:
        means = [got.mean("Books", metric), got.mean("Travel", metric), got.overall(metric)]
        assert frame[metric].tolist() == means
    assert got.to_polars()["users"].to_list() == [len(each.users) for each in got.behaviors.values()] + [None]
    assert str(got).splitlines()[0].split()[:3] == ["behavior", "users", "recall@5"]
    assert "<td>Travel</td>" in got._repr_html_()


def test_a_catalog_of_one_item() -> None:
    dataset, split = make([(0, 0, TRAIN), (1, 0, TEST), (2, 0, VALIDATION)])
    for part, protocol in EVERY:
        got = evaluate(Table(np.zeros((3, 1))), dataset, split, part=part, protocol=protocol)
        assert set(got.summary()["mean"].values()) == {1.0}


def test_infinite_scores_are_scores() -> None:
    dataset, split = make([(0, 0, TRAIN), (0, 1, TEST), *((1, item, TRAIN) for item in range(2, 7))])
    low = np.array([[-np.inf, -np.inf, 0, 0, 0, 0, -np.inf]] * 2)  # above: 2 to 5; as low: 6, and 0 which is known
    runs = [evaluate(Table(low), dataset, split, protocol="full", seed=seed, cutoffs=(4, 5, 6)) for seed in range(40)]
    assert {run.mean("Books", "recall@4") for run in runs} == {0.0}
    assert {run.mean("Books", "recall@5") for run in runs} == {0.0, 1.0}
    assert {run.mean("Books", "recall@6") for run in runs} == {1.0}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nan_is_refused(toy: Any, protocol: Any) -> None:
    dataset, split = toy
    broken = tables(dataset, 7, None)
    user = int(split.negatives["test"]["uniform"][1].users[3])
    broken[1][user] = np.nan
    with pytest.raises(ValueError, match=rf"behavior 'Travel', user row {user}: a score is NaN"):
        evaluate(Table(*broken), dataset, split, protocol=protocol)


def test_scores_of_another_shape_are_refused(toy: Any) -> None:
    dataset, split = toy
    scorer = Table(*tables(dataset, 7, None)[::-1])
    with pytest.raises(ValueError, match=r"behavior 'Books': scores of shape \(\d+, 30\), expected \(\d+, 160\)"):
        evaluate(scorer, dataset, split, protocol="full")


def test_the_scorers_array_is_left_alone(toy: Any) -> None:
    dataset, split = toy
    answers: list[tuple[np.ndarray, np.ndarray]] = []

    class Remembering(Table):
        def scores(self, behavior: int, users: np.ndarray, items: np.ndarray | None = None) -> np.ndarray:
            answer = super().scores(behavior, users, items)
            answers.append((answer, answer.copy()))
            return answer

    for protocol in PROTOCOLS:
        evaluate(Remembering(*tables(dataset, 8, None)), dataset, split, protocol=protocol)
    assert len(answers) >= 6
    assert all(np.array_equal(answer, copy) for answer, copy in answers)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"part": "tset"}, "unknown part 'tset'; did you mean 'test'"),
        ({"part": "train"}, "unknown part 'train'"),
        ({"protocol": "popularity"}, "unknown protocol 'popularity'; did you mean 'popular'"),
        ({"cutoffs": ()}, "cutoffs"),
        ({"cutoffs": (5, 0)}, r"cutoffs: \(5, 0\) "),
    ],
)
def test_wrong_settings_are_refused(toy: Any, wrong: dict[str, Any], message: str) -> None:
    dataset, split = toy
    with pytest.raises(UsageError, match=message):
        evaluate(Table(*tables(dataset, 0, None)), dataset, split, **wrong)


def test_a_split_of_other_data_is_refused(toy: Any) -> None:
    dataset, _ = toy
    other, _ = make([(0, 0, TRAIN)])
    with refused(UsageError, place="split", about="dataset"):
        evaluate(Table(np.zeros((1, 1))), dataset, random_split(other, seed=0))


def test_unknown_names_are_refused_with_the_nearest(toy: Any) -> None:
    dataset, split = toy
    got = evaluate(Table(*tables(dataset, 0, None)), dataset, split)
    with refused(UsageError, value="Boks"):
        got.mean("Boks", "ndcg@5")
    with refused(UsageError, value="ndgc@5"):
        got.overall("ndgc@5")


def test_evaluation_needs_no_torch() -> None:
    code = "import sys, mcne.evaluation.protocol; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- coverage ---


@pytest.fixture(scope="module")
def busy() -> tuple[SocialDataset, Split]:
    return make(random_triples(0, 40, 160, 0.35), random_triples(1, 40, 30, 0.2))


def test_coverage_by_hand() -> None:
    books = [(0, 0, TRAIN), (0, 1, VALIDATION), (0, 2, TEST), (1, 3, TRAIN), (1, 4, TRAIN), (2, 5, TRAIN)]
    dataset, split = make(books)
    scorer = Table(np.array([[9, 8, 7, 6, 5, 4]] * 3))
    # lists for test: 2 3 4 5 · 0 1 2 5 · 0 1 2 3 4; for validation user 0 has 1 2 3 4 5
    assert coverage(scorer, dataset, split, cutoffs=(1, 2, 3, 5)) == {
        "Books": {"coverage@1": 2 / 6, "coverage@2": 4 / 6, "coverage@3": 5 / 6, "coverage@5": 1.0}
    }
    assert coverage(scorer, dataset, split, part="validation", cutoffs=(1, 2)) == {
        "Books": {"coverage@1": 2 / 6, "coverage@2": 3 / 6}
    }


def test_one_list_for_all_covers_little_and_a_list_for_each_covers_much() -> None:
    dataset, split = make([(user, user, TRAIN) for user in range(50)])
    same = Table(np.tile(np.arange(50.0), (50, 1)))
    assert coverage(same, dataset, split, cutoffs=(5,)) == {"Books": {"coverage@5": 6 / 50}}  # 45 to 49 know one of 5
    own = Table(np.eye(50, k=1) + np.eye(50, k=-49))  # each user has a favorite of its own
    assert coverage(own, dataset, split, cutoffs=(1,)) == {"Books": {"coverage@1": 1.0}}


@pytest.mark.parametrize("part", ["validation", "test"])
@pytest.mark.parametrize("at_once", [1 << 22, 700, 1])
def test_coverage_equals_a_loop_over_users(busy: Any, part: Any, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, split = busy
    monkeypatch.setattr(module, "FULL_AT_ONCE", at_once)
    scores = tables(dataset, 2, None)
    got = coverage(Table(*scores), dataset, split, part=part, cutoffs=(1, 3, 25))
    for k, behavior in enumerate(dataset.behaviors):
        for cutoff in (1, 3, 25):
            covered: set[int] = set()
            for user in range(dataset.n_users):
                mine = behavior.user == user
                known = set(behavior.item[mine & (split.parts[k] < PARTS.index(part))].tolist())
                rest = [item for item in np.argsort(-scores[k][user]).tolist() if item not in known]
                covered |= set(rest[:cutoff])
            assert got[behavior.name][f"coverage@{cutoff}"] == len(covered) / behavior.n_items


def test_coverage_breaks_ties_by_chance_and_by_the_seed_alone(busy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, split = busy
    constant = Table(*tables(dataset, 0, 1))
    got = [coverage(constant, dataset, split, seed=seed, cutoffs=(1, 2))["Travel"] for seed in range(100)]
    # 40 users draw one of about 26 items each: a share of 1 − (1 − 1/30)^40 = 0.742 if they knew none
    assert 0.70 < np.mean([one["coverage@1"] for one in got]) < 0.78
    assert all(one["coverage@1"] <= one["coverage@2"] for one in got)
    assert len({one["coverage@1"] for one in got}) > 3
    few = Table(*tables(dataset, 1, 3))
    whole = coverage(few, dataset, split, seed=4)
    monkeypatch.setattr(module, "FULL_AT_ONCE", 300)
    assert coverage(few, dataset, split, seed=4) == whole


def test_coverage_is_the_same_with_more_cutoffs(busy: Any) -> None:
    dataset, split = busy
    few = Table(*tables(dataset, 1, 40))
    one, many = (coverage(few, dataset, split, cutoffs=cutoffs) for cutoffs in ((5,), (1, 5, 100)))
    assert {name: values["coverage@5"] for name, values in many.items()} == {
        name: values["coverage@5"] for name, values in one.items()
    }


def test_coverage_of_users_with_nothing_left_and_infinite_scores() -> None:
    dataset, split = make([(0, 0, TRAIN), (0, 1, TRAIN), (1, 0, TRAIN), (1, 1, TEST)])
    low = Table(np.full((2, 2), -np.inf))
    assert coverage(low, dataset, split) == {"Books": {f"coverage@{k}": 0.5 for k in (5, 10, 20)}}
    with pytest.raises(ValueError, match="a score is NaN"):
        coverage(Table(np.full((2, 2), np.nan)), dataset, split)


def test_coverage_refuses_wrong_settings(busy: Any) -> None:
    dataset, split = busy
    scorer = Table(*tables(dataset, 0, None))
    with refused(UsageError, value="train"):
        coverage(scorer, dataset, split, part="train")  # type: ignore[arg-type]
    with refused(UsageError, place="cutoffs", value=(0,)):
        coverage(scorer, dataset, split, cutoffs=(0,))
    with pytest.raises(UsageError, match="evaluate with a split of this dataset"):
        coverage(scorer, dataset, make([(0, 0, TRAIN)])[1])
