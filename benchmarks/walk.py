"""``python -m benchmarks.walk``: how deep the calls of a training step go, and in how many files they are.

A step of MCNE is followed from the command line on a small synthetic network: the figures of docs/architecture.md.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import mcne
from mcne.cli.main import app

ROOT = str(Path(mcne.__file__).parent)
SETTINGS = ("--set=epochs=1", "--set=widths=[8,8]", "--set=neighbor_samples=[3]", "--set=workers=1")


class Walk:
    """Remembers the deepest chain of calls below a step, and the files of all."""

    def __init__(self) -> None:
        self.deepest: list[str] = []
        self.files: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        chain = []
        at: FrameType | None = frame
        while at is not None:
            path = at.f_code.co_filename
            name = at.f_code.co_qualname
            if path.startswith(ROOT) and not name.startswith(("<", "Stream.")) and "<" not in name.rpartition(".")[2]:
                chain.append(f"{path.removeprefix(ROOT + '/')}: {name}")
            at = at.f_back
        if any("Loop._step" in each for each in chain):
            self.files |= {each.partition(":")[0] for each in chain}
            if len(chain) > len(self.deepest):
                self.deepest = chain[::-1]


def main() -> None:
    walk = Walk()
    with tempfile.TemporaryDirectory() as place:
        app(["data", "synthetic", "--users", "500", "--out", f"{place}/data"], standalone_mode=False)
        run = ["train", "mcne", "--data", f"{place}/data", "--device", "cpu", *SETTINGS]
        app([*run, "--out", f"{place}/compiles"], standalone_mode=False)
        threading.setprofile(walk)
        sys.setprofile(walk)
        app([*run, "--out", f"{place}/run"], standalone_mode=False)
        sys.setprofile(None)
    print(f"{len(walk.deepest)} calls deep, in {len(walk.files)} files")
    print("\n".join(f"  {each}" for each in walk.deepest))
    print("\n".join(sorted(walk.files)))


if __name__ == "__main__":
    main()
