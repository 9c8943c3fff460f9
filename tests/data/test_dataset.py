"""A dataset keeps what it promises: checked, frozen, saved and identified."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.errors import refused
from tests.values import not_none

from mcne import SocialDataset as PublicDataset
from mcne.data.behavior import Attribute, Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.graph import Graph, undirected
from mcne.data.ids import Ids
from mcne.errors import ArtifactError, UsageError


def rows(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def make_behavior(**changes: Any) -> Behavior:
    """Users 0 and 2 on items a and b."""
    parts = {"name": "view", "items": Ids(["a", "b"]), "user": rows(0, 0, 2), "item": rows(0, 1, 0)}
    return Behavior(**parts | {"timestamp": np.array([5, 3, 9])} | changes)


def make(**changes: Any) -> SocialDataset:
    """Four users: 0–1 and 0–3 are friends, 2 is alone; two behaviors; two attributes."""
    weights = np.array([0.5, 2.0], dtype=np.float32)
    parts: dict[str, Any] = {
        "name": "toy",
        "users": Ids(np.array([10, 20, 30, 40])),
        "graph": undirected(4, rows(0, 3), rows(1, 0), weights)[0],
        "behaviors": (make_behavior(), Behavior("buy", Ids(["x"]), rows(1), rows(0))),
        "attributes": {
            "age": Attribute(np.array([1.5, np.nan, 3, 4])),
            "town": Attribute(rows(0, -1, 1, 0), Ids("LP")),
        },
        "provenance": {"made": "by hand"},
    }
    return SocialDataset(**parts | changes)


# --- validation ---


def test_the_toy_is_valid() -> None:
    dataset = make()
    assert (dataset.n_users, dataset.behavior_names) == (4, ["view", "buy"])
    view = dataset.behavior("view")
    assert (len(view), view.n_items, view.popularity().tolist()) == (3, 2, [2, 1])
    assert view.indptr(4).tolist() == [0, 2, 2, 3, 3]
    assert PublicDataset is SocialDataset


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"user": rows(), "item": rows(), "timestamp": None}, "behavior 'view' has no interactions"),
        ({"user": rows(0, 0, 4)}, "users of interactions must be int32 rows below 4"),
        ({"user": rows(-1, 0, 2)}, "users of interactions must be int32 rows below 4"),
        ({"user": np.array([0, 0, 2])}, "users of interactions must be int32 rows below 4"),
        ({"item": rows(0, 2, 1)}, "items of interactions must be int32 rows below 2"),
        ({"item": rows(0, -1, 1)}, "items of interactions must be int32 rows below 2"),
        ({"item": rows(0, 1)}, "items of interactions must be int32 rows below 2"),
        ({"item": np.array([0, 1, 0], np.uint32)}, "items of interactions must be int32 rows below 2"),
        ({"user": rows(0, 2, 0)}, "sorted by user and item, each pair once"),
        ({"item": rows(1, 0, 0)}, "sorted by user and item, each pair once"),
        ({"item": rows(0, 0, 1)}, "sorted by user and item, each pair once"),
        ({"items": Ids(["a", "b", "c"])}, "an item without interactions"),
        ({"timestamp": np.array([1, 2])}, "timestamps must be int64 or float64, one per interaction"),
        ({"timestamp": np.array([1, 2, 3], np.int32)}, "timestamps must be int64 or float64"),
        ({"timestamp": np.array([1, 2, 3], np.float32)}, "timestamps must be int64 or float64"),
        ({"timestamp": np.array([1, np.nan, 3])}, "timestamps must be finite"),
        ({"timestamp": np.array([1, np.inf, 3])}, "timestamps must be finite"),
    ],
)
def test_every_broken_promise_of_a_behavior_is_found(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(behaviors=(make_behavior(**changes),))


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (Attribute(np.array([1.0, 2, 3])), "one float64 per row"),
        (Attribute(np.array([1, 2, 3, 4])), "one float64 per row"),
        (Attribute(np.array([1.0, np.inf, 3, 4])), "an infinite value"),
        (Attribute(rows(0, 1, 1), Ids("LP")), "one int32 per row"),
        (Attribute(np.array([0, 1, 1, 0]), Ids("LP")), "one int32 per row"),
        (Attribute(rows(0, 1, 2, 0), Ids("LP")), "a category out of range"),
        (Attribute(rows(0, 1, -2, 0), Ids("LP")), "a category out of range"),
        (Attribute(np.array([0.0, 1, 1, 0]), Ids("LP")), "one int32 per row"),
    ],
)
def test_every_broken_promise_of_an_attribute_is_found(attribute: Attribute, message: str) -> None:
    with pytest.raises(ValueError, match=f"attribute 'x': {message}"):
        make(attributes={"x": attribute})


def test_unknown_attributes_are_fine() -> None:
    make(attributes={"x": Attribute(np.full(4, np.nan)), "y": Attribute(rows(-1, -1, -1, -1), Ids([]))})


@pytest.mark.parametrize(
    "names", [[], ["view", "view"], [""], ["view", ""]], ids=["none", "twice", "unnamed", "one unnamed"]
)
def test_behaviors_need_distinct_names(names: list[str]) -> None:
    with pytest.raises(ValueError, match="needs at least one behavior, with distinct names"):
        make(behaviors=tuple(make_behavior(name=name) for name in names))


def test_the_graph_must_fit_the_users_and_be_valid() -> None:
    with pytest.raises(ValueError, match="the graph has 3 rows for 4 users"):
        make(graph=undirected(3, rows(0), rows(1))[0])
    with pytest.raises(ValueError, match="both directions"):
        make(graph=Graph(rows(0, 1, 1, 1, 1), rows(1)))


def test_a_user_may_have_nothing() -> None:
    alone = undirected(4, rows(), rows())[0]
    dataset = make(graph=alone, attributes={}, behaviors=(make_behavior(),))
    assert dataset.graph.degrees.tolist() == [0, 0, 0, 0]


def test_a_behavior_is_asked_for_by_name() -> None:
    with refused(UsageError, value="veiw"):
        make().behavior("veiw")


# --- frozen ---


def test_nothing_can_be_changed() -> None:
    dataset = make()
    view, age, town = dataset.behavior("view"), dataset.attributes["age"], dataset.attributes["town"]
    arrays = [view.user, view.item, not_none(view.timestamp), age.values, town.values, dataset.graph.indptr]
    arrays += [dataset.graph.indices, not_none(dataset.graph.weights)]
    for array in arrays:
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    for value, field in ((dataset, "name"), (dataset, "graph"), (view, "user"), (age, "values")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field, None)


def test_the_callers_arrays_and_mappings_stay_their_own() -> None:
    user, values = rows(0, 0, 2), np.array([1.0, 2, 3, 4])
    attributes = {"age": Attribute(values)}
    dataset = make(behaviors=(make_behavior(user=user),), attributes=attributes)
    assert user.flags.writeable
    assert values.flags.writeable
    before = dataset.fingerprint
    attributes["late"] = Attribute(np.zeros(3))  # would not even be valid
    assert list(dataset.attributes) == ["age"]
    assert dataclasses.replace(dataset).fingerprint == before


# --- identity ---

CHANGES: dict[str, Callable[[SocialDataset], dict[str, Any]]] = {
    "a user's id": lambda _: {"users": Ids(np.array([10, 20, 30, 41]))},
    "text ids": lambda _: {"users": Ids(["10", "20", "30", "40"])},
    "a link": lambda _: {"graph": undirected(4, rows(0, 3), rows(1, 1), np.array([0.5, 2], np.float32))[0]},
    "a weight": lambda _: {"graph": undirected(4, rows(0, 3), rows(1, 0), np.array([0.5, 2.5], np.float32))[0]},
    "no weights": lambda d: {"graph": Graph(d.graph.indptr, d.graph.indices)},
    "order of behaviors": lambda d: {"behaviors": d.behaviors[::-1]},
    "a behavior less": lambda d: {"behaviors": d.behaviors[:1]},
    "a behavior's name": lambda d: {"behaviors": (make_behavior(name="View"), d.behaviors[1])},
    "an item's id": lambda d: {"behaviors": (make_behavior(items=Ids(["a", "c"])), d.behaviors[1])},
    "integer items": lambda d: {"behaviors": (make_behavior(items=Ids(np.array([1, 2]))), d.behaviors[1])},
    "a user": lambda d: {"behaviors": (make_behavior(user=rows(0, 0, 1)), d.behaviors[1])},
    "an item": lambda d: {"behaviors": (make_behavior(item=rows(0, 1, 1)), d.behaviors[1])},
    "a time": lambda d: {"behaviors": (make_behavior(timestamp=np.array([5, 3, 8])), d.behaviors[1])},
    "the type of time": lambda d: {"behaviors": (make_behavior(timestamp=np.array([5.0, 3, 9])), d.behaviors[1])},
    "no times": lambda d: {"behaviors": (make_behavior(timestamp=None), d.behaviors[1])},
    "an attribute less": lambda d: {"attributes": {"age": d.attributes["age"]}},
    "an attribute's name": lambda d: {"attributes": {"Age": d.attributes["age"], "town": d.attributes["town"]}},
    "an attribute's value": lambda d: {
        "attributes": {"age": Attribute(np.array([1.5, np.nan, 3, 5])), "town": d.attributes["town"]}
    },
    "a category": lambda d: {
        "attributes": {"age": d.attributes["age"], "town": Attribute(rows(0, -1, 1, 1), Ids("LP"))}
    },
    "a category's name": lambda d: {
        "attributes": {"age": d.attributes["age"], "town": Attribute(rows(0, -1, 1, 0), Ids("LQ"))}
    },
}


def test_the_fingerprint_changes_with_every_part() -> None:
    dataset = make()
    prints = {what: dataclasses.replace(dataset, **change(dataset)).fingerprint for what, change in CHANGES.items()}
    assert len(set(prints.values()) | {dataset.fingerprint}) == len(CHANGES) + 1
    assert all(len(fingerprint) == 64 for fingerprint in prints.values())


def test_the_fingerprint_ignores_where_the_data_came_from() -> None:
    assert make().fingerprint == make(name="another name").fingerprint
    assert make().fingerprint == make(provenance={}).fingerprint == make(provenance={"a": [1]}).fingerprint


def test_the_fingerprint_sees_values_not_memory() -> None:
    """Slices, views and other byte layouts of equal arrays are equal."""
    every_second = np.array([0, 9, 0, 9, 2, 9], dtype=np.int32)[::2]
    assert (
        make(behaviors=(make_behavior(user=every_second),)).fingerprint
        == make(behaviors=(make_behavior(),)).fingerprint
    )


def test_a_pinned_fingerprint() -> None:
    """If this changes, every saved dataset and split of the past is one of another dataset."""
    assert make().fingerprint == "6be6289e4084558920a07fa98adc4d67cf370d0de03bdcb19d2daf1260d5c8e3"


# --- saving ---


def assert_equal(one: SocialDataset, other: SocialDataset) -> None:
    """Every value and every type, one by one."""
    assert (one.name, one.behavior_names) == (other.name, other.behavior_names)
    assert one.users == other.users
    pairs = [(getattr(one.graph, field), getattr(other.graph, field)) for field in ("indptr", "indices", "weights")]
    for ours, theirs in zip(one.behaviors, other.behaviors, strict=True):
        assert ours.items == theirs.items
        pairs += [(getattr(ours, field), getattr(theirs, field)) for field in ("user", "item", "timestamp")]
    assert list(one.attributes) == list(other.attributes)
    for name, attribute in one.attributes.items():
        assert attribute.categories == other.attributes[name].categories
        pairs.append((attribute.values, other.attributes[name].values))
    for ours, theirs in pairs:
        assert (ours is None) == (theirs is None)
        assert ours is None or ours.dtype == theirs.dtype
        assert ours is None or np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f")


@pytest.mark.parametrize(
    "changes",
    [{}, *(change(make()) for change in CHANGES.values()), {"users": Ids(["ä", "ö", "ü", "😀"])}],
    ids=["toy", *CHANGES, "unicode"],
)
def test_a_saved_dataset_comes_back(changes: dict[str, Any], tmp_path: Path) -> None:
    dataset = make(**changes)
    assert dataset.save(tmp_path / "kept") == dataset.fingerprint
    for verify in (True, False):
        again = SocialDataset.load(tmp_path / "kept", verify=verify)
        assert_equal(again, dataset)
        assert again.provenance == {"made": "by hand"}
        assert again.fingerprint == dataset.fingerprint
        assert dataclasses.replace(again).fingerprint == dataset.fingerprint  # computed anew from what was read


def test_a_loaded_dataset_lies_on_the_disk(tmp_path: Path) -> None:
    make(users=Ids("abcd")).save(tmp_path / "kept")
    dataset = SocialDataset.load(tmp_path / "kept")
    text = dataset.users.arrays("users")
    for array in (dataset.graph.indices, dataset.behaviors[0].user, dataset.attributes["age"].values, *text.values()):
        assert not array.flags.owndata
        assert not array.flags.writeable
    assert isinstance(_owner(dataset.graph.indices), np.memmap)
    assert isinstance(_owner(dataset.behaviors[0].user), np.memmap)


def _owner(array: np.ndarray) -> Any:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def test_a_saved_dataset_is_never_replaced_by_another(tmp_path: Path) -> None:
    make().save(tmp_path / "kept")
    assert make(provenance={}).save(tmp_path / "kept") == make().fingerprint  # the same content: nothing to do
    with refused(UsageError, place="kept", about="already"):
        make(attributes={}).save(tmp_path / "kept")
    assert SocialDataset.load(tmp_path / "kept").provenance == {"made": "by hand"}


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    make().save(tmp_path / "kept")
    file = tmp_path / "kept" / "behavior.0.user.npy"
    content = bytearray(file.read_bytes())
    content[-4] ^= 1
    file.chmod(0o644)
    file.write_bytes(content)
    with refused(ArtifactError, place="behavior.0.user.npy", about="match"):
        SocialDataset.load(tmp_path / "kept")


# --- what a person sees ---


def test_repr() -> None:
    assert repr(make()).split("\n") == [
        "SocialDataset 'toy': 4 users (integer ids), 2 weighted links, 1 users without links",
        "  view          2 items            3 interactions by 2 users, timed",
        "  buy           1 item             1 interaction by 1 user",
        "  attributes: age, town",
    ]
    plain = make(graph=undirected(4, rows(), rows())[0], attributes={}, users=Ids("abcd"))
    assert repr(plain).split("\n")[0] == (
        "SocialDataset 'toy': 4 users (text ids), 0 unweighted links, 4 users without links"
    )
    assert len(repr(plain).split("\n")) == 3


def test_a_dataset_made_by_hand_has_no_report() -> None:
    assert make().report is None
