"""Training, validation and test parts of a dataset, with the items to rank against, made once and kept.

Validation negatives know nothing of the test part: they exclude the user's training and validation items, and come
from streams of their own. Pairs that are known and no records are never negatives. Popularity is counted in the
training part alone.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mcne import files
from mcne.data.behavior import Behavior, Pairs, merged
from mcne.data.dataset import SocialDataset
from mcne.data.graph import run_starts
from mcne.data.ids import Ids
from mcne.data.negatives import COUNT, Negatives, draw_negatives
from mcne.data.raw import refuse_rows
from mcne.errors import ArtifactError, DataError, MissingError, UnknownError, UsageError
from mcne.files import Json
from mcne.randomness import Stream

if TYPE_CHECKING:
    from mcne.data.source import RawTable

KIND = "mcne split"
VERSION = 1
PARTS = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)
NEGATIVE_KINDS = ("uniform", "popular")
DEFAULT_RATIOS = (70.0, 10.0, 20.0)
DIRECTORY = "splits"
UNASSIGNED = 255
PACKED = (".csv", ".tsv", ".txt", ".dat", ".inter")
SUFFIXES = (*PACKED, *(f"{suffix}.gz" for suffix in PACKED), ".parquet", ".pq")


@dataclass(frozen=True, eq=False)
class Split:
    """Which part each interaction belongs to, and what is ranked against in validation and test.

    ``parts[k]`` is aligned with the interactions of behavior ``k``, so the parts are disjoint and complete by
    construction. ``negatives["test"]["uniform"][k]`` has a row for every user with test items in behavior ``k``.
    """

    parts: tuple[NDArray[np.uint8], ...]
    negatives: Mapping[str, Mapping[str, Sequence[Negatives]]]
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
                f"belongs to dataset {saved.meta['dataset'][:12]}, not to this one ({dataset.fingerprint[:12]})",
                path,
                "make the split again from this dataset",
                value=saved.meta["dataset"],
                allowed=[dataset.fingerprint],
            )
        arrays = saved.arrays
        numbers = range(len(dataset.behaviors))
        parts = tuple(arrays[f"part.{k}"] for k in numbers)
        negatives = {
            part: {
                kind: tuple(Negatives(arrays[f"{part}.{k}.users"], arrays[f"{part}.{k}.{kind}"]) for k in numbers)
                for kind in NEGATIVE_KINDS
            }
            for part in PARTS[1:]
        }
        notes = tuple(saved.provenance["notes"])
        split = cls(parts, negatives, saved.meta["dataset"], saved.meta["settings"], notes)
        split.__dict__["fingerprint"] = saved.fingerprint
        return split

    def _meta(self) -> Json:
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
    orders = [Stream(seed, "split", behavior.name).permutation(len(behavior)) for behavior in dataset.behaviors]
    return _finish(dataset, _cut(orders, ratios), seed, {"kind": "random", "ratios": list(map(float, ratios))})


def temporal_split(dataset: SocialDataset, *, seed: int, ratios: Sequence[float] = DEFAULT_RATIOS) -> Split:
    """The earliest interactions of a behavior train, the latest test; those of one moment are ordered by chance."""
    orders = [np.lexsort(_by_time(behavior, seed, "a temporal split")) for behavior in dataset.behaviors]
    parts = _cut(orders, ratios)
    notes = [note for behavior, part in zip(dataset.behaviors, parts, strict=True) for note in _torn(behavior, part)]
    return _finish(dataset, parts, seed, {"kind": "temporal", "ratios": list(map(float, ratios))}, notes)


def last_split(dataset: SocialDataset, *, seed: int) -> Split:
    """Each user's latest record of a behavior tests, the one before it validates, all others train.

    Of two records the latest tests and the other trains; one alone trains. Those of one moment are ordered by chance.
    """
    parts, notes = [], []
    for behavior in dataset.behaviors:
        order = np.lexsort((*_by_time(behavior, seed, "a split by each user's last record"), behavior.user))
        counts = np.bincount(behavior.user, minlength=dataset.n_users)
        count = counts[behavior.user]  # [interactions] of the user, by user in either order
        later = np.cumsum(counts)[behavior.user] - np.arange(1, len(behavior) + 1)  # of the user, in this order
        tested, validated = (later == 0) & (count > 1), (later == 1) & (count > 2)
        in_order = np.select([tested, validated], [TEST, VALIDATION], TRAIN).astype(np.uint8)
        part = np.empty_like(in_order)
        part[order] = in_order
        parts.append(part)
        notes += _few_records(behavior.name, counts) + _tied(behavior, order, in_order)
    return _finish(dataset, parts, seed, {"kind": "last"}, notes)


def supplied_split(dataset: SocialDataset, parts: Sequence[NDArray[np.uint8]], *, seed: int) -> Split:
    """A split of the user's own: for each behavior the part (0, 1 or 2) of every interaction."""
    for behavior, part in zip(dataset.behaviors, parts, strict=True):
        if part.shape != (len(behavior),) or not np.all(np.isin(part, (TRAIN, VALIDATION, TEST))):
            raise DataError(
                f"not every one of its {len(behavior):,} interactions has a part 0, 1 or 2",
                f"behavior {behavior.name!r}",
                "give one part for each interaction",
                value=behavior.name,
            )
    return _finish(dataset, [np.asarray(part, np.uint8) for part in parts], seed, {"kind": "supplied"})


