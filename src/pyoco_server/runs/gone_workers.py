"""Removing the records of workers that are gone for good: an id with a process id never comes back.

What an operator has written into a record holds for the next worker of that id, and keeps it.
"""

import logging
import time

from pyoco_server.broker.connection import Connection
from pyoco_server.broker.worker_registry import StoredWorker, WorkerRegistry

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
        gone = [stored for stored in await self._registry.stored() if self._is_gone(stored)]
        for stored in gone:
            await self._registry.remove(stored)
        if gone:
            log.info("removed the records of %d workers that are gone", len(gone))
        return len(gone)

    def _is_gone(self, stored: StoredWorker) -> bool:
        record = stored.record
        # By the server's word about when it was stored: a worker's own clock may be wrong by days.
        if time.time() - stored.written_at <= self._keep_sec or record.hidden or record.paused:
            return False
        return not record.observed_state(disconnect_timeout_sec=self._disconnect_sec).alive
