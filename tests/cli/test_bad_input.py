"""What a person can get wrong: an exit code, one line that says where, what and what to do, and nothing left behind."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from scipy.io import savemat
from tests.disks import full_at, tree

from mcne import files
from mcne.cli.main import main
from mcne.data import dataset as datasets
from mcne.data import split as splits
from mcne.data.dataset import SocialDataset

INTERACTIONS = "user_id,item_id,behavior\n1,10,a\n2,11,a\n1,12,b\n"  # a fifth line may follow
TIMED = "user_id,item_id,behavior,timestamp\n1,10,a,100\n2,11,a,200\n"
LINKS = "source_id,target_id\n1,2\n"
WEIGHTED = "source_id,target_id,weight\n1,2,0.5\n"


class Result(NamedTuple):
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Desk:
    """A directory with a person's files, and the command line, run in this process."""

    path: Path
    run: Callable[..., Result]

    @property
    def out(self) -> Path:
        return self.path / "not" / "there" / "out"

    def put(self, name: str, content: str | bytes) -> Path:
        data = content if isinstance(content, bytes) else content.encode()
        path = self.path / name
        path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)
        return path

    def ok(self, *args: object) -> str:
        result = self.run(*args)
        assert (result.code, result.err) == (0, ""), result
        return result.out

    def refuses(self, *args: object, code: int = 4, says: tuple[str, ...]) -> None:
        """The command fails with one line that says all of this, and leaves everything as it was."""
        before = tree(self.path)
        result = self.run(*args)
        assert result.code == code, result
        assert result.out == ""
        assert re.fullmatch(r"error: [^\n]+\n", result.err), result.err
        assert "Traceback" not in result.err
        for text in says:
            assert text in result.err, f"{text!r} is not in {result.err!r}"
        assert tree(self.path) == before

    def refuses_files(self, *options: object, code: int = 4, says: tuple[str, ...], **files: Path) -> None:
        self.refuses_tables(files, *options, code=code, says=says)

    def refuses_tables(self, files: Mapping[str, Path], *options: object, code: int = 4, says: tuple[str, ...]) -> None:
        given = [part for what, path in files.items() for part in (f"--{what}", path)]
        self.refuses("data", "prepare", "files", *given, "--out", self.out, *options, code=code, says=says)

    def prepares_files(self, *options: object, **files: Path) -> SocialDataset:
        given = [part for what, path in files.items() for part in (f"--{what}", path)]
        shutil.rmtree(self.path / "not", ignore_errors=True)
        self.ok("data", "prepare", "files", *given, "--out", self.out, *options)
        return SocialDataset.load(self.out)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Desk]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(*args: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["mcne", *map(str, args)])
        with pytest.raises(SystemExit) as left:
            main()
        shown = (re.sub(r"\x1b\[[0-9;]*m", "", text) for text in capsys.readouterr())  # some machines ask for colors
        return Result(int(left.value.code or 0), *shown)

    yield Desk(tmp_path, run)
    for number, handler in handlers.items():
        signal.signal(number, handler)


# text files: each mistake in each format

SUFFIXES = ("csv", "tsv", "csv.gz", "recbole")
ATOMIC = {"interactions": "inter", "links": "net", "users": "user"}


def is_number(column: str) -> bool:
    return column in ("timestamp", "weight", "age")


def in_recbole(column: str) -> str:
    return f"{column}:{'float' if is_number(column) else 'token'}"


def put_text(desk: Desk, what: str, text: str, suffix: str) -> Path:
    """A CSV text in another format."""
    name = f"{what}.{suffix.replace('recbole', ATOMIC[what])}"
    if suffix.startswith("recbole"):
        head, line_break, rows = text.partition("\n")
        text = ",".join(map(in_recbole, head.split(","))) + line_break + rows if head else text
    return desk.put(name, text if suffix.startswith("csv") else text.replace(",", "\t"))


def expected_text(message: str, suffix: str) -> str:
    """What a message says of a CSV file, said of another format: RecBole's columns have a type."""
    if suffix.startswith("recbole"):
        message = re.sub(r"column '(\w+)'", lambda match: f"column {in_recbole(match[1])!r}", message)
    if suffix.startswith("csv"):
        return message
    return re.sub(r"\('(.*)'\)", lambda match: "(" + repr(match[1].replace(",", "\t")) + ")", message)


class Mistake(NamedTuple):
    says: tuple[str, ...]
    interactions: str = INTERACTIONS
    links: str | None = None
    users: str | None = None
    options: tuple[str, ...] = ()
    wrong: str = "interactions"


