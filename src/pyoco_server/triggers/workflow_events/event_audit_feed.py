"""The reader of the feed of audit rows: it updates the index, and wakes the writer of the JSONL file."""

from collections.abc import Callable
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.broker.jetstream.stream_reads import StreamMessage
from pyoco_server.broker.stores.triggers.event_audit_store import audit_key
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.triggers.workflow_event_models import decode_audit_row
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.runs.index.sqlite.index_feed import CatchUp, IndexFeedReader
from pyoco_server.triggers.workflow_events.event_audit_index import (
    EventAuditIndex,
    EventAuditWrite,
    Month,
    MonthSelection,
)

_KEY_PARTS: Final = 3


class EventAuditFeedReader(IndexFeedReader[EventAuditIndex, EventAuditWrite]):
    name = "audit rows"
    key_field = "audit_key"
    kind = RecordKind.AUDIT_ROW

    def __init__(self, connection: Connection, index: EventAuditIndex, on_rows: Callable[[], None]) -> None:
        """`on_rows` is called when there are new rows, and when the index is ready."""
        config = connection.config
        prefix = f"{config.audit_subject_prefix}."
        super().__init__(index, config.audit_stream, connection.unreadable, prefix=prefix)
        self._on_rows = on_rows
        self.feed = BucketFeed(
            connection, self, bucket=config.audit_stream, label="audit rows", keys=">", prefix=prefix
        )

    async def take(self, batch: list[StreamMessage]) -> None:
        await self._apply_batch(
            batch,
            lambda writes, last: self._index.apply(writes, upto=last.sequence, stored_ns=last.stored_ns),
        )
        self._on_rows()

    async def drop(self, revisions: list[int]) -> None:
        """They have expired, or there were too many."""
        for key in await self._index.drop_unreadable(revisions):
            self._unreadable.remove(self.kind, key)
        await self._index.drop(revisions)

    def _became_ready(self) -> None:
        self._on_rows()

    def _decode(self, key: str, message: StreamMessage) -> EventAuditWrite | None:
        if key.count(".") != _KEY_PARTS - 1:
            return None
        row = decode_audit_row(message.data)
        if audit_key(row) != key:
            raise UnreadableRecord(f"it is the row {audit_key(row)[:100]}")
        return EventAuditWrite(key, message.sequence, row, message.data)

    def _without_record(self, key: str, message: StreamMessage, problem: str) -> EventAuditWrite:
        return EventAuditWrite(key, message.sequence, problem=problem)


class EventAuditSummaries:
    """Each read first waits, for a limited time, until the index has caught up."""

    def __init__(self, index: EventAuditIndex, feed: BucketFeed) -> None:
        self._index = index
        self._catch_up = CatchUp(
            index, feed, lambda: f"{index.entries} audit rows are read, at most {feed.behind} are left"
        )

    async def month(self, selected: MonthSelection, *, recent: int) -> Month:
        await self._catch_up.wait()
        return await self._index.month(selected, recent=recent)
