"""The controls of learned masks differ from MCNE in their masks and in nothing else."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.errors import UsageError
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.models.mcne_variants import ConstantMasks, ConstantMasksConfig, RandomMasks, RandomMasksConfig
from mcne.models.settings import parse, to_json
from mcne.randomness import Stream

CONFIG = MCNEConfig(
    widths=(40, 30, 20),
    neighbor_samples=(3, 2),
    attention_width=4,
    negatives=2,
    batch_size=40,
    learning_rate=0.05,
    l2=0.0,
)
CONFIGS = {ConstantMasks: ConstantMasksConfig, RandomMasks: RandomMasksConfig}


@cache
def data() -> TrainingData:
    dataset, _ = generate(SyntheticConfig(users=500, behaviors=2, seed=1))
    return TrainingData.of(dataset, random_split(dataset, seed=0))


def make(kind: type[MCNE], **changed: Any) -> MCNE:
    config = CONFIGS.get(kind, MCNEConfig)(**asdict(CONFIG) | changed)
    return kind(data(), config, seed=0, device=torch.device("cpu"))


def advance(method: MCNE, steps: int) -> None:
    for step in range(steps):
        method.update(method.loss(method.prepare(0, step)))


@pytest.mark.parametrize("kind", [ConstantMasks, RandomMasks])
def test_everything_but_masks_starts_where_mcne_starts(kind: type[MCNE]) -> None:
    theirs, ours = make(MCNE).learned(), make(kind).learned()
    same = {name for name in theirs if ".masks." not in name}
    assert same
    assert same == {name for name in ours if ".masks." not in name}
    assert all(torch.equal(ours[name], theirs[name]) for name in same)


@pytest.mark.parametrize(("value", "density"), [(0.5, 1.0), (0.0, 1.0), (-0.01, 0.0)])
def test_constant_masks_start_open_or_closed(value: float, density: float) -> None:
    method = make(ConstantMasks, value=value)
    assert all(torch.all(mask.real == value) for mask in method.network.masks)
    assert [method.vitals()[f"mask_density_{k}"] for k in range(3)] == [density] * 3


@pytest.mark.parametrize("value", [0.1, -0.1])
def test_constant_masks_learn_from_either_side(value: float) -> None:
    method = make(ConstantMasks, value=value)
    advance(method, 10)
    assert method.vitals()["mask_flips"] > 0
    last = method.network.binary_masks()[-1]
    assert 0 < last.mean() < 1
    assert not torch.equal(last[0], last[1])  # behaviors that started alike have come apart


def test_random_masks_are_those_that_mcne_starts_from_and_stay() -> None:
    control, learned = make(RandomMasks), make(MCNE)
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
        torch.cat([mask.flatten() for mask in make(RandomMasks, density=density).network.binary_masks()])
        for density in (0.2, 0.5, 0.8, 0.0, 1.0)
    )
    for found, density in ((few, 0.2), (half, 0.5), (many, 0.8)):
        assert found.mean().item() == pytest.approx(density, abs=0.1)
    assert torch.all(few <= half)
    assert torch.all(half <= many)
    assert (none.sum(), every.min()) == (0, 1)


@pytest.mark.parametrize("density", [0.3, (0.3, 0.9, 0.0)])
def test_random_masks_are_drawn_level_after_level(density: Any) -> None:
    stream = Stream(0, "initialize", "network")
    asked = density if isinstance(density, tuple) else [density] * 3
    for mask, width, share in zip(
        make(RandomMasks, density=density).network.binary_masks(), CONFIG.widths, asked, strict=True
    ):
        assert np.array_equal(mask.numpy(), stream.uniform((3, width)) >= 1 - share)


def test_each_level_of_random_masks_has_its_own_density() -> None:
    asked, widths = (0.2, 0.7, 0.45), (400, 300, 200)
    found = make(RandomMasks, density=asked, widths=widths).network.binary_masks()
    for mask, density, width in zip(found, asked, widths, strict=True):
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
        f"setting density: {density} has {len(density)} numbers and widths [256, 128, 100] make 3 levels of masks; "
        "give one number for all levels or one for each, as in [0.5, 0.5, 0.5]"
    )


def test_settings_that_mcne_refuses_are_refused() -> None:
    with pytest.raises(UsageError, match="a width is needed for every sample"):
        parse([RandomMasksConfig], {"widths": [8, 4]})


@pytest.mark.parametrize("density", [-0.1, 1.1, float("nan"), [0.5, 1.1, 0.5]])
def test_a_density_that_is_no_share(density: float | list[float]) -> None:
    with pytest.raises(UsageError, match="from 0 to 1"):
        parse([RandomMasksConfig], {"density": density})


@pytest.mark.parametrize("value", [1.01, -2, float("nan")])
def test_a_value_beyond_where_masks_are_clamped(value: float) -> None:
    with pytest.raises(UsageError, match="from -1 to 1"):
        parse([ConstantMasksConfig], {"value": value})
