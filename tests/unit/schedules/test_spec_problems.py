"""What is wrong with a spec: the field, the value and the cure."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from pyoco_server.errors import InvalidRequest
from pyoco_server.records.schedules.schedule_models import ScheduleSpec, SpecInput
from pyoco_server.schedules.spec_problems import checked_spec, checked_window

NOW = datetime(2026, 11, 17, 12, 0, tzinfo=UTC).timestamp()
YEAR_SEC = 365 * 86_400


def _checked(**fields: Any) -> ScheduleSpec:
    return checked_spec(msgspec.convert(fields, SpecInput), now=NOW)


@pytest.mark.parametrize(
    ("fields", "field", "value", "text"),
    [
        ({}, "spec", None, "give cron, every_sec or at"),
        ({"cron": ["0 0 31 2 *"]}, "spec.cron[0]", "0 0 31 2 *", "impossible day-of-month"),
        ({"cron": ["* * * * *", "61 * * * *"]}, "spec.cron[1]", "61 * * * *", "impossible minute"),
        ({"cron": ["* * */20 * 1L"]}, "spec.cron[0]", "1L", "never occurs"),
        ({"cron": ["0 0 * * * *"]}, "spec.cron[0]", "0 0", "expected five fields"),
        ({"cron": ["@reboot"]}, "spec.cron[0]", "@reboot", "@hourly"),
        ({"cron": ["* * * * *"] * 21}, "spec.cron", None, "at most 10"),
        ({"cron": ["@daily"], "timezone": "Europe/Berln"}, "spec.timezone", "Europe/Berln", "Europe/Berlin?"),
        ({"cron": ["@daily"], "timezone": "Europe"}, "spec.timezone", "Europe", "IANA"),
        ({"cron": ["@daily"], "timezone": "../UTC"}, "spec.timezone", "../UTC", "IANA"),
        ({"cron": ["@daily"], "timezone": ""}, "spec.timezone", '""', "IANA"),
        ({"cron": ["@daily"], "timezone": "x" * 5000}, "spec.timezone", "xxx", "IANA"),
        ({"every_sec": 0.5}, "spec.every_sec", "0.5", "expected 1 to"),
        ({"every_sec": 1e300}, "spec.every_sec", "1e+300", "expected 1 to"),
        ({"every_sec": 5, "jitter_sec": -1}, "spec.jitter_sec", "-1", "expected 0 to"),
        ({"cron": ["@daily"], "anchor": 5}, "spec.anchor", "5", "every_sec"),
        ({"at": ["tomorrow"]}, "spec.at[0]", "tomorrow", "expected a time such as"),
        ({"at": [1e15]}, "spec.at[0]", "1000000000000000", "before the year 9000"),
        ({"at": ["2026-01-01T00:00:00Z"]}, "spec", None, "give a time in the future"),
        (
            {"cron": ["@daily"], "start_at": "2027-01-02", "end_at": "2027-01-02"},
            "spec.end_at",
            "2027-01-02",
            "after start_at",
        ),
        ({"cron": ["@daily"], "end_at": "2026-01-01"}, "spec", None, "give a later end_at"),
        ({"cron": ["@daily"], "exclude": ["christmas"]}, "spec.exclude[0]", "christmas", "2026-12-24"),
        ({"every_sec": 1, "exclude": ["* * * * *"]}, "spec.exclude", None, "exclude less"),
    ],
)
def test_problem_names_field_value_and_cure(
    fields: dict[str, Any], field: str, value: str | None, text: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        _checked(**fields)
    (problem,) = caught.value.problems
    assert problem.field == field
    assert (problem.value is None) if value is None else (value in str(problem.value))
    assert text in problem.message


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(InvalidRequest) as caught:
        _checked(cron=["x"], every_sec=0, timezone="Mars/Base", at=["?"], exclude=["-"])
    fields = [problem.field for problem in caught.value.problems]
    assert fields == ["spec.timezone", "spec.cron[0]", "spec.every_sec", "spec.exclude[0]", "spec.at[0]"]


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="crons"):
        _checked(crons=["@daily"])


def test_texts_without_an_offset_are_in_the_time_zone() -> None:
    spec = _checked(
        at=["2027-01-31T09:00", "2027-01-31T09:00:00Z", 1_893_456_000],
        timezone="Asia/Tokyo",
        end_at="2040-01-01",
    )
    tokyo = datetime(2027, 1, 31, 0, 0, tzinfo=UTC).timestamp()
    assert spec.at == [tokyo, tokyo + 9 * 3600, 1_893_456_000.0]
    assert spec.end_at == datetime(2039, 12, 31, 15, 0, tzinfo=UTC).timestamp()


def test_cron_expressions_are_stored_with_single_spaces() -> None:
    assert _checked(cron=["  0   2 * * MON-FRI "]).cron == ["0 2 * * MON-FRI"]


def test_a_window_with_too_many_occurrences_is_refused() -> None:
    for spec in (ScheduleSpec(every_sec=1), ScheduleSpec(cron=["* * * * *"])):
        with pytest.raises(InvalidRequest) as caught:
            checked_window(spec, YEAR_SEC, now=NOW, field="catchup_window_sec")
        (problem,) = caught.value.problems
        assert (problem.field, problem.value) == ("catchup_window_sec", str(YEAR_SEC))
        assert "shorten it" in problem.message


@pytest.mark.parametrize("window_sec", [-1, 10 * YEAR_SEC])
def test_a_window_is_at_most_a_year(window_sec: float) -> None:
    with pytest.raises(InvalidRequest):
        checked_window(ScheduleSpec(cron=["@daily"]), window_sec, now=NOW, field="catchup_window_sec")


def test_a_year_of_days_can_be_caught_up() -> None:
    checked_window(ScheduleSpec(cron=["@daily"]), YEAR_SEC, now=NOW, field="catchup_window_sec")
