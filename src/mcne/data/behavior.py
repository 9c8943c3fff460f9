"""The behaviors of users, what else is known of them, and how alike friends are in a behavior."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import Graph, offsets
from mcne.data.ids import Ids, Names
from mcne.files import Arrays, freeze
from mcne.randomness import Stream

MOST_LINKS = 100_000  # of more, one is drawn from each of this many equal stretches
MOST_RECORDS = 1 << 28  # if the compared users have more, fewer links are compared
AT_ONCE = 1 << 22  # records held in memory at a time
LITTLE = 1.5  # friends less than this many times as alike as any two users are hardly alike; on Ciao it is 2.0 to 2.4
OPTIONAL = ("timestamp", "weight", "known_user", "known_item")  # arrays that a behavior may have
ENOUGH = 30  # with fewer links whose users share an item, there is no verdict

Pairs = tuple[NDArray[np.int32], NDArray[np.int32]]
"""Users and items, sorted by user and then by item."""


@dataclass(frozen=True, eq=False)
class Attribute:
    """One fact about every user, or about every item of a behavior.

    Numbers (NaN where unknown), or rows of ``categories`` (−1 where unknown).
    """

    values: NDArray[Any]  # [rows] float64, or int32 rows of categories
    categories: Ids | None = None

    def __post_init__(self) -> None:
        freeze(self, "values")

    def subset(self, rows: NDArray[Any]) -> Attribute:
        """The fact about these rows, or where a mask is true."""
        return Attribute(self.values[rows], self.categories)

    def arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays to store under ``name``; :meth:`from_arrays` reads them back."""
        arrays = {f"{name}.values": self.values}
        return arrays if self.categories is None else arrays | self.categories.arrays(f"{name}.categories")

    @classmethod
    def from_arrays(cls, arrays: Arrays, name: str, *, is_categorical: bool) -> Attribute:
        """Read what :meth:`arrays` stored, without copying."""
        categories = Ids.from_arrays(arrays, f"{name}.categories") if is_categorical else None
        return cls(arrays[f"{name}.values"], categories)

    def validate(self, name: str, n_rows: int) -> None:
        """Raise ``ValueError`` unless the values fit their kind."""
        kind = np.float64 if self.categories is None else np.int32
        if self.values.shape != (n_rows,) or self.values.dtype != kind:
            raise ValueError(f"attribute {name!r}: one {np.dtype(kind).name} per row expected")
        if self.categories is not None and n_rows:
            if not -1 <= self.values.min() <= self.values.max() < len(self.categories):
                raise ValueError(f"attribute {name!r}: a category out of range")
        elif np.any(np.isinf(self.values)):
            raise ValueError(f"attribute {name!r}: an infinite value")


