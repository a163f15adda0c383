"""How long the tasks of a run take, as somebody sees who looks on: their records come with the run's end."""

import time
from collections.abc import Mapping
from typing import Any

from pyoco_server.http_client.response_types import Run
from pyoco_server.records.models import TaskStatus


class TaskClocks:
    """Hears of each snapshot; a clock runs from where a task is first seen running to where it is not."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}
        self._took: dict[str, float] = {}
        self._records: Mapping[str, Mapping[str, Any]] = {}

    def look_at(self, run: Run) -> None:
        now = time.monotonic()
        self._records = run.get("task_records") or {}
        for name, state in run["tasks"].items():
            if state == TaskStatus.RUNNING:
                self._began.setdefault(name, now)
            elif name in self._began:
                self._took.setdefault(name, now - self._began[name])

    def seconds(self, name: str) -> float | None:
        """Its time so far or in all; None when it has not begun, or nobody saw it."""
        recorded: float | None = self._records.get(name, {}).get("duration_ms")
        if recorded is not None:
            return recorded / 1000
        if name in self._took:
            return self._took[name]
        return time.monotonic() - self._began[name] if name in self._began else None
