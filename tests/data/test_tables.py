"""The same data gives the same dataset, whatever kind of table holds it."""

from __future__ import annotations

import datetime
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from tests.errors import refused
from tests.values import not_none

from mcne.data.assemble import UserFilter
from mcne.data.dataset import SocialDataset
from mcne.errors import DataError, UnknownError, UsageError
from mcne.files import sha256_of_file

Tables = dict[str, pa.Table]

INTEGERS: Tables = {
    "interactions": pa.table(
        {
            "user_id": [30, 10, 10, 20, 30, 10],
            "item_id": [7, 7, 8, 8, 9, 7],
            "behavior": ["buy", "buy", "view", "view", "view", "buy"],
            "timestamp": [300, 200, 100, 50, 25, 150],
        }
    ),
    "links": pa.table({"source_id": [10, 20, 40], "target_id": [20, 10, 30], "weight": [0.5, 1.25, 3.0]}),
    "users": pa.table({"user_id": [50, 10, 40], "age": [41.5, None, 18.0], "town": ["Paris", None, "Łódź, PL"]}),
}

SPELLED = {7: "seven", 8: "eight ✓", 9: 'ni"ne, 9'} | {10: "Ann", 20: "bob", 30: "Čeněk", 40: "d e", 50: "50"}


def spelled(table: pa.Table) -> pa.Table:
    """The table with text for its integer ids."""
    for position, name in enumerate(table.column_names):
        if name.endswith("_id"):
            table = table.set_column(position, name, pa.array([SPELLED[raw] for raw in table[name].to_pylist()]))
    return table


TEXT: Tables = {what: spelled(table) for what, table in INTEGERS.items()}


def dataset_of(sources: dict[str, Any], **options: Any) -> SocialDataset:
    return SocialDataset.from_frames(
        sources["interactions"], sources.get("links"), users=sources.get("users"), name="toy", **options
    )


def as_files(tables: Tables, directory: Path, write: Callable[[pa.Table, Path], None], suffix: str) -> dict[str, Path]:
    files = {}
    for what, table in tables.items():
        files[what] = directory / f"{what}{suffix}"
        write(table, files[what])
    return files


def write_gz(table: pa.Table, path: Path) -> None:
    with gzip.open(path, "wb") as file:
        pa_csv.write_csv(table, file)


def write_tsv(table: pa.Table, path: Path) -> None:
    pa_csv.write_csv(table, path, pa_csv.WriteOptions(delimiter="\t"))


def write_atomic(table: pa.Table, path: Path) -> None:
    """RecBole's format by hand: typed header, tabs, no quotes."""
    types = {"timestamp": "float", "weight": "float", "age": "float"}
    lines = ["\t".join(f"{name}:{types.get(name, 'token')}" for name in table.column_names)]
    for row in zip(*(table[name].to_pylist() for name in table.column_names), strict=True):
        lines.append("\t".join("" if value is None else str(value) for value in row))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


