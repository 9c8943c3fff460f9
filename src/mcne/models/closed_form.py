"""What methods in closed form share: the records of all behaviors as one matrix, neighbors, scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from mcne.errors import UsageError
from mcne.models.contract import TrainingData
from mcne.models.memory import free_memory
from mcne.models.tables import to_numpy

AT_ONCE = 1 << 22
"""Numbers that are held in memory at a time: few enough to stay in cache."""

NEIGHBOR_BYTES = 40
"""Of each neighbor kept, while all are put together: a similarity and two rows, three times over."""

Matrix = Any
"""A dense float array, or a ``scipy.sparse.csr_array`` of float32."""


@dataclass(frozen=True, eq=False)
class ProductScorer:
    """Scores ``(L R_c)_ui + b_i + O_ui`` of item i of behavior c for user u.

    A chunk of users at a time, so users × items are never in memory. Each sum runs in one order, whatever else is
    scored: a pair has one score, to the last bit.
    """

    left: Matrix  # [users, n]
    right: tuple[Matrix, ...]  # C × [n, items]
    bias: tuple[NDArray[np.float32], ...]  # C × [items]
    own: tuple[Matrix, ...] = ()  # C × [users, items], or none

    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """[n, m] for ``items`` [n, m] of each user, [n, all items] without."""
        n_items = len(self.bias[behavior])
        scored = np.empty((len(users), n_items) if items is None else items.shape, dtype=np.float32)
        step = max(1, AT_ONCE // max(1, n_items, self.left.shape[1]))
        for start in range(0, len(users), step):
            part = slice(start, start + step)
            catalog = _dense(self.left[users[part]] @ self.right[behavior]) + self.bias[behavior]  # [n, all items]
            if self.own:
                catalog = catalog + _dense(self.own[behavior][users[part]])
            scored[part] = catalog if items is None else np.take_along_axis(catalog, items[part], axis=1)
        return scored

    def tensors(self) -> dict[str, Tensor]:
        """Everything in it; sparse matrices as their three arrays."""
        packed = _pack("left", self.left)
        for name in ("right", "bias", "own"):
            for k, matrix in enumerate(getattr(self, name)):
                packed |= _pack(f"{name}.{k}", matrix)
        return packed

    def taking(self, tensors: Mapping[str, Tensor]) -> ProductScorer:
        """A scorer of these shapes with copies of other tensors."""

        def unpack(name: str) -> tuple[Matrix, ...]:
            return tuple(_unpack(f"{name}.{k}", like, tensors) for k, like in enumerate(getattr(self, name)))

        return ProductScorer(_unpack("left", self.left, tensors), unpack("right"), unpack("bias"), unpack("own"))


class ClosedForm:
    """A method that does not learn step by step: its constructor computes the scorer."""

    _scorer: ProductScorer

    def scorer(self) -> ProductScorer:
        """The scores of all users and items."""
        return self._scorer

    def learned(self) -> dict[str, Tensor]:
        """The matrices of the scorer."""
        return self._scorer.tensors()

    def load(self, learned: Mapping[str, Tensor]) -> None:
        """Take over the matrices of a scorer."""
        self._scorer = self._scorer.taking(learned)


def records_of(data: TrainingData, *, weighted: bool = False) -> tuple[Matrix, ...]:
    """The training pairs of each behavior as ones, or as their weights over the mean weight, C × [users, items]."""
    return tuple(
        sparse.csr_array(
            (data.relative_weights(k) if weighted else np.ones(len(user), np.float32), (user, item)),
            shape=(data.n_users, n_items),
        )
        for k, ((user, item), n_items) in enumerate(zip(data.pairs, data.n_items, strict=True))
    )


def joint(records: tuple[Matrix, ...]) -> Matrix:
    """The records of all behaviors side by side, as one behavior: [users, all items]."""
    return sparse.csr_array(sparse.hstack(records, format="csr", dtype=np.float32))


def columns_of(records: tuple[Matrix, ...]) -> list[slice]:
    """Where each behavior's items are in the joint records."""
    ends = np.cumsum([0, *(each.shape[1] for each in records)]).tolist()
    return [slice(start, stop) for start, stop in pairwise(ends)]


def log_popularity(data: TrainingData, *, weight: float) -> tuple[NDArray[np.float32], ...]:
    """``weight · log(1 + n_i)``, n_i being the users who have item i: C × [items]."""
    return tuple(
        (weight * np.log1p(np.bincount(item, minlength=n_items))).astype(np.float32)
        for (_, item), n_items in zip(data.pairs, data.n_items, strict=True)
    )


