"""How often each task of a run was called: by loops, and again after a failure."""

import time
from collections import deque
from typing import Any

from msgspec import Struct

from pyoco_server.worker.engine.json_values import message_of

# Of each task; a loop may have any number of turns.
_LATEST = 50
# While the run lasts, since each of its snapshots has them.
_LATEST_IN_BRIEF = 10
_ERROR_CHARS = 300


class Try(Struct, omit_defaults=True):
    started_at: float
    ended_at: float
    error: str | None = None


class TaskTries:
    """The calls of one run's tasks. Each task's are told by one thread at a time."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._latest: dict[str, deque[Try]] = {}

    def began(self, task: str) -> float:
        """When, which is what `ended` wants to know."""
        self._counts[task] = self._counts.get(task, 0) + 1
        return time.time()

    def ended(self, task: str, started_at: float, error: BaseException | None = None) -> None:
        latest = self._latest.get(task)
        if latest is None:
            latest = self._latest[task] = deque(maxlen=_LATEST)
        text = None if error is None else message_of(error)[:_ERROR_CHARS]
        latest.append(Try(started_at, time.time(), text))

    def count(self, task: str) -> int:
        return self._counts.get(task, 0)

    def ended_so_far(self, task: str) -> list[Try]:
        """The latest calls of a task that was called again; nothing of a first call, as most are."""
        return list(self._latest.get(task, ()))[-_LATEST_IN_BRIEF:] if self.count(task) > 1 else []

    def told(self, task: str) -> dict[str, Any]:
        """What a task's record says; nothing of a single call, which the record tells by itself."""
        count = self.count(task)
        return {"calls": count, "latest_calls": list(self._latest.get(task, ()))} if count > 1 else {}
