"""Questions to trained vectors, which embeddings and a trained model both answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from mcne.embeddings.explanation import Explanation, explain
from mcne.embeddings.ranking import Ranking, RawId, RawIds, VectorTable, answer, inverse_norms, rows_of
from mcne.errors import UsageError

if TYPE_CHECKING:
    from mcne.embeddings.artifact import ConditionalEmbeddings


class Queries:
    """Raw ids in and out: one id is answered with one ``Ranking``, a sequence of ids with a list."""

    @property
    def _queried(self) -> ConditionalEmbeddings:
        """Whose vectors answer; both classes that answer say so."""
        raise NotImplementedError

    @overload
    def recommend(  # type: ignore[overload-overlap]  # text is one id, though also a sequence of text
        self, user_ids: RawId, behavior: str, *, k: int = 10, filter_seen: bool = True
    ) -> Ranking: ...

    @overload
    def recommend(self, user_ids: RawIds, behavior: str, *, k: int = 10, filter_seen: bool = True) -> list[Ranking]: ...

    def recommend(
        self, user_ids: RawId | RawIds, behavior: str, *, k: int = 10, filter_seen: bool = True
    ) -> Ranking | list[Ranking]:
        """The ``k`` items of a behavior with the highest scores, without those that the user has in the dataset."""
        embeddings = self._queried
        space = embeddings.space(behavior)
        matrix, mask = embeddings.matrix_and_mask(behavior)
        users = rows_of(embeddings.users, user_ids, what="user")
        table = VectorTable(space.items, space.item_vectors, bias=space.item_bias)
        none = np.zeros(0, dtype=np.int32)
        seen = [space.seen(user) if filter_seen else none for user in users]
        return answer(user_ids, table.search(matrix[users] * mask, k=k, excluded=seen))

    @overload
    def similar_users(  # type: ignore[overload-overlap]  # as for recommend
        self, user_ids: RawId, behavior: str | None = None, *, k: int = 10, cosine: bool = False
    ) -> Ranking: ...

    @overload
    def similar_users(
        self, user_ids: RawIds, behavior: str | None = None, *, k: int = 10, cosine: bool = False
    ) -> list[Ranking]: ...

    def similar_users(
        self, user_ids: RawId | RawIds, behavior: str | None = None, *, k: int = 10, cosine: bool = False
    ) -> Ranking | list[Ranking]:
        """The ``k`` other users most similar on a behavior, or in the whole vector; by inner product or cosine."""
        embeddings = self._queried
        matrix, mask = embeddings.matrix_and_mask(behavior)
        rows = rows_of(embeddings.users, user_ids, what="user")
        table = VectorTable(embeddings.users, matrix)
        return answer(user_ids, self._similar(table, mask, rows=rows, k=k, cosine=cosine))

    @overload
    def similar_items(  # type: ignore[overload-overlap]  # as for recommend
        self, item_ids: RawId, behavior: str, *, k: int = 10, cosine: bool = False
    ) -> Ranking: ...

    @overload
    def similar_items(self, item_ids: RawIds, behavior: str, *, k: int = 10, cosine: bool = False) -> list[Ranking]: ...

    def similar_items(
        self, item_ids: RawId | RawIds, behavior: str, *, k: int = 10, cosine: bool = False
    ) -> Ranking | list[Ranking]:
        """The ``k`` other items of a behavior most similar within its mask; by inner product or cosine, no bias."""
        space = self._queried.space(behavior)
        rows = rows_of(space.items, item_ids, what=f"item of {behavior}")
        table = VectorTable(space.items, space.item_vectors)
        return answer(item_ids, self._similar(table, space.mask, rows=rows, k=k, cosine=cosine))

    def explain(self, user_id: RawId, other_id: RawId) -> Explanation:
        """Why two users are connected or alike: attention, similarity, dimensions, common friends and items."""
        return explain(self._queried, user_id, other_id)

    def _similar(
        self, table: VectorTable, mask: NDArray[np.bool_], *, rows: NDArray[np.int64], k: int, cosine: bool
    ) -> list[Ranking]:
        """The best for these rows of the table itself, each without itself."""
        if not self._queried.width:
            raise UsageError(
                f"{self._queried.method!r} has no vectors, so nothing is similar to anything; ask another method"
            )
        queries = table.vectors[rows] * mask
        if cosine:
            table = VectorTable(table.ids, table.vectors, inverse_norms(table.vectors, mask))
            queries *= inverse_norms(table.vectors[rows], mask)[:, None]
        return table.search(queries, k=k, excluded=list(rows[:, None]))
