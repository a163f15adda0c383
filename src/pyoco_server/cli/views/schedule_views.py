"""Views of schedules: a table, one schedule with its decisions, coming times, and what `apply` did."""

import difflib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from pyoco_server.cli.commands.schedules.schedule_apply import Applied
from pyoco_server.cli.commands.schedules.schedule_diff import FieldChange
from pyoco_server.cli.options.time_formats import ago, interval, local_time, time_until
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, printable
from pyoco_server.cli.views.list_views import Columns, list_view
from pyoco_server.cli.views.run_views import STATE_STYLES
from pyoco_server.cli.views.trigger_views import line_count
from pyoco_server.http_client.response_types import (
    BackfillCancelled,
    Backfilled,
    BackfillItem,
    NextTimes,
    Schedule,
    ScheduleDecision,
    ScheduleItem,
    Triggered,
)

_MARKS: Final = {
    "added": ("+", "green", "{count} added"),
    "changed": ("~", "yellow", "{count} changed"),
    "removed": ("-", "red", "{count} removed"),
    "unchanged": ("=", "dim", "{count} unchanged"),
}
_OUTCOME_STYLES: Final = {"started": "green", "buffered": "cyan", "failed": "red"}


def when_text(spec: Any) -> str:
    """The spec in one line."""
    parts = [f"cron {each}" for each in spec.get("cron", [])]
    if spec.get("every_sec") is not None:
        parts.append(localized("every {time}", time=interval(spec["every_sec"])))
    moments = spec.get("at", [])
    if moments:
        several = "at {count} moment" if len(moments) == 1 else "at {count} moments"
        parts.append(localized(several, count=len(moments)))
    return f"{', '.join(parts)} ({spec.get('timezone', 'UTC')})"


def schedules_view(schedules: Sequence[ScheduleItem]) -> RenderableType:
    # A gateway of an earlier version does not have it.
    has_problem = any(each.get("problem") for each in schedules)
    columns: Columns = {**_SCHEDULES, "Problem": _problem} if has_problem else _SCHEDULES
    return list_view(schedules, columns, only_wide={"Tag", "Overlap", "Last run"})


def schedule_view(schedule: Schedule) -> RenderableType:
    return pairs(_details(schedule))


def times_view(found: NextTimes) -> RenderableType:
    """Each in the zone of the schedule, and in the reader's."""
    if not found["times"]:
        return Text(localized("(none)"), style="dim")
    return Group(*(Text(f"{text}  {_here(text)}") for text in found["times"]))


def triggered_view(triggered: Triggered) -> RenderableType:
    return pairs([("run_id", triggered["run_id"]), ("outcome", _outcome(triggered["outcome"]))])


def backfill_view(backfill: Backfilled) -> RenderableType:
    rows = [
        (
            "runs",
            f"{backfill['count']}{localized(' (dry run: none is started)') if backfill['dry_run'] else ''}",
        ),
        ("from", local_time(backfill["from"])),
        ("to", local_time(backfill["to"])),
    ]
    shown = [("first", text) for text in backfill["times"]]
    # A gateway of an earlier version does not have it.
    named = [("backfill_id", text)] if (text := backfill.get("backfill_id")) else []
    return pairs([*named, *rows, *shown])


def backfills_view(backfills: Sequence[BackfillItem]) -> RenderableType:
    return list_view(backfills, _BACKFILLS, only_wide={"Requested", "By", "Overlap"})


def cancelled_backfill_view(cancelled: BackfillCancelled) -> RenderableType:
    schedule = printable(cancelled["schedule_id"])
    return pairs(
        [
            ("backfill_id", printable(cancelled["backfill_id"])),
            ("skipped", str(cancelled["skipped"])),
            ("started", localized("{count} (these runs stay)", count=cancelled["started"])),
            ("cancel them", f"pyoco-client bulk cancel --cause schedule:{schedule} --dry-run"),
        ]
    )


def applied_view(done: Sequence[Applied], *, dry_run: bool) -> RenderableType:
    """The difference as people know it, and its sum."""
    lines: list[RenderableType] = []
    for each in sorted(done, key=lambda each: (list(_MARKS).index(each.action), each.schedule_id)):
        mark, style, _ = _MARKS[each.action]
        what = "" if each.declared is None else f"  {_purpose(each)}"
        lines.append(Text(printable(f"{mark} {each.schedule_id}{what}"), style=style))
        lines += [_change_line(change) for change in each.changes]
    lines.append(Text(applied_text(done, dry_run=dry_run), style="bold"))
    return Group(*lines)


def applied_text(done: Sequence[Applied], *, dry_run: bool) -> str:
    counts: Counter[str] = Counter(each.action for each in done)
    text = ", ".join(localized(said, count=counts[action]) for action, (_, _, said) in _MARKS.items())
    return (
        localized("Dry run, nothing is changed: {counts}.", counts=text)
        if dry_run
        else localized("{counts}.", counts=text)
    )


def _purpose(applied: Applied) -> str:
    declared = applied.declared
    assert declared is not None
    return f"{declared.request.flow_name}, {when_text(_fields(declared.spec))}"


def _fields(spec: Any) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in spec.__struct_fields__}


def _change_line(change: FieldChange) -> Text:
    if change.field == "workflow_yaml":
        return Text(printable("\n".join(["    workflow_yaml:", *_yaml_diff(change)])))
    before, after = _value(change.before), _value(change.after)
    return Text(printable(f"    {change.field}: {before} -> {after}"))


