"""What ``mcne bench`` measures: MCNE's step and evaluation, each against another form of it or a floor in the same run.

The literal form of a step and the floors share no code with what they are compared with.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mcne import __version__
from mcne.data.dataset import SocialDataset
from mcne.data.negatives import COUNT
from mcne.data.split import PARTS, Split, random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.embeddings.ranking import DotScorer
from mcne.evaluation.protocol import CUTOFFS, FULL_AT_ONCE, evaluate
from mcne.kernels import backend
from mcne.models.bpr import BPR, BPRConfig
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.training.gpu import CapturedSteps
from mcne_bench import chosen
from mcne_bench.literal import LiteralStep

CIAO_SIZED = SyntheticConfig(
    users=4321, behaviors=3, items_per_behavior=26_000, links_per_user=20.5, records_per_user=6.5
)
"""About as many users, links, items and records as the paper's Ciao."""
LIBRARIES = ("numba", "numpy", "scipy", "torch", "triton")
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")
CPU = torch.device("cpu")
WIDTH = 100  # of the vectors that are ranked
EPOCHS = 3
BEST = max(CUTOFFS)
DRAWN_AT_ONCE = 64
"""Users whose items' vectors a core's cache holds."""
GPU_STEPS = 60

Product = tuple[Callable[..., Tensor], tuple[Any, ...]]
"""A product of matrices: the operation, and its arguments."""
Scored = tuple[NDArray[np.float32], NDArray[np.float32]]
"""The users that evaluation ranks for in a behavior, [n, d], and the behavior's items, [m, d]."""


# figures


class Taken(NamedTuple):
    """The value of a figure."""

    value: float
    detail: str  # the numbers behind it


class NotMeasuredError(Exception):
    """A figure cannot be taken here; the message says what is missing."""


@dataclass(frozen=True)
class Figure:
    """One measured figure and what it should reach."""

    name: str
    value: float | None  # None where it could not be measured
    unit: str
    at_most: float | None  # None where nothing is asked of it
    detail: str
    against: str = ""
    key: str = ""  # how it is asked for

    @property
    def is_missed(self) -> bool:
        """Measured, and above what it should be."""
        return self.value is not None and self.at_most is not None and self.value > self.at_most

    @property
    def verdict(self) -> str:
        """In a word."""
        if self.value is None:
            return "not run"
        if self.at_most is None:
            return "measured"
        return "MISSED" if self.is_missed else "reached"


@dataclass(frozen=True)
class Measurement:
    """A figure and how it is taken; ``take`` raises :class:`NotMeasuredError` where it cannot be."""

    key: str
    name: str
    against: str
    at_most: float | None
    take: Callable[[], Taken]
    unit: str = "×"

    def figure(self) -> Figure:
        """Take it."""
        empty = Figure(self.name, None, self.unit, self.at_most, "", self.against, self.key)
        try:
            value, detail = self.take()
        except NotMeasuredError as why:
            return replace(empty, detail=str(why))
        return replace(empty, value=value, detail=detail)


def measurements(dataset: Callable[[], SocialDataset], where: str) -> list[Measurement]:
    """All of them on a dataset, which is made when the first is taken; ``where`` is its name."""
    step = f"step of MCNE, {where}"
    ranking = "evaluation by {} ranking, " + where
    best = f"score product + top {BEST}"

    def trained(take: Callable[[TrainingData], Taken]) -> Callable[[], Taken]:
        return lambda: take(all_for_training(dataset()))

    def ranked(take: Callable[[SocialDataset], Taken]) -> Callable[[], Taken]:
        return lambda: take(dataset())

    return [
        Measurement("step.literal", step, "the literal form", 1 / 100, trained(against_literal)),
        Measurement("step.products", step, "its own matrix products", 2, trained(against_products)),
        Measurement("step.plain", step, "plain operations of PyTorch", 1, trained(against_plain)),
        Measurement("ranking.product", ranking.format("full"), best, 1.5, ranked(against_product)),
        Measurement("ranking.sampled", ranking.format("sampled"), best, 1.5, ranked(against_sampled_product)),
        Measurement("gpu.step", f"{step}, GPU", "its kernels launched one by one", 1, trained(against_launches)),
    ]


