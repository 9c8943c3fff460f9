"""A training step of MCNE on a network ten times as large, and per distinct user and link against Ciao."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.raw import ciao
from mcne.data.dataset import SocialDataset
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.models.mcne import MCNE
from mcne.models.neighborhoods import Batch
from mcne_bench.figures import Contender, Taken, all_for_training, medians, paper_model

ROUNDS, WARM_UP = 15, 3
SMALL, LARGE = 100_000, 1_000_000


class Cost(NamedTuple):
    """Of a step: its time, and how many distinct users and links it has."""

    seconds: float
    parts: float

    @property
    def each(self) -> float:
        """Seconds of a user or a link."""
        return self.seconds / self.parts

    def __str__(self) -> str:
        return f"{self.seconds * 1e3:.0f} ms for {self.parts:,.0f} distinct users and links"


def against_smaller() -> Taken:
    """On networks of the same degree law, 10 links from each user on average.

    Some of the difference is work: a step samples 80,000 links, enough to meet a fifth of the smaller network and so
    many a user twice, where the larger one has more distinct users to compute.
    """
    return _larger(5.0)


def against_smaller_dense() -> Taken:
    """The same with 10,000,000 pairs of friends: 20 links from each user, in either direction."""
    return _larger(10.0)


def _larger(links_per_user: float) -> Taken:
    small, large = costs([_network(SMALL, links_per_user), _network(LARGE, links_per_user)])
    detail = f"{large} against {small}, per user and link {large.each / small.each:.2f}×"
    return Taken(large.seconds / small.seconds, detail)


def per_part_against_ciao() -> Taken:
    small, large = costs([ciao(), _network(LARGE, 5.0)])
    return Taken(large.each / small.each, f"{large} against {small}")


def costs(datasets: Sequence[SocialDataset]) -> list[Cost]:
    """Of a step on each dataset, in turns."""
    steps = [_Step(paper_model(all_for_training(dataset))) for dataset in datasets]
    taken = medians({str(k): Contender(step) for k, step in enumerate(steps)}, rounds=ROUNDS, warm_up=WARM_UP)
    return [Cost(seconds, median(step.parts[WARM_UP:])) for seconds, step in zip(taken.values(), steps, strict=True)]


class _Step:
    """A step of a model, which keeps how many distinct users and links each had."""

    def __init__(self, model: MCNE) -> None:
        self.model = model
        self.parts: list[int] = []

    def __call__(self, number: int) -> None:
        batch = self.model.prepare(*divmod(number, self.model.n_steps))
        self.model.update(self.model.loss(batch))
        assert isinstance(batch, Batch)  # on a CPU
        self.parts.append(len(batch.users) + sum(hop.sender.numel() for hop in batch.hops))


def _network(users: int, links_per_user: float) -> SocialDataset:
    return generate(SyntheticConfig(users=users, behaviors=3, links_per_user=links_per_user, records_per_user=1.0))[0]
