"""Settings from TOML and ``key=value``: every type, and every mistake with what is allowed."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import pytest
from tests.errors import refused

from mcne.errors import UsageError
from mcne.models.bpr import BPRConfig
from mcne.models.mcne import MCNEConfig
from mcne.models.registry import METHODS
from mcne.models.settings import (
    Amount,
    Count,
    Range,
    Rate,
    Share,
    TrainingSettings,
    Whole,
    parse,
    read_pairs,
    read_toml,
    to_json,
)


@dataclass(frozen=True)
class Everything:
    count: int = 1
    rate: float = 0.5
    on: bool = False
    name: str = "x"
    widths: tuple[int, ...] = (1, 2)
    rates: tuple[float, ...] = ()
    form: Literal["round", "square"] = "round"
    limit: int | None = None


@dataclass(frozen=True)
class Ranged:
    count: Count = 1
    whole: Whole = 0
    amount: Amount = 0.0
    rate: Rate = 0.5
    share: Share = 0.5
    widths: tuple[Count, ...] = (1, 2)
    limit: Count | None = None
    half: Annotated[float | None, "a note", Range("0.5", lambda value: value == 0.5)] = None


def one(**given: Any) -> Everything:
    (made,) = parse([Everything], given)
    assert isinstance(made, Everything)
    return made


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


# what is understood


def test_nothing_given_means_the_defaults() -> None:
    assert one() == Everything()


def test_every_type_from_toml(toml: Path) -> None:
    toml.write_text(
        'count = 1_000 # a comment\nrate = 1e-3\non = true\nname = "Café"\nwidths = [256, 128]\n'
        'rates = [1, 0.5]\nform = "square"\nlimit = 3\n',
        encoding="utf-8",
    )
    expected = Everything(1000, 0.001, True, "Café", (256, 128), (1.0, 0.5), "square", 3)
    assert one(**read_toml(toml)) == expected


def test_every_type_from_pairs() -> None:
    pairs = ["count=1000", "rate=1e-3", "on=true", "name=Café", "widths=[256, 128]", "rates=[1,0.5]", "form=square"]
    expected = Everything(1000, 0.001, True, "Café", (256, 128), (1.0, 0.5), "square", 3)
    assert one(**read_pairs([*pairs, "limit = 3"])) == expected


@pytest.mark.parametrize(
    ("pair", "name", "value"),
    [
        ("a=1", "a", 1),
        (" a = 1 ", "a", 1),
        ("a=-0.5", "a", -0.5),
        ("a=false", "a", False),
        ("a=square", "a", "square"),
        ('a="square"', "a", "square"),
        ('a="5"', "a", "5"),
        ("a=b=c", "a", "b=c"),
        ("a=", "a", ""),
        ("a=[]", "a", []),
        ("a=1.", "a", "1."),
    ],
)
def test_values_of_pairs_are_toml_and_bare_words_are_text(pair: str, name: str, value: Any) -> None:
    read = read_pairs([pair])
    assert read == {name: value}
    assert type(read[name]) is type(value)


def test_the_last_of_equal_pairs_counts() -> None:
    assert read_pairs(["a=1", "b=2", "a=3"]) == {"a": 3, "b": 2}


def test_whole_numbers_are_fine_where_any_number_is() -> None:
    made = one(rate=2, rates=[1, 2])
    assert (made.rate, made.rates) == (2.0, (1.0, 2.0))
    assert [type(value) for value in (made.rate, *made.rates)] == [float] * 3


def test_one_value_is_a_tuple_of_one() -> None:
    assert one(widths=7).widths == (7,)
    assert one(widths=[7]).widths == (7,)
    assert one(widths=(7, 8)).widths == (7, 8)
    assert one(rates=[]).rates == ()


def test_what_may_be_absent() -> None:
    assert one(limit=None).limit is None
    assert one(limit=4).limit == 4


def test_flat_settings_find_their_owner() -> None:
    config, training = parse([BPRConfig, TrainingSettings], {"width": 8, "epochs": 3, "bias": False})
    assert config == BPRConfig(width=8, bias=False)
    assert training == TrainingSettings(epochs=3)


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        TrainingSettings().epochs = 3  # type: ignore[misc]


# what is refused


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"count": "1"}, "setting count: '1' is not "),
        ({"count": 1.0}, "setting count: 1.0 is not "),
        ({"count": True}, "setting count: True is not "),
        ({"count": [1]}, "setting count: [1] is not "),
        ({"rate": True}, "setting rate: True is not "),
        ({"rate": "fast"}, "setting rate: 'fast' is not "),
        ({"on": 1}, "setting on: 1 is not "),
        ({"on": "yes"}, "setting on: 'yes' is not "),
        ({"name": 5}, "setting name: 5 is not "),
        ({"widths": [1, 2.5]}, "setting widths: 2.5 is not "),
        ({"widths": "12"}, "setting widths: '12' is not "),
        ({"widths": [[1]]}, "setting widths: [1] is not "),
        ({"limit": "none"}, "setting limit: 'none' is not "),
        ({"form": "squared"}, "setting form: unknown value 'squared'; did you mean 'square'?"),
        ({"form": 3}, "setting form: unknown value '3'; choose one of round, square"),
        ({"form": ["square"]}, "setting form: unknown value"),
    ],
    ids=str,
)
def test_wrong_types_and_values(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse([Everything], given)
    assert str(error.value).startswith(message)
    assert error.value.exit_code == 2


def test_unknown_keys_name_the_nearest(toml: Path) -> None:
    toml.write_text("learning_rat = 0.1\n")
    with refused(UsageError, value="learning_rat"):
        parse([BPRConfig, TrainingSettings], read_toml(toml))
    with pytest.raises(UsageError, match=r"unknown setting 'epoch'; did you mean 'epochs'\?"):
        parse([BPRConfig, TrainingSettings], {"epoch": 3})
    with pytest.raises(UsageError, match=r"unknown setting 'zzz'; choose one of width, .*deterministic$"):
        parse([BPRConfig, TrainingSettings], {"zzz": 3})


@pytest.mark.parametrize(("key", "meant"), [("lr", "learning_rate"), ("bs", "batch_size"), ("l3", "l2"), ("L1", "l2")])
def test_short_keys_name_the_nearest_too(key: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"unknown setting '{key}'; did you mean '{meant}'"):
        parse([BPRConfig, TrainingSettings], {key: 3})


@pytest.mark.parametrize("key", ["dt", "e", "xy"])
def test_short_keys_that_are_like_nothing_name_nothing(key: str) -> None:
    with pytest.raises(UsageError, match=f"unknown setting '{key}'; choose one of width, "):
        parse([BPRConfig, TrainingSettings], {key: 3})


def test_settings_of_another_method_are_unknown() -> None:
    with refused(UsageError, value="neighbor_samples"):
        parse([BPRConfig, TrainingSettings], {"neighbor_samples": [5, 5]})


def test_tables_are_unknown_settings(toml: Path) -> None:
    toml.write_text("[training]\nepochs = 3\n")
    with refused(UsageError, value="training"):
        parse([TrainingSettings], read_toml(toml))


@pytest.mark.parametrize(
    "given",
    [
        {"count": 1, "whole": 0, "amount": 0.0, "rate": 1e-300, "share": 0.0},
        {"count": 10**30, "whole": 10**30, "amount": 1e36, "rate": 1e36, "share": math.nextafter(1, 0)},
        {"amount": 0, "rate": 1, "share": 0},
        {"widths": [1, 10**6], "limit": 1, "half": 0.5},
        {"widths": [], "limit": None, "half": None},
        {"amount": -0.0},
    ],
    ids=str,
)
def test_numbers_in_their_ranges(given: dict[str, Any]) -> None:
    (made,) = parse([Ranged], given)
    assert {name: getattr(made, name) for name in given} == {
        name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"count": 0}, "setting count: 0 is out of range"),
        ({"count": -3}, "setting count: -3 is out of range"),
        ({"whole": -1}, "setting whole: -1 is out of range"),
        ({"amount": -1e-9}, "setting amount: -1e-09 is out of range"),
        ({"amount": math.inf}, "setting amount: inf is out of range"),
        ({"amount": math.nan}, "setting amount: nan is out of range"),
        ({"amount": -(10**400)}, "setting amount: -inf is out of range"),
        ({"rate": 0}, "setting rate: 0.0 is out of range"),
        ({"rate": -0.0}, "setting rate: -0.0 is out of range"),
        ({"rate": 1e300}, "setting rate: 1e+300 is out of range"),
        ({"rate": math.nan}, "setting rate: nan is out of range"),
        ({"share": 1}, "setting share: 1.0 is out of range"),
        ({"share": -0.1}, "setting share: -0.1 is out of range"),
        ({"share": math.nan}, "setting share: nan is out of range"),
        ({"widths": [8, -1, 8]}, "setting widths: -1 is out of range"),
        ({"widths": 0}, "setting widths: 0 is out of range"),
        ({"limit": 0}, "setting limit: 0 is out of range"),
        ({"half": 0.25}, "setting half: 0.25 is out of range"),
        ({"count": True}, "setting count: True is not "),
        ({"rate": "fast"}, "setting rate: 'fast' is not "),
        ({"limit": 1.5}, "setting limit: 1.5 is not "),
    ],
    ids=str,
)
def test_numbers_out_of_their_ranges(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse([Ranged], given)
    assert str(error.value).startswith(message)


def test_every_number_that_can_be_set_has_a_range() -> None:
    kinds = {TrainingSettings, *(entry.config for entry in METHODS.values())}
    hints = {name: hint for kind in kinds for name, hint in get_type_hints(kind, include_extras=True).items()}
    numbers = {name: hint for name, hint in hints.items() if "int" in str(hint) or "float" in str(hint)}
    assert len(numbers) >= 13
    assert [name for name, hint in numbers.items() if "Range(" not in str(hint)] == []


@pytest.mark.parametrize("samples", [[], [5], [5, 5, 5]], ids=str)
def test_widths_and_samples_belong_together(samples: list[int]) -> None:
    given = {"widths": [8, 8, 8], "neighbor_samples": samples}
    with refused(UsageError, place="setting widths", value=[8, 8, 8]):
        parse([MCNEConfig], given)
    with pytest.raises(UsageError, match="setting widths: "):
        MCNEConfig(widths=(8, 8, 8), neighbor_samples=tuple(samples))
    fitting = given | {"widths": [8] * (len(samples) + 1)}
    if samples:
        assert parse([MCNEConfig], fitting)[0].neighbor_samples == tuple(samples)
    else:
        with pytest.raises(UsageError, match=r"setting widths: "):
            parse([MCNEConfig], fitting)


@pytest.mark.parametrize("pair", ["epochs", "=3", "", " = 3"], ids=repr)
def test_pairs_that_are_none(pair: str) -> None:
    with refused(UsageError, place=f"--set {pair}", value=pair):
        read_pairs([pair])


@pytest.mark.parametrize("content", [b"epochs 3", b"epochs = ", b"\xff\xfe", b"a = 1\na = 2"], ids=repr)
def test_files_that_are_not_toml(content: bytes, toml: Path) -> None:
    toml.write_bytes(content)
    with refused(UsageError, place="settings.toml"):
        read_toml(toml)


def test_values_that_python_will_not_read_are_text(toml: Path) -> None:
    """More digits than an int may be read from, and more brackets than there is stack."""
    for value in ("1" * 5000, "[" * 5000):
        assert read_pairs([f"a={value}"]) == {"a": value}
        toml.write_text(f"a = {value}\n")
        with refused(UsageError, place="settings.toml"):
            read_toml(toml)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.toml", tmp_path):
        with refused(UsageError, place=str(path)):
            read_toml(path)


# as kept with a run


@pytest.mark.parametrize("kind", [Everything, TrainingSettings, *(entry.config for entry in METHODS.values())])
def test_settings_survive_json(kind: type[Any]) -> None:
    (changed,) = parse([kind], {"rate": 1 / 3, "widths": [9]} if kind is Everything else {})
    (back,) = parse([kind], json.loads(json.dumps(to_json(changed), allow_nan=False)))
    assert back == changed
    assert to_json(back) == to_json(changed)


def test_json_is_plain() -> None:
    assert to_json(Everything()) == {
        "count": 1,
        "rate": 0.5,
        "on": False,
        "name": "x",
        "widths": [1, 2],
        "rates": [],
        "form": "round",
        "limit": None,
    }
