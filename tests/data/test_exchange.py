"""What is exported and read again is the same dataset."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.errors import refused

from mcne.data.behavior import Attribute, Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.exchange import ATOMIC, FORMATS, export
from mcne.data.graph import undirected
from mcne.data.ids import Ids, Names
from mcne.errors import DataError, UsageError

FEW = settings(max_examples=25, deadline=None)


def read_again(dataset: SocialDataset, directory: Path, file_format: str, **options: Any) -> SocialDataset:
    """Export the dataset and read its files."""
    files: dict[str, Any] = {_table_of(file): file for file in export(dataset, directory, file_format=file_format)}
    return SocialDataset.from_frames(
        files.pop("interactions"),
        files.pop("links", None),
        **files,
        name=dataset.name,
        behaviors=dataset.behavior_names,
        self_links="keep",
        **options,
    )


def _table_of(file: Path) -> str:
    """Which table a file is: by its name, or by RecBole's suffix."""
    whats = {suffix: what for what, suffix in ATOMIC.items()}
    return whats.get(file.name.partition(".")[2], file.stem)


def toy(users: Ids, items: Ids, *, weighted: bool = True, times: Any = (5, 3, 9, 4)) -> SocialDataset:
    """Five users: 0 and 1 friends, 2 linked to itself, 3 with a record but no link, 4 with neither."""
    weight = np.array([0.1, 2.5], dtype=np.float32) if weighted else None
    graph, _ = undirected(5, np.array([0, 2]), np.array([1, 2]), weight)
    timestamp = None if times is None else np.array(times)
    bought = items.subset(np.array([1]))
    behaviors = (
        Behavior("view", items, np.array([0, 0, 3], np.int32), np.array([0, 1, 0], np.int32), _first(timestamp, 3)),
        Behavior("Buy, now", bought, np.array([1], np.int32), np.array([0], np.int32), _last(timestamp)),
    )
    attributes = {
        "town": Attribute(np.array([1, -1, 0, -1, 1], np.int32), Ids(["Paris", "Łódź 東京"])),
        "age": Attribute(np.array([np.nan, 41.5, 1 / 3, -7.0, np.nan])),
        "score": Attribute(np.array([1.0, 2.0, 3.0, 4.0, 1e-300])),
    }
    return SocialDataset("toy", users, graph, behaviors, attributes, {"made": "by hand"})


def _first(times: np.ndarray | None, n: int) -> np.ndarray | None:
    return None if times is None else times[:n]


def _last(times: np.ndarray | None) -> np.ndarray | None:
    return None if times is None else times[-1:]


