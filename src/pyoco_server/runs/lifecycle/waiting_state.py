"""A run that waits for people, as its snapshot tells it.

It has no owner, no message in the queue and no slot; a job of its generation makes it run again.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, structs

from pyoco_server.records.models import OpenWait, RunSnapshot, RunStatus, TaskStatus, encode
from pyoco_server.records.wait_models import WaitRecord, WaitState

_SHOWN_CHARS: Final = 300


def waiting(
    snapshot: RunSnapshot, waits: Sequence[WaitRecord], tasks: Mapping[str, TaskStatus]
) -> RunSnapshot:
    """The snapshot of a run that begins to wait for these."""
    now = time.time()
    # One that was answered meanwhile is waited for as well, until the run goes on with it.
    first = min(waits, key=lambda wait: (wait.state is not WaitState.OPEN, wait.created_at))
    return structs.replace(
        snapshot,
        status=RunStatus.WAITING_HUMAN,
        generation=snapshot.generation + 1,
        delivery=None,
        worker_id=None,
        tasks=dict(tasks),
        waiting_since=now,
        heartbeat_at=now,
        open_waits=open_waits(waits),
        # Of the first one all of it, as far as there is room (compaction.py).
        wait_message=first.message,
        wait_schema=None if first.schema is None else encode(first.schema).decode(),
        wait_deadline_at=first.deadline_at,
    )


def open_waits(waits: Sequence[WaitRecord]) -> list[OpenWait]:
    """Every one of them, since the run goes on by their ids; of what they ask the beginning."""
    return [
        OpenWait(
            wait_id=wait.wait_id,
            task=wait.task,
            name=wait.name,
            message=wait.message[:_SHOWN_CHARS],
            deadline_at=wait.deadline_at,
        )
        for wait in waits
    ]


def not_waiting(snapshot: RunSnapshot) -> dict[str, Any]:
    """What changes in the snapshot of a run that does not wait any more: it goes on, or is over."""
    if snapshot.open_waits is UNSET:
        return {}
    changes: dict[str, Any] = {
        "open_waits": [],
        "wait_message": None,
        "wait_schema": None,
        "wait_deadline_at": None,
        "waiting_since": None,
    }
    if snapshot.waiting_since:
        waited_sec = max(0.0, time.time() - snapshot.waiting_since)
        changes["waited_sec"] = (snapshot.waited_sec or 0.0) + waited_sec
    return changes