WAYS: dict[str, Callable[[Tables, Path], dict[str, Any]]] = {
    "arrow": lambda tables, _: tables,
    "large arrow": lambda tables, _: {
        what: table.cast(
            pa.schema([(f.name, pa.large_string() if pa.types.is_string(f.type) else f.type) for f in table.schema])
        )
        for what, table in tables.items()
    },
    "chunked arrow": lambda tables, _: {
        what: pa.concat_tables([table[:1], table[1:1], table[1:]]) for what, table in tables.items()
    },
    "coded arrow": lambda tables, _: {
        what: pa.table({n: c.dictionary_encode() if n != "timestamp" else c for n, c in _columns(table, "weight")})
        for what, table in tables.items()
    },
    "pandas": lambda tables, _: {what: table.to_pandas() for what, table in tables.items()},
    "pandas of objects": lambda tables, _: {
        what: table.to_pandas().astype({n: object for n, c in _columns(table) if pa.types.is_string(c.type)})
        for what, table in tables.items()
    },
    "pandas categories": lambda tables, _: {
        what: table.to_pandas().astype({n: "category" for n, c in _columns(table) if pa.types.is_string(c.type)})
        for what, table in tables.items()
    },
    "pandas nullable": lambda tables, _: {what: table.to_pandas().convert_dtypes() for what, table in tables.items()},
    "polars": lambda tables, _: {what: pl.from_arrow(table) for what, table in tables.items()},
    "polars categories": lambda tables, _: {
        what: pl.DataFrame(pl.from_arrow(table)).with_columns(pl.col(pl.String).cast(pl.Categorical))
        for what, table in tables.items()
    },
    "parquet": lambda tables, path: as_files(tables, path, pq.write_table, ".parquet"),
    "csv": lambda tables, path: as_files(tables, path, pa_csv.write_csv, ".csv"),
    "csv.gz": lambda tables, path: as_files(tables, path, write_gz, ".csv.gz"),
    "tsv": lambda tables, path: as_files(tables, path, write_tsv, ".tsv"),
    "text paths": lambda tables, path: {
        what: str(file) for what, file in as_files(tables, path, pa_csv.write_csv, ".csv").items()
    },
    "recbole": lambda tables, path: {
        "interactions": as_files({"x": tables["interactions"]}, path, write_atomic, ".inter")["x"],
        "links": as_files({"x": tables["links"]}, path, write_atomic, ".net")["x"],
        "users": as_files({"x": tables["users"]}, path, write_atomic, ".user")["x"],
    },
}


def _columns(table: pa.Table, *without: str) -> list[tuple[str, pa.ChunkedArray]]:
    return [(name, table[name]) for name in table.column_names if name not in without]


def test_the_toy_dataset() -> None:
    """What all the ways below must give, by hand."""
    dataset = dataset_of(INTEGERS)
    assert list(dataset.users) == [10, 20, 30, 40, 50]
    assert dataset.graph.indptr.tolist() == [0, 1, 2, 3, 4, 4]
    assert dataset.graph.indices.tolist() == [1, 0, 3, 2]
    assert not_none(dataset.graph.weights).tolist() == [1.25, 1.25, 3, 3]
    assert dataset.behavior_names == ["buy", "view"]
    buy, view = dataset.behaviors
    assert (list(buy.items), buy.user.tolist(), buy.item.tolist()) == ([7], [0, 2], [0, 0])
    assert (list(view.items), view.user.tolist(), view.item.tolist()) == ([8, 9], [0, 1, 2], [0, 0, 1])
    assert not_none(buy.timestamp).tolist() == [150, 300]
    assert not_none(view.timestamp).tolist() == [100, 50, 25]
    age, town = dataset.attributes["age"], dataset.attributes["town"]
    assert np.array_equal(age.values, [np.nan, np.nan, np.nan, 18, 41.5], equal_nan=True)
    assert (list(not_none(town.categories)), town.values.tolist()) == (["Paris", "Łódź, PL"], [-1, -1, -1, 1, 0])


@pytest.mark.parametrize("tables", [INTEGERS, TEXT], ids=["integers", "text"])
@pytest.mark.parametrize("way", [way for way in WAYS if way != "coded arrow"])
def test_every_kind_of_table_gives_the_same_dataset(way: str, tables: Tables, tmp_path: Path) -> None:
    dataset = dataset_of(WAYS[way](tables, tmp_path))
    assert dataset.users.kind == ("integer" if tables is INTEGERS else "text")
    assert dataset.fingerprint == dataset_of(tables).fingerprint


@pytest.mark.parametrize("tables", [INTEGERS, TEXT], ids=["integers", "text"])
def test_coded_columns_of_any_type(tables: Tables, tmp_path: Path) -> None:
    plain = {what: table.drop_columns("weight") if what == "links" else table for what, table in tables.items()}
    assert dataset_of(WAYS["coded arrow"](tables, tmp_path)).fingerprint == dataset_of(plain).fingerprint


def test_text_and_integer_datasets_differ_in_their_ids_alone() -> None:
    integers, text = dataset_of(INTEGERS), dataset_of(TEXT)
    order = [SPELLED[int(raw)] for raw in integers.users]
    assert sorted(order) == list(text.users)
    assert text.graph.n_links == integers.graph.n_links
    assert [len(behavior) for behavior in text.behaviors] == [len(behavior) for behavior in integers.behaviors]


