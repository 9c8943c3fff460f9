"""What is kept of five trainings of Ciao says what docs/results.md says of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks import five_trainings

KEPT = Path(__file__).parents[2] / "docs" / "tables" / "five-trainings"
SAID = (
    "an entry has flipped by then [28.29, 0.12, 3.51, 8.46, 5.96] times",
    "density of levels [0.47, 0.54, 0.51] on average",
    "density of one mask 0.24 to 0.68",
    "4 of 90 pairs at p < 0.05, 0 after Holm's correction within a training",
    "zero for every user [35, 42, 38, 17, 40]",
    "of the 15 nearest [0.963, 0.982, 0.992, 0.995, 0.993] are of the same behavior, under random masks 0.963 to 1.000",
    "silhouette above the random masks' mean in 2 of 5",
    "weighs most [('Books', 0.88), ('other', 0.25), ('Beauty', 0.81), ('Books', 0.8), ('Travel', 0.81)]",
    "behaviors, vectors: most against chance [4.55, 0.96, 2.73, 5.35, 4.0]",
    "links, vectors: most against chance [1.21, 2.11, 1.56, 1.26, 1.39]",
)


def test_it_prints_what_the_results_say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["five_trainings", str(KEPT)])
    five_trainings.main()
    printed = capsys.readouterr().out
    for line in SAID:
        assert line in printed
