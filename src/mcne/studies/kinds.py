"""What a directory was begun as, and on what data: kept at its beginning, and compared ever after."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from mcne.errors import ArtifactError, UsageError
from mcne.files import locked, read_json, write_json

CELLS, BASES, PRINTS = "cells", "bases", "data.json"
WRITTEN_AGAIN = "remove it, and the same command writes it again"
N_SHOWN = 5


class Kind(StrEnum):
    """What a directory can have been begun as, as messages and ``data.json`` call it."""

    comparison = "comparison"
    transfer = "transfer study"
    sweep = "sweep"
    timing = "sweep's timing"
    structure = "structure study"


RESULTS = {Kind.comparison: "table.json", Kind.sweep: "sweep.json", Kind.structure: "structure.json"}
"""What only these kinds write, once something is finished; of a transfer study its models tell before."""


def kinds_of(directory: Path) -> tuple[str, ...]:
    """What a directory was begun as: a kind, or none.

    A directory of an earlier version keeps no kind, and one may lose what it kept: then its content tells. As long as
    that has no results, it may be any of those kinds whose cells are alike.
    """
    prints = _prints(directory)
    if "kind" in prints:
        return (str(prints["kind"]),)
    if "dataset" not in prints:
        if (directory / "study.json").is_file():
            return (Kind.structure,)
        if not any(each.is_dir() for place in (CELLS, BASES) for each in directory.glob(f"{place}/*")):
            return ()
    if "behavior" in prints or (directory / BASES).is_dir():
        return (Kind.transfer,)
    return kinds_of_results(directory) or (Kind.comparison, Kind.sweep, Kind.timing)


def kinds_of_results(directory: Path) -> tuple[str, ...]:
    """The kinds whose results lie in a directory, which need not be where they were made."""
    return tuple(kind for kind, name in RESULTS.items() if (directory / name).is_file())


def named(*kinds: str) -> str:
    """As in "a comparison or a sweep"."""
    return " or ".join(f"a {kind}" for kind in kinds)


def check_kind(out: Path, kind: Kind) -> None:
    """Refuse a place that holds something, unless it was begun as this kind of study; nothing is written."""
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"{out}: is a file, and {named(kind)} needs a directory; choose another --out")
    # listed before it is read: what another process begins there in between is known, or not seen
    held = sorted(each.name for each in out.iterdir() if not each.name.startswith("."))
    found = kinds_of(out)
    if found and kind not in found:
        raise UsageError(f"{out}: was begun as {named(*found)}, and this is {named(kind)}; choose another --out")
    if held and not found:
        more = f", … {len(held) - N_SHOWN} more" if len(held) > N_SHOWN else ""
        raise UsageError(
            f"{out}: holds something else than {named(kind)} ({', '.join(held[:N_SHOWN])}{more}); choose an empty "
            "directory or another --out"
        )


def begin(out: Path, kind: Kind, prints: Mapping[str, str]) -> None:
    """Begin a study in a directory, or go on: its kind and its data are kept at first, and compared ever after."""
    out.mkdir(parents=True, exist_ok=True)
    with locked(out, wait=True):
        check_kind(out, kind)
        before = _prints(out)
        if differing := difference(before, prints):
            raise ArtifactError(
                f"{out}: was begun on other data ({differing}); restore it, or compare in another directory"
            )
        write_json(out / PRINTS, {"kind": kind, **before, **prints})


def difference(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """The hashes of what both know and that differ; one may have more repetitions than the other."""
    names = [name for name in there if name in here and there[name] != here[name]]
    return ", ".join(f"{name} there {str(there[name])[:12]}, here {str(here[name])[:12]}" for name in names)


def _prints(directory: Path) -> dict[str, Any]:
    """What a directory keeps of its beginning."""
    step = "remove it, and the command that made it writes it again, or choose another directory"
    return read_json(directory / PRINTS, step=step) if (directory / PRINTS).is_file() else {}
