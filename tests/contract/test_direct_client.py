"""The short ways in and out of nats-py: they are taken, and nothing is different for it.

These tests are also the alarm for an update of nats-py that renames what DirectClient leans on.
"""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.protocol.parser import Parser

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.direct_client import _MOST_TURNS, DirectClient
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer
from tests.support.waiting import LIMIT_SEC, eventually

Events = list[tuple[object, ...]]
HEAD = b"NATS/1.0\r\nA: b\r\n\r\n"
DIRECT = (1, 12)


class _Recorder:
    """What nats-py's parser calls, written down."""

    def __init__(self, events: Events) -> None:
        self.events = events

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, head: bytes) -> None:
        self.events.append((sid, subject.decode(), reply.decode(), head or b"", data))

    async def _process_ping(self) -> None:
        self.events.append(("ping",))

    async def _process_pong(self) -> None:
        self.events.append(("pong",))


class _RecordingClient(DirectClient):
    """A client whose messages come from a test, and which writes down what becomes of them."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__()
        self.events: Events = []
        self.in_pieces: list[int] = []
        self.reader = reader
        for sid in DIRECT:
            self._sinks[b"%d" % sid] = lambda message, sid=sid: self._note(sid, message)  # type: ignore[misc]
        self._look_before(reader)

    def _note(self, sid: int, message: Message) -> None:
        self.events.append((sid, message.subject, message.reply, message.head, message.data))

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        if sid in DIRECT:
            self.in_pieces.append(sid)
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            await _Recorder(self.events)._process_msg(sid, subject, reply, data, headers)

    async def _process_ping(self) -> None:
        self.events.append(("ping",))

    async def _process_pong(self) -> None:
        self.events.append(("pong",))

    async def read(self) -> None:
        """One round of nats-py's reading task."""
        if self.reader._buffer:  # type: ignore[attr-defined]
            await self._ps.parse(await self.reader.read(1 << 20))


def _message(sid: int, reply: bytes, head: bytes, data: bytes) -> bytes:
    reply = reply and reply + b" "
    if head:
        return b"HMSG s.1 %d %b%d %d\r\n%b%b\r\n" % (sid, reply, len(head), len(head + data), head, data)
    return b"MSG s.1 %d %b%d\r\n%b\r\n" % (sid, reply, len(data), data)


messages = st.builds(
    _message,
    st.sampled_from([1, 12, 3]),
    st.sampled_from([b"", b"r.1"]),
    st.sampled_from([b"", HEAD]),
    st.one_of(st.binary(max_size=40), st.just(b"MSG s.1 1 2\r\nhi\r\n"), st.just(b"x" * 5000)),
)
lines = st.sampled_from([b"PING\r\n", b"PONG\r\n", b"+OK\r\n"])


@given(
    st.lists(st.one_of(messages, messages, lines), max_size=12),
    st.lists(st.tuples(st.integers(1, 6000), st.booleans()), min_size=1, max_size=20),
)
async def test_every_message_arrives_as_nats_py_would_have_it_however_the_bytes_are_cut(
    sent: list[bytes], cuts: list[tuple[int, bool]]
) -> None:
    expected: Events = []
    data = b"".join(sent)
    await Parser(_Recorder(expected)).parse(data)

    client = _RecordingClient(asyncio.StreamReader())
    begin = 0
    while begin < len(data):
        for size, reads in cuts:
            if begin < len(data):
                client.reader.feed_data(data[begin : begin + size])
            begin += size
            if reads:
                await client.read()
    await client.read()
    assert client.events == expected


async def test_whole_messages_of_direct_subscriptions_pass_nats_py_by() -> None:
    client = _RecordingClient(asyncio.StreamReader())
    client.reader.feed_data(_message(1, b"", b"", b"a") + _message(12, b"r", HEAD, b"b"))
    assert [event[0] for event in client.events] == [1, 12]
    client.reader.feed_data(_message(3, b"", b"", b"c") + _message(1, b"", b"", b"d"))
    assert [event[0] for event in client.events] == [1, 12]
    await client.read()
    assert [event[0] for event in client.events] == [1, 12, 3, 1]
    assert client.in_pieces == [1]


