"""What scores items for users, and exact search by inner product or cosine, from raw ids to raw ids.

The last bits of a matrix product depend on the machine and on how many queries share it. So it only makes a short
list, as long as its rounding requires; the short list is scored again in double precision, a row at a time, and a
question has one answer, whoever else is asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mcne.data.ids import Ids, Names, names_of
from mcne.embeddings.answers import Kind
from mcne.embeddings.answers import Ranking as Ranking
from mcne.errors import UsageError

RawId = int | str
RawIds = Sequence[int | str] | NDArray[Any]

AT_ONCE = 1 << 24  # numbers held in memory
GATHERED_AT_ONCE = 1 << 18  # numbers gathered, few enough to be still in cache when they are multiplied
EPSILON = float(np.finfo(np.float32).eps)
SAMPLED_AT_ONCE = 1 << 16  # scores of sampled items asked for in one call: a scorer may gather a vector for each
ZERO_NORM = 1e-18  # a vector no longer, whose square float32 can hardly hold, counts as zero: all its cosines are 0


class Scorer(Protocol):
    """Scores items of one behavior for users; the higher, the sooner recommended.

    The same pair gets the same score wherever it stands in ``items``: a score computed differently by position
    would break ties by position.
    """

    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """Scores [n, m] of ``items`` [n, m] for ``users`` [n], or [n, n_items] of the whole catalog.

        Users are rows of the dataset, items rows of the behavior's catalog; ``items`` holds valid rows only (a caller
        with lists of several lengths fills them up and ignores those scores). The caller never writes to the result.
        """
        ...


class DeferredScorer:
    """A scorer that is made at the first question; a wrong name is reported before that."""

    def __init__(self, make: Callable[[], Scorer]) -> None:
        self._make = make

    @cached_property
    def _scorer(self) -> Scorer:
        return self._make()

    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """As :meth:`Scorer.scores`."""
        return self._scorer.scores(behavior, users, items)


@dataclass(frozen=True)
class DotScorer:
    """``⟨u ⊙ m_c, z⟩ + b``: users by items, with a mask and a catalog per behavior."""

    vectors: NDArray[np.float32]  # [users, d]
    masks: NDArray[np.bool_]  # [C, d]
    item_vectors: tuple[NDArray[np.float32], ...]  # C × [items, d]
    item_bias: tuple[NDArray[np.float32], ...] | None = None  # C × [items]

    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """[n, m] for ``items`` [n, m] of each user, [n, all items] without."""
        bias = None if self.item_bias is None else self.item_bias[behavior]
        queries = self.vectors[users] * self.masks[behavior]
        return inner_products(queries, self.item_vectors[behavior], bias=bias, items=items)


@dataclass(frozen=True, eq=False)
class VectorTable:
    """What is searched: the score of query ``q`` is ``⟨q, v⟩ · scale + bias``, ``scale`` being 1/‖v‖ for the cosine."""

    ids: Ids
    vectors: NDArray[np.float32]  # [m, d]
    scale: NDArray[np.float32] | None = None  # [m]
    bias: NDArray[np.float32] | None = None  # [m]
    kind: Kind = "item"
    names: Names | None = None

    def only(self, rows: NDArray[np.integer[Any]]) -> VectorTable:
        """The table of these rows, which must be increasing."""
        scale, bias = (None if each is None else each[rows] for each in (self.scale, self.bias))
        names = None if self.names is None else self.names.subset(rows)
        return VectorTable(self.ids.subset(rows), self.vectors[rows], scale, bias, self.kind, names)

    def search(self, queries: NDArray[np.float32], *, k: int, excluded: Sequence[NDArray[Any]]) -> list[Ranking]:
        """The ``k`` best for each of ``queries`` [n, d], but none of the rows ``excluded[q]``."""
        check_k(k)
        errors = self._rounding_errors(queries)
        rankings = []
        step = max(1, AT_ONCE // max(1, len(self.ids)))
        for start in range(0, len(queries), step):
            rough = self._scaled(queries[start : start + step] @ self.vectors.T, slice(None))
            for at, scores in enumerate(rough, start=start):
                scores[excluded[at]] = -np.inf
                rows = _short_list(scores, min(k, len(scores) - len(excluded[at])), error=errors[at])
                exact = scores[rows]
                if errors[at]:  # again in double precision, rounded once
                    query = queries[at].astype(np.float64)
                    exact = np.einsum("d,nd->n", query, self.vectors[rows].astype(np.float64))
                    exact = self._scaled(exact, rows).astype(np.float32)
                best = np.argsort(-exact, kind="stable")[:k]  # rows increase: of equals the lower comes first
                names = names_of(self.names, rows[best])
                ids = tuple(self.ids.take(rows[best]))
                rankings.append(Ranking(ids, exact[best], self.kind, names, self.ids.kind))
        return rankings

    def _scaled(self, products: NDArray[Any], rows: NDArray[np.int64] | slice) -> NDArray[Any]:
        """The scores of these rows from inner products, in place."""
        if self.scale is not None:
            products *= self.scale[rows]
        if self.bias is not None:
            products += self.bias[rows]
        return products

    def _rounding_errors(self, queries: NDArray[np.float32]) -> NDArray[np.float64]:
        """At most how far ``⟨q, v⟩ · scale`` in float32 is from the truth, ``d ε ‖q‖ ‖v‖``, [n]; 0 for a zero query."""
        d = queries.shape[1]
        largest = float(max(self.vectors.max(), -self.vectors.min())) if self.vectors.size else 0.0
        longest = 1.0 if self.scale is not None else np.sqrt(d) * largest
        norms = np.sqrt(np.square(queries, dtype=np.float64).sum(axis=1))
        errors: NDArray[np.float64] = d * EPSILON * longest * norms
        return errors


def inner_products(
    queries: NDArray[np.float32],
    vectors: NDArray[np.float32],
    *,
    bias: NDArray[np.float32] | None,
    items: NDArray[Any] | None,
) -> NDArray[np.float32]:
    """``⟨q, v⟩ + b`` of ``queries`` [n, d]: with rows ``items`` [n, m] of ``vectors``, or with all of them."""
    if items is None:
        scored: NDArray[np.float32] = queries @ vectors.T
        return scored if bias is None else scored + bias
    scored = np.empty(items.shape, dtype=np.float32)
    step = max(1, GATHERED_AT_ONCE // max(1, items.shape[1] * queries.shape[1]))
    for start in range(0, len(items), step):
        part = slice(start, start + step)
        scored[part] = np.einsum("nd,nmd->nm", queries[part], vectors.take(items[part], axis=0))
    return scored if bias is None else scored + bias[items]


def inverse_norms(vectors: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """``1 / ‖v ⊙ m‖`` of each row, 0 where the vector is zero."""
    masked = vectors * mask
    norms = np.sqrt(np.einsum("nd,nd->n", masked, masked))
    inverse: NDArray[np.float32] = np.divide(1, norms, out=np.zeros_like(norms), where=norms > ZERO_NORM)
    return inverse


def check_k(k: object) -> None:
    """Refuse a number of results that is not a whole number of 1 or more."""
    if not isinstance(k, int | np.integer) or k < 1:
        raise UsageError(f"{k!r} is out of range", "k", "use a whole number of 1 or more", value=k)


def rows_of(ids: Ids, raw: RawId | RawIds, *, what: str, of: str = "") -> NDArray[np.int64]:
    """The rows of one raw id or several; the first unknown one is an error."""
    wanted: Any = [raw] if is_one(raw) else raw
    if isinstance(wanted, pa.Array | pa.ChunkedArray):
        wanted = wanted.to_pylist()
    is_many = isinstance(wanted, Iterable) and not (isinstance(wanted, np.ndarray) and wanted.ndim != 1)
    wanted = list(wanted) if is_many else [()]
    if any(isinstance(each, list | tuple | np.ndarray) for each in wanted):
        raise UsageError(
            f"{raw!r} is neither an id nor a list of ids", what + of, "use an id, or a list of ids", value=raw
        )
    rows = ids.rows(wanted)
    for at in np.flatnonzero(rows < 0):
        rows[at] = ids.row(wanted[at], what=what, of=of)  # text that spells an integer, or an error
    return rows


def _short_list(scores: NDArray[np.float32], k: int, *, error: float) -> NDArray[np.int64]:
    """The rows, increasing, that may be among the ``k`` best or tie with them, each score being off by ``error``."""
    if k <= 0:
        return np.zeros(0, dtype=np.int64)
    worst = float(np.partition(scores, len(scores) - k)[len(scores) - k])
    return np.flatnonzero(scores >= worst - 2 * error - 4 * EPSILON * abs(worst))


def is_one(raw: object) -> bool:
    """Whether it is one raw id, and not several."""
    return isinstance(raw, int | str | np.integer)
