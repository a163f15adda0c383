"""Retention: removes runs that ended long ago, later their delete markers, and records of old workers with
the descriptions of their flows.

A run whose snapshot cannot be read is removed like an ended one: nothing continues it.

The key of a run is deleted first, by compare-and-set, so that a run that was reopened keeps its records. The
delete marker tells every gateway to remove the other records, also if the one that deleted the key crashed.

An ended run is never written again, so the bucket has them in the order in which they ended: the scan stops
at the first young one.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import TypeVar

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, message_after, stream_state
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_log_store import RunLogs
from pyoco_server.broker.stores.runs.run_object_store import RunObjects
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.mailbox_store import MailboxStore
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.broker.stores.workers.flow_catalogue_store import FlowCatalogueStore
from pyoco_server.broker.stores.workers.worker_registry import StoredWorker, WorkerRegistry
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.runs.run_models import TERMINAL
from pyoco_server.runs.open_runs import OpenRuns, state_in

log = logging.getLogger(__name__)

T = TypeVar("T")

# How long a delete marker stays: feeds must see it, and a write in flight to the deleted key must fail.
_MARKER_SEC = 600.0
_AT_ONCE = 64
_WORKER_CHECK_SEC = 60.0
# A worker stores its catalogue before its record names it.
_UNUSED_CATALOGUE_SEC = 3600.0
_UPLOAD_CHECK_SEC = 600.0


class Retention:
    def __init__(self, connection: Connection, runs: OpenRuns, *, marker_sec: float = _MARKER_SEC) -> None:
        self._connection = connection
        self._runs = runs
        self._marker_sec = marker_sec
        self._keep_sec = connection.config.run_retention_sec
        bucket = connection.config.runs_kv_bucket
        self._stream = f"KV_{bucket}"
        self._prefix = f"$KV.{bucket}."
        self._store = RunStore(connection)
        self._journal = Journal(connection)
        self._objects = RunObjects(connection)
        self._logs = RunLogs(connection)
        self._waits = WaitStore(connection)
        self._mailboxes = MailboxStore(connection)
        self._wait_events = WaitEventLog(connection)
        # The runs up to this sequence have not ended, and will be written again.
        self._after = 0
        self._created = ""

    async def remove_ended(self) -> AsyncIterator[int]:
        """Remove the runs that ended long ago; yields the number removed of each group."""
        if not self._keep_sec:
            return
        if self._created != self._runs.bucket_created:
            self._created, self._after = self._runs.bucket_created, 0
        # By the server's clock: if ours jumped ahead, young runs would be removed.
        ended_before = (await stream_state(self._connection, self._stream)).server_time - self._keep_sec
        while old := await self._oldest(stored_before=ended_before):
            removed = sum(await _all_of(self._remove(message) for message in old if _is_removable(message)))
            if removed:
                log.info("removed %d ended runs", removed)
            self._after = old[-1].sequence
            yield removed

    async def remove_markers(self) -> AsyncIterator[None]:
        """Remove old delete markers, and records of those runs that were written later."""
        while group := self._runs.take_markers(older_than_sec=self._marker_sec, most=_AT_ONCE):
            await self._remove_markers(group)
            yield

    async def _oldest(self, *, stored_before: float) -> list[StreamMessage]:
        old: list[StreamMessage] = []
        after = self._after
        while len(old) < _AT_ONCE:
            message = await message_after(self._connection, self._stream, after)
            if message is None or message.stored_at >= stored_before:
                break
            old.append(message)
            after = message.sequence
        return old

    async def _remove(self, message: StreamMessage) -> bool:
        """Delete the run and its records; false if it was written since it was read."""
        run_id = message.subject.removeprefix(self._prefix)
        try:
            await self._store.delete(run_id, revision=message.sequence)
        except RevisionConflict:
            log.debug("the ended run was deleted or reopened meanwhile", extra={"run_id": run_id})
            return False
        await self._remove_records(run_id)
        return True

    async def _remove_records(self, run_id: str) -> int:
        """Remove the records of a deleted run; returns the number of its waits."""
        await self._journal.remove(run_id)
        await self._objects.remove_run(run_id)
        await self._logs.remove(run_id)
        await self._mailboxes.remove_run(run_id)
        waits = await self._waits.remove_run(run_id)
        if waits:
            await self._wait_events.remove_run(run_id)
        return waits

    async def _remove_markers(self, group: list[tuple[float, str]]) -> None:
        """Markers that could not be removed are put back."""
        created = self._runs.bucket_created
        left = {run_id: (seen_at, run_id) for seen_at, run_id in group}

        async def remove(run_id: str) -> None:
            await self._remove_marker(run_id)
            del left[run_id]

        try:
            await _all_of([remove(run_id) for run_id in left])
        finally:
            # Unless the bucket was recreated meanwhile.
            if self._runs.bucket_created == created:
                self._runs.put_back_markers(list(left.values()))

    async def _remove_marker(self, run_id: str) -> None:
        marker = await self._store.marker(run_id)
        if marker is None:
            # Another gateway has removed it; or the run exists again after a backup was restored.
            return
        if await self._remove_records(run_id):
            # The gateway that deleted the run crashed before it deleted its waits. These have left markers of
            # their own, which are removed together with this one the next time.
            self._runs.remember_marker(run_id)
            return
        if await self._waits.has_messages(run_id):
            # In this order: without the markers the events would not be found.
            await self._wait_events.remove_run(run_id)
            await self._waits.purge_run(run_id)
        await jetstream_api.purge(self._connection, self._stream, f"{self._prefix}{run_id}", upto=marker)


async def _all_of(steps: Iterable[Awaitable[T]]) -> list[T]:
    """Run all steps to their end, then raise the first error."""
    outcomes: list[T] = []
    for outcome in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
        outcomes.append(outcome)
    return outcomes


def _is_removable(message: StreamMessage) -> bool:
    try:
        state = state_in(message)
    except UnreadableRecord:
        return True
    return state is not None and state.status in TERMINAL


class WorkerRecordRetention:
    """Removes the records of workers that were not seen for long, and catalogues that no record refers to.

    A record with an operator's setting (paused, hidden) is kept: it applies to the next worker of that id.
    """

    def __init__(self, connection: Connection) -> None:
        self._registry = WorkerRegistry(connection)
        self._catalogues = FlowCatalogueStore(connection)
        self._keep_sec = connection.config.worker_record_retention_sec
        self._disconnect_sec = connection.config.worker_disconnect_timeout_sec
        self._next_check = 0.0

    async def remove(self) -> int:
        """Remove expired records; returns how many."""
        if time.monotonic() < self._next_check:
            return 0
        self._next_check = time.monotonic() + _WORKER_CHECK_SEC
        # Read first: a record that is written meanwhile is younger.
        written_before = await self._registry.server_time() - self._keep_sec
        records = await self._registry.stored()
        used = {stored.record.catalogue.digest for stored in records if stored.record.catalogue is not None}
        await self._catalogues.remove_unused(used, older_than_sec=_UNUSED_CATALOGUE_SEC)
        if not self._keep_sec:
            return 0
        expired = [stored for stored in records if self._is_expired(stored, written_before)]
        for stored in expired:
            await self._registry.remove(stored)
        if expired:
            log.info("removed the records of %d disconnected workers", len(expired))
        return len(expired)

    def _is_expired(self, stored: StoredWorker, written_before: float) -> bool:
        record = stored.record
        # Both by the server's clock: that of a worker, or ours, may be wrong by days.
        if stored.stored_at >= written_before or record.hidden or record.paused:
            return False
        return not record.observed_state(disconnect_timeout_sec=self._disconnect_sec).alive


class UnfinishedUploads:
    """Removes what is left of objects of runs whose upload was interrupted, or that were replaced."""

    def __init__(self, connection: Connection) -> None:
        self._objects = RunObjects(connection)
        self._next_check = 0.0

    async def remove(self) -> int:
        """Remove old ones; returns how many."""
        if time.monotonic() < self._next_check:
            return 0
        self._next_check = time.monotonic() + _UPLOAD_CHECK_SEC
        removed = await self._objects.drop_abandoned()
        if removed:
            log.info("removed the bytes of %d unfinished or replaced uploads", removed)
        return removed
