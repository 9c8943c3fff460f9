"""What every method must do, whatever it is inside: mixed in by test_methods.py, where a new method takes one line."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.small_training import small_network
from torch import Tensor

from mcne.data.behavior import Attribute, Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.graph import Graph, undirected
from mcne.data.ids import Ids
from mcne.data.split import TEST, TRAIN, VALIDATION, Split, random_split, supplied_split
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.evaluation.protocol import evaluate
from mcne.models.contract import Embedder, Learner, Method, TrainingData
from mcne.models.registry import entry
from mcne.models.settings import TrainingSettings, parse
from mcne.training.journal import PlainReporter, RunJournal

CPU = torch.device("cpu")
Network = tuple[SocialDataset, Split]


@dataclass(frozen=True)
class Case:
    """A method of the registry with settings that make it small."""

    method: str
    settings: Mapping[str, Any]
    first_loss: float | None = math.log(2)
    """The loss of each behavior when nothing is known yet; None where it depends on what is drawn."""

    def make(self, data: TrainingData, *, seed: int = 1) -> Method:
        made = entry(self.method)
        (config,) = parse([made.config], self.settings)
        method: Method = made.make(data, config, seed=seed, device=CPU)
        return method

    def learner(self, data: TrainingData, *, seed: int = 1) -> Learner:
        method = self.make(data, seed=seed)
        assert isinstance(method, Learner)
        return method

    def embedder(self, data: TrainingData, *, seed: int = 1) -> Embedder:
        method = self.make(data, seed=seed)
        assert isinstance(method, Embedder)
        return method


def advance(method: Method, steps: int, *, first: int = 0) -> None:
    """Take steps, counted through the epochs; a method that does not learn stays as it is."""
    if isinstance(method, Learner) and method.n_steps:
        for at in range(first, first + steps):
            method.update(method.loss(method.prepare(*divmod(at, method.n_steps))))


def content(tensors: Mapping[str, Tensor]) -> dict[str, tuple[Any, ...]]:
    """Everything that two states can differ in."""
    return {name: (t.dtype, tuple(t.shape), t.detach().numpy().tobytes()) for name, t in tensors.items()}


def plain(batch: Any) -> Any:
    """A step's inputs as nested plain values, whatever a method makes of them."""
    if dataclasses.is_dataclass(batch):
        return {field.name: plain(getattr(batch, field.name)) for field in dataclasses.fields(batch)}
    if isinstance(batch, tuple | list):
        return [plain(part) for part in batch]
    array = batch.numpy() if isinstance(batch, Tensor) else np.asarray(batch)
    return array.dtype.str, array.shape, array.tobytes()


# networks


def attributes(n_users: int) -> dict[str, Attribute]:
    """An age and a city of every user, some of them unknown."""
    random = np.random.default_rng(4)
    age, city = random.normal(40, 10, n_users), random.integers(-1, 6, n_users).astype(np.int32)
    age[random.random(n_users) < 0.2] = np.nan
    return {"age": Attribute(age), "city": Attribute(city, Ids([f"city {k}" for k in range(6)]))}


@cache
def network() -> Network:
    """500 users with two behaviors, some of them without records."""
    dataset = small_network(seed=3)
    dataset = with_parts(dataset, attributes=attributes(500))
    return dataset, random_split(dataset, seed=0)


@cache
def training_data() -> TrainingData:
    return TrainingData.of(*network())


def behavior(name: str, users: NDArray[Any], items: NDArray[Any]) -> Behavior:
    """A behavior of these pairs, its catalog the items that occur."""
    ids, rows = np.unique(items, return_inverse=True)
    order = np.lexsort((rows, users))
    return Behavior(name, Ids(ids), users[order].astype(np.int32), rows[order].astype(np.int32))


def with_parts(dataset: SocialDataset, **changes: Any) -> SocialDataset:
    return dataclasses.replace(dataset, **changes)


def no_links(n_users: int) -> Graph:
    nobody = np.zeros(0, dtype=np.int32)
    return undirected(n_users, nobody, nobody)[0]


