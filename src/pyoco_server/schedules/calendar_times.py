"""The times of a spec: its cron expressions, interval and moments, minus its exclusions; and its jitter.

All times are Unix seconds. A cron expression with fixed hours follows the clock on the wall: a time that a
change to daylight saving skips is at the end of the gap, one that occurs twice is at its first. One with any
hour (`*/30 * * * *`) follows elapsed time.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from pyoco_server.records.schedules.schedule_models import ScheduleSpec

NAMED_CRONS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# A year before the last date of Python: room for the offset of a time zone.
_LAST: Final = datetime(9998, 1, 1, tzinfo=UTC).timestamp()
# How long the search for one occurrence may take, and that for many, in steps of about ten microseconds.
_STEPS: Final = 10_000
_MAX_STEPS: Final = 50_000
# What takes as long as a step: days that do not match, and exclusions that do not apply.
_SEC_PER_STEP: Final = 10 * 86_400
_EXCLUSIONS_PER_STEP: Final = 10


class ImpossibleCron(ValueError):
    """Not a cron expression of five fields, or one that never occurs."""


class SearchLimit(Exception):
    """A search takes too long; all occurrences up to `reached` were found."""

    def __init__(self, reached: float) -> None:
        super().__init__(f"searched until {reached:.3f}")
        self.reached = reached


@dataclass(frozen=True, slots=True)
class OccurrenceSearch:
    times: list[float]
    # How far it was searched; None: these are all that were asked for.
    searched_until: float | None = None


@dataclass(frozen=True, slots=True)
class OccurrenceCount:
    count: int
    # Counting stopped early: there may be more.
    at_least: bool = False
    first: float | None = field(default=None, compare=False)
    # None if `at_least`.
    last: float | None = field(default=None, compare=False)


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
    return search_times(spec, after=after, n=n).times


def search_times(spec: ScheduleSpec, *, after: float, n: int) -> OccurrenceSearch:
    """The next `n` occurrences; fewer if there are no more, or if the search takes too long."""
    found: list[float] = []
    try:
        found.extend(islice(occurrences(spec, after=after, steps=_MAX_STEPS), n))
    except SearchLimit as limit:
        return OccurrenceSearch(found, limit.reached)
    return OccurrenceSearch(found)


def next_time(spec: ScheduleSpec, *, after: float) -> float | None:
    """The next occurrence, None if there is none; SearchLimit if it is not found."""
    return next(occurrences(spec, after=after), None)


def occurrences(spec: ScheduleSpec, *, after: float, steps: int = _STEPS) -> Iterator[float]:
    """Every occurrence later than `after`, in order, without end unless the spec has one.

    SearchLimit after so many steps in total, of which each takes about ten microseconds.
    """
    if spec.start_at is not None:
        # The first may be exactly there.
        after = max(after, just_before(spec.start_at))
    end = _LAST if spec.end_at is None else min(_LAST, spec.end_at)
    if after >= end:
        return
    sources = _sources(spec)
    heads = [after] * len(sources)
    excluded = [_exclusion(text) for text in spec.exclude]
    per_exclusion = 1 + len(excluded) // _EXCLUSIONS_PER_STEP
    while True:
        for number, source in enumerate(sources):
            if heads[number] <= after:
                heads[number] = source(after)
                # A rare expression is searched day by day.
                days = number < len(spec.cron)
                steps -= 1 + (int((min(heads[number], end) - after) / _SEC_PER_STEP) if days else 0)
        at = min(heads)
        if at >= end:
            return
        steps -= per_exclusion
        until = _excluded_until(excluded, at, spec.timezone)
        if until is None:
            yield at
        after = at if until is None else max(at, just_before(until))
        if steps < 0:
            raise SearchLimit(after)


def count_between(spec: ScheduleSpec, start: float, end: float, *, limit: int) -> OccurrenceCount:
    """How many occurrences are later than `start` and at or before `end`; not more than `limit` are counted.

    Those of a plain interval are computed, however many.
    """
    if _is_plain_interval(spec):
        return _interval_count(spec, start, end)
    count = 0
    first: float | None = None
    last: float | None = None
    try:
        for at in occurrences(spec, after=start, steps=_MAX_STEPS):
            if at > end:
                break
            if count == limit:
                return OccurrenceCount(count, at_least=True, first=first)
            count, first, last = count + 1, first or at, at
    except SearchLimit as search:
        if search.reached < end:
            return OccurrenceCount(count, at_least=True, first=first)
    return OccurrenceCount(count, first=first, last=last)


def just_before(at: float) -> float:
    """A millisecond earlier: no occurrence is in between."""
    return at - 0.001


def due_at(schedule: str, spec: ScheduleSpec, nominal: float) -> float:
    """When an occurrence starts: its nominal time and the jitter, which is the same in every gateway.

    It stays before the next occurrence, so that they start in order.
    """
    if not spec.jitter_sec:
        return nominal
    try:
        following = next_time(spec, after=nominal)
    except SearchLimit as limit:
        # The same in every gateway.
        following = limit.reached
    room = spec.jitter_sec if following is None else min(spec.jitter_sec, following - nominal)
    digest = sha256(f"{schedule}:{nominal:.3f}".encode()).digest()
    return nominal + room * int.from_bytes(digest[:8]) / 2**64


# The first time of a cron expression, an interval or a list that is later than a moment; infinity: none.
_Source = Callable[[float], float]


def _sources(spec: ScheduleSpec) -> list[_Source]:
    sources: list[_Source] = [_cron_source(cron_fields(each), spec.timezone) for each in spec.cron]
    if spec.every_sec is not None:
        sources.append(lambda after: _interval_at(spec, _interval_number(spec, after) + 1))
    if spec.at:
        moments = sorted(spec.at)
        sources.append(lambda after: next(iter(moments[bisect_right(moments, after) :]), math.inf))
    return sources


def _cron_source(fields: str, zone: str) -> _Source:
    # Its clock is set for each search: it is parsed once.
    cron = CronSim(fields, local_time(0.0, zone))

    def first(after: float) -> float:
        local = local_time(after, zone).replace(microsecond=0)
        cron.dt = local if cron.fixup_tz is None else local.replace(tzinfo=None, fold=0)
        # In the hour that occurs twice, fixed hours have their first time, which may be over.
        return next((at for found in cron if (at := found.timestamp()) > after), math.inf)

    return first


def _interval_at(spec: ScheduleSpec, number: int) -> float:
    assert spec.every_sec is not None
    # Rounded: the time names the occurrence, so it must not depend on how it was computed.
    return round((spec.anchor or 0.0) + number * spec.every_sec, 3)


def _interval_number(spec: ScheduleSpec, at: float) -> int:
    """Of the last time of the interval that is not later than `at`."""
    assert spec.every_sec is not None
    number = math.floor((at - (spec.anchor or 0.0)) / spec.every_sec)
    # The division is rounded: it may be one too many or too few.
    return next((each for each in (number + 1, number) if _interval_at(spec, each) <= at), number - 1)


def _interval_count(spec: ScheduleSpec, start: float, end: float) -> OccurrenceCount:
    if spec.start_at is not None:
        start = max(start, just_before(spec.start_at))
    if spec.end_at is not None:
        end = min(end, just_before(spec.end_at))
    before, last = _interval_number(spec, start), _interval_number(spec, end)
    if last <= before:
        return OccurrenceCount(0)
    return OccurrenceCount(last - before, first=_interval_at(spec, before + 1), last=_interval_at(spec, last))


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
            free = (minute for minute in range(local.minute, 60) if minute not in self.cron.minutes)
            return timedelta(minutes=next(free, 60) - local.minute) - in_minute
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
