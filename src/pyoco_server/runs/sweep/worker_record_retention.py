"""Retention of worker records: removes those of workers that were not seen for long.

A record with an operator's setting (paused, hidden) is kept: it applies to the next worker of that id.
"""

import logging
import time

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.worker_registry import StoredWorker, WorkerRegistry

log = logging.getLogger(__name__)

_CHECK_SEC = 60.0


class WorkerRecordRetention:
    def __init__(self, connection: Connection, *, check_sec: float = _CHECK_SEC) -> None:
        self._registry = WorkerRegistry(connection)
        self._keep_sec = connection.config.worker_record_retention_sec
        self._disconnect_sec = connection.config.worker_disconnect_timeout_sec
        self._check_sec = check_sec
        self._next_check = 0.0

    async def remove(self) -> int:
        """Remove expired records; returns how many."""
        if not self._keep_sec or time.monotonic() < self._next_check:
            return 0
        self._next_check = time.monotonic() + self._check_sec
        # Read first: a record that is written meanwhile is younger.
        written_before = await self._registry.server_time() - self._keep_sec
        records = await self._registry.stored()
        expired = [stored for stored in records if self._is_expired(stored, written_before)]
        for stored in expired:
            await self._registry.remove(stored)
        if expired:
            log.info("removed the records of %d disconnected workers", len(expired))
        return len(expired)

    def _is_expired(self, stored: StoredWorker, written_before: float) -> bool:
        record = stored.record
        # Both by the server's clock: that of a worker, or ours, may be wrong by days.
        if stored.stored_at >= written_before or record.hidden or record.paused:
            return False
        return not record.observed_state(disconnect_timeout_sec=self._disconnect_sec).alive
