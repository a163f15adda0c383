"""The nominal times of a spec: cron expressions, intervals and moments, without exclusions.

All times are Unix seconds. A cron expression with fixed hours follows the clock on the wall: a time that a
change to daylight saving skips is at the end of the gap, one that occurs twice is at its first. One with any
hour (`*/30 * * * *`) follows elapsed time.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from hashlib import sha256
from heapq import merge
from itertools import islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from pyoco_server.records.schedule_models import ScheduleSpec

NAMED_CRONS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# The last year that Python's dates have leaves room for a time zone.
_LAST: Final = datetime(9998, 1, 1, tzinfo=UTC).timestamp()
# So many exclusions in a row end a search: everything may be excluded.
_MOST_SKIPPED: Final = 5_000


class ImpossibleCron(ValueError):
    """Not a cron expression of five fields, or one that never occurs."""


@dataclass(frozen=True, slots=True)
class Counted:
    count: int
    # Whether there are perhaps more.
    at_least: bool = False


@lru_cache(maxsize=512)
def zone_of(name: str) -> tzinfo:
    """ValueError or KeyError if there is no such time zone."""
    return UTC if name == "UTC" else ZoneInfo(name)


def local_time(at: float, zone: str) -> datetime:
    return datetime.fromtimestamp(at, zone_of(zone))


def iso_in_zone(at: float, zone: str) -> str:
    """ISO 8601 with the offset of the zone at that time."""
    return local_time(at, zone).isoformat()


@lru_cache(maxsize=4096)
def cron_fields(expression: str) -> str:
    """The five fields of an expression or of a name such as `@hourly`; ImpossibleCron if it has others."""
    text = expression.strip()
    fields = NAMED_CRONS.get(text.lower(), text)
    if len(fields.split()) != 5:
        raise ImpossibleCron("expected five fields (minute, hour, day of month, month, day of week)")
    try:
        CronSim(fields, datetime(2000, 1, 1))
    # cronsim checks most of an expression; what it does not, fails where it is used.
    except (CronSimError, AssertionError, TypeError, ValueError) as error:
        raise ImpossibleCron(str(error).replace("Bad", "impossible", 1) or "invalid") from error
    return fields


def next_times(spec: ScheduleSpec, *, after: float, n: int) -> list[float]:
    """The next `n` occurrences; fewer if there are no more."""
    return list(islice(occurrences(spec, after=after), n))


def next_time(spec: ScheduleSpec, *, after: float) -> float | None:
    return next(occurrences(spec, after=after), None)


def occurrences(spec: ScheduleSpec, *, after: float) -> Iterator[float]:
    """Every occurrence later than `after`, in order, without end unless the spec has one."""
    if spec.start_at is not None:
        # The first may be exactly there.
        after = max(after, just_before(spec.start_at))
    excluded = [_exclusion(text) for text in spec.exclude]
    skipped = 0
    while skipped < _MOST_SKIPPED:
        for at in _times(spec, after):
            until = _excluded_until(excluded, at, spec.timezone)
            if until is not None:
                skipped += 1
                after = just_before(until)
                break
            skipped = 0
            yield at
        else:
            return


def count_between(spec: ScheduleSpec, start: float, end: float, *, limit: int) -> Counted:
    """How many occurrences are later than `start` and at or before `end`; not more than `limit` are counted.

    Those of a plain interval are computed, however many.
    """
    if _is_plain_interval(spec):
        return Counted(_interval_count(spec, start, end))
    times = takewhile(lambda at: at <= end, occurrences(spec, after=start))
    count = sum(1 for _ in islice(times, limit + 1))
    return Counted(min(count, limit), at_least=count > limit)


def just_before(at: float) -> float:
    """A millisecond earlier: no occurrence is in between."""
    return at - 0.001


def due_at(schedule: str, spec: ScheduleSpec, nominal: float) -> float:
    """When an occurrence starts: its nominal time and the jitter, which is the same in every gateway.

    It stays before the next occurrence, so that they start in order.
    """
    if not spec.jitter_sec:
        return nominal
    following = next_time(spec, after=nominal)
    room = spec.jitter_sec if following is None else min(spec.jitter_sec, following - nominal)
    digest = sha256(f"{schedule}:{nominal:.3f}".encode()).digest()
    return nominal + room * int.from_bytes(digest[:8]) / 2**64


def _times(spec: ScheduleSpec, after: float) -> Iterator[float]:
    """The occurrences, and the times that are excluded."""
    sources = [_cron_times(cron_fields(each), spec.timezone, after) for each in spec.cron]
    sources.append(_interval_times(spec, after))
    sources.append(iter(sorted(at for at in spec.at if at > after)))
    end = _LAST if spec.end_at is None else spec.end_at
    last = after
    for at in merge(*sources):
        if at >= end:
            return
        if at > last:
            last = at
            yield at


def _cron_times(fields: str, zone: str, after: float) -> Iterator[float]:
    if after >= _LAST:
        return
    for local in CronSim(fields, local_time(after, zone)):
        at = local.timestamp()
        # In the hour that occurs twice, fixed hours have their first time, which may be over.
        if at > after:
            yield at


def _interval_times(spec: ScheduleSpec, after: float) -> Iterator[float]:
    if spec.every_sec is None:
        return
    number = _interval_number(spec, after) + 1
    while True:
        yield _interval_at(spec, number)
        number += 1


def _interval_at(spec: ScheduleSpec, number: int) -> float:
    assert spec.every_sec is not None
    # Rounded: the time names the occurrence, so it must not depend on how it was computed.
    return round((spec.anchor or 0.0) + number * spec.every_sec, 3)


def _interval_number(spec: ScheduleSpec, at: float) -> int:
    """Of the last time of the interval that is not later than `at`."""
    assert spec.every_sec is not None
    number = math.floor((at - (spec.anchor or 0.0)) / spec.every_sec)
    while _interval_at(spec, number) > at:
        number -= 1
    while _interval_at(spec, number + 1) <= at:
        number += 1
    return number


def _interval_count(spec: ScheduleSpec, start: float, end: float) -> int:
    if spec.start_at is not None:
        start = max(start, just_before(spec.start_at))
    if spec.end_at is not None:
        end = min(end, just_before(spec.end_at))
    return max(0, _interval_number(spec, end) - _interval_number(spec, start))


def _is_plain_interval(spec: ScheduleSpec) -> bool:
    return spec.every_sec is not None and not (spec.cron or spec.at or spec.exclude)


@dataclass(frozen=True, slots=True)
class _Exclusion:
    day: date | None
    cron: CronSim | None

    def ends(self, local: datetime) -> datetime | timedelta | None:
        """The end of the excluded day, or how long the exclusion lasts; None if this is not excluded.

        A cron expression excludes the minutes that it names.
        """
        if self.cron is None:
            return _next_midnight(local) if local.date() == self.day else None
        if local.month not in self.cron.months or not self.cron.match_day(local.date()):
            return None
        if local.hour not in self.cron.hours or local.minute not in self.cron.minutes:
            return None
        in_minute = timedelta(seconds=local.second, microseconds=local.microsecond)
        if len(self.cron.minutes) < 60:
            return timedelta(minutes=1) - in_minute
        if len(self.cron.hours) < 24:
            return timedelta(minutes=60 - local.minute) - in_minute
        return _next_midnight(local)


def _next_midnight(local: datetime) -> datetime:
    return datetime.combine(local.date() + timedelta(days=1), time(), tzinfo=local.tzinfo)


def _excluded_until(excluded: Sequence[_Exclusion], at: float, zone: str) -> float | None:
    if not excluded:
        return None
    local = local_time(at, zone)
    ends = [end for each in excluded if (end := each.ends(local)) is not None]
    if not ends:
        return None
    return max(end.timestamp() if isinstance(end, datetime) else at + end.total_seconds() for end in ends)


@lru_cache(maxsize=512)
def _exclusion(text: str) -> _Exclusion:
    day = excluded_day(text)
    return _Exclusion(day, None if day else CronSim(cron_fields(text), datetime(2000, 1, 1)))


def excluded_day(text: str) -> date | None:
    """The date, if it is one and not a cron expression."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return None
