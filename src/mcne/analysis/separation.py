"""How far groups of points stand apart, and how much of a neighborhood survives in a map or under a mask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

NEIGHBORS = 15
BLOCK = 1024
"""Rows whose distances to all others are held at once."""


@dataclass(frozen=True)
class Separation:
    """Of points in groups: by the silhouette, from -1 to 1, and by whom they stand next to."""

    silhouette: float
    same_group: float  # of the nearest points, the share that is of the same group

    def to_json(self) -> dict[str, float]:
        """Plain data."""
        return dict(vars(self))


def separation(points: NDArray[Any]) -> Separation:
    """How far the groups of ``points`` [groups, n, d] stand apart."""
    from sklearn.metrics import silhouette_score

    groups, n, d = points.shape
    flat, labels = points.reshape(groups * n, d), np.repeat(np.arange(groups), n)
    near = nearest(flat, _few(len(flat)))
    return Separation(
        silhouette=float(silhouette_score(flat, labels)), same_group=float(np.mean(labels[near] == labels[:, None]))
    )


def nearest(points: NDArray[Any], k: int) -> NDArray[np.int64]:
    """The ``k`` other points nearest to each, [n, k], the nearest first; of equals the earlier."""
    found = [np.argsort(distances, axis=1, kind="stable")[:, :k] for _, distances in _distances(points)]
    return np.concatenate(found).astype(np.int64, copy=False)


def trustworthiness(points: NDArray[Any], places: NDArray[Any]) -> float:
    """How far the neighbors in a map are neighbors indeed, from 0 to 1 (Venna and Kaski 2001).

    Legend: r(i, j) the rank of j among those nearest to i in the original; k neighbors in the map.
    ``1 − 2 / (n k (2n − 3k − 1)) · Σ_i Σ_{j near i in the map} max(0, r(i, j) − k)``. Of equal distances none is
    farther.
    """
    n, k = len(points), _few(len(points))
    near = nearest(places, k)
    beyond = 0
    for start, distances in _distances(points):
        for row, others in zip(distances, near[start : start + len(distances)], strict=True):
            rank = np.searchsorted(np.sort(row), row[others]) + 1
            beyond += int(np.maximum(rank - k, 0).sum())
    return 1 - 2 / (n * k * (2 * n - 3 * k - 1)) * beyond


def kept_neighbors(points: NDArray[Any], others: NDArray[Any]) -> float:
    """Of the nearest in ``points`` [n, d], the share that is among the nearest in ``others`` [n, e], too."""
    k = _few(len(points))
    pairs = zip(nearest(points, k), nearest(others, k), strict=True)
    return float(np.mean([len(np.intersect1d(one, other)) / k for one, other in pairs]))


def _few(n: int) -> int:
    """How many neighbors count among ``n`` points: the measure needs fewer than half of them."""
    return min(NEIGHBORS, (n - 1) // 2)


def _distances(points: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Distances to all points by blocks of rows, with the first row of each; none is near itself."""
    for start in range(0, len(points), BLOCK):
        distances = cdist(points[start : start + BLOCK], points)
        rows = np.arange(len(distances))
        distances[rows, start + rows] = np.inf
        yield start, distances
