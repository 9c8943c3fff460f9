"""Training, validation and test parts of a dataset, with the items to rank against, made once and kept.

Validation negatives know nothing of the test part: they exclude the user's training and validation items alone,
and come from streams of their own. Popularity is counted in the training part alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne import files
from mcne.data.behavior import Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.ids import Ids
from mcne.data.negatives import Negatives, draw_negatives
from mcne.data.source import RawTable, Wanted, read_table
from mcne.data.tables import rows_of
from mcne.errors import ArtifactError, DataError, UsageError, unknown
from mcne.randomness import Stream

KIND = "mcne split"
VERSION = 1
PARTS = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)
NEGATIVE_KINDS = ("uniform", "popular")
DEFAULT_RATIOS = (70.0, 10.0, 20.0)
DIRECTORY = "splits"
UNASSIGNED = 255
SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz", ".parquet", ".pq", ".inter", ".inter.gz")


@dataclass(frozen=True, eq=False)
class Split:
    """Which part each interaction belongs to, and what is ranked against in validation and test.

    ``parts[k]`` is aligned with the interactions of behavior ``k``, so the parts are disjoint and complete by
    construction. ``negatives["test"]["uniform"][k]`` has a row for every user with test items in behavior ``k``.
    """

    parts: tuple[NDArray[np.uint8], ...]
    negatives: Mapping[str, Mapping[str, tuple[Negatives, ...]]]
    dataset_fingerprint: str
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(map(files.frozen, self.parts)))

    @cached_property
    def fingerprint(self) -> str:
        """The content hash: changes when the data, a part, a negative or a setting changes."""
        return files.fingerprint(KIND, VERSION, self._meta(), self._arrays())

    def of(self, behavior: Behavior, k: int, part: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Users and items of one part of behavior ``k``."""
        mine = self.parts[k] == part
        return behavior.user[mine], behavior.item[mine]

    def only(self, k: int, dataset: SocialDataset) -> Split:
        """The same split of behavior ``k`` alone, which is all that ``dataset`` has."""
        negatives = {part: {kind: (each[k],) for kind, each in kinds.items()} for part, kinds in self.negatives.items()}
        return Split((self.parts[k],), negatives, dataset.fingerprint, self.settings, self.notes)

    def save(self, path: str | Path) -> str:
        """Write the split and return its content hash; a different split of that name is never replaced."""
        provenance = {"notes": list(self.notes)}
        return files.write(Path(path), KIND, VERSION, meta=self._meta(), provenance=provenance, arrays=self._arrays())

    @classmethod
    def load(cls, path: str | Path, dataset: SocialDataset, *, verify: bool = True) -> Split:
        """Open a saved split of this very dataset."""
        saved = files.read(Path(path), KIND, VERSION, verify=verify)
        if saved.meta["dataset"] != dataset.fingerprint:
            raise ArtifactError(
                f"{path}: a split of dataset {saved.meta['dataset'][:12]}, but this is {dataset.fingerprint[:12]}; "
                "make the split again from this dataset"
            )
        n_behaviors = len(dataset.behaviors)
        parts = tuple(saved.arrays[f"part.{k}"] for k in range(n_behaviors))
        negatives = {
            part: {
                kind: tuple(_load_negatives(saved.arrays, part, kind, k) for k in range(n_behaviors))
                for kind in NEGATIVE_KINDS
            }
            for part in PARTS[1:]
        }
        notes = tuple(saved.provenance["notes"])
        split = cls(parts, negatives, saved.meta["dataset"], saved.meta["settings"], notes)
        split.__dict__["fingerprint"] = saved.fingerprint
        return split

    def _meta(self) -> dict[str, Any]:
        return {"dataset": self.dataset_fingerprint, "settings": dict(self.settings)}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {f"part.{k}": part for k, part in enumerate(self.parts)}
        for part, kinds in self.negatives.items():
            for k, negatives in enumerate(kinds["uniform"]):
                arrays[f"{part}.{k}.users"] = negatives.users
            for kind, drawn in kinds.items():
                arrays |= {f"{part}.{k}.{kind}": negatives.items for k, negatives in enumerate(drawn)}
        return arrays


def random_split(dataset: SocialDataset, *, seed: int, ratios: Sequence[float] = DEFAULT_RATIOS) -> Split:
    """Every interaction of a behavior has the same chance of each part (the paper: 70, 10 and 20 %)."""
    bounds = _bounds(ratios)
    parts = []
    for behavior in dataset.behaviors:
        order = Stream(seed, "split", behavior.name).permutation(len(behavior))
        parts.append(_cut(order, bounds))
    return _finish(dataset, parts, seed, {"kind": "random", "ratios": list(map(float, ratios))})


