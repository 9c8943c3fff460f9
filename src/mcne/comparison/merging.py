"""Finished cells of the same comparison, taken over from another machine."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mcne.comparison.cell import RANKS, RESULT, RUN, is_done, read_result
from mcne.comparison.files import read_json, taking_turns, write_json
from mcne.errors import ArtifactError, DataError
from mcne.runs.place import HeldError, alone
from mcne.training.journal import overwrite

CELLS, PRINTS = "cells", "data.json"
WRITTEN_AGAIN = "remove it, and the same command writes it again"


def merge(other: Path, out: Path) -> int:
    """Take over what is finished in ``other`` and not in ``out``; returns how many cells.

    Cells that are being trained here now are left to those who train them.
    """
    for needed in (PRINTS, CELLS):
        if not (other / needed).exists():
            raise DataError(f"{other}: no {needed}, so this is no comparison, or not all of it was copied")
    theirs, ours = (read_json(place / PRINTS, step="restore it, or copy it again") for place in (other, out))
    if differing := difference(theirs, ours):
        raise ArtifactError(f"{other}: a comparison on other data ({differing})")
    for left in (out / CELLS).glob(".*.partial"):
        shutil.rmtree(left, ignore_errors=True)
    taken = 0
    for directory in sorted((other / CELLS).iterdir()):
        if not directory.name.startswith(".") and is_done(directory):
            with suppress(HeldError):
                taken += _take(directory, out / CELLS / directory.name)
    return taken


def check_prints(out: Path, now: Mapping[str, str]) -> None:
    """See that a comparison is of what it was begun on, which is kept at the beginning and compared ever after."""
    place = out / PRINTS
    with taking_turns(out):
        before = read_json(place, step=WRITTEN_AGAIN) if place.is_file() else {}
        if differing := difference(before, now):
            raise ArtifactError(
                f"{out}: was begun on other data ({differing}); restore it, or compare in another directory"
            )
        write_json(place, {**before, **now})


def difference(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """The hashes of what both know and that differ; one may have more repetitions than the other."""
    names = [name for name in there if name in here and there[name] != here[name]]
    return ", ".join(f"{name} there {str(there[name])[:12]}, here {str(here[name])[:12]}" for name in names)


def _take(there: Path, here: Path) -> bool:
    """Copy a cell's result, which makes it finished, after all else; a training left unfinished here is not needed."""
    read_result(there)  # one that is damaged is told
    if is_done(here):
        return False
    with alone(here):
        if is_done(here):
            return False
        for name in (RANKS, RESULT):
            if (there / name).is_file():
                overwrite(here / name, (there / name).read_bytes())
        shutil.rmtree(here / RUN, ignore_errors=True)
    return True
