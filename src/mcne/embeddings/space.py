"""What the artifact knows of one behavior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.compressed import run_starts
from mcne.data.dataset import Behavior
from mcne.data.ids import Ids
from mcne.embeddings.arrays import checked
from mcne.files import Arrays, frozen


@dataclass(frozen=True, eq=False)
class BehaviorSpace:
    """A behavior's mask over the shared dimensions, its items, and who has touched which of them.

    ``seen_items[seen_indptr[u]:seen_indptr[u + 1]]`` are the items of user ``u`` in the whole dataset, increasing.
    ``user_vectors`` is there only for a behavior that was added by transfer: it has a user matrix of its own.
    """

    name: str
    mask: NDArray[np.bool_]  # [d]
    items: Ids
    item_vectors: NDArray[np.float32]  # [items, d]
    seen_indptr: NDArray[Any]  # [users + 1]
    seen_items: NDArray[np.int32]  # [seen]
    item_bias: NDArray[np.float32] | None = None  # [items]
    user_vectors: NDArray[np.float32] | None = None  # [users, d]

    def __post_init__(self) -> None:
        n, d, what = len(self.items), len(self.mask), f"behavior {self.name!r}"
        self._set("mask", checked(self.mask, f"{what}, mask", dtype=np.bool_, shape=(None,)))
        vectors = checked(self.item_vectors, f"{what}, item vectors", dtype=np.float32, shape=(n, d))
        self._set("item_vectors", vectors)
        if self.item_bias is not None:
            self._set("item_bias", checked(self.item_bias, f"{what}, item bias", dtype=np.float32, shape=(n,)))
        if self.user_vectors is not None:
            own = checked(self.user_vectors, f"{what}, user vectors", dtype=np.float32, shape=(None, d))
            self._set("user_vectors", own)
        self._set("seen_indptr", frozen(self.seen_indptr))
        self._set("seen_items", checked(self.seen_items, f"{what}, seen items", dtype=np.int32, shape=(None,)))

    @classmethod
    def of(
        cls,
        behavior: Behavior,
        n_users: int,
        *,
        mask: NDArray[np.bool_],
        item_vectors: NDArray[np.float32],
        item_bias: NDArray[np.float32] | None = None,
        user_vectors: NDArray[np.float32] | None = None,
    ) -> BehaviorSpace:
        """The space of a dataset's behavior, with its items and all its interactions as what is seen."""
        indptr = behavior.indptr(n_users)
        return cls(behavior.name, mask, behavior.items, item_vectors, indptr, behavior.item, item_bias, user_vectors)

    def seen(self, user: int) -> NDArray[np.int32]:
        """The items of one user, increasing."""
        return self.seen_items[self.seen_indptr[user] : self.seen_indptr[user + 1]]

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
        arrays: dict[str, NDArray[Any]] = {
            "mask": self.mask,
            "item_vectors": self.item_vectors,
            "seen.indptr": self.seen_indptr,
            "seen.items": self.seen_items,
        }
        if self.item_bias is not None:
            arrays["item_bias"] = self.item_bias
        if self.user_vectors is not None:
            arrays["user_vectors"] = self.user_vectors
        return {f"{prefix}.{name}": array for name, array in arrays.items()} | self.items.arrays(f"{prefix}.items")

    @classmethod
    def from_arrays(cls, arrays: Arrays, prefix: str, *, name: str) -> BehaviorSpace:
        """Read what :meth:`arrays` stored, without copying."""
        return cls(
            name,
            arrays[f"{prefix}.mask"],
            Ids.from_arrays(arrays, f"{prefix}.items"),
            arrays[f"{prefix}.item_vectors"],
            arrays[f"{prefix}.seen.indptr"],
            arrays[f"{prefix}.seen.items"],
            arrays.get(f"{prefix}.item_bias"),
            arrays.get(f"{prefix}.user_vectors"),
        )

    def _set(self, field: str, value: Any) -> None:
        object.__setattr__(self, field, value)
