"""An executor in a process of its own: warm, reused, killable, replaced when it dies."""

import asyncio
import logging
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

from msgspec import structs

from pyoco_server.config import SETTINGS
from pyoco_server.models import LogLine
from pyoco_server.worker.executor import ExecutorCrashed, ExecutorFailedToStart, RunEvents, TaskOverdue
from pyoco_server.worker.last_output import LastOutput, OutputPipes
from pyoco_server.worker.protocol import (
    Abandon,
    Cancel,
    Finished,
    Frames,
    Limited,
    Outcome,
    Printed,
    Progress,
    Ready,
    Report,
    Run,
    Setup,
    ToExecutor,
    Unlimited,
    frame,
    message_from_executor,
)

log = logging.getLogger(__name__)

_START_TIMEOUT_SEC = 60.0
_STOP_TIMEOUT_SEC = 5.0
_LAST_WORDS_SEC = 0.5
# A task past its limit is its executor's to report; after this, it is ended from here.
_DEAF_SEC = 1.0


class _Link(asyncio.Protocol):
    """The worker's end of the socket."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None
        self.ready: asyncio.Future[Ready] = self._loop.create_future()
        # None: there will be none, since the child is gone.
        self.outcome: asyncio.Future[Outcome | None] | None = None
        self.progress: Progress | None = None
        self.reporting = False
        self.events: RunEvents | None = None
        self._limits: dict[str, asyncio.TimerHandle] = {}
        self.overdue: Limited | None = None
        self.on_overdue: Callable[[], None] = lambda: None
        self.last_output = LastOutput()
        self._frames = Frames()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for body in self._frames.feed(data):
            message = message_from_executor(body)
            if isinstance(message, Outcome):
                _resolve(self.outcome, message)
            elif isinstance(message, Finished):
                if self.events is not None:
                    self.events.finished(message.entry)
            elif isinstance(message, Printed):
                self.heard(message.lines)
            elif isinstance(message, Limited):
                due_in = message.limit_sec + _DEAF_SEC
                self._limits[message.key] = self._loop.call_later(due_in, self._is_overdue, message)
            elif isinstance(message, Unlimited):
                self._forget_limit(message.key)
            elif isinstance(message, Progress):
                self.progress = message
                self.reporting = False
            else:
                _resolve(self.ready, message)

    def connection_lost(self, exc: Exception | None) -> None:
        _resolve(self.outcome, None)

    def child_exited(self, _: object) -> None:
        """Its last words may still be in the socket, which a forked child may hold open."""
        asyncio.get_running_loop().call_later(_LAST_WORDS_SEC, self.connection_lost, None)

    @property
    def has_run(self) -> bool:
        return self.outcome is not None and not self.outcome.done()

    def begin(self, events: RunEvents) -> "asyncio.Future[Outcome | None]":
        """A run is about to be sent; what an earlier one printed is none of its business."""
        self.outcome = self._loop.create_future()
        self.progress, self.reporting, self.overdue = None, False, None
        self.last_output.clear()
        self.events = events
        return self.outcome

    def end(self) -> None:
        self.events = None
        for key in list(self._limits):
            self._forget_limit(key)

    def _is_overdue(self, task: Limited) -> None:
        if self.has_run:
            self.overdue = task
            self.on_overdue()

    def _forget_limit(self, key: str) -> None:
        timer = self._limits.pop(key, None)
        if timer is not None:
            timer.cancel()

    def heard(self, lines: list[LogLine]) -> None:
        self.last_output.add(lines)
        if self.events is not None:
            self.events.printed(lines)

    def send(self, message: ToExecutor) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(frame(message))


def _resolve(future: "asyncio.Future[Any] | None", value: object) -> None:
    if future is not None and not future.done():
        future.set_result(value)


async def _first_of(*futures: "asyncio.Future[Any]", timeout_sec: float | None = None) -> None:
    await asyncio.wait(futures, timeout=timeout_sec, return_when=asyncio.FIRST_COMPLETED)


def _environment() -> dict[str, str]:
    """Ours without our secrets: a flow.yaml may read any variable (`$env.X`) into the run's record."""
    secrets = {setting.name for setting in SETTINGS if setting.secret} | {"PYOCO_NATS_URL", "PYOCO_API_KEY"}
    return {name: value for name, value in os.environ.items() if name not in secrets}


async def _spawn(link: socket.socket, pipes: OutputPipes) -> Process:
    inherited = [link.fileno(), *pipes.read_ends]
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "pyoco_server.worker.executor_main",
            *(str(descriptor) for descriptor in inherited),
            pass_fds=inherited,
            stdin=DEVNULL,
            stdout=pipes.write_ends[0],
            stderr=pipes.write_ends[1],
            start_new_session=True,
            env=_environment(),
        )
    except OSError as error:
        pipes.close()
        raise ExecutorFailedToStart(f"no process could be started: {error}") from error
    finally:
        pipes.close_write_ends()


