"""Variants of MCNE differ from it in what they are made to differ in, and equal it where their definitions coincide."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tests.errors import refused
from tests.models.mcne_parts import enlarge
from tests.small_training import small_network
from tests.values import instances_of
from torch import Tensor

from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.embeddings.trunk import MessageKind
from mcne.errors import UsageError
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, BinaryMask, MCNEConfig
from mcne.models.mcne_variants import (
    MCNEA,
    ConstantMasks,
    ConstantMasksConfig,
    RandomMasks,
    RandomMasksConfig,
    SharedBottom,
    SoftGate,
    SoftMask,
)
from mcne.models.neighborhoods import Batch
from mcne.models.settings import parse, to_json
from mcne.randomness import Stream

CPU = torch.device("cpu")
CONFIG = MCNEConfig(
    widths=(7, 6, 5),
    neighbor_samples=(3, 2),
    attention_width=4,
    negatives=2,
    batch_size=40,
    learning_rate=0.05,
    l2=0.01,
)
LARGE = 200.0
"""σ(±200) is 1 and 0 in single precision, exactly."""


N_USERS = 500


@cache
def dataset() -> SocialDataset:
    return small_network(seed=1)


def make(kind: type[MCNE], config: MCNEConfig = CONFIG, *, seed: int = 0) -> MCNE:
    """A method whose weights and vectors are large enough for every part to matter."""
    data = dataset()
    method = kind(TrainingData.of(data, random_split(data, seed=0)), config, seed=seed, device=CPU)
    enlarge(method, 60)
    return method


def take_over(method: MCNE, other: MCNE) -> None:
    """Everything that both have, but masks."""
    shared = {name: value for name, value in other.learned().items() if name in method.learned()}
    method.load(method.learned() | {name: value for name, value in shared.items() if ".masks." not in name})


def gradients(method: MCNE, loss: Tensor) -> dict[str, bytes]:
    """Of the weights that are no masks, and of the rows of tables in the order in which they were handed out."""
    method.network.zero_grad()
    torch.autograd.backward(loss)
    by_name = {name: value.grad for name, value in method.network.named_parameters() if not name.startswith("masks")}
    by_name |= {f"rows {k}": rows.grad for k, rows in enumerate(method.tables.touched())}
    assert all(gradient is not None and gradient.abs().max() > 0 for gradient in by_name.values())
    return {name: gradient.numpy().tobytes() for name, gradient in by_name.items() if gradient is not None}


@pytest.mark.parametrize("message", ["neighbor", "literal"])
def test_shared_bottom_is_mcne_a_whose_masks_are_all_one(message: MessageKind) -> None:
    config = replace(CONFIG, message=message)
    open_masks, shared = make(MCNEA, config), make(SharedBottom, config, seed=5)
    with torch.no_grad():
        for mask in instances_of(BinaryMask, open_masks.network.masks):
            mask.real.fill_(0.5)
    take_over(shared, open_masks)
    for step in range(2):
        batch, other = instances_of(Batch, (method.prepare(0, step) for method in (open_masks, shared)))
        assert not torch.equal(batch.users, other.users)  # another seed
        ours, theirs = shared.loss(batch), open_masks.loss(batch)
        assert ours.total.item() == theirs.total.item()
        assert torch.equal(ours.per_behavior, theirs.per_behavior)
        mine = gradients(shared, ours.total)
        assert len(mine) == 2 + 3
        assert mine == gradients(open_masks, theirs.total)


def test_shared_bottom_learns_no_masks_and_has_none_to_watch() -> None:
    shared = make(SharedBottom)
    assert {name.split(".")[-1] for name, _ in shared.network.named_parameters()} == {"combine"}
    shared.update(shared.loss(shared.prepare(0, 0)))
    assert shared.vitals() == {}
    made = shared.embeddings(dataset(), {})
    assert made.trunk is not None
    assert all(mask.all() for mask in (*made.trunk.masks, *(space.mask for space in made.spaces)))


@pytest.mark.parametrize("message", ["neighbor", "literal"])
def test_soft_gate_with_gates_of_0_and_1_is_mcne_with_those_masks(message: MessageKind) -> None:
    config = replace(CONFIG, message=message)
    binary, soft = make(MCNE, config), make(SoftGate, config, seed=5)
    take_over(soft, binary)
    with torch.no_grad():
        for gate, mask in zip(instances_of(SoftMask, soft.network.masks), binary.network.masks, strict=True):
            gate.real.copy_((2 * mask() - 1) * LARGE)
    for step in range(2):
        batch = binary.prepare(0, step)
        ours, theirs = soft.loss(batch), binary.loss(batch)
        assert ours.total.item() == theirs.total.item()
        assert torch.equal(ours.per_behavior, theirs.per_behavior)
        assert gradients(soft, ours.total) == gradients(binary, theirs.total)
    users = np.arange(N_USERS)
    for k, name in enumerate(dataset().behavior_names):
        scores, binary_scores = (method.scorer().scores(k, users) for method in (soft, binary))
        np.testing.assert_allclose(scores, binary_scores, rtol=1e-5, atol=1e-6)
        vectors = [method.embeddings(dataset(), {}).user_vectors(name) for method in (soft, binary)]
        assert vectors[0].tobytes() == vectors[1].tobytes()


def test_soft_gate_has_the_parameters_of_mcne_and_starts_where_it_starts() -> None:
    soft, binary = (dict(make(kind).network.named_parameters()) for kind in (SoftGate, MCNE))
    assert {name: value.tolist() for name, value in soft.items()} == {k: value.tolist() for k, value in binary.items()}


def test_gates_are_sigmoids_that_learn_and_are_not_clamped() -> None:
    soft = make(SoftGate)
    assert isinstance(soft, SoftGate)
    real = soft.network.masks[-1].real
    assert isinstance(real, torch.nn.Parameter)
    with torch.no_grad():
        real[0, 0], real[1, 1] = 3.0, -2.0
    assert soft.network.binary_masks()[-1][0, 0].item() == pytest.approx(0.952574, abs=1e-6)
    assert soft.network.binary_masks()[-1][1, 1].item() == pytest.approx(0.119203, abs=1e-6)
    before = real.detach().clone()
    soft.update(soft.loss(soft.prepare(0, 0)))
    moved = (real.detach() - before)[:2]  # the rows of both behaviors: the last is in no loss
    assert torch.all(moved != 0)
    assert real.max() > 2.9
    expected = float((1 / (1 + np.exp(-real.detach().numpy()))).mean())
    assert list(soft.vitals()) == ["gate_mean_0", "gate_mean_1", "gate_mean_2"]
    assert soft.vitals()["gate_mean_2"] == pytest.approx(expected, rel=1e-6)


def test_the_artifact_of_soft_gate_scores_and_compares_users_under_the_gates() -> None:
    soft = make(SoftGate)
    assert isinstance(soft, SoftGate)
    data = dataset()
    made = soft.embeddings(data, {})
    assert made.trunk is None
    last, gates = soft.levels()[-1].double(), soft.network.binary_masks()[-1].double()
    assert gates.std() > 0.05
    for k, name in enumerate(data.behavior_names):
        gated = (last * gates[k]).numpy()
        expected = gated @ soft.tables.tables[f"items.{k}"].double().numpy().T
        np.testing.assert_allclose(made.scores(k, np.arange(N_USERS)), expected, rtol=1e-4, atol=1e-4)
        user = int(np.argmax(np.abs(gated).sum(axis=1)))
        ranking = made.similar_users(data.users[user], name, k=3)
        alike = gated @ gated[user]
        alike[user] = -np.inf
        best = np.argsort(-alike, kind="stable")[:3]
        assert list(ranking.ids) == [data.users[row] for row in best]
        np.testing.assert_allclose(ranking.scores, alike[best], rtol=1e-5)


# --- controls of learned masks ---


WIDE = replace(CONFIG, widths=(40, 30, 20), l2=0.0)
CONFIGS = {ConstantMasks: ConstantMasksConfig, RandomMasks: RandomMasksConfig}


@cache
def data() -> TrainingData:
    return TrainingData.of(dataset(), random_split(dataset(), seed=0))


def make_wide(kind: type[MCNE], **changed: Any) -> MCNE:
    config = CONFIGS.get(kind, MCNEConfig)(**asdict(WIDE) | changed)
    return kind(data(), config, seed=0, device=torch.device("cpu"))


def advance(method: MCNE, steps: int) -> None:
    for step in range(steps):
        method.update(method.loss(method.prepare(0, step)))


@pytest.mark.parametrize("kind", [ConstantMasks, RandomMasks])
def test_everything_but_masks_starts_where_mcne_starts(kind: type[MCNE]) -> None:
    theirs, ours = make_wide(MCNE).learned(), make_wide(kind).learned()
    same = {name for name in theirs if ".masks." not in name}
    assert same
    assert same == {name for name in ours if ".masks." not in name}
    assert all(torch.equal(ours[name], theirs[name]) for name in same)


@pytest.mark.parametrize(("value", "density"), [(0.5, 1.0), (0.0, 1.0), (-0.01, 0.0)])
def test_constant_masks_start_open_or_closed(value: float, density: float) -> None:
    method = make_wide(ConstantMasks, value=value)
    assert all(torch.all(mask.real == value) for mask in instances_of(BinaryMask, method.network.masks))
    assert [method.vitals()[f"mask_density_{k}"] for k in range(3)] == [density] * 3


@pytest.mark.parametrize("value", [0.1, -0.1])
def test_constant_masks_learn_from_either_side(value: float) -> None:
    method = make_wide(ConstantMasks, value=value)
    advance(method, 10)
    assert method.vitals()["mask_flips"] > 0
    last = method.network.binary_masks()[-1]
    assert 0 < last.mean() < 1
    assert not torch.equal(last[0], last[1])  # behaviors that started alike have come apart


def test_random_masks_are_those_that_mcne_starts_from_and_stay() -> None:
    control, learned = make_wide(RandomMasks), make_wide(MCNE)
    first = learned.network.binary_masks()
    advance(control, 10)
    advance(learned, 10)
    for drawn, start in zip(control.network.binary_masks(), first, strict=True):
        assert torch.equal(drawn, start)
    assert control.vitals()["mask_flips"] == 0 < learned.vitals()["mask_flips"]
    whole = torch.cat([mask.flatten() for mask in first])
    assert whole.mean().item() == pytest.approx(0.5, abs=0.1)
    assert not any(name.startswith("masks") for name, _ in control.network.named_parameters())


def test_random_masks_of_another_density_hold_those_of_a_lower_one() -> None:
    few, half, many, none, every = (
        torch.cat([mask.flatten() for mask in make_wide(RandomMasks, density=density).network.binary_masks()])
        for density in (0.2, 0.5, 0.8, 0.0, 1.0)
    )
    for masks, density in ((few, 0.2), (half, 0.5), (many, 0.8)):
        assert masks.mean().item() == pytest.approx(density, abs=0.1)
    assert torch.all(few <= half)
    assert torch.all(half <= many)
    assert none.sum() == 0
    assert every.min() == 1


@pytest.mark.parametrize("density", [0.3, (0.3, 0.9, 0.0)])
def test_random_masks_are_drawn_level_after_level(density: Any) -> None:
    stream = Stream(0, "initialize", "network")
    asked = density if isinstance(density, tuple) else [density] * 3
    for mask, width, share in zip(
        make_wide(RandomMasks, density=density).network.binary_masks(), WIDE.widths, asked, strict=True
    ):
        assert np.array_equal(mask.numpy(), stream.uniform((3, width)) >= 1 - share)


def test_each_level_of_random_masks_has_its_own_density() -> None:
    asked, widths = (0.2, 0.7, 0.45), (400, 300, 200)
    masks = make_wide(RandomMasks, density=asked, widths=widths).network.binary_masks()
    for mask, density, width in zip(masks, asked, widths, strict=True):
        shares = mask.mean(dim=1).numpy()  # of both behaviors and of all others
        assert np.abs(shares - density).max() < 4.5 * np.sqrt(density * (1 - density) / width)
        assert not torch.equal(mask[0], mask[1])


@pytest.mark.parametrize(("given", "kept"), [(0.2, 0.2), ([0.2], 0.2), ([0.2, 0, 1], [0.2, 0.0, 1.0])])
def test_densities_survive_being_kept(given: Any, kept: Any) -> None:
    (config,) = parse([RandomMasksConfig], {"density": given})
    assert to_json(config)["density"] == kept
    assert parse([RandomMasksConfig], to_json(config)) == [config]


@pytest.mark.parametrize("density", [[], [0.2, 0.3], [0.5] * 4])
def test_densities_for_other_levels_than_there_are(density: list[float]) -> None:
    with pytest.raises(UsageError) as caught:
        parse([RandomMasksConfig], {"density": density})
    assert str(caught.value) == (
        f"setting density: {density} has {len(density)} numbers, and the widths [256, 128, 100] make 3 levels of "
        "masks; give one number for all levels, or one for each level, such as [0.5, 0.5, 0.5]"
    )


def test_settings_that_mcne_refuses_are_refused() -> None:
    with refused(UsageError, place="setting widths", value=[8, 4]):
        parse([RandomMasksConfig], {"widths": [8, 4]})


@pytest.mark.parametrize("density", [-0.1, 1.1, float("nan"), [0.5, 1.1, 0.5]])
def test_a_density_that_is_no_share(density: float | list[float]) -> None:
    with refused(UsageError, place="setting density"):
        parse([RandomMasksConfig], {"density": density})


@pytest.mark.parametrize("value", [1.01, -2, float("nan")])
def test_a_value_beyond_where_masks_are_clamped(value: float) -> None:
    with refused(UsageError, place="setting value"):
        parse([ConstantMasksConfig], {"value": value})