def temporal_split(dataset: SocialDataset, *, seed: int, ratios: Sequence[float] = DEFAULT_RATIOS) -> Split:
    """The earliest interactions of a behavior train, the latest test; those of one moment are ordered by chance."""
    bounds = _bounds(ratios)
    parts = []
    notes = []
    for behavior in dataset.behaviors:
        if behavior.timestamp is None:
            raise DataError(
                f"behavior {behavior.name!r} has no timestamps, which a temporal split needs; "
                "prepare the data again with them"
            )
        chance = Stream(seed, "split", behavior.name).bits(len(behavior))
        order = np.lexsort((chance, behavior.timestamp))
        parts.append(_cut(order, bounds))
        notes += _torn_moments(behavior, parts[-1])
    return _finish(dataset, parts, seed, {"kind": "temporal", "ratios": list(map(float, ratios))}, notes)


def supplied_split(dataset: SocialDataset, parts: Sequence[NDArray[np.uint8]], *, seed: int) -> Split:
    """A split of the user's own: for each behavior the part (0, 1 or 2) of every interaction."""
    for behavior, part in zip(dataset.behaviors, parts, strict=True):
        if part.shape != (len(behavior),) or not np.all(np.isin(part, (TRAIN, VALIDATION, TEST))):
            raise DataError(
                f"behavior {behavior.name!r}: a part 0, 1 or 2 is needed for each of {len(behavior):,} interactions"
            )
    return _finish(dataset, [np.asarray(part, np.uint8) for part in parts], seed, {"kind": "supplied"})


def split_names(directory: Path) -> list[str]:
    """The splits kept with a saved dataset."""
    kept = directory / DIRECTORY
    paths = kept.iterdir() if kept.is_dir() else []
    return sorted(path.name for path in paths if path.is_dir() and not path.name.startswith("."))


def split_of(data: Path, dataset: SocialDataset, name: str) -> Split:
    """A split kept with a dataset; ``random-N`` is made with seed N if it does not exist yet."""
    kept = data / DIRECTORY
    names = split_names(data)
    kind, _, number = name.rpartition("-")
    if name not in names:
        if kind != "random" or not number.isdecimal():
            known = unknown("split", name, [*names, "random-N"])
            raise UsageError(f"{known}; make others with: mcne data split {data} --name NAME …")
        _make_split(dataset, int(number), data, name)
    return Split.load(kept / name, dataset)


def _make_split(dataset: SocialDataset, seed: int, data: Path, name: str) -> None:
    """Make a random split, unless another process that needs it too finishes first."""
    split = random_split(dataset, seed=seed)
    while name not in split_names(data):
        with suppress(files.BeingWrittenError, files.AppearedError):
            split.save(data / DIRECTORY / name)
            return
        time.sleep(0.1)


def _bounds(ratios: Sequence[float]) -> tuple[float, float]:
    """Where validation and test start, as shares of the whole."""
    if len(ratios) != 3 or not (min(ratios) >= 0 and ratios[0] > 0 and np.isfinite(sum(ratios))):
        raise UsageError(
            f"ratios {','.join(f'{ratio:g}' for ratio in ratios)}: three numbers of 0 or more are needed, "
            "the first above 0, as in 70,10,20"
        )
    total = sum(ratios)
    return ratios[0] / total, (ratios[0] + ratios[1]) / total


def _cut(order: NDArray[Any], bounds: tuple[float, float]) -> NDArray[np.uint8]:
    """The part of each interaction when they stand in this order."""
    validation, test = (int(np.floor(bound * len(order) + 0.5)) for bound in bounds)
    part = np.full(len(order), TEST, dtype=np.uint8)
    part[order[:test]] = VALIDATION
    part[order[:validation]] = TRAIN
    return part


def _torn_moments(behavior: Behavior, part: NDArray[np.uint8]) -> list[str]:
    """A note if interactions of one moment fell on both sides of a cut."""
    times = behavior.timestamp
    assert times is not None
    moments = set()
    for bound in (VALIDATION, TEST):
        before, after = times[part < bound], times[part >= bound]
        if len(before) and len(after) and before.max() == after.min():
            moments.add(after.min())
    torn = sum(int(np.count_nonzero(times == moment)) for moment in moments)
    return (
        [f"{behavior.name}: {torn:,} interactions share the moment of a cut and were placed by chance"] if torn else []
    )


