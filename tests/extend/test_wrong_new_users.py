"""What cannot be told of new users is refused with what is wrong, how often, and what is allowed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.errors import refused
from tests.extend.small_network import dataset, embeddings

from mcne.embeddings import ConditionalEmbeddings
from mcne.errors import MCNEError, UsageError
from mcne.extend import embed_users
from mcne.models.mcne_attributes import MCNEAttributes


@pytest.fixture(scope="module")
def old() -> ConditionalEmbeddings:
    return embeddings()


def links(*pairs: tuple[Any, Any]) -> dict[str, pa.Table]:
    return {"links": pa.table({"source_id": [a for a, _ in pairs], "target_id": [b for _, b in pairs]})}


def history(*rows: tuple[Any, Any, Any]) -> dict[str, pa.Table]:
    names = ("user_id", "item_id", "behavior")
    return {"history": pa.table({name: [row[k] for row in rows] for k, name in enumerate(names)})}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "no new users given; pass --links, --history or --attributes"),
    "known": (
        links((5, 0), (4, 0), (2, 0)),
        "links, column 'source_id': 2 of 3 users are already in the network (2, 4)",
    ),
    "known in a history": (
        history((0, 10, "Books")),
        "history, column 'user_id': user 0 is already in the network; list only new users",
    ),
    "unknown friends": (
        links((5, 0), (5, 1), (5, 3), (5, 7), (5, 9)),
        "links, row 2, column 'target_id', value 1: unknown friend (4 distinct: '1', '3', '7', …)",
    ),
    "a friend who is new": (links((5, 7), (7, 0)), "unknown friend (1 distinct: '7')"),
    "unknown item": (
        history((5, 10, "Books"), (5, 77, "Books"), (5, 80, "Travel")),
        "history, row 2, column 'item_id', value 77: unknown item in behavior 'Books' (1 distinct: '77')",
    ),
    "unknown behavior": (
        history((5, 10, "Books"), (5, 10, "Book"), (7, 10, "Book")),
        "history, row 2, column 'behavior', value 'Book': unknown behavior (2 rows); did you mean 'Books'?",
    ),
    "missing column": (
        {"links": pa.table({"source_id": [5], "friend": [0]})},
        "column 'target_id' is missing; the columns are",
    ),
    "missing behavior": ({"history": pa.table({"user_id": [5], "item_id": [0]})}, "column 'behavior' is missing"),
    "no rows": ({"links": pa.table({"source_id": [], "target_id": []})}, "links: no rows; at least one is needed"),
    "text ids": (links(("new", 0)), "not a 64-bit integer, but this run uses integer ids"),
    "a hole": (links((5, None)), "missing value (1 row)"),
    "no frame": ({"links": 3}, "links: int is not a frame that Arrow can read"),
    "attributes": (
        {"attributes": pa.table({"user_id": [5], "age": [3.0]})},
        "attributes: 'mcne' was trained without attributes, so it cannot use them; omit the table, or train "
        "mcne-attributes",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told(case: str, old: ConditionalEmbeddings) -> None:
    given, message = WRONG[case]
    with pytest.raises(MCNEError) as error:
        embed_users(old, **given)
    assert message in str(error.value)
    assert error.value.exit_code in (2, 4)


WRONG_FACTS: dict[str, tuple[dict[str, list[Any]], str]] = {
    "another attribute": ({"agee": [3.0]}, "attributes: unknown attribute 'agee'; did you mean 'age'?"),
    "text for a number": ({"age": ["old"]}, "value 'old': text, but 'age' was a number in training; correct it"),
    "infinite": ({"age": [float("inf")]}, "an infinite value (1 row); leave it empty if unknown"),
}


@pytest.mark.parametrize("case", WRONG_FACTS)
def test_what_is_wrong_in_attributes_is_told(case: str) -> None:
    columns, message = WRONG_FACTS[case]
    with pytest.raises(MCNEError) as error:
        embed_users(
            embeddings(MCNEAttributes, dataset(attributes=True)), attributes=pa.table({"user_id": [5]} | columns)
        )
    assert message in str(error.value)


def test_who_is_told_twice() -> None:
    facts = pa.table({"user_id": [5, 7, 5], "age": [1.0, 2.0, 3.0]})
    message = r"row 3, column 'user_id', value 5: a second row for this user \(1 users have several\)"
    with pytest.raises(MCNEError, match=message):
        embed_users(embeddings(MCNEAttributes, dataset(attributes=True)), attributes=facts)


def test_methods_without_a_network(old: ConditionalEmbeddings) -> None:
    flat = replace(old, trunk=None, provenance={"method": "bpr"})
    message = "'bpr' .* train one of mcne, mcne-a, mcne-f, mcne-attributes"
    with pytest.raises(UsageError, match=message):
        embed_users(flat, **links((5, 0)))


def test_behaviors_added_later(old: ConditionalEmbeddings) -> None:
    added = replace(old.spaces[0], name="Food", user_vectors=np.array(old.vectors))
    with refused(UsageError, place="Food", value=["Food"]):
        embed_users(replace(old, spaces=(*old.spaces, added)), **links((5, 0)))


def test_files_that_are_not_there(old: ConditionalEmbeddings, tmp_path: Path) -> None:
    with pytest.raises(MCNEError, match=r"links\.csv: no such file"):
        embed_users(old, links=tmp_path / "links.csv")
