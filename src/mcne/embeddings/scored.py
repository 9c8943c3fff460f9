"""What a method without vectors answers from: its scores, and the ids and records of its dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mcne.data.dataset import SocialDataset
from mcne.data.graph import Graph
from mcne.data.ids import Ids, Names, names_of
from mcne.embeddings.answers import Ranking
from mcne.embeddings.queries import WITH_VECTORS, Answering, Catalog
from mcne.embeddings.ranking import Scorer, check_k
from mcne.errors import UnavailableError

AT_ONCE = 1 << 22
"""Scores held in memory."""


@dataclass(frozen=True, eq=False)
class ScoredCatalog(Catalog):
    """A behavior's items, and who has seen which of them."""

    name: str
    items: Ids
    seen_indptr: NDArray[Any]  # [users + 1]
    seen_items: NDArray[np.int32]  # [seen]
    seen_known: NDArray[np.bool_] | None  # [seen]
    names: Names | None = None  # of items, for people


@dataclass(frozen=True, eq=False, repr=False)
class ScoredItems(Answering[ScoredCatalog]):
    """Recommends by any scorer; users and items cannot be compared."""

    method: str
    scorer: Scorer
    users: Ids
    graph: Graph
    spaces: tuple[ScoredCatalog, ...]
    user_names: Names | None = None  # for people

    @classmethod
    def of(cls, scorer: Scorer, dataset: SocialDataset, *, method: str) -> ScoredItems:
        """Answers for the users of a dataset."""
        spaces = tuple(
            ScoredCatalog(behavior.name, behavior.items, *behavior.seen(dataset.n_users), behavior.names)
            for behavior in dataset.behaviors
        )
        return cls(method, scorer, dataset.users, dataset.graph, spaces, dataset.user_names)

    def best_items(
        self,
        behavior: int,
        users: NDArray[np.integer[Any]],
        *,
        k: int,
        among: NDArray[np.integer[Any]] | None,
        excluded: Sequence[NDArray[np.integer[Any]]],
    ) -> list[Ranking]:
        """The ``k`` best items for each user; of equal scores the lower row comes first."""
        check_k(k)
        catalog = self.spaces[behavior]
        rows = np.arange(len(catalog.items)) if among is None else among
        rankings = []
        step = max(1, AT_ONCE // max(1, len(catalog.items)))
        for start in range(0, len(users), step):
            some = users[start : start + step]
            items = None if among is None else np.tile(among, (len(some), 1))
            for at, scores in enumerate(self.scorer.scores(behavior, some, items), start=start):
                left = np.delete(np.arange(len(rows)), excluded[at])
                best = left[np.argsort(-scores[left], kind="stable")[:k]]
                ids = tuple(catalog.items.take(rows[best]))
                names = names_of(catalog.names, rows[best])
                rankings.append(Ranking(ids, scores[best], names=names, id_kind=catalog.items.kind))
        return rankings

    def _embeddings(self, *, needs_width: bool = False) -> NoReturn:
        raise UnavailableError.of_method("has no vectors, so it can only recommend", self.method, WITH_VECTORS)
