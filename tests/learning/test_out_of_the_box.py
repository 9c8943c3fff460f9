"""MCNE-plus with untouched defaults against the usual methods with theirs, on planted networks of many kinds.

Where links tell something, or there is one behavior, it is ahead on the test part. On 500 users whose links tell
nothing it is ahead of all but BPR, with which it is level.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.small_training import train_small
from tests.values import not_none

from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.evaluation.protocol import evaluate

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

NETWORKS: dict[str, dict[str, Any]] = {
    "two behaviors": {"behaviors": 2},
    "one behavior": {"behaviors": 1},
    "few records": {"behaviors": 3, "records_per_user": 4.0},
    "many records": {"behaviors": 2, "records_per_user": 30.0},
    "no links": {"behaviors": 2, "links_per_user": 0.0},
    "random links": {"behaviors": 2, "homophily": 0.0},
}
LEVEL = ("no links", "random links")
OTHERS = ("popularity", "itemknn", "ease", "bpr", "node2vec-b")


@pytest.mark.parametrize("kind", NETWORKS)
def test_it_is_ahead_with_nothing_tuned(kind: str, tmp_path: Path) -> None:
    dataset, _ = generate(SyntheticConfig(users=500, seed=1, **NETWORKS[kind]))
    split = random_split(dataset, seed=0)
    ndcg = {}
    for method in ("mcne-plus", *OTHERS):
        if method == "node2vec-b" and not dataset.graph.n_links:
            continue
        run = train_small(method, dataset, tmp_path / method, split=split, settings={})
        scorer = run.scorer(dataset, split)
        ndcg[method] = not_none(evaluate(scorer, dataset, split, part="test").overall("ndcg@5"))
    plus = ndcg.pop("mcne-plus")
    if kind in LEVEL:
        assert plus > 0.95 * ndcg.pop("bpr"), (plus, ndcg)
    assert plus > max(ndcg.values()), (plus, ndcg)