MISSING = "fill it in or remove the row"
INTEGERS = ("--id-type", "integer")
STRICT = ("--strict",)
MISTAKES = {
    "text user": Mistake(
        (
            "line 5, column 'user_id', value 'x7': not a 64-bit integer, but --id-type integer",
            "use integer ids",
        ),
        INTERACTIONS + "x7,10,a\n",
        options=INTEGERS,
    ),
    "text item": Mistake(
        (
            "line 5, column 'item_id', value '1.5': not a 64-bit integer, but --id-type integer",
            "use integer ids",
        ),
        INTERACTIONS + "2,1.5,a\n",
        options=INTEGERS,
    ),
    "leading zero": Mistake(
        (
            "line 5, column 'item_id', value '007': not a 64-bit integer, but --id-type integer",
            "use integer ids",
        ),
        INTERACTIONS + "2,007,a\n",
        options=INTEGERS,
    ),
    "id beyond 64 bits": Mistake(
        (
            "line 5, column 'user_id', value '99999999999999999999'",
            "but --id-type integer asks for integers",
            "text ids",
        ),
        INTERACTIONS + "99999999999999999999,10,a\n",
        options=INTEGERS,
    ),
    "text in links": Mistake(
        (
            "line 3, column 'target_id', value 'bob': not a 64-bit integer, but --id-type integer",
            "use integer ids",
        ),
        links=LINKS + "2,bob\n",
        options=INTEGERS,
        wrong="links",
    ),
    "NaN user": Mistake(
        ("line 5, column 'user_id', value 'NaN': missing value (1 row)", MISSING), INTERACTIONS + "NaN,10,a\n"
    ),
    "nan item": Mistake(
        ("line 5, column 'item_id', value 'nan': missing value (2 rows)", MISSING),
        INTERACTIONS + "1,nan,a\n2,nan,a\n",
    ),
    "empty user": Mistake(
        ("line 5, column 'user_id', value '': missing value (1 row)", MISSING), INTERACTIONS + ",10,a\n"
    ),
    "empty item": Mistake(
        ("line 5, column 'item_id', value '': missing value (1 row)", MISSING), INTERACTIONS + "1,,a\n"
    ),
    "blank user": Mistake(
        ("line 5, column 'user_id', value '  ': missing value (1 row)", MISSING), INTERACTIONS + "  ,10,a\n"
    ),
    "empty behavior": Mistake(
        ("line 5, column 'behavior', value '': missing value (1 row)", MISSING), INTERACTIONS + "1,10,\n"
    ),
    "empty source": Mistake(
        ("line 3, column 'source_id', value '': missing value (1 row)", MISSING),
        links=LINKS + ",2\n",
        wrong="links",
    ),
    "empty user in users": Mistake(
        ("line 3, column 'user_id', value '': missing value (1 row)", MISSING),
        users="user_id,age\n1,30\n,31\n",
        wrong="users",
    ),
    "user twice": Mistake(
        ("line 4, column 'user_id', value '1': duplicate user (1 row)", "list every user once"),
        users="user_id,age\n1,30\n2,31\n1,32\n",
        wrong="users",
    ),
    "negative weight": Mistake(
        (
            "line 3, column 'weight', value '-3.5': negative weight (1 row)",
            "weights must be 0 (no link) or more",
        ),
        links=WEIGHTED + "2,1,-3.5\n",
        wrong="links",
    ),
    "NaN weight": Mistake(
        ("line 3, column 'weight', value 'NaN': not a finite number (1 row)", "correct it"),
        links=WEIGHTED + "2,1,NaN\n",
        wrong="links",
    ),
    "infinite weight": Mistake(
        ("line 3, column 'weight', value 'inf': not a finite number (1 row)", "correct it"),
        links=WEIGHTED + "2,1,inf\n",
        wrong="links",
    ),
    "text weight": Mistake(
        ("line 3, column 'weight', value 'heavy': not a decimal number", "correct it"),
        links=WEIGHTED + "2,1,heavy\n",
        wrong="links",
    ),
    "empty weight": Mistake(
        ("line 3, column 'weight', value '': missing value", "fill it in"),
        links=WEIGHTED + "2,1,\n",
        wrong="links",
    ),
    "link to oneself": Mistake(
        (
            "line 3, column 'target_id', value '2': a link of a user to itself (1 row)",
            "remove them, or leave out strict",
        ),
        links=LINKS + "2,2\n",
        options=STRICT,
        wrong="links",
    ),
    "unknown target": Mistake(
        ("line 3, column 'target_id', value '99': a user without a record", "add the user, or leave out"),
        links=LINKS + "2,99\n",
        options=STRICT,
        wrong="links",
    ),
    "unknown source": Mistake(
        ("line 3, column 'source_id', value '99': a user without a record", "add the user, or leave out"),
        links=LINKS + "99,2\n1,98\n",
        options=STRICT,
        wrong="links",
    ),
    "too few fields": Mistake(("line 5: 2 fields where the header has 3 ('1,10')",), INTERACTIONS + "1,10\n"),
    "too many fields": Mistake(
        ("line 5: 4 fields where the header has 3 ('1,10,a,b')",),
        INTERACTIONS + "1,10,a,b\n",
    ),
    "too few fields in links": Mistake(
        ("line 3: 1 field where the header has 2 ('2')",),
        links=LINKS + "2\n",
        wrong="links",
    ),
    "NaN time": Mistake(
        ("line 4, column 'timestamp', value 'nan': not a finite number (1 row)", "correct it"),
        TIMED + "2,12,a,nan\n",
    ),
    "infinite time": Mistake(
        ("line 4, column 'timestamp', value '-inf': not a finite number", "correct it"), TIMED + "2,12,a,-inf\n"
    ),
    "time beyond numbers": Mistake(
        ("line 4, column 'timestamp', value '1e400': not a finite number", "correct it"), TIMED + "2,12,a,1e400\n"
    ),
    "calendar time": Mistake(
        (
            "line 4, column 'timestamp', value '2011-04-12': a date, but the rows above have numbers",
            "write numbers in every row",
        ),
        TIMED + "2,12,a,2011-04-12\n",
    ),
    "empty time": Mistake(
        ("line 4, column 'timestamp', value '': missing value", "fill it in"),
        TIMED + "2,12,a,\n",
    ),
    "missing column": Mistake(
        (
            "column 'item_id' is missing; the columns are user_id, item, behavior",
            "rename one, or map it",
            "--column item_id=NAME",
        ),
        INTERACTIONS.replace("item_id", "item"),
    ),
    "missing behavior": Mistake(
        ("column 'behavior' is missing; the columns are user_id, item_id", "--column behavior=NAME"),
        "user_id,item_id\n1,10\n",
    ),
    "missing source": Mistake(
        ("column 'source_id' is missing; the columns are from, target_id", "--column source_id=NAME"),
        links="from,target_id\n1,2\n",
        wrong="links",
    ),
    "column twice": Mistake(
        ("line 1: there are two columns 'item_id'", "rename one"), "user_id,item_id,behavior,item_id\n1,10,a,11\n"
    ),
    "no rows": Mistake(("no rows below the header", "at least one"), INTERACTIONS.partition("\n")[0] + "\n"),
    "no rows, no line break": Mistake(("no rows below the header",), INTERACTIONS.partition("\n")[0]),
    "no rows in links": Mistake(("no rows below the header",), links="source_id,target_id\n\n", wrong="links"),
    "empty file": Mistake(("empty; a header line with the column names is expected",), ""),
    "blank file": Mistake(("empty; a header line with the column names is expected",), "\n\n\n"),
}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_text_files(name: str, suffix: str, desk: Desk) -> None:
    mistake = MISTAKES[name]
    files = {
        what: put_text(desk, what, text, suffix)
        for what in ("interactions", "links", "users")
        if (text := getattr(mistake, what)) is not None
    }
    place = f"error: {files[mistake.wrong]}"
    texts = mistake.says
    if name in ("missing column", "missing behavior", "missing source"):  # the names are shown without their type
        desk.refuses_tables(files, *mistake.options, says=(place, *texts))
        return
    if name == "column twice" and suffix.startswith("recbole"):
        texts = ("line 1: there are two columns 'item_id:token'", "rename one")
    desk.refuses_tables(files, *mistake.options, says=(place, *(expected_text(part, suffix) for part in texts)))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_line_numbers_count_blank_lines(suffix: str, desk: Desk) -> None:
    wrong = put_text(
        desk, "interactions", "\n\nuser_id,item_id,behavior\n\n1,10,a\n\n\n,11,a\n", suffix.replace("recbole", "csv")
    )
    desk.refuses_files(says=(f"{wrong}, line 8, column 'user_id', value ''",), interactions=wrong)
    short = put_text(desk, "interactions", "user_id,item_id,behavior\n\n1,10,a\n\n\n2,11\n", suffix)
    desk.refuses_files(says=(f"{short}, line 6: 2 fields",), interactions=short)


def in_lines(path: Path, line_break: str) -> Path:
    """The file with other line breaks."""
    packed = path.suffix == ".gz"
    data = (gzip.decompress(path.read_bytes()) if packed else path.read_bytes()).replace(b"\n", line_break.encode())
    path.write_bytes(gzip.compress(data) if packed else data)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("line_break", ["\r\n", "\r"])
def test_other_line_breaks(line_break: str, suffix: str, desk: Desk) -> None:
    plain = desk.prepares_files(interactions=put_text(desk, "interactions", INTERACTIONS, "csv"))
    good = in_lines(put_text(desk, "interactions", INTERACTIONS, suffix), line_break)
    assert desk.prepares_files(interactions=good).fingerprint == plain.fingerprint
    shutil.rmtree(desk.path / "not")
    wrong = in_lines(put_text(desk, "interactions", INTERACTIONS + "\n,11,a\n", suffix), line_break)
    message = expected_text("line 6, column 'user_id', value '': missing value", suffix)
    desk.refuses_files(says=(f"{wrong}, {message}",), interactions=wrong)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_byte_order_mark_is_no_part_of_the_first_column(suffix: str, desk: Desk) -> None:
    plain = desk.prepares_files(interactions=put_text(desk, "interactions", INTERACTIONS, "csv"))
    path = put_text(desk, "interactions", INTERACTIONS, suffix)
    data = gzip.decompress(path.read_bytes()) if suffix.endswith("gz") else path.read_bytes()
    marked = desk.put(path.name, b"\xef\xbb\xbf" + data)
    assert desk.prepares_files(interactions=marked).fingerprint == plain.fingerprint


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_bytes_that_are_no_utf8(suffix: str, desk: Desk) -> None:
    def latin(text: str) -> Path:
        path = put_text(desk, "interactions", text, suffix)
        data = gzip.decompress(path.read_bytes()) if suffix.endswith("gz") else path.read_bytes()
        return desk.put(path.name, data.decode().encode("latin-1"))

    step = "not UTF-8 text; save the file as UTF-8"
    message = expected_text(r"line 5, column 'item_id', value b'caf\xe9'", suffix)
    wrong = latin(INTERACTIONS + "1,café,a\n")
    desk.refuses_files(says=(f"{wrong}, {message}: {step}",), interactions=wrong)
    wrong = latin(INTERACTIONS + "1,10,a\n" * 5000 + "1,café,a\n" + "1,10,a\n" * 5000)  # beyond the first buffers
    desk.refuses_files(says=(message.replace("line 5", "line 5005"), step), interactions=wrong)
    wrong = latin(INTERACTIONS.replace("behavior", "behaviör"))
    desk.refuses_files(says=(f"{wrong}, line 1, value b'user_id", r"behavi\xf6r", step), interactions=wrong)
    unused = latin("user_id,item_id,behavior,note\n1,10,a,café\n2,11,a,\n1,,b,\n")  # its note is not read
    message = expected_text("line 4, column 'item_id', value ''", suffix)
    desk.refuses_files(says=(f"{unused}, {message}: missing value",), interactions=unused)


def test_other_encodings(desk: Desk) -> None:
    wrong = desk.put("i.csv", INTERACTIONS.encode("utf-16"))
    desk.refuses_files(says=(rf"{wrong}, line 1, value b'\xff\xfeu", "save the file as UTF-8"), interactions=wrong)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz"])
