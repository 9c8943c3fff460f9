"""How far each kind of knowledge gets on the synthetic network: ``python -m benchmarks.testbed``.

Prints the two tables of ``docs/synthetic.md`` as Markdown: what the network looks like, and how popularity, friends
and oracles that know the planted truth rank under the sampled protocol. A ranker with a free strength is
shown at its best one on the test part itself, which flatters each in the same way.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mcne.data.dataset import SocialDataset
from mcne.data.describe import describe, describe_split
from mcne.data.split import TEST, TRAIN, Split, random_split
from mcne.data.synthetic import Planted, SyntheticConfig, generate
from mcne.randomness import Stream

K = 5
SHARPNESS = (0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0)
SMOOTHING = (1.0, 3.0, 10.0, 30.0)

Scores = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Case:
    """One behavior of one network, with the candidates that every ranker orders."""

    dataset: SocialDataset
    planted: Any  # the truth, or None for a dataset that has none
    behavior: int
    train: Any  # sparse [users, items]
    users: NDArray[np.int32]  # [n] with test items
    candidates: NDArray[np.int64]  # [n, width] items, −1 is none
    relevant: NDArray[np.bool_]  # [n, width]
    tiebreak: NDArray[np.float64]  # [n, width]

    @property
    def popularity(self) -> Scores:
        return np.asarray(self.train.sum(axis=0), dtype=np.float64)


Ranker = Callable[[Case], Scores]


def make_case(dataset: SocialDataset, planted: Planted | None, split: Split, *, k: int, seed: int) -> Case:
    """All of a user's test items together with its 100 negatives."""
    behavior = dataset.behaviors[k]
    train_user, train_item = split.of(behavior, k, TRAIN)
    shape = (dataset.n_users, behavior.n_items)
    train = sparse.csr_array((np.ones(len(train_user)), (train_user, train_item)), shape)
    negatives = split.negatives["test"]["uniform"][k]
    test_user, test_item = split.of(behavior, k, TEST)
    row = np.searchsorted(negatives.users, test_user)
    counts = np.bincount(row)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    positives = np.full((len(counts), counts.max()), -1)
    positives[row, place] = test_item
    candidates = np.concatenate([positives, negatives.items], axis=1)
    relevant = np.arange(candidates.shape[1]) < counts[:, None]
    tiebreak = Stream(seed, "testbed", "ties", k).uniform(candidates.shape)
    return Case(dataset, planted, k, train, negatives.users, candidates, relevant, tiebreak)


def measure(case: Case, scores: Scores) -> tuple[float, float]:
    """Recall and NDCG at 5, mean over users; ties are broken by chance."""
    mine = np.take_along_axis(np.broadcast_to(scores, (len(case.users), scores.shape[-1])), case.candidates, axis=1)
    mine = np.where(case.candidates < 0, -np.inf, mine)
    best = np.lexsort((case.tiebreak, -mine), axis=1)[:, :K]
    hits = np.take_along_axis(case.relevant, best, axis=1)
    discounts = 1 / np.log2(np.arange(2, K + 2))
    wanted = case.relevant.sum(axis=1)
    ideal = np.cumsum(discounts)[np.minimum(wanted, K) - 1]
    return float(np.mean(hits.sum(axis=1) / wanted)), float(np.mean(hits @ discounts / ideal))


def chance(case: Case) -> Scores:
    return np.zeros((1, case.train.shape[1]))


def popularity(case: Case) -> Scores:
    return case.popularity[None]


def friends(case: Case) -> Scores:
    """How many friends have the item."""
    graph = case.dataset.graph
    links = sparse.csr_array((np.ones(graph.n_directions), graph.indices, graph.indptr), (graph.n_users,) * 2)
    return np.asarray((links[case.users] @ case.train).toarray(), dtype=np.float64)


def then_popularity(case: Case, counts: Scores) -> Scores:
    """Whole counts first, popularity among equals."""
    return np.asarray(counts + case.popularity / (case.popularity.max() + 1))


def friends_then_popularity(case: Case) -> Scores:
    return then_popularity(case, friends(case))


def shared_records(case: Case) -> Scores:
    """Plain user-to-user collaborative filtering within the behavior, popularity for who has no record."""
    alike = case.train[case.users] @ case.train.T
    return then_popularity(case, (alike @ case.train).toarray())


def matches(planted: Planted, users: NDArray[Any], behavior: int | None = None) -> NDArray[np.int8]:
    """The product of these users' planted vectors with everyone's, whole or under a behavior's mask, [n, users]."""
    counts = np.zeros((len(users), len(planted.levels)), dtype=np.int8)
    for factor in range(planted.levels.shape[1]) if behavior is None else planted.factors[behavior]:
        counts += planted.levels[users, factor][:, None] == planted.levels[:, factor]
    return counts


