"""What follows a decision: the run goes on, or fails, or its other waits are closed.

Nothing remembers whether it has followed. It is seen from what is stored: as long as a run waits for
something that is decided, what follows is still to be done; and it may be done twice.
"""

import asyncio
import logging
import time
from collections.abc import Sequence

from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.run_store import CorruptSnapshot, StoredRun
from pyoco_server.broker.stores.wait_events import WaitEvents
from pyoco_server.broker.stores.wait_store import StoredWait, WaitStore
from pyoco_server.errors import NatsUnavailable
from pyoco_server.human.closing import close_wait
from pyoco_server.human.notifications.event_outbox import publish_left_over, publish_now, write_outcome
from pyoco_server.human.wait_transitions import RUN_OVER, asked_anew, expiry_text, failed_its_run, told_of
from pyoco_server.records.models import OpenWait, Reason, RunSnapshot, RunStatus
from pyoco_server.records.wait_models import Actor, WaitEvent, WaitRecord, WaitState
from pyoco_server.runs.sweep.run_repair import Ending, Mender

log = logging.getLogger(__name__)

_AT_ONCE = 32


def awaited_by(snapshot: RunSnapshot) -> list[OpenWait]:
    """The waits that keep the run from going on."""
    is_waiting = snapshot.status is RunStatus.WAITING_HUMAN
    return list(snapshot.open_waits or []) if is_waiting else []


class Continuations:
    def __init__(self, connection: Connection) -> None:
        self._waits = WaitStore(connection)
        self._events = WaitEvents(connection)
        self._mender = Mender(connection)

    async def decide(self, wait: StoredWait, outcome: WaitRecord) -> bool:
        """The one write by which a wait gets its outcome; false: somebody else has written it since.

        Its event is published, at the latest from the outbox. What follows for its run is another step.
        """
        return await write_outcome(self._waits, self._events, wait, outcome, told_of(outcome))

    async def publish_best_effort(self, event: WaitEvent) -> None:
        """For what changes no record, and is in no outbox: an answer that was refused."""
        try:
            await self._events.publish(event)
        except NatsUnavailable as error:
            extra = {"wait_id": event.wait_id, "run_id": event.run_id}
            log.warning("event %s is lost: %s", event.event_id, error, extra=extra)

    async def publish_left_over(self, wait_id: str) -> None:
        await publish_left_over(self._waits, self._events, wait_id)

    async def continue_run(self, run_id: str) -> None:
        """Do what follows from the decisions about this run's waits, if anything does."""
        seen = 0
        while (stored := await self._mender.stored(run_id)) is not None and stored.revision != seen:
            if stored.snapshot.status.terminal:
                await self.close_waits(run_id)
                return
            waits = await self._awaited(stored.snapshot)
            missed = [wait for wait in waits if failed_its_run(wait)]
            if not missed:
                if any(wait.resolved for wait in waits):
                    await self._mender.give_continuation(stored)
                return
            if await self._fail(stored, missed):
                await self.close_waits(run_id)
                return
            # Somebody has written the run since, or its end cannot be written at all.
            seen = stored.revision

    async def close_waits(self, run_id: str, why: str = RUN_OVER) -> None:
        """Cancel the open waits of a run that is over, or gone; those of another run stay as they are."""
        stored = await self._waits.of_run_from_leader(run_id)
        waits = [wait for wait in stored if wait.record.state is WaitState.OPEN]
        # The run is read after its waits: what it has asked since it was begun anew is not among them.
        if not waits or not await self._is_over(run_id):
            return
        for start in range(0, len(waits), _AT_ONCE):
            some = [wait.record.wait_id for wait in waits[start : start + _AT_ONCE]]
            await asyncio.gather(*(close_wait(self._waits, self._events, wait_id, why) for wait_id in some))

    async def _is_over(self, run_id: str) -> bool:
        try:
            stored = await self._mender.store.get_from_leader(run_id)
        except CorruptSnapshot as error:
            log.error("the waits of a run that cannot be read stay open: %s", error, extra={"run_id": run_id})
            return False
        return stored is None or stored.snapshot.status.terminal

    async def _fail(self, stored: StoredRun, missed: Sequence[WaitRecord]) -> bool:
        ending = Ending(
            RunStatus.FAILED,
            Reason.HUMAN_TIMEOUT,
            expiry_text(missed),
            unanswered=frozenset(wait.task for wait in missed),
        )
        return await self._mender.end(stored, ending)

    async def _awaited(self, snapshot: RunSnapshot) -> list[WaitRecord]:
        """The waits that the run waits for, as the leader knows them; those that are missing are made."""
        wanted = awaited_by(snapshot)
        found = await asyncio.gather(*(self._waits.get_from_leader(each.wait_id) for each in wanted))
        missing = [each for each, wait in zip(wanted, found, strict=True) if wait is None]
        waits = [wait.record for wait in found if wait is not None]
        return waits + (await self.ask_anew(snapshot, missing) if missing else [])

    async def ask_anew(
        self, snapshot: RunSnapshot, wanted: Sequence[OpenWait], *, by: Actor | None = None
    ) -> list[WaitRecord]:
        """Store the waits that `retry` has given the run; whoever stored them first has stored the same."""
        before = [wait.record for wait in await self._waits.of_run_from_leader(snapshot.run_id)]
        asked: list[WaitRecord] = []
        for each in wanted:
            wait = asked_anew(each, before, at=snapshot.waiting_since or time.time())
            if wait is None:
                log.error("a run waits for what nobody has asked", extra={"wait_id": each.wait_id})
                continue
            outbox = [structs.replace(told_of(wait), actor=by)]
            try:
                await self._waits.create(wait, outbox=outbox)
            except RevisionConflict:
                log.debug("the wait is there by now", extra={"wait_id": each.wait_id})
            else:
                await publish_now(self._events, outbox)
            asked.append(wait)
        return asked