def split_names(directory: Path) -> list[str]:
    """The splits kept with a saved dataset."""
    kept = directory / DIRECTORY
    paths = kept.iterdir() if kept.is_dir() else []
    return sorted(path.name for path in paths if path.is_dir() and not path.name.startswith("."))


def split_of(data: Path, dataset: SocialDataset, name: str) -> Split:
    """A split kept with a dataset; ``random-N`` is made with seed N if it does not exist yet."""
    refuse_unknown_split(data, name)
    if name not in split_names(data):
        split = random_split(dataset, seed=int(name.removeprefix("random-")))
        while name not in split_names(data):  # another process that needs it too may finish first
            with suppress(files.BeingWrittenError, files.AppearedError):
                split.save(data / DIRECTORY / name)
                break
            time.sleep(0.1)
    return Split.load(data / DIRECTORY / name, dataset)


def refuse_unknown_split(data: Path, name: str) -> None:
    """Refuse the name of a split that a saved dataset does not have and that :func:`split_of` cannot make."""
    names = split_names(data)
    kind, _, number = name.rpartition("-")
    if name not in names and not (kind == "random" and number.isdecimal()):
        remedy = f"or make one with: mcne data split {data} --name NAME"
        raise UnknownError.of("split", name, [*names, "random-N"], remedy=remedy)


def _cut(orders: Sequence[NDArray[Any]], ratios: Sequence[float]) -> list[NDArray[np.uint8]]:
    """The part of each interaction when those of a behavior stand in this order."""
    if len(ratios) != 3 or not (min(ratios) >= 0 and ratios[0] > 0 and np.isfinite(sum(ratios))):
        raise UsageError(
            "need three numbers of 0 or more; the first must be above 0",
            f"ratios {','.join(f'{ratio:g}' for ratio in ratios)}",
            "use ratios such as 70,10,20",
            value=tuple(ratios),
        )
    parts = []
    for order in orders:
        shares = (sum(ratios[:n]) / sum(ratios) for n in (1, 2))
        validation, test = (int(np.floor(share * len(order) + 0.5)) for share in shares)
        part = np.full(len(order), TEST, dtype=np.uint8)
        part[order[:test]] = VALIDATION
        part[order[:validation]] = TRAIN
        parts.append(part)
    return parts


def _by_time(behavior: Behavior, seed: int, what: str) -> tuple[NDArray[np.uint64], NDArray[Any]]:
    """What the interactions of a behavior are sorted by: chance where they are of one moment, and before that time."""
    if behavior.timestamp is None:
        raise DataError(
            f"has no timestamps, which {what} needs",
            f"behavior {behavior.name!r}",
            "prepare the data again with a timestamp column",
            value=behavior.name,
        )
    return Stream(seed, "split", behavior.name).bits(len(behavior)), behavior.timestamp


