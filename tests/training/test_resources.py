"""Where a training runs: a device that every thread understands alike."""

from __future__ import annotations

import pytest
import torch
from tests.errors import refused

from mcne.errors import UsageError
from mcne.training.resources import choose_device


@pytest.mark.parametrize(("is_open", "number"), [(False, 0), (True, 3)])
def test_a_gpu_has_its_number(is_open: bool, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: is_open)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)  # of this thread; others have their own
    assert choose_device("cuda") == choose_device("auto") == torch.device("cuda", number)
    assert choose_device("cpu") == torch.device("cpu")


def test_without_a_gpu_there_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == torch.device("cpu")
    with refused(UsageError, place="device cuda", value="cuda"):
        choose_device("cuda")
