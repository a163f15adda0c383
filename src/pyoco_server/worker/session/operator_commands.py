"""What operators want of this worker, as its own record says: to take no new runs, or to finish and end."""

import asyncio
import logging

from pyoco_server.broker.queue.intake import Intake
from pyoco_server.records.models import WorkerRecord

log = logging.getLogger(__name__)


class Orders:
    """Obeyed whenever the record is known anew."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._paused = False
        # Set when this worker is to finish what runs, and to end.
        self.drain = asyncio.Event()

    async def heed(self, record: WorkerRecord) -> None:
        if record.drain_requested_at is not None and not self.drain.is_set():
            log.info("worker %s was asked to drain", record.worker_id)
            self.drain.set()
        wanted = record.paused or self.drain.is_set()
        if wanted == self._paused:
            return
        self._paused = wanted
        if wanted:
            log.info("worker %s takes no new runs: it is paused or drained", record.worker_id)
            await self._intake.pause()
        else:
            log.info("worker %s takes runs again", record.worker_id)
            self._intake.resume()
