"""The same seed gives the same bytes on any number of threads: of every method at default settings on real data, and of
those with a network where its layers are narrow or its steps small.

In sums of more than some 100,000 numbers, threads can change the last bits: of losses that are told, but of nothing
that is learned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.models.contract import Learner, TrainingData
from mcne.models.registry import METHODS
from mcne.models.settings import parse

pytestmark = pytest.mark.usefixtures("restored_threads")

STEPS = 3
WITH_LAPACK = "ease"
"""Its inverse is LAPACK's, which divides a matrix by threads: the last bits differ."""

NARROW = {
    "one layer": ("mcne", {"widths": [16, 16], "neighbor_samples": [20], "attention_width": 4}),
    "two layers": ("mcne", {"widths": [16, 16, 16], "attention_width": 16}),
    "ever narrower": ("mcne", {"widths": [64, 16, 8], "attention_width": 8}),
    "a few users a step": ("mcne", {"widths": [16, 16, 16], "attention_width": 16, "batch_size": 1}),
    "literal messages": ("mcne", {"widths": [16, 16, 16], "attention_width": 16, "message": "literal"}),
    "no attention": ("mcne-a", {"widths": [16, 36, 16]}),
    "walks": ("graphsage", {"widths": [16, 16, 16]}),
    "importance": ("pinsage", {"widths": [16, 16, 16]}),
    "pooled features": ("nfm", {"width": 8, "layers": [16, 8]}),
}


@pytest.fixture(scope="module")
def synthetic() -> TrainingData:
    dataset, _ = generate(SyntheticConfig(users=1000))
    return TrainingData.of(dataset, random_split(dataset, seed=0))


def learned(
    name: str, settings: Mapping[str, Any], data: TrainingData, threads: int
) -> tuple[dict[str, bytes], list[float]]:
    """All that a method has learned after some steps and the scores it gives, and the losses on the way."""
    torch.set_num_threads(threads)
    (config,) = parse([METHODS[name].config], settings)
    method = METHODS[name].make(data, config, seed=0, device=torch.device("cpu"))
    losses = [0.0]
    for step in range(STEPS if isinstance(method, Learner) else 0):
        loss = method.loss(method.prepare(0, step))
        method.update(loss)
        losses += [loss.total.item(), *loss.per_behavior.tolist()]
    scores = method.scorer().scores(0, np.arange(50), np.arange(50 * 20).reshape(50, 20) % data.n_items[0])
    kept = {key: value.numpy().tobytes() for key, value in method.learned().items()}
    return kept | {"scores": scores.tobytes()}, losses


def differing(outputs: Sequence[dict[str, bytes]]) -> set[str]:
    return {key for key in outputs[0] if len({each[key] for each in outputs}) > 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in METHODS if name != WITH_LAPACK])
def test_threads_change_no_byte(name: str, ciao: SocialDataset) -> None:
    data = TrainingData.of(ciao, random_split(ciao, seed=0))
    outputs, losses = zip(*(learned(name, {}, data, threads=count) for count in (1, 2, 3, 12)), strict=True)
    np.testing.assert_allclose(losses, np.broadcast_to(losses[0], np.shape(losses)), rtol=1e-6)
    assert differing(outputs) == set()


@pytest.mark.parametrize(("name", "settings"), NARROW.values(), ids=NARROW)
def test_nor_of_narrow_layers_and_small_steps(name: str, settings: dict[str, Any], synthetic: TrainingData) -> None:
    settings = {"batch_size": 512} | settings
    outputs, _ = zip(*(learned(name, settings, synthetic, threads=count) for count in (1, 2, 3, 5, 32)), strict=True)
    assert differing(outputs) == set()
