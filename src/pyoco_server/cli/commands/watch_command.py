"""`pyoco-client watch`: a run from now to its end; a person sees it live, a script gets lines."""

import asyncio
import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Final

import typer

from pyoco_server.cli.entry import examples
from pyoco_server.cli.exit_codes import CommandFailed
from pyoco_server.cli.options.client_options import ApiKey, RunId, Server, open_async_client, open_client
from pyoco_server.cli.options.moments import duration
from pyoco_server.cli.views.console import printable, results, say
from pyoco_server.cli.views.question_views import ToldQuestions
from pyoco_server.cli.views.task_clocks import TaskClocks
from pyoco_server.cli.views.watch_screen import watch_live
from pyoco_server.http_client import PyocoHttpClient
from pyoco_server.http_client.response_types import Run
from pyoco_server.records.models import TERMINAL, RunStatus, TaskStatus

EPILOG: Final = examples(
    "pyoco-client watch --run-id $RUN_ID",
    "pyoco-client watch --run-id $RUN_ID --timeout-sec 600 --output json",
)


class WatchForm(StrEnum):
    STATUS = "status"
    JSON = "json"


def watch(
    ctx: typer.Context,
    *,
    run_id: RunId,
    timeout_sec: Annotated[
        float | None, typer.Option(help="How long at most; the run goes on.", metavar="SECONDS", min=0)
    ] = None,
    output: Annotated[
        WatchForm, typer.Option(help="status, or json: each snapshot on a line.", metavar="FORM")
    ] = WatchForm.STATUS,
    server: Server = None,
    api_key: ApiKey = None,
) -> None:
    """Watch a run to its end; exit 0 only if it is COMPLETED."""
    console = results()
    live = output is WatchForm.STATUS and console.is_terminal
    try:
        if live:
            last = asyncio.run(
                watch_live(open_async_client(ctx, server, api_key), run_id, timeout_sec, console)
            )
        else:
            with open_client(ctx, server, api_key) as client:
                last = _write_lines(client, run_id, timeout_sec, output)
    except TimeoutError as error:
        raise CommandFailed(str(error)) from None
    except KeyboardInterrupt:
        say(f"No longer watching; the run goes on: pyoco-client get --run-id {run_id}")
        raise
    if last["status"] != RunStatus.COMPLETED:
        # Who watched it live has read the error on the screen.
        why = "" if live else f": {last['error'] or 'no error was recorded'}"
        raise CommandFailed(f"The run is {last['status']}{why}")


def _write_lines(client: PyocoHttpClient, run_id: str, timeout_sec: float | None, form: WatchForm) -> Run:
    file, said = results().file, _Said()
    for run in client.follow(run_id, timeout_sec, include=() if form is WatchForm.JSON else ["records"]):
        lines = [json.dumps(run, ensure_ascii=False)] if form is WatchForm.JSON else said.news_of(run)
        for line in lines:
            file.write(f"{line}\n")
        file.flush()
    return run


class _Said:
    """What was said of a run and its tasks so far; only what changed is said again."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._clocks = TaskClocks()
        self._questions = ToldQuestions()

    def news_of(self, run: Run) -> Iterator[str]:
        self._clocks.look_at(run)
        ended = run["status"] in TERMINAL
        # The run begins before its tasks, and ends after them.
        states = [
            (f"task {name}", state, None if state == TaskStatus.RUNNING else self._clocks.seconds(name))
            for name, state in run["tasks"].items()
        ]
        states.insert(len(states) if ended else 0, ("run", run["status"], _took(run)))
        for name, state, seconds in states:
            if self._states.get(name) != state:
                self._states[name] = state
                yield printable(
                    f"{name} {state}" + (f" ({duration(seconds)})" if seconds is not None else "")
                )
        yield from map(printable, self._questions.new_in(run))


def _took(run: Run) -> float | None:
    if run["start_time"] is None or run["end_time"] is None:
        return None
    return run["end_time"] - run["start_time"]
