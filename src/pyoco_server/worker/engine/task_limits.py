"""The time limits of tasks: one that takes longer than its `timeout_sec` is reported, whatever it does."""

import threading
from collections.abc import Callable

from pyoco_server.worker.engine.task_calls import TaskCall


class TaskLimits:
    """A timer for each executing task that has a limit; the limit holds for all of its tries together."""

    def __init__(self, on_timeout: Callable[[TaskCall], None]) -> None:
        self._on_timeout = on_timeout
        self._timers: dict[str, threading.Timer] = {}

    def began(self, call: TaskCall) -> None:
        if call.timeout_sec:
            timer = threading.Timer(call.timeout_sec, self._on_timeout, [call])
            timer.daemon = True
            self._timers[call.key] = timer
            timer.start()

    def ended(self, call: TaskCall) -> None:
        timer = self._timers.pop(call.key, None)
        if timer is not None:
            timer.cancel()
            # A thread that outlived its run would spoil the executor.
            if timer is not threading.current_thread():
                timer.join()