def test_line_breaks_in_quotes(suffix: str, desk: Desk) -> None:
    text = 'user_id,item_id,behavior,note\n1,10,a,"two\nlines"\n2,"a\n\nb",a,\n,12,b,"x\ny"\n1,12,b,\n'
    wrong = put_text(desk, "interactions", text, suffix)
    desk.refuses_files(says=(f"{wrong}, line 7, column 'user_id', value ''",), interactions=wrong)
    good = put_text(desk, "interactions", text.replace("\n,12", "\n3,12"), suffix)
    dataset = desk.prepares_files(interactions=good)
    assert list(dataset.behavior("a").items) == ["10", "a\n\nb"]
    assert list(dataset.users) == [1, 2, 3]


def test_a_quote_that_never_ends_is_named_where_it_starts(desk: Desk) -> None:
    wrong = desk.put("i.csv", INTERACTIONS + '2,"13,a\n' + "1,10,a\n" * 30_000)
    desk.refuses_files(
        says=(f"{wrong}, line 5: 2 fields where the header has 3", "quote the fields"), interactions=wrong
    )


def test_a_header_of_two_lines(desk: Desk) -> None:
    text = 'user_id,item_id,behavior,"a long\nnote"\n1,10,a,\n,11,a,\n'
    wrong = desk.put("i.csv", text)
    desk.refuses_files(says=(f"{wrong}, line 4, column 'user_id'",), interactions=wrong)


