"""The reader of the feed of the audit log, which updates the index; and the lists that are read from it."""

from typing import Final

from pyoco_server.audit.audit_entry_index import AuditEntryIndex, AuditEntryWrite, AuditFilter, EntryPage
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.broker.jetstream.stream_reads import StreamMessage
from pyoco_server.broker.stores.monitoring.audit_entry_store import entry_key
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.monitoring.audit_entry_models import decode_audit_entry
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.runs.index.pagination import SortKey
from pyoco_server.runs.index.sqlite.index_feed import CatchUp, IndexFeedReader

_KEY_PARTS: Final = 2


class AuditEntryFeedReader(IndexFeedReader[AuditEntryIndex, AuditEntryWrite]):
    name = "audit log entries"
    key_field = "audit_entry_key"
    kind = RecordKind.AUDIT_ENTRY

    def __init__(self, connection: Connection, index: AuditEntryIndex) -> None:
        config = connection.config
        prefix = f"{config.audit_log_subject_prefix}."
        super().__init__(index, config.audit_log_stream, connection.unreadable, prefix=prefix)
        self.feed = BucketFeed(
            connection, self, bucket=config.audit_log_stream, label=self.name, keys="*.*", prefix=prefix
        )

    async def take(self, batch: list[StreamMessage]) -> None:
        await self._apply_batch(
            batch,
            lambda writes, last: self._index.apply(writes, upto=last.sequence, stored_ns=last.stored_ns),
        )

    async def drop(self, revisions: list[int]) -> None:
        """They have expired, or the log was full."""
        for key in await self._index.drop_unreadable(revisions):
            self._unreadable.remove(self.kind, key)
        await self._index.drop(revisions)

    def _became_ready(self) -> None:
        """Nobody waits for it."""

    def _decode(self, key: str, message: StreamMessage) -> AuditEntryWrite | None:
        if key.count(".") != _KEY_PARTS - 1:
            return None
        entry = decode_audit_entry(message.data)
        if entry_key(entry) != key:
            raise UnreadableRecord(f"it is the entry {entry_key(entry)[:100]}")
        return AuditEntryWrite(key, message.sequence, entry, message.data)

    def _without_record(self, key: str, message: StreamMessage, problem: str) -> AuditEntryWrite:
        return AuditEntryWrite(key, message.sequence, problem=problem)


class AuditLists:
    """Each read first waits, for a limited time, until the index has caught up."""

    def __init__(self, index: AuditEntryIndex, feed: BucketFeed) -> None:
        self._index = index
        self._catch_up = CatchUp(
            index, feed, lambda: f"{index.entries} audit log entries are read, at most {feed.behind} are left"
        )

    async def page(self, selected: AuditFilter, *, limit: int, after: SortKey | None) -> EntryPage:
        await self._catch_up.wait()
        return await self._index.page(selected, limit=limit, after=after)
