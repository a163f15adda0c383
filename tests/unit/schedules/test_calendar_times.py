"""The times of a spec, with explicit expected times in UTC."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.records.schedules.schedule_models import ScheduleSpec
from pyoco_server.schedules.calendar_times import (
    OccurrenceCount,
    SearchLimit,
    count_between,
    due_at,
    iso_in_zone,
    next_time,
    next_times,
    occurrences,
    search_times,
)

NOW = datetime(2026, 11, 17, 12, 0, tzinfo=UTC).timestamp()


def _at(text: str) -> float:
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


def _next(spec: ScheduleSpec, after: str, n: int) -> list[str]:
    times = next_times(spec, after=_at(after), n=n)
    return [datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S") for at in times]


@pytest.mark.parametrize(
    ("zone", "cron", "after", "expected"),
    [
        # The clocks go forward: 02:00 becomes 03:00. The daily 02:30 is at 03:00 once.
        (
            "Europe/Berlin",
            "30 2 * * *",
            "2026-03-27T12:00:00",
            ["2026-03-28T01:30:00", "2026-03-29T01:00:00", "2026-03-30T00:30:00"],
        ),
        (
            "America/New_York",
            "30 2 * * *",
            "2026-03-07T00:00:00",
            ["2026-03-07T07:30:00", "2026-03-08T07:00:00", "2026-03-09T06:30:00"],
        ),
        # They go back: an hour occurs twice, and a fixed time in it once, the first time.
        (
            "Europe/Berlin",
            "30 2 * * *",
            "2026-10-23T12:00:00",
            ["2026-10-24T00:30:00", "2026-10-25T00:30:00", "2026-10-26T01:30:00"],
        ),
        (
            "America/New_York",
            "30 1 * * *",
            "2026-10-31T00:00:00",
            ["2026-10-31T05:30:00", "2026-11-01T05:30:00", "2026-11-02T06:30:00"],
        ),
        # Without daylight saving.
        (
            "Asia/Tokyo",
            "30 2 * * *",
            "2026-03-27T18:00:00",
            ["2026-03-28T17:30:00", "2026-03-29T17:30:00", "2026-03-30T17:30:00"],
        ),
        (
            "Asia/Tokyo",
            "30 2 * * *",
            "2026-10-23T18:00:00",
            ["2026-10-24T17:30:00", "2026-10-25T17:30:00", "2026-10-26T17:30:00"],
        ),
        # Any hour: every half an hour of elapsed time, also in the hour that occurs twice.
        (
            "Europe/Berlin",
            "*/30 * * * *",
            "2026-03-29T00:00:00",
            ["2026-03-29T00:30:00", "2026-03-29T01:00:00", "2026-03-29T01:30:00"],
        ),
        (
            "Europe/Berlin",
            "*/30 * * * *",
            "2026-10-24T23:50:00",
            ["2026-10-25T00:00:00", "2026-10-25T00:30:00", "2026-10-25T01:00:00", "2026-10-25T01:30:00"],
        ),
        (
            "America/New_York",
            "*/30 * * * *",
            "2026-11-01T05:00:00",
            ["2026-11-01T05:30:00", "2026-11-01T06:00:00", "2026-11-01T06:30:00"],
        ),
        (
            "America/New_York",
            "@hourly",
            "2026-03-08T05:30:00",
            ["2026-03-08T06:00:00", "2026-03-08T07:00:00", "2026-03-08T08:00:00"],
        ),
    ],
)
def test_daylight_saving(zone: str, cron: str, after: str, expected: list[str]) -> None:
    assert _next(ScheduleSpec(cron=[cron], timezone=zone), after, len(expected)) == expected


@pytest.mark.parametrize("seconds", [0, 1, 1800, 3599])
def test_a_fixed_time_does_not_recur_in_the_second_of_two_hours(seconds: int) -> None:
    """Asked from within that hour: 02:30 CEST is over, and 02:30 CET is no occurrence."""
    spec = ScheduleSpec(cron=["30 2 * * *"], timezone="Europe/Berlin")
    after = _at("2026-10-25T01:00:00") + seconds
    assert next_time(spec, after=after) == _at("2026-10-26T01:30:00")


def test_two_times_in_the_gap_are_one_occurrence() -> None:
    spec = ScheduleSpec(cron=["15,45 2 * * *", "0 3 * * *"], timezone="Europe/Berlin")
    assert _next(spec, "2026-03-29T00:00:00", 2) == ["2026-03-29T01:00:00", "2026-03-30T00:15:00"]


def test_an_offset_is_that_of_the_time() -> None:
    assert iso_in_zone(_at("2026-10-25T00:30:00"), "Europe/Berlin") == "2026-10-25T02:30:00+02:00"
    assert iso_in_zone(_at("2026-10-25T01:30:00"), "Europe/Berlin") == "2026-10-25T02:30:00+01:00"


def test_an_interval_counts_from_its_anchor() -> None:
    spec = ScheduleSpec(every_sec=90, anchor=_at("2026-11-17T12:00:10"))
    assert _next(spec, "2026-11-17T12:00:00", 2) == ["2026-11-17T12:00:10", "2026-11-17T12:01:40"]
    assert _next(spec, "2026-11-17T12:00:10", 1) == ["2026-11-17T12:01:40"]


def test_an_interval_without_anchor_counts_from_1970() -> None:
    assert _next(ScheduleSpec(every_sec=1), "2026-11-17T12:00:00", 1) == ["2026-11-17T12:00:01"]
    assert _next(ScheduleSpec(every_sec=3600), "2026-11-17T12:00:01", 1) == ["2026-11-17T13:00:00"]


@given(
    every=st.floats(1, 1e6),
    anchor=st.floats(0, 2e9),
    number=st.integers(0, 100_000),
)
def test_the_time_of_an_interval_does_not_depend_on_where_the_search_began(
    every: float, anchor: float, number: int
) -> None:
    spec = ScheduleSpec(every_sec=every, anchor=anchor)
    first, second, third = next_times(spec, after=anchor + number * every, n=3)
    assert first < second < third
    assert next_times(spec, after=first, n=2) == [second, third]
    assert count_between(spec, first, third, limit=1) == OccurrenceCount(2)


def test_moments_are_sorted_and_once() -> None:
    spec = ScheduleSpec(at=[NOW + 20, NOW + 10, NOW + 20, NOW - 5])
    assert next_times(spec, after=NOW, n=5) == [NOW + 10, NOW + 20]


def test_sources_are_united_without_repetition() -> None:
    spec = ScheduleSpec(cron=["*/2 * * * *", "*/3 * * * *"], every_sec=360, at=[NOW + 30])
    assert [at - NOW for at in next_times(spec, after=NOW, n=6)] == [30, 120, 180, 240, 360, 480]


@pytest.mark.parametrize(
    ("every", "step"), [({"every_sec": 60}, 60), ({"cron": ["* * * * *"], "timezone": "Asia/Tokyo"}, 60)]
)
def test_the_first_may_be_at_the_start_and_none_is_at_the_end(every: dict[str, Any], step: int) -> None:
    spec = ScheduleSpec(**every, start_at=NOW + step, end_at=NOW + 4 * step)
    assert [at - NOW for at in next_times(spec, after=NOW - 100, n=9)] == [step, 2 * step, 3 * step]
    assert count_between(spec, NOW - 100, NOW + 1000, limit=10) == OccurrenceCount(3)


def test_excluded_dates_are_of_the_time_zone() -> None:
    spec = ScheduleSpec(cron=["0 9 * * *"], timezone="Asia/Tokyo", exclude=["2026-12-25", "2026-12-26"])
    assert _next(spec, "2026-12-24T00:00:00", 1) == ["2026-12-27T00:00:00"]


@pytest.mark.parametrize(
    ("exclude", "expected"),
    [
        # 2026-11-14 is a Saturday.
        (["* * * * SAT,SUN"], "2026-11-16T00:00:00"),
        (["* 0-8 * * *"], "2026-11-14T09:00:00"),
        (["0-58 * * * *"], "2026-11-14T00:59:00"),
        (["2026-11-14", "* 0 15 11 *"], "2026-11-15T01:00:00"),
        (["0 12 * * *"], "2026-11-14T00:00:00"),
    ],
)
def test_exclusions_of_an_interval_of_a_second(exclude: list[str], expected: str) -> None:
    spec = ScheduleSpec(every_sec=1, exclude=exclude)
    assert _next(spec, "2026-11-13T23:59:59", 1) == [expected]


@pytest.mark.parametrize("exclude", [["* * * * *"], ["0-29 * * * *", "30-59 * * * *"]])
def test_a_search_says_how_far_it_came_when_everything_is_excluded(exclude: list[str]) -> None:
    spec = ScheduleSpec(every_sec=1, exclude=exclude)
    with pytest.raises(SearchLimit) as ended:
        next_time(spec, after=NOW)
    assert ended.value.reached > NOW + 30 * 86_400
    assert search_times(spec, after=NOW, n=3).times == []
    assert count_between(spec, NOW, NOW + 1e10, limit=10) == OccurrenceCount(0, at_least=True)


def test_the_steps_of_a_search_are_limited_in_total() -> None:
    # Each hour has an occurrence: none of the searches is in vain.
    spec = ScheduleSpec(cron=["* * * * *"] * 10, exclude=["1-59 * * * *"] * 50)
    hourly = occurrences(spec, after=NOW, steps=1_000)
    found: list[float] = []
    with pytest.raises(SearchLimit) as ended:
        found.extend(hourly)
    assert len(found) < 100
    assert ended.value.reached >= found[-1]


def test_an_exclusion_does_not_parse_the_expressions_again(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    class Counting(CronSim):
        def __init__(self, expression: str, start: datetime) -> None:
            parsed.append(expression)
            super().__init__(expression, start)

    spec = ScheduleSpec(cron=["*/7 * * * *"], exclude=["* 1-22 * * *"])
    next_time(spec, after=NOW)
    monkeypatch.setattr("pyoco_server.schedules.calendar_times.CronSim", Counting)
    next_times(spec, after=NOW, n=100)
    assert parsed == ["*/7 * * * *"]


@pytest.mark.parametrize("after", [1e12, 1e17, 1e300])
def test_nothing_occurs_after_the_last_year(after: float) -> None:
    spec = ScheduleSpec(every_sec=3600, cron=["@hourly"])
    assert next_times(spec, after=after, n=3) == []
    assert count_between(ScheduleSpec(every_sec=3600), after, 2 * after, limit=3).count >= 0


def test_the_last_of_what_is_counted_is_known() -> None:
    assert count_between(ScheduleSpec(every_sec=10), NOW, NOW + 35, limit=9).last == NOW + 30
    assert count_between(ScheduleSpec(cron=["* * * * *"]), NOW, NOW + 150, limit=9).last == NOW + 120


def test_a_year_of_seconds_is_counted_without_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("enumerated")

    monkeypatch.setattr("pyoco_server.schedules.calendar_times.occurrences", refuse)
    year = 365 * 86_400
    assert count_between(ScheduleSpec(every_sec=1), NOW, NOW + year, limit=10) == OccurrenceCount(year)


def test_a_count_stops_at_its_limit() -> None:
    spec = ScheduleSpec(cron=["* * * * *"])
    assert count_between(spec, NOW, NOW + 600, limit=10) == OccurrenceCount(10)
    assert count_between(spec, NOW, NOW + 1e9, limit=10) == OccurrenceCount(10, at_least=True)


def test_the_jitter_is_fixed_and_keeps_the_order() -> None:
    spec = ScheduleSpec(every_sec=60, jitter_sec=3600)
    times = next_times(spec, after=NOW, n=50)
    due = [due_at("t.a", spec, at) for at in times]
    assert due == [due_at("t.a", spec, at) for at in times]
    assert due == sorted(due)
    assert all(0 <= start - at < 60 for start, at in zip(due, times, strict=True))
    assert len({round(start - at, 3) for start, at in zip(due, times, strict=True)}) > 40
    assert due != [due_at("t.b", spec, at) for at in times]
    assert due_at("t.a", ScheduleSpec(every_sec=60), NOW) == NOW


@given(st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)), st.integers(0, 59), st.integers(0, 23))
def test_a_daily_time_occurs_once_a_day_in_every_zone(start: datetime, minute: int, hour: int) -> None:
    for zone in ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana"):
        spec = ScheduleSpec(cron=[f"{minute} {hour} * * *"], timezone=zone)
        times = next_times(spec, after=start.replace(tzinfo=UTC).timestamp(), n=4)
        days = [datetime.fromisoformat(iso_in_zone(at, zone)).date() for at in times]
        assert [day - days[0] for day in days] == [timedelta(days=number) for number in range(4)]


def test_times_do_not_depend_on_the_zone_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        spec = ScheduleSpec(cron=["0 2 * * *"], timezone="UTC")
        assert _next(spec, "2026-11-17T00:00:00", 1) == ["2026-11-17T02:00:00"]
    finally:
        monkeypatch.undo()
        time.tzset()
