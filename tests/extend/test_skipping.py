"""Rows about what a model does not know: skipped where asked, each counted by its reason, and nothing else changed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from tests.cli.in_process import command_line
from tests.errors import refused
from tests.extend.small_network import dataset, embeddings
from tests.small_training import transfer_small

from mcne.data.dataset import SocialDataset
from mcne.data.ids import Names
from mcne.data.split import TRAIN, random_split
from mcne.embeddings import ConditionalEmbeddings
from mcne.errors import DataError
from mcne.extend import embed_users
from mcne.extend.transfer import aligned
from mcne.training import Run
from mcne.training.journal import Reporter

LINKS = pa.table({"source_id": [5, 5, 7, 99], "target_id": [0, 3, 99, 1]})
HISTORY = pa.table(
    {
        "user_id": [5, 5, 5, 9, 11, 11],
        "item_id": [10, 77, 10, 20, 88, 10],
        "behavior": ["Books", "Books", "Film", "Travel", "Books", "Games"],
    }
)


@pytest.fixture(scope="module")
def old() -> ConditionalEmbeddings:
    """Even users, ids of items multiples of 10."""
    return embeddings()


# new users


def test_it_is_as_if_the_skipped_rows_were_not_there(old: ConditionalEmbeddings) -> None:
    skipped = embed_users(old, links=LINKS, history=HISTORY, skip_unknown=True)
    known = embed_users(
        old,
        links=pa.table({"source_id": [5], "target_id": [0]}),
        history=pa.table({"user_id": [5, 9], "item_id": [10, 20], "behavior": ["Books", "Travel"]}),
    )
    assert skipped.fingerprint == known.fingerprint
    assert skipped.provenance["new_users"] == known.provenance["new_users"] | {
        "skipped": {
            "links to unknown users": 3,
            "records of unknown behaviors": 2,
            "records of unknown items": 2,
            "new users of whom nothing else is known": 3,
        }
    }


def test_where_all_is_known_nothing_is_skipped(old: ConditionalEmbeddings) -> None:
    links = pa.table({"source_id": [5, 7], "target_id": [0, 2]})
    one, other = (embed_users(old, links=links, skip_unknown=skip) for skip in (True, False))
    assert one.fingerprint == other.fingerprint
    assert one.provenance["new_users"]["skipped"] == {}
    assert "skipped" not in other.provenance["new_users"]


def test_nobody_of_whom_anything_is_known(old: ConditionalEmbeddings) -> None:
    message = "none of 2 new users has a known friend or item: skipped 2 links to unknown users; check that"
    with pytest.raises(DataError, match=message):
        embed_users(old, links=pa.table({"source_id": [5, 7], "target_id": [3, 9]}), skip_unknown=True)


@pytest.mark.parametrize("table", ["links", "history"])
def test_without_the_option_the_remedy_is_to_skip(table: str, old: ConditionalEmbeddings) -> None:
    with pytest.raises(DataError, match="--skip-unknown") as raised:
        embed_users(old, **{table: {"links": LINKS, "history": HISTORY}[table]})
    assert "--skip-unknown" in raised.value.remedy


def test_known_users_are_refused_all_the_same(old: ConditionalEmbeddings) -> None:
    with refused(DataError, place="links, column 'source_id'", value=[4]):
        embed_users(old, links=pa.table({"source_id": [4], "target_id": [3]}), skip_unknown=True)


def test_what_is_wrong_in_a_row_that_stays_is_told_with_its_place() -> None:
    weighted = embeddings(data=dataset(weighted=True))
    links = pa.table({"source_id": [5, 5, 5], "target_id": [3, 0, 2], "weight": [1.0, 1.0, -1.0]})
    with pytest.raises(DataError, match="links, row 3, column 'weight'"):
        embed_users(weighted, links=links, skip_unknown=True)


def test_names_of_new_users(old: ConditionalEmbeddings) -> None:
    links = pa.table({"source_id": [7, 5], "target_id": [0, 2]})
    names = pa.table({"user_id": [7, 1], "name": ["Zoe", "nobody"]})
    both = embed_users(old, links=links, names=names, skip_unknown=True)
    assert both.provenance["new_users"]["skipped"] == {"names of other users": 1}
    assert both.user_names is not None
    assert {raw: name for raw, name in zip(both.users, both.user_names, strict=True) if name} == {7: "Zoe"}
    with refused(DataError, place="names, row 2, column 'user_id', value 1", value=["1"]):
        embed_users(old, links=links, names=names)
    twice = pa.table({"user_id": [7, 7], "name": ["Zoe", "Zo"]})
    with pytest.raises(DataError, match="row 2, column 'user_id', value 7: a second row for this user"):
        embed_users(old, links=links, names=twice)


def test_new_users_beside_named_ones_have_no_name(old: ConditionalEmbeddings) -> None:
    named = replace(old, user_names=Names([f"user {raw}" for raw in old.users]))
    both = embed_users(named, links=pa.table({"source_id": [5], "target_id": [0]}))
    assert both.user_names is not None
    assert list(both.user_names) == ["" if raw == 5 else f"user {raw}" for raw in both.users]


def test_the_command_counts_them(
    old: ConditionalEmbeddings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old.save(tmp_path / "old")
    csv.write_csv(LINKS, tmp_path / "links.csv")
    csv.write_csv(pa.table({"user_id": [5], "name": ["Eve"]}), tmp_path / "names.csv")
    given = ("--links", tmp_path / "links.csv", "--names", tmp_path / "names.csv", "--out", tmp_path / "new")
    with command_line(monkeypatch, capsys, "mcne", "embed-users") as run:
        refused = run(tmp_path / "old", *given)
        assert (refused.code, "--skip-unknown" in refused.err) == (4, True)
        done = run(tmp_path / "old", *given, "--skip-unknown")
    assert done.code == 0
    assert done.err == "skipped 3 links to unknown users, 2 new users of whom nothing else is known\n"
    assert done.out.startswith("added 1 user to 14\n")
    opened = ConditionalEmbeddings.load(tmp_path / "new")
    assert opened.similar_users(0, k=20).names is not None
    assert json.loads((tmp_path / "new" / "manifest.json").read_text())["provenance"]["new_users"]["skipped"]


# transfer


def table(users: list[Any], items: list[Any]) -> SocialDataset:
    return SocialDataset.from_frames(pa.table({"user_id": users, "item_id": items}), single_behavior="new", name="new")


@pytest.fixture(scope="module")
def partly() -> SocialDataset:
    """Users 1 to 40 of the base and three whom it does not know, who alone have the items from 200 on."""
    users = [user for user in range(1, 41) for _ in range(4)] + [9001, 9001, 9002, 9003]
    items = [(7 * at) % 120 for at in range(160)] + [0, 200, 201, 3]
    return table(users, items)


def test_records_of_unknown_users_are_skipped(base: ConditionalEmbeddings, partly: SocialDataset) -> None:
    split = random_split(partly, seed=0)
    own, parts = aligned(base, partly, split, behavior="new", skip_unknown=True)
    assert own.provenance["skipped"] == {"records": 4, "unknown users": 3, "items that only they have": 2}
    (behavior,) = own.behaviors
    assert len(behavior) == len(partly.behaviors[0]) - 4
    assert max(map(int, behavior.items)) < 120
    before, now = (
        {(data.users[int(user)], each.items[int(item)]) for user, item in zip(*some.of(each, 0, TRAIN), strict=True)}
        for data, some, each in ((partly, split, partly.behaviors[0]), (own, parts, behavior))
    )
    assert now == {(user, item) for user, item in before if int(user) < 9000}
    for kind in ("uniform", "popular"):
        drawn = parts.negatives["test"][kind][0]
        tested = np.unique(parts.of(behavior, 0, 2)[0])
        assert drawn.users.tolist() == tested.tolist()
        assert drawn.items.max() < behavior.n_items
    assert parts.settings == split.settings


def test_where_all_users_are_known_the_split_is_the_same(base: ConditionalEmbeddings) -> None:
    data = table([1, 2, 3, 4] * 10, list(range(40)))
    split = random_split(data, seed=0)
    one, other = (aligned(base, data, split, behavior="new", skip_unknown=skip) for skip in (True, False))
    assert [each.fingerprint for each in one] == [each.fingerprint for each in other]
    assert dict(one[0].provenance) == {}


def test_nobody_who_is_known(base: ConditionalEmbeddings) -> None:
    data = table([9001, 9002] * 20, list(range(40)))
    with refused(DataError, place="new", about="none of its 2 users"):
        aligned(base, data, random_split(data, seed=0), behavior="new", skip_unknown=True)


def test_the_run_says_what_it_skipped(base: ConditionalEmbeddings, partly: SocialDataset, tmp_path: Path) -> None:
    split = random_split(partly, seed=0)
    with pytest.raises(DataError, match="--skip-unknown"):
        transfer_small(base, partly, split, tmp_path / "run", behavior="new", settings={"epochs": 1})
    lines: list[str] = []

    class Told(Reporter):
        def say(self, line: str) -> None:
            lines.append(line)

    run = transfer_small(
        base,
        partly,
        split,
        tmp_path / "run",
        behavior="new",
        settings={"epochs": 1},
        reporter=Told(),
        skip_unknown=True,
    )
    assert lines[0] == "skipped 4 records of 3 unknown users and the 2 items only they have"
    opened = Run.open(tmp_path / "run")
    counted = {"records": 4, "unknown users": 3, "items that only they have": 2}
    assert opened.embeddings.provenance["added"]["new"]["skipped"] == counted
    assert dict(opened.data()[0].provenance["skipped"]) == counted
    assert len(run.embeddings.recommend(1, "new")) == 10
