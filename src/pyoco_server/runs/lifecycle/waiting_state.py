"""The snapshot of a run with open waits.

It has no owner, no message in the queue and no slot; a job of its generation continues it.
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
    now = time.time()
    # A wait that was answered meanwhile counts until the run continues.
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
        # In full, unless compaction cuts them.
        wait_message=first.message,
        wait_schema=None if first.schema is None else encode(first.schema).decode(),
        wait_deadline_at=first.deadline_at,
    )


def open_waits(waits: Sequence[WaitRecord]) -> list[OpenWait]:
    """All of them, because their ids continue the run; with the beginning of each message."""
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
    """The changes to the snapshot of a run that continues or ends."""
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
