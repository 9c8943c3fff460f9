"""A small network with a trained model of two of its behaviors, and a third one that comes later."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.extend.later_behavior import NEW, TINY, RandomBase, Whole, three_behaviors
from tests.small_training import train_small

from mcne import training
from mcne.embeddings import ConditionalEmbeddings
from mcne.embeddings.trunk import MessageKind, Trunk
from mcne.extend.transfer import without


@pytest.fixture(scope="session")
def whole() -> Whole:
    return three_behaviors()


@pytest.fixture(scope="session")
def base_run(whole: Whole, tmp_path_factory: pytest.TempPathFactory) -> training.Run:
    dataset, split = without(*whole, behavior=NEW)
    return train_small(
        "mcne",
        dataset,
        tmp_path_factory.mktemp("base") / "run",
        split=split,
        settings=TINY,
        seed=1,
        dataset_path="here",
    )


@pytest.fixture(scope="session")
def base(base_run: training.Run) -> ConditionalEmbeddings:
    return base_run.embeddings


@pytest.fixture
def random_base(base: ConditionalEmbeddings) -> RandomBase:
    """The same users and network under weights that nobody has learned, in every form that a network can have."""

    def made(message: MessageKind, *, weighted: bool, last_activation: bool) -> ConditionalEmbeddings:
        chance = np.random.default_rng(5)
        assert base.trunk is not None
        combine = tuple(chance.normal(size=w.shape).astype(np.float32) for w in base.trunk.combine)
        levels = tuple(chance.normal(size=level.shape).astype(np.float32) for level in base.trunk.levels)
        trunk = Trunk(levels, base.trunk.masks, None, combine, message, weighted, last_activation)
        graph = base.graph
        if weighted:
            near, far = graph.sources(), graph.indices
            weights = 1 + (near + far) % 3 + (near * far) % 2
            graph = dataclasses.replace(graph, weights=weights.astype(np.float32))
        return dataclasses.replace(base, trunk=trunk, graph=graph)

    return made
