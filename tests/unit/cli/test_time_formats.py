"""Times and durations: how they are parsed and shown."""

import time

import pytest

from pyoco_server.cli.options.time_formats import ago, duration, parse_time, time_left


@pytest.mark.parametrize(("text", "seconds_ago"), [("90s", 90), ("1.5m", 90), ("2h", 7200), ("7d", 604800)])
def test_an_age_is_a_time(text: str, seconds_ago: float) -> None:
    before = time.time()
    assert before <= parse_time(text) + seconds_ago <= time.time()


@pytest.mark.parametrize("text", ["1577836800", "2020-01-01T00:00:00+00:00", "2020-01-01T00:00Z"])
def test_a_time_has_several_forms(text: str) -> None:
    assert parse_time(text) == 1577836800


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s ago"), (119, "119s ago"), (120, "2m ago"), (7200, "2h ago"), (864000, "10d ago")],
)
def test_a_time_is_shown_as_an_age(seconds: float, text: str) -> None:
    assert ago(1000.0, now=1000.0 + seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "time is up"), (30, "30s left"), (300, "5m left"), (7300, "2h left"), (864_000, "10d left")],
)
def test_the_time_left_is_shown_in_one_unit(seconds: float, text: str) -> None:
    assert time_left(1000.0 + seconds, now=1000.0) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (0.0123, "12 ms"), (1.25, "1.2 s"), (59.9, "59.9 s"), (61, "1:01 min"), (3725, "1:02:05 h")],
)
def test_a_duration_has_the_unit_that_fits(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text
