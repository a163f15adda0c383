"""The time limits of tasks, as the worker enforces them: a hung executor process is killed.

The executor itself reports a task that exceeds its limit. It cannot while a task holds the GIL, for example:
then it is killed, with its run.
"""

import asyncio
from typing import Protocol

from pyoco_server.worker.ipc.protocol import LimitStarted

# How much later than the limit an executor that has reported nothing is killed.
_UNRESPONSIVE_SEC = 1.0


class KillableExecutor(Protocol):
    def read_waiting(self) -> bool:
        """Process messages that have not been read yet; returns whether there were any."""

    def kill_group(self) -> None: ...


class TaskTimeLimits:
    """The limits of the tasks that an executor process executes now."""

    def __init__(self, executor: KillableExecutor) -> None:
        self._loop = asyncio.get_running_loop()
        self._executor = executor
        self._timers: dict[str, tuple[LimitStarted, asyncio.TimerHandle]] = {}
        # The task for which the executor was killed.
        self.exceeded: LimitStarted | None = None

    def begin_run(self) -> None:
        self.exceeded = None

    def start(self, task: LimitStarted) -> None:
        self._set_timer(task, task.limit_sec + _UNRESPONSIVE_SEC)

    def end(self, key: str) -> None:
        _, timer = self._timers.pop(key, (None, None))
        if timer is not None:
            timer.cancel()

    def end_all(self) -> None:
        for key in list(self._timers):
            self.end(key)

    def _set_timer(self, task: LimitStarted, after_sec: float) -> None:
        self._timers[task.key] = task, self._loop.call_later(after_sec, self._on_time, task)

    def _on_time(self, task: LimitStarted) -> None:
        responsive = self._executor.read_waiting()
        limit, _ = self._timers.get(task.key, (None, None))
        if limit is not task:
            # It has ended. A task of the next run may have the same key.
            return
        if responsive:
            # It may not have been able to send everything while this process was paused.
            self._set_timer(task, _UNRESPONSIVE_SEC)
        else:
            self.exceeded = task
            self._executor.kill_group()
