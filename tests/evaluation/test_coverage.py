"""Coverage: hand values, a loop over users, ties by chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.evaluation.test_protocol import Table, make, random_triples, tables

from mcne.data.dataset import SocialDataset
from mcne.data.split import PARTS, TEST, TRAIN, VALIDATION, Split
from mcne.errors import UsageError
from mcne.evaluation import protocol
from mcne.evaluation.protocol import coverage


@pytest.fixture(scope="module")
def toy() -> tuple[SocialDataset, Split]:
    return make(random_triples(0, 40, 160, 0.35), random_triples(1, 40, 30, 0.2))


def test_hand_values() -> None:
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
def test_equals_a_loop_over_users(toy: Any, part: Any, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, split = toy
    monkeypatch.setattr(protocol, "FULL_AT_ONCE", at_once)
    scores = tables(dataset, 2, None)
    got = coverage(Table(*scores), dataset, split, part=part, cutoffs=(1, 3, 25))
    for k, behavior in enumerate(dataset.behaviors):
        for cutoff in (1, 3, 25):
            found: set[int] = set()
            for user in range(dataset.n_users):
                mine = behavior.user == user
                known = set(behavior.item[mine & (split.parts[k] < PARTS.index(part))].tolist())
                rest = [item for item in np.argsort(-scores[k][user]).tolist() if item not in known]
                found |= set(rest[:cutoff])
            assert got[behavior.name][f"coverage@{cutoff}"] == len(found) / behavior.n_items


def test_ties_are_broken_by_chance_and_by_the_seed_alone(toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset, split = toy
    constant = Table(*tables(dataset, 0, 1))
    got = [coverage(constant, dataset, split, seed=seed, cutoffs=(1, 2))["Travel"] for seed in range(100)]
    # 40 users draw one of about 26 items each: a share of 1 − (1 − 1/30)^40 = 0.742 if they knew none
    assert 0.70 < np.mean([one["coverage@1"] for one in got]) < 0.78
    assert all(one["coverage@1"] <= one["coverage@2"] for one in got)
    assert len({one["coverage@1"] for one in got}) > 3
    few = Table(*tables(dataset, 1, 3))
    whole = coverage(few, dataset, split, seed=4)
    monkeypatch.setattr(protocol, "FULL_AT_ONCE", 300)
    assert coverage(few, dataset, split, seed=4) == whole


def test_more_cutoffs_change_nothing(toy: Any) -> None:
    dataset, split = toy
    few = Table(*tables(dataset, 1, 40))
    one, many = (coverage(few, dataset, split, cutoffs=cutoffs) for cutoffs in ((5,), (1, 5, 100)))
    assert {name: values["coverage@5"] for name, values in many.items()} == {
        name: values["coverage@5"] for name, values in one.items()
    }


def test_users_with_nothing_left_and_infinite_scores() -> None:
    dataset, split = make([(0, 0, TRAIN), (0, 1, TRAIN), (1, 0, TRAIN), (1, 1, TEST)])
    low = Table(np.full((2, 2), -np.inf))
    assert coverage(low, dataset, split) == {"Books": {f"coverage@{k}": 0.5 for k in (5, 10, 20)}}
    with pytest.raises(ValueError, match="a score is NaN"):
        coverage(Table(np.full((2, 2), np.nan)), dataset, split)


def test_wrong_settings_are_refused(toy: Any) -> None:
    dataset, split = toy
    scorer = Table(*tables(dataset, 0, None))
    with pytest.raises(UsageError, match="unknown part 'train'"):
        coverage(scorer, dataset, split, part="train")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"cutoffs \(0,\)"):
        coverage(scorer, dataset, split, cutoffs=(0,))
    with pytest.raises(UsageError, match="evaluate with a split of this dataset"):
        coverage(scorer, dataset, make([(0, 0, TRAIN)])[1])
