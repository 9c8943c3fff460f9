"""Maps of users by t-SNE: all their conditional vectors in one map, or one map per behavior, aligned.

The result is plain data with its seed, so a figure can be redrawn without computing the map again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from mcne.data.ids import names_of
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.errors import ArtifactError, UsageError
from mcne.randomness import Stream

KIND, VERSION = "mcne map", 1
SETTINGS = ("layout", "method", "fingerprint", "seed", "perplexity")  # fields of a map that are stored as they are
USERS, FEWEST = 1000, 10  # how many users a map is of, and how many it needs
PERPLEXITY = 30.0
RANDOM_DRAWS = 10
MEASURED = 3000  # points that separation is measured on at most: it takes the distances of all pairs
DIGITS = 3  # of places in a map, which is some hundred units wide
NEIGHBORS = 15
BLOCK = 1024  # rows whose distances to all others are held at once
LEARNED, RANDOM, WHOLE = "learned masks", "random masks", "whole vector"

Layout = Literal["together", "aligned"]


@dataclass(frozen=True)
class Separation:
    """Of points in groups: by the silhouette, from -1 to 1, and by whom they stand next to."""

    silhouette: float
    same_group: float  # of the nearest points, the share that is of the same group


@dataclass(frozen=True, eq=False)
class Panel:
    """One map: the places of the users in it, once or once per behavior."""

    name: str
    groups: tuple[str, ...]
    places: NDArray[np.float64]  # [groups, users, 2]
    trustworthiness: float
    separation: Separation | None = None  # of the places, by group
    kept_neighbors: float | None = None  # of those in the whole vectors

    def numbers(self) -> dict[str, Any]:
        """All but the places."""
        apart = {} if self.separation is None else {"separation_in_map": asdict(self.separation)}
        kept = {} if self.kept_neighbors is None else {"kept_neighbors": self.kept_neighbors}
        return {"name": self.name, "trustworthiness": self.trustworthiness} | apart | kept


@dataclass(frozen=True, eq=False)
class ConditionalMap:
    """Maps of the same users, and measures of the vectors themselves."""

    layout: Layout
    method: str
    fingerprint: str  # of the embeddings
    seed: int
    perplexity: float
    user_ids: tuple[int | str, ...]
    panels: tuple[Panel, ...]
    separation: Separation | None = None  # of the conditional vectors
    random_masks: tuple[Separation, ...] = ()  # of the same whole vectors under random masks, a draw each
    user_names: tuple[str, ...] = ()  # if there are any

    def numbers(self) -> dict[str, Any]:
        """All but ids and places."""
        values: dict[str, Any] = {name: getattr(self, name) for name in SETTINGS}
        values |= {"users": len(self.user_ids), "panels": [panel.numbers() for panel in self.panels]}
        if self.separation is not None:
            values["separation"] = asdict(self.separation)
            values["random_masks"] = [asdict(draw) for draw in self.random_masks]
        return values

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data; :meth:`read` reads it back from a file."""
        places = [dict(zip(panel.groups, panel.places.tolist(), strict=True)) for panel in self.panels]
        content = {"kind": KIND, "version": VERSION} | self.numbers()
        names = {"user_names": list(self.user_names)} if self.user_names else {}
        return content | {"user_ids": list(self.user_ids)} | names | {"places": places}

    @classmethod
    def read(cls, path: Path) -> ConditionalMap:
        """The map that a file holds, as ``mcne plot map`` keeps it."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if (content["kind"], content["version"]) != (KIND, VERSION):
                raise ValueError(f"{content['kind']!r} of version {content['version']}")
            panels = tuple(_panel(*each) for each in zip(content["panels"], content["places"], strict=True))
            same: dict[str, Any] = {name: content[name] for name in SETTINGS}
            same |= {"user_ids": tuple(content["user_ids"]), "user_names": tuple(content.get("user_names", ()))}
            whole = Separation(**content["separation"]) if "separation" in content else None
            draws = tuple(Separation(**draw) for draw in content.get("random_masks", ()))
            return cls(**same, panels=panels, separation=whole, random_masks=draws)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArtifactError(
                f"is not a map that this version can read ({error!r})",
                path,
                "give the .json file that mcne plot map wrote, or draw the map again",
            ) from error


def conditional_map(
    embeddings: ConditionalEmbeddings, *, n_users: int | None = None, seed: int = 0, layout: Layout = "together"
) -> ConditionalMap:
    """A map of random users; by default :data:`USERS` of them, or all if there are fewer.

    ``together`` draws all conditional vectors in one map (the paper's figure), and beside it those of random masks with
    as many ones in use, to show what any masks would give. ``aligned`` draws one map per behavior of the same users.
    """
    _check(embeddings, n_users)
    users = np.sort(Stream(seed, "map", "users").permutation(embeddings.n_users)[: n_users or USERS])
    together = layout == "together"
    with threadpool_limits(1):  # more threads sum in another order, and t-SNE makes much of a last bit
        parts = _together(embeddings, users, seed) if together else {"panels": _aligned(embeddings, users, seed)}
    return ConditionalMap(
        layout=layout,
        method=embeddings.method,
        fingerprint=embeddings.fingerprint,
        seed=seed,
        perplexity=_perplexity(len(users) * (len(embeddings.spaces) if together else 1)),
        user_ids=tuple(embeddings.users.take(users)),
        user_names=names_of(embeddings.user_names, users) or (),
        **parts,
    )


def random_masks(masks: NDArray[np.bool_], used: NDArray[np.bool_], *, seed: int, draw: int) -> NDArray[np.bool_]:
    """Masks that have as many ones each as ``masks`` where ``used``, both [masks, width], and nothing else decided.

    A mask has no effect on a dimension that is zero for every user, so ones moved there would be lost.
    """
    drawn = masks.copy()
    for row, places in enumerate(map(np.flatnonzero, used)):
        order = Stream(seed, "map", "random masks", draw, row).permutation(len(places))
        drawn[row, places] = masks[row, places[order]]
    return drawn


def tsne(vectors: NDArray[Any], *, seed: int, start: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Places of ``vectors`` [n, d] on a map, [n, 2], from the principal components or from given places."""
    try:
        from openTSNE import TSNE
    except ImportError as error:
        raise UsageError("maps need the openTSNE package", remedy="run pip install 'mcne[maps]'") from error
    first = _components(vectors) if start is None else start
    first = first / max(float(first.std()), 1e-12)
    first += Stream(seed, "map", "jitter").normal(first.shape) / 100  # so that equal vectors can part
    settings = {"perplexity": _perplexity(len(vectors)), "neighbors": "exact", "n_jobs": 1, "random_state": 0}
    fitted = TSNE(initialization=first * 1e-4, **settings).fit(np.asarray(vectors, dtype=np.float64))
    return np.asarray(fitted, dtype=np.float64)


def aligned_to(places: NDArray[np.float64], reference: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same map turned or mirrored to lie on ``reference`` as well as it can (Procrustes), and as large as that."""
    ours = places - places.mean(axis=0)
    theirs = reference - reference.mean(axis=0)
    turn, _ = orthogonal_procrustes(ours, theirs)
    scale = np.linalg.norm(theirs) / max(float(np.linalg.norm(ours)), 1e-12)
    moved: NDArray[np.float64] = scale * (ours @ turn) + reference.mean(axis=0)
    return moved


def separation(points: NDArray[Any], *, seed: int) -> Separation:
    """How far the groups of ``points`` [groups, n, d] stand apart, measured on some of the n that this seed draws."""
    from sklearn.metrics import silhouette_score

    groups, n, d = points.shape
    some = np.sort(Stream(seed, "map", "measured").permutation(n)[: max(2, MEASURED // groups)])
    flat = points[:, some].reshape(-1, d)
    labels = np.repeat(np.arange(groups), len(some))
    same_group = labels[nearest(flat, _few(len(flat)))] == labels[:, None]
    return Separation(float(silhouette_score(flat, labels)), float(np.mean(same_group)))


def nearest(points: NDArray[Any], k: int) -> NDArray[np.int64]:
    """The ``k`` other points nearest to each, [n, k], the nearest first; of equals the earlier."""
    blocks = [np.argsort(distances, axis=1, kind="stable")[:, :k] for _, distances in _distances(points)]
    return np.concatenate(blocks).astype(np.int64, copy=False)


def trustworthiness(points: NDArray[Any], places: NDArray[Any]) -> float:
    """The trustworthiness of a map: how far its neighbors are true neighbors, from 0 to 1 (Venna and Kaski 2001).

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


def _together(embeddings: ConditionalEmbeddings, users: NDArray[np.int64], seed: int) -> dict[str, Any]:
    """A map of the conditional vectors and one of those under random masks, with the separation of both."""
    names = embeddings.behavior_names
    whole = np.stack([embeddings.matrix_and_mask(name)[0][users] for name in names])  # [C, n, d]
    masks = np.stack([space.mask for space in embeddings.spaces])
    drawn = [random_masks(masks, np.any(whole != 0, axis=1), seed=seed, draw=draw) for draw in range(RANDOM_DRAWS)]
    panels = []
    for name, mask in ((LEARNED, masks), (RANDOM, drawn[0])):
        vectors = whole * mask[:, None]
        flat = vectors.reshape(-1, vectors.shape[2])
        places = tsne(flat, seed=seed).round(DIGITS)
        apart = places.reshape(*vectors.shape[:2], 2)
        panels.append(Panel(name, tuple(names), apart, trustworthiness(flat, places), separation(apart, seed=seed)))
    return {
        "panels": tuple(panels),
        "separation": separation(whole * masks[:, None], seed=seed),
        "random_masks": tuple(separation(whole * mask[:, None], seed=seed) for mask in drawn),
    }


def _aligned(embeddings: ConditionalEmbeddings, users: NDArray[np.int64], seed: int) -> tuple[Panel, ...]:
    """A map of the whole vectors, and from its places one of each behavior, laid on it."""
    whole = embeddings.vectors[users]
    shared = tsne(whole, seed=seed)
    panels = [Panel(WHOLE, (WHOLE,), shared[None].round(DIGITS), trustworthiness(whole, shared))]
    for name in embeddings.behavior_names:
        matrix, mask = embeddings.matrix_and_mask(name)
        own = matrix[users] * mask
        places = aligned_to(tsne(own, seed=seed, start=shared), shared).round(DIGITS)
        kept = kept_neighbors(whole, own)
        panels.append(Panel(name, (name,), places[None], trustworthiness(own, places), kept_neighbors=kept))
    return tuple(panels)


def _components(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """The first two principal components, [n, 2]; their signs are such that the largest weight is positive."""
    centered = np.asarray(vectors, dtype=np.float64) - vectors.mean(axis=0, dtype=np.float64)
    axes = np.linalg.eigh(centered.T @ centered)[1][:, ::-1][:, :2]  # [d, 2], or [1, 1] of one dimension
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    components = centered @ axes
    return np.pad(components, ((0, 0), (0, 2 - components.shape[1])))


def _perplexity(n: int) -> float:
    """The default perplexity, or a smaller one for few points."""
    return min(PERPLEXITY, (n - 1) // 3)


def _check(embeddings: ConditionalEmbeddings, n_users: int | None) -> None:
    """Refuse too few users, and vectors that do not differ between behaviors."""
    method, spaces = embeddings.method, embeddings.spaces
    if not embeddings.width:
        raise UsageError.of_method("has no vectors to draw", method, "train a method with vectors, such as mcne")
    if all(np.array_equal(space.mask, spaces[0].mask) and space.user_vectors is None for space in spaces):
        raise UsageError.of_method(
            "has the same user vectors on every behavior, so a map cannot separate the behaviors",
            method,
            "train mcne, mcne-a or mcne-f",
        )
    wanted = min(USERS, embeddings.n_users) if n_users is None else n_users
    if not FEWEST <= wanted <= embeddings.n_users:
        raise UsageError(
            f"{wanted:,} is out of range: the network has {embeddings.n_users:,} users, and a map needs at least "
            f"{FEWEST}",
            "users",
            f"use {FEWEST:,} to {embeddings.n_users:,}" if embeddings.n_users >= FEWEST else "use a larger network",
            value=wanted,
            allowed=(FEWEST, embeddings.n_users),
        )


def _panel(numbers: Mapping[str, Any], places: Mapping[str, Any]) -> Panel:
    apart = numbers.get("separation_in_map")
    return Panel(
        numbers["name"],
        tuple(places),
        np.array(list(places.values()), dtype=np.float64),
        numbers["trustworthiness"],
        None if apart is None else Separation(**apart),
        numbers.get("kept_neighbors"),
    )


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