def test_kinds_of_tables_may_be_mixed(tmp_path: Path) -> None:
    mixed = {
        "interactions": pl.from_arrow(INTEGERS["interactions"]),
        "links": as_files({"links": INTEGERS["links"]}, tmp_path, pa_csv.write_csv, ".csv")["links"],
        "users": INTEGERS["users"].to_pandas(),
    }
    assert dataset_of(mixed).fingerprint == dataset_of(INTEGERS).fingerprint


def test_sources_are_kept_with_their_hashes(tmp_path: Path) -> None:
    """Files of one name in two directories are two sources."""
    for what in INTEGERS:
        (tmp_path / what).mkdir()
    files = {what: tmp_path / what / "table.csv" for what in INTEGERS}
    for what, table in INTEGERS.items():
        pa_csv.write_csv(table, files[what])
    dataset = dataset_of(files, user_filter=UserFilter(1, 0, True))
    hashes = [sha256_of_file(file) for file in files.values()]
    assert sorted(dataset.provenance["sources"].values()) == sorted(hashes)
    assert dataset.provenance["filter"] == {"min_links": 1, "min_records": 0, "drop_isolated": True}
    dataset.provenance["filter"]["min_links"] = 5
    assert dataset_of(files).provenance["filter"]["min_links"] == 0  # no record is shared with another dataset's


# --- columns, behaviors ---


def test_columns_may_have_other_names(tmp_path: Path) -> None:
    names = {"user_id": "who", "item_id": "what", "behavior": "did", "timestamp": "when"}
    names |= {"source_id": "from", "target_id": "to", "weight": "strength"}
    renamed = {
        what: table.rename_columns([names.get(name, name) for name in table.column_names])
        for what, table in INTEGERS.items()
    }
    for way in ("pandas", "polars", "csv", "parquet"):
        dataset = dataset_of(WAYS[way](renamed, tmp_path), columns=names)
        assert dataset.fingerprint == dataset_of(INTEGERS).fingerprint


def test_an_unknown_standard_column_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"unknown standard column 'user'; did you mean 'user_id'\?"):
        dataset_of(INTEGERS, columns={"user": "who"})


def test_behaviors_are_chosen_and_ordered() -> None:
    assert dataset_of(INTEGERS, behaviors=["view", "buy"]).behavior_names == ["view", "buy"]
    chosen = dataset_of(INTEGERS, behaviors=["view"])
    assert chosen.behavior_names == ["view"]
    assert list(chosen.users) == [10, 20, 30, 40, 50]
    extra = dataset_of(INTEGERS, extra_behaviors=["buy"], user_filter=UserFilter(min_records=1))
    assert extra.behavior_names == ["view", "buy"]
    for options in ({"behaviors": ["view"], "extra_behaviors": ["view"]}, {"behaviors": ["view", "view"]}):
        with refused(UsageError, value=["view", "view"], about="twice"):
            dataset_of(INTEGERS, **options)
    with refused(UsageError, place="extra_behaviors", value=["buy", "view"]):
        dataset_of(INTEGERS, extra_behaviors=["buy", "view"])
    with refused(UnknownError, value="veiw", about="behavior"):
        dataset_of(INTEGERS, behaviors=["veiw"])


def test_a_table_of_one_behavior(tmp_path: Path) -> None:
    table = INTEGERS["interactions"].drop_columns("behavior")
    dataset = dataset_of({"interactions": table}, single_behavior="any")
    assert dataset.behavior_names == ["any"]
    assert len(dataset.behaviors[0]) == 5  # user 10 has item 7 three times
    files = as_files({"interactions": table}, tmp_path, pa_csv.write_csv, ".csv")
    assert dataset_of(files, single_behavior="any").fingerprint == dataset.fingerprint
    with pytest.raises(DataError, match="column 'behavior' is missing; the columns are user_id, item_id, timestamp"):
        dataset_of({"interactions": table})


