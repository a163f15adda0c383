"""Moments and durations, as people and programs write them: ISO 8601, unix seconds, a datetime; `4m 0s`.

The dashboard writes durations the same way (ui/src/i18n/time.ts).
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from pyoco_server.errors.error_table import Lang

# The longest delay or sleep, with its leap days.
TEN_YEARS_SEC: Final = 3653 * 86_400
# Of stored records: finite, and within the years that dates can show.
LAST_TIME = 253_402_300_800.0
Timestamp = Annotated[float, Meta(ge=-1e10, lt=LAST_TIME)]
Seconds = Annotated[float, Meta(ge=0, lt=LAST_TIME)]
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
_SECONDS: Final = {"y": 31_536_000, "mo": 2_592_000, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_WORDS: Final[Mapping[Lang, Mapping[str, str]]] = {
    "en": {unit: unit for unit in _SECONDS},
    "ja": {"y": "年", "mo": "か月", "d": "日", "h": "時間", "m": "分", "s": "秒"},
}
_GAPS: Final[Mapping[Lang, str]] = {"en": " ", "ja": ""}
# A duration has two of these.
_PAIRS: Final = (("d", "h"), ("h", "m"), ("m", "s"))


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


def duration_text(seconds: float, lang: Lang = "en") -> str:
    """`611ms`, `1.5s`, `12s`, `4m 0s`, `2h 5m`, `3d 4h`; in Japanese `4分0秒`."""
    if 0 < seconds < 0.9995:
        return f"{seconds * 1000:.0f}ms"
    words = _WORDS[lang]
    if seconds < 9.95:
        return f"{round(max(0.0, seconds), 1):g}{words['s']}"
    whole = round(seconds)
    for unit, lower in _PAIRS:
        if whole >= _SECONDS[unit]:
            rest = whole % _SECONDS[unit] // _SECONDS[lower]
            return f"{whole // _SECONDS[unit]}{words[unit]}{_GAPS[lang]}{rest}{words[lower]}"
    return f"{whole}{words['s']}"


def interval_text(seconds: float, lang: Lang = "en") -> str:
    """A configured interval, in full and without zero parts: `15m`, `1h 30m`."""
    if seconds < 1 or seconds % 1:
        return duration_text(seconds, lang)
    rest, parts = int(seconds), list[str]()
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, _SECONDS[unit])
        if count:
            parts.append(f"{count}{_WORDS[lang][unit]}")
    return _GAPS[lang].join(parts)


def rough_text(seconds: float, lang: Lang = "en") -> str:
    """In its largest unit, rounded down: `4m`."""
    whole = int(max(0.0, seconds))
    unit = next((unit for unit, length in _SECONDS.items() if whole >= length), "s")
    return f"{whole // _SECONDS[unit]}{_WORDS[lang][unit]}"


def age_text(seconds: float, lang: Lang = "en") -> str:
    """`4m ago`, `4分前`."""
    return f"{rough_text(seconds, lang)}{'前' if lang == 'ja' else ' ago'}"


def until_text(seconds: float, lang: Lang = "en") -> str:
    """`in 4m`, `4分後`."""
    rough = rough_text(seconds, lang)
    return f"{rough}後" if lang == "ja" else f"in {rough}"
