"""What happens beside a running flow: its message is kept alive, its progress and heartbeat are stored."""

import asyncio
import logging
import time

from msgspec import structs

from pyoco_server.broker.queue.work_queue import Delivery
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.models import RunSnapshot, TaskStatus
from pyoco_server.runs.lifecycle.ownership import OwnedRun
from pyoco_server.runs.lifecycle.waiting_state import open_waits
from pyoco_server.worker.executors.executor import RunExecutor
from pyoco_server.worker.session.cancellation import Cancellation
from pyoco_server.worker.session.run_limit import RunLimit
from pyoco_server.worker.session.run_questions import RunQuestions
from pyoco_server.worker.session.worker_services import WorkerServices

log = logging.getLogger(__name__)

# How often a lasting run is looked after; a change of its tasks is stored at most this often.
_TICK_SEC = 0.1


class RunKeeper:
    """Watches over one run until it is cancelled; raises NotOwner when the run has become another's."""

    def __init__(
        self,
        services: WorkerServices,
        delivery: Delivery,
        owned: OwnedRun,
        executor: RunExecutor,
        questions: RunQuestions,
    ) -> None:
        self._services = services
        self._questions = questions
        self._delivery = delivery
        self._owned = owned
        self._executor = executor
        self._may_write = True
        self._told_failure = False
        self._woken = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._watching: asyncio.Task[None] | None = None
        grace_sec = services.connection.config.cancel_grace_period_sec
        self.cancellation = Cancellation(executor, grace_sec=grace_sec)
        self.limit = RunLimit(owned, executor)

    @property
    def run_id(self) -> str:
        return self._owned.snapshot.run_id

    def start(self, group: asyncio.TaskGroup) -> None:
        """Begin to watch once the run has lasted for a moment, or is woken: most short runs never need it."""
        self._group = group
        self._services.under_way.add(self)

    def wake(self) -> None:
        """Somebody has changed the run's snapshot: look at it now."""
        self._woken.set()
        self.begin()

    def begin(self) -> None:
        if self._group is not None and self._watching is None:
            self._watching = self._group.create_task(self._watch())

    def leave_snapshot_alone(self) -> None:
        """The run has ended: from now on only its message is kept alive."""
        self._may_write = False

    def stop(self) -> None:
        self._group = None
        self._services.under_way.remove(self)
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        config = self._services.connection.config
        ack_every_sec = min(config.ack_progress_interval_sec, self._services.ack_wait_sec / 2)
        beat_every_sec = config.run_heartbeat_interval_sec
        acked_at = beat_at = time.monotonic()
        while True:
            await self._next_tick()
            now = time.monotonic()
            if now - acked_at >= ack_every_sec:
                await self._keep_message()
                acked_at = now
            if self._may_write and (self._progressed() or now - beat_at >= beat_every_sec):
                await self._store()
                beat_at = now
            if self._may_write:
                await self.cancellation.pursue(self._owned.snapshot)
                await self.limit.pursue()

    async def _next_tick(self) -> None:
        """Wait for the next look at the run, or for the word that something was asked of it."""
        try:
            async with asyncio.timeout(_TICK_SEC):
                await self._woken.wait()
        except TimeoutError:
            return
        self._woken.clear()
        if self._may_write:
            await self._refresh()

    async def _refresh(self) -> None:
        try:
            await self._owned.refresh()
        except NatsUnavailable as error:
            # The next heartbeat finds the same.
            log.warning("a changed run could not be read: %s", error, extra=Err.NATS_UNAVAILABLE.log_fields())

    async def _keep_message(self) -> None:
        try:
            await self._delivery.in_progress()
        except NatsUnavailable as error:
            spec = Err.PROGRESS_ACK_FAILED
            log.error("%s: %s", spec.en, error, extra=spec.log_fields(run_id=self._owned.snapshot.run_id))

    def _progressed(self) -> bool:
        progress = self._executor.progress()
        if progress is None or progress.tasks == self._owned.snapshot.tasks:
            return False
        self._services.presence.progressed()
        return True

    async def _store(self) -> None:
        try:
            await self._owned.write(self._moved_on)
        except NatsUnavailable as error:
            # Said once per outage; the next tick tries again.
            if not self._told_failure:
                log.warning("progress not stored: %s", error, extra=Err.NATS_UNAVAILABLE.log_fields())
            self._told_failure = True
        else:
            self._told_failure = False

    def _moved_on(self, snapshot: RunSnapshot) -> RunSnapshot:
        progress = self._executor.progress()
        states = snapshot.tasks if progress is None else progress.tasks
        asked = open_waits(self._questions.open)
        return structs.replace(
            snapshot,
            tasks={name: TaskStatus(state) for name, state in states.items()},
            task_records=snapshot.task_records if progress is None else progress.raw_records(),
            heartbeat_at=time.time(),
            open_waits=asked or snapshot.open_waits,
        )
