"""Keeps a run while its flow executes: AckWait, progress, heartbeats, and when it must end by force."""

import asyncio
import logging
import time
from collections.abc import Callable

from msgspec import structs

from pyoco_server.broker.queue.work_queue import Delivery
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.run_models import RunSnapshot, TaskStatus
from pyoco_server.runs.lifecycle.ownership import OwnedRun
from pyoco_server.runs.lifecycle.waiting_state import open_waits
from pyoco_server.worker.executors.executor import RunExecutor
from pyoco_server.worker.ipc.protocol import raw_records
from pyoco_server.worker.session.cancel_and_time_limit import Cancellation, RunTimeLimit
from pyoco_server.worker.session.run_questions import RunQuestions
from pyoco_server.worker.session.worker_services import WorkerServices

log = logging.getLogger(__name__)

# How often a long run is checked; a change of its tasks is stored at most this often.
_TICK_SEC = 0.1


class RunKeeper:
    """Watches one run until it is stopped; raises NotOwner when the run has another owner."""

    def __init__(
        self,
        services: WorkerServices,
        delivery: Delivery,
        owned: OwnedRun,
        executor: RunExecutor,
        questions: RunQuestions,
        *,
        with_artifacts_and_version: Callable[[RunSnapshot], RunSnapshot],
    ) -> None:
        self._services = services
        self._with_artifacts_and_version = with_artifacts_and_version
        self._questions = questions
        self._delivery = delivery
        self._owned = owned
        self._executor = executor
        self._may_write = True
        self._failure_logged = False
        # The ids of the waits that this attempt has stored in the snapshot as open.
        self._listed_waits: set[str] = set()
        self._woken = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._watching: asyncio.Task[None] | None = None
        grace_sec = services.connection.config.cancel_grace_period_sec
        self.cancellation = Cancellation(executor, grace_sec=grace_sec)
        self.limit = RunTimeLimit(owned, executor)

    @property
    def run_id(self) -> str:
        return self._owned.snapshot.run_id

    def register(self, group: asyncio.TaskGroup) -> None:
        """Be started once the run has lasted for a moment, or has changed: most short runs never need it."""
        self._group = group
        self._services.active_runs.add(self)

    def wake(self) -> None:
        """The run's snapshot was changed elsewhere: read it now."""
        self._woken.set()
        self.start_watching()

    def start_watching(self) -> None:
        """Watch the run until it is stopped; nothing if it is watched already."""
        if self._group is not None and self._watching is None:
            self._watching = self._group.create_task(self._watch())

    def stop_writing(self) -> None:
        """The run has ended: from now on only AckWait is extended."""
        self._may_write = False

    def stop(self) -> None:
        self._group = None
        self._services.active_runs.remove(self)
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        config = self._services.connection.config
        beat_every_sec = config.run_heartbeat_interval_sec
        extended_at = beat_at = time.monotonic()
        while True:
            await self._next_tick()
            now = time.monotonic()
            extend_every_sec = min(config.ack_progress_interval_sec, self._services.ack_wait_sec / 2)
            if now - extended_at >= extend_every_sec:
                is_extended = await self._extend_ack_wait()
                # A failed one is repeated soon: after AckWait the run would be delivered again.
                extended_at = now if is_extended else now - extend_every_sec * 3 / 4
            if self._may_write and (self._has_progress() or now - beat_at >= beat_every_sec):
                await self._store()
                beat_at = now
            if self._may_write:
                await self.cancellation.enforce(self._owned.snapshot)
                await self.limit.enforce()

    async def _next_tick(self) -> None:
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
            # The next heartbeat reads the same.
            log.warning("a changed run could not be read: %s", error, extra=self._unavailable())

    async def _extend_ack_wait(self) -> bool:
        try:
            await self._delivery.in_progress()
        except NatsUnavailable as error:
            spec = Err.PROGRESS_ACK_FAILED
            log.error("%s: %s", spec.en, error, extra=spec.log_fields(run_id=self.run_id))
            return False
        return True

    def _has_progress(self) -> bool:
        progress = self._executor.progress()
        if progress is None or progress.tasks == self._owned.snapshot.tasks:
            return False
        self._services.presence.progressed()
        return True

    async def _store(self) -> None:
        try:
            await self._owned.write(self._with_progress)
        except NatsUnavailable as error:
            # Logged once per outage; the next tick retries.
            if not self._failure_logged:
                log.warning("progress not stored: %s", error, extra=self._unavailable())
            self._failure_logged = True
        else:
            self._failure_logged = False
            self._listed_waits |= {wait.wait_id for wait in self._owned.snapshot.open_waits or []}

    def _with_progress(self, snapshot: RunSnapshot) -> RunSnapshot:
        progress = self._executor.progress()
        states = snapshot.tasks if progress is None else progress.tasks
        listed = {wait.wait_id for wait in snapshot.open_waits or []}
        # A gateway removes a decided wait from the snapshot.
        decided = self._listed_waits - listed
        asked = open_waits([wait for wait in self._questions.open if wait.wait_id not in decided])
        return structs.replace(
            self._with_artifacts_and_version(snapshot),
            tasks={name: TaskStatus(state) for name, state in states.items()},
            task_records=snapshot.task_records if progress is None else raw_records(progress),
            heartbeat_at=time.time(),
            open_waits=asked or snapshot.open_waits,
        )

    def _unavailable(self) -> dict[str, object]:
        return Err.NATS_UNAVAILABLE.log_fields(run_id=self.run_id)
