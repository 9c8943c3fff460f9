"""A network of a few users with weights large enough for every part to matter, and what can be told of new ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from mcne.data.behavior import Attribute, Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.graph import undirected
from mcne.data.ids import Ids
from mcne.data.split import random_split
from mcne.embeddings import ConditionalEmbeddings
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.models.mcne_attributes import MCNEAttributes, MCNEAttributesConfig

SIZES: dict[str, Any] = {"widths": (5, 4, 6), "neighbor_samples": (3, 2), "attention_width": 3}
N_USERS = 14


def dataset(*, weighted: bool = False, text: bool = False, attributes: bool = False) -> SocialDataset:
    """Two behaviors; users 0, 2, 4, … 26, of whom the last is alone."""
    random = np.random.default_rng(0)
    behaviors = []
    for name, n_items in (("Books", 9), ("Travel", 5)):
        touched = random.random((N_USERS, n_items)) < 0.4
        touched[0], touched[-1] = True, False
        user, item = (rows.astype(np.int32) for rows in np.nonzero(touched))
        behaviors.append(Behavior(name, Ids(10 * np.arange(n_items)), user, item))
    source, target = random.integers(0, N_USERS - 1, (2, 25)).astype(np.int32)
    apart = source != target
    weights = random.uniform(0.5, 3, 25).astype(np.float32)[apart] if weighted else None
    graph = undirected(N_USERS, source[apart], target[apart], weights)[0]
    ids = 2 * np.arange(N_USERS)
    users = Ids([f"u{raw:02}" for raw in ids]) if text else Ids(ids)
    facts = {}
    if attributes:
        age = random.normal(40, 10, N_USERS)
        age[3] = np.nan
        city = random.integers(-1, 3, N_USERS).astype(np.int32)
        facts = {"age": Attribute(age), "city": Attribute(city, Ids(["Beijing", "Hefei", "Xian"]))}
    return SocialDataset("small", users, graph, tuple(behaviors), facts)


def method(kind: type[MCNE] = MCNE, data: SocialDataset | None = None, **settings: Any) -> MCNE:
    data = dataset() if data is None else data
    config = (MCNEAttributesConfig if kind is MCNEAttributes else MCNEConfig)(**SIZES | settings)
    made = kind(TrainingData.of(data, random_split(data, seed=0)), config, seed=0, device=torch.device("cpu"))
    with torch.no_grad():
        for weight in (w for layer in made.network.message_layers() for w in layer.parameters()):
            weight.mul_(60)
    for table in made.tables.tables.values():
        table.mul_(60)
    return made


def embeddings(kind: type[MCNE] = MCNE, data: SocialDataset | None = None, **settings: Any) -> ConditionalEmbeddings:
    data = dataset() if data is None else data
    return method(kind, data, **settings).embeddings(data, {"method": "mcne"})


def without(whole: ConditionalEmbeddings, **changes: Any) -> ConditionalEmbeddings:
    """Embeddings with another trunk."""
    assert whole.trunk is not None
    return replace(whole, trunk=replace(whole.trunk, **changes))
