"""Adam by rows: PyTorch's where every row is touched, and nothing at all where a row is not (reading 17)."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from mcne.kernels import backend
from mcne.models.optimizer import DenseAdam, RowAdam, adam_memory, load_adam


def table(rows: int, width: int, *, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(rows, width, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def take_step(adam: RowAdam, gradients: dict[str, tuple[list[int], Tensor]]) -> None:
    """A step whose loss has these gradients on these rows of each table."""
    losses = [(adam.rows(name, torch.tensor(rows)) * gradient).sum() for name, (rows, gradient) in gradients.items()]
    torch.autograd.backward(torch.stack(losses).sum())
    adam.step()


def test_touching_every_row_is_adam() -> None:
    start = {"users": table(5, 3), "items": table(4, 2, seed=1)}
    ours = RowAdam({name: value.clone() for name, value in start.items()}, learning_rate=0.01)
    theirs = [torch.nn.Parameter(value.clone()) for value in start.values()]
    adam = torch.optim.Adam(theirs, lr=0.01)
    everyone = {"users": [4, 2, 0, 1, 3], "items": [0, 1, 2, 3]}
    for step in range(300):
        scale = 10.0 ** (step % 7 - 4)  # small and large gradients in turn
        gradients = {name: scale * table(*value.shape, seed=step + 2) for name, value in start.items()}
        adam.zero_grad()
        for parameter, gradient in zip(theirs, gradients.values(), strict=True):
            parameter.grad = gradient.clone()
        adam.step()
        take_step(ours, {name: (rows, gradients[name][rows]) for name, rows in everyone.items()})
        for name, parameter in zip(start, theirs, strict=True):
            torch.testing.assert_close(ours.tables[name], parameter.detach(), rtol=1e-12, atol=1e-12)
    assert (ours.tables["users"] - start["users"]).abs().min() > 1e-3


def test_joined_tables_learn_as_they_do_apart() -> None:
    start = {"users": table(5, 3), "items.0": table(4, 2, seed=1), "items.1": table(3, 2, seed=2)}
    apart = RowAdam({name: value.clone() for name, value in start.items()}, learning_rate=0.01)
    both = {"items": ["items.0", "items.1"]}
    joined = RowAdam(start, learning_rate=0.01, joined=both)
    for step in range(3):
        gradient = table(3, 2, seed=step)
        take_step(apart, {"items.0": ([3, 1], gradient[:2]), "items.1": ([2], gradient[2:])})
        take_step(joined, {"items": ([3, 1, 6], gradient)})
    assert list(joined.tables) == list(start)
    for own, other in ((joined.tables, apart.tables), (joined.memory(), apart.memory())):
        assert own.keys() == other.keys()
        assert all(torch.equal(own[name], other[name]) for name in own)
    again = RowAdam(
        {name: value.clone() for name, value in start.items()},
        learning_rate=0.01,
        joined={"items": ["items.0", "items.1"]},
    )
    again.load_tables(apart.tables)
    again.load_memory(apart.memory())
    take_step(apart, {"items.1": ([0], gradient[:1])})
    take_step(again, {"items": ([4], gradient[:1])})
    assert all(torch.equal(again.tables[name], apart.tables[name]) for name in start)


def test_single_precision_is_adam_too() -> None:
    start = table(5, 3, dtype=torch.float32)
    ours, theirs = RowAdam({"t": start.clone()}, learning_rate=0.003), torch.nn.Parameter(start.clone())
    adam = torch.optim.Adam([theirs], lr=0.003)
    for step in range(50):
        theirs.grad = table(5, 3, seed=step, dtype=torch.float32)
        take_step(ours, {"t": (list(range(5)), theirs.grad)})
        adam.step()
    torch.testing.assert_close(ours.tables["t"], theirs.detach(), rtol=1e-5, atol=1e-6)


def test_one_step_by_hand() -> None:
    # g = 2: m = 0.1·2 = 0.2, v = 0.001·4 = 0.004; corrected m̂ = 0.2/0.1 = 2, v̂ = 0.004/0.001 = 4; change −0.1·2/√4
    adam = RowAdam({"t": torch.tensor([[1.0]], dtype=torch.float64)}, learning_rate=0.1)
    take_step(adam, {"t": ([0], torch.tensor([[2.0]], dtype=torch.float64))})
    assert adam.tables["t"].item() == pytest.approx(0.9, abs=1e-9)
    assert adam.first["t"].item() == pytest.approx(0.2, abs=1e-15)
    assert adam.second["t"].item() == pytest.approx(0.004, abs=1e-15)


def test_bias_is_corrected_by_the_steps_of_all_rows() -> None:
    adam = RowAdam({"t": torch.zeros(2, 1, dtype=torch.float64)}, learning_rate=0.1)
    one = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(2):
        take_step(adam, {"t": ([0], one)})
    take_step(adam, {"t": ([1], one)})
    # row 1 for the first time, at step 3: m = 0.1, v = 0.001; m̂ = 0.1/(1 − 0.9³) = 0.1/0.271,
    # v̂ = 0.001/(1 − 0.999³) = 0.001/0.002997001
    expected = -0.1 * (0.1 / 0.271) / (math.sqrt(0.001 / 0.002997001) + 1e-8)
    assert adam.tables["t"][1].item() == pytest.approx(expected, rel=1e-12)
    assert adam.steps == 3
    # row 0 again at step 4, its moments as it left them: m = 0.9·0.19 + 0.1 = 0.271, v = 0.999·0.001999 + 0.001
    before = adam.tables["t"][0].item()
    take_step(adam, {"t": ([0], one)})
    v = (0.999 * 0.001999 + 0.001) / (1 - 0.999**4)
    change = -0.1 * (0.271 / (1 - 0.9**4)) / (math.sqrt(v) + 1e-8)
    assert adam.tables["t"][0].item() - before == pytest.approx(change, rel=1e-10)


def test_untouched_rows_and_their_moments_keep_their_bytes() -> None:
    adam = RowAdam({"t": table(6, 3), "other": table(2, 2)}, learning_rate=0.1)
    take_step(adam, {"t": ([0, 1, 2, 3, 4, 5], table(6, 3, seed=1)), "other": ([0, 1], table(2, 2, seed=2))})
    before = {name: value.clone() for name, value in [*adam.memory().items(), *adam.tables.items()]}
    for step in range(5):
        take_step(adam, {"t": ([4, 1], table(2, 3, seed=step))})
    after = adam.memory() | adam.tables
    for name in ("t", "first.t", "second.t"):
        assert torch.equal(after[name][[0, 2, 3, 5]], before[name][[0, 2, 3, 5]])
        assert (after[name][[1, 4]] != before[name][[1, 4]]).all()
    for name in ("other", "first.other", "second.other"):
        assert torch.equal(after[name], before[name])


def test_the_update_reads_and_writes_touched_rows_alone() -> None:
    """All else is NaN: reading any of it, even times zero, would spread."""
    values = torch.full((1000, 3), torch.nan, dtype=torch.float64)
    values[[7, 500]] = 1.0
    adam = RowAdam({"t": values}, learning_rate=0.1)
    for moments in (adam.first, adam.second):
        moments["t"].fill_(torch.nan)
        moments["t"][[7, 500]] = 0.0
    for step in range(3):
        take_step(adam, {"t": ([500, 7], table(2, 3, seed=step))})
    for array in (adam.tables["t"], adam.first["t"], adam.second["t"]):
        finite = torch.isfinite(array)
        assert finite[[7, 500]].all()
        assert finite.sum() == 6


class WholeTables(TorchDispatchMode):  # type: ignore[no-untyped-call] # as PyTorch declares it
    """Notes the operations that take or make a tensor of so many rows."""

    def __init__(self, rows: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # as PyTorch declares it
        self.rows = rows
        self.operations: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **kwargs or {})
        for value in tree_leaves((args, kwargs, made)):
            if isinstance(value, Tensor) and value.ndim and len(value) == self.rows:
                self.operations.add(func.overloadpacket.__name__)
        return made


def test_whole_tables_are_only_ever_indexed() -> None:
    adam = RowAdam({"t": table(1000, 3)}, learning_rate=0.1)
    with WholeTables(1000) as seen:
        take_step(adam, {"t": ([500, 7], table(2, 3))})
    assert seen.operations == {"index_select", "detach"}  # the second is a view, whose rows are then taken
    with WholeTables(1000) as seen:
        adam.tables["t"].mul(2)
    assert seen.operations == {"mul"}  # it would have been noticed


def test_a_table_is_updated_in_place() -> None:
    values = table(3, 2)
    adam = RowAdam({"t": values}, learning_rate=0.1)
    take_step(adam, {"t": ([1], torch.ones(1, 2, dtype=torch.float64))})
    assert adam.tables["t"] is values
    assert not values.requires_grad


def test_rows_handed_out_are_copies_in_the_order_asked_for() -> None:
    adam = RowAdam({"t": table(4, 2)}, learning_rate=0.1)
    rows = adam.rows("t", torch.tensor([3, 1]))
    assert torch.equal(rows.detach(), table(4, 2)[[3, 1]])
    assert rows.is_leaf
    assert adam.touched() == [rows]
    with torch.no_grad():
        rows.zero_()
    assert torch.equal(adam.tables["t"], table(4, 2))


def test_rows_without_gradient_stay_as_they_are() -> None:
    """A loss may not depend on what it asked for; the step still counts."""
    adam = RowAdam({"t": table(4, 2)}, learning_rate=0.1)
    adam.rows("t", torch.tensor([0, 1]))
    adam.step()
    assert torch.equal(adam.tables["t"], table(4, 2))
    assert adam.first["t"].abs().max() == 0
    assert adam.steps == 1


def test_no_rows_at_all() -> None:
    adam = RowAdam({"t": table(4, 2)}, learning_rate=0.1)
    torch.autograd.backward(adam.rows("t", torch.zeros(0, dtype=torch.int64)).sum())
    adam.step()
    assert torch.equal(adam.tables["t"], table(4, 2))


def test_a_step_and_forgetting_end_what_was_handed_out() -> None:
    adam = RowAdam({"t": table(4, 2)}, learning_rate=0.1)
    take_step(adam, {"t": ([0], torch.ones(1, 2, dtype=torch.float64))})
    assert adam.touched() == []
    before = adam.tables["t"].clone()
    torch.autograd.backward(adam.rows("t", torch.tensor([2])).sum())
    adam.forget()
    assert adam.touched() == []
    adam.step()
    assert torch.equal(adam.tables["t"], before)


def test_extreme_gradients() -> None:
    """A zero gradient moves nothing at first; a huge or a tiny one moves as far as the learning rate."""
    adam = RowAdam({"t": torch.zeros(3, 1, dtype=torch.float64)}, learning_rate=0.1)
    take_step(adam, {"t": ([0, 1, 2], torch.tensor([[0.0], [1e150], [-1e-3]], dtype=torch.float64))})
    assert adam.tables["t"][:, 0].tolist() == pytest.approx([0.0, -0.1, 0.1], rel=1e-4)


def trained(steps: range, adam: RowAdam) -> RowAdam:
    for step in steps:
        take_step(adam, {"a": ([step % 4, 4], table(2, 3, seed=step)), "b": ([step % 2], table(1, 2, seed=step))})
    return adam


def fresh() -> RowAdam:
    return RowAdam({"a": table(5, 3), "b": table(2, 2)}, learning_rate=0.01)


def test_memory_makes_a_resumed_training_exact() -> None:
    whole, half = trained(range(20), fresh()), trained(range(11), fresh())
    kept = {name: value.clone() for name, value in half.memory().items()}
    assert sorted(kept) == ["first.a", "first.b", "row_steps", "second.a", "second.b"]
    resumed = RowAdam({name: torch.zeros_like(value) for name, value in half.tables.items()}, learning_rate=0.01)
    resumed.load_tables({name: value.clone() for name, value in half.tables.items()})
    resumed.load_memory(kept)
    assert resumed.steps == 11
    trained(range(11, 20), resumed)
    for name, value in (whole.memory() | whole.tables).items():
        assert torch.equal((resumed.memory() | resumed.tables)[name], value)


def dense(steps: range, parameters: list[torch.nn.Parameter], adam: torch.optim.Adam) -> None:
    for step in steps:
        for k, parameter in enumerate(parameters):
            parameter.grad = table(*parameter.shape, seed=10 * step + k)
        adam.step()


def test_the_memory_of_dense_adam_makes_a_resumed_training_exact() -> None:
    def make() -> tuple[list[torch.nn.Parameter], torch.optim.Adam]:
        parameters = [torch.nn.Parameter(table(3, 2)), torch.nn.Parameter(table(1, 4))]
        return parameters, torch.optim.Adam(parameters, lr=0.01)

    (whole, whole_adam), (half, half_adam), (resumed, resumed_adam) = make(), make(), make()
    dense(range(20), whole, whole_adam)
    dense(range(11), half, half_adam)
    kept = {name: value.clone() for name, value in adam_memory(half_adam).items()}
    assert sorted(kept) == [f"adam.{k}.{name}" for k in (0, 1) for name in ("exp_avg", "exp_avg_sq", "step")]
    with torch.no_grad():
        for mine, theirs in zip(resumed, half, strict=True):
            mine.copy_(theirs)
    load_adam(resumed_adam, kept | {"first.users": torch.zeros(1)})  # kept beside other things
    dense(range(11, 20), resumed, resumed_adam)
    for mine, theirs in zip(resumed, whole, strict=True):
        assert torch.equal(mine, theirs)
    assert kept["adam.0.step"].item() == 11  # what was kept is not what learns on
    assert adam_memory(resumed_adam)["adam.0.step"].item() == 20


def test_dense_adam_on_a_gpu_is_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton", reason="Triton is made for Linux alone")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    monkeypatch.setattr(backend, "is_gpu", lambda _: True)

    def make() -> list[torch.nn.Parameter]:
        shapes = ((3, 5), (4,), (2, 1), (1,))
        return [torch.nn.Parameter(torch.linspace(-1, 1, math.prod(s), device=device).view(s)) for s in shapes]

    def learn(steps: range, parameters: list[torch.nn.Parameter], adam: torch.optim.Adam) -> None:
        for step in steps:
            for k, parameter in enumerate(parameters[:3]):  # the last hears nothing
                drawn = torch.randn(parameter.numel(), generator=torch.Generator().manual_seed(10 * step + k))
                parameter.grad = (10.0 ** (step % 5 - 2) * drawn).view(parameter.shape[::-1]).movedim(0, -1).to(device)
            adam.step()

    ours, theirs, resumed = make(), make(), make()
    own, other = DenseAdam(ours, learning_rate=0.01), torch.optim.Adam(theirs, lr=0.01)
    learn(range(12), ours, own)
    kept = {name: value.clone() for name, value in adam_memory(own).items()}
    with torch.no_grad():
        for mine, before in zip(resumed, ours, strict=True):
            mine.copy_(before)
    again = DenseAdam(resumed, learning_rate=0.01)
    load_adam(again, kept)
    learn(range(12, 30), ours, own)
    learn(range(12, 30), resumed, again)
    learn(range(30), theirs, other)
    assert torch.equal(ours[3], make()[3])
    for mine, same, plain in zip(ours, resumed, theirs, strict=True):
        assert torch.equal(mine, same)
        torch.testing.assert_close(mine, plain, rtol=1e-5, atol=1e-6)
    assert {n: v.shape for n, v in adam_memory(own).items()} == {n: v.shape for n, v in adam_memory(other).items()}


@pytest.mark.parametrize("by_kernel", [True, False])
def test_bounded_parameters_stay_within_one_and_their_turns_are_counted(
    by_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton", reason="Triton is made for Linux alone")
    device = torch.device("cuda" if by_kernel and torch.cuda.is_available() else "cpu")
    monkeypatch.setattr(backend, "is_gpu", lambda _: by_kernel)
    free, bound = (torch.nn.Parameter(table(30, 20, seed=k, dtype=torch.float32).to(device)) for k in (1, 2))
    with torch.no_grad():
        bound.clamp_(-1, 1)
    wanted = [each.detach().clone().requires_grad_() for each in (free, bound)]
    ours = DenseAdam([free, bound], learning_rate=0.4, bounded=[bound])
    theirs = torch.optim.Adam(wanted, lr=0.4)
    turned = 0
    for step in range(6):
        for own, plain in zip((free, bound), wanted, strict=True):
            own.grad = torch.randn(30, 20, generator=torch.Generator().manual_seed(step)).to(device)
            plain.grad = own.grad.clone()
        before = wanted[1] >= 0
        theirs.step()
        with torch.no_grad():
            wanted[1].clamp_(-1, 1)
        ours.step()
        turned += int(((wanted[1] >= 0) != before).sum())
    assert int(ours.turned) == turned > 100
    assert bound.abs().max() == 1 < free.abs().max()
    torch.testing.assert_close(torch.stack([free, bound]), torch.stack(wanted), rtol=1e-5, atol=1e-6)
    ours.load_turned(torch.tensor(7))
    assert int(ours.turned) == 7


def test_the_memory_of_an_adam_that_never_stepped() -> None:
    parameter = torch.nn.Parameter(table(3, 2))
    adam = torch.optim.Adam([parameter], lr=0.01)
    assert adam_memory(adam) == {}
    dense(range(3), [parameter], adam)
    load_adam(adam, {})
    assert adam_memory(adam) == {}


@pytest.mark.parametrize("how", ["a step", "other values"])
def test_a_table_given_away_never_changes_and_learning_goes_on(how: str) -> None:
    def change(adam: RowAdam) -> None:
        if how == "a step":
            take_step(adam, {"t": ([4, 1], table(2, 3, seed=7)), "other": ([0], table(1, 2, seed=8))})
        else:
            adam.load_tables({"t": table(6, 3, seed=5), "other": table(2, 2, seed=6)})

    ours, theirs = (RowAdam({"t": table(6, 3), "other": table(2, 2)}, learning_rate=0.1) for _ in range(2))
    given = ours.given_away("t")
    assert given is ours.tables["t"]  # until something changes it, it is no copy
    for _ in range(2):
        change(ours)
        change(theirs)
    assert torch.equal(given, table(6, 3))
    assert not torch.equal(ours.tables["t"], given)
    assert all(torch.equal(ours.tables[name], theirs.tables[name]) for name in ("t", "other"))
    assert all(torch.equal(ours.whole[name], theirs.whole[name]) for name in ("t", "other"))
    assert all(torch.equal(ours.memory()[name], theirs.memory()[name]) for name in ours.memory())
