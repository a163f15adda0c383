"""An executor inside this process, for a worker that is embedded in a program or a test.

A run takes the program's `sys.stdout` while it lasts, so that there is one at a time. Its thread cannot be
killed: a run that does not stop is left behind, asked to stop, and nothing that it still does counts.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TypeVar

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.child.code_folders import CodeFolders
from pyoco_server.worker.child.task_output import TaskOutput
from pyoco_server.worker.engine.flow_run import FlowRun, RunListener
from pyoco_server.worker.engine.server_engine import ARTIFACTS
from pyoco_server.worker.engine.task_calls import RetryPauses
from pyoco_server.worker.executors.embedded_output import EmbeddedOutput
from pyoco_server.worker.executors.executor import ExecutorCrashed, RunEvents
from pyoco_server.worker.flows.callable_policy import CallablePolicy
from pyoco_server.worker.flows.flow_source import FlowResolver, FlowSource
from pyoco_server.worker.ipc.protocol import Outcome, Progress, Run

T = TypeVar("T")


class ThreadExecutor:
    """Runs flows on a thread of this process; a flow that does not stop by itself cannot be killed."""

    def __init__(self, resolver: FlowResolver, config: NatsBackendConfig) -> None:
        self._config = config
        self._source = FlowSource(resolver, CallablePolicy.parse(config.callable_allow))
        self._code = CodeFolders()
        self._current: FlowRun | None = None
        self._leave_behind: Callable[[Outcome | ExecutorCrashed], None] | None = None
        # Perhaps before its flow is resolved.
        self._to_cancel: str | None = None

    async def start(self) -> None:
        """There is nothing to start: it is this process."""

    async def execute(self, run: Run, events: RunEvents) -> Outcome:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Outcome] = loop.create_future()
        output = TaskOutput(
            lambda lines: _call(loop, _unless, ended, events.printed, lines),
            line_limit=self._config.run_log_line_max_bytes,
            run_limit=self._config.run_log_run_max_bytes,
        )
        streams = EmbeddedOutput(output)

        def leave_behind(end: Outcome | ExecutorCrashed) -> None:
            # In this order: the lines that are told here still count.
            output.end_run()
            _call(loop, _end, ended, end)

        listener = RunListener(
            finished=lambda entry: _call(loop, _unless, ended, events.finished, entry),
            asked=lambda question: _call(loop, _unless, ended, events.asked, question),
            stuck=lambda outcome, _: leave_behind(outcome()),
            tail_of=output.tail_of,
            note=output.note,
            watchers=[output, streams],
            limits=[],
            pauses=RetryPauses(self._config.task_retry_base_sec, self._config.task_retry_max_sec),
            max_value_bytes=self._config.journal_value_max_bytes,
        )
        self._leave_behind = leave_behind
        try:
            resolving = asyncio.to_thread(self._source.prepare, run, listener)
            prepared: FlowRun | Outcome = await _first_of(resolving, ended)
            if isinstance(prepared, Outcome):
                return prepared
            self._current = prepared
            if self._to_cancel == run.run_id:
                prepared.cancel()
            with streams:
                return await _execute(prepared, output, run.attempt, ended)
        finally:
            self._current = self._leave_behind = None
            # An error that nobody waits for any more must not be reported as never looked at.
            ended.cancel()

    def progress(self) -> Progress | None:
        return None if self._current is None else self._current.progress()

    def cancel(self, run_id: str) -> None:
        self._to_cancel = run_id
        if self._current is not None and self._current.run_id == run_id:
            self._current.cancel()

    def retire(self) -> None:
        """Nothing to do: the code is this program's own."""

    def use_code(self, folders: Sequence[str]) -> None:
        self._code.use(folders)

    @property
    def code_in_use(self) -> Sequence[str]:
        """None: the path of imports is this program's, and changes at once, between two runs."""
        return ()

    async def give_up(self, status: str, error: str) -> None:
        """Stop waiting for the flow; a thread cannot be killed, so it is asked to stop and left behind."""
        if self._leave_behind is None:
            return
        if self._current is None:
            # Its flow is still being resolved.
            self._leave_behind(Outcome(status=status, error=error, by_force=True))
        elif (outcome := self._current.give_up(status, error)) is not None:
            self._leave_behind(outcome)

    async def abandon(self) -> None:
        if self._leave_behind is not None:
            self._leave_behind(ExecutorCrashed("the flow did not stop; its thread was left behind"))

    async def close(self) -> None:
        await self.abandon()
        self._code.use(())


async def _execute(
    run: FlowRun, output: TaskOutput, attempt: int, ended: "asyncio.Future[Outcome]"
) -> Outcome:
    """The outcome of the flow, or what it is ended with from outside."""
    try:
        return await _first_of(asyncio.to_thread(_run, run, output, attempt), ended)
    finally:
        # One that has ended does not mind.
        run.cancel()


async def _first_of(work: Coroutine[None, None, T | None], ended: "asyncio.Future[Outcome]") -> T | Outcome:
    """The result of the work on a thread, unless the run is ended from outside before."""
    working = asyncio.create_task(work)
    await asyncio.wait((working, ended), return_when=asyncio.FIRST_COMPLETED)
    result = working.result() if working.done() else None
    return await ended if result is None else result


def _run(run: FlowRun, output: TaskOutput, attempt: int) -> Outcome | None:
    output.begin_run(attempt)
    os.makedirs(ARTIFACTS, exist_ok=True)
    try:
        return run.execute()
    finally:
        output.end_run()


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: object) -> None:
    """From a thread of a flow; a loop that has closed meanwhile has nobody left to tell."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)


def _unless(ended: "asyncio.Future[Outcome]", tell: Callable[..., None], what: object) -> None:
    """What happens in a run counts until its end has been told."""
    if not ended.done():
        tell(what)


def _end(ended: "asyncio.Future[Outcome]", end: Outcome | ExecutorCrashed) -> None:
    if ended.done():
        return
    if isinstance(end, ExecutorCrashed):
        ended.set_exception(end)
    else:
        ended.set_result(end)
