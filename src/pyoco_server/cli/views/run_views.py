"""How a run looks on a terminal, and as JSON."""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pyoco_server.cli.options.moments import duration, local_time
from pyoco_server.cli.views.console import printable, results
from pyoco_server.cli.views.question_views import questions_of, waits_for_people
from pyoco_server.records.models import TERMINAL, Reason, RunStatus

Answer = Mapping[str, Any]
T = TypeVar("T")

STATE_STYLES: Final = {
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
_LONGEST_VALUE: Final = 300
_LONGEST_LINE: Final = 120
_PRINTED_LINES: Final = 3
_MOST_OUTPUTS: Final = 5
# A run says every second that it goes on; clocks of two machines may differ by some seconds.
_SILENT_SEC: Final = 20.0
_EXCEPTION_LINE: Final = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?")


class Output(StrEnum):
    JSON = "json"
    TABLE = "table"


def chosen(output: Output | None) -> Output:
    """The form that was asked for; without a wish, a person at a terminal gets a table, a script JSON."""
    if output is not None:
        return output
    return Output.TABLE if results().is_terminal else Output.JSON


def show(answer: T, output: Output | None, view: Callable[[T], RenderableType]) -> None:
    """Write the answer in the chosen form."""
    console = results()
    if chosen(output) is Output.TABLE:
        console.print(view(answer))
    else:
        console.file.write(json.dumps(answer, indent=2, ensure_ascii=False) + "\n")
    console.file.flush()


def accepted_view(answer: Answer) -> RenderableType:
    return pairs([("run_id", answer["run_id"]), ("status", state(answer["status"]))])


def run_view(run: Answer) -> RenderableType:
    """One run: what it is, how it goes, and its tasks."""
    details = pairs(_run_details(run))
    records = run.get("task_records") or {}
    return Group(details, Text(), tasks_table(run["tasks"], records)) if run["tasks"] else details


def ended_run_view(run: Answer) -> RenderableType:
    """A run that was waited for, with what its last tasks returned: mostly that is its result."""
    parts: list[RenderableType] = [pairs(_run_details(run))]
    records: Mapping[str, Answer] = run.get("task_records") or {}
    if run["tasks"]:
        parts += [Text(), tasks_table(run["tasks"], {})]
    outputs = [(name, records[name].get("output")) for name in _last_tasks(records)]
    rows = [(f"{printable(name)} returned", _value(output)) for name, output in outputs if output is not None]
    if rows:
        parts += [Text(), pairs(rows[-_MOST_OUTPUTS:])]
    return Group(*parts)


def tasks_view(answer: Answer) -> RenderableType:
    """The tasks of a run, with what is known of each."""
    head = Text.assemble(f"{printable(answer['flow_name'])}  {answer['run_id']}  ", state(answer["status"]))
    cut = Text("Some records were cut to fit (task_records_truncated).", style="yellow")
    parts: list[RenderableType] = [head, Text(), tasks_table(answer["tasks"], answer["task_records"])]
    return Group(*parts, cut) if answer["task_records_truncated"] else Group(*parts)


def tasks_table(tasks: Mapping[str, str], records: Mapping[str, Answer]) -> Table:
    table = Table("Task", "State", box=None, pad_edge=False, header_style="bold")
    if records:
        table.add_column("Took", justify="right")
        table.add_column("Result | what it printed", overflow="fold")
    for name, word in tasks.items():
        cells: list[RenderableType] = [printable(name), state(word)]
        if records:
            record = records.get(name, {})
            cells += [_milliseconds(record.get("duration_ms")), _result(record)]
        table.add_row(*cells)
    return table


def state(word: str) -> Text:
    return Text(printable(word), style=STATE_STYLES.get(word, ""))


def _run_details(run: Answer) -> Iterator[tuple[str, RenderableType]]:
    yield "run_id", run["run_id"]
    yield "flow_name", printable(run["flow_name"])
    yield "status", state(run["status"])
    if run.get("origin_run_id"):
        yield "rerun of", f"{run['origin_run_id']} (from {printable(run['rerun_task'] or run['rerun_mode'])})"
    if run.get("error"):
        yield "error", Text(printable(_shortened(run["error"])), style="red")
    if waits_for_people(run):
        yield "question", Text(printable(questions_of(run)), style=STATE_STYLES["WAITING_HUMAN"])
    if run["status"] == RunStatus.FAILED and run.get("reason") == Reason.HUMAN_TIMEOUT:
        yield "ask again with", f"pyoco-client retry {run['run_id']}"
    yield "params", _value(run["params"])
    yield "tags", printable(", ".join(dict.fromkeys([run.get("tag", ""), *run.get("tags", [])])))
    if run.get("worker_id"):
        yield "worker", _worker(run)
    if run.get("attempt", 0) > 1:
        yield "attempt", str(run["attempt"])
    if run.get("start_time"):
        yield "started", local_time(run["start_time"])
        yield "took", duration((run.get("end_time") or time.time()) - run["start_time"])


def pairs(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    return table


def _worker(run: Answer) -> Text:
    """Who executes the run, and whether it still does; who executed it may be gone by now."""
    name = Text(printable(run["worker_id"]))
    if run["status"] in (*TERMINAL, RunStatus.PENDING, RunStatus.WAITING_HUMAN):
        return name
    silent_sec = time.time() - run.get("heartbeat_at", float("inf"))
    if run.get("worker_alive") is False:
        why = "not alive"
    elif silent_sec > _SILENT_SEC:
        why = f"no sign of life for {silent_sec:.0f} s"
    else:
        return name
    return name.append(f" ({why}; the run waits to be taken over by another worker)", style="yellow")


def _last_tasks(records: Mapping[str, Answer]) -> list[str]:
    """The tasks after whose end no other one began."""
    last_start = max((record.get("started_at") or 0.0 for record in records.values()), default=0.0)
    return [name for name, record in records.items() if (record.get("ended_at") or 0.0) >= last_start]


def _result(record: Answer) -> Text:
    error = _error(record)
    shown = Text(printable(_shortened(error)), style="red") if error else Text(_value(record.get("output")))
    for line in _printed(record):
        shown.append("\n" if shown else "").append(f"| {line}", style="dim")
    return shown


def _error(record: Answer) -> str:
    """The error with the type of its exception, which the record has in its traceback only."""
    error = record.get("error")
    trace = record.get("traceback")
    if error is None or not isinstance(trace, str):  # a long traceback may have been cut
        return error or ""
    first_line = error.partition("\n")[0]
    for line in reversed(trace.splitlines()):
        found = _EXCEPTION_LINE.fullmatch(line)
        if found and (found[2] or "") == first_line:
            return f"{found[1]}: {error}" if error else found[1]
    return str(error)


def _printed(record: Answer) -> list[str]:
    """The end of what the task wrote to its standard output."""
    stdout = record.get("stdout")
    if not isinstance(stdout, str):  # nothing, or too much to be kept
        return []
    lines = [line for line in stdout.splitlines() if line.strip()]
    omitted = ["…"] if len(lines) > _PRINTED_LINES else []
    return omitted + [printable(_shortened(line, _LONGEST_LINE)) for line in lines[-_PRINTED_LINES:]]


def _value(value: object) -> str:
    return "" if value is None else printable(_shortened(json.dumps(value, ensure_ascii=False)))


def _shortened(text: str, limit: int = _LONGEST_VALUE) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def _milliseconds(milliseconds: float | None) -> str:
    return "" if milliseconds is None else duration(milliseconds / 1000)
