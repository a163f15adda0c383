"""The adapter of nats-py: the fast path, the public API, and the check that chooses between them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import nats.errors
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.protocol.parser import Parser

from pyoco_server.broker.client import direct_client
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.direct_client import _MOST_TURNS, DirectClient, PublicClient, new_client
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.jetstream.stream_reads import EVERYTHING, read_to
from pyoco_server.broker.streams_and_buckets import ensure_api_keys
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.telemetry.fast_paths import fast_paths
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.nats_ways import WAYS, use
from tests.support.running.gateway import running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import LIMIT_SEC, eventually

Events = list[tuple[object, ...]]
HEAD = b"NATS/1.0\r\nA: b\r\n\r\n"
DIRECT = (1, 12)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    way = str(request.param)
    use(way, monkeypatch)
    return way


@pytest.fixture
async def connection(way: str, config: NatsBackendConfig) -> AsyncIterator[Connection]:
    async with connected(config, with_resources=False) as connection:
        assert isinstance(connection.client, DirectClient) == (way == WAYS[0])
        yield connection


class _Subscriber:
    """Has received these payloads."""

    def __init__(self) -> None:
        self.received: list[bytes] = []

    def __call__(self, message: Message) -> None:
        self.received.append(message.data)

    async def receives(self, *expected: bytes) -> None:
        await eventually(lambda: len(self.received) >= len(expected), describe="all have arrived")
        assert self.received == list(expected)


# Both ways


async def test_runs_complete(way: str, config: NatsBackendConfig) -> None:
    async with running_gateway(config) as gateway, serving_worker(config):
        assert isinstance(gateway.inside.connection.client, DirectClient) == (way == WAYS[0])
        for run_id in [await gateway.submit("chain") for _ in range(3)]:
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"
        page = (await gateway.http.get("/metrics")).text
        in_use = float(way == WAYS[0])
        assert f'pyoco_dependency_fast_path{{dependency="nats-py"}} {in_use}' in page


async def test_requests_have_one_or_many_replies(connection: Connection) -> None:
    await ensure_api_keys(connection)
    bucket = Bucket(connection, "pyoco_auth")
    # More than fit into one batch of a read.
    revisions = await asyncio.gather(*(bucket.create(str(number), b"x" * number) for number in range(600)))
    read = [message async for message in read_to(connection, bucket.stream, EVERYTHING, max(revisions))]
    assert {message.sequence: len(message.data) for message in read} == {
        revision: number for number, revision in enumerate(revisions)
    }
    assert await bucket.get("600") is None


async def test_a_message_that_arrives_in_pieces_is_whole(connection: Connection) -> None:
    subscriber = _Subscriber()
    await connection.subscribe("large", subscriber)
    sent = [bytes([number]) * connection.max_payload for number in range(20)]
    for payload in sent:
        await connection.publish("large", payload)
    await subscriber.receives(*sent)


async def test_a_failing_sink_harms_neither_the_next_message_nor_the_connection(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    subscriber = _Subscriber()

    def fails_once(message: Message) -> None:
        subscriber(message)
        if len(subscriber.received) == 1:
            raise ValueError("for a test")

    await connection.subscribe("s", fails_once)
    await connection.publish("s", b"1")
    await connection.publish("s", b"2")
    await subscriber.receives(b"1", b"2")
    assert "cannot handle a message on s" in caplog.text
    assert connection.ready


async def test_a_drained_subscription_receives_what_was_sent_before_and_nothing_after(
    connection: Connection,
) -> None:
    subscriber = _Subscriber()
    subscription = await connection.subscribe("s", subscriber)
    await connection.publish("s", b"before")
    await subscription.drain()  # type: ignore[no-untyped-call]
    assert subscriber.received == [b"before"]
    await connection.publish("s", b"after")
    await connection.client.flush()
    assert subscriber.received == [b"before"]


@pytest.mark.usefixtures("way")
async def test_a_subscription_survives_a_restart_of_the_server(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    async with connected(replace(config, nats_url=own_nats.url), with_resources=False) as connection:
        subscriber = _Subscriber()
        await connection.subscribe("s", subscriber)
        await asyncio.to_thread(own_nats.kill)
        await eventually(lambda: not connection.state.up, describe="the loss is seen")
        await asyncio.to_thread(own_nats.start)
        await connection.wait_ready(LIMIT_SEC)
        await connection.publish("s", b"again")
        await subscriber.receives(b"again")


async def test_messages_keep_their_order_and_their_headers(connection: Connection) -> None:
    got: list[Message] = []
    await connection.subscribe("s", got.append)
    for number in range(100):
        # nats-py cleans a header that has a line end in it, so that the fast path leaves it to nats-py.
        headers = {"X": "a\r\nEvil: b"} if number % 3 == 0 else {"X": "plain"} if number % 3 == 1 else None
        await connection.publish("s", b"%d" % number, headers)
    await eventually(lambda: len(got) == 100, describe="all have arrived")
    assert [int(message.data) for message in got] == list(range(100))
    assert [message.headers for message in got[:3]] == [{"X": "a  Evil: b"}, {"X": "plain"}, {}]


async def test_a_subject_cannot_inject_a_command(connection: Connection) -> None:
    for subject in ("", "a b", "a\r\nPUB b 0\r\n", "a\tb"):
        with pytest.raises(NatsUnavailable, match="subject"):
            await connection.publish(subject, b"x")
        with pytest.raises(NatsUnavailable, match="subject"):
            await connection.publish("fine", b"x", reply=subject or " ")


async def test_what_is_published_before_close_is_sent(
    config: NatsBackendConfig, connection: Connection
) -> None:
    subscriber = _Subscriber()
    await connection.subscribe("s", subscriber)
    await connection.client.flush()
    async with connected(config, with_resources=False) as closing:
        await closing.publish("s", b"last")
    await subscriber.receives(b"last")


async def test_subscriptions_of_nats_py_work_beside_direct_ones(connection: Connection) -> None:
    ours = _Subscriber()
    theirs: list[bytes] = []

    async def on_message(message: Msg) -> None:
        theirs.append(message.data)

    await connection.subscribe("s", ours)
    await connection.client.subscribe("s", cb=on_message)
    sent = [b"%d" % number for number in range(200)]
    for payload in sent:
        await connection.publish("s", payload)
    await eventually(lambda: ours.received == theirs == sent, describe="both have all, in order")


@pytest.mark.usefixtures("way")
async def test_a_publisher_waits_for_a_socket_that_takes_no_more(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    """Otherwise a publisher that is faster than the server would fill the memory."""
    payload = b"x" * 100_000
    async with connected(replace(config, nats_url=own_nats.url), with_resources=False) as connection:
        subscriber = _Subscriber()
        await connection.subscribe("s", subscriber)
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
        await eventually(lambda: len(subscriber.received) >= sent, describe="all that was accepted arrives")


# The fast path


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
        self._process_ping = _Recorder(self.events)._process_ping  # type: ignore[method-assign]
        self._process_pong = _Recorder(self.events)._process_pong  # type: ignore[method-assign]
        for sid in DIRECT:
            self._sinks[b"%d" % sid] = lambda message, sid=sid: self._note(sid, message)  # type: ignore[misc]
        self._intercept(reader)

    def _note(self, sid: int, message: Message) -> None:
        self.events.append((sid, message.subject, message.reply, message.head, message.data))

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        if sid in DIRECT:
            self.in_pieces.append(sid)
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            await _Recorder(self.events)._process_msg(sid, subject, reply, data, headers)

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
async def test_messages_arrive_as_nats_py_parses_them_however_the_bytes_are_cut(
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


async def test_whole_messages_of_direct_subscriptions_bypass_nats_py() -> None:
    client = _RecordingClient(asyncio.StreamReader())
    client.reader.feed_data(_message(1, b"", b"", b"a") + _message(12, b"r", HEAD, b"b"))
    assert [event[0] for event in client.events] == [1, 12]
    client.reader.feed_data(_message(3, b"", b"", b"c") + _message(1, b"", b"", b"d"))
    assert [event[0] for event in client.events] == [1, 12]
    await client.read()
    assert [event[0] for event in client.events] == [1, 12, 3, 1]
    assert client.in_pieces == [1]


@pytest.mark.parametrize("cut", [6, 14, 18, -3])
async def test_a_message_in_two_pieces_bypasses_nats_py(cut: int) -> None:
    """In its first line, its headers or its data: what follows it in the second piece does as well."""
    client = _RecordingClient(asyncio.StreamReader())
    first, second = _message(1, b"r", HEAD, b"a"), _message(12, b"", b"", b"b")
    client.reader.feed_data(second + first[:cut])
    client.reader.feed_data(first[cut:] + second)
    assert [event[0] for event in client.events] == [12, 1, 12]
    assert client.in_pieces == []


async def test_a_large_message_in_pieces_is_left_to_nats_py() -> None:
    """Joining its pieces again and again would take the longer the larger it is."""
    client = _RecordingClient(asyncio.StreamReader())
    large = _message(1, b"", b"", b"x" * 100_000)
    client.reader.feed_data(large[:50_000])
    await client.read()
    client.reader.feed_data(large[50_000:])
    await client.read()
    assert client.in_pieces == [1]


async def test_half_a_message_is_forgotten_with_its_connection() -> None:
    client = _RecordingClient(asyncio.StreamReader())
    client.reader.feed_data(_message(1, b"", b"", b"lost")[:-3])
    client.reader = asyncio.StreamReader()
    client._intercept(client.reader)
    client.reader.feed_data(_message(1, b"", b"", b"new"))
    assert [event[-1] for event in client.events] == [b"new"]


async def test_the_hot_path_bypasses_nats_py(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def detour(*_: Any, **__: Any) -> None:
        raise AssertionError("not the fast path: has nats-py changed inside?")

    async with connected(config) as connection:
        monkeypatch.setattr(Client, "publish", detour)
        monkeypatch.setattr(Client, "_process_msg", detour)
        monkeypatch.setattr(DirectClient, "_process_msg", detour)
        bucket = Bucket(connection, "pyoco_runs")
        revision = await bucket.create("k", b"1")
        await bucket.update("k", b"2", revision=revision)
        entry = await bucket.get("k")
        assert entry is not None
        assert entry.value == b"2"


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
async def test_headers_are_parsed_as_nats_py_parses_them(head: bytes, headers: dict[str, str] | None) -> None:
    by_nats = await Client()._process_headers(head)
    assert by_nats == headers
    for message in (Message("s", "", head, b""), Message.from_headers("s", "", by_nats, b"")):
        assert {name: value for name, value in message.headers.items() if value} == (headers or {})
        assert message.status == (headers or {}).get("Status")


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


def _client_of(socket: _Socket, *, coalesce_writes: bool = False) -> DirectClient:
    client = DirectClient(coalesce_writes=coalesce_writes)
    client._status = Client.CONNECTED
    client._max_payload = 1024
    client._socket = socket  # type: ignore[assignment]
    return client


async def _published_in_turns(turns: int, *, coalesce_writes: bool) -> list[bytes]:
    """What a client writes that publishes once in each turn of the event loop, and then no more."""
    socket = _Socket()
    client = _client_of(socket, coalesce_writes=coalesce_writes)
    for turn in range(turns):
        assert client.try_publish(f"turn.{turn}", b"")
        await asyncio.sleep(0)
    for _ in range(2):
        await asyncio.sleep(0)
    return socket.written


@pytest.mark.parametrize(("coalesce_writes", "writes"), [(False, 3), (True, 1)])
async def test_coalesced_writes_leave_once_a_turn_adds_nothing(*, coalesce_writes: bool, writes: int) -> None:
    written = await _published_in_turns(3, coalesce_writes=coalesce_writes)
    assert len(written) == writes
    assert b"".join(written) == b"".join(b"PUB turn.%d 0\r\n\r\n" % turn for turn in range(3))


async def test_coalesced_writes_do_not_wait_for_ever() -> None:
    written = await _published_in_turns(3 * _MOST_TURNS, coalesce_writes=True)
    assert len(written) >= 2
    assert written[0].count(b"PUB ") <= _MOST_TURNS + 1


async def test_many_messages_of_one_turn_leave_in_groups() -> None:
    """The server works on the first ones while the others are made."""
    socket = _Socket()
    client = _client_of(socket)
    for number in range(20):
        assert client.try_publish(f"n.{number}", b"")
    assert [data.count(b"PUB ") for data in socket.written] == [8, 8]
    await asyncio.sleep(0)
    assert [data.count(b"PUB ") for data in socket.written] == [8, 8, 4]
    assert b"".join(socket.written) == b"".join(b"PUB n.%d 0\r\n\r\n" % number for number in range(20))


async def test_a_group_waits_for_a_socket_that_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    socket = _Socket()
    client = _client_of(socket)
    assert all(client.try_publish("s", b"") for _ in range(7))
    monkeypatch.setattr(socket, "get_write_buffer_size", lambda: direct_client._BUSY_BYTES)
    assert client.try_publish("s", b"")
    assert not client.try_publish("s", b"")


# The check


@pytest.fixture
def check_again() -> Iterator[Callable[[], None]]:
    """The result of the check is kept for the process, unless this is called."""
    forget = direct_client.fast_path_mismatch.cache_clear
    forget()
    yield forget
    forget()


@pytest.mark.usefixtures("check_again")
def test_the_check_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = Mock(return_value=iter(()))
    monkeypatch.setattr(direct_client, "_differences", differences)
    for _ in range(3):
        assert isinstance(new_client(), DirectClient)
    differences.assert_called_once()


def test_the_installed_version_allows_the_fast_path() -> None:
    assert direct_client.fast_path_mismatch() is None
    assert isinstance(new_client(), DirectClient)
    assert fast_paths()["nats-py"]


async def _send_command(self: Client, command: bytes) -> None:
    """Another version's, with a queue of its own."""


