"""Steps that a GPU draws and computes are those of the plain model; without a GPU its kernels are interpreted."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.test_mcne import CONFIG, VARIANTS, dataset, triples_of
from tests.values import not_none

from mcne.data.split import random_split
from mcne.kernels import backend
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE
from mcne.models.mcne_variants import SharedBottom, SoftGate
from mcne.models.neighborhoods import Batch
from mcne.models.ranking import Triples

pytest.importorskip("triton", reason="Triton is made for Linux alone")

CPU, GPU = torch.device("cpu"), torch.device("cuda" if torch.cuda.is_available() else "cpu")
KINDS = VARIANTS | {"shared-bottom": SharedBottom, "soft-gate": SoftGate}


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Kernels for GPUs run everywhere, until told otherwise."""
    monkeypatch.setattr(backend, "is_gpu", lambda _: True)
    return monkeypatch


def make(kind: type[MCNE], device: torch.device, **changed: Any) -> MCNE:
    """A method whose weights and vectors are large enough for every part to matter."""
    big = dataset(30)
    config = replace(CONFIG, **changed)
    method = kind(TrainingData.of(big, random_split(big, seed=0)), config, seed=0, device=device)
    with torch.no_grad():
        for layer in method.network.message_layers():
            for weight in layer.parameters():
                weight.mul_(80)
    for table in method.tables.tables.values():
        table.mul_(80)
    return method


def turn_of(method: MCNE, epoch: int, step: int) -> torch.Tensor:
    """All that the GPU needs to draw a step."""
    turn = method.prepare(epoch, step)
    assert isinstance(turn, torch.Tensor)
    return turn


def on_host(method: MCNE, turn: torch.Tensor) -> Batch:
    """What the GPU draws at a turn, as a batch of the host."""
    assert method.device_sampler is not None
    (users, hops, drawn), n_items = method.device_sampler.draw(turn), method.data.n_items
    row = ((users >= 0).cumsum(0) - 1).clamp(min=0).cpu()  # of those whose vectors are needed
    users = users[users >= 0].cpu()
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
    hops = (replace(hops[0], receiver=row[hops[0].receiver], sender=row[hops[0].sender]), *hops[1:])
    user = drawn.user.cpu().chunk(len(n_items))
    item = drawn.items[drawn.item].cpu().chunk(len(n_items))
    triples = []
    for k, first in enumerate(accumulate(n_items[:-1], initial=0)):
        items, rows = torch.unique(item[k] - first, return_inverse=True)
        triples.append(Triples(user[k], items, rows[:, 0].contiguous(), rows[:, 1:].contiguous()))
    return Batch(users, hops, tuple(triples))


STEPS = [(kind, message, True) for kind in KINDS for message in ("neighbor", "literal")] + [
    ("mcne", "neighbor", False),
    ("mcne-a", "neighbor", False),
    ("mcne", "literal", False),
]


