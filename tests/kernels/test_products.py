"""Products and sums over rows are PyTorch's own, and the number of threads changes no byte of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from mcne.kernels.products import add_product, gated, product, products, sum_rows, weighed

pytestmark = pytest.mark.usefixtures("restored_threads")

COUNTS = (1, 2, 3, 5, 12, 32)
SHAPES = {  # rows, terms of each sum, columns
    "a gradient of narrow weights": (4, 3000, 16),
    "of square ones": (16, 3000, 16),
    "of wider ones": (100, 450, 256),
    "few rows": (37, 127, 54),
    "two rows": (2, 145, 102),
    "three rows": (3, 6, 175),
    "many rows": (3000, 16, 16),
}


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype)


def assert_same_on_any_threads(compute: Callable[[], Tensor], wanted: Tensor) -> None:
    results = []
    for count in COUNTS:
        torch.set_num_threads(count)
        results.append(compute())
        assert torch.get_num_threads() == count
    torch.testing.assert_close(results[0].double(), wanted, rtol=0, atol=3e-5 * wanted.abs().max().item())
    assert [torch.equal(each, results[0]) for each in results] == [True] * len(COUNTS)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("transposed", ["neither", "left", "right"])
def test_products(shape: tuple[int, int, int], transposed: str) -> None:
    n, terms, d = shape
    left = drawn(terms, n).T if transposed == "left" else drawn(n, terms)
    right = drawn(d, terms).T if transposed == "right" else drawn(terms, d)
    wanted = left.double() @ right.double()
    assert_same_on_any_threads(lambda: product(left, right), wanted)
    assert_same_on_any_threads(lambda: product(left, right, out=torch.empty(n, d)), wanted)
    assert_same_on_any_threads(lambda: products(left[None], right[None])[0], wanted)
    assert_same_on_any_threads(lambda: products(left.expand(2, -1, -1), right.expand(2, -1, -1))[1], wanted)

    def added() -> Tensor:
        total = torch.ones(n, d)
        add_product(total, left, right)
        return total

    assert_same_on_any_threads(added, 1 + wanted)


@pytest.mark.parametrize("columns", [16, 36, 100, 256])
def test_sums_over_rows(columns: int) -> None:
    rows = drawn(1000, columns)
    assert_same_on_any_threads(lambda: sum_rows(rows), rows.double().sum(dim=0))


@pytest.mark.parametrize("columns", [16, 100])
def test_gradients(columns: int) -> None:
    rows, weights, gate = drawn(1000, 16), drawn(columns, 16), drawn(columns)
    both = [each.clone().requires_grad_() for each in (weights, gate)]

    def of_both() -> Tensor:
        gradients = torch.autograd.grad(gated(weighed(rows, both[0]), both[1]).square().sum(), both)
        return torch.cat([each.flatten() for each in gradients])

    exact = [each.detach().double().requires_grad_() for each in both]
    scaled = (rows.double() @ exact[0].T) * exact[1]
    wanted = torch.cat([each.flatten() for each in torch.autograd.grad(scaled.square().sum(), exact)])
    assert_same_on_any_threads(of_both, wanted)


def test_gradients_are_those_of_finite_differences() -> None:
    rows, weights, gate = (drawn(*shape, dtype=torch.float64).requires_grad_() for shape in ((5, 3), (4, 3), (3,)))
    assert torch.autograd.gradcheck(weighed, (rows, weights))
    assert torch.autograd.gradcheck(weighed, (rows.detach(), weights))
    assert torch.autograd.gradcheck(gated, (rows, gate))
    assert torch.autograd.gradcheck(gated, (rows, gate.detach()))


def test_after_a_failure_all_threads_are_back() -> None:
    torch.set_num_threads(3)
    with pytest.raises(RuntimeError):
        product(drawn(4, 5), drawn(6, 7))
    assert torch.get_num_threads() == 3
