"""Every ``mcne data`` command on good input: what it prints, writes and imports; and what is a problem for a doctor."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from tests.cli.in_process import Run
from tests.mistakes.mistakes import prepare
from tests.values import not_none

import mcne
from mcne.cli import machine
from mcne.data.dataset import SocialDataset
from mcne.data.split import Split

INTERACTIONS = """\
user_id,item_id,behavior,timestamp
1,10,read,100
1,11,read,200
2,10,read,300
2,10,read,250
3,12,read,400
1,10,watch,500
3,10,watch,600
"""
LINKS = """\
source_id,target_id
1,2
2,1
1,3
1,3
3,3
4,3
"""
USERS = """\
user_id,age,city
1,30,Hefei
2,,Beijing
3,41.5,
"""
REPORT = """\
users: 4 read, 4 kept
links: 6 read, 3 kept, 1 merged (repeat of the same link), 1 merged (other direction of a link), 1 dropped (to oneself)
read interactions: 5 read, 4 kept, 1 merged (repeat of the same user and item)
read items: 3 read, 3 kept
watch interactions: 2 read, 2 kept
watch items: 1 read, 1 kept
SocialDataset 'tiny': 4 users (integer ids), 3 unweighted links, 0 users without links
  read           3 items            4 interactions by 3 users, timed
  watch          1 item             2 interactions by 2 users, timed
  attributes: age, city
"""


@pytest.fixture
def ok(run: Run) -> Callable[..., str]:
    """What a command prints that must succeed, with nothing on stderr."""

    def command(*args: object) -> str:
        result = run(*args)
        assert (result.code, result.err) == (0, ""), result
        return result.out

    return command


Ok = Callable[..., str]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    (tmp_path / "interactions.csv").write_text(INTERACTIONS)
    (tmp_path / "links.csv").write_text(LINKS)
    (tmp_path / "users.csv").write_text(USERS)
    return tmp_path


def sources(directory: Path, *names: str) -> list[object]:
    flags = ("--interactions", "--links", "--users")
    return [part for flag, name in zip(flags, names, strict=False) for part in (flag, directory / name)]


@pytest.fixture
def tiny(tables: Path, ok: Ok) -> Path:
    ok(
        "data",
        "prepare",
        "files",
        *sources(tables, "interactions.csv", "links.csv", "users.csv"),
        "--out",
        tables / "tiny",
    )
    return tables / "tiny"


@pytest.fixture
def grid(tmp_path: Path, ok: Ok) -> Path:
    """Ten users and ten items, each with each, as ``a`` and as ``b``: the time rises with user and item."""
    rows = [f"{u},{i},{b},{100 * u + i}\n" for b in "ab" for u in range(10) for i in range(10)]
    (tmp_path / "grid.csv").write_text("user_id,item_id,behavior,timestamp\n" + "".join(rows))
    ok("data", "prepare", "files", "--interactions", tmp_path / "grid.csv", "--out", tmp_path / "grid")
    return tmp_path / "grid"


def outside(*args: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line as a process of its own."""
    command = [sys.executable, "-m", "mcne", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)


# the program itself


def test_version(ok: Ok) -> None:
    assert ok("--version") == f"mcne {mcne.__version__}\n"


def test_module_and_script_are_the_same_program() -> None:
    module = outside("--version")
    script = shutil.which("mcne", path=str(Path(sys.executable).parent))
    assert script is not None
    other = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert (module.returncode, module.stdout, module.stderr) == (0, f"mcne {mcne.__version__}\n", "")
    assert other.stdout == module.stdout


@pytest.mark.parametrize(
    ("command", "listed"),
    [
        ((), ["data"]),
        (("data",), ["prepare", "split", "describe", "export"]),
        (("data", "prepare"), ["ciao", "epinions", "files"]),
        (
            ("data", "prepare", "files"),
            ["--interactions", "--links", "--users", "--column", "--out", "--directed", "--strict"],
        ),
        (("data", "prepare", "epinions"), ["--raw", "--out", "--timestamps", "--aligned"]),
        (("data", "split"), ["--name", "--seed", "--ratios", "--temporal", "--last", "--from"]),
        (("data", "describe"), ["--json"]),
        (("data", "export"), ["--format", "--out"]),
    ],
)
def test_help_lists_what_there_is(command: tuple[str, ...], listed: list[str], ok: Ok) -> None:
    shown = ok(*command, "--help")
    assert "Usage: mcne" in shown
    for name in listed:
        assert f" {name} " in shown


