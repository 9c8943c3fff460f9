"""The forms of a step that are measured against each other compute the same."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from mcne.data.graph import undirected
from mcne.kernels import edges, rows, triples
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.models.neighborhoods import Batch
from mcne.training.bench.literal import LiteralStep
from mcne.training.bench.step import matrix_products, multiplications, plain_operations, stepping

USERS, BEHAVIORS = 21, 2
CONFIG = MCNEConfig(widths=(12, 8, 6), neighbor_samples=(3, 2), attention_width=5, batch_size=16, l2=0.1)


@pytest.fixture(autouse=True)
def in_double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def data() -> TrainingData:
    """Everyone has one neighbor, so that chance decides nothing, but for the last user, who has none."""
    source = np.arange(0, USERS - 1, 2)
    random = np.random.default_rng(0)
    pairs = []
    for _ in range(BEHAVIORS):
        user, item = np.divmod(np.sort(random.choice(USERS * 30, 100, replace=False)), 30)
        pairs.append((user.astype(np.int32), item.astype(np.int32)))
    return TrainingData(undirected(USERS, source, source + 1)[0], ("read", "watch"), (30, 30), tuple(pairs))


def model_of(data: TrainingData) -> MCNE:
    return MCNE(data, CONFIG, seed=0, device=torch.device("cpu"))


def test_the_literal_form_is_the_same_model(data: TrainingData) -> None:
    model, literal = model_of(data), LiteralStep(model_of(data))
    with torch.no_grad():
        for parameter in (*model.network.parameters(), *literal.model.network.parameters()):
            parameter.mul_(20)  # far enough from 0 for attention and activations to matter
    users = np.unique(np.concatenate([literal.triples.draw(k, 0, 0).user for k in range(BEHAVIORS)]))
    assert USERS - 1 in users  # the one without neighbors
    loss = float(model.loss(model.prepare(0, 0)).total.detach())
    assert literal.run(0) == pytest.approx(loss, rel=1e-9)


def test_the_literal_form_learns_what_ours_learns(data: TrainingData) -> None:
    model, literal = model_of(data), LiteralStep(model_of(data))
    stepping(model)(0)
    literal.run(0)
    for name, parameter in model.network.named_parameters():
        torch.testing.assert_close(parameter, literal.model.network.get_parameter(name), rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(model.tables.tables["users"], literal.tables["users"].detach(), rtol=1e-6, atol=1e-9)


def test_plain_operations_leave_out_what_is_compiled(data: TrainingData) -> None:
    compiled, plain = model_of(data), model_of(data)
    assert edges.compiled is rows.compiled is triples.compiled
    before = edges.compiled
    with plain_operations():
        assert [module.compiled("numba.edges") for module in (edges, rows, triples)] == [None, None, None]
        stepping(plain)(0)
    assert edges.compiled is rows.compiled is triples.compiled is before
    stepping(compiled)(0)
    for name, table in compiled.tables.tables.items():
        torch.testing.assert_close(table, plain.tables.tables[name], rtol=1e-9, atol=1e-12)


def test_all_matrix_products_of_a_step_are_found(data: TrainingData) -> None:
    """Two projections and a combination per layer, and for each product two of its gradients."""
    model = model_of(data)
    batch = model.prepare(0, 0)
    assert isinstance(batch, Batch)
    products = matrix_products(lambda: model.update(model.loss(batch)))
    masked = (BEHAVIORS + 1) * CONFIG.attention_width
    expected, below = 0, len(batch.users)
    for hop, d_in, d_out in zip(batch.hops, CONFIG.widths, CONFIG.widths[1:], strict=False):
        n = len(hop.receiver)
        expected += (below + n) * d_in * masked + n * 2 * d_in * d_out
        below = n
    assert len(products) == 3 * 3 * len(batch.hops)
    assert sum(map(multiplications, products)) == 3 * expected


def test_products_can_be_done_again(data: TrainingData) -> None:
    left, right = torch.randn(3, 4), torch.randn(4, 5)
    ((operation, arguments),) = matrix_products(lambda: torch.relu(left @ right))
    torch.testing.assert_close(operation(*arguments), left @ right)
