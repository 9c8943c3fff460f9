"""``SocialDataset``: the one value that every reader makes and every method takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mcne import files
from mcne.data.assemble import Ledger, PreparationReport, Rules, SelfLinks, UserFilter, assemble
from mcne.data.behavior import Attribute, Behavior
from mcne.data.graph import Graph
from mcne.data.ids import Ids, Names
from mcne.data.raw import Raw
from mcne.errors import UnknownError
from mcne.text import counted

if TYPE_CHECKING:
    from mcne.data.tables import IdType

KIND = "mcne dataset"
VERSION = 1


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
    user_names: Names | None = None  # for people

    def __post_init__(self) -> None:
        object.__setattr__(self, "behaviors", tuple(self.behaviors))
        for mapping in ("attributes", "provenance"):
            object.__setattr__(self, mapping, MappingProxyType(dict(getattr(self, mapping))))
        names = self.behavior_names
        if len(set(names)) != len(names) or not names or not all(names):
            raise ValueError(f"a dataset needs at least one behavior, with distinct names, not {names}")
        if self.graph.n_users != self.n_users:
            raise ValueError(f"the graph has {self.graph.n_users} rows for {self.n_users} users")
        self.graph.validate()
        for behavior in self.behaviors:
            behavior.validate(self.n_users)
        for attribute_name, attribute in self.attributes.items():
            attribute.validate(attribute_name, self.n_users)
        if self.user_names is not None and len(self.user_names) != self.n_users:
            raise ValueError("one name per user expected")

    @classmethod
    def from_frames(
        cls,
        interactions: Any,
        links: Any = None,
        *,
        users: Any = None,
        items: Any = None,
        known: Any = None,
        name: str = "frames",
        columns: Mapping[str, str] | None = None,
        behaviors: Sequence[str] | None = None,
        extra_behaviors: Sequence[str] = (),
        single_behavior: str | None = None,
        user_filter: UserFilter | None = None,
        self_links: SelfLinks = "drop",
        directed: bool = False,
        strict: bool = False,
        id_type: IdType = "auto",
        positive_from: float | None = None,
        sep: str | None = None,
    ) -> SocialDataset:
        """A dataset from pandas, polars or Arrow frames, or from CSV, parquet or RecBole files.

        Interactions need the columns ``user_id, item_id, behavior`` and may have ``timestamp`` (seconds since 1970,
        or ISO dates) and ``rating`` (stars, counts, amounts); links need ``source_id, target_id`` and may have
        ``weight``. ``users`` needs ``user_id``, ``items`` needs ``item_id`` and may have ``behavior``, without which a
        row is about all behaviors with the item; a column ``name`` of either is a name for people, and every other
        column an attribute. ``known`` lists pairs, with the columns of interactions, that users know though they are
        no records: they are never drawn as negatives nor recommended. ``columns`` maps these names to your own.

        ``behaviors`` chooses and orders the behaviors (all, by name, by default); ``extra_behaviors`` are additional
        ones that do not affect which users are kept; ``single_behavior`` names the one behavior of a table without
        that column. ``id_type`` ``"auto"`` keeps the type of a typed column, and reads the ids of a text file as
        integers if all of them are. Links are undirected unless ``directed``: then the neighbors of a source are the
        targets that it follows, and a source is no neighbor of its targets. Users known from links or ``users`` alone
        are kept unless ``user_filter`` drops them. With ``strict``, a link to oneself or to a user without records is
        an error.

        Rows rated ``positive_from`` or higher are interactions; pairs rated only lower are kept as known. ``sep``
        separates the columns of text files; a comma, semicolon, tab, ``::`` or ``|`` is detected from the header by
        default. ``report`` has what became of every row.

        >>> import pandas as pd
        >>> import mcne
        >>> stars = pd.DataFrame({"user_id": ["ann", "ann", "bob"], "item_id": ["dune", "solaris", "solaris"]})
        >>> stars["rating"] = [5, 2, 4]
        >>> books = pd.DataFrame({"item_id": ["dune", "solaris"], "name": ["Dune", "Solaris"], "pages": [412, 204]})
        >>> links = pd.DataFrame({"source_id": ["ann", "bob"], "target_id": ["bob", "eve"]})
        >>> data = mcne.datasets.from_frames(stars, links, items=books, single_behavior="Books", positive_from=4)
        >>> print(data)
        SocialDataset 'frames': 3 users (text ids), 2 unweighted links, 0 users without links
          Books          2 items            2 interactions by 2 users, rated
        >>> print(data.report.lines()[-2])
        Books known only (rated below 4): 1 read, 1 kept
        """
        from mcne.data.tables import Reading, read  # most programs load a dataset and never read a table

        reading = Reading(columns or {}, behaviors, extra_behaviors, single_behavior, id_type, sep, positive_from)
        rules = Rules(user_filter or UserFilter(), self_links, strict, directed)
        raw = read(interactions, links, users, reading, items=items, known=known)
        return cls.from_raw(raw, rules, name=name)

    @classmethod
    def from_raw(cls, raw: Raw, rules: Rules, *, name: str) -> SocialDataset:
        """A dataset from the columns that a reader leaves: every reader ends here."""
        users, graph, behaviors, attributes, names, report = assemble(raw, rules, name=name)
        provenance = {**raw.provenance, "filter": asdict(rules.user_filter), "report": asdict(report)}
        if raw.positive_from is not None:
            provenance["positive_from"] = raw.positive_from
        return cls(name, users, graph, behaviors, attributes, provenance, names)

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
            raise UnknownError.of("behavior", name, self.behavior_names)
        return self.behaviors[self.behavior_names.index(name)]

    @property
    def report(self) -> PreparationReport | None:
        """What became of every row read when the dataset was prepared."""
        kept = self.provenance.get("report")
        if kept is None:
            return None
        return PreparationReport(tuple(Ledger(**ledger) for ledger in kept["ledgers"]), tuple(kept["notes"]))

    def only(self, behavior: int) -> SocialDataset:
        """The same users and network with one of the behaviors."""
        return replace(self, behaviors=(self.behaviors[behavior],))

    @cached_property
    def fingerprint(self) -> str:
        """The identity of the content: equal exactly where everything but the name and the provenance is equal."""
        return files.fingerprint(KIND, VERSION, self._meta(), self._arrays())

    def __repr__(self) -> str:
        weighted = "weighted" if self.graph.weights is not None else "unweighted"
        directed = " directed" if self.graph.is_directed else ""
        alone = int(np.count_nonzero(self.graph.symmetric().degrees == 0))
        lines = [
            f"SocialDataset {self.name!r}: {self.n_users:,} users ({self.users.kind} ids), "
            f"{self.graph.n_links:,} {weighted}{directed} links, {alone:,} users without links"
        ]
        width = max(map(len, self.behavior_names))
        for behavior in self.behaviors:
            active = int(np.count_nonzero(np.bincount(behavior.user, minlength=self.n_users)))
            timed = ", timed" if behavior.timestamp is not None else ""
            rated = ", rated" if behavior.weight is not None else ""
            lines.append(
                f"  {behavior.name:<{width}}  {behavior.n_items:>9,} {'item' if behavior.n_items == 1 else 'items':5}  "
                f"{len(behavior):>11,} interaction{'' if len(behavior) == 1 else 's'} by {counted(active, 'user')}"
                f"{timed}{rated}"
            )
        if self.attributes:
            lines.append(f"  attributes: {', '.join(self.attributes)}")
        return "\n".join(lines)

    def save(self, path: str | Path) -> str:
        """Write the dataset as a directory and return its fingerprint; an existing one is never replaced."""
        provenance = {**self.provenance, "name": self.name}
        return files.write(Path(path), KIND, VERSION, meta=self._meta(), provenance=provenance, arrays=self._arrays())

    @classmethod
    def load(cls, path: str | Path, *, verify: bool = True) -> SocialDataset:
        """Open a saved dataset, memory-mapped; ``verify`` checks every byte against its sha256."""
        saved = files.read(Path(path), KIND, VERSION, verify=verify)
        arrays, meta = saved.arrays, saved.meta
        of_items = meta.get("item_attributes", [[]] * len(meta["behaviors"]))
        behaviors = tuple(
            Behavior.from_arrays(arrays, f"behavior.{k}", name=name, attributes=of_items[k])
            for k, name in enumerate(meta["behaviors"])
        )
        attributes = {
            name: Attribute.from_arrays(arrays, f"attribute.{k}", is_categorical=is_categorical)
            for k, (name, is_categorical) in enumerate(meta["attributes"])
        }
        users = Ids.from_arrays(arrays, "users")
        provenance = dict(saved.provenance)
        name = provenance.pop("name")
        names = Names.from_arrays(arrays, "user_names") if "user_names.offsets" in arrays else None
        dataset = cls(name, users, Graph.from_arrays(arrays), behaviors, attributes, provenance, names)
        dataset.__dict__["fingerprint"] = saved.fingerprint
        return dataset

    def _meta(self) -> dict[str, Any]:
        meta: dict[str, Any] = {"behaviors": self.behavior_names, "attributes": _kinds(self.attributes)}
        if any(behavior.attributes for behavior in self.behaviors):
            meta["item_attributes"] = [_kinds(behavior.attributes) for behavior in self.behaviors]
        return meta

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = self.graph.arrays() | self.users.arrays("users")
        for k, behavior in enumerate(self.behaviors):
            arrays |= behavior.arrays(f"behavior.{k}")
        for k, attribute in enumerate(self.attributes.values()):
            arrays |= attribute.arrays(f"attribute.{k}")
        return arrays if self.user_names is None else arrays | self.user_names.arrays("user_names")


def _kinds(attributes: Mapping[str, Attribute]) -> list[list[Any]]:
    """Of every attribute the name, and whether it is a category."""
    return [[name, attribute.categories is not None] for name, attribute in attributes.items()]