def test_lines_cut_by_blocks_stay_whole(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    # Arrow cuts files into blocks at line breaks; one inside quotes must not tear a row in two
    from mcne.data import source

    items = [f'x{n}""\n"",\n{"y" * (n % 7)}' for n in range(60)]
    path = desk.put(
        "i.csv", "user_id,item_id,behavior\n" + "".join(f'{n},"{item}",a\n' for n, item in enumerate(items))
    )
    for block in (80, 97, 128, 200, 1000):
        monkeypatch.setattr(source, "BLOCK", block)
        dataset = desk.prepares_files(interactions=path)
        assert dataset.users.take(dataset.behaviors[0].user) == list(range(60))
        assert dataset.behaviors[0].items.take(dataset.behaviors[0].item) == [item.replace('""', '"') for item in items]


def test_fields_longer_than_pythons_csv_limit(desk: Desk) -> None:
    long = (
        INTERACTIONS.replace("behavior", "behavior,note").replace(",a", ",a,").replace(",b\n", f",b,{'x' * 200_000}\n")
    )
    wrong = desk.put("i.csv", long + ",13,a,\n")
    desk.refuses_files(says=(f"{wrong}, line 5, column 'user_id', value ''",), interactions=wrong)
    wrong = desk.put("i.csv", long + "1,13\n")
    desk.refuses_files(says=(f"{wrong}, line 5: 2 fields",), interactions=wrong)


@pytest.mark.parametrize("lost", [1, 8, 20, 200, 2000])
def test_cut_gzip_files(lost: int, desk: Desk) -> None:
    rows = "".join(f"{n},{n * n},a\n" for n in range(20_000))
    whole = desk.put("i.csv.gz", "user_id,item_id,behavior\n" + rows).read_bytes()
    wrong = desk.path / "i.csv.gz"
    wrong.write_bytes(whole[:-lost])
    desk.refuses_files(
        says=(f"{wrong}, after line ", "ended before the end", "get or write the file again"), interactions=wrong
    )


def test_damaged_and_misnamed_gzip_files(desk: Desk) -> None:
    whole = bytearray(desk.put("i.csv.gz", INTERACTIONS).read_bytes())
    wrong = desk.path / "i.csv.gz"
    for at in (12, len(whole) - 6):  # in the data, in the checksum
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        wrong.write_bytes(damaged)
        desk.refuses_files(says=(f"{wrong}", "; "), interactions=wrong)
    wrong.write_bytes(whole[:15])
    desk.refuses_files(says=(f"{wrong}: ", "packed by gzip and named .gz"), interactions=wrong)
    wrong.write_text(INTERACTIONS)
    desk.refuses_files(says=(f"{wrong}: Not a gzipped file", "named .gz"), interactions=wrong)
    wrong.write_bytes(b"")
    desk.refuses_files(says=(f"{wrong}: empty",), interactions=wrong)
    packed = desk.path / "i.csv"
    packed.write_bytes(whole)
    desk.refuses_files(says=(f"{packed}, line 1, value b'", "not UTF-8 text"), interactions=packed)


# ids that look wrong and are not


def test_ids_that_are_words_for_nothing_are_kept(desk: Desk) -> None:
    words = ["NA", "null", "None", "N/A", "#N/A", "NULL", "n/a", "-", "true", "inf"]
    path = desk.put("i.csv", "user_id,item_id,behavior\n" + "".join(f"{word},{word},a\n" for word in words))
    dataset = desk.prepares_files(interactions=path)
    assert sorted(map(str, dataset.users)) == sorted(words)
    assert list(dataset.behaviors[0].items) == list(dataset.users)


def test_leading_zeros_and_signs_tell_ids_apart(desk: Desk) -> None:
    ids = ["7", "07", "007", "+7", "7.0", "-7"]
    path = desk.put("i.csv", "user_id,item_id,behavior\n" + "".join(f"{n},1,a\n" for n in ids))
    dataset = desk.prepares_files(interactions=path)
    assert sorted(map(str, dataset.users)) == sorted(ids)


def test_integers_beyond_64_bits_are_text(desk: Desk) -> None:
    ids = ["9223372036854775807", "9223372036854775808", "99999999999999999999", "-9223372036854775809"]
    path = desk.put("i.csv", "user_id,item_id,behavior\n" + "".join(f"{n},1,a\n" for n in ids))
    assert list(desk.prepares_files(interactions=path).users) == sorted(ids)
    largest = ["-999999999999999999", "0", "999999999999999999"]
    path = desk.put("i.csv", "user_id,item_id,behavior\n" + "".join(f"{n},1,a\n" for n in largest))
    assert list(desk.prepares_files(interactions=path).users) == [int(n) for n in largest]


def test_a_few_text_ids_among_integers_are_noted(desk: Desk) -> None:
    path = desk.put("i.csv", INTERACTIONS + "x7,10,a\n")
    printed = desk.ok("data", "prepare", "files", "--interactions", path, "--out", desk.out)
    assert f"note: {path}, line 5, column 'user_id', value 'x7': 1 of 3 distinct ids are not integers" in printed
    assert list(SocialDataset.load(desk.out).users) == ["1", "2", "x7"]


def test_one_text_file_of_text_ids_makes_all_text(desk: Desk) -> None:
    interactions, links = desk.put("i.csv", INTERACTIONS), desk.put("l.csv", LINKS + "2,bob\n")
    assert list(desk.prepares_files(interactions=interactions, links=links).users) == ["1", "2", "bob"]


def test_repeated_interactions_are_merged_and_counted(desk: Desk) -> None:
    text = "user_id,item_id,behavior\n1,10,a\n1,10,a\n2,10,a\n1,10,a\n1,10,b\n"
    pq.write_table(pa_csv.read_csv(pa.BufferReader(text.encode())), desk.path / "i.parquet")
    for path in (*(put_text(desk, "interactions", text, suffix) for suffix in SUFFIXES), desk.path / "i.parquet"):
        shutil.rmtree(desk.path / "not", ignore_errors=True)
        printed = desk.ok("data", "prepare", "files", "--interactions", path, "--out", desk.out)
        assert "a interactions: 4 read, 2 kept, 2 merged (repeat of the same user and item)\n" in printed
        assert "b interactions: 1 read, 1 kept\n" in printed
        assert len(SocialDataset.load(desk.out).behavior("a")) == 2


# parquet

GOOD: dict[str, Any] = {"user_id": [1, 2, 1], "item_id": [10, 11, 12], "behavior": ["a", "a", "b"]}
LINKED: dict[str, Any] = {"source_id": [1, 2], "target_id": [2, 1]}
NAN = float("nan")


class Typed(NamedTuple):
    says: tuple[str, ...]
    interactions: dict[str, Any] = GOOD
    links: dict[str, Any] | None = None
    users: dict[str, Any] | None = None
    options: tuple[str, ...] = ()
    wrong: str = "interactions"


IDS = "ids must be integers or text"
TYPED = {
    "float user": Typed(("column 'user_id': double values", IDS), GOOD | {"user_id": [1.0, 2.5, NAN]}),
    "bool user": Typed(("column 'user_id': bool values", IDS), GOOD | {"user_id": [True, False, True]}),
    "binary item": Typed(("column 'item_id': binary values", IDS), GOOD | {"item_id": [b"a", b"b", b"c"]}),
    "list item": Typed(("column 'item_id': list<", IDS), GOOD | {"item_id": [[1], [2], [3]]}),
    "float source": Typed(
        ("column 'source_id': double values", IDS), links=LINKED | {"source_id": [1.0, 2.0]}, wrong="links"
    ),
    "null user": Typed(
        ("row 2, column 'user_id', value None: missing value (1 row)", MISSING), GOOD | {"user_id": [1, None, 1]}
    ),
    "nothing but nulls": Typed(
        ("row 1, column 'user_id', value None: missing value (3 rows)", MISSING), GOOD | {"user_id": pa.nulls(3)}
    ),
    "empty text": Typed(
        ("row 3, column 'user_id', value '': missing value (1 row)", MISSING), GOOD | {"user_id": ["a", "b", ""]}
    ),
    "NaN text": Typed(
        ("row 3, column 'user_id', value 'NaN': missing value (1 row)", MISSING),
        GOOD | {"user_id": ["a", "b", "NaN"]},
    ),
    "null behavior": Typed(
        ("row 2, column 'behavior', value None: missing value (1 row)", MISSING),
        GOOD | {"behavior": ["a", None, "b"]},
    ),
    "float behavior": Typed(
        ("column 'behavior': double values, but names are expected",), GOOD | {"behavior": [1.0, 2.0, 3.0]}
    ),
    "text time": Typed(
        ("row 1, column 'timestamp', value '1': text, not a number", "convert the text to numbers"),
        GOOD | {"timestamp": ["1", "2", "3"]},
    ),
    "bool time": Typed(
        ("column 'timestamp': bool values, but numbers are expected",), GOOD | {"timestamp": [True, True, False]}
    ),
    "NaN time": Typed(
        ("row 2, column 'timestamp', value nan: not a finite number (1 row)", "correct it"),
        GOOD | {"timestamp": [1.0, NAN, 2.0]},
    ),
    "infinite time": Typed(
        ("row 3, column 'timestamp', value inf: not a finite number", "correct it"),
        GOOD | {"timestamp": [1.0, 2.0, float("inf")]},
    ),
    "null time": Typed(
        ("row 2, column 'timestamp', value None: missing value (1 row)", MISSING),
        GOOD | {"timestamp": [1, None, 2]},
    ),
    "negative weight": Typed(
        (
            "row 2, column 'weight', value -3: negative weight (1 row)",
            "weights must be 0 (no link) or more",
        ),
        links=LINKED | {"weight": [1, -3]},
        wrong="links",
    ),
    "NaN weight": Typed(
        ("row 2, column 'weight', value nan: not a finite number", "correct it"),
        links=LINKED | {"weight": [1.0, NAN]},
        wrong="links",
    ),
    "null weight": Typed(
        ("row 2, column 'weight', value None: missing value", MISSING),
        links=LINKED | {"weight": [1.0, None]},
        wrong="links",
    ),
    "text weight": Typed(
        ("column 'weight': string values, but numbers are expected",),
        links=LINKED | {"weight": ["1", "2"]},
        wrong="links",
    ),
    "link to oneself": Typed(
        (
            "row 2, column 'target_id', value 2: a link of a user to itself (1 row)",
            "remove them, or leave out strict",
        ),
        links={"source_id": [1, 2], "target_id": [2, 2]},
        options=STRICT,
        wrong="links",
    ),
    "unknown user": Typed(
        ("row 2, column 'target_id', value 77: a user without a record", "add the user, or leave out"),
        links={"source_id": [1, 2], "target_id": [2, 77]},
        options=STRICT,
        wrong="links",
    ),
    "text against integers": Typed(
        (
            "row 2, column 'source_id', value 'x': text, but the ids of ",
            "are integers",
            "convert one of the two, or ask for",
        ),
        links={"source_id": ["1", "x"], "target_id": ["2", "1"]},
        wrong="links",
    ),
    "digits as text against integers": Typed(
        ("row 1, column 'source_id', value '1': text, but the ids of ", "convert one of the two, or ask for text ids"),
        links={"source_id": ["1", "2"], "target_id": ["2", "1"]},
        wrong="links",
    ),
    "missing column": Typed(
        (
            "column 'item_id' is missing; the columns are user_id, behavior",
            "rename one, or map it",
            "--column item_id=NAME",
        ),
        {"user_id": [1], "behavior": ["a"]},
    ),
    "no rows": Typed(("no rows; at least one",), {"user_id": pa.array([], pa.int64()), "item_id": [], "behavior": []}),
    "list attribute": Typed(
        ("column 'x': list<", "attributes are numbers or text"), users={"user_id": [1], "x": [[1, 2]]}, wrong="users"
    ),
    "user twice": Typed(
        ("row 3, column 'user_id', value 1: duplicate user (1 row)", "list every user once"),
        users={"user_id": [1, 2, 1]},
        wrong="users",
    ),
}


@pytest.mark.parametrize("name", TYPED)
def test_mistakes_in_parquet_files(name: str, desk: Desk) -> None:
    mistake = TYPED[name]
    files = {}
    for what in ("interactions", "links", "users"):
        if getattr(mistake, what) is not None:
            files[what] = desk.path / f"{what}.parquet"
            pq.write_table(pa.table(getattr(mistake, what)), files[what])
    says = (f"error: {files[mistake.wrong]}", *mistake.says)
    desk.refuses_tables(files, *mistake.options, says=says)


def test_text_ids_of_a_text_file_against_integers_of_a_typed_one(desk: Desk) -> None:
    pq.write_table(pa.table(GOOD), desk.path / "i.parquet")
    links = desk.put("l.csv", LINKS + "2,bob\n")
    texts = (f"{links}, line 3, column 'target_id', value 'bob': text", f"{desk.path / 'i.parquet'}, column 'user_id'")
    desk.refuses_files(says=texts, interactions=desk.path / "i.parquet", links=links)
    dataset = desk.prepares_files("--id-type", "text", interactions=desk.path / "i.parquet", links=links)
    assert list(dataset.users) == ["1", "2", "bob"]


def test_columns_twice_in_parquet(desk: Desk) -> None:
    columns = [pa.array([1, 2]), pa.array([3, 4]), pa.array([5, 6]), pa.array(["a", "b"])]
    path = desk.path / "i.parquet"
    pq.write_table(pa.table(columns, names=["user_id", "user_id", "item_id", "behavior"]), path)
    desk.refuses_files(says=(f"{path}: there are two columns 'user_id'; rename one",), interactions=path)


def test_files_that_are_no_parquet(desk: Desk) -> None:
    path = desk.path / "i.parquet"
    pq.write_table(pa.table(GOOD), path)
    whole = path.read_bytes()
    texts = (f"{path}: not a readable parquet file", "write it again")
    for data in (
        b"",
        b"PAR1",
        INTERACTIONS.encode(),
        whole[: len(whole) // 2],
        whole[:-1],
        b"PAR1" + bytes(99) + b"PAR1",
    ):
        path.write_bytes(data)
        desk.refuses_files(says=texts, interactions=path)


def test_damaged_parquet_is_read_or_refused(desk: Desk) -> None:
    path = desk.path / "i.parquet"
    chance = random.Random(5)
    codes = Counter[int]()
    table = {"user_id": [f"u{n}" for n in range(20)], "item_id": list(range(20)), "behavior": ["a", "b"] * 10}
    pq.write_table(pa.table(table), path, compression="none")
    whole = path.read_bytes()
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] = chance.randrange(256)
        path.write_bytes(damaged)
        result = desk.run("data", "prepare", "files", "--interactions", path, "--out", desk.out)
        assert result.code in (0, 4), result
        assert result.code == 0 or re.fullmatch(rf"error: {path}[^\n]+\n", result.err), result.err
        shutil.rmtree(desk.path / "not", ignore_errors=True)
        codes[result.code] += 1
    assert min(codes[0], codes[4]) > 10


def test_text_in_parquet_that_is_none(desk: Desk) -> None:
    path = desk.path / "i.parquet"
    pq.write_table(pa.table(GOOD | {"user_id": ["u1", "u2", "u3"]}), path, compression="none", use_dictionary=False)
    path.write_bytes(path.read_bytes().replace(b"u2", b"\xff\xfe"))
    desk.refuses_files(says=(f"{path}: not a readable parquet file (", "UTF8", "write it again"), interactions=path)


# files and options


@pytest.mark.parametrize("name", ["i.csv", "i.tsv", "i.csv.gz", "i.inter", "i.parquet"])
def test_missing_files_and_directories(name: str, desk: Desk) -> None:
    path = desk.path / name
    desk.refuses_files(says=(f"{path}: no such file; give the path of a file",), interactions=path)
    path.mkdir()
    desk.refuses_files(says=(f"{path}: is a directory; give the path of a file",), interactions=path)


def test_missing_links_and_users(desk: Desk) -> None:
    good = desk.put("i.csv", INTERACTIONS)
    path = desk.path / "none.csv"
    desk.refuses_files(says=(f"{path}: no such file",), interactions=good, links=path)
    desk.refuses_files(says=(f"{path}: no such file",), interactions=good, users=path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("i.cvs", "unknown file type '.cvs'; did you mean '.csv'?"),
        ("i.json", "unknown file type '.json'"),
        ("interactions", "unknown file type 'interactions'"),
        ("i.gz", "unknown file type 'i.gz'"),
    ],
)
def test_unknown_file_types(name: str, message: str, desk: Desk) -> None:
    path = desk.put(name, INTERACTIONS)
    desk.refuses_files(code=2, says=(message,), interactions=path)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            ("--column", "usr_id=who"),
            2,
            "unknown standard column 'usr_id'; did you mean 'user_id'?",
        ),
        (("--column", "user_id"), 2, "--column user_id: is not a mapping"),
        (("--column", "=user_id"), 2, "--column =user_id: is not a mapping"),
        (("--column", "user_id="), 2, "--column user_id=: is not a mapping"),
        (("--column", "user_id=a", "--column", "user_id=b"), 2, "--column user_id=…: is given more than once"),
        (
            ("--column", "user_id=item_id"),
            2,
            "column 'item_id' cannot be both 'user_id' and 'item_id'; map them to two",
        ),
        (("--column", "user_id=who"), 2, "column 'who', mapped to 'user_id', is in no table that may have it"),
        (("--column", "timestamp=when"), 4, "column 'when' is missing; the columns are user_id"),
        (("--behaviors", "A"), 2, "unknown behavior 'A'; did you mean 'a'?"),
        (("--behaviors", "a,c"), 2, "unknown behavior 'c'"),
        (("--extra-behaviors", "bb"), 2, "unknown behavior 'bb'; did you mean 'b'?"),
        (("--behaviors", "a,a"), 2, "a behavior is named twice: a, a"),
        (("--behaviors", "a", "--extra-behaviors", "a"), 2, "a behavior is named twice: a, a"),
        (("--single-behavior", "x"), 2, "has a behavior column, so it cannot all be 'x'"),
        (("--min-links", "1"), 4, "none of the 2 users has at least 1 link; lower --min-links"),
        (("--min-records", "9"), 4, "none of the 2 users has at least 9 records; lower --min-records"),
    ],
)
def test_options_that_do_not_fit(options: tuple[str, ...], code: int, message: str, desk: Desk) -> None:
    path = desk.put("i.csv", INTERACTIONS)
    desk.refuses_files(*options, code=code, says=(message,), interactions=path)


