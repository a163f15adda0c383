"""The worker's end of the sockets to one executor process: its runs in their order, and what it says of them.

The first is under way; those behind it wait on the channel, short runs behind a short one. That saves the
executor and the worker from waking up for each. When the first one lasts, the others are taken back: no run
waits here that somebody else could begin.
"""

import asyncio
import math
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from pyoco_server.records.models import LogLine, RunStatus
from pyoco_server.records.wait_models import decode_question
from pyoco_server.worker.executors.executor import RunEvents
from pyoco_server.worker.executors.last_output import LastOutput, OutputPipes
from pyoco_server.worker.ipc.pipe_reads import unread_bytes
from pyoco_server.worker.ipc.prefetch_channel import AheadChannel
from pyoco_server.worker.ipc.protocol import (
    Asked,
    Finished,
    Frames,
    Limited,
    Outcome,
    Printed,
    Progress,
    ReadOutput,
    Ready,
    Run,
    ToExecutor,
    Unlimited,
    frame,
    message_from_executor,
)

LAST_WORDS_SEC = 0.5
# A task past its limit is its executor's to report; after this, it is ended from here.
_DEAF_SEC = 1.0
# How many runs may wait behind one. The more there are, the less often anybody has to be woken up.
_LINE = 15
# Only as many as will be begun within this time, if all take as long as the last one did.
_SHORT_SEC = 0.01
# And only until they have waited, or the one in front has lasted, for this long.
_PATIENCE_SEC = 0.02
_READ_BYTES = 256 * 1024


class Execution:
    """One run at the executor, from its sending to its end."""

    __slots__ = ("began_at", "events", "outcome", "run", "waits_ahead")

    def __init__(self, run: Run, events: RunEvents, outcome: "asyncio.Future[Outcome | None]") -> None:
        self.run = run
        self.events = events
        # None: there will be none, since the child is gone.
        self.outcome = outcome
        # Whether it was sent on the channel, from which it can be taken back.
        self.waits_ahead = False
        self.began_at = 0.0


