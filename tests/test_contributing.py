"""What CONTRIBUTING.md adds can be added as it stands: the changes apply, touch few files, and what they add works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHANGES = re.findall(r"^```diff\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL | re.MULTILINE)
ADDED = (
    *("tests/data/test_lastfm.py", "tests/plots/test_degrees.py", "tests/cli/test_settings_command.py"),
    *("tests/evaluation/test_metrics.py", "tests/contract/test_methods.py"),
)
CHOSEN = "lastfm or degrees or settings or metrics or friends or every_method_is_here"


def files_of(change: str) -> list[str]:
    return re.findall(r"^\+\+\+ b/(.*)$", change, re.MULTILINE)


def test_each_touches_at_most_three_files() -> None:
    assert len(CHANGES) == 5
    assert [len(files_of(change)) for change in CHANGES] == [3, 2, 3, 3, 3]


@pytest.mark.slow
def test_all_of_them_work(tmp_path: Path) -> None:
    for name in ("src", "tests", "benchmarks", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "written_by_0_1"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for change in CHANGES:
        subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=change, text=True, check=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    command = [sys.executable, "-m", "pytest", "-q", *ADDED, "-k", CHOSEN]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for tool in (["ruff", "check", "."], ["mypy"]):
        path = Path(sys.executable).with_name(tool[0])
        subprocess.run([path, *tool[1:]], cwd=tmp_path, env=environment, check=True)
