"""Views of one run, its tasks and its open questions."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pyoco_server.cli.options.time_formats import duration, local_time, time_left
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import pairs, printable
from pyoco_server.cli.views.copied_commands import command_line, with_server
from pyoco_server.records.runs.causes import CauseKind
from pyoco_server.records.runs.run_models import PARKED, TERMINAL, UNANSWERED, RunStatus, TaskStatus, WaitKind

Json = Mapping[str, Any]

STATE_STYLES: Final = {
    "SCHEDULED": "blue",
    "PENDING": "dim",
    "RUNNING": "cyan",
    "WAITING_HUMAN": "bold magenta",
    "WAITING": "bold magenta",
    "SUCCEEDED": "green",
    "COMPLETED": "green",
    "FAILED": "bold red",
    "CANCELLING": "yellow",
    "CANCELLED": "yellow",
}
OPEN_TASK_STATES: Final = frozenset({TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.WAITING})
_MAX_VALUE_CHARACTERS: Final = 300
_MAX_LINE_CHARACTERS: Final = 120
_MAX_OUTPUT_LINES: Final = 3
_MAX_RETURN_VALUES: Final = 5
# The heartbeat of a run is a second; the clocks of two machines may differ by some seconds.
_HEARTBEAT_LIMIT_SEC: Final = 20.0
_EXCEPTION_LINE: Final = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?")


def has_open_waits(run: Mapping[str, Any]) -> bool:
    """Whether it is parked; also when a part of it has its answer, and waits in the queue."""
    is_queued = run["status"] == RunStatus.PENDING
    return bool(run["status"] in PARKED or (is_queued and run.get("open_waits")))


def asks_somebody(run: Mapping[str, Any]) -> bool:
    """Whether a question of it is open. A run in a list has only the number of its waits."""
    waits = run.get("open_waits")
    if isinstance(waits, list) and waits:
        return has_open_waits(run) and any(map(_is_question, waits))
    return has_open_waits(run) and run["status"] != RunStatus.WAITING


def questions_of(run: Mapping[str, Any]) -> str:
    """Two lines for each open question, and one for each other wait."""
    return "\n".join(NewQuestions().lines(run))


def deadline_text(deadline_at: float | None) -> str:
    if deadline_at is None:
        return localized("without a deadline")
    return localized("until {time}, {left}", time=local_time(deadline_at), left=time_left(deadline_at))


class NewQuestions:
    """Reports each open wait of a followed run once."""

    def __init__(self) -> None:
        self._reported: set[str] = set()

    def lines(self, run: Mapping[str, Any]) -> Iterator[str]:
        """Two lines for each new open question, and one for each other wait."""
        waits = (run.get("open_waits") or []) if has_open_waits(run) else []
        asked = [wait for wait in waits if _is_question(wait)]
        for wait in waits:
            if wait["wait_id"] in self._reported:
                continue
            self._reported.add(wait["wait_id"])
            yield _open_wait(wait)
            if _is_question(wait):
                which = run["run_id"] if len(asked) == 1 else f"--wait-id {wait['wait_id']}"
                command = with_server(f"pyoco-client resume {which}")
                yield f"  {localized('answer with: {command}', command=command)}"


def _is_question(wait: Json) -> bool:
    return bool(wait.get("kind", WaitKind.HUMAN) == WaitKind.HUMAN)


def _open_wait(wait: Json) -> str:
    named = {"task": wait["task"], "until": deadline_text(wait["deadline_at"])}
    if _is_question(wait):
        return localized("{task} asks: {message} ({until})", message=wait["message"], **named)
    if wait["kind"] == WaitKind.SLEEP:
        return localized("{task} sleeps {until}", **named)
    return localized("{task} waits for {message} ({until})", message=wait["message"], **named)


def accepted_view(result: Json) -> RenderableType:
    return pairs([("run_id", result["run_id"]), ("status", state(result["status"]))])


def run_view(run: Json) -> RenderableType:
    records = run.get("task_records") or {}
    parts: list[RenderableType] = [pairs(_run_details(run)), *_next_commands(run)]
    if run["tasks"]:
        parts += [Text(), tasks_table(run["tasks"], records)]
    return Group(*parts)


def ended_run_view(run: Json) -> RenderableType:
    """An ended run with the return values of its last tasks."""
    parts: list[RenderableType] = [pairs(_run_details(run)), *_next_commands(run)]
    records: Mapping[str, Json] = run.get("task_records") or {}
    if run["tasks"]:
        parts += [Text(), tasks_table(run["tasks"], {})]
    last = [(name, records[name]) for name in _last_tasks(records)]
    rows = [
        (localized("{task} returned", task=printable(name)), _returned(record))
        for name, record in last
        if record.get("output") is not None or record.get("not_json")
    ]
    if rows:
        parts += [Text(), pairs(rows[-_MAX_RETURN_VALUES:])]
    return Group(*parts)


def tasks_view(result: Json) -> RenderableType:
    head = Text.assemble(f"{printable(result['flow_name'])}  {result['run_id']}  ", state(result["status"]))
    cut = Text(localized("Some records were shortened to fit (task_records_truncated)."), style="yellow")
    parts: list[RenderableType] = [head, Text(), tasks_table(result["tasks"], result["task_records"])]
    return Group(*parts, cut) if result["task_records_truncated"] else Group(*parts)


def tasks_table(tasks: Mapping[str, str], records: Mapping[str, Json]) -> Table:
    table = Table(localized("Task"), localized("State"), box=None, pad_edge=False, header_style="bold")
    if records:
        table.add_column(localized("Took"), justify="right")
        table.add_column(localized("Result / output"), overflow="fold")
    for name, word in tasks.items():
        cells: list[RenderableType] = [printable(name), state(word)]
        if records:
            record = records.get(name, {})
            cells += [_milliseconds(record.get("duration_ms")), _result(record)]
        table.add_row(*cells)
    return table


def task_progress(finished: int, count: int) -> str:
    return localized("{finished} of {count} tasks", finished=finished, count=count)


def state(word: str) -> Text:
    return Text(printable(word), style=STATE_STYLES.get(word, ""))


def _next_commands(run: Json) -> Iterator[Text]:
    """Below the details, whose column would wrap them."""
    if asks_somebody(run):
        yield command_line(localized("Answer with: "), f"pyoco-client resume {run['run_id']}")
    if run["status"] == RunStatus.FAILED and run.get("reason") in UNANSWERED:
        yield command_line(localized("Ask again with: "), f"pyoco-client retry {run['run_id']}")


def _run_details(run: Json) -> Iterator[tuple[str, RenderableType]]:
    yield "run_id", run["run_id"]
    yield "flow_name", printable(run["flow_name"])
    yield "status", state(run["status"])
    if run.get("origin_run_id"):
        start = printable(run["rerun_task"] or run["rerun_mode"])
        yield "rerun of", localized("{run} (from {start})", run=run["origin_run_id"], start=start)
    elif cause := _cause(run):
        yield "started by", printable(cause)
    if run["status"] == RunStatus.SCHEDULED and run.get("start_at"):
        yield "starts at", local_time(run["start_at"])
    if run.get("error"):
        yield "error", Text(printable(shortened(run["error"])), style="red")
    if has_open_waits(run):
        waits = run.get("open_waits") or []
        asked = "\n".join(map(_open_wait, waits))
        name = "question" if any(map(_is_question, waits)) else "waits"
        yield name, Text(printable(asked), style=STATE_STYLES["WAITING_HUMAN"])
    yield "params", _value(run["params"])
    yield "tags", printable(", ".join(dict.fromkeys([run.get("tag", ""), *run.get("tags", [])])))
    if run.get("worker_id"):
        yield "worker", _worker(run)
    if run.get("code_version"):
        yield "code version", printable(run["code_version"])
    if run.get("attempt", 0) > 1:
        yield "attempt", str(run["attempt"])
    if run.get("start_time"):
        yield "started", local_time(run["start_time"])
        yield "took", duration((run.get("end_time") or time.time()) - run["start_time"])


def _cause(run: Json) -> str:
    """Of a run that was not submitted by a person or a program: `schedule nightly, for 09:00`."""
    cause = run.get("cause") or {}
    if cause.get("kind") in (None, CauseKind.API):
        return ""
    due = localized(", for {time}", time=local_time(cause["at"])) if cause.get("at") else ""
    return f"{cause['kind']} {cause.get('id') or ''}".rstrip() + due


def _worker(run: Json) -> Text:
    """The worker, with a warning when a run in progress may have lost it."""
    name = Text(printable(run["worker_id"]))
    if run["status"] in (*TERMINAL, *PARKED, RunStatus.PENDING, RunStatus.SCHEDULED):
        return name
    silent_sec = time.time() - run.get("heartbeat_at", float("inf"))
    if run.get("worker_alive") is False:
        why = localized("not alive")
    elif silent_sec > _HEARTBEAT_LIMIT_SEC:
        why = localized("no heartbeat for {time}", time=duration(silent_sec))
    else:
        return name
    return name.append(localized(" ({why}; the run waits for another worker)", why=why), style="yellow")


def _last_tasks(records: Mapping[str, Json]) -> list[str]:
    """The tasks after whose end no other task started."""
    last_start = max((record.get("started_at") or 0.0 for record in records.values()), default=0.0)
    return [name for name, record in records.items() if (record.get("ended_at") or 0.0) >= last_start]


def _result(record: Json) -> Text:
    error = _error(record)
    shown = Text(printable(shortened(error)), style="red") if error else Text(_returned(record))
    for line in _printed(record):
        shown.append("\n" if shown else "").append(f"| {line}", style="dim")
    return shown


def _error(record: Json) -> str:
    """The error with its exception type, which only the traceback has."""
    error = record.get("error")
    trace = record.get("traceback")
    if error is None or not isinstance(trace, str):  # a long traceback may have been dropped
        return error or ""
    first_line = error.partition("\n")[0]
    for line in reversed(trace.splitlines()):
        found = _EXCEPTION_LINE.fullmatch(line)
        if found and (found[2] or "") == first_line:
            return f"{found[1]}: {error}" if error else found[1]
    return str(error)


def _returned(record: Json) -> str:
    """The output, and where it had something that JSON does not have."""
    lines = [_value(record.get("output"))]
    if record.get("not_json"):
        missing = shortened(", ".join(map(str, record["not_json"])))
        lines.append(printable(localized("JSON does not have: {values}", values=missing)))
    return "\n".join(filter(None, lines))


def _printed(record: Json) -> list[str]:
    """The last lines of the task's standard output."""
    stdout = record.get("stdout")
    if not isinstance(stdout, str):  # none, or too large to be stored
        return []
    lines = [line for line in stdout.splitlines() if line.strip()]
    omitted = ["…"] if len(lines) > _MAX_OUTPUT_LINES else []
    return omitted + [printable(shortened(line, _MAX_LINE_CHARACTERS)) for line in lines[-_MAX_OUTPUT_LINES:]]


def _value(value: object) -> str:
    return "" if value is None else printable(shortened(json.dumps(value, ensure_ascii=False)))


def shortened(text: str, limit: int = _MAX_VALUE_CHARACTERS) -> str:
    return text if len(text) <= limit else text[:limit] + localized("… ({count} characters)", count=len(text))


def _milliseconds(milliseconds: float | None) -> str:
    return "" if milliseconds is None else duration(milliseconds / 1000)
