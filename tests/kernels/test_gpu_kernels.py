"""The kernels for GPUs are the plain ones, in value and gradient; without a GPU they are interpreted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.test_edges import (
    SHAPES,
    Inputs,
    inputs,
    plain,
    plainly_aggregate_all,
    scaled,
    with_gradients,
    written,
)
from tests.values import not_none
from torch import Tensor

from mcne.kernels import backend
from mcne.kernels.triples import AllTriples, rank_all
from mcne.kernels.triples import plain_rank as rank
from mcne.models.mcne import MessageLayer
from mcne.randomness import Stream
from mcne.sampling.triples import Unseen

pytest.importorskip("triton", reason="Triton is made for Linux alone")


from mcne.kernels.backend import fits_gpu
from mcne.kernels.edges import TensorHop, aggregate, masked_halves
from mcne.kernels.rows import Groups, group_places, update_rows
from mcne.kernels.triton import draws, groups
from mcne.kernels.triton import edges as edge_kernels
from mcne.kernels.triton import rows as row_kernels
from mcne.kernels.triton.groups import NOBODY, distinct, distinct_few, groups_of_rows
from mcne.kernels.triton.layers import Edges, MaskedHalves, Mean, Receivers

HAS_GPU = torch.cuda.is_available()
GPU = torch.device("cuda" if HAS_GPU else "cpu")
SMALL = SHAPES | ({} if HAS_GPU else {"as on Ciao": (60, 15, 256, 20, 4, 64), "64 behaviors": (6, 3, 9, 4, 64, 6)})


def on_gpu(given: Inputs) -> Inputs:
    """The same on the GPU, with the edges that are heard grouped by sender."""
    tensors, at = given
    none = len(tensors[0])
    keys = torch.where(at["has_neighbors"][:, None], at["sender"], none).flatten().to(GPU)
    rows = torch.arange(none, device=GPU)  # every sender is a row, whether heard or not
    groups = distinct(torch.cat([keys, rows]), most=none, none=none).groups
    moved = [tensor.detach().to(GPU).requires_grad_() for tensor in tensors]
    return moved, {"sender": at["sender"].to(GPU), "has_neighbors": at["has_neighbors"].to(GPU), "groups": groups}


class SendAndReceive(torch.autograd.Function):
    """The kernels along edges and nothing else."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, near: Tensor, here: Tensor, *others: Any) -> Tensor:
        *given, ctx.groups = others
        ctx.edges = Edges(vectors, near.flatten(1), here.flatten(1), *given)
        messages = torch.empty(len(here), vectors.shape[1], device=vectors.device)
        ctx.kept = ctx.edges.send(messages)
        return messages

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        edges = ctx.edges
        weights, sums = ctx.kept
        of_near, of_here = torch.empty_like(edges.near), torch.empty_like(edges.here)
        of_logits, of_score = edges.by_receiver(gradient, weights, of_here)
        of_own = torch.zeros_like(edges.vectors)  # every sender is a receiver, whose own vector is used nowhere
        of_vectors = edges.by_sender(gradient, of_own, ctx.groups, weights, of_logits, of_near)
        shape = (-1, len(edges.masks), len(edges.score))
        summed = (of_score.sum(dim=0), edges.of_masks(gradient, sums).sum(dim=0))
        return of_vectors, of_near.view(shape), of_here.view(shape), *summed, None, None, None


def kernel(*tensors: Tensor, sender: Tensor, has_neighbors: Tensor, groups: object) -> Tensor:
    messages: Tensor = SendAndReceive.apply(*tensors, sender, has_neighbors, groups)  # type: ignore[no-untyped-call] # as PyTorch declares it
    return messages


def close(ours: Tensor, wanted: Tensor, tolerance: float) -> None:
    bound = tolerance * max(1.0, wanted.abs().max().item())
    torch.testing.assert_close(ours.cpu().double(), wanted.double(), rtol=0, atol=bound)


# --- edges ---


