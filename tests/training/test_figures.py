"""Figures: how they are chosen, taken in turns, and judged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mcne.errors import UsageError
from mcne.training.bench.figure import Figure, Measurement, NotMeasuredError, Taken, choose
from mcne.training.bench.rounds import Contender, medians


def measurement(key: str, take: Callable[[], Taken] = lambda: Taken(1.0, "")) -> Measurement:
    return Measurement(key, "time of ours", "theirs", 2, take)


ALL = [measurement(key) for key in ("step.literal", "step.plain", "ranking", "start")]


@pytest.mark.parametrize(
    ("value", "at_most", "verdict"),
    [(2.0, 2.0, "reached"), (2.01, 2.0, "MISSED"), (None, 2.0, "not run"), (5.0, None, "measured")],
)
def test_a_figure_is_judged_by_what_it_should_reach(value: float | None, at_most: float | None, verdict: str) -> None:
    figure = Figure("time of ours", value, "×", at_most, "detail", "theirs", "step.plain")
    assert figure.verdict == verdict
    assert figure.is_missed == (verdict == "MISSED")
    assert figure.line().startswith(verdict)
    assert "detail" in figure.line()


def test_what_cannot_be_measured_says_why() -> None:
    def take() -> Taken:
        raise NotMeasuredError("no GPU here")

    figure = measurement("gpu", take).figure()
    assert (figure.value, figure.detail, figure.is_missed) == (None, "no GPU here", False)


def test_what_was_measured_keeps_its_target() -> None:
    figure = measurement("step.plain", lambda: Taken(0.5, "1 ms against 2 ms")).figure()
    assert figure == Figure("time of ours", 0.5, "×", 2, "1 ms against 2 ms", "theirs", "step.plain")


@pytest.mark.parametrize(
    ("asked", "keys"),
    [
        ([], ["step.literal", "step.plain", "ranking", "start"]),
        (["step"], ["step.literal", "step.plain"]),
        (["start", "step.plain"], ["step.plain", "start"]),
    ],
)
def test_figures_are_chosen_by_name_and_group(asked: list[str], keys: list[str]) -> None:
    assert [each.key for each in choose(ALL, asked)] == keys


@pytest.mark.parametrize("asked", ["stp", "st", "step.", "STEP"])
def test_an_unknown_name_is_refused_with_the_nearest(asked: str) -> None:
    with pytest.raises(UsageError, match=f"unknown figure '{asked}'.*step.literal"):
        choose(ALL, ["ranking", asked])


def test_contenders_take_turns_and_warm_up_counts_for_nothing() -> None:
    asked: list[tuple[str, int]] = []

    def work(name: str, seconds: list[float]) -> Callable[[int], float]:
        def answer(number: int) -> float:
            asked.append((name, number))
            return seconds[number]

        return answer

    contenders = {
        "a": Contender(work("a", [99, 99, 1, 2, 7, 3]), per_round=2, has_clock=True),
        "b": Contender(work("b", [99, 5, 6]), has_clock=True),
    }
    assert medians(contenders, rounds=2) == {"a": 2.5, "b": 5.5}
    assert [name for name, _ in asked] == ["a", "a", "b"] * 3
    assert [number for name, number in asked if name == "a"] == [0, 1, 2, 3, 4, 5]


def test_work_without_a_clock_is_timed() -> None:
    taken = medians({"long": Contender(lambda _: sum(range(200_000))), "short": Contender(lambda _: 1e9)}, rounds=3)
    assert 0 < taken["short"] < taken["long"]
