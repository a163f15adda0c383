"""The executors of a worker, and who may use them.

A session has a turn: it is sure of an executor before it asks for a delivery, and gives it back as soon as
the outcome of its run is known. While runs are short, more turns are given than there are executors: these
runs line up behind others. One that cannot, or that is taken back because the run in front of it lasts, was
not begun; its session hands it back to the queue, where any worker may take it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from operator import itemgetter
from types import TracebackType

from pyoco_server.records.models import RunStatus
from pyoco_server.worker.executors.executor import RunEvents
from pyoco_server.worker.executors.process_executor import ProcessExecutor
from pyoco_server.worker.ipc.protocol import Outcome, Progress, Run

# How many sessions there may be for each executor: those that claim, that wait in line, that store an end.
_SESSIONS = 20
# Not as many, but never fewer than this for each, where they would be more than a part of what all workers of
# a tag may have at a time: the runs of one that dies are nobody's until AckWait is over.
_SESSIONS_AT_LEAST = 6
_PART_OF_ALLOWANCE = 4
# A run that waits for less than this costs less than waking up another executor for it.
_MOMENT_SEC = 0.001
_WAIT = itemgetter(0)


class ExecutorPool:
    def __init__(self, executors: Sequence[ProcessExecutor], *, allowance: int) -> None:
        """`allowance` is how many jobs of a tag may be with its workers (`consumer_max_ack_pending`)."""
        self._executors = executors
        self._turns_at = dict.fromkeys(executors, 0)
        # The one that was used last is the warmest, and is used next.
        self._idle = list(executors)
        # Turns without an executor yet: those that one is kept for, and those that will line up.
        self._sure = 0
        self._hoping = 0
        self._sessions = 0
        self._most_sessions = most_sessions(len(executors), allowance)
        self._lines_closed = False
        self._will_look = False
        self._waiting: deque[asyncio.Future[None]] = deque()
        # Called when there may be room for another turn in a line.
        self.on_room: Callable[[], None] = lambda: None

    @property
    def size(self) -> int:
        return len(self._executors)

    async def turn(self) -> "Turn":
        """Wait for an executor that nobody uses; the turn is sure of it."""
        while len(self._idle) <= self._sure + self._hoping or self._sessions >= self._most_sessions:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
        self._sessions += 1
        self._sure += 1
        self._wake_next()
        return Turn(self, sure=True)

    @property
    def has_room(self) -> bool:
        """Whether one more run would find a place in a line, or an executor that no turn is sure of."""
        # Asked several times for each run: the first place that is free answers it.
        if self._lines_closed or self._sessions >= self._most_sessions:
            return False
        places = len(self._idle) - self._sure - self._hoping
        for executor in self._executors:
            if places > 0:
                return True
            places += executor.room
        return places > 0

    @property
    def is_taken(self) -> bool:
        """Whether every executor has a run that lasts."""
        if self._idle or self._lines_closed:
            return False
        return all(executor.lasts for executor in self._executors)

    def turn_in_line(self) -> "Turn":
        """A turn for a run that is at hand; it may find the line closed when it gets there."""
        self._sessions += 1
        self._hoping += 1
        return Turn(self, sure=False)

    def close_lines(self) -> None:
        """Nobody waits any more: what is in line goes to other workers."""
        self._lines_closed = True
        for executor in self._executors:
            executor.clear_line()

    def place(self, run: Run, events: RunEvents, *, sure: bool) -> "tuple[ProcessExecutor, Execution] | None":
        """An executor for the run, and its execution there; None when all are busy with runs that last."""
        if sure:
            self._sure -= 1
            return self._begin(run, events)
        self._hoping -= 1
        lines = [(executor.wait_sec, executor) for executor in self._executors if executor.room > 0]
        near = [line for line in lines if line[0] < _MOMENT_SEC]
        if near:
            # The busiest of them: it saves waking up another.
            _, chosen = max(near, key=_WAIT)
        elif len(self._idle) > self._sure:
            return self._begin(run, events)
        elif lines:
            _, chosen = min(lines, key=_WAIT)
        else:
            return None
        execution = chosen.line_up(run, events)
        if execution is not None:
            self._turns_at[chosen] += 1
            return chosen, execution
        # It is too large to wait.
        return self._begin(run, events) if len(self._idle) > self._sure else None

    def _begin(self, run: Run, events: RunEvents) -> "tuple[ProcessExecutor, Execution]":
        executor = self._idle.pop()
        self._turns_at[executor] += 1
        return executor, executor.execute(run, events)

    def forsake(self, *, sure: bool) -> None:
        """A turn ends that never came to an executor."""
        if sure:
            self._sure -= 1
        else:
            self._hoping -= 1

    def give_back(self, executor: ProcessExecutor) -> None:
        self._turns_at[executor] -= 1
        if not self._turns_at[executor]:
            self._idle.append(executor)
        self.look_again()

    def session_ended(self) -> None:
        self._sessions -= 1
        self.look_again()

    def look_again(self) -> None:
        """Something has changed: whoever waits may find what it waits for, once all of this turn is done."""
        if not self._will_look:
            self._will_look = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._will_look = False
        self.on_room()
        self._wake_next()

    def _wake_next(self) -> None:
        while self._waiting and len(self._idle) > self._sure + self._hoping:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return


def most_sessions(executors: int, allowance: int) -> int:
    """How many runs a worker may have in hand; an allowance of 0 or less is none at all to keep to."""
    wanted = _SESSIONS * executors
    if allowance <= 0:
        return wanted
    return min(wanted, max(_SESSIONS_AT_LEAST * executors, allowance // _PART_OF_ALLOWANCE))


Execution = Coroutine[None, None, Outcome]


class Turn:
    """One session's use of an executor: it has none before its run can be executed, and none after."""

    __slots__ = ("_ended", "_executor", "_placed", "_pool", "_run", "_sure")

    def __init__(self, pool: ExecutorPool, *, sure: bool) -> None:
        self._pool = pool
        self._sure = sure
        self._placed = False
        self._executor: ProcessExecutor | None = None
        self._run: Run | None = None
        # How the run ends that was cancelled or given up before it came to an executor, or between two.
        self._ended: Outcome | None = None

    def __enter__(self) -> "Turn":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._placed:
            self._pool.forsake(sure=self._sure)
        self._leave()
        self._pool.session_ended()

    async def start(self) -> None:
        """Have the executor of this turn started, if the turn has come to one."""
        if self._executor is not None:
            await self._executor.start()

    async def execute(self, run: Run, events: RunEvents) -> Outcome:
        if self._ended is not None:
            return self._ended
        if self._executor is not None:
            # It goes on, in another process of the same executor.
            self._run = run
            execution: Execution = self._executor.execute(run, events)
        else:
            self._placed = True
            place = self._pool.place(run, events, sure=self._sure)
            if place is None:
                return Outcome(status=RunStatus.RUNNING, not_begun=True)
            self._run = run
            self._executor, execution = place
            # Once the run is under way, others may line up behind it.
            self._pool.look_again()
        outcome = await execution
        if not outcome.go_on:
            self._leave()
        return outcome

    def progress(self) -> Progress | None:
        return self._executor.progress() if self._executor is not None and self._is_under_way else None

    def cancel(self, run_id: str) -> None:
        if self._executor is not None and self._run is not None:
            self._executor.take_back(self._run)
            # Unless it was taken back: it is under way, or about to be.
            if self._is_under_way or self._executor.waits(self._run):
                self._executor.cancel(run_id)
                return
        self._ended = Outcome(status=RunStatus.CANCELLED)

    async def give_up(self, status: str, error: str) -> None:
        await self._leave_line()
        if self._executor is not None and self._is_under_way:
            await self._executor.give_up(status, error)
        else:
            self._ended = Outcome(status=status, error=error, by_force=True)

    async def abandon(self) -> None:
        await self._leave_line()
        if self._executor is not None and self._is_under_way:
            await self._executor.abandon()

    @property
    def _is_under_way(self) -> bool:
        return self._executor is not None and self._run is not None and self._executor.current is self._run

    async def _leave_line(self) -> None:
        """Not wait in line any more: taken back, or, if it is too late for that, under way in a moment."""
        if self._executor is not None and self._run is not None:
            await self._executor.leave_line(self._run)

    def _leave(self) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            self._pool.give_back(executor)
