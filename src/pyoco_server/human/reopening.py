"""Asking again: a run that failed because nobody answered in time waits anew, with all that it has done.

The run is written first, and the waits that it names are stored after it: whoever finds one of them missing
makes the same one. So a run never waits for what somebody has closed because the run was over.
"""

import logging
import time
from collections.abc import Collection, Sequence
from typing import Any, Final

from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.jetstream.unacknowledged import look_again
from pyoco_server.broker.stores.dead_letters import DeadLetters
from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.broker.stores.wait_store import WaitStore
from pyoco_server.errors import NatsUnavailable, WaitConflict
from pyoco_server.human.continuation import Continuations, awaited_by
from pyoco_server.human.wait_transitions import (
    RUN_OVER,
    asked_again,
    failed_its_run,
    last_asked,
    next_arming_id,
)
from pyoco_server.records.models import Reason, RunSnapshot, RunStatus, TaskStatus
from pyoco_server.records.wait_models import Actor, WaitRecord, WaitState
from pyoco_server.runs.bulk.dead_letter_reading import forget_failure
from pyoco_server.runs.lifecycle.compaction import compact_run_snapshot
from pyoco_server.runs.lifecycle.run_lookup import find_run
from pyoco_server.runs.lifecycle.tenancy import Caller
from pyoco_server.runs.lifecycle.waiting_state import waiting

log = logging.getLogger(__name__)

# What becomes of a task that waits when its run fails for want of an answer.
_ENDED_WAITING: Final = (TaskStatus.FAILED, TaskStatus.CANCELLED)


async def retry_run(connection: Connection, run_id: str, caller: Caller, actor: Actor) -> RunSnapshot:
    """The run as it waits again; WaitConflict if it did not fail for want of an answer.

    Asking twice is asking once: a run that was retried, and has not failed like that since, is returned as it
    is.
    """
    store, waits, continuations = RunStore(connection), WaitStore(connection), Continuations(connection)
    room = min(connection.config.max_run_snapshot_bytes, connection.max_record_bytes)
    while True:
        stored = await find_run(store, run_id, caller)
        if not _failed_unanswered(stored.snapshot):
            return await _retried_before(connection, stored.snapshot, actor)
        # What is still open belongs to the time before.
        await continuations.close_waits(run_id)
        asked = [wait.record for wait in await waits.of_run_from_leader(run_id)]
        again = _waiting_again(stored.snapshot, asked)
        try:
            await store.replace(compact_run_snapshot(again, room), revision=stored.revision)
        except RevisionConflict:
            continue
        except NatsUnavailable as failure:
            found = (await look_again(find_run(store, run_id, caller), failure)).snapshot
            if not _was_retried(found, asked):
                raise
            again = found
        await _follow_up(connection, stored.snapshot, again, asked, actor)
        return again


async def _retried_before(connection: Connection, snapshot: RunSnapshot, actor: Actor) -> RunSnapshot:
    """The run as it is, if this is a repetition: whoever came first may have died half-way, or been unheard.

    WaitConflict if the run was never retried.
    """
    asked = [wait.record for wait in await WaitStore(connection).of_run_from_leader(snapshot.run_id)]
    if not _was_retried(snapshot, asked):
        raise _refusal(snapshot)
    if snapshot.status is not RunStatus.WAITING_HUMAN:
        # It went on, so nothing is left to be done; its dead letter may be far behind by now.
        return snapshot
    failed_at = max(wait.decided_at or 0.0 for wait in asked if failed_its_run(wait))
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
    """The run waits again, whatever becomes of this: a branch that has its answer goes on at once."""
    continuations = Continuations(connection)
    known = {wait.wait_id for wait in asked}
    new = [wait for wait in awaited_by(again) if wait.wait_id not in known]
    try:
        await continuations.ask_anew(again, new, by=actor)
        await continuations.continue_run(failed.run_id)
        await forget_failure(DeadLetters(connection), failed)
    except NatsUnavailable as error:
        log.warning(
            "what follows from a retry is left to the caretaker: %s", error, extra={"run_id": failed.run_id}
        )


def _failed_unanswered(snapshot: RunSnapshot) -> bool:
    return snapshot.status is RunStatus.FAILED and snapshot.reason == Reason.HUMAN_TIMEOUT


def _was_retried(snapshot: RunSnapshot, waits: Sequence[WaitRecord]) -> bool:
    """Whether the run goes on, or has gone on, because what nobody answered was asked again."""
    asked = {wait.wait_id for wait in waits} | {wait.wait_id for wait in snapshot.open_waits or []}
    again = any(failed_its_run(wait) and next_arming_id(wait) in asked for wait in waits)
    return again and not _failed_unanswered(snapshot)


def _refusal(snapshot: RunSnapshot) -> WaitConflict:
    became = f"{snapshot.status} ({snapshot.reason})" if snapshot.reason else str(snapshot.status)
    return WaitConflict(
        "invalid_state", f"only a run that failed with human_timeout is retried; this one is {became}"
    )


def _waiting_again(snapshot: RunSnapshot, waits: list[WaitRecord]) -> RunSnapshot:
    now = time.time()
    last = last_asked(waits)
    again = [
        asked_again(wait, at=now, deadline_at=now + wait.deadline_at - wait.created_at)
        for wait in last
        if _is_unanswered(wait)
    ]
    if not again:
        raise WaitConflict("invalid_state", "the waits of this run are gone; rerun it instead")
    again += _answered_in_vain(snapshot, last, {wait.node for wait in again})
    asking = {wait.task for wait in again}
    tasks = {
        name: TaskStatus.WAITING if name in asking and state in _ENDED_WAITING else state
        for name, state in snapshot.tasks.items()
    }
    # The time that it was over is nobody's, and does not count against its limit.
    idle_sec = max(0.0, now - snapshot.end_time) if snapshot.end_time else 0.0
    cleared: dict[str, Any] = {
        "end_time": None,
        "reason": None,
        "error": None,
        "updated_at": now,
        "waited_sec": (snapshot.waited_sec or 0.0) + idle_sec,
    }
    return structs.replace(waiting(snapshot, again, tasks), waiting_since=now, **cleared)


def _answered_in_vain(
    snapshot: RunSnapshot, last: Sequence[WaitRecord], asking: Collection[str]
) -> list[WaitRecord]:
    """Those that were answered, and whose task had not gone on when the run failed for want of another one.

    The run waits for them too, so that it goes on with what it has. A task that still asks something else
    comes to them by itself.
    """
    return [
        wait
        for wait in last
        if wait.resolved and wait.node not in asking and snapshot.tasks.get(wait.task) in _ENDED_WAITING
    ]


def _is_unanswered(wait: WaitRecord) -> bool:
    """It has expired, or was closed because the other one had."""
    was_closed = wait.state is WaitState.CANCELLED and wait.note == RUN_OVER
    return failed_its_run(wait) or was_closed
