"""Who asks for the same bytes on a GPU gets them, or is told why not; PyTorch is left as it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from mcne.errors import UsageError
from mcne.training.determinism import one_order

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
ORDERED = (True, False, False)


def state() -> tuple[bool, bool, bool]:
    """Whether sums have one order, whether PyTorch only warns where they have not, and whether it fills what is new."""
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    return torch.are_deterministic_algorithms_enabled(), warns, torch.utils.deterministic.fill_uninitialized_memory


@pytest.fixture(params=[(False, False), (True, True), (True, False)])
def before(request: pytest.FixtureRequest) -> Iterator[tuple[bool, bool, bool]]:
    """What a caller had asked of PyTorch."""
    torch.use_deterministic_algorithms(request.param[0], warn_only=request.param[1])
    yield state()
    torch.use_deterministic_algorithms(False)


def test_pytorch_adds_up_in_one_order_while_it_lasts(before: tuple[bool, bool, bool]) -> None:
    with one_order(GPU, is_asked=True):
        assert state() == ORDERED
    assert state() == before


@pytest.mark.parametrize(("device", "is_asked"), [(CPU, True), (GPU, False)])
def test_nothing_changes_where_nothing_has_to(device: torch.device, is_asked: bool) -> None:
    before = state()
    with one_order(device, is_asked=is_asked):
        assert state() == before


def test_an_operation_without_one_order_is_named(before: tuple[bool, bool, bool]) -> None:
    with pytest.raises(UsageError, match="has no histc_cuda that adds up in one order"), one_order(GPU, is_asked=True):
        raise RuntimeError("histc_cuda does not have a deterministic implementation, but you set …")
    assert state() == before


@pytest.mark.parametrize("said", ["out of memory", "Parent directory /runs/deterministic/x does not exist."])
def test_other_errors_are_left_alone(said: str, before: tuple[bool, bool, bool]) -> None:
    with pytest.raises(RuntimeError, match=said), one_order(GPU, is_asked=True):
        raise RuntimeError(said)
    assert state() == before
