"""Removing what is not needed any more: runs that ended long ago, and the traces of deleted ones.

The key of a run is deleted first, by a compare-and-set: a run that somebody has taken up again keeps all that
it has. The marker which that leaves in the bucket leads every gateway to what is left of the run, also when
the one that deleted it died in between.

The runs bucket keeps one message per run, and an ended run is never written again: its messages are in the
order in which the runs ended. So the oldest are at the front, and the walk stops at the first young one.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import TypeVar

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.jetstream.stream_reads import EVERYTHING, StreamMessage, read_batch, stream_state
from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.broker.stores.run_log_store import RunLogs
from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.broker.stores.wait_events import WaitEvents
from pyoco_server.broker.stores.wait_store import WaitStore
from pyoco_server.records.models import TERMINAL
from pyoco_server.runs.sweep.open_runs import OpenRuns, state_in

log = logging.getLogger(__name__)

T = TypeVar("T")

# How long the marker of a deleted key stays: whoever follows the bucket must see it, and a write that is
# still on its way to the deleted key must fail.
_MARKER_SEC = 600.0
# How many runs are removed at once.
_AT_ONCE = 64


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
        self._logs = RunLogs(connection)
        self._waits = WaitStore(connection)
        self._wait_events = WaitEvents(connection)
        # Whatever stands up to here has not ended, and will be written again behind it.
        self._after = 0
        self._created = ""

    async def remove_ended(self) -> AsyncIterator[int]:
        """Remove the runs that ended long ago; yields, group by group, how many."""
        if not self._keep_sec:
            return
        if self._created != self._runs.created:
            self._created, self._after = self._runs.created, 0
        # Never by our own clock: one that jumps ahead would remove what is young.
        ended_before = (await stream_state(self._connection, self._stream)).server_time - self._keep_sec
        while batch := await read_batch(
            self._connection, self._stream, EVERYTHING, after=self._after, limit=_AT_ONCE
        ):
            old = [message for message in batch if message.stored_time < ended_before]
            removed = sum(await _all_of(self._remove(message) for message in old if _has_ended(message)))
            if removed:
                log.info("removed %d runs that ended long ago", removed)
            if old:
                self._after = old[-1].sequence
            yield removed
            if len(old) < len(batch):
                return

    async def remove_traces(self) -> AsyncIterator[None]:
        """Remove the markers of deleted keys, and what was written about those runs after all."""
        while group := self._runs.take_markers(older_than_sec=self._marker_sec, most=_AT_ONCE):
            await self._remove_markers(group)
            yield

    async def _remove(self, message: StreamMessage) -> bool:
        """Delete exactly what was read, then what is kept beside it; false if the run was written since."""
        run_id = message.subject.removeprefix(self._prefix)
        try:
            await self._store.delete(run_id, revision=message.sequence)
        except RevisionConflict:
            log.debug("an ended run was removed or retried meanwhile", extra={"run_id": run_id})
            return False
        await self._remove_records(run_id)
        return True

    async def _remove_records(self, run_id: str) -> int:
        """Remove what is kept beside the key of a deleted run; how many waits were among it."""
        await self._journal.remove(run_id)
        await self._logs.remove(run_id)
        waits = await self._waits.remove_run(run_id)
        if waits:
            await self._wait_events.remove_run(run_id)
        return waits

    async def _remove_markers(self, group: list[tuple[float, str]]) -> None:
        """What is left of the group when one step fails is remembered for the next time."""
        created = self._runs.created
        left = {run_id: (seen_at, run_id) for seen_at, run_id in group}

        async def remove(run_id: str) -> None:
            await self._remove_marker(run_id)
            del left[run_id]

        try:
            await _all_of([remove(run_id) for run_id in left])
        finally:
            # Of another bucket they would be nobody's markers.
            if self._runs.created == created:
                self._runs.put_back_markers(list(left.values()))

    async def _remove_marker(self, run_id: str) -> None:
        marker = await self._store.marker(run_id)
        if marker is None:
            # Another gateway has removed it; or, after a restored backup, the run is there again.
            return
        if await self._remove_records(run_id):
            # The gateway that deleted the run died before its waits were. They leave markers of their own,
            # for whoever follows that bucket: those go with this one, the next time.
            self._runs.remember_marker(run_id)
            return
        if await self._waits.has_traces(run_id):
            # In this order: without the markers nothing would say that there are events.
            await self._wait_events.remove_run(run_id)
            await self._waits.purge_run(run_id)
        await jetstream_api.purge(self._connection, self._stream, f"{self._prefix}{run_id}", upto=marker)


async def _all_of(steps: Iterable[Awaitable[T]]) -> list[T]:
    """Take the steps at once, see each to its end, and then raise if one failed."""
    outcomes: list[T] = []
    for outcome in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
        outcomes.append(outcome)
    return outcomes


def _has_ended(message: StreamMessage) -> bool:
    try:
        state = state_in(message)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return state is not None and state.status in TERMINAL