def for_users() -> list[Measurement]:
    """Those of ``mcne bench``."""
    return measurements(cache(lambda: generate(CIAO_SIZED)[0]), "synthetic network of Ciao's size")


def choose(available: Sequence[Measurement], wanted: Sequence[str]) -> list[Measurement]:
    """Those asked for by key or by group."""
    keys = chosen([each.key for each in available], wanted)
    return [each for each in available if each.key in keys]


def machine() -> dict[str, Any]:
    """Processor, cores, load, GPU and versions, as plain data."""
    libraries = {}
    for name in LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            libraries[name] = importlib.metadata.version(name)
    return {
        "mcne": __version__,
        "platform": platform.platform(),
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "libraries": libraries,
    }


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


@dataclass(frozen=True)
class Contender:
    """Work to be timed, given a number that never repeats; so often in each round."""

    work: Callable[[int], object]
    per_round: int = 1
    has_clock: bool = False  # whether the work answers its own seconds, as that of another process does


def medians(contenders: Mapping[str, Contender], *, rounds: int, warm_up: int = 1) -> dict[str, float]:
    """Seconds of each contender's work: medians over rounds in which all have their turn, after those of warm-up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    numbers = {name: count() for name in contenders}
    for at in range(warm_up + rounds):
        for name, contender in contenders.items():
            for _ in range(contender.per_round):
                start = time.perf_counter()
                answer = contender.work(next(numbers[name]))
                seconds = time.perf_counter() - start
                if at >= warm_up:
                    times[name].append(cast(float, answer) if contender.has_clock else seconds)
    return {name: median(seconds) for name, seconds in times.items()}


# a step on the CPU, at the paper's settings


def all_for_training(dataset: SocialDataset) -> TrainingData:
    """A dataset of which nothing is kept for validation or test."""
    return TrainingData.of(dataset, random_split(dataset, seed=0, ratios=(100, 0, 0)))


def paper_model(data: TrainingData, device: torch.device = CPU) -> MCNE:
    """MCNE at the paper's settings."""
    return MCNE(data, MCNEConfig(), seed=0, device=device)


def stepping(model: MCNE) -> Callable[[int], None]:
    """A whole step by its number: drawn, forward, backward, optimizers."""

    def step(number: int) -> None:
        model.update(model.loss(model.prepare(*divmod(number, model.n_steps))))

    return step


def against_literal(data: TrainingData) -> Taken:
    """Every sampled path computed on its own, conditional vectors per edge, Adam over all rows."""
    literal = LiteralStep(paper_model(data))
    both = {"ours": Contender(stepping(paper_model(data)), per_round=10), "literal": Contender(literal.run)}
    ratio, detail = _compared(medians(both, rounds=4), "literal")
    return Taken(ratio, f"{detail}: {1 / ratio:.0f} times as fast")


def against_plain(data: TrainingData) -> Taken:
    """The same step in operations of PyTorch."""
    plain = stepping(paper_model(data))

    def in_operations(number: int) -> None:
        with plain_operations():
            plain(number)

    both = {"ours": Contender(stepping(paper_model(data)), per_round=3), "plain": Contender(in_operations)}
    return _compared(medians(both, rounds=9), "plain")


def against_products(data: TrainingData) -> Taken:
    """The matrix products that PyTorch is asked for in a step, forward and backward, and nothing else."""
    step = stepping(paper_model(data))
    step(0)
    products = matrix_products(lambda: step(1))

    def multiply(_: int) -> None:
        for operation, arguments in products:
            operation(*arguments)

    both = {"ours": Contender(lambda number: step(number + 2)), "products": Contender(multiply)}
    ratio, detail = _compared(medians(both, rounds=30, warm_up=3), "products")
    work = sum(multiplications(product) for product in products)
    return Taken(ratio, f"{detail} for {len(products)} products, {2 * work / 1e9:.1f} GFLOP")


