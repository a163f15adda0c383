"""The reader of the feed of waits: it updates the index, the counts, the inbox and the maintenance.

In this order, so that a list already shows a change when a follower receives it.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, StreamState
from pyoco_server.human.inbox.inbox_hub import Inbox, InboxChange
from pyoco_server.human.inbox.wait_index import SeenWait, WaitIndex
from pyoco_server.human.inbox.wait_items import WaitItem, item_of
from pyoco_server.records.wait_models import WaitState, decode_outbox, decode_wait, is_wait_id, run_id_of
from pyoco_server.runs.index.feed_reader import IndexReading
from pyoco_server.runs.lifecycle.tenancy import visible_to

log = logging.getLogger(__name__)

COUNTED: Final = (WaitState.ANSWERED, WaitState.EXPIRED, WaitState.CANCELLED)


class DecidedCounts:
    """Waits that were decided while this gateway was running, by tenant and state."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str | None, WaitState]] = Counter()

    def take(self, before: WaitItem | None, now: WaitItem | None) -> None:
        was_open = before is None or before.state is WaitState.OPEN
        if now is not None and was_open and now.state is not WaitState.OPEN:
            self._counts[now.tenant_id, now.state] += 1

    def of(self, tenant: str | None) -> dict[WaitState, int]:
        """The counts of one tenant (None: of all)."""
        found = dict.fromkeys(COUNTED, 0)
        for (owner, state), count in self._counts.items():
            if visible_to(tenant, owner):
                found[state] += count
        return found


class WaitReader(IndexReading):
    def __init__(self, bucket: str, index: WaitIndex, inbox: Inbox, decided: DecidedCounts) -> None:
        super().__init__(index)
        self._prefix = f"$KV.{bucket}."
        self._index = index
        self._inbox = inbox
        self._decided = decided
        self._on_changes: list[Callable[[], None]] = []

    def on_changes(self, callback: Callable[[], None]) -> None:
        """Call it in the event loop when waits have changed, and when the index is complete."""
        self._on_changes.append(callback)

    @property
    def entries(self) -> int:
        return self._index.waits

    async def begin(self, created: str) -> None:
        await self._index.begin(created)

    async def take(self, batch: list[StreamMessage]) -> None:
        # Records of waits can be long.
        seen = await asyncio.to_thread(lambda: list(self._seen(batch)))
        last = batch[-1]
        before = await self._index.apply(seen, upto=last.sequence, stored_ns=last.stored_ns)
        if not self._index.ready:
            # Old changes: followers get the open waits once the index is complete.
            return
        for write, was in zip(seen, before, strict=True):
            self._decided.take(was, write.item)
        self._inbox.publish(
            [InboxChange(write.revision, write.item, was) for write, was in zip(seen, before, strict=True)]
        )
        self._notify()

    async def up_to_date(self, state: StreamState) -> None:
        if not self._index.ready:
            await self._index.complete()
            self._inbox.begin(self.checkpoint.created, self.checkpoint.revision)
            log.info("the index of waits is ready: %d waits", self.entries)
            self._notify()
        await self._index.look_after_file()

    async def drop(self, revisions: list[int]) -> None:
        for item in await self._index.drop(revisions):
            extra = {"wait_id": item.wait_id, "run_id": item.run_id}
            log.info("a wait disappeared without a delete marker", extra=extra)
        # There is no revision to report: followers list the open waits again.
        self._inbox.begin(self.checkpoint.created, self.checkpoint.revision)

    def _notify(self) -> None:
        for callback in self._on_changes:
            callback()

    def _seen(self, batch: list[StreamMessage]) -> Iterator[SeenWait]:
        for message in batch:
            wait_id = message.subject.removeprefix(self._prefix)
            if not is_wait_id(wait_id):
                log.warning("skipping an unknown key in the bucket of waits: %r", wait_id)
            elif message.is_marker:
                yield SeenWait(wait_id, message.sequence, None, removed=True)
            else:
                yield _read(wait_id, message)


def feed_of(connection: Connection, reader: WaitReader) -> BucketFeed:
    """The feed of waits. It always reads at once: waits are few, and people wait for them."""
    bucket = connection.config.waits_kv_bucket
    feed = BucketFeed(connection, reader, bucket=bucket, of="waits", keys="*.*")
    feed.set_live(True)
    return feed


def _read(wait_id: str, message: StreamMessage) -> SeenWait:
    """An unreadable wait is removed from the index."""
    extra = {"wait_id": wait_id, "run_id": run_id_of(wait_id)}
    try:
        record = decode_wait(message.data)
        if record.wait_id != wait_id:
            raise msgspec.ValidationError(f"it says that it is wait {record.wait_id}")
        has_outbox = bool(decode_outbox(message.data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.warning("an unreadable wait is not listed: %s", error, extra=extra)
        return SeenWait(wait_id, message.sequence, None)
    return SeenWait(wait_id, message.sequence, item_of(record), has_outbox)
