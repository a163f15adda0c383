"""The worker itself: how it is made, how long it serves, and how it leaves."""

import asyncio
import logging
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.queue.intake import Intake
from pyoco_server.broker.queue.wake_up import WakeUps
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.resources import ensure_worker_resources
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import TAG_PATTERN, TAG_WANTED, WORKER_ID_PATTERN, WORKER_ID_WANTED
from pyoco_server.wheels.wheel_sync import WheelSync
from pyoco_server.worker.executors.executor import Executor
from pyoco_server.worker.executors.executor_pool import ExecutorPool
from pyoco_server.worker.executors.process_executor import ProcessExecutor
from pyoco_server.worker.executors.thread_executor import ThreadExecutor
from pyoco_server.worker.flows.flow_source import FlowResolver
from pyoco_server.worker.ipc.protocol import Setup
from pyoco_server.worker.session.code_watch import watch_flow_folder
from pyoco_server.worker.session.operator_commands import Orders
from pyoco_server.worker.session.presence import Presence
from pyoco_server.worker.session.run_session import RunSession
from pyoco_server.worker.session.slots import EachItsExecutor, SharedExecutors, Slots
from pyoco_server.worker.session.wheel_updates import WheelUpdates, first_sync
from pyoco_server.worker.session.worker_services import WorkerServices

log = logging.getLogger(__name__)

_CONNECT_TIMEOUT_SEC = 5.0


