"""Text files with any separator are read alike, and a mistake is named with the line that has it."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.values import not_none

from mcne.data import source
from mcne.data.dataset import SocialDataset
from mcne.data.source import Wanted, read_table
from mcne.errors import DataError, UsageError

ROWS = ["user_id,item_id,behavior", "ann,dune,Books", "bob,dune,Books", "ann,lisbon,Travel"]
PAIRS = Wanted(["user_id", "item_id"])


def put(path: Path, sep: str, rows: list[str] = ROWS) -> Path:
    text = "\n".join(rows).replace(",", sep) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def notes_of(dataset: SocialDataset) -> tuple[str, ...]:
    return tuple(not_none(dataset.report).notes)


USUAL = {".csv": ",", ".tsv": "\t", ".txt": "\t", ".dat": "\t"}


@pytest.mark.parametrize("suffix", [*USUAL, ".csv.gz", ".dat.gz"])
@pytest.mark.parametrize("sep", [",", ";", "\t", "::", "|"])
def test_the_header_tells_the_separator(sep: str, suffix: str, tmp_path: Path) -> None:
    dataset = SocialDataset.from_frames(put(tmp_path / f"i{suffix}", sep))
    expected = SocialDataset.from_frames(put(tmp_path / "usual.csv", ","))
    assert dataset.fingerprint == expected.fingerprint
    noted = [note for note in notes_of(dataset) if f"separator {sep!r} detected" in note]
    assert len(noted) == (USUAL[suffix.removesuffix(".gz")] != sep)


@pytest.mark.parametrize(("suffix", "usual", "other"), [(".csv", ",", ";"), (".tsv", "\t", ","), (".dat", "\t", "::")])
def test_the_usual_separator_wins_where_the_header_has_it(suffix: str, usual: str, other: str, tmp_path: Path) -> None:
    header = usual.join(["user_id", "item_id", "behavior", other.join("abcd")])
    (tmp_path / f"i{suffix}").write_text(f"{header}\n{usual.join('12xy')}\n{usual.join('22xy')}\n")
    dataset = SocialDataset.from_frames(tmp_path / f"i{suffix}")
    assert dataset.n_users == 2
    assert notes_of(dataset) == ()


def test_the_separator_is_the_most_frequent_one_outside_quotes(tmp_path: Path) -> None:
    """A comma in a header of semicolons separates nothing, nor do semicolons in quotes."""
    (tmp_path / "i.csv").write_text('user_id;item_id;behavior;"year, month"\n1;10;a;x\n')
    dataset = SocialDataset.from_frames(tmp_path / "i.csv")
    assert dataset.behavior_names == ["a"]
    assert "separator ';' detected from the header; override with --sep" in notes_of(dataset)[0]
    (tmp_path / "quoted.csv").write_text('user_id,item_id,behavior,"a;b;c;d;e"\n1,10,a,x\n')
    assert notes_of(SocialDataset.from_frames(tmp_path / "quoted.csv")) == ()


def test_a_header_without_any_needed_name_points_to_the_separator(tmp_path: Path) -> None:
    (tmp_path / "i.csv").write_text("user_id item_id behavior,year\n1 10 a,1965\n")
    with pytest.raises(DataError, match=r"column 'user_id' is missing; .*--sep"):
        SocialDataset.from_frames(tmp_path / "i.csv")


def test_suffixes_may_be_capital(tmp_path: Path) -> None:
    expected = SocialDataset.from_frames(put(tmp_path / "i.csv", ","))
    assert SocialDataset.from_frames(put(tmp_path / "I.CSV", ",")).fingerprint == expected.fingerprint
    (tmp_path / "I.CSV.GZ").write_bytes(gzip.compress((tmp_path / "i.csv").read_bytes()))
    assert SocialDataset.from_frames(tmp_path / "I.CSV.GZ").fingerprint == expected.fingerprint


@pytest.mark.parametrize("sep", [";", "::", "/", "é", "<->", "\t"])
def test_a_separator_that_is_named(sep: str, tmp_path: Path) -> None:
    dataset = SocialDataset.from_frames(put(tmp_path / "i.csv", sep), sep=sep)
    assert dataset.fingerprint == SocialDataset.from_frames(put(tmp_path / "usual.csv", ",")).fingerprint
    assert notes_of(dataset) == ()


@pytest.mark.parametrize("sep", ["", '"', "\n", "a\r"])
def test_what_cannot_separate(sep: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"sep: .* cannot separate columns"):
        SocialDataset.from_frames(put(tmp_path / "i.csv", ","), sep=sep)


def test_recboles_files_have_tabs_whatever_is_asked_for(tmp_path: Path) -> None:
    header = "user_id:token,item_id:token,behavior:token"
    file = put(tmp_path / "i.inter", "\t", [header, *ROWS[1:]])
    expected = SocialDataset.from_frames(put(tmp_path / "usual.csv", ","))
    assert SocialDataset.from_frames(file, sep=";").fingerprint == expected.fingerprint


def test_quoted_separators_belong_to_the_value(tmp_path: Path) -> None:
    rows = ["user_id,item_id,behavior", '1,"a;b",x', '"2",c,x']
    dataset = SocialDataset.from_frames(put(tmp_path / "i.csv", ";", rows))
    assert list(dataset.behaviors[0].items) == ["a;b", "c"]
    with_colons = ["user_id,item_id,behavior", '1,"a,x', "2,b:c,x"]  # quotes mean nothing there
    dataset = SocialDataset.from_frames(put(tmp_path / "i.dat", "::", with_colons))
    assert list(dataset.behaviors[0].items) == ['"a', "b:c"]


def test_a_table_of_one_column_has_no_separator(tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("user_id\nann\neve\n")
    dataset = SocialDataset.from_frames(put(tmp_path / "i.csv", ","), users=tmp_path / "users.csv")
    assert list(dataset.users) == ["ann", "bob", "eve"]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60).map(lambda raw: bytes(b":x\n"[byte % 3] for byte in raw)), st.randoms())
def test_what_is_replaced_in_a_stream_is_what_is_replaced_in_the_whole(raw: bytes, chance: random.Random) -> None:
    for old in (b"::", b":x:", b"xx:"):
        replace = source._replacing(old, b"\x1f")
        cuts = sorted(chance.randrange(len(raw) + 1) for _ in range(4))
        blocks = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
        streamed = b"".join(replace(pa.py_buffer(block)) for block in [*(b for b in blocks if b), b""])
        assert streamed == raw.replace(old, b"\x1f")


def test_blocks_of_a_long_file_come_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BLOCK", 64)
    rows = [f"u{k:03},i{k % 7},b:{k % 2}" for k in range(500)]
    expected = SocialDataset.from_frames(put(tmp_path / "i.csv", ",", [ROWS[0], *rows]))
    assert (
        SocialDataset.from_frames(put(tmp_path / "i.dat", "::", [ROWS[0], *rows])).fingerprint == expected.fingerprint
    )


# --- places ---


@pytest.mark.parametrize("sep", [",", ";", "\t", "::", "|"])
@pytest.mark.parametrize("suffix", [".csv", ".dat", ".dat.gz"])
def test_places_are_those_of_the_lines(sep: str, suffix: str, tmp_path: Path) -> None:
    rows = ["", ROWS[0], "1,2,x", "", "3,4,y", "", "", "5,6,z"]
    table = read_table(put(tmp_path / f"i{suffix}", sep, rows), "i", PAIRS, {})
    lines = {1: 3, 3: 5, 5: 8}  # user -> line
    for row, user in enumerate(table.data["user_id"].to_pylist()):
        place = table.locate(row, "item_id")
        assert place.endswith(f"line {lines[int(user)]}, column 'item_id', value '{int(user) + 1}'")


@pytest.mark.parametrize("sep", [";", "::", "|"])
def test_a_row_that_is_too_short_is_shown_as_it_stands(sep: str, tmp_path: Path) -> None:
    rows = [*ROWS, "", "eve,dune"]
    with pytest.raises(DataError, match=r"line 6: 2 fields where the header has 3 \('eve.{1,2}dune'\)"):
        SocialDataset.from_frames(put(tmp_path / "i.dat", sep, rows))


@pytest.mark.parametrize("sep", [";", "::"])
def test_text_that_is_not_utf8_is_named(sep: str, tmp_path: Path) -> None:
    file = put(tmp_path / "i.dat", sep)
    file.write_bytes(file.read_bytes() + sep.join(["eve", "caf\xe9", "x"]).encode("latin-1"))
    with pytest.raises(DataError, match=r"line 5, column 'item_id', value b'caf\\xe9': not UTF-8 text"):
        SocialDataset.from_frames(file)


# --- headers ---


@pytest.mark.parametrize("sep", [",", "\t", "::", "|"])
def test_a_file_without_a_header(sep: str, tmp_path: Path) -> None:
    rows = ["1,1193,1,978300760", "1,661,3,978302109"]  # a repeated value is not a repeated column
    first = rows[0].replace(",", sep)
    with pytest.raises(DataError, match="the first line has values instead of column names") as refused:
        SocialDataset.from_frames(put(tmp_path / "ratings.dat", sep, rows))
    assert refused.value.value == first
    assert refused.value.place.endswith("ratings.dat, line 1")
    assert sep.join(["user_id", "item_id", "behavior"]) in refused.value.remedy


def test_columns_may_be_named_by_numbers_beside_those_that_are_needed(tmp_path: Path) -> None:
    (tmp_path / "users.csv").write_text("user_id,1,2\nann,5,6\n")
    dataset = SocialDataset.from_frames(put(tmp_path / "i.csv", ","), users=tmp_path / "users.csv")
    assert list(dataset.attributes) == ["1", "2"]


def test_a_separator_that_nobody_knows(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 1: header has no ',' \('user_id/item_id/behavior'\); .*--sep"):
        SocialDataset.from_frames(put(tmp_path / "i.csv", "/"))
    with pytest.raises(DataError, match=r"header has no ',' \('user_id;item_id;behavior'\); .*';'"):
        SocialDataset.from_frames(put(tmp_path / "i.csv", ";"), sep=",")


def test_a_column_named_twice(tmp_path: Path) -> None:
    rows = ["", "user_id,item_id,behavior,x,x", "1,2,a,b,c"]
    with pytest.raises(DataError, match="line 2: there are two columns 'x'; rename one"):
        SocialDataset.from_frames(put(tmp_path / "i.csv", ",", rows))


def test_a_missing_behavior_points_to_a_single_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"column 'behavior' is missing.*--single-behavior NAME"):
        SocialDataset.from_frames(put(tmp_path / "i.csv", ",", ["user_id,item_id", "1,2"]))
