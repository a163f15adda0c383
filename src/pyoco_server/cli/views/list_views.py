"""Tables of runs, workers, dead letters, bulk operations, wheels and signals."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from pyoco_server.cli.options.time_formats import ago, duration, local_time, time_left
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import printable, stdout_console
from pyoco_server.cli.views.run_views import STATE_STYLES, has_open_waits, state
from pyoco_server.http_client.response_types import (
    Artifact,
    BulkOperation,
    Letter,
    RunItem,
    SignalList,
    Wheel,
    WheelEvent,
    Worker,
)
from pyoco_server.records.runs.run_models import RunStatus

WORKER_STYLES: Final = {"RUNNING": "cyan", "IDLE": "green", "DISCONNECTED": "bold red"}

Columns = Mapping[str, Callable[[Any], str | Text]]


def worker_state(worker: Worker) -> Text:
    """The state with the operator's marks."""
    shown = Text(printable(worker["state"]), style=WORKER_STYLES.get(worker["state"], "dim"))
    for mark in ("paused", "draining", "hidden"):
        if worker[mark]:
            shown.append(f" {localized(mark)}", style="yellow")
    return shown


def _tasks(run: RunItem) -> str:
    total = run.get("tasks_total") or 0
    return f"{run.get('tasks_over', 0)}/{total}" if total else ""


def _error_or_question(run: RunItem) -> Text:
    start_at = run.get("start_at")
    if run["status"] == RunStatus.SCHEDULED and start_at is not None:
        return Text(
            localized("starts at {time}", time=local_time(start_at)), style=STATE_STYLES[RunStatus.SCHEDULED]
        )
    message = run.get("wait_message")
    if not has_open_waits(run) or message is None:
        return _error(run["error"])
    deadline = run.get("wait_deadline_at")
    left = "" if deadline is None else f" ({time_left(deadline)})"
    return Text(printable(" ".join(message.split()) + left), style=STATE_STYLES[RunStatus.WAITING_HUMAN])


def worker_host(worker: Worker) -> str:
    host = worker.get("host")
    return host["name"] if host else ""


def worker_cpu(worker: Worker) -> str:
    """In cores: 1.5 is one core and a half."""
    usage = worker.get("usage")
    return "" if usage is None or usage["cpu_cores"] is None else f"{usage['cpu_cores']:.2f}"


def worker_memory(worker: Worker) -> str:
    usage = worker.get("usage")
    return "" if usage is None or usage["memory_bytes"] is None else format_size(usage["memory_bytes"])


def _shown_runs(worker: Worker) -> str:
    first, *others = worker["current_run_ids"] or [""]
    return printable(
        localized("{first} and {count} more", first=first, count=len(others)) if others else first
    )


def _rerun(letter: Letter) -> Text:
    """The status of the rerun of its run; COMPLETED: the letter is closed."""
    rerun = letter.get("rerun")
    return Text("") if rerun is None else state(rerun["status"])