def neighbor_scores(
    planted: Planted, users: NDArray[Any], train: Any, *, behavior: int | None, sharpness: float
) -> Scores:
    """Score items by everyone's training records, weighted by exp(sharpness × matches), [n, items].

    ``train`` is sparse, [users, items]. Strangers count too, with weight 1, so popularity is part of it. With
    ``behavior`` None the similarity is that of whole vectors: all that one vector per user can tell.
    """
    weights = np.exp(sharpness * matches(planted, users, behavior).astype(np.float64))
    return np.asarray(weights @ train)


def neighbors(sharpness: float, *, masked: bool) -> Ranker:
    """Everyone's records, weighted by planted similarity: of whole vectors, or under the behavior's mask."""

    def score(case: Case) -> Scores:
        behavior = case.behavior if masked else None
        return neighbor_scores(case.planted, case.users, case.train, behavior=behavior, sharpness=sharpness)

    return score


def learned_items(smoothing: float, *, masked: bool) -> Ranker:
    """Planted user vectors, item vectors counted in training: log popularity plus a log ratio per factor.

    What item tables per behavior can make of one vector per user (they may learn to ignore dimensions, as far as the
    records suffice), and what they make of the masked one.
    """

    def score(case: Case) -> Scores:
        planted = case.planted
        total = case.popularity
        vectors = planted.user_vectors()
        vectors = vectors * planted.masks[case.behavior] if masked else vectors
        counted = np.asarray(vectors.T @ case.train)  # [dimensions, items]
        ratios = np.log((counted + smoothing / planted.n_levels) / (total + smoothing) * planted.n_levels)
        return np.asarray(vectors[case.users] @ ratios + np.log(total + 0.1), dtype=np.float64)

    return score


def bayes(case: Case) -> Scores:
    """The exact chances of the generator; catalog row r has raw id r + 1."""
    columns = np.asarray(case.dataset.behaviors[case.behavior].items.arrow()) - 1
    chances: Scores = case.planted.probabilities(case.behavior, case.users)[:, columns]
    return chances


RANKERS: Mapping[str, Mapping[str, Ranker]] = {
    "chance": {"": chance},
    "popularity": {"": popularity},
    "friends who have the item": {"": friends},
    "friends, then popularity": {"": friends_then_popularity},
    "users with shared records": {"": shared_records},
    "one-vector oracle": {f"β = {b:g}": neighbors(b, masked=False) for b in SHARPNESS},
    "one-vector oracle, learned items": {f"α = {a:g}": learned_items(a, masked=False) for a in SMOOTHING},
    "per-behavior oracle": {f"β = {b:g}": neighbors(b, masked=True) for b in SHARPNESS},
    "per-behavior oracle, learned items": {f"α = {a:g}": learned_items(a, masked=True) for a in SMOOTHING},
    "Bayes ranker": {"": bayes},
}


NEED_THE_TRUTH = ("oracle", "learned items", "Bayes ranker")


def score_network(
    dataset: SocialDataset, planted: Planted | None, split: Split, *, seed: int
) -> dict[str, NDArray[Any]]:
    """Per ranker, Recall@5 and NDCG@5 of each of its variants, mean over behaviors, [variants, 2]."""
    cases = [make_case(dataset, planted, split, k=k, seed=seed) for k in range(len(dataset.behaviors))]
    return {
        name: np.array([np.mean([measure(case, rank(case)) for case in cases], axis=0) for rank in variants.values()])
        for name, variants in RANKERS.items()
        if planted is not None or not name.endswith(NEED_THE_TRUTH)
    }


def same_taste(planted: Planted, left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.bool_]:
    """In which behaviors two users have the same taste, [behaviors, pairs]."""
    tastes = [planted.tastes(k) for k in range(len(planted.behaviors))]
    return np.stack([taste[left] == taste[right] for taste in tastes])


def neighbor_purity(planted: Planted, *, masked: bool, seed: int, sample: int = 300) -> float:
    """How many of the 10 nearest planted neighbors of a user share its taste, mean over users and behaviors."""
    users = np.arange(min(sample, len(planted.levels)))
    shares = []
    for k in range(len(planted.behaviors)):
        alike = matches(planted, users, k if masked else None).astype(np.float64)
        alike[users, users] = -1
        alike += Stream(seed, "testbed", "purity", k).uniform(alike.shape) / 2  # ties by chance
        nearest = np.argsort(-alike, axis=1)[:, :10]
        shares.append(np.mean(planted.tastes(k)[nearest] == planted.tastes(k)[users][:, None]))
    return float(np.mean(shares))


