"""Every command and every line of Python in the README runs, in a directory with a person's files."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mcne

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("make", "pip")
"""Commands that other tests run, or that install."""


def blocks(language: str) -> list[str]:
    """The blocks of code in a language; shell has none."""
    return [text for kind, text in BLOCK.findall(README.read_text()) if kind == language]


def tables(behaviors: tuple[str, ...]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Interactions and links of 60 people, Ann, Bob and Eve among them."""
    random = np.random.default_rng(0)
    people = ["ann", "bob", "eve", *(f"user{number}" for number in range(57))]
    items = {name: ["dune", "lisbon", *(f"{name}{number}" for number in range(28))] for name in behaviors}
    rows = [(person, item, name) for name in behaviors for person in people for item in random.choice(items[name], 6)]
    links = [("ann", "bob"), ("bob", "eve"), *(tuple(random.choice(people, 2, replace=False)) for _ in range(150))]
    return (
        pd.DataFrame(rows, columns=["user_id", "item_id", "behavior"]),
        pd.DataFrame(links, columns=["source_id", "target_id"]),
    )


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of someone who reads the README."""
    path = tmp_path_factory.mktemp("desk")
    interactions, links = tables(("Books", "Travel"))
    interactions.to_csv(path / "interactions.csv", index=False)
    links.to_csv(path / "links.csv", index=False)
    mcne.datasets.from_frames(*tables(("Books", "Travel", "Sports"))).save(path / "mydata-with-sports")
    (path / "new-links.csv").write_text("source_id,target_id\nzoe,ann\nzoe,bob\n")
    (path / "new-records.csv").write_text("user_id,item_id,behavior\nzoe,dune,Books\n")
    (path / "plan.toml").write_text(blocks("toml")[0])
    return path


@pytest.mark.slow
def test_every_command(desk: Path) -> None:
    """In the order of the page: later commands need what earlier ones made."""
    raw = os.environ.get("MCNE_DATA_DIR")
    lines = [line for block in blocks("") for line in block.splitlines() if line.startswith(("mcne ", *ELSEWHERE))]
    assert len(lines) > 15
    for line in lines:
        if line.startswith(ELSEWHERE) or ("path/to" in line and raw is None):
            continue
        words = shlex.split(line.replace("path/to", str(raw)), comments=True)
        done = subprocess.run([sys.executable, "-m", *words], cwd=desk, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (line, done.stdout, done.stderr)


def test_every_line_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks one after the other, as in a notebook."""
    monkeypatch.chdir(tmp_path)
    interactions, links = tables(("Books", "Travel"))
    sports = tables(("Sports",))[0].drop(columns="behavior")
    new_links = pd.DataFrame({"source_id": ["zoe"], "target_id": ["ann"]})
    known = {"interactions": interactions, "links": links, "sports": sports, "new_links": new_links}
    code = "\n".join(blocks("python"))
    assert len(code.splitlines()) > 10
    exec(compile(code, README.name, "exec"), known)
