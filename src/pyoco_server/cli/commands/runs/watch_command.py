"""`pyoco-client watch`: a live view on a terminal, lines of text or JSON otherwise."""

import asyncio
import json
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pyoco_server.cli.commands.runs.logs_command import line_text
from pyoco_server.cli.commands.runs.run_waiting import fail_unless_completed
from pyoco_server.cli.entry import CommandFailed
from pyoco_server.cli.lazy_group import examples
from pyoco_server.cli.options.client_options import (
    RunIdArgument,
    RunIdOption,
    new_client,
    open_client,
    required_run_id,
)
from pyoco_server.cli.options.shared_options import ApiKey, Server, option
from pyoco_server.cli.options.time_formats import duration, local_time
from pyoco_server.cli.translation import localized
from pyoco_server.cli.views.console import print_note, printable, stdout_console
from pyoco_server.cli.views.copied_commands import with_server
from pyoco_server.cli.views.run_views import (
    OPEN_TASK_STATES,
    STATE_STYLES,
    NewQuestions,
    has_open_waits,
    questions_of,
    state,
    task_progress,
)
from pyoco_server.http_client import (
    AsyncPyocoHttpClient,
    GatewayUnreachable,
    PyocoHttpClient,
    PyocoHttpError,
)
from pyoco_server.http_client.response_types import LogLine, Run
from pyoco_server.records.runs.run_models import TERMINAL, RunStatus, TaskStatus

_LOG_LINES: Final = 5
# The lines above and below the tasks, and some for the prompt.
_OTHER_LINES: Final = _LOG_LINES + 8
_MIN_TASKS: Final = 5
# A run about to start needs no explanation.
_EXPLAIN_AFTER_SEC: Final = 1.5
_EXPLAIN_EVERY_SEC: Final = 3.0
_LAST_LINES_SEC: Final = 1.0
_NO_EXPLANATION: Final = {"executing", "between_tasks", "about_to_start"}
_ALWAYS: Final = {TaskStatus.FAILED, TaskStatus.RUNNING, TaskStatus.WAITING}


class WatchFormat(StrEnum):
    STATUS = "status"
    JSON = "json"