def portrait(dataset: SocialDataset, split: Split) -> dict[str, float]:
    """What a network looks like, in numbers; of behaviors the mean."""
    facts = describe(dataset)
    behaviors, parts = facts["behaviors"], describe_split(dataset, split)["behaviors"]
    popularity_facts = [behavior["popularity"] for behavior in behaviors]
    return {
        "users": dataset.n_users,
        "items per behavior": mean_of(behaviors, "items"),
        "interactions per behavior": mean_of(behaviors, "interactions"),
        "most records of a user in a behavior": mean_of([b["records_per_user"] for b in behaviors], "max"),
        "users without any record, %": 100 * facts["users_without_records"] / dataset.n_users,
        "users without record in a behavior, %": 100 * mean_of(behaviors, "cold_user_share"),
        "test users without training record, %": 100 * mean_of(parts, "test_users_without_training"),
        "test interactions on items never in training, %": 100 * mean_of(parts, "test_on_untrained_items"),
        "interactions of the top tenth of the items, %": 100 * mean_of(popularity_facts, "top_tenth_share"),
        "users who have the top item, %": 100 * mean_of(popularity_facts, "max") / dataset.n_users,
        "friends, mean": facts["degree"]["mean"],
        "friends, median": facts["degree"]["median"],
        "friends, most": facts["degree"]["max"],
    }


def planted_portrait(dataset: SocialDataset, planted: Planted, *, seed: int) -> dict[str, float]:
    """How far tastes show in friendships, and in the nearest users by planted vectors."""
    source, target = dataset.graph.sources(), dataset.graph.indices
    strangers = Stream(seed, "testbed", "strangers").integers(dataset.n_users, len(source))
    linked, unlinked = same_taste(planted, source, target), same_taste(planted, source, strangers)
    whole, masked = (100 * neighbor_purity(planted, masked=masked, seed=seed) for masked in (False, True))
    return {
        "friends of one taste in some behavior, %": 100 * float(linked.any(axis=0).mean()),
        "random pairs of one taste in some behavior, %": 100 * float(unlinked.any(axis=0).mean()),
        "friends of one taste in a given behavior, %": 100 * float(linked.mean()),
        "random pairs of one taste in a given behavior, %": 100 * float(unlinked.mean()),
        "nearest 10 of one taste in a given behavior, whole vectors, %": whole,
        "nearest 10 of one taste in a given behavior, masked vectors, %": masked,
    }


def mean_of(rows: list[dict[str, Any]], key: str) -> float:
    return float(np.mean([row[key] for row in rows]))


def ranking_table(results: list[dict[str, NDArray[Any]]]) -> list[str]:
    """Mean ± sd over networks; of a ranker's variants the one with the best mean NDCG."""
    lines = ["| ranker | | Recall@5 | NDCG@5 |", "|---|---|---|---|"]
    for name in results[0]:
        variants = RANKERS[name]
        runs = 100 * np.stack([result[name] for result in results])  # [networks, variants, 2]
        best = int(runs.mean(axis=0)[:, 1].argmax())
        mean, sd = runs[:, best].mean(axis=0), runs[:, best].std(axis=0, ddof=min(1, len(runs) - 1))
        cells = " | ".join(f"{m:.1f} ± {s:.1f}" for m, s in zip(mean, sd, strict=True))
        lines.append(f"| {name} | {list(variants)[best]} | {cells} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=SyntheticConfig.users)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--data", type=Path, help="a prepared dataset instead: random splits, rankers without the truth"
    )
    chosen = parser.parse_args()
    results = []
    portraits = []
    for seed in range(chosen.seeds):
        planted = None
        if chosen.data:
            dataset = SocialDataset.load(chosen.data)
        else:
            dataset, planted = generate(SyntheticConfig(users=chosen.users, seed=seed))
        split = random_split(dataset, seed=seed)
        results.append(score_network(dataset, planted, split, seed=seed))
        truth = {} if planted is None else planted_portrait(dataset, planted, seed=seed)
        portraits.append(portrait(dataset, split) | truth)
    print(f"mean over {chosen.seeds} seeds\n\n| | |\n|---|---|")
    for fact in portraits[0]:
        print(f"| {fact} | {np.mean([numbers[fact] for numbers in portraits]):,.1f} |")
    print("\n" + "\n".join(ranking_table(results)))


if __name__ == "__main__":
    main()
