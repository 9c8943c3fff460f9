"""What a training will need of memory, told before it starts, and whether there is as much.

Tables go to files where memory has no room for them (:mod:`mcne.layers.spill`); what cannot be elsewhere must fit. Only
methods that learn a table of users step by step are estimated: others either need little beside the data, or say
themselves what is too much for them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mcne.data.dataset import SocialDataset
from mcne.data.split import TRAIN, Split
from mcne.errors import UsageError
from mcne.randomness import Stream
from mcne.sampling.neighbors import NeighborSampler
from mcne.storage import human_bytes

if TYPE_CHECKING:
    import torch

    from mcne.training.settings import TrainingSettings

MCNES = ("mcne", "mcne-a", "mcne-f", "mcne-plus", "mcne-constant-masks", "mcne-random-masks")
NETWORKS = (*MCNES, "shared-bottom", "soft-gate", "graphsage")
WITHOUT_ATTENTION = ("mcne-a", "mcne-f", "graphsage")
DRAWN_ON_HOST = ("mcne-plus", "graphsage")
"""Networks whose steps no GPU draws."""

FACTORS = {"bpr": 1, "line": 2, "line-b": 2, "node2vec": 2, "node2vec-b": 2}
"""With how many tables of users: the last four have contexts too."""

NUMBER = 4
LIBRARIES = 420 << 20
"""Python, PyTorch and compiled functions."""

ORDERS_KEPT = 4
"""Shuffled orders of a behavior's training pairs: see :class:`mcne.sampling.positives.Positives`."""


@dataclass(frozen=True)
class Estimate:
    """Bytes of a training, by what takes them."""

    data: int  # graph, records, and what is ranked against in validation; on a GPU what steps are drawn from
    tables: int  # with both moments of every number
    step: int
    levels: int  # all users above the first level, while they are scored
    scoring: int  # what it takes to compute them
    best: int  # a copy of what was learned, on disk where it is large

    @property
    def memory(self) -> int:
        """The peak with all tables in memory."""
        return LIBRARIES + self.data + self.tables + max(self.step, self.levels + self.scoring)

    @property
    def memory_beside_files(self) -> int:
        """The peak with all tables in files, of which as much as a step touches should stay in memory."""
        return LIBRARIES + self.data + max(2 * self.step, self.scoring)

    @property
    def files(self) -> int:
        """On disk with all tables in files."""
        return self.tables + self.levels + self.best

    def parts(self) -> str:
        """What takes it, for people."""
        return (
            f"tables and their moments {human_bytes(self.tables)}, data {human_bytes(self.data)}, "
            f"a step {human_bytes(self.step)}, scoring all users {human_bytes(self.levels + self.scoring)}"
        )


@dataclass(frozen=True)
class Verdict:
    """Where the tables of a training are, and why."""

    line: str
    tables_in_files: bool


def estimate(
    method: str, config: Any, settings: TrainingSettings, dataset: SocialDataset, split: Split, *, is_on_gpu: bool
) -> Estimate | None:
    """Of a method that learns a table of users; none of others. On a GPU it is the GPU's memory."""
    if method not in NETWORKS and method not in FACTORS:
        return None
    widths = config.widths if method in NETWORKS else (config.width,)
    first, last = widths[0] * FACTORS.get(method, 1), widths[-1]
    items = sum(behavior.n_items for behavior in dataset.behaviors)
    learned = NUMBER * (dataset.n_users * first + items * (last + 1))
    is_drawn_there = is_on_gpu and method in NETWORKS and method not in DRAWN_ON_HOST and config.l2_form == "scored"
    step, scoring = _step_and_scoring(method, config, dataset, is_drawn_there=is_drawn_there)
    drawn_from = _drawn_from(config, dataset, split) if is_drawn_there else 0
    return Estimate(
        data=drawn_from if is_on_gpu else _data(dataset, split, epochs=settings.epochs),
        tables=3 * learned,
        step=step,
        levels=NUMBER * dataset.n_users * sum(widths[1:]),
        scoring=scoring,
        best=learned,
    )


def decide(method: str, needed: Estimate, device: torch.device, *, path: Path) -> Verdict:
    """Whether it fits and where, in a line; refused with :class:`UsageError` where it does not."""
    if device.type != "cpu":
        return _decide_on_gpu(method, needed, device)
    there = available_memory()
    said = f"memory: about {human_bytes(needed.memory)} of {human_bytes(there)} ({needed.parts()})"
    if needed.memory <= there:
        return Verdict(said, tables_in_files=False)
    if needed.memory_beside_files > there:
        least = human_bytes(needed.memory_beside_files)
        raise UsageError(_refusal(method, needed, f"{least}, even with its tables in files,", human_bytes(there)))
    files = f"so tables are in files beside {path}, {human_bytes(needed.files)}: slower, with the same result"
    return Verdict(f"{said}, {files}", tables_in_files=True)


def available_memory() -> int:
    """What this process has and may still take: of the machine, and of every control group that it is in."""
    own = _status("/proc/self/status").get("RssAnon", 0)
    machine = _status("/proc/meminfo").get("MemAvailable")
    if machine is None:  # no Linux
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(machine, *_left_in_groups(machine)) + own


def _decide_on_gpu(method: str, needed: Estimate, device: torch.device) -> Verdict:
    import torch

    there, _ = torch.cuda.mem_get_info(device)
    wanted = needed.data + needed.tables + needed.best + max(needed.step, needed.levels + needed.scoring)
    if wanted > there:
        raise UsageError(_refusal(method, needed, f"{human_bytes(wanted)} on the GPU", f"{human_bytes(there)} there"))
    return Verdict(f"GPU memory: about {human_bytes(wanted)} of {human_bytes(there)} ({needed.parts()})", False)


