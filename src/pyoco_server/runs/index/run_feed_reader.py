"""The reader of the runs feed: updates the index, then the sweep's open runs, then the followers.

In this order: a client that is notified of a change finds it in a list.
"""

import logging
from collections.abc import Sequence

from pyoco_server.aio.loop_batches import yielding_batches
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, StreamState
from pyoco_server.errors import UnreadableRecord, shortened
from pyoco_server.records.runs.run_models import TERMINAL
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.value_types import is_run_id
from pyoco_server.runs.index.index_writer import RunWrite
from pyoco_server.runs.index.run_index import RunIndex
from pyoco_server.runs.index.run_summary import summary_of
from pyoco_server.runs.index.sqlite.index_feed import IndexFeedReader
from pyoco_server.runs.open_runs import OpenRuns, decode_state
from pyoco_server.runs.watch.recent_changes import Before
from pyoco_server.runs.watch.run_hub import RunChange, RunHub

log = logging.getLogger(__name__)


class RunFeedReader(IndexFeedReader[RunIndex, RunWrite]):
    name = "runs"
    key_field = "run_id"
    kind = RecordKind.RUN

    def __init__(self, connection: Connection, index: RunIndex, open_runs: OpenRuns, hub: RunHub) -> None:
        super().__init__(index, connection.config.runs_kv_bucket, connection.unreadable)
        self._open_runs = open_runs
        self._hub = hub
        # Whether the open runs are those of the index.
        self._loaded = False
        self._truncations = 0

    async def begin(self, created: str) -> None:
        if created == self.checkpoint.created:
            # The stream was truncated: revisions that were reported are used again.
            self._truncations += 1
            self._hub.stream_truncated()
        await super().begin(created)
        self._reset_open_runs(created)
        self._loaded = True

    async def take(self, batch: list[StreamMessage]) -> None:
        await self._load()
        with_before = self._index.ready and self._hub.has_list_followers
        applied = await self._apply_batch(
            batch,
            lambda writes, last: self._index.apply(
                writes, upto=last.sequence, stored_ns=last.stored_ns, with_before=with_before
            ),
        )
        async for some in yielding_batches(applied):
            await self._report_changes(some)

    async def _report_changes(self, applied: Sequence[tuple[RunWrite, Before]]) -> None:
        for write, _ in applied:
            self._open_runs.apply(write.run_id, write.revision, write.state)
            if write.deleted:
                self._open_runs.remember_marker(write.run_id)
        changes = [
            RunChange(write.run_id, write.revision, write.data, write.summary, was) for write, was in applied
        ]
        if self._index.ready:
            await self._hub.publish(changes)
        else:
            # Most of these are old. A follower of one run recognises what is new.
            self._hub.publish_to_run_followers(changes)

    async def up_to_date(self, state: StreamState) -> None:
        await self._load()
        await super().up_to_date(state)

    def _became_ready(self) -> None:
        self._hub.begin(self.checkpoint.created, self.checkpoint.revision)

    async def drop(self, revisions: list[int]) -> None:
        for run_id in await self._index.drop_unreadable(revisions):
            self._unreadable.remove(self.kind, run_id)
        for revision, summary in await self._index.drop(revisions):
            run_id = summary.item.run_id
            log.info("run disappeared without a delete marker", extra={"run_id": run_id})
            self._open_runs.apply(run_id, 0, None)
            self._hub.publish_disappeared(revision, summary)

    async def forget_markers(self, keys: list[str]) -> None:
        self._open_runs.forget_markers(keys)
        await super().forget_markers(keys)

    async def _load(self) -> None:
        """Load the open runs from an existing index: the feed only reads what was written since."""
        if self._loaded:
            return
        self._reset_open_runs(self.checkpoint.created)
        for run_id, revision, state in await self._index.open_states():
            self._open_runs.apply(run_id, revision, decode_state(state))
        for run_id in await self._index.markers():
            self._open_runs.remember_marker(run_id)
        self._loaded = True

    def _reset_open_runs(self, created: str) -> None:
        # A truncated stream counts as another bucket.
        self._open_runs.reset(f"{created} {self._truncations}" if self._truncations else created)

    def _decode(self, key: str, message: StreamMessage) -> RunWrite | None:
        if not is_run_id(key):
            return None
        if message.is_marker:
            return RunWrite(key, message.sequence, None, deleted=True)
        summary = summary_of(message.data)
        if summary.item.run_id != key:
            raise UnreadableRecord(f"its run_id is {shortened(summary.item.run_id)}")
        state = None if summary.item.status in TERMINAL else decode_state(message.data)
        return RunWrite(key, message.sequence, message.data, summary, state)

    def _without_record(self, key: str, message: StreamMessage, problem: str) -> RunWrite:
        return RunWrite(key, message.sequence, message.data, problem=problem)