def test_numbered_behaviors_are_named_by_their_numbers() -> None:
    table = INTEGERS["interactions"].set_column(2, "behavior", pa.array([10, 10, 2, 2, 2, 10]))
    assert dataset_of({"interactions": table}).behavior_names == ["10", "2"]
    with refused(DataError, place="interactions, column 'behavior'", value="double"):
        dataset_of({"interactions": table.set_column(2, "behavior", pa.array([1.0] * 6))})


def test_categories_that_no_row_has_are_no_behaviors_and_no_users() -> None:
    frame = INTEGERS["interactions"].to_pandas()
    frame["behavior"] = pd.Categorical(frame["behavior"], categories=["", "wish", "view", "buy"])
    assert dataset_of({"interactions": frame}).behavior_names == ["buy", "view"]
    frame["user_id"] = pd.Categorical(frame["user_id"].astype(str), categories=["none", "30", "20", "nan", "10"])
    assert list(dataset_of({"interactions": frame}).users) == ["10", "20", "30"]
    assert list(dataset_of({"interactions": frame}, id_type="integer").users) == [10, 20, 30]


# --- ids ---


def test_text_files_have_integer_ids_where_every_one_is_an_integer(tmp_path: Path) -> None:
    file = tmp_path / "interactions.csv"
    file.write_text("user_id,item_id,behavior\n10,a,buy\n-9,7,buy\n0,7,buy\n")
    dataset = dataset_of({"interactions": file})
    assert list(dataset.users) == [-9, 0, 10]
    assert list(dataset.behaviors[0].items) == ["7", "a"]


@pytest.mark.parametrize("odd", ["007", "+7", "7.0", "1e3", "９", "-0", "12345678901234567890"])
def test_text_that_is_not_written_as_an_integer_stays_text(odd: str, tmp_path: Path) -> None:
    file = tmp_path / "interactions.csv"
    file.write_text(f"user_id,item_id,behavior\n10,1,buy\n{odd},1,buy\n", encoding="utf-8")
    dataset = dataset_of({"interactions": file})
    assert list(dataset.users) == sorted(["10", odd])
    with pytest.raises(
        DataError, match=r"interactions\.csv, line 3, column 'user_id', value '.*': not a 64-bit integer"
    ):
        dataset_of({"interactions": file}, id_type="integer")


def test_the_kind_of_ids_can_be_asked_for(tmp_path: Path) -> None:
    for way in ("arrow", "pandas", "polars", "csv", "parquet", "pandas categories"):
        dataset = dataset_of(WAYS[way](INTEGERS, tmp_path), id_type="text")
        assert list(dataset.users) == ["10", "20", "30", "40", "50"]
        assert list(dataset.behavior("view").items) == ["8", "9"]
    digits = {
        "interactions": INTEGERS["interactions"].set_column(
            0, "user_id", pa.array(["30", "10", "10", "20", "30", "10"])
        )
    }
    assert dataset_of(digits).users.kind == "text"  # a typed column keeps its type
    assert list(dataset_of(digits, id_type="integer").users) == [10, 20, 30]
    with pytest.raises(UsageError, match=r"unknown id type 'int'"):
        dataset_of(INTEGERS, id_type="int")


def test_integers_of_one_text_file_join_the_text_of_another(tmp_path: Path) -> None:
    (tmp_path / "i.csv").write_text("user_id,item_id,behavior\n10,1,buy\n20,1,buy\n")
    (tmp_path / "l.csv").write_text("source_id,target_id\n10,ann\n")
    dataset = dataset_of({"interactions": tmp_path / "i.csv", "links": tmp_path / "l.csv"})
    assert list(dataset.users) == ["10", "20", "ann"]
    assert dataset.graph.neighbors(0).tolist() == [2]


def test_typed_integers_never_become_text_by_themselves() -> None:
    text = {"interactions": INTEGERS["interactions"], "links": TEXT["links"]}
    with pytest.raises(
        DataError,
        match="links, row 1, column 'source_id', value 'Ann': text, but the ids of interactions, column 'user_id', "
        "are integers",
    ):
        dataset_of(text)
    assert len(dataset_of(text, id_type="text").users) == 7


