"""What a run's snapshot becomes when its worker leaves it: ended, or waiting for people."""

import time
from collections.abc import Sequence
from typing import Final

from msgspec import structs

from pyoco_server.records.models import RunSnapshot, RunStatus, TaskStatus
from pyoco_server.records.wait_models import WaitRecord
from pyoco_server.runs.lifecycle.waiting_state import not_waiting, waiting
from pyoco_server.worker.ipc.protocol import Outcome

# What the executor says of a task when the run is over: nothing waits in it any more.
_AT_THE_END: Final = {
    str(state): TaskStatus.CANCELLED if state is TaskStatus.WAITING else state for state in TaskStatus
}
_STATUS: Final = {str(status): status for status in RunStatus}


def left(snapshot: RunSnapshot, outcome: Outcome, open_waits: Sequence[WaitRecord]) -> RunSnapshot:
    """What the run is when its worker leaves it. Who cancelled it does not want it to wait."""
    if outcome.status != RunStatus.WAITING_HUMAN:
        return ended(snapshot, outcome)
    if snapshot.cancel_requested_at is not None:
        return ended(snapshot, structs.replace(outcome, status=RunStatus.CANCELLED, tasks={}))
    tasks = {name: TaskStatus(state) for name, state in outcome.tasks.items()}
    left = waiting(snapshot, open_waits, tasks)
    return structs.replace(
        left, task_records=outcome.raw_records(), task_records_truncated=outcome.records_cut
    )


def ended(snapshot: RunSnapshot, outcome: Outcome) -> RunSnapshot:
    now = time.time()
    status = _STATUS[outcome.status]
    told = {name: _AT_THE_END[state] for name, state in outcome.tasks.items()}
    return structs.replace(
        snapshot,
        status=status,
        tasks=told or {name: state.when_run_ends(status) for name, state in snapshot.tasks.items()},
        # Who has crashed tells no records: what it told on the way is better than nothing.
        task_records=outcome.raw_records() or snapshot.task_records,
        task_records_truncated=outcome.records_cut,
        reason=outcome.reason,
        error=outcome.error,
        heartbeat_at=now,
        end_time=now,
        **not_waiting(snapshot),
    )
