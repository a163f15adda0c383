"""Writing the audit log. An action stands, and its response is sent, also when its entry cannot be stored."""

import asyncio
import logging
import re
from collections import Counter
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.monitoring.audit_entry_store import AuditEntryStore
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.errors import NatsUnavailable, UnreadableRecord
from pyoco_server.errors.error_table import Err
from pyoco_server.records.monitoring.audit_entry_models import AuditEntry, AuditOutcome
from pyoco_server.records.value_types import TAG_PATTERN, is_run_id

log = logging.getLogger(__name__)

# The response waits for its entry as long as for one request to NATS at most; a part of that after a failed
# action, which may have waited that long itself.
_WAIT_AFTER_FAILURE: Final = 0.2


class AuditLog:
    def __init__(self, connection: Connection, runs: RunStore) -> None:
        self._connection = connection
        self._store = AuditEntryStore(connection)
        self._runs = runs
        # How many this gateway has written, by outcome.
        self.written: Counter[AuditOutcome] = Counter()
        self.lost = 0
        # Refused requests that were too many to be kept.
        self.skipped = 0

    async def write(self, entry: AuditEntry) -> None:
        """Store an entry; a failure is logged and counted."""
        wait_sec = self._connection.config.nats_request_timeout_sec
        if entry.outcome is AuditOutcome.FAILED:
            wait_sec *= _WAIT_AFTER_FAILURE
        try:
            async with asyncio.timeout(wait_sec):
                await self._complete(entry)
                if not re.fullmatch(TAG_PATTERN, entry.tenant_id or ""):
                    # It becomes a part of a subject, and a record may name anything; no API key is of it.
                    entry.tenant_id = None
                await self._store.publish(entry)
        except (NatsUnavailable, TimeoutError) as error:
            self.lost += 1
            why = str(error) or f"NATS has not answered for {wait_sec:g} s"
            extra = Err.NATS_UNAVAILABLE.log_fields(run_id=entry.run_id)
            log.warning(
                "an entry of the audit log is lost (%s by %s, %d): %s",
                *(entry.action, entry.actor.label, entry.status, why),
                extra=extra,
            )
        else:
            self.written[entry.outcome] += 1

    async def _complete(self, entry: AuditEntry) -> None:
        """Add the flow of the run, and its tenant: the people of that tenant see what an operator did."""
        if entry.outcome is not AuditOutcome.ACCEPTED or not is_run_id(entry.run_id or ""):
            return
        try:
            stored = await self._runs.get(str(entry.run_id))
        except UnreadableRecord as error:
            log.info("the run of an entry of the audit log cannot be read: %s", error)
            return
        if stored is None:
            return
        if entry.target.kind in ("run", "wait"):
            entry.target.name = entry.target.name or stored.snapshot.flow_name
        entry.tenant_id = stored.snapshot.tenant_id or entry.tenant_id
