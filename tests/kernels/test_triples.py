"""Ranked triples: compiled they are the plain ones, which the naive loops of the equations are held to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from mcne.kernels import backend
from mcne.kernels.triples import plain_rank as plain
from mcne.kernels.triples import rank

Rows = dict[str, Tensor]
Tables = tuple[Tensor, Tensor, Tensor | None]  # users, items and the bias of items


def inputs(
    n: int, m: int, b: int, negatives: int, width: int, dtype: torch.dtype, *, bias: bool = True, scale: float = 1.0
) -> tuple[Tables, Rows]:
    random = torch.Generator().manual_seed(n + m + b)
    users, items, of_items = (
        (scale * torch.randn(size, generator=random, dtype=dtype)).requires_grad_()
        for size in ((n, width), (m, width), (m, 1))
    )
    sizes = {"user": ((b,), n), "positive": ((b,), m), "negative": ((b, negatives), m)}
    rows = {name: torch.randint(high, size, generator=random) for name, (size, high) in sizes.items()}
    return (users, items, of_items if bias else None), rows


def leaves(tables: Tables) -> list[Tensor]:
    return [table for table in tables if table is not None]


def with_gradients(function: Callable[..., tuple[Tensor, Tensor]], tables: Tables, rows: Rows) -> list[Tensor]:
    ranking, decay = function(*tables, **rows)
    gradients = torch.autograd.grad(ranking + 0.3 * decay, leaves(tables))
    return [ranking.detach(), decay.detach(), *gradients]


SHAPES = [(7, 9, 20, 3, 5), (1, 1, 1, 1, 1), (3, 2, 50, 1, 17), (40, 60, 30, 5, 64), (2, 30, 3, 2000, 2)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 2e-5)]
)  # plain rounds from 20 on
def test_compiled_is_plain(
    shape: tuple[int, int, int, int, int], bias: bool, dtype: torch.dtype, tolerance: float
) -> None:
    tables, rows = inputs(*shape, dtype, bias=bias)
    users, items, *of_items = (table.detach().double().requires_grad_() for table in leaves(tables))
    exact = (users, items, of_items[0] if bias else None)
    compiled, wanted = with_gradients(rank, tables, rows), with_gradients(plain, exact, rows)
    for ours, theirs in zip(compiled, wanted, strict=True):
        assert ours.dtype == dtype
        bound = tolerance * max(1.0, theirs.abs().max().item())
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=bound)


def test_the_gradient_is_that_of_finite_differences() -> None:
    tables, rows = inputs(4, 5, 6, 2, 3, torch.float64)
    assert torch.autograd.gradcheck(lambda *each: rank(*each, **rows), leaves(tables))


def test_a_gradient_can_be_asked_for_twice() -> None:
    tables, rows = inputs(7, 9, 20, 3, 5, torch.float64)
    gradients = []
    for function in (rank, plain):
        ranking, decay = function(*tables, **rows)
        total = 2 * ranking + 3 * decay
        gradients.append([torch.autograd.grad(total, leaves(tables), retain_graph=True) for _ in range(2)])
    for first, second, wanted in zip(*gradients[0], gradients[1][0], strict=True):
        torch.testing.assert_close(first, wanted, rtol=1e-9, atol=1e-12)
        assert torch.equal(first, second)


def test_by_hand() -> None:
    """⟨u, p⟩ = 2 with bias 1, ⟨u, n⟩ = −1 with bias 0: x = 4; squares 5 + (1 + 1) + 1."""
    users, items = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    bias = torch.tensor([[1.0], [0.0]])
    one = torch.tensor([0])
    ranking, decay = rank(users, items, bias, user=one, positive=one, negative=torch.tensor([[1]]))
    assert ranking.item() == pytest.approx(math.log(1 + math.exp(-4)))
    assert decay.item() == pytest.approx(5 + 1 + 1 + 1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [True, False])
def test_weighted_triples_are_the_plain_ones(shape: tuple[int, int, int, int, int], bias: bool) -> None:
    tables, rows = inputs(*shape, torch.float64, bias=bias)
    rows["weight"] = torch.rand(shape[2], generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 3
    for ours, theirs in zip(with_gradients(rank, tables, rows), with_gradients(plain, tables, rows), strict=True):
        bound = 1e-10 * max(1.0, theirs.abs().max().item())
        torch.testing.assert_close(ours, theirs, rtol=0, atol=bound)
    single = (tables[0].float(), tables[1].float(), None if tables[2] is None else tables[2].float())
    loss, decay = rank(*single, **rows)
    torch.testing.assert_close(loss.double(), rank(*tables, **rows)[0], rtol=2e-5, atol=1e-6)
    assert torch.equal(decay, rank(*single, **{name: rows[name] for name in ("user", "positive", "negative")})[1])


def test_the_gradient_of_weighted_triples_is_that_of_finite_differences() -> None:
    tables, rows = inputs(4, 5, 6, 2, 3, torch.float64)
    rows["weight"] = torch.tensor([0.2, 1.0, 3.0, 0.5, 2.0, 1.5], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *each: rank(*each, **rows), leaves(tables))


@pytest.mark.parametrize("function", [rank, plain])
def test_a_triple_of_weight_3_is_three_in_the_loss(function: Callable[..., tuple[Tensor, Tensor]]) -> None:
    tables, rows = inputs(7, 9, 20, 3, 5, torch.float64)
    times = torch.arange(20) % 3 + 1
    repeated = {name: each.repeat_interleave(times, dim=0) for name, each in rows.items()}
    weighted = function(*tables, **rows, weight=times.double())[0] * 20
    several = function(*tables, **repeated)[0] * int(times.sum())
    torch.testing.assert_close(weighted, several, rtol=1e-12, atol=0)
    gradients = [torch.autograd.grad(loss, leaves(tables)) for loss in (weighted, several)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-13)
    ones = with_gradients(function, tables, {**rows, "weight": torch.ones(20, dtype=torch.float64)})
    for ours, theirs in zip(ones, with_gradients(function, tables, rows), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("negatives", [1, 1023, 1024, 5000])
def test_any_number_of_equal_scores_loses_ln_2(negatives: int) -> None:
    """Their logarithms are those of products, 2ⁿ at once, which would overflow."""
    tables, rows = inputs(1, 5, 1, negatives, 3, torch.float64, scale=0.0)
    assert rank(*tables, **rows)[0].item() == pytest.approx(math.log(2), rel=1e-12)


def test_the_order_of_triples_changes_nothing() -> None:
    tables, rows = inputs(7, 9, 200, 3, 5, torch.float64)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    reordered = with_gradients(rank, tables, {name: each[order] for name, each in rows.items()})
    for ours, theirs in zip(reordered, with_gradients(rank, tables, rows), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)


def test_a_score_that_is_no_number_is_told() -> None:
    (users, items, bias), rows = inputs(7, 9, 20, 3, 5, torch.float32)
    with torch.no_grad():
        users[2] = torch.nan
    assert rank(users, items, bias, **rows)[0].isnan()


def test_extreme_scores_stay_finite() -> None:
    for scale in (1e4, 1e-4):
        for values in with_gradients(rank, *inputs(7, 9, 20, 3, 5, torch.float32, scale=scale)):
            assert torch.isfinite(values).all()


def test_no_triples_give_nothing() -> None:
    ranking, decay, *gradients = with_gradients(rank, *inputs(3, 4, 0, 2, 5, torch.float32))
    assert (ranking.item(), decay.item()) == (0, 0)
    assert not any(gradient.any() for gradient in gradients)


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_the_number_of_threads_changes_no_byte() -> None:
    outputs = []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        made = with_gradients(rank, *inputs(40, 60, 500, 5, 64, torch.float32))
        outputs.append([np.asarray(each).tobytes() for each in made])
    assert outputs[0] == outputs[1] == outputs[2]


def test_where_nothing_is_compiled_it_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    tables, rows = inputs(7, 9, 20, 3, 5, torch.float32)
    monkeypatch.setattr(backend, "ON_CPU", "torch")
    assert all(torch.equal(*pair) for pair in zip(rank(*tables, **rows), plain(*tables, **rows), strict=True))