@dataclass(frozen=True, eq=False)
class Behavior:
    """One kind of behavior: its items and who touched which, each pair once, by user and then by item.

    Beside the records there may be pairs that are *known* and no records, such as items that a user rated badly: they
    are never drawn as negatives and never recommended.
    """

    name: str
    items: Ids
    user: NDArray[np.int32]  # [interactions] rows of users, never decreasing
    item: NDArray[np.int32]  # [interactions] rows of items, increasing within a user
    timestamp: NDArray[Any] | None = None  # [interactions] int64 or float64
    weight: NDArray[np.float32] | None = None  # [interactions] ratings or counts, above 0
    known_user: NDArray[np.int32] | None = None  # [known] as user
    known_item: NDArray[np.int32] | None = None  # [known] as item
    names: Names | None = None  # of items, for people
    attributes: Mapping[str, Attribute] = field(default_factory=dict)  # of items

    def __post_init__(self) -> None:
        freeze(self, "user", "item", "timestamp", "weight", "known_user", "known_item")
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))

    def __len__(self) -> int:
        return len(self.user)

    @property
    def n_items(self) -> int:
        """Items of the catalog."""
        return len(self.items)

    def popularity(self) -> NDArray[np.int64]:
        """Interactions of each item."""
        return np.bincount(self.item, minlength=self.n_items)

    def indptr(self, n_users: int) -> NDArray[Any]:
        """Offsets of each user's interactions."""
        return offsets(np.bincount(self.user, minlength=n_users))

    @property
    def known(self) -> Pairs | None:
        """Users and items of the known pairs; None without any."""
        if self.known_user is None or self.known_item is None or not len(self.known_user):
            return None
        return self.known_user, self.known_item

    def seen(self, n_users: int) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.bool_] | None]:
        """Records and known pairs together: the offsets of each user's items, the items, increasing, and which of them
        are known and no records; None without any.
        """
        if self.known is None:
            return self.indptr(n_users), self.item, None
        user, item, is_known = merged((self.user, self.item), self.known)
        return offsets(np.bincount(user, minlength=n_users)), item, is_known

    def restrict(self, users: NDArray[np.bool_], items: NDArray[np.bool_], mine: NDArray[np.bool_]) -> Behavior:
        """The behavior of these users and items, renumbered in order; ``mine`` are the interactions that stay."""
        user_rows = np.cumsum(users, dtype=np.int32) - np.int32(1)
        item_rows = np.cumsum(items, dtype=np.int32) - np.int32(1)
        known_user, known_item = self.known_user, self.known_item
        if known_user is not None and known_item is not None:
            still_known = users[known_user] & items[known_item]
            known_user, known_item = user_rows[known_user[still_known]], item_rows[known_item[still_known]]
        rows = np.flatnonzero(items)
        return Behavior(
            self.name,
            self.items.subset(rows),
            user_rows[self.user[mine]],
            item_rows[self.item[mine]],
            None if self.timestamp is None else self.timestamp[mine],
            None if self.weight is None else self.weight[mine],
            known_user,
            known_item,
            None if self.names is None else self.names.subset(rows),
            {name: attribute.subset(rows) for name, attribute in self.attributes.items()},
        )

    def moved(self, rows: NDArray[Any]) -> tuple[Behavior, NDArray[np.int64]]:
        """The behavior of users at other ``rows`` [users], and the order in which its interactions then stand."""
        order = np.lexsort((self.item, rows[self.user]))
        times = None if self.timestamp is None else self.timestamp[order]
        weight = None if self.weight is None else self.weight[order]
        known_user, known_item = self.known_user, self.known_item
        if known_user is not None and known_item is not None:
            new_user = rows[known_user]
            known = np.lexsort((known_item, new_user))
            known = known[new_user[known] >= 0]  # of users who have a row there
            known_user, known_item = new_user[known].astype(np.int32), known_item[known]
        moved = replace(
            self,
            user=rows[self.user][order].astype(np.int32),
            item=self.item[order],
            timestamp=times,
            weight=weight,
            known_user=known_user,
            known_item=known_item,
        )
        return moved, order

    def validate(self, n_users: int) -> None:
        """Raise ``ValueError`` unless every property that the class promises holds."""
        what = f"behavior {self.name!r}"
        if not len(self):
            raise ValueError(f"{what} has no interactions")
        keys = self._keys(self.user, self.item, n_users, "interactions")
        if not np.all(self.popularity()):
            raise ValueError(f"{what}: an item without interactions")
        times = self.timestamp
        if times is not None and (len(times) != len(self) or times.dtype not in (np.int64, np.float64)):
            raise ValueError(f"{what}: timestamps must be int64 or float64, one per interaction")
        if times is not None and not np.all(np.isfinite(times)):
            raise ValueError(f"{what}: timestamps must be finite")
        weight = self.weight
        if weight is not None and (len(weight) != len(self) or weight.dtype != np.float32):
            raise ValueError(f"{what}: weights must be float32, one per interaction")
        if weight is not None and not (np.all(np.isfinite(weight)) and np.all(weight > 0)):
            raise ValueError(f"{what}: weights must be finite and positive")
        if (self.known_user is None) != (self.known_item is None):
            raise ValueError(f"{what}: known pairs need users and items")
        if self.known_user is not None and self.known_item is not None:
            known = self._keys(self.known_user, self.known_item, n_users, "known pairs")
            if len(np.intersect1d(keys, known, assume_unique=True)):
                raise ValueError(f"{what}: a known pair is an interaction, too")
        if self.names is not None and len(self.names) != self.n_items:
            raise ValueError(f"{what}: one name per item expected")
        for name, attribute in self.attributes.items():
            attribute.validate(name, self.n_items)

    def _keys(self, user: NDArray[Any], item: NDArray[Any], n_users: int, pairs: str) -> NDArray[np.int64]:
        """A number for each pair, which must increase."""
        for column, rows, size in (("user", user, n_users), ("item", item, self.n_items)):
            is_sound = rows.dtype == np.int32 and len(rows) == len(user)
            if not is_sound or (len(rows) and not 0 <= rows.min() <= rows.max() < size):
                raise ValueError(f"behavior {self.name!r}: {column}s of {pairs} must be int32 rows below {size}")
        keys: NDArray[np.int64] = user.astype(np.int64) * self.n_items + item
        if np.any(keys[1:] <= keys[:-1]):
            raise ValueError(f"behavior {self.name!r}: {pairs} must be sorted by user and item, each pair once")
        return keys

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays to store; :meth:`from_arrays` reads them back."""
        arrays = self.items.arrays(f"{prefix}.ids") | {f"{prefix}.user": self.user, f"{prefix}.item": self.item}
        for name in OPTIONAL:
            if (array := getattr(self, name)) is not None:
                arrays[f"{prefix}.{name}"] = array
        if self.names is not None:
            arrays |= self.names.arrays(f"{prefix}.names")
        for k, attribute in enumerate(self.attributes.values()):
            arrays |= attribute.arrays(f"{prefix}.attribute.{k}")
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Arrays, prefix: str, *, name: str, attributes: Sequence[tuple[str, bool]]) -> Behavior:
        """Read what :meth:`arrays` stored, without copying; ``attributes`` by name, and whether they are categories."""
        optional: dict[str, Any] = {each: arrays.get(f"{prefix}.{each}") for each in OPTIONAL}
        if f"{prefix}.names.offsets" in arrays:
            optional["names"] = Names.from_arrays(arrays, f"{prefix}.names")
        optional["attributes"] = {
            each: Attribute.from_arrays(arrays, f"{prefix}.attribute.{k}", is_categorical=is_categorical)
            for k, (each, is_categorical) in enumerate(attributes)
        }
        ids = Ids.from_arrays(arrays, f"{prefix}.ids")
        return cls(name, ids, arrays[f"{prefix}.user"], arrays[f"{prefix}.item"], **optional)


def merged(records: Pairs, known: Pairs) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
    """Records and known pairs in one order: users, items, and which are known."""
    user, item = (np.concatenate(columns) for columns in zip(records, known, strict=True))
    order = np.lexsort((item, user))
    return user[order], item[order], order >= len(records[0])


@dataclass(frozen=True)
class Likeness:
    """Of one behavior, the mean cosine of the item sets of friends, and what it would be by chance.

    Only links between two different users who both have records count, each the same whatever its weight. ``friends``
    is the mean over them. ``chance`` is the mean over all pairs of ends of these links, of one link or of two, that
    belong to different users: what links tied anew at random would give, if two users may be tied twice. Both count a
    user as often as it has such links, so that friends are not more alike just because they are more active.
    """

    links: int
    compared: int  # all of them, or as many as are drawn
    sharing: int  # of these, the links whose users share an item
    friends: float | None  # None without links
    chance: float | None
    standard_error: float | None  # of ``friends``; None of fewer than two, or where none share an item

    @property
    def ratio(self) -> float | None:
        """How many times as alike as any two users friends are; None where no two share an item."""
        return self.friends / self.chance if self.friends is not None and self.chance else None

    @property
    def ratio_error(self) -> float | None:
        """The standard error of ``ratio``; chance is exact and has none."""
        return self.standard_error / self.chance if self.standard_error is not None and self.chance else None

    @property
    def is_hardly_above_chance(self) -> bool | None:
        """Whether friends are hardly more alike than any two users, by two standard errors; None if unclear."""
        if self.sharing < ENOUGH or self.ratio is None or self.ratio_error is None:
            return None
        return self.ratio + 2 * self.ratio_error < LITTLE


def likeness(graph: Graph, behavior: Behavior, *, most_links: int = MOST_LINKS) -> Likeness:
    """How alike friends are in one behavior; in a directed graph two users are friends if either follows the other."""
    graph = graph.symmetric()
    records = np.bincount(behavior.user, minlength=graph.n_users)
    active = records > 0
    source = graph.sources()
    counted = active[source] & active[graph.indices] & (source < graph.indices)  # from its lower end, each link once
    source, target = source[counted], graph.indices[counted]
    n_links = len(source)
    if not n_links:
        return Likeness(0, 0, 0, None, None, None)
    ends = np.bincount(source, minlength=graph.n_users) + np.bincount(target, minlength=graph.n_users)
    chosen = _chosen(n_links, most_links, behavior.name)
    step = -(-int((records[source[chosen]] + records[target[chosen]]).sum()) // MOST_RECORDS)
    source, target = source[chosen[::step]], target[chosen[::step]]
    cosines = _cosines(behavior, records, source, target)
    sharing = int(np.count_nonzero(cosines))
    error = _standard_error(cosines, source, target)
    chance = _chance(behavior, records, ends)
    return Likeness(n_links, len(cosines), sharing, float(cosines.mean()), chance, error)


def _chosen(n_links: int, most_links: int, name: str) -> NDArray[np.int64]:
    """Numbers of the links to compare, in order, each link with the same chance; one may come twice."""
    if n_links <= most_links:
        return np.arange(n_links)
    places = np.arange(most_links) + Stream(0, "likeness", name).uniform(most_links)
    return (places * (n_links / most_links)).astype(np.int64)


def _cosines(
    behavior: Behavior, records: NDArray[np.int64], source: NDArray[np.int32], target: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Of each pair of users, items of both over the root of the product of the items of each."""
    from scipy import sparse  # as in graph.py

    ones = np.ones(len(behavior), dtype=np.int8)
    touched = sparse.csr_array((ones, behavior.item, offsets(records)), (len(records), behavior.n_items))
    starts = offsets(records[source] + records[target])
    cuts = np.searchsorted(starts, np.arange(0, int(starts[-1]), AT_ONCE))
    parts = itertools.pairwise(np.unique([*cuts, len(source)]).tolist())  # about AT_ONCE records in each
    common = [touched[source[start:end]].multiply(touched[target[start:end]]).sum(axis=1) for start, end in parts]
    cosines: NDArray[np.float64] = np.concatenate(common) / np.sqrt(records[source] * records[target])
    return cosines


