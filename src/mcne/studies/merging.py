"""Finished cells of the same comparison, taken over from another machine."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from mcne.errors import ArtifactError, DataError
from mcne.files import HeldError, locked, overwrite, read_json
from mcne.studies.cell import RANKS, RESULT, RUN, is_done, read_result
from mcne.studies.kinds import CELLS, PRINTS, Kind, difference, kinds_of, named


def merge(other: Path, out: Path) -> int:
    """Take over what is finished in ``other`` and not in ``out``; returns how many cells.

    Cells that are being trained here now are left to those who train them.
    """
    for needed in (PRINTS, CELLS):
        if not (other / needed).exists():
            raise DataError(f"{other}: no {needed}, so this is no comparison, or not all of it was copied")
    theirs, ours = (read_json(place / PRINTS, step="restore it, or copy it again") for place in (other, out))
    if Kind.comparison not in (found := kinds_of(other)):
        raise DataError(
            f"{other}: {named(*found) or 'no study'}, but cells are taken over from a comparison alone; name one"
        )
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


def _take(there: Path, here: Path) -> bool:
    """Copy a cell's result, which makes it finished, after all else; a training left unfinished here is not needed."""
    read_result(there)  # one that is damaged is told
    if is_done(here):
        return False
    with locked(here):
        if is_done(here):
            return False
        for name in (RANKS, RESULT):
            if (there / name).is_file():
                overwrite(here / name, (there / name).read_bytes())
        shutil.rmtree(here / RUN, ignore_errors=True)
    return True
