"""Steps that a GPU draws and computes are those of the host; without a GPU its kernels are interpreted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.extend.later_behavior import NEW, RandomBase, Whole

from mcne.embeddings import ConditionalEmbeddings
from mcne.extend.checks import TransferConfig
from mcne.extend.learner import Transfer
from mcne.extend.transfer import aligned
from mcne.kernels import backend
from mcne.models.contract import TrainingData
from mcne.models.neighborhoods import Batch
from mcne.models.ranking import Triples

pytest.importorskip("triton", reason="Triton is made for Linux alone")

CPU, GPU = torch.device("cpu"), torch.device("cuda" if torch.cuda.is_available() else "cpu")


def made(base: ConditionalEmbeddings, whole: Whole, device: torch.device, control: Any) -> Transfer:
    config = TransferConfig(neighbor_samples=(2, 2), batch_size=4, negatives=2, learning_rate=0.05, control=control)
    data = TrainingData.of(*aligned(base, *whole, behavior=NEW))
    chance = np.random.default_rng(2)
    items = chance.normal(size=(data.n_items[0], base.width)).astype(np.float32)
    assert base.trunk is not None
    fixed = items if control == "masks-only" else None
    learner = Transfer(base, base.trunk, data, config, items=fixed, seed=4, device=device)
    if fixed is None:
        learner.load({**learner.learned(), "items.0": torch.from_numpy(items)})
    return learner


def on_host(learner: Transfer, turn: torch.Tensor) -> Batch:
    """What the GPU draws at a turn, as a batch of the host; whoever has a row without being needed keeps it."""
    assert learner.device_sampler is not None
    users, hops, drawn = learner.device_sampler.draw(turn)
    hops = tuple(
        replace(
            hop,
            receiver=hop.receiver.cpu(),
            sender=hop.sender.cpu(),
            has_neighbors=hop.has_neighbors.cpu(),
            by_sender=None,
        )
        for hop in hops
    )
    items, rows = torch.unique(drawn.items[drawn.item].cpu(), return_inverse=True)
    triples = Triples(drawn.user.cpu(), items, rows[:, 0].contiguous(), rows[:, 1:].contiguous())
    return Batch(users.clamp(min=0).cpu(), hops, (triples,))


@pytest.mark.parametrize(
    ("control", "is_small"), [("none", False), ("none", True), ("masks-only", False), ("random-masks", False)]
)
def test_a_step_on_the_gpu_is_a_plain_step(
    control: str, is_small: bool, random_base: RandomBase, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = random_base("neighbor", weighted=False, last_activation=True)
    monkeypatch.setattr(backend, "is_gpu", lambda _: True)
    on_gpu = made(base, whole, GPU, control)
    assert on_gpu.device_sampler is not None
    on_gpu.device_sampler.is_small = is_small  # small networks have rows for all users
    monkeypatch.setattr(backend, "is_gpu", lambda device: device.type == "cuda")
    plain = made(base, whole, CPU, control)
    assert (on_gpu.is_capturable, plain.is_capturable) == (True, False)
    for step in range(1 if is_small else 2):  # interpreted, rows for all take long
        monkeypatch.setattr(backend, "is_gpu", lambda _: True)
        turn = on_gpu.prepare(0, step)
        assert isinstance(turn, torch.Tensor)
        batch, ours = on_host(on_gpu, turn), on_gpu.loss(turn)
        on_gpu.update(ours)
        monkeypatch.setattr(backend, "is_gpu", lambda device: device.type == "cuda")
        wanted = plain.loss(batch)
        plain.update(wanted)
        torch.testing.assert_close(ours.total.cpu(), wanted.total, rtol=1e-4, atol=1e-5)
    for name, value in plain.learned().items():
        torch.testing.assert_close(on_gpu.learned()[name].cpu(), value, rtol=1e-3, atol=1e-3, msg=name)
    assert on_gpu.vitals() == pytest.approx(plain.vitals())


def test_whole_vectors_are_drawn_on_the_host(
    base: ConditionalEmbeddings, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "is_gpu", lambda _: True)
    learner = made(base, whole, GPU, "whole-vector")
    assert not learner.is_capturable
    before = learner.learned()["items.0"].clone()
    learner.update(learner.loss(learner.prepare(0, 0)))
    assert not torch.equal(learner.learned()["items.0"], before)