def inverse_frequency(counts: NDArray[Any], total: int) -> NDArray[np.float64]:
    """``log(1 + total / n) / log(1 + total)``: what occurs once of ``total`` times weighs 1, what is common less."""
    total = max(total, 1)
    return np.asarray(np.log1p(total / np.maximum(counts, 1)) / np.log1p(total))


def cosine_neighbors(vectors: Matrix, *, neighbors: int | None, shrinkage: float = 0.0) -> Matrix:
    """The most similar other rows of each row of non-negative ``vectors`` [n, m], with their similarities: [n, n].

    ``⟨v_a, v_b⟩ / (‖v_a‖ ‖v_b‖ + shrinkage)``, the cosine where nothing is shrunk. Of equals the lower row is the
    nearer one; without a number of ``neighbors``, all rows that have anything in common are neighbors. Only products
    of stored numbers are computed, a chunk of rows at a time.
    """
    vectors = sparse.csr_array(vectors, dtype=np.float64)
    columns = vectors.T.tocsr()
    norms = np.sqrt(vectors.power(2).sum(axis=1))  # [n]
    of_each = np.diff(columns.indptr).astype(np.int64)[vectors.indices]
    products = np.diff(np.concatenate([[0], np.cumsum(of_each)])[vectors.indptr])  # [n] that each row adds up
    n = vectors.shape[0]
    kept = np.minimum(products, n if neighbors is None else min(neighbors, n)).sum()
    require_memory(NEIGHBOR_BYTES * int(kept), f"to keep up to {kept:,} neighbors")
    chunks = []
    for part in _chunks(products):
        near = (vectors[part] @ columns).tocoo()
        row, other = near.row + part.start, near.col
        similarity = (near.data / (norms[row] * norms[other] + shrinkage)).astype(np.float32)
        places = np.flatnonzero(row != other)
        if neighbors is not None:
            places = places[np.lexsort((other[places], -similarity[places], row[places]))]
            first = np.searchsorted(row[places], row[places])  # where the row begins
            places = places[np.arange(len(places)) - first < neighbors]
        chunks.append((similarity[places], row[places], other[places]))
    values, rows, others = (np.concatenate(each) for each in zip(*chunks, strict=True))
    return sparse.csr_array((values, (rows, others)), shape=(n, n))


def require_memory(needed: int, purpose: str, *, device: torch.device | None = None) -> None:
    """Refuse what would swap."""
    free = _free_memory(device)
    if needed > free:
        raise UsageError(
            f"needs {needed / 2**30:,.1f} GiB of memory, and {free / 2**30:,.1f} GiB are free",
            purpose,
            "use fewer users and items, or another method",
            value=needed,
            allowed=[free],
        )


def _free_memory(device: torch.device | None) -> int:
    """Bytes that this process may still take, and that its GPU has where that is the device."""
    free = free_memory()
    return min(free, torch.cuda.mem_get_info(device)[0]) if device is not None and device.type == "cuda" else free


def _chunks(costs: NDArray[np.int64]) -> Iterator[slice]:
    """Consecutive rows that cost no more than :data:`AT_ONCE` together, one at least; a chunk even of no rows."""
    ends = np.cumsum(costs)
    start = 0
    while start < len(costs) or start == 0:
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + AT_ONCE, side="right")))
        yield slice(start, stop)
        start = stop


def _dense(matrix: Matrix) -> NDArray[np.float32]:
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)


def _pack(name: str, matrix: Matrix) -> dict[str, Tensor]:
    if not sparse.issparse(matrix):
        return {name: torch.from_numpy(matrix)}
    arrays = {"indptr": matrix.indptr, "indices": matrix.indices, "values": matrix.data}
    return {f"{name}.{part}": torch.from_numpy(array) for part, array in arrays.items()}


def _unpack(name: str, like: Matrix, tensors: Mapping[str, Tensor]) -> Matrix:
    """A copy of the matrix of that name, of the kind and shape of ``like``."""
    if not sparse.issparse(like):
        return to_numpy(tensors[name]).copy()
    values, indices, indptr = (to_numpy(tensors[f"{name}.{part}"]).copy() for part in ("values", "indices", "indptr"))
    return sparse.csr_array((values, indices, indptr), shape=like.shape)