@examples(
    "pyoco-client watch $RUN_ID",
    "pyoco-client watch $RUN_ID --timeout-sec 600 --output json",
)
def watch(
    ctx: typer.Context,
    run: RunIdArgument = None,
    *,
    run_id: RunIdOption = None,
    timeout_sec: Annotated[
        float | None, option("Maximum time to watch; the run itself continues.", "SECONDS", min=0)
    ] = None,
    output: Annotated[
        WatchFormat, option("status, or json: one snapshot per line.", "FORMAT")
    ] = WatchFormat.STATUS,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    run_id = required_run_id(run, run_id)
    console = stdout_console()
    live = output is WatchFormat.STATUS and console.is_terminal
    try:
        if live:
            client = new_client(AsyncPyocoHttpClient, ctx, server, api_key)
            last = asyncio.run(_watch_live(client, run_id, timeout_sec, console))
        else:
            with open_client(ctx, server, api_key) as lines_client:
                last = _write_lines(lines_client, run_id, timeout_sec, output)
    except TimeoutError as error:
        raise CommandFailed(str(error)) from None
    except KeyboardInterrupt:
        command = with_server(f"pyoco-client get {run_id}")
        print_note(localized("Stopped watching; the run continues: {command}", command=command))
        raise
    # The live view has shown the error.
    fail_unless_completed(last, with_error=not live)


def _write_lines(client: PyocoHttpClient, run_id: str, timeout_sec: float | None, output: WatchFormat) -> Run:
    file, changes = stdout_console().file, _Changes()
    for run in client.follow(run_id, timeout_sec, include=() if output is WatchFormat.JSON else ["records"]):
        lines = [json.dumps(run, ensure_ascii=False)] if output is WatchFormat.JSON else changes.lines(run)
        for line in lines:
            file.write(f"{line}\n")
        file.flush()
    return run


class _TaskClocks:
    """How long tasks take, measured from snapshots until the records arrive with the end of the run."""

    def __init__(self) -> None:
        self._started_at: dict[str, float] = {}
        self._duration: dict[str, float] = {}
        self._records: Mapping[str, Mapping[str, Any]] = {}

    def update(self, run: Run) -> None:
        now = time.monotonic()
        self._records = run.get("task_records") or {}
        for name, word in run["tasks"].items():
            if word == TaskStatus.RUNNING:
                self._started_at.setdefault(name, now)
            elif name in self._started_at:
                self._duration.setdefault(name, now - self._started_at[name])

    def seconds(self, name: str) -> float | None:
        """The time so far or in total; None when no snapshot showed the task running."""
        recorded: float | None = self._records.get(name, {}).get("duration_ms")
        if recorded is not None:
            return recorded / 1000
        if name in self._duration:
            return self._duration[name]
        return time.monotonic() - self._started_at[name] if name in self._started_at else None


class _Changes:
    """Lines for what changed since the previous snapshot."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._clocks = _TaskClocks()
        self._questions = NewQuestions()

    def lines(self, run: Run) -> Iterator[str]:
        self._clocks.update(run)
        ended = run["status"] in TERMINAL
        # The run starts before its tasks and ends after them.
        states = [
            (f"task {name}", word, None if word == TaskStatus.RUNNING else self._clocks.seconds(name))
            for name, word in run["tasks"].items()
        ]
        states.insert(len(states) if ended else 0, ("run", run["status"], _took(run)))
        for name, word, seconds in states:
            if self._states.get(name) != word:
                self._states[name] = word
                yield printable(f"{name} {word}" + (f" ({duration(seconds)})" if seconds is not None else ""))
        yield from map(printable, self._questions.lines(run))


def _took(run: Run) -> float | None:
    if run["start_time"] is None or run["end_time"] is None:
        return None
    return run["end_time"] - run["start_time"]


async def _watch_live(
    client: AsyncPyocoHttpClient, run_id: str, timeout_sec: float | None, console: Console
) -> Run:
    """Show the run until it ends, and return its last snapshot."""
    view = _LiveView(console)
    async with client:
        with Live(get_renderable=view.render, console=console, refresh_per_second=8):
            lines = asyncio.create_task(_show_lines(client, run_id, view), name="watch:lines")
            reasons = asyncio.create_task(_show_reasons(client, run_id, view), name="watch:reasons")
            try:
                async with aclosing(client.follow(run_id, timeout_sec, include=["records"])) as runs:
                    async for run in runs:
                        view.update(run)
                await asyncio.wait([lines], timeout=_LAST_LINES_SEC)
            finally:
                lines.cancel()
                reasons.cancel()
                await asyncio.gather(lines, reasons, return_exceptions=True)
    return run


async def _show_lines(client: AsyncPyocoHttpClient, run_id: str, view: "_LiveView") -> None:
    try:
        async with aclosing(client.follow_logs(run_id)) as lines:
            async for line in lines:
                view.lines.append(line)
    except (GatewayUnreachable, PyocoHttpError) as error:
        view.note = localized("Cannot show the output of the run: {error}", error=error)


async def _show_reasons(client: AsyncPyocoHttpClient, run_id: str, view: "_LiveView") -> None:
    await asyncio.sleep(_EXPLAIN_AFTER_SEC)
    while True:
        try:
            explanation = await client.explain(run_id)
        except (GatewayUnreachable, PyocoHttpError) as error:
            view.note = localized("Cannot show why the run waits: {error}", error=error)
            return
        first = explanation["findings"][0]
        view.why = "" if first["code"] in _NO_EXPLANATION else first["message"]
        await asyncio.sleep(_EXPLAIN_EVERY_SEC)


class _LiveView:
    """The state of the run, rendered several times a second so that its clocks advance."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._run: Run | None = None
        self._clocks = _TaskClocks()
        self.lines: deque[LogLine] = deque(maxlen=_LOG_LINES)
        self.why = ""
        self.note = ""

    def update(self, run: Run) -> None:
        self._clocks.update(run)
        self._run = run

    def render(self) -> RenderableType:
        if self._run is None:
            return Text(localized("Connecting ..."), style="dim")
        return Group(*self._parts(self._run))

    def _parts(self, run: Run) -> Iterator[RenderableType]:
        yield _headline(run)
        if run["error"]:
            yield Text(printable(run["error"]), style="red")
        if has_open_waits(run):
            yield Text(printable(questions_of(run)), style=STATE_STYLES[RunStatus.WAITING_HUMAN])
        elif self.why and run["status"] not in TERMINAL:
            yield Text(printable(self.why), style="yellow")
        if run["tasks"]:
            yield Text()
            yield from self._tasks(run)
        if self.lines:
            yield Text()
            yield from (_one_line(line_text(line)) for line in tuple(self.lines))
        if self.note:
            yield _one_line(Text(printable(self.note), style="dim"))

    def _tasks(self, run: Run) -> Iterator[RenderableType]:
        room = max(self._console.height - _OTHER_LINES, _MIN_TASKS)
        shown = _most_important(run["tasks"], room)
        table = Table.grid(padding=(0, 2))
        for name in shown:
            table.add_row(printable(name), state(run["tasks"][name]), duration(self._clocks.seconds(name)))
        yield table
        hidden = Counter(word for name, word in run["tasks"].items() if name not in shown)
        if hidden:
            counts = ", ".join(f"{count} {printable(word)}" for word, count in hidden.items())
            yield Text(f"{localized('and {count} more', count=hidden.total())}: {counts}", style="dim")


def _headline(run: Run) -> Text:
    finished = sum(word not in OPEN_TASK_STATES for word in run["tasks"].values())
    progress = f"  {task_progress(finished, len(run['tasks']))}" if run["tasks"] else ""
    attempt = f"  {localized('attempt {number}', number=run['attempt'])}" if run["attempt"] > 1 else ""
    head = Text.assemble((printable(run["flow_name"]), "bold"), f"  {run['run_id']}  ", state(run["status"]))
    return head.append(f"  {_run_time(run)}{progress}{attempt}")


def _run_time(run: Run) -> str:
    if run["status"] == RunStatus.PENDING or run["start_time"] is None:
        # After an answer it is in the queue again, since its last heartbeat.
        if run["status"] == RunStatus.SCHEDULED:
            return (
                localized("starts at {time}", time=local_time(run["start_at"])) if run.get("start_at") else ""
            )
        since = run["heartbeat_at"] if run["start_time"] else run["submitted_at"] or run["updated_at"]
        return localized("waiting for {time}", time=duration(max(0.0, time.time() - since)))
    return duration(max(0.0, (run["end_time"] or time.time()) - run["start_time"]))


def _most_important(tasks: dict[str, str], room: int) -> list[str]:
    """At most `room` tasks in flow order: those running or failed, and their neighbours."""
    names = list(tasks)
    current = next((place for place, name in enumerate(names) if tasks[name] in OPEN_TASK_STATES), len(names))

    def rank(place: int) -> tuple[bool, int]:
        return tasks[names[place]] not in _ALWAYS, abs(place - current)

    shown = sorted(range(len(names)), key=rank)[:room]
    return [names[place] for place in sorted(shown)]


def _one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
