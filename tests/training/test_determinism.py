"""Who asks for the same bytes on a GPU gets them, or is told why not; PyTorch is left as it was."""

from __future__ import annotations

import os

import pytest
import torch

from mcne.errors import UsageError
from mcne.training.determinism import WORKSPACE, one_order

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def closed_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU has been used, and cuBLAS was told nothing."""
    monkeypatch.setenv(WORKSPACE, "to be removed")  # so that what is set in a test does not outlive it
    monkeypatch.delenv(WORKSPACE)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)


def state() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory


def test_pytorch_adds_up_in_one_order_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = state()
    with one_order(GPU, is_asked=True):
        assert state() == (True, False)
        assert os.environ[WORKSPACE] == ":4096:8"
    assert state() == before == (False, True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)  # as after a first training, which set it
    with one_order(GPU, is_asked=True):
        assert state() == (True, False)


@pytest.mark.parametrize(("device", "is_asked"), [(CPU, True), (GPU, False)])
def test_nothing_changes_where_nothing_has_to(device: torch.device, is_asked: bool) -> None:
    before = state()
    with one_order(device, is_asked=is_asked):
        assert state() == before
        assert WORKSPACE not in os.environ


def test_a_gpu_that_is_open_with_another_workspace_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with (
        pytest.raises(UsageError, match=r"not set; set it to :4096:8 before Python starts"),
        one_order(GPU, is_asked=True),
    ):
        raise AssertionError("nothing may be trained")
    assert state() == (False, True)


def test_an_operation_without_one_order_is_named() -> None:
    with pytest.raises(UsageError, match="has no histc_cuda that adds up in one order"), one_order(GPU, is_asked=True):
        raise RuntimeError("histc_cuda does not have a deterministic implementation, but you set …")
    with pytest.raises(RuntimeError, match="out of memory"), one_order(GPU, is_asked=True):
        raise RuntimeError("out of memory")
    assert state() == (False, True)
