"""Virtual environments of pinned packages that the project itself never depends on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ENVIRONMENTS = Path("bench-results") / "rivals"


def python_with(requirements: Path, name: str) -> Path:
    """The interpreter of the environment ``name``, which has ``requirements``; made on first use."""
    directory = ENVIRONMENTS.resolve() / name
    python, done = directory / "bin" / "python", directory / "done"
    if not done.is_file() or done.read_text() != requirements.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", directory], check=True)
        pip: list[str | Path] = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", requirements], check=True)
        done.write_text(requirements.read_text())
    return python
