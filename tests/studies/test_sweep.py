"""What can be swept, and what is refused before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcne.errors import UsageError
from mcne.studies.sweep import Sweep, read_values

EXPERIMENTS = Path(__file__).parents[2] / "experiments" / "sweep"
EXPECTED = """
method = "bpr"
[settings]
epochs = 9
[values]
l2 = [0.1, 0.2]
width = [4, 8]
[expected]
"l2=0.1" = [9.0, 7.5]
"width=8" = [8, 6]
"""


def asked(*pairs: str, method: str = "mcne") -> Sweep:
    return Sweep.of_pairs(method, pairs, repetitions=2, split="random")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("final_width=50,100,150", (50, 100, 150)),
        ("l2 = 0.01, 1e-3", (0.01, 0.001)),
        ("neighbor_samples=[10,5],[20, 20]", ([10, 5], [20, 20])),
        ("neighbor_samples=[20,20]", ([20, 20],)),
        ("message=neighbor,literal", ("neighbor", "literal")),
        ('message="neighbor","literal"', ("neighbor", "literal")),
        ("last_activation=true,false", (True, False)),
        ("mixed=1,word", (1, "word")),
    ],
)
def test_values_are_written_with_commas(text: str, values: tuple[Any, ...]) -> None:
    name = text.partition("=")[0].strip()
    assert read_values([text]) == {name: values}


def test_one_setting_changes_at_a_time() -> None:
    sweep = asked("l2=0.01,0.02", "learning_rate=0.1,0.2,0.3", "negatives=7")
    plan = sweep.plan()
    assert list(plan.candidates) == [
        "l2=0.01",
        "l2=0.02",
        "learning_rate=0.1",
        "learning_rate=0.2",
        "learning_rate=0.3",
    ]
    assert [candidate.given for (candidate,) in plan.candidates.values()] == [
        {"negatives": 7, "l2": 0.01},
        {"negatives": 7, "l2": 0.02},
        {"negatives": 7, "learning_rate": 0.1},
        {"negatives": 7, "learning_rate": 0.2},
        {"negatives": 7, "learning_rate": 0.3},
    ]
    assert (plan.repetitions, plan.split, plan.protocols) == (2, "random", ("sampled",))


def test_the_papers_width_is_the_last_and_its_sample_that_of_every_layer() -> None:
    sweep = asked("widths=[64,32,16]", "final_width=8,24", "neighbor_sample=3,5")
    given = [candidate.resolved[0] for (candidate,) in sweep.plan().candidates.values()]
    assert [each["widths"] for each in given] == [[64, 32, 8], [64, 32, 24], [64, 32, 16], [64, 32, 16]]
    assert [each["neighbor_samples"] for each in given] == [[20, 20], [20, 20], [3, 3], [5, 5]]


@pytest.mark.parametrize(
    ("pairs", "method", "message"),
    [
        (["l2=0.1"], "mcne", "--set: only one value of l2; .*--set l2="),
        ([], "mcne", "nothing to sweep"),
        (["final_with=50,100"], "mcne", r"unknown setting of mcne 'final_with'; did you mean 'final_width'\?"),
        (["final_width=50,100"], "bpr", "unknown setting of bpr 'final_width'"),
        (["l2=0.1,0.2"], "mcnee", r"unknown method 'mcnee'; did you mean 'mcne'\?"),
        (
            ["final_width=50,0"],
            "mcne",
            r"final_width=0: setting widths: 0 is out of range",
        ),
        (["l2=0.1,-1"], "bpr", r"l2=-1: setting l2: -1.0 is out of range"),
        (["l2=0.1,high"], "bpr", r"l2=high: setting l2: 'high' is not "),
        (["neighbor_sample=[1,2],[3,4]"], "mcne", r"setting neighbor_samples: \[1, 2\] is not "),
        (["neighbor_samples=[5],[20,20]"], "mcne", r"neighbor_samples=\[5\]: setting widths: .* and \[5\] given"),
        (["l2=0.1,0.2,0.1"], "bpr", "l2=0.1: .*twice"),
        (["l2=1,1.0"], "bpr", "l2=1.0: .*twice"),
        (["l2=0.1,0.2", "l2=0.3"], "bpr", "--set l2=0.3: l2 .*twice"),
        (["workers=1,2"], "bpr", "setting workers: "),
        (["l2"], "bpr", "--set l2: "),
        (["l2="], "bpr", "--set l2=: "),
    ],
)
def test_refused_before_anything_is_trained(pairs: list[str], method: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        asked(*pairs, method=method)


def test_a_file_tells_everything_and_the_command_line_replaces(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text('method = "bpr"\nrepetitions = 4\n[settings]\nepochs = 9\nwidth = 8\n[values]\nl2 = [0.1, 0.2]\n')
    sweep = Sweep.of_file(path, [])
    assert (sweep.method, sweep.repetitions, sweep.settings) == ("bpr", 4, {"epochs": 9, "width": 8})
    assert sweep.values == {"l2": (0.1, 0.2)}
    changed = Sweep.of_file(path, ["epochs=1", "width=4,8", "l2=0.3"], repetitions=2, split="own")
    assert (sweep.split, changed.split) == ("random", "own")
    assert (changed.repetitions, changed.settings, changed.values) == (2, {"epochs": 1, "l2": 0.3}, {"width": (4, 8)})
    path.write_text('method = "bpr"\n[values]\nl2 = [0.1]\nwidth = [4, 8]\n')
    assert Sweep.of_file(path, ["l2=0.2"]).settings == {"l2": 0.2}  # a wrong value that is replaced does not matter


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('method = "bpr"\nvalue = 1', r"unknown key 'value'; did you mean 'values'\?"),
        ('method = "bpr"\n[values]\nl2 = 0.1', "values.l2: 0.1 is not "),
        ('method = "bpr"\n[values]\nl2 = [0.1]', r"values.l2: \[0.1\] "),
        ('method = "bpr"\n[settings]\nl2 = 0.1', "only one value of l2"),
        ('method = "bpr"\nrepetitions = 0\n[values]\nl2 = [0.1, 0.2]', "repetitions: 0 is out of range"),
    ],
)
def test_a_file_that_is_wrong(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        Sweep.of_file(path, [])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"l2=0.1"', '"l2=0.10"', r"unknown row of expected 'l2=0.10'; did you mean 'l2=0.1'\?"),
        ("[9.0, 7.5]", "[9.0]", r"expected.l2=0.1: \(9.0,\) is out of range"),
        ("[8, 6]", "8", "expected.width=8: 8 is not "),
    ],
)
def test_expected_figures_need_a_row_and_two_numbers(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in EXPECTED
    path = tmp_path / "sweep.toml"
    path.write_text(EXPECTED.replace(old, new))
    with pytest.raises(UsageError, match=message) as refused:
        Sweep.of_file(path, [])
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("pairs", "split", "rows"),
    [
        ([], None, {"l2=0.1", "width=8"}),
        ([], "random", {"l2=0.1", "width=8"}),
        (["epochs=9"], None, {"l2=0.1", "width=8"}),
        (["l2=0.2,0.3"], None, {"width=8"}),
        (["l2=0.1,0.3"], None, {"l2=0.1", "width=8"}),
        (["l2=0.1"], None, set()),  # width is now swept with another l2
        (["epochs=1"], None, set()),
        (["epochs=1,9"], None, set()),
        ([], "own", set()),
    ],
)
def test_what_a_file_expects_holds_for_its_own_settings_and_split(
    pairs: list[str], split: str | None, rows: set[str], tmp_path: Path
) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(EXPECTED)
    all_ = {"l2=0.1": (9.0, 7.5), "width=8": (8.0, 6.0)}
    sweep = Sweep.of_file(path, pairs, repetitions=1, split=split)
    assert sweep.expected == sweep.plan().expected == {name: all_[name] for name in rows}


def test_the_papers_experiments_are_read() -> None:
    paths = sorted(EXPERIMENTS.glob("*.toml"))
    assert [path.name for path in paths] == ["ciao.toml", "epinions.toml"]
    for path in paths:
        sweep = Sweep.of_file(path, [])
        assert sweep.values["final_width"] == (50, 100, 150, 200, 250)
        assert sweep.values["neighbor_sample"] == (10, 20, 30, 40, 50)
        same = {"final_width": 100, "neighbor_sample": 20, "neighbor_samples": [20, 20]}
        shared = [sweep.candidate(name, value).resolved for name, value in same.items()]
        assert shared == [sweep.candidate("l2", sweep.settings["l2"]).resolved] * 3
        assert f"experiments/sweep/{path.name}" in sweep.command
        assert sweep.expected.keys() == sweep.plan().candidates.keys()
