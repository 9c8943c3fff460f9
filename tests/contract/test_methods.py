"""Every method of the registry keeps the contract; a new one takes a line in ``cases``."""

from __future__ import annotations

import pytest
from tests.contract.cases import CASES, ONLY_SCORES, STEPLESS
from tests.contract.suite import ODD_NETWORKS, EmbedderContract, LearnerContract, MethodContract, network, training_data

from mcne.models.contract import Embedder, Learner
from mcne.models.registry import METHODS

EMBEDDERS = {name: case for name, case in CASES.items() if isinstance(case.make(training_data()), Embedder)}
LEARNERS = {name: case for name, case in CASES.items() if isinstance(case.make(training_data()), Learner)}


def test_every_method_is_here() -> None:
    assert {case.method for case in CASES.values()} == set(METHODS)
    assert {case.method for name, case in CASES.items() if name not in LEARNERS} == STEPLESS
    assert {case.method for name, case in CASES.items() if name not in EMBEDDERS} == ONLY_SCORES
    assert {case.method for case in LEARNERS.values()}.isdisjoint(STEPLESS)
    assert {case.method for case in EMBEDDERS.values()}.isdisjoint(ONLY_SCORES)
    assert len(ODD_NETWORKS) == 9


@pytest.mark.parametrize("name", METHODS)
def test_the_registry_says_what_a_method_gives(name: str) -> None:
    assert (METHODS[name].gives == "scores") == (name in ONLY_SCORES)
    assert (METHODS[name].memory is None) == (name in STEPLESS)
    assert METHODS[name].summary.endswith(".")
    if name not in ONLY_SCORES:
        method = next(case for case in EMBEDDERS.values() if case.method == name).embedder(training_data())
        artifact = method.embeddings(network()[0], {})
        assert (artifact.width > 0) == (METHODS[name].gives == "vectors")
        assert artifact.trunk is not None or not METHODS[name].takes_new_users


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
class TestMethods(MethodContract):
    pass


@pytest.mark.parametrize("case", EMBEDDERS.values(), ids=EMBEDDERS)
class TestEmbedders(EmbedderContract):
    pass


@pytest.mark.parametrize("case", LEARNERS.values(), ids=LEARNERS)
class TestLearners(LearnerContract):
    pass