def test_a_behavior_that_the_filter_empties(desk: Desk) -> None:
    interactions = desk.put("i.csv", INTERACTIONS + "1,10,b\n3,10,c\n")
    links = desk.put("l.csv", LINKS + "1,3\n")
    texts = ("behavior 'c': none of its users has at least 2 links", "lower --min-links")
    desk.refuses_files("--min-links", "2", says=texts, interactions=interactions, links=links)


def test_strange_headers_are_shown_on_one_line(desk: Desk) -> None:
    wrong = desk.put("i.csv", '"a\nb",' + ",".join(f"x{n}" for n in range(40)) + "\n")
    texts = (
        f"{wrong}: column 'user_id' is missing; the columns are 'a\\nb', x0, x1, ",
        "x28, … 11 more; rename one, or map it",
    )
    desk.refuses_files(says=texts, interactions=wrong)


def test_an_attribute_named_as_the_mapped_id(desk: Desk) -> None:
    interactions, users = desk.put("i.csv", "uid,item_id,behavior\n1,10,a\n"), desk.put("u.csv", "uid,user_id\n1,77\n")
    texts = (f"{users}: column 'user_id' exists beside 'uid', which is mapped to it; rename one",)
    desk.refuses_files("--column", "user_id=uid", says=texts, interactions=interactions, users=users)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("dta",), "unknown command 'dta'; did you mean 'data'?"),
        (("data", "descibe"), "unknown command 'descibe'; did you mean 'describe'?"),
        (("data", "prepare", "coia"), "unknown command 'coia'; did you mean 'ciao'?"),
        (("data", "describe"), "DATA: missing; see mcne data describe --help"),
        (("data", "describe", "x", "--jsn"), "--jsn: unknown option; did you mean --json?"),
        (("data", "prepare", "ciao", "--out", "x"), "--raw: missing; add --raw VALUE; see"),
        (("data", "prepare", "ciao", "--raw", "x", "--out", "y", "--aligned"), "--aligned: unknown option"),
        (
            ("data", "split", "x", "--seed", "one"),
            "--seed: 'one' is not a whole number; use ",
        ),
        (
            ("data", "export", "x", "--out", "y", "--format", "cvs"),
            "--format: unknown value 'cvs'; did",
        ),
        (
            ("data", "prepare", "files", "--interactions", "x", "--out", "y", "--min-links", "-1"),
            "--min-links: -1 is out of range",
        ),
        (
            ("data", "prepare", "files", "--interactions", "x", "--out", "y", "--id-type", "int"),
            "--id-type: unknown value 'int'; did you mean 'integer'? Otherwise, choose one of auto, integer, text",
        ),
    ],
)
def test_unknown_commands_and_options(command: tuple[str, ...], message: str, desk: Desk) -> None:
    result = desk.run(*command)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {message}")
    assert len(result.err.splitlines()) == 1
    assert tree(desk.path) == {}


def test_no_command_shows_the_help(desk: Desk) -> None:
    for command in ((), ("data",), ("data", "prepare")):
        result = desk.run(*command)
        assert result.code == 2
        assert "Usage: mcne" in result.out + result.err


def test_mistakes_in_a_process_of_their_own(desk: Desk) -> None:
    path = desk.put("i.csv", INTERACTIONS + ",10,a\n")
    given = ["data", "prepare", "files", "--interactions", str(path), "--out", str(desk.out)]
    before = tree(desk.path)
    done = subprocess.run([sys.executable, "-m", "mcne", *given], capture_output=True, text=True, check=False)
    message = f"error: {path}, line 5, column 'user_id', value '': missing value (1 row); {MISSING}\n"
    assert (done.returncode, done.stdout, done.stderr) == (4, "", message)
    assert tree(desk.path) == before


# Ciao and Epinions

RATING = np.array([[u, i, c, 5, 3, 1e9] for c in (2, 3, 5) for u in (1, 2, 3) for i in (u, u + 1)], dtype=float)
TRUST = np.array([[1, 2], [2, 3], [3, 1]], dtype=float)


def put_raw(desk: Desk, rating: Any = RATING, trust: Any = TRUST, *, key: str = "rating") -> Path:
    raw = desk.path / "raw"
    raw.mkdir(exist_ok=True)
    savemat(raw / "rating.mat", {key: rating}, do_compression=True)
    savemat(raw / "trustnetwork.mat", {"trustnetwork": trust}, do_compression=True)
    return raw


def refuses_raw(desk: Desk, *options: str, code: int = 4, says: tuple[str, ...], study: str = "ciao") -> None:
    given = ("--raw", desk.path / "raw", "--out", desk.out, "--unverified")
    desk.refuses("data", "prepare", study, *given, *options, code=code, says=says)


def changed(row: int, column: int, value: float, table: NDArray[Any] = RATING) -> NDArray[Any]:
    table = table.copy()
    table[row, column] = value
    return table


def test_raw_files_made_here_are_good(desk: Desk) -> None:
    put_raw(desk)
    desk.ok("data", "prepare", "ciao", "--raw", desk.path / "raw", "--out", desk.out, "--unverified")
    assert SocialDataset.load(desk.out).n_users == 3


