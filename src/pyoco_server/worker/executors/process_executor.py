"""An executor in a process of its own: warm, reused, killable, replaced when it dies."""

import asyncio
import logging
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from msgspec import structs

from pyoco_server.config import SETTINGS
from pyoco_server.worker.child.run_folder import remove_left_behind
from pyoco_server.worker.executors.executor import (
    ExecutorCrashed,
    ExecutorFailedToStart,
    RunEvents,
    TaskOverdue,
)
from pyoco_server.worker.executors.last_output import OutputPipes
from pyoco_server.worker.executors.process_link import LAST_WORDS_SEC, ProcessLink
from pyoco_server.worker.ipc.death_pipe import DeathPipe
from pyoco_server.worker.ipc.prefetch_channel import AheadChannel
from pyoco_server.worker.ipc.protocol import Abandon, Cancel, Outcome, Progress, Ready, Report, Run, Setup

log = logging.getLogger(__name__)

_START_TIMEOUT_SEC = 60.0
_STOP_TIMEOUT_SEC = 5.0
# What a child said that could not be started, in the message about it.
_LAST_LINES = 5
_LAST_CHARS = 1000


async def _first_of(*futures: "asyncio.Future[Any]", timeout_sec: float | None = None) -> None:
    await asyncio.wait(futures, timeout=timeout_sec, return_when=asyncio.FIRST_COMPLETED)


def _environment() -> dict[str, str]:
    """Ours without our secrets: a flow.yaml may read any variable (`$env.X`) into the run's record."""
    secrets = {setting.name for setting in SETTINGS if setting.secret} | {"PYOCO_NATS_URL", "PYOCO_API_KEY"}
    return {name: value for name, value in os.environ.items() if name not in secrets}


async def _spawn(link: socket.socket, ahead: AheadChannel, pipes: OutputPipes, death: DeathPipe) -> Process:
    sockets = [link.fileno(), ahead.reading.fileno(), pipes.returned.fileno()]
    inherited = [*sockets, *pipes.read_ends, death.read_end]
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "pyoco_server.worker.child.executor_main",
            *(str(descriptor) for descriptor in inherited),
            pass_fds=inherited,
            stdin=DEVNULL,
            stdout=pipes.write_ends[0],
            stderr=pipes.write_ends[1],
            start_new_session=True,
            env=_environment(),
        )
    finally:
        pipes.close_executor_ends()
        death.close_read_end()


def _end_of(output: str) -> str:
    """The last lines on one: of a traceback, the one that says what was wrong is the last."""
    return " | ".join(line.strip() for line in output.splitlines()[-_LAST_LINES:])[-_LAST_CHARS:]


