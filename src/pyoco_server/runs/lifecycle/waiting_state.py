"""The snapshot of a run with open waits, and of one whose wait was decided.

A waiting run has no owner, no message in the queue and no slot; a job of its generation continues it. With
that job in the queue it is PENDING, until a worker claims it.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, structs

from pyoco_server.records.runs.run_models import OpenWait, RunSnapshot, RunStatus, TaskStatus, encode
from pyoco_server.records.waits.wait_models import WaitRecord, WaitState

_SHOWN_CHARS: Final = 300


def parked_snapshot(
    snapshot: RunSnapshot, waits: Sequence[WaitRecord], tasks: Mapping[str, TaskStatus]
) -> RunSnapshot:
    """The run when it is parked."""
    now = time.time()
    return structs.replace(
        snapshot,
        status=parked_status(waits),
        generation=snapshot.generation + 1,
        delivery=None,
        worker_id=None,
        tasks=dict(tasks),
        waiting_since=now,
        heartbeat_at=now,
        # One that was answered meanwhile counts until the run is queued again.
        open_waits=open_waits(waits),
        **_shown_wait(waits),
    )


def parked_status(waits: Collection[WaitRecord]) -> RunStatus:
    """WAITING_HUMAN while a person is asked."""
    return RunStatus.WAITING_HUMAN if any(wait.is_human for wait in waits) else RunStatus.WAITING


def _shown_wait(waits: Sequence[WaitRecord]) -> dict[str, Any]:
    """The fields of the first open question, in full unless compaction cuts them; else of the next wait."""
    if not waits:
        return {"wait_message": None, "wait_schema": None, "wait_deadline_at": None}
    asked = [wait for wait in waits if wait.is_human]
    if not asked:
        first = min(waits, key=lambda wait: (wait.state is not WaitState.OPEN, wait.deadline_at))
        return {
            "wait_message": first.message,
            "wait_schema": None,
            "wait_deadline_at": first.shown_deadline,
        }
    first = min(asked, key=lambda wait: (wait.state is not WaitState.OPEN, wait.created_at))
    return {
        "wait_message": first.message,
        "wait_schema": None if first.schema is None else encode(first.schema).decode(),
        "wait_deadline_at": first.deadline_at,
    }


def open_waits(waits: Sequence[WaitRecord]) -> list[OpenWait]:
    """All of them, because their ids continue the run; with the beginning of each message."""
    return [
        OpenWait(
            wait_id=wait.wait_id,
            task=wait.task,
            name=wait.name,
            message=wait.message[:_SHOWN_CHARS],
            deadline_at=wait.shown_deadline,
            kind=wait.kind,
            topic=wait.topic,
            since=None if wait.is_human else wait.created_at,
            asked_again=wait.asked_again,
        )
        for wait in waits
    ]


def without_decided(
    snapshot: RunSnapshot, waits: Collection[WaitRecord], lost: Collection[str] = ()
) -> RunSnapshot:
    """The run after waits of it were decided: the other ones stay open, a waiting run is in the queue again.

    `lost` are the ids of waits that are not stored any more. The same snapshot when nothing has changed.
    """
    asked = snapshot.open_waits or []
    decided = {wait.wait_id for wait in waits if wait.state is not WaitState.OPEN} | set(lost)
    left = [each for each in asked if each.wait_id not in decided]
    if len(left) == len(asked):
        return snapshot
    now = time.time()
    changes: dict[str, Any] = {"open_waits": left, "updated_at": now}
    if snapshot.status.parked:
        changes = {
            **cleared_wait_fields(snapshot),
            **changes,
            "status": RunStatus.PENDING,
            "heartbeat_at": now,
        }
    if snapshot.delivery is None:
        ids = {each.wait_id for each in left}
        changes |= _shown_wait([wait for wait in waits if wait.wait_id in ids])
        asking = {each.task for each in left}
        changes["tasks"] = {
            name: TaskStatus.PENDING if state is TaskStatus.WAITING and name not in asking else state
            for name, state in snapshot.tasks.items()
        }
    return structs.replace(snapshot, **changes)


def queued_since(snapshot: RunSnapshot) -> float:
    """When the job of a PENDING run was published: at its submit, its start, or the decision of a wait."""
    if snapshot.generation or snapshot.start_at is not UNSET or snapshot.submitted_at is None:
        return snapshot.heartbeat_at
    return snapshot.submitted_at


def cleared_wait_fields(snapshot: RunSnapshot) -> dict[str, Any]:
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
