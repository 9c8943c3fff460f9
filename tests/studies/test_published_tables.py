"""The tables under docs/tables say what the plans of the project can find, and the plan that is timed has it, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcne.studies.comparison import Candidate, Plan

ROOT = Path(__file__).parents[2]
MEANS = "means over behaviors at 5, 10 and 20"
COSTS = "numbers learned"
PLANS = ["ciao", "epinions", "ciao-temporal", "ciao-masks"]


def tables(name: str) -> dict[str, dict[str, dict[str, str]]]:
    """By title: the rows by their method, every cell by its column."""
    by_title: dict[str, dict[str, dict[str, str]]] = {}
    title, columns = "", None
    for line in (ROOT / "docs" / "tables" / f"{name}.md").read_text().splitlines():
        if line.startswith("### "):
            title, columns = line[4:], None
        elif line.startswith("|") and not set(line) <= set("|-"):
            cells = [cell.strip().replace("**", "") for cell in line.strip("|").split("|")]
            if columns is None:
                columns = cells
            else:
                by_title.setdefault(title, {})[cells[0]] = dict(zip(columns, cells, strict=True))
    return by_title


def as_told(candidate: Candidate) -> set[str]:
    """Mode and settings as a table says them, the schedule aside."""
    given = {name: value for name, value in candidate.given.items() if name not in ("epochs", "patience")}
    return split([str(candidate.mode), *(f"{name}={value}" for name, value in given.items())])


def chosen(row: dict[str, str]) -> set[str]:
    return split([row["chosen"], row["fixed"]]) - {"–"}


def split(texts: list[str]) -> set[str]:
    return {part for text in texts for part in text.split(", ")}


@pytest.mark.parametrize("name", PLANS)
def test_what_was_chosen_is_among_what_the_plan_searches(name: str) -> None:
    plan = Plan.read(ROOT / "experiments" / f"{name}.toml")
    (costs,) = (rows for rows in tables(name).values() if COSTS in next(iter(rows.values())))
    assert costs.keys() == plan.candidates.keys()
    for row, cells in costs.items():
        assert chosen(cells) in [as_told(candidate) for candidate in plan.candidates[row]], row
        assert int(cells["searched"]) == len(plan.candidates[row]), row


@pytest.mark.parametrize("name", PLANS)
def test_what_a_plan_expects_is_what_its_table_says(name: str) -> None:
    plan = Plan.read(ROOT / "experiments" / f"{name}.toml")
    means = next(rows for title, rows in tables(name).items() if MEANS in title)
    printed = {row: tuple(float(cells[at].split()[0]) for at in ("recall@5", "ndcg@5")) for row, cells in means.items()}
    assert printed == plan.expected


def test_the_plan_that_is_timed_has_what_was_chosen_on_ciao() -> None:
    plan = Plan.read(ROOT / "benchmarks" / "one_split.toml")
    (costs,) = (rows for rows in tables("ciao").values() if COSTS in next(iter(rows.values())))
    assert {row: [as_told(c) for c in each] for row, each in plan.candidates.items()} == {
        row: [chosen(cells)] for row, cells in costs.items()
    }


@pytest.mark.parametrize("name", ["ciao", "epinions"])
def test_the_plans_of_variants_have_what_was_chosen(name: str) -> None:
    plan = Plan.read(ROOT / "experiments" / "variants" / f"{name}.toml")
    (costs,) = (rows for rows in tables(name).values() if COSTS in next(iter(rows.values())))
    assert {row: [as_told(c) for c in each] for row, each in plan.candidates.items()} == {
        row: [chosen(costs[row])] for row in ("mcne-f", "mcne-a", "mcne")
    }
    assert plan.expected.keys() == plan.candidates.keys()
