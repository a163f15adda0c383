"""Schedules the tasks of a flow without loops.

The rules are pyoco's: a task waits for all of its dependencies or for the first one that succeeds
(`trigger_policy`); a failure stops the flow or only what depends on the task (`fail_policy`). Unlike pyoco's
scheduler, this one continues other branches while a task waits, looks only at tasks that may have become
ready, and skips what depends on a skipped task in a fixed order.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum, auto
from queue import SimpleQueue

from pyoco.core.models import Flow, RunContext, RunStatus, Task, TaskState

from pyoco_server.runs.flow_yaml.flow_order import in_order
from pyoco_server.waits.wait_arguments import TaskSuspended
from pyoco_server.worker.engine.pyoco_adapter import DEADLOCK

# As many as pyoco's.
_THREADS = 8


class _Readiness(Enum):
    NOT_YET = auto()
    READY = auto()
    # What it needs has failed.
    NEVER = auto()


class GraphScheduler:
    """One pass through the graph, on the calling thread and a thread pool."""

    def __init__(
        self,
        flow: Flow,
        run: RunContext,
        *,
        execute: Callable[[Task], None],
        discard_waits: Callable[[set[str]], None],
    ) -> None:
        self._run = run
        self._execute = execute
        self._discard_waits = discard_waits
        by_name = {task.name: task for task in flow.tasks}
        self._position = {by_name[name]: position for position, name in enumerate(in_order(flow))}
        self._running: dict[Future[None], Task] = {}
        self._ended: SimpleQueue[Future[None]] = SimpleQueue()
        self._started: set[Task] = set()
        self._done: set[Task] = set()
        self._failed: set[Task] = set()
        self._waiting: set[Task] = set()

    def run(self) -> None:
        """Run the graph to its end.

        Raises TaskSuspended when tasks wait and nothing else can run, or the error that stops the flow.
        """
        with ThreadPoolExecutor(max_workers=_THREADS) as pool:
            self._start(pool, self._position)
            while self._running:
                future = self._ended.get()
                try:
                    candidates = self._on_end(future, self._running.pop(future))
                except BaseException:
                    self._run.status = RunStatus.FAILED
                    self._cancel_queued()
                    raise
                self._start(pool, candidates)
        if self._run.status is RunStatus.RUNNING:
            self._finish()
        else:
            mark_cancelled(self._run, (task for task in self._position if task not in self._started))
            self._run.status = RunStatus.CANCELLED

    def _start(self, pool: ThreadPoolExecutor, candidates: Iterable[Task]) -> None:
        """Start the tasks that are ready; fail those that never can be, and look at their dependents."""
        if self._run.status is not RunStatus.RUNNING:
            self._cancel_queued()
            return
        pending = list(candidates)
        for task in pending:
            if task in self._started or task in self._failed:
                continue
            readiness = self._readiness(task)
            if readiness is _Readiness.READY:
                self._started.add(task)
                future = pool.submit(self._execute, task)
                self._running[future] = task
                future.add_done_callback(self._ended.put)
            elif readiness is _Readiness.NEVER:
                pending += self._fail(task)

    def _readiness(self, task: Task) -> _Readiness:
        before: set[Task] = task.dependencies
        if task.trigger_policy == "ANY" and before:
            if before & self._done:
                return _Readiness.READY
            return _Readiness.NEVER if before <= self._failed else _Readiness.NOT_YET
        for failed in before & self._failed:
            if "isolate" in (task.fail_policy, failed.fail_policy):
                return _Readiness.NEVER
        return _Readiness.READY if before <= self._done else _Readiness.NOT_YET

    def _on_end(self, future: "Future[None]", task: Task) -> list[Task]:
        """Take the result of a task; return the tasks that it may have made ready."""
        if future.cancelled():
            mark_cancelled(self._run, [task])
            return []
        error = future.exception()
        if error is None:
            self._done.add(task)
            return self._dependents(task)
        if isinstance(error, TaskSuspended):
            self._waiting.add(task)
            return []
        if isinstance(error, Exception) and task.fail_policy == "isolate":
            return self._fail(task)
        raise error

    def _fail(self, task: Task) -> list[Task]:
        self._failed.add(task)
        self._run.tasks[task.name] = TaskState.FAILED
        return self._dependents(task)

    def _dependents(self, task: Task) -> list[Task]:
        known = (each for each in task.dependents if each in self._position)
        return sorted(known, key=self._position.__getitem__)

    def _cancel_queued(self) -> None:
        for future in self._running:
            future.cancel()

    def _finish(self) -> None:
        """Nothing can run: the flow has ended, waits, or is deadlocked."""
        left = self._position.keys() - self._done - self._failed
        unneeded = self._unneeded(left)
        self._discard_waits({task.name for task in self._waiting & unneeded})
        if self._waiting - unneeded:
            raise TaskSuspended
        if left - unneeded:
            self._run.status = RunStatus.FAILED
            raise RuntimeError(DEADLOCK)
        mark_cancelled(self._run, unneeded)
        self._run.status = RunStatus.COMPLETED

    def _unneeded(self, left: set[Task]) -> set[Task]:
        """Waiting tasks, and their dependents, that only lead to tasks which others have triggered."""
        unneeded: set[Task] = set()
        pending = list(self._waiting)
        while pending:
            task = pending.pop()
            if task in left and task not in unneeded:
                unneeded.add(task)
                pending += self._dependents(task)
        while needed := [task for task in unneeded if self._is_needed(task, left - unneeded)]:
            unneeded.difference_update(needed)
        return unneeded

    def _is_needed(self, task: Task, needed: set[Task]) -> bool:
        """Whether it ends the flow, or a needed task that has not started depends on it."""
        dependents = self._dependents(task)
        return not dependents or any(each in needed and each not in self._started for each in dependents)


def mark_cancelled(run: RunContext, tasks: Iterable[Task], *, ended_at: float | None = None) -> None:
    for task in tasks:
        run.tasks[task.name] = TaskState.CANCELLED
        record = run.ensure_task_record(task.name)
        record.state = TaskState.CANCELLED
        record.ended_at = record.ended_at or ended_at
