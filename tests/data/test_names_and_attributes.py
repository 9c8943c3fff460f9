"""Names and attributes of items and users are those of their rows, and what is told of nobody is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.values import not_none

from mcne.data.assemble import UserFilter
from mcne.data.dataset import SocialDataset
from mcne.errors import DataError, UsageError

INTERACTIONS = pa.table(
    {
        "user_id": [1, 1, 2, 3, 2],
        "item_id": [10, 20, 10, 30, 20],
        "behavior": ["Books", "Books", "Films", "Films", "Books"],
    }
)


def build(items: Any, **options: Any) -> SocialDataset:
    return SocialDataset.from_frames(INTERACTIONS, items=items, **options)


def listed(dataset: SocialDataset) -> str:
    return next(line for line in not_none(dataset.report).lines() if line.startswith("items listed"))


def test_a_row_without_a_behavior_is_about_all_that_have_the_item() -> None:
    dataset = build(pa.table({"item_id": [30, 10, 99], "name": ["C", "A", "Z"], "pages": [3.0, 1.0, 9.0]}))
    books, films = dataset.behaviors
    assert list(not_none(books.names)) == ["A", ""]
    assert list(not_none(films.names)) == ["A", "C"]
    assert np.array_equal(books.attributes["pages"].values, [1, np.nan], equal_nan=True)
    assert films.attributes["pages"].values.tolist() == [1, 3]
    assert listed(dataset) == "items listed: 3 read, 2 kept, 1 dropped (without interactions)"


def test_a_row_with_a_behavior_is_about_that_one() -> None:
    items = pa.table(
        {
            "item_id": [10, 10, 20, 20, 10],
            "behavior": ["Films", "Books", "Books", "Films", "Games"],
            "name": ["Film", "Book", None, "x", "y"],
            "genre": ["drama", "poem", "novel", "none", "chess"],
        }
    )
    dataset = build(items)
    books, films = dataset.behaviors
    assert list(not_none(books.names)) == ["Book", ""]
    assert list(not_none(films.names)) == ["Film", ""]
    assert list(not_none(books.attributes["genre"].categories)) == ["novel", "poem"]
    assert books.attributes["genre"].values.tolist() == [1, 0]
    assert list(not_none(films.attributes["genre"].categories)) == ["drama"]  # none that no item has
    assert films.attributes["genre"].values.tolist() == [0, -1]
    assert listed(dataset) == (
        "items listed: 5 read, 3 kept, 1 dropped (of a behavior that is not chosen), 1 dropped (without interactions)"
    )


def test_what_no_item_of_a_behavior_has_is_no_part_of_it() -> None:
    dataset = build(pa.table({"item_id": [20], "name": ["B"], "pages": [5], "kind": ["novel"]}))
    books, films = dataset.behaviors
    assert (films.names, dict(films.attributes)) == (None, {})
    assert list(books.attributes) == ["pages", "kind"]


def test_items_of_users_that_are_dropped_are_told_of_nobody() -> None:
    dataset = build(pa.table({"item_id": [30, 10], "name": ["C", "A"]}), user_filter=UserFilter(min_records=2))
    assert list(dataset.users) == [1, 2]
    assert list(not_none(dataset.behavior("Films").names)) == ["A"]
    assert listed(dataset) == "items listed: 2 read, 1 kept, 1 dropped (without interactions)"


def test_the_list_never_changes_the_catalog() -> None:
    plain = SocialDataset.from_frames(INTERACTIONS)
    dataset = build(pa.table({"item_id": ["10", "x"], "pages": [1, 2]}))  # text, where the ids are integers
    assert [list(behavior.items) for behavior in dataset.behaviors] == [list(b.items) for b in plain.behaviors]
    assert dataset.behavior("Films").attributes["pages"].values[0] == 1
    assert build(pa.table({"item_id": [99], "pages": [1]})).fingerprint == plain.fingerprint


@pytest.mark.parametrize(
    ("items", "place"),
    [
        ({"item_id": [10, 99, 10, 99]}, r"row 3, column 'item_id', value 10: duplicate item \(2 rows\)"),
        (
            {"item_id": [10, 10, 10], "behavior": ["Films", "Books", "Films"]},
            "row 3, column 'item_id', value 10: duplicate item",
        ),
        ({"item_id": [10, None]}, "row 2, column 'item_id', value None: missing value"),
        ({"item_id": [10, 20], "behavior": ["Films", None]}, "row 2, column 'behavior', value None: missing value"),
        ({"item_id": [10], "pages": [float("inf")]}, "row 1, column 'pages', value inf: an infinite value"),
        ({"item_id": [10], "name": [1.5]}, "column 'name': double values"),
        ({"id": [10]}, "column 'item_id' is missing"),
    ],
)
def test_what_cannot_be_told_is_refused(items: dict[str, Any], place: str) -> None:
    with pytest.raises(DataError, match=f"items, {place}|items: {place}"):
        build(pa.table(items))


def test_files_of_items(tmp_path: Path) -> None:
    (tmp_path / "x.item").write_text(
        "item_id:token\tname:token_seq\tyear:token\tpages:float\n10\tA b\t1984\t5\n20\t\t07\t\n"
    )
    books = build(tmp_path / "x.item").behavior("Books")
    assert list(not_none(books.names)) == ["A b", ""]
    assert list(not_none(books.attributes["year"].categories)) == ["07", "1984"]
    assert np.array_equal(books.attributes["pages"].values, [5, np.nan], equal_nan=True)
    (tmp_path / "x.csv").write_text("movie,title,year\n10,A b,1984\n")
    mapped = {"item_id": "movie", "name": "title"}
    interactions = INTERACTIONS.rename_columns(["user_id", "movie", "behavior"])
    dataset = SocialDataset.from_frames(interactions, items=tmp_path / "x.csv", columns=mapped)
    assert list(not_none(dataset.behavior("Books").names)) == ["A b", ""]
    assert dataset.behavior("Books").attributes["year"].values[0] == 1984


# --- names of users ---


def test_a_column_of_names_is_no_attribute() -> None:
    users = pa.table({"user_id": [3, 1, 5], "name": ["Čeněk", "Ann", None], "age": [30, 10, 50]})
    dataset = SocialDataset.from_frames(INTERACTIONS, users=users)
    assert list(dataset.users) == [1, 2, 3, 5]
    assert list(not_none(dataset.user_names)) == ["Ann", "", "Čeněk", ""]
    assert list(dataset.attributes) == ["age"]
    only = SocialDataset.from_frames(INTERACTIONS, users=users, user_filter=UserFilter(min_records=2))
    assert list(not_none(only.user_names)) == ["Ann", ""]


def test_names_may_be_numbers_and_categories() -> None:
    for names in (pa.array([1984, None]), pa.array(["1984", None]).dictionary_encode()):
        dataset = SocialDataset.from_frames(INTERACTIONS, users=pa.table({"user_id": [1, 2], "name": names}))
        assert list(not_none(dataset.user_names)) == ["1984", "", ""]


def test_nobody_with_a_name_is_no_names() -> None:
    users = pa.table({"user_id": [1, 9], "name": ["", "Nine"]})
    dataset = SocialDataset.from_frames(INTERACTIONS, users=users, user_filter=UserFilter(min_records=1))
    assert dataset.user_names is None


def test_a_mapping_may_be_that_of_one_table() -> None:
    """Where a table lacks the mapped column, it may have the standard one."""
    acts = pa.table({"user_id": ["ann"], "id": ["dune"], "behavior": ["Books"]})
    items = pa.table({"item_id": ["dune"], "pages": [412]})
    dataset = SocialDataset.from_frames(acts, items=items, columns={"item_id": "id"})
    assert list(dataset.behaviors[0].attributes) == ["pages"]
    with pytest.raises(UsageError, match="column 'idd', mapped to 'user_id', is in no table that may have it"):
        SocialDataset.from_frames(acts, items=items, columns={"item_id": "id", "user_id": "idd"})


def test_a_mapping_of_names_may_be_that_of_one_table() -> None:
    users = pa.table({"user_id": [1], "name": ["Ann"]})
    items = pa.table({"item_id": [10], "title": ["A"]})
    dataset = build(items, users=users, columns={"name": "title"})
    assert list(not_none(dataset.user_names)) == ["Ann", "", ""]
    assert list(not_none(dataset.behavior("Films").names)) == ["A", ""]
    with pytest.raises(UsageError, match="column 'titel', mapped to 'name', is in no table that may have it"):
        build(items, columns={"name": "titel"})
