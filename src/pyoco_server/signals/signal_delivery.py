"""Answers the open waits of a run with the signals that were sent to it."""

import logging
import time
from collections.abc import Callable

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.waits.mailbox_store import MailboxStore
from pyoco_server.broker.stores.waits.wait_store import StoredWait, WaitStore
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.waits.signal_models import Signal
from pyoco_server.signals.mailboxes import assigned, deliveries
from pyoco_server.waits.continuation import Continuations
from pyoco_server.waits.wait_transitions import satisfied

log = logging.getLogger(__name__)


class SignalDelivery:
    """Every gateway does it without coordination: each step is a compare-and-set."""

    def __init__(
        self, connection: Connection, continuations: Continuations, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._waits = WaitStore(connection)
        self._mailboxes = MailboxStore(connection)
        self._continuations = continuations
        self._clock = clock
        self.received = 0

    async def deliver(self, run_id: str) -> None:
        """Give each open wait for a signal the next one of its name, if there is one."""
        while True:
            waits = await self._waits_of(run_id)
            try:
                stored = await self._mailboxes.get(run_id)
            except UnreadableRecord:
                # It is counted and shown (records/unreadable_records.py).
                return
            records = [wait.record for wait in waits.values()]
            mailbox = assigned(stored.mailbox, records)
            if mailbox is not stored.mailbox:
                try:
                    await self._mailboxes.replace(mailbox, revision=stored.revision)
                except RevisionConflict:
                    continue
            due = deliveries(mailbox, records)
            outcomes = [await self._answer(waits[wait_id], signal) for wait_id, signal in due.items()]
            if any(outcomes):
                await self._continuations.continue_run(run_id)
            # A wait that was decided otherwise leaves its signal to the next one.
            if all(outcomes):
                return

    async def _waits_of(self, run_id: str) -> dict[str, StoredWait]:
        stored = await self._waits.of_run_from_leader(run_id)
        return {wait.record.wait_id: wait for wait in stored if wait.record.kind is WaitKind.SIGNAL}

    async def _answer(self, wait: StoredWait, signal: Signal) -> bool:
        """Whether the wait has received it here; if not, it was written since it was read."""
        outcome = satisfied(
            wait.record, payload=signal.data, decision_id=signal.signal_id, at=self._clock(), by=signal.by
        )
        if not await self._continuations.write_transition(wait, outcome):
            return False
        self.received += 1
        said = (wait.record.task, signal.name, signal.signal_id)
        log.info("task %s has received signal %s (%s)", *said, extra={"run_id": wait.record.run_id})
        return True