IMPORTS = """
import json, sys
from mcne.cli.main import main
for command in json.loads(sys.argv[1]):
    sys.argv = ["mcne", *command]
    try:
        main()
    except SystemExit as left:
        assert not left.code, left.code
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""


def imported(*commands: list[str]) -> set[str]:
    """The packages that these commands load."""
    command = [sys.executable, "-c", IMPORTS, json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr))


def test_help_loads_nothing_heavy() -> None:
    loaded = imported(["--version"], ["--help"], ["data", "--help"], ["data", "prepare", "files", "--help"])
    assert "mcne" in loaded
    assert not loaded & {"torch", "numba", "scipy", "numpy", "pyarrow", "pandas", "polars", "matplotlib", "sklearn"}


def test_data_commands_never_load_torch(tiny: Path) -> None:
    loaded = imported(["data", "split", str(tiny)], ["data", "describe", str(tiny)])
    assert {"numpy", "pyarrow"} <= loaded
    assert not loaded & {"torch", "numba", "matplotlib", "sklearn"}


# prepare


def test_prepare_accounts_for_every_row(tables: Path, ok: Ok) -> None:
    given = sources(tables, "interactions.csv", "links.csv", "users.csv")
    printed = ok("data", "prepare", "files", *given, "--out", tables / "tiny")
    dataset = SocialDataset.load(tables / "tiny")
    assert printed == f"{REPORT}saved {tables / 'tiny'} {dataset.fingerprint}\n"
    assert list(dataset.users) == [1, 2, 3, 4]
    assert dataset.graph.neighbors(2).tolist() == [0, 3]
    read, watch = dataset.behaviors
    assert list(zip(read.user.tolist(), read.item.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 0), (2, 2)]
    assert read.timestamp is not None
    assert read.timestamp.tolist() == [100, 200, 250, 400]  # of a repeated pair the earliest
    assert list(watch.items) == [10]
    assert np.array_equal(dataset.attributes["age"].values, [30, np.nan, 41.5, np.nan], equal_nan=True)
    cities = dataset.attributes["city"]
    assert cities.categories is not None
    assert [list(cities.categories)[row] if row >= 0 else None for row in cities.values] == [
        "Hefei",
        "Beijing",
        None,
        None,
    ]


def as_recbole(text: str) -> str:
    numbers = ("timestamp", "weight", "age")
    head, _, rows = text.replace(",", "\t").partition("\n")
    return "\t".join(f"{name}:{'float' if name in numbers else 'token'}" for name in head.split("\t")) + "\n" + rows


def as_parquet(text: str, path: Path) -> None:
    pq.write_table(pa_csv.read_csv(pa.BufferReader(text.encode())), path)


@pytest.mark.parametrize("kind", ["tsv", "txt", "csv.gz", "tsv.gz", "recbole", "recbole.gz", "parquet", "pq"])
def test_every_file_type_gives_the_same_dataset(kind: str, tiny: Path, tables: Path, ok: Ok) -> None:
    suffix, _, packed = kind.partition(".")
    given: list[object] = []
    for what, text in (("interactions", INTERACTIONS), ("links", LINKS), ("users", USERS)):
        atomic = {"interactions": "inter", "links": "net", "users": "user"}[what]
        path = tables / f"other-{what}.{kind.replace('recbole', atomic)}"
        given += [f"--{what}", path]
        if suffix in ("parquet", "pq"):
            as_parquet(text, path)
            continue
        written = {"csv": text, "recbole": as_recbole(text)}.get(suffix, text.replace(",", "\t")).encode()
        path.write_bytes(gzip.compress(written) if packed else written)
    ok("data", "prepare", "files", *given, "--out", tables / "other", "--name", "tiny")
    assert SocialDataset.load(tables / "other").fingerprint == SocialDataset.load(tiny).fingerprint


def test_the_order_of_rows_does_not_matter(tiny: Path, tables: Path, ok: Ok) -> None:
    head, *rows = INTERACTIONS.splitlines()
    (tables / "shuffled.csv").write_text("\n".join([head, *reversed(rows)]))  # and without a last line break
    given = sources(tables, "shuffled.csv", "links.csv", "users.csv")
    ok("data", "prepare", "files", *given, "--out", tables / "other", "--name", "tiny")
    assert SocialDataset.load(tables / "other").fingerprint == SocialDataset.load(tiny).fingerprint


def test_columns_are_mapped(tables: Path, tiny: Path, ok: Ok) -> None:
    for name, text in (("i", INTERACTIONS), ("l", LINKS), ("u", USERS)):
        own = text.replace("user_id", "who").replace("item_id", "what").replace("source_id", "from")
        (tables / f"{name}.csv").write_text(own)
    maps = ["--column", "user_id=who", "--column", "item_id=what", "--column", "source_id=from"]
    given = sources(tables, "i.csv", "l.csv", "u.csv")
    ok("data", "prepare", "files", *given, *maps, "--out", tables / "other", "--name", "tiny")
    assert SocialDataset.load(tables / "other").fingerprint == SocialDataset.load(tiny).fingerprint


def test_behaviors_are_chosen_and_ordered(tables: Path, ok: Ok) -> None:
    given = sources(tables, "interactions.csv", "links.csv")
    ok("data", "prepare", "files", *given, "--behaviors", "watch,read", "--out", tables / "both")
    assert SocialDataset.load(tables / "both").behavior_names == ["watch", "read"]
    printed = ok("data", "prepare", "files", *given, "--behaviors", "watch", "--out", tables / "one")
    assert SocialDataset.load(tables / "one").behavior_names == ["watch"]
    assert "interactions of other behaviors: 5 read, 0 kept, 5 dropped (behavior not chosen)\n" in printed
    ok(
        "data",
        "prepare",
        "files",
        *given,
        "--extra-behaviors",
        "watch",
        "--min-records",
        "2",
        "--out",
        tables / "extra",
    )
    extra = SocialDataset.load(tables / "extra")
    assert (extra.behavior_names, list(extra.users)) == (["read", "watch"], [1])  # 3 has two records, one of them extra


def test_single_behavior_needs_no_column(tables: Path, ok: Ok) -> None:
    (tables / "plain.csv").write_text("user_id,item_id\n1,10\n2,10\n")
    command = ("data", "prepare", "files", "--interactions", tables / "plain.csv", "--single-behavior", "rating")
    ok(*command, "--out", tables / "plain")
    dataset = SocialDataset.load(tables / "plain")
    assert (dataset.name, dataset.behavior_names, len(dataset.behaviors[0])) == ("plain", ["rating"], 2)


def test_filters(tables: Path, ok: Ok) -> None:
    given = sources(tables, "interactions.csv", "links.csv")
    printed = ok("data", "prepare", "files", *given, "--min-links", "2", "--out", tables / "linked")
    assert list(SocialDataset.load(tables / "linked").users) == [1, 3]
    assert "users: 4 read, 2 kept, 2 dropped (fewer than 2 links)\n" in printed
    ok("data", "prepare", "files", *given, "--min-records", "1", "--drop-isolated", "--out", tables / "recorded")
    assert list(SocialDataset.load(tables / "recorded").users) == [1, 2, 3]


def test_self_links_are_kept_on_demand(tables: Path, ok: Ok) -> None:
    given = sources(tables, "interactions.csv", "links.csv")
    ok("data", "prepare", "files", *given, "--keep-self-links", "--out", tables / "kept")
    assert SocialDataset.load(tables / "kept").graph.n_self_links() == 1


def test_ids_are_text_on_demand(tables: Path, ok: Ok) -> None:
    given = sources(tables, "interactions.csv", "links.csv", "users.csv")
    ok("data", "prepare", "files", *given, "--id-type", "text", "--out", tables / "text")
    dataset = SocialDataset.load(tables / "text")
    assert list(dataset.users) == ["1", "2", "3", "4"]
    assert list(dataset.behavior("read").items) == ["10", "11", "12"]


def test_the_name_is_that_of_the_directory(tables: Path, ok: Ok, monkeypatch: pytest.MonkeyPatch) -> None:
    (tables / "here").mkdir()
    monkeypatch.chdir(tables / "here")
    ok("data", "prepare", "files", "--interactions", tables / "interactions.csv", "--out", "../here/../there")
    assert SocialDataset.load(tables / "there").name == "there"


def test_preparing_again_changes_nothing(tables: Path, tiny: Path, ok: Ok) -> None:
    times = {path: path.stat().st_mtime_ns for path in tiny.rglob("*")}
    given = sources(tables, "interactions.csv", "links.csv", "users.csv")
    assert ok("data", "prepare", "files", *given, "--out", tiny).startswith(REPORT)
    assert {path: path.stat().st_mtime_ns for path in tiny.rglob("*")} == times


def test_ciao_as_the_paper_has_it(raw_data: Path, tmp_path: Path, ok: Ok) -> None:
    printed = ok("data", "prepare", "ciao", "--raw", raw_data / "ciao", "--out", tmp_path / "ciao", "--timestamps")
    dataset = SocialDataset.load(tmp_path / "ciao")
    about, *behaviors, saved = printed.splitlines()[-5:]
    assert about.startswith("SocialDataset 'ciao': 4,321 users (integer ids), 60,704 unweighted links, ")
    for line, counts in zip(
        behaviors,
        (
            "Beauty      9,243 items       23,091 interactions",
            "Books      12,409 items       21,105 interactions",
            "Travel     11,899 items       20,857 interactions",
        ),
        strict=True,
    ):
        assert counts in line
        assert line.endswith(", timed")
    assert saved == f"saved {tmp_path / 'ciao'} {dataset.fingerprint}"


def test_epinions_with_other_categories(raw_data: Path, tmp_path: Path, ok: Ok) -> None:
    command = ("data", "prepare", "epinions", "--raw", raw_data / "epinions", "--out", tmp_path / "e")
    ok(*command, "--behaviors", "games,7", "--extra-behaviors", "Sports & Outdoors")
    assert SocialDataset.load(tmp_path / "e").behavior_names == ["Games", "Electronics", "Sports & Outdoors"]


def test_epinions_whose_links_mean_the_users_that_rated(raw_data: Path, tmp_path: Path, ok: Ok) -> None:
    command = ("data", "prepare", "epinions", "--raw", raw_data / "epinions", "--out")
    printed = ok(*command, tmp_path / "e")
    notes = [line for line in printed.splitlines() if line.startswith("note: ")]
    assert len(notes) == 2
    assert "rating.mat lists user 2808 a second time, as 2809, and" in notes[0]
    assert notes[0].endswith("mean other users; --aligned (in Python aligned=True) corrects them")
    assert "linked users are hardly more similar than random pairs (ratio: Games 1.08 ± 0.08, " in notes[1]
    printed = ok(*command, tmp_path / "a", "--aligned")
    assert "note: " not in printed
    assert "SocialDataset 'epinions-aligned': 10,790 users (integer ids), 195,108 unweighted links" in printed
    assert SocialDataset.load(tmp_path / "a").provenance["listed_twice"] == 2808
    shown = ok("data", "describe", tmp_path / "a")
    assert re.search(r"^Games +0\.018 +0\.0085 +2\.14 ± 0\.11 +58,933$", shown, re.MULTILINE)


def test_ratings_items_names_and_separators(tmp_path: Path, ok: Ok) -> None:
    (tmp_path / "r.dat").write_text(
        "user_id/movie/stars/when\n1/10/5/2021-05-06\n1/11/2/2021-05-06\n2/11/4/2021-05-07\n"
    )
    (tmp_path / "m.csv").write_text("movie/title/year\n10/Dune/1984\n11/Solaris/1972\n")
    (tmp_path / "k.tsv").write_text("user_id/movie\n2/10\n")
    columns = {"item_id": "movie", "rating": "stars", "timestamp": "when", "name": "title"}
    options = [part for pair in columns.items() for part in ("--column", "=".join(pair))]
    files = ["--interactions", tmp_path / "r.dat", "--items", tmp_path / "m.csv", "--known", tmp_path / "k.tsv"]
    wanted = ["--single-behavior", "Films", "--positive-from", "4", "--sep", "/"]
    printed = ok("data", "prepare", "files", *files, *options, *wanted, "--out", tmp_path / "d")
    assert "Films known only (rated below 4 or listed as known): 2 read, 2 kept" in printed
    assert "items listed: 2 read, 2 kept" in printed
    films = SocialDataset.load(tmp_path / "d").behaviors[0]
    assert not_none(films.weight).tolist() == [5, 4]
    assert (not_none(films.known_user).tolist(), not_none(films.known_item).tolist()) == ([0, 1], [1, 0])
    assert list(not_none(films.names)) == ["Dune", "Solaris"]
    assert not_none(films.timestamp).tolist() == [1_620_259_200, 1_620_345_600]
    shown = ok("data", "describe", tmp_path / "d")
    assert re.search(r"^Films +4 +4.5 +5 +2 +2$", shown, re.MULTILINE)


def test_tabs_may_be_written_as_such_on_the_command_line(tmp_path: Path, ok: Ok) -> None:
    (tmp_path / "i.csv").write_text("user_id\titem_id\tbehavior\ta,b\n1\t2\tx\ty\n")
    ok("data", "prepare", "files", "--interactions", tmp_path / "i.csv", "--sep", r"\t", "--out", tmp_path / "d")
    assert SocialDataset.load(tmp_path / "d").n_users == 1


def test_ciao_from_four_stars_on(raw_data: Path, tmp_path: Path, ok: Ok) -> None:
    raw = raw_data / "ciao"
    printed = ok("data", "prepare", "ciao", "--raw", raw, "--positive-from", 4, "--out", tmp_path / "c")
    assert printed.count("known only (rated below 4)") == 3
    assert SocialDataset.load(tmp_path / "c").provenance["positive_from"] == 4


# split


def test_random_split(grid: Path, ok: Ok) -> None:
    printed = ok("data", "split", grid, "--name", "mine", "--seed", "3")
    assert printed.startswith("a: 70 train, 10 validation, 20 test\nb: 70 train, 10 validation, 20 test\nnote: ")
    split = Split.load(grid / "splits" / "mine", SocialDataset.load(grid))
    assert printed.endswith(f"\nsplit mine {split.fingerprint}\n")
    assert split.settings == {"kind": "random", "ratios": [70.0, 10.0, 20.0], "seed": 3}
    assert [np.bincount(part).tolist() for part in split.parts] == [[70, 10, 20], [70, 10, 20]]
    assert ok("data", "split", grid, "--name", "mine", "--seed", "3") == printed
    assert ok("data", "split", grid, "--name", "other", "--seed", "4").rsplit(" ", 1)[1] != split.fingerprint + "\n"


def test_ratios_are_shares_of_their_sum(grid: Path, ok: Ok) -> None:
    assert ok("data", "split", grid, "--ratios", "1,0.5,0.5").startswith("a: 50 train, 25 validation, 25 test\n")
    assert [path.name for path in (grid / "splits").iterdir()] == ["random-0"]
    printed = ok("data", "split", grid, "--name", "all", "--ratios", "1,0,0")
    assert "note: a: no interactions in validation and test\n" in printed


def test_temporal_split(grid: Path, ok: Ok) -> None:
    assert ok("data", "split", grid, "--name", "t", "--temporal").startswith("a: 70 train, 10 validation, 20 test\n")
    part = Split.load(grid / "splits" / "t", SocialDataset.load(grid)).parts[0]
    assert part.tolist() == [0] * 70 + [1] * 10 + [2] * 20  # the time rises with user and item, as the rows do


def test_a_split_by_the_last_record(grid: Path, ok: Ok) -> None:
    printed = ok("data", "split", grid, "--last", "--seed", "2")
    dataset = SocialDataset.load(grid)
    split = Split.load(grid / "splits" / "last-2", dataset)
    assert printed.endswith(f"\nsplit last-2 {split.fingerprint}\n")
    assert split.settings == {"kind": "last", "seed": 2}
    users = len(set(dataset.behaviors[0].user.tolist()))
    assert printed.startswith(f"a: {100 - 2 * users} train, {users} validation, {users} test\n")


def test_directed_links_are_kept_as_they_are(tmp_path: Path, ok: Ok) -> None:
    (tmp_path / "i.csv").write_text("user_id,item_id,behavior\n1,1,a\n2,1,a\n3,2,a\n")
    (tmp_path / "l.csv").write_text("source_id,target_id\n1,2\n2,1\n3,1\n3,1\n")
    given = ("--interactions", tmp_path / "i.csv", "--links", tmp_path / "l.csv", "--directed")
    printed = ok("data", "prepare", "files", *given, "--out", tmp_path / "d")
    assert "links: 4 read, 3 kept, 1 merged (repeat of the same link)\n" in printed
    assert "SocialDataset 'd': 3 users (integer ids), 3 unweighted directed links, 0 users without links" in printed
    graph = SocialDataset.load(tmp_path / "d").graph
    assert [graph.neighbors(row).tolist() for row in range(3)] == [[1], [0], [0]]
    shown = ok("data", "describe", tmp_path / "d")
    assert "d  3 users, 3 directed links" in shown
    assert "Followed per user" in shown
    assert "Followers per user" in shown
    described = json.loads(ok("data", "describe", tmp_path / "d", "--json"))
    assert (described["links"], described["directions"], described["directed"]) == (3, 3, True)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "parquet", "inter"])
def test_a_split_of_ones_own(suffix: str, grid: Path, tmp_path: Path, ok: Ok) -> None:
    part = np.random.default_rng(0).integers(0, 3, size=200)
    rows = [f"{u},{i},{b}" for b in "ab" for u in range(10) for i in range(10)]
    (tmp_path / "own").mkdir()
    for number, name in enumerate(("train", "validation", "test")):
        listed = [row for row, wanted in zip(rows, part, strict=True) if wanted == number]
        text = "\n".join(["user_id,item_id,behavior", *reversed(listed)])
        path = tmp_path / "own" / f"{name}.{suffix}"
        if suffix == "parquet":
            as_parquet(text, path)
        else:
            written = {"csv": text, "csv.gz": text, "inter": as_recbole(text)}.get(suffix, text.replace(",", "\t"))
            path.write_bytes(gzip.compress(written.encode()) if suffix == "csv.gz" else written.encode())
    ok("data", "split", grid, "--name", "own", "--from", tmp_path / "own")
    split = Split.load(grid / "splits" / "own", SocialDataset.load(grid))
    assert np.concatenate(split.parts).tolist() == part.tolist()
    assert split.settings == {"kind": "supplied", "seed": 0}


# describe


def test_describe_as_json(tiny: Path, ok: Ok) -> None:
    ok("data", "split", tiny, "--ratios", "1,0,0", "--name", "whole")
    described = json.loads(ok("data", "describe", tiny, "--json"))
    assert described["fingerprint"] == SocialDataset.load(tiny).fingerprint
    shown = ("name", "users", "links", "directions", "weighted", "self_links", "attributes")
    assert {key: described[key] for key in shown} == {
        "name": "tiny",
        "users": 4,
        "links": 3,
        "directions": 6,
        "weighted": False,
        "self_links": 0,
        "attributes": ["age", "city"],
    }
    assert (described["users_without_links"], described["users_without_records"]) == (0, 1)
    assert described["degree"]["histogram"] == [{"from": 1, "to": 1, "count": 2}, {"from": 2, "to": 3, "count": 2}]
    assert described["overlap"] == [{"behaviors": ["read", "watch"], "users": 2, "share": 2 / 3}]
    read, watch = described["behaviors"]
    assert (read["name"], read["items"], read["interactions"], read["users"]) == ("read", 3, 4, 3)
    assert (read["density"], read["cold_user_share"], read["single_record_item_share"]) == (4 / 12, 1 / 4, 2 / 3)
    assert (watch["density"], watch["cold_user_share"], watch["timestamps"]) == (2 / 4, 2 / 4, True)
    alike = read["likeness"]  # 1 has items 10, 11, and of its friends 2 has 10 and 3 has 12
    assert (alike["links"], alike["friends"], alike["chance"]) == (2, pytest.approx(8**-0.5), pytest.approx(0.08**0.5))
    assert (alike["ratio"], alike["ratio_error"]) == (pytest.approx(1.25), pytest.approx(1.25))
    (split,) = described["splits"].values()
    assert split["settings"] == {"kind": "random", "ratios": [1.0, 0.0, 0.0], "seed": 0}
    assert [(part["train"], part["validation"], part["test"]) for part in split["behaviors"]] == [(4, 0, 0), (2, 0, 0)]


def test_json_alone_is_on_stdout_of_the_process(tiny: Path) -> None:
    done = outside("data", "describe", tiny, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["users"] == 4
    assert done.stdout.startswith("{")
    assert done.stdout.endswith("}\n")


def test_describe_for_a_person(tiny: Path, ok: Ok) -> None:
    ok("data", "split", tiny, "--name", "whole", "--ratios", "1,0,0")
    shown = ok("data", "describe", tiny)
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert lines[0] == "tiny 4 users, 3 links"
    assert lines[1] == SocialDataset.load(tiny).fingerprint
    assert "1 users without any record (cold)" in lines
    assert "read 3 4 3 25.0% 33.3333% 66.7% yes" in lines
    assert "watch 1 2 2 50.0% 50.0000% 0.0% yes" in lines
    assert "read 0.35 0.28 1.25 ± 1.25 2" in lines
    assert "watch 1.0 1.0 1.00 1" in lines
    assert "read 2 (67%)" in lines
    assert "read 4 0 0 0 0.0% 0.0%" in lines
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("name", ["[/dim]", "[red]x", ":smile:", "[b]x[/b]", "a,b|c"])
def test_names_are_shown_as_they_are(name: str, tmp_path: Path, ok: Ok) -> None:
    rows = {"user_id": [1, 2], "item_id": [1, 1], "behavior": [name, "other"]}
    pq.write_table(pa.table(rows), tmp_path / "i.parquet")
    pq.write_table(pa.table({"user_id": [1], f"x{name}": [1.0]}), tmp_path / "u.parquet")
    given = ("--interactions", tmp_path / "i.parquet", "--users", tmp_path / "u.parquet")
    ok("data", "prepare", "files", *given, "--out", tmp_path / "d", "--name", f"n{name}")
    shown = ok("data", "describe", tmp_path / "d")
    assert f"n{name}  2 users, 0 links" in shown
    assert f"attributes: x{name}" in shown
    assert shown.count(name) >= 4  # those two, the table and the plot


# export


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("parquet", ["interactions.parquet", "links.parquet", "users.parquet"]),
        ("csv", ["interactions.csv", "links.csv", "users.csv"]),
        ("recbole", ["out.inter", "out.net", "out.user"]),
    ],
)
def test_what_is_exported_comes_back_the_same(kind: str, files: list[str], tiny: Path, tmp_path: Path, ok: Ok) -> None:
    out = tmp_path / "deep" / "out"
    assert ok("data", "export", tiny, "--out", out, "--format", kind).splitlines() == [
        str(out / file) for file in files
    ]
    assert sorted(path.name for path in out.iterdir()) == files
    assert [path.name for path in out.parent.iterdir()] == ["out"]
    given = sources(out, *files)
    ok("data", "prepare", "files", *given, "--out", tmp_path / "back", "--name", "tiny")
    assert SocialDataset.load(tmp_path / "back").fingerprint == SocialDataset.load(tiny).fingerprint


def test_parquet_is_what_is_exported_by_default(tiny: Path, tmp_path: Path, ok: Ok) -> None:
    ok("data", "export", tiny, "--out", tmp_path / "out")
    links = pq.read_table(tmp_path / "out" / "links.parquet")
    assert links.to_pydict() == {"source_id": [1, 1, 3], "target_id": [2, 3, 4]}


# doctor


@pytest.mark.parametrize(
    ("driver", "torch", "is_told"),
    [
        ("nowhere", {"cuda": "12.8", "gpus": []}, False),
        ("", {"cuda": "12.8", "gpus": []}, True),
        ("", {"cuda": "12.8", "gpus": ["H200"]}, False),
        ("", {"cuda": None, "gpus": []}, False),
    ],
)
def test_a_cuda_build_without_a_gpu_is_a_problem_only_beside_a_driver(
    driver: str, torch: dict[str, Any], is_told: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ok: Ok
) -> None:
    """Without one it is what pip installs on any Linux."""
    told = torch | {"version": "2.11", "threads": 1, "import_seconds": 1.0, "gigaflops": 1.0}
    monkeypatch.setattr(machine, "_torch", lambda: told)
    monkeypatch.setattr(machine, "DRIVER", tmp_path / driver)
    assert ("problem: a CUDA build of PyTorch and a driver, but no GPU in sight" in ok("doctor")) == is_told
    assert json.loads(ok("doctor", "--json"))["driver"] == (not driver)


# from beginning to end


def test_from_tables_to_a_description_in_processes_of_their_own(tables: Path) -> None:
    given = sources(tables, "interactions.csv", "links.csv", "users.csv")
    data = tables / "data" / "tiny"
    prepared = outside("data", "prepare", "files", *given, "--out", data, COLUMNS="200")
    assert (prepared.returncode, prepared.stderr) == (0, "")
    split = outside("data", "split", data, "--name", "random-0", "--seed", "0")
    assert (split.returncode, split.stderr) == (0, "")
    described = outside("data", "describe", data, "--json")
    description = json.loads(described.stdout)
    assert prepared.stdout.splitlines()[-1] == f"saved {data} {description['fingerprint']}"
    assert split.stdout.splitlines()[-1] == f"split random-0 {description['splits']['random-0']['fingerprint']}"


BLOCKED = """
import json, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        assert name not in {"torch", "numba", "scipy", "matplotlib", "sklearn", "networkx"}, name
sys.meta_path.insert(0, Blocker())
from mcne.cli.main import main
late = {}
for command in json.loads(sys.argv[1]):
    sys.argv = ["mcne", *command.split()]
    try:
        main()
    except SystemExit as left:
        if left.code not in (2, 4, 5):
            late[command] = str(left.code)
    except AssertionError as error:
        late[command] = f"imports {error}"
