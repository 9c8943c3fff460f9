"""The figures that need nothing but a dataset: those of ``mcne bench``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.models.contract import TrainingData
from mcne.training.bench.figure import Measurement, Taken
from mcne.training.bench.gpu import against_launches
from mcne.training.bench.ranking import against_product, against_sampled_product
from mcne.training.bench.step import against_literal, against_plain, against_products

CIAO_SIZED = SyntheticConfig(
    users=4321, behaviors=3, items_per_behavior=26_000, links_per_user=20.5, records_per_user=6.5
)
"""About as many users, links, items and records as the paper's Ciao."""

Dataset = Callable[[], SocialDataset]


def measurements(dataset: Dataset, where: str) -> list[Measurement]:
    """All of them on a dataset, which is made when the first is taken; ``where`` is its name."""
    step = f"step of MCNE, {where}"

    def of(take: Callable[[TrainingData], Taken]) -> Callable[[], Taken]:
        return lambda: take(all_for_training(dataset()))

    return [
        Measurement("step.literal", step, "the literal form", 1 / 100, of(against_literal)),
        Measurement("step.products", step, "its own matrix products", 2, of(against_products)),
        Measurement("step.plain", step, "plain operations of PyTorch", 1, of(against_plain)),
        Measurement(
            "ranking.product",
            f"evaluation by full ranking, {where}",
            "score product + top 20",
            1.5,
            lambda: against_product(dataset()),
        ),
        Measurement(
            "ranking.sampled",
            f"evaluation by sampled ranking, {where}",
            "score product + top 20",
            1.5,
            lambda: against_sampled_product(dataset()),
        ),
        Measurement("gpu.step", f"{step}, GPU", "its kernels launched one by one", 1, of(against_launches)),
    ]


def for_users() -> list[Measurement]:
    """Those of ``mcne bench``."""
    return measurements(cache(partial(_network, CIAO_SIZED)), "synthetic network of Ciao's size")


def all_for_training(dataset: SocialDataset) -> TrainingData:
    """A dataset of which nothing is kept for validation or test."""
    return TrainingData.of(dataset, random_split(dataset, seed=0, ratios=(100, 0, 0)))


def _network(config: SyntheticConfig) -> SocialDataset:
    return generate(config)[0]
