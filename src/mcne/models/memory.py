"""How much memory a training will need, estimated before it starts: a function for each family of methods, which the
registry names. Methods that do not learn step by step need little beside the data, or refuse what is too much.

At the end, the memory that this process may still take: of the machine, and of every control group that it is in.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mcne.data.dataset import SocialDataset
from mcne.data.split import TRAIN, Split
from mcne.models.registry import entry
from mcne.randomness import Stream
from mcne.sampling.neighbors import NeighborSampler
from mcne.text import human_bytes

if TYPE_CHECKING:
    from mcne.models.settings import TrainingSettings

GROWS_WITH = ("widths", "width", "batch_size", "neighbor_samples", "neighbors")
"""Settings that may be lowered where a training does not fit, as far as a method has them."""

NUMBER, INDEX = 4, 8
"""Bytes of each."""

LIBRARIES = 420 << 20
"""Python, PyTorch and compiled functions."""

ORDERS_KEPT = 4
"""Shuffled orders of a behavior's training pairs: see :class:`mcne.sampling.triples.Positives`."""


@dataclass(frozen=True)
class Estimate:
    """Bytes of a training, by what takes them."""

    data: int  # graph, records, and what is ranked against in validation; on a GPU what steps are drawn from
    tables: int  # with both moments of every number, as far as they may be in files
    held: int  # what is in memory in any case: tables that no file takes, and vectors that do not learn
    step: int
    levels: int  # all users above the first level, while they are scored, where they may be in files
    scoring: int  # what it takes to compute them, or holds them where they are always in memory
    best: int  # a copy of what was learned
    best_in_memory: int  # of it, that which is small; the rest is on disk
    grows_with: tuple[str, ...]  # settings that may be lowered

    @property
    def memory(self) -> int:
        """The peak with all tables in memory."""
        return self._lasting + self.tables + max(self.step, self.levels + self.scoring)

    @property
    def memory_beside_files(self) -> int:
        """The peak with tables in files; what a step touches should stay in memory."""
        return self._lasting + max(2 * self.step, self.scoring)

    @property
    def _lasting(self) -> int:
        return LIBRARIES + self.data + self.held + self.best_in_memory

    @property
    def files(self) -> int:
        """On disk with tables in files."""
        return self.tables + self.levels + self.best

    def parts(self) -> str:
        """What takes it, for people."""
        return (
            f"tables and their moments {human_bytes(self.tables + self.held)}, data {human_bytes(self.data)}, "
            f"a step {human_bytes(self.step)}, scoring all users {human_bytes(self.levels + self.scoring)}"
        )


def estimate(
    method: str, config: Any, settings: TrainingSettings, dataset: SocialDataset, split: Split, *, is_on_gpu: bool
) -> Estimate | None:
    """Of a method that learns step by step; none of others. On a GPU it is the GPU's memory."""
    family = entry(method).estimate
    return None if family is None else family(TrainingSize(config, settings, dataset, split, is_on_gpu=is_on_gpu))


