"""One executor process as its worker sees it: its queue of runs, its messages, its output and its exit.

The first run of the queue executes. Short runs wait after a short one on the prefetch channel, which saves
both processes a wake-up for each. When the first run turns out to be long, the others are recalled: no run
waits here that another executor could start.
"""

import asyncio
import logging
import math
import os
import socket
import time
from asyncio.subprocess import Process
from collections import deque
from contextlib import ExitStack
from functools import partial
from typing import Any, cast

from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.records.waits.wait_models import decode_question
from pyoco_server.worker.child.run_folder import remove_unused_folders
from pyoco_server.worker.executors.executor import (
    ExecutorCrashed,
    ExecutorFailedToStart,
    RunEvents,
    TaskTimedOut,
)
from pyoco_server.worker.executors.executor_template import ExecutorTemplate, ForkedProcess, TemplateLost
from pyoco_server.worker.executors.os_process import (
    has_exited,
    how_ended,
    kill_group,
    kill_rest_at_exit,
    start_process,
)
from pyoco_server.worker.executors.stdio_pipes import StdioPipes
from pyoco_server.worker.executors.task_processes import TASK_PROCESSES
from pyoco_server.worker.executors.task_time_limits import TaskTimeLimits
from pyoco_server.worker.ipc.message_checks import ProtocolViolation, checked_message
from pyoco_server.worker.ipc.pipes import DeathPipe, unread_bytes
from pyoco_server.worker.ipc.prefetch_channel import PrefetchChannel
from pyoco_server.worker.ipc.protocol import (
    Asked,
    Cancel,
    FilesStored,
    FilesWritten,
    Finished,
    ForceEnd,
    Frames,
    FrameTooLong,
    FromExecutor,
    LimitEnded,
    LimitStarted,
    Outcome,
    OutputPart,
    Printed,
    Progress,
    ReadOutput,
    Ready,
    Report,
    Run,
    Setup,
    ToExecutor,
    frame,
)

log = logging.getLogger(__name__)

_START_TIMEOUT_SEC = 60.0
_STOP_TIMEOUT_SEC = 5.0
# How long to wait for the last messages of an exiting process.
_LAST_MESSAGES_SEC = 0.5
# The longest queue after the current run. The longer it is, the fewer wake-ups are needed.
_QUEUE_LENGTH = 15
# Only as many runs are queued as should start within this time, judged by the duration of the last run.
_QUEUE_SEC = 0.01
# Queued runs are recalled when they have waited, or the current one has lasted, for this long.
_RECALL_AFTER_SEC = 0.02
_READ_BYTES = 256 * 1024
# The longest message has a value of the journal, or the records of all tasks of a run.
_RECORDS_BYTES = 256 * 1024 * 1024
_OUTPUT_CHARS = 4096
# The end of the output in the error of a process that could not be started.
_ERROR_LINES = 5
_ERROR_CHARS = 1000

_NOT_STARTED = Outcome(status=RunStatus.RUNNING, not_started=True)


class Execution:
    """One run in the queue of an executor process."""

    __slots__ = ("events", "is_prefetched", "outcome", "run", "started_at")

    def __init__(self, run: Run, events: RunEvents, outcome: "asyncio.Future[Outcome | None]") -> None:
        self.run = run
        self.events = events
        # None means that the process has exited without an outcome.
        self.outcome = outcome
        # Whether it was sent on the prefetch channel, from which it can be recalled.
        self.is_prefetched = False
        self.started_at = 0.0