def _finish(
    dataset: SocialDataset,
    parts: Sequence[NDArray[np.uint8]],
    seed: int,
    settings: dict[str, Any],
    notes: Sequence[str] = (),
) -> Split:
    """Draw the negatives, and note what a person should know about the split."""
    negatives = {
        part: {
            kind: tuple(_negatives(dataset, k, parts[k], p, kind, seed) for k in range(len(parts)))
            for kind in NEGATIVE_KINDS
        }
        for p, part in enumerate(PARTS)
        if p != TRAIN
    }
    remarks = list(notes)
    for k, behavior in enumerate(dataset.behaviors):
        empty = [name for p, name in enumerate(PARTS) if not np.any(parts[k] == p)]
        remarks += [f"{behavior.name}: no interactions in {' and '.join(empty)}"] if empty else []
        remarks += [
            f"{behavior.name}: {_short(drawn[k], f'{kind} negatives in {part}')}"
            for part, kinds in negatives.items()
            for kind, drawn in kinds.items()
            if drawn[k].n_short
        ]
    return Split(tuple(parts), negatives, dataset.fingerprint, settings | {"seed": int(seed)}, tuple(remarks))


def _short(drawn: Negatives, what: str) -> str:
    fewest = int((drawn.items >= 0).sum(axis=1).min())
    usual = drawn.items.shape[1]
    users = f"{drawn.n_short:,} of {len(drawn.users):,} users"
    return f"{users} have fewer than {usual} {what}, as few as {fewest}: no more can be drawn for them"


def _negatives(dataset: SocialDataset, k: int, part: NDArray[np.uint8], scored: int, kind: str, seed: int) -> Negatives:
    """The negatives of one part: nothing that the user has in this part or an earlier one."""
    behavior = dataset.behaviors[k]
    known = part <= scored
    if kind == "popular":
        weights = np.bincount(behavior.item[part == TRAIN], minlength=behavior.n_items)
    else:
        weights = np.ones(behavior.n_items, dtype=np.int64)
    users = np.flatnonzero(np.bincount(behavior.user[part == scored], minlength=dataset.n_users)).astype(np.int32)
    stream = Stream(seed, "negatives", PARTS[scored], kind, behavior.name)
    return draw_negatives(users, behavior.user[known], behavior.item[known], weights=weights, stream=stream)


def _load_negatives(arrays: files.Arrays, part: str, kind: str, k: int) -> Negatives:
    return Negatives(arrays[f"{part}.{k}.users"], arrays[f"{part}.{k}.{kind}"])


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
            user = dataset.users[int(behavior.user[missing[0]])]
            item = behavior.items[int(behavior.item[missing[0]])]
            raise DataError(
                f"{directory}: {len(missing):,} of {len(part):,} {behavior.name} interactions are in no part, the "
                f"first user {user!r} with item {item!r}; list every interaction of the dataset once"
            )
    return parts


def _refuse_other_tables(directory: Path) -> None:
    """A table with another name may be a part that would be ignored."""
    for path in sorted(directory.iterdir()):
        part, _, suffix = path.name.partition(".")
        if f".{suffix}" in SUFFIXES and part not in PARTS:
            raise DataError(f"{path}: {unknown('part', part, PARTS)}; rename or remove it")


def _file(directory: Path, part: str) -> Path | None:
    """The file of a part; validation and test may be absent, training may not."""
    files = [directory / f"{part}{suffix}" for suffix in SUFFIXES if (directory / f"{part}{suffix}").is_file()]
    if len(files) > 1:
        raise DataError(f"{directory}: has both {files[0].name} and {files[1].name}; remove one")
    if not files and part == PARTS[0]:
        raise DataError(f"{directory}: no file {part} with {' or '.join(SUFFIXES)}; it is needed")
    return files[0] if files else None


def _assign(dataset: SocialDataset, parts: list[NDArray[np.uint8]], number: int, table: RawTable) -> None:
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
    table: RawTable,
    column: str,
    values: NDArray[np.int64],
    rows: NDArray[np.int64] | None = None,
    problem: str = "not in the dataset",
) -> None:
    strange = np.flatnonzero(values < 0)
    if len(strange):
        first = int(strange[0] if rows is None else rows[strange[0]])
        raise DataError(
            f"{table.locate(first, column)}: {problem} ({len(strange):,} in all); "
            "a split lists interactions of the dataset only"
        )
