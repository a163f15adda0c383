"""When the feed of a bucket reads while many requests come."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from pyoco_server.aio.urgent_work import UrgentWork
from pyoco_server.broker.jetstream import bucket_feed
from pyoco_server.broker.jetstream.bucket_feed import BucketFeed, debounce_sec
from pyoco_server.broker.jetstream.feed_history import Checkpoint
from pyoco_server.broker.jetstream.stream_reads import StreamMessage

BUSY = bucket_feed._BUSY_MESSAGES + 1


class _Connection:
    """Sends so many messages between two looks at it, as long as it is told; then none."""

    ready = True
    interruptions = 0

    def __init__(self, *sent: int) -> None:
        self.urgent = UrgentWork()
        self._sent = list(sent)
        self._total = 0

    @property
    def messages_sent(self) -> int:
        self._total += self._sent.pop(0) if self._sent else 0
        return self._total

    @property
    def checks_left(self) -> int:
        return len(self._sent)


class _Cursor:
    def __init__(self) -> None:
        self.limits: list[int] = []

    async def read(self, *, after: int, limit: int, max_bytes: int) -> list[StreamMessage]:
        self.limits.append(limit)
        return []


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_feed, "_BUSY_SEC", 0)


def _feed(connection: Any, *, now: float = 0.0) -> BucketFeed:
    """One that was up to date a moment ago."""
    reader: Any = SimpleNamespace(checkpoint=Checkpoint("", 0), ready=True)
    feed = BucketFeed(connection, reader, bucket="b", label="runs")
    feed._up_to_date_at = time.monotonic() - now
    return feed


async def _limit(feed: BucketFeed) -> int:
    """How many messages it would read at once."""
    cursor: Any = _Cursor()
    feed._cursor = cursor
    await feed._read(after=0)
    return int(cursor.limits[0])


async def test_it_defers_reads_until_few_requests_come_and_then_reads_little() -> None:
    connection = _Connection(*[BUSY] * 20)
    feed = _feed(connection)
    await feed._defer_while_busy()
    assert not connection.checks_left
    assert await _limit(feed) == bucket_feed._SMALL_BATCH


async def test_it_defers_reads_no_longer_than_a_list_may_have_to_wait_for() -> None:
    connection = _Connection(*[bucket_feed._MAX_UNREAD_SENT // 4] * 20)
    feed = _feed(connection)
    await feed._defer_while_busy()
    assert connection.checks_left > 10
    assert await _limit(feed) == bucket_feed._READY_BATCH


async def test_it_defers_reads_for_a_limited_time() -> None:
    connection = _Connection(*[BUSY] * 20)
    feed = _feed(connection, now=bucket_feed._MAX_DEFER_SEC)
    await feed._defer_while_busy()
    assert connection.checks_left > 10


async def test_it_does_not_defer_reads_while_a_list_waits() -> None:
    connection = _Connection(*[BUSY] * 20)
    feed = _feed(connection)
    waiting = feed._barriers.add()
    await feed._defer_while_busy()
    assert connection.checks_left == 20
    # Not more: a submit waits behind a batch.
    assert await _limit(feed) == bucket_feed._READY_BATCH
    waiting.cancel()


async def test_it_reads_more_at_once_while_it_is_filled() -> None:
    feed = _feed(_Connection())
    reader: Any = feed._reader
    reader.ready = False
    assert await _limit(feed) == bucket_feed._BATCH > bucket_feed._READY_BATCH


async def test_it_does_not_defer_reads_while_somebody_follows() -> None:
    connection = _Connection(*[BUSY] * 20)
    feed = _feed(connection)
    feed.set_live(True)
    await feed._defer_while_busy()
    assert connection.checks_left == 20
    assert await _limit(feed) == bucket_feed._READY_BATCH


async def test_it_gives_way_to_a_submit_unless_a_list_waits() -> None:
    connection = _Connection()
    feed, listed = _feed(connection), _feed(connection)
    waiting = listed._barriers.add()
    with connection.urgent:
        reading = asyncio.create_task(_limit(feed))
        assert await _limit(listed) == bucket_feed._READY_BATCH
        await asyncio.sleep(0)
        assert not reading.done()
    await reading
    waiting.cancel()


def _compared(feed: BucketFeed, *, after: int, sec: float) -> list[int]:
    """Up to where keys are compared, when messages 11 to 100 were read in this time."""
    found: list[int] = []
    removed: Any = SimpleNamespace(compare_all=lambda *, upto: found.append(upto))
    feed._removed = removed
    reader: Any = feed._reader
    reader.checkpoint, reader.entries, reader.markers = Checkpoint("", 100), 100, 0
    state: Any = SimpleNamespace(last_sequence=100, messages=100)
    feed._look_for_removed_keys(state, time.monotonic() - sec, after)
    return found


def test_what_was_read_a_moment_ago_is_not_compared_with_the_bucket() -> None:
    """A gateway that has filled its index is idle then."""
    away = _feed(_Connection(), now=2 * bucket_feed._AWAY_SEC)
    assert _compared(away, after=10, sec=5.0) == [10]
    # While it was read for so long, something may have been removed unseen.
    assert _compared(away, after=10, sec=2 * bucket_feed._AWAY_SEC) == [100]
    assert _compared(_feed(_Connection()), after=10, sec=5.0) == []


def test_announced_writes_are_debounced_for_longer_while_reading_them_takes_long() -> None:
    assert debounce_sec(0.0) == debounce_sec(0.004) == bucket_feed._DEBOUNCE_SEC
    assert debounce_sec(0.02) == pytest.approx(0.08)
    # A person who waits for a list notices no more.
    assert debounce_sec(3.0) == bucket_feed._MAX_DEBOUNCE_SEC
