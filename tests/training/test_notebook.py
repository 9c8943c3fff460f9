"""Progress in a notebook, as its display functions see it; without one, lines on stderr."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
from tests.small_training import sixty_users, small_settings

import mcne


class ZMQInteractiveShell:
    """What the shell of a notebook is called."""


class Handle:
    """A display that can be updated."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, content: Any) -> None:
        self.shown.append(content._repr_html_())


class Shell(ZMQInteractiveShell):
    """That of a service such as Colab."""


@pytest.fixture(params=[ZMQInteractiveShell, Shell])
def handle(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Handle:
    """What is displayed in a notebook."""
    handle = Handle()

    def display(content: Any, *, display_id: bool) -> Handle:
        assert display_id
        handle.update(content)
        return handle

    ipython = ModuleType("IPython")
    vars(ipython)["get_ipython"] = request.param
    module = ModuleType("IPython.display")
    vars(module)["display"] = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return handle


def test_a_bar_that_moves(handle: Handle, capsys: pytest.CaptureFixture[str]) -> None:
    mcne.BPR(**small_settings("bpr") | {"epochs": 2}, device="cpu").fit(sixty_users())
    first, *_, last = handle.shown
    assert '<progress value="0" max="2">' in first
    assert '<progress value="2" max="2">' in last
    assert "epoch 2/2" in last
    assert capsys.readouterr().err == ""


def test_the_bar_is_full_at_the_end(handle: Handle) -> None:
    mcne.Popularity().fit(sixty_users())
    assert '<progress value="200" max="200">' in handle.shown[-1]
    mcne.BPR(**small_settings("bpr") | {"epochs": 50, "patience": 1}, device="cpu").fit(sixty_users())
    assert "epoch 50/50" not in handle.shown[-1]
    assert '<progress value="50" max="50">' in handle.shown[-1]
    assert "epoch" in handle.shown[-1]


def test_a_comparison_has_a_bar(handle: Handle, capsys: pytest.CaptureFixture[str]) -> None:
    mcne.compare(sixty_users(), ["popularity", "ease"], seeds=2, device="cpu")
    assert '<progress value="0" max="4">' in handle.shown[0]
    assert any('<progress value="3" max="4">' in shown for shown in handle.shown)
    assert '<progress value="4" max="4">' in handle.shown[-1]
    assert capsys.readouterr().err == ""
