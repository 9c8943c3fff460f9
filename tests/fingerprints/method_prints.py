"""What is recorded of every method: a training of two epochs on a small network, and what the run then answers."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tests.fingerprints.fingerprinting import (
    RANKED,
    TRAINED,
    CommandError,
    Loose,
    Print,
    mcne,
    of_arrays,
    of_directory,
    of_json,
    options,
)

KEPT = "methods.json"
EPOCHS, SEED = 2, 7
CLOSED = ("popularity", "userknn", "itemknn", "ease")
"""Methods that take no steps, so that no difference can grow."""
CHAOTIC = ("nfm of two layers",)
"""Cases with numbers that rounding alone decides: biases that a normalization takes away again."""
SEPARATELY = ("bpr", "userknn")
"""Cases that are also trained with a model for each behavior."""


def cases() -> dict[str, tuple[str, Mapping[str, Any], bool]]:
    """By name: the method, its settings, and whether each behavior has a model of its own."""
    contract = str(Path(__file__).parents[1] / "contract")
    sys.path.insert(0, contract)
    try:
        from tests.contract.cases import CASES
    finally:
        sys.path.remove(contract)
    by_name = {name: (case.method, case.settings, False) for name, case in CASES.items()}
    return by_name | {f"{name}, separate": (*by_name[name][:2], True) for name in SEPARATELY}


def loose(case: str) -> Loose:
    """How far its numbers may be from the recorded ones on a machine of another kind."""
    if case in CHAOTIC:
        return math.inf, math.inf
    return None if cases()[case][0] in CLOSED else (TRAINED, RANKED)


def make_network(path: Path) -> Print:
    """A synthetic network, and in ``path/data`` the same with weights on its links and a split; returns what was made.

    Links of the synthetic network have no weights, so it is written to tables and prepared from there.
    """
    mcne("data", "synthetic", "--out", path / "drawn", "--users", 500, "--behaviors", 2, "--seed", 3, "--attributes", 2)
    mcne("data", "export", path / "drawn", "--out", path / "tables", "--format", "csv")
    links = (path / "tables" / "links.csv").read_text().splitlines()
    lines = [f"{line},{0.5 + at % 7}" for at, line in enumerate(links[1:])]
    (path / "weighted.csv").write_text("\n".join([f"{links[0]},weight", *lines]) + "\n")
    given = ("--interactions", path / "tables" / "interactions.csv", "--users", path / "tables" / "users.csv")
    mcne("data", "prepare", "files", *given, "--links", path / "weighted.csv", "--out", path / "data")
    mcne("data", "split", path / "data", "--seed", 0)
    told = of_json(json.loads(mcne("data", "describe", path / "data", "--json")), floats_exact=True)
    return {"drawn": of_directory(path / "drawn"), "data": of_directory(path / "data"), "described": told}


def print_of(case: str, network: Path, run: Path, *, seed: int = SEED) -> Print:
    """Train a case and fingerprint what is saved and answered."""
    method, settings, is_separate = cases()[case]
    trained = ["--data", network, "--out", run, "--device", "cpu", "--seed", seed]
    chosen = options({**settings, **({} if method in CLOSED else {"epochs": EPOCHS})})
    mcne("train", method, *trained, *chosen, *(["--separate"] if is_separate else []))
    prints: Print = {}
    for kind in ("embeddings", "learned"):
        if (run / kind).is_dir():
            arrays = {file.stem: np.load(file, allow_pickle=False) for file in (run / kind).glob("*.npy")}
            prints |= {f"{kind}/{name}": each for name, each in of_arrays(arrays).items()}
    about = {str(file.relative_to(run)): json.loads(file.read_text()) for file in sorted(run.rglob("*.json"))}
    prints["about"] = of_json(about, floats_exact=True)
    lines = {str(file.relative_to(run)): file.read_text().splitlines() for file in sorted(run.rglob("metrics.jsonl"))}
    prints["metrics"] = of_json({n: [json.loads(one) for one in each] for n, each in lines.items()}, floats_exact=True)
    measured = {each: _asked("evaluate", run, "--protocol", each) for each in ("sampled", "full", "popular")}
    prints["evaluation"] = of_json(measured, floats_exact=True)
    if (run / "embeddings").is_dir():
        prints["answers"] = of_json(answers(run, "Books"), floats_exact=True)
    return prints


def answers(run: Path, behavior: str, *, user: int = 1, other: int = 2) -> dict[str, Any]:
    """What a run answers about a user, and which questions it refuses; their wording is in ``tests/mistakes``."""
    asked = {
        "recommend": ("recommend", run, "--user", user, "--behavior", behavior, "-k", 5),
        "similar": ("similar", run, "--user", user, "--behavior", behavior, "-k", 5),
        "similar in all": ("similar", run, "--user", user, "-k", 5),
        "explain": ("explain", run, "--user", user, "--other", other),
    }
    printed = {}
    for name, args in asked.items():
        try:
            printed[name] = _asked(*args)
        except CommandError:
            printed[name] = "refused"
    return printed


def _asked(*args: object) -> Any:
    return json.loads(mcne(*args, "--json"))
