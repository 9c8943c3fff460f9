"""What Typer refuses is said like all other mistakes, and help texts are whole paragraphs."""

from __future__ import annotations

import re

import pytest
from tests.cli.in_process import Run

from mcne.cli.main import COMMANDS, app
from mcne.cli.options import unwrapped


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("trian bpr", "unknown command 'trian'; did you mean 'train'? Otherwise, choose one of train, evaluate, "),
        ("train bpr --data . --out run --epoch 5", "--epoch: unknown option; did you mean --set epochs=5? Otherwise, "),
        ("train mcne --data . --out run --widths=[8,8]", "--widths: unknown option; did you mean --set widths=[8,8]?"),
        ("recommend . --usr 3", "--usr: unknown option; did you mean --user? Otherwise, see mcne recommend --help"),
        ("train bpr --data . --out", "--out: needs a value; write --out VALUE"),
        ("train bpr --data . --out run --resume=yes", "--resume: takes no value; write --resume alone"),
        ("train bpr --data .", "--out: missing; add --out VALUE; see mcne train --help"),
        ("evaluate", "RUN: missing; see mcne evaluate --help"),
        ("train bpr mcne --data . --out run", "mcne: unexpected argument; see mcne train --help"),
        ("train bpr --data . --out run --seed -1", "--seed: -1 is out of range; use a whole number of 0 or more"),
        ("train bpr --data . --out run --seed=x", "--seed: 'x' is not a whole number; use a whole number of 0 or more"),
        ("data split . --seed -1", "--seed: -1 is out of range; use a whole number of 0 or more"),
        ("data synthetic --out new --seed -1", "--seed: -1 is out of range; use a whole number of 0 or more"),
        ("compare --data . --out study --jobs 0", "--jobs: 0 is out of range; use a whole number of 1 or more"),
        ("structure --data . --out study --share much", "--share: 'much' is not a number; use a number, such as 4"),
        (
            "evaluate . --protocol fulll",
            "--protocol: unknown value 'fulll'; did you mean 'full'? Otherwise, choose one",
        ),
        ("plot map . --out x.png --theme red", "--theme: unknown value 'red'; choose one of light, dark"),
    ],
)
def test_what_typer_refuses_names_option_value_and_what_is_allowed(command: str, message: str, run: Run) -> None:
    result = run(*command.split())
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {message}")
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize("command", [*COMMANDS, "plot map", "plot attention", "data split"])
def test_help_has_whole_paragraphs(command: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    result = run(*command.split(), "--help")
    assert result.code == 0
    assert "default: (" not in result.out
    assert not re.search(r"\{[a-z]", result.out)
    for line in unwrapped(COMMANDS[command]).split("\n\n") if command in COMMANDS else []:
        assert f" {line} " in result.out


def test_no_command_keeps_line_breaks_of_its_docstring() -> None:
    groups = [app, *(group.typer_instance for group in app.registered_groups)]
    commands = [command for group in groups if group is not None for command in group.registered_commands]
    assert commands
    assert not any("\n" in (command.help or "").replace("\n\n", "") for command in commands)
