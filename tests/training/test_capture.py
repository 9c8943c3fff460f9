"""Captured steps do what steps do."""

from __future__ import annotations

import pytest
import torch

from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.methods.mcne import MCNE, MCNEConfig
from mcne.training.capture import CapturedSteps
from mcne.training.contract import TrainingData


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
def test_captured_steps_learn_what_steps_learn() -> None:
    dataset = generate(SyntheticConfig(users=500, behaviors=2))[0]
    data, device = TrainingData.of(dataset, random_split(dataset, seed=0)), torch.device("cuda")
    config = MCNEConfig(widths=(16, 16), neighbor_samples=(4,), batch_size=32)
    plain, replayed = (MCNE(data, config, seed=0, device=device) for _ in range(2))
    captured = CapturedSteps(replayed)
    for step in range(plain.n_steps):
        loss = plain.loss(plain.prepare(0, step))
        plain.update(loss)
        assert torch.equal(captured(replayed.prepare(0, step)).total, loss.total.detach())
    assert replayed.tables.steps == plain.tables.steps == plain.n_steps
    for name, value in plain.tables.tables.items():
        assert torch.equal(replayed.tables.tables[name], value), name