class ProcessLink(asyncio.Protocol):
    def __init__(self, ahead: AheadChannel, pipes: OutputPipes | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._ahead = ahead
        self._pipes = pipes
        self.transport: asyncio.Transport | None = None
        self.ready: asyncio.Future[Ready] = self._loop.create_future()
        self._runs: deque[Execution] = deque()
        self._took_sec = 0.0
        # Nobody, before it is known how long runs take here.
        self._most_in_line = 0
        self._recalling: asyncio.TimerHandle | None = None
        self.lost = False
        self.progress: Progress | None = None
        self.reporting = False
        self._limits: dict[str, tuple[Limited, asyncio.TimerHandle]] = {}
        self.overdue: Limited | None = None
        self.on_overdue: Callable[[], None] = lambda: None
        self.last_output = LastOutput()
        # The last run left something behind that the next one would suffer from.
        self.spoilt = False
        self._moved = asyncio.Event()
        self._frames = Frames()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for body in self._frames.feed(data):
            message = message_from_executor(body)
            if isinstance(message, Outcome):
                self._ended(message)
            elif isinstance(message, Finished | Asked):
                self._tell(message)
            elif isinstance(message, Printed | ReadOutput):
                self._output(message)
            elif isinstance(message, Limited):
                self._watch_limit(message, message.limit_sec + _DEAF_SEC)
            elif isinstance(message, Unlimited):
                self._forget_limit(message.key)
            elif isinstance(message, Progress):
                self._progressed(message)
            else:
                resolve(self.ready, message)

    def read_waiting(self) -> bool:
        """Process what the executor has sent and the loop has not read yet; whether there was any.

        Before anything is decided because of time: after a pause of this process its timers are due before
        it has read. And a failed write closes the transport without reading what is left.
        """
        if self.lost or self.transport is None:
            return False
        descriptor = self.transport.get_extra_info("socket").fileno()
        # Not until there is nothing: an executor may send as fast as this reads.
        found = left = unread_bytes(descriptor)
        while left > 0 and (data := _waiting_in(descriptor, min(left, _READ_BYTES))):
            left -= len(data)
            self.data_received(data)
        return found > 0

    def _tell(self, message: Finished | Asked) -> None:
        if not self._runs:
            return
        events = self._runs[0].events
        if isinstance(message, Finished):
            events.finished(message.entry)
        else:
            events.asked(decode_question(message.question))

    def _output(self, message: Printed | ReadOutput) -> None:
        if isinstance(message, Printed):
            self.heard(message.lines)
        if self._pipes is not None:
            self._pipes.take(message)

    def connection_lost(self, exc: Exception | None) -> None:
        """The executor is gone: what it had not taken was never begun, and one run may have gone with it."""
        if self.lost:
            return
        self.read_waiting()
        if not self.spoilt and (outcome := self._ahead.last_outcome()) is not None:
            self._ended(outcome)
        self.lost = True
        self._stop_timers()
        self._let_all_go()
        for execution in self._runs:
            resolve(execution.outcome, None)
        self._moved.set()
        self._ahead.close()

    def child_exited(self, _: object) -> None:
        """Its last words may still be in the socket, which a forked child may hold open."""
        self._loop.call_later(LAST_WORDS_SEC, self.connection_lost, None)

    @property
    def current(self) -> Run | None:
        return self._runs[0].run if self._runs and not self.lost else None

    @property
    def attempt(self) -> int:
        """Of the run under way, or of the one that was."""
        return self._runs[0].run.attempt if self._runs else 1

    def waits(self, run: Run) -> bool:
        """Whether it is in line, as far as is known here."""
        return not self.lost and any(each.run is run for each in list(self._runs)[1:])

    async def until_first(self, run: Run) -> None:
        """Wait as long as the run is in line."""
        while self.waits(run):
            self._moved.clear()
            await self._moved.wait()

    def begin(self, run: Run, events: RunEvents) -> "asyncio.Future[Outcome | None]":
        """Send a run to an executor that has none."""
        execution = Execution(run, events, self._loop.create_future())
        if self.lost:
            resolve(execution.outcome, _NOT_BEGUN)
            return execution.outcome
        self._runs.append(execution)
        self._begin_first()
        run.sent_at = time.monotonic()
        if self._ahead.send(run):
            execution.waits_ahead = True
        else:
            run.sent_at = None
            self.send(run)
        return execution.outcome

    @property
    def room(self) -> int:
        """How many runs may line up: behind one that is probably as short as the one before it."""
        room = 1 + self._most_in_line - len(self._runs)
        # The cheap questions first: this is asked several times for each run.
        if room <= 0 or not self._runs or self.lost or self.spoilt or not self._runs[0].waits_ahead:
            return 0
        return 0 if self.lasts else room

    @property
    def lasts(self) -> bool:
        """Whether the run under way is not a short one."""
        return bool(self._runs) and time.monotonic() - self._runs[0].began_at > _PATIENCE_SEC

    @property
    def wait_sec(self) -> float:
        return self._took_sec * len(self._runs)

    def line_up(self, run: Run, events: RunEvents) -> "asyncio.Future[Outcome | None] | None":
        run.sent_at = time.monotonic()
        if not self._ahead.send(run):
            run.sent_at = None
            return None
        execution = Execution(run, events, self._loop.create_future())
        execution.waits_ahead = True
        self._runs.append(execution)
        self._watch_line()
        return execution.outcome

    def recall(self, only: Run | None = None) -> None:
        """Take back who waits behind the first, or only this one of them; whom the executor has goes on."""
        self.read_waiting()
        first = self._runs[0] if self._runs else None
        for execution in self._taken_back():
            stays = execution is first or (only is not None and execution.run is not only)
            if stays and self._ahead.send(execution.run):
                self._runs.append(execution)
            else:
                resolve(execution.outcome, _NOT_BEGUN)
        if self._runs and self._runs[0] is not first:
            self._begin_first()
        # The executor may have taken one of them meanwhile, so that the first waits behind it now.
        self._watch_line()

    def _taken_back(self) -> list[Execution]:
        taken = []
        for run in self._ahead.take_back():
            execution = next(each for each in reversed(self._runs) if each.run.run_id == run.run_id)
            self._runs.remove(execution)
            taken.append(execution)
        return taken

    def _let_all_go(self) -> None:
        """The executor takes no more."""
        for execution in self._taken_back():
            resolve(execution.outcome, _NOT_BEGUN)

    def _watch_line(self) -> None:
        if self._recalling is None and len(self._runs) > 1:
            self._recalling = self._loop.call_later(_PATIENCE_SEC, self._recall_who_waits_long)

    def _recall_who_waits_long(self) -> None:
        """Looked at again and again while somebody waits: most runs are over long before."""
        self._recalling = None
        if len(self._runs) > 1:
            # The run in front lasts, or those before it were not as short as the line was made for.
            since = min(self._runs[0].began_at, self._runs[1].run.sent_at or math.inf)
            left_sec = since + _PATIENCE_SEC - time.monotonic()
            if left_sec <= 0:
                self.recall()
            else:
                self._recalling = self._loop.call_later(left_sec, self._recall_who_waits_long)

    def _begin_first(self) -> None:
        """Another run is under way now; what an earlier one printed is none of its business."""
        self._runs[0].began_at = time.monotonic()
        self.progress, self.reporting, self.overdue = None, False, None
        self.last_output.clear()
        if self._pipes is not None:
            self._pipes.begin_run()

    def _ended(self, outcome: Outcome) -> None:
        if not self._runs:
            return
        if not outcome.not_begun:
            self._took_sec = outcome.took_sec
            self._most_in_line = line_behind(outcome.took_sec)
        self._forget_limits()
        if self._pipes is not None:
            # Of one that leaves, what it has not read; it reports nothing after this.
            self.heard(self._pipes.run_ended(self.attempt, leaves=outcome.spoilt))
        execution = self._runs.popleft()
        if outcome.spoilt:
            # It leaves without taking another.
            self.spoilt = True
            self._let_all_go()
        if self._runs:
            self._begin_first()
        self._moved.set()
        resolve(execution.outcome, outcome)

    def _progressed(self, progress: Progress) -> None:
        self.reporting = False
        # It may have been told while its run was just ending.
        if self.current is not None and self.current.run_id == progress.run_id:
            self.progress = progress

    def _is_overdue(self, task: Limited) -> None:
        was_talking = self.read_waiting()
        limited, _ = self._limits.get(task.key, (None, None))
        if limited is not task:
            # It has ended. A task of the next run may have the same key.
            return
        if was_talking:
            # It is not deaf, and may not have been able to send all of it while this process was paused.
            self._watch_limit(task, _DEAF_SEC)
        else:
            self.overdue = task
            self.on_overdue()

    def _watch_limit(self, task: Limited, within_sec: float) -> None:
        self._limits[task.key] = task, self._loop.call_later(within_sec, self._is_overdue, task)

    def _stop_timers(self) -> None:
        """The executor is gone, and its process id is soon free for others."""
        self._forget_limits()
        if self._recalling is not None:
            self._recalling.cancel()
            self._recalling = None

    def _forget_limits(self) -> None:
        for key in list(self._limits):
            self._forget_limit(key)

    def _forget_limit(self, key: str) -> None:
        _, timer = self._limits.pop(key, (None, None))
        if timer is not None:
            timer.cancel()

    def heard(self, lines: list[LogLine]) -> None:
        self.last_output.add(lines)
        if lines and self._runs:
            self._runs[0].events.printed(lines)

    def send(self, message: ToExecutor) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(frame(message))


def line_behind(took_sec: float) -> int:
    """How many runs may wait where the last one took so long."""
    return _LINE if took_sec * _LINE <= _SHORT_SEC else int(_SHORT_SEC / took_sec)


def _waiting_in(descriptor: int, count: int) -> bytes:
    """What has arrived; empty when nothing has, or the other end is closed."""
    try:
        return os.read(descriptor, count)
    except (BlockingIOError, ConnectionResetError):
        return b""


_NOT_BEGUN = Outcome(status=RunStatus.RUNNING, not_begun=True)


def resolve(future: "asyncio.Future[Any]", value: object) -> None:
    if not future.done():
        future.set_result(value)