INTEGERS = (Ids(np.array([-3, 1, 20, 300, 2**40])), Ids(np.array([7, 2**60])))
TEXT = (Ids(["Ann", "bob 2", "Čeněk", "北京", "😀"]), Ids(["a, b", "x=1"]))


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("ids", [INTEGERS, TEXT], ids=["integers", "text"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("times", [None, [5, 3, 9, 4], [0.5, 1 / 3, 1e9, -2.0]], ids=["untimed", "whole", "fractions"])
def test_reading_an_export_gives_the_same_dataset(
    file_format: str, ids: tuple[Ids, Ids], weighted: bool, times: Any, tmp_path: Path
) -> None:
    dataset = toy(*ids, weighted=weighted, times=times)
    again = read_again(dataset, tmp_path / "out", file_format)
    assert again.fingerprint == dataset.fingerprint
    assert list(again.users) == list(dataset.users)


LETTERS = st.text("abZ09ü東😀 ,;:'\\|#", max_size=5).map(lambda text: f"x{text}".strip())
ANYTHING = st.text("ab9ü😀 ,;\"'\\\n\r\t", max_size=5).map(lambda text: f"x{text}".strip())


@st.composite
def datasets(draw: st.DrawFn, names: st.SearchStrategy[str]) -> SocialDataset:
    users = Ids(sorted(draw(st.sets(names, min_size=1, max_size=6))))
    n = len(users)
    row = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(row, row), max_size=8))
    source, target = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    weight = np.array(draw(st.lists(st.floats(2**-20, 2**20, width=32), min_size=len(pairs), max_size=len(pairs))))
    graph, _ = undirected(n, source, target, weight.astype(np.float32) if draw(st.booleans()) and pairs else None)
    behaviors = []
    rated = draw(st.booleans())
    for name in sorted(draw(st.sets(names, min_size=1, max_size=3))):
        items = Ids(sorted(draw(st.sets(names, min_size=1, max_size=4))))
        whole = [(draw(row), item) for item in range(len(items))]
        user, item = np.array(sorted(set(whole)), dtype=np.int32).T
        pairs_left = sorted({(u, i) for u in range(n) for i in range(len(items))} - set(whole))
        known = sorted(draw(st.sets(st.sampled_from(pairs_left)))) if pairs_left else []
        known_user, known_item = np.array(known, dtype=np.int32).reshape(-1, 2).T if known else (None, None)
        stars = draw(st.lists(st.floats(2**-20, 2**20, width=32), min_size=len(items), max_size=len(items)))
        pages = np.array(draw(st.lists(st.floats(0, 900) | st.just(np.nan), min_size=len(items), max_size=len(items))))
        behaviors.append(
            Behavior(
                name,
                items,
                user,
                item,
                weight=np.array(stars, np.float32) if rated else None,
                known_user=known_user,
                known_item=known_item,
                names=_names(draw, names, len(items)),
                attributes={} if np.all(np.isnan(pages)) else {"pages": Attribute(pages)},
            )
        )
    town = np.array(draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n)), dtype=np.int32)
    used = np.unique(town[town >= 0])
    towns = Attribute(
        np.where(town < 0, -1, np.searchsorted(used, town)).astype(np.int32), Ids([f"t{k}" for k in used])
    )
    ages = draw(st.lists(st.floats(allow_infinity=False), min_size=n, max_size=n))
    age = np.array([np.nan if np.isnan(value) else value for value in ages])  # one kind of NaN, as files have
    attributes = {"town": towns} if len(used) else {}
    attributes |= {"age": Attribute(age)}
    return SocialDataset("toy", users, graph, tuple(behaviors), attributes, user_names=_names(draw, names, n))


def _names(draw: st.DrawFn, names: st.SearchStrategy[str], n: int) -> Names | None:
    """Names of some, or none at all."""
    drawn = draw(st.lists(names | st.just(""), min_size=n, max_size=n))
    return Names(drawn) if any(drawn) else None


