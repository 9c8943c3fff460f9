"""Every method of the registry keeps the contract; a new one takes a line here."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("suite")

from suite import (  # noqa: E402
    ODD_NETWORKS,
    Case,
    EmbedderContract,
    LearnerContract,
    MethodContract,
    training_data,
)

from mcne.methods.registry import METHODS  # noqa: E402
from mcne.training.contract import Embedder, Learner  # noqa: E402

BPR = {"width": 8, "batch_size": 256, "learning_rate": 0.03, "l2": 0.001}
MCNE = {
    "widths": [16, 12, 10],
    "neighbor_samples": [4, 3],
    "attention_width": 5,
    "batch_size": 256,
    "learning_rate": 0.03,
    "l2": 0.0001,
}

CASES = {
    "popularity": Case("popularity", {}),
    "bpr": Case("bpr", BPR),
    "bpr without bias": Case("bpr", BPR | {"bias": False}),
    "mcne": Case("mcne", MCNE),
    "mcne literal": Case("mcne", MCNE | {"message": "literal"}),
    "mcne weighted": Case("mcne", MCNE | {"weighted_neighbors": True}),
    "mcne with L2 on parameters": Case("mcne", MCNE | {"l2_form": "parameters", "l2": 1e-6}),
    "mcne of one layer": Case("mcne", MCNE | {"widths": [16, 10], "neighbor_samples": [4], "last_activation": False}),
    "mcne-a": Case("mcne-a", MCNE),
    "mcne-f": Case("mcne-f", MCNE),
}
EMBEDDERS = {name: case for name, case in CASES.items() if isinstance(case.make(training_data()), Embedder)}
LEARNERS = {name: case for name, case in CASES.items() if isinstance(case.make(training_data()), Learner)}


def test_every_method_is_here() -> None:
    assert {case.method for case in CASES.values()} == set(METHODS)
    assert set(CASES) - set(LEARNERS) == {"popularity"}
    assert set(CASES) - set(EMBEDDERS) == set()
    assert len(ODD_NETWORKS) == 9


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
class TestMethods(MethodContract):
    pass


@pytest.mark.parametrize("case", EMBEDDERS.values(), ids=EMBEDDERS)
class TestEmbedders(EmbedderContract):
    pass


@pytest.mark.parametrize("case", LEARNERS.values(), ids=LEARNERS)
class TestLearners(LearnerContract):
    pass