class TrainingSize:
    """The size of a training before it starts."""

    def __init__(
        self, config: Any, settings: TrainingSettings, dataset: SocialDataset, split: Split, *, is_on_gpu: bool
    ) -> None:
        self.settings, self.is_on_gpu = settings, is_on_gpu
        self.dataset, self.split = dataset, split
        self.users = dataset.n_users
        self.items = sum(behavior.n_items for behavior in dataset.behaviors)
        self.config = config
        self.nodes = self.users + self.items
        self.training_pairs = sum(int(np.count_nonzero(part == TRAIN)) for part in split.parts)
        self.known_pairs = sum(len(each.known[0]) for each in dataset.behaviors if each.known is not None)
        self.offsets = 8 * (self.users + 1) * len(dataset.behaviors)  # bytes: where the pairs of every user begin

    @property
    def seeds(self) -> int:
        """Positive pairs of a step."""
        return int(self.config.batch_size * len(self.dataset.behaviors))

    @property
    def scored(self) -> int:
        """Pairs of a step, those with negatives included."""
        return int(self.seeds * (1 + self.config.negatives))

    def item_tables(self, width: int, *, bias: int = 1) -> list[int]:
        """The numbers of each behavior's table, with a bias where a method may have one."""
        return [behavior.n_items * (width + bias) for behavior in self.dataset.behaviors]

    def estimate(
        self, sizes: list[int], *, step: int, scoring: int, held: int = 0, base: int = 0, data: int = 0, levels: int = 0
    ) -> Estimate:
        """An estimate from counts of numbers, but for ``data``: the bytes that a method keeps beside the shared data.

        ``sizes`` are those of the tables that learn. All of their numbers and both moments may be in files, but for
        those ``held`` in memory; what is of the ``base`` never changes.
        """
        from mcne.models.tables import LARGE

        copies = [NUMBER * each for each in sizes]
        return Estimate(
            data=data if self.is_on_gpu else data + self._shared_data(),
            tables=NUMBER * (3 * sum(sizes) - held),
            held=NUMBER * (held + base),
            step=NUMBER * step,
            levels=NUMBER * levels,
            scoring=NUMBER * scoring,
            best=sum(copies),
            best_in_memory=sum(each for each in copies if each < LARGE),
            grows_with=tuple(name for name in GROWS_WITH if hasattr(self.config, name)),
        )

    def _shared_data(self) -> int:
        """The graph and all records, mapped, and what the sampler keeps of the training part."""
        graph = self.dataset.graph
        arrays = [graph.indptr, graph.indices, graph.weights, *self.split.parts]
        for behavior in self.dataset.behaviors:
            arrays += [behavior.user, behavior.item, behavior.timestamp, behavior.weight]
            arrays += [behavior.known_user, behavior.known_item]
        arrays += [each.items for each in self.split.negatives["validation"]["uniform"]]
        mapped = sum(array.nbytes for array in arrays if array is not None)
        weights = NUMBER * self.training_pairs if getattr(self.config, "weighted_records", False) else 0
        sampled = self.training_pairs * (3 * NUMBER + 8 * ORDERS_KEPT) + self.known_pairs * NUMBER
        return mapped + weights + sampled + self.offsets


def network(size: TrainingSize, *, has_attention: bool = True, may_draw_on_gpu: bool = True) -> Estimate:
    """MCNE: a table of users, its levels, and items."""
    config = size.config
    rows = len(size.dataset.behaviors) + 1
    return _network(
        *(size, config.widths, config.neighbor_samples),
        rows=rows,
        projected=rows * config.attention_width if has_attention else 0,
        weighted=config.weighted_neighbors,
        is_drawn_on_gpu=size.is_on_gpu and may_draw_on_gpu and config.l2_form == "scored",
    )


def estimate_transfer(size: TrainingSize, widths: Sequence[int], samples: Sequence[int], *, weighted: bool) -> Estimate:
    """A behavior added to a trained network of these ``widths``, whose user vectors never change.

    What was trained before is memory-mapped and read once, so the system can drop it and it does not count.
    """
    is_drawn_on_gpu = size.is_on_gpu and bool(samples)
    return _network(size, widths, samples, weighted=weighted, is_drawn_on_gpu=is_drawn_on_gpu, is_frozen=True)


def _network(
    size: TrainingSize,
    widths: Sequence[int],
    samples: Sequence[int],
    *,
    rows: int = 1,
    projected: int = 0,
    weighted: bool,
    is_drawn_on_gpu: bool,
    is_frozen: bool = False,
) -> Estimate:
    """A network over users with ``rows`` of masks, ``projected`` numbers of attention per user, and neighbors drawn for
    each layer. Where steps are drawn on a GPU, it also holds links, training pairs, and where a user's begin.
    """
    initial, last = size.users * widths[0], size.users * widths[-1]
    scoring = [_scoring(*layer, projected, size.dataset) for layer in pairwise(widths)]
    graph = size.dataset.graph
    links = graph.indptr.nbytes + graph.indices.nbytes + (8 * len(graph.indices) if weighted else 0)
    users = (_most_users if is_drawn_on_gpu else _drawn_users)(samples, size.dataset, size.seeds)
    step = 4 * size.scored * widths[-1]  # the most numbers at a time, gradients included
    for width, (senders, receivers), sampled in zip(widths, pairwise(users), samples, strict=False):
        step += 2 * senders * (width + projected)
        step += 2 * receivers * (projected + (4 + rows) * width + sampled * (rows + 4))
    return size.estimate(
        size.item_tables(widths[-1], bias=0) if is_frozen else [initial, *size.item_tables(widths[-1])],
        base=initial if is_frozen else 0,
        data=links + 20 * size.training_pairs + 4 * size.known_pairs + size.offsets if is_drawn_on_gpu else 0,
        step=step,
        levels=size.users * sum(widths[1:]),
        scoring=max([last if is_frozen else 0, *scoring]),
    )