def _few_records(name: str, counts: NDArray[np.int64]) -> list[str]:
    """Notes on users with too few records for every part."""
    one, two = (int(np.count_nonzero(counts == n)) for n in (1, 2))
    notes = (
        [f"{name}: {one:,} users have one record, which trains; they have none in validation and test"] if one else []
    )
    return notes + ([f"{name}: {two:,} users have two records and so none in validation"] if two else [])


def _tied(behavior: Behavior, order: NDArray[np.int64], in_order: NDArray[np.uint8]) -> list[str]:
    """A note if interactions of one user and moment are in different parts; ``order`` is by user and then by time."""
    if not len(order):
        return []
    times = np.asarray(behavior.timestamp)[order]
    first = np.flatnonzero(run_starts(behavior.user) | run_starts(times))
    is_torn = np.minimum.reduceat(in_order, first) != np.maximum.reduceat(in_order, first)
    torn = int(np.diff(first, append=len(order))[is_torn].sum())
    note = f"{behavior.name}: {torn:,} interactions share the moment of their user's cut and were placed by chance"
    return [note] if torn else []


def _torn(behavior: Behavior, part: NDArray[np.uint8]) -> list[str]:
    """A note if interactions of one moment fell on both sides of a cut."""
    times = np.asarray(behavior.timestamp)
    moments = set()
    for bound in (VALIDATION, TEST):
        before, after = times[part < bound], times[part >= bound]
        if len(before) and len(after) and before.max() == after.min():
            moments.add(after.min())
    torn = sum(int(np.count_nonzero(times == moment)) for moment in moments)
    note = f"{behavior.name}: {torn:,} interactions share the moment of a cut and were placed by chance"
    return [note] if torn else []


def _finish(
    dataset: SocialDataset, parts: Sequence[NDArray[np.uint8]], seed: int, settings: Json, notes: Sequence[str] = ()
) -> Split:
    """Draw the negatives, and note what a person should know about the split."""
    negatives: dict[str, dict[str, list[Negatives]]] = {p: {kind: [] for kind in NEGATIVE_KINDS} for p in PARTS[1:]}
    remarks = list(notes)
    for behavior, part in zip(dataset.behaviors, parts, strict=True):
        empty = [name for p, name in enumerate(PARTS) if not np.any(part == p)]
        remarks += [f"{behavior.name}: no interactions in {' and '.join(empty)}"] if empty else []
        trained = np.bincount(behavior.item[part == TRAIN], minlength=behavior.n_items)
        weights = {"uniform": np.ones_like(trained), "popular": trained}
        for p in (VALIDATION, TEST):
            users = np.flatnonzero(np.bincount(behavior.user[part == p], minlength=dataset.n_users)).astype(np.int32)
            seen = _seen_until(behavior, part, p)
            for kind in NEGATIVE_KINDS:
                stream = Stream(seed, "negatives", PARTS[p], kind, behavior.name)
                drawn = draw_negatives(users, *seen, weights=weights[kind], stream=stream)
                negatives[PARTS[p]][kind].append(drawn)
                if drawn.n_short:
                    sizes = (drawn.items >= 0).sum(axis=1)
                    remarks.append(
                        f"{behavior.name}: {drawn.n_short:,} of {len(sizes):,} users have fewer than {COUNT} {kind} "
                        f"negatives in {PARTS[p]}, as few as {sizes.min()}: no more can be drawn for them"
                    )
    return Split(tuple(parts), negatives, dataset.fingerprint, settings | {"seed": int(seed)}, tuple(remarks))


def _seen_until(behavior: Behavior, part: NDArray[np.uint8], last: int) -> Pairs:
    """What is never drawn as a negative in part ``last``: records of it and of earlier ones, and known pairs."""
    mine = part <= last
    records = behavior.user[mine], behavior.item[mine]
    return records if behavior.known is None else merged(records, behavior.known)[:2]


