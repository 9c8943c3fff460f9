"""Every example in a docstring runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import mcne

FINDER = doctest.DocTestFinder(exclude_empty=True)
NEEDS_GPU = "mcne.kernels.triton"


def modules() -> list[ModuleType]:
    """Every module of the package that can be imported here."""
    names = [each.name for each in pkgutil.walk_packages(mcne.__path__, "mcne.")]
    return [importlib.import_module(name) for name in names if not name.startswith((NEEDS_GPU, "mcne.__main__"))]


def examples() -> list[doctest.DocTest]:
    """The docstrings that have examples."""
    return [each for module in modules() for each in FINDER.find(module) if each.examples]


@pytest.mark.parametrize("example", examples(), ids=lambda each: each.name)
def test_an_example(example: doctest.DocTest, capsys: pytest.CaptureFixture[str]) -> None:
    failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example).failed
    assert not failed, capsys.readouterr().out


def test_there_are_examples() -> None:
    assert len(examples()) >= 8
