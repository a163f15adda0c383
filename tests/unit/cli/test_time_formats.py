"""Times and durations: how they are parsed and shown."""

import time

import pytest

from pyoco_server.cli.options.time_formats import (
    ago,
    duration,
    interval,
    parse_time,
    time_left,
    time_until,
)


@pytest.mark.parametrize(("text", "seconds_ago"), [("90s", 90), ("1.5m", 90), ("2h", 7200), ("7d", 604800)])
def test_an_age_is_a_time(text: str, seconds_ago: float) -> None:
    before = time.time()
    assert before <= parse_time(text) + seconds_ago <= time.time()


@pytest.mark.parametrize("text", ["1577836800", "2020-01-01T00:00:00+00:00", "2020-01-01T00:00Z"])
def test_a_time_has_several_forms(text: str) -> None:
    assert parse_time(text) == 1577836800


@pytest.mark.parametrize(
    ("locale", "texts"),
    [
        ("C", ["4m ago", "in 4m", "4m left", "time is up", "4m 0s", "15m"]),
        ("ja_JP.UTF-8", ["4分前", "4分後", "残り4分", "期限切れ", "4分0秒", "15分"]),
    ],
)
def test_times_are_shown_in_the_language_of_the_user(
    monkeypatch: pytest.MonkeyPatch, locale: str, texts: list[str]
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    shown = [
        ago(1000.0, now=1240.0),
        time_until(1240.0, now=1000.0),
        time_left(1240.0, now=1000.0),
        time_left(1000.0, now=1240.0),
        duration(240),
        interval(900),
    ]
    assert shown == texts


def test_what_is_not_known_is_empty() -> None:
    assert (ago(None), duration(None)) == ("", "")
