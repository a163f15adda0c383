"""The slots of a worker: each takes a delivery, sees its run to an end, and comes for the next one."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from functools import partial

from pyoco_server.aio.background import Backoff
from pyoco_server.broker.queue.intake import Intake, IntakeClosed
from pyoco_server.broker.queue.work_queue import Delivery
from pyoco_server.worker.executors.executor import Executor, ExecutorFailedToStart, RunExecutor
from pyoco_server.worker.executors.executor_pool import ExecutorPool, Turn
from pyoco_server.worker.session.run_session import RunSession
from pyoco_server.worker.session.wheel_updates import WheelUpdates
from pyoco_server.worker.session.worker_services import WorkerServices

log = logging.getLogger(__name__)

# One takes the next run while the other stores the end of the last one.
_SLOTS_PER_EXECUTOR = 2
# Of these, as many as may be in line surely fit into its channel: a larger one might have to be handed back.
SMALL_JOB_BYTES = 4 * 1024
# How long a slot takes no run after one that could not be begun or stored: each such run costs a delivery.
_FIRST_PAUSE_SEC = 1.0
_LONGEST_PAUSE_SEC = 30.0


class Slots(ABC):
    def __init__(self, services: WorkerServices, intake: Intake, wheels: WheelUpdates) -> None:
        self._services = services
        self._intake = intake
        self._wheels = wheels

    @abstractmethod
    def start(self, group: asyncio.TaskGroup) -> set[asyncio.Task[None]]:
        """The tasks that handle runs, until the intake is closed; there may be others later."""

    @abstractmethod
    def close_lines(self) -> None:
        """Let no more runs wait behind others."""

    async def _take(self) -> Delivery:
        return await self._wheels.before(partial(self._intake.take, ahead=True))

    async def _handle(self, delivery: Delivery, executor: RunExecutor, pauses: Backoff) -> None:
        """See one run to its end; returns when the slot may take the next one."""
        session = RunSession(self._services, delivery, executor)
        try:
            await session.process()
        except ExecutorFailedToStart as error:
            await self._start_again(executor, str(error))
        except Exception:
            # One run must not take the others down; its message comes back after AckWait.
            log.exception("a run could not be handled", extra={"tag": delivery.tag})
        if session.failed:
            await self._intake.wait_closed(pauses.next_sec())
        else:
            pauses.reset()

    async def _start_again(self, executor: RunExecutor, why: str) -> None:
        """Try until the executor starts, without a run: workers that can execute runs get them meanwhile."""
        pauses = _pauses()
        with self._services.presence.executor_fails(why):
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


class EachItsExecutor(Slots):
    """One slot for each executor."""

    def __init__(
        self,
        services: WorkerServices,
        intake: Intake,
        wheels: WheelUpdates,
        executors: Sequence[Executor],
    ) -> None:
        super().__init__(services, intake, wheels)
        self._executors = executors

    def start(self, group: asyncio.TaskGroup) -> set[asyncio.Task[None]]:
        return {group.create_task(self._serve(executor)) for executor in self._executors}

    def close_lines(self) -> None:
        """There are none."""

    async def _serve(self, executor: Executor) -> None:
        pauses = _pauses()
        while True:
            try:
                delivery = await self._take()
            except IntakeClosed:
                return
            await self._handle(delivery, executor, pauses)


class SharedExecutors(Slots):
    """Slots that share a pool of processes; while runs are short, more of them line up there."""

    def __init__(
        self, services: WorkerServices, intake: Intake, wheels: WheelUpdates, pool: ExecutorPool
    ) -> None:
        super().__init__(services, intake, wheels)
        self._pool = pool

    def start(self, group: asyncio.TaskGroup) -> set[asyncio.Task[None]]:
        slots = _SLOTS_PER_EXECUTOR * self._pool.size
        sessions = {group.create_task(self._serve()) for _ in range(slots)}

        def start(work: Coroutine[None, None, None]) -> None:
            task = group.create_task(work)
            sessions.add(task)
            task.add_done_callback(sessions.discard)

        def line_up() -> None:
            while (placed := self._next_in_line()) is not None:
                start(self._serve_line(placed))
            if self._intake.has_buffered and self._pool.is_taken and not self._wheels.is_due:
                start(self._intake.hand_back_buffered())

        self._pool.on_room = line_up
        # What comes in one read is looked at together.
        self._intake.on_buffered = self._pool.look_again
        return sessions

    def close_lines(self) -> None:
        self._pool.close_lines()

    async def _serve(self) -> None:
        pauses = _pauses()
        while True:
            with await self._pool.turn() as turn:
                try:
                    delivery = await self._take()
                except IntakeClosed:
                    return
                await self._handle(delivery, turn, pauses)

    def _next_in_line(self) -> tuple[Turn, Delivery] | None:
        """A turn for what no slot waits for, if there is any and room for it."""
        if not self._intake.has_buffered or not self._pool.has_room or self._wheels.is_due:
            return None
        delivery = self._intake.take_buffered(self._may_wait)
        return None if delivery is None else (self._pool.turn_in_line(), delivery)

    async def _serve_line(self, placed: tuple[Turn, Delivery] | None) -> None:
        """See to one run in line, and then to the next, as long as there is one."""
        pauses = _pauses()
        while placed is not None:
            turn, delivery = placed
            with turn:
                await self._handle(delivery, turn, pauses)
            await self._intake.slot_freed()
            placed = self._next_in_line()

    def _may_wait(self, delivery: Delivery) -> bool:
        """Whether its run may line up: it may have to be handed back, which costs a delivery, once."""
        if delivery.number > 1 or self._services.connection.config.consumer_max_deliver == 1:
            return False
        return len(delivery.payload) <= SMALL_JOB_BYTES
