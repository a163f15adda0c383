"""The time limits of tasks: one that takes longer than its `timeout_sec` is reported, whatever it does."""

import threading
from collections.abc import Callable

from pyoco_server.worker.task_calls import TaskCall


class TaskLimits:
    """A timer for each task that has a limit. The limit holds for all tries of a task together."""

    def __init__(self, on_timeout: Callable[[TaskCall], None]) -> None:
        self._on_timeout = on_timeout
        self._timers: dict[str, threading.Timer] = {}

    def began(self, call: TaskCall) -> None:
        limit = call.task.timeout_sec
        if limit and call.key not in self._timers:
            timer = threading.Timer(limit, self._on_timeout, [call])
            timer.daemon = True
            self._timers[call.key] = timer
            timer.start()

    def ended(self, call: TaskCall, *, final: bool) -> None:
        timer = self._timers.get(call.key)
        if final and timer is not None:
            timer.cancel()

    def close(self) -> None:
        """Have no timer left: a thread that outlived its run would spoil the executor."""
        for timer in self._timers.values():
            timer.cancel()
            timer.join()
