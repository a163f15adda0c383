"""The worker's own record: that it is there, what it does, and when anything last moved."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from uuid import uuid4

from pyoco_server.aio.background import repeat
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.worker_registry import OwnRecord
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.models import WheelSyncState, WorkerRecord, WorkerState
from pyoco_server.version import __version__

log = logging.getLogger(__name__)

# Short runs come and go faster than anybody looks: their changes are stored together.
_COALESCE_SEC = 0.25

# Told of the record each time it was stored, with whatever operators have written into it.
OnRecord = Callable[[WorkerRecord], Awaitable[None]]


class Presence:
    """Keeps the registry record of this worker up to date, from its start to its stop."""

    def __init__(
        self,
        connection: Connection,
        *,
        worker_id: str,
        tags: Sequence[str],
        slots: int,
        on_record: OnRecord | None = None,
    ) -> None:
        self.worker_id = worker_id
        now = time.time()
        self._own = OwnRecord(
            connection,
            WorkerRecord(
                worker_id=worker_id,
                instance_id=uuid4().hex,
                state=WorkerState.IDLE,
                last_seen_at=now,
                last_heartbeat_at=now,
                tags=list(tags),
                slots=slots,
                version=__version__,
                pyoco_version=version("pyoco"),
            ),
        )
        self._heartbeat_sec = connection.config.worker_heartbeat_interval_sec
        self._running: dict[str, float] = {}
        # How many of its executors cannot be started.
        self._failing = 0
        self._on_record = on_record
        self._changed = asyncio.Event()
        # Somebody else has written the record, and wants it to be seen now.
        self._look_now = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._own.save()
        await self._tell()
        self._keeper = asyncio.create_task(repeat("presence", self._keep), name="presence")

    def began(self, run_id: str) -> None:
        self._running[run_id] = time.time()
        self.progressed()

    def ended(self, run_id: str, status: str | None) -> None:
        """A run has left this worker; without a status it was handed back or lost."""
        record = self._own.record
        # Two slots may have had the same run, one after it had lost it to the other.
        record.last_run_started_at = self._running.pop(run_id, record.last_run_started_at)
        record.last_run_id = run_id
        record.last_run_status = status
        record.last_run_finished_at = time.time()
        self.progressed()

    def progressed(self) -> None:
        self._own.record.last_progress_at = time.time()
        self._changed.set()

    @contextmanager
    def executor_fails(self, why: str) -> Iterator[None]:
        """While one of its executors cannot be started, the record says why."""
        self._failing += 1
        self._own.record.executor_error = why
        self._changed.set()
        try:
            yield
        finally:
            self._failing -= 1
            if not self._failing:
                self._own.record.executor_error = None
            self._changed.set()

    def tell_wheels(self, state: WheelSyncState) -> None:
        """How this worker's wheels are."""
        self._own.record.wheel_sync = state
        if self._keeper is not None:
            self._changed.set()

    def look(self) -> None:
        """Find out what was written into the record elsewhere: storing it again brings that to light."""
        self._look_now.set()
        self._changed.set()

    async def stop(self, reason: str) -> None:
        """Say goodbye; a worker that NATS cannot hear is seen as disconnected instead."""
        if self._keeper is None:
            return
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)
        record = self._own.record
        record.stopped_at = time.time()
        record.stop_reason = reason
        await self._save(WorkerState.STOPPED_GRACEFUL)

    async def _keep(self) -> None:
        """Store the record when something has changed, or when a heartbeat is due."""
        try:
            async with asyncio.timeout(self._heartbeat_sec):
                await self._changed.wait()
        except TimeoutError:
            log.debug("heartbeat")
        self._changed.clear()
        self._look_now.clear()
        await self._save(WorkerState.RUNNING if self._running else WorkerState.IDLE)
        await self._tell()
        try:
            async with asyncio.timeout(min(_COALESCE_SEC, self._heartbeat_sec)):
                await self._look_now.wait()
        except TimeoutError:
            log.debug("the changes of the last moment are stored together")

    async def _tell(self) -> None:
        if self._on_record is not None:
            await self._on_record(self._own.record)

    async def _save(self, state: WorkerState) -> None:
        record = self._own.record
        record.state = state
        record.last_seen_at = record.last_heartbeat_at = time.time()
        record.current_run_ids = list(self._running)
        record.current_run_id = record.current_run_ids[0] if record.current_run_ids else None
        # Runs in line, or whose end is being stored, have no slot.
        record.slots_busy = min(len(self._running), record.slots)
        try:
            await self._own.save()
        except NatsUnavailable as error:
            log.debug("worker record not stored: %s", error)
