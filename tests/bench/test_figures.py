"""What is measured: forms of a step that compute the same, floors of ranking, and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from benchmarks.history import line
from tests.small_training import small_network

from mcne.data.graph import undirected
from mcne.data.split import PARTS, random_split
from mcne.embeddings.ranking import DotScorer
from mcne.errors import UsageError
from mcne.kernels.backend import backend_for
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.models.neighborhoods import Batch
from mcne_bench.figures import (
    BEST,
    Contender,
    Figure,
    Measurement,
    NotMeasuredError,
    Taken,
    best_by_numpy,
    best_by_torch,
    best_of_drawn,
    choose,
    matrix_products,
    medians,
    multiplications,
    plain_operations,
    scored,
    stepping,
)
from mcne_bench.literal import LiteralStep


def measurement(key: str, take: Callable[[], Taken] = lambda: Taken(1.0, "")) -> Measurement:
    return Measurement(key, "time of ours", "theirs", 2, take)


ALL = [measurement(key) for key in ("step.literal", "step.plain", "ranking", "start")]


@pytest.mark.parametrize(
    ("value", "at_most", "verdict"),
    [(2.0, 2.0, "reached"), (2.01, 2.0, "MISSED"), (None, 2.0, "not run"), (5.0, None, "measured")],
)
def test_a_figure_is_judged_by_what_it_should_reach(value: float | None, at_most: float | None, verdict: str) -> None:
    figure = Figure("time of ours", value, "×", at_most, "detail", "theirs", "step.plain")
    assert figure.verdict == verdict
    assert figure.is_missed == (verdict == "MISSED")
    assert line(figure).startswith(verdict)
    assert "detail" in line(figure)


def test_what_cannot_be_measured_says_why() -> None:
    def take() -> Taken:
        raise NotMeasuredError("no GPU here")

    figure = measurement("gpu", take).figure()
    assert (figure.value, figure.detail, figure.is_missed) == (None, "no GPU here", False)


def test_what_was_measured_keeps_its_target() -> None:
    figure = measurement("step.plain", lambda: Taken(0.5, "1 ms against 2 ms")).figure()
    assert figure == Figure("time of ours", 0.5, "×", 2, "1 ms against 2 ms", "theirs", "step.plain")


@pytest.mark.parametrize(
    ("asked", "keys"),
    [
        ([], ["step.literal", "step.plain", "ranking", "start"]),
        (["step"], ["step.literal", "step.plain"]),
        (["start", "step.plain"], ["step.plain", "start"]),
    ],
)
def test_figures_are_chosen_by_name_and_group(asked: list[str], keys: list[str]) -> None:
    assert [each.key for each in choose(ALL, asked)] == keys


@pytest.mark.parametrize("asked", ["stp", "st", "step.", "STEP"])
def test_an_unknown_name_is_refused_with_the_nearest(asked: str) -> None:
    with pytest.raises(UsageError, match=f"unknown figure '{asked}'.*step.literal"):
        choose(ALL, ["ranking", asked])


def test_contenders_take_turns_and_warm_up_counts_for_nothing() -> None:
    asked: list[tuple[str, int]] = []

    def work(name: str, seconds: list[float]) -> Callable[[int], float]:
        def answer(number: int) -> float:
            asked.append((name, number))
            return seconds[number]

        return answer

    contenders = {
        "a": Contender(work("a", [99, 99, 1, 2, 7, 3]), per_round=2, has_clock=True),
        "b": Contender(work("b", [99, 5, 6]), has_clock=True),
    }
    assert medians(contenders, rounds=2) == {"a": 2.5, "b": 5.5}
    assert [name for name, _ in asked] == ["a", "a", "b"] * 3
    assert [number for name, number in asked if name == "a"] == [0, 1, 2, 3, 4, 5]


def test_work_without_a_clock_is_timed() -> None:
    taken = medians({"long": Contender(lambda _: sum(range(200_000))), "short": Contender(lambda _: 1e9)}, rounds=3)
    assert 0 < taken["short"] < taken["long"]


USERS, BEHAVIORS = 21, 2
CONFIG = MCNEConfig(widths=(12, 8, 6), neighbor_samples=(3, 2), attention_width=5, batch_size=16, l2=0.1)


@pytest.fixture
def double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def data(double_precision: None) -> TrainingData:
    """Everyone has one neighbor, so that chance decides nothing, but for the last user, who has none."""
    source = np.arange(0, USERS - 1, 2)
    random = np.random.default_rng(0)
    pairs = []
    for _ in range(BEHAVIORS):
        user, item = np.divmod(np.sort(random.choice(USERS * 30, 100, replace=False)), 30)
        pairs.append((user.astype(np.int32), item.astype(np.int32)))
    return TrainingData(undirected(USERS, source, source + 1)[0], ("read", "watch"), (30, 30), tuple(pairs))


def model_of(data: TrainingData) -> MCNE:
    return MCNE(data, CONFIG, seed=0, device=torch.device("cpu"))


def test_the_literal_form_is_the_same_model(data: TrainingData) -> None:
    model, literal = model_of(data), LiteralStep(model_of(data))
    with torch.no_grad():
        for parameter in (*model.network.parameters(), *literal.model.network.parameters()):
            parameter.mul_(20)  # far enough from 0 for attention and activations to matter
    users = np.unique(np.concatenate([literal.triples.draw(k, 0, 0).user for k in range(BEHAVIORS)]))
    assert USERS - 1 in users  # the one without neighbors
    loss = float(model.loss(model.prepare(0, 0)).total.detach())
    assert literal.run(0) == pytest.approx(loss, rel=1e-9)


def test_the_literal_form_learns_what_ours_learns(data: TrainingData) -> None:
    model, literal = model_of(data), LiteralStep(model_of(data))
    stepping(model)(0)
    literal.run(0)
    for name, parameter in model.network.named_parameters():
        torch.testing.assert_close(parameter, literal.model.network.get_parameter(name), rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(model.tables.tables["users"], literal.tables["users"].detach(), rtol=1e-6, atol=1e-9)


def test_plain_operations_leave_out_what_is_compiled(data: TrainingData) -> None:
    compiled, plain = model_of(data), model_of(data)
    with plain_operations():
        assert backend_for(torch.device("cpu")) == "torch"
        stepping(plain)(0)
    assert backend_for(torch.device("cpu")) == "numba"
    stepping(compiled)(0)
    for name, table in compiled.tables.tables.items():
        torch.testing.assert_close(table, plain.tables.tables[name], rtol=1e-9, atol=1e-12)


def test_all_matrix_products_of_a_step_are_found(data: TrainingData) -> None:
    """Two projections and a combination per layer, and for each product two of its gradients."""
    model = model_of(data)
    batch = model.prepare(0, 0)
    assert isinstance(batch, Batch)
    products = matrix_products(lambda: model.update(model.loss(batch)))
    masked = (BEHAVIORS + 1) * CONFIG.attention_width
    expected = 0
    below = len(batch.users)
    for hop, d_in, d_out in zip(batch.hops, CONFIG.widths, CONFIG.widths[1:], strict=False):
        n = len(hop.receiver)
        expected += (below + n) * d_in * masked + n * 2 * d_in * d_out
        below = n
    assert len(products) == 3 * 3 * len(batch.hops)
    assert sum(map(multiplications, products)) == 3 * expected


def test_products_can_be_done_again(data: TrainingData) -> None:
    left, right = torch.randn(3, 4), torch.randn(4, 5)
    ((operation, arguments),) = matrix_products(lambda: torch.relu(left @ right))
    torch.testing.assert_close(operation(*arguments), left @ right)


@pytest.mark.parametrize("has_bias", [False, True])
def test_the_floor_multiplies_what_evaluation_scores(has_bias: bool) -> None:
    dataset = small_network()
    split = random_split(dataset, seed=0)
    random = np.random.default_rng(0)
    items = tuple(random.standard_normal((each.n_items, 7), dtype=np.float32) for each in dataset.behaviors)
    bias = tuple(random.standard_normal(len(each), dtype=np.float32) for each in items) if has_bias else None
    vectors = random.standard_normal((500, 7), dtype=np.float32)
    masks = random.random((2, 7)) < 0.5
    scorer = DotScorer(vectors, masks, items, bias)
    tasks = scored(scorer, dataset, split)
    assert len(tasks) == 2
    for k, (users, catalog) in enumerate(tasks):
        evaluated = np.unique(split.of(dataset.behaviors[k], k, PARTS.index("test"))[0])
        np.testing.assert_allclose(users @ catalog.T, scorer.scores(k, evaluated), rtol=1e-5, atol=1e-5)


def test_both_find_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcne_bench.figures.FULL_AT_ONCE", 1000)  # several parts
    random = np.random.default_rng(0)
    users, items = (random.standard_normal((n, 5), dtype=np.float32) for n in (37, 300))
    expected = np.sort(np.argsort(-(users @ items.T), axis=1)[:, :BEST], axis=1)
    for best in (best_by_numpy(users, items), best_by_torch(users, items)):
        np.testing.assert_array_equal(np.sort(best, axis=1), expected)


def test_of_lists_it_finds_the_best_by_their_places() -> None:
    random = np.random.default_rng(0)
    users, items = (random.standard_normal((n, 5), dtype=np.float32) for n in (150, 300))
    drawn = np.stack([random.permutation(300)[:100] for _ in users]).astype(np.int32)
    scores = np.take_along_axis(users @ items.T, drawn, axis=1)
    np.testing.assert_array_equal(best_of_drawn(users, items, drawn), np.argsort(-scores, axis=1)[:, :BEST])
