"""A description says the right numbers, and its page fits the terminal."""

from __future__ import annotations

import io
import itertools
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from mcne.cli.output import bar, print_description
from mcne.data.behavior import Attribute, Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.describe import describe, describe_split, distribution
from mcne.data.graph import undirected
from mcne.data.ids import Ids, Names
from mcne.data.split import TEST, TRAIN, VALIDATION, Split, supplied_split
from mcne.text import NO_VALUE

NO_SPLITS: dict[str, Any] = {"splits": {}}
LONG_NAMES = (
    "Books", "Musical Instruments", "Travel", "Food & Drink", "Hotels & Travel", "Games", "Household Appliances",
    "Kids", "旅行", "Office Equipment", "Software", "Telecommunications",
)  # fmt: skip


def make_behavior(name: str, pairs: list[tuple[int, int]], times: list[int] | None = None) -> Behavior:
    user, item = np.array(pairs, dtype=np.int32).T
    return Behavior(name, Ids(np.arange(int(item.max()) + 1)), user, item, None if times is None else np.array(times))


def toy() -> tuple[SocialDataset, Split]:
    """Ten users; 0 has three friends, 4 only itself."""
    graph, _ = undirected(10, np.array([0, 0, 0, 4]), np.array([1, 2, 3, 4]))
    books = make_behavior("Books", [(0, 0), (0, 1), (1, 0), (2, 0), (2, 2), (5, 1), (5, 2)], [7, 6, 5, 4, 3, 2, 1])
    travel, food = make_behavior("Travel", [(0, 0), (3, 0), (3, 1)]), make_behavior("Food", [(9, 0)])
    attributes = {"age": Attribute(np.arange(10.0))}
    dataset = SocialDataset("toy", Ids(np.arange(10)), graph, (books, travel, food), attributes)
    parts = [[TRAIN, TEST, VALIDATION, TRAIN, TEST, TEST, TEST], [TEST, VALIDATION, TRAIN], [TRAIN]]
    return dataset, supplied_split(dataset, [np.array(part, dtype=np.uint8) for part in parts], seed=7)


# --- numbers ---


def test_what_a_dataset_may_have_is_told_only_where_it_has_it() -> None:
    plain, _ = toy()
    books, travel, food = plain.behaviors
    books = replace(
        books,
        weight=np.array([1, 2, 3, 4, 5, 5, 5], np.float32),
        known_user=np.array([0, 9], np.int32),
        known_item=np.array([2, 0], np.int32),
        names=Names(["A", "", "C"]),
        attributes={"pages": Attribute(np.arange(3.0))},
    )
    rich = replace(plain, behaviors=(books, travel, food), user_names=Names(["x"] * 4 + [""] * 6))
    told, bare = describe(rich), describe(plain)
    assert told["user_names"] == 4
    assert {key: value for key, value in told["behaviors"][0].items() if key not in bare["behaviors"][0]} == {
        "ratings": {"min": 1, "median": 4, "max": 5},
        "known_pairs": 2,
        "item_names": 2,
        "item_attributes": ["pages"],
    }
    assert told["behaviors"][1:] == bare["behaviors"][1:]
    assert "user_names" not in bare
    shown = page(told | NO_SPLITS, 100)
    assert "4 users with a name" in shown
    assert "attributes of items of Books: pages" in shown
    beside = shown[shown.index("Beside the records") :].splitlines()[1:5]
    assert [line.split() for line in beside] == [
        ["lowest", "rating", "median", "highest", "known", "only", "named", "items"],
        ["Books", "1", "4", "5", "2", "2"],
        ["Travel", NO_VALUE, NO_VALUE, NO_VALUE, "0", "0"],
        ["Food", NO_VALUE, NO_VALUE, NO_VALUE, "0", "0"],
    ]
    for words in ("Beside the records", "users with a name", "attributes of items"):
        assert words not in page(bare | NO_SPLITS, 100)


def test_the_network() -> None:
    dataset, _ = toy()
    summary = describe(dataset)
    assert (summary["name"], summary["fingerprint"]) == ("toy", dataset.fingerprint)
    assert (summary["users"], summary["links"], summary["directions"]) == (10, 4, 7)
    assert (summary["self_links"], summary["weighted"], summary["directed"]) == (1, False, False)
    assert (summary["users_without_links"], summary["users_without_records"]) == (5, 4)
    assert summary["attributes"] == ["age"]
    assert summary["degree"] == {  # degrees 3, 1, 1, 1, 1 and five times 0
        "min": 0,
        "median": 0.5,
        "mean": pytest.approx(0.7),
        "max": 3,
        "top_tenth_share": pytest.approx(3 / 7),
        "histogram": [
            {"from": 0, "to": 0, "count": 5},
            {"from": 1, "to": 1, "count": 4},
            {"from": 2, "to": 3, "count": 1},
        ],
    }


