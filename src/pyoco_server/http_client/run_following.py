"""What is known of a run that somebody waits for, however its snapshots come."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from pyoco_server.http_client.call_types import Request, Stream
from pyoco_server.http_client.response_types import Run
from pyoco_server.http_client.run_calls import get_run, watch_run
from pyoco_server.records.models import TERMINAL


class RunFollowing:
    """The newest snapshot of a run, and until when it is waited for."""

    def __init__(self, run_id: str, timeout_sec: float | None, include: Sequence[str]) -> None:
        self._run_id = run_id
        self._include = include
        self._timeout_sec = timeout_sec
        self._newest: Run | None = None
        self.deadline = None if timeout_sec is None else time.monotonic() + timeout_sec

    def stream(self) -> Stream[Run]:
        """Its snapshots as they come, for as long as it is waited for."""
        return replace(watch_run(self._run_id, self._include), replaceable=True, deadline=self.deadline)

    def poll(self) -> Request[Run]:
        """Its newest snapshot: for a gateway, or a proxy before it, that has no streams."""
        return get_run(self._run_id, self._include)

    @property
    def ended(self) -> bool:
        return self._newest is not None and self._newest["status"] in TERMINAL

    def is_news(self, run: Run) -> bool:
        """Whether more has changed than the run's signs of life."""
        earlier, self._newest = self._newest, run
        return earlier is None or _state(run) != _state(earlier)

    def too_late(self) -> TimeoutError:
        status = "unknown" if self._newest is None else self._newest["status"]
        return TimeoutError(f"run {self._run_id} is still {status} after {self._timeout_sec:g} s; it goes on")


def _state(run: Run) -> tuple[object, ...]:
    return (
        run["status"],
        run.get("tasks"),
        run.get("attempt"),
        run.get("worker_id"),
        run.get("open_waits"),
    )
