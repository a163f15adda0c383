"""The slots of a worker: each takes a delivery, handles its run to the end, and takes the next one."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from functools import partial

import msgspec

from pyoco_server.aio.background import Backoff
from pyoco_server.broker.queue.intake import Intake, IntakeClosed
from pyoco_server.broker.queue.work_queue import Delivery
from pyoco_server.worker.executors.executor import ExecutorFailedToStart, RunExecutor
from pyoco_server.worker.executors.executor_pool import ExecutorLease, ExecutorPool
from pyoco_server.worker.session.run_session import RunSession
from pyoco_server.worker.session.wheel_updates import WheelUpdates
from pyoco_server.worker.session.worker_services import WorkerServices

log = logging.getLogger(__name__)

# One takes the next run while the other stores the end of the last one.
_SESSIONS_PER_EXECUTOR = 2
# A full queue of such jobs fits into the prefetch channel. Larger ones are not queued.
SMALL_JOB_BYTES = 4 * 1024
# The pause of a slot after a run that could not be started or stored: each such run costs a delivery.
_FIRST_PAUSE_SEC = 1.0
_LONGEST_PAUSE_SEC = 30.0


class Slots(ABC):
    def __init__(self, services: WorkerServices, intake: Intake, wheels: WheelUpdates) -> None:
        self._services = services
        self._intake = intake
        self._wheels = wheels

    @abstractmethod
    def start(self, group: asyncio.TaskGroup) -> set[asyncio.Task[None]]:
        """The tasks that handle runs until the intake is closed; more may be added later."""

    @abstractmethod
    def stop_queueing(self) -> None:
        """Queue no more runs after others."""

    @abstractmethod
    async def handle_one(self, delivery: Delivery) -> str | None:
        """Handle one run to its end; returns its id, if it has one."""

    async def _take(self) -> Delivery:
        return await self._wheels.before(partial(self._intake.take, ahead=True))

    async def _handle(self, delivery: Delivery, executor: RunExecutor, pauses: Backoff) -> None:
        """Handle one run to its end; returns when the slot may take the next one."""
        session = RunSession(self._services, delivery, executor)
        try:
            await session.process()
        except ExecutorFailedToStart as error:
            await self._restart(executor, str(error))
        except Exception:
            # The other runs continue; this message is redelivered after AckWait.
            log.exception("a run could not be handled", extra={"run_id": session.run_id, "tag": delivery.tag})
        if session.could_not_store:
            await self._intake.wait_closed(pauses.next_sec())
        else:
            pauses.reset()

    async def _restart(self, executor: RunExecutor, why: str) -> None:
        """Retry until the executor starts, without a run: other workers get the runs meanwhile."""
        pauses = _pauses()
        with self._services.presence.reporting_executor_error(why):
            while not await self._intake.wait_closed(pauses.next_sec()):
                try:
                    await executor.start()
                except ExecutorFailedToStart as error:
                    log.error("this worker still cannot start an executor: %s", error)
                else:
                    log.info("this worker can start an executor again")
                    return


def _pauses() -> Backoff:
    return Backoff(_FIRST_PAUSE_SEC, _LONGEST_PAUSE_SEC)


class DedicatedSlot(Slots):
    """The only slot of a worker with one executor, which is not a process."""

    def __init__(
        self, services: WorkerServices, intake: Intake, wheels: WheelUpdates, executor: RunExecutor
    ) -> None:
        super().__init__(services, intake, wheels)
        self._executor = executor

    def start(self, group: asyncio.TaskGroup) -> set[asyncio.Task[None]]:
        return {group.create_task(self._serve())}

    def stop_queueing(self) -> None:
        """Nothing is queued."""

    async def handle_one(self, delivery: Delivery) -> str | None:
        return await RunSession(self._services, delivery, self._executor).process()

    async def _serve(self) -> None:
        pauses = _pauses()
        while True:
            try:
                delivery = await self._take()
            except IntakeClosed:
                return
            await self._handle(delivery, self._executor, pauses)


class PooledSlots(Slots):
    """Slots that share a pool of executors; while runs are short, more of them are queued there."""

    def __init__(
        self, services: WorkerServices, intake: Intake, wheels: WheelUpdates, pool: ExecutorPool
    ) -> None:
        super().__init__(services, intake, wheels)
        self._pool = pool

    def start(self, group: asyncio.TaskGroup) -> set[asyncio.Task[None]]:
        count = _SESSIONS_PER_EXECUTOR * self._pool.size
        sessions = {group.create_task(self._serve()) for _ in range(count)}

        def start(work: Coroutine[None, None, None]) -> None:
            task = group.create_task(work)
            sessions.add(task)
            task.add_done_callback(sessions.discard)

        def use_capacity() -> None:
            while (queued := self._next_queued()) is not None:
                start(self._serve_queued(queued))
            if self._intake.has_buffered and self._pool.all_long_running and not self._wheels.is_due:
                start(self._intake.hand_back_buffered())

        self._pool.on_capacity = use_capacity
        # Deliveries of one read are handled together.
        self._intake.on_buffered = self._pool.schedule_check
        return sessions

    def stop_queueing(self) -> None:
        self._pool.stop_queueing()

    async def handle_one(self, delivery: Delivery) -> str | None:
        with await self._pool.reserve() as lease:
            return await RunSession(self._services, delivery, lease).process()

    async def _serve(self) -> None:
        pauses = _pauses()
        while True:
            with await self._pool.reserve() as lease:
                try:
                    delivery = await self._take()
                except IntakeClosed:
                    return
                lease.may_queue = self._is_queueable(delivery)
                await self._handle(delivery, lease, pauses)

    def _next_queued(self) -> tuple[ExecutorLease, Delivery] | None:
        """A lease for a delivery that no slot waits for, if there is one and capacity for it."""
        if not self._intake.has_buffered or not self._pool.has_capacity or self._wheels.is_due:
            return None
        # Only the next one in the queue: runs of another tenant do not overtake it.
        delivery = self._intake.take_buffered(self._fits_into_queue)
        return None if delivery is None else (self._pool.speculate(), delivery)

    async def _serve_queued(self, queued: tuple[ExecutorLease, Delivery] | None) -> None:
        pauses = _pauses()
        while queued is not None:
            lease, delivery = queued
            with lease:
                await self._handle(delivery, lease, pauses)
            await self._intake.slot_freed()
            queued = self._next_queued()

    def _fits_into_queue(self, delivery: Delivery) -> bool:
        """Whether there is room for it now."""
        return self._is_queueable(delivery) and self._pool.may_queue(_tenant_of(delivery.payload))

    def _is_queueable(self, delivery: Delivery) -> bool:
        """Only a small job, and only once: a queued run may have to be returned, which costs a delivery."""
        if delivery.number > 1 or delivery.is_last:
            return False
        return len(delivery.payload) <= SMALL_JOB_BYTES


class _JobTenant(msgspec.Struct):
    tenant_id: str | None = None


_decode_tenant = msgspec.json.Decoder(_JobTenant).decode


def _tenant_of(payload: bytes) -> str | None:
    """The tenant of a job, before it is decoded."""
    if b'"tenant_id"' not in payload:
        return None
    try:
        return _decode_tenant(payload).tenant_id
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None  # its session rejects it