@pytest.mark.parametrize(
    ("rating", "message"),
    [
        (changed(3, 0, np.nan), "row 4, column 1: nan is not a whole number"),
        (changed(3, 1, np.inf), "row 4, column 2: inf is not a whole number"),
        (changed(3, 0, -1), "row 4, column 1: -1.0 is not a whole number"),
        (changed(3, 1, 1.5), "row 4, column 2: 1.5 is not a whole number"),
        (changed(3, 2, 99), "row 4, column 3: 99.0 is not a whole number"),
        (changed(3, 2, 0), "row 4, column 3: 0.0 is not a whole number"),
        (RATING[:, :2], "18 rows of 2 columns, and 3 columns are needed"),
        (RATING[:0], "0 rows of 6 columns"),
        ("words", "'rating' is not a plain numeric matrix (class 4)"),
        (RATING * 1j, "'rating' is not a plain numeric matrix (complex, class 6)"),
    ],
    ids=["nan", "inf", "negative", "fraction", "category 99", "category 0", "columns", "rows", "text", "complex"],
)
def test_ratings_that_are_none(rating: Any, message: str, desk: Desk) -> None:
    raw = put_raw(desk, rating)
    refuses_raw(desk, says=(f"error: {raw / 'rating.mat'}", message))


def test_trust_that_is_none(desk: Desk) -> None:
    raw = put_raw(desk, trust=changed(2, 1, np.nan, TRUST))
    refuses_raw(desk, says=(f"{raw / 'trustnetwork.mat'}, row 3, column 2: nan", "is not a whole number"))


def test_missing_raw_files(desk: Desk) -> None:
    raw = put_raw(desk, key="ratings")
    refuses_raw(desk, says=(f"{raw / 'rating.mat'}: has no matrix 'rating'; it has ratings",))
    message = "no such file; put {} and trustnetwork.mat of ciao into one directory"
    refuses_raw(
        desk,
        "--timestamps",
        says=(f"{raw / 'rating_with_timestamp.mat'}: {message.format('rating_with_timestamp.mat')}",),
    )
    (raw / "trustnetwork.mat").unlink()
    refuses_raw(desk, says=(f"{raw / 'trustnetwork.mat'}: {message.format('rating.mat')}",))


def test_a_cut_mat_file(desk: Desk) -> None:
    raw = put_raw(desk)
    whole = (raw / "rating.mat").read_bytes()
    for length, advice in ((0, "save it with -v7"), (100, "save it with -v7"), (130, "download it again")):
        (raw / "rating.mat").write_bytes(whole[:length])
        refuses_raw(desk, says=(f"{raw / 'rating.mat'}: ", advice))
    (raw / "rating.mat").write_bytes(whole[:-10])
    cut = f"is truncated at byte {len(whole) - 10} of {len(whole)}; download it again"
    refuses_raw(desk, says=(f"{raw / 'rating.mat'}: {cut}",))


def test_a_mat_bomb(desk: Desk) -> None:
    raw = put_raw(desk)
    pack = zlib.compressobj(9)
    header = (raw / "rating.mat").read_bytes()[:128]
    bomb = pack.compress(struct.pack("<II", 14, 32 << 20)) + b"".join(pack.compress(bytes(1 << 20)) for _ in range(32))
    bomb += pack.flush()
    (raw / "rating.mat").write_bytes(header + struct.pack("<II", 15, len(bomb)) + bomb)
    assert (raw / "rating.mat").stat().st_size < (32 << 20) / 1000
    texts = (f"{raw / 'rating.mat'}: expands to more than 4.1 MiB from 3", " KiB, over 100×")
    refuses_raw(desk, says=texts)


def rows_of(*users: tuple[int, int]) -> NDArray[Any]:
    """Rows of users of RATING under other ids."""
    return np.concatenate([np.insert(RATING[RATING[:, 0] == user, 1:], 0, other, axis=1) for user, other in users])


ALIGNED = ("data", "prepare", "epinions", "--behaviors", "2,3,5", "--unverified", "--aligned", "--raw")


def test_aligned_ids_that_nobody_rated_with(desk: Desk) -> None:
    """2808, again 2809, and 2810 rate; links of 2808, 2809, 2810 are those of 2808, 2810, 2811, who is dropped."""
    raw = put_raw(desk, rows_of((1, 2808), (1, 2809), (2, 2810)), TRUST + 2807)
    printed = desk.ok(*ALIGNED, raw, "--out", desk.out)
    assert "users: 4 read, 2 kept, 1 dropped (fewer than 2 links), 1 dropped (fewer than 2 records)\n" in printed
    assert "links: 3 read, 1 kept, 2 dropped (to a user that is dropped)\n" in printed
    assert list(SocialDataset.load(desk.out).users) == [2808, 2810]


def test_aligned_ids_that_fill_their_type(desk: Desk) -> None:
    trust = np.array([[65_533, 65_534], [65_534, 65_535], [65_535, 65_533]], dtype=np.uint16)
    rating = rows_of((1, 2808), (1, 2809), (1, 65_534), (2, 65_535), (3, 65_536))
    desk.ok(*ALIGNED, put_raw(desk, rating, trust), "--out", desk.out)
    assert list(SocialDataset.load(desk.out).users) == [65_534, 65_535, 65_536]


@pytest.mark.parametrize("users", [((1, 2808), (2, 2809), (3, 2810)), ((1, 1), (2, 2), (3, 3))], ids=["other", "none"])
def test_ids_are_not_aligned_where_nobody_is_listed_twice(users: tuple[tuple[int, int], ...], desk: Desk) -> None:
    raw = put_raw(desk, rows_of(*users), TRUST)
    texts = (f"{raw / 'rating.mat'}: user 2808 is not listed twice", "omit --aligned")
    desk.refuses(*ALIGNED, raw, "--out", desk.out, code=4, says=texts)


@pytest.mark.parametrize("study", ["ciao", "epinions"])
def test_files_that_are_not_the_known_ones(study: str, desk: Desk) -> None:
    raw = put_raw(desk)
    texts = (f"{raw / 'rating.mat'}: its sha256 is ", "that of the known copy is", "read it anyway with --unverified")
    desk.refuses("data", "prepare", study, "--raw", raw, "--out", desk.out, says=texts)


def test_categories_without_interactions_or_unknown(desk: Desk) -> None:
    put_raw(desk)
    texts = ("behavior 'Finance': has no interactions",)
    refuses_raw(desk, "--behaviors", "Beauty,Finance", says=texts)
    refuses_raw(desk, "--extra-behaviors", "28", says=texts)
    refuses_raw(
        desk, "--behaviors", "Beuty", code=2, says=("unknown category of ciao 'Beuty'; did you mean 'Beauty'?",)
    )
    refuses_raw(
        desk, "--behaviors", "29", code=2, says=("unknown category of ciao '29'", "choose one of DVDs, Books, ")
    )
    refuses_raw(desk, "--behaviors", "Books,2", code=2, says=("a behavior is named twice: Books, 2",))
    refuses_raw(
        desk,
        "--behaviors",
        "Gmes",
        code=2,
        says=("category of epinions 'Gmes'; did you mean 'Games'?",),
        study="epinions",
    )


# what is already there


def network(desk: Desk, name: str = "network", *, timed: bool = False) -> Path:
    """A dataset of five users and eight items."""
    rows = [(u, i, b) for b in "ab" for u in range(1, 6) for i in range(u, u + 4)]
    text = "user_id,item_id,behavior" + (",timestamp" if timed else "") + "\n"
    text += "".join(f"{u},{i},{b}" + (f",{u * i}" if timed else "") + "\n" for u, i, b in rows)
    path = desk.put("network.csv", text)
    desk.ok("data", "prepare", "files", "--interactions", path, "--out", desk.path / name)
    return desk.path / name


def test_what_is_there_is_never_replaced(desk: Desk) -> None:
    made = network(desk)
    path = desk.put("i.csv", INTERACTIONS)
    again = ("data", "prepare", "files", "--interactions", path, "--out")
    desk.refuses(
        *again, made, code=2, says=(f"{made}: already contains another mcne dataset", "choose another path, or remove")
    )
    (desk.path / "full").mkdir()
    desk.put("full/notes.txt", "mine")
    desk.refuses(*again, desk.path / "full", code=2, says=(f"{desk.path / 'full'}: is not empty", "choose another"))
    desk.refuses(*again, path, code=2, says=(f"{path}: is a file; choose another path",))
    desk.refuses(*again, path / "below", code=6, says=(f"{path / 'below'}: ", "choose another path"))
    before = tree(desk.path)
    same = ("data", "prepare", "files", "--interactions", desk.path / "network.csv", "--out", made)
    assert f"saved {made} " in desk.ok(*same)
    assert tree(desk.path) == before