def test_few_text_ids_among_integers_are_noted(tmp_path: Path) -> None:
    file = tmp_path / "interactions.csv"
    file.write_text("user_id,item_id,behavior\n1,x,a\n2,y,a\nN/A,z,a\n2,3,a\n3,x,a\n")
    notes = not_none(dataset_of({"interactions": file}).report).notes
    assert notes == (
        f"{file}, line 4, column 'user_id', value 'N/A': 1 of 4 distinct ids are not integers, "
        "so all are taken as text",
    )
    assert not_none(dataset_of({"interactions": file}, id_type="text").report).notes == ()


@pytest.mark.parametrize("kind", ["Int64", "int8", "uint16", "UInt32"])
def test_integers_of_any_width(kind: str) -> None:
    frame = INTEGERS["interactions"].to_pandas().astype({"user_id": kind, "item_id": kind})
    expected = dataset_of({"interactions": INTEGERS["interactions"]})
    assert dataset_of({"interactions": frame}).fingerprint == expected.fingerprint


def test_integers_beyond_64_bits_are_refused_unless_taken_as_text() -> None:
    big = pa.array([2**63 + 1, 5, 5, 5, 5, 5], pa.uint64())
    table = INTEGERS["interactions"].set_column(0, "user_id", big)
    with pytest.raises(DataError, match=r"interactions, column 'user_id': .*9223372036854775809.* text ids"):
        dataset_of({"interactions": table})
    assert list(dataset_of({"interactions": table}, id_type="text").users) == ["5", "9223372036854775809"]


@pytest.mark.parametrize("column", ["user_id", "item_id", "behavior"])
@pytest.mark.parametrize("missing", [None, "", "  ", "nan", "NaN"])
def test_a_missing_id_is_refused_with_its_place(column: str, missing: str | None) -> None:
    position = TEXT["interactions"].column_names.index(column)
    values = TEXT["interactions"][column].to_pylist()
    table = TEXT["interactions"].set_column(position, column, pa.array([*values[:2], missing, missing, *values[4:]]))
    place = f"interactions, row 3, column '{column}', value {missing!r}: missing value \\(2 rows\\)"
    for frame in (table, table.to_pandas(), table.set_column(position, column, table[column].dictionary_encode())):
        with pytest.raises(DataError, match=place):
            dataset_of({"interactions": frame})


def test_a_missing_value_in_a_dictionary_is_missing_too() -> None:
    users = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 0, 0, 0], pa.int32()), pa.array(["a", None]))
    table = TEXT["interactions"].set_column(0, "user_id", users)
    with pytest.raises(DataError, match=r"row 2, column 'user_id', value None: missing value \(1 row\)"):
        dataset_of({"interactions": table})


def test_ids_that_are_neither_integers_nor_text_are_refused() -> None:
    frame = INTEGERS["interactions"].to_pandas().astype({"user_id": float})
    with refused(DataError, place="interactions, column 'user_id'", value="double"):
        dataset_of({"interactions": frame})


# --- timestamps ---


def times(values: Any) -> np.ndarray:
    """The timestamps of users 1, 2, … with these in one behavior."""
    length = len(values)
    frame = pd.DataFrame({"user_id": range(length), "item_id": 1, "behavior": "a"})
    table = pa.table(frame).append_column("timestamp", values if isinstance(values, pa.Array) else pa.array(values))
    return times_of(table)


def times_of(interactions: Any) -> np.ndarray:
    return not_none(dataset_of({"interactions": interactions}).behaviors[0].timestamp)


def test_whole_timestamps_are_integers_however_they_are_written(tmp_path: Path) -> None:
    expected = [86_400, 0, 2**40]
    for kind in (pa.int64(), pa.uint64(), pa.float64()):
        values = times(pa.array(expected, kind))
        assert (values.dtype, values.tolist()) == (np.dtype(np.int64), expected)
    file = tmp_path / "i.csv"
    for written in ("86400,0,1099511627776", "86400.0,0,1.099511627776e12"):
        rows = [f"{user},1,a,{time}" for user, time in enumerate(written.split(","))]
        file.write_text("\n".join(["user_id,item_id,behavior,timestamp", *rows, ""]))
        values = times_of(file)
        assert (values.dtype, values.tolist()) == (np.dtype(np.int64), expected)


