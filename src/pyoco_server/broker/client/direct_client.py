"""nats-py's client with a short way in and out for the messages of the hot path.

A message takes nats-py a task that reads, a parser of regular expressions, a queue and one more task until
a callback runs, and a publish takes a queue and a task as well. Each of these is a turn of the event loop;
together they cost more than all else that is done about a short run. Here

- a message for a direct subscription reaches its handler in the moment its bytes arrive;
- whatever is published within one turn of the event loop leaves in one system call at its end; with an
  unhurried client, once a turn adds nothing. Such a call costs this process, and the server that it wakes
  up, more than the messages in it.

The rest is nats-py's as ever: connecting, TLS, authentication, pings, reconnecting, waiting for a slow
socket. So is every message that the short way does not suit, above all one that arrives in pieces. The
tests compare both ways, since this leans on names inside of nats-py.
"""

import asyncio
import logging
import re
from collections.abc import Mapping
from functools import lru_cache

import nats.errors
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport
from nats.protocol.parser import AWAITING_CONTROL_LINE

from pyoco_server.broker.client.message import Message, MessageSink

log = logging.getLogger(__name__)

_CRLF = b"\r\n"
# With more than this on its way, a publish goes through nats-py, which waits for the socket.
_BUSY_BYTES = 256 * 1024
# For how many more turns a message of an unhurried client may wait for others that leave with it.
_MOST_TURNS = 4
_PLAIN_NAME = re.compile(r"[\w-]+", re.ASCII)


class DirectClient(Client):
    """A nats-py client with direct subscriptions and direct publishing."""

    def __init__(self, *, tls_required: bool = False, unhurried: bool = False) -> None:
        super().__init__()
        self._tls_required = tls_required
        self._most_turns = _MOST_TURNS if unhurried else 0
        # By subscription id, as the server writes it.
        self._sinks: dict[bytes, MessageSink] = {}
        # None before the first connection, and over WebSocket.
        self._socket: asyncio.WriteTransport | None = None
        self._will_write = False
        # For how many turns something has waited, and how much there was at the last look.
        self._turns = 0
        self._seen = 0
        # What the socket had not taken when this turn's first message came.
        self._unsent_bytes = 0

    async def _process_connect_init(self) -> None:
        await super()._process_connect_init()
        # Connected, for the first time or again, and whatever TLS does to the streams is done.
        if isinstance(self._transport, TcpTransport):
            assert self._transport._io_writer is not None
            assert self._transport._io_reader is not None
            self._socket = self._transport._io_writer.transport
            self._look_before(self._transport._io_reader)

    def _connect_command(self) -> bytes:
        """Say who we are; but never in the clear when TLS is wanted: nats-py goes by what the server says."""
        if self._tls_required and not self._has_tls:
            raise nats.errors.Error("the server does not offer TLS, which the settings require")
        return super()._connect_command()

    @property
    def _has_tls(self) -> bool:
        if isinstance(self._transport, TcpTransport):
            writer = self._transport._io_writer
            return writer is not None and writer.get_extra_info("ssl_object") is not None
        return self._current_server is not None and self._current_server.uri.scheme == "wss"

    # Receiving

    async def subscribe_direct(self, subject: str, sink: MessageSink) -> Subscription:
        """Call `sink` with each message. It must be quick: nothing else is read meanwhile."""
        subscription = await self.subscribe(subject)
        self._sinks[b"%d" % subscription._id] = sink
        return subscription

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        super()._remove_sub(sid, max_msgs)
        self._sinks.pop(b"%d" % sid, None)

    def _look_before(self, reader: asyncio.StreamReader) -> None:
        """See what arrives before nats-py's reader does, and pass on what is not for us."""
        pass_on = reader.feed_data

        def look(data: bytes) -> None:
            # Nothing overtakes what nats-py has not read to its end.
            if not (reader._buffer or self._ps.buf or self._ps.state != AWAITING_CONTROL_LINE):  # type: ignore[attr-defined]
                data = data[self.take_messages(data) :]
            if data:
                pass_on(data)

        reader.feed_data = look  # type: ignore[assignment,method-assign]

    def take_messages(self, data: bytes) -> int:
        """Handle the direct messages that `data` begins with; returns where the rest begins."""
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
            _give(sink, Message(words[1].decode(), reply.decode(), data[head:body], data[body:end]))
            begin = end + 2
            count += 1
            size += end - body
        self._count_received(count, size)
        return begin

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        """Take what nats-py's own parser found: among the rest, direct messages that came in pieces."""
        sink = self._sinks.get(b"%d" % sid)
        if sink is None:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            _give(sink, Message(subject.decode(), reply.decode(), headers or b"", data))
            self._count_received(1, len(data))

    def _count_received(self, count: int, size: int) -> None:
        self.stats["in_msgs"] += count
        self.stats["in_bytes"] += size

    # Sending

    def publish_now(
        self, subject: str, payload: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> bool:
        """Publish without waiting; False: not done, `publish` knows what is in the way and what to do."""
        words = f"{subject} {reply} " if reply else f"{subject} "
        fields = _written(headers) if headers else ""
        size = len(payload)
        if not (
            self._is_free
            and size <= self._max_payload
            # Nothing that could be taken for another command: no line ends, and no space but those above.
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
        return True

    async def _send_ping(self, future: "asyncio.Future[bool] | None" = None) -> None:
        # nats-py writes a ping at once; it must not overtake what it is to be an answer for.
        self._write_pending()
        await super()._send_ping(future)

    @property
    def _is_free(self) -> bool:
        """Whether what is published now can leave with the next write."""
        if not self.is_connected:
            return False
        # Until then nothing is written, so that the socket is looked at once.
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
            self._write_pending()

    def _write_pending(self) -> None:
        self._will_write = False
        self._turns = self._seen = 0
        # What cannot be written now is nats-py's to send, after its reconnect.
        if self.is_connected and self._socket is not None and not self._socket.is_closing():
            self._socket.write(b"".join(self._pending))
            self._pending = []
            self._pending_data_size = 0


def _give(sink: MessageSink, message: Message) -> None:
    try:
        sink(message)
    except Exception:
        # An error here would end the connection.
        log.exception("a message on %s could not be handled", message.subject)


def _written(headers: Mapping[str, str]) -> str | None:
    """The headers, one a line; None when nats-py would clean them first, or refuse them."""
    fields = ""
    for name, value in headers.items():
        if not (_is_plain_name(name) and value and value[0] != " " and value.isprintable()):
            return None
        fields += f"{name}: {value}\r\n"
    return fields


@lru_cache(maxsize=256)
def _is_plain_name(name: str) -> bool:
    return _PLAIN_NAME.fullmatch(name) is not None
