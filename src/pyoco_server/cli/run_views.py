"""How a run looks on a terminal, and as JSON."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pyoco_server.cli.console import printable, results

Answer = Mapping[str, Any]
View = Callable[[Answer], RenderableType]

STATE_STYLES: Final = {
    "PENDING": "dim",
    "RUNNING": "cyan",
    "SUCCEEDED": "green",
    "COMPLETED": "green",
    "FAILED": "bold red",
    "CANCELLING": "yellow",
    "CANCELLED": "yellow",
}
_LONGEST_VALUE: Final = 300


class Output(StrEnum):
    JSON = "json"
    TABLE = "table"


def show(answer: Answer, output: Output | None, view: View) -> None:
    """Write the answer; without a wish, a person at a terminal gets a table and a script gets JSON."""
    console = results()
    if output is Output.TABLE or (output is None and console.is_terminal):
        console.print(view(answer))
    else:
        console.file.write(json.dumps(answer, indent=2, ensure_ascii=False) + "\n")


def accepted_view(answer: Answer) -> RenderableType:
    return _pairs([("run_id", answer["run_id"]), ("status", state(answer["status"]))])


def run_view(run: Answer) -> RenderableType:
    """One run: what it is, how it goes, and its tasks."""
    details = _pairs(_run_details(run))
    records = run.get("task_records") or {}
    return Group(details, Text(), tasks_table(run["tasks"], records)) if run["tasks"] else details


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
        table.add_column("Result", overflow="fold")
    for name in sorted(tasks, key=lambda task: _began(records.get(task))):
        cells: list[RenderableType] = [printable(name), state(tasks[name])]
        if records:
            record = records.get(name, {})
            cells += [_duration(record.get("duration_ms")), _result(record)]
        table.add_row(*cells)
    return table


def state(word: str) -> Text:
    return Text(printable(word), style=STATE_STYLES.get(word, ""))


def _run_details(run: Answer) -> Iterator[tuple[str, RenderableType]]:
    yield "run_id", run["run_id"]
    yield "flow_name", printable(run["flow_name"])
    yield "status", state(run["status"])
    if run.get("error"):
        yield "error", Text(printable(_shortened(run["error"])), style="red")
    yield "params", _value(run["params"])
    yield "tags", printable(", ".join(dict.fromkeys([run.get("tag", ""), *run.get("tags", [])])))
    if run.get("worker_id"):
        gone = " (not alive)" if run.get("worker_alive") is False else ""
        yield "worker", printable(run["worker_id"]) + gone
    if run.get("start_time"):
        yield "started", _moment(run["start_time"])
        yield "took", _duration(((run.get("end_time") or time.time()) - run["start_time"]) * 1000)


def _pairs(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    return table


def _began(record: Answer | None) -> float:
    return float((record or {}).get("started_at") or float("inf"))


def _result(record: Answer) -> Text:
    if record.get("error"):
        return Text(printable(_shortened(record["error"])), style="red")
    return Text(_value(record.get("output")))


def _value(value: object) -> str:
    return "" if value is None else printable(_shortened(json.dumps(value, ensure_ascii=False)))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}… ({len(text)} characters)"


def _duration(milliseconds: float | None) -> str:
    if milliseconds is None:
        return ""
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def _moment(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).astimezone().isoformat(" ", "seconds")
