"""Users who are held out leave nothing in what is trained on, and are asked about nothing that nobody else has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.errors import refused
from tests.small_training import small_network

from mcne.data.behavior import Attribute
from mcne.data.dataset import SocialDataset
from mcne.data.graph import directed, undirected
from mcne.data.ids import Ids
from mcne.data.split import TEST, TRAIN, VALIDATION, random_split
from mcne.errors import DataError
from mcne.studies.new_users import HeldOut, hold_out, known_of


@pytest.fixture(scope="module")
def data() -> SocialDataset:
    made = small_network(seed=1)
    city = np.arange(-1, 499, dtype=np.int32) % 3
    facts = {"age": Attribute(np.arange(500.0)), "city": Attribute(city, Ids(["a", "b", "c"]))}
    return replace(made, attributes=facts)


@pytest.fixture(scope="module")
def held(data: SocialDataset) -> HeldOut:
    return hold_out(data, share=0.2, seed=3)


def records(dataset: SocialDataset, k: int, part: np.ndarray | None = None) -> set[tuple[object, object]]:
    behavior = dataset.behaviors[k]
    mine = slice(None) if part is None else part
    return set(zip(dataset.users.take(behavior.user[mine]), behavior.items.take(behavior.item[mine]), strict=True))


def test_nothing_of_them_is_trained_on(data: SocialDataset, held: HeldOut) -> None:
    kept, asked = set(held.kept.users), set(held.whole.users.take(held.asked))
    assert len(kept) == 400
    assert held.held_out == 100
    assert 50 < len(asked) <= 100
    assert not kept & asked
    assert set(held.whole.users) == kept | asked
    of_kept = {raw: {data.users[int(n)] for n in data.graph.neighbors(data.users.row(raw))} & kept for raw in kept}
    for row, raw in enumerate(held.kept.users):
        assert {held.kept.users[int(n)] for n in held.kept.graph.neighbors(row)} == of_kept[raw]
    for k in range(2):
        assert records(held.kept, k) == {(user, item) for user, item in records(data, k) if user in kept}


def test_parts_are_those_of_the_random_split(data: SocialDataset, held: HeldOut) -> None:
    split = random_split(data, seed=3)
    kept = set(held.kept.users)
    asked = set(held.whole.users.take(held.asked))
    for k in range(2):
        known = set(held.kept.behaviors[k].items)
        for part in (TRAIN, VALIDATION, TEST):
            in_part = records(data, k, split.parts[k] == part)
            assert records(held.kept, k, held.kept_split.parts[k] == part) == {p for p in in_part if p[0] in kept}
            mine = {pair for pair in in_part if pair[0] in asked and pair[1] in known}
            rated = records(held.whole, k, held.random.parts[k] == part)
            assert {pair for pair in rated if pair[0] in asked} == mine
            if part == TEST:
                assert records(held.whole, k, held.split.parts[k] == part) == mine


def test_items_are_those_of_kept_users_in_all_of_it(held: HeldOut) -> None:
    for kept, whole in zip(held.kept.behaviors, held.whole.behaviors, strict=True):
        assert kept.items == whole.items


def test_attributes_stay_with_their_users(data: SocialDataset, held: HeldOut) -> None:
    for some in (held.kept, held.whole):
        rows = data.users.rows(np.asarray(some.users.arrow()))
        assert np.array_equal(some.attributes["age"].values, data.attributes["age"].values[rows])
        assert np.array_equal(some.attributes["city"].values, data.attributes["city"].values[rows])


def test_what_is_told_is_links_to_kept_users_and_training_records(data: SocialDataset, held: HeldOut) -> None:
    told = known_of(held)
    kept = set(held.kept.users)
    asked = set(held.whole.users.take(held.asked))
    for source, target in zip(*(told["links"][name].to_pylist() for name in ("source_id", "target_id")), strict=True):
        assert source in asked
        assert target in kept
        assert data.users.row(target) in data.graph.neighbors(data.users.row(source))
    assert set(told["links"]["source_id"].to_pylist()) == set(told["history"]["user_id"].to_pylist()) == asked
    for k, behavior in enumerate(held.whole.behaviors):
        mine = told["history"].filter(np.array(told["history"]["behavior"].to_pylist()) == behavior.name)
        pairs = set(zip(mine["user_id"].to_pylist(), map(int, mine["item_id"].to_pylist()), strict=True))
        training = records(held.whole, k, held.split.parts[k] == TRAIN)
        assert pairs == {pair for pair in training if pair[0] in asked}
    city = dict(zip(told["attributes"]["user_id"].to_pylist(), told["attributes"]["city"].to_pylist(), strict=True))
    assert all(city[raw] == "abc"[(data.users.row(raw) - 1) % 3] for raw in asked if data.users.row(raw))


def test_the_seed_decides_who(data: SocialDataset, held: HeldOut) -> None:
    again, other = hold_out(data, share=0.2, seed=3), hold_out(data, share=0.2, seed=4)
    assert again.kept.fingerprint == held.kept.fingerprint
    assert again.split.fingerprint == held.split.fingerprint
    assert other.kept.fingerprint != held.kept.fingerprint


def test_without_friends_nobody_can_be_asked(data: SocialDataset) -> None:
    nobody = np.zeros(0, dtype=np.int32)
    alone = replace(data, graph=undirected(500, nobody, nobody)[0])
    with refused(DataError, place="synthetic", value=100):
        hold_out(alone, share=0.2, seed=0)


def test_in_a_directed_network_who_follows_a_kept_user_is_asked_about(data: SocialDataset) -> None:
    source, target = data.graph.sources(), data.graph.indices
    once = source < target
    graph, _ = directed(data.n_users, source[once], target[once])
    held = hold_out(replace(data, graph=graph), share=0.2, seed=3)
    kept = set(held.kept.users)
    assert held.kept.graph.is_directed
    told = known_of(held)["links"]
    follows = list(zip(told["source_id"].to_pylist(), told["target_id"].to_pylist(), strict=True))
    assert {source for source, _ in follows} == set(held.whole.users.take(held.asked))
    for follower, followed in follows:
        assert followed in kept
        assert data.users.row(follower) < data.users.row(followed)  # as this network was made
