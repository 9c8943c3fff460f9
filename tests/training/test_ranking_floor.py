"""The floors of full and of sampled ranking: the same scores, and their best."""

from __future__ import annotations

import numpy as np
import pytest

from mcne.data.split import PARTS, random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.embeddings.scorer import DotScorer
from mcne.training.bench.ranking import BEST, best_by_numpy, best_by_torch, best_of_drawn, scored


@pytest.mark.parametrize("has_bias", [False, True])
def test_the_floor_multiplies_what_evaluation_scores(has_bias: bool) -> None:
    dataset = generate(SyntheticConfig(users=500, behaviors=2))[0]
    split, random = random_split(dataset, seed=0), np.random.default_rng(0)
    items = tuple(random.standard_normal((each.n_items, 7), dtype=np.float32) for each in dataset.behaviors)
    bias = tuple(random.standard_normal(len(each), dtype=np.float32) for each in items) if has_bias else None
    vectors, masks = random.standard_normal((500, 7), dtype=np.float32), random.random((2, 7)) < 0.5
    scorer = DotScorer(vectors, masks, items, bias)
    tasks = scored(scorer, dataset, split)
    assert len(tasks) == 2
    for k, (users, catalog) in enumerate(tasks):
        evaluated = np.unique(split.of(dataset.behaviors[k], k, PARTS.index("test"))[0])
        np.testing.assert_allclose(users @ catalog.T, scorer.scores(k, evaluated), rtol=1e-5, atol=1e-5)


def test_both_find_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcne.training.bench.ranking.FULL_AT_ONCE", 1000)  # several parts
    random = np.random.default_rng(0)
    users, items = (random.standard_normal((n, 5), dtype=np.float32) for n in (37, 300))
    expected = np.sort(np.argsort(-(users @ items.T), axis=1)[:, :BEST], axis=1)
    for found in (best_by_numpy(users, items), best_by_torch(users, items)):
        np.testing.assert_array_equal(np.sort(found, axis=1), expected)


def test_of_lists_it_finds_the_best_by_their_places() -> None:
    random = np.random.default_rng(0)
    users, items = (random.standard_normal((n, 5), dtype=np.float32) for n in (150, 300))
    drawn = np.stack([random.permutation(300)[:100] for _ in users]).astype(np.int32)
    scores = np.take_along_axis(users @ items.T, drawn, axis=1)
    np.testing.assert_array_equal(best_of_drawn(users, items, drawn), np.argsort(-scores, axis=1)[:, :BEST])
