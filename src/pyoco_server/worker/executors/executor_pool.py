"""The executor processes of a worker, and their assignment to its sessions.

A session holds a lease: an executor is reserved for it before it pulls a delivery, and released when the
outcome of its run is known. (It is not a lease of gateways, broker/jetstream/lease.py.) While runs are short,
there are more leases than executors: these runs are queued after others. A run that cannot be queued, or that
is recalled because the one before it is long, was not started; its session returns it to the work queue,
where any worker may take it. When a process is replaced instead of used again is in renewable_executor.py.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple

from pyoco_server.records.runs.run_models import RunStatus
from pyoco_server.worker.executors.executor import RunEvents
from pyoco_server.worker.executors.executor_handle import Execution, ExecutorHandle
from pyoco_server.worker.executors.renewable_executor import RenewableExecutor
from pyoco_server.worker.ipc.protocol import Cancel, Outcome, Progress, Run

# Sessions for each executor: those that claim a run, have one queued, or store an end.
_MAX_SESSIONS_PER_EXECUTOR = 20
# A worker takes no more than this part of what all workers of a tag may hold (but never fewer sessions than
# the minimum): the runs of a worker that dies have no owner until AckWait is over.
_MIN_SESSIONS = 6
_ALLOWANCE_DIVISOR = 4
# A shorter wait costs less than waking up another executor.
_SHORT_WAIT_SEC = 0.001

# An executor, and the execution if the run is queued there (None: the executor is idle).
Assignment = tuple[RenewableExecutor, Execution | None]


class _Queue(NamedTuple):
    """The queue of an executor, and how long a run would wait there."""

    wait_sec: float
    executor: RenewableExecutor
    child: ExecutorHandle


class ExecutorPool:
    def __init__(self, executors: Sequence[RenewableExecutor], *, allowance: int) -> None:
        """`allowance` is how many jobs of a tag its workers may hold (`consumer_max_ack_pending`)."""
        self._executors = executors
        self._leases_at = dict.fromkeys(executors, 0)
        # The last one that was used is the warmest, and is used next.
        self._idle = list(executors)
        # Leases without an executor yet.
        self._reserved = 0
        self._speculative = 0
        self._sessions = 0
        self._max_sessions = max_sessions(len(executors), allowance)
        self._queueing = True
        self._check_scheduled = False
        self._waiting: deque[asyncio.Future[None]] = deque()
        # Called when there may be capacity for a queued run.
        self.on_capacity: Callable[[], None] = lambda: None

    @property
    def size(self) -> int:
        return len(self._executors)

    async def reserve(self) -> "ExecutorLease":
        while len(self._idle) <= self._reserved + self._speculative or self._sessions >= self._max_sessions:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
        self._sessions += 1
        self._reserved += 1
        self._wake_next()
        return ExecutorLease(self, reserved=True)

    def speculate(self) -> "ExecutorLease":
        """A lease for a run that may be queued; there may be no capacity when the run gets there."""
        self._sessions += 1
        self._speculative += 1
        return ExecutorLease(self, reserved=False)

    @property
    def has_capacity(self) -> bool:
        """Whether one more run can be queued, or gets an executor that is not reserved."""
        # Read several times for each run: the first free place decides.
        if not self._queueing or self._sessions >= self._max_sessions:
            return False
        places = len(self._idle) - self._reserved - self._speculative
        for executor in self._executors:
            if places > 0:
                return True
            places += executor.capacity
        return places > 0

    def may_queue(self, tenant: str | None) -> bool:
        """Whether a run of this tenant can be queued, or gets an executor that is not reserved."""
        if len(self._idle) > self._reserved + self._speculative:
            return True
        return any(executor.capacity > 0 and executor.may_run(tenant) for executor in self._executors)

    @property
    def all_long_running(self) -> bool:
        if self._idle or not self._queueing:
            return False
        return all(executor.is_long_running for executor in self._executors)

    def stop_queueing(self) -> None:
        """Recall queued runs, so that other workers can take them."""
        self._queueing = False
        for executor in self._executors:
            executor.recall_queued()

    def assign(self, run: Run, events: RunEvents, *, reserved: bool, may_queue: bool) -> Assignment | None:
        """An executor for the run, which is queued there or idle; None if all are busy with long runs."""
        tenant = run.tenant_id
        if reserved:
            self._reserved -= 1
            if not may_queue or any(executor.may_run(tenant) for executor in self._idle):
                return self._take_idle(tenant)
        else:
            self._speculative -= 1
        queues = [
            _Queue(executor.child.expected_wait_sec, executor, executor.child)
            for executor in self._executors
            if executor.capacity > 0 and executor.child is not None and executor.may_run(tenant)
        ]
        short = [queue for queue in queues if queue.wait_sec < _SHORT_WAIT_SEC]
        has_idle = reserved or len(self._idle) > self._reserved
        if short:
            # The busiest of them, which saves waking up another.
            chosen = max(short, key=lambda queue: queue.wait_sec)
        elif has_idle and not (reserved and queues):
            return self._take_idle(tenant)
        elif queues:
            chosen = min(queues, key=lambda queue: queue.wait_sec)
        else:
            return None
        execution = chosen.child.enqueue(run, events)
        if execution is not None:
            self._leases_at[chosen.executor] += 1
            return chosen.executor, execution
        # It is too large to be queued.
        return self._take_idle(tenant) if has_idle else None

    def _take_idle(self, tenant: str | None) -> Assignment:
        """The last used one with runs of this tenant, else an unused one, else the one idle for longest."""
        fresh: RenewableExecutor | None = None
        for executor in reversed(self._idle):
            if executor.may_run(tenant):
                if not executor.is_fresh:
                    break
                fresh = fresh or executor
        else:
            executor = fresh or self._idle[0]
        self._idle.remove(executor)
        self._leases_at[executor] += 1
        return executor, None

    def release_unused(self, *, reserved: bool) -> None:
        """A lease ends that was never assigned an executor."""
        if reserved:
            self._reserved -= 1
        else:
            self._speculative -= 1

    def release(self, executor: RenewableExecutor) -> None:
        self._leases_at[executor] -= 1
        if not self._leases_at[executor]:
            self._idle.append(executor)
            if self._queueing:
                executor.renew()
        self.schedule_check()

    def session_ended(self) -> None:
        self._sessions -= 1
        self.schedule_check()

    def schedule_check(self) -> None:
        """Look for waiting sessions and queued runs once, after all callbacks of this loop iteration."""
        if not self._check_scheduled:
            self._check_scheduled = True
            asyncio.get_running_loop().call_soon(self._check)

    def _check(self) -> None:
        self._check_scheduled = False
        self.on_capacity()
        self._wake_next()

    def _wake_next(self) -> None:
        while self._waiting and len(self._idle) > self._reserved + self._speculative:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return


def max_sessions(executors: int, allowance: int) -> int:
    """How many runs a worker may hold; an allowance of 0 or less means no limit."""
    most = _MAX_SESSIONS_PER_EXECUTOR * executors
    if allowance <= 0:
        return most
    return min(most, max(_MIN_SESSIONS * executors, allowance // _ALLOWANCE_DIVISOR))


class ExecutorLease:
    """One session's use of an executor: from when its run can be executed until the outcome is known."""

    __slots__ = (
        "_assigned",
        "_cancelled",
        "_child",
        "_end",
        "_execution",
        "_executor",
        "_pool",
        "_reserved",
        "code_version",
        "may_queue",
    )

    def __init__(self, pool: ExecutorPool, *, reserved: bool) -> None:
        self._pool = pool
        self._reserved = reserved
        # Whether the run may be queued after another one, from where it may have to return to the work queue.
        self.may_queue = not reserved
        self._assigned = False
        self._executor: RenewableExecutor | None = None
        self._child: ExecutorHandle | None = None
        # None while the run has no process: before its start, or while a process is replaced.
        self._execution: Execution | None = None
        self._cancelled = False
        # The outcome of a run that was cancelled or ended while no process had it.
        self._end: Outcome | None = None
        # Of the process that has or had the run last; None before there is one.
        self.code_version: str | None = None

    def __enter__(self) -> "ExecutorLease":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._assigned:
            self._pool.release_unused(reserved=self._reserved)
        self._release()
        self._pool.session_ended()

    async def start(self) -> None:
        if self._executor is not None:
            await self._executor.start()

    async def execute(self, run: Run, events: RunEvents) -> Outcome:
        if self._end is not None:
            return self._end
        execution: Execution | None = None
        if self._executor is None:
            self._assigned = True
            assignment = self._pool.assign(run, events, reserved=self._reserved, may_queue=self.may_queue)
            if assignment is None:
                return Outcome(status=RunStatus.RUNNING, not_started=True)
            self._executor, execution = assignment
            # Once the run is the current one, others may be queued after it.
            self._pool.schedule_check()
        outcome = await self._execute_at(self._executor, execution, run, events)
        if not outcome.must_continue:
            self._release()
        return outcome

    async def _execute_at(
        self, executor: RenewableExecutor, queued: Execution | None, run: Run, events: RunEvents
    ) -> Outcome:
        if queued is not None:
            assert executor.child is not None
            child, execution = executor.child, queued
        else:
            self._execution = None
            child = await executor.start_for(run.tenant_id)
            if self._end is not None:
                return self._end
            execution = child.begin(run, events)
            if self._cancelled:
                child.send(Cancel(run_id=run.run_id))
        self._child, self._execution = child, execution
        self.code_version = executor.ready.code_version
        return await child.outcome_of(execution)

    @property
    def is_current(self) -> bool:
        return self._child is not None and self._child.current is self._execution is not None

    def progress(self) -> Progress | None:
        return self._child.progress() if self._child is not None and self.is_current else None

    def cancel(self, run_id: str) -> None:
        # While a process is started for the run, the cancel is sent after it.
        self._cancelled = True
        is_starting = self._executor is not None and self._execution is None
        if not is_starting and not (self._child and self._execution and self._child.cancel(self._execution)):
            self._end = Outcome(status=RunStatus.CANCELLED)

    async def force_end(self, status: str, error: str) -> None:
        child, execution = self._child, self._execution
        if child is None or execution is None or not await child.force_end(execution, status, error):
            self._end = Outcome(status=status, error=error, forced=True)

    async def kill(self) -> None:
        child, execution = self._child, self._execution
        if child is not None and execution is not None and await child.recall_or_wait_current(execution):
            await child.kill()

    def _release(self) -> None:
        executor, self._executor = self._executor, None
        # The events of the execution refer to this lease: a cycle would be left to the garbage collector.
        self._child = self._execution = None
        if executor is not None:
            self._pool.release(executor)