def _one_behavior() -> Network:
    dataset = with_parts(network()[0], behaviors=network()[0].behaviors[:1])
    return dataset, random_split(dataset, seed=0)


def _one_item() -> Network:
    """Whoever has the only item has touched the whole catalog."""
    dataset = network()[0]
    single = behavior("Single", np.arange(0, 500, 3), np.full(167, 7))
    dataset = with_parts(dataset, behaviors=(dataset.behaviors[0], single))
    return dataset, random_split(dataset, seed=0)


def _isolated_users() -> Network:
    """The first, the last and many other users have no friends."""
    dataset = network()[0]
    sources, targets = dataset.graph.sources(), dataset.graph.indices
    kept = (sources % 3 == 2) & (targets % 3 == 2)
    graph = undirected(dataset.n_users, sources[kept], targets[kept])[0]
    assert graph.degrees[0] == graph.degrees[-1] == 0 < graph.n_links
    return with_parts(dataset, graph=graph), random_split(with_parts(dataset, graph=graph), seed=0)


def _users_without_records() -> Network:
    """Twenty users have records, 480 have friends alone."""
    dataset = network()[0]
    few = []
    for each in dataset.behaviors:
        kept = np.isin(each.user, np.unique(each.user)[:20])
        few.append(behavior(each.name, each.user[kept], each.item[kept]))
    dataset = with_parts(dataset, behaviors=tuple(few))
    return dataset, random_split(dataset, seed=0)


def _empty_graph() -> Network:
    dataset = with_parts(network()[0], graph=no_links(500))
    return dataset, random_split(dataset, seed=0)


def _float_weights() -> Network:
    dataset = network()[0]
    sources, targets = dataset.graph.sources(), dataset.graph.indices
    weights = np.random.default_rng(0).uniform(1e-3, 9.5, len(sources)).astype(np.float32)
    dataset = with_parts(dataset, graph=undirected(500, sources, targets, weights)[0])
    return dataset, random_split(dataset, seed=0)


def _behavior_without_training() -> Network:
    dataset = network()[0]
    first = network()[1].parts[0]
    return dataset, supplied_split(dataset, [first, np.full(len(dataset.behaviors[1]), TEST, np.uint8)], seed=0)


def _nothing_to_train_on() -> Network:
    dataset = network()[0]
    return dataset, supplied_split(dataset, [np.full(len(b), TEST, np.uint8) for b in dataset.behaviors], seed=0)


def _smallest() -> Network:
    """One user, one item, no links."""
    dataset = SocialDataset("smallest", Ids(np.array([5])), no_links(1), (behavior("Only", np.zeros(1), np.zeros(1)),))
    return dataset, supplied_split(dataset, [np.full(1, TRAIN, np.uint8)], seed=0)


ODD_NETWORKS = {
    "one behavior": _one_behavior,
    "a behavior with one item": _one_item,
    "isolated users": _isolated_users,
    "users without records": _users_without_records,
    "an empty graph": _empty_graph,
    "float weights": _float_weights,
    "a behavior without training pairs": _behavior_without_training,
    "nothing to train on": _nothing_to_train_on,
    "one user and one item": _smallest,
}


@cache
def odd_network(kind: str) -> Network:
    return ODD_NETWORKS[kind]()


@cache
def poisoned() -> tuple[Network, Network]:
    """Two networks with the same training pairs over the same catalogs, and other pairs held out."""
    random = np.random.default_rng(5)
    dataset = network()[0]
    kept: list[NDArray[Any]] = []
    for each in dataset.behaviors:
        mine = random.random(len(each)) < 0.7
        mine[np.unique(each.item, return_index=True)[1]] = True  # so that the catalog is that of the training pairs
        kept.append(mine)
    return _held_out(dataset, kept, random), _held_out(dataset, kept, random)


