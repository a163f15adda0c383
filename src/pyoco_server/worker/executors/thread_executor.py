"""An executor inside this process, for a worker that is embedded in a program or a test.

A run captures the program's `sys.stdout`, so that there is one run at a time. Its thread cannot be killed: a
run that does not stop is abandoned, asked to stop, and nothing that it does afterwards counts.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TextIO, TypeVar, cast

from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.artifact_models import ARTIFACTS
from pyoco_server.waits.wait_arguments import IN_PLACE_SEC
from pyoco_server.worker.child.printed_lines import OutputStream, TaskOutput
from pyoco_server.worker.engine.flow_run import FlowRun, RunListener
from pyoco_server.worker.engine.tasks.task_calls import RetryBackoff, TaskCall
from pyoco_server.worker.executors.executor import ExecutorCrashed, RunEvents
from pyoco_server.worker.flows.callable_policy import CallablePolicy
from pyoco_server.worker.flows.flow_source import FlowResolver, FlowSource
from pyoco_server.worker.flows.importing import CodeFolders
from pyoco_server.worker.ipc.protocol import Outcome, OutputPart, Progress, Run, records_room

T = TypeVar("T")

_ROOM_CHECK_SEC = 0.5


class ThreadExecutor:
    # A resolver has its flows.
    code_version = ""

    def __init__(
        self,
        resolver: FlowResolver,
        config: NatsBackendConfig,
        *,
        sleep_in_place_sec: float = IN_PLACE_SEC,
    ) -> None:
        self._config = config
        self._sleep_in_place_sec = sleep_in_place_sec
        self._source = FlowSource(resolver, CallablePolicy.parse(config.callable_allow))
        self._code = CodeFolders()
        self._current: FlowRun | None = None
        self._abandon: Callable[[Outcome | ExecutorCrashed], None] | None = None
        # The cancel may come before the flow is resolved.
        self._to_cancel: str | None = None

    async def start(self) -> None:
        """Nothing to start."""

    async def execute(self, run: Run, events: RunEvents) -> Outcome:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Outcome] = loop.create_future()
        output = TaskOutput(
            lambda lines: _call(loop, _unless_ended, ended, events.on_printed, lines),
            line_limit=self._config.run_log_line_max_bytes,
            run_limit=self._config.run_log_run_max_bytes,
        )
        streams = EmbeddedOutput(output)

        def abandon(end: Outcome | ExecutorCrashed) -> None:
            # In this order: the lines that are reported here still count.
            output.end_run()
            _call(loop, _end, ended, end)

        listener = RunListener(
            finished=lambda entry: _call(loop, _unless_ended, ended, events.on_finished, entry),
            asked=lambda question: _call(loop, _unless_ended, ended, events.on_asked, question),
            stuck=lambda outcome, _: abandon(outcome()),
            output_tail=output.output_tail,
            note=output.note,
            watchers=[output, streams],
            limit_watchers=[],
            backoff=RetryBackoff(self._config.task_retry_base_sec, self._config.task_retry_max_sec),
            max_value_bytes=self._config.journal_value_max_bytes,
            store=lambda part: _store(loop, ended, events, part),
            max_result_bytes=self._config.result_max_bytes,
            max_records_bytes=records_room(self._config),
            sleep_in_place_sec=self._sleep_in_place_sec,
            store_files=lambda task, saved: _store_files(loop, ended, events, task, saved),
        )
        self._abandon = abandon
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
            self._current = self._abandon = None
            # An error that is not awaited any more must not be reported as never retrieved.
            ended.cancel()

    def progress(self) -> Progress | None:
        return None if self._current is None else self._current.progress()

    def cancel(self, run_id: str) -> None:
        self._to_cancel = run_id
        if self._current is not None and self._current.run_id == run_id:
            self._current.cancel()

    async def force_end(self, status: str, error: str) -> None:
        if self._abandon is None:
            return
        if self._current is None:
            # Its flow is still being resolved.
            self._abandon(Outcome(status=status, error=error, forced=True))
        elif self._current.claim_end():
            self._abandon(self._current.forced_outcome(status, error))

    async def kill(self) -> None:
        if self._abandon is not None:
            self._abandon(ExecutorCrashed("the flow did not stop; its thread was left behind"))

    def retire(self) -> None:
        """Nothing to do: the code belongs to this program."""

    def use_code(self, folders: Sequence[str]) -> None:
        self._code.use(folders)

    @property
    def code_in_use(self) -> Sequence[str]:
        """Empty: the import path belongs to this program, and changes at once, between two runs."""
        return ()

    async def close(self) -> None:
        await self.kill()
        self._code.use(())


class _Thread(threading.local):
    """The run whose task executes on this thread."""

    prints_for: "EmbeddedOutput | None" = None


_thread = _Thread()


class EmbeddedOutput:
    """Captures `sys.stdout` and `sys.stderr` within a `with` block, and still prints.

    An abandoned run releases them at once, and is not captured any more, although its thread may print.
    """

    def __init__(self, output: TaskOutput) -> None:
        self.output = output
        self.is_over = False

    def __enter__(self) -> None:
        self._stdout = _Echo(self, "stdout", _active(sys.stdout))
        self._stderr = _Echo(self, "stderr", _active(sys.stderr))
        sys.stdout, sys.stderr = cast(TextIO, self._stdout), cast(TextIO, self._stderr)

    def __exit__(self, *_: object) -> None:
        self.is_over = True
        # A stream that the program has replaced meanwhile stays.
        if sys.stdout is self._stdout:
            sys.stdout = _active(sys.stdout)
        if sys.stderr is self._stderr:
            sys.stderr = _active(sys.stderr)

    def began(self, call: TaskCall) -> None:
        _thread.prints_for = self

    def ended(self, call: TaskCall) -> None:
        _thread.prints_for = None

    def captures_this_thread(self) -> bool:
        """Not those of other runs: the thread of an abandoned one prints to the current stdout."""
        return not self.is_over and _thread.prints_for in (None, self)


class _Echo(OutputStream):
    """Adds to the run's output, and prints to the program's stream."""

    def __init__(self, run: EmbeddedOutput, name: str, original: TextIO) -> None:
        super().__init__(run.output, name)
        self.run = run
        self.original = original

    def write(self, text: str) -> int:
        self.original.write(text)
        return super().write(text) if self.run.captures_this_thread() else len(text)

    def flush(self) -> None:
        self.original.flush()


def _active(stream: object) -> TextIO:
    """The stream, or the one below it if its run has ended."""
    while isinstance(stream, _Echo) and stream.run.is_over:
        stream = stream.original
    return cast(TextIO, stream)


async def _execute(
    run: FlowRun, output: TaskOutput, attempt: int, ended: "asyncio.Future[Outcome]"
) -> Outcome:
    """The outcome of the flow, or the one that it is ended with from outside."""
    try:
        return await _first_of(asyncio.to_thread(_run, run, output, attempt), ended)
    finally:
        # Stops an abandoned flow; no effect on one that has ended.
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
    """From a thread of a flow; the loop may have been closed meanwhile."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(function, *arguments)


