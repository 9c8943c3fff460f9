"""Do masks of behaviors planted alike overlap more than masks of behaviors planted apart? A permutation test.

``python -m benchmarks.mask_overlap --set records_per_user=20 --set l2=0.01``: settings of the network and of MCNE, the
latter beside those of ``mcne demo``. Behaviors 2k and 2k+1 of a synthetic network share a family factor. The overlap of
two masks is the correlation of their entries, so that density and chance count for nothing. Under the null hypothesis
the behaviors of a network are exchangeable: their names are shuffled within each network.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.small_training import ON_PLANTED

from benchmarks.temporary_run import temporary_run
from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.evaluation.protocol import evaluate
from mcne.models.settings import read_pairs

PERMUTATIONS = 10_000


def masks_of(seed: int, *, network: dict[str, Any], given: dict[str, Any], device: str) -> dict[str, Any]:
    """The masks of every level after training on one network, K+1 × [C, d], and the test NDCG@5."""
    dataset, _ = generate(SyntheticConfig(seed=seed, **network))
    split = random_split(dataset, seed=seed)
    with temporary_run("mcne", dataset, split, settings=given, seed=seed, device=device) as run:
        trunk = run.embeddings.trunk
        assert trunk is not None
        masks = [np.array(mask[:-1]) for mask in trunk.masks]
        return {"masks": masks, "ndcg": evaluate(run.embeddings, dataset, split).overall("ndcg@5")}


def overlaps(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Correlations between the rows, [C, C]; 0 for a row without variance."""
    centered = mask - mask.mean(axis=1, keepdims=True)
    norms = np.sqrt(np.square(centered).sum(axis=1))
    scaled = np.divide(centered, norms[:, None], out=np.zeros_like(centered), where=norms[:, None] > 0)
    return np.asarray(scaled @ scaled.T)


def difference(correlations: list[NDArray[np.float64]], orders: list[NDArray[np.int64]]) -> float:
    """Mean overlap of behaviors planted alike less that of behaviors planted apart, over networks."""
    differences = []
    for correlation, order in zip(correlations, orders, strict=True):
        family = order // 2
        pairs = np.triu_indices(len(order), 1)
        alike = family[pairs[0]] == family[pairs[1]]
        differences.append(correlation[pairs][alike].mean() - correlation[pairs][~alike].mean())
    return float(np.mean(differences))


def permutation_test(correlations: list[NDArray[np.float64]]) -> tuple[float, float]:
    """The difference, and the share of shuffled networks whose difference is as large (one-sided)."""
    random = np.random.default_rng(0)
    n = len(correlations[0])
    seen = difference(correlations, [np.arange(n)] * len(correlations))
    drawn = [difference(correlations, [random.permutation(n) for _ in correlations]) for _ in range(PERMUTATIONS)]
    return seen, (1 + sum(value >= seen - 1e-12 for value in drawn)) / (1 + PERMUTATIONS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[], help="a setting of the network or of MCNE")
    chosen = parser.parse_args()
    settings = read_pairs(chosen.set)
    names = {field.name for field in fields(SyntheticConfig)}
    network = {name: value for name, value in settings.items() if name in names}
    given = dict(ON_PLANTED["mcne"]) | {name: value for name, value in settings.items() if name not in names}
    work = partial(masks_of, network=network, given=given, device=chosen.device)
    with ProcessPoolExecutor(chosen.jobs, mp_context=get_context("spawn")) as pool:
        trained = list(pool.map(work, range(chosen.networks)))
    levels = []
    for k in range(len(trained[0]["masks"])):
        seen, chance = permutation_test([overlaps(each["masks"][k]) for each in trained])
        levels.append({"level": k, "difference": round(seen, 4), "p": round(chance, 4)})
    ndcg = [each["ndcg"] for each in trained]
    print(
        json.dumps({"settings": settings, "ndcg@5": round(100 * float(np.mean(ndcg)), 2), "levels": levels}), flush=True
    )


if __name__ == "__main__":
    main()
