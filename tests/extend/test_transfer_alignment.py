"""A behavior of one dataset on the users of another: matched by raw ids, nothing lost, mistakes told."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from tests.errors import refused
from tests.extend.later_behavior import NEW, Whole, three_behaviors
from tests.small_training import nearly_all_known

from mcne.data.dataset import SocialDataset
from mcne.data.ids import Ids
from mcne.data.split import TEST, TRAIN, random_split
from mcne.embeddings import ConditionalEmbeddings
from mcne.errors import DataError, UsageError
from mcne.extend.transfer import aligned, beside, shared_items, without
from mcne.models.contract import TrainingData


def table(users: list[object], items: list[object]) -> SocialDataset:
    return SocialDataset.from_frames(pa.table({"user_id": users, "item_id": items}), single_behavior="new", name="new")


def pairs(dataset: SocialDataset) -> set[tuple[object, object]]:
    (behavior,) = dataset.behaviors
    return set(zip(dataset.users.take(behavior.user), behavior.items.take(behavior.item), strict=True))


def test_users_are_matched_by_their_ids(base: ConditionalEmbeddings) -> None:
    users, items = [40, 7, 7, 300, 12] * 30, list(range(150))
    data = table(list(users), list(items))
    split = random_split(data, seed=0)
    own, parts = aligned(base, data, split, behavior="new")
    assert own.users == base.users
    assert pairs(own) == set(zip(users, items, strict=True)) == pairs(data)
    for part in (TRAIN, TEST):
        matched = {(own.users[int(u)], int(i)) for u, i in zip(*parts.of(own.behaviors[0], 0, part), strict=True)}
        expected = {(data.users[int(u)], int(i)) for u, i in zip(*split.of(data.behaviors[0], 0, part), strict=True)}
        assert matched == expected
    for kind in ("uniform", "popular"):
        moved, drawn = parts.negatives["test"][kind][0], split.negatives["test"][kind][0]
        assert own.users.take(moved.users) == data.users.take(drawn.users)
        assert np.array_equal(moved.items, drawn.items)
    assert parts.dataset_fingerprint == own.fingerprint


def test_known_pairs_come_along(base: ConditionalEmbeddings) -> None:
    data = table([40, 7, 7, 300, 12] * 30, list(range(150)))
    knowing, left = nearly_all_known(data)
    own, parts = aligned(base, knowing, random_split(knowing, seed=0), behavior="new")
    (behavior,) = own.behaviors
    known = TrainingData.of(own, parts).known[0]
    named = set(zip(own.users.take(known[0]), behavior.items.take(known[1]), strict=True))
    everything = {(user, item) for user in data.users for item in range(150)}
    lacks = everything - pairs(data) - {(user, int(item)) for user, item in zip(data.users, left[0], strict=True)}
    assert named == lacks
    both, _ = beside(*without(*three_behaviors(), behavior=NEW), own, parts)
    assert both.behavior("new").known is not None


def test_known_records_under_another_name_are_refused_with_their_known_pairs(base: ConditionalEmbeddings) -> None:
    data, _ = without(*three_behaviors(), behavior=NEW)
    knowing, _ = nearly_all_known(data)
    spaces = []
    for space, each in zip(base.spaces, knowing.behaviors, strict=True):
        indptr, items, known = each.seen(data.n_users)
        spaces.append(dataclasses.replace(space, seen_indptr=indptr, seen_items=items, seen_known=known))
    again = dataclasses.replace(knowing.behaviors[0], name="again")
    renamed = dataclasses.replace(knowing, behaviors=(again, *knowing.behaviors[1:]))
    parts = random_split(renamed, seed=0)
    with pytest.raises(UsageError, match="exactly the items and interactions of"):
        aligned(dataclasses.replace(base, spaces=tuple(spaces)), renamed, parts, behavior="again")


def test_ids_that_sort_otherwise_as_text(base: ConditionalEmbeddings) -> None:
    names = sorted(map(str, base.users))
    text = dataclasses.replace(base, users=Ids(names))
    data = table([9, 10, 200] * 20, list(range(60)))  # integers, of which 10 comes before 9 as text
    own, parts = aligned(text, data, random_split(data, seed=0), behavior="new")
    assert {(str(user), item) for user, item in pairs(data)} == pairs(own)
    drawn = parts.negatives["test"]["uniform"][0]
    assert np.all(np.diff(drawn.users) > 0)


def test_unknown_users_are_refused_with_counts(base: ConditionalEmbeddings) -> None:
    some = table([1, 2, 9001, 9002, 9001] * 8, list(range(40)))
    message = "new: 2 of its 4 users, with 24 of its 40 interactions, .*: 9001, 9002; "
    with pytest.raises(DataError, match=message):
        aligned(base, some, random_split(some, seed=0), behavior="new")
    none = table(["x", "y"] * 20, list(range(40)))
    message = r"new: none of its 2 users \(text ids, from 'x' to 'y'\) .* 500 .*\(integer ids, from 1 to 500\)"
    with pytest.raises(DataError, match=message):
        aligned(base, none, random_split(none, seed=0), behavior="new")


def test_the_ids_named_are_those_of_the_behavior(base: ConditionalEmbeddings) -> None:
    columns = {"user_id": [1, 2, 9001, 9005], "item_id": [1, 2, 3, 4], "behavior": ["old", "old", "new", "new"]}
    data = SocialDataset.from_frames(pa.table(columns), behaviors=("old", "new"), name="both")
    message = r"new: none of its 2 users \(integer ids, from 9001 to 9005\) .* 500 .*, from 1 to 500\)"
    with pytest.raises(DataError, match=message):
        aligned(base, data, random_split(data, seed=0), behavior="new")


def test_the_records_of_a_known_behavior_are_no_new_one(base: ConditionalEmbeddings, whole: Whole) -> None:
    dataset, _ = whole
    same = dataclasses.replace(dataset, behaviors=(dataclasses.replace(dataset.behaviors[0], name="Reading"),))
    with refused(UsageError, place="behavior 'Reading'", value="Reading"):
        aligned(base, same, random_split(same, seed=0), behavior="Reading")


def test_item_ids_may_be_shared_and_are_told(base: ConditionalEmbeddings, whole: Whole) -> None:
    known = base.spaces[0].items[:3]
    data = table([1, 2, 3, 4] * 10, [*known, 10**9] * 10)
    own, _ = aligned(base, data, random_split(data, seed=0), behavior="new")
    assert any(
        "3 of the 4 item ids of new are also items of Books" in line for line in shared_items(base, own.behaviors[0])
    )


def test_nothing_to_learn_from(base: ConditionalEmbeddings) -> None:
    data = table([1, 2, 3], [1, 2, 3])
    split = random_split(data, seed=0)
    tested = dataclasses.replace(split, parts=(np.full(3, TEST, dtype=np.uint8),))
    with refused(DataError, place="new", value="new"):
        aligned(base, data, tested, behavior="new")


def test_apart_and_together_again(whole: Whole) -> None:
    dataset, split = whole
    before, parts = without(dataset, split, behavior=NEW)
    assert before.behavior_names == [name for name in dataset.behavior_names if name != NEW]
    assert parts.fingerprint == random_split(before, seed=0).fingerprint
    at = dataset.behavior_names.index(NEW)
    one = dataset.only(at)
    both, again = beside(before, parts, one, split.only(at, one))
    assert both.fingerprint == dataset.fingerprint
    assert again.fingerprint == split.fingerprint
    with refused(UsageError, value="Travel"):
        without(one, split.only(at, one), behavior=NEW)
