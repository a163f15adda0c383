"""The worker: connects, serves runs, drains and stops."""

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import structs

from pyoco_server.aio.background import Backoff, repeat
from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.queue.intake import Intake
from pyoco_server.broker.queue.wake_up import WakeUps
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.streams_and_buckets import ensure_worker_resources
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsForbidden, NatsUnavailable, UnusableConsumer
from pyoco_server.records.value_types import TAG_EXPECTED, TAG_PATTERN, WORKER_ID_EXPECTED, WORKER_ID_PATTERN
from pyoco_server.wheels.wheel_sync import WheelSync
from pyoco_server.worker.engine import pyoco_adapter
from pyoco_server.worker.executors.executor import Executor, ExecutorFailedToStart
from pyoco_server.worker.executors.executor_pool import ExecutorPool
from pyoco_server.worker.executors.executor_template import ExecutorTemplate
from pyoco_server.worker.executors.renewable_executor import RenewableExecutor
from pyoco_server.worker.flows.folder_fingerprint import fingerprint_of
from pyoco_server.worker.ipc.protocol import Ready, Setup
from pyoco_server.worker.session.flow_reports import FlowReports
from pyoco_server.worker.session.presence import OperatorCommands, Presence
from pyoco_server.worker.session.resource_usage import UsageMeter
from pyoco_server.worker.session.slots import DedicatedSlot, PooledSlots, Slots
from pyoco_server.worker.session.wheel_updates import WheelUpdates, first_sync
from pyoco_server.worker.session.worker_services import WorkerServices

if TYPE_CHECKING:
    from pyoco_server.worker.flows.flow_source import FlowResolver

log = logging.getLogger(__name__)

T = TypeVar("T")

_CONNECT_TIMEOUT_SEC = 5.0
_WATCH_EVERY_SEC = 1.0
# The first and the longest pause before a start that NATS has not answered is tried again.
_RETRY_SEC: Final = (0.25, 5.0)
# Permissions, the consumer or a limit must be changed first: a retry does not help.
_NOT_RETRIED: Final = (NatsForbidden, UnusableConsumer, PayloadTooLarge)