@pytest.mark.parametrize(("name", "message", "is_small"), STEPS)
def test_a_step_on_the_gpu_is_a_plain_step(
    name: str, message: str, is_small: bool, interpreted: pytest.MonkeyPatch
) -> None:
    kind = KINDS[name]
    on_gpu = make(kind, GPU, message=message)
    assert on_gpu.device_sampler is not None
    assert on_gpu.device_sampler.is_small
    on_gpu.device_sampler.is_small = is_small  # larger networks have rows for some users alone
    interpreted.setattr(backend, "is_gpu", lambda device: device.type == "cuda")
    plain = make(kind, CPU, message=message)
    assert on_gpu.is_capturable
    assert not plain.is_capturable
    for step in range(2):
        interpreted.setattr(backend, "is_gpu", lambda _: True)
        turn = turn_of(on_gpu, 0, step)
        batch = on_host(on_gpu, turn)
        ours = on_gpu.loss(turn)
        on_gpu.update(ours)
        interpreted.setattr(backend, "is_gpu", lambda device: device.type == "cuda")
        wanted = plain.loss(batch)
        plain.update(wanted)
        assert ours.examples == wanted.examples
        torch.testing.assert_close(ours.total.cpu(), wanted.total, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(ours.per_behavior.cpu(), wanted.per_behavior, rtol=1e-5, atol=1e-6)
    assert not {"_sampler", "_neighbors"} & {*vars(on_gpu.items), *vars(on_gpu)}  # the host draws nothing
    for own, other in ((plain.learned(), on_gpu.learned()), (plain.memory(), on_gpu.memory())):
        assert own.keys() == other.keys()
        for name, value in own.items():
            torch.testing.assert_close(other[name].cpu(), value, rtol=1e-3, atol=2e-4, msg=name)


@pytest.mark.parametrize("message", ["neighbor", "literal"])
@pytest.mark.parametrize("kind", [MCNE, SharedBottom])
def test_a_step_drawn_on_the_host_is_a_plain_step_too(
    kind: type[MCNE], message: str, interpreted: pytest.MonkeyPatch
) -> None:
    on_gpu = make(kind, GPU, message=message, l2_form="parameters")
    interpreted.setattr(backend, "is_gpu", lambda device: device.type == "cuda")
    plain = make(kind, CPU, message=message, l2_form="parameters")
    for step in range(2):
        interpreted.setattr(backend, "is_gpu", lambda _: True)
        batch = on_gpu.prepare(0, step)
        assert isinstance(batch, Batch)
        assert all(hop.by_sender is not None for hop in batch.hops)
        ours = on_gpu.loss(batch)
        on_gpu.update(ours)
        interpreted.setattr(backend, "is_gpu", lambda device: device.type == "cuda")
        wanted = plain.loss(plain.prepare(0, step))
        plain.update(wanted)
        torch.testing.assert_close(ours.total.cpu(), wanted.total, rtol=1e-5, atol=1e-6)
    for own, other in ((plain.learned(), on_gpu.learned()), (plain.memory(), on_gpu.memory())):
        assert own.keys() == other.keys()
        for name, value in own.items():
            torch.testing.assert_close(other[name].cpu(), value, rtol=1e-3, atol=2e-4, msg=name)


@pytest.mark.parametrize("message", ["neighbor", "literal"])
@pytest.mark.parametrize("weighted", [True, False])
def test_all_users_hear_all_neighbors_as_on_the_cpu(
    message: str, weighted: bool, interpreted: pytest.MonkeyPatch
) -> None:
    on_gpu = make(MCNE, GPU, message=message, weighted_neighbors=weighted)
    levels = on_gpu.levels()
    assert all(torch.equal(*both) for both in zip(levels, on_gpu.levels(), strict=True))
    interpreted.setattr(backend, "is_gpu", lambda device: device.type == "cuda")
    wanted = make(MCNE, CPU, message=message, weighted_neighbors=weighted).levels()
    for own, other in zip(levels, wanted, strict=True):
        torch.testing.assert_close(own.cpu(), other, rtol=1e-5, atol=1e-5 * other.abs().max().item())


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("is_small", [True, False])
def test_a_step_draws_who_it_may(is_small: bool) -> None:
    method = make(MCNE, GPU, weighted_neighbors=True, neighbor_samples=(4, 3))
    assert method.device_sampler is not None
    method.device_sampler.is_small = is_small
    data = method.data
    seen = [set(zip(user.tolist(), item.tolist(), strict=True)) for user, item in data.pairs]
    drawn_before = None
    for step in (0, 1, method.n_steps - 1):
        batch = on_host(method, turn_of(method, 1, step))
        ids = [batch.users]
        for hop in batch.hops:
            ids.append(ids[-1][hop.receiver])
            for user, heard, sender in zip(ids[-1].tolist(), hop.has_neighbors.tolist(), hop.sender, strict=True):
                around = data.graph.indices[data.graph.indptr[user] : data.graph.indptr[user + 1]]
                assert not heard or np.isin(ids[-2][sender].numpy(), around).all()
        for k, triples in enumerate(triples_of(batch)):
            for user, positive, negatives in zip(triples.user, triples.positive, triples.negative, strict=True):
                who = int(ids[-1][user])
                assert (who, int(triples.items[positive])) in seen[k]
                others = {(who, int(item)) for item in triples.items[negatives]}
                assert not others & seen[k] or len({item for u, item in seen[k] if u == who}) == data.n_items[k]
        assert drawn_before is None or not torch.equal(drawn_before, batch.hops[0].sender)
        drawn_before = batch.hops[0].sender


@pytest.mark.usefixtures("interpreted")
def test_a_turn_decides_what_is_drawn() -> None:
    first, second = (make(MCNE, GPU) for _ in range(2))
    seen = []
    for epoch, step in ((0, 0), (0, 1), (1, 0)):
        drawn = []
        for method in (first, second):
            assert method.device_sampler is not None
            drawn.append(method.device_sampler.draw(turn_of(method, epoch, step)))
        assert torch.equal(drawn[0][0], drawn[1][0])
        assert torch.equal(drawn[0][2].items, drawn[1][2].items)
        assert torch.equal(drawn[0][2].item, drawn[1][2].item)
        seen.append(drawn[0])
    for (_, hops, triples), (_, others, other) in itertools.combinations(seen, 2):
        assert not torch.equal(hops[0].sender, others[0].sender)
        assert not torch.equal(hops[1].sender, others[1].sender)
        assert not torch.equal(triples.items[triples.item[:, 1:]], other.items[other.item[:, 1:]])


@pytest.mark.usefixtures("interpreted")
def test_a_stopped_training_goes_on_as_if_it_never_was() -> None:
    whole, half, rest = (make(MCNE, GPU) for _ in range(3))
    for method, steps in ((whole, range(2)), (half, range(1))):
        for step in steps:
            method.update(method.loss(method.prepare(0, step)))
    rest.load(half.learned())
    rest.load_memory(half.memory())
    rest.update(rest.loss(rest.prepare(0, 1)))
    for own, other in ((whole.learned(), rest.learned()), (whole.memory(), rest.memory())):
        assert own.keys() == other.keys()
        assert all(torch.equal(own[name], other[name]) for name in own)


def test_what_the_gpu_cannot_draw_is_drawn_on_the_host(interpreted: pytest.MonkeyPatch) -> None:
    interpreted.setattr(backend, "_warned", set())
    everything = make(MCNE, GPU, l2_form="parameters")
    assert not everything.is_capturable
    assert not make(MCNE, GPU, neighbor_samples=(3, 4096)).is_capturable
    with pytest.warns(UserWarning, match="do not hold 4,096 negatives in rows of 6 numbers"):
        assert not make(MCNE, GPU, negatives=4096).is_capturable
    large = make(MCNE, GPU, batch_size=1, neighbor_samples=(3, 3))
    assert not not_none(large.device_sampler).is_small
    everything.update(everything.loss(everything.prepare(0, 0)))


def test_without_triton_steps_are_plain_and_it_is_said_once(interpreted: pytest.MonkeyPatch) -> None:
    interpreted.setitem(sys.modules, "mcne.kernels.triton.rows", None)
    backend._has_triton.cache_clear()
    try:
        with pytest.warns(UserWarning, match="slower, as Triton does not work here"):
            method = make(MCNE, GPU)
        method.update(method.loss(method.prepare(0, 0)))  # where a second warning would be an error
        assert not method.is_capturable
    finally:
        backend._has_triton.cache_clear()
