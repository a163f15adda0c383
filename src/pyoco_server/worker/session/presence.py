"""The worker's record in the registry: heartbeats, current runs, and the commands of operators."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from uuid import uuid4

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.queue.intake import Intake
from pyoco_server.broker.queue.worker_probe import probed_subscription
from pyoco_server.broker.stores.workers.worker_registry import OwnRecord
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.workers.worker_models import (
    MAX_LISTED_FLOWS,
    CatalogueReference,
    WheelSyncState,
    WorkerEvent,
    WorkerEventKind,
    WorkerRecord,
    WorkerState,
    with_events,
)
from pyoco_server.version import __version__
from pyoco_server.worker.session.resource_usage import UsageMeter, this_host

log = logging.getLogger(__name__)

# Changes within this time are stored together: short runs change faster than anybody reads.
_COALESCE_SEC = 0.25
# A measurement reads a file of each process of the host.
_MEASURE_EVERY_SEC = 10.0
# CPU use is known after the second one.
_MEASURE_AGAIN_SEC = 1.0
# How long the first run waits at most until a gateway has seen this worker. There may be no gateway, or none
# that can see it.
_SEEN_WITHIN_SEC = 2.0

# Called with the record after each write, with the commands of operators.
OnRecord = Callable[[WorkerRecord], Awaitable[None]]


class Presence:
    def __init__(
        self,
        connection: Connection,
        *,
        worker_id: str,
        tags: Sequence[str],
        slots: int,
        on_record: OnRecord | None = None,
        meter: UsageMeter | None = None,
    ) -> None:
        """Without a meter, host and use of resources are not reported."""
        self.worker_id = worker_id
        self.instance_id = uuid4().hex
        now = time.time()
        self._own = OwnRecord(
            connection,
            WorkerRecord(
                worker_id=worker_id,
                instance_id=self.instance_id,
                state=WorkerState.IDLE,
                last_seen_at=now,
                last_heartbeat_at=now,
                tags=list(tags),
                slots=slots,
                version=__version__,
                pyoco_version=version("pyoco"),
                host=None if meter is None else this_host(),
                history=[WorkerEvent(at=now, kind=WorkerEventKind.STARTED)],
            ),
        )
        # When the record was last stored, by the clock of this worker.
        self._stored_at = now
        self._connection = connection
        self._seen = asyncio.Event()
        self._probed = probed_subscription(connection, self.instance_id, self._seen.set)
        self._heartbeat_sec = connection.config.worker_heartbeat_interval_sec
        self._disconnect_sec = connection.config.worker_disconnect_timeout_sec
        self._meter = meter
        self._measure_at = 0.0
        self._running: dict[str, float] = {}
        # The number of executors that cannot be started.
        self._failing = 0
        self._on_record = on_record
        self._loop = BackgroundLoop("presence", self._keep)
        # The record was written elsewhere, and should be read now.
        self._refresh_now = asyncio.Event()

    async def start(self) -> None:
        # Before the record: gateways look for it from then on.
        self._connection.on_connect(self._probed.renew)
        await self._probed.renew()
        await self._measure()
        await self._own.save()
        await self._notify()
        self._loop.start()

    async def wait_seen(self) -> None:
        """Wait until a gateway has seen this process connected, for a while; then it may claim runs.

        Nobody can tell a process that was never seen and dies from one that gateways cannot see: its runs
        would be redelivered after AckWait.
        """
        longest_sec = min(self._connection.config.worker_lost_after_sec, _SEEN_WITHIN_SEC)
        if longest_sec <= 0:
            return
        try:
            async with asyncio.timeout(longest_sec):
                await self._seen.wait()
        except TimeoutError:
            log.info("worker %s takes runs: no gateway has seen it in %g s", self.worker_id, longest_sec)

    def began(self, run_id: str) -> None:
        self._running[run_id] = time.time()
        self.progressed()

    def ended(self, run_id: str, status: str | None) -> None:
        """A run has ended here; without a status it was returned to the queue or lost."""
        record = self._own.record
        # Two slots may have had the same run, one after losing it to the other.
        record.last_run_started_at = self._running.pop(run_id, record.last_run_started_at)
        record.last_run_id = run_id
        record.last_run_status = status
        record.last_run_finished_at = time.time()
        self.progressed()

    def progressed(self) -> None:
        self._own.record.last_progress_at = time.time()
        self._loop.wake()

    @contextmanager
    def reporting_executor_error(self, why: str) -> Iterator[None]:
        """Within this block, the record says why an executor cannot be started."""
        self._failing += 1
        self._own.record.executor_error = why
        self._loop.wake()
        try:
            yield
        finally:
            self._failing -= 1
            if not self._failing:
                self._own.record.executor_error = None
            self._loop.wake()

    def report_flows(self, names: Sequence[str]) -> None:
        flows = sorted(names)[:MAX_LISTED_FLOWS]
        if flows != self._own.record.flows:
            self._own.record.flows = flows
            if self._loop.running:
                self._loop.wake()

    def report_catalogue(self, catalogue: CatalogueReference | None) -> None:
        if catalogue != self._own.record.catalogue:
            self._own.record.catalogue = catalogue
            if self._loop.running:
                self._loop.wake()

    def report_wheels(self, state: WheelSyncState) -> None:
        self._own.record.wheel_sync = state
        if self._loop.running:
            self._loop.wake()

    def refresh_now(self) -> None:
        """Store the record now, which reads what was written into it elsewhere."""
        self._refresh_now.set()
        self._loop.wake()

    async def stop(self, reason: str) -> None:
        """Store that this worker has stopped; without NATS it is seen as disconnected instead."""
        if not self._loop.running:
            return
        await self._loop.close()
        record = self._own.record
        record.stopped_at = time.time()
        record.stop_reason = reason
        stopped = WorkerEvent(at=record.stopped_at, kind=WorkerEventKind.STOPPED, reason=reason)
        record.history = with_events(record.history, stopped)
        await self._save(WorkerState.STOPPED_GRACEFUL)

    async def _keep(self) -> None:
        """Store the record after a change, or when a heartbeat is due."""
        await self._loop.pause(self._heartbeat_sec)
        self._refresh_now.clear()
        await self._measure()
        await self._save(WorkerState.RUNNING if self._running else WorkerState.IDLE)
        await self._notify()
        try:
            async with asyncio.timeout(min(_COALESCE_SEC, self._heartbeat_sec)):
                await self._refresh_now.wait()
        except TimeoutError:
            log.debug("coalesced the latest changes")

    async def _measure(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._meter is not None and now >= self._measure_at:
            is_first = self._own.record.usage is None
            self._measure_at = now + (_MEASURE_AGAIN_SEC if is_first else _MEASURE_EVERY_SEC)
            self._own.record.usage = await asyncio.to_thread(self._meter.measure)

    async def _notify(self) -> None:
        if self._on_record is not None:
            await self._on_record(self._own.record)

    async def _save(self, state: WorkerState) -> None:
        record = self._own.record
        record.state = state
        stored_at, now = self._stored_at, time.time()
        record.last_seen_at = record.last_heartbeat_at = now
        record.current_run_ids = list(self._running)
        record.current_run_id = record.current_run_ids[0] if record.current_run_ids else None
        # Queued runs, and runs whose end is being stored, occupy no slot.
        record.slots_busy = min(len(self._running), record.slots)
        try:
            await self._own.save()
        except NatsUnavailable as error:
            log.debug("worker record not stored: %s", error)
            return
        self._stored_at = now
        if now - stored_at > self._disconnect_sec:
            # Stored with the next write: only now is it known that the worker is back.
            record.history = with_events(
                record.history,
                WorkerEvent(at=stored_at, kind=WorkerEventKind.DISCONNECTED),
                WorkerEvent(at=now, kind=WorkerEventKind.RECONNECTED),
            )
            if self._loop.running:
                self._loop.wake()


class OperatorCommands:
    """Pause and drain requests that operators have written into the worker's record."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._paused = False
        # Set when this worker should finish its runs and exit.
        self.drain = asyncio.Event()

    async def apply(self, record: WorkerRecord) -> None:
        if record.drain_requested_at is not None and not self.drain.is_set():
            log.info("worker %s was asked to drain", record.worker_id)
            self.drain.set()
        paused = record.paused or self.drain.is_set()
        if paused == self._paused:
            return
        self._paused = paused
        if paused:
            log.info("worker %s takes no new runs: it is paused or drained", record.worker_id)
            await self._intake.pause()
        else:
            log.info("worker %s takes runs again", record.worker_id)
            self._intake.resume()
