"""At default settings the same seed gives the same bytes on any number of threads, of every method on real data.

In products of few rows and columns, and in sums of more than some 100,000 numbers, threads can change the last bits:
of losses that are told, but of nothing that is learned.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.methods.registry import METHODS
from mcne.training.contract import Learner, TrainingData

STEPS = 3
WITH_LAPACK = "ease"
"""Its inverse is LAPACK's, which divides a matrix by threads: the last bits differ."""


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in METHODS if name != WITH_LAPACK])
def test_threads_change_no_byte(name: str, ciao: SocialDataset) -> None:
    data = TrainingData.of(ciao, random_split(ciao, seed=0))
    found, losses = list[dict[str, bytes]](), list[list[float]]()
    for count in (1, 2, 3, 5):
        torch.set_num_threads(count)
        method = METHODS[name].make(data, METHODS[name].config(), seed=0, device=torch.device("cpu"))
        losses.append([0.0])
        for step in range(STEPS if isinstance(method, Learner) else 0):
            loss = method.loss(method.prepare(0, step))
            method.update(loss)
            losses[-1] += [loss.total.item(), *loss.per_behavior.tolist()]
        scores = method.scorer().scores(0, np.arange(50), np.arange(50 * 20).reshape(50, 20))
        kept = {key: value.numpy().tobytes() for key, value in method.learned().items()}
        found.append(kept | {"scores": scores.tobytes()})
    np.testing.assert_allclose(losses, np.broadcast_to(losses[0], np.shape(losses)), rtol=1e-6)
    assert {key for key in found[0] if len({each[key] for each in found}) > 1} == set()