async def _ended_within(process: Process, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        log.warning("executor %s did not end by itself and is killed", process.pid)


def _kill_group(process: Process) -> None:
    """Kill the child and all that its tasks have started; it leads a session of its own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class ProcessExecutor:
    """Runs flows in a child process, one at a time; starts another child when one has died."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._process: Process | None = None
        self._link: _Link | None = None
        # Its exit, not the end of the link, is the sign of its death: a forked child may hold the link.
        self._exited: asyncio.Task[int] | None = None
        self._pipes: OutputPipes | None = None
        self._retired = False
        self._attempt = 1
        # What was asked of a run before it could be sent: its executor is being replaced.
        self._cancelled: str | None = None
        self._given_up: Outcome | None = None
        # What the child said when it was ready: the flows it has found.
        self.ready = Ready()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def _is_alive(self) -> bool:
        """Asked of the system: a run must not be given to a child whose end has only not been noticed yet."""
        if self._process is None or self._exited is None or self._exited.done():
            return False
        try:
            how = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return how is None

    async def start(self) -> None:
        """Have a warm child; ExecutorFailedToStart says why there cannot be one."""
        if self._is_alive and not self._retired:
            return
        await self.close()
        self._retired = False
        self._pipes = OutputPipes()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await _spawn(theirs, self._pipes)
        _, self._link = await asyncio.get_running_loop().create_unix_connection(_Link, sock=ours)
        self._exited = asyncio.create_task(self._process.wait(), name="executor-exit")
        self._exited.add_done_callback(self._link.child_exited)
        self._link.on_overdue = partial(_kill_group, self._process)
        self._link.send(self._setup)
        await self._wait_ready(self._link)

    async def execute(self, run: Run, events: RunEvents) -> Outcome:
        self._cancelled, self._given_up = None, None
        await self.start()
        if self._given_up is not None:
            return self._given_up
        assert self._link is not None
        link = self._link
        self._attempt = run.attempt
        outcome = link.begin(events)
        try:
            link.send(run)
            if self._cancelled == run.run_id:
                link.send(Cancel(run_id=run.run_id))
            ended = await outcome
            if ended is None:
                raise await self._crash(run.attempt)
        finally:
            link.end()
        self._retired = self._retired or ended.spoilt
        return ended

    def progress(self) -> Progress | None:
        """What the child last told, asking for newer: a task that holds the GIL must not stop its worker."""
        link = self._link
        if link is None:
            return None
        if not link.reporting:
            link.reporting = True
            link.send(Report())
        elif self._pipes is not None and (lines := self._pipes.relieve(self._attempt)):
            # A child that does not answer does not read its own output either.
            link.heard(lines)
        return link.progress

    def cancel(self, run_id: str) -> None:
        self._cancelled = run_id
        if self._link is not None and self._link.has_run:
            self._link.send(Cancel(run_id=run_id))

    def retire(self) -> None:
        self._retired = True

    def use_code(self, folders: Sequence[str]) -> None:
        self._setup = structs.replace(self._setup, code_folders=list(folders))
        self.retire()

    async def give_up(self, status: str, error: str) -> None:
        """Ask the child for what it has reached; one that is too busy to tell is killed."""
        if self._link is None or self._exited is None or not self._link.has_run:
            self._given_up = Outcome(status=status, error=error)
            return
        self._link.send(Abandon(status=status, error=error))
        await _first_of(self._exited, timeout_sec=_LAST_WORDS_SEC)
        await self.abandon()

    async def abandon(self) -> None:
        """Kill the child with whatever it runs; the next run starts another."""
        if self._process is not None and self._exited is not None:
            _kill_group(self._process)
            await asyncio.wait({self._exited})

    async def close(self) -> None:
        """End the child, asking first: closing the link is the sign to leave."""
        process, self._process = self._process, None
        if self._link is not None and self._link.transport is not None:
            self._link.transport.close()
        self._link = None
        if process is not None:
            await _ended_within(process, _STOP_TIMEOUT_SEC)
            _kill_group(process)
        if self._exited is not None:
            await self._exited
            self._exited = None
        if self._pipes is not None:
            self._pipes.close()
            self._pipes = None

    async def _wait_ready(self, link: _Link) -> None:
        assert self._exited is not None
        await _first_of(link.ready, self._exited, timeout_sec=_START_TIMEOUT_SEC)
        if not link.ready.done():
            why = (
                str(await self._crash()) if self._exited.done() else f"not ready in {_START_TIMEOUT_SEC:g} s"
            )
            await self.abandon()
            raise ExecutorFailedToStart(why)
        self.ready = link.ready.result()
        if self.ready.error is not None:
            await self.close()
            raise ExecutorFailedToStart(self.ready.error)

    async def _crash(self, attempt: int = 1) -> ExecutorCrashed:
        """How the child ended, and the end of what it printed during this run."""
        assert self._exited is not None
        assert self._process is not None
        assert self._link is not None
        assert self._pipes is not None
        code = await self._exited
        # What its tasks started has lost its run as well.
        _kill_group(self._process)
        self._link.heard(self._pipes.left_over(attempt))
        if self._link.overdue is not None:
            return TaskOverdue(self._link.overdue)
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        return ExecutorCrashed(f"the executor process {how}", self._link.last_output.text)