def factors(size: TrainingSize, *, user_tables: int = 1) -> Estimate:
    """Tables of users and of items, and nothing else."""
    width = size.config.width
    learned = [size.users * width] * user_tables + size.item_tables(width)
    step = 4 * (size.seeds + size.scored) * width
    return size.estimate(learned, step=step, scoring=0)


def factorization_machine(size: TrainingSize) -> Estimate:
    """LibFM and NFM: users and friends with a weight each, whose tables are always in memory, though their moments may
    be in files. The layers of NFM see every pair of a step. Scoring sums up all users piece by piece.
    """
    from mcne.embeddings.ranking import SAMPLED_AT_ONCE
    from mcne.models.libfm import USERS_AT_ONCE

    width, users = size.config.width + 1, size.users
    table = users * width
    learned = [table, table, *size.item_tables(size.config.width)]
    some = _distinct(size.seeds, users)
    step = 12 * some * width + 6 * _friends(size.dataset, some) * width
    piece = min(users, USERS_AT_ONCE)
    links = piece * size.dataset.graph.n_directions // max(1, users)
    summing = 8 * piece * width + 4 * _friends(size.dataset, piece) * width + 4 * links * INDEX // NUMBER
    scoring = 2 * table + max(2 * table, summing)
    if hasattr(size.config, "layers"):
        widest = width + sum(size.config.layers)
        step += 8 * size.scored * widest
        scoring = max(scoring, users * widest + 3 * SAMPLED_AT_ONCE * widest)
    else:
        step += 4 * size.scored * width
    return size.estimate(learned, held=2 * table, step=step, scoring=scoring)


def lightgcn(size: TrainingSize, *, has_links: bool = False) -> Estimate:
    """A vector for each node, all of them smoothed in every step: two gradients, and three levels at a time."""
    config, nodes = size.config, size.nodes
    learned = nodes * (config.width + config.bias)
    links = 2 * size.training_pairs + (size.dataset.graph.symmetric().n_directions if has_links else 0)
    smoothed = min(3, 1 + 2 * config.layers) * nodes * config.width
    return size.estimate(
        [learned],
        data=links * (INDEX + NUMBER) + (nodes + 1) * INDEX,
        held=3 * learned,
        step=2 * learned + smoothed + 8 * (size.seeds + size.scored) * config.width,
        scoring=learned + smoothed,  # the gradient of the last step is still there
    )


def pinsage(size: TrainingSize) -> Estimate:
    """A vector for each node and those it visits most; all nodes go through each layer at once to be scored."""
    config, nodes = size.config, size.nodes
    layers = list(pairwise(config.widths))
    learned = nodes * (config.widths[0] + config.bias)
    levels = [_distinct(size.seeds, size.users) + _distinct(size.scored, size.items)]
    for _ in layers:
        levels.insert(0, _distinct(levels[0] * (config.neighbors + 1), nodes))
    step = saved = 0  # a layer goes back when those above it are done, and those below wait for it
    for (below, above), (senders, receivers) in zip(layers, pairwise(levels), strict=True):
        combining, sending = receivers * (4 * below + 3 * above), 4 * senders * below
        step = max(step, saved + 2 * senders * below + max(combining, sending))
        saved += 2 * senders * below + receivers * (2 * below + above)
    visits = NUMBER + INDEX  # of a share and a node
    prepared = (size.settings.workers + 2) * sum(levels[1:]) * config.neighbors * visits // NUMBER
    return size.estimate(
        [learned],
        data=nodes * config.neighbors * visits,
        step=step + prepared + 8 * (size.seeds + size.scored) * config.widths[-1],
        scoring=nodes * max(5 * below + above + (below if k else 0) for k, (below, above) in enumerate(layers)),
    )


