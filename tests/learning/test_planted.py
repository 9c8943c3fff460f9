"""On planted data, MCNE learns what is there: more than popularity, more than one vector, and on what."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.small_training import ON_PLANTED, train_small
from tests.values import not_none

from mcne.data.split import random_split
from mcne.data.synthetic import Planted, SyntheticConfig, generate
from mcne.embeddings import ConditionalEmbeddings
from mcne.evaluation.protocol import evaluate

NEAREST = 10


def purity(embeddings: ConditionalEmbeddings, planted: Planted, *, k: int, masked: bool) -> float:
    """How many of the users nearest to a user share its planted taste in behavior ``k``."""
    name = embeddings.behavior_names[k]
    users = list(range(1, embeddings.n_users + 1, 7))
    tastes = planted.tastes(k)
    rankings = embeddings.similar_users(users, name if masked else None, k=NEAREST, cosine=True)
    same = [
        tastes[[int(other) - 1 for other in ranking.ids]] == tastes[user - 1]
        for user, ranking in zip(users, rankings, strict=True)
    ]
    return float(np.mean(same))


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("seed", range(5))
def test_mcne_learns_what_is_planted(seed: int, tmp_path: Path) -> None:
    dataset, planted = generate(SyntheticConfig(users=2000, seed=seed))
    split = random_split(dataset, seed=seed)
    ndcg = {}
    learned = {}
    for method, given in ON_PLANTED.items():
        run = train_small(method, dataset, tmp_path / method, split=split, settings=given, seed=seed)
        learned[method] = run.embeddings
        ndcg[method] = not_none(evaluate(learned[method], dataset, split).overall("ndcg@5"))
    assert ndcg["mcne"] >= 1.3 * ndcg["popularity"]
    assert ndcg["mcne"] > ndcg["bpr"]
    masked, whole = (
        np.mean([purity(learned["mcne"], planted, k=k, masked=masked) for k in range(len(dataset.behaviors))])
        for masked in (True, False)
    )
    assert masked > whole
