"""A run without a worker: the test writes its log lines and its end."""

import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.runs.run_log_store import RunLogs
from pyoco_server.broker.stores.runs.run_store import RunStore, StoredRun
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.records.runs.run_models import Job, RunStatus, new_run_id, pending_snapshot
from tests.support.broker.connections import SyncConnection, sync_connection


class PrintingRun:
    def __init__(self, connection: Connection, run_id: str) -> None:
        self.run_id = run_id
        self._runs = RunStore(connection)
        self._logs = RunLogs(connection)

    async def begins(self) -> None:
        job = Job(run_id=self.run_id, flow_name="printing", tag="default", submitted_at=time.time())
        await self._runs.create(pending_snapshot(job))

    async def prints(
        self, *texts: str, task: str | None = "load", stream: str = "stdout", attempt: int = 1
    ) -> None:
        """Print the lines as one message; returns when they are stored."""
        now = time.time()
        lines = [LogLine(ts=now, stream=stream, text=text, task=task, attempt=attempt) for text in texts]
        await self._logs.publish(self.run_id, lines)

    async def ends(self, status: RunStatus = RunStatus.COMPLETED) -> None:
        stored = await self._stored()
        stored.snapshot.status = status
        await self._runs.replace(stored.snapshot, revision=stored.revision)

    async def is_removed(self) -> None:
        await self._logs.remove(self.run_id)
        await self._runs.delete(self.run_id, revision=(await self._stored()).revision)

    async def _stored(self) -> StoredRun:
        stored = await self._runs.get_from_leader(self.run_id)
        assert stored is not None
        return stored


async def begun(connection: Connection) -> PrintingRun:
    run = PrintingRun(connection, new_run_id())
    await run.begins()
    return run


class SyncPrintingRun:
    """For a test without an event loop."""

    def __init__(self, nats: str | SyncConnection) -> None:
        """To an address it connects for each call."""
        self.run_id = new_run_id()
        self._nats = nats
        self._do(PrintingRun.begins)

    def prints(self, *texts: str, task: str | None = "load", stream: str = "stdout") -> None:
        self._do(lambda run: run.prints(*texts, task=task, stream=stream))

    def ends(self, status: RunStatus = RunStatus.COMPLETED) -> None:
        self._do(lambda run: run.ends(status))

    def _do(self, act: Callable[[PrintingRun], Awaitable[None]]) -> None:
        nats = (
            nullcontext(self._nats) if isinstance(self._nats, SyncConnection) else sync_connection(self._nats)
        )
        with nats as connected:
            connected.do(lambda connection: act(PrintingRun(connection, self.run_id)))
