"""Synchronises the wheels of a worker: at its start, and before a slot pulls its next run.

Never during a run: an executor keeps the code that its run started with, and is replaced after it. A slot
that waits for a run is interrupted when a synchronisation is due or the registry has changed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.streams_and_buckets import ensure_worker_resources
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.workers.worker_models import WheelSyncResult
from pyoco_server.wheels.wheel_registry import WheelRegistry
from pyoco_server.wheels.wheel_sync import WheelSync
from pyoco_server.worker.executors.executor import Executor
from pyoco_server.worker.session.presence import Presence

T = TypeVar("T")

# A hint arrives when a change is sent; it is stored a moment later.
_SETTLE_SEC: Final = 0.1
# The longest backoff after failures.
_LONGEST_PAUSE_SEC: Final = 300.0


async def first_sync(
    config: NatsBackendConfig, worker_id: str, tags: Sequence[str], timeout_sec: float | None
) -> WheelSync:
    """Synchronise before the executors are started, since their flows may need the wheels."""
    sync = WheelSync(config, worker_id, tags)
    if not sync.enabled:
        return sync
    connection = Connection(config, name=f"pyoco-worker:{worker_id}:wheels")
    connection.on_connect(lambda: ensure_worker_resources(connection))
    await connection.start()
    try:
        await connection.wait_ready(timeout_sec)
        await sync.run(WheelRegistry(connection))
        await sync.clean()
    except BaseException:
        await sync.close()
        raise
    finally:
        await connection.close()
    return sync


class WheelUpdates:
    def __init__(
        self, connection: Connection, sync: WheelSync, executors: Sequence[Executor], presence: Presence
    ) -> None:
        self._interval_sec = connection.config.wheel_sync_interval_sec
        self._registry = WheelRegistry(connection)
        self._sync = sync
        self._executors = executors
        self._presence = presence
        self._syncing = asyncio.Lock()
        self._pause_sec = self._interval_sec
        self._due_at = 0.0
        # The timeouts of slots that wait for a run.
        self._waiting: set[asyncio.Timeout] = set()
        # Whether folders of removed wheels remain because a run may use them.
        self._has_obsolete = False

    async def start(self) -> None:
        self._presence.report_wheels(self._sync.state)
        self._due_at = asyncio.get_running_loop().time() + self._interval_sec
        if self._sync.enabled:
            await self._registry.on_change(self._on_change)

    async def close(self) -> None:
        await self._sync.close()

    @property
    def is_due(self) -> bool:
        return self._sync.enabled and asyncio.get_running_loop().time() >= self._due_at

    async def before(self, take: Callable[[], Awaitable[T]]) -> T:
        """The result of `take`, with wheels that are up to date each time it starts."""
        if not self._sync.enabled:
            return await take()
        while True:
            await self.bring_up_to_date()
            limit = asyncio.timeout_at(self._due_at)
            try:
                async with limit:
                    self._waiting.add(limit)
                    return await take()
            except TimeoutError:
                if not limit.expired():
                    raise
            finally:
                self._waiting.discard(limit)

    async def bring_up_to_date(self) -> None:
        """Synchronise if it is due, or wait for the slot that does."""
        if not self._sync.enabled or not (self.is_due or self._syncing.locked()):
            return
        async with self._syncing:
            if self.is_due:
                await self._synchronise()

    def _on_change(self) -> None:
        """The registry has changed, or is about to."""
        self._due_at = asyncio.get_running_loop().time() + _SETTLE_SEC
        for limit in self._waiting:
            if not limit.expired():
                limit.reschedule(self._due_at)

    async def _synchronise(self) -> None:
        # First, so that a hint during the synchronisation is not lost.
        self._due_at = asyncio.get_running_loop().time() + self._pause_sec
        changed = await self._sync.run(self._registry)
        failed = self._sync.state.last_result is WheelSyncResult.ERROR
        self._pause_sec = min(2 * self._pause_sec, _LONGEST_PAUSE_SEC) if failed else self._interval_sec
        if changed:
            self._has_obsolete = True
            for executor in self._executors:
                executor.use_code(self._sync.folders)
        self._presence.report_wheels(self._sync.state)
        if self._has_obsolete:
            in_use = {folder for executor in self._executors for folder in executor.code_in_use}
            await self._sync.clean(in_use)
            self._has_obsolete = not in_use <= set(self._sync.folders)
