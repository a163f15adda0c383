"""uvicorn's HTTP with bounds where it has none: on a request's head, and on a body that nobody reads.

A head may be 64 KiB long and take 30 seconds. Of a body that goes on after its answer was given, such as
one that was refused for its size, a little is read, so that the sender gets to read the answer; then the
connection is closed.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES: Final = 64 * 1024
_HEAD_SEC: Final = 30.0
MOST_UNREAD_BYTES: Final = 1024 * 1024

_TOO_LARGE: Final = f"The request's headers are larger than {MOST_HEAD_BYTES} bytes.".encode()
_TOO_LARGE_ANSWER: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
    b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n\r\n%s" % (len(_TOO_LARGE), _TOO_LARGE)
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
        # Of a body that goes on after its answer.
        self._unread_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_read()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        was_in_head, heads = self._in_head, self._heads
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            return
        # A head that begins somewhere in these bytes is counted from the next ones on.
        if was_in_head and heads == self._heads:
            self._head_bytes += len(data)
        if self._head_bytes > MOST_HEAD_BYTES:
            self.transport.write(_TOO_LARGE_ANSWER)
            self.transport.close()
        elif self._head_timer is None:
            self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes, self._unread_bytes = True, 0, 0

    def on_headers_complete(self) -> None:
        self._heads += 1
        self._head_is_read()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        if self.cycle.response_complete:
            self._unread_bytes += len(body)
            if self._unread_bytes > MOST_UNREAD_BYTES:
                self.transport.close()

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