def _refusal(method: str, needed: Estimate, need: str, there: str) -> str:
    return (
        f"{method} needs about {need} of memory and may use {there} ({needed.parts()}); set smaller widths, batch_size "
        "or neighbor_samples, train on fewer behaviors or users, or take a machine with more memory"
    )


def _data(dataset: SocialDataset, split: Split, *, epochs: int) -> int:
    """The graph and all records, mapped, and what the sampler keeps of the training part."""
    arrays = [dataset.graph.indptr, dataset.graph.indices, dataset.graph.weights]
    for behavior, part in zip(dataset.behaviors, split.parts, strict=True):
        arrays += [behavior.user, behavior.item, behavior.timestamp, part]
    drawn = split.negatives["validation"]["uniform"]
    mapped = sum(array.nbytes for array in (*arrays, *(each.items for each in drawn)) if array is not None)
    pairs = sum(int(np.count_nonzero(part == TRAIN)) for part in split.parts)
    orders = min(ORDERS_KEPT, epochs + 1)
    offsets = 8 * (dataset.n_users + 1) * len(dataset.behaviors)
    return mapped + pairs * (3 * NUMBER + 8 * orders) + offsets


def _drawn_from(config: Any, dataset: SocialDataset, split: Split) -> int:
    """What :class:`mcne.kernels.draws.DeviceSampler` holds: links, training pairs, and where those of a user begin."""
    graph, pairs = dataset.graph, sum(int(np.count_nonzero(part == TRAIN)) for part in split.parts)
    shares = 8 * len(graph.indices) if config.weighted_neighbors else 0
    offsets = 8 * (dataset.n_users + 1) * len(dataset.behaviors)
    return graph.indptr.nbytes + graph.indices.nbytes + shares + 20 * pairs + offsets


def _step_and_scoring(method: str, config: Any, dataset: SocialDataset, *, is_drawn_there: bool) -> tuple[int, int]:
    """The most numbers that a step holds at a time, gradients included, and scoring all users, in bytes."""
    n_seeds = config.batch_size * len(dataset.behaviors)
    scored = n_seeds * (1 + config.negatives)
    if method in FACTORS:
        return NUMBER * 4 * (n_seeds + scored) * config.width, 0
    behaviors = len(dataset.behaviors) + 1
    projected = 0 if method in WITHOUT_ATTENTION else behaviors * config.attention_width
    numbers = 4 * scored * config.widths[-1]
    users = _most_users(config, dataset, n_seeds) if is_drawn_there else _drawn_users(config, dataset, n_seeds)
    for width, (senders, receivers), size in zip(config.widths, pairwise(users), config.neighbor_samples, strict=False):
        numbers += 2 * senders * (width + projected)
        numbers += 2 * receivers * (projected + (4 + behaviors) * width + size * (behaviors + 4))
    return NUMBER * numbers, max(_scoring(width, above, projected, dataset) for width, above in _layers(config))


def _drawn_users(config: Any, dataset: SocialDataset, n_seeds: int) -> list[int]:
    """The distinct users of every level of a step, the lowest first, by drawing one."""
    seeds = np.unique(Stream(0, "estimate").integers(dataset.n_users, min(n_seeds, dataset.n_users)))
    around = NeighborSampler(dataset.graph, config.neighbor_samples).sample(seeds, seed=0, epoch=0, step=0)
    return [len(around.users), *(len(hop.receiver) for hop in around.hops)]


def _most_users(config: Any, dataset: SocialDataset, n_seeds: int) -> list[int]:
    """The rows of every level of a step that is drawn on a GPU: as many as there can be distinct users."""
    users = [min(n_seeds, dataset.n_users)]
    for size in reversed(config.neighbor_samples):
        users.insert(0, min(users[0] * (size + 1), dataset.n_users))
    return users


def _layers(config: Any) -> list[tuple[int, int]]:
    return list(zip(config.widths[:-1], config.widths[1:], strict=True))


def _scoring(width: int, above: int, projected: int, dataset: SocialDataset) -> int:
    """What :meth:`mcne.layers.message.MessageLayer.receive_all` holds beside both levels."""
    from mcne.layers.message import NUMBERS_AT_ONCE, USERS_AT_ONCE

    users, links = dataset.n_users, dataset.graph.n_links
    at_once, piece = max(NUMBERS_AT_ONCE, users * width // 3), min(users, USERS_AT_ONCE)
    held = min(users * projected, at_once)
    heard = min(users, USERS_AT_ONCE) * width if users * projected <= at_once else min(users * width, at_once)
    numbers = held + heard + piece * (projected + 3 * width + above)
    return NUMBER * numbers + 40 * links * piece // max(1, users)


def _status(path: str) -> dict[str, int]:
    """The sizes in one of the kernel's tables, in bytes."""
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
            base, limit, used, cache = root, "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            base, limit, used, cache = (
                root / "memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            )
        else:
            continue
        group = base / place.lstrip("/")
        for where in (group, *group.parents):
            if where.is_relative_to(base):
                left += _left_in(where, limit, used, cache)
    return left


def _left_in(group: Path, limit: str, used: str, cache: str) -> list[int]:
    """What one group has left, if it has a limit."""
    try:
        most, taken = (group / limit).read_text().strip(), int((group / used).read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return []
    return [max(0, int(most) - taken + int(stat.get(cache, 0)))] if most.isdecimal() else []
