"""MCNE that starts from attributes: by the sum of a naive loop, in value and gradient, and is MCNE without them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.errors import refused
from tests.small_training import train_small
from tests.values import not_none

from mcne.data.behavior import Attribute, Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.graph import undirected
from mcne.data.ids import Ids
from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.embeddings import ConditionalEmbeddings
from mcne.errors import UsageError
from mcne.evaluation.protocol import evaluate
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.models.mcne_attributes import MCNEAttributes, MCNEAttributesConfig
from mcne.models.neighborhoods import Batch
from mcne.models.registry import entry
from mcne.models.settings import parse

CPU = torch.device("cpu")
SIZES: dict[str, Any] = {"widths": (5, 4), "neighbor_samples": (3,), "attention_width": 3, "learning_rate": 0.05}
AGES = np.array([20.0, 40.0, np.nan, 60.0, 40.0, 40.0, 20.0, 60.0])
CITIES = np.array([0, 1, 1, -1, 2, 0, -1, 2], dtype=np.int32)


def dataset(ages: NDArray[Any] = AGES, cities: NDArray[Any] = CITIES) -> SocialDataset:
    random = np.random.default_rng(0)
    behaviors = []
    for name in ("Books", "Music"):
        user, item = (rows.astype(np.int32) for rows in np.nonzero(random.random((8, 6)) < 0.6))
        behaviors.append(Behavior(name, Ids(np.arange(6)), user, item))
    source = np.arange(7, dtype=np.int32)
    facts = {"age": Attribute(ages), "city": Attribute(cities, Ids(["a", "b", "c"]))}
    return SocialDataset("toy", Ids(np.arange(8)), undirected(8, source, source + 1)[0], tuple(behaviors), facts)


def make(data: SocialDataset | None = None, **settings: Any) -> MCNEAttributes:
    data = dataset() if data is None else data
    training = TrainingData.of(data, random_split(data, seed=0))
    return MCNEAttributes(training, MCNEAttributesConfig(**SIZES | settings), seed=0, device=CPU)


def naive_start(weights: Any, user: int) -> Any:
    """Features: age, no age, the cities a, b and c, no city; the known ages have mean 40 and spread √(1600/7)."""
    total = weights[1] if np.isnan(AGES[user]) else weights[0] * (AGES[user] - 40) / np.sqrt(1600 / 7)
    return total + weights[5 if CITIES[user] < 0 else 2 + CITIES[user]]


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("initial", ["both", "attributes"])
def test_users_start_from_what_their_attributes_add_up_to(initial: str) -> None:
    method = make(initial=initial)
    weights = method.network.get_parameter("attributes")
    users = torch.tensor([6, 2, 3, 0])
    vectors = method.initial(users)
    free = method.tables.tables["users"] if initial == "both" else torch.zeros(8, 5)
    expected = torch.stack([free[user] + naive_start(weights, user) for user in users.tolist()])
    torch.testing.assert_close(vectors, expected)
    torch.testing.assert_close(method.all_initial()[users], expected.detach())
    chance = torch.from_numpy(np.random.default_rng(0).normal(size=(4, 5)))
    (gradient,) = torch.autograd.grad((vectors * chance).sum(), weights)
    (slow,) = torch.autograd.grad((expected * chance).sum(), weights)
    torch.testing.assert_close(gradient, slow)


def test_alone_there_is_no_free_vector() -> None:
    assert "users" in make().tables.tables
    assert "users" not in make(initial="attributes").tables.tables
    assert set(make(initial="attributes").learned()) == set(make().learned()) - {"users"}


def test_what_stands_for_unknown_starts_at_nothing() -> None:
    weights = make().network.get_parameter("attributes")
    assert weights.shape == (6, 5)
    assert torch.all(weights[[1, 5]] == 0)
    assert torch.all(weights[[0, 2, 3, 4]].abs().sum(dim=1) > 0)


def test_with_nothing_made_of_attributes_it_is_mcne() -> None:
    """Every other start and every draw is the same."""
    plus = make()
    data = dataset()
    plain = MCNE(TrainingData.of(data, random_split(data, seed=0)), MCNEConfig(**SIZES), seed=0, device=CPU)
    with torch.no_grad():
        plus.network.get_parameter("attributes").zero_()
    for step in range(2):
        losses = [each.loss(each.prepare(0, step)).total for each in (plus, plain)]
        assert torch.equal(losses[0], losses[1])
    assert torch.equal(plus.levels()[-1], plain.levels()[-1])


def test_a_step_teaches_attributes_and_free_vectors() -> None:
    method = make()
    before = {name: value.clone() for name, value in method.learned().items()}
    method.update(method.loss(method.prepare(0, 0)))
    changed = {name for name, value in method.learned().items() if not torch.equal(value, before[name])}
    assert {"users", "network.attributes"} <= changed


def test_masks_stay_in_their_range_and_flips_are_counted() -> None:
    method = make(learning_rate=0.9)
    for step in range(3):
        method.update(method.loss(method.prepare(0, step)))
    assert max(float(real.detach().abs().max()) for real in method.network.bounded()) == 1.0
    assert method.vitals()["mask_flips"] > 0


def test_steps_are_drawn_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="Triton is made for Linux alone")
    from mcne.kernels import backend

    monkeypatch.setattr(backend, "is_gpu", lambda _: True)
    method = make()
    assert not method.is_capturable
    assert isinstance(method.prepare(0, 0), Batch)


@pytest.mark.parametrize("initial", ["both", "attributes"])
def test_the_artifact_knows_where_users_start(initial: str, tmp_path: Path) -> None:
    method = make(initial=initial)
    data = dataset()
    method.update(method.loss(method.prepare(0, 0)))
    method.embeddings(data, {}).save(tmp_path / "made")
    made = ConditionalEmbeddings.load(tmp_path / "made")
    assert made.trunk is not None
    assert made.trunk.profile is not None
    starts = made.trunk.profile.vectors(data.attributes, 8)
    free = method.tables.tables["users"].numpy() if initial == "both" else 0
    np.testing.assert_allclose(starts + free, made.trunk.levels[0], rtol=1e-5, atol=1e-7)
    assert np.array_equal(made.scores(0, np.arange(8)), method.scorer().scores(0, np.arange(8)))


def test_other_artifacts_are_what_they_were() -> None:
    """Nothing is said of attributes where there are none."""
    data = dataset()
    plain = MCNE(TrainingData.of(data, random_split(data, seed=0)), MCNEConfig(**SIZES), seed=0, device=CPU)
    trunk = plain.embeddings(data, {}).trunk
    assert trunk is not None
    assert not [name for name in (*trunk.meta(), *trunk.arrays()) if name.startswith("profile")]


@pytest.mark.usefixtures("restored_threads")
def test_threads_change_no_byte() -> None:
    """Neither in what is learned of a number that everybody has, nor of a category of many."""
    data = generate(SyntheticConfig(users=3000, behaviors=2))[0]
    facts = {
        "age": Attribute(np.arange(3000.0)),
        "half": Attribute(np.arange(3000, dtype=np.int32) % 2, Ids(["a", "b"])),
    }
    training = TrainingData.of(replace(data, attributes=facts), random_split(data, seed=0))
    outputs = []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        method = MCNEAttributes(training, MCNEAttributesConfig(batch_size=1024), seed=0, device=CPU)
        method.update(method.loss(method.prepare(0, 0)))
        outputs.append(method.network.get_parameter("attributes").detach().numpy().tobytes())
    assert len(set(outputs)) == 1


def test_settings() -> None:
    kind = entry("mcne-attributes").config
    (config,) = parse([kind], {"initial": "attributes", "widths": [4, 3], "neighbor_samples": [2]})
    assert (config.initial, config.widths) == ("attributes", (4, 3))
    with refused(UsageError, place="setting initial", value="atributes"):
        parse([kind], {"initial": "atributes"})


@pytest.mark.slow
def test_attributes_that_tell_tastes_are_worth_something(tmp_path: Path) -> None:
    data, planted = generate(SyntheticConfig(users=1000))
    tastes = {
        f"taste {k}": Attribute(planted.levels[:, k].astype(np.int32), Ids([f"level {n}" for n in range(6)]))
        for k in range(planted.levels.shape[1])
    }
    settings = {"widths": [64, 64], "attention_width": 16, "neighbor_samples": [5], "last_activation": False}
    settings |= {"batch_size": 512, "learning_rate": 0.02, "l2": 0.03, "epochs": 30}
    ndcg: dict[str, float] = {}
    told = replace(data, attributes=tastes)
    for name, initial in (
        ("mcne", {}),
        ("mcne-attributes", {"initial": "both"}),
        ("mcne-attributes", {"initial": "attributes"}),
    ):
        run = train_small(name, told, tmp_path / f"{name}{len(ndcg)}", settings=settings | initial)
        evaluation = evaluate(run.embeddings, told, random_split(told, seed=0))
        ndcg[initial.get("initial", "free")] = not_none(evaluation.overall("ndcg@5"))
    assert ndcg["attributes"] > ndcg["both"] > ndcg["free"]
    assert ndcg["attributes"] > 1.2 * ndcg["free"]
