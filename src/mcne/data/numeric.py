"""Columns of numbers: times, which may be dates, weights of links and ratings."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mcne.data.ids import WIDE_TEXT, coded
from mcne.data.raw import refuse_rows
from mcne.data.source import RawTable, is_text
from mcne.errors import DataError, UsageError

MISSING = ("", "nan", "NaN", None)
FORMS = ("2021-05-06", "2021-05-06T10:00:00", "2021-05-06 10:00:00.5", "2021-05-06T10:00:00+02:00")
HAS_ZONE = "[T ].*(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
BEYOND_MICROSECONDS = r"(\.[0-9]{6})[0-9]+"


def times_of(table: RawTable) -> NDArray[Any] | None:
    """Timestamps as int64 where all are whole, else float64; calendar types and ISO text as seconds since 1970."""
    if "timestamp" not in table:
        return None
    data = table.data["timestamp"]
    if pa.types.is_timestamp(data.type) or pa.types.is_date(data.type):
        as_micro = pc.CastOptions(pa.timestamp("us"), allow_time_truncate=True)
        try:
            return _seconds(_numbers(table, "timestamp", pc.cast(data, options=as_micro).cast(pa.int64())))
        except pa.ArrowInvalid as error:
            raise DataError(str(error), f"{table.label}, column 'timestamp'", "correct these dates") from error
    times = None
    if is_text(data) and not data.null_count:
        times = _as_numbers(data) if table.is_text else None
        if times is None:
            return _seconds(_dated(table, data.cast(WIDE_TEXT)))
    times = _numbers(table, "timestamp", data) if times is None else _finite(table, "timestamp", times)
    if times.dtype == np.float64 and np.all((times == np.floor(times)) & (np.abs(times) < 2.0**63)):
        return times.astype(np.int64)
    return times


def _seconds(micro: NDArray[Any]) -> NDArray[Any]:
    return micro / 1e6 if np.any(micro % 1_000_000) else micro // 1_000_000


def _dated(table: RawTable, text: pa.ChunkedArray) -> NDArray[np.int64]:
    try:
        return _microseconds(text)
    except pa.ArrowInvalid:
        _refuse_times(table, text)


def _refuse_times(table: RawTable, data: pa.ChunkedArray) -> NoReturn:
    """Name the first timestamp that is neither a number nor a date, or that is not what those above it are."""
    refuse_missing(table, "timestamp")
    is_first_a_number = table.is_text and _is_number(data[0])
    is_fine, is_other = (_is_number, _is_moment) if is_first_a_number else (_is_moment, _is_number)
    row = next(row for row, value in enumerate(data) if not is_fine(value))
    kinds = ("a date", "numbers") if is_first_a_number else ("a number", "dates")
    problem = "neither a number of seconds since 1970 nor a date"
    if not row and _is_number(data[row]):
        problem = "text, not a number"
    elif row and is_other(data[row]):
        problem = f"{kinds[0]}, but the rows above have {kinds[1]}"
    numbers = "write numbers in every row" if table.is_text else "convert the text to numbers"
    raise DataError(
        problem,
        table.locate(row, "timestamp"),
        f"{numbers}, or ISO dates in every row ({', '.join(FORMS)})",
        value=data[row].as_py(),
        allowed=FORMS,
    )


def _microseconds(text: pa.ChunkedArray) -> NDArray[np.int64]:
    """Microseconds since 1970 UTC, which is the zone of what names none; ``pa.ArrowInvalid`` for any other text."""
    written = pc.replace_substring_regex(text, BEYOND_MICROSECONDS, r"\1")
    has_zone = pc.match_substring_regex(written, HAS_ZONE)
    nothing = pa.scalar(None, written.type)
    zoned = pc.if_else(has_zone, written, nothing).cast(pa.timestamp("us", "UTC"))  # Arrow reads either
    plain = pc.if_else(has_zone, nothing, written).cast(pa.timestamp("us"))
    return np.asarray(pc.coalesce(zoned.cast(pa.int64()), plain.cast(pa.int64())))


def weights_of(table: RawTable) -> NDArray[np.float32] | None:
    """The weights of links, none where there are none; 0 is no link."""
    if "weight" not in table:
        return None
    weights = _numbers(table, "weight", table.data["weight"])
    advice = "weights must be 0 (no link) or more"
    refuse_rows(np.flatnonzero(weights < 0), table.locate, "weight", "negative weight", advice)
    return _in_single_precision(table, "weight", weights)


def ratings_of(table: RawTable, positive_from: float | None) -> NDArray[np.float32] | None:
    """The ratings, counts or amounts of interactions, none where there are none; where all count, they are above 0."""
    if "rating" not in table:
        if positive_from is None:
            return None
        raise UsageError(
            "has no column 'rating', which positive_from (--positive-from) compares",
            table.label,
            "map it: --column rating=NAME (in Python columns={'rating': …}), or leave positive_from out",
            value=positive_from,
        )
    ratings = _numbers(table, "rating", table.data["rating"])
    if positive_from is None:
        advice = "correct it, or keep such rows as known pairs: --positive-from 1 (in Python positive_from=1)"
        refuse_rows(np.flatnonzero(ratings <= 0), table.locate, "rating", "rating must be above 0", advice)
    return _in_single_precision(table, "rating", ratings)


def _in_single_precision(table: RawTable, column: str, numbers: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        small = numbers.astype(np.float32)
    lost = np.flatnonzero((numbers != 0) & ((small == 0) | np.isinf(small)))
    refuse_rows(lost, table.locate, column, "beyond single precision", f"scale the {column}s")
    return small


def _numbers(table: RawTable, column: str, data: pa.ChunkedArray) -> NDArray[Any]:
    """A column of finite numbers: int64 where every value is written as one, else float64."""
    if data.null_count:
        refuse_missing(table, column)
    if pa.types.is_integer(data.type):
        numbers = int64_of(table, column, data)
    elif pa.types.is_floating(data.type):
        numbers = np.asarray(data.cast(pa.float64()))
    elif table.is_text:
        numbers = _parse(table, column, data)
    else:
        raise DataError(
            f"{data.type} values, but numbers are expected",
            f"{table.label}, column {column!r}",
            "convert the column",
            value=str(data.type),
        )
    return _finite(table, column, numbers)


def _finite(table: RawTable, column: str, numbers: NDArray[Any]) -> NDArray[Any]:
    refuse_rows(np.flatnonzero(~np.isfinite(numbers)), table.locate, column, "not a finite number", "correct it")
    return numbers


def _as_numbers(data: pa.ChunkedArray) -> NDArray[Any] | None:
    """Text as numbers, if every value is one."""
    is_hexadecimal = pc.any(pc.match_substring(data, "x", ignore_case=True)).as_py()  # which Arrow would take
    for kind in () if is_hexadecimal else (pa.int64(), pa.float64()):
        with suppress(pa.ArrowInvalid):
            return np.asarray(data.cast(kind))
    return None


def _parse(table: RawTable, column: str, data: pa.ChunkedArray) -> NDArray[Any]:
    numbers = _as_numbers(data)
    if numbers is not None:
        return numbers
    refuse_missing(table, column)
    row = next(row for row, value in enumerate(data) if not _is_number(value))
    raise DataError("not a decimal number", table.locate(row, column), "correct it", value=data[row].as_py())


def _is_number(text: pa.Scalar) -> bool:
    try:
        text.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return "x" not in text.as_py().lower()


def _is_moment(text: pa.Scalar) -> bool:
    """Whether one value is a date or a moment."""
    try:
        _microseconds(pa.chunked_array([pa.array([text.as_py()], text.type)]))
    except pa.ArrowInvalid:
        return False
    return True


def int64_of(table: RawTable, column: str, data: pa.ChunkedArray) -> NDArray[np.int64]:
    """A column of integers, each of which must fit 64 bits with a sign."""
    try:
        return np.asarray(data.cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise DataError(
            str(error), f"{table.label}, column {column!r}", "make them smaller, or ask for text ids"
        ) from error


def refuse_missing(table: RawTable, column: str) -> None:
    """Refuse a column in which a value is null, empty or not a number."""
    data = table.data[column]
    missing = np.zeros(0, dtype=bool)
    if data.null_count:
        missing = np.asarray(data.is_null())
    elif is_text(data):
        values = coded(data)
        blank = pc.is_in(pc.utf8_trim_whitespace(values.dictionary), value_set=pa.array(MISSING, WIDE_TEXT))
        if pc.any(blank).as_py():
            missing = np.asarray(blank)[np.asarray(values.indices)]
    rows = np.flatnonzero(missing)
    refuse_rows(rows, table.locate, column, "missing value", "fill it in or remove the row")
