"""The reader of the waits feed: updates the index, then the counters, the inbox and the maintenance.

In this order: a client that is notified of a change finds it in a list.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from pyoco_server.aio.loop_batches import yielding_batches
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.broker.jetstream.stream_reads import StreamMessage
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.waits.wait_models import WaitState, decode_outbox, decode_wait, is_wait_id
from pyoco_server.runs.index.sqlite.index_feed import IndexFeedReader
from pyoco_server.runs.lifecycle.tenancy import visible_to
from pyoco_server.waits.human.inbox_hub import InboxChange, InboxHub
from pyoco_server.waits.index.wait_index import WaitIndex, WaitWrite
from pyoco_server.waits.index.wait_items import WaitItem, item_of

log = logging.getLogger(__name__)

COUNTED: Final = (WaitState.ANSWERED, WaitState.EXPIRED, WaitState.CANCELLED, WaitState.WITHDRAWN)


class DecidedCounts:
    """Questions that were decided while this gateway was running, by tenant and state."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str | None, WaitState]] = Counter()

    def take(self, before: WaitItem | None, now: WaitItem | None) -> None:
        was_open = before is None or before.state is WaitState.OPEN
        if now is not None and now.kind is WaitKind.HUMAN and was_open and now.state is not WaitState.OPEN:
            self._counts[now.tenant_id, now.state] += 1

    def of(self, tenant: str | None) -> dict[WaitState, int]:
        """The counts of one tenant (None: of all)."""
        found = dict.fromkeys(COUNTED, 0)
        for (owner, state), count in self._counts.items():
            if visible_to(tenant, owner):
                found[state] += count
        return found


class WaitFeedReader(IndexFeedReader[WaitIndex, WaitWrite]):
    """Its callbacks are called in the event loop."""

    name = "waits"
    key_field = "wait_id"
    kind = RecordKind.WAIT

    def __init__(
        self, connection: Connection, index: WaitIndex, inbox: InboxHub, decided: DecidedCounts
    ) -> None:
        super().__init__(index, connection.config.waits_kv_bucket, connection.unreadable)
        self._inbox = inbox
        self._decided = decided
        self._on_changes: list[Callable[[], None]] = []
        self._on_writes: list[Callable[[Sequence[WaitWrite]], None]] = []
        self._on_filled: list[Callable[[], None]] = []
        self._on_disappeared: list[Callable[[Sequence[str]], None]] = []

    def on_changes(self, callback: Callable[[], None]) -> None:
        """Register a callback: called when waits have changed and when the index is ready."""
        self._on_changes.append(callback)

    def on_writes(self, callback: Callable[[Sequence[WaitWrite]], None]) -> None:
        """Register a callback: called with each batch that the index has stored after it was ready."""
        self._on_writes.append(callback)

    def on_filled(self, callback: Callable[[], None]) -> None:
        """Register a callback: called when the index is filled: at the start, or after a loss of NATS."""
        self._on_filled.append(callback)

    def on_disappeared(self, callback: Callable[[Sequence[str]], None]) -> None:
        """Register a callback: called with the ids of runs whose waits disappeared without a marker."""
        self._on_disappeared.append(callback)

    async def take(self, batch: list[StreamMessage]) -> None:
        applied = await self._apply_batch(
            batch,
            lambda writes, last: self._index.apply(writes, upto=last.sequence, stored_ns=last.stored_ns),
        )
        if not self._index.ready:
            # Most of these are old; followers get all open waits when the index is ready.
            return
        async for some in yielding_batches(applied):
            self._report_writes(some)
        self._report_changes()

    def _report_writes(self, applied: Sequence[tuple[WaitWrite, WaitItem | None]]) -> None:
        for write, was in applied:
            self._decided.take(was, write.item)
        self._inbox.publish([InboxChange(write.revision, write.item, was) for write, was in applied])
        writes = [write for write, _ in applied]
        for on_writes in self._on_writes:
            on_writes(writes)

    def _became_ready(self) -> None:
        self._inbox.begin(self.checkpoint.created, self.checkpoint.revision)
        for on_filled in self._on_filled:
            on_filled()
        self._report_changes()

    async def drop(self, revisions: list[int]) -> None:
        for wait_id in await self._index.drop_unreadable(revisions):
            self._unreadable.remove(self.kind, wait_id)
        dropped = await self._index.drop(revisions)
        for item in dropped:
            log.info(
                "wait disappeared without a delete marker",
                extra={"run_id": item.run_id, "wait_id": item.wait_id},
            )
        for on_disappeared in self._on_disappeared:
            on_disappeared([item.run_id for item in dropped])
        # There is no revision to publish: followers read all open waits again.
        self._inbox.begin(self.checkpoint.created, self.checkpoint.revision)

    def _report_changes(self) -> None:
        for callback in self._on_changes:
            callback()

    def _decode(self, key: str, message: StreamMessage) -> WaitWrite | None:
        if not is_wait_id(key):
            return None
        if message.is_marker:
            return WaitWrite(key, message.sequence, None, deleted=True)
        record = decode_wait(message.data)
        if record.wait_id != key:
            raise UnreadableRecord(f"its wait_id is {record.wait_id}")
        has_outbox = bool(decode_outbox(message.data))
        item = item_of(record)
        return WaitWrite(key, message.sequence, item, has_outbox, record.notice_at, record.match)

    def _without_record(self, key: str, message: StreamMessage, problem: str) -> WaitWrite:
        return WaitWrite(key, message.sequence, None, problem=problem)


def feed_of(connection: Connection, reader: WaitFeedReader) -> BucketFeed:
    """The feed of waits. It always reads at once: waits are few, and people wait for them."""
    bucket = connection.config.waits_kv_bucket
    feed = BucketFeed(connection, reader, bucket=bucket, label="waits", keys="*.*")
    feed.set_live(True)
    return feed