class PyocoNatsWorker:
    """Pulls runs of its tags and executes them; made by `connect` or `connect_processes`."""

    def __init__(
        self,
        connection: Connection,
        executors: Sequence[Executor],
        services: WorkerServices,
        intake: Intake,
        orders: Orders,
        *,
        wheels: WheelUpdates,
    ) -> None:
        self._connection = connection
        self._executors = executors
        self._services = services
        self._intake = intake
        self._orders = orders
        self._wheels = wheels
        self._slots: Slots = EachItsExecutor(services, intake, wheels, executors)
        self._flow_folder: str | None = None
        # The flows of the folder, and why files of it were not loaded, as they were at the start.
        self.flows: list[str] = []
        self.failures: dict[str, str] = {}

    @classmethod
    async def connect(
        cls,
        config: NatsBackendConfig | None = None,
        *,
        flow_resolver: FlowResolver,
        worker_id: str = "worker",
        tags: Sequence[str] | None = None,
        timeout_sec: float | None = _CONNECT_TIMEOUT_SEC,
    ) -> "PyocoNatsWorker":
        """A worker inside this program: `flow_resolver(name)` gives the flow, KeyError says there is none."""
        config = config or NatsBackendConfig.from_env()
        tags = _checked_names(config, worker_id, tags)
        wheels = await first_sync(config, worker_id, tags, timeout_sec)
        executor = ThreadExecutor(flow_resolver, config)
        executor.use_code(wheels.folders)
        return await cls._connect(
            config, [executor], worker_id, tags, wheels, run_dir=None, timeout_sec=timeout_sec
        )

    @classmethod
    async def connect_processes(
        cls,
        config: NatsBackendConfig,
        setup: Setup,
        *,
        concurrency: int,
        worker_id: str,
        tags: Sequence[str] | None = None,
        timeout_sec: float | None = _CONNECT_TIMEOUT_SEC,
    ) -> "PyocoNatsWorker":
        """A worker whose flows run in `concurrency` processes of their own."""
        tags = _checked_names(config, worker_id, tags)
        wheels = await first_sync(config, worker_id, tags, timeout_sec)
        setup = structs.replace(setup, code_folders=wheels.folders)
        executors = [ProcessExecutor(setup) for _ in range(concurrency)]
        run_dir = _absolute(config.run_dir)
        try:
            # The first alone: flows that cannot be loaded are reported once, not once per slot.
            await executors[0].start()
            async with asyncio.TaskGroup() as group:
                for executor in executors[1:]:
                    group.create_task(executor.start())
            worker = await cls._connect(
                config, executors, worker_id, tags, wheels, run_dir=run_dir, timeout_sec=timeout_sec
            )
        except BaseException:
            for executor in executors:
                await executor.close()
            await wheels.close()
            raise
        worker._flow_folder = setup.flows
        pool = ExecutorPool(executors, allowance=config.consumer_max_ack_pending)
        worker._slots = SharedExecutors(worker._services, worker._intake, worker._wheels, pool)
        worker.flows, worker.failures = executors[0].ready.flows, executors[0].ready.failures
        return worker

    @classmethod
    async def _connect(
        cls,
        config: NatsBackendConfig,
        executors: Sequence[Executor],
        worker_id: str,
        tags: Sequence[str],
        wheels: WheelSync,
        *,
        run_dir: Path | None,
        timeout_sec: float | None,
    ) -> "PyocoNatsWorker":
        connection = Connection(config, name=f"pyoco-worker:{worker_id}", coalesce_writes=True)
        connection.add_hook(lambda: ensure_worker_resources(connection))
        await connection.start()
        try:
            await connection.wait_ready(timeout_sec)
            intake = Intake(connection, WorkQueue(connection), tags)
            await intake.start()
            orders = Orders(intake)
            presence = Presence(
                connection, worker_id=worker_id, tags=tags, slots=len(executors), on_record=orders.heed
            )
            updates = WheelUpdates(connection, wheels, executors, presence)
            await updates.start()
            await presence.start()
        except BaseException:
            await wheels.close()
            await connection.close()
            raise
        services = WorkerServices.at(connection, presence, run_dir=run_dir, ack_wait_sec=intake.ack_wait_sec)
        wake_ups = WakeUps(
            connection, worker_id=worker_id, on_run=services.under_way.wake, on_own_record=presence.look
        )
        await wake_ups.start()
        log.info("worker %s is ready: tags %s, %d slots", worker_id, ", ".join(tags), len(executors))
        return cls(connection, executors, services, intake, orders, wheels=updates)

    @property
    def drain_requested(self) -> bool:
        """An operator wants this worker to end; `serve` does, a loop of `run_once` gets no more runs."""
        return self._orders.drain.is_set()

    async def run_once(self, timeout: float = 1.0) -> str | None:
        """Handle at most one run: wait up to `timeout` for it, then see it to its end."""
        await self._wheels.bring_up_to_date()
        try:
            async with asyncio.timeout(timeout):
                delivery = await self._intake.take()
        except TimeoutError:
            return None
        return await RunSession(self._services, delivery, self._executors[0]).process()

    async def serve(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set or an operator drains this worker.

        Then what runs is finished, within the drain time, and the rest is handed back.
        """
        drain_sec = self._connection.config.drain_timeout_sec
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch_code())
            sessions = self._slots.start(group)
            reasons = [group.create_task(event.wait()) for event in (stop, self._orders.drain)]
            try:
                await asyncio.wait(reasons, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._slots.close_lines()
            log.info("draining: %d s for what runs", drain_sec)
            await self._intake.close()
            _, late = await asyncio.wait(sessions, timeout=drain_sec)
            for task in (*late, watching, *reasons):
                task.cancel()

    async def _watch_code(self) -> None:
        if self._flow_folder is not None:
            await watch_flow_folder(self._flow_folder, self._executors)

    async def close(self) -> None:
        """Leave cleanly: nothing pulled is kept, the record says STOPPED_GRACEFUL, executors end."""
        await self._intake.close()
        for executor in self._executors:
            await executor.close()
        await self._wheels.close()
        await self._services.presence.stop("drained" if self.drain_requested else "graceful_shutdown")
        await self._connection.close()


def _checked_names(config: NatsBackendConfig, worker_id: str, tags: Sequence[str] | None) -> list[str]:
    """The tags, each once; ValueError when the id or a tag cannot be one."""
    tags = list(dict.fromkeys(tags or [config.default_tag]))
    if not re.fullmatch(WORKER_ID_PATTERN, worker_id):
        raise ValueError(f"worker_id {worker_id!r}: {WORKER_ID_WANTED}")
    for tag in tags:
        if not re.fullmatch(TAG_PATTERN, tag):
            raise ValueError(f"tag {tag!r}: {TAG_WANTED}")
    return tags


def _absolute(folder: str) -> Path:
    """Executors change their working directory, so that a relative one would move with them."""
    return Path(folder).absolute()
