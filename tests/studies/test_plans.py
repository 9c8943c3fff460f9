"""Plans are checked before anything is trained, and a cell's name is everything that decides its result."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.errors import refused
from tests.studies.small_plan import PLAN, opened

from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.errors import UsageError
from mcne.models import registry
from mcne.models.bpr import BPRConfig
from mcne.models.settings import Count, TrainingSettings
from mcne.studies.comparison import Candidate, Cell, Plan
from mcne.training import run

L2 = "l2 = [0.02, 0.1]"
SETTINGS = "settings = { width = 4, batch_size = 512 }"
PROTOCOLS = 'protocols = ["sampled", "full"]'
PAPER = "[paper.bpr]\nBooks = [10.0, 12.5]"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[methods.bpr]", "[methods.bprr]", "unknown method 'bprr'; did you mean 'bpr'?"),
        ("[methods.popularity]", "[methods.popularty]", "unknown method 'popularty'; did you mean 'popularity'?"),
        (L2, "l2s = [0.02, 0.1]", "methods.bpr: unknown setting 'l2s'; did you mean 'l2'?"),
        (L2, "l2 = [0.02, -1.0]", "setting l2: -1.0 is out of range"),
        (L2, "l2 = [0.02, 2020-01-01]", "setting l2: datetime.date(2020, 1, 1) is not a number"),
        (L2, "l2 = 0.1", "methods.bpr.search.l2: 0.1 is not "),
        (L2, "l2 = []", "methods.bpr.search.l2: () is out of range"),
        (L2, "l2 = [1, 1.0]", "methods.bpr.search: the same value"),
        (
            f"[methods.bpr.search]\n{L2}",
            "search = 3",
            "methods.bpr.search: 3 is not ",
        ),
        ("search = 4", "search = 3", "methods.bpr: 4 candidates"),
        ("search = 4", "search = 0", "search: 0 is out of range"),
        ("search = 4", "search = true", "search: True is not "),
        ("repetitions = 2", 'repetitions = "2"', "repetitions: '2' is not "),
        (
            '"joint", "separate"',
            '"joint", "separated"',
            "methods.bpr.modes: unknown value 'separated'; did you mean 'separate'?",
        ),
        (
            '"joint", "separate"',
            '"joint", "joint"',
            "methods.bpr.modes: ('joint', 'joint') is out of range",
        ),
        ('modes = ["joint", "separate"]', 'modes = "joint"', "methods.bpr.modes: 'joint' is not "),
        ('"joint", "separate"', "[1]", "methods.bpr.modes: unknown value '[1]'"),
        ('"full"', '"ful"', "protocols: unknown value 'ful'; did you mean 'full'?"),
        (PROTOCOLS, 'protocols = "full"', "protocols: 'full' is not "),
        (
            PROTOCOLS,
            "protocols = []",
            "protocols: () is out of range",
        ),
        ("repetitions", "repetition", "unknown key 'repetition'; did you mean 'repetitions'?"),
        ("settings =", "setting =", "unknown key of methods.bpr 'setting'; did you mean 'settings'?"),
        (SETTINGS, "settings = 3", "methods.bpr.settings: 3 is not "),
        (SETTINGS, "method = 3", "methods.bpr.method: 3 is not "),
        ('title = "Two methods"', "title = 2", "title: 2 is not "),
        ('reference = "bpr"', "reference = 2", "reference: 2 is not "),
        ('reference = "bpr"', "", "the reference row 'mcne' (the default) is not in the plan"),
        ("search = 4", "split = 1", "split: 1 is not "),
        (PAPER, "[paper]\nbpr = 3", "paper.bpr: 3 is not "),
        (PAPER, "[paper.bprr]", "unknown row of paper 'bprr'; did you mean 'bpr'?"),
        ("[10.0, 12.5]", "[10.0]", "paper.bpr.Books: (10.0,) is out of range"),
        ("[10.0, 12.5]", '["10", true]', "paper.bpr.Books: '10' is not "),
        ("[10.0, 12.5]", "10.0", "paper.bpr.Books: 10.0 is not "),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_is_trained(old: str, new: str, says: str, plan: Path) -> None:
    assert old in PLAN
    plan.write_text(PLAN.replace(old, new, 1))
    with pytest.raises(UsageError, match=re.escape(says)) as refused:
        Plan.read(plan)
    assert str(plan) in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("methods = 3", "methods: 3 is not "),
        ("methods.popularity = 3", "methods.popularity: 3 is not "),
        ("training = 3\n[methods.mcne]", "training: 3 is not "),
        ("paper = 3\n[methods.mcne]", "paper: 3 is not "),
    ],
)
def test_a_value_in_place_of_a_table_is_refused(text: str, says: str, plan: Path) -> None:
    plan.write_text(text)
    with pytest.raises(UsageError, match=re.escape(says)):
        Plan.read(plan)


def test_a_plan_without_methods_is_refused(plan: Path) -> None:
    plan.write_text("repetitions = 1")
    with refused(UsageError, place="plan.toml"):
        Plan.read(plan)
    plan.write_text(PLAN)
    with pytest.raises(UsageError, match="unknown method 'mcn'"):
        Plan.read(plan, only=("mcn",))


def test_candidates_are_every_mode_with_every_combination(plan: Path) -> None:
    candidates = Plan.read(plan).candidates
    assert [(c.mode, c.given["l2"]) for c in candidates["bpr"]] == [
        ("joint", 0.02),
        ("joint", 0.1),
        ("separate", 0.02),
        ("separate", 0.1),
    ]
    assert all(c.given["epochs"] == 2 and c.given["width"] == 4 for c in candidates["bpr"])
    assert len(candidates["popularity"]) == 1


def test_a_plan_extends_another(plan: Path) -> None:
    other = plan.with_name("other.toml")
    other.write_text(f'extends = "{plan.name}"\nrepetitions = 7\npaper = {{}}\n')
    base, made = Plan.read(plan), Plan.read(other)
    assert (made.repetitions, made.paper, base.repetitions) == (7, {}, 2)
    assert made.candidates == base.candidates
    assert made.title == base.title
    third = plan.with_name("third.toml")
    third.write_text('extends = "other.toml"\n')
    with refused(UsageError, place="third.toml: extends", value="other.toml"):
        Plan.read(third)
    other.write_text('extends = "nowhere.toml"\n')
    with refused(UsageError, place="nowhere.toml", about="such"):
        Plan.read(other)


def test_expected_figures_need_a_row(plan: Path) -> None:
    plan.write_text(PLAN.replace("bpr = [9.0, 7.0]", "bbr = [9.0, 7.0]"))
    with refused(UsageError, place="plan.toml", value="bbr"):
        Plan.read(plan)


MASKS = {"mcne-constant-masks", "mcne-random-masks"}
OF_MASKS = MASKS | {"mcne", "mcne-f"}
NO_ROWS = {"mcne-attributes", "mcne-plus"}
"""The first needs attributes, and the networks have none; rows of the second are made when its defaults are frozen."""
OF_TABLES = set(registry.METHODS) - MASKS - NO_ROWS


def test_the_plans_of_the_project_are_sound() -> None:
    paths = sorted((Path(__file__).parents[2] / "experiments").glob("*.toml"))
    assert len(paths) == 4
    for path in paths:
        made = Plan.read(path)
        assert str(path.relative_to(path.parents[1])) in made.command
        assert all(len(candidates) in (1, made.search) for candidates in made.candidates.values()), path
        wanted = OF_MASKS if path.stem == "ciao-masks" else OF_TABLES
        assert {c.method for each in made.candidates.values() for c in each} == wanted, path
        assert made.expected.keys() == made.candidates.keys(), path


def test_numbers_of_the_paper_need_a_behavior_of_the_data(plan: Path, data: Path, tmp_path: Path) -> None:
    plan.write_text(PLAN.replace("Books =", "Book ="))
    with refused(UsageError, place="paper.bpr", value="Book"):
        opened(plan, data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_method_must_be_able_to_use_the_data(plan: Path, data: Path, tmp_path: Path) -> None:
    plan.write_text(PLAN + '[methods.mcne]\nmodes = ["joint", "separate"]\n')
    with refused(UsageError, place="methods.mcne", value="mcne"):
        opened(plan, data, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    opened(plan, data, tmp_path / "out", "bpr")


def test_a_search_needs_a_validation_part(plan: Path, data: Path, tmp_path: Path) -> None:
    dataset = SocialDataset.load(data)
    random_split(dataset, seed=0, ratios=(80, 0, 20)).save(data / "splits" / "whole")
    plan.write_text(PLAN.replace("search = 4", 'search = 4\nsplit = "whole"'))
    with refused(UsageError, place="split whole", value="whole"):
        opened(plan, data, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    plan.write_text(
        PLAN.replace("search = 4", 'search = 4\nsplit = "whole"')
        .replace('["joint", "separate"]', '["joint"]')
        .replace("[0.02, 0.1]", "[0.02]")
    )
    assert opened(plan, data, tmp_path / "out").search_cells() == []


# names


CELL = Cell(Candidate("bpr", "joint", {"epochs": 2}), 0, False, "a" * 64, "b" * 64, ("sampled", "full"))


@dataclass(frozen=True)
class LaterConfig(BPRConfig):
    """A later version of the method has another default."""

    negatives: Count = 77


def test_a_changed_default_is_another_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    before = CELL.name
    monkeypatch.setattr(run, "settings_classes", lambda _: [LaterConfig, TrainingSettings])
    later = replace(CELL, candidate=Candidate("bpr", "joint", {"epochs": 2}))
    assert later.name != before
    assert later.spec.config["negatives"] == 77


def test_what_does_not_decide_the_result_is_no_part_of_the_name() -> None:
    settings = {"epochs": 2, "patience": 10, "workers": 2, "checkpoint_seconds": 1.0, "l2": BPRConfig().l2}
    same = replace(CELL, candidate=Candidate("bpr", "joint", settings), protocols=("full", "sampled"))
    assert same.name == CELL.name
    assert CELL.name.startswith("bpr-r0-")


@pytest.mark.parametrize(
    "other",
    [
        replace(CELL, candidate=Candidate("bpr", "separate", {"epochs": 2})),
        replace(CELL, candidate=Candidate("bpr", "joint", {"epochs": 3})),
        replace(CELL, candidate=Candidate("bpr", "joint", {"epochs": 2, "l2": 0.5})),
        replace(CELL, repetition=1),
        replace(CELL, is_search=True),
        replace(CELL, dataset="c" * 64),
        replace(CELL, split="c" * 64),
        replace(CELL, protocols=("sampled",)),
    ],
)
def test_what_decides_the_result_is_part_of_the_name(other: Cell) -> None:
    assert other.name != CELL.name