def _store(
    loop: asyncio.AbstractEventLoop, ended: "asyncio.Future[Outcome]", events: RunEvents, part: OutputPart
) -> None:
    """Have the part stored, and wait for room for the next one, on the thread of the flow."""
    room = threading.Event()

    def take() -> None:
        if ended.done() or events.on_output_part(part, room.set):
            room.set()

    _call(loop, take)
    while not room.wait(_ROOM_CHECK_SEC):
        # Nobody waits for an abandoned run, nor after the end of the program's loop.
        if ended.done() or loop.is_closed():
            return


def _unless_ended(ended: "asyncio.Future[Outcome]", report: Callable[..., None], event: object) -> None:
    if not ended.done():
        report(event)


def _store_files(
    loop: asyncio.AbstractEventLoop,
    ended: "asyncio.Future[Outcome]",
    events: RunEvents,
    task: str,
    saved: dict[str, str],
) -> None:
    """Wait on the thread of the flow until the files are stored, or the run is ended from outside."""
    stored = threading.Event()

    def report() -> None:
        if ended.done():
            stored.set()
            return
        ended.add_done_callback(lambda _: stored.set())
        events.on_files_written(task, saved, stored.set)

    try:
        loop.call_soon_threadsafe(report)
    except RuntimeError:
        # The loop was closed: nothing counts any more.
        return
    stored.wait()


def _end(ended: "asyncio.Future[Outcome]", end: Outcome | ExecutorCrashed) -> None:
    if ended.done():
        return
    if isinstance(end, ExecutorCrashed):
        ended.set_exception(end)
    else:
        ended.set_result(end)