async def _send_ping(self: Client) -> None:
    """Another version's, without a parameter."""


async def _parse(self: Parser, data: bytes) -> None:
    """Another version's, which keeps what it has read elsewhere."""


class _OtherTransport:
    pass


@pytest.mark.parametrize(
    ("owner", "name", "other", "reason"),
    [
        (Client, "_send_ping", None, "_send_ping"),
        (Client, "_send_ping", _send_ping, "parameters self"),
        (Client, "_send_command", _send_command, "does not use _pending"),
        (Parser, "parse", _parse, "half a message"),
        (direct_client, "AWAITING_CONTROL_LINE", 7, "has read everything"),
        (direct_client, "TcpTransport", _OtherTransport, "_io_reader"),
        (direct_client, "_IMPORT_ERROR", "cannot import name 'Parser'", "cannot import name"),
    ],
)
def test_another_version_is_used_through_its_public_api(
    owner: Any,
    name: str,
    other: Any,
    reason: str,
    check_again: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    new_client()
    if other is None:
        monkeypatch.delattr(owner, name)
    else:
        monkeypatch.setattr(owner, name, other)
    check_again()
    for _ in range(2):
        client = new_client()
        assert isinstance(client, PublicClient)
        assert not isinstance(client, DirectClient)
    assert not fast_paths()["nats-py"]
    [record] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "nats-py" in record.getMessage()
    assert reason in record.getMessage()


@pytest.mark.usefixtures("check_again")
def test_a_version_that_cannot_be_made_to_require_tls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def other(self: Client) -> None:
        """Sends the credentials without `_connect_command`."""

    monkeypatch.setattr(Client, "_process_connect_init", other)
    assert isinstance(new_client(), PublicClient)
    with pytest.raises(nats.errors.Error, match="TLS"):
        new_client(tls_required=True)
