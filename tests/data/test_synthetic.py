"""The synthetic network: what is planted is there, in the stated strength, and the test bed tells rankers apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.testbed import matches, neighbor_scores
from numpy.typing import NDArray
from scipy import sparse
from tests.errors import refused
from typer.testing import CliRunner

from mcne.cli.main import app
from mcne.data import synthetic
from mcne.data.dataset import SocialDataset
from mcne.data.graph import Graph, undirected
from mcne.data.split import TEST, TRAIN, random_split
from mcne.data.synthetic import SPREAD, Planted, SyntheticConfig, draw_rank, generate, heavy_tailed, rank_chances
from mcne.errors import ArtifactError, UsageError
from mcne.randomness import Stream

SMALL = SyntheticConfig(users=600, seed=3)
SIGMAS = 4.5  # seeds are fixed, so a test that passes once passes always


@pytest.fixture(scope="module")
def network() -> tuple[SocialDataset, Planted]:
    return generate(SMALL)


# --- the same seed, the same bytes --------------------------------------------------------------------------------


def test_the_seed_decides_everything(network: tuple[SocialDataset, Planted], tmp_path: Path) -> None:
    dataset, planted = network
    again, planted_again = generate(SMALL)
    assert again.fingerprint == dataset.fingerprint
    assert planted_again.save(tmp_path / "b") == planted.save(tmp_path / "a")
    assert generate(replace(SMALL, seed=4))[0].fingerprint != dataset.fingerprint


def test_bytes_are_pinned(network: tuple[SocialDataset, Planted]) -> None:
    dataset, planted = network
    books = dataset.behavior("Books")
    assert planted.levels[0].tolist() == [2, 2, 4, 1, 4, 3]
    assert dataset.graph.neighbors(0).tolist() == [32, 124, 131, 390, 391, 443, 548]
    assert books.item[books.user == 1].tolist() == [110, 214, 292]


def test_chunks_leave_no_trace(network: tuple[SocialDataset, Planted], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "USERS_AT_ONCE", 7)
    monkeypatch.setattr(synthetic, "STUBS_AT_ONCE", 11)
    assert generate(SMALL)[0].fingerprint == network[0].fingerprint


def test_more_behaviors_leave_the_first_as_they_were(network: tuple[SocialDataset, Planted]) -> None:
    few, _ = generate(replace(SMALL, behaviors=2))
    for name in ("Books", "Movies"):
        assert np.array_equal(few.behavior(name).user, network[0].behavior(name).user)
        assert np.array_equal(few.behavior(name).item, network[0].behavior(name).item)


# --- what is planted ----------------------------------------------------------------------------------------------


def test_masks_overlap_within_families_alone(network: tuple[SocialDataset, Planted]) -> None:
    planted = network[1]
    assert planted.levels.shape == (600, 6)  # 2 families, 4 behaviors
    assert planted.levels.min() == 0
    assert planted.levels.max() == 5
    masks = planted.masks
    assert masks.shape == (4, 36)
    overlap = masks.astype(int) @ masks.T.astype(int)
    assert overlap.tolist() == [[12, 6, 0, 0], [6, 12, 0, 0], [0, 0, 12, 6], [0, 0, 6, 12]]


def test_masked_products_count_the_factors_on_which_users_agree(network: tuple[SocialDataset, Planted]) -> None:
    planted = network[1]
    vectors, masks = planted.user_vectors(), planted.masks
    assert np.array_equal(vectors.sum(axis=1), np.full(600, 6))
    users = np.array([5, 17, 300])
    assert np.array_equal(matches(planted, users), vectors[users] @ vectors.T)
    for k in range(4):
        assert np.array_equal(matches(planted, users, k), (vectors[users] * masks[k]) @ vectors.T)
        assert np.array_equal(matches(planted, users, k) == 2, planted.tastes(k)[users][:, None] == planted.tastes(k))


def test_an_odd_behavior_is_a_family_of_its_own() -> None:
    _, planted = generate(replace(SMALL, behaviors=3))
    assert planted.factors.tolist() == [[0, 2], [0, 3], [1, 4]]


def test_levels_of_users_are_uniform_and_of_items_balanced() -> None:
    _, planted = generate(replace(SMALL, users=20_000))
    shares = np.stack([np.bincount(column, minlength=6) for column in planted.levels.T]) / 20_000
    assert np.abs(shares - 1 / 6).max() < SIGMAS * np.sqrt(5 / 36 / 20_000)
    for catalog in planted.catalogs:
        pairs = np.bincount(catalog.levels[:, 0] * 6 + catalog.levels[:, 1], minlength=36)
        assert pairs.max() - pairs.min() <= 1
        assert np.array_equal(np.sort(catalog.ranking), np.arange(len(catalog)))


def test_the_truth_is_no_part_of_the_dataset(network: tuple[SocialDataset, Planted], tmp_path: Path) -> None:
    dataset, planted = network
    dataset.save(tmp_path / "data")
    planted.save(tmp_path / "planted")
    saved = {path.name for path in (tmp_path / "data").iterdir()}
    assert not saved & {path.name for path in (tmp_path / "planted").glob("*.npy")}
    assert not dataset.attributes
    assert dataset.provenance["synthetic"]["items_per_behavior"] == 300
    with refused(ArtifactError, place="planted", value="mcne planted truth"):
        SocialDataset.load(tmp_path / "planted")


def test_truth_survives_saving(network: tuple[SocialDataset, Planted], tmp_path: Path) -> None:
    planted = network[1]
    planted.save(tmp_path / "planted")
    loaded = Planted.load(tmp_path / "planted")
    assert (loaded.behaviors, loaded.shares, loaded.head) == (planted.behaviors, planted.shares, planted.head)
    assert loaded.provenance == planted.provenance
    assert np.array_equal(loaded.masks, planted.masks)
    users = np.arange(50)
    assert np.array_equal(loaded.user_vectors(users), planted.user_vectors()[users])
    for k in range(4):
        assert np.array_equal(loaded.probabilities(k, users), planted.probabilities(k, users))


def test_a_flipped_byte_of_the_truth_is_noticed(network: tuple[SocialDataset, Planted], tmp_path: Path) -> None:
    network[1].save(tmp_path / "planted")
    file = tmp_path / "planted" / "levels.npy"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(ArtifactError, match=r"levels\.npy"):
        Planted.load(tmp_path / "planted")


# --- records ------------------------------------------------------------------------------------------------------


def test_ranks_follow_their_law() -> None:
    assert rank_chances(2, head=8) == pytest.approx([np.log(9 / 8) / np.log(10 / 8), np.log(10 / 9) / np.log(10 / 8)])
    for size in (1, 2, 55, 1000):
        chances = rank_chances(size, head=8)
        assert chances.sum() == pytest.approx(1)
        grid = (np.arange(200_000) + 0.5) / 200_000  # evenly spread, so counts differ from the law by rounding alone
        counts = np.bincount(draw_rank(np.full(len(grid), size), grid, head=8), minlength=size)
        assert len(counts) == size
        assert np.abs(counts - chances * len(grid)).max() <= 1
        assert draw_rank(np.array([size]), np.array([1 - 2.0**-53]), head=8) == size - 1


def naive_probabilities(planted: Planted, k: int, user: int) -> NDArray[np.float64]:
    catalog = planted.catalogs[k]
    mine = planted.levels[user, planted.factors[k]]
    chances = np.zeros(len(catalog))
    tests: list[Callable[[Any], bool]] = [
        lambda levels: bool(levels[0] == mine[0] and levels[1] == mine[1]),
        lambda levels: bool(levels[0] == mine[0]),
        lambda levels: bool(levels[1] == mine[1]),
        lambda _: True,
    ]
    for share, suits in zip(planted.shares, tests, strict=True):
        pool = [item for item in catalog.ranking if suits(catalog.levels[item])]
        for rank, item in enumerate(pool):
            chances[item] += share * np.log((8 + rank + 1) / (8 + rank)) / np.log((8 + len(pool)) / 8)
    return chances


def test_probabilities_equal_a_naive_loop(network: tuple[SocialDataset, Planted]) -> None:
    planted = network[1]
    users = np.array([0, 7, 599])
    for k in range(4):
        chances = planted.probabilities(k, users)
        assert chances.sum(axis=1) == pytest.approx(1)
        for row, user in enumerate(users):
            np.testing.assert_allclose(chances[row], naive_probabilities(planted, k, int(user)), rtol=1e-12)


def test_draws_follow_the_probabilities(network: tuple[SocialDataset, Planted]) -> None:
    planted = network[1]
    draws = 200_000
    taste = np.full(draws, planted.tastes(1)[0])
    kinds, ranks = Stream(0, "kinds"), Stream(0, "ranks")
    items = synthetic._draw_items(planted.catalogs[1].pools(), taste, 6, kinds=kinds, ranks=ranks)
    chances = planted.probabilities(1, np.array([0]))[0]
    counts = np.bincount(items, minlength=len(chances))
    assert np.all(np.abs(counts - draws * chances) < SIGMAS * np.sqrt(draws * chances))


def test_records_match_tastes_as_planted(network: tuple[SocialDataset, Planted]) -> None:
    """Of n draws an item is among the distinct ones with chance 1 − (1 − p)^n: count them all, and those that match."""
    dataset, planted = network
    for k, behavior in enumerate(dataset.behaviors):
        drawn = heavy_tailed(Stream(3, "synthetic", "records", k), 600, mean=SMALL.records_per_user)
        active = np.bincount(behavior.user, minlength=600) > 0
        expected = 1 - (1 - planted.probabilities(k, np.arange(600))) ** (drawn * active)[:, None]
        levels = planted.levels[:, planted.factors[k]]
        fit = np.all(planted.catalogs[k].levels[None] == levels[:, None], axis=2)  # [users, items]
        catalog_row = np.asarray(behavior.items.arrow())[behavior.item] - 1
        for which in (np.ones_like(fit), fit):
            matching = np.count_nonzero(which[behavior.user, catalog_row])
            variance = np.sum((expected * (1 - expected))[which])
            assert abs(matching - expected[which].sum()) < SIGMAS * np.sqrt(variance)


def test_cold_users_are_as_many_as_planned() -> None:
    dataset, _ = generate(replace(SMALL, users=10_000))
    active = np.stack([np.bincount(b.user, minlength=10_000) > 0 for b in dataset.behaviors])
    nowhere = synthetic.COLD_EVERYWHERE + (1 - synthetic.COLD_EVERYWHERE) * synthetic.COLD_IN_BEHAVIOR**4
    here = 1 - (1 - synthetic.COLD_EVERYWHERE) * (1 - synthetic.COLD_IN_BEHAVIOR)
    for planned, share in [(nowhere, np.mean(~active.any(axis=0))), *((here, np.mean(~a)) for a in active)]:
        assert abs(share - planned) < SIGMAS * np.sqrt(planned * (1 - planned) / 10_000)


def test_times_lie_in_their_period(network: tuple[SocialDataset, Planted]) -> None:
    for behavior in network[0].behaviors:
        times = behavior.timestamp
        assert times is not None
        assert times.dtype == np.int64
        assert synthetic.FIRST_SECOND <= times.min() < times.max() < synthetic.FIRST_SECOND + synthetic.PERIOD


# --- attributes ---------------------------------------------------------------------------------------------------


TOLD = [0, 1, 2, None, 3, 4, 5, None, 0, 1, 2, None]  # the factor that each of twelve attributes tells of


def between(values: NDArray[np.float64], levels: NDArray[Any]) -> float:
    """The share of the variance of an attribute that lies between levels."""
    means = np.bincount(levels, values) / np.bincount(levels)
    return float(np.var(means[levels]) / np.var(values))


def hits(columns: NDArray[np.float64], levels: NDArray[Any]) -> float:
    """How often the nearest mean of a level, learned from one half of the users, is the level of the other half."""
    half = len(levels) // 2
    means = np.stack([columns[:half][levels[:half] == level].mean(axis=0) for level in range(6)])
    distance = np.square(columns[half:, None] - means).sum(axis=2)
    return float(np.mean(distance.argmin(axis=1) == levels[half:]))


def test_without_attributes_everything_is_as_it_was(network: tuple[SocialDataset, Planted]) -> None:
    dataset = network[0]
    assert dataset.fingerprint == "a5a83513bf842c4ba2769c8c1fdb96ee745b69eadb088c523aac1fd9faa4f774"
    assert "attributes" not in dataset.provenance["synthetic"]


def test_the_seed_decides_attributes_and_attributes_nothing_else(
    network: tuple[SocialDataset, Planted], tmp_path: Path
) -> None:
    told, planted = generate(replace(SMALL, attributes=5))
    assert told.fingerprint == generate(replace(SMALL, attributes=5))[0].fingerprint != network[0].fingerprint
    assert replace(told, attributes={}).fingerprint == network[0].fingerprint
    assert planted.save(tmp_path / "told") == network[1].save(tmp_path / "untold")
    assert told.provenance["synthetic"]["attributes"] == 5
    other = generate(replace(SMALL, attributes=5, seed=4))[0].attributes
    assert not any(np.array_equal(other[name].values, told.attributes[name].values) for name in other)


def test_bytes_of_attributes_are_pinned() -> None:
    attributes = generate(replace(SMALL, attributes=4))[0].attributes
    first_values = {name: attribute.values[:3].tolist() for name, attribute in attributes.items()}
    assert first_values == {
        "trait_1": [1.843, 0.226, 0.407],
        "trait_2": [1.174, -0.699, -1.023],
        "trait_3": [2.197, -0.699, -0.405],
        "trait_4": [-0.37, -0.195, 1.412],
    }


def test_more_attributes_leave_the_first_as_they_were() -> None:
    few, many = (generate(replace(SMALL, attributes=n))[0].attributes for n in (3, 12))
    assert list(many) == [f"trait_{n}" for n in range(1, 13)]
    assert all(np.array_equal(few[name].values, many[name].values) for name in few)
    assert len({attribute.values.tobytes() for attribute in many.values()}) == 12


def test_attributes_tell_of_their_factor_and_every_fourth_of_none() -> None:
    n = 20_000
    dataset, planted = generate(replace(SMALL, users=n, attributes=len(TOLD)))
    chance = 30 / n  # which χ² of 5 degrees of freedom, over n, is above once in 68,000
    for attribute, told in zip(dataset.attributes.values(), TOLD, strict=True):
        shares = [between(attribute.values, levels) for levels in planted.levels.T]
        assert all(share > 0.1 if factor == told else share < chance for factor, share in enumerate(shares))
        rest = attribute.values
        if told is not None:
            levels = planted.levels[:, told]
            rest = rest - (np.bincount(levels, rest) / np.bincount(levels))[levels]
        assert abs(np.var(rest) - 1) < SIGMAS * np.sqrt(2 / n)


def test_numbers_of_levels_are_standard_normal() -> None:
    dataset, planted = generate(replace(SMALL, users=20_000, attributes=100))
    means = []
    for n, attribute in enumerate(dataset.attributes.values()):
        if n % 4 != 3:
            levels = planted.levels[:, (n - n // 4) % 6]
            means.append(np.bincount(levels, attribute.values) / np.bincount(levels))
    numbers = np.concatenate(means)
    assert len(numbers) == 75 * 6
    assert abs(numbers.mean()) < SIGMAS / np.sqrt(len(numbers))
    assert abs(numbers.var() - 1) < SIGMAS * np.sqrt(2 / len(numbers))


@pytest.mark.parametrize(("attributes", "right"), [(32, 2 / 3), (96, 0.9)])
def test_attributes_tell_tastes_and_noise_does_not(attributes: int, right: float) -> None:
    n = 10_000
    dataset, planted = generate(replace(SMALL, users=n, attributes=attributes))
    columns = np.stack([attribute.values for attribute in dataset.attributes.values()], axis=1)
    is_noise = np.arange(attributes) % 4 == 3
    assert np.mean([hits(columns, levels) for levels in planted.levels.T]) == pytest.approx(right, abs=0.05)
    for levels in planted.levels.T:
        assert abs(hits(columns[:, is_noise], levels) - 1 / 6) < SIGMAS * np.sqrt(5 / 36 / (n // 2))


def test_the_command_plants_attributes(tmp_path: Path) -> None:
    command = ["data", "synthetic", "--users", "600", "--seed", "3"]
    for name, more in (("plain", []), ("told", ["--attributes", "4"])):
        made = CliRunner().invoke(app, [*command, *more, "--out", str(tmp_path / name)])
        assert made.exit_code == 0, made.output
    assert not SocialDataset.load(tmp_path / "plain").attributes
    told = SocialDataset.load(tmp_path / "told")
    assert told.fingerprint == generate(replace(SMALL, attributes=4))[0].fingerprint
    assert list(told.attributes) == ["trait_1", "trait_2", "trait_3", "trait_4"]


# --- friendships --------------------------------------------------------------------------------------------------


def ties(config: SyntheticConfig, monkeypatch: pytest.MonkeyPatch) -> tuple[NDArray[Any], NDArray[Any], Planted]:
    """Both ends of every tie, before repeated ties are merged."""
    caught: list[NDArray[Any]] = []

    def catch(n_users: int, source: NDArray[Any], target: NDArray[Any]) -> tuple[Graph, int]:
        caught.extend([source, target])
        return undirected(n_users, source, target)

    monkeypatch.setattr(synthetic, "undirected", catch)
    _, planted = generate(config)
    return caught[0], caught[1], planted


def tie_chances(planted: Planted, stubs: NDArray[Any], homophily: float, k: int) -> NDArray[np.float64]:
    """For every user, the exact chance that one of its ties goes to a user of the same taste in behavior ``k``."""
    tastes = [planted.tastes(c) for c in range(len(planted.behaviors))]
    alike = [taste[:, None] == taste for taste in tastes]
    weight = np.where(np.eye(len(stubs), dtype=bool), 0, stubs)  # [user, other]
    within = [np.sum(weight * (alike[c] & alike[k]), 1) / np.sum(weight * alike[c], 1) for c in range(len(tastes))]
    anyone = np.sum(weight * alike[k], 1) / np.sum(weight, 1)
    return np.asarray(homophily * np.mean(within, axis=0) + (1 - homophily) * anyone)


@pytest.mark.parametrize("homophily", [0.0, 0.9, 1.0])
def test_friends_share_tastes_as_planted(homophily: float, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target, planted = ties(replace(SMALL, homophily=homophily), monkeypatch)
    assert not np.any(source == target)
    stubs = np.bincount(source, minlength=600)
    for k in range(4):
        alike = np.count_nonzero(planted.tastes(k)[source] == planted.tastes(k)[target])
        chances = tie_chances(planted, stubs, homophily, k)[source]
        assert abs(alike - chances.sum()) < SIGMAS * np.sqrt(np.sum(chances * (1 - chances)))
    if homophily == 1:
        shared = np.stack([planted.tastes(k)[source] == planted.tastes(k)[target] for k in range(4)])
        assert shared.any(axis=0).all()


def test_a_user_without_peers_stays_without_those_ties(monkeypatch: pytest.MonkeyPatch) -> None:
    lonely = replace(SMALL, users=500, levels=16, homophily=1.0)  # 256 tastes: some have a single user
    source, target, planted = ties(lonely, monkeypatch)
    drawn = heavy_tailed(Stream(3, "synthetic", "stubs"), 500, mean=lonely.links_per_user)
    peers = [np.bincount(planted.tastes(k))[planted.tastes(k)] for k in range(4)]
    assert min(map(np.min, peers)) == 1
    assert not np.any(source == target)
    assert len(source) < drawn.sum()


def test_heavy_tails_have_their_mean_range_and_law() -> None:
    drawn = heavy_tailed(Stream(0, "tail"), 200_000, mean=1000.0)
    low = 1000 * (1 - 1 / SPREAD) / np.log(SPREAD)
    assert abs(drawn.mean() - 1000) < SIGMAS * drawn.std() / np.sqrt(len(drawn))
    assert int(low) <= drawn.min()
    assert drawn.max() <= low * SPREAD + 1
    for bound in (300, 1000, 10_000):
        planned = (low / bound - 1 / SPREAD) / (1 - 1 / SPREAD)
        assert abs(np.mean(drawn > bound) - planned) < SIGMAS * np.sqrt(planned / len(drawn)) + 0.001


def test_the_degree_law_does_not_depend_on_the_number_of_users() -> None:
    """With two levels tastes have many users, so hardly any tie is repeated and merged."""
    quantiles = []
    for users in (8_000, 32_000):
        degrees = generate(replace(SMALL, users=users, levels=2))[0].graph.degrees
        quantiles.append([degrees.mean(), *np.quantile(degrees, [0.1, 0.5, 0.9, 0.99])])
    assert quantiles[0] == pytest.approx(quantiles[1], rel=0.05)
    assert quantiles[1][0] == pytest.approx(2 * SMALL.links_per_user, rel=0.05)


# --- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"users": 499}, "users: 499 .*500 to 10,000,000"),
        ({"users": 10_000_001}, "500 to 10,000,000"),
        ({"behaviors": 0}, "1 to 16"),
        ({"behaviors": 17}, "1 to 16"),
        ({"levels": 1}, "levels: 1 "),
        ({"items_per_behavior": 35}, "items_per_behavior: 35 .*36 to"),
        ({"links_per_user": -0.1}, "links_per_user"),
        ({"records_per_user": float("nan")}, "records_per_user"),
        ({"homophily": 1.01}, "homophily"),
        ({"attributes": -1}, "attributes: -1 .*0 to 100"),
        ({"attributes": 101}, "attributes: 101 .*0 to 100"),
    ],
)
def test_what_is_out_of_range_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(SMALL, **change)


def test_one_behavior_and_no_links_work() -> None:
    dataset, planted = generate(replace(SMALL, users=500, behaviors=1, links_per_user=0.0))
    assert dataset.behavior_names == ["Books"]
    assert dataset.graph.n_links == 0
    assert planted.masks.shape == (1, 12 * SMALL.levels // 6)
    assert len(dataset.behaviors[0]) > 500


def test_the_largest_number_of_behaviors_works() -> None:
    dataset, planted = generate(replace(SMALL, users=500, behaviors=16))
    assert len(set(dataset.behavior_names)) == 16
    assert planted.masks.shape == (16, 24 * 6)


# --- the property that the docs claim -----------------------------------------------------------------------------


def recall(score: Callable[[int, NDArray[Any]], NDArray[Any]], dataset: SocialDataset, split: Any, k: int) -> float:
    """Recall@5 of the sampled protocol, user by user."""
    negatives = split.negatives["test"]["uniform"][k]
    behavior = dataset.behaviors[k]
    test_user, test_item = split.of(behavior, k, TEST)
    recalls = []
    for user, items in zip(negatives.users, negatives.items, strict=True):
        wanted = test_item[test_user == user]
        candidates = np.concatenate([wanted, items[items >= 0]])
        chance = Stream(0, "ties", k, int(user)).uniform(len(candidates))
        best = candidates[np.lexsort((chance, -score(int(user), candidates)))[:5]]
        recalls.append(np.isin(best, wanted).sum() / len(wanted))
    return float(np.mean(recalls))


def test_each_kind_of_knowledge_ranks_better_than_the_one_before(network: tuple[SocialDataset, Planted]) -> None:
    dataset, planted = network
    split = random_split(dataset, seed=0)
    graph = dataset.graph
    everyone = np.arange(600)
    links = sparse.csr_array((np.ones(graph.n_directions), graph.indices, graph.indptr), (600, 600))
    recalls = []
    for k, behavior in enumerate(dataset.behaviors):
        user, item = split.of(behavior, k, TRAIN)
        train = sparse.csr_array((np.ones(len(user)), (user, item)), (600, behavior.n_items))
        columns = np.asarray(behavior.items.arrow()) - 1
        tables = [
            np.tile(train.sum(axis=0), (600, 1)),
            (links @ train).toarray(),
            neighbor_scores(planted, everyone, train, behavior=None, sharpness=1.25),
            neighbor_scores(planted, everyone, train, behavior=k, sharpness=4.0),
            planted.probabilities(k, everyone)[:, columns],
        ]
        recalls.append([recall(lambda u, i, t=table: t[u, i], dataset, split, k) for table in tables])  # type: ignore[misc]
    popularity, friends, one_vector, per_behavior, bayes = np.mean(recalls, axis=0)
    assert popularity + 0.04 < friends
    assert friends + 0.04 < one_vector
    assert one_vector + 0.1 < per_behavior
    assert per_behavior + 0.04 < bayes
