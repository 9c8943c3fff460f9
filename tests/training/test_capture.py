"""Captured steps do what steps do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.errors import CaptureError
from mcne.models.contract import StepLoss, TrainingData
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.training import capture
from mcne.training.capture import CapturedSteps, captured_steps


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
@pytest.mark.parametrize(
    ("widths", "samples", "batch_size"),
    [((16, 16), (4,), 33), ((16, 12, 8), (4, 3), 101)],  # rows for some users, and for all
)
def test_captured_steps_learn_what_steps_learn(
    widths: tuple[int, ...], samples: tuple[int, ...], batch_size: int
) -> None:
    dataset = generate(SyntheticConfig(users=500, behaviors=2))[0]
    data, device = TrainingData.of(dataset, random_split(dataset, seed=0)), torch.device("cuda")
    assert max(len(user) for user, _ in data.pairs) % batch_size  # the last step of an epoch has another shape
    config = MCNEConfig(widths=widths, neighbor_samples=samples, batch_size=batch_size)
    plain, replayed = (MCNE(data, config, seed=0, device=device) for _ in range(2))
    captured = CapturedSteps(replayed)
    for epoch in range(3):  # the second captures the last step, and the third replays it
        for step in range(plain.n_steps):
            loss = plain.loss(plain.prepare(epoch, step))
            plain.update(loss)
            ours = captured(replayed.prepare(epoch, step))
            assert torch.equal(ours.total, loss.total.detach())
            assert torch.equal(ours.per_behavior, loss.per_behavior)
    assert [graph is not None for graph in captured._graphs.values()] == [True, True]
    assert replayed.tables.steps == plain.tables.steps == 3 * plain.n_steps
    for own, other in ((plain.learned(), replayed.learned()), (plain.memory(), replayed.memory())):
        assert own.keys() == other.keys()
        for name, value in own.items():
            assert torch.equal(other[name], value), name


class Summing:
    """Of a learner what is called here."""

    is_capturable = True

    def loss(self, inputs: Tensor) -> StepLoss:
        return StepLoss(inputs.sum(), inputs, 1)

    def update(self, loss: StepLoss) -> None:
        pass


def test_a_step_that_cannot_be_captured_ends_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def broken(*_: object, **__: object) -> Iterator[None]:
        try:
            yield
        finally:  # as PyTorch does, which hides what went wrong behind what follows from it
            raise RuntimeError("operation failed due to a previous error")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", broken)
    method = Summing()
    steps = CapturedSteps(method)
    for _ in range(3):
        assert steps(torch.ones(2)).total == 2

    def refuse(_: Tensor) -> StepLoss:
        raise RuntimeError("no graphs here\nSearch for it elsewhere")

    monkeypatch.setattr(method, "loss", refuse)
    with pytest.raises(CaptureError, match=r"CUDA graph \(no graphs here\), after .*anew with CUDA_LAUNCH_BLOCKING=1"):
        steps(torch.ones(2))


def test_who_launches_kernels_one_by_one_captures_none(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cuda")
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    assert captured_steps(Summing(), device) is None  # no learner at all
    monkeypatch.setattr(capture, "Capturable", Summing)
    assert captured_steps(Summing(), device) is not None
    assert captured_steps(Summing(), torch.device("cpu")) is None
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "")
    assert captured_steps(Summing(), device) is not None
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert captured_steps(Summing(), device) is None