def format_size(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _error(text: str | None) -> Text:
    return Text(printable((text or "").partition("\n")[0]), style="red")


_RUNS: Final[Columns] = {
    "Run": lambda run: run["run_id"],
    "Status": lambda run: state(run["status"]),
    "Flow": lambda run: printable(run["flow_name"]),
    "Tag": lambda run: printable(run["tag"]),
    "Tasks": _tasks,
    "Took": lambda run: duration(run.get("duration_sec")),
    "Changed": lambda run: ago(run["updated_at"]),
    "Error or question": _error_or_question,
}
_WORKERS: Final[Columns] = {
    "Worker": lambda worker: printable(worker["worker_id"]),
    "State": worker_state,
    "Slots": lambda worker: f"{worker['slots_busy']}/{worker['slots']}",
    "Tags": lambda worker: printable(", ".join(worker["tags"])),
    "Flows": lambda worker: str(len(worker["flows"])),
    "Host": lambda worker: printable(worker_host(worker)),
    "CPU": worker_cpu,
    "Memory": worker_memory,
    "Current runs": _shown_runs,
    "Last run": lambda worker: printable(worker["last_run_status"] or ""),
    "Last seen": lambda worker: ago(worker["last_seen_at"]),
    "Version": lambda worker: printable(worker["version"]),
}
_LETTERS: Final[Columns] = {
    "Seq": lambda letter: str(letter["seq"]),
    "When": lambda letter: ago(letter["timestamp"]),
    "Reason": lambda letter: printable(letter["reason"]),
    "Flow": lambda letter: printable(letter["flow_name"] or ""),
    "Run": lambda letter: printable(letter["run_id"] or ""),
    "Rerun": _rerun,
    "Error": lambda letter: _error(letter["error"]),
}
_OPERATIONS: Final[Columns] = {
    "Operation": lambda operation: operation["bulk_id"],
    "Action": lambda operation: printable(operation["action"]),
    "State": lambda operation: state(operation["state"]),
    "Matched": lambda operation: str(operation["matched"]),
    "Done": lambda operation: str(operation["done"]),
    "Skipped": lambda operation: str(operation["skipped"]),
    "Failed": lambda operation: str(operation["failed"]),
    "Started": lambda operation: ago(operation["created_at"]),
}
_WHEELS: Final[Columns] = {
    "Wheel": lambda wheel: printable(wheel["name"]),
    "Size": lambda wheel: format_size(wheel["size_bytes"]),
    "Tags": lambda wheel: printable(", ".join(wheel["tags"]) or localized("(all)")),
    "Uploaded": lambda wheel: ago(wheel["modified"]),
    "SHA-256": lambda wheel: (wheel["sha256_hex"] or "")[:12],
}
_ARTIFACTS: Final[Columns] = {
    "Name": lambda file: printable(file["name"]),
    "Size": lambda file: format_size(file["bytes"]),
    "Type": lambda file: printable(file["content_type"]),
    "Task": lambda file: printable(file["task"] or ""),
    "Stored": lambda file: ago(file["created_at"]),
    "SHA-256": lambda file: printable(file["sha256"][:12]),
}
_WHEEL_EVENTS: Final[Columns] = {
    "When": lambda event: ago(event["occurred_at"]),
    "Action": lambda event: printable(event["action"]),
    "Wheel": lambda event: printable(event["wheel_name"]),
    "Tags": lambda event: printable(", ".join(event["tags"])),
    "Key": lambda event: printable(event["actor"]["api_key_id"] or ""),
    "Address": lambda event: printable(
        event["source"]["x_forwarded_for"] or event["source"]["remote_addr"] or ""
    ),
}
_SIGNALS: Final[Columns] = {
    "When": lambda signal: ago(signal["at"]),
    "Signal": lambda signal: printable(signal["name"]),
    "State": lambda signal: state(signal["state"]),
    "Task": lambda signal: printable(signal["task"] or ""),
    "Data": lambda signal: printable(json.dumps(signal["data"], ensure_ascii=False)),
    "Id": lambda signal: signal["signal_id"],
}
# The narrowest terminal that shows all columns.
_WIDE: Final = 120
# Columns that never wrap: ids must be easy to copy.
_NO_WRAP: Final = {
    *("Run", "Operation", "Status", "State", "Took", "Tasks"),
    *("When", "Changed", "Last seen", "Started", "Deadline", "Backfill"),
}
# Below this a column that wraps is not readable.
_LEAST_WRAPPED: Final = 4
# Between two columns.
_GAP: Final = 2
# Columns that take the remaining width.
_FILL: Final = {"Error", "Error or question", "Question", "Data", "Problem", "Description"}


def runs_view(runs: Sequence[RunItem]) -> RenderableType:
    return list_view(runs, _RUNS, only_wide={"Tag", "Tasks", "Error or question"})


def workers_view(workers: Sequence[Worker]) -> RenderableType:
    return list_view(workers, _WORKERS, only_wide={"Current runs", "Last run", "Version", "Host", "Flows"})


def letters_view(letters: Sequence[Letter]) -> RenderableType:
    return list_view(letters, _LETTERS, only_wide={"Run"})


def operations_view(operations: Sequence[BulkOperation]) -> RenderableType:
    return list_view(operations, _OPERATIONS, only_wide={"Done", "Skipped"})


def wheels_view(wheels: Sequence[Wheel]) -> RenderableType:
    return list_view(wheels, _WHEELS, only_wide={"SHA-256"})


def wheel_events_view(events: Sequence[WheelEvent]) -> RenderableType:
    return list_view(events, _WHEEL_EVENTS, only_wide={"Tags", "Key"})


def artifacts_table(artifacts: Sequence[Artifact]) -> RenderableType:
    return list_view(artifacts, _ARTIFACTS, only_wide={"Type", "SHA-256"})


def signals_table(signals: SignalList) -> RenderableType:
    return list_view(signals["items"], _SIGNALS, only_wide={"Id"})


def list_view(items: Sequence[Any], columns: Columns, *, only_wide: set[str]) -> RenderableType:
    """A table with a row per item.

    A narrow terminal omits the columns `only_wide`, and a very narrow one also others, from the right.
    """
    if not items:
        return Text(localized("(none)"), style="dim")
    width = stdout_console().width
    if width < _WIDE:
        columns = {name: cell for name, cell in columns.items() if name not in only_wide}
    columns = _fitting(items, columns, width)
    table = Table(box=None, pad_edge=False, header_style="bold", expand=not _FILL.isdisjoint(columns))
    for name in columns:
        if name in _FILL:
            table.add_column(localized(name), overflow="ellipsis", no_wrap=True, ratio=1)
        else:
            table.add_column(localized(name), overflow="fold", no_wrap=name in _NO_WRAP and len(columns) > 1)
    for item in items:
        table.add_row(*(cell(item) for cell in columns.values()))
    return table


def _fitting(items: Sequence[Any], columns: Columns, width: int) -> Columns:
    """Without columns for which there is no room: rich would cut off the ids of the others."""
    least = {name: _least_width(name, cell, items) for name, cell in columns.items()}
    while len(least) > 1 and sum(least.values()) + _GAP * (len(least) - 1) > width:
        least.popitem()
    return {name: columns[name] for name in least}


def _least_width(name: str, cell: Callable[[Any], str | Text], items: Sequence[Any]) -> int:
    widest = max(cell_len(localized(name)), *(cell_len(str(cell(item))) for item in items))
    return widest if name in _NO_WRAP else min(widest, _LEAST_WRAPPED)
