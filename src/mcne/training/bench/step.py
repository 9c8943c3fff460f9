"""A training step of MCNE on the CPU at the paper's settings, against other forms of it and its own floor."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mcne.kernels import backend
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.training.bench.figure import Taken
from mcne.training.bench.literal import LiteralStep
from mcne.training.bench.rounds import Contender, medians

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")

Product = tuple[Callable[..., Tensor], tuple[Any, ...]]


def against_literal(data: TrainingData) -> Taken:
    """Every sampled path computed on its own, conditional vectors per edge, Adam over all rows."""
    model, literal = paper_model(data), LiteralStep(paper_model(data))
    both = {"ours": Contender(stepping(model), per_round=10), "literal": Contender(literal.run)}
    taken = medians(both, rounds=4)
    ratio = taken["ours"] / taken["literal"]
    return Taken(ratio, f"{_ms(taken['ours'])} against {_ms(taken['literal'])}: {1 / ratio:.0f} times as fast")


def against_plain(data: TrainingData) -> Taken:
    """The same step in operations of PyTorch."""
    step, plain = stepping(paper_model(data)), stepping(paper_model(data))

    def in_operations(number: int) -> None:
        with plain_operations():
            plain(number)

    taken = medians({"ours": Contender(step, per_round=3), "plain": Contender(in_operations)}, rounds=9)
    return Taken(taken["ours"] / taken["plain"], f"{_ms(taken['ours'])} against {_ms(taken['plain'])}")


def against_products(data: TrainingData) -> Taken:
    """The matrix products that PyTorch is asked for in a step, forward and backward, and nothing else."""
    model = paper_model(data)
    step = stepping(model)
    step(0)
    products = matrix_products(lambda: step(1))

    def multiply(_: int) -> None:
        for operation, arguments in products:
            operation(*arguments)

    both = {"ours": Contender(lambda number: step(number + 2)), "products": Contender(multiply)}
    taken = medians(both, rounds=30, warm_up=3)
    work = sum(multiplications(product) for product in products)
    speed = f"{len(products)} products, {2 * work / 1e9:.1f} GFLOP"
    return Taken(
        taken["ours"] / taken["products"], f"{_ms(taken['ours'])} against {_ms(taken['products'])} for {speed}"
    )


def paper_model(data: TrainingData) -> MCNE:
    """MCNE at the paper's settings on the CPU."""
    return MCNE(data, MCNEConfig(), seed=0, device=torch.device("cpu"))


def stepping(model: MCNE) -> Callable[[int], None]:
    """A whole step by its number: drawn, forward, backward, optimizers."""

    def step(number: int) -> None:
        model.update(model.loss(model.prepare(*divmod(number, model.n_steps))))

    return step


@contextmanager
def plain_operations() -> Iterator[None]:
    """Steps run in operations of PyTorch, as they do where numba is missing."""
    compiled = backend.compiled
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("mcne.kernels.") and getattr(module, "compiled", None) is compiled:
                stack.enter_context(patch.object(module, "compiled", lambda _: None))
        yield


def matrix_products(work: Callable[[], object]) -> list[Product]:
    """The products of matrices that ``work`` asks PyTorch for, with what is multiplied, in their order."""
    found: list[Product] = []
    with _Recorder(found):
        work()
    return found


def multiplications(product: Product) -> int:
    """Of numbers, in a product of matrices."""
    left, right = product[1][-2:]  # after what they are added to
    return int(left.numel() * right.shape[-1])


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call] # as PyTorch declares it
    def __init__(self, found: list[Product]) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # as PyTorch declares it
        self.found = found

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.overloadpacket.__name__ in PRODUCTS:
            own = tuple(each.detach() if isinstance(each, Tensor) else each for each in args)
            self.found.append((partial(function, **(kwargs or {})), own))
        return function(*args, **(kwargs or {}))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms"
