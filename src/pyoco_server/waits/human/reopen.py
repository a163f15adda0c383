"""Retrying a run that failed because of unanswered waits: they are reopened, completed tasks stay done.

The run is written first and its waits after it; a missing one is created by whoever finds it missing. In the
other order, the waits could be closed because their run has ended.
"""

import logging
import time
from collections.abc import Collection, Sequence
from typing import Any, Final

from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict, read_back
from pyoco_server.broker.stores.runs.dead_letters import DeadLetters
from pyoco_server.broker.stores.runs.run_store import RunStore, StoredRun
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.errors import NatsUnavailable, WaitConflict
from pyoco_server.records.runs.run_models import UNANSWERED, Reason, RunSnapshot, RunStatus, TaskStatus
from pyoco_server.records.waits.wait_models import Actor, WaitRecord, WaitState
from pyoco_server.runs.bulk.letter_operations import forget_failure
from pyoco_server.runs.lifecycle.compaction import compact_run_snapshot
from pyoco_server.runs.lifecycle.job_signatures import signatures_of
from pyoco_server.runs.lifecycle.tenancy import Caller, find_run
from pyoco_server.runs.lifecycle.waiting_state import parked_snapshot
from pyoco_server.waits.continuation import Continuations, awaited_by
from pyoco_server.waits.wait_transitions import (
    RUN_ENDED,
    deadline_again,
    ended_unanswered,
    latest_waits,
    next_wait_id,
    reopened,
)

log = logging.getLogger(__name__)

# The status of a task that has asked and not continued, after its run has failed. PENDING: it was answered.
_ENDED_WAITING: Final = (TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.PENDING)


async def retry_run(connection: Connection, run_id: str, caller: Caller, actor: Actor) -> RunSnapshot:
    """The run, parked again; WaitConflict if it did not fail with an unanswered wait, or UnverifiedRun.

    Idempotent: a run that was retried, and has not failed like that since, is returned as it is.
    """
    store, waits, continuations = RunStore(connection), WaitStore(connection), Continuations(connection)
    room = min(connection.config.max_run_snapshot_bytes, connection.max_record_bytes)
    while True:
        stored = await find_run(store, run_id, caller)
        if not _failed_unanswered(stored.snapshot):
            return await _retried_earlier(connection, stored.snapshot, actor)
        failed = await signatures_of(connection).verified(stored)
        await continuations.close_waits(run_id)
        asked = [wait.record for wait in await waits.of_run_from_leader(run_id)]
        if not any(map(_is_unanswered, latest_waits(asked))):
            await _require_change(store, stored)
            continue
        again = _parked_again(failed, asked)
        try:
            await store.replace(compact_run_snapshot(again, room), revision=stored.revision)
        except RevisionConflict:
            continue
        except NatsUnavailable as failure:
            found = (await read_back(find_run(store, run_id, caller), failure)).snapshot
            if found.generation < again.generation:
                raise
            if _failed_unanswered(found):
                # It was retried, and its waits have expired again meanwhile.
                return found
            again = found
        await _follow_up(connection, stored.snapshot, again, asked, actor)
        return again


async def _require_change(store: RunStore, failed: StoredRun) -> None:
    """WaitConflict, unless another request has changed the run since, and has reopened its waits."""
    now = await store.get_from_leader(failed.snapshot.run_id)
    if now is not None and now.revision == failed.revision:
        raise WaitConflict("invalid_state", "the waits of this run are gone; rerun it instead")


async def _retried_earlier(connection: Connection, snapshot: RunSnapshot, actor: Actor) -> RunSnapshot:
    """Complete an earlier retry that may have been interrupted; WaitConflict if there was none."""
    asked = [wait.record for wait in await WaitStore(connection).of_run_from_leader(snapshot.run_id)]
    if not _was_retried(snapshot, asked):
        raise _refusal(snapshot)
    if not snapshot.status.parked:
        # It has continued, so nothing is left to do.
        return snapshot
    failed_at = max(wait.decided_at or 0.0 for wait in asked if ended_unanswered(wait))
    failed = structs.replace(snapshot, reason=Reason.HUMAN_TIMEOUT, end_time=failed_at)
    await _follow_up(connection, failed, snapshot, asked, actor)
    return snapshot


async def _follow_up(
    connection: Connection,
    failed: RunSnapshot,
    again: RunSnapshot,
    asked: Sequence[WaitRecord],
    actor: Actor,
) -> None:
    """Best effort: the run is parked already. A branch with an answer continues at once."""
    continuations = Continuations(connection)
    known = {wait.wait_id for wait in asked}
    new = [wait for wait in awaited_by(again) if wait.wait_id not in known]
    try:
        await continuations.reopen_waits(again, new, by=actor)
        await continuations.continue_run(failed.run_id)
        await forget_failure(DeadLetters(connection), failed)
    except NatsUnavailable as error:
        extra = {"run_id": failed.run_id}
        log.warning("the maintenance of waits completes a retry: %s", error, extra=extra)


def _failed_unanswered(snapshot: RunSnapshot) -> bool:
    return snapshot.status is RunStatus.FAILED and snapshot.reason in UNANSWERED


def _was_retried(snapshot: RunSnapshot, waits: Sequence[WaitRecord]) -> bool:
    """Whether an unanswered wait of the run was reopened."""
    asked = {wait.wait_id for wait in waits} | {wait.wait_id for wait in snapshot.open_waits or []}
    again = any(ended_unanswered(wait) and next_wait_id(wait) in asked for wait in waits)
    return again and not _failed_unanswered(snapshot)


def _refusal(snapshot: RunSnapshot) -> WaitConflict:
    became = f"{snapshot.status} ({snapshot.reason})" if snapshot.reason else str(snapshot.status)
    return WaitConflict(
        "invalid_state",
        f"only a run that failed with human_timeout or human_withdrawn is retried; this one is {became}",
    )


def _parked_again(snapshot: RunSnapshot, waits: list[WaitRecord]) -> RunSnapshot:
    now = time.time()
    last = latest_waits(waits)
    again = [
        reopened(wait, at=now, deadline_at=deadline_again(wait, at=now))
        for wait in last
        if _is_unanswered(wait)
    ]
    again += _answered_but_unused(snapshot, last, {wait.node for wait in again})
    asking = {wait.task for wait in again}
    tasks = {
        name: TaskStatus.WAITING if name in asking and state in _ENDED_WAITING else state
        for name, state in snapshot.tasks.items()
    }
    # The time between its end and the retry does not count against its limit.
    idle_sec = max(0.0, now - snapshot.end_time) if snapshot.end_time else 0.0
    cleared: dict[str, Any] = {
        "end_time": None,
        "reason": None,
        "error": None,
        "updated_at": now,
        "waited_sec": (snapshot.waited_sec or 0.0) + idle_sec,
    }
    return structs.replace(parked_snapshot(snapshot, again, tasks), waiting_since=now, **cleared)


def _answered_but_unused(
    snapshot: RunSnapshot, last: Sequence[WaitRecord], asking: Collection[str]
) -> list[WaitRecord]:
    """Answered waits whose task had not continued when the run failed because of another wait.

    The run waits for them too, so that their tasks continue. A task that asks again reads them by itself.
    """
    return [
        wait
        for wait in last
        if wait.resolved and wait.node not in asking and snapshot.tasks.get(wait.task) in _ENDED_WAITING
    ]


def _is_unanswered(wait: WaitRecord) -> bool:
    """Whether it expired or was withdrawn, or was closed because another one was."""
    was_closed = wait.state is WaitState.CANCELLED and wait.note == RUN_ENDED
    return ended_unanswered(wait) or was_closed