def test_the_behaviors() -> None:
    books, travel, food = describe(toy()[0])["behaviors"]
    assert books == {
        "name": "Books",
        "items": 3,
        "interactions": 7,
        "users": 4,
        "density": pytest.approx(7 / 30),
        "timestamps": True,
        "cold_user_share": pytest.approx(0.6),
        "single_record_item_share": 0.0,
        "records_per_user": {  # 2, 1, 2, 2 and six times 0
            "min": 0,
            "median": 0.0,
            "mean": pytest.approx(0.7),
            "max": 2,
            "top_tenth_share": pytest.approx(2 / 7),
            "histogram": [
                {"from": 0, "to": 0, "count": 6},
                {"from": 1, "to": 1, "count": 1},
                {"from": 2, "to": 3, "count": 3},
            ],
        },
        "popularity": {  # 3, 2, 2
            "min": 2,
            "median": 2.0,
            "mean": pytest.approx(7 / 3),
            "max": 3,
            "top_tenth_share": pytest.approx(3 / 7),
            "histogram": [{"from": 2, "to": 3, "count": 3}],
        },
        "likeness": {  # 0 and 1 share one item of 2 and 1, 0 and 2 one of 2 and 2
            "links": 2,
            "compared": 2,
            "sharing": 2,
            "friends": pytest.approx((2**-0.5 + 0.5) / 2),
            "chance": pytest.approx((6 * 2**-0.5 + 4 * 0.5) / 10),
            "standard_error": pytest.approx((2**-0.5 - 0.5) / 2),
            "ratio": pytest.approx((5 * 2**-0.5 + 2.5) / (6 * 2**-0.5 + 2)),
            "ratio_error": pytest.approx((5 * 2**-0.5 - 2.5) / (6 * 2**-0.5 + 2)),
        },
    }
    nobody = dict.fromkeys(("friends", "chance", "standard_error", "ratio", "ratio_error"))
    assert food["likeness"] == {"links": 0, "compared": 0, "sharing": 0} | nobody
    assert (travel["users"], travel["density"], travel["timestamps"]) == (2, pytest.approx(3 / 20), False)
    assert travel["single_record_item_share"] == 0.5
    assert (food["users"], food["cold_user_share"], food["single_record_item_share"]) == (1, 0.9, 1.0)


def test_the_overlap_of_users() -> None:
    """Books has users 0, 1, 2, 5; Travel 0, 3; Food 9."""
    assert describe(toy()[0])["overlap"] == [
        {"behaviors": ["Books", "Travel"], "users": 1, "share": 0.2},
        {"behaviors": ["Books", "Food"], "users": 0, "share": 0.0},
        {"behaviors": ["Travel", "Food"], "users": 0, "share": 0.0},
    ]


def test_the_splits() -> None:
    """Books tests items 1 and 2, which nobody trains on, for users 0 and 2 and twice for 5, who has no training."""
    dataset, split = toy()
    summary = {"mine": describe_split(dataset, split)}
    assert summary == {
        "mine": {
            "fingerprint": split.fingerprint,
            "settings": {"kind": "supplied", "seed": 7},
            "behaviors": [
                {"name": "Books", "train": 2, "validation": 1, "test": 4, "test_users": 3}
                | {"test_users_without_training": pytest.approx(1 / 3), "test_on_untrained_items": 1.0},
                {"name": "Travel", "train": 1, "validation": 1, "test": 1, "test_users": 1}
                | {"test_users_without_training": 1.0, "test_on_untrained_items": 1.0},
                {"name": "Food", "train": 1, "validation": 0, "test": 0, "test_users": 0}
                | {"test_users_without_training": 0.0, "test_on_untrained_items": 0.0},
            ],
        }
    }


