"""Times and durations: how they are written on a command line and shown in a table."""

import re
import time
from datetime import UTC, datetime
from typing import Final

import typer

from pyoco_server.errors.error_table import system_language
from pyoco_server.records.durations import age_text, duration_text, interval_text, rough_text, until_text
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
    return age_text((time.time() if now is None else now) - unix_seconds, system_language())


def time_left(unix_seconds: float, now: float | None = None) -> str:
    seconds = unix_seconds - (time.time() if now is None else now)
    if system_language() == "ja":
        return f"残り{rough_text(seconds, 'ja')}" if seconds > 0 else "期限切れ"
    return f"{rough_text(seconds)} left" if seconds > 0 else "time is up"


def time_until(unix_seconds: float, now: float | None = None) -> str:
    return until_text(unix_seconds - (time.time() if now is None else now), system_language())


def duration(seconds: float | None) -> str:
    return "" if seconds is None else duration_text(seconds, system_language())


def interval(seconds: float) -> str:
    return interval_text(seconds, system_language())


def local_time(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).astimezone().isoformat(" ", "seconds")
