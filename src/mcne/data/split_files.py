"""A split of the user's own: three files that list the interactions of each part."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mcne.data.dataset import SocialDataset
from mcne.data.ids import Ids
from mcne.data.source import Table, Wanted, read_table
from mcne.data.split import PARTS
from mcne.data.tables import rows_of
from mcne.errors import DataError, unknown

UNASSIGNED = 255
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz", ".parquet", ".pq", ".inter", ".inter.gz")


def read_parts(dataset: SocialDataset, directory: Path) -> list[NDArray[np.uint8]]:
    """The part of every interaction, from ``train``, ``validation`` and ``test`` files with user, item and behavior.

    Every interaction of the dataset must be listed once, and nothing else.
    """
    if not directory.is_dir():
        raise DataError(f"{directory}: no such directory; expected {', '.join(PARTS)} files of {' or '.join(SUFFIXES)}")
    _refuse_other_tables(directory)
    parts = [np.full(len(behavior), UNASSIGNED, dtype=np.uint8) for behavior in dataset.behaviors]
    for number, name in enumerate(PARTS):
        path = _file(directory, name)
        if path is not None:
            _assign(dataset, parts, number, read_table(path, name, Wanted(["user_id", "item_id", "behavior"]), {}))
    for behavior, part in zip(dataset.behaviors, parts, strict=True):
        missing = np.flatnonzero(part == UNASSIGNED)
        if len(missing):
            user, item = dataset.users[int(behavior.user[missing[0]])], behavior.items[int(behavior.item[missing[0]])]
            raise DataError(
                f"{directory}: {len(missing):,} of {len(part):,} {behavior.name} interactions are in no part, the "
                f"first user {user!r} with item {item!r}; list every interaction of the dataset once"
            )
    return parts


def _refuse_other_tables(directory: Path) -> None:
    """A table of another name is perhaps a part that would be missed."""
    for path in sorted(directory.iterdir()):
        part, _, suffix = path.name.partition(".")
        if f".{suffix}" in SUFFIXES and part not in PARTS:
            raise DataError(f"{path}: {unknown('part', part, PARTS)}; rename or remove it")


def _file(directory: Path, part: str) -> Path | None:
    """The file of a part; validation and test may be absent, training may not."""
    found = [directory / f"{part}{suffix}" for suffix in SUFFIXES if (directory / f"{part}{suffix}").is_file()]
    if len(found) > 1:
        raise DataError(f"{directory}: both {found[0].name} and {found[1].name} are there; leave one")
    if not found and part == PARTS[0]:
        raise DataError(f"{directory}: no file {part} with {' or '.join(SUFFIXES)}; it is needed")
    return found[0] if found else None


def _assign(dataset: SocialDataset, parts: list[NDArray[np.uint8]], number: int, table: Table) -> None:
    """Mark the interactions that ``table`` lists."""
    user = rows_of(table, "user_id", dataset.users)
    _refuse_unknown(table, "user_id", user)
    names = Ids(sorted(dataset.behavior_names))
    behavior = rows_of(table, "behavior", names)
    _refuse_unknown(table, "behavior", behavior)
    for k, known in enumerate(dataset.behaviors):
        rows = np.flatnonzero(behavior == names.row(known.name))
        if not len(rows):
            continue
        item = rows_of(table, "item_id", known.items)[rows]
        _refuse_unknown(table, "item_id", item, rows)
        have = known.user.astype(np.int64) * known.n_items + known.item
        keys = user[rows] * known.n_items + item
        at = np.minimum(np.searchsorted(have, keys), len(have) - 1)
        _refuse_unknown(table, "item_id", np.where(have[at] == keys, at, -1), rows, "no interaction of this user")
        again = parts[k][at] != UNASSIGNED
        again[np.setdiff1d(np.arange(len(at)), np.unique(at, return_index=True)[1])] = True
        if again.any():
            place = table.locate(int(rows[int(np.argmax(again))]), "item_id")
            raise DataError(f"{place}: listed before ({int(again.sum()):,} in all); an interaction has one part")
        parts[k][at] = number


def _refuse_unknown(
    table: Table,
    column: str,
    found: NDArray[np.int64],
    rows: NDArray[np.int64] | None = None,
    said: str = "not in the dataset",
) -> None:
    strange = np.flatnonzero(found < 0)
    if len(strange):
        first = int(strange[0] if rows is None else rows[strange[0]])
        raise DataError(
            f"{table.locate(first, column)}: {said} ({len(strange):,} in all); "
            "a split lists interactions of the dataset only"
        )
