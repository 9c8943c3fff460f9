"""What a dataset may have beside records and links: weights, known pairs, names, attributes of items."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.small_training import sixty_users

from mcne.data.behavior import Attribute, Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.ids import Ids, Names


@pytest.fixture
def behavior() -> Behavior:
    """Three users with records of four items; users 0 and 2 know another one each."""
    return Behavior(
        "rated",
        Ids(["a", "b", "c", "d"]),
        np.array([0, 0, 1, 2], np.int32),
        np.array([0, 2, 1, 3], np.int32),
        np.array([5, 6, 7, 8]),
        np.array([1, 2, 3, 4], np.float32),
        np.array([0, 2], np.int32),
        np.array([1, 0], np.int32),
        Names(["A", "B", "", "D"]),
        {"pages": Attribute(np.array([1.0, 2.0, np.nan, 4.0]))},
    )


def test_everything_is_stored_and_read_back(behavior: Behavior, tmp_path: Path) -> None:
    small = sixty_users()
    plain = dataclasses.replace(small, behaviors=small.behaviors[:1])
    names = Names([f"user {row}" for row in range(60)])
    rich = dataclasses.replace(plain, behaviors=(*plain.behaviors, behavior), user_names=names)
    assert len({small.fingerprint, plain.fingerprint, rich.fingerprint}) == 3
    rich.save(tmp_path / "data")
    again = SocialDataset.load(tmp_path / "data")
    assert again.fingerprint == rich.fingerprint
    assert again.user_names is not None
    assert again.user_names[3] == "user 3"
    back = again.behaviors[1]
    for name in ("weight", "known_user", "known_item", "timestamp"):
        np.testing.assert_array_equal(getattr(back, name), getattr(behavior, name))
    assert back.names is not None
    assert back.names.take(np.array([3, 2])) == ["D", ""]
    np.testing.assert_array_equal(back.attributes["pages"].values, behavior.attributes["pages"].values)


def test_seen_are_records_and_known_pairs(behavior: Behavior) -> None:
    indptr, items, known = behavior.seen(4)
    assert indptr.tolist() == [0, 3, 4, 6, 6]
    assert items.tolist() == [0, 1, 2, 1, 0, 3]
    assert known is not None
    assert known.tolist() == [False, True, False, False, True, False]
    nobody = np.zeros(0, np.int32)
    for none in (None, nobody):
        records = dataclasses.replace(behavior, known_user=none, known_item=none)
        indptr, items, known = records.seen(4)
        assert (indptr.tolist(), items.tolist(), known) == ([0, 2, 3, 4, 4], [0, 2, 1, 3], None)


def test_some_users_and_items(behavior: Behavior) -> None:
    users = np.array([True, False, True])
    items = np.array([True, False, True, True])
    some = behavior.restrict(users, items, users[behavior.user])
    some.validate(2)
    assert list(some.items) == ["a", "c", "d"]
    assert list(zip(some.user.tolist(), some.item.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 2)]
    assert some.weight is not None
    assert some.weight.tolist() == [1, 2, 4]
    assert some.known_user is not None
    assert some.known_item is not None
    assert list(zip(some.known_user.tolist(), some.known_item.tolist(), strict=True)) == [(1, 0)]
    assert some.names is not None
    assert list(some.names) == ["A", "", "D"]
    assert some.attributes["pages"].values[[0, 2]].tolist() == [1, 4]


def test_users_at_other_rows(behavior: Behavior) -> None:
    moved, order = behavior.moved(np.array([4, 0, -1]))
    assert moved.known_user is not None
    assert moved.known_user.tolist() == [4]
    assert order.tolist() == [3, 2, 0, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": np.array([1, 2, 3], np.float32)}, "weights must be float32, one per interaction"),
        ({"weight": np.array([1, 2, 3, 0], np.float32)}, "weights must be finite and positive"),
        ({"known_item": None}, "known pairs need users and items"),
        ({"known_item": np.array([0, 1], np.int32)}, "a known pair is an interaction, too"),
        ({"known_item": np.array([0, 9], np.int32)}, "items of known pairs must be int32 rows below 4"),
        ({"known_user": np.array([2, 0], np.int32)}, "known pairs must be sorted by user and item"),
        ({"names": Names(["A"])}, "one name per item expected"),
        ({"attributes": {"pages": Attribute(np.ones(3))}}, "attribute 'pages': one float64 per row expected"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str, behavior: Behavior) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(behavior, **change).validate(3)