def sums(size: TrainingSize) -> Estimate:
    """MCNE-plus: users and items in one table, in another as contexts of walks, and items as records."""
    from mcne.models.mcne_plus import chosen

    longest = max((int(np.count_nonzero(part == TRAIN)) for part in size.split.parts), default=0)
    users, items = size.users, size.items
    size.config = config = chosen(size.config, users=users, items=items, longest=longest)
    width = config.width
    contexts = size.nodes if config.walks else 0
    learned = [size.nodes * width, items, items * width if config.history else 0, contexts * width]
    some = _distinct(size.seeds, users)
    records = _distinct(some * size.training_pairs // max(1, users), items) if config.history else 0
    friends = _friends(size.dataset, some) if config.friends else 0
    walked = config.walk_batch * config.walk_length if config.walks else 0
    nodes = min(size.nodes, some + friends + _distinct(size.scored, items) + walked)
    stretches = 6 * walked * width  # centers, contexts and noise, with their gradients
    step = (4 * nodes + 3 * records + 2 * min(contexts, 2 * walked) + 6 * some + 8 * size.seeds) * width + stretches
    piece = 6 * min(users, 1 << 14) * width
    links = 2 * size.training_pairs + size.dataset.graph.n_directions
    data = INDEX * (size.training_pairs + size.dataset.graph.n_directions) + 3 * INDEX * links
    return size.estimate(learned, step=step, scoring=users * width + piece, data=data)


network_without_attention = partial(network, has_attention=False)
network_drawn_on_host = partial(network, may_draw_on_gpu=False)
graphsage = partial(network, has_attention=False, may_draw_on_gpu=False)
factors_with_contexts = partial(factors, user_tables=2)
lightgcn_with_links = partial(lightgcn, has_links=True)


def _distinct(drawn: int, among: int) -> int:
    """The expected number of distinct ones among so many draws, at equal probabilities, which give the most."""
    return math.ceil(among * -math.expm1(-drawn / among)) if among else 0


def _friends(dataset: SocialDataset, users: int) -> int:
    """The number of distinct friends of so many users."""
    return _distinct(users * dataset.graph.n_directions // max(1, dataset.n_users), dataset.n_users)


def _drawn_users(samples: Sequence[int], dataset: SocialDataset, n_seeds: int) -> list[int]:
    """The distinct users of every level of a step, the lowest first, by drawing one."""
    seeds = np.unique(Stream(0, "estimate").integers(dataset.n_users, min(n_seeds, dataset.n_users)))
    around = NeighborSampler(dataset.graph, samples).sample(seeds, seed=0, epoch=0, step=0)
    return [len(around.users), *(len(hop.receiver) for hop in around.hops)]


def _most_users(samples: Sequence[int], dataset: SocialDataset, n_seeds: int) -> list[int]:
    """The rows of every level of a step that is drawn on a GPU: as many as there can be distinct users."""
    users = [min(n_seeds, dataset.n_users)]
    for size in reversed(samples):
        users.insert(0, min(users[0] * (size + 1), dataset.n_users))
    return users


def _scoring(width: int, above: int, projected: int, dataset: SocialDataset) -> int:
    """The numbers that :func:`mcne.models.inference.receive_from_all` holds beside both levels."""
    from mcne.models.inference import NUMBERS_AT_ONCE, USERS_AT_ONCE

    users, links = dataset.n_users, dataset.graph.n_directions
    at_once = max(NUMBERS_AT_ONCE, users * width // 3)
    piece = min(users, USERS_AT_ONCE)
    held = min(users * projected, at_once)
    received = min(users, USERS_AT_ONCE) * width if users * projected <= at_once else min(users * width, at_once)
    return held + received + piece * (projected + 3 * width + above) + 10 * links * piece // max(1, users)


def available_memory() -> int:
    """What this process has and may still take."""
    return free_memory() + kernel_sizes("/proc/self/status").get("RssAnon", 0)


def free_memory() -> int:
    """What this process may still take; all memory of the machine where the system does not say."""
    machine = kernel_sizes("/proc/meminfo").get("MemAvailable")
    if machine is None:  # no Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(_left_in_groups(machine))


def kernel_sizes(path: str) -> dict[str, int]:
    """The sizes in one of the kernel's tables, such as ``/proc/meminfo``, in bytes; none where it has no such table."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in lines if line.endswith(" kB"))
    return {name: int(size.split()[0]) << 10 for name, size in pairs}


def _left_in_groups(most: int, root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> list[int]:
    """What is left to every control group of this process that has a limit; caches count as free."""
    left = [most]
    for line in own.read_text(encoding="utf-8").splitlines() if own.exists() else []:
        _, controllers, place = line.split(":", 2)
        if controllers == "":
            base, names = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = base / place.lstrip("/")
        for where in (group, *group.parents):
            if where.is_relative_to(base):
                left += _left_in(where, *names)
    return left


def _left_in(group: Path, limit: str, used: str, cache: str) -> list[int]:
    """What one group has left, if it has a limit: files of the limit and the use, and how statistics call caches."""
    try:
        most = (group / limit).read_text().strip()
        taken = int((group / used).read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return []
    return [max(0, int(most) - taken + int(stat.get(cache, 0)))] if most.isdecimal() else []
