"""The form of durations and ages; ui/src/i18n/time.test.ts has the same cases for the dashboard."""

import pytest

from pyoco_server.records.durations import age_text, duration_text, interval_text, until_text


@pytest.mark.parametrize(
    ("seconds", "en", "ja"),
    [
        (0, "0s", "0秒"),
        (0.0123, "12ms", "12ms"),
        (0.9996, "1s", "1秒"),
        (1.26, "1.3s", "1.3秒"),
        (9.96, "10s", "10秒"),
        (59.4, "59s", "59秒"),
        (59.6, "1m 0s", "1分0秒"),
        (240, "4m 0s", "4分0秒"),
        (3599.7, "1h 0m", "1時間0分"),
        (7500, "2h 5m", "2時間5分"),
        (90_000, "1d 1h", "1日1時間"),
        (604_800, "7d 0h", "7日0時間"),
    ],
)
def test_a_duration_has_one_unit_or_two(seconds: float, en: str, ja: str) -> None:
    assert (duration_text(seconds), duration_text(seconds, "ja")) == (en, ja)


@pytest.mark.parametrize(
    ("seconds", "en", "ja"),
    [
        (0.5, "500ms", "500ms"),
        (5, "5s", "5秒"),
        (900, "15m", "15分"),
        (5400, "1h 30m", "1時間30分"),
        (90_061, "1d 1h 1m 1s", "1日1時間1分1秒"),
    ],
)
def test_an_interval_is_shown_in_full(seconds: float, en: str, ja: str) -> None:
    assert (interval_text(seconds), interval_text(seconds, "ja")) == (en, ja)


@pytest.mark.parametrize(
    ("seconds", "en", "ja"),
    [
        (-3, "0s ago", "0秒前"),
        (59.9, "59s ago", "59秒前"),
        (299, "4m ago", "4分前"),
        (7199, "1h ago", "1時間前"),
        (86_400 * 10, "10d ago", "10日前"),
        (86_400 * 70, "2mo ago", "2か月前"),
        (86_400 * 800, "2y ago", "2年前"),
    ],
)
def test_an_age_has_one_unit(seconds: float, en: str, ja: str) -> None:
    assert (age_text(seconds), age_text(seconds, "ja")) == (en, ja)


def test_the_future_has_the_same_units() -> None:
    assert (until_text(250), until_text(250, "ja")) == ("in 4m", "4分後")