def read_parts(dataset: SocialDataset, directory: Path) -> list[NDArray[np.uint8]]:
    """The part of every interaction, from ``train``, ``validation`` and ``test`` files with user, item and behavior.

    Every interaction of the dataset must be listed once, and nothing else.
    """
    from mcne.data.source import Wanted, read_table  # few programs read a split from tables

    if not directory.is_dir():
        raise MissingError.of_path(
            "no such directory", directory, f"make one with {', '.join(PARTS)} files of {_listed(SUFFIXES)}"
        )
    parts = [np.full(len(behavior), UNASSIGNED, dtype=np.uint8) for behavior in dataset.behaviors]
    paths = _part_files(directory)
    for number, name in enumerate(PARTS):
        if name in paths:
            table = read_table(paths[name], name, Wanted(["user_id", "item_id", "behavior"]), {})
            _assign(dataset, parts, number, table)
    for behavior, part in zip(dataset.behaviors, parts, strict=True):
        missing = np.flatnonzero(part == UNASSIGNED)
        if len(missing):
            user = dataset.users[int(behavior.user[missing[0]])]
            item = behavior.items[int(behavior.item[missing[0]])]
            raise DataError(
                f"{len(missing):,} of {len(part):,} {behavior.name} interactions are in no part, the first of user "
                f"{user!r} with item {item!r}",
                directory,
                "list every interaction of the dataset once",
                value=(user, item),
            )
    return parts


def _part_files(directory: Path) -> dict[str, Path]:
    """The file of each part; validation and test may be absent, training may not."""
    paths: dict[str, Path] = {}
    for path in sorted(directory.iterdir()):
        part, _, suffix = path.name.partition(".")
        if f".{suffix.lower()}" not in SUFFIXES:
            continue
        if part not in PARTS:  # perhaps a part that would be ignored
            raise DataError(
                f"unknown part {part!r}", path, f"rename it to one of {', '.join(PARTS)}", value=part, allowed=PARTS
            )
        if part in paths:
            raise DataError(f"has both {paths[part].name} and {path.name}", directory, "remove one", value=part)
        paths[part] = path
    if PARTS[0] not in paths:
        raise MissingError(f"has no file {PARTS[0]} with {_listed(SUFFIXES)}", directory, "add it", value=PARTS[0])
    return paths


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _assign(dataset: SocialDataset, parts: list[NDArray[np.uint8]], number: int, table: RawTable) -> None:
    """Mark the interactions that ``table`` lists."""
    from mcne.data.tables import rows_of

    def refuse_unknown(bad: NDArray[np.int64], column: str, problem: str = "not in the dataset") -> None:
        refuse_rows(bad, table.locate, column, problem, "a split lists interactions of the dataset only")

    user = rows_of(table, "user_id", dataset.users)
    refuse_unknown(np.flatnonzero(user < 0), "user_id")
    names = Ids(sorted(dataset.behavior_names))
    behavior = rows_of(table, "behavior", names)
    refuse_unknown(np.flatnonzero(behavior < 0), "behavior")
    for k, known in enumerate(dataset.behaviors):
        rows = np.flatnonzero(behavior == names.row(known.name))
        item = rows_of(table, "item_id", known.items)[rows]
        refuse_unknown(rows[item < 0], "item_id")
        have = known.user.astype(np.int64) * known.n_items + known.item
        keys = user[rows] * known.n_items + item
        at = np.minimum(np.searchsorted(have, keys), len(have) - 1)
        refuse_unknown(rows[have[at] != keys], "item_id", "no interaction of this user")
        again = parts[k][at] != UNASSIGNED
        again[np.setdiff1d(np.arange(len(at)), np.unique(at, return_index=True)[1])] = True
        refuse_rows(rows[again], table.locate, "item_id", "listed before", "an interaction has one part")
        parts[k][at] = number