def test_timestamps_with_fractions() -> None:
    values = times([1.5, 2, -3.25])
    assert (values.dtype, values.tolist()) == (np.dtype(np.float64), [1.5, 2, -3.25])
    assert times([1e300, 2.0]).tolist() == [1e300, 2]  # whole, but beyond any integer


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_are_seconds_since_1970(unit: str) -> None:
    moments = [datetime.datetime(1970, 1, 1), datetime.datetime(2019, 8, 4, 9, 30), datetime.datetime(1969, 12, 31)]
    values = times(pa.array(moments, pa.timestamp(unit)))
    assert (values.dtype, values.tolist()) == (np.dtype(np.int64), [0, 1_564_911_000, -86_400])
    frame = pd.DataFrame({"user_id": [1, 2, 3], "item_id": 1, "behavior": "a"})
    frame["timestamp"] = pd.Series(moments).dt.as_unit(unit)
    assert times_of(frame).tolist() == values.tolist()


def test_moments_with_fractions_of_a_second() -> None:
    assert times([datetime.datetime(1970, 1, 1, 0, 0, 1, 250_000)] * 2).tolist() == [1.25, 1.25]
    values = times(pa.array([1_500_000_001, 2_000_000_000], pa.timestamp("ns")))
    assert values.tolist() == pytest.approx([1.500000001, 2], abs=1e-6)


def test_moments_of_a_time_zone_are_moments() -> None:
    paris = pd.to_datetime(["2020-01-01 02:00", "2020-07-01 02:00"]).tz_localize("Europe/Paris")
    utc = pd.to_datetime(["2020-01-01 01:00", "2020-07-01 00:00"])
    assert times(pa.array(paris)).tolist() == times(pa.array(utc)).tolist() == [1_577_840_400, 1_593_561_600]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_are_their_first_second(kind: pa.DataType) -> None:
    days = pa.array([datetime.date(1970, 1, 2), datetime.date(2011, 4, 12)], kind)
    assert times(days).tolist() == [86_400, 1_302_566_400]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, float("nan")], "row 2, column 'timestamp', value nan: not a finite number \\(1 row\\)"),
        ([1.0, float("inf")], "row 2, column 'timestamp', value inf: not a finite number"),
        ([1, None], "row 2, column 'timestamp', value None: missing value"),
        ([datetime.datetime(1970, 1, 1), None], "row 2, column 'timestamp', value None: missing value"),
        (["1970-01-01", "5"], "row 2, column 'timestamp', value '5': a number, but the rows above have dates"),
        (["5", "6"], "row 1, column 'timestamp', value '5': text, not a number"),
    ],
)
def test_timestamps_that_are_no_numbers_are_refused(values: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        times(values)


@pytest.mark.parametrize("odd", ["1970-02-30", "1_000", "5 s", "0x10", "five"])
def test_timestamps_of_a_text_file_that_are_no_numbers_are_refused(odd: str, tmp_path: Path) -> None:
    file = tmp_path / "i.csv"
    file.write_text(f"user_id,item_id,behavior,timestamp\n1,1,a,5\n\n2,1,a,7.5\n3,1,a,{odd}\n4,1,a,x\n")
    with pytest.raises(
        DataError,
        match=rf"i\.csv, line 5, column 'timestamp', value '{odd}': neither a number of seconds since 1970 nor a date",
    ):
        dataset_of({"interactions": file})


# --- weights ---


def weights(values: Any, tmp_path: Path | None = None) -> list[float]:
    """The weights of the links 1–2, 2–3, …, in that order."""
    table = pa.table({"source_id": range(1, len(values) + 1), "target_id": range(2, len(values) + 2), "weight": values})
    links: Any = table
    if tmp_path is not None:
        links = as_files({"links": table}, tmp_path, pa_csv.write_csv, ".csv")["links"]
    dataset = dataset_of({"interactions": INTEGERS["interactions"], "links": links})
    graph = dataset.graph
    return [] if graph.weights is None else graph.weights[graph.sources() < graph.indices].tolist()


@pytest.mark.parametrize("way", ["typed", "text"])
def test_weights(way: str, tmp_path: Path) -> None:
    where = tmp_path if way == "text" else None
    assert weights(pa.array([1, 2, 3]), where) == [1, 2, 3]
    assert weights(pa.array([0.1, 2.5]), where) == [float(np.float32(0.1)), 2.5]
    assert weights(pa.array([0.1, 2.5], pa.float32()), where) == [float(np.float32(0.1)), 2.5]
    assert weights(pa.array([0.0, 2.5]), where) == [2.5]  # weight 0 is no link


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, -2.0, -3.0], "row 2, column 'weight', value -2.0: negative weight \\(2 rows\\); weights must be 0"),
        ([1.0, 1e300], "row 2, column 'weight', value 1e\\+300: beyond single precision \\(1 row\\); scale"),
        ([1.0, 1e-300], "row 2, column 'weight', value 1e-300: beyond single precision \\(1 row\\); scale"),
        ([1.0, None], "row 2, column 'weight', value None: missing value"),
        ([1.0, float("inf")], "row 2, column 'weight', value inf: not a finite number"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(values: list[float | None], message: str) -> None:
    with pytest.raises(DataError, match=f"links, {message}"):
        weights(pa.array(values))


# --- attributes ---


def attribute(values: Any, users: Any = None) -> Any:
    """The attribute x of users 10, 20, 30."""
    table = pa.table({"user_id": [30, 10, 20], "x": values}) if users is None else users
    return dataset_of({"interactions": INTEGERS["interactions"], "users": table}).attributes["x"]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_()])
