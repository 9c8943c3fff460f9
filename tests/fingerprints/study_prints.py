"""What is recorded of studies: comparisons, sweeps, transfers, structure, new users, figures and pages, all small."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.fingerprints.fingerprinting import Print, mcne, of_directory, of_json, of_text, options

KEPT = "studies.json"
SEED = 5
BEHAVIORS = ("read", "watch", "play")
MCNE: dict[str, Any] = {
    "widths": [8, 6],
    "neighbor_samples": [3],
    "attention_width": 4,
    "batch_size": 64,
    "learning_rate": 0.03,
    "epochs": 2,
}
TIMES = "times.jsonl"
"""Clock times alone."""

COMPARISON = """
title = "Three methods"
command = "mcne compare"
repetitions = 2
search = 4
protocols = ["sampled", "full", "popular"]
reference = "mcne"
[training]
epochs = 2
[methods.popularity]
[methods.bpr]
modes = ["joint", "separate"]
settings = { width = 4, batch_size = 64, learning_rate = 0.03 }
[methods.bpr.search]
l2 = [0.001, 0.1]
[methods.mcne]
settings = { widths = [8, 6], neighbor_samples = [3], attention_width = 4, batch_size = 64 }
[methods.mcne.search]
learning_rate = [0.01, 0.03]
[methods.mcne-a]
settings = { widths = [8, 6], neighbor_samples = [3], batch_size = 64, learning_rate = 0.03 }
[paper.bpr]
read = [10.0, 12.5]
[expected]
bpr = [9.0, 7.0]
"""

TRANSFER = """
command = "mcne compare-transfer"
behavior = "play"
repetitions = 2
search = 2
[training]
epochs = 2
[base]
settings = { widths = [8, 6], neighbor_samples = [3], attention_width = 4, batch_size = 64, learning_rate = 0.03 }
[rows.transfer]
[rows.transfer.search]
l2 = [0.001, 0.1]
[rows.random-masks]
control = "random-masks"
[rows.masks-only]
control = "masks-only"
[rows.popularity]
method = "popularity"
[rows."trained anew"]
method = "mcne"
on = "all"
settings = { widths = [8, 6], neighbor_samples = [3], attention_width = 4, batch_size = 64 }
"""

Study = Callable[[Path, Path], Print]


def write_tables(path: Path, *, users: int = 120, items: int = 40, records: int = 6, seed: int = 11) -> None:
    """A network in CSV files: three behaviors, links that prefer near users, an attribute; and without the last one."""
    path.mkdir(parents=True)
    chance = np.random.default_rng(seed)
    lines = []
    for name in BEHAVIORS:
        for user in range(users):
            liked = (user * items // users + np.arange(items // 4)) % items
            chosen = chance.choice(liked if user % 3 else items, records, replace=False)
            lines += [f"{user},{name}-{item},{name}" for item in chosen.tolist()]
    head = "user_id,item_id,behavior"
    (path / "all.csv").write_text("\n".join([head, *lines]) + "\n")
    (path / "earlier.csv").write_text("\n".join([head, *(x for x in lines if not x.endswith(BEHAVIORS[-1]))]) + "\n")
    ends = [(user, (user + int(step)) % users) for user in range(users) for step in chance.integers(1, 9, 3)]
    (path / "links.csv").write_text("\n".join(["source_id,target_id", *(f"{a},{b}" for a, b in ends)]) + "\n")
    ages = chance.integers(20, 70, users).tolist()
    (path / "users.csv").write_text("\n".join(["user_id,age", *(f"{u},{age}" for u, age in enumerate(ages))]) + "\n")


def make_ground(path: Path) -> Path:
    """What studies begin with: datasets with and without the last behavior, and a run on the smaller one."""
    write_tables(path / "tables")
    for name in ("all", "earlier"):
        records = ("--interactions", path / "tables" / f"{name}.csv", "--links", path / "tables" / "links.csv")
        users = ("--users", path / "tables" / "users.csv", "--name", "small")
        mcne("data", "prepare", "files", *records, *users, "--out", path / name)
    places = ("--data", path / "earlier", "--out", path / "base")
    mcne("train", "mcne", *places, "--device", "cpu", "--seed", SEED, *options(MCNE))
    return path


def datasets(ground: Path, out: Path) -> Print:
    """Datasets made of tables, splits, and what is told of them; exported again."""
    prints = {
        "all": of_directory(ground / "all", leave_out=[]),
        "base": of_directory(ground / "base", leave_out=[TIMES]),
    }
    prints["described"] = _json(mcne("data", "describe", ground / "all", "--json"))
    for file_format in ("parquet", "csv", "recbole"):
        mcne("data", "export", ground / "all", "--out", out / file_format, "--format", file_format)
        prints[file_format] = of_directory(out / file_format)
    given = ("--interactions", out / "csv" / "interactions.csv", "--links", out / "csv" / "links.csv")
    mcne("data", "prepare", "files", *given, "--out", out / "again", "--min-links", 5, "--drop-isolated")
    mcne("data", "split", out / "again", "--ratios", "60,20,20", "--seed", 4, "--name", "mine")
    return prints | {"again": of_directory(out / "again")}


def comparison(ground: Path, out: Path) -> Print:
    """Search, repetitions and tables, then figures and pages of them."""
    out.mkdir()
    (out / "plan.toml").write_text(COMPARISON)
    given = ("--data", ground / "all", "--device", "cpu")
    mcne("compare", out / "plan.toml", *given, "--out", out / "study")
    prints = {"study": of_directory(out / "study")}
    drawn = ("--rows", "mcne-a,mcne", "--out", out / "ablation.svg")
    prints["ablation"] = _json(mcne("plot", "ablation", out / "study", *drawn, "--json"))
    mcne("report", out / "study", "--data", ground / "all", "--out", out / "report.html", "--no-map")
    return prints | {"report": _page(out / "report.html", out, ground)}


def sweep(ground: Path, out: Path) -> Print:
    """A sweep of two settings, and its figure."""
    values = ("--set", "final_width=4,6", "--set", "l2=0.001,0.1")
    asked = (*options(MCNE), *values, "--repetitions", 2, "--device", "cpu", "--json")
    prints = {"printed": _json(mcne("sweep", "mcne", "--data", ground / "all", "--out", out / "study", *asked))}
    prints["study"] = of_directory(out / "study")
    prints["drawn"] = _json(mcne("plot", "sweep", out / "study", "--out", out / "sweep.svg", "--json"))
    return prints


def transfer(ground: Path, out: Path) -> Print:
    """A behavior brought to a trained network, with and without a control."""
    prints: Print = {}
    for control in ("none", "masks-only", "random-masks", "open-masks", "whole-vector"):
        run = out / control
        given = ("--data", ground / "all", "--behavior", "play", "--out", run, "--device", "cpu", "--seed", SEED)
        mcne("transfer", ground / "base", *given, *options({"epochs": 2}), "--control", control)
        prints[control] = of_directory(run, leave_out=[TIMES])
        prints[control]["evaluation"] = _json(mcne("evaluate", run, "--json"))
    return prints


def transfer_study(ground: Path, out: Path) -> Print:
    """Ways to bring a behavior, compared."""
    out.mkdir()
    (out / "plan.toml").write_text(TRANSFER)
    given = ("--data", ground / "all", "--out", out / "study", "--device", "cpu")
    mcne("compare-transfer", out / "plan.toml", *given)
    return {"study": of_directory(out / "study", leave_out=[TIMES])}


def structure(ground: Path, out: Path) -> Print:
    """Held-out links told from other pairs, and the figure of it."""
    asked = ("--methods", "mcne,bpr,line", "--repetitions", 2, "--device", "cpu", "--set", "epochs=2")
    settings = (*(f"--set=mcne.{each.removeprefix('--set=')}" for each in options(MCNE)), "--set", "width=4")
    printed = mcne("structure", "--data", ground / "earlier", "--out", out / "study", *asked, *settings, "--json")
    prints = {"printed": _json(printed), "study": of_directory(out / "study", leave_out=[TIMES])}
    prints["drawn"] = _json(mcne("plot", "structure", out / "study", "--out", out / "structure.svg", "--json"))
    return prints


def new_users(ground: Path, out: Path) -> Print:
    """Users held out of training, and users brought into a trained network."""
    asked = ("--seeds", 2, "--in-training", "--device", "cpu", "--method", "mcne-attributes", *options(MCNE), "--json")
    prints = {"printed": _json(mcne("compare-new-users", "--data", ground / "earlier", "--out", out / "study", *asked))}
    prints["study"] = of_directory(out / "study", leave_out=[TIMES])
    (out / "links.csv").write_text("source_id,target_id\n900,3\n900,4\n901,17\n")
    (out / "history.csv").write_text("user_id,item_id,behavior\n900,read-1,read\n902,watch-5,watch\n902,read-6,read\n")
    given = ("--links", out / "links.csv", "--history", out / "history.csv", "--out", out / "more")
    mcne("embed-users", ground / "base", *given)
    prints["more"] = of_directory(out / "more")
    asked = ("--user", 900, "--behavior", "read", "-k", 5, "--json")
    return prints | {"recommended": _json(mcne("recommend", out / "more", *asked))}


def figures(ground: Path, out: Path) -> Print:
    """The numbers of figures of a run, its page, and vectors for other programs."""
    run = ground / "base"
    prints = {}
    out.mkdir()
    asked = {
        "masks": ("masks", run),
        "curves": ("curves", run),
        "map": ("map", run, "--seed", 1),
        "aligned map": ("map", run, "--aligned"),
        "attention": ("attention", run, "--draws", 3),
        "attention of a user": ("attention", run, "--user", 1),
    }
    for name, args in asked.items():
        prints[name] = _json(mcne("plot", *args, "--out", out / f"{name.replace(' ', '-')}.svg", "--json"))
    for kept in sorted(out.glob("*.json")):
        prints[kept.name] = of_json(json.loads(kept.read_text()), floats_exact=False)
    mcne("report", run, "--out", out / "report.html", "--map", out / "map.json")
    prints["report"] = _page(out / "report.html", out, ground)
    for file_format in ("npz", "word2vec", "parquet"):
        mcne("export", run, "--out", out / file_format, "--format", file_format)
        prints[file_format] = of_directory(out / file_format)
    return prints


STUDIES: dict[str, Study] = {
    study.__name__.replace("_", " "): study
    for study in (datasets, comparison, sweep, transfer, transfer_study, structure, new_users, figures)
}


def _json(printed: str) -> Print:
    return of_json(json.loads(printed), floats_exact=False)


def _page(path: Path, *places: Path) -> Print:
    """A page without figures, and without places."""
    text = re.sub(r"<svg.*?</svg>", "<svg/>", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for place in places:
        text = text.replace(str(place), "PLACE")
    return of_text(text)