def _compared(seconds: Mapping[str, float], other: str) -> Taken:
    ours, theirs = seconds["ours"], seconds[other]
    return Taken(ours / theirs, f"{ours * 1e3:,.1f} ms against {theirs * 1e3:,.1f} ms")


@contextmanager
def plain_operations() -> Iterator[None]:
    """Steps run in operations of PyTorch instead of compiled functions."""
    with patch.object(backend, "ON_CPU", "torch"):
        yield


def matrix_products(work: Callable[[], object]) -> list[Product]:
    """The products of matrices that ``work`` asks PyTorch for, with what is multiplied, in their order."""
    products: list[Product] = []
    with _Recorder(products):
        work()
    return products


def multiplications(product: Product) -> int:
    """Of numbers, in a product of matrices."""
    left, right = product[1][-2:]  # after what they are added to
    return int(left.numel() * right.shape[-1])


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call] # as PyTorch declares it
    def __init__(self, products: list[Product]) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # as PyTorch declares it
        self.products = products

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.overloadpacket.__name__ in PRODUCTS:
            own = tuple(each.detach() if isinstance(each, Tensor) else each for each in args)
            self.products.append((partial(function, **(kwargs or {})), own))
        return function(*args, **(kwargs or {}))


# a step on a GPU


def against_launches(data: TrainingData) -> Taken:
    """The same kernels launched by the host, one after the other."""
    launched, replayed = launched_and_replayed(paper_model(data, gpu()))
    detail = f"{replayed:.2f} ms against {launched:.2f} ms on {torch.cuda.get_device_name()}"
    return Taken(replayed / launched, detail)


def gpu() -> torch.device:
    """The GPU, if there is one."""
    if not torch.cuda.is_available():
        raise NotMeasuredError("no GPU here that PyTorch can use")
    return torch.device("cuda")


def launched_and_replayed(model: MCNE) -> tuple[float, float]:
    """Milliseconds of a step in both ways, inputs at hand."""
    if not model.is_capturable:
        raise NotMeasuredError("steps are not drawn on the GPU here: is Triton missing?")
    batches = [model.prepare(0, step) for step in range(min(GPU_STEPS, model.n_steps))]
    launched = _milliseconds(lambda batch: model.update(model.loss(batch)), batches)
    return launched, _milliseconds(CapturedSteps(model), batches)