def test_numeric_attributes(kind: pa.DataType) -> None:
    made = attribute(pa.array([1, None, 0]).cast(kind))
    assert made.categories is None
    assert np.array_equal(made.values, [np.nan, 0, 1], equal_nan=True)


def test_attributes_too_large_for_a_float_are_rounded_in_typed_tables_and_names_in_text(tmp_path: Path) -> None:
    users = pa.table({"user_id": [30, 10, 20], "x": [2**60 + 1, 0, -(2**62) + 1]})
    assert attribute(None, users).values.tolist() == [0, -(2.0**62), 2.0**60]
    files = as_files({"users": users}, tmp_path, pa_csv.write_csv, ".csv")
    read = attribute(None, files["users"])
    assert sorted(read.categories) == sorted(map(str, users["x"].to_pylist()))


@pytest.mark.parametrize("odd", ["01234", "+07", "0x10", "9007199254740993"])
def test_text_that_a_number_would_change_stays_text(odd: str, tmp_path: Path) -> None:
    path = tmp_path / "users.csv"
    path.write_text(f"user_id,x\n30,1234\n10,{odd}\n20,\n")
    read = attribute(None, path)
    assert sorted(read.categories) == sorted(["1234", odd])
    assert read.values.tolist().count(-1) == 1


def test_spaces_around_values_are_stripped_and_noted(tmp_path: Path) -> None:
    (tmp_path / "i.csv").write_text("user_id, item_id, behavior\n1, 10, Books\n2, 11, Books \n3, 10, Travel\n")
    (tmp_path / "l.csv").write_text("source_id, target_id\n1, 2\n2, 3\n")
    dataset = SocialDataset.from_frames(tmp_path / "i.csv", tmp_path / "l.csv")
    assert list(dataset.users) == [1, 2, 3]
    assert dataset.behavior_names == ["Books", "Travel"]
    notes = not_none(dataset.report).notes
    assert [note.split("i.csv, ")[1] for note in notes if "i.csv" in note] == [
        "column 'item_id': spaces around 3 values stripped",
        "column 'behavior': spaces around 3 values stripped",
    ]


