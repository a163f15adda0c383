"""uvicorn's HTTP with bounds where it has none: on a request's head, and on how long its body may take.

A head may be 64 KiB long and take 30 seconds. A body that does not come with its head may take 30 seconds,
and a second more for every 16 KiB of it that have come. Of a body that goes on after its answer was given,
such as one that was refused for its size, a little is read, so that the sender gets to read the answer; then
the connection is closed.

A request to go on in another protocol is answered as if it did not ask for that, as HTTP has it. Our parser
believes that what follows its head is of the other protocol, and would lose the body: such a head is parsed
again, without that wish.
"""

import asyncio
import sys
from typing import Any, Final

import httptools
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from pyoco_server.http_api.server.coalescing_transport import PairedWrites
from pyoco_server.http_api.server.response_head_cache import KnownHeads

# uvicorn's protocol has no other place to say of which class its answers are.
httptools_impl.RequestResponseCycle = KnownHeads  # type: ignore[misc]

MOST_HEAD_BYTES: Final = 64 * 1024
_HEAD_SEC: Final = 30.0
_BODY_SEC: Final = 30.0
_LEAST_BYTES_PER_SEC: Final = 16 * 1024
MOST_UNREAD_BYTES: Final = 1024 * 1024

# What asks for another protocol, or belongs to that.
_UPGRADES: Final = frozenset({b"upgrade", b"http2-settings"})


def _last_answer(status: str, text: str) -> bytes:
    """An answer of ours, after which the connection is closed."""
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nconnection: close\r\n"
        f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


_TOO_LARGE: Final = _last_answer(
    "431 Request Header Fields Too Large", f"The request's headers are larger than {MOST_HEAD_BYTES} bytes."
)
_TOO_SLOW: Final = _last_answer(
    "408 Request Timeout",
    f"The body takes too long; wanted within {_BODY_SEC:g} seconds, and one more for every "
    f"{_LEAST_BYTES_PER_SEC} bytes.",
)


class BoundedHttp(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Of the head that is being read; a new connection waits for one.
        self._in_head = True
        self._head_bytes = 0
        self._heads = 0
        self._head_timer: asyncio.TimerHandle | None = None
        # Of the body that is being read: how much of it has come, and since when it is waited for.
        self._in_body = False
        self._body_bytes = 0
        self._body_since = 0.0
        self._body_timer: asyncio.TimerHandle | None = None
        # Of a body that goes on after its answer.
        self._unread_bytes = 0
        # Whether the parser has stopped behind a head that is to be parsed again, and what it was given.
        self._stopped = False
        self._data = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(PairedWrites(transport))
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_read()
        self._body_is_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        was_in_head, heads, self._data = self._in_head, self._heads, data
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            if self._in_body and self._body_timer is None and not self.transport.is_closing():
                self._await_body()
            return
        # A head that begins somewhere in these bytes is counted from the next ones on.
        if was_in_head and heads == self._heads:
            self._head_bytes += len(data)
        if self._head_bytes > MOST_HEAD_BYTES:
            self.transport.write(_TOO_LARGE)
            self.transport.close()
        elif self._head_timer is None:
            self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes, self._body_bytes, self._unread_bytes = True, 0, 0, 0

    def on_headers_complete(self) -> None:
        self._heads += 1
        self._head_is_read()
        self._stopped = self.parser.should_upgrade()
        if not self._stopped:
            self._in_body = True
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._body_bytes += len(body)
        if self.cycle.response_complete:
            self._unread_bytes += len(body)
            if self._unread_bytes > MOST_UNREAD_BYTES:
                self.transport.close()

    def on_message_complete(self) -> None:
        if not self._stopped:
            self._body_is_read()
            super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """The parser has stopped; where in `data`, only its exception says, which uvicorn is handling now."""
        stopped = sys.exception()
        assert isinstance(stopped, httptools.HttpParserUpgrade)
        if self.parser.get_method() == b"CONNECT":
            self.send_400_response("This is no proxy.")
            return
        head, self.parser = self._head_without_upgrade(), httptools.HttpRequestParser(self)
        # As uvicorn has it.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        super().data_received(head + self._data[stopped.args[0] :])

    def _head_without_upgrade(self) -> bytes:
        lines = [
            b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        ]
        for name, value in self.headers:
            if name == b"connection":
                tokens = [token.strip() for token in value.split(b",")]
                kept = b", ".join(token for token in tokens if token.lower() not in _UPGRADES)
                lines.append(b"connection: " + kept)
            elif name not in _UPGRADES:
                lines.append(b"%s: %s" % (name, value))
        return b"\r\n".join([*lines, b"", b""])

    def _await_body(self) -> None:
        self._body_since = self.loop.time()
        self._body_timer = self.loop.call_later(_BODY_SEC, self._look_at_body)

    def _look_at_body(self) -> None:
        """Whether as much has come as had to by now."""
        allowed_sec = _BODY_SEC + self._body_bytes / _LEAST_BYTES_PER_SEC
        left_sec = self._body_since + allowed_sec - self.loop.time()
        if left_sec > 0:
            self._body_timer = self.loop.call_later(left_sec, self._look_at_body)
            return
        self._body_timer = None
        # Behind another request it has no turn to be answered.
        if not self.cycle.response_started and not self.pipeline:
            self.transport.write(_TOO_SLOW)
        self.transport.close()

    def _body_is_read(self) -> None:
        self._in_body = False
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(_HEAD_SEC, self._give_up)

    def _head_is_read(self) -> None:
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        self.transport.close()
