"""Reading a bucket in order through a consumer."""

import asyncio
from dataclasses import replace

import pytest

from pyoco_server.broker.client.connection import Connection, ReplyStream
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.jetstream.stream_cursor import StreamCursor
from pyoco_server.broker.jetstream.stream_reads import EVERYTHING, StreamMessage, read_batch
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer
from tests.support.waiting import LIMIT_SEC, eventually


@pytest.fixture
def bucket(connection: Connection) -> Bucket:
    return Bucket(connection, connection.config.bulk_kv_bucket)


@pytest.fixture
def cursor(connection: Connection, bucket: Bucket) -> StreamCursor:
    return StreamCursor(connection, bucket.stream)


async def _read(cursor: StreamCursor, after: int, limit: int = 10, max_bytes: int = 0) -> list[StreamMessage]:
    return await cursor.read(after=after, limit=limit, max_bytes=max_bytes)


async def _write(bucket: Bucket, *keys: str, value: bytes = b"value") -> None:
    for key in keys:
        await bucket.create(key, value)


def _keys(bucket: Bucket, messages: list[StreamMessage]) -> list[str]:
    return [message.subject.removeprefix(bucket.prefix) for message in messages]


async def _consumers(connection: Connection, stream: str) -> list[str]:
    listed = await jetstream_api.call(connection, f"CONSUMER.NAMES.{stream}")
    return list(listed["consumers"] or [])


async def test_batches_follow_each_other_through_one_consumer(
    connection: Connection, cursor: StreamCursor, bucket: Bucket
) -> None:
    await _write(bucket, "a", "b", "c")
    first = await _read(cursor, 0, limit=2)
    second = await _read(cursor, first[-1].sequence, limit=2)
    assert _keys(bucket, first + second) == ["a", "b", "c"]
    assert await _read(cursor, second[-1].sequence) == []
    await _write(bucket, "d")
    third = await cursor.wait_for_next(after=second[-1].sequence, seconds=LIMIT_SEC)
    assert _keys(bucket, third) == ["d"]
    assert len(await _consumers(connection, bucket.stream)) == 1


async def test_it_waits_for_the_next_message(cursor: StreamCursor, bucket: Bucket) -> None:
    assert await cursor.wait_for_next(after=0, seconds=0.01) == []
    waiting = asyncio.create_task(cursor.wait_for_next(after=0, seconds=LIMIT_SEC))
    await _write(bucket, "a")
    assert _keys(bucket, await waiting) == ["a"]


async def test_of_a_key_that_was_written_again_the_newest_is_read(
    cursor: StreamCursor, bucket: Bucket
) -> None:
    await _write(bucket, "a", "b")
    await bucket.update("a", b"newer", revision=1)
    messages = await _read(cursor, 0)
    assert [(message.sequence, message.data) for message in messages] == [(2, b"value"), (3, b"newer")]


async def test_a_message_is_the_same_as_from_a_direct_read(
    connection: Connection, cursor: StreamCursor, bucket: Bucket
) -> None:
    await _write(bucket, "a", "b")
    await bucket.delete("b", revision=2)
    through_consumer = await _read(cursor, 0)
    direct = await read_batch(connection, bucket.stream, EVERYTHING)

    def content(message: StreamMessage) -> tuple[object, ...]:
        position = (message.sequence, message.subject, message.stored_ns)
        return *position, message.data, message.is_marker

    assert [content(message) for message in through_consumer] == [content(message) for message in direct]
    assert [message.is_marker for message in direct] == [False, True]
    assert through_consumer[0].stored_at == pytest.approx(direct[0].stored_at, abs=1e-4)


async def test_a_batch_ends_before_it_is_too_large_and_has_at_least_one_message(
    cursor: StreamCursor, bucket: Bucket
) -> None:
    await _write(bucket, "a", "b", "c", value=bytes(1000))
    assert _keys(bucket, await _read(cursor, 0, max_bytes=2500)) == ["a", "b"]
    assert _keys(bucket, await _read(cursor, 2, max_bytes=10)) == ["c"]


async def test_reading_from_elsewhere_begins_there(cursor: StreamCursor, bucket: Bucket) -> None:
    await _write(bucket, "a", "b", "c")
    assert len(await _read(cursor, 0)) == 3
    assert _keys(bucket, await _read(cursor, 1)) == ["b", "c"]


async def test_a_removed_consumer_is_replaced(
    connection: Connection, cursor: StreamCursor, bucket: Bucket
) -> None:
    """The server removes one that is not used for a minute: that is no outage, which lists would answer."""
    await _write(bucket, "a", "b")
    interruptions = connection.interruptions
    assert len(await _read(cursor, 0, limit=1)) == 1
    [name] = await _consumers(connection, bucket.stream)
    await jetstream_api.call(connection, f"CONSUMER.DELETE.{bucket.stream}.{name}")
    assert _keys(bucket, await _read(cursor, 1)) == ["b"]
    assert connection.interruptions == interruptions
    assert connection.ready


async def test_nothing_is_missing_after_a_restart_of_the_server(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    async with connected(replace(config, nats_url=own_nats.url)) as connection:
        bucket = Bucket(connection, config.bulk_kv_bucket)
        cursor = StreamCursor(connection, bucket.stream)
        await _write(bucket, "a", "b", "c")
        assert len(await _read(cursor, 0, limit=1)) == 1
        own_nats.kill()
        await eventually(lambda: not connection.state.up, describe="the loss is seen")
        own_nats.start()
        await eventually(lambda: connection.ready, describe="the connection is back")
        assert _keys(bucket, await _read(cursor, 1)) == ["b", "c"]


async def test_a_lost_delivery_is_read_again(
    cursor: StreamCursor, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _write(bucket, "a", "b", "c")
    receive = ReplyStream.add

    def loses_the_second(replies: ReplyStream, reply: Message | NatsUnavailable) -> None:
        if isinstance(reply, NatsUnavailable) or not reply.subject.endswith(".b"):
            receive(replies, reply)

    with monkeypatch.context() as patched:
        patched.setattr(ReplyStream, "add", loses_the_second)
        with pytest.raises(NatsUnavailable, match="message 2 of the consumer was lost"):
            await _read(cursor, 0)
    assert _keys(bucket, await _read(cursor, 0)) == ["a", "b", "c"]