def _held_out(dataset: SocialDataset, kept: list[NDArray[Any]], random: np.random.Generator) -> Network:
    behaviors, parts = [], []
    for each, mine in zip(dataset.behaviors, kept, strict=True):
        train = each.user[mine].astype(np.int64) * each.n_items + each.item[mine]
        held = np.setdiff1d(random.integers(0, dataset.n_users * each.n_items, 2000), train)
        keys = np.sort(np.concatenate([train, held]))
        user, item = np.divmod(keys, each.n_items)
        behaviors.append(Behavior(each.name, each.items, user.astype(np.int32), item.astype(np.int32)))
        part = random.integers(VALIDATION, TEST + 1, len(keys)).astype(np.uint8)
        part[np.isin(keys, train)] = TRAIN
        parts.append(part)
    changed = with_parts(dataset, behaviors=tuple(behaviors))
    return changed, supplied_split(changed, parts, seed=0)


# the contract


class MethodContract:
    """What every method promises."""

    def test_the_seed_decides(self, case: Case) -> None:
        first, second = case.make(training_data()), case.make(training_data())
        assert first.learned()
        assert content(first.learned()) == content(second.learned())
        for method in (first, second):
            advance(method, 5)
        assert content(first.learned()) == content(second.learned())

    def test_another_seed_gives_something_else_where_chance_is_used(self, case: Case) -> None:
        first, second = (case.make(training_data(), seed=seed) for seed in (1, 2))
        assert (content(first.learned()) != content(second.learned())) == isinstance(first, Learner)

    def test_the_data_stays_as_it_is(self, case: Case) -> None:
        dataset, split = network()
        data = TrainingData.of(dataset, split)
        before = [(users.tobytes(), items.tobytes()) for users, items in data.pairs]
        method = case.make(data)
        advance(method, 3)
        method.scorer().scores(0, np.arange(5))
        assert before == [(users.tobytes(), items.tobytes()) for users, items in data.pairs]

    def test_scores_are_finite_and_the_same_every_time(self, case: Case) -> None:
        method = case.make(training_data())
        advance(method, 3)
        users = np.array([499, 0, 7, 7])
        for k, n_items in enumerate(training_data().n_items):
            whole = method.scorer().scores(k, users)
            assert (whole.shape, whole.dtype.name) == ((4, n_items), "float32")
            assert np.all(np.isfinite(whole))
            assert whole.tobytes() == method.scorer().scores(k, users).tobytes()
            items = np.array([[n_items - 1, 0, 3], [0, 1, 2], [5, 5, 5], [6, 5, 4]])
            some = method.scorer().scores(k, users, items)
            assert (some.shape, some.dtype.name) == ((4, 3), "float32")
            np.testing.assert_allclose(some, np.take_along_axis(whole, items, axis=1), rtol=1e-5, atol=1e-7)
            assert some[2, 0] == some[2, 1] == some[2, 2] == some[3, 1]  # wherever the pair stands

    def test_asking_for_scores_changes_nothing(self, case: Case) -> None:
        asked, other = case.make(training_data()), case.make(training_data())
        for at in range(3):
            asked.scorer().scores(0, np.arange(3))
            if isinstance(asked, Embedder):
                asked.embeddings(network()[0], {})
            for method in (asked, other):
                advance(method, 1, first=at)
        assert content(asked.learned()) == content(other.learned())

    def test_what_was_learned_is_taken_over_and_then_its_own(self, case: Case) -> None:
        teacher, pupil = (case.make(training_data(), seed=seed) for seed in (1, 2))
        advance(teacher, 3)
        advance(pupil, 1)
        pupil.load(teacher.learned())
        taken = content(teacher.learned())
        assert content(pupil.learned()) == taken
        for k in range(2):
            ours, theirs = (method.scorer().scores(k, np.arange(500)) for method in (pupil, teacher))
            assert ours.tobytes() == theirs.tobytes()
        advance(teacher, 2, first=3)
        assert content(pupil.learned()) == taken

    def test_nothing_of_validation_or_test_is_seen(self, case: Case) -> None:
        (one, first), (other, second) = poisoned()
        assert one.fingerprint != other.fingerprint
        assert all(a.item.tobytes() != b.item.tobytes() for a, b in zip(one.behaviors, other.behaviors, strict=True))
        methods = [case.make(TrainingData.of(one, first)), case.make(TrainingData.of(other, second))]
        for method in methods:
            advance(method, 3)
        assert content(methods[0].learned()) == content(methods[1].learned())

    @pytest.mark.parametrize("kind", ODD_NETWORKS)
    def test_odd_networks(self, case: Case, kind: str, tmp_path: Path) -> None:
        dataset, split = odd_network(kind)
        data = TrainingData.of(dataset, split)
        method = case.make(data)
        for at in range(3):
            if isinstance(method, Learner) and method.n_steps:
                loss = method.loss(method.prepare(*divmod(at, method.n_steps)))
                assert torch.isfinite(loss.total), kind
                assert torch.isfinite(loss.per_behavior).all(), kind
                method.update(loss)
        assert all(torch.isfinite(value).all() for value in method.learned().values())
        for k, n_items in enumerate(data.n_items):
            scores = method.scorer().scores(k, np.arange(dataset.n_users))
            assert scores.shape == (dataset.n_users, n_items)
            assert np.all(np.isfinite(scores))
        if isinstance(method, Embedder):
            made = method.embeddings(dataset, {})
            made.save(tmp_path / "a")
            assert ConditionalEmbeddings.load(tmp_path / "a").fingerprint == made.fingerprint
        json.dumps(evaluate(method.scorer(), dataset, split, part="validation").summary(), allow_nan=False)


