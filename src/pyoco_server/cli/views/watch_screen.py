"""A run as a person sees it live: its tasks, how long they take, its last lines, and why it waits."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import aclosing
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pyoco_server.cli.commands.logs_command import line_text
from pyoco_server.cli.options.moments import duration
from pyoco_server.cli.views.console import printable
from pyoco_server.cli.views.question_views import questions_of, waits_for_people
from pyoco_server.cli.views.run_views import STATE_STYLES, state
from pyoco_server.cli.views.task_clocks import TaskClocks
from pyoco_server.http_client import AsyncPyocoHttpClient, GatewayUnreachable, PyocoHttpError
from pyoco_server.http_client.response_types import LogLine, Run
from pyoco_server.records.models import TERMINAL, RunStatus, TaskStatus

_LOG_LINES: Final = 5
# What stands above and below the tasks, with some room for the prompt.
_OTHER_LINES: Final = _LOG_LINES + 8
_FEWEST_TASKS: Final = 5
# A run that is about to start needs no explanation.
_EXPLAIN_AFTER_SEC: Final = 1.5
_EXPLAIN_EVERY_SEC: Final = 3.0
_LAST_LINES_SEC: Final = 1.0
_ALL_IS_WELL: Final = {"executing", "between_tasks", "about_to_start"}
_OPEN: Final = {TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.WAITING}
_ALWAYS: Final = {TaskStatus.FAILED, TaskStatus.RUNNING, TaskStatus.WAITING}


async def watch_live(
    client: AsyncPyocoHttpClient, run_id: str, timeout_sec: float | None, console: Console
) -> Run:
    """Show the run until it has ended, and return it."""
    screen = Screen(console)
    async with client:
        with Live(get_renderable=screen.drawing, console=console, refresh_per_second=8):
            lines = asyncio.create_task(_show_lines(client, run_id, screen), name="watch:lines")
            reasons = asyncio.create_task(_show_reasons(client, run_id, screen), name="watch:reasons")
            try:
                async with aclosing(client.follow(run_id, timeout_sec, include=["records"])) as runs:
                    async for run in runs:
                        screen.look_at(run)
                await asyncio.wait([lines], timeout=_LAST_LINES_SEC)
            finally:
                lines.cancel()
                reasons.cancel()
                await asyncio.gather(lines, reasons, return_exceptions=True)
    return run


async def _show_lines(client: AsyncPyocoHttpClient, run_id: str, screen: "Screen") -> None:
    try:
        async with aclosing(client.follow_logs(run_id)) as lines:
            async for line in lines:
                screen.lines.append(line)
    except (GatewayUnreachable, PyocoHttpError) as error:
        screen.note = f"What it prints cannot be shown: {error}"


async def _show_reasons(client: AsyncPyocoHttpClient, run_id: str, screen: "Screen") -> None:
    await asyncio.sleep(_EXPLAIN_AFTER_SEC)
    while True:
        try:
            explanation = await client.explain(run_id)
        except (GatewayUnreachable, PyocoHttpError) as error:
            screen.note = f"Why it waits cannot be shown: {error}"
            return
        first = explanation["findings"][0]
        screen.why = "" if first["code"] in _ALL_IS_WELL else first["message"]
        await asyncio.sleep(_EXPLAIN_EVERY_SEC)


class Screen:
    """What is known of the run, drawn anew several times a second so that its clocks go on."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._run: Run | None = None
        self._clocks = TaskClocks()
        self.lines: deque[LogLine] = deque(maxlen=_LOG_LINES)
        self.why = ""
        self.note = ""

    def look_at(self, run: Run) -> None:
        self._clocks.look_at(run)
        self._run = run

    def drawing(self) -> RenderableType:
        if self._run is None:
            return Text("Connecting ...", style="dim")
        return Group(*self._parts(self._run))

    def _parts(self, run: Run) -> Iterator[RenderableType]:
        yield _headline(run)
        if run["error"]:
            yield Text(printable(run["error"]), style="red")
        if waits_for_people(run):
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
        room = max(self._console.height - _OTHER_LINES, _FEWEST_TASKS)
        shown = _most_important(run["tasks"], room)
        table = Table.grid(padding=(0, 2))
        for name in shown:
            table.add_row(printable(name), state(run["tasks"][name]), duration(self._clocks.seconds(name)))
        yield table
        hidden = Counter(word for name, word in run["tasks"].items() if name not in shown)
        if hidden:
            counts = ", ".join(f"{count} {printable(word)}" for word, count in hidden.items())
            yield Text(f"and {hidden.total()} more: {counts}", style="dim")


def _headline(run: Run) -> Text:
    over = sum(word not in _OPEN for word in run["tasks"].values())
    progress = f"  {over} of {len(run['tasks'])} tasks" if run["tasks"] else ""
    attempt = f"  attempt {run['attempt']}" if run["attempt"] > 1 else ""
    head = Text.assemble((printable(run["flow_name"]), "bold"), f"  {run['run_id']}  ", state(run["status"]))
    return head.append(f"  {_run_time(run)}{progress}{attempt}")


def _run_time(run: Run) -> str:
    if run["status"] == RunStatus.PENDING or run["start_time"] is None:
        since = run["submitted_at"] or run["updated_at"]
        return f"waiting for {duration(max(0.0, time.time() - since))}"
    return duration(max(0.0, (run["end_time"] or time.time()) - run["start_time"]))


def _most_important(tasks: dict[str, str], room: int) -> list[str]:
    """Those for which there is room, in the order of the flow: what runs or failed, and its neighbours."""
    names = list(tasks)
    current = next((place for place, name in enumerate(names) if tasks[name] in _OPEN), len(names))

    def unimportance(place: int) -> tuple[bool, int]:
        return tasks[names[place]] not in _ALWAYS, abs(place - current)

    shown = sorted(range(len(names)), key=unimportance)[:room]
    return [names[place] for place in sorted(shown)]


def _one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