def test_splits_and_exports_are_never_replaced(desk: Desk) -> None:
    made = network(desk)
    desk.ok("data", "split", made, "--name", "mine", "--seed", "1")
    texts = (
        f"{made / 'splits' / 'mine'}: already contains another mcne split",
        "never replaced",
        "choose another",
    )
    desk.refuses("data", "split", made, "--name", "mine", "--seed", "2", code=2, says=texts)
    before = tree(desk.path)
    desk.ok("data", "split", made, "--name", "mine", "--seed", "1")
    assert tree(desk.path) == before
    (desk.path / "full").mkdir()
    desk.put("full/notes.txt", "mine")
    for place in (desk.path / "full", desk.path / "network.csv"):
        exists = f"{place}: already exists, and existing files are never replaced; choose another --out"
        desk.refuses("data", "export", made, "--out", place, code=2, says=(exists,))


def test_an_interrupted_write_is_cleared_by_the_next(desk: Desk) -> None:
    left = desk.path / ".network.partial"
    left.mkdir()
    (left / "users.npy").write_bytes(b"half")
    made = network(desk)
    assert SocialDataset.load(made).n_users == 5
    assert sorted(path.name for path in desk.path.iterdir()) == ["network", "network.csv"]
    (made / "splits").mkdir()
    (made / "splits" / ".mine.partial").mkdir()
    (made / "splits" / ".mine.partial" / "part.0.npy").write_bytes(b"half")
    assert json.loads(desk.ok("data", "describe", made, "--json"))["splits"] == {}  # a leftover is no split
    desk.ok("data", "split", made, "--name", "mine")
    assert [path.name for path in (made / "splits").iterdir()] == ["mine"]


def test_an_interrupted_copy_is_told_from_a_dataset(desk: Desk) -> None:
    made = network(desk)
    (made / "manifest.json").unlink()
    texts = (f"{made}: not a dataset: manifest.json is missing", "incomplete copy?")
    for command in (("describe",), ("split",), ("export", "--out", desk.path / "x")):
        desk.refuses("data", *command[:1], made, *command[1:], says=texts)


def test_data_that_is_none(desk: Desk) -> None:
    path = desk.put("i.csv", INTERACTIONS)
    for command in (("describe",), ("split",), ("export", "--out", desk.path / "x")):
        missing = (f"{desk.path / 'none'}: no such directory; prepare a dataset",)
        desk.refuses("data", command[0], desk.path / "none", *command[1:], says=missing)
        desk.refuses("data", command[0], path, *command[1:], says=(f"{path}: is a file, not a dataset",))
    desk.refuses("data", "describe", desk.path / ("x" * 300), says=("File name too long", "check the path"))


# splits


@pytest.mark.parametrize(
    "ratios", ["70,10", "70,10,10,10", "0,50,50", "-1,2,3", "nan,1,1", "inf,1,1", "a,b,c", "70;10;20", ""]
)
def test_ratios_that_are_none(ratios: str, desk: Desk) -> None:
    texts = ("ratios ", "three numbers", "70,10,20", *ratios.split(",")[:1])
    desk.refuses("data", "split", network(desk), "--ratios", ratios, code=2, says=texts)


@pytest.mark.parametrize("name", ["a/b", "../a", "/a", ".a", "..", ".", "", "a/"])
def test_names_of_splits_are_plain(name: str, desk: Desk) -> None:
    texts = (f"--name: {name!r} is not a plain name",)
    desk.refuses("data", "split", network(desk), "--name", name, code=2, says=texts)


def test_a_temporal_split_needs_times(desk: Desk) -> None:
    texts = ("behavior 'a': has no timestamps",)
    desk.refuses("data", "split", network(desk), "--temporal", says=texts)
    assert desk.run("data", "split", network(desk, "timed", timed=True), "--temporal").code == 0


def test_a_split_by_the_last_record_needs_times_and_has_no_ratios(desk: Desk) -> None:
    plain, timed = network(desk), network(desk, "timed", timed=True)
    needed = "behavior 'a': has no timestamps, which a split by each user's last record needs"
    desk.refuses("data", "split", plain, "--last", says=(needed,))
    assert desk.run("data", "split", timed, "--last").code == 0
    for other in (("--ratios", "70,10,20"), ("--temporal",), ("--from", desk.path)):
        first, second = sorted(("--last", other[0]), key=["--from", "--last", "--temporal", "--ratios"].index)
        texts = (f"{first}: cannot be combined with {second}",)
        desk.refuses("data", "split", timed, "--last", *other, code=2, says=texts)


PAIRS = [f"{u},{i},{b}" for b in "ab" for u in range(1, 6) for i in range(u, u + 4)]


def put_parts(desk: Desk, suffix: str = "csv", **parts: list[str]) -> Path:
    directory = desk.path / "parts"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for name, rows in parts.items():
        text = "\n".join(["user_id,item_id,behavior", *rows, ""])
        if suffix == "parquet":
            pq.write_table(pa_csv.read_csv(pa.BufferReader(text.encode())), directory / f"{name}.parquet")
        elif suffix == "inter":
            head, _, rest = text.partition("\n")
            desk.put(
                f"parts/{name}.inter", (",".join(map(in_recbole, head.split(","))) + "\n" + rest).replace(",", "\t")
            )
        else:
            desk.put(f"parts/{name}.{suffix}", text if suffix.startswith("csv") else text.replace(",", "\t"))
    return directory


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "inter", "parquet"])
def test_supplied_splits_list_every_interaction_once(suffix: str, desk: Desk) -> None:
    made = network(desk)

    def refuses(texts: tuple[str, ...], **parts: list[str]) -> None:
        directory = put_parts(desk, suffix, **parts)
        if suffix == "parquet":
            texts = tuple(re.sub(r"line (\d+)", lambda f: f"row {int(f[1]) - 1}", part) for part in texts)
            texts = tuple(re.sub(r"value '(\d+)'", r"value \1", part) for part in texts)
        texts = tuple(expected_text(part, "recbole") if suffix == "inter" else part for part in texts)
        desk.refuses("data", "split", made, "--name", "own", "--from", directory, says=(str(directory), *texts))

    good = {"train": PAIRS[:30], "validation": PAIRS[30:35], "test": PAIRS[35:]}
    step = "a split lists interactions of the dataset only"
    file = f"test.{suffix}, "
    for row, column, value in (("99,1,a", "user_id", "99"), ("1,99,a", "item_id", "99"), ("1,1,c", "behavior", "c")):
        wrong = good | {"test": [*PAIRS[35:], row]}
        refuses((f"{file}line 7, column {column!r}, value {value!r}: not in the dataset (1 row)", step), **wrong)
    wrong = good | {"test": [*PAIRS[35:], "1,8,a"]}  # both are known, but not together
    refuses((f"{file}line 7, column 'item_id', value '8': no interaction of this user (1 row)", step), **wrong)
    step = "listed before (1 row); an interaction has one part"
    wrong = good | {"test": [*PAIRS[35:], PAIRS[0]]}
    refuses((f"{file}line 7, column 'item_id', value '1': {step}",), **wrong)
    wrong = good | {"train": [*PAIRS[:30], PAIRS[3]]}
    refuses((f"train.{suffix}, line 32, column 'item_id', value '4': {step}",), **wrong)
    wrong = good | {"test": PAIRS[36:]}
    refuses(
        (": 1 of 20 b interactions are in no part, the first of user 4 with item 7; list every interaction",), **wrong
    )
    desk.ok("data", "split", made, "--name", "own", "--from", put_parts(desk, suffix, **good))


def test_files_of_supplied_splits(desk: Desk) -> None:
    made = network(desk)
    split = ("data", "split", made, "--name", "own", "--from")
    files = "of .csv, .tsv, .txt, .dat, .inter, .csv.gz, .tsv.gz, .txt.gz, .dat.gz, .inter.gz, .parquet or .pq"
    desk.refuses(*split, desk.path / "none", says=(f"{desk.path / 'none'}: no such directory; ", files))
    desk.refuses(*split, desk.path / "network.csv", says=("network.csv: no such directory; ", files))
    parts = put_parts(desk, validation=PAIRS)
    desk.refuses(*split, parts, says=(f"{parts}: has no file train with .csv, .tsv", "add it"))
    parts = put_parts(desk, train=PAIRS, test=[])
    desk.refuses(*split, parts, says=(f"{parts / 'test.csv'}: no rows below the header",))
    parts = put_parts(desk, train=PAIRS)
    desk.put("parts/train.tsv", "x")
    desk.refuses(*split, parts, says=(f"{parts}: has both train.csv and train.tsv; remove one",))
    parts = put_parts(desk, train=["01,1,a", *PAIRS[1:]])
    desk.refuses(
        *split, parts, says=(f"{parts / 'train.csv'}, line 2, column 'user_id', value '01': not in the dataset",)
    )
    parts = put_parts(desk, train=["1,1", *PAIRS[1:]])
    desk.refuses(*split, parts, says=(f"{parts / 'train.csv'}, line 2: 2 fields where the header has 3 ('1,1')",))
    desk.refuses(*split, parts, "--temporal", code=2, says=("--from: cannot be combined with --temporal",))


