"""Validation of a spec: each problem names the field, the value, and what is expected instead."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, TypeVar
from zoneinfo import available_timezones

from pyoco_server.errors import FieldProblem, InvalidRequest, shortened_json
from pyoco_server.records.moments import parse_moment
from pyoco_server.records.schedules.schedule_models import Moment, ScheduleSpec, SpecInput
from pyoco_server.schedules.calendar_times import (
    ImpossibleCron,
    SearchLimit,
    count_between,
    cron_fields,
    excluded_day,
    iso_in_zone,
    local_time,
    next_time,
    zone_of,
)

V = TypeVar("V")

# Occurrences of one backfill, and of one catch-up window.
MAX_OCCURRENCES: Final = 10_000
_MAX_CRONS: Final = 10
_MAX_MOMENTS: Final = 1_000
_MAX_EXCLUSIONS: Final = 50
_YEAR_SEC: Final = 366 * 86_400
_DAY_SEC: Final = 86_400
# Until the year 9000.
_LAST_MOMENT: Final = 221_845_392_000.0


def checked_spec(given: SpecInput, *, now: float, field: str = "spec") -> ScheduleSpec:
    """The spec as it is stored; InvalidRequest if it is invalid, or never occurs again."""
    spec = valid_spec(given, field=field)
    try:
        found = next_time(spec, after=now)
    except SearchLimit as limit:
        message = not_found_until(limit.reached, spec)
        raise InvalidRequest(problems=[FieldProblem(f"{field}.exclude", message)]) from None
    if found is None:
        message = f"there is no occurrence after {iso_in_zone(now, spec.timezone)}; {_cure(spec, now)}"
        raise InvalidRequest(problems=[FieldProblem(field, message)])
    return spec


def not_found_until(reached: float, spec: ScheduleSpec) -> str:
    """A search that takes too long, in words."""
    return (
        f"no occurrence is found until {iso_in_zone(reached, spec.timezone)}: almost everything is excluded; "
        "exclude less, or give cron expressions that need fewer exclusions"
    )


def valid_spec(given: SpecInput, *, field: str = "spec") -> ScheduleSpec:
    """The spec as it is stored; InvalidRequest if it is invalid. Its times may all be past."""
    check = _Check(field)
    spec = check.spec(given)
    if check.problems:
        raise InvalidRequest(problems=check.problems)
    return spec


def checked_window(spec: ScheduleSpec, window_sec: float, *, now: float, field: str) -> None:
    """InvalidRequest if a catch-up window is too long, or an outage of this length misses too much."""
    shown = shortened_json(window_sec)
    if not 0 <= window_sec <= _YEAR_SEC:
        message = f"expected 0 to {_YEAR_SEC} seconds (a year)"
        raise InvalidRequest(problems=[FieldProblem(field, message, value=shown)])
    start = max(now, spec.start_at or now)
    if exceeds(spec, start, start + window_sec):
        message = (
            f"{MAX_OCCURRENCES} occurrences or fewer can be caught up, and this window has more, or "
            "exclusions that are too many to count them; "
            "shorten it, or let the schedule run less often"
        )
        raise InvalidRequest(problems=[FieldProblem(field, message, value=shown)])


def exceeds(spec: ScheduleSpec, start: float, end: float) -> bool:
    """Whether more than MAX_OCCURRENCES are later than `start` and at or before `end`."""
    counted = count_between(spec, start, end, limit=MAX_OCCURRENCES)
    return counted.at_least or counted.count > MAX_OCCURRENCES


def moment_of(given: Moment, zone: str) -> float:
    """Unix seconds; ValueError if it is not a moment. A text without an offset is in the zone."""
    at = parse_moment(given, zone=zone_of(zone))
    if at >= _LAST_MOMENT:
        raise ValueError("out of range")
    # To the millisecond: an occurrence is named by its time.
    return round(at, 3)


def _cure(spec: ScheduleSpec, now: float) -> str:
    if spec.end_at is not None and spec.end_at <= now:
        return "give a later end_at"
    if spec.exclude:
        return "exclude less"
    return "give a time in the future" if spec.at else "change cron to days that exist"


@dataclass
class _Check:
    """Collects the problems of one spec."""

    prefix: str
    problems: list[FieldProblem] = field(default_factory=list)

    def add(self, name: str, message: str, value: object = None) -> None:
        path = f"{self.prefix}.{name}" if name else self.prefix
        self.problems.append(
            FieldProblem(path, message, value=None if value is None else shortened_json(value))
        )

    def spec(self, given: SpecInput) -> ScheduleSpec:
        if not given.cron and given.every_sec is None and not given.at:
            self.add("", "it says no time; give cron, every_sec or at")
        zone = self._zone(given.timezone)
        self._crons(given.cron)
        self._interval(given)
        self._exclusions(given.exclude)
        self._between("jitter_sec", given.jitter_sec, 0, _DAY_SEC, "seconds (a day)")
        start_at = self._moment("start_at", given.start_at, zone)
        end_at = self._moment("end_at", given.end_at, zone)
        if start_at is not None and end_at is not None and end_at <= start_at:
            self.add(
                "end_at", f"expected a time after start_at ({iso_in_zone(start_at, zone)})", given.end_at
            )
        return ScheduleSpec(
            cron=[" ".join(each.split()) for each in given.cron],
            every_sec=given.every_sec,
            anchor=self._moment("anchor", given.anchor, zone),
            at=self._moments(given.at, zone),
            timezone=given.timezone,
            start_at=start_at,
            end_at=end_at,
            jitter_sec=given.jitter_sec,
            exclude=[" ".join(each.split()) for each in given.exclude],
        )

    def _zone(self, name: str) -> str:
        try:
            local_time(0.0, name)
        # zoneinfo: KeyError for an unknown name, the others for what is not a name of a zone.
        except (KeyError, ValueError, OSError):
            near = get_close_matches(name, available_timezones(), n=1, cutoff=0.6)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.add("timezone", f"expected an IANA time zone such as Europe/Berlin or UTC{hint}", name)
            return "UTC"
        return name

    def _crons(self, crons: list[str]) -> None:
        self._at_most("cron", crons, _MAX_CRONS)
        for name, text in _numbered("cron", crons):
            if (problem := _cron_problem(text)) is not None:
                self.add(name, problem, text)
            elif next_time(ScheduleSpec(cron=[text]), after=0.0) is None:
                self.add(name, "this never occurs; change it to days that exist", text)

    def _interval(self, given: SpecInput) -> None:
        if given.every_sec is not None:
            self._between("every_sec", given.every_sec, 1, 10 * _YEAR_SEC, "seconds")
        elif given.anchor is not None:
            self.add("anchor", "it is the start of an interval; give every_sec as well", given.anchor)

    def _exclusions(self, exclusions: list[str]) -> None:
        self._at_most("exclude", exclusions, _MAX_EXCLUSIONS)
        for name, text in _numbered("exclude", exclusions):
            if excluded_day(text) is None and _cron_problem(text) is not None:
                self.add(
                    name, "expected a date such as 2026-12-24, or a cron expression of five fields", text
                )

    def _moments(self, given: list[Moment], zone: str) -> list[float]:
        self._at_most("at", given, _MAX_MOMENTS)
        found = [self._moment(name, each, zone) for name, each in _numbered("at", given)]
        return sorted({at for at in found if at is not None})

    def _moment(self, name: str, given: Moment | None, zone: str) -> float | None:
        if given is None:
            return None
        try:
            return moment_of(given, zone)
        except ValueError:
            expected = (
                "expected a time such as 2027-01-31T17:00:00+09:00, or unix seconds, before the year 9000"
            )
            self.add(name, expected, given)
            return None

    def _between(self, name: str, value: float, least: float, most: float, unit: str) -> None:
        if not math.isfinite(value) or not least <= value <= most:
            self.add(name, f"expected {least} to {most} {unit}", value)

    def _at_most(self, name: str, values: Sequence[object], most: int) -> None:
        if len(values) > most:
            self.add(name, f"expected at most {most} entries; it has {len(values)}")


def _numbered(name: str, values: Sequence[V]) -> Iterator[tuple[str, V]]:
    return ((f"{name}[{number}]", value) for number, value in enumerate(values))


def _cron_problem(text: str) -> str | None:
    try:
        cron_fields(text)
    except ImpossibleCron as error:
        return f"{error}; give a cron expression that occurs, such as '0 2 * * MON-FRI' or @hourly"
    return None