class PyocoNatsWorker:
    """Pulls runs of its tags and executes them; created by `connect` or `connect_processes`."""

    def __init__(
        self,
        parts: "_WorkerParts",
        slots: Slots,
        *,
        loaded: "_LoadedFolder | None" = None,
        ready: Ready | None = None,
        template: ExecutorTemplate | None = None,
    ) -> None:
        self._executors = parts.executors
        self._template = template
        self._services = parts.services
        self._intake = parts.intake
        self._commands = parts.commands
        self._wheel_updates = parts.wheel_updates
        self._reports = parts.reports
        self._slots = slots
        self._loaded = loaded
        ready = ready or Ready()
        # The flows of the folder, and why files of it were not loaded, when it was last read.
        self.flows, self.failures = ready.flows, ready.failures

    @classmethod
    async def connect(
        cls,
        config: NatsBackendConfig | None = None,
        flow_resolver: "FlowResolver | None" = None,
        worker_id: str = "worker",
        tags: Sequence[str] | None = None,
        *,
        timeout_sec: float | None = _CONNECT_TIMEOUT_SEC,
    ) -> "PyocoNatsWorker":
        """A worker inside this program: `flow_resolver(name)` returns the flow or raises KeyError."""
        if flow_resolver is None:
            # It follows an optional argument, so that all four can be given by position.
            raise TypeError("PyocoNatsWorker.connect() needs a flow_resolver")
        # A worker with processes does without what executes flows.
        from pyoco_server.worker.executors.thread_executor import ThreadExecutor  # noqa: PLC0415

        config = config or NatsBackendConfig.from_env()
        pyoco_adapter.check_support()
        tags = _checked_names(config, worker_id, tags)
        wheel_sync = await first_sync(config, worker_id, tags, timeout_sec)
        executor = ThreadExecutor(flow_resolver, config)
        executor.use_code(wheel_sync.folders)
        parts = await _WorkerParts.connect(
            config,
            [executor],
            worker_id,
            tags,
            wheel_sync,
            run_dir=None,
            timeout_sec=timeout_sec,
            meter=UsageMeter(),
        )
        return cls(parts, DedicatedSlot(parts.services, parts.intake, parts.wheel_updates, executor))

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
        pyoco_adapter.check_support()
        tags = _checked_names(config, worker_id, tags)
        wheel_sync = await first_sync(config, worker_id, tags, timeout_sec)
        setup = structs.replace(setup, code_folders=wheel_sync.folders)
        template = ExecutorTemplate.create(hidden=config.hide_process)
        versions: dict[str, str] = {}
        executors = [
            RenewableExecutor(
                structs.replace(setup, describe_flows=number == 0),
                reuse=config.executor_reuse,
                template=template,
                versions=versions,
            )
            for number in range(concurrency)
        ]
        # Executors change their working directory, which a relative path would follow.
        run_dir = Path(config.run_dir).absolute()  # noqa: ASYNC240 - only once, at the start
        try:
            loaded = await _LoadedFolder.before_loading(setup.flows)
            # The first one alone: flows that cannot be loaded are reported once, not once per slot.
            await executors[0].start()
            async with asyncio.TaskGroup() as group:
                for executor in executors[1:]:
                    group.create_task(executor.start())
            parts = await _WorkerParts.connect(
                config,
                executors,
                worker_id,
                tags,
                wheel_sync,
                run_dir=run_dir,
                timeout_sec=timeout_sec,
                meter=UsageMeter(),
            )
        except BaseException:
            await _end_processes(executors, template)
            await wheel_sync.close()
            raise
        pool = ExecutorPool(executors, allowance=config.consumer_max_ack_pending)
        slots = PooledSlots(parts.services, parts.intake, parts.wheel_updates, pool)
        return cls(parts, slots, loaded=loaded, ready=executors[0].ready, template=template)

    @property
    def drain_requested(self) -> bool:
        """An operator has asked this worker to stop: `serve` returns, and `run_once` gets no more runs."""
        return self._commands.drain.is_set()

    async def run_once(self, timeout: float = 1.0) -> str | None:
        """Handle at most one run to its end, waiting up to `timeout` for it."""
        await self._wheel_updates.bring_up_to_date()
        try:
            async with asyncio.timeout(timeout):
                delivery = await self._intake.take()
        except TimeoutError:
            return None
        return await self._slots.handle_one(delivery)

    async def serve(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set or an operator drains this worker.

        Then active runs are finished within the drain time, and the rest returns to the queue.
        """
        drain_sec = self._services.connection.config.drain_timeout_sec
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(self._watch_flows())
            sessions = self._slots.start(group)
            reasons = [group.create_task(event.wait()) for event in (stop, self._commands.drain)]
            try:
                await asyncio.wait(reasons, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._slots.stop_queueing()
            log.info("draining: %d s for active runs", drain_sec)
            await self._intake.close()
            _, late = await asyncio.wait(sessions, timeout=drain_sec)
            for task in (*late, watching, *reasons):
                task.cancel()

    async def _watch_flows(self) -> None:
        """Retire the executors whenever a file of the flow folder changes; active runs finish unchanged."""
        loaded, first = self._loaded, self._executors[0]
        if loaded is None or not isinstance(first, RenewableExecutor):
            return
        code_folders = first.code_folders

        async def check() -> None:
            nonlocal code_folders
            if changed := await loaded.has_changed():
                log.info("the flows in %s have changed and are loaded again", loaded.folder)
                for executor in self._executors:
                    executor.retire()
            if changed or code_folders != first.code_folders:
                code_folders = first.code_folders
                await self._describe_flows(first)
            await asyncio.sleep(_WATCH_EVERY_SEC)

        await repeat("the watch of the flows", check)

    async def _describe_flows(self, executor: RenewableExecutor) -> None:
        try:
            ready = await executor.describe()
        except ExecutorFailedToStart as error:
            log.warning("the flows cannot be described: %s", error)
            return
        for file, why in ready.failures.items():
            if self.failures.get(file) != why:
                log.warning("cannot load flows from %s: %s", file, why)
        self.flows, self.failures = ready.flows, ready.failures
        self._reports.report(ready)

    async def close(self) -> None:
        """Stop: return pulled deliveries, end the executors, store STOPPED_GRACEFUL in the record."""
        await self._intake.close()
        await _end_processes(self._executors, self._template)
        await self._wheel_updates.close()
        await self._reports.close()
        await self._services.presence.stop("drained" if self.drain_requested else "graceful_shutdown")
        await self._services.connection.close()


def _found_flows(executors: Sequence[Executor]) -> Ready:
    """What the first executor process has loaded; a worker inside a program does not know its flows."""
    first = executors[0]
    return first.ready if isinstance(first, RenewableExecutor) else Ready()


@dataclass(slots=True)
class _LoadedFolder:
    """The folder that the flows were loaded from, and what it contained then."""

    folder: Path
    fingerprint: str

    @classmethod
    async def before_loading(cls, path: str | None) -> "_LoadedFolder | None":
        """Taken before the executors load it: a change while they do is then noticed."""
        if path is None:
            return None
        return cls(Path(path), await asyncio.to_thread(fingerprint_of, Path(path)))

    async def has_changed(self) -> bool:
        before, self.fingerprint = self.fingerprint, await asyncio.to_thread(fingerprint_of, self.folder)
        return before != self.fingerprint


async def _end_processes(executors: Sequence[Executor], template: ExecutorTemplate | None) -> None:
    for executor in executors:
        await executor.close()
    if template is not None:
        # After its executors, whose exit codes it knows.
        await template.close()


def _checked_names(config: NatsBackendConfig, worker_id: str, tags: Sequence[str] | None) -> list[str]:
    """The tags without duplicates; ValueError for an invalid id or tag."""
    tags = list(dict.fromkeys(tags or [config.default_tag]))
    if not re.fullmatch(WORKER_ID_PATTERN, worker_id):
        raise ValueError(f"worker_id {worker_id!r}: {WORKER_ID_EXPECTED}")
    for tag in tags:
        if not re.fullmatch(TAG_PATTERN, tag):
            raise ValueError(f"tag {tag!r}: {TAG_EXPECTED}")
    return tags


@dataclass(frozen=True, slots=True)
class _WorkerParts:
    """What both kinds of workers connect in the same way."""

    executors: Sequence[Executor]
    services: WorkerServices
    intake: Intake
    commands: OperatorCommands
    wheel_updates: WheelUpdates
    reports: FlowReports

    @classmethod
    async def connect(
        cls,
        config: NatsBackendConfig,
        executors: Sequence[Executor],
        worker_id: str,
        tags: Sequence[str],
        wheel_sync: WheelSync,
        *,
        run_dir: Path | None,
        timeout_sec: float | None,
        meter: UsageMeter | None = None,
    ) -> "_WorkerParts":
        """Connect, and retry for up to `timeout_sec` while NATS leaves a request of the start unanswered.

        This is not an outage: a cluster does not answer about a consumer whose leader is being elected. When
        the first workers of a tag start together, one creates its consumer while the others ask about it.
        """

        async def connect(left_sec: float | None) -> "_WorkerParts":
            return await cls._connect_once(
                config,
                executors,
                worker_id,
                tags,
                wheel_sync,
                run_dir=run_dir,
                timeout_sec=left_sec,
                meter=meter,
            )

        async with AsyncExitStack() as undo:
            undo.push_async_callback(wheel_sync.close)
            parts = await _until_answered(worker_id, connect, timeout_sec)
            undo.pop_all()
        log.info("worker %s is ready: tags %s, %d slots", worker_id, ", ".join(tags), len(executors))
        return parts

    @classmethod
    async def _connect_once(
        cls,
        config: NatsBackendConfig,
        executors: Sequence[Executor],
        worker_id: str,
        tags: Sequence[str],
        wheel_sync: WheelSync,
        *,
        run_dir: Path | None,
        timeout_sec: float | None,
        meter: UsageMeter | None,
    ) -> "_WorkerParts":
        connection = Connection(config, name=f"pyoco-worker:{worker_id}", coalesce_writes=True)
        connection.on_connect(lambda: ensure_worker_resources(connection))
        await connection.start()
        async with AsyncExitStack() as undo:
            undo.push_async_callback(connection.close)
            await connection.wait_ready(timeout_sec)
            intake = Intake(connection, tags)
            undo.push_async_callback(intake.close)
            await intake.start()
            await Journal(connection).check_writable(tags)
            commands = OperatorCommands(intake)
            presence = Presence(
                connection,
                worker_id=worker_id,
                tags=tags,
                slots=len(executors),
                on_record=commands.apply,
                meter=meter,
            )
            undo.push_async_callback(presence.stop, "graceful_shutdown")
            reports = FlowReports(connection, presence)
            undo.push_async_callback(reports.close)
            reports.report(_found_flows(executors))
            wheel_updates = WheelUpdates(connection, wheel_sync, executors, presence)
            await wheel_updates.start()
            await reports.try_first()
            await presence.start()
            reports.start()
            services = WorkerServices(connection, presence, intake, run_dir=run_dir)
            wake_ups = WakeUps(
                connection,
                worker_id=worker_id,
                on_run=services.active_runs.wake,
                on_own_record=presence.refresh_now,
            )
            await wake_ups.start()
            # A caller that gives up meanwhile leaves no worker that heartbeats and takes no runs.
            await presence.wait_seen()
            undo.pop_all()
        return cls(executors, services, intake, commands, wheel_updates, reports)


async def _until_answered(
    worker_id: str,
    connect: Callable[[float | None], Awaitable[T]],
    timeout_sec: float | None,
) -> T:
    """Call `connect` until NATS has answered all of it; it is given how much of `timeout_sec` is left."""
    now = asyncio.get_running_loop().time
    ends_at = math.inf if timeout_sec is None else now() + timeout_sec
    backoff = Backoff(*_RETRY_SEC)
    while True:
        try:
            return await connect(None if timeout_sec is None else ends_at - now())
        except _NOT_RETRIED:
            raise
        except NatsUnavailable as error:
            pause_sec = backoff.next_sec()
            if now() + pause_sec >= ends_at:
                raise
            log.warning(
                "worker %s cannot start yet; retrying: %s",
                worker_id,
                error,
                extra=error.error.log_fields(),
            )
        await asyncio.sleep(pause_sec)
