"""What methods need, and that the page about them tells their defaults."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.contract.cases import NEEDS
from tests.errors import refused
from tests.models.methods_page import PAGE, page
from tests.small_training import small_network, train_small

from mcne.data.behavior import Attribute
from mcne.data.graph import Graph, undirected
from mcne.errors import UsageError
from mcne.models.registry import METHODS, entry, refusal, setting_names
from mcne.models.settings import TrainingSettings, to_json

NETWORK = small_network()
NETWORK = dataclasses.replace(NETWORK, attributes={"age": Attribute(np.arange(500.0))})


def without_links() -> Graph:
    graph = NETWORK.graph
    return undirected(NETWORK.n_users, graph.indices[:0], graph.indices[:0])[0]


@pytest.mark.parametrize("method", METHODS)
def test_names_of_settings_without_importing_the_method(method: str) -> None:
    kinds = (entry(method).config, TrainingSettings)
    assert setting_names(method) == [field.name for kind in kinds for field in dataclasses.fields(kind)]


@pytest.mark.parametrize("method", METHODS)
def test_who_needs_links_is_refused_without(method: str) -> None:
    assert refusal(method, NETWORK, is_alone=False) is None
    refused = refusal(method, dataclasses.replace(NETWORK, graph=without_links()), is_alone=False)
    assert (refused is not None) == (method in NEEDS["links"])
    if refused:
        assert refused.value == method
        assert "add links" in refused.remedy


@pytest.mark.parametrize("method", METHODS)
def test_who_starts_from_attributes_is_refused_without(method: str) -> None:
    refused = refusal(method, dataclasses.replace(NETWORK, attributes={}), is_alone=False)
    assert (refused is not None) == (method in NEEDS["attributes"])
    if refused:
        assert refused.value == method
        assert "--users" in refused.remedy


def test_a_refused_training_leaves_nothing(tmp_path: Path) -> None:
    dataset = dataclasses.replace(NETWORK, graph=without_links())
    with refused(UsageError, value="line"):
        train_small("line", dataset, tmp_path / "run", settings={})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("method", METHODS)
def test_who_tells_behaviors_apart_is_refused_with_one(method: str) -> None:
    one, alone = refusal(method, NETWORK.only(0), is_alone=False), refusal(method, NETWORK, is_alone=True)
    if method in NEEDS["behaviors"]:
        assert one is not None
        assert one.value == method
        assert NETWORK.behavior_names[0] in one.problem
        assert alone is not None
        assert "--separate" in alone.remedy
    else:
        assert one is alone is None


def test_the_page_is_what_the_registry_tells() -> None:
    """``python -m tests.models.methods_page`` writes it anew."""
    assert PAGE.read_text() == page()


def test_names_of_methods_need_no_torch() -> None:
    code = "import sys; from mcne.models.registry import METHODS; assert not {'torch', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("method", METHODS)
def test_the_page_tells_the_defaults(method: str) -> None:
    """Every setting of the config, and no other, with the value that it has."""
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{method}` |"))
    told = row.split("|")[-2]
    config = {name: json.dumps(value) for name, value in to_json(METHODS[method].config()).items()}
    base = re.match(r" as `([\w-]+)`", told)
    expected = {}
    if base:
        expected = {name: json.dumps(v) for name, v in to_json(METHODS[base[1]].config()).items()}
    expected |= {name: value.replace('"', "") for name, value in re.findall(r"`(\w+)` (\[[^]]*\]|[\w.-]+)", told)}
    numbers = {name: json.dumps(json.loads(value)) if value[0].isdigit() else value for name, value in expected.items()}
    assert {name: _plain(value) for name, value in numbers.items()} == {n: _plain(v) for n, v in config.items()}


def _plain(value: str) -> str:
    value = value.replace('"', "").replace("null", "all").replace("auto", "all")  # where nothing is set
    try:
        return str(float(value))
    except ValueError:
        return value
