"""Names of users and items: kept with the vectors only where there are any, and shown beside every id."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.small_training import sixty_users, train_small

from mcne.data.ids import Names
from mcne.data.split import random_split
from mcne.embeddings import ConditionalEmbeddings
from mcne.embeddings.artifact import side_by_side
from mcne.embeddings.scored import ScoredItems

USERS = Names(["Ann", "Bob\x1b[2J", "", "Dee <b>"])


@pytest.fixture
def named(parts: dict[str, Any]) -> ConditionalEmbeddings:
    """Users 10 and 20 have names, 30 has none; of the items of Books only b has one, of Travel none."""
    books, travel = parts["spaces"]
    spaces = (dataclasses.replace(books, names=Names(["", "Bleak House", ""])), travel)
    return ConditionalEmbeddings(**parts | {"spaces": spaces, "user_names": USERS})


# kept


def test_names_are_stored_where_there_are_any(
    tiny: ConditionalEmbeddings, named: ConditionalEmbeddings, tmp_path: Path
) -> None:
    tiny.save(tmp_path / "plain")
    named.save(tmp_path / "named")
    before, now = (
        {file.name: file.read_bytes() for file in (tmp_path / each).glob("*.npy")} for each in ("plain", "named")
    )
    own = {"user_names.offsets.npy", "user_names.utf8.npy", "behavior.0.names.offsets.npy", "behavior.0.names.utf8.npy"}
    assert set(now) - set(before) == own
    assert {name: now[name] for name in before} == before
    assert named.fingerprint != tiny.fingerprint
    opened = ConditionalEmbeddings.load(tmp_path / "named")
    assert opened.fingerprint == named.fingerprint
    assert opened.user_names is not None
    assert list(opened.user_names) == list(USERS)
    assert opened.spaces[0].names is not None
    assert list(opened.spaces[0].names) == ["", "Bleak House", ""]
    assert opened.spaces[1].names is None
    assert ConditionalEmbeddings.load(tmp_path / "plain").user_names is None


def test_a_name_for_each_row(parts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="2 names for 4 users"):
        ConditionalEmbeddings(**parts | {"user_names": Names(["Ann", "Bob"])})
    with pytest.raises(ValueError, match="behavior 'Books': 1 names for 3 items"):
        dataclasses.replace(parts["spaces"][0], names=Names(["a"]))


def test_models_side_by_side_keep_them(named: ConditionalEmbeddings) -> None:
    each = [dataclasses.replace(named, spaces=(space,), trunk=None) for space in named.spaces]
    together = side_by_side(each, {})
    assert together.user_names is USERS
    assert together.spaces[0].names is named.spaces[0].names


@pytest.mark.parametrize("method", ["popularity", "bpr", "mcne", "ease"])
def test_every_training_keeps_them(method: str, tmp_path: Path) -> None:
    small = sixty_users()
    read, watch = small.behaviors
    titles = Names([f"title {raw}" for raw in read.items])
    people = Names([f"person {raw}" for raw in small.users])
    dataset = dataclasses.replace(small, behaviors=(dataclasses.replace(read, names=titles), watch), user_names=people)
    run = train_small(method, dataset, tmp_path / "run")
    scorer = run.scorer(dataset, random_split(dataset, seed=0))
    answering = run.embeddings if run.has_vectors else ScoredItems.of(scorer, dataset, method=method)
    ranking = answering.recommend(3, "read", k=4, items=list(read.items)[5:25])
    assert ranking.names == tuple(f"title {raw}" for raw in ranking.ids)
    assert answering.recommend(3, "watch").names is None
    table = answering.recommend([3, 4], "read", k=1).to_arrow()
    assert table["user_name"].to_pylist() == ["person 3", "person 4"]


# shown


def test_a_ranking_has_a_column_of_names(named: ConditionalEmbeddings, tiny: ConditionalEmbeddings) -> None:
    ranking = named.similar_users(10)
    assert ranking.columns().keys() == {"rank", "user_id", "name", "score"}
    assert dict(zip(ranking.ids, ranking.columns()["name"], strict=True)) == {20: USERS[1], 30: "", 40: USERS[3]}
    assert list(ranking) == list(tiny.similar_users(10))
    labels: dict[Any, str] = {20: "20 (Bob [2J)", 30: "30", 40: "40 (Dee <b>)"}
    assert ranking.labels() == [labels[raw] for raw in ranking.ids]
    assert "\x1b" not in str(ranking)
    assert "<td>Dee &lt;b&gt;</td>" in ranking._repr_html_()
    assert ranking.to_pandas()["name"].tolist() == ranking.to_polars()["name"].to_list() == list(ranking.names or ())
    assert "name" not in tiny.similar_users(10).columns()
    assert "name" not in named.recommend(10, "Travel", filter_seen=False).columns()


def test_rankings_name_who_was_asked_about_too(named: ConditionalEmbeddings) -> None:
    rankings = named.similar_users([20, 30], k=1)
    table = rankings.to_arrow()
    assert table.column_names == ["user_id", "user_name", "rank", "similar_user_id", "name", "score"]
    assert table["user_name"].to_pylist() == [USERS[1], ""]
    assert table["name"].to_pylist() == [name for ranking in rankings for name in ranking.names or ()]
    assert named.similar_items(["a", "b"], "Books", k=1).to_arrow()["item_name"].to_pylist() == ["", "Bleak House"]
    assert "user_name" in named.recommend([], "Books").to_arrow().column_names


def test_an_explanation_names_users_friends_and_items(parts: dict[str, Any], named: ConditionalEmbeddings) -> None:
    why = named.explain(10, 30)
    assert (why.user_name, why.other_name, why.users) == ("Ann", "", ("10 (Ann)", "30"))
    assert (why.common_friends.ids, why.common_friends.names) == ((20,), ("Bob\x1b[2J",))
    lines = str(why).splitlines()
    assert lines[0] == "users 10 (Ann) and 30 are linked; common friends: 1 (20 (Bob [2J))"
    assert lines[3].startswith("30 → 10 (Ann)")
    shared = dataclasses.replace(
        named.spaces[0],
        seen_indptr=np.array([0, 2, 4, 4, 4], np.int32),
        seen_items=np.array([0, 1, 0, 1], np.int32),
    )
    both = dataclasses.replace(named, spaces=(shared, named.spaces[1])).explain(10, 20)
    assert str(both.behaviors[0].common_items) == "2 (a, b (Bleak House))"
    assert both.behaviors[1].common_items.names == ()
    assert "Bleak House" in both._repr_html_()


def test_json_has_names_only_where_there_are_any(tiny: ConditionalEmbeddings, named: ConditionalEmbeddings) -> None:
    assert "name" not in json.dumps(tiny.explain(10, 30).to_json())
    why = json.loads(json.dumps(named.explain(10, 30).to_json()))
    assert why["user_name"] == "Ann"
    assert "other_name" not in why
    assert why["messages"][0].keys() == {"sender_id", "receiver_id", "share", "attention", "receiver_name"}
    assert why["common_friends"] == {"count": 1, "ids": [20], "names": ["Bob\x1b[2J"]}
    assert "names" not in why["behaviors"][1]["common_items"]


# exported


def test_names_are_exported(named: ConditionalEmbeddings, tiny: ConditionalEmbeddings, tmp_path: Path) -> None:
    named.export(tmp_path / "parquet", "parquet")
    assert pq.read_table(tmp_path / "parquet" / "users.parquet")["name"].to_pylist() == list(USERS)
    assert pq.read_table(tmp_path / "parquet" / "items-Books.parquet").column_names == ["item_id", "name", "vector"]
    assert "name" not in pq.read_table(tmp_path / "parquet" / "items-Travel.parquet").column_names
    named.export(tmp_path / "npz", "npz")
    arrays = np.load(tmp_path / "npz" / "embeddings.npz")
    assert arrays["user_names"].tolist() == list(USERS)
    assert arrays["item_names_0"].tolist() == ["", "Bleak House", ""]
    assert "item_names_1" not in arrays
    tiny.export(tmp_path / "plain", "npz")
    assert "user_names" not in np.load(tmp_path / "plain" / "embeddings.npz")