def _yaml_diff(change: FieldChange) -> Iterator[str]:
    before, after = (change.before or "").splitlines(), (change.after or "").splitlines()
    for number, line in enumerate(difflib.unified_diff(before, after, lineterm="", n=1)):
        if number >= 2:  # without the names of the two files
            yield f"      {line}"


def _value(value: Any) -> str:
    return localized("(none)") if value is None else json.dumps(value, ensure_ascii=False)


def _problem(schedule: ScheduleItem) -> Text:
    return Text(printable(schedule.get("problem") or ""), style="red")


def _next(schedule: ScheduleItem) -> str | Text:
    if schedule["paused"]:
        return Text(localized("paused"), style="yellow")
    return "" if schedule["next_at"] is None else time_until(schedule["next_at"])


def _last(schedule: ScheduleItem) -> str | Text:
    last = schedule["last_decision"]
    if last is None:
        return ""
    status = schedule["last_run_status"]
    if last["outcome"] == "started" and status is not None:
        return Text(f"{status} {ago(last['at'])}", style=STATE_STYLES.get(status, ""))
    return Text(f"{last['outcome']} {ago(last['at'])}", style=_OUTCOME_STYLES.get(last["outcome"], "yellow"))


_SCHEDULES: Final[Columns] = {
    "Schedule": lambda each: printable(each["schedule_id"]),
    "Flow": lambda each: printable(each["flow_name"]),
    "When": lambda each: printable(when_text(each["spec"])),
    "Next": _next,
    "Last": _last,
    "Overlap": lambda each: printable(each["overlap"]),
    "Tag": lambda each: printable(each["tag"]),
    "Last run": lambda each: printable(each["last_run_id"] or ""),
}


_BACKFILLS: Final[Columns] = {
    "Backfill": lambda each: printable(each["backfill_id"]),
    "From": lambda each: local_time(each["from"]),
    "To": lambda each: local_time(each["to"]),
    "Started": lambda each: str(each["started"]),
    "Remaining": lambda each: str(each["remaining"]),
    "Requested": lambda each: ago(each["requested_at"]),
    "By": lambda each: printable(each["requested_by"] or ""),
    "Overlap": lambda each: printable(each["overlap"]),
}


def _details(schedule: Schedule) -> Iterator[tuple[str, RenderableType]]:
    yield "schedule_id", printable(schedule["schedule_id"])
    yield "flow_name", printable(schedule["flow_name"])
    yield from _definition(schedule)
    yield "overlap", schedule["overlap"]
    if schedule["paused"]:
        yield "state", Text(localized("paused"), style="yellow")
    if schedule["note"]:
        yield "note", printable(schedule["note"])
    # A gateway of an earlier version does not have it.
    if problem := schedule.get("problem"):
        yield "problem", Text(printable(problem), style="red")
    yield "revision", str(schedule["revision"])
    for text in schedule["next_times"]:
        yield "next", f"{text}  {_here(text)}"
    for decision in reversed(schedule["decisions"]):
        yield "decision", _decision(decision)


def _definition(schedule: Schedule) -> Iterator[tuple[str, RenderableType]]:
    """What it runs, and when; without what is not given."""
    spec: Any = schedule["spec"]
    yield "when", printable(when_text(spec))
    times = {name: spec.get(name) for name in ("start_at", "end_at")}
    shown = {
        "workflow_yaml": line_count(schedule["workflow_yaml"] or ""),
        **{name: at and local_time(at) for name, at in times.items()},
        "exclude": ", ".join(spec.get("exclude", [])),
        "jitter_sec": spec.get("jitter_sec"),
        "params": schedule["params"] and json.dumps(schedule["params"], ensure_ascii=False),
        "tag": schedule["tag"],
        "labels": ", ".join(schedule["tags"]),
        "timeout_sec": schedule["timeout_sec"],
        "remaining_runs": schedule["remaining_runs"],
    }
    if schedule["workflow_yaml"] is None:
        del shown["workflow_yaml"]
    for name, value in shown.items():
        if value not in (None, "", {}, 0.0) or (name == "remaining_runs" and value == 0):
            yield name, printable(str(value))


def _decision(decision: ScheduleDecision) -> Text:
    count = decision.get("count", 1)
    at_least = "+" if decision.get("at_least") else ""
    more = localized(" ({count} occurrences)", count=f"{count:,}{at_least}") if count > 1 else ""
    why = decision.get("detail") or decision.get("reason")
    text = Text(f"{local_time(decision['scheduled_for'])} ")
    text.append_text(_outcome(decision["outcome"]))
    run = _run_of(decision)
    return text.append(printable(f"{more}{f' {run}' if run else ''}{f': {why}' if why else ''}"))


def _run_of(decision: ScheduleDecision) -> str | None:
    run_id, dropped = decision.get("run_id"), decision.get("dropped_run_id")
    # The id of a run that was never created must not look like one that exists.
    return localized("(no run {run_id})", run_id=dropped) if dropped and not run_id else run_id


def _outcome(outcome: str) -> Text:
    return Text(printable(outcome), style=_OUTCOME_STYLES.get(outcome, "yellow"))


def _here(text: str) -> str:
    """The same time where the reader is, if that is written otherwise."""
    local = datetime.fromisoformat(text).astimezone().isoformat()
    return "" if local == text else localized("({time} here)", time=local)