def _milliseconds(step: Callable[[Any], object], batches: list[Any]) -> float:
    """Of a step, the second time through all batches, when every shape is known."""
    start = 0.0
    for _ in range(2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for batch in batches:
            step(batch)
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / len(batches)


# evaluation


def against_product(dataset: SocialDataset) -> Taken:
    """Scores of the same users and all items with the best 20 of each, by the faster of NumPy and PyTorch."""
    split = random_split(dataset, seed=0)
    scorer = trained_scorer(dataset, split)
    tasks = scored(scorer, dataset, split)
    contenders = {
        "ours": Contender(lambda _: evaluate(scorer, dataset, split, protocol="full")),
        "NumPy": Contender(lambda _: [best_by_numpy(*task) for task in tasks]),
        "PyTorch": Contender(lambda _: [best_by_torch(*task) for task in tasks]),
    }
    seconds = medians(contenders, rounds=7)
    listed = ", ".join(f"{name} {each:.2f} s" for name, each in seconds.items())
    return Taken(seconds["ours"] / min(seconds["NumPy"], seconds["PyTorch"]), f"{describe(tasks)}: {listed}")


def against_sampled_product(dataset: SocialDataset) -> Taken:
    """Scores of the same users and their 100 negatives with the best 20 of each, by PyTorch."""
    split = random_split(dataset, seed=0)
    scorer = trained_scorer(dataset, split)
    drawn = [each.items for each in split.negatives["test"]["uniform"]]
    tasks = list(zip(scored(scorer, dataset, split), drawn, strict=True))
    contenders = {
        "ours": Contender(lambda _: evaluate(scorer, dataset, split, protocol="sampled")),
        "PyTorch": Contender(lambda _: [best_of_drawn(*vectors, items) for vectors, items in tasks]),
    }
    seconds = medians(contenders, rounds=15)
    listed = ", ".join(f"{name} {1000 * each:.0f} ms" for name, each in seconds.items())
    users = " + ".join(f"{len(items):,}" for items in drawn)
    return Taken(seconds["ours"] / seconds["PyTorch"], f"{users} users × {COUNT} items: {listed}")


def trained_scorer(dataset: SocialDataset, split: Split) -> DotScorer:
    """Vectors that rank as trained ones do: how many items are near the top decides what evaluation has to do."""
    model = BPR(TrainingData.of(dataset, split), BPRConfig(width=WIDTH), seed=0, device=CPU)
    for at in range(EPOCHS * model.n_steps):
        model.update(model.loss(model.prepare(*divmod(at, model.n_steps))))
    scorer = model.scorer()
    assert isinstance(scorer, DotScorer)  # on a CPU
    return scorer


def scored(scorer: DotScorer, dataset: SocialDataset, split: Split) -> list[Scored]:
    """What is multiplied in every behavior; a bias is one more dimension."""
    tasks = []
    for k, behavior in enumerate(dataset.behaviors):
        users = np.unique(split.of(behavior, k, PARTS.index("test"))[0])
        left = scorer.vectors[users] * scorer.masks[k]
        right = scorer.item_vectors[k]
        if scorer.item_bias is not None:
            left = np.concatenate([left, np.ones((len(left), 1), np.float32)], axis=1)
            right = np.concatenate([right, scorer.item_bias[k][:, None]], axis=1)
        tasks.append((left, right))
    return tasks


def products_of_parts(users: NDArray[np.float32], items: NDArray[np.float32]) -> Iterator[NDArray[np.float32]]:
    """The scores of as many users at once as evaluation takes."""
    size = max(1, FULL_AT_ONCE // len(items))
    for start in range(0, len(users), size):
        yield users[start : start + size] @ items.T


def best_by_numpy(users: NDArray[np.float32], items: NDArray[np.float32]) -> NDArray[np.int64]:
    """The best items of each user, in no order."""
    first = len(items) - BEST
    parts = [np.argpartition(scores, first, axis=1)[:, first:] for scores in products_of_parts(users, items)]
    return np.concatenate(parts)


def best_by_torch(users: NDArray[np.float32], items: NDArray[np.float32]) -> NDArray[np.int64]:
    """The best items of each user, best first."""
    parts = [torch.topk(torch.from_numpy(scores), BEST).indices for scores in products_of_parts(users, items)]
    return np.asarray(torch.cat(parts).numpy())


def best_of_drawn(
    users: NDArray[np.float32], items: NDArray[np.float32], drawn: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Of each user's own list of items the places of the best in it, best first; a list that is short has item 0."""
    parts = []
    for start in range(0, len(users), DRAWN_AT_ONCE):
        part = torch.from_numpy(users[start : start + DRAWN_AT_ONCE])
        lists = torch.from_numpy(np.maximum(drawn[start : start + DRAWN_AT_ONCE], 0))
        vectors = torch.from_numpy(items).index_select(0, lists.flatten()).view(*lists.shape, -1)  # [n, COUNT, d]
        parts.append(torch.topk(torch.bmm(vectors, part[:, :, None])[:, :, 0], BEST).indices)
    return np.asarray(torch.cat(parts).numpy())


def describe(tasks: list[Scored]) -> str:
    """How much is ranked."""
    sizes = " + ".join(f"{len(users):,} users × {len(items):,} items" for users, items in tasks)
    return f"{sizes}, {sum(len(users) * len(items) for users, items in tasks) / 1e6:.0f} M scores"