def test_a_description_is_plain_data() -> None:
    dataset, split = toy()
    summary = describe(dataset) | {"splits": {"mine": describe_split(dataset, split)}}
    assert json.loads(json.dumps(summary)) == summary


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5000), min_size=1, max_size=60))
def test_a_distribution_equals_its_definition(counts: list[int]) -> None:
    numbers = distribution(np.array(counts))
    ordered = sorted(counts)
    middle = len(counts) // 2
    assert (numbers["min"], numbers["max"]) == (ordered[0], ordered[-1])
    assert numbers["median"] == (ordered[middle] + ordered[~middle]) / 2
    assert numbers["mean"] == pytest.approx(sum(counts) / len(counts))
    assert sum(bin_["count"] for bin_ in numbers["histogram"]) == len(counts)
    for bin_ in numbers["histogram"]:
        assert bin_["count"] == sum(bin_["from"] <= count <= bin_["to"] for count in counts)
    edges = [(bin_["from"], bin_["to"]) for bin_ in numbers["histogram"]]
    assert all(first[1] + 1 == second[0] for first, second in itertools.pairwise(edges))
    assert set(edges) <= {(0, 0), (1, 1), *((2**k, 2 ** (k + 1) - 1) for k in range(1, 13))}


def test_the_tenth_that_has_most() -> None:
    assert distribution(np.array([1] * 18 + [41, 41]))["top_tenth_share"] == pytest.approx(0.82)
    assert distribution(np.array([10, 10] + [1] * 12))["top_tenth_share"] == pytest.approx(10 / 32)  # 1.4 of 14: one
    assert distribution(np.array([0, 0]))["top_tenth_share"] == 0
    assert distribution(np.zeros(0, np.int64)) == {
        "min": 0,
        "median": 0.0,
        "mean": 0.0,
        "max": 0,
        "top_tenth_share": 0.0,
        "histogram": [],
    }


# --- the page ---


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (0, ""),
        (1e-9, "▏"),
        (1 / 128, "▏"),
        (7 / 128, "▉"),
        (15.6 / 128, "██"),
        (1 / 16, "█"),
        (1.5 / 16, "█▌"),
        (0.5, "█" * 8),
        (1, "█" * 16),
    ],
)
def test_bars_in_eighths_of_a_character(share: float, drawn: str) -> None:
    assert bar(share) == drawn


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 1), st.integers(1, 40))
def test_a_bar_is_as_long_as_its_share(share: float, width: int) -> None:
    drawn = bar(share, width)
    eighths = sum(8 if mark == "█" else " ▏▎▍▌▋▊▉".index(mark) for mark in drawn)
    assert eighths == pytest.approx(share * width * 8, abs=1)
    assert len(drawn) <= width
    assert (drawn == "") == (share == 0)


def page(description: dict[str, Any], width: int) -> str:
    out = io.StringIO()
    print_description(description, Console(file=out, width=width))
    return out.getvalue()


def large_description(n_behaviors: int) -> dict[str, Any]:
    """The toy's description at the size of a real one, every number of it another."""
    dataset, split = toy()
    summary = describe(dataset) | {"splits": {"random-0": describe_split(dataset, split)}}
    summary |= {"users": 4_321_000, "links": 121_408_000}
    names = LONG_NAMES[:n_behaviors]
    summary["behaviors"] = [
        summary["behaviors"][0] | {"name": name, "items": 1_234_000 + k, "interactions": 123_456_700 + k}
        for k, name in enumerate(names)
    ]
    summary["overlap"] = [
        {"behaviors": [names[a], names[b]], "users": 3_000_000 + 100 * a + b, "share": 0.5}
        for a in range(n_behaviors)
        for b in range(a + 1, n_behaviors)
    ]
    split_row = summary["splits"]["random-0"]["behaviors"][0]
    summary["splits"]["random-0"]["behaviors"] = [
        split_row | {"name": name, "train": 86_420_000 + k, "test_users": 1_000_000 + k} for k, name in enumerate(names)
    ]
    return summary


@pytest.mark.parametrize("n_behaviors", [1, 3, 12])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_nothing_is_cut_off(n_behaviors: int, width: int) -> None:
    summary = large_description(n_behaviors)
    shown = page(summary, width)
    assert "…" not in shown
    assert all(cell_len(line) <= width for line in shown.split("\n"))
    for k, name in enumerate(LONG_NAMES[:n_behaviors]):
        assert name in shown
        assert f"{1_234_000 + k:,}" in shown
        assert f"{123_456_700 + k:,}" in shown
        assert f"{86_420_000 + k:,}" in shown
        assert f"{1_000_000 + k:,}" in shown
    for pair in summary["overlap"]:
        assert shown.count(f"{pair['users']:,} (50%)") == 1
    for head in ("items", "interactions", "density", "timed", "train", "validation"):
        assert head in shown


