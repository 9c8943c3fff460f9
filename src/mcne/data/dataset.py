"""``SocialDataset``: the one value that every reader makes and every method takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mcne import files
from mcne.data.graph import Graph, offsets
from mcne.data.ids import Ids
from mcne.data.report import PreparationReport
from mcne.errors import UsageError, unknown

if TYPE_CHECKING:
    from mcne.data.assemble import SelfLinks, UserFilter
    from mcne.data.tables import IdType

KIND = "mcne dataset"
VERSION = 1


@dataclass(frozen=True, eq=False)
class Behavior:
    """One kind of behavior: its items and who touched which, each pair once, by user and then by item."""

    name: str
    items: Ids
    user: NDArray[np.int32]  # [interactions] rows of users, never decreasing
    item: NDArray[np.int32]  # [interactions] rows of items, increasing within a user
    timestamp: NDArray[Any] | None = None  # [interactions] int64 or float64

    def __post_init__(self) -> None:
        for column in ("user", "item", "timestamp"):
            if getattr(self, column) is not None:
                object.__setattr__(self, column, files.frozen(getattr(self, column)))

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
        object.__setattr__(self, "values", files.frozen(self.values))

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


@dataclass(frozen=True, eq=False, repr=False)
class SocialDataset:
    """A social network and the behaviors of its users (the paper's Definitions 1 and 2), frozen and validated.

    Users are rows 0 … n−1 in the order of their raw ids; a user may have no link, no interaction, or neither.
    ``from_frames`` makes one from tables; ``save`` and ``load`` keep it on disk.
    """

    name: str
    users: Ids
    graph: Graph
    behaviors: tuple[Behavior, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "behaviors", tuple(self.behaviors))
        for mapping in ("attributes", "provenance"):
            object.__setattr__(self, mapping, MappingProxyType(dict(getattr(self, mapping))))
        names = self.behavior_names
        if len(set(names)) != len(names) or not names or not all(names):
            raise ValueError(f"behaviors must have distinct names, and there must be one at least: {names}")
        if self.graph.n_users != self.n_users:
            raise ValueError(f"the graph has {self.graph.n_users} rows for {self.n_users} users")
        self.graph.validate()
        for behavior in self.behaviors:
            behavior.validate(self.n_users)
        for attribute_name, attribute in self.attributes.items():
            attribute.validate(attribute_name, self.n_users)

    @classmethod
    def from_frames(
        cls,
        interactions: Any,
        links: Any = None,
        *,
        users: Any = None,
        name: str = "frames",
        columns: Mapping[str, str] | None = None,
        behaviors: Sequence[str] | None = None,
        extra_behaviors: Sequence[str] = (),
        single_behavior: str | None = None,
        user_filter: UserFilter | None = None,
        self_links: SelfLinks = "drop",
        strict: bool = False,
        id_type: IdType = "auto",
    ) -> SocialDataset:
        """A dataset from pandas, polars or Arrow frames, or from CSV, parquet or RecBole files.

        Interactions need the columns ``user_id, item_id, behavior`` and may have ``timestamp``; links need
        ``source_id, target_id`` and may have ``weight``; ``users`` needs ``user_id``, every other column of it is an
        attribute. ``columns`` maps these names to those of your tables.

        ``behaviors`` chooses and orders the behaviors (all, by name, if not given); ``extra_behaviors`` ride along
        without counting for the filter; ``single_behavior`` names the one behavior of a table without that column.
        ``id_type`` ``"auto"`` keeps the type of a typed column, and takes the ids of a text file for integers where
        every one is written as an integer. Users known from links or ``users`` alone are kept unless
        ``user_filter`` drops them. With ``strict``, a link to oneself or to a user without records is an error.
        """
        from mcne.data.tables import read

        return read(
            interactions,
            links,
            users=users,
            name=name,
            columns=columns or {},
            behaviors=behaviors,
            extra_behaviors=extra_behaviors,
            single_behavior=single_behavior,
            user_filter=user_filter,
            self_links=self_links,
            strict=strict,
            id_type=id_type,
        )

    @property
    def n_users(self) -> int:
        """Users of the network, with or without behavior."""
        return len(self.users)

    @property
    def behavior_names(self) -> list[str]:
        """The behaviors' names, in order."""
        return [behavior.name for behavior in self.behaviors]

    def behavior(self, name: str) -> Behavior:
        """The behavior of that name."""
        if name not in self.behavior_names:
            raise UsageError(unknown("behavior", name, self.behavior_names))
        return self.behaviors[self.behavior_names.index(name)]

    @property
    def report(self) -> PreparationReport | None:
        """What became of every row read when the dataset was prepared."""
        kept = self.provenance.get("report")
        return None if kept is None else PreparationReport.from_json(kept)

    def only(self, behavior: int) -> SocialDataset:
        """The same users and network with one of the behaviors."""
        return replace(self, behaviors=(self.behaviors[behavior],))

    @cached_property
    def fingerprint(self) -> str:
        """The identity of the content: equal exactly where everything but the name and the provenance is equal."""
        return files.fingerprint(KIND, VERSION, self._meta(), self._arrays())

    def __repr__(self) -> str:
        weighted = "weighted" if self.graph.weights is not None else "unweighted"
        alone = int(np.count_nonzero(self.graph.degrees == 0))
        lines = [
            f"SocialDataset {self.name!r}: {self.n_users:,} users ({self.users.kind} ids), "
            f"{self.graph.n_links:,} {weighted} link directions, {alone:,} users without links"
        ]
        width = max(map(len, self.behavior_names))
        for behavior in self.behaviors:
            active = int(np.count_nonzero(np.bincount(behavior.user, minlength=self.n_users)))
            timed = ", timed" if behavior.timestamp is not None else ""
            lines.append(
                f"  {behavior.name:<{width}}  {behavior.n_items:>9,} items  {len(behavior):>11,} interactions "
                f"by {active:,} users{timed}"
            )
        if self.attributes:
            lines.append(f"  attributes: {', '.join(self.attributes)}")
        return "\n".join(lines)

    def save(self, path: str | Path) -> str:
        """Write the dataset as a directory and return its fingerprint; an existing one is never replaced."""
        return files.write(
            Path(path),
            KIND,
            VERSION,
            meta=self._meta(),
            provenance=dict(self.provenance) | {"name": self.name},
            arrays=self._arrays(),
        )

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True) -> SocialDataset:
        """Open a saved dataset, memory-mapped; ``verify`` checks every byte against its sha256."""
        saved = files.read(Path(path), KIND, VERSION, verify=verify)
        arrays, meta = saved.arrays, saved.meta
        graph = Graph(arrays["graph.indptr"], arrays["graph.indices"], arrays.get("graph.weights"))
        behaviors = tuple(
            Behavior(
                name,
                Ids.from_arrays(arrays, f"behavior.{k}.ids"),
                arrays[f"behavior.{k}.user"],
                arrays[f"behavior.{k}.item"],
                arrays.get(f"behavior.{k}.timestamp"),
            )
            for k, name in enumerate(meta["behaviors"])
        )
        attributes = {
            name: Attribute(
                arrays[f"attribute.{k}.values"],
                Ids.from_arrays(arrays, f"attribute.{k}.categories") if categorical else None,
            )
            for k, (name, categorical) in enumerate(meta["attributes"])
        }
        provenance = dict(saved.provenance)
        name = provenance.pop("name")
        dataset = cls(name, Ids.from_arrays(arrays, "users"), graph, behaviors, attributes, provenance)
        dataset.__dict__["fingerprint"] = saved.fingerprint
        return dataset

    def _meta(self) -> dict[str, Any]:
        attributes = [[name, attribute.categories is not None] for name, attribute in self.attributes.items()]
        return {"behaviors": self.behavior_names, "attributes": attributes}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {"graph.indptr": self.graph.indptr, "graph.indices": self.graph.indices}
        if self.graph.weights is not None:
            arrays["graph.weights"] = self.graph.weights
        arrays |= self.users.arrays("users")
        for k, behavior in enumerate(self.behaviors):
            arrays |= behavior.items.arrays(f"behavior.{k}.ids")
            arrays |= {f"behavior.{k}.user": behavior.user, f"behavior.{k}.item": behavior.item}
            if behavior.timestamp is not None:
                arrays[f"behavior.{k}.timestamp"] = behavior.timestamp
        for k, attribute in enumerate(self.attributes.values()):
            arrays[f"attribute.{k}.values"] = attribute.values
            if attribute.categories is not None:
                arrays |= attribute.categories.arrays(f"attribute.{k}.categories")
        return arrays
