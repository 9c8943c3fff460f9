"""Cost of a training step of MCNE against users, batch, neighbors and behaviors: as JSON, and drawn."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from benchmarks import drawing
from benchmarks.drawing import Panel
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.plots.style import styled, to_svg
from mcne_bench.figures import CIAO_SIZED, Contender, all_for_training, machine, medians, stepping

USERS = (10_000, 30_000, 100_000, 300_000, 1_000_000)
BATCHES = (32, 64, 128, 256, 512)
NEIGHBORS = (5, 10, 20, 40)
BEHAVIORS = (1, 2, 4, 8, 16, 32, 64)
COMMON = 100_000
"""Users of the network on which batches and neighbors grow: enough not to be reached by all steps."""


def draw(directory: Path) -> list[Path]:
    """Measure all four, and keep them as ``cost.json`` and ``cost.svg``."""
    directory.mkdir(exist_ok=True)
    on = machine()
    paper = MCNEConfig()
    common = _network(COMMON)
    cases: list[tuple[str, Sequence[int], Callable[[int], MCNE]]] = [
        ("users", USERS, lambda size: _model(common if size == COMMON else _network(size), paper)),
        ("positive pairs per behavior and step", BATCHES, lambda size: _model(common, replace(paper, batch_size=size))),
        ("neighbors per user and layer", NEIGHBORS, lambda n: _model(common, replace(paper, neighbor_samples=(n, n)))),
        ("behaviors", BEHAVIORS, _of_behaviors),
    ]
    drawn = []
    for name, sizes, make in cases:
        print(f"{name} …", file=sys.stderr, flush=True)
        drawn.append(Panel(name, "ms per step", tuple(sizes), _milliseconds([make(size) for size in sizes])))
    paths = [directory / "cost.json", directory / "cost.svg"]
    kept = {"machine": on, "curves": [asdict(panel) for panel in drawn]}
    paths[0].write_text(json.dumps(kept, indent=1, ensure_ascii=False), encoding="utf-8")
    with styled("light"):
        paths[1].write_text(to_svg(drawing.draw(drawn)), encoding="utf-8")
    return paths


def _milliseconds(models: Sequence[MCNE]) -> tuple[float, ...]:
    """Of a step of each, in turns."""
    taken = medians({str(k): Contender(stepping(model)) for k, model in enumerate(models)}, rounds=7, warm_up=2)
    return tuple(round(1e3 * seconds, 2) for seconds in taken.values())


def _model(data: TrainingData, config: MCNEConfig) -> MCNE:
    return MCNE(data, config, seed=0, device=torch.device("cpu"))


def _network(users: int) -> TrainingData:
    config = SyntheticConfig(users=users, behaviors=3, links_per_user=5.0, records_per_user=1.0)
    return all_for_training(generate(config)[0])


def _of_behaviors(count: int) -> MCNE:
    """On a network of Ciao's size, whose behaviors are there several times under other names."""
    data = all_for_training(generate(CIAO_SIZED)[0])
    numbers = [k % len(data.names) for k in range(count)]
    names = tuple(f"behavior {k}" for k in range(count))
    n_items, pairs = tuple(data.n_items[k] for k in numbers), tuple(data.pairs[k] for k in numbers)
    return _model(TrainingData(data.graph, names, n_items, pairs), MCNEConfig())
