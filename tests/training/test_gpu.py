"""On a GPU, captured steps do what steps do, and sums have one order for those who ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from tests.errors import refused
from tests.small_training import small_network
from torch import Tensor

from mcne.data.split import random_split
from mcne.errors import CaptureError, UsageError
from mcne.models.contract import StepLoss, TrainingData
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.training import gpu
from mcne.training.gpu import CapturedSteps, captured_steps, one_order


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
@pytest.mark.parametrize(
    ("widths", "samples", "batch_size"),
    [((16, 16), (4,), 33), ((16, 12, 8), (4, 3), 101)],  # rows for some users, and for all
)
def test_captured_steps_learn_what_steps_learn(
    widths: tuple[int, ...], samples: tuple[int, ...], batch_size: int
) -> None:
    dataset = small_network()
    data = TrainingData.of(dataset, random_split(dataset, seed=0))
    device = torch.device("cuda")
    assert max(len(user) for user, _ in data.pairs) % batch_size  # the last step of an epoch has another shape
    config = MCNEConfig(widths=widths, neighbor_samples=samples, batch_size=batch_size)
    plain, replayed = (MCNE(data, config, seed=0, device=device) for _ in range(2))
    captured = CapturedSteps(replayed)
    for epoch in range(3):  # the second captures the last step, and the third replays it
        for step in range(plain.n_steps):
            loss = plain.loss(plain.prepare(epoch, step))
            plain.update(loss)
            inputs = replayed.prepare(epoch, step)
            assert isinstance(inputs, Tensor)
            ours = captured(inputs)
            assert torch.equal(ours.total, loss.total.detach())
            assert torch.equal(ours.per_behavior, loss.per_behavior)
    assert len(captured._captured) == 2
    assert replayed.tables.steps == plain.tables.steps == 3 * plain.n_steps
    for own, other in ((plain.learned(), replayed.learned()), (plain.memory(), replayed.memory())):
        assert own.keys() == other.keys()
        for name, value in own.items():
            assert torch.equal(other[name], value), name


class Summing:
    """The part of a learner that is called here."""

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
    method: Any = Summing()
    steps = CapturedSteps(method)
    for _ in range(3):
        assert steps(torch.ones(2)).total == 2

    def refuse(_: Tensor) -> StepLoss:
        raise RuntimeError("no graphs here\nSearch for it elsewhere")

    monkeypatch.setattr(method, "loss", refuse)
    with refused(CaptureError, value="no graphs here"):
        steps(torch.ones(2))


def test_who_launches_kernels_one_by_one_captures_none(monkeypatch: pytest.MonkeyPatch) -> None:
    method: Any = Summing()
    device = torch.device("cuda")
    monkeypatch.delenv("CUDA_LAUNCH_BLOCKING", raising=False)
    assert captured_steps(method, device) is None  # no learner at all
    monkeypatch.setattr(gpu, "Capturable", Summing)
    assert captured_steps(method, device) is not None
    assert captured_steps(method, torch.device("cpu")) is None
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "")
    assert captured_steps(method, device) is not None
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert captured_steps(method, device) is None


CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
ORDERED = (True, False, False)


def state() -> tuple[bool, bool, bool]:
    """Whether sums have one order, whether PyTorch only warns where they have not, and whether it fills what is new."""
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    filling: Any = torch.utils.deterministic  # which has the property, and no declaration of it
    return torch.are_deterministic_algorithms_enabled(), warns, filling.fill_uninitialized_memory


@pytest.fixture(params=[(False, False), (True, True), (True, False)])
def before(request: pytest.FixtureRequest) -> Iterator[tuple[bool, bool, bool]]:
    """What a caller had asked of PyTorch."""
    torch.use_deterministic_algorithms(request.param[0], warn_only=request.param[1])
    yield state()
    torch.use_deterministic_algorithms(False)


def test_pytorch_adds_up_in_one_order_while_it_lasts(before: tuple[bool, bool, bool]) -> None:
    with one_order(GPU, is_asked=True):
        assert state() == ORDERED
    assert state() == before


@pytest.mark.parametrize(("device", "is_asked"), [(CPU, True), (GPU, False)])
def test_nothing_changes_where_nothing_has_to(device: torch.device, is_asked: bool) -> None:
    before = state()
    with one_order(device, is_asked=is_asked):
        assert state() == before


def test_an_operation_without_one_order_is_named(before: tuple[bool, bool, bool]) -> None:
    with refused(UsageError, place="setting deterministic", value="histc_cuda"), one_order(GPU, is_asked=True):
        raise RuntimeError("histc_cuda does not have a deterministic implementation, but you set …")
    assert state() == before


@pytest.mark.parametrize("message", ["out of memory", "Parent directory /runs/deterministic/x does not exist."])
def test_other_errors_are_left_alone(message: str, before: tuple[bool, bool, bool]) -> None:
    with pytest.raises(RuntimeError, match=message), one_order(GPU, is_asked=True):
        raise RuntimeError(message)
    assert state() == before
