"""Removing the records of workers that are gone for good: an id with a process id never comes back.

What an operator has written into a record holds for the next worker of that id, and keeps it.
"""

import logging
import time

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.worker_registry import StoredWorker, WorkerRegistry

log = logging.getLogger(__name__)

# Days are waited for: nobody needs to look in every round.
_LOOK_SEC = 60.0


class GoneWorkers:
    def __init__(self, connection: Connection, *, look_sec: float = _LOOK_SEC) -> None:
        self._registry = WorkerRegistry(connection)
        self._keep_sec = connection.config.worker_record_retention_sec
        self._disconnect_sec = connection.config.worker_disconnect_timeout_sec
        self._look_sec = look_sec
        self._look_at = 0.0

    async def remove(self) -> int:
        """Remove the records that nobody has written for long; how many."""
        if not self._keep_sec or time.monotonic() < self._look_at:
            return 0
        self._look_at = time.monotonic() + self._look_sec
        # Asked first: a record that is written meanwhile is younger.
        written_before = await self._registry.server_time() - self._keep_sec
        gone = [stored for stored in await self._registry.stored() if self._is_gone(stored, written_before)]
        for stored in gone:
            await self._registry.remove(stored)
        if gone:
            log.info("removed the records of %d workers that are gone", len(gone))
        return len(gone)

    def _is_gone(self, stored: StoredWorker, written_before: float) -> bool:
        record = stored.record
        # By the server's clock on both sides: that of a worker, and our own, may be wrong by days.
        if stored.written_at >= written_before or record.hidden or record.paused:
            return False
        return not record.observed_state(disconnect_timeout_sec=self._disconnect_sec).alive
