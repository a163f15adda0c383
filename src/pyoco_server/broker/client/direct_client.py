"""The NATS client, with a fast path around nats-py's queues and tasks for the messages of the hot path.

nats-py needs a reading task, a parser of regular expressions, a queue and one more task until the callback
of a message runs, and a queue and a task for a publish. Each is a turn of the event loop; together they cost
more than everything else about a short run. `DirectClient`

- calls the sink of a direct subscription as soon as the bytes of a message arrive, also where they arrive in
  two pieces, as every few dozen messages of a batch do;
- writes what is published within one turn of the event loop in groups, each with one system call, and the
  rest at its end; with `coalesce_writes`, once a turn adds nothing.

nats-py still does the rest: connecting, TLS, authentication, pings, reconnecting, backpressure, and every
message that the fast path does not handle, above all a large one that arrives in many pieces.

This is the only module that uses private names of nats-py. `new_client` compares them with the installed
version, and returns a `PublicClient` when they differ.
"""

import asyncio
import inspect
import logging
import re
from collections.abc import Coroutine, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final

import nats.errors
from nats.aio.client import DEFAULT_FLUSH_TIMEOUT, Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from pyoco_server.broker.client.message import ANY_BYTES, Message, MessageSink
from pyoco_server.telemetry.fast_paths import report_fast_path

log = logging.getLogger(__name__)

try:
    from nats.aio.transport import TcpTransport
    from nats.protocol.parser import AWAITING_CONTROL_LINE, Parser
except ImportError as error:
    _IMPORT_ERROR: str | None = str(error)
else:
    _IMPORT_ERROR = None

_CRLF = b"\r\n"
# With more than this unsent, a publish goes through nats-py, which waits for the socket.
_BUSY_BYTES = 256 * 1024
# A message up to this size is kept until the rest of it arrives.
_KEPT_BYTES = 64 * 1024
# With `coalesce_writes`: how many more turns a message may wait for others that leave with it.
_MOST_TURNS = 4
# A group of messages leaves at once: the server works on it while the next ones are made. Each has 3 parts.
_MOST_PENDING = 8 * 3
_PLAIN_NAME = re.compile(r"[\w-]+", re.ASCII)

# What DirectClient overrides or calls, with the parameters.
_METHODS: Final = {
    "_process_connect_init": ["self"],
    "_remove_sub": ["self", "sid", "max_msgs"],
    "_process_msg": ["self", "sid", "subject", "reply", "data", "headers"],
    "_send_ping": ["self", "future"],
}
# Names that these methods use: DirectClient shares that state with them, or is called by them.
_USED_NAMES: Final = {
    "_send_command": {"_pending", "append", "_pending_data_size"},
    "_flusher": {"_flush_queue", "_pending_data_size", "_pending", "_transport", "writelines"},
    "_send_ping": {"_transport", "write"},
    "_read_loop": {"_transport", "read", "_ps", "parse"},
    "publish": {"_max_payload", "_send_publish"},
}


def new_client(*, tls_required: bool = False, coalesce_writes: bool = False) -> "PublicClient":
    """A client that is not connected yet, with the fast path if the installed nats-py allows it."""
    if report_fast_path("nats-py", fast_path_mismatch()):
        return DirectClient(tls_required=tls_required, coalesce_writes=coalesce_writes)
    return PublicClient(tls_required=tls_required)


