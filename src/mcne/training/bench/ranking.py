"""Evaluation against whole catalogs and against sampled items, beside the product of the scores and the best alone."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from mcne.data.dataset import SocialDataset
from mcne.data.negatives import COUNT
from mcne.data.split import PARTS, Split, random_split
from mcne.embeddings.scorer import DotScorer
from mcne.evaluation.protocol import CUTOFFS, FULL_AT_ONCE, evaluate
from mcne.models.bpr import BPR, BPRConfig
from mcne.models.contract import TrainingData
from mcne.training.bench.figure import Taken
from mcne.training.bench.rounds import Contender, medians

WIDTH, EPOCHS = 100, 3
BEST = max(CUTOFFS)
DRAWN_AT_ONCE = 64
"""Users whose items' vectors a core's cache holds."""


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
    taken = medians(contenders, rounds=7)
    floor = min(taken["NumPy"], taken["PyTorch"])
    each = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in taken.items())
    return Taken(taken["ours"] / floor, f"{describe(tasks)}: {each}")


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
    taken = medians(contenders, rounds=15)
    each = ", ".join(f"{name} {1000 * seconds:.0f} ms" for name, seconds in taken.items())
    users = " + ".join(f"{len(items):,}" for items in drawn)
    return Taken(taken["ours"] / taken["PyTorch"], f"{users} users × {COUNT} items: {each}")


def trained_scorer(dataset: SocialDataset, split: Split) -> DotScorer:
    """Vectors that rank as trained ones do: how many items are near the top decides what evaluation has to do."""
    data = TrainingData.of(dataset, split)
    model = BPR(data, BPRConfig(width=WIDTH), seed=0, device=torch.device("cpu"))
    for at in range(EPOCHS * model.n_steps):
        model.update(model.loss(model.prepare(*divmod(at, model.n_steps))))
    scorer = model.scorer()
    assert isinstance(scorer, DotScorer)  # on a CPU
    return scorer


Scored = tuple[NDArray[np.float32], NDArray[np.float32]]
"""The users that evaluation ranks for in a behavior, [n, d], and the behavior's items, [m, d]."""


def scored(scorer: DotScorer, dataset: SocialDataset, split: Split) -> list[Scored]:
    """What is multiplied in every behavior; a bias is one more dimension."""
    tasks = []
    for k, behavior in enumerate(dataset.behaviors):
        users = np.unique(split.of(behavior, k, PARTS.index("test"))[0])
        left, right = scorer.vectors[users] * scorer.masks[k], scorer.item_vectors[k]
        if scorer.item_bias is not None:
            left = np.concatenate([left, np.ones((len(left), 1), np.float32)], axis=1)
            right = np.concatenate([right, scorer.item_bias[k][:, None]], axis=1)
        tasks.append((left, right))
    return tasks


def all_scores(tasks: list[Scored]) -> None:
    """The products alone."""
    for users, items in tasks:
        for part in _parts(users, items):
            part @ items.T


def best_by_numpy(users: NDArray[np.float32], items: NDArray[np.float32]) -> NDArray[np.int64]:
    """The best items of each user, in no order."""
    first = len(items) - BEST
    return np.concatenate([np.argpartition(part @ items.T, first, axis=1)[:, first:] for part in _parts(users, items)])


def best_by_torch(users: NDArray[np.float32], items: NDArray[np.float32]) -> NDArray[np.int64]:
    """The best items of each user, best first."""
    found = [torch.topk(torch.from_numpy(part @ items.T), BEST).indices for part in _parts(users, items)]
    return np.asarray(torch.cat(found).numpy())


def best_of_drawn(
    users: NDArray[np.float32], items: NDArray[np.float32], drawn: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Of each user's own list of items the places of the best in it, best first; a list that is short has item 0."""
    found = []
    for start in range(0, len(users), DRAWN_AT_ONCE):
        part = torch.from_numpy(users[start : start + DRAWN_AT_ONCE])
        lists = torch.from_numpy(np.maximum(drawn[start : start + DRAWN_AT_ONCE], 0))
        vectors = torch.from_numpy(items).index_select(0, lists.flatten()).view(*lists.shape, -1)  # [n, COUNT, d]
        found.append(torch.topk(torch.bmm(vectors, part[:, :, None])[:, :, 0], BEST).indices)
    return np.asarray(torch.cat(found).numpy())


def describe(tasks: list[Scored]) -> str:
    """How much is ranked."""
    sizes = " + ".join(f"{len(users):,} users × {len(items):,} items" for users, items in tasks)
    return f"{sizes}, {sum(len(users) * len(items) for users, items in tasks) / 1e6:.0f} M scores"


def _parts(users: NDArray[np.float32], items: NDArray[np.float32]) -> list[NDArray[np.float32]]:
    """As many users at once as evaluation takes."""
    size = max(1, FULL_AT_ONCE // len(items))
    return [users[start : start + size] for start in range(0, len(users), size)]
