"""Captured steps do what steps do."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.methods.mcne import MCNE, MCNEConfig
from mcne.training.capture import CapturedSteps
from mcne.training.contract import StepLoss, TrainingData


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


def test_a_step_that_cannot_be_captured_is_run_and_it_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting:
        is_capturable = True
        done = 0

        def loss(self, inputs: Tensor) -> StepLoss:
            return StepLoss(inputs.sum(), inputs, 1)

        def update(self, loss: StepLoss) -> None:
            self.done += 1

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no graphs here")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", refuse)
    method = Counting()
    steps = CapturedSteps(method)  # type: ignore[arg-type] # of a learner it has only what is called here
    for _ in range(3):
        steps(torch.ones(2))
    with pytest.warns(UserWarning, match="could not be captured.*no graphs here"):
        steps(torch.ones(2))
    assert steps(torch.ones(2)).total == 2
    assert method.done == 5
