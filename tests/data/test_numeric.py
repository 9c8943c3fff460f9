"""Dates equal what Python reads; ratings are above 0 where they count."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.values import not_none

from mcne.data.dataset import SocialDataset
from mcne.data.numeric import times_of
from mcne.data.source import RawTable
from mcne.errors import DataError, UsageError

UTC = datetime.UTC
HEADER = "user_id,item_id,behavior,timestamp"


def table(values: list[str], *, is_text: bool = True) -> RawTable:
    """A table of timestamps alone."""
    return RawTable(
        "x", pa.table({"timestamp": pa.array(values, pa.string())}), is_text, lambda row, column: f"row {row} {column}"
    )


def seconds(*values: str) -> np.ndarray:
    return not_none(times_of(table(list(values))))


def by_python(written: str) -> float:
    moment = datetime.datetime.fromisoformat(written)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


# --- dates ---


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2021-05-06", 1_620_259_200),
        ("2021-05-06T10:00:00", 1_620_295_200),
        ("2021-05-06 10:00:00", 1_620_295_200),
        ("2021-05-06 10:00", 1_620_295_200),
        ("2021-05-06T10:00:00Z", 1_620_295_200),
        ("2021-05-06T10:00:00+02:00", 1_620_288_000),
        ("2021-05-06 10:00:00+0200", 1_620_288_000),
        ("2021-05-06 10:00:00-05:30", 1_620_315_000),
        ("2020-02-29", 1_582_934_400),
        ("2000-02-29", 951_782_400),
        ("1969-12-31T23:59:59Z", -1),
        ("0001-01-01", -62_135_596_800),
        ("9999-12-31", 253_402_214_400),
    ],
)
def test_dates_are_seconds_since_1970(written: str, expected: int) -> None:
    times = seconds(written)
    assert (times.dtype, times.tolist()) == (np.dtype(np.int64), [expected])
    assert by_python(written) == expected


def test_fractions_of_seconds() -> None:
    times = seconds("2021-05-06T10:00:00.5", "1969-12-31 23:59:59.25+00:00", "2021-05-06T10:00:00.123456789Z")
    assert (times.dtype, times.tolist()) == (np.dtype(np.float64), [1_620_295_200.5, -0.75, 1_620_295_200.123456])
    assert seconds("2021-05-06T10:00:00.000").dtype == np.int64


def test_zones_may_be_mixed_and_dates_stand_beside_moments() -> None:
    written = ["2021-05-06", "2021-05-06T00:00:00Z", "2021-05-06 02:00:00+02:00"]
    assert seconds(*written).tolist() == [1_620_259_200] * 3


ZONES = st.one_of(
    st.none(), st.integers(-14 * 60, 14 * 60).map(lambda m: datetime.timezone(datetime.timedelta(minutes=m)))
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.datetimes(datetime.datetime(2, 1, 1), datetime.datetime(9998, 1, 1)), ZONES), min_size=1),
    st.sampled_from("T "),
)
def test_any_moment_is_the_one_that_python_reads(moments: list[tuple[datetime.datetime, Any]], between: str) -> None:
    written = [moment.replace(tzinfo=zone).isoformat(between) for moment, zone in moments]
    expected = np.array([by_python(each) for each in written])
    np.testing.assert_array_almost_equal_nulp(seconds(*written).astype(np.float64), expected)


@pytest.mark.parametrize("year", [1900, 2000, 2020, 2021, 2100])
def test_leap_days(year: int) -> None:
    try:
        expected = by_python(f"{year}-02-29")
    except ValueError:
        with pytest.raises(DataError, match="row 0 timestamp: neither a number of seconds since 1970 nor a date"):
            seconds(f"{year}-02-29")
    else:
        assert seconds(f"{year}-02-29").tolist() == [expected]


@pytest.mark.parametrize(
    "odd",
    ["yesterday", "2021-13-01", "2021-02-30", "06.05.2021", "2021-05-06T25:00:00", "2021-5-6", "10:00", "2021-05-06Z"],
)
def test_what_is_no_date_is_named(odd: str, tmp_path: Path) -> None:
    file = tmp_path / "i.csv"
    file.write_text(f"{HEADER}\n1,1,a,2021-05-06\n\n2,1,a,2021-05-07\n3,1,a,{odd}\n4,1,a,x\n")
    with pytest.raises(DataError, match=f"line 5, column 'timestamp', value '{odd}': neither a number") as refused:
        SocialDataset.from_frames(file)
    assert refused.value.value == odd
    assert "2021-05-06T10:00:00" in refused.value.allowed
    assert "2021-05-06 10:00:00.5" in refused.value.remedy


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["5", "6.5", "2021-05-06"], "row 2 timestamp: a date, but the rows above have numbers"),
        (["2021-05-06", "2021-05-07", "5"], "row 2 timestamp: a number, but the rows above have dates"),
        (["x", "5", "2021-05-06"], "row 0 timestamp: neither a number of seconds since 1970 nor a date"),
    ],
)
def test_numbers_and_dates_do_not_mix(values: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        seconds(*values)


def test_dates_as_text_of_a_frame() -> None:
    """What ``pandas.read_csv`` leaves of dates."""
    frame = pd.DataFrame({"user_id": [1, 2], "item_id": 1, "behavior": "a"})
    frame["timestamp"] = ["1970-01-02", "1970-01-03T00:00:00Z"]
    for kind in ("object", "category"):
        dataset = SocialDataset.from_frames(frame.astype({"timestamp": kind}))
        assert not_none(dataset.behaviors[0].timestamp).tolist() == [86_400, 172_800]
    frame["timestamp"] = ["1970-01-02", None]
    with pytest.raises(DataError, match="row 2, column 'timestamp', value None: missing value"):
        SocialDataset.from_frames(frame)


# --- ratings ---


def rated(values: Any, **options: Any) -> SocialDataset:
    """Users 1, 2, … rated one item."""
    frame = {"user_id": range(1, len(values) + 1), "item_id": [1] * len(values), "behavior": ["a"] * len(values)}
    return SocialDataset.from_frames(pa.table(frame | {"rating": values}), **options)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.float32(), pa.float64()])
def test_ratings_are_weights(kind: pa.DataType) -> None:
    weight = not_none(rated(pa.array([3, 1, 5], kind)).behaviors[0].weight)
    assert (weight.dtype, weight.tolist()) == (np.dtype(np.float32), [3, 1, 5])


def test_ratings_of_text_files_and_other_names_of_the_column(tmp_path: Path) -> None:
    (tmp_path / "i.csv").write_text("user_id,item_id,behavior,stars\n1,1,a,2.5\n2,1,a,5\n")
    dataset = SocialDataset.from_frames(tmp_path / "i.csv", columns={"rating": "stars"})
    assert not_none(dataset.behaviors[0].weight).tolist() == [2.5, 5]
    assert SocialDataset.from_frames(tmp_path / "i.csv").behaviors[0].weight is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [3.0, 0.0, -1.0],
            r"row 2, column 'rating', value 0.0: rating must be above 0 \(2 rows\).*--positive-from",
        ),
        ([3.0, float("nan")], "row 2, column 'rating', value nan: not a finite number"),
        ([3.0, float("inf")], "row 2, column 'rating', value inf: not a finite number"),
        ([3.0, None], "row 2, column 'rating', value None: missing value"),
        ([3.0, 1e-300], "row 2, column 'rating', value 1e-300: beyond single precision"),
    ],
)
def test_ratings_that_cannot_be_used_are_refused(values: list[float | None], message: str) -> None:
    with pytest.raises(DataError, match=f"interactions, {message}"):
        rated(pa.array(values))


def test_ratings_below_the_threshold_may_be_anything_finite() -> None:
    dataset = rated(pa.array([5.0, 0.0, -10.0]), positive_from=0.5)
    assert not_none(dataset.behaviors[0].weight).tolist() == [5]
    with pytest.raises(DataError, match="row 2, column 'rating', value nan: not a finite number"):
        rated(pa.array([5.0, float("nan")]), positive_from=4)


def test_a_threshold_is_compared_as_ratings_are_kept() -> None:
    """0.1 in single precision is above 0.1, 0.7 below."""
    for kind in (pa.float32(), pa.float64()):
        for threshold in (0.1, 0.7, 4.1):
            dataset = rated(pa.array([threshold, 9.0], kind), positive_from=threshold)
            assert len(dataset.behaviors[0]) == 2


@pytest.mark.parametrize("threshold", [0, -1, float("nan"), float("inf"), 1e-60])
def test_a_threshold_that_is_none_is_refused(threshold: float) -> None:
    with pytest.raises(UsageError, match=r"positive_from: .* is not above 0") as refused:
        rated([1, 2], positive_from=threshold)
    assert refused.value.place == "positive_from"


def test_a_threshold_needs_ratings(tmp_path: Path) -> None:
    (tmp_path / "i.csv").write_text("user_id,item_id,behavior,stars\n1,1,a,2.5\n")
    with pytest.raises(UsageError, match=r"i\.csv: has no column 'rating', .*--column rating=NAME"):
        SocialDataset.from_frames(tmp_path / "i.csv", positive_from=4)
