"""An executor inside this process, for a worker that is embedded in a program or a test.

The engine swaps the process's stdout while a flow runs, so that there is one at a time.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from typing import TextIO

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.callable_policy import CallablePolicy
from pyoco_server.worker.engine import ARTIFACTS
from pyoco_server.worker.executor import ExecutorCrashed, RunEvents
from pyoco_server.worker.flow_run import FlowRun, RunListener
from pyoco_server.worker.flow_source import FlowResolver, FlowSource
from pyoco_server.worker.protocol import Outcome, Progress, Run
from pyoco_server.worker.task_calls import RetryPauses
from pyoco_server.worker.task_output import OutputStream, TaskOutput


class ThreadExecutor:
    """Runs flows on a thread of this process; a flow that does not stop by itself cannot be killed."""

    def __init__(self, resolver: FlowResolver, config: NatsBackendConfig) -> None:
        self._config = config
        self._source = FlowSource(resolver, CallablePolicy.parse(config.callable_allow))
        self._current: FlowRun | None = None
        self._ended: asyncio.Future[Outcome] | None = None

    async def execute(self, run: Run, events: RunEvents) -> Outcome:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Outcome] = loop.create_future()
        self._ended = ended
        output = TaskOutput(
            lambda lines: _call(loop, events.printed, lines),
            line_limit=self._config.run_log_line_max_bytes,
            run_limit=self._config.run_log_run_max_bytes,
        )
        listener = RunListener(
            finished=lambda entry: _call(loop, events.finished, entry),
            stuck=lambda outcome: _call(loop, self._end, ended, outcome),
            tail_of=output.tail_of,
            watchers=[output],
            pauses=RetryPauses(self._config.task_retry_base_sec, self._config.task_retry_max_sec),
            max_value_bytes=self._config.journal_value_max_bytes,
        )
        prepared = await asyncio.to_thread(self._source.prepare, run, listener)
        if isinstance(prepared, Outcome):
            return prepared
        self._current = prepared
        execution = asyncio.create_task(asyncio.to_thread(_execute, prepared, output, run.attempt))
        try:
            await asyncio.wait((execution, ended), return_when=asyncio.FIRST_COMPLETED)
            if execution.done():
                outcome = execution.result()
                return outcome if outcome is not None else await ended
            return ended.result()
        finally:
            self._current = None
            # Nobody waits for it any more; an error in it must not be reported as never looked at.
            ended.cancel()

    def progress(self) -> Progress | None:
        return None if self._current is None else self._current.progress()

    def cancel(self, run_id: str) -> None:
        if self._current is not None and self._current.run_id == run_id:
            self._current.cancel()

    def retire(self) -> None:
        """Nothing to do: the code is this program's own."""

    async def give_up(self, status: str, error: str) -> None:
        """Stop waiting for the flow; a thread cannot be killed, so it is asked to stop and left behind."""
        current = self._current
        if current is not None:
            outcome = current.give_up(status, error)
            current.cancel()
            if outcome is not None:
                self._end(self._ended, outcome)

    async def abandon(self) -> None:
        if self._current is not None:
            self._current.cancel()
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(ExecutorCrashed("the flow did not stop; its thread was left behind"))

    async def close(self) -> None:
        await self.abandon()

    def _end(self, ended: "asyncio.Future[Outcome] | None", outcome: Outcome) -> None:
        if ended is not None and not ended.done():
            ended.set_result(outcome)


def _execute(run: FlowRun, output: TaskOutput, attempt: int) -> Outcome | None:
    output.begin_run(attempt)
    os.makedirs(ARTIFACTS, exist_ok=True)
    stdout, stderr = _Echo(output, "stdout", sys.stdout), _Echo(output, "stderr", sys.stderr)
    try:
        with redirect_stdout(stdout), redirect_stderr(stderr):
            return run.execute()
    finally:
        output.end_run()


class _Echo(OutputStream):
    """Heard by the run, and still printed where this program prints."""

    def __init__(self, output: TaskOutput, name: str, original: TextIO) -> None:
        super().__init__(output, name)
        self._original = original

    def write(self, text: str) -> int:
        self._original.write(text)
        return super().write(text)

    def flush(self) -> None:
        self._original.flush()


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *arguments: object) -> None:
    """From a thread of a flow; a loop that has closed meanwhile has nobody left to tell."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)
