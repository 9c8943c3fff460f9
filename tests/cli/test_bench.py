"""``mcne bench``: what it prints, and that asking for help loads nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from mcne.cli.main import main
from mcne_bench import figures
from mcne_bench.figures import Measurement, NotMeasuredError, Taken


def not_here() -> Taken:
    raise NotMeasuredError("no GPU here")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [
        Measurement("step.plain", "step", "plain operations", 1, lambda: Taken(0.25, "1 ms against 4 ms")),
        Measurement("gpu.step", "step on a GPU", "launches", 1, not_here),
    ]
    monkeypatch.setattr(figures, "for_users", lambda: made)


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["mcne", "bench", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_json_holds_the_figures_and_the_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert [(each["key"], each["value"]) for each in printed["figures"]] == [("step.plain", 0.25), ("gpu.step", None)]
    assert printed["machine"]["cores"] >= 1
    assert "torch" in printed["machine"]["libraries"]


def test_the_table_shows_what_was_and_was_not_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "step.plain          0.25 ×  at most 1     reached   against plain operations",
        "                 1 ms against 4 ms",
        "gpu.step                 –  at most 1     not run   against launches",
        "                 no GPU here",
    ]


def test_only_what_is_asked_for_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "gpu", "--json") == 0
    assert [each["key"] for each in json.loads(capsys.readouterr().out)["figures"]] == ["gpu.step"]
    assert run(monkeypatch, "--list") == 0
    assert capsys.readouterr().out.splitlines()[0] == "step.plain       step, against plain operations"


def test_an_unknown_figure_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "stp") == 2
    assert "unknown figure 'stp'; did you mean 'step'?" in capsys.readouterr().err


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys\nfrom mcne.cli.main import main\nsys.argv = ['mcne', 'bench', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'torch', 'numpy', 'scipy', 'numba', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
