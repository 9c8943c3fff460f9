"""Every method of the registry keeps the contract; a new one takes a line in ``cases``."""

from __future__ import annotations

import pytest
from tests.contract.cases import CASES
from tests.contract.suite import ODD_NETWORKS, EmbedderContract, LearnerContract, MethodContract, training_data

from mcne.models.contract import Embedder, Learner
from mcne.models.registry import METHODS

CLOSED_FORM = ("userknn", "userknn of few", "itemknn", "itemknn of few", "ease")
EMBEDDERS = {name: case for name, case in CASES.items() if isinstance(case.make(training_data()), Embedder)}
LEARNERS = {name: case for name, case in CASES.items() if isinstance(case.make(training_data()), Learner)}


def test_every_method_is_here() -> None:
    assert {case.method for case in CASES.values()} == set(METHODS)
    assert set(CASES) - set(LEARNERS) == {"popularity", *CLOSED_FORM}
    assert set(CASES) - set(EMBEDDERS) == {*CLOSED_FORM, "nfm", "nfm of two layers", "nfm without layers"}
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
