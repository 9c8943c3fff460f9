"""Splits: parts that share nothing and leave nothing out, and negatives that know only what they may."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.errors import refused
from tests.small_training import nearly_all_known, sixty_users
from tests.values import not_none

from mcne.data import split as module
from mcne.data.behavior import Attribute, Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.graph import undirected
from mcne.data.ids import Ids
from mcne.data.negatives import COUNT, Negatives
from mcne.data.split import (
    PARTS,
    TEST,
    TRAIN,
    VALIDATION,
    Split,
    last_split,
    random_split,
    read_parts,
    split_of,
    supplied_split,
    temporal_split,
)
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.errors import ArtifactError, DataError, UsageError

FEW = settings(max_examples=60, deadline=None)
KINDS = ("uniform", "popular")

Pairs = list[tuple[int, int]]


def make_behavior(name: str, pairs: Pairs, times: Sequence[float] | None = None) -> Behavior:
    """The behavior of these (user, item) pairs; every item from 0 to the largest must occur."""
    order = sorted(range(len(pairs)), key=lambda k: pairs[k])
    user, item = np.array([pairs[k] for k in order], dtype=np.int32).T
    timestamp = None if times is None else np.array([times[k] for k in order])
    return Behavior(name, Ids(np.arange(int(item.max()) + 1)), user, item, timestamp)


def make(*behaviors: Behavior, n_users: int = 0, name: str = "toy") -> SocialDataset:
    n = max(n_users, *(int(b.user.max()) + 1 for b in behaviors))
    nobody = np.zeros(0, np.int32)
    return SocialDataset(name, Ids(np.arange(n)), undirected(n, nobody, nobody)[0], behaviors)


def random_behavior(name: str, seed: int, n_users: int, n_items: int, n_pairs: int) -> Behavior:
    """Random pairs, and one of each item."""
    random = np.random.default_rng(seed)
    users, items = random.integers(0, n_users, n_pairs), random.integers(0, n_items, n_pairs)
    pairs = set(zip(users.tolist(), items.tolist(), strict=True))
    pairs |= {(int(random.integers(0, n_users)), item) for item in range(n_items)}
    times = random.integers(0, 20, len(pairs)).tolist()  # many of one moment
    return make_behavior(name, sorted(pairs), times)


@st.composite
def datasets(draw: st.DrawFn) -> SocialDataset:
    behaviors = [
        random_behavior(name, draw(st.integers(0, 10**6)), *(draw(st.integers(1, most)) for most in (8, 12, 40)))
        for name in ("Books", "Travel")[: draw(st.integers(1, 2))]
    ]
    return make(*behaviors, n_users=9)


RATIOS = st.sampled_from([(70, 10, 20), (80, 10, 10), (1, 1, 1), (1, 0, 0), (0.6, 0.0, 0.4), (50, 50, 0), (7, 3, 1e-9)])


def items_of(behavior: Behavior, part: np.ndarray, user: int, parts: tuple[int, ...]) -> set[int]:
    return {int(i) for u, i, p in zip(behavior.user, behavior.item, part, strict=True) if u == user and p in parts}


def check_negatives(dataset: SocialDataset, split: Split) -> None:
    """Everything the protocol says about negatives, user by user."""
    for scored, name in ((VALIDATION, "validation"), (TEST, "test")):
        forbidden = tuple(range(scored + 1))  # test: all three parts; validation: training and validation
        for k, behavior in enumerate(dataset.behaviors):
            part = split.parts[k]
            trained = np.bincount(behavior.item[part == TRAIN], minlength=behavior.n_items)
            for kind in KINDS:
                drawn = split.negatives[name][kind][k]
                assert drawn.users.tolist() == sorted(set(behavior.user[part == scored].tolist()))
                for user, row in zip(drawn.users.tolist(), drawn.items.tolist(), strict=True):
                    may_be = set(range(behavior.n_items)) - items_of(behavior, part, user, forbidden)
                    may_be = {item for item in may_be if kind == "uniform" or trained[item]}
                    items = [item for item in row if item >= 0]
                    assert row == items + [-1] * (COUNT - len(items))
                    assert len(items) == len(set(items)) == min(COUNT, len(may_be))
                    assert set(items) <= may_be


def check_sizes(part: np.ndarray, ratios: tuple[float, float, float]) -> None:
    """The ends of training and of validation are the nearest whole numbers to their shares."""
    total = sum(map(Fraction, ratios))
    end = Fraction(0)
    for p in (TRAIN, VALIDATION):
        end += Fraction(ratios[p]) / total * len(part)
        assert abs(int(np.count_nonzero(part <= p)) - end) <= Fraction(1, 2) + Fraction(1, 10**9)


# --- random ---


@FEW
@given(datasets(), RATIOS, st.integers(0, 2**40))
def test_random_splits(dataset: SocialDataset, ratios: tuple[float, float, float], seed: int) -> None:
    split = random_split(dataset, seed=seed, ratios=ratios)
    for behavior, part in zip(dataset.behaviors, split.parts, strict=True):
        assert part.dtype == np.uint8
        assert part.shape == behavior.user.shape
        check_sizes(part, ratios)
    check_negatives(dataset, split)
    again = random_split(dataset, seed=seed, ratios=ratios)
    assert again.fingerprint == split.fingerprint
    assert split.settings == {"kind": "random", "ratios": list(map(float, ratios)), "seed": seed}


@FEW
@given(datasets())
def test_parts_are_disjoint_and_complete(dataset: SocialDataset) -> None:
    split = random_split(dataset, seed=0)
    for k, behavior in enumerate(dataset.behaviors):
        sets = [set(zip(*(c.tolist() for c in split.of(behavior, k, p)), strict=True)) for p in range(3)]
        assert sum(map(len, sets)) == len(behavior)
        assert set.union(*sets) == set(zip(behavior.user.tolist(), behavior.item.tolist(), strict=True))


def test_the_default_is_the_papers_70_10_20() -> None:
    dataset = make(make_behavior("Books", [(user, user % 10) for user in range(1000)]))
    split = random_split(dataset, seed=0)
    assert np.bincount(split.parts[0]).tolist() == [700, 100, 200]
    assert split.settings["ratios"] == [70, 10, 20]


@pytest.mark.parametrize(
    ("n", "sizes"), [(1, [1, 0, 0]), (2, [1, 1, 0]), (3, [2, 0, 1]), (5, [4, 0, 1]), (7, [5, 1, 1])]
)
def test_sizes_of_small_behaviors(n: int, sizes: list[int]) -> None:
    """0.7 n and 0.8 n rounded, halves up: of 2 interactions 1.4 and 1.6 give ends at 1 and 2."""
    dataset = make(make_behavior("Books", [(user, 0) for user in range(n)]))
    assert np.bincount(random_split(dataset, seed=0).parts[0], minlength=3).tolist() == sizes


def test_every_interaction_has_the_same_chance() -> None:
    dataset = make(make_behavior("Books", [(user, user % 3) for user in range(10)]))
    parts = np.stack([random_split(dataset, seed=seed).parts[0] for seed in range(400)])
    for part, share in ((TRAIN, 0.7), (VALIDATION, 0.1), (TEST, 0.2)):
        counts = np.count_nonzero(parts == part, axis=0)
        z = (counts - 400 * share) / np.sqrt(400 * share * (1 - share))
        assert stats.chi2.sf((z**2).sum(), 9) > 1e-3
    together = np.corrcoef(parts[:, :2].T == TEST)[0, 1]
    assert together == pytest.approx(-1 / 9, abs=0.15)  # drawn without replacement, nothing more


def test_seeds_differ() -> None:
    dataset = make(random_behavior("Books", 0, 30, 300, 200))
    splits = [random_split(dataset, seed=seed) for seed in range(5)]
    assert len({split.parts[0].tobytes() for split in splits}) == 5
    assert len({split.fingerprint for split in splits}) == 5


def test_a_behavior_is_split_by_itself() -> None:
    """What else is in the dataset changes neither its parts nor its negatives."""
    books, travel = random_behavior("Books", 0, 30, 250, 200), random_behavior("Travel", 1, 30, 40, 100)
    alone, beside = (random_split(make(*b, n_users=30), seed=3) for b in ((books,), (travel, books)))
    assert np.array_equal(alone.parts[0], beside.parts[1])
    for name in ("validation", "test"):
        for kind in KINDS:
            assert np.array_equal(alone.negatives[name][kind][0].items, beside.negatives[name][kind][1].items)
    one, other = random_split(make(books, dataclasses.replace(books, name="Movies")), seed=3).parts
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("ratios", [(70, 30), (0, 50, 50), (70, -10, 40), (70, 10, float("nan")), (float("inf"), 1, 1)])
def test_ratios_that_are_none_are_refused(ratios: tuple[float, ...]) -> None:
    dataset = make(make_behavior("Books", [(0, 0)], [1]))
    for cut in (random_split, temporal_split):
        with pytest.raises(UsageError, match=r"^ratios .*70,10,20"):
            cut(dataset, seed=0, ratios=ratios)


# --- negatives ---


def test_negatives_of_a_large_catalog_are_full_rows() -> None:
    dataset = make(random_behavior("Books", 0, 40, 400, 2000))
    split = random_split(dataset, seed=0)
    check_negatives(dataset, split)
    uniform = split.negatives["test"]["uniform"][0]
    assert uniform.n_short == 0
    assert len(uniform.users) > 30
    assert not np.array_equal(uniform.items, split.negatives["test"]["popular"][0].items)


def test_validation_negatives_do_not_avoid_test_items() -> None:
    """User 0 has all four items: the two that it has in test are all that validation can draw from."""
    pairs = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 2), (1, 0)]
    behavior = make_behavior("Books", pairs)
    part = np.array([TRAIN, VALIDATION, TEST, TEST, VALIDATION, TRAIN], dtype=np.uint8)
    sorted_part = part[[pairs.index(pair) for pair in sorted(pairs)]]
    split = supplied_split(make(behavior), [sorted_part], seed=0)
    validation, test = (split.negatives[name]["uniform"][0] for name in ("validation", "test"))
    assert validation.users.tolist() == [0, 1]
    assert sorted(validation.items[0][:2].tolist()) == [2, 3]
    assert sorted(validation.items[1][:2].tolist()) == [1, 3]
    assert validation.items[:, 2:].max() == -1
    assert (test.users.tolist(), test.items.max()) == ([0], -1)  # nothing is left that it never touched
    # only item 0 is trained on, by both users: no popular negative exists for either
    assert split.negatives["validation"]["popular"][0].items.max() == -1


def test_popular_negatives_follow_training_alone() -> None:
    """Item 1 is trained on by users 1 to 50, item 2 once, item 3 only tested."""
    pairs = [(0, 0), *((user, 1) for user in range(1, 51)), (51, 2), (52, 3), (53, 3)]
    part = np.array([TEST, *[TRAIN] * 50, TRAIN, TEST, VALIDATION], dtype=np.uint8)
    dataset = make(make_behavior("Books", pairs))
    firsts = []
    for seed in range(200):
        split = supplied_split(dataset, [part], seed=seed)
        popular = split.negatives["test"]["popular"][0]
        assert popular.users.tolist() == [0, 52]
        assert [sorted(row[row >= 0].tolist()) for row in popular.items] == [[1, 2], [1, 2]]
        firsts += popular.items[:, 0].tolist()
    assert firsts.count(1) / len(firsts) == pytest.approx(50 / 51, abs=0.03)


@pytest.mark.parametrize("n_items", [12, 400], ids=["from lists", "in rounds"])
def test_nothing_of_validation_changes_with_the_test_part(n_items: int) -> None:
    """The same training and validation pairs, other test pairs, over one catalog."""
    random = np.random.default_rng(0)
    n_users = 15
    known = {(int(random.integers(n_users)), item) for item in range(n_items)}  # every item is known
    known |= {
        (int(u), int(i)) for u, i in zip(random.integers(0, n_users, 60), random.integers(0, n_items, 60), strict=True)
    }
    known_part = {pair: int(random.random() < 0.3) for pair in sorted(known)}
    assert VALIDATION in known_part.values()
    splits = []
    for seed in (1, 2, 3):
        other = np.random.default_rng(seed)
        pairs = zip(other.integers(0, n_users, 80), other.integers(0, n_items, 80), strict=True)
        tested = {(int(u), int(i)) for u, i in pairs} - known
        part_of = known_part | dict.fromkeys(tested, TEST)
        dataset = make(make_behavior("Books", sorted(part_of)), n_users=n_users)
        splits.append(supplied_split(dataset, [np.array([part_of[p] for p in sorted(part_of)], np.uint8)], seed=9))
    assert len({split.dataset_fingerprint for split in splits}) == 3
    for kind in KINDS:
        first, *others = (split.negatives["validation"][kind][0] for split in splits)
        for drawn in others:
            assert np.array_equal(first.users, drawn.users)
            assert np.array_equal(first.items, drawn.items)
    tests = {split.negatives["test"]["uniform"][0].items.tobytes() for split in splits}
    assert len(tests) == 3


def test_validation_and_test_negatives_come_from_streams_of_their_own() -> None:
    """The same users with the same history in both parts still meet other items."""
    n_users, n_items = 20, 400
    pairs = [(user, item) for user in range(n_users) for item in (user, 20 + user)] + [(20, i) for i in range(n_items)]
    part_of = {pair: VALIDATION if pair[1] < 20 else TEST for pair in pairs} | {(20, i): TRAIN for i in range(n_items)}
    split = supplied_split(
        make(make_behavior("Books", sorted(part_of))),
        [np.array([part_of[p] for p in sorted(part_of)], np.uint8)],
        seed=0,
    )
    validation, test = (split.negatives[name]["uniform"][0] for name in ("validation", "test"))
    assert validation.users.tolist() == test.users.tolist() == list(range(20))
    shared = [len(set(a) & set(b)) for a, b in zip(validation.items.tolist(), test.items.tolist(), strict=True)]
    assert np.mean(shared) == pytest.approx(100 * 100 / 400, abs=4)


# --- notes ---


def test_what_is_short_or_empty_is_noted() -> None:
    dataset = make(make_behavior("Books", [(0, 0), (0, 1), (1, 2)]))
    split = random_split(dataset, seed=0, ratios=(1, 0, 0))
    assert split.notes == ("Books: no interactions in validation and test",)
    part = np.array([TRAIN, TEST, TEST], dtype=np.uint8)
    assert supplied_split(dataset, [part], seed=0).notes == (
        "Books: no interactions in validation",
        "Books: 2 of 2 users have fewer than 100 uniform negatives in test, as few as 1: no more can be drawn for them",
        "Books: 2 of 2 users have fewer than 100 popular negatives in test, as few as 0: no more can be drawn for them",
    )


# --- temporal ---


@FEW
@given(datasets(), RATIOS, st.integers(0, 5))
def test_temporal_splits(dataset: SocialDataset, ratios: tuple[float, float, float], seed: int) -> None:
    split = temporal_split(dataset, seed=seed, ratios=ratios)
    torn = {}
    for behavior, part in zip(dataset.behaviors, split.parts, strict=True):
        check_sizes(part, ratios)
        times = not_none(behavior.timestamp)
        for here in range(3):
            for later in range(here + 1, 3):
                if np.any(part == here) and np.any(part == later):
                    assert times[part == here].max() <= times[part == later].min()
        moments = {t for t in times.tolist() if len(set(part[times == t].tolist())) > 1}
        torn[behavior.name] = sum(np.count_nonzero(times == t) for t in moments)
    by_behavior = {note.split(":")[0]: note for note in split.notes if "moment" in note}
    assert by_behavior == {
        name: f"{name}: {count} interactions share the moment of a cut and were placed by chance"
        for name, count in torn.items()
        if count
    }
    check_negatives(dataset, split)
    assert split.settings["kind"] == "temporal"
    assert split.fingerprint == temporal_split(dataset, seed=seed, ratios=ratios).fingerprint


def test_interactions_in_order_of_time() -> None:
    pairs = [(user, 0) for user in range(10)]
    times = [9, 1, 8, 2, 7, 3, 6, 4, 5, 0]
    split = temporal_split(make(make_behavior("Books", pairs, times)), seed=0)
    assert [split.parts[0][times.index(t)] for t in range(10)] == [TRAIN] * 7 + [VALIDATION] + [TEST] * 2
    assert not any("moment" in note for note in split.notes)
    for seed in (1, 2):  # without ties nothing is left to chance
        assert np.array_equal(
            temporal_split(make(make_behavior("Books", pairs, times)), seed=seed).parts[0], split.parts[0]
        )


def test_one_moment_is_ordered_by_chance_and_counted_once() -> None:
    dataset = make(make_behavior("Books", [(user, 0) for user in range(10)], [5] * 10))
    splits = [temporal_split(dataset, seed=seed) for seed in range(6)]
    assert len({split.parts[0].tobytes() for split in splits}) > 1
    note = "Books: 10 interactions share the moment of a cut and were placed by chance"
    assert all(split.notes[0] == note for split in splits)
    fair = np.mean([temporal_split(dataset, seed=seed).parts[0] == TRAIN for seed in range(300)], axis=0)
    assert fair == pytest.approx(np.full(10, 0.7), abs=0.11)


def test_a_temporal_split_needs_timestamps() -> None:
    dataset = make(make_behavior("Books", [(0, 0)], [1]), make_behavior("Travel", [(0, 0)]))
    with refused(DataError, place="behavior 'Travel'", value="Travel"):
        temporal_split(dataset, seed=0)


# --- each user's last record ---


@FEW
@given(datasets(), st.integers(0, 5))
def test_splits_by_the_last_record(dataset: SocialDataset, seed: int) -> None:
    split = last_split(dataset, seed=seed)
    for behavior, part in zip(dataset.behaviors, split.parts, strict=True):
        times = not_none(behavior.timestamp)
        torn = 0
        for user in range(dataset.n_users):
            mine = behavior.user == user
            n = int(mine.sum())
            sizes = {0: (0, 0, 0), 1: (1, 0, 0), 2: (1, 0, 1)}.get(n, (n - 2, 1, 1))
            assert tuple(np.bincount(part[mine], minlength=3).tolist()) == sizes
            for here, later in itertools.combinations(range(3), 2):
                early, late = times[mine & (part == here)], times[mine & (part == later)]
                assert not len(early) or not len(late) or early.max() <= late.min()
            for moment in set(times[mine].tolist()):
                together = part[mine & (times == moment)]
                torn += len(together) if len(set(together.tolist())) > 1 else 0
        counts = np.bincount(behavior.user, minlength=dataset.n_users)
        expected = {
            f"{int((counts == 1).sum())} users have one record, which trains; they have none in validation and test",
            f"{int((counts == 2).sum())} users have two records and so none in validation",
            f"{torn} interactions share the moment of their user's cut and were placed by chance",
        }
        about = {
            note.removeprefix(f"{behavior.name}: ") for note in split.notes if note.startswith(f"{behavior.name}:")
        }
        assert about - {note for note in about if "no interactions" in note or "negatives" in note} == {
            note for note in expected if not note.startswith("0 ")
        }
    check_negatives(dataset, split)
    assert split.settings == {"kind": "last", "seed": seed}
    assert split.fingerprint == last_split(dataset, seed=seed).fingerprint


def test_the_last_record_of_each_user_by_hand() -> None:
    """0 has four records, 1 has two, 2 has one, and 3 has none."""
    pairs = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 3), (2, 1)]
    times = [4, 9, 2, 7, 5, 3, 1]
    split = last_split(make(make_behavior("Books", pairs, times), n_users=4), seed=0)
    assert split.parts[0].tolist() == [TRAIN, TEST, TRAIN, VALIDATION, TEST, TRAIN, TRAIN]
    assert split.notes[:2] == (
        "Books: 1 users have one record, which trains; they have none in validation and test",
        "Books: 1 users have two records and so none in validation",
    )
    assert split.negatives["test"]["uniform"][0].users.tolist() == [0, 1]
    assert split.negatives["validation"]["uniform"][0].users.tolist() == [0]
    for seed in (1, 2):  # without ties nothing is left to chance
        again = last_split(make(make_behavior("Books", pairs, times), n_users=4), seed=seed)
        assert np.array_equal(again.parts[0], split.parts[0])


def test_last_records_of_one_moment_are_ordered_by_chance() -> None:
    dataset = make(make_behavior("Books", [(0, item) for item in range(4)], [5] * 4))
    splits = [last_split(dataset, seed=seed) for seed in range(300)]
    note = "Books: 4 interactions share the moment of their user's cut and were placed by chance"
    assert all(note in split.notes for split in splits)
    tested = np.mean([split.parts[0] == TEST for split in splits], axis=0)
    assert tested == pytest.approx(np.full(4, 0.25), abs=0.1)


def test_behaviors_are_split_apart() -> None:
    """The last record of a behavior tests, whatever comes later in another."""
    books = make_behavior("Books", [(0, 0), (0, 1), (0, 2)], [1, 2, 3])
    travel = make_behavior("Travel", [(0, 0), (0, 1)], [9, 8])
    parts = last_split(make(books, travel), seed=0).parts
    assert [part.tolist() for part in parts] == [[TRAIN, VALIDATION, TEST], [TEST, TRAIN]]


def test_a_split_by_the_last_record_needs_timestamps() -> None:
    dataset = make(make_behavior("Books", [(0, 0)], [1]), make_behavior("Travel", [(0, 0)]))
    with refused(DataError, place="behavior 'Travel'", about="a split by each user's last record"):
        last_split(dataset, seed=0)


# --- supplied ---


@FEW
@given(datasets(), st.data())
def test_supplied_splits(dataset: SocialDataset, data: st.DataObject) -> None:
    parts = [
        np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(b), max_size=len(b))), dtype=np.uint8)
        for b in dataset.behaviors
    ]
    split = supplied_split(dataset, parts, seed=4)
    assert all(np.array_equal(*pair) for pair in zip(split.parts, parts, strict=True))
    assert split.settings == {"kind": "supplied", "seed": 4}
    check_negatives(dataset, split)


@pytest.mark.parametrize(
    "part",
    [np.zeros(2, np.uint8), np.array([0, 1, 3]), np.array([0, 1, -1]), np.array([0, 1, 255]), np.array([0, 0.5, 1])],
    ids=["too few", "3", "-1", "255", "a half"],
)
def test_supplied_parts_must_be_parts(part: np.ndarray) -> None:
    dataset = make(make_behavior("Books", [(0, 0), (1, 0), (2, 0)]))
    with refused(DataError, place="behavior 'Books'", value="Books"):
        supplied_split(dataset, [part], seed=0)


def write_parts(dataset: SocialDataset, split: Split, directory: Path, suffix: str) -> None:
    """Three files with user, item and behavior, in no order."""
    directory.mkdir()
    random = np.random.default_rng(0)
    for p, name in enumerate(PARTS):
        columns: dict[str, list[Any]] = {"user_id": [], "item_id": [], "behavior": []}
        for k, behavior in enumerate(dataset.behaviors):
            user, item = split.of(behavior, k, p)
            columns["user_id"] += dataset.users.take(user)
            columns["item_id"] += behavior.items.take(item)
            columns["behavior"] += [behavior.name] * len(user)
        table = pa.table(columns)
        table = table.take(random.permutation(len(table)))
        if len(table):
            write = pq.write_table if suffix == ".parquet" else pa_csv.write_csv
            write(table, directory / f"{name}{suffix}")


@pytest.mark.parametrize("suffix", [".csv", ".CSV", ".dat", ".parquet"])
@pytest.mark.parametrize("kind", ["integer", "text"])
@pytest.mark.parametrize("ratios", [(70, 10, 20), (70, 0, 30)])
def test_a_split_comes_back_from_files(suffix: str, kind: str, ratios: tuple[float, ...], tmp_path: Path) -> None:
    behaviors = [random_behavior("Travel", 0, 9, 12, 40), random_behavior("Books", 1, 9, 12, 30)]
    dataset = make(*behaviors, n_users=9)
    if kind == "text":
        items = Ids(sorted(f"ä {k}" for k in range(12)))
        behaviors = [dataclasses.replace(behavior, items=items) for behavior in behaviors]
        dataset = SocialDataset("toy", Ids("abcdefgh😀"), dataset.graph, tuple(behaviors))
    split = random_split(dataset, seed=5, ratios=ratios)
    write_parts(dataset, split, tmp_path / "parts", suffix)
    parts = read_parts(dataset, tmp_path / "parts")
    assert all(np.array_equal(*pair) for pair in zip(parts, split.parts, strict=True))
    again = supplied_split(dataset, parts, seed=5)
    for name in ("validation", "test"):
        for negatives in KINDS:  # the same parts and seed draw the same items, however the parts were made
            for ours, theirs in zip(again.negatives[name][negatives], split.negatives[name][negatives], strict=True):
                assert np.array_equal(ours.items, theirs.items)


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ("0,0,Books\n", "1,0,Books\n", r"1 of 3 Books interactions are in no part, .*user 2 with item 0"),
        ("0,0,Books\n1,0,Books\n", "1,0,Books\n2,0,Books\n", r"test\.csv, line 2, .*: listed before \(1 row\)"),
        ("0,0,Books\n0,0,Books\n1,0,Books\n", "2,0,Books\n", r"train\.csv, line 3, .*: listed before \(1 row\)"),
        (
            "0,0,Books\n1,0,Books\n",
            "2,0,Book\n",
            r"test\.csv, line 2, column 'behavior', value 'Book': not in the data",
        ),
        (
            "0,0,Books\n1,0,Books\n",
            "7,0,Books\n",
            r"test\.csv, line 2, column 'user_id', value '7': not in the dataset",
        ),
        (
            "0,0,Books\n1,0,Books\n",
            "2,5,Books\n",
            r"test\.csv, line 2, column 'item_id', value '5': not in the dataset",
        ),
    ],
)
def test_files_must_list_every_interaction_once(train: str, test: str, message: str, tmp_path: Path) -> None:
    dataset = make(make_behavior("Books", [(0, 0), (1, 0), (2, 0)]))
    for name, rows in (("train", train), ("test", test)):
        (tmp_path / f"{name}.csv").write_text(f"user_id,item_id,behavior\n{rows}")
    with pytest.raises(DataError, match=message):
        read_parts(dataset, tmp_path)


# --- identity, saving ---


def small() -> tuple[SocialDataset, Split]:
    dataset = make(random_behavior("Books", 3, 5, 6, 10), random_behavior("Travel", 4, 5, 6, 6), n_users=5)
    return dataset, random_split(dataset, seed=0, ratios=(50, 20, 30))


def with_negative(split: Split, name: str, kind: str, k: int, row: int, column: int) -> Split:
    """The split with one negative changed."""
    items = split.negatives[name][kind][k].items.copy()
    items[row, column] += 1
    changed = Negatives(split.negatives[name][kind][k].users, items)
    drawn = tuple(changed if j == k else other for j, other in enumerate(split.negatives[name][kind]))
    negatives = {**split.negatives, name: {**split.negatives[name], kind: drawn}}
    return dataclasses.replace(split, negatives=negatives)


def test_the_hash_changes_with_every_entry() -> None:
    _, split = small()
    variants = []
    for k, part in enumerate(split.parts):
        for at in range(len(part)):
            for other in {0, 1, 2} - {int(part[at])}:
                changed = part.copy()
                changed[at] = other
                parts = tuple(changed if j == k else kept for j, kept in enumerate(split.parts))
                variants.append(dataclasses.replace(split, parts=parts))
    n_parts = len(variants)
    for name in ("validation", "test"):
        for kind in KINDS:
            for k, drawn in enumerate(split.negatives[name][kind]):
                for row, column in itertools.product(range(len(drawn.users)), range(8)):
                    variants.append(with_negative(split, name, kind, k, row, column))
    assert n_parts == 2 * sum(map(len, split.parts))
    assert len(variants) > n_parts + 100
    assert len({split.fingerprint, *(variant.fingerprint for variant in variants)}) == len(variants) + 1


def test_the_hash_changes_with_seed_ratios_kind_and_dataset() -> None:
    dataset, split = small()
    renamed = dataclasses.replace(dataset, attributes={"age": Attribute(np.zeros(dataset.n_users))})
    variants = [
        split,
        random_split(dataset, seed=1, ratios=(50, 20, 30)),
        random_split(dataset, seed=0, ratios=(50, 30, 20)),
        random_split(renamed, seed=0, ratios=(50, 20, 30)),
        temporal_split(dataset, seed=0, ratios=(50, 20, 30)),
        supplied_split(dataset, split.parts, seed=0),
        supplied_split(dataset, split.parts, seed=1),
        dataclasses.replace(split, settings={**split.settings, "seed": 1}),
        dataclasses.replace(split, settings={**split.settings, "ratios": [5.0, 2.0, 3.0]}),
        dataclasses.replace(split, dataset_fingerprint="0" * 64),
    ]
    assert len({variant.fingerprint for variant in variants}) == len(variants)
    assert dataclasses.replace(split, notes=("other",)).fingerprint == split.fingerprint  # notes are no content


def test_a_pinned_split() -> None:
    """A seed means the same parts and the same negatives for ever."""
    dataset = make(make_behavior("Books", [(user, item) for user in range(3) for item in range(user, 600, 3)]))
    split = random_split(dataset, seed=0)
    assert split.parts[0][:12].tolist() == [0, 0, 1, 1, 2, 2, 0, 2, 2, 0, 2, 0]
    assert split.negatives["test"]["uniform"][0].items[0, :5].tolist() == [280, 532, 109, 187, 586]
    assert split.negatives["test"]["popular"][0].items[0, :5].tolist() == [544, 166, 368, 485, 380]
    assert split.negatives["validation"]["uniform"][0].items[2, :5].tolist() == [367, 538, 96, 420, 373]


def test_a_split_cannot_be_changed() -> None:
    dataset, split = small()
    supplied = [part.copy() for part in split.parts]
    for made in (split, supplied_split(dataset, supplied, seed=0)):
        with pytest.raises(ValueError, match="read-only"):
            made.parts[0][0] = TEST
        with pytest.raises(dataclasses.FrozenInstanceError):
            made.parts = ()  # type: ignore[misc]
    assert supplied[0].flags.writeable


@pytest.mark.parametrize("ratios", [(50, 20, 30), (1, 0, 0)], ids=["full", "nobody to rank for"])
def test_a_saved_split_comes_back(ratios: tuple[float, ...], tmp_path: Path) -> None:
    dataset, _ = small()
    split = random_split(dataset, seed=0, ratios=ratios)
    assert split.save(tmp_path / "kept") == split.fingerprint
    again = Split.load(tmp_path / "kept", dataset)
    assert again.fingerprint == split.fingerprint
    assert dataclasses.replace(again).fingerprint == split.fingerprint  # computed anew from what was read
    assert (again.settings, again.notes) == (split.settings, split.notes)
    assert all(np.array_equal(*pair) for pair in zip(again.parts, split.parts, strict=True))
    for name in ("validation", "test"):
        for kind in KINDS:
            for ours, theirs in zip(again.negatives[name][kind], split.negatives[name][kind], strict=True):
                assert np.array_equal(ours.users, theirs.users)
                assert np.array_equal(ours.items, theirs.items)


def test_a_split_of_another_dataset_is_refused_with_both_hashes(tmp_path: Path) -> None:
    dataset, split = small()
    split.save(tmp_path / "kept")
    other = dataclasses.replace(dataset, attributes={"age": Attribute(np.zeros(dataset.n_users))})
    message = f"kept: .*{dataset.fingerprint[:12]}, .*{other.fingerprint[:12]}.*; make the split again"
    with pytest.raises(ArtifactError, match=message):
        Split.load(tmp_path / "kept", other)


def test_a_split_is_never_replaced_by_another(tmp_path: Path) -> None:
    dataset, split = small()
    split.save(tmp_path / "kept")
    assert split.save(tmp_path / "kept") == split.fingerprint
    with refused(UsageError, place="kept", about="already"):
        random_split(dataset, seed=1).save(tmp_path / "kept")


def test_all_splits_of_a_saved_dataset(tmp_path: Path) -> None:
    dataset, split = small()
    assert module.split_names(tmp_path) == []
    split.save(tmp_path / "splits" / "b")
    other = random_split(dataset, seed=1)
    other.save(tmp_path / "splits" / "a")
    (tmp_path / "splits" / ".c.partial").mkdir()
    (tmp_path / "splits" / "notes.txt").touch()
    assert module.split_names(tmp_path) == ["a", "b"]


# --- a named split, made on demand by whoever needs it first ---


def test_many_that_need_one_split_at_once_get_the_same(tmp_path: Path) -> None:
    data, _ = generate(SyntheticConfig(users=500, seed=1))
    data.save(tmp_path / "data")

    def ask(_: int) -> Split:
        return split_of(tmp_path / "data", data, "random-3")

    with ThreadPoolExecutor(8) as pool:
        fingerprints = {split.fingerprint for split in pool.map(ask, range(16))}
    assert fingerprints == {random_split(data, seed=3).fingerprint}


@pytest.mark.parametrize("kind", KINDS)
def test_known_pairs_are_no_negatives(kind: str) -> None:
    """All but one of the items that a user lacks are known: in test it is the only negative, if it can be drawn."""
    data, left = nearly_all_known(sixty_users())
    split = random_split(data, seed=0)
    for k, behavior in enumerate(data.behaviors):
        trained = np.bincount(split.of(behavior, k, TRAIN)[1], minlength=30)
        tested = set(zip(*split.of(behavior, k, TEST), strict=True))
        for user, drawn in negatives_of(split, "test", kind, k):
            assert drawn == ([left[k, user]] if kind == "uniform" or trained[left[k, user]] else [])
        for user, drawn in negatives_of(split, "validation", kind, k):
            assert set(drawn) <= {left[k, user], *(item for owner, item in tested if owner == user)}


def negatives_of(split: Split, part: str, kind: str, k: int) -> list[tuple[int, list[int]]]:
    """Every user of a part with what was drawn for it."""
    negatives = split.negatives[part][kind][k]
    rows = zip(negatives.users.tolist(), negatives.items.tolist(), strict=True)
    return [(user, [item for item in items if item >= 0]) for user, items in rows]