@FEW
@given(datasets(LETTERS), st.sampled_from(FORMATS))
def test_any_dataset_comes_back(dataset: SocialDataset, file_format: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        again = read_again(dataset, Path(directory) / "out", file_format)
    assert again.fingerprint == dataset.fingerprint


@FEW
@given(datasets(ANYTHING), st.sampled_from(["parquet", "csv"]))
def test_tabs_quotes_and_line_breaks_come_back_from_parquet_and_csv(dataset: SocialDataset, file_format: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        again = read_again(dataset, Path(directory) / "out", file_format)
    assert again.fingerprint == dataset.fingerprint


@pytest.mark.parametrize("bad", ["a\tb", "a\nb", "a\rb", 'a"b'])
@pytest.mark.parametrize("where", ["user", "item", "behavior", "category", "attribute"])
def test_recbole_files_refuse_what_they_cannot_hold(bad: str, where: str, tmp_path: Path) -> None:
    one = np.zeros(1, np.int32)
    name = {place: bad if place == where else "fine" for place in ("user", "item", "behavior", "category", "attribute")}
    dataset = SocialDataset(
        "toy",
        Ids([name["user"]]),
        undirected(1, one, one)[0],
        (Behavior(name["behavior"], Ids([name["item"]]), one, one),),
        {name["attribute"]: Attribute(one, Ids([name["category"]]))},
    )
    with pytest.raises(DataError, match=r"(?s): .*a tab, a quote.* a line break.*; export to parquet or csv instead"):
        export(dataset, tmp_path / "out", file_format="recbole")
    assert list(tmp_path.iterdir()) == []  # nothing half-written is left
    assert read_again(dataset, tmp_path / "csv", "csv").fingerprint == dataset.fingerprint


def test_a_colon_in_the_name_of_an_attribute(tmp_path: Path) -> None:
    """RecBole writes ``name:type``, so only other formats can hold it."""
    plain = toy(*TEXT)
    dataset = SocialDataset("toy", plain.users, plain.graph, plain.behaviors, {"a:b": plain.attributes["age"]})
    with pytest.raises(DataError, match=r"users: the column name 'a:b' .* a colon"):
        export(dataset, tmp_path / "recbole", file_format="recbole")
    assert read_again(dataset, tmp_path / "csv", "csv").fingerprint == dataset.fingerprint


@pytest.mark.parametrize("file_format", FORMATS)
def test_without_links_there_is_no_file_of_links(file_format: str, tmp_path: Path) -> None:
    """A table without rows would be refused by whoever reads it."""
    plain = toy(*TEXT)
    nobody = np.zeros(0, np.int32)
    dataset = SocialDataset("toy", plain.users, undirected(5, nobody, nobody)[0], plain.behaviors)
    assert read_again(dataset, tmp_path / "out", file_format).fingerprint == dataset.fingerprint
    assert len(list((tmp_path / "out").iterdir())) == 2


def test_text_that_looks_like_integers_needs_to_be_asked_for(tmp_path: Path) -> None:
    dataset = toy(Ids(["1", "10", "2", "30", "4"]), Ids(["5", "6"]))
    assert read_again(dataset, tmp_path / "parquet", "parquet").fingerprint == dataset.fingerprint
    assert read_again(dataset, tmp_path / "csv", "csv", id_type="text").fingerprint == dataset.fingerprint
    assert read_again(dataset, tmp_path / "recbole", "recbole", id_type="text").fingerprint == dataset.fingerprint


# --- what the files look like ---


def test_recbole_files_to_the_letter(tmp_path: Path) -> None:
    files = export(toy(*TEXT), tmp_path / "out", file_format="recbole")
    assert [file.name for file in files] == ["out.inter", "out.net", "out.user"]
    assert sorted(tmp_path.glob("**/*.*")) == sorted(files)
    inter, net, user = (file.read_text(encoding="utf-8").split("\n") for file in files)
    assert inter == [
        "user_id:token\titem_id:token\tbehavior:token\ttimestamp:float",
        "Ann\ta, b\tview\t5",
        "Ann\tx=1\tview\t3",
        "北京\ta, b\tview\t9",
        "bob 2\tx=1\tBuy, now\t4",
        "",
    ]
    assert net[0] == "source_id:token\ttarget_id:token\tweight:float"
    assert net[1:] == ["Ann\tbob 2\t0.1", "Čeněk\tČeněk\t2.5", ""]
    assert user[0] == "user_id:token\ttown:token\tage:float\tscore:float"
    assert user[1:3] == ["Ann\tŁódź 東京\t\t1", "bob 2\t\t41.5\t2"]
    assert len(user) == 7


def test_recbole_headers_without_weights_times_or_attributes(tmp_path: Path) -> None:
    plain = toy(*INTEGERS, weighted=False, times=None)
    dataset = SocialDataset("plain", plain.users, plain.graph, plain.behaviors)
    headers = [file.read_text().split("\n")[0] for file in export(dataset, tmp_path / "out", file_format="recbole")]
    assert headers[:2] == ["user_id:token\titem_id:token\tbehavior:token", "source_id:token\ttarget_id:token"]
    assert headers[2] == "user_id:token"


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_tables_hold_each_link_once_and_every_user(file_format: str, tmp_path: Path) -> None:
    files = export(toy(*INTEGERS), tmp_path / "out", file_format=file_format)
    assert [file.name for file in files] == [f"{what}.{file_format}" for what in ("interactions", "links", "users")]
    interactions, links, users = (pq.read_table(f) if file_format == "parquet" else pa_csv.read_csv(f) for f in files)
    assert interactions.column_names == ["user_id", "item_id", "behavior", "timestamp"]
    assert interactions.to_pylist()[0] == {"user_id": -3, "item_id": 7, "behavior": "view", "timestamp": 5}
    assert interactions["behavior"].to_pylist() == ["view", "view", "view", "Buy, now"]
    assert links["source_id"].to_pylist() == [-3, 20]
    assert links["target_id"].to_pylist() == [1, 20]
    assert users["user_id"].to_pylist() == [-3, 1, 20, 300, 2**40]
    assert users.column_names == ["user_id", "town", "age", "score"]
    assert users["age"].to_pylist() == [None, 41.5, 1 / 3, -7, None]


def test_parquet_keeps_the_types(tmp_path: Path) -> None:
    interactions, links, users = export(toy(*TEXT), tmp_path / "out", file_format="parquet")
    assert pq.read_schema(interactions).field("timestamp").type == pa.int64()
    assert pq.read_schema(links).field("weight").type == pa.float32()
    assert pq.read_schema(users).field("age").type == pa.float64()


# --- refusals ---


def test_an_unknown_format_is_an_error(tmp_path: Path) -> None:
    with refused(UsageError, value="parket"):
        export(toy(*TEXT), tmp_path / "out", file_format="parket")
    assert not (tmp_path / "out").exists()


def test_nothing_is_ever_replaced(tmp_path: Path) -> None:
    export(toy(*TEXT), tmp_path / "a" / "b", file_format="csv")  # parents are made
    before = (tmp_path / "a" / "b" / "users.csv").read_bytes()
    with refused(UsageError, place="b", about="replaced"):
        export(toy(*INTEGERS), tmp_path / "a" / "b", file_format="csv")
    assert (tmp_path / "a" / "b" / "users.csv").read_bytes() == before


@pytest.mark.parametrize("name", ["a/b", ".", "../out", ""])
def test_recbole_files_are_named_as_their_directory(name: str, tmp_path: Path) -> None:
    """RecBole finds them so; and a dataset's name need not be that of a file."""
    dataset = toy(*TEXT)
    named = SocialDataset(name, dataset.users, dataset.graph, dataset.behaviors, dataset.attributes)
    files = export(named, tmp_path / "friends", file_format="recbole")
    assert files == [tmp_path / "friends" / f"friends.{suffix}" for suffix in ("inter", "net", "user")]
    assert sorted((tmp_path / "friends").iterdir()) == files
    assert [entry.name for entry in tmp_path.iterdir()] == ["friends"]


def test_names_that_look_like_numbers_stay_names_in_recbole(tmp_path: Path) -> None:
    dataset = toy(*INTEGERS)
    town = Attribute(np.array([1, -1, 0, -1, 1], np.int32), Ids(["1", "2"]))
    numbered = SocialDataset("toy", dataset.users, dataset.graph, dataset.behaviors, {"town": town})
    assert read_again(numbered, tmp_path / "out", "recbole").fingerprint == numbered.fingerprint


def test_times_of_some_behaviors_are_refused(tmp_path: Path) -> None:
    dataset = toy(*INTEGERS)
    timed, other = dataset.behaviors
    untimed = Behavior(other.name, other.items, other.user, other.item)
    mixed = SocialDataset("toy", dataset.users, dataset.graph, (timed, untimed))
    with pytest.raises(DataError, match="only some behaviors have timestamps"):
        export(mixed, tmp_path / "out", file_format="csv")
    assert list(tmp_path.iterdir()) == []


# --- ratings, known pairs, names, attributes of items ---


def rich() -> SocialDataset:
    """The toy with everything that it may have."""
    plain = toy(*TEXT)
    view, buy = plain.behaviors
    genre = Attribute(np.array([1, 0], np.int32), Ids(["drama", "poem"]))
    view = replace(
        view,
        weight=np.array([0.1, 5, 3], np.float32),
        known_user=np.array([2, 4], np.int32),
        known_item=np.array([1, 0], np.int32),
        names=Names(["A, B", ""]),
        attributes={"genre": genre, "pages": Attribute(np.array([np.nan, 1 / 3]))},
    )
    buy = replace(buy, weight=np.array([4], np.float32))
    return replace(plain, behaviors=(view, buy), user_names=Names(["Ann A.", "", "", "北京", ""]))


@pytest.mark.parametrize("file_format", FORMATS)
def test_everything_that_a_dataset_may_have_comes_back(file_format: str, tmp_path: Path) -> None:
    assert read_again(rich(), tmp_path / "out", file_format).fingerprint == rich().fingerprint
    only_names = replace(toy(*INTEGERS), user_names=Names(["a", "", "", "", ""]))
    assert read_again(only_names, tmp_path / "names", file_format).fingerprint == only_names.fingerprint
    assert len(list((tmp_path / "names").iterdir())) == 3  # nothing to tell of items


def test_files_of_everything_to_the_letter(tmp_path: Path) -> None:
    files = export(rich(), tmp_path / "out", file_format="recbole")
    assert [file.name for file in files] == [
        f"out.{suffix}" for suffix in ("inter", "net", "user", "item", "known.inter")
    ]
    inter, _, user, item, known = (file.read_text(encoding="utf-8").splitlines() for file in files)
    assert inter[0] == "user_id:token\titem_id:token\tbehavior:token\ttimestamp:float\trating:float"
    assert inter[1] == "Ann\ta, b\tview\t5\t0.1"
    assert user[:2] == ["user_id:token\tname:token\ttown:token\tage:float\tscore:float", "Ann\tAnn A.\tŁódź 東京\t\t1"]
    assert item == [
        "item_id:token\tbehavior:token\tname:token\tgenre:token\tpages:float",
        "a, b\tview\tA, B\tpoem\t",
        "x=1\tview\t\tdrama\t0.3333333333333333",
    ]
    assert known == ["user_id:token\titem_id:token\tbehavior:token", "Čeněk\tx=1\tview", "😀\ta, b\tview"]


def test_what_one_table_cannot_hold_is_refused(tmp_path: Path) -> None:
    view, buy = rich().behaviors
    unrated = replace(rich(), behaviors=(view, replace(buy, weight=None)))
    with pytest.raises(DataError, match="only some behaviors have ratings"):
        export(unrated, tmp_path / "out", file_format="csv")
    other = replace(rich(), behaviors=(view, replace(buy, attributes={"genre": Attribute(np.array([1.0]))})))
    with pytest.raises(DataError, match="an attribute of items is a number in one behavior and text in another"):
        export(other, tmp_path / "out", file_format="csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file_format", FORMATS)
def test_attributes_that_only_later_items_have_keep_their_places(file_format: str, tmp_path: Path) -> None:
    """The first behavior knows nothing of the year, which comes before the genre in the table of items."""
    rows = {"user_id": ["a", "a", "b", "b"], "item_id": ["x", "y", "f", "g"], "behavior": ["B", "B", "F", "F"]}
    about = {"item_id": rows["item_id"], "year": [None, None, 1.0, 2.0], "genre": ["p", "q", "p", None]}
    dataset = SocialDataset.from_frames(pa.table(rows), items=pa.table(about))
    assert [list(behavior.attributes) for behavior in dataset.behaviors] == [["genre"], ["year", "genre"]]
    assert read_again(dataset, tmp_path / "out", file_format).fingerprint == dataset.fingerprint