def _chance(behavior: Behavior, records: NDArray[np.int64], ends: NDArray[np.int64]) -> float:
    """The mean cosine over all pairs of ends that belong to different users.

    Of unit vectors v and ends d of the users u, that is (|Σ d v|² − Σ d²) / ((Σ d)² − Σ d²). The difference above
    is taken item by item: it is 0, and not nearly so, where no two users share one.
    """
    share = ends / np.sqrt(np.maximum(records, 1))
    together, alone = np.zeros((2, behavior.n_items))
    for start in range(0, len(behavior), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        item = behavior.item[part]
        of_user = share[behavior.user[part]]
        together += np.bincount(item, of_user, minlength=behavior.n_items)
        alone += np.bincount(item, of_user**2, minlength=behavior.n_items)
    pairs = int(ends.sum()) ** 2 - int((ends**2).sum())
    return float((together**2 - alone).sum() / pairs)


def _standard_error(cosines: NDArray[np.float64], source: NDArray[np.int32], target: NDArray[np.int32]) -> float | None:
    """Of the mean over links, where links of one user may go together (Aronow, Samii and Assenova, 2015)."""
    if len(cosines) < 2 or not cosines.any():
        return None
    off = cosines - cosines.mean()
    _, user = np.unique(np.concatenate([source, target]), return_inverse=True)
    of_users = np.bincount(user, np.concatenate([off, off]))
    independent = float((off**2).sum())
    shared = float((of_users**2).sum()) - independent  # each pair of links that share a user, and each link once
    # by chance alone the estimate may fall below that of independent links: the larger of the two is taken
    return float(np.sqrt(max(independent * len(off) / (len(off) - 1), shared)) / len(off))
