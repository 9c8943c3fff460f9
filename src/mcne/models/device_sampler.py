"""The triples and neighborhoods of a step, drawn on a GPU; the host only says which step it is.

As on the host (:mod:`mcne.sampling`), positives are shuffled and cycled, negatives are uniform over what a user has not
seen, and every distinct user draws its neighbors once per layer. Positives are the same as there; negatives and
neighbors are other draws from the same distributions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.data.graph import offsets
from mcne.kernels.edges import TensorHop
from mcne.kernels.triples import AllTriples
from mcne.kernels.triton import draws
from mcne.kernels.triton.groups import FEW, NOBODY, Distinct, distinct, distinct_few, groups_of_rows
from mcne.models.ranking import DotRanking
from mcne.models.tables import to_device
from mcne.randomness import Stream
from mcne.sampling.neighbors import cumulative_shares
from mcne.sampling.triples import Positives, Unseen


class DeviceSampler:
    """Draws the steps of a training whose every behavior has training pairs.

    Of a network that ``is_small`` every level has a row for each user, as a step may need them all; of others it has
    rows for the distinct users that are needed.
    """

    def __init__(self, items: DotRanking, samples: Sequence[int], *, weighted: bool) -> None:
        graph, pairs, n_items, device = items.data.graph, items.data.pairs, items.data.n_items, items.device
        self._seed, self._negatives, self._sizes = items.seed, items.negatives, tuple(samples)
        self._n_users, self._n_items = graph.n_users, sum(n_items)
        counts = [len(user) for user, _ in pairs]
        self._positives = Positives(counts, batch_size=items.batch_size, seed=items.seed)
        self._first_pair = offsets(np.array(counts)).astype(np.int64)
        catalog = offsets(np.array(n_items)).astype(np.int64)
        seen = [items.data.seen(k) for k in range(len(pairs))]
        unseen = [Unseen(*each, n_users=graph.n_users, n_items=n) for each, n in zip(seen, n_items, strict=True)]
        first_seen = offsets(np.array([len(user) for user, _ in seen])).astype(np.int64)
        arrays = (
            np.concatenate([user for user, _ in pairs]).astype(np.int64),
            np.concatenate([item + catalog[k] for k, (_, item) in enumerate(pairs)]).astype(np.int64),
            np.concatenate([each.gaps for each in unseen]),
            np.stack([each.indptr + first_seen[k] for k, each in enumerate(unseen)]),
            catalog,
        )
        most_seen = max(int(np.diff(each.indptr).max(initial=0)) for each in unseen)
        self.pairs = draws.Pairs(most_seen.bit_length() + 1, *(to_device(each, device) for each in arrays))
        weights = items.weights
        self._weight = None if weights is None else to_device(np.concatenate(weights), device)  # [pairs]
        most_links = int(np.diff(graph.indptr).max(initial=0))
        self.network = draws.Network(
            torch.tensor(graph.indptr, device=device),
            torch.tensor(graph.indices, device=device),
            torch.from_numpy(cumulative_shares(graph)).to(device) if weighted else None,
            depth=most_links.bit_length() + 1,
        )
        self.is_small = graph.n_users <= items.batch_size * len(pairs) * (self._sizes[-1] + 1)

    def turn(self, epoch: int, step: int) -> NDArray[np.int64]:
        """What the host sends for a step: its key and its training pairs, behavior by behavior."""
        key = Stream(self._seed, "device", epoch, step).bits(1).view(np.int64)
        rows = [first + self._positives.rows(k, epoch, step) for k, first in enumerate(self._first_pair[:-1])]
        return np.concatenate([key, *rows])

    def draw(self, turn: Tensor) -> tuple[Tensor, tuple[TensorHop, ...], AllTriples]:
        """The step of a turn, [1 + T]: the users whose initial vectors are needed, the hops from them, the first layer
        first, and triples; -1 is nobody.
        """
        key, rows = turn[:1], turn[1:]
        user, item = draws.triples(key, rows, self.pairs, negatives=self._negatives)
        seeds, scored = self._distinct(user, item)
        users, hops = self._hops_of_all(key, seeds.keys) if self.is_small else self._hops(key, seeds.keys)
        triples = AllTriples(
            *(scored.keys, seeds.rows, scored.rows.view_as(item), seeds.groups, scored.groups),
            len(rows) // (len(self._first_pair) - 1),
            None if self._weight is None else self._weight[rows],
        )
        return users, tuple(hops), triples

    def _distinct(self, user: Tensor, item: Tensor) -> tuple[Distinct, Distinct]:
        """The distinct users and items of triples."""
        lengths = (user.numel(), item.numel())
        none = (self._n_users, self._n_items)
        most = (min(lengths[0], none[0]), min(lengths[1], none[1]))
        if lengths[1] <= FEW:
            both = user.as_strided((sum(lengths),), (1,))  # as they were drawn, the one after the other
            return distinct_few(both, lengths, most=most, none=none)
        return distinct(user, most=most[0], none=none[0]), distinct(item.flatten(), most=most[1], none=none[1])

    def _hops(self, key: Tensor, users: Tensor) -> tuple[Tensor, list[TensorHop]]:
        """The users whose vectors are needed to tell those of ``users``, and the hops from them."""
        hops = list[TensorHop]()
        for layer in reversed(range(len(self._sizes))):
            n, count = len(users), self._sizes[layer]
            keys, has_neighbors = draws.neighbors(key, users, self.network, stream=layer + 1, count=count)
            below = distinct(keys, most=min(len(keys), self._n_users), none=self._n_users)
            sender, receiver = below.rows[: n * count].view(n, count), below.rows[n * count :]
            hops.insert(0, TensorHop(receiver, sender, has_neighbors, below.groups))
            users = below.keys
        return users, hops

    def _hops_of_all(self, key: Tensor, users: Tensor) -> tuple[Tensor, list[TensorHop]]:
        """The same where everybody has a row: nothing is to be sorted before all is drawn, and then once."""
        levels = list(reversed(range(len(self._sizes))))
        n_users = self._n_users
        lengths = [(self._sizes[k] + 1) * (n_users if at else len(users)) for at, k in enumerate(levels)]
        fits_short = len(levels) * (n_users + 1) <= torch.iinfo(torch.int16).max
        keys = users.new_empty(sum(lengths), dtype=torch.int16 if fits_short else torch.int32)  # less to sort by
        present = users.new_full((len(levels), n_users), NOBODY)
        drawn = []
        for at, (layer, own) in enumerate(zip(levels, torch.split(keys, lengths), strict=True)):
            receiver, sender = users.new_empty(len(users)), users.new_empty(len(users), self._sizes[layer])
            place = {"stream": layer + 1, "base": at * (n_users + 1), "count": self._sizes[layer]}
            rows = (sender, receiver, present[at])
            _, has_neighbors = draws.neighbors(key, users, self.network, keys=own, rows=rows, **place)
            drawn.append((receiver, sender, has_neighbors))
            users = present[at]
        groups = groups_of_rows(keys, lengths, n_rows=n_users)
        hops = [TensorHop(*each, own, at > 0) for at, (each, own) in enumerate(zip(drawn, groups, strict=True))]
        return users, hops[::-1]
