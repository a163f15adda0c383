"""What follows the decision of a wait: the run continues or fails, and its other waits are closed.

There is no record of whether this was done. A run that waits for a decided wait still has to be continued;
doing so twice is harmless. First the job is published, then the wait is removed from the run's snapshot,
which is PENDING from then on: the sweep publishes the job of a PENDING run again if it is lost.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.runs.run_store import StoredRun
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_store import StoredWait, WaitStore
from pyoco_server.errors import NatsUnavailable, UnreadableRecord
from pyoco_server.records.runs.run_models import PARKED, OpenWait, RunSnapshot, RunStatus
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.waits.wait_models import Actor, WaitEvent, WaitRecord, WaitState
from pyoco_server.runs.lifecycle.unowned_runs import Ending, UnownedRuns
from pyoco_server.runs.lifecycle.waiting_state import without_decided
from pyoco_server.waits.wait_event_outbox import close_wait, flush_outbox, publish_outbox, write_transition
from pyoco_server.waits.wait_transitions import (
    RUN_ENDED,
    ended_unanswered,
    event_for_state,
    reopened_wait,
    unanswered_reason,
    unanswered_text,
)

log = logging.getLogger(__name__)

_CONCURRENT = 32


# The statuses of a run that may have open waits; of a PENDING or RUNNING one those of its other branches.
MAY_HAVE_OPEN_WAITS: Final = PARKED | {RunStatus.PENDING, RunStatus.RUNNING}


def awaited_by(snapshot: RunSnapshot) -> list[OpenWait]:
    return list(snapshot.open_waits or []) if snapshot.status in MAY_HAVE_OPEN_WAITS else []


class Continuations:
    def __init__(self, connection: Connection, *, in_background: bool = False) -> None:
        """`in_background`: nobody waits for what follows, and each write gives way to submits."""
        self._urgent = connection.urgent if in_background else None
        self._waits = WaitStore(connection)
        self._events = WaitEventLog(connection)
        self._unowned_runs = UnownedRuns(connection)
        self._unreadable = connection.unreadable

    async def write_transition(
        self, wait: StoredWait, changed: WaitRecord, event: WaitEvent | None = None
    ) -> bool:
        """Write a decision, a notice or another change; false when the wait was written since it was read."""
        await self._give_way()
        return await write_transition(self._waits, self._events, wait, changed, event)

    async def publish_best_effort(self, event: WaitEvent) -> None:
        """Publish an event that changes no record, such as a rejected answer."""
        try:
            await self._events.publish(event)
        except NatsUnavailable as error:
            extra = {"wait_id": event.wait_id, "run_id": event.run_id}
            log.warning("event %s is lost: %s", event.event_id, error, extra=extra)

    async def flush_outbox(self, wait_id: str) -> None:
        await flush_outbox(self._waits, self._events, wait_id)

    async def read_parked_run(self, run_id: str) -> StoredRun | None:
        """The run as the leader knows it, if it is parked."""
        stored = await self._unowned_runs.stored(run_id)
        return stored if stored is not None and stored.snapshot.status.parked else None

    async def parked_as_known(self, run_ids: Sequence[str]) -> dict[str, StoredRun]:
        """The parked ones of these runs as any replica knows them; each may have been written since."""
        found = await self._unowned_runs.signed_runs(run_ids)
        return {run_id: run for run_id, run in found.items() if run.snapshot.status.parked}

    async def continue_run(
        self,
        run_id: str,
        *,
        job_is_queued: bool = False,
        decided: WaitRecord | None = None,
        known_run: StoredRun | None = None,
    ) -> bool:
        """Continue or fail the run, if its waits are decided; `job_is_queued`: its job is in the queue.

        `decided` is one of its waits that the caller has just decided, and that need not be read again, and
        `known_run` the run as it was before that. False if there is something left to do.
        """
        seen = 0
        stored = known_run if decided is not None and _waits_only_for(known_run, decided) else None
        stored = stored or await self._unowned_runs.stored(run_id)
        while stored is not None and stored.revision != seen:
            if stored.snapshot.status.terminal:
                await self.close_waits(run_id)
                return True
            waits = await self._read_or_reopen_waits(stored.snapshot, decided)
            # While a worker executes the run, that worker decides whether an unanswered wait fails it.
            missed = [] if stored.snapshot.delivery else [wait for wait in waits if ended_unanswered(wait)]
            if not missed:
                if await self._try_continue(stored, waits, job_is_queued=job_is_queued):
                    return True
            elif await self._fail(stored, missed):
                await self.close_waits(run_id)
                return True
            # The run was written since, or its end cannot be written at all.
            seen = stored.revision
            stored = await self._unowned_runs.stored(run_id)
        return False

    async def _try_continue(
        self, stored: StoredRun, waits: Sequence[WaitRecord], *, job_is_queued: bool
    ) -> bool:
        """Queue the run if it can go on, and remove decided waits from it; false if it was written since."""
        lost: list[str] = []
        if stored.snapshot.status.parked:
            # The run is continued, so that its task asks again.
            lost = self._lost(stored.snapshot, waits)
            if not lost and not any(wait.resolved for wait in waits):
                return True
            if not job_is_queued:
                await self._give_way()
                await self._unowned_runs.publish_continuation(stored)
        changed = without_decided(stored.snapshot, waits, lost)
        if changed is stored.snapshot:
            return True
        await self._give_way()
        try:
            await self._unowned_runs.store.replace(changed, revision=stored.revision)
        except RevisionConflict:
            return False
        return True

    async def _give_way(self) -> None:
        if self._urgent is not None:
            await self._urgent.give_way()

    async def close_waits(self, run_id: str) -> None:
        """Cancel the open waits of a run that has ended or was deleted."""
        stored = await self._waits.of_run_from_leader(run_id)
        waits = [wait for wait in stored if wait.record.state is WaitState.OPEN]
        # The run is read after its waits: waits that a retry opens later are not among them.
        if not waits or not await self._has_ended(run_id):
            return
        for start in range(0, len(waits), _CONCURRENT):
            some = [wait.record.wait_id for wait in waits[start : start + _CONCURRENT]]
            await asyncio.gather(
                *(close_wait(self._waits, self._events, wait_id, RUN_ENDED) for wait_id in some)
            )

    async def _has_ended(self, run_id: str) -> bool:
        try:
            stored = await self._unowned_runs.store.get_from_leader(run_id)
        except UnreadableRecord:
            return False
        return stored is None or stored.snapshot.status.terminal

    async def _fail(self, stored: StoredRun, missed: Sequence[WaitRecord]) -> bool:
        ending = Ending(
            RunStatus.FAILED,
            unanswered_reason(missed),
            unanswered_text(missed),
            unanswered=frozenset(wait.task for wait in missed),
        )
        return await self._unowned_runs.end(stored, ending)

    async def _read_or_reopen_waits(
        self, snapshot: RunSnapshot, decided: WaitRecord | None
    ) -> list[WaitRecord]:
        """The waits that the run is parked for, from the leader; missing ones are created."""
        expected = awaited_by(snapshot)
        if decided is not None and [each.wait_id for each in expected] == [decided.wait_id]:
            return [decided]
        found = await asyncio.gather(*(self._waits.find_from_leader(each.wait_id) for each in expected))
        missing = [
            each
            for each, wait in zip(expected, found, strict=True)
            # One that exists and cannot be read stays as it is.
            if wait is None and self._unreadable.find(RecordKind.WAIT, each.wait_id) is None
        ]
        waits = [wait.record for wait in found if wait is not None]
        return waits + (await self.reopen_waits(snapshot, missing) if missing else [])

    def _lost(self, snapshot: RunSnapshot, waits: Sequence[WaitRecord]) -> list[str]:
        """The waits that the run names and NATS has lost, as with its newest messages in a power failure."""
        known = {wait.wait_id for wait in waits}
        expected = [each.wait_id for each in awaited_by(snapshot) if each.wait_id not in known]
        return [wait_id for wait_id in expected if self._unreadable.find(RecordKind.WAIT, wait_id) is None]

    async def reopen_waits(
        self, snapshot: RunSnapshot, missing: Sequence[OpenWait], *, by: Actor | None = None
    ) -> list[WaitRecord]:
        """Store the waits that `retry` has named in the run; concurrent callers store the same records."""
        before = [wait.record for wait in await self._waits.of_run_from_leader(snapshot.run_id)]
        created: list[WaitRecord] = []
        for each in missing:
            extra = {"run_id": snapshot.run_id, "wait_id": each.wait_id}
            wait = reopened_wait(each, before, at=snapshot.waiting_since or time.time())
            if wait is None:
                log.error("a run waits for an unknown wait, and is continued to ask again", extra=extra)
                continue
            outbox = [structs.replace(event_for_state(wait), actor=by)] if wait.is_human else []
            try:
                await self._waits.create(wait, outbox=outbox)
            except RevisionConflict:
                log.debug("the wait exists already", extra=extra)
            else:
                await publish_outbox(self._events, outbox)
            created.append(wait)
        return created


def _waits_only_for(known_run: StoredRun | None, wait: WaitRecord) -> bool:
    """Whether a run that was read before the wait was decided is as good as one that is read after it.

    Nothing else has continued it while the wait was open. Had it been written for another reason, the
    compare-and-set fails, and it is read again.
    """
    return known_run is not None and [each.wait_id for each in awaited_by(known_run.snapshot)] == [
        wait.wait_id
    ]
