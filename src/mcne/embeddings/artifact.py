"""``ConditionalEmbeddings``: the one value that every dot-product method makes and everything downstream takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne import files
from mcne.data.behavior import Behavior
from mcne.data.graph import Graph, run_starts
from mcne.data.ids import Ids, Names
from mcne.embeddings.answers import Ranking
from mcne.embeddings.queries import WITH_VECTORS, Answering, Catalog
from mcne.embeddings.ranking import RawId, VectorTable, inner_products
from mcne.embeddings.trunk import Trunk
from mcne.errors import UnavailableError, warn_deprecated
from mcne.files import Arrays, check, freeze

KIND = "mcne embeddings"
VERSION = 1
FIELDS = ("mask", "item_vectors", "item_bias", "user_vectors", "seen_indptr", "seen_items", "seen_known")
STORED = {field: field.replace("seen_", "seen.") for field in FIELDS}  # the arrays that these of a behavior are kept as


@dataclass(frozen=True, eq=False)
class BehaviorSpace(Catalog):
    """A behavior's mask over the shared dimensions, its items, and who has touched which of them.

    ``seen_items[seen_indptr[u]:seen_indptr[u + 1]]`` are the items of user ``u`` in the whole dataset, increasing;
    ``seen_known`` tells which of them are known and no records, if any are.
    """

    name: str
    mask: NDArray[np.bool_]  # [d]
    items: Ids
    item_vectors: NDArray[np.float32]  # [items, d]
    seen_indptr: NDArray[Any]  # [users + 1]
    seen_items: NDArray[np.int32]  # [seen]
    item_bias: NDArray[np.float32] | None = None  # [items]
    user_vectors: NDArray[np.float32] | None = None  # [users, d] of its own, if it was added by transfer
    names: Names | None = None  # of items, for people
    seen_known: NDArray[np.bool_] | None = None  # [seen]

    def __post_init__(self) -> None:
        n, d = len(self.items), len(self.mask)
        shapes: dict[str, tuple[int | None, ...]] = {"mask": (None,), "item_vectors": (n, d), "item_bias": (n,)}
        shapes |= {"user_vectors": (None, d), "seen_items": (None,), "seen_known": (len(self.seen_items),)}
        dtypes = {"mask": np.bool_, "seen_items": np.int32, "seen_known": np.bool_}
        for array, shape in shapes.items():
            what = f"behavior {self.name!r}, {array.replace('_', ' ')}"
            check(self, array, what, dtype=dtypes.get(array, np.float32), shape=shape)
        freeze(self, "seen_indptr")
        if self.names is not None and len(self.names) != n:
            raise ValueError(f"behavior {self.name!r}: {len(self.names)} names for {n} items")

    @classmethod
    def of(cls, behavior: Behavior, n_users: int, **learned: Any) -> BehaviorSpace:
        """The space of a dataset's behavior: its items, what users have or know of them, and what was learned."""
        indptr, items, known = behavior.seen(n_users)
        seen: dict[str, Any] = {"seen_indptr": indptr, "seen_items": items, "seen_known": known}
        return cls(name=behavior.name, items=behavior.items, names=behavior.names, **seen, **learned)

    def validate(self, n_users: int, width: int) -> None:
        """Raise ``ValueError`` unless the space fits this many users and dimensions."""
        what = f"behavior {self.name!r}"
        if len(self.mask) != width:
            raise ValueError(f"{what}: a mask of {len(self.mask)} dimensions, the user vectors have {width}")
        if self.user_vectors is not None and len(self.user_vectors) != n_users:
            raise ValueError(f"{what}: {len(self.user_vectors)} user vectors of its own for {n_users} users")
        indptr, items = self.seen_indptr, self.seen_items
        if indptr.shape != (n_users + 1,) or indptr.dtype.kind != "i":
            raise ValueError(f"{what}: {n_users + 1} integer offsets of seen items expected")
        if indptr[0] != 0 or indptr[-1] != len(items) or np.any(np.diff(indptr) < 0):
            raise ValueError(f"{what}: offsets of seen items must go from 0 to {len(items)} and never decrease")
        if len(items) and not 0 <= items.min() <= items.max() < len(self.items):
            raise ValueError(f"{what}: seen items must be rows below {len(self.items)}")
        users = np.repeat(np.arange(n_users), np.diff(indptr))
        if np.any((np.diff(items, prepend=np.int32(-1)) <= 0) & ~run_starts(users)):
            raise ValueError(f"{what}: the seen items of a user must be increasing, each once")

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The arrays to store; :meth:`from_arrays` reads them back."""
        arrays = {f"{prefix}.{name}": getattr(self, field) for field, name in STORED.items()}
        stored = {name: array for name, array in arrays.items() if array is not None}
        stored |= self.items.arrays(f"{prefix}.items")
        return stored if self.names is None else stored | self.names.arrays(f"{prefix}.names")

    @classmethod
    def from_arrays(cls, arrays: Arrays, prefix: str, *, name: str) -> BehaviorSpace:
        """Read what :meth:`arrays` stored, without copying."""
        keys = {field: f"{prefix}.{stored}" for field, stored in STORED.items()}
        stored: dict[str, Any] = {field: arrays[key] for field, key in keys.items() if key in arrays}
        names = Names.stored(arrays, f"{prefix}.names")
        return cls(name=name, items=Ids.from_arrays(arrays, f"{prefix}.items"), names=names, **stored)


@dataclass(frozen=True, eq=False, repr=False)
class ConditionalEmbeddings(Answering[BehaviorSpace]):
    """A vector per user, a mask and an item table per behavior; frozen, validated, raw ids in and out.

    A user's vector on behavior ``c`` is ``u ⊙ m_c``; similarity is the inner product that training works on,
    ``⟨q ⊙ m_c, u⟩``, and an item's score ``⟨u ⊙ m_c, z⟩ + b``. Vectors may have no dimensions (popularity is a bias
    alone).
    """

    users: Ids
    vectors: NDArray[np.float32]  # [users, d]
    spaces: tuple[BehaviorSpace, ...]
    graph: Graph
    trunk: Trunk | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    user_names: Names | None = None  # for people

    def __post_init__(self) -> None:
        check(self, "vectors", "user vectors", dtype=np.float32, shape=(self.n_users, None))
        try:  # a copy of its own; what JSON cannot hold is refused here and not when the artifact is saved
            provenance = json.loads(json.dumps(dict(self.provenance), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise ValueError(f"the provenance must be plain JSON: {error}") from error
        object.__setattr__(self, "provenance", provenance)
        names = self.behavior_names
        if len(set(names)) != len(names) or not names or not all(names):
            raise ValueError(f"embeddings need at least one behavior, with distinct names, not {names}")
        if self.graph.n_users != self.n_users:
            raise ValueError(f"the graph has {self.graph.n_users} rows for {self.n_users} users")
        if self.user_names is not None and len(self.user_names) != self.n_users:
            raise ValueError(f"{len(self.user_names)} names for {self.n_users} users")
        self.graph.validate()
        for space in self.spaces:
            space.validate(self.n_users, self.width)
        if self.trunk is not None:
            self._validate_trunk(self.trunk)

    @property
    def width(self) -> int:
        """Dimensions of the user vectors, d."""
        return int(self.vectors.shape[1])

    @property
    def method(self) -> str:
        """The name of the method that made this."""
        return str(self.provenance.get("method", "unknown"))

    @cached_property
    def fingerprint(self) -> str:
        """The identity of the content: equal exactly where everything but the provenance is equal."""
        return files.fingerprint(KIND, VERSION, self._meta(), self._arrays())

    def __repr__(self) -> str:
        head = f"ConditionalEmbeddings of {self.method!r}: {self.n_users:,} users × {self.width} dimensions"
        width = max(map(len, self.behavior_names))
        lines = [
            f"  {space.name:<{width}}  {len(space.items):>9,} items  {np.count_nonzero(space.mask):>4} dimensions"
            for space in self.spaces
        ]
        return "\n".join([head, *lines])

    def user_vectors(self, behavior: str) -> NDArray[np.float32]:
        """The users' vectors on a behavior, ``u ⊙ m_c``, [users, d]."""
        matrix, mask = self.matrix_and_mask(behavior)
        return matrix * mask

    def vector(self, user_id: RawId, behavior: str | None = None) -> NDArray[np.float32]:
        """One user's vector on a behavior, or the whole vector, [d]."""
        matrix, mask = self.matrix_and_mask(behavior)
        own: NDArray[np.float32] = matrix[self.users.row(user_id, what="user")]
        return own * mask

    def matrix_and_mask(self, behavior: str | None) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """The user matrix [users, d] of a behavior and its mask [d]; without a behavior all dimensions count."""
        if behavior is None:
            return self.vectors, np.ones(self.width, dtype=bool)
        space = self.space(behavior)
        return self.vectors if space.user_vectors is None else space.user_vectors, space.mask

    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """``⟨u ⊙ m_c, z⟩ + b`` by rows: [n, m] for ``items`` [n, m] of each user, [n, all items] without."""
        space = self.spaces[behavior]
        matrix, mask = self.matrix_and_mask(space.name)
        queries = matrix[users] * mask  # [n, d]
        return inner_products(queries, space.item_vectors, bias=space.item_bias, items=items)

    def best_items(
        self,
        behavior: int,
        users: NDArray[np.integer[Any]],
        *,
        k: int,
        among: NDArray[np.integer[Any]] | None,
        excluded: Sequence[NDArray[np.integer[Any]]],
    ) -> list[Ranking]:
        """The ``k`` best items for each user, from vectors."""
        space = self.spaces[behavior]
        matrix, mask = self.matrix_and_mask(space.name)
        table = VectorTable(space.items, space.item_vectors, bias=space.item_bias, names=space.names)
        searched = table if among is None else table.only(among)
        return searched.search(matrix[users] * mask, k=k, excluded=excluded)

    def save(self, path: str | Path) -> str:
        """Write the artifact as a directory and return its fingerprint; an existing one is never replaced."""
        provenance = dict(self.provenance)
        return files.write(Path(path), KIND, VERSION, meta=self._meta(), provenance=provenance, arrays=self._arrays())

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True) -> ConditionalEmbeddings:
        """Open a saved artifact, memory-mapped; ``verify`` checks every byte against its sha256."""
        path = Path(path)
        inner = path / "embeddings"
        if (inner / files.MANIFEST).is_file() and not (path / files.MANIFEST).is_file():  # what a model has saved
            warn_deprecated("ConditionalEmbeddings.load of a model", "use mcne.load(path).embeddings")
            path = inner
        saved = files.read(path, KIND, VERSION, verify=verify)
        arrays = saved.arrays
        names = enumerate(saved.meta["behaviors"])
        embeddings = cls(
            Ids.from_arrays(arrays, "users"),
            arrays["vectors"],
            tuple(BehaviorSpace.from_arrays(arrays, f"behavior.{k}", name=name) for k, name in names),
            Graph.from_arrays(arrays),
            None if saved.meta["trunk"] is None else Trunk.from_arrays(arrays, saved.meta["trunk"]),
            saved.provenance,
            Names.stored(arrays, "user_names"),
        )
        embeddings.__dict__["fingerprint"] = saved.fingerprint
        return embeddings

    def export(self, path: str | Path, file_format: str) -> list[Path]:
        """Write a new directory of files for other programs, ``parquet``, ``npz`` or ``word2vec``, and return them."""
        from mcne.embeddings.export import export

        return export(self, Path(path), file_format=file_format)

    def _embeddings(self, *, needs_width: bool = False) -> ConditionalEmbeddings:
        if needs_width and not self.width:
            raise UnavailableError.of_method(
                "has no vectors, so nothing is similar to anything", self.method, WITH_VECTORS
            )
        return self

    def _meta(self) -> dict[str, Any]:
        return {"behaviors": self.behavior_names, "trunk": None if self.trunk is None else self.trunk.meta()}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"vectors": self.vectors} | self.users.arrays("users") | self.graph.arrays()
        for k, space in enumerate(self.spaces):
            arrays |= space.arrays(f"behavior.{k}")
        if self.user_names is not None:
            arrays |= self.user_names.arrays("user_names")
        return arrays if self.trunk is None else arrays | self.trunk.arrays()

    def _validate_trunk(self, trunk: Trunk) -> None:
        learned, added = self.spaces[: trunk.n_behaviors], self.spaces[trunk.n_behaviors :]
        masks = [space.mask for space in learned]
        if not np.array_equal(trunk.masks[-1][:-1], masks) or any(space.user_vectors is not None for space in learned):
            raise ValueError("the trunk's last masks must be those of its behaviors, which come first, and one more")
        if any(space.user_vectors is None for space in added):
            raise ValueError("a behavior that the trunk does not know needs user vectors of its own")
        if any(len(level) != self.n_users for level in trunk.levels):
            raise ValueError(f"every level of the trunk must have a vector for each of {self.n_users} users")


def side_by_side(parts: Sequence[ConditionalEmbeddings], provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
    """One artifact of the same users: their vectors of all parts side by side, each behavior masked to its own part."""
    starts = np.cumsum([0, *(part.width for part in parts)])
    width = int(starts[-1])
    spaces = []
    for part, start in zip(parts, starts.tolist(), strict=False):
        (space,) = part.spaces
        mask = np.zeros(width, dtype=bool)
        items = np.zeros((len(space.items), width), dtype=np.float32)
        mask[start : start + part.width] = space.mask
        items[:, start : start + part.width] = space.item_vectors
        spaces.append(replace(space, mask=mask, item_vectors=items, user_vectors=None))
    vectors = np.concatenate([part.matrix_and_mask(part.behavior_names[0])[0] for part in parts], axis=1)
    first = parts[0]
    return ConditionalEmbeddings(
        first.users, vectors, tuple(spaces), first.graph, provenance=provenance, user_names=first.user_names
    )