class EmbedderContract:
    """What a method that can be served promises beside."""

    def test_a_scorer_taken_for_evaluation_agrees_with_the_artifact(self, case: Case) -> None:
        method = case.embedder(training_data())
        advance(method, 3)
        scorer = method.scorer()
        embeddings = method.embeddings(network()[0], {})
        users = np.arange(500)
        for k, n_items in enumerate(training_data().n_items):
            items = np.random.default_rng(k).integers(0, n_items, (500, 20))
            for asked in (None, items):
                ours, theirs = scorer.scores(k, users, asked), embeddings.scores(k, users, asked)
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)

    def test_embeddings_come_back_from_disk(self, case: Case, tmp_path: Path) -> None:
        dataset = network()[0]
        method = case.embedder(training_data())
        advance(method, 3)
        made = method.embeddings(dataset, {"method": case.method, "seed": 1})
        assert made.save(tmp_path / "a") == made.fingerprint
        back = ConditionalEmbeddings.load(tmp_path / "a")
        assert (back.fingerprint, back.provenance) == (made.fingerprint, {"method": case.method, "seed": 1})
        assert (back.method, back.behavior_names) == (case.method, dataset.behavior_names)
        for k, space in enumerate(back.spaces):
            assert back.scores(k, np.arange(500)).tobytes() == made.scores(k, np.arange(500)).tobytes()
            assert np.array_equal(space.seen_items, dataset.behaviors[k].item)
        assert len(back.recommend(dataset.users[0], dataset.behavior_names[0], k=3)) == 3

    def test_the_artifact_is_its_own(self, case: Case) -> None:
        method = case.embedder(training_data())
        made = method.embeddings(network()[0], {})
        before = [made.scores(k, np.arange(500)).tobytes() for k in range(2)]
        advance(method, 3)
        assert before == [made.scores(k, np.arange(500)).tobytes() for k in range(2)]


