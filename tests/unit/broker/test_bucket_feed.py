"""When the feed of a bucket reads while many requests come."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from pyoco_server.broker.jetstream import bucket_feed
from pyoco_server.broker.jetstream.bucket_feed import BucketFeed, gather_sec
from pyoco_server.broker.jetstream.feed_history import Checkpoint
from pyoco_server.broker.jetstream.stream_reads import StreamMessage

BUSY = bucket_feed._BUSY_MESSAGES + 1


class _Connection:
    """Sends so many messages between two looks at it, as long as it is told; then none."""

    ready = True
    interruptions = 0

    def __init__(self, *sent: int) -> None:
        self._sent = list(sent)
        self._total = 0

    @property
    def messages_sent(self) -> int:
        self._total += self._sent.pop(0) if self._sent else 0
        return self._total

    @property
    def looks_left(self) -> int:
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
    feed = BucketFeed(connection, reader, bucket="b", of="runs")
    feed._up_to_date_at = time.monotonic() - now
    return feed


async def _limit(feed: BucketFeed) -> int:
    """How many messages it would read at once."""
    cursor: Any = _Cursor()
    feed._cursor = cursor
    await feed._read(after=0)
    return int(cursor.limits[0])


async def test_it_rests_until_few_requests_come_and_then_reads_little_at_once() -> None:
    connection = _Connection(*[BUSY] * 20)
    feed = _feed(connection)
    await feed._rest_while_busy()
    assert not connection.looks_left
    assert await _limit(feed) == bucket_feed._SMALL_BATCH


async def test_it_rests_no_longer_than_a_list_may_have_to_wait_for() -> None:
    connection = _Connection(*[bucket_feed._MAX_UNREAD_SENT // 4] * 20)
    feed = _feed(connection)
    await feed._rest_while_busy()
    assert connection.looks_left > 10
    assert await _limit(feed) == bucket_feed._BATCH


async def test_it_rests_for_a_limited_time() -> None:
    connection = _Connection(*[BUSY] * 20)
    feed = _feed(connection, now=bucket_feed._MAX_REST_SEC)
    await feed._rest_while_busy()
    assert connection.looks_left > 10


async def test_it_does_not_rest_while_a_list_waits() -> None:
    connection = _Connection(*[BUSY] * 20)
    feed = _feed(connection)
    waiting = feed._barriers.add()
    await feed._rest_while_busy()
    assert connection.looks_left == 20
    assert await _limit(feed) == bucket_feed._BATCH
    waiting.cancel()


async def test_it_does_not_rest_while_somebody_follows() -> None:
    connection = _Connection(*[BUSY] * 20)
    feed = _feed(connection)
    feed.set_live(True)
    await feed._rest_while_busy()
    assert connection.looks_left == 20
    assert await _limit(feed) == bucket_feed._BATCH


def test_announced_writes_are_gathered_for_longer_while_reading_them_takes_long() -> None:
    assert gather_sec(0.0) == gather_sec(0.004) == bucket_feed._GATHER_SEC
    assert gather_sec(0.02) == pytest.approx(0.08)
    # A person who waits for a list notices no more.
    assert gather_sec(3.0) == bucket_feed._MAX_GATHER_SEC
