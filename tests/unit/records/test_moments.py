"""Moments: what is read, and what is refused, wherever a time is given."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from pyoco_server.records.moments import NoTimeZone, parse_moment

TOKYO = ZoneInfo("Asia/Tokyo")
MIDNIGHT = datetime(2027, 1, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    "given",
    [
        MIDNIGHT,
        MIDNIGHT.timestamp(),
        int(MIDNIGHT.timestamp()),
        "1801353600",
        " 1801353600.0 ",
        "2027-01-31T00:00:00Z",
        "2027-01-31T09:00+09:00",
        "20270131T000000Z",
    ],
)
@pytest.mark.parametrize("zone", [None, TOKYO, "local"])
def test_with_an_offset_it_is_the_same_in_every_zone(given: Any, zone: Any) -> None:
    assert parse_moment(given, zone=zone) == MIDNIGHT.timestamp()


@pytest.mark.parametrize("given", ["2027-01-31T09:00", "2027-01-31 09:00:00", datetime(2027, 1, 31, 9)])
def test_without_an_offset_it_needs_a_zone(given: Any) -> None:
    assert parse_moment(given, zone=TOKYO) == MIDNIGHT.timestamp()
    assert parse_moment(given, zone="local") == datetime(2027, 1, 31, 9).timestamp()
    with pytest.raises(NoTimeZone):
        parse_moment(given)


@pytest.mark.parametrize(
    "given",
    [
        float("nan"),
        float("inf"),
        True,
        None,
        [],
        b"1801353600",
        "",
        "tomorrow",
        "2027-13-01T00:00Z",
        "-1",
        "1" * 400,
        "1960-01-01T00:00Z",
        "0001-01-01",
        -1.0,
    ],
)
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="not a moment"):
        parse_moment(given, zone="local")