assert not late, late
"""
MISTAKES = [
    "trian bpr",
    "train bpr --data mydata --out run --epoch 5",
    "train bpr --data mydata --out run --seed -1",
    "train bprr --data mydata --out run",
    "train bpr --data nowhere --out run",
    "train bpr --data mydata --out run --set lerning_rate=0.1",
    "train bpr --data mydata --out run --set epochs=many",
    "train bpr --data mydata --out run --set epochs=0",
    "train mcne --data mydata --out run --set widths=[8,8]",
    "train bpr --data mydata --out run --config nowhere.toml",
    "train bpr --data mydata --out run --split rnadom-0",
    "train bpr --data mydata --out runs/bpr",
    "train mcne-attributes --data mydata --out run",
    "transfer nowhere --data mydata --behavior read --out run",
    "transfer runs/bpr --data mydata --behavior read --out run",
    "transfer runs/mcne --data mydata --behavior read --out run",
    "transfer runs/mcne --data mydata --behavior Games --out run",
    "transfer runs/mcne --data mydata --behavior read --out run --set lr=3",
    "transfer runs/mcne --data mydata --behavior read --out runs/bpr",
    "embed-users nowhere --out run",
    "embed-users runs/bpr --links links.csv --out run",
    "embed-users runs/mcne --out run",
    "embed-users runs/mcne --links nowhere.csv --out run",
    "embed-users runs/mcne --history history.csv --out run",
    "compare --methods bpr,bprr --data mydata --out study",
    "compare --methods bpr --data nowhere --out study",
    "compare nowhere.toml --data mydata --out study",
    "compare setting.toml --data mydata --out study",
    "sweep bpr --data mydata --out study",
    "sweep bpr --data mydata --set lerning_rate=1,2 --out study",
    "sweep bpr --data mydata --set width=many,more --out study",
    "structure --data mydata --methods mcen --out study",
    "structure --data mydata --methods ease --out study",
    "compare-transfer nowhere.toml --data mydata --out study",
    "compare-transfer key.toml --data mydata --out study",
    "compare-new-users --data nowhere --out study",
    "compare-new-users --data mydata --method ease --out study",
    "recommend nowhere --user 1 --behavior read",
    "recommend runs/bpr --user 99 --behavior read",
    "evaluate runs/bpr --protocol fulll",
    "export runs/ease --format npz --out vectors",
    "report nowhere --out page.html",
    "report runs/bpr --out good.csv",
    "plot map nowhere --out map.png",
    "plot map runs/ease --out map.png",
    "plot masks runs/ease --out masks.png",
    "plot masks runs/bpr --out masks.png",
    "plot masks runs/mcne --out masks.gif",
    "plot attention runs/mcne --user nobody --out user.png",
    "plot curves nowhere --out curves.png",
    "bench nothing",
]


def test_mistakes_are_reported_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    prepare(tmp_path)
    code = [sys.executable, "-c", BLOCKED, json.dumps(MISTAKES)]
    done = subprocess.run(code, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_names_of_benchmarks_are_known_without_torch() -> None:
    from mcne_bench import FOR_USERS
    from mcne_bench.figures import for_users

    assert tuple(each.key for each in for_users()) == FOR_USERS