@pytest.mark.parametrize("shape", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("binary", [True, False])
def test_send_and_receive(shape: tuple[int, ...], binary: bool) -> None:
    tensors, at = inputs(shape, torch.float32, binary=binary)
    exact = with_gradients(plain, ([tensor.detach().double().requires_grad_() for tensor in tensors], at))
    for ours, wanted in zip(with_gradients(kernel, on_gpu((tensors, at))), exact, strict=True):
        close(ours, wanted, 3e-5)


@pytest.mark.parametrize("is_of_all", [True, False])
@pytest.mark.parametrize("sizes", [(12, 3, 7, 5, 3, 4), (30, 20, 16, 8, 1, 1), (5, 4, 130, 33, 2, 6)])
def test_a_whole_layer(sizes: tuple[int, ...], is_of_all: bool) -> None:
    m, n_s, d_in, d_out, n_b, n_t = sizes
    n = m if is_of_all else m // 2
    stream = Stream(sum(sizes), "layer")
    layer = MessageLayer(d_in, d_out, attention_width=n_t, message="neighbor", stream=stream)
    random = torch.Generator().manual_seed(sum(sizes))
    parameters = [not_none(each) for each in (layer.project, layer.score, layer.combine)]
    weights = [torch.randn(each.shape, generator=random) for each in parameters]
    given = [torch.randn(m, d_in, generator=random), torch.rand(n_b, d_in, generator=random), *weights]
    receiver = torch.arange(m) if is_of_all else torch.randperm(m, generator=random)[:n]
    sender, heard = torch.randint(m, (n, n_s), generator=random), torch.rand(n, generator=random) < 0.7
    keys = torch.cat([torch.where(heard[:, None], sender, m).flatten(), receiver]).to(GPU)
    order, start, stop = (torch.from_numpy(each).to(GPU) for each in group_places(keys.cpu().numpy(), m + 1))
    groups = Groups(order, start, stop)
    hop = TensorHop(receiver.to(GPU), sender.to(GPU), heard.to(GPU), groups, is_of_all)

    def plainly(vectors: Tensor, masks: Tensor, *weights: Tensor) -> Tensor:
        named = dict(zip(("project", "score", "combine"), weights, strict=True))
        plain_hop = TensorHop(receiver, sender, heard)
        received: Tensor = torch.func.functional_call(layer.double(), named, (vectors, masks, plain_hop))
        return received

    exact = with_gradients(plainly, ([each.double().requires_grad_() for each in given], {}))
    ours = with_gradients(aggregate, ([each.to(GPU).requires_grad_() for each in given], {"hop": hop}))
    for own, wanted in zip(ours, exact, strict=True):
        close(own, wanted, 3e-5)


INPUTS = ("vectors", "near", "here", "score", "masks")
BALANCED = (  # of products whose factors are large and small, so that the softmax stays far from its ends
    {"near": 1e4, "here": 1e4, "score": 1e-4},
    {"near": 1e-4, "here": 1e-4, "score": 1e4},
)


def both_of_edges(factors: dict[str, float]) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Of inputs times factors, what receivers hear and the gradients: ours, and plain ones in double precision."""
    tensors, at = inputs((12, 9, 7, 3, 2, 5), torch.float32)
    tensors = scaled(tensors, INPUTS, factors)
    exact = with_gradients(plain, ([tensor.double().requires_grad_() for tensor in tensors], at))
    ours = with_gradients(kernel, on_gpu((tensors, at)))
    return zip(("messages", *INPUTS), (each.cpu().double() for each in ours), exact, strict=True)


@pytest.mark.parametrize(
    "factors",
    [*({name: 1e-4} for name in INPUTS), {"vectors": 1e4}, {"masks": 1e4}, *BALANCED],
    ids=written,
)
def test_large_and_small_inputs(factors: dict[str, float]) -> None:
    for _, ours, wanted in both_of_edges(factors):
        assert wanted.any()
        torch.testing.assert_close(ours, wanted, rtol=0, atol=3e-5 * wanted.abs().max().item())


@pytest.mark.parametrize("name", ["near", "here", "score"])
def test_inputs_so_large_that_one_behavior_takes_it_all(name: str) -> None:
    for which, ours, wanted in both_of_edges({name: 1e4}):
        is_gone = which in ("near", "here", "score")  # their gradients: next to nothing is left of them
        assert wanted.any() or is_gone
        bound = 1.0 if is_gone else wanted.abs().max().item()
        torch.testing.assert_close(ours, wanted, rtol=0, atol=3e-5 * bound)


@pytest.mark.parametrize("shape", SMALL.values(), ids=SMALL)
def test_the_mean_of_neighbors(shape: tuple[int, ...]) -> None:
    tensors, at = inputs(shape, torch.float32)
    vectors = tensors[0].detach().double().requires_grad_()
    exact = with_gradients(
        lambda each: vectors[at["sender"]].mean(dim=1) * at["has_neighbors"][:, None] + 0 * each.sum(), ([vectors], {})
    )
    (moved, *_), where = on_gpu((tensors, at))

    def mean(each: Tensor) -> Tensor:
        means: Tensor = Mean.apply(each, *where.values())  # type: ignore[no-untyped-call] # as PyTorch declares it
        return means

    gradients = with_gradients(mean, ([moved], {}))
    for ours, wanted in zip(gradients, exact, strict=True):
        close(ours, wanted, 1e-5)


@given(st.lists(st.integers(0, 9), min_size=4, max_size=16), st.permutations(range(10)), st.integers(1, 5))
@settings(deadline=None, max_examples=30)
def test_the_receivers_of_a_hop(heard_of: list[int], users: list[int], n: int) -> None:
    keys = torch.tensor([*heard_of, *users[: n - 1], 10], device=GPU)  # the last receiver is nobody
    below = distinct(keys, most=10, none=10)
    vectors = torch.randn(10, 3, device=GPU, requires_grad=True)
    receiver = below.rows[len(heard_of) :]
    own: Tensor = Receivers.apply(vectors, receiver, below.groups, len(heard_of))  # type: ignore[no-untyped-call] # as PyTorch declares it
    assert torch.equal(own, vectors[receiver])
    gradient = torch.randn(n, 3, device=GPU)
    torch.autograd.backward(own, gradient)
    wanted = torch.zeros(10, 3, device=GPU)
    wanted[receiver[:-1]] = gradient[:-1]  # distinct users
    assert torch.equal(not_none(vectors.grad), wanted)


@pytest.mark.parametrize("shape", [(1, 1, 1), (4, 64, 256), (3, 70, 37), (64, 5, 9)])
def test_the_weights_under_every_mask(shape: tuple[int, int, int]) -> None:
    n_b, n_t, n_d = shape
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(size, generator=generator) for size in ((n_t, 2 * n_d), (n_b, n_d))]
    gradients = [torch.randn(n_b * n_t, n_d, generator=generator) for _ in range(2)]
    exact = [each.double().requires_grad_() for each in given]
    wanted = masked_halves(*exact)
    torch.autograd.backward(wanted, [each.double() for each in gradients])
    ours = [each.to(GPU).requires_grad_() for each in given]
    halves = MaskedHalves.apply(*ours)  # type: ignore[no-untyped-call] # as PyTorch declares it
    torch.autograd.backward(halves, [each.to(GPU) for each in gradients])
    own_gradients, plain_gradients = ([not_none(each.grad) for each in leaves] for leaves in (ours, exact))
    for own, plain_one in zip((*halves, *own_gradients), (*wanted, *plain_gradients), strict=True):
        close(own, plain_one, 1e-5)


@pytest.mark.parametrize(
    ("degrees", "sizes", "at_once"),  # width, behaviors and attention width; numbers of links at a time
    [
        ([0, 1, 5, 0, 40, 3], (7, 2, 5), 64),
        ([2, 0, 3], (7, 2, 5), 1),
        ([0], (1, 1, 1), 2048),
        ([1], (5, 64, 3), 2048),
        ([16, 0, 17], (130, 4, 64), 2048),
        ([0, 300], (16, 3, 130), 2048),
    ],
)
def test_messages_of_all_neighbors(
    degrees: list[int], sizes: tuple[int, int, int], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edge_kernels, "LINK_NUMBERS_AT_ONCE", at_once)
    n_d, n_b, n_t = sizes
    random = torch.Generator().manual_seed(sum(degrees))
    n, m, n_links = len(degrees), 9, sum(degrees)
    shapes = ((m, n_d), (m, n_b, n_t), (n, n_b, n_t), (n_t,), (n_b, n_d))
    tensors = [torch.randn(shape, generator=random) for shape in shapes]
    first = torch.tensor([0, *np.cumsum(degrees)])
    sender, share = torch.randint(m, (n_links,), generator=random), torch.rand(n_links, generator=random)
    before = torch.randn(n, n_d, generator=random)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "ON_CPU", "torch")
        exact = plainly_aggregate_all(*(each.double() for each in tensors), first, sender, share.double())
        exact += before.double()
    results = []
    for _ in range(2):
        messages = before.to(GPU, copy=True)
        edge_kernels.aggregate_all([each.to(GPU) for each in (*tensors, first, sender, share)], messages)
        results.append(messages.cpu())
    close(results[0], exact, 1e-5)
    assert torch.equal(*results)
    assert torch.equal(results[0][np.array(degrees) == 0], before[np.array(degrees) == 0])


def test_what_does_not_fit_is_told() -> None:
    assert fits_gpu(20, 256)
    assert fits_gpu(64, 256)
    assert not fits_gpu(65, 256)


# --- distinct numbers and groups ---


@given(st.lists(st.integers(0, 12), min_size=1, max_size=40))
@settings(deadline=None, max_examples=40)
def test_distinct_keys_and_their_places(keys: list[int]) -> None:
    none = 12  # and so drawn as well
    for few in (0, 4096):  # sorted, and counted
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(groups, "FEW", few)
            _check_distinct(keys, none)


def _check_distinct(keys: list[int], none: int) -> None:
    result = distinct(torch.tensor(keys, device=GPU), most=none, none=none)
    wanted = sorted({key for key in keys if key < none})
    assert result.keys.tolist() == wanted + [NOBODY] * (none - len(wanted))
    assert result.rows.tolist() == [wanted.index(key) if key < none else 0 for key in keys]
    order, start, stop = (each.tolist() for each in (result.groups.order, result.groups.start, result.groups.stop))
    for row in range(none):
        places = [at for at, key in enumerate(keys) if row < len(wanted) and key == wanted[row]]
        assert order[start[row] : stop[row]] == places


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.lists(st.integers(0, 9), min_size=1, max_size=20))
@settings(deadline=None, max_examples=30)
def test_two_kinds_of_keys_at_once(first: list[int], second: list[int]) -> None:
    keys = torch.tensor([*first, *second], device=GPU)
    none = (5, 9)
    both = distinct_few(keys, (len(first), len(second)), most=none, none=none)
    for together, own, least in zip(both, (first, second), none, strict=True):
        alone = distinct(torch.tensor(own, device=GPU), most=least, none=least)
        assert together.keys.tolist() == alone.keys.tolist()
        assert together.rows.tolist() == alone.rows.tolist()
        for part in ("order", "start", "stop"):
            assert getattr(together.groups, part).tolist() == getattr(alone.groups, part).tolist()


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=12), min_size=1, max_size=3))
@settings(deadline=None, max_examples=30)
def test_places_of_rows_in_several_lists(lists: list[list[int]]) -> None:
    keys = torch.tensor([5 * at + key for at, each in enumerate(lists) for key in each], dtype=torch.int16, device=GPU)
    for each, own in zip(lists, groups_of_rows(keys, [len(each) for each in lists], n_rows=4), strict=True):
        order, start, stop = (part.tolist() for part in (own.order, own.start, own.stop))
        for row in range(4):
            assert order[start[row] : stop[row]] == [at for at, key in enumerate(each) if key == row]


# --- triples ---


@pytest.mark.parametrize("shape", [(15, 40, 9, 4, 13, 3), (1, 1, 1, 1, 1, 1), (4, 50, 40, 1, 64, 2)])
@pytest.mark.parametrize("has_masks", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("has_weight", [True, False])
def test_ranked_triples_of_all_behaviors(
    shape: tuple[int, ...], has_masks: bool, has_bias: bool, has_weight: bool
) -> None:
    n_users, n_items, each, negatives, width, n_behaviors = shape
    random = torch.Generator().manual_seed(sum(shape))
    sizes = [(n_users, width), (n_behaviors + 1, width), (n_items, width), (n_items, 1)]  # the last mask is no one's
    users = torch.randn(sizes[0], generator=random)
    masks = torch.randn(sizes[1], generator=random) if has_masks else None
    items = torch.randn(sizes[2], generator=random)
    bias = torch.randn(sizes[3], generator=random) if has_bias else None
    user = torch.randint(n_users, (n_behaviors * each,), generator=random)
    item = torch.randint(n_items, (n_behaviors * each, 1 + negatives), generator=random)
    weight = 3 * torch.rand(n_behaviors * each, generator=random) if has_weight else None
    into, into_decay = torch.randn(n_behaviors, generator=random), torch.randn((), generator=random)

    def exact(users: Tensor, masks: Tensor | None, items: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        losses = []
        for k, (who, what) in enumerate(zip(user.chunk(n_behaviors), item.chunk(n_behaviors), strict=True)):
            own = users if masks is None else users * masks[k]
            times = None if weight is None else weight.double().chunk(n_behaviors)[k]
            both = rank(own, items, bias, user=who, positive=what[:, 0], negative=what[:, 1:], weight=times)
            losses.append(torch.stack(both))
        return torch.stack(losses)[:, 0], torch.stack(losses)[:, 1].mean()

    def leaves(to: torch.device | torch.dtype) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
        return (
            users.to(to).requires_grad_(),
            None if masks is None else masks.to(to).requires_grad_(),
            items.to(to).requires_grad_(),
            None if bias is None else bias.to(to).requires_grad_(),
        )

    double = leaves(torch.float64)
    moved = leaves(GPU)
    by_user, by_item = (
        Groups(*(torch.from_numpy(part).to(GPU) for part in group_places(keys.numpy(), rows)))
        for keys, rows in ((user, n_users), (item, n_items))
    )
    rows = (user.to(GPU), item.to(GPU), by_user, by_item)
    times = None if weight is None else weight.to(GPU)
    triples = AllTriples(torch.arange(n_items, device=GPU), *rows, each, times)
    ours, wanted = rank_all(*moved, triples), exact(*double)
    for own, other in zip(ours, wanted, strict=True):
        close(own.detach(), other.detach(), 1e-5)
    gradients, theirs = (
        torch.autograd.grad(
            (ranking * into.to(ranking.device)).sum() + decay * into_decay.to(decay.device),
            [table for table in tables if table is not None],
        )
        for (ranking, decay), tables in ((ours, moved), (wanted, double))
    )
    for own, other in zip(gradients, theirs, strict=True):
        close(own, other, 1e-5)


@given(st.lists(st.integers(0, 5)))
def test_places_are_grouped_in_a_stable_order(keys: list[int]) -> None:
    array = np.array(keys, np.int64)
    order, start, stop = group_places(array, 6)
    ends = np.cumsum(np.bincount(array, minlength=6))
    assert order.tolist() == np.argsort(array, kind="stable").tolist()
    assert start.tolist() == [0, *ends[:-1]]
    assert stop.tolist() == ends.tolist()


# --- rows ---


@pytest.mark.parametrize("width", [1, 7, 64])
def test_rows_move_as_on_the_cpu_and_nobody_stays(width: int) -> None:
    random = torch.Generator().manual_seed(width)
    ours = [torch.randn(30, width, generator=random), torch.zeros(30, width), torch.zeros(30, width)]
    wanted = [table.double().clone() for table in ours]
    ours = [table.to(GPU) for table in ours]
    table, first, second = ours
    plain_table, plain_first, plain_second = wanted
    for step in range(1, 5):
        rows = torch.randperm(30, generator=random)[:20]
        gradient = torch.randn(22, width, generator=random)
        steps = torch.tensor(step)
        with_nobody = torch.cat([rows, torch.tensor([NOBODY, NOBODY])])
        moved = (with_nobody.to(GPU), gradient.to(GPU))
        row_kernels.adam(table, first, second, *moved, steps=steps.to(GPU), learning_rate=0.02)
        plain_moved = (rows, gradient[:20].double())
        update_rows(plain_table, plain_first, plain_second, *plain_moved, steps=steps, learning_rate=0.02)
        taken = row_kernels.gather(table, with_nobody.to(GPU)).cpu()
        assert torch.equal(taken[:20], ours[0].cpu()[rows])
        assert not taken[20:].any()
        by_columns = ours[0].T.contiguous().T
        assert torch.equal(row_kernels.gather(by_columns, with_nobody.to(GPU)).cpu(), taken)
    for own, theirs in zip(ours, wanted, strict=True):
        torch.testing.assert_close(own.cpu().double(), theirs, rtol=1e-5, atol=1e-6)


def test_a_bounded_value_that_is_no_number_stays_none() -> None:
    table, gradient = torch.tensor([0.99, -0.99, 0.5, 0.5]), torch.tensor([-1.0, 1.0, float("nan"), 0.0])
    moved = table.to(GPU)
    moments = [torch.zeros(4, device=GPU) for _ in range(2)]
    turned = torch.zeros(1, row_kernels.pieces_of(4), dtype=torch.int64, device=GPU)
    row_kernels.adam_all(
        [(moved, *moments, gradient.to(GPU), torch.tensor(1.0, device=GPU))],
        turned=turned,
        learning_rate=0.1,
    )
    torch.testing.assert_close(moved.cpu(), torch.tensor([1.0, -1.0, float("nan"), 0.5]), equal_nan=True)


# --- draws ---


def chi_square(counts: np.ndarray, shares: np.ndarray) -> float:
    """Over its degrees of freedom: about 1 where the shares are right."""
    wanted = shares / shares.sum() * counts.sum()
    return float(((counts - wanted) ** 2 / wanted).sum() / max(1, len(counts) - 1))


def test_negatives_are_uniform_over_what_a_user_has_not_touched() -> None:
    user, item = np.array([0, 0, 0, 1, 2, 2, 2, 2]), np.array([1, 4, 5, 0, 0, 1, 2, 3])
    sizes = (7, 4)
    first = 4  # user 2 has touched all of the second catalog; its pairs are the last four
    unseen = [
        Unseen(user[:4], item[:4], n_users=3, n_items=sizes[0]),
        Unseen(user[4:], item[4:], n_users=3, n_items=sizes[1]),
    ]
    arrays = [
        *(user, item + np.repeat([0, 7], 4), np.concatenate([each.gaps for each in unseen]).astype(np.int64)),
        *(np.stack([unseen[0].indptr, unseen[1].indptr + first]), np.array([0, 7, 11])),
    ]
    pairs = draws.Pairs(4, *(torch.from_numpy(each).to(GPU) for each in arrays))
    rows = torch.tensor([0] * 200 + [4] * 200, device=GPU)
    drawn = Counter[int]()
    for key in range(10):
        who, what = draws.triples(torch.tensor([key], device=GPU), rows, pairs, negatives=3)
        assert who.tolist() == [0] * 200 + [2] * 200
        assert what[:, 0].tolist() == [1] * 200 + [7] * 200
        assert set(what[200:, 1:].flatten().tolist()) == {7}  # nothing is left: the positive
        drawn.update(what[:200, 1:].flatten().tolist())
        assert len({tuple(row) for row in what[:200, 1:].tolist()}) > 30  # of 64: those of a triple are apart
    assert sorted(drawn) == [0, 2, 3, 6]
    assert chi_square(np.array([drawn[k] for k in sorted(drawn)]), np.ones(4)) < 4


@pytest.mark.parametrize("weights", [None, [1.0, 6.0, 3.0]])
def test_neighbors_are_drawn_by_their_shares(weights: list[float] | None) -> None:
    indptr, indices = torch.tensor([0, 3, 3, 4], dtype=torch.int32), torch.tensor([1, 2, 0, 1], dtype=torch.int32)
    shares = np.array([1.0, 1.0, 1.0] if weights is None else weights)
    cumulative = torch.from_numpy(np.cumsum([0.0, *shares / shares.sum(), 1.0]))
    network = draws.Network(indptr.to(GPU), indices.to(GPU), None if weights is None else cumulative.to(GPU), depth=3)
    drawn = Counter[int]()
    for key in range(10):
        users = torch.tensor([0, 1, 2, NOBODY] * 25, device=GPU)
        keys, has_neighbors = draws.neighbors(torch.tensor([key], device=GPU), users, network, stream=2, count=6)
        assert has_neighbors.tolist() == [True, False, True, False] * 25
        assert keys[600:].tolist() == [0, 1, 2, 3] * 25
        senders = keys[:600].view(25, 4, 6)
        assert set(senders[:, 1].flatten().tolist()) == set(senders[:, 3].flatten().tolist()) == {3}
        assert set(senders[:, 2].flatten().tolist()) == {1}
        drawn.update(senders[:, 0].flatten().tolist())
    assert chi_square(np.array([drawn[1], drawn[2], drawn[0]]), shares) < 4


@pytest.mark.parametrize("is_weighted", [True, False])
def test_a_hub_is_drawn_from_by_shares_and_every_stream_draws_anew(is_weighted: bool) -> None:
    weights = np.arange(1, 41, dtype=np.float64) if is_weighted else np.ones(40)
    indptr, indices = torch.tensor([0, 40], dtype=torch.int32), torch.arange(40, dtype=torch.int32)
    cumulative = torch.from_numpy(np.cumsum([0.0, *weights / weights.sum()])).to(GPU) if is_weighted else None
    network = draws.Network(indptr.to(GPU), indices.to(GPU), cumulative, depth=7)
    drawn = {}
    for stream in (1, 2):
        users = torch.zeros(64, dtype=torch.int64, device=GPU)
        keys, _ = draws.neighbors(torch.tensor([7], device=GPU), users, network, stream=stream, count=40)
        drawn[stream] = keys[: 64 * 40].cpu().numpy()
        assert chi_square(np.bincount(drawn[stream], minlength=40), weights) < 2
    assert (drawn[1] == drawn[2]).mean() < 0.1
