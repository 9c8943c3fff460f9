"""The behaviors of users, what else is known of them, and how alike friends are in a behavior."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mcne.data.graph import Graph, offsets
from mcne.data.ids import Ids
from mcne.files import freeze
from mcne.randomness import Stream

MOST_LINKS = 100_000  # of more, one is drawn from each of this many equal stretches
MOST_RECORDS = 1 << 28  # if the compared users have more, fewer links are compared
AT_ONCE = 1 << 22  # records held in memory at a time
LITTLE = 1.5  # friends less than this many times as alike as any two users are hardly alike; on Ciao it is 2.0 to 2.4
ENOUGH = 30  # with fewer links whose users share an item, there is no verdict


@dataclass(frozen=True, eq=False)
class Behavior:
    """One kind of behavior: its items and who touched which, each pair once, by user and then by item."""

    name: str
    items: Ids
    user: NDArray[np.int32]  # [interactions] rows of users, never decreasing
    item: NDArray[np.int32]  # [interactions] rows of items, increasing within a user
    timestamp: NDArray[Any] | None = None  # [interactions] int64 or float64

    def __post_init__(self) -> None:
        freeze(self, "user", "item", "timestamp")

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

    def validate(self, n_users: int) -> None:
        """Raise ``ValueError`` unless every property that the class promises holds."""
        if not len(self):
            raise ValueError(f"behavior {self.name!r} has no interactions")
        for column, size in (("user", n_users), ("item", self.n_items)):
            rows = getattr(self, column)
            if rows.dtype != np.int32 or len(rows) != len(self) or not 0 <= rows.min() <= rows.max() < size:
                raise ValueError(f"behavior {self.name!r}: {column}s must be int32 rows below {size}")
        keys = self.user.astype(np.int64) * self.n_items + self.item
        if np.any(keys[1:] <= keys[:-1]):
            raise ValueError(f"behavior {self.name!r}: interactions must be sorted by user and item, each pair once")
        if not np.all(self.popularity()):
            raise ValueError(f"behavior {self.name!r}: an item without interactions")
        times = self.timestamp
        if times is not None and (len(times) != len(self) or times.dtype not in (np.int64, np.float64)):
            raise ValueError(f"behavior {self.name!r}: timestamps must be int64 or float64, one per interaction")
        if times is not None and not np.all(np.isfinite(times)):
            raise ValueError(f"behavior {self.name!r}: timestamps must be finite")


@dataclass(frozen=True, eq=False)
class Attribute:
    """One fact about every user: numbers (NaN where unknown), or rows of ``categories`` (−1 where unknown)."""

    values: NDArray[Any]  # [users] float64, or int32 rows of categories
    categories: Ids | None = None

    def __post_init__(self) -> None:
        freeze(self, "values")

    def validate(self, name: str, n_users: int) -> None:
        """Raise ``ValueError`` unless the values fit their kind."""
        kind = np.float64 if self.categories is None else np.int32
        if self.values.shape != (n_users,) or self.values.dtype != kind:
            raise ValueError(f"attribute {name!r}: one {np.dtype(kind).name} per user expected")
        if self.categories is not None and n_users:
            if not -1 <= self.values.min() <= self.values.max() < len(self.categories):
                raise ValueError(f"attribute {name!r}: a category out of range")
        elif np.any(np.isinf(self.values)):
            raise ValueError(f"attribute {name!r}: an infinite value")


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
    """How alike friends are in one behavior."""
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