async def test_the_hot_path_goes_neither_in_nor_out_through_nats_py(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def detour(*_: Any, **__: Any) -> None:
        raise AssertionError("not the short way: has nats-py changed inside?")

    monkeypatch.setattr(Client, "publish", detour)
    monkeypatch.setattr(Client, "_process_msg", detour)
    monkeypatch.setattr(DirectClient, "_process_msg", detour)
    bucket = Bucket(connection, "pyoco_runs")
    revision = await bucket.create("k", b"1")
    await bucket.update("k", b"2", revision=revision)
    entry = await bucket.get("k")
    assert entry is not None
    assert entry.value == b"2"


async def test_a_message_that_arrives_in_pieces_is_whole(connection: Connection) -> None:
    got: list[bytes] = []
    await connection.subscribe_direct("large", lambda message: got.append(message.data))
    sent = [bytes([number]) * connection.max_payload for number in range(20)]
    for payload in sent:
        await connection.publish("large", payload)
    await eventually(lambda: len(got) == len(sent), describe="all have arrived")
    assert got == sent


async def test_a_sink_that_fails_harms_neither_the_next_message_nor_the_connection(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[bytes] = []

    def fails_once(message: Message) -> None:
        got.append(message.data)
        if len(got) == 1:
            raise ValueError("for a test")

    await connection.subscribe_direct("s", fails_once)
    await connection.publish("s", b"1")
    await connection.publish("s", b"2")
    await eventually(lambda: got == [b"1", b"2"], describe="both came")
    assert "a message on s could not be handled" in caplog.text
    assert connection.ready


async def test_an_ended_direct_subscription_is_silent_after_what_was_sent_before(
    connection: Connection,
) -> None:
    got: list[bytes] = []
    subscription = await connection.subscribe_direct("s", lambda message: got.append(message.data))
    await connection.publish("s", b"before")
    await subscription.drain()  # type: ignore[no-untyped-call]
    assert got == [b"before"]
    await connection.publish("s", b"after")
    await connection.client.flush()
    assert got == [b"before"]


async def test_a_direct_subscription_outlives_the_server(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    async with connected(replace(config, nats_url=own_nats.url)) as connection:
        got: list[bytes] = []
        await connection.subscribe_direct("s", lambda message: got.append(message.data))
        await asyncio.to_thread(own_nats.kill)
        await eventually(lambda: not connection.state.up, describe="the loss is seen")
        await asyncio.to_thread(own_nats.start)
        await connection.wait_ready(LIMIT_SEC)
        await connection.publish("s", b"again")
        await eventually(lambda: got == [b"again"], describe="it came")


async def test_the_long_way_out_and_the_short_one_keep_their_order(connection: Connection) -> None:
    got: list[Message] = []
    await connection.subscribe_direct("s", got.append)
    for number in range(100):
        # nats-py cleans a header that has a line end in it.
        headers = {"X": "a\r\nEvil: b"} if number % 3 == 0 else {"X": "plain"} if number % 3 == 1 else None
        await connection.publish("s", b"%d" % number, headers)
    await eventually(lambda: len(got) == 100, describe="all have arrived")
    assert [int(message.data) for message in got] == list(range(100))
    assert [message.headers for message in got[:3]] == [{"X": "a  Evil: b"}, {"X": "plain"}, {}]


@pytest.mark.parametrize("subject", ["", "a b", "a\r\nPUB b 0\r\n", "a\tb"])
async def test_a_subject_cannot_be_another_command(connection: Connection, subject: str) -> None:
    with pytest.raises(NatsUnavailable, match="subject"):
        await connection.publish(subject, b"x")
    with pytest.raises(NatsUnavailable, match="subject"):
        await connection.publish("fine", b"x", reply=subject or " ")


async def test_a_socket_that_takes_no_more_is_waited_for(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    """Whoever publishes faster than the server reads waits, rather than filling the memory."""
    payload = b"x" * 100_000
    async with connected(replace(config, nats_url=own_nats.url)) as connection:
        got: list[int] = []
        await connection.subscribe_direct("s", lambda message: got.append(len(message.data)))
        sent = 0
        enough = False

        async def publish_on() -> None:
            nonlocal sent
            while not enough:
                await connection.publish("s", payload)
                sent += 1
                await asyncio.sleep(0)

        with own_nats.paused():
            publishing = asyncio.create_task(publish_on())
            seen = -1
            while seen != sent:
                seen = sent
                await asyncio.sleep(0.3)
            enough = True
        await publishing
        assert sent * len(payload) < 100_000_000
        await eventually(lambda: len(got) >= sent, describe="all that was accepted arrives")


async def test_what_is_published_before_leaving_is_sent(
    config: NatsBackendConfig, connection: Connection
) -> None:
    got: list[bytes] = []
    await connection.subscribe_direct("s", lambda message: got.append(message.data))
    await connection.client.flush()
    leaving = Connection(config, name="leaving")
    await leaving.start()
    await leaving.wait_ready(LIMIT_SEC)
    await leaving.publish("s", b"last words")
    await leaving.close()
    await eventually(lambda: got == [b"last words"], describe="they came")


@pytest.mark.parametrize(
    ("head", "headers"),
    [
        (b"", None),
        (b"NATS/1.0\r\nA: b\r\nC-D:  e: f \r\n\r\n", {"A": "b", "C-D": "e: f"}),
        (b"NATS/1.0 503\r\n\r\n", {"Status": "503"}),
        (b"NATS/1.0 404 No Messages\r\n\r\n", {"Status": "404", "Description": "No Messages"}),
        (
            b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 1\r\nNats-Pending-Bytes: 0\r\n\r\n",
            {
                "Status": "408",
                "Description": "Request Timeout",
                "Nats-Pending-Messages": "1",
                "Nats-Pending-Bytes": "0",
            },
        ),
        (b"NATS/1.0\r\nName: \xe6\x97\xa5\xe6\x9c\xac\r\n\r\n", {"Name": "日本"}),
    ],
)
async def test_headers_are_read_as_nats_py_reads_them(head: bytes, headers: dict[str, str] | None) -> None:
    read = Message("s", "", head, b"").headers
    assert {name: value for name, value in read.items() if value} == (headers or {})
    by_nats = await Client()._process_headers(head)
    assert by_nats == headers
    assert Message("s", "", head, b"").status == (headers or {}).get("Status")


async def test_nats_py_s_own_subscriptions_work_beside_direct_ones(connection: Connection) -> None:
    ours: list[bytes] = []
    theirs: list[bytes] = []

    async def on_message(message: Msg) -> None:
        theirs.append(message.data)

    await connection.subscribe_direct("s", lambda message: ours.append(message.data))
    await connection.subscribe("s", on_message)
    sent = [b"%d" % number for number in range(200)]
    for payload in sent:
        await connection.publish("s", payload)
    await eventually(lambda: ours == theirs == sent, describe="both have all, in order")


class _Socket:
    """What was written, in the turn it was written in."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.written.append(data)


def _client_at(socket: _Socket, *, unhurried: bool) -> DirectClient:
    client = DirectClient(unhurried=unhurried)
    client._status = Client.CONNECTED
    client._max_payload = 1024
    client._socket = socket  # type: ignore[assignment]
    return client


async def _publish_in_turns(client: DirectClient, turns: int) -> None:
    """One message in each turn of the event loop, and none after that."""
    for turn in range(turns):
        assert client.publish_now(f"turn.{turn}", b"")
        await asyncio.sleep(0)


@pytest.mark.parametrize(("unhurried", "writes"), [(False, 3), (True, 1)])
async def test_an_unhurried_client_writes_once_a_turn_adds_nothing(*, unhurried: bool, writes: int) -> None:
    socket = _Socket()
    client = _client_at(socket, unhurried=unhurried)
    await _publish_in_turns(client, 3)
    for _ in range(2):
        await asyncio.sleep(0)
    assert len(socket.written) == writes
    assert b"".join(socket.written) == b"".join(b"PUB turn.%d 0\r\n\r\n" % turn for turn in range(3))


async def test_even_an_unhurried_client_does_not_wait_for_ever() -> None:
    socket = _Socket()
    await _publish_in_turns(_client_at(socket, unhurried=True), 3 * _MOST_TURNS)
    assert len(socket.written) >= 2
    assert socket.written[0].count(b"PUB ") <= _MOST_TURNS + 1