async def _ended_within(process: Process, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        log.warning("executor %s did not end by itself and is killed", process.pid)


def _kill_group(process: Process) -> None:
    """Kill the child and all that its tasks have started; it leads a session of its own."""
    # Once it has been waited for, its id may be another's.
    if process.returncode is None:
        _kill_group_of(process.pid)


def _kill_group_of(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


async def _exit_of(process: Process) -> int:
    """Its exit code. What its tasks have started has lost its run, and is killed.

    The id of a process group in use is not assigned again; if the group is empty, a small race is left.
    """
    code = await process.wait()
    _kill_group_of(process.pid)
    return code


async def _remove_folders(run: Run, pid: int) -> None:
    """Remove what an executor that has exited left empty: the folder of the run, and one for the next."""
    if run.directory is not None:
        await asyncio.to_thread(remove_left_behind, run.directory, pid)


class ProcessExecutor:
    """Runs flows in a child process, one after the other; starts another child when one has died."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._process: Process | None = None
        self._link: ProcessLink | None = None
        # Its exit, not the end of the link, is the sign of its death: a forked child may hold the link.
        self._exited: asyncio.Task[int] | None = None
        self._pipes: OutputPipes | None = None
        self._death: DeathPipe | None = None
        self._retired = False
        # The run whose executor is being replaced, and what was asked of it meanwhile.
        self._starting: Run | None = None
        self._cancelled: str | None = None
        self._given_up: Outcome | None = None
        # The last one that was sent, for the folder that an executor may have kept for the next.
        self._last: Run | None = None
        # Into which folders the imports of the child look.
        self._code: Sequence[str] = ()
        # What the child said when it was ready: the flows it has found.
        self.ready = Ready()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def current(self) -> Run | None:
        """The run under way."""
        return self._starting or (None if self._link is None else self._link.current)

    @property
    def room(self) -> int:
        """How many runs may line up behind the one under way."""
        return 0 if self._link is None or self._retired else self._link.room

    @property
    def lasts(self) -> bool:
        """Whether the run under way is not a short one."""
        return self._link is not None and self._link.lasts

    @property
    def wait_sec(self) -> float:
        """How long the next one in line would probably wait."""
        return 0.0 if self._link is None else self._link.wait_sec

    @property
    def _is_alive(self) -> bool:
        """Asked of the system: a run must not be given to a child whose end has only not been noticed yet."""
        if self._link is None or self._link.lost or self._link.spoilt:
            return False
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
        try:
            self._link = await self._spawn_linked()
        except OSError as error:
            raise ExecutorFailedToStart(f"no process could be started: {error}") from error
        assert self._process is not None
        self._exited = asyncio.create_task(_exit_of(self._process), name="executor-exit")
        self._exited.add_done_callback(self._link.child_exited)
        self._link.on_overdue = partial(_kill_group, self._process)
        self._code = self._setup.code_folders
        self._link.send(self._setup)
        await self._wait_ready(self._link)

    async def _spawn_linked(self) -> ProcessLink:
        """Start a child, and the link to it; whatever fails, no descriptor stays open."""
        with ExitStack() as opened:
            pipes = OutputPipes(
                line_limit=self._setup.log_line_max_bytes, run_limit=self._setup.log_run_max_bytes
            )
            opened.callback(pipes.close)
            ours, theirs = socket.socketpair()
            opened.enter_context(ours)
            opened.enter_context(theirs)
            ahead = AheadChannel()
            opened.callback(ahead.close)
            death = DeathPipe()
            # A child that has been started is killed by this.
            opened.callback(death.close)
            self._process = await _spawn(theirs, ahead, pipes, death)
            _, link = await asyncio.get_running_loop().create_unix_connection(
                partial(ProcessLink, ahead, pipes), sock=ours
            )
            opened.pop_all()
            theirs.close()
        self._pipes, self._death = pipes, death
        return link

    async def execute(self, run: Run, events: RunEvents) -> Outcome:
        self._given_up, self._starting = None, run
        try:
            await self.start()
        finally:
            self._starting = None
        if self._given_up is not None:
            return self._given_up
        assert self._link is not None
        before, self._last = self._last, run
        outcome = self._link.begin(run, events)
        if self._cancelled == run.run_id:
            self._link.send(Cancel(run_id=run.run_id))
        ended = await self._end_of(run, outcome)
        if ended.not_begun:
            # It keeps its attempt number: another executor may be working in its folder.
            self._last = before
        return ended

    def line_up(self, run: Run, events: RunEvents) -> Coroutine[None, None, Outcome] | None:
        """Have the run executed after those that are here; None when it cannot wait here."""
        outcome = None if self._link is None else self._link.line_up(run, events)
        return None if outcome is None else self._end_of(run, outcome)

    def waits(self, run: Run) -> bool:
        """Whether the run is in line."""
        return self._link is not None and self._link.waits(run)

    def take_back(self, run: Run) -> None:
        """Have a run in line end as one that was not begun, unless it just was."""
        if self._link is not None:
            self._link.recall(only=run)

    async def leave_line(self, run: Run) -> None:
        """Take the run back; one that the child has taken already is under way when this returns."""
        self.take_back(run)
        if self._link is not None:
            await self._link.until_first(run)

    async def _end_of(self, run: Run, outcome: "asyncio.Future[Outcome | None]") -> Outcome:
        ended = await outcome
        if ended is None:
            assert self._process is not None
            pid = self._process.pid
            crash = await self._crash(run.attempt)
            await _remove_folders(run, pid)
            raise crash
        return ended

    def progress(self) -> Progress | None:
        """What the child last told, asking for newer: a task that holds the GIL must not stop its worker."""
        link = self._link
        if link is None:
            return None
        if not link.reporting:
            link.reporting = True
            link.send(Report())
        elif self._pipes is not None and (lines := self._pipes.relieve(link.attempt)):
            # A child that does not answer does not read its own output either.
            link.heard(lines)
        return link.progress

    def cancel(self, run_id: str) -> None:
        self._cancelled = run_id
        if self._link is not None and self._link.current is not None:
            self._link.send(Cancel(run_id=run_id))

    def retire(self) -> None:
        self._retired = True
        self.clear_line()

    def clear_line(self) -> None:
        """Have all runs in line end as ones that were not begun; the one under way goes on."""
        if self._link is not None:
            self._link.recall()

    def use_code(self, folders: Sequence[str]) -> None:
        self._setup = structs.replace(self._setup, code_folders=list(folders))
        self.retire()

    @property
    def code_in_use(self) -> Sequence[str]:
        return () if self.current is None else self._code

    async def give_up(self, status: str, error: str) -> None:
        """Ask the child for what it has reached; one that is too busy to tell is killed."""
        link, run = self._link, self.current
        if link is None or self._exited is None or run is None or run is self._starting:
            self._given_up = Outcome(status=status, error=error, by_force=True)
            return
        link.recall()
        if link.current is not run:
            # It has just ended by itself.
            return
        link.send(Abandon(run_id=run.run_id, status=status, error=error))
        await _first_of(self._exited, timeout_sec=LAST_WORDS_SEC)
        link.read_waiting()
        if link.current is None or link.current is run:
            await self.abandon()

    async def abandon(self) -> None:
        """Kill the child with whatever it runs; the next run starts another."""
        self.clear_line()
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
        if self._death is not None:
            self._death.close()
            self._death = None
        if process is not None and self._last is not None:
            await _remove_folders(self._last, process.pid)

    async def _wait_ready(self, link: ProcessLink) -> None:
        assert self._exited is not None
        await _first_of(link.ready, self._exited, timeout_sec=_START_TIMEOUT_SEC)
        link.read_waiting()
        if not link.ready.done():
            why = f"not ready in {_START_TIMEOUT_SEC:g} s"
            if self._exited.done():
                crash = await self._crash()
                why = ": ".join(text for text in (str(crash), _end_of(crash.output)) if text)
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
        # A task may have closed the link, and hold the GIL.
        await _ended_within(self._process, _STOP_TIMEOUT_SEC)
        _kill_group(self._process)
        code = await self._exited
        self._link.heard(self._pipes.left_over(attempt))
        if self._link.overdue is not None:
            return TaskOverdue(self._link.overdue)
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"
        return ExecutorCrashed(f"the executor process {how}", self._link.last_output.text)