class LastOutput:
    """The last lines of the current run, for the report of a crash."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque()
        self._size = 0

    def add(self, lines: list[LogLine]) -> None:
        for line in lines:
            self._lines.append(line.text)
            self._size += len(line.text)
        while self._size - len(self._lines[0] if self._lines else "") > _OUTPUT_CHARS:
            self._size -= len(self._lines.popleft())

    def clear(self) -> None:
        self._lines.clear()
        self._size = 0

    @property
    def text(self) -> str:
        return "\n".join(self._lines)[-_OUTPUT_CHARS:].strip()


class ExecutorHandle(asyncio.Protocol):
    """A started executor process; `RenewableExecutor` replaces it when it has exited."""

    def __init__(
        self, prefetch: PrefetchChannel, pipes: StdioPipes, death: DeathPipe, *, max_message_bytes: int
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._prefetch = prefetch
        self._pipes = pipes
        self._death = death
        self.transport: asyncio.Transport | None = None
        self._frames = Frames(max_bytes=max_message_bytes)
        # Why a message of the process was not valid: nothing is read any more.
        self._violation: str | None = None
        self.ready: asyncio.Future[Ready] = self._loop.create_future()
        self._process: Process | ForkedProcess | None = None
        # The exit of the process, not the end of the link, is its end: a forked child may hold the link.
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self._lost = False
        # Set when the last run left something that would affect the next one.
        self.must_restart = False
        self._runs: deque[Execution] = deque()
        self._queue_moved = asyncio.Event()
        self._run_sec = 0.0
        # Zero until it is known how long runs take here.
        self._queue_limit = 0
        self._recall_timer: asyncio.TimerHandle | None = None
        self._progress: Progress | None = None
        self._progress_requested = False
        self._time_limits = TaskTimeLimits(self)
        self._last_output = LastOutput()
        # For the folder that the process may keep for its next run.
        self._last_run: Run | None = None
        self._previous_run: Run | None = None

    # The process

    @classmethod
    async def spawn(cls, setup: Setup, template: ExecutorTemplate | None = None) -> "ExecutorHandle":
        """Start a process and connect to it; on failure no descriptor stays open.

        Without a template it is a new interpreter.
        """
        if template is not None:
            try:
                return await cls._spawn(setup, template)
            except TemplateLost as error:
                # With other sockets: on a busy machine the template may fork an executor after all. It ends,
                # since its own sockets are closed, and takes no run of the one that is started instead.
                log.warning("an executor is started without its template: %s", error)
        return await cls._spawn(setup, None)

    @classmethod
    async def _spawn(cls, setup: Setup, template: ExecutorTemplate | None) -> "ExecutorHandle":
        with ExitStack() as opened:
            pipes = StdioPipes(line_limit=setup.log_line_max_bytes, run_limit=setup.log_run_max_bytes)
            opened.callback(pipes.close)
            ours, theirs = socket.socketpair()
            opened.enter_context(ours)
            opened.enter_context(theirs)
            prefetch = PrefetchChannel()
            opened.callback(prefetch.close)
            death = DeathPipe()
            # This kills a process that has been started.
            opened.callback(death.close)
            most = setup.journal_value_max_bytes + _RECORDS_BYTES
            mark = TASK_PROCESSES.new_mark()
            sockets = [theirs.fileno(), prefetch.reading.fileno(), pipes.replies.fileno()]
            process = await start_process(template, sockets, pipes, death, mark)
            _, child = await asyncio.get_running_loop().create_unix_connection(
                partial(cls, prefetch, pipes, death, max_message_bytes=most), sock=ours
            )
            opened.pop_all()
            theirs.close()
        child.watch(process, mark)
        child.send(setup)
        return child

    def watch(self, process: Process | ForkedProcess, mark: str) -> None:
        self._process = process
        self.exited = asyncio.create_task(kill_rest_at_exit(process, mark), name="executor-exit")
        # Its last messages may still be in the socket.
        self.exited.add_done_callback(
            lambda _: self._loop.call_later(_LAST_MESSAGES_SEC, self.connection_lost, None)
        )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        """Whether it can take a run. Asks the system, since its exit may not have been noticed yet."""
        if self._lost or self.must_restart or self.exited.done() or self._process is None:
            return False
        return not has_exited(self._process)

    async def wait_ready(self) -> Ready:
        await _first_of(self.ready, self.exited, timeout_sec=_START_TIMEOUT_SEC)
        self.read_waiting()
        if self.ready.done():
            return self.ready.result()
        why = f"not ready in {_START_TIMEOUT_SEC:g} s"
        if self.exited.done():
            crash = await self._crash()
            why = ": ".join(text for text in (str(crash), _last_lines(crash.output)) if text)
        await self.kill()
        raise ExecutorFailedToStart(why)

    def kill_group(self) -> None:
        """Kill the process and everything that its tasks have started; it leads a session of its own."""
        # After it has been waited for, its id may belong to another process.
        if self._process is not None and self._process.returncode is None:
            kill_group(self.pid)

    async def kill(self) -> None:
        """Kill it with its current run; queued runs are recalled."""
        self.recall()
        self.kill_group()
        await asyncio.wait({self.exited})

    async def close(self) -> None:
        """End it: closing the link asks it to exit."""
        if self.transport is not None:
            self.transport.close()
        try:
            await self._wait_exit()
        finally:
            self._pipes.close()
            # This kills a process that has not exited, when the wait is cancelled.
            self._death.close()
        if self._last_run is not None:
            await self._remove_folders(self._last_run)

    async def _wait_exit(self) -> int:
        done, _ = await asyncio.wait({self.exited}, timeout=_STOP_TIMEOUT_SEC)
        if not done:
            extra = {"run_id": self._last_run.run_id} if self._last_run is not None else None
            log.warning("executor %s did not exit by itself and is killed", self.pid, extra=extra)
            self.kill_group()
        return await self.exited

    async def _crash(self, attempt: int = 1) -> ExecutorCrashed:
        """How the process ended, with the end of its output during this run."""
        # A task may have closed the link, and hold the GIL.
        code = await self._wait_exit()
        self.on_output(self._pipes.take_unreported(attempt))
        if self._violation is not None:
            how = f"sent an invalid message, and was ended: {self._violation}"
            return ExecutorCrashed(f"the executor process {how}", self._last_output.text)
        if self._time_limits.exceeded is not None:
            return TaskTimedOut(self._time_limits.exceeded)
        return ExecutorCrashed(f"the executor process {how_ended(code)}", self._last_output.text)

    async def _remove_folders(self, run: Run) -> None:
        """Remove empty folders of an exited process: that of the run, and one for the next run."""
        if run.directory is not None:
            await asyncio.to_thread(remove_unused_folders, run.directory, self.pid)

    # Its runs

    @property
    def current(self) -> Execution | None:
        return self._runs[0] if self._runs and not self._lost else None

    def begin(self, run: Run, events: RunEvents) -> Execution:
        """Send a run to a process that has none."""
        execution = Execution(run, events, self._loop.create_future())
        if self._lost:
            resolve(execution.outcome, _NOT_STARTED)
            return execution
        self._previous_run, self._last_run = self._last_run, run
        self._runs.append(execution)
        self._start_first()
        if not self._send_prefetched(execution):
            self.send(run)
        return execution

    def enqueue(self, run: Run, events: RunEvents) -> Execution | None:
        """Queue a run after the current one; None if it is too large for the prefetch channel."""
        execution = Execution(run, events, self._loop.create_future())
        if not self._send_prefetched(execution):
            return None
        self._runs.append(execution)
        self._watch_queue()
        return execution

    def _send_prefetched(self, execution: Execution) -> bool:
        execution.run.sent_at = time.monotonic()
        execution.is_prefetched = self._prefetch.send(execution.run)
        if not execution.is_prefetched:
            execution.run.sent_at = None
        return execution.is_prefetched

    async def outcome_of(self, execution: Execution) -> Outcome:
        """The outcome of a run, however it ends; raises ExecutorCrashed."""
        outcome = await execution.outcome
        if outcome is None:
            crash = await self._crash(execution.run.attempt)
            await self._remove_folders(execution.run)
            raise crash
        if outcome.not_started and self._last_run is execution.run:
            # Its attempt number is used again: another executor may work in its folder.
            self._last_run = self._previous_run
        return outcome

    @property
    def capacity(self) -> int:
        """How many runs may be queued after one that is probably as short as the last one."""
        free = 1 + self._queue_limit - len(self._runs)
        # The cheap conditions first: this is read several times for each run.
        if free <= 0 or not self._runs or self._lost or self.must_restart or not self._runs[0].is_prefetched:
            return 0
        return 0 if self.is_long_running else free

    @property
    def is_long_running(self) -> bool:
        return bool(self._runs) and time.monotonic() - self._runs[0].started_at > _RECALL_AFTER_SEC

    @property
    def expected_wait_sec(self) -> float:
        """How long the next queued run would probably wait."""
        return self._run_sec * len(self._runs)

    def cancel(self, execution: Execution) -> bool:
        """Recall the run or ask it to stop; false if it does not run here any more."""
        self.recall(only=execution)
        if self._lost or execution not in self._runs:
            return False
        self.send(Cancel(run_id=execution.run.run_id))
        return True

    async def force_end(self, execution: Execution, status: str, error: str) -> bool:
        """Ask for the outcome at once, and kill a process that does not send it; false if it does not run."""
        if not await self.recall_or_wait_current(execution):
            return False
        self.recall()
        if self.current is execution:
            self.send(ForceEnd(run_id=execution.run.run_id, status=status, error=error))
            await _first_of(self.exited, timeout_sec=_LAST_MESSAGES_SEC)
            self.read_waiting()
            if self.current is None or self.current is execution:
                await self.kill()
        return True

    def recall(self, only: Execution | None = None) -> None:
        """Take back the queued runs, or one of them; those that the process has read continue."""
        self.read_waiting()
        first = self._runs[0] if self._runs else None
        for execution in self._recalled():
            stays = execution is first or (only is not None and execution is not only)
            if stays and self._prefetch.send(execution.run):
                self._runs.append(execution)
            else:
                resolve(execution.outcome, _NOT_STARTED)
        if self._runs and self._runs[0] is not first:
            self._start_first()
        # The process may have read one of them meanwhile, so that the first is queued after it now.
        self._watch_queue()

    async def recall_or_wait_current(self, execution: Execution) -> bool:
        """Recall a queued run, or wait until its process executes it.

        True: it could not be recalled and is the current run now, so that only a kill ends it.
        """
        self.recall(only=execution)
        while self.current is not execution and not self._lost and execution in self._runs:
            self._queue_moved.clear()
            await self._queue_moved.wait()
        return self.current is execution

    def _recalled(self) -> list[Execution]:
        recalled = []
        for run in self._prefetch.recall():
            execution = next(each for each in reversed(self._runs) if each.run.run_id == run.run_id)
            self._runs.remove(execution)
            recalled.append(execution)
        return recalled

    def _reject_queued(self) -> None:
        for execution in self._recalled():
            resolve(execution.outcome, _NOT_STARTED)

    def _watch_queue(self) -> None:
        if self._recall_timer is None and len(self._runs) > 1:
            self._recall_timer = self._loop.call_later(_RECALL_AFTER_SEC, self._recall_late)

    def _recall_late(self) -> None:
        """Recall the queue if the current run is long, or those before it were not as short as expected."""
        self._recall_timer = None
        if len(self._runs) > 1:
            since = min(self._runs[0].started_at, self._runs[1].run.sent_at or math.inf)
            left_sec = since + _RECALL_AFTER_SEC - time.monotonic()
            if left_sec <= 0:
                self.recall()
            else:
                self._recall_timer = self._loop.call_later(left_sec, self._recall_late)

    def _start_first(self) -> None:
        """Another run is the current one now."""
        self._runs[0].started_at = time.monotonic()
        self._progress, self._progress_requested = None, False
        self._time_limits.begin_run()
        self._last_output.clear()
        self._pipes.begin_run()

    def _on_outcome(self, outcome: Outcome) -> None:
        if not self._runs:
            return
        if not outcome.not_started:
            self._run_sec = outcome.took_sec
            self._queue_limit = queue_limit(outcome.took_sec)
        self._time_limits.end_all()
        # An exiting process reports nothing after this.
        self.on_output(self._pipes.end_run(self._attempt, exiting=outcome.must_restart))
        execution = self._runs.popleft()
        if outcome.must_restart:
            self.must_restart = True
            self._reject_queued()
        if self._runs:
            self._start_first()
        self._queue_moved.set()
        resolve(execution.outcome, outcome)

    # Its messages

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._violation is not None:
            return
        try:
            for body in self._frames.feed(data):
                self._on_message(checked_message(body))
        except (ProtocolViolation, FrameTooLong) as error:
            self._reject(error)

    def _on_message(self, message: FromExecutor) -> None:
        if isinstance(message, Outcome):
            self._on_outcome(message)
        elif isinstance(message, Finished | Asked | FilesWritten):
            self._on_event(message)
        elif isinstance(message, Printed | ReadOutput):
            if isinstance(message, Printed):
                self.on_output(message.lines)
            self._pipes.on_message(message)
        elif isinstance(message, OutputPart):
            self._on_output_part(message)
        elif isinstance(message, LimitStarted):
            self._time_limits.start(message)
        elif isinstance(message, LimitEnded):
            self._time_limits.end(message.key)
        elif isinstance(message, Progress):
            self._on_progress(message)
        else:
            resolve(self.ready, message)

    def _reject(self, error: Exception) -> None:
        """End a process whose messages cannot be trusted any more, with its run."""
        self._violation = str(error)
        self.must_restart = True
        extra = {"run_id": self._runs[0].run.run_id} if self._runs else None
        log.error("an executor sent an invalid message and is killed: %s", error, extra=extra)
        self.kill_group()

    def send(self, message: ToExecutor) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(frame(message))

    def read_waiting(self) -> bool:
        """Process messages that the loop has not read yet; returns whether there were any.

        Before any decision by time: after a pause of this process its timers fire before it has read. And a
        failed write closes the transport without reading what is left.
        """
        if self._lost or self.transport is None:
            return False
        descriptor = self.transport.get_extra_info("socket").fileno()
        # Not until it is empty: the process may send as fast as this reads.
        found = left = unread_bytes(descriptor)
        while left > 0 and (data := _read(descriptor, min(left, _READ_BYTES))):
            left -= len(data)
            self.data_received(data)
        return found > 0

    def connection_lost(self, exc: Exception | None) -> None:
        """The process is gone: its current run has crashed, and unread runs were not started."""
        if self._lost:
            return
        self.read_waiting()
        self._take_last_outcome()
        self._lost = True
        # Its process id may soon belong to another process.
        self._time_limits.end_all()
        if self._recall_timer is not None:
            self._recall_timer.cancel()
            self._recall_timer = None
        self._reject_queued()
        for execution in self._runs:
            resolve(execution.outcome, None)
        self._queue_moved.set()
        self._prefetch.close()

    def _take_last_outcome(self) -> None:
        if self.must_restart:
            return
        try:
            outcome = self._prefetch.last_outcome()
        except ProtocolViolation as error:
            self._reject(error)
        else:
            if outcome is not None:
                self._on_outcome(outcome)

    def _on_event(self, message: Finished | Asked | FilesWritten) -> None:
        if not self._runs:
            return
        events = self._runs[0].events
        if isinstance(message, Finished):
            events.on_finished(message.entry)
        elif isinstance(message, FilesWritten):
            stored = FilesStored(number=message.number)
            events.on_files_written(message.task, message.saved, lambda: self.send(stored))
        else:
            events.on_asked(decode_question(message.question))

    def _on_output_part(self, part: OutputPart) -> None:
        """Read no more of a large output than can be stored: then the process waits."""
        if self._runs and not self._runs[0].events.on_output_part(part, self._resume_reading):
            self._pause_reading()

    def _pause_reading(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def on_output(self, lines: list[LogLine]) -> None:
        self._last_output.add(lines)
        if lines and self._runs:
            self._runs[0].events.on_printed(lines)

    @property
    def _attempt(self) -> int:
        return self._runs[0].run.attempt if self._runs else 1

    def progress(self) -> Progress | None:
        """The last progress; requests a newer one without waiting, since a task may hold the GIL."""
        if not self._progress_requested:
            self._progress_requested = True
            self.send(Report())
        elif lines := self._pipes.drain_full(self._attempt):
            # A process that does not reply does not request its own output either.
            self.on_output(lines)
        return self._progress

    def _on_progress(self, progress: Progress) -> None:
        self._progress_requested = False
        # It may have been sent while its run was ending.
        if self.current is not None and self.current.run.run_id == progress.run_id:
            self._progress = progress


def queue_limit(run_sec: float) -> int:
    """How many runs may be queued if each takes this long."""
    return _QUEUE_LENGTH if run_sec * _QUEUE_LENGTH <= _QUEUE_SEC else int(_QUEUE_SEC / run_sec)


def resolve(future: "asyncio.Future[Any]", value: object) -> None:
    if not future.done():
        future.set_result(value)


async def _first_of(*futures: "asyncio.Future[Any]", timeout_sec: float) -> None:
    await asyncio.wait(futures, timeout=timeout_sec, return_when=asyncio.FIRST_COMPLETED)


def _last_lines(output: str) -> str:
    """The last lines on one line: the last line of a traceback has the error."""
    return " | ".join(line.strip() for line in output.splitlines()[-_ERROR_LINES:])[-_ERROR_CHARS:]


def _read(descriptor: int, count: int) -> bytes:
    """What has arrived; empty when nothing has, or the other end is closed."""
    try:
        return os.read(descriptor, count)
    except (BlockingIOError, ConnectionResetError):
        return b""
