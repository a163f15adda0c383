"""Moments, as people and programs write them: ISO 8601, unix seconds, or a datetime."""

import math
import re
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

# The longest delay or sleep, with its leap days.
TEN_YEARS_SEC: Final = 3653 * 86_400
# Of stored records: finite, and within the years that dates can show.
LAST_TIME = 253_402_300_800.0
Timestamp = Annotated[float, Meta(ge=-1e10, lt=LAST_TIME)]
Seconds = Annotated[float, Meta(ge=0, lt=LAST_TIME)]
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")


class NoTimeZone(ValueError):
    """A time of day without an offset, which is another moment for each reader."""


def parse_moment(given: Any, *, zone: tzinfo | Literal["local"] | None = None) -> float:
    """Unix seconds, from 1970 on; ValueError if it is no moment.

    A text of digits is unix seconds. Without an offset, a time is in the zone; NoTimeZone if there is none.
    """
    try:
        at = _unix_seconds(given, zone)
    except NoTimeZone:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError("not a moment") from error
    if not math.isfinite(at) or at < 0:
        raise ValueError("not a moment")
    return at


def iso_time(at: float) -> str:
    """ISO 8601 in UTC, such as 2026-11-17T06:00:00.000000Z."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _unix_seconds(given: Any, zone: tzinfo | Literal["local"] | None) -> float:
    if isinstance(given, bool):
        raise TypeError
    if isinstance(given, int | float):
        return float(given)
    if isinstance(given, str) and _NUMBER.fullmatch(given.strip()):
        return float(given)
    time = given if isinstance(given, datetime) else datetime.fromisoformat(str.strip(given))
    if time.tzinfo is None and zone is None:
        raise NoTimeZone
    if time.tzinfo is None and isinstance(zone, tzinfo):
        time = time.replace(tzinfo=zone)
    # Without an offset: the zone of this machine.
    return time.timestamp()