class PublicClient(Client):
    """nats-py's client through its public methods."""

    def __init__(self, *, tls_required: bool = False) -> None:
        super().__init__()
        if tls_required and "_connect_command" not in _names_used_by("_process_connect_init"):
            # `_connect_command` below would not be called.
            raise nats.errors.Error("this version of nats-py cannot be made to require TLS")
        self._tls_required = tls_required

    def try_publish(
        self, subject: str, payload: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> bool:
        """Publish without waiting. False: nothing was done, and `publish` is to be used."""
        return False

    async def subscribe_direct(self, subject: str, sink: MessageSink) -> Subscription:
        """Call `sink` with each message. It must be quick: nothing else is read meanwhile."""

        async def deliver(msg: Msg) -> None:
            _deliver(sink, Message.from_headers(msg.subject, msg.reply, msg.headers, msg.data))

        # No limits: a sink never blocks, and must not miss a message.
        return await self.subscribe(subject, cb=deliver, pending_msgs_limit=0, pending_bytes_limit=0)

    async def flush(self, timeout: int = DEFAULT_FLUSH_TIMEOUT) -> None:
        """As nats-py's, for all that was sent before.

        Its PING overtakes commands that are still pending, so that a drained subscription could miss messages
        that were on their way. It sends them meanwhile: the second PING comes after them.
        """
        await super().flush(timeout)
        await super().flush(timeout)

    def _connect_command(self) -> bytes:
        """Refuse to send credentials in the clear: nats-py itself relies on what the server announces."""
        if self._tls_required and not self.uses_tls:
            raise nats.errors.Error("the server does not offer TLS, which the settings require")
        return super()._connect_command()

    @property
    def uses_tls(self) -> bool:
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            return writer.get_extra_info("ssl_object") is not None
        return self._current_server is not None and self._current_server.uri.scheme == "wss"


class DirectClient(PublicClient):
    """A client with direct subscriptions and direct publishing."""

    def __init__(self, *, tls_required: bool = False, coalesce_writes: bool = False) -> None:
        super().__init__(tls_required=tls_required)
        self._most_turns = _MOST_TURNS if coalesce_writes else 0
        # By subscription id, as the server writes it.
        self._sinks: dict[bytes, MessageSink] = {}
        # The first bytes of a message whose rest has not arrived.
        self._begun = b""
        # None before the first connection, and over WebSocket.
        self._socket: asyncio.WriteTransport | None = None
        self._will_write = False
        # For how many turns something has waited, and how much there was at the last look.
        self._turns = 0
        self._seen = 0
        # What the socket had not taken when it was last asked.
        self._unsent_bytes = 0

    async def _process_connect_init(self) -> None:
        await super()._process_connect_init()
        # Connected, for the first time or again; TLS no longer replaces the streams.
        if isinstance(self._transport, TcpTransport):
            assert self._transport._io_writer is not None
            assert self._transport._io_reader is not None
            self._socket = self._transport._io_writer.transport
            self._intercept(self._transport._io_reader)

    # Receiving

    async def subscribe_direct(self, subject: str, sink: MessageSink) -> Subscription:
        subscription = await self.subscribe(subject)
        self._sinks[b"%d" % subscription._id] = sink
        return subscription

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        super()._remove_sub(sid, max_msgs)
        self._sinks.pop(b"%d" % sid, None)

    def _intercept(self, reader: asyncio.StreamReader) -> None:
        """Take direct messages out of what arrives; the rest goes to nats-py's reader."""
        feed_reader = reader.feed_data
        # Of a connection that was lost.
        self._begun = b""

        def feed_data(data: bytes) -> None:
            # Keep the order: nothing is taken while nats-py has unread bytes or half a message.
            if not (reader._buffer or self._ps.buf or self._ps.state != AWAITING_CONTROL_LINE):  # type: ignore[attr-defined]
                data, self._begun = self._begun + data, b""
                data = data[self.take_messages(data) :]
                if self._is_begun(data):
                    self._begun, data = data, b""
            if data:
                feed_reader(data)

        reader.feed_data = feed_data  # type: ignore[assignment,method-assign]

    def take_messages(self, data: bytes) -> int:
        """Deliver the direct messages that `data` begins with; return where the rest begins."""
        begin = count = size = 0
        while (line_end := data.find(_CRLF, begin)) > 0:
            # MSG <subject> <sid> [reply] <size>, or HMSG <subject> <sid> [reply] <size of headers> <size>
            words = data[begin:line_end].split(b" ")
            has_headers = words[0] == b"HMSG"
            sink = self._sinks.get(words[2]) if has_headers or words[0] == b"MSG" else None
            if sink is None:
                break
            head = line_end + 2
            body = head + int(words[-2]) if has_headers else head
            end = head + int(words[-1])
            if len(data) < end + 2:
                break
            reply = words[3] if len(words) == 5 + has_headers else b""
            subject = words[1].decode("utf-8", ANY_BYTES)
            _deliver(
                sink, Message(subject, reply.decode("utf-8", ANY_BYTES), data[head:body], data[body:end])
            )
            begin = end + 2
            count += 1
            size += end - body
        self._count_received(count, size)
        return begin

    def _is_begun(self, data: bytes) -> bool:
        """Whether it is the beginning of a direct message, which is complete with what arrives next.

        nats-py would parse all that arrives next otherwise.
        """
        if not data.startswith((b"MSG ", b"HMSG ")):
            return False
        line, line_end, _ = data.partition(_CRLF)
        words = line.split(b" ")
        if not line_end:
            return len(line) < _KEPT_BYTES
        return words[2] in self._sinks and int(words[-1]) < _KEPT_BYTES

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        """Called by nats-py's parser, also with direct messages that arrived in pieces."""
        sink = self._sinks.get(b"%d" % sid)
        if sink is None:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            name, reply_to = (word.decode("utf-8", ANY_BYTES) for word in (subject, reply))
            _deliver(sink, Message(name, reply_to, headers or b"", data))
            self._count_received(1, len(data))

    def _count_received(self, count: int, size: int) -> None:
        self.stats["in_msgs"] += count
        self.stats["in_bytes"] += size

    # Sending

    def try_publish(
        self, subject: str, payload: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> bool:
        words = f"{subject} {reply} " if reply else f"{subject} "
        fields = _header_lines(headers) if headers else ""
        size = len(payload)
        if not (
            self._can_write
            and size <= self._max_payload
            # No injected command: no line ends, and no space but those above.
            and words.isprintable()
            and words.count(" ") == 1 + bool(reply)
            and subject
            and fields is not None
        ):
            return False
        if fields:
            head = f"NATS/1.0\r\n{fields}\r\n".encode()
            command = f"HPUB {words}{len(head)} {len(head) + size}\r\n".encode() + head
        else:
            command = f"PUB {words}{size}\r\n".encode()
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += size
        self._pending += (command, payload, _CRLF)
        self._pending_data_size += len(command) + size + 2
        if not self._will_write:
            self._will_write = True
            asyncio.get_running_loop().call_soon(self._write_soon)
        elif len(self._pending) >= _MOST_PENDING:
            self._write_pending()
        return True

    async def _send_ping(self, future: "asyncio.Future[bool] | None" = None) -> None:
        # nats-py writes a ping at once; the pong must confirm what was published before it.
        self._write_pending()
        await super()._send_ping(future)

    @property
    def _can_write(self) -> bool:
        """Whether what is published now can leave with the next write."""
        if not self.is_connected:
            return False
        # The socket is asked once per turn, and after each write.
        if not self._will_write:
            socket = self._socket
            if socket is None or socket.is_closing():
                return False
            self._unsent_bytes = socket.get_write_buffer_size()
        return self._pending_data_size + self._unsent_bytes < _BUSY_BYTES

    def _write_soon(self) -> None:
        """Write once a turn adds nothing: what has arrived meanwhile may lead to more."""
        if len(self._pending) > self._seen and self._turns < self._most_turns:
            self._seen = len(self._pending)
            self._turns += 1
            asyncio.get_running_loop().call_soon(self._write_soon)
        else:
            self._will_write = False
            self._turns = 0
            self._write_pending()

    def _write_pending(self) -> None:
        socket = self._socket
        # What cannot be written now stays pending: nats-py sends it after its reconnect.
        if self._pending and self.is_connected and socket is not None and not socket.is_closing():
            socket.write(b"".join(self._pending))
            self._pending = []
            self._pending_data_size = self._seen = 0
            self._unsent_bytes = socket.get_write_buffer_size()


def _deliver(sink: MessageSink, message: Message) -> None:
    try:
        sink(message)
    except Exception:
        # An error here would end the connection.
        log.exception("cannot handle a message on %s", message.subject)


def _header_lines(headers: Mapping[str, str]) -> str | None:
    """One header a line; None when nats-py would clean them first, or reject them."""
    fields = ""
    for name, value in headers.items():
        if not (_is_plain_name(name) and value and value[0] != " " and value.isprintable()):
            return None
        fields += f"{name}: {value}\r\n"
    return fields


@lru_cache(maxsize=256)
def _is_plain_name(name: str) -> bool:
    return _PLAIN_NAME.fullmatch(name) is not None


@cache
def fast_path_mismatch() -> str | None:
    """What DirectClient relies on and the installed nats-py does differently; None if nothing."""
    if _IMPORT_ERROR is not None:
        return _IMPORT_ERROR
    try:
        return next(_differences(), None)
    except Exception as error:  # noqa: BLE001
        # Code that has changed may fail in any way.
        return f"{type(error).__name__}: {error}"


def _differences() -> Iterator[str]:
    for name, parameters in _METHODS.items():
        found = list(inspect.signature(getattr(Client, name)).parameters)
        if found != parameters:
            yield f"Client.{name} has the parameters {', '.join(found)}"
    for name, used in _USED_NAMES.items():
        if missing := used - _names_used_by(name):
            yield f"Client.{name} does not use {', '.join(sorted(missing))}"
    yield from _state_differences(Client())
    yield from _parser_differences()


def _names_used_by(method: str) -> set[str]:
    return set(getattr(Client, method).__code__.co_names)


def _state_differences(client: Any) -> Iterator[str]:
    if (client._pending, client._pending_data_size, client._transport) != ([], 0, None):
        yield "a new Client has another state"
    if not {"in_msgs", "in_bytes", "out_msgs", "out_bytes"} <= set(client.stats):
        yield "Client.stats has other counters"
    _run(client._send_command(b"PING\r\n"))
    if (client._pending, client._pending_data_size) != ([b"PING\r\n"], 6):
        yield "Client._send_command keeps commands elsewhere"
    if Subscription(client, id=7)._id != 7:
        yield "Subscription._id is another number"
    transport: Any = TcpTransport()  # type: ignore[no-untyped-call]
    if (transport._io_reader, transport._io_writer) != (None, None):
        yield "TcpTransport has other streams"
    if asyncio.StreamReader.__init__.__code__.co_names.count("_buffer") != 1:
        yield "asyncio.StreamReader keeps unread bytes elsewhere"


def _parser_differences() -> Iterator[str]:
    """Compare how the parser shows that it has half a message, and how it delivers a whole one."""
    received: list[tuple[object, ...]] = []

    class Receiver:
        async def _process_msg(self, *message: object) -> None:
            received.append(message)

    parser: Any = Parser(Receiver())
    for piece in (b"MS", b"G s 7 r 2\r\n", b"h"):
        _run(parser.parse(piece))
        if not parser.buf and parser.state == AWAITING_CONTROL_LINE:
            yield "Parser does not show that it has half a message"
    _run(parser.parse(b"i\r\n"))
    if received != [(7, b"s", b"r", b"hi", None)]:
        yield "Parser delivers messages in another form"
    if parser.buf or parser.state != AWAITING_CONTROL_LINE:
        yield "Parser does not show that it has read everything"


def _run(coroutine: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine that never waits, with or without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError(f"{coroutine} waits")
