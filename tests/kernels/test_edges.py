"""A compiled layer is the plain one, in value and gradient, for every shape and on any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mcne.kernels import backend
from mcne.kernels.edges import TensorHop, aggregate_all, mean_of_senders, shared_sum
from mcne.models.inference import Links, add_messages
from mcne.models.mcne import MessageLayer, attention, mean_message
from mcne.randomness import Stream

SHAPES = {  # senders, receivers, width, neighbors, behaviors, attention width
    "small": (50, 20, 7, 3, 2, 5),
    "one of everything": (1, 1, 1, 1, 1, 1),
    "one neighbor": (30, 40, 16, 1, 4, 8),
    "one behavior": (30, 40, 16, 5, 1, 8),
    "64 behaviors": (20, 10, 9, 4, 64, 6),
    "widths of no power of two": (70, 33, 101, 6, 3, 67),
    "as on Ciao": (300, 90, 256, 20, 4, 64),
    "repeated neighbors": (2, 50, 8, 20, 3, 4),
}
Inputs = tuple[list[Tensor], dict[str, Any]]  # those with a gradient, and keyword arguments of the function under test


def inputs(shape: tuple[int, ...], dtype: torch.dtype, *, binary: bool = True) -> Inputs:
    senders, receivers, width, neighbors, behaviors, depth = shape
    random = torch.Generator().manual_seed(sum(shape))
    sizes = ((senders, width), (senders, behaviors, depth), (receivers, behaviors, depth), (depth,), (behaviors, width))
    tensors = [torch.randn(size, generator=random, dtype=dtype) for size in sizes]
    if binary:
        tensors[-1] = (tensors[-1] >= 0).to(dtype)
    sender = torch.randint(senders, (receivers, neighbors), generator=random)
    has_neighbors = torch.rand(receivers, generator=random) < 0.8
    return [tensor.requires_grad_() for tensor in tensors], {"sender": sender, "has_neighbors": has_neighbors}


def with_gradients(function: Callable[..., Tensor], given: Inputs) -> list[Tensor]:
    tensors, at = given
    messages = function(*tensors, **at)
    into = torch.linspace(-1, 2, messages.numel(), dtype=messages.dtype, device=messages.device).view_as(messages)
    return [messages.detach(), *torch.autograd.grad((messages * into).sum(), tensors)]


def plain(
    vectors: Tensor, near: Tensor, here: Tensor, score: Tensor, masks: Tensor, *, sender: Tensor, has_neighbors: Tensor
) -> Tensor:
    """Eq. 3–5 and the mean of Eq. 6 in operations of PyTorch."""
    weights = attention(near[sender], here[:, None], score)
    return mean_message(weights, vectors[sender], masks) * has_neighbors[:, None].to(vectors.dtype)


@torch.no_grad()
def plainly_aggregate_all(
    vectors: Tensor, near: Tensor, here: Tensor, score: Tensor, masks: Tensor, *links: Tensor
) -> Tensor:
    """What receivers get from all neighbors in operations of PyTorch, where nothing compiled may do it."""
    layer = MessageLayer(1, 1, attention_width=1, message="neighbor", stream=Stream(0, "layer"))
    layer.score = torch.nn.Parameter(score)
    messages = vectors.new_zeros(len(here), vectors.shape[1])
    add_messages(layer, vectors, near, here, masks, Links(*links), messages)
    return messages


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def layer_inputs(shape: tuple[int, ...], dtype: torch.dtype, *, binary: bool = True) -> Inputs:
    """Vectors, masks and weights of a layer, and a hop; a user may be a receiver twice."""
    senders, receivers, width, _, _, depth = shape
    (vectors, _, _, score, masks), at = inputs(shape, dtype, binary=binary)
    random = torch.Generator().manual_seed(1)
    project, combine = (torch.randn(n, 2 * width, generator=random, dtype=dtype) for n in (depth, 5))
    tensors = [vectors, masks, *(each / width**0.5 for each in (project, combine))]
    tensors.insert(3, score)
    hop = TensorHop(torch.randint(senders, (receivers,), generator=random), at["sender"], at["has_neighbors"])
    return [tensor.detach().requires_grad_() for tensor in tensors], {"hop": hop}


def layer(vectors: Tensor, masks: Tensor, project: Tensor, score: Tensor, combine: Tensor, hop: TensorHop) -> Tensor:
    """As a network calls it."""
    sizes = (vectors.shape[1], len(combine))
    made = MessageLayer(*sizes, attention_width=len(score), message="neighbor", stream=Stream(0, "layer"))
    weights = {"project": project, "score": score, "combine": combine}
    received: Tensor = torch.func.functional_call(made, weights, (vectors, masks, hop))
    return received


def plain_layer(
    vectors: Tensor, masks: Tensor, project: Tensor, score: Tensor, combine: Tensor, hop: TensorHop
) -> Tensor:
    """By the equations: conditional vectors of every user are formed."""
    own, (first, second) = vectors[hop.receiver], project.chunk(2, dim=1)
    near, here = (vectors[:, None] * masks) @ first.T, (own[:, None] * masks) @ second.T
    messages = plain(vectors, near, here, score, masks, sender=hop.sender, has_neighbors=hop.has_neighbors)
    return torch.cat([messages, own], dim=1) @ combine.T


def both(tensors: list[Tensor], at: dict[str, Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """What a layer gives, and the gradients of its inputs: ours, and those of the equations in double precision."""
    ours = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    assert at["hop"].backend == "numba"
    return zip(with_gradients(layer, (ours, at)), with_gradients(plain_layer, (exact, at)), strict=True)


def assert_plain(tensors: list[Tensor], at: dict[str, Any], tolerance: float) -> None:
    for ours, wanted in both(tensors, at):
        assert ours.dtype == tensors[0].dtype
        bound = tolerance * max(1.0, wanted.abs().max().item())
        torch.testing.assert_close(ours.double(), wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 3e-5)])
@pytest.mark.parametrize("binary", [True, False])
def test_compiled_is_plain(shape: tuple[int, ...], dtype: torch.dtype, tolerance: float, binary: bool) -> None:
    tensors, at = layer_inputs(shape, dtype, binary=binary)
    assert_plain(tensors, at, tolerance)


@st.composite
def hops(draw: st.DrawFn) -> Inputs:
    """Inputs of a layer of any shape, where a user may be heard or hear several times, or not at all.

    They are small multiples of a power of two: what goes into a ReLU is exact, and its sign in any precision the same.
    """
    senders, receivers, neighbors = draw(st.integers(1, 12)), draw(st.integers(1, 9)), draw(st.integers(1, 9))
    behaviors, width, depth = draw(st.integers(1, 64)), draw(st.integers(1, 40)), draw(st.integers(1, 40))
    random = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    sizes = ((senders, width), (behaviors, width), (depth, 2 * width), (depth,), (3, 2 * width))
    tensors = [torch.randint(-3, 4, size, generator=random).float() / 4 for size in sizes]
    tensors[1] = torch.randint(0, 3, sizes[1], generator=random).float() / 2
    sender, receiver = (torch.randint(senders, (receivers, n), generator=random) for n in (neighbors, 1))
    has_neighbors = torch.tensor(draw(st.lists(st.booleans(), min_size=receivers, max_size=receivers)))
    return tensors, {"hop": TensorHop(receiver[:, 0], sender, has_neighbors)}


@given(hops(), st.sampled_from([(torch.float64, 1e-12), (torch.float32, 3e-5)]))
@settings(deadline=None, max_examples=60)
def test_compiled_is_plain_in_any_shape(given_hop: Inputs, precision: tuple[torch.dtype, float]) -> None:
    (tensors, at), (dtype, tolerance) = given_hop, precision
    assert_plain([tensor.to(dtype) for tensor in tensors], at, tolerance)


INPUTS = ("vectors", "masks", "project", "score", "combine")
IN_LOGITS = ("vectors", "masks", "project", "score")
BALANCED = (  # of products whose factors are large and small, so that the softmax stays far from its ends
    {"vectors": 1e4, "score": 1e-4},
    {"vectors": 1e4, "project": 1e-4},
    {"masks": 1e4, "score": 1e-4},
    {"project": 1e4, "score": 1e-4},
    {"score": 1e4, "project": 1e-4},
)
PRECISIONS = [(torch.float64, 1e-11), (torch.float32, 1e-5)]


def scaled(tensors: list[Tensor], names: tuple[str, ...], factors: Mapping[str, float]) -> list[Tensor]:
    return [tensor.detach() * factors.get(name, 1.0) for name, tensor in zip(names, tensors, strict=True)]


def written(factors: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {factor:g}" for name, factor in factors.items())


@pytest.mark.parametrize("factors", [*({name: 1e-4} for name in INPUTS), {"combine": 1e4}, *BALANCED], ids=written)
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_large_and_small_inputs(factors: dict[str, float], dtype: torch.dtype, tolerance: float) -> None:
    tensors, at = layer_inputs(SHAPES["small"], dtype)
    for ours, wanted in both(scaled(tensors, INPUTS, factors), at):
        assert wanted.any()
        torch.testing.assert_close(ours.double(), wanted, rtol=0, atol=tolerance * wanted.abs().max().item())


@pytest.mark.parametrize("name", IN_LOGITS)
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_inputs_so_large_that_one_behavior_takes_it_all(name: str, dtype: torch.dtype, tolerance: float) -> None:
    tensors, at = layer_inputs(SHAPES["small"], dtype)
    of = ("received", *INPUTS)
    for which, (ours, wanted) in zip(of, both(scaled(tensors, INPUTS, {name: 1e4}), at), strict=True):
        is_gone = which in ("project", "score")  # their gradients: next to nothing is left of them
        assert wanted.any() or is_gone
        bound = 1.0 if is_gone else wanted.abs().max().item()
        torch.testing.assert_close(ours.double(), wanted, rtol=0, atol=tolerance * bound)


def test_the_gradient_is_that_of_finite_differences() -> None:
    tensors, at = layer_inputs((6, 5, 3, 2, 3, 4), torch.float64, binary=False)
    assert torch.autograd.gradcheck(lambda *each: layer(*each, **at), tensors)


def test_receivers_without_neighbors_get_zeros_and_teach_nothing() -> None:
    tensors, at = layer_inputs(SHAPES["small"], torch.float64)
    hop = replace(at["hop"], has_neighbors=torch.zeros(20, dtype=torch.bool))
    vectors, combine = tensors[0], tensors[-1]
    received, *gradients = with_gradients(layer, (tensors, {"hop": hop}))
    torch.testing.assert_close(received, vectors[hop.receiver] @ combine[:, 7:].T)
    assert not any(gradient.any() for gradient in gradients[1:4])
    assert not gradients[4][:, :7].any()


def test_no_receivers_at_all() -> None:
    tensors, at = layer_inputs((5, 0, 3, 2, 2, 2), torch.float32)
    assert at["hop"].backend == "torch"
    received, *gradients = with_gradients(layer, (tensors, at))
    assert received.shape == (0, 5)
    assert not any(gradient.any() for gradient in gradients)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("shape", [SHAPES["as on Ciao"], SHAPES["widths of no power of two"], (900, 800, 16, 3, 3, 4)])
def test_the_number_of_threads_changes_no_byte(shape: tuple[int, ...]) -> None:
    given, outputs = layer_inputs(shape, torch.float32), []
    for count in (1, 2, 3, 7):
        torch.set_num_threads(count)
        outputs.append([tensor.numpy().tobytes() for tensor in with_gradients(layer, given)])
    assert outputs[0] == outputs[1] == outputs[2] == outputs[3]


def test_operations_of_pytorch_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    (vectors, masks, project, score, combine), at = layer_inputs(SHAPES["small"], torch.float32)
    monkeypatch.setattr(backend, "ON_CPU", "torch")
    assert at["hop"].backend == "torch"
    ours = layer(vectors, masks, project, score, combine, **at)
    assert torch.equal(layer(vectors, masks, project, score, combine, **at), ours)
    torch.testing.assert_close(plain_layer(vectors, masks, project, score, combine, **at), ours)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_means_are_those_of_gathered_vectors(shape: tuple[int, ...]) -> None:
    (vectors, *_), at = inputs(shape, torch.float64)
    hop = TensorHop(torch.zeros(0, dtype=torch.int64), **at)
    ours, wanted = mean_of_senders(vectors, hop), vectors[at["sender"]].mean(dim=1)
    torch.testing.assert_close(ours, wanted)
    into = torch.linspace(-1, 2, ours.numel(), dtype=torch.float64).view_as(ours)
    gradients = [torch.autograd.grad((each * into).sum(), vectors)[0] for each in (ours, wanted)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 3e-5)])
def test_messages_of_all_neighbors_are_plain_and_the_same_on_any_threads(
    dtype: torch.dtype, tolerance: float, threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = torch.Generator().manual_seed(0)
    (vectors, near, here, score, masks), _ = inputs((50, 20, 7, 3, 2, 5), dtype, binary=False)
    degree = torch.randint(0, 6, (20,), generator=random)
    first = torch.cat([torch.zeros(1, dtype=torch.int64), degree.cumsum(0)])
    sender = torch.randint(50, (int(degree.sum()),), generator=random)
    share = torch.rand(len(sender), generator=random, dtype=dtype)
    vectors, near, here, score, masks = (each.detach() for each in (vectors, near, here, score, masks))
    links = (first, sender, share)
    assert not degree.all()
    messages = []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        messages.append(torch.zeros(20, 7, dtype=dtype))
        aggregate_all(vectors, near, here, score, masks, links, messages[-1])
    assert torch.equal(messages[0], messages[1])
    assert torch.equal(messages[0], messages[2])
    monkeypatch.setattr(backend, "ON_CPU", "torch")
    monkeypatch.setattr("mcne.models.inference.LINKS_AT_ONCE", 7)
    plainly = plainly_aggregate_all(vectors, near, here, score, masks, *links)
    torch.testing.assert_close(messages[0], plainly, rtol=tolerance, atol=tolerance)
    assert not messages[0][degree == 0].any()
    gate = masks.mean(dim=0)
    even = plainly_aggregate_all(vectors, near, here, torch.zeros_like(score), masks, *links)
    torch.testing.assert_close(even, shared_sum(vectors, first, sender, share) * gate, rtol=tolerance, atol=tolerance)
