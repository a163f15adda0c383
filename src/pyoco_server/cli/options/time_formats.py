"""Times and durations: how they are written on a command line and shown in a table."""

import re
import time
from datetime import UTC, datetime
from typing import Final

import typer

from pyoco_server.records.moments import parse_moment

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_AGE: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def parse_time(text: str) -> float:
    """Unix seconds from `2h` (two hours ago), a date with or without its time, or unix seconds."""
    if age := _AGE.fullmatch(text):
        return time.time() - float(age[1]) * _UNITS[age[2]]
    if (found := _point_in_time(text)) is not None:
        return found
    raise typer.BadParameter(
        f"{text!r}: expected an age such as 30m, 2h or 7d, a time such as 2026-01-31T09:00, or unix seconds"
    )


def parse_deadline(text: str) -> float:
    """Unix seconds from a date with or without its time, or unix seconds."""
    if (found := _point_in_time(text)) is not None:
        return found
    raise typer.BadParameter(f"{text!r}: expected a time such as 2027-01-31T17:00, or unix seconds")


def _point_in_time(text: str) -> float | None:
    try:
        return parse_moment(text, zone="local")
    except ValueError:
        return None


def parse_duration(text: str) -> float:
    """Seconds from `90s`, `30m`, `2h` or `7d`."""
    length = _AGE.fullmatch(text)
    if length is None:
        raise typer.BadParameter(f"{text!r}: expected a duration such as 30m, 2h or 90d")
    return float(length[1]) * _UNITS[length[2]]


def ago(unix_seconds: float | None, now: float | None = None) -> str:
    if unix_seconds is None:
        return ""
    return f"{_one_unit((time.time() if now is None else now) - unix_seconds)} ago"


def time_left(unix_seconds: float, now: float | None = None) -> str:
    seconds = unix_seconds - (time.time() if now is None else now)
    return f"{_one_unit(seconds)} left" if seconds > 0 else "time is up"


def time_until(unix_seconds: float, now: float | None = None) -> str:
    return f"in {_one_unit(unix_seconds - (time.time() if now is None else now))}"


def _one_unit(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02} min"
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02} h"


def local_time(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).astimezone().isoformat(" ", "seconds")