def test_numbers_stand_below_their_heads() -> None:
    dataset, split = toy()
    lines = page(describe(dataset) | {"splits": {"mine": describe_split(dataset, split)}}, 80).split("\n")
    lines = [line.rstrip() for line in lines]
    start = lines.index("Behaviors")
    assert lines[start + 1 : start + 5] == [
        "        items  interactions  users  cold users   density  seen once  timed",
        "Books       3             7      4       60.0%  23.3333%       0.0%    yes",
        "Travel      2             3      2       80.0%  15.0000%      50.0%     no",
        "Food        1             1      1       90.0%  10.0000%     100.0%     no",
    ]
    start = lines.index("Friends beside any two users (mean cosine of their items)")
    assert lines[start + 1 : start + 5] == [
        "        friends  any two  times as alike  links",
        "Books      0.60     0.62     0.97 ± 0.17      2",
        "Travel     0.71     0.71            1.00      1",
        "Food          –        –               –      0",
    ]
    start = lines.index("Users with both (share of users with either)")
    assert lines[start + 1 : start + 5] == [
        "         Travel    Food",
        "Books   1 (20%)  0 (0%)",
        "Travel           0 (0%)",
        "",
    ]
    start = lines.index(f"Split mine (kind supplied, seed 7) {split.fingerprint[:12]}")
    assert lines[start + 1 : start + 5] == [
        "        train  validation  test  test users  new to it  on new items",
        "Books       2           1     4           3      33.3%        100.0%",
        "Travel      1           1     1           1     100.0%        100.0%",
        "Food        1           0     0           0       0.0%          0.0%",
    ]
    start = lines.index(next(line for line in lines if line.startswith("Links per user")))
    for line, drawn in zip(lines[start + 1 :], [("0", 5 / 5), ("1", 4 / 5), ("2–3", 1 / 5)], strict=False):
        label, share = drawn
        assert line.split()[:2] == [label, bar(share)]
    assert "toy  10 users, 4 links" in lines
    assert {"5 users without a link", "4 users without any record (cold)", "1 links to oneself"} <= set(lines)
    assert "attributes: age" in lines


def test_a_matrix_in_blocks_keeps_its_rows_and_columns() -> None:
    """Every count of the overlap stands in the line of one behavior and below the head of the other."""
    summary = large_description(6)
    names = [f"B{k}" for k in range(6)]
    for k, behavior in enumerate(summary["behaviors"]):
        behavior["name"] = names[k]
    for pair in summary["overlap"]:
        pair["behaviors"] = [names[LONG_NAMES.index(name)] for name in pair["behaviors"]]
    shown = page(summary, 60)
    lines = shown[shown.index("Users with both") : shown.index("Split random-0")].split("\n")[1:]
    heads: list[tuple[str, int]] = []
    seen = 0
    for line in lines:
        words = line.split()
        if line.startswith(" ") and words:
            heads = [(word, line.index(word) + len(word)) for word in words]
        for pair in summary["overlap"]:
            cell = f"{pair['users']:,} (50%)"
            if cell in line:
                seen += 1
                assert words[0] == pair["behaviors"][0]
                assert (pair["behaviors"][1], line.index(cell) + len(cell)) in heads
    assert seen == 15


def test_without_links_nothing_is_said_of_friends() -> None:
    summary = large_description(2)
    for behavior in summary["behaviors"]:
        behavior["likeness"] = describe(toy()[0])["behaviors"][2]["likeness"]
    assert "Friends" not in page(summary, 80)


@pytest.mark.parametrize("name", ["[bold]x[/bold]", "[/]", "a [cd]", ":smile:", " ", "x" * 100])
def test_names_are_shown_as_they_are(name: str) -> None:
    summary = large_description(3)
    for where in (summary["behaviors"][1], summary["splits"]["random-0"]["behaviors"][1]):
        where["name"] = name
    for pair in summary["overlap"]:
        pair["behaviors"] = [name if other == LONG_NAMES[1] else other for other in pair["behaviors"]]
    summary |= {"name": name, "attributes": [name], "splits": {name: summary["splits"]["random-0"]}}
    shown = page(summary, 120)
    assert "…" not in shown
    if len(name) < 40:
        assert shown.count(name) >= 6  # title, attribute, behavior, overlap, split's title and line
    else:
        assert shown.count("x") >= 6 * 100