def test_tables_that_hardly_share_a_user_are_noted(tmp_path: Path) -> None:
    (tmp_path / "i.csv").write_text("user_id,item_id,behavior\n1.0,10,a\n2.0,11,a\n")
    (tmp_path / "l.csv").write_text("source_id,target_id\n1,2\n")
    (note,) = not_none(SocialDataset.from_frames(tmp_path / "i.csv", tmp_path / "l.csv").report).notes
    assert note.startswith(
        "only 0 of 2 linked users have records; are the ids written alike? (links have '1', records '1.0')"
    )


def test_unknown_handling_of_self_links_is_refused() -> None:
    with pytest.raises(UsageError, match=r"unknown self_links 'kepp'; did you mean 'keep'"):
        dataset_of(INTEGERS, self_links="kepp")


def test_coded_numbers_are_numbers() -> None:
    frame = pd.DataFrame({"user_id": [30, 10, 20], "x": pd.Categorical([7, None, 5])})
    assert np.array_equal(attribute(None, frame).values, [np.nan, 5, 7], equal_nan=True)


def test_text_attributes_are_categories() -> None:
    made = attribute(pa.array(["b", "", "a"]))
    assert (list(made.categories), made.values.tolist()) == (["a", "b"], [-1, 0, 1])
    digits = attribute(pa.array(["2", None, "10"]))
    assert (list(digits.categories), digits.values.tolist()) == (["10", "2"], [-1, 0, 1])  # typed text stays text


def test_text_attributes_that_nobody_has() -> None:
    made = attribute(pa.array(["", None, ""]))
    assert (list(made.categories), made.values.tolist()) == ([], [-1, -1, -1])


def test_attributes_of_a_text_file(tmp_path: Path) -> None:
    file = tmp_path / "users.csv"
    file.write_text("user_id,x,age,empty\n30,b,1.5,\n10,,,\n20,7,-2,\n")
    dataset = dataset_of({"interactions": INTEGERS["interactions"], "users": file})
    assert list(dataset.attributes) == ["x", "age", "empty"]
    assert list(not_none(dataset.attributes["x"].categories)) == ["7", "b"]
    assert np.array_equal(dataset.attributes["age"].values, [np.nan, -2, 1.5], equal_nan=True)
    assert np.isnan(dataset.attributes["empty"].values).all()


@pytest.mark.parametrize("way", ["typed", "text"])
def test_infinite_attributes_are_refused(way: str, tmp_path: Path) -> None:
    table = pa.table({"user_id": [30, 10], "x": [1.0, float("inf")]})
    users: Any = table
    if way == "text":
        users = as_files({"users": table}, tmp_path, pa_csv.write_csv, ".csv")["users"]
    with pytest.raises(DataError, match=r"users.*column 'x', value '?inf'?: an infinite value"):
        attribute(None, users)


def test_attributes_of_other_types_are_refused() -> None:
    with refused(DataError, place="users, column 'x'", value="date32[day]"):
        attribute(pa.array([datetime.date(2020, 1, 1)] * 3))


def test_users_may_be_known_from_their_list_alone() -> None:
    users = pa.table({"user_id": [99, 5]})
    dataset = dataset_of({"interactions": INTEGERS["interactions"], "users": users})
    assert list(dataset.users) == [5, 10, 20, 30, 99]
    assert dataset.attributes == {}
    with pytest.raises(DataError, match="users, row 3, column 'user_id', value 5: duplicate user"):
        dataset_of({"interactions": INTEGERS["interactions"], "users": pa.table({"user_id": [99, 5, 5]})})


def test_without_links_there_is_an_empty_graph() -> None:
    dataset = dataset_of({"interactions": INTEGERS["interactions"]})
    assert dataset.graph.n_links == 0
    assert dataset.graph.weights is None
    assert dataset.graph.n_users == 3


def test_the_first_cause_of_a_strict_refusal_is_named_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "links.csv"
    file.write_text("source_id,target_id\n10,20\n30,30\n")
    sources = {"interactions": INTEGERS["interactions"], "links": file}
    with pytest.raises(DataError, match=r"links\.csv, line 3, column 'target_id', value '30': a link of a user to"):
        dataset_of(sources, strict=True)
    assert dataset_of(sources, self_links="keep").graph.n_self_links() == 1
    assert dataset_of(sources).graph.n_self_links() == 0
