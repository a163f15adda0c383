"""The tasks of a flow without loops, each begun when its turn has come.

The rules are the engine's own: a task waits for all tasks before it, or for the first one that succeeds
(`trigger_policy`); a failure stops the flow, or only what follows (`fail_policy`). Unlike the engine's, this
scheduler lets other branches go on when a task waits for a person, looks only at tasks whose turn may have
come, and tells what follows a task that was skipped in one order, where the engine's depends on chance.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum, auto
from queue import SimpleQueue

from pyoco.core.models import Flow, RunContext, RunStatus, Task, TaskState

from pyoco_server.human.asking import HumanInputRequired
from pyoco_server.worker.engine.flow_order import in_order

# As many as the engine's.
_THREADS = 8


class _Turn(Enum):
    NOT_YET = auto()
    NOW = auto()
    # What it needs has failed.
    NEVER = auto()


class TaskGraph:
    """One way through the graph, on the calling thread and a pool of others."""

    def __init__(
        self,
        flow: Flow,
        run: RunContext,
        *,
        execute: Callable[[Task], None],
        give_up: Callable[[set[str]], None],
    ) -> None:
        self._run = run
        self._execute = execute
        # Told the tasks that wait for an answer which nothing depends on any more.
        self._give_up = give_up
        by_name = {task.name: task for task in flow.tasks}
        self._place = {by_name[name]: place for place, name in enumerate(in_order(flow))}
        self._running: dict[Future[None], Task] = {}
        self._ended: SimpleQueue[Future[None]] = SimpleQueue()
        self._begun: set[Task] = set()
        self._done: set[Task] = set()
        self._failed: set[Task] = set()
        self._waiting: set[Task] = set()

    def run(self) -> None:
        """Run it to its end.

        HumanInputRequired when somebody has to answer first; what a task raised, if that stops the flow.
        """
        with ThreadPoolExecutor(max_workers=_THREADS) as pool:
            self._begin(pool, self._place)
            while self._running:
                future = self._ended.get()
                try:
                    followers = self._take(future, self._running.pop(future))
                except BaseException:
                    self._run.status = RunStatus.FAILED
                    self._call_off()
                    raise
                self._begin(pool, followers)
        if self._run.status is RunStatus.RUNNING:
            self._conclude()
        else:
            self._mark_cancelled(task for task in self._place if task not in self._begun)
            self._run.status = RunStatus.CANCELLED

    def _begin(self, pool: ThreadPoolExecutor, candidates: Iterable[Task]) -> None:
        """Begin those of them whose turn it is; what follows one that never can fails with it."""
        if self._run.status is not RunStatus.RUNNING:
            self._call_off()
            return
        looked_at = list(candidates)
        for task in looked_at:
            if task in self._begun or task in self._failed:
                continue
            turn = self._turn(task)
            if turn is _Turn.NOW:
                self._begun.add(task)
                future = pool.submit(self._execute, task)
                self._running[future] = task
                future.add_done_callback(self._ended.put)
            elif turn is _Turn.NEVER:
                looked_at += self._followers_of_failed(task)

    def _turn(self, task: Task) -> _Turn:
        before: set[Task] = task.dependencies
        if task.trigger_policy == "ANY" and before:
            if before & self._done:
                return _Turn.NOW
            return _Turn.NEVER if before <= self._failed else _Turn.NOT_YET
        for failed in before & self._failed:
            if "isolate" in (task.fail_policy, failed.fail_policy):
                return _Turn.NEVER
        return _Turn.NOW if before <= self._done else _Turn.NOT_YET

    def _take(self, future: "Future[None]", task: Task) -> list[Task]:
        """Learn how a task ended; those whose turn may have come by that."""
        if future.cancelled():
            self._mark_cancelled([task])
            return []
        error = future.exception()
        if error is None:
            self._done.add(task)
            return self._followers(task)
        if isinstance(error, HumanInputRequired):
            self._waiting.add(task)
            return []
        if isinstance(error, Exception) and task.fail_policy == "isolate":
            return self._followers_of_failed(task)
        raise error

    def _followers_of_failed(self, task: Task) -> list[Task]:
        self._failed.add(task)
        self._run.tasks[task.name] = TaskState.FAILED
        return self._followers(task)

    def _followers(self, task: Task) -> list[Task]:
        return sorted((each for each in task.dependents if each in self._place), key=self._place.__getitem__)

    def _call_off(self) -> None:
        """What waits for a thread is not begun any more."""
        for future in self._running:
            future.cancel()

    def _conclude(self) -> None:
        """Nothing can run any more: it is over, or people have to answer, or it never can be over."""
        left = self._place.keys() - self._done - self._failed
        unwanted = self._unwanted(left)
        self._give_up({task.name for task in self._waiting & unwanted})
        if self._waiting - unwanted:
            raise HumanInputRequired
        if left - unwanted:
            self._run.status = RunStatus.FAILED
            raise RuntimeError("Deadlock or cycle detected in workflow")
        self._mark_cancelled(unwanted)
        self._run.status = RunStatus.COMPLETED

    def _unwanted(self, left: set[Task]) -> set[Task]:
        """Those that wait for an answer, and those behind them, of which nothing comes any more.

        They were to trigger a task that another one has triggered meanwhile.
        """
        unwanted: set[Task] = set()
        behind = list(self._waiting)
        while behind:
            task = behind.pop()
            if task in left and task not in unwanted:
                unwanted.add(task)
                behind += self._followers(task)
        while matter := [task for task in unwanted if self._matters(task, left - unwanted)]:
            unwanted.difference_update(matter)
        return unwanted

    def _matters(self, task: Task, wanted: set[Task]) -> bool:
        """Whether nothing follows it, which is what the flow is for, or something does that has not begun."""
        followers = self._followers(task)
        return not followers or any(each in wanted and each not in self._begun for each in followers)

    def _mark_cancelled(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            self._run.tasks[task.name] = TaskState.CANCELLED
            self._run.ensure_task_record(task.name).state = TaskState.CANCELLED