class LearnerContract:
    """What a method that learns step by step promises beside."""

    def test_preparing_is_pure(self, case: Case) -> None:
        """The same in any order, again, in threads, and whatever was learned meanwhile."""
        method, other = case.learner(training_data()), case.learner(training_data())
        places = [(epoch, step) for epoch in range(3) for step in range(method.n_steps)]
        before = content(method.learned()) | content(method.memory())
        expected = {place: plain(method.prepare(*place)) for place in places}
        assert len({repr(batch) for batch in expected.values()}) == len(places)
        assert {place: plain(other.prepare(*place)) for place in reversed(places)} == expected
        assert content(method.learned()) | content(method.memory()) == before
        with ThreadPoolExecutor(8) as pool:
            drawn = list(pool.map(lambda place: (place, plain(method.prepare(*place))), places * 3))
        assert all(batch == expected[place] for place, batch in drawn)
        advance(method, 4)
        assert {place: plain(method.prepare(*place)) for place in places} == expected

    def test_the_seed_decides_what_is_drawn(self, case: Case) -> None:
        one, other = (case.learner(training_data(), seed=seed) for seed in (1, 2))
        assert plain(one.prepare(0, 0)) != plain(other.prepare(0, 0))

    def test_a_few_steps_lower_the_loss(self, case: Case) -> None:
        method = case.learner(training_data())
        batch = method.prepare(0, 0)
        first = method.loss(batch)
        for _ in range(40):
            method.update(method.loss(batch))
        last = method.loss(batch)
        assert last.total.item() < first.total.item() - 0.01
        assert torch.all(last.per_behavior < first.per_behavior)

    def test_the_loss_says_what_people_want_to_see(self, case: Case) -> None:
        method = case.learner(training_data())
        loss = method.loss(method.prepare(0, 0))
        assert (loss.total.shape, loss.per_behavior.shape) == ((), (2,))
        assert loss.total.requires_grad
        assert not loss.per_behavior.requires_grad
        if case.first_loss is not None:
            np.testing.assert_allclose(loss.per_behavior.numpy(), case.first_loss, atol=0.05)
        assert 0 < loss.examples <= sum(len(users) for users, _ in training_data().pairs)
        vitals = method.vitals()
        assert json.loads(json.dumps(vitals, allow_nan=False)) == vitals

    def test_asking_for_the_loss_changes_nothing(self, case: Case) -> None:
        asked, other = case.learner(training_data()), case.learner(training_data())
        for at in range(3):
            before = content(asked.learned()) | content(asked.memory())
            totals = [asked.loss(asked.prepare(0, at)).total.item() for _ in range(3)]
            assert totals[0] == totals[1] == totals[2]
            assert content(asked.learned()) | content(asked.memory()) == before
            advance(asked, 1, first=at)
            advance(other, 1, first=at)
        assert content(asked.learned()) | content(asked.memory()) == content(other.learned()) | content(other.memory())

    def test_state_taken_over_gives_the_same_next_steps(self, case: Case) -> None:
        """By a fresh instance, and by one that has learned something else."""
        whole = case.learner(training_data())
        advance(whole, 5)
        fresh, used = case.learner(training_data()), case.learner(training_data())
        advance(used, 7, first=20)
        for method in (fresh, used):
            method.load(whole.learned())
            method.load_memory(whole.memory())
        for method in (whole, fresh, used):
            advance(method, 5, first=5)
        for method in (fresh, used):
            assert content(method.learned()) == content(whole.learned())
            assert content(method.memory()) == content(whole.memory())
            assert method.vitals() == whole.vitals()

    def test_state_survives_the_disk(self, case: Case, tmp_path: Path) -> None:
        whole, resumed = case.learner(training_data()), case.learner(training_data())
        advance(whole, 5)
        state = {"learned": whole.learned(), "memory": whole.memory()}
        lines: list[str] = []
        journal = RunJournal(tmp_path, "run", TrainingSettings(), PlainReporter(lines.append, epochs=1))
        journal.checkpoint({"steps_done": 5, "records": 0}, state)
        saved = journal.newest_checkpoint(CPU)
        assert saved is not None
        assert not lines
        assert {group: content(tensors) for group, tensors in saved.state.items()} == {
            group: content(tensors) for group, tensors in state.items()
        }
        resumed.load(saved.state["learned"])
        resumed.load_memory(saved.state["memory"])
        for method in (whole, resumed):
            advance(method, 5, first=5)
        assert content(whole.learned()) | content(whole.memory()) == content(resumed.learned()) | content(
            resumed.memory()
        )

    def test_what_is_kept_is_no_part_of_a_computation(self, case: Case) -> None:
        learner = case.learner(training_data())
        advance(learner, 1)
        for name, tensor in (learner.learned() | learner.memory()).items():
            assert not tensor.requires_grad, name

    def test_memory_taken_over_is_its_own(self, case: Case) -> None:
        teacher, pupil = case.learner(training_data()), case.learner(training_data())
        advance(teacher, 3)
        memory = {name: value.clone() for name, value in teacher.memory().items()}
        pupil.load_memory(memory)
        taken = content(memory)
        advance(pupil, 2)
        assert content(memory) == taken
