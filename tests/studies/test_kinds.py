"""What a directory was begun as: kept, shown by its content where it is not, and refused as anything else."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcne.errors import ArtifactError, UsageError
from mcne.studies.kinds import Kind, begin, check_kind, kinds_of

PRINTS = {"dataset": "0" * 64, "random-0": "1" * 64}
ALIKE = (Kind.comparison, Kind.sweep, Kind.timing)


def holding(path: Path, *names: str, prints: dict[str, str] | None = None) -> Path:
    """A directory with these files, and what an earlier version kept of its data."""
    path.mkdir()
    if prints is not None:
        (path / "data.json").write_text(json.dumps(prints))
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("{}")
    return path


def test_the_kind_is_kept_with_the_data(tmp_path: Path) -> None:
    for kind in Kind:
        out = tmp_path / kind.name
        begin(out, kind, PRINTS)
        assert json.loads((out / "data.json").read_text()) == {"kind": kind, **PRINTS}
        begin(out, kind, PRINTS | {"random-1": "2" * 64})
        assert kinds_of(out) == (kind,)
        for other in set(Kind) - {kind}:
            with pytest.raises(UsageError, match=f"was begun as a {kind}, and this is a {other}; choose another --out"):
                begin(out, other, PRINTS)
        with pytest.raises(ArtifactError, match="was begun on other data"):
            begin(out, kind, {"dataset": "9" * 64})
        assert json.loads((out / "data.json").read_text()) == {"kind": kind, **PRINTS, "random-1": "2" * 64}


@pytest.mark.parametrize(
    ("prints", "names", "kinds"),
    [
        (PRINTS, (), ALIKE),
        (PRINTS, ("cells/bpr-r0-1/cell.json", "chosen.json"), ALIKE),
        (PRINTS, ("table.json",), (Kind.comparison,)),
        (PRINTS, ("sweep.json",), (Kind.sweep,)),
        (PRINTS, ("table.json", "sweep.json"), (Kind.comparison, Kind.sweep)),
        (PRINTS | {"behavior": "Travel"}, (), (Kind.transfer,)),
        (PRINTS | {"behavior": "Travel"}, ("table.json",), (Kind.transfer,)),
        (None, ("cells/bpr-r0-1/cell.json",), ALIKE),
        (None, ("cells/bpr-r0-1/run/run.json",), ALIKE),
        (None, ("bases/mcne-r0-1/cell.json",), (Kind.transfer,)),
        (None, ("cells/bpr-r0-1/cell.json", "table.json"), (Kind.comparison,)),
        (None, ("cells/bpr-r0-1/cell.json", "bases/mcne-r0-1/cell.json", "table.json"), (Kind.transfer,)),
        (None, ("study.json", "cells/line-r0-1/cell.json"), (Kind.structure,)),
        (None, ("table.md", "table.json", "sweep.md", "sweep.json", "cells/notes"), ()),
        ({"points": "7"}, ("table.md",), ()),
        (None, (), ()),
    ],
)
def test_content_shows_what_was_not_kept(
    prints: dict[str, str] | None, names: tuple[str, ...], kinds: tuple[Kind, ...], tmp_path: Path
) -> None:
    out = holding(tmp_path / "out", *names, prints=prints)
    assert kinds_of(out) == kinds
    for kind in Kind:
        if kind in kinds or not list(out.iterdir()):
            check_kind(out, kind)
        else:
            with pytest.raises(UsageError, match=r"; choose (an empty directory or )?another --out"):
                check_kind(out, kind)


def test_what_is_there_is_named(tmp_path: Path) -> None:
    out = holding(tmp_path / "out", *"gfedcba")
    said = "holds something else than a sweep (a, b, c, d, e, … 2 more); choose an empty directory or another --out"
    with pytest.raises(UsageError) as error:
        check_kind(out, Kind.sweep)
    assert str(error.value) == f"{out}: {said}"
    with pytest.raises(UsageError, match="out/a: is a file, and a sweep needs a directory; choose another --out"):
        check_kind(out / "a", Kind.sweep)
    check_kind(tmp_path / "nothing there", Kind.sweep)
    check_kind(holding(tmp_path / "torn", ".data.json.partial"), Kind.sweep)  # by a death at the very beginning


def test_several_begin_at_once(tmp_path: Path) -> None:
    """Whoever comes first, the others go on with it; of two kinds one is refused."""
    with ThreadPoolExecutor(8) as pool:
        for n in range(20):
            out = tmp_path / str(n)
            list(pool.map(lambda _, out=out: begin(out, Kind.sweep, PRINTS), range(8)))
            kinds = [pool.submit(begin, tmp_path / f"{n}-two", kind, PRINTS) for kind in (Kind.sweep, Kind.transfer)]
            assert sum(isinstance(each.exception(), UsageError) for each in kinds) == 1


def test_hidden_files_are_nobodys_work(tmp_path: Path) -> None:
    out = holding(tmp_path / "out", ".DS_Store", prints=None)
    begin(out, Kind.sweep, PRINTS)
    assert kinds_of(out) == (Kind.sweep,)
