"""The start that a request asks for: every form of a time, and every mistake in one."""

from datetime import datetime
from typing import Any

import pytest
from msgspec import UNSET

from pyoco_server.errors import InvalidRequest
from pyoco_server.records.moments import TEN_YEARS_SEC
from pyoco_server.runs.lifecycle.requested_start import AT_ONCE, requested_start

NOW = 1_800_000_000.0


def epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(
    ("given", "at"),
    [
        (NOW + 60, NOW + 60),
        (int(NOW) + 60, NOW + 60),
        (f"{NOW + 60}", NOW + 60),
        ("2027-01-31T09:00:00+09:00", epoch("2027-01-31T00:00:00+00:00")),
        ("2027-01-31T00:00:00Z", epoch("2027-01-31T00:00:00+00:00")),
        (" 2027-01-31 00:00Z ", epoch("2027-01-31T00:00:00+00:00")),
        ("20270131T000000Z", epoch("2027-01-31T00:00:00+00:00")),
        # In the past: at once.
        ("2020-01-31T00:00:00Z", epoch("2020-01-31T00:00:00+00:00")),
        (0, 0.0),
    ],
)
def test_a_time_is_read(given: float | str, at: float) -> None:
    start = requested_start(given, None, NOW)
    assert (start.at, start.compared_fields) == (at, ("start_at", at))
    assert isinstance(start.at, float)


@pytest.mark.parametrize("fraction", [0.0, 0.0004, 0.0005, 0.0009, 0.9999])
def test_no_delay_is_at_once(fraction: float) -> None:
    now = NOW + fraction
    at = requested_start(None, 0, now).at
    assert at is not UNSET
    assert now - 0.001 < at <= now


def test_a_delay_counts_from_now_and_is_the_same_in_a_retry() -> None:
    first, later = requested_start(None, 90, NOW), requested_start(UNSET, 90.0, NOW + 5)
    assert (first.at, later.at) == (NOW + 90, NOW + 95)
    assert first.compared_fields == later.compared_fields == ("delay_sec", 90.0)


def test_without_either_it_is_at_once() -> None:
    for missing in (None, UNSET):
        assert requested_start(missing, missing, NOW) is AT_ONCE


@pytest.mark.parametrize(
    ("start_at", "says"),
    [
        ("tomorrow", "ISO 8601"),
        ("", "ISO 8601"),
        ("2027-13-01T00:00:00Z", "ISO 8601"),
        ("2027-01-31T09:00:00", "add Z for UTC"),
        ("2027-01-31", "add Z for UTC"),
        ("0001-01-01T00:00:00Z", "ISO 8601"),
        (-1.0, "ISO 8601"),
        ("-1", "ISO 8601"),
        (float("inf"), "ISO 8601"),
        (float("nan"), "ISO 8601"),
        (NOW + TEN_YEARS_SEC + 1, "more than ten years"),
        ("9999-12-31T23:59:59Z", "more than ten years"),
        ("1" * 400, "ISO 8601"),
    ],
)
def test_another_time_is_refused(start_at: Any, says: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        requested_start(start_at, None, NOW)
    [problem] = refused.value.problems
    assert problem.field == "start_at"
    assert says in problem.message
    assert problem.value is not None


def test_one_of_the_two_is_given() -> None:
    with pytest.raises(InvalidRequest) as refused:
        requested_start(NOW, 5.0, NOW)
    [problem] = refused.value.problems
    assert (problem.field, problem.value) == ("delay_sec", "5.0")
    assert "give one of them" in problem.message