# damaged artifacts


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def test_every_damaged_file_is_named(desk: Desk) -> None:
    made = network(desk, timed=True)
    desk.ok("data", "split", made, "--name", "mine")
    files = [path for path in sorted(made.rglob("*")) if path.is_file()]
    assert len(files) == 27  # 11 arrays of the dataset, 14 of the split, two manifests
    for file in files:
        whole = file.read_bytes()
        step = "make it again" if file.name == "manifest.json" else "make the artifact again"
        flip(file, len(whole) // 2)
        desk.refuses("data", "describe", made, code=5, says=(f"error: {file}: ", "restore", step))
        file.write_bytes(whole[:-1])
        desk.refuses("data", "describe", made, code=5, says=(f"error: {file}: ", "restore", step))
        if file.name != "manifest.json":
            file.unlink()
            desk.refuses("data", "describe", made, code=5, says=(f"error: {file}: is missing; restore it", step))
        file.write_bytes(whole)
    desk.ok("data", "describe", made)


def test_damage_is_found_by_every_command(desk: Desk) -> None:
    made = network(desk)
    flip(made / "users.npy", -1)
    texts = (f"{made / 'users.npy'}: its sha256 does not match its manifest; restore it or make the artifact again",)
    for command in (("describe",), ("split",), ("export", "--out", desk.path / "x")):
        desk.refuses("data", command[0], made, *command[1:], code=5, says=texts)
    again = ("data", "prepare", "files", "--interactions", desk.path / "network.csv", "--out", made)
    desk.refuses(*again, code=5, says=texts)


def test_newer_formats(desk: Desk) -> None:
    made = network(desk)
    desk.ok("data", "split", made, "--name", "mine")
    for path, kind in ((made / "splits" / "mine", splits.KIND), (made, datasets.KIND)):
        old = files.read(path, kind, 1)
        arrays = {name: np.array(array) for name, array in old.arrays.items()}
        for file in path.iterdir():
            if file.is_file():
                file.unlink()
        files.write(desk.path / "newer", kind, 2, meta=old.meta, provenance=old.provenance, arrays=arrays)
        for file in (desk.path / "newer").iterdir():
            file.rename(path / file.name)
        (desk.path / "newer").rmdir()
        texts = (
            f"{path}: was written by a newer mcne: {kind} format 2, and this one reads format 1",
            "make it again, or use",
        )
        desk.refuses("data", "describe", made, code=5, says=texts)


def test_a_split_of_another_dataset(desk: Desk) -> None:
    made, other = network(desk), network(desk, "other", timed=True)
    desk.ok("data", "split", other, "--name", "theirs")
    shutil.copytree(other / "splits", made / "splits")
    theirs, ours = (SocialDataset.load(path).fingerprint[:12] for path in (other, made))
    place = made / "splits" / "theirs"
    texts = (f"{place}: belongs to dataset {theirs}, not to this one ({ours}); make the split again",)
    desk.refuses("data", "describe", made, code=5, says=texts)
    desk.refuses("data", "describe", made / "splits" / "theirs", code=5, says=("is a split, not a dataset",))


# disks that refuse


def test_a_full_disk(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(desk)
    usage = shutil.disk_usage(desk.path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=10))
    # 5 users, 8 items of each behavior: int64; offsets of 5 users: int32; 20 interactions of each: two int32
    needed = 5 * 8 + 6 * 4 + 2 * (8 * 8 + 20 * 4 + 20 * 4)
    texts = (
        f"({needed} bytes needed, 10 free, {needed - 10} missing); no partial files were left behind; free some disk "
        "space, or",
    )
    command = ("data", "prepare", "files", "--interactions", desk.path / "network.csv", "--out", desk.out)
    desk.refuses(*command, code=6, says=(f"{desk.out}: No space left on device", *texts))
    desk.refuses(
        "data", "split", made, code=6, says=(f"{made / 'splits' / 'random-0'}: No space left", "10 free", "missing)")
    )


@pytest.mark.parametrize("number", [1, 2, 9, 15])
def test_a_disk_that_fills_up_meanwhile(number: int, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(desk)
    monkeypatch.setattr(files, "_write_all", full_at(number))
    command = ("data", "prepare", "files", "--interactions", desk.path / "network.csv", "--out", desk.out)
    desk.refuses(
        *command, code=6, says=(f"{desk.out}: No space left on device (", "bytes needed", "free some disk space")
    )
    monkeypatch.setattr(files, "_write_all", full_at(number))
    desk.refuses("data", "split", made, code=6, says=(f"{made / 'splits' / 'random-0'}: No space left on device (",))


@pytest.mark.parametrize("kind", ["csv", "recbole", "parquet"])
def test_a_disk_that_fills_up_during_an_export(kind: str, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    made = network(desk)

    def full(*_args: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pa_csv, "write_csv", full)
    monkeypatch.setattr(pq, "write_table", full)
    texts = (f"{desk.path / 'out'}: No space left on device (", "free some disk space")
    desk.refuses("data", "export", made, "--out", desk.path / "out", "--format", kind, code=6, says=texts)


LIMITED = """
import resource, sys
from mcne.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
sys.argv = ["mcne", *sys.argv[1:]]
main()
"""


def test_a_disk_that_really_refuses(desk: Desk) -> None:
    rows = "".join(f"{n},{n * 7},a\n" for n in range(2000))
    path = desk.put("many.csv", "user_id,item_id,behavior\n" + rows)
    desk.ok("data", "prepare", "files", "--interactions", path, "--out", desk.path / "many")
    before = tree(desk.path)
    commands = (
        ("prepare", "files", "--interactions", path, "--out", desk.out),
        ("split", desk.path / "many"),
        ("export", desk.path / "many", "--out", desk.path / "out", "--format", "csv"),
        ("export", desk.path / "many", "--out", desk.path / "out", "--format", "parquet"),
    )
    for command in commands:
        started = [sys.executable, "-c", LIMITED, "data", *map(str, command)]
        done = subprocess.run(started, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (6, ""), done
        assert re.fullmatch(r"error: .*(File too large|too large).*; choose another path\n", done.stderr)
        assert tree(desk.path) == before


# signals

SLOW = """
import sys, time
from mcne import files
from mcne.cli.main import main
write_file = files._write_file
def slow(path, chunks):
    entry = write_file(path, chunks)
    print("writing", flush=True)
    time.sleep(60)
    return entry
files._write_file = slow
sys.argv = ["mcne", *sys.argv[1:]]
main()
"""


def interrupted(desk: Desk, number: int) -> tuple[int, str]:
    """Send a signal to a process that is in the midst of writing."""
    command = ["data", "prepare", "files", "--interactions", str(desk.path / "network.csv"), "--out", str(desk.out)]
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    assert [path.name for path in desk.out.parent.iterdir()] == [".out.partial"]
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    return process.returncode, errors


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_leave_nothing(number: int, code: int, desk: Desk) -> None:
    network(desk)
    before = tree(desk.path)
    assert interrupted(desk, number) == (code, "")
    assert tree(desk.path) == before


def test_what_a_killed_process_left_is_cleared(desk: Desk) -> None:
    network(desk)
    assert interrupted(desk, signal.SIGKILL) == (-signal.SIGKILL, "")
    assert [path.name for path in desk.out.parent.iterdir()] == [".out.partial"]
    texts = (f"{desk.out}: no such directory; prepare a dataset",)
    desk.refuses("data", "describe", desk.out, says=texts)
    desk.ok("data", "prepare", "files", "--interactions", desk.path / "network.csv", "--out", desk.out)
    assert [path.name for path in desk.out.parent.iterdir()] == ["out"]
    assert SocialDataset.load(desk.out).n_users == 5
