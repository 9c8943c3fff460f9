"""The social network, undirected or directed, in compressed rows, and the two steps of every compressed layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.files import Arrays, freeze

SYMMETRY_CHUNK = 1 << 22
INT32_MAX = np.iinfo(np.int32).max


def run_starts(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """True where a sorted array takes a new value."""
    starts = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=starts[1:])
    return starts


def offsets(counts: NDArray[Any]) -> NDArray[Any]:
    """Row offsets ``[0, c0, c0 + c1, …]``, int32 where they fit."""
    ends = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=ends[1:])
    return ends.astype(np.int32) if ends[-1] <= INT32_MAX else ends


@dataclass(frozen=True, eq=False)
class Graph:
    """Who is linked to whom; both directions of a link are stored, a link to oneself once.

    ``indices[indptr[u]:indptr[u + 1]]`` are the neighbors of ``u``, increasing, each once; ``weights`` has the
    shape of ``indices``, is positive, and equal in both directions. Links are int32, offsets int32 where they fit.
    Where the graph ``is_directed``, the neighbors of a user are those whom it follows, and only they: a link is stored
    in its own direction, and one back is another link.
    """

    indptr: NDArray[Any]  # [users + 1]
    indices: NDArray[np.int32]  # [directions]
    weights: NDArray[np.float32] | None = None  # [directions]
    is_directed: bool = False

    def __post_init__(self) -> None:
        freeze(self, "indptr", "indices", "weights")

    @property
    def n_users(self) -> int:
        """Rows of the graph."""
        return len(self.indptr) - 1

    @property
    def n_directions(self) -> int:
        """Stored directions, the count that the paper prints."""
        return len(self.indices)

    @property
    def n_links(self) -> int:
        """Links as people count them: pairs of linked users and links to oneself; of a directed graph, directions."""
        return self.n_directions if self.is_directed else (self.n_directions + self.n_self_links()) // 2

    @property
    def degrees(self) -> NDArray[Any]:
        """Neighbors of each user."""
        return np.diff(self.indptr)

    def neighbors(self, user: int) -> NDArray[np.int32]:
        """The neighbors of one user, increasing; whom it follows in a directed graph."""
        return self.indices[self.indptr[user] : self.indptr[user + 1]]

    def followers(self, user: int) -> NDArray[np.int32]:
        """Those whose neighbor a user is, increasing; its own neighbors where the graph is undirected."""
        return self.sources()[self.indices == user] if self.is_directed else self.neighbors(user)

    def symmetric(self) -> Graph:
        """The undirected graph in which two users are linked if either follows the other; the larger weight counts."""
        if not self.is_directed:
            return self
        return undirected(self.n_users, self.sources(), self.indices, self.weights)[0]

    def sources(self) -> NDArray[np.int32]:
        """The user at the near end of every stored direction, aligned with ``indices``."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), self.degrees)

    def shares(self, *, weighted: bool) -> NDArray[np.float64]:
        """Each neighbor's share in what a user aggregates, aligned with ``indices``: all alike, or by weight."""
        sources = self.sources()
        weights = self.weights.astype(np.float64) if weighted and self.weights is not None else np.ones(len(sources))
        return weights / np.bincount(sources, weights, minlength=self.n_users)[sources]

    def share(self, neighbor: int, user: int, *, weighted: bool) -> float:
        """The share of one neighbor among all of a user."""
        near = slice(self.indptr[user], self.indptr[user + 1])
        weights = self.weights[near] if weighted and self.weights is not None else np.ones(near.stop - near.start)
        return float(weights[self.indices[near] == neighbor].sum(dtype=np.float64) / weights.sum(dtype=np.float64))

    def n_self_links(self) -> int:
        """How many users are linked to themselves."""
        return int(np.count_nonzero(self.sources() == self.indices))

    def restrict(self, kept: NDArray[np.bool_]) -> Graph:
        """The graph among the kept users, renumbered in order."""
        sources = self.sources()
        edges = kept[sources] & kept[self.indices]
        rows = np.cumsum(kept, dtype=np.int32) - np.int32(1)
        counts = np.bincount(rows[sources[edges]], minlength=int(kept.sum()))
        weights = None if self.weights is None else self.weights[edges]
        return Graph(offsets(counts), rows[self.indices[edges]], weights, self.is_directed)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to store; :meth:`from_arrays` reads them back."""
        arrays = {"graph.indptr": self.indptr, "graph.indices": self.indices}
        if self.is_directed:
            arrays["graph.directed"] = np.ones(1, dtype=bool)
        return arrays if self.weights is None else arrays | {"graph.weights": self.weights}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Graph:
        """Read what :meth:`arrays` stored, without copying."""
        weights = arrays.get("graph.weights")
        return cls(arrays["graph.indptr"], arrays["graph.indices"], weights, "graph.directed" in arrays)

    def validate(self) -> None:
        """Raise ``ValueError`` unless every property that the class promises holds."""
        indptr, indices = self.indptr, self.indices
        if not len(indptr) or indptr[0] != 0 or indptr[-1] != len(indices) or np.any(np.diff(indptr) < 0):
            raise ValueError("graph offsets must start at 0, never decrease and end at the number of links")
        if indptr.dtype != (np.int32 if len(indices) <= INT32_MAX else np.int64):
            raise ValueError(f"graph offsets must be int32 where they fit, else int64, not {indptr.dtype}")
        if indices.dtype != np.int32 or (len(indices) and not 0 <= indices.min() <= indices.max() < self.n_users):
            raise ValueError(f"graph neighbors must be int32 rows below {self.n_users}")
        within = np.ones(len(indices), dtype=bool)
        within[indptr[:-1][self.degrees > 0]] = False
        if np.any((np.diff(indices, prepend=np.int32(-1)) <= 0) & within):
            raise ValueError("the neighbors of a user must be increasing, each once")
        if self.weights is not None:
            if self.weights.shape != indices.shape or self.weights.dtype != np.float32:
                raise ValueError("link weights must be float32, a weight for each link")
            if not (np.all(np.isfinite(self.weights)) and np.all(self.weights > 0)):
                raise ValueError("link weights must be finite and positive")
        if not self.is_directed and not self._is_symmetric():
            raise ValueError("every link must be stored in both directions, with one weight")

    def _is_symmetric(self) -> bool:
        """Compare the sum over links of f(source)·g(target)·h(weight) with that of the links turned round.

        With f, g and h three hashes, an asymmetric graph passes with a chance near 2^-64, at no cost in memory.
        Rows hold each neighbor once, so equal sums mean equal sets.
        """
        rows = np.arange(self.n_users, dtype=np.uint64)
        f, g = _mix(rows), _mix(rows + np.uint64(1 << 40))
        balance = np.zeros(1, dtype=np.uint64)  # an array, because only arrays wrap around in silence
        sources = self.sources()
        for start in range(0, self.n_directions, SYMMETRY_CHUNK):
            part = slice(start, start + SYMMETRY_CHUNK)
            source, target = sources[part], self.indices[part]
            terms = f[source] * g[target] - f[target] * g[source]
            if self.weights is not None:
                terms *= _mix(self.weights[part].view(np.uint32).astype(np.uint64))
            balance += terms.sum(dtype=np.uint64)
        return bool(balance[0] == 0)


def undirected(
    n_users: int, source: NDArray[Any], target: NDArray[Any], weight: NDArray[np.float32] | None = None
) -> tuple[Graph, int]:
    """The graph of these pairs, and how many of them repeat an earlier pair in the same direction.

    Of differing weights of one link the largest counts: listing it once, twice or in both directions is the same.
    """
    from scipy import sparse  # nothing else here needs it, and its import takes as long as a short answer

    keys = np.minimum(source, target).astype(np.int64)
    keys *= n_users
    keys += np.maximum(source, target)
    keys *= 2
    keys += source > target  # the direction is the last bit
    keys, weight = _in_order(keys, weight)
    repeats = len(keys) - int(np.count_nonzero(run_starts(keys)))
    keys >>= 1
    keys, weight = _merged(keys, weight)
    # distinct ``low * n + high``, from which rows are made that hold every link from both ends
    low = (keys // max(n_users, 1)).astype(np.int32)
    high = (keys % max(n_users, 1)).astype(np.int32)
    values = np.ones(len(keys), np.int8) if weight is None else weight
    del keys
    shape = (n_users, n_users)
    upper = sparse.csr_array((values, high, offsets(np.bincount(low, minlength=n_users))), shape)
    other = low != high  # a link to oneself is stored once
    if not other.all():
        values, low, high = values[other], low[other], high[other]
    both = upper + sparse.coo_array((values, (high, low)), shape).tocsr()
    weights = None if weight is None else both.data
    return Graph(offsets(np.diff(both.indptr)), both.indices.astype(np.int32, copy=False), weights), repeats


def directed(
    n_users: int, source: NDArray[Any], target: NDArray[Any], weight: NDArray[np.float32] | None = None
) -> tuple[Graph, int]:
    """The directed graph of these links from ``source`` to ``target``, and how many of them repeat an earlier one.

    Of differing weights of one link the largest counts.
    """
    keys, weight = _in_order(source.astype(np.int64) * n_users + target, weight)
    distinct, weight = _merged(keys, weight)
    follower, followed = np.divmod(distinct, max(n_users, 1))
    counts = np.bincount(follower, minlength=n_users)
    graph = Graph(offsets(counts), followed.astype(np.int32), weight, is_directed=True)
    return graph, len(keys) - len(distinct)


def _in_order(
    keys: NDArray[np.int64], weight: NDArray[np.float32] | None
) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    """The keys, increasing, and their weights; without weights the keys are sorted in place."""
    if weight is None:
        keys.sort()
        return keys, None
    order = np.argsort(keys, kind="stable")
    return keys[order], weight[order]


def _merged(
    keys: NDArray[np.int64], weight: NDArray[np.float32] | None
) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
    """Each of the keys, which never decrease, once, and its largest weight."""
    first = run_starts(keys)
    if weight is not None and len(keys):
        weight = np.maximum.reduceat(weight, np.flatnonzero(first))
    return keys[first], weight


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of SplitMix64: a bijection of 64-bit words that looks random."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
