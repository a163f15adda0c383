"""uvicorn's HTTP protocol with limits on heads and bodies, and with cached response heads.

The only module that uses internals of uvicorn; `mismatch` compares them with what it needs.

A head may have 64 KiB and take 30 seconds. A body may take 30 seconds, and one more for every 16 KiB
received. Of a body that continues after its response, 1 MiB is read, so that the client can read the
response; then the connection is closed.

A request for a protocol upgrade is served as plain HTTP. httptools stops after the head of such a request and
would lose its body: the head is parsed again, without the upgrade headers.
"""

import asyncio
import logging
import sys
from collections.abc import Coroutine
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from pyoco_server.http_api.server.coalescing_transport import CoalescingTransport

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

MAX_HEAD_BYTES: Final = 64 * 1024
MAX_UNREAD_BYTES: Final = 1024 * 1024
_HEAD_SEC: Final = 30.0
_BODY_SEC: Final = 30.0
_MIN_BYTES_PER_SEC: Final = 16 * 1024

_UPGRADE_HEADERS: Final = frozenset({b"upgrade", b"http2-settings"})

# The date is part of every head: those of the last seconds are enough.
_MAX_CACHED_HEADS: Final = 256
# uvicorn changes its state by these headers, so it has to write such a head itself.
_STATEFUL_HEADERS: Final = frozenset({b"connection", b"transfer-encoding"})

_NEEDED: Final = {
    HttpToolsProtocol.__init__: {"transport", "parser", "headers", "cycle", "pipeline", "loop"},
    HttpToolsProtocol.on_message_begin: {"url"},
    HttpToolsProtocol.data_received: {"feed_data", "HttpParserUpgrade", "_unsupported_upgrade_warning"},
    HttpToolsProtocol.on_headers_complete: {"cycle", "RequestResponseCycle", "should_upgrade"},
    RequestResponseCycle.run_asgi: {"send"},
}
_PROBE_HEADERS: Final = ((b"Content-Length", b"2"), (b"content-type", b"application/json"))


def mismatch() -> str | None:
    """How the installed uvicorn differs from what this module needs; None when it does not."""
    for function, names in _NEEDED.items():
        if missing := names - set(function.__code__.co_names):
            return f"{function.__qualname__} does not use {', '.join(sorted(missing))}"
    try:
        differs = _probe(RequestResponseCycle) != _probe(CachedHeadCycle)
    except (TypeError, AttributeError) as error:
        return str(error)
    return "it writes another response head" if differs else None


class CachedHeadCycle(RequestResponseCycle):
    """One request and its response. uvicorn validates and joins every header of every response; most
    responses of one second have the same head, so that it is written from a cache."""

    async def send(self, message: "ASGISendEvent") -> None:
        if message["type"] == "http.response.start" and self._can_start:
            cached = _cached_head(message["status"], (*self.default_headers, *message.get("headers", ())))
            if cached is not None:
                head, self.expected_content_length = cached
                self.response_started, self.chunked_encoding = True, False
                self.waiting_for_100_continue = False
                self.transport.write(head)
                return
        await super().send(message)

    @property
    def _can_start(self) -> bool:
        return (
            self.keep_alive
            and not self.response_started
            and not self.disconnected
            and not self.flow.write_paused
            and not self.access_log
        )


@lru_cache(_MAX_CACHED_HEADS)
def _cached_head(status: int, headers: tuple[tuple[bytes, bytes], ...]) -> tuple[bytes, int] | None:
    """The head and the length of the body; None when uvicorn has to write it."""
    lengths = [int(value) for name, value in headers if name.lower() == b"content-length"]
    if len(lengths) != 1:
        return None
    lines = [STATUS_LINE[status]]
    for name, value in headers:
        if name.lower() in _STATEFUL_HEADERS or HEADER_RE.search(name) or HEADER_VALUE_RE.search(value):
            return None
        lines.append(b"%b: %b\r\n" % (name.lower(), value))
    return b"".join([*lines, b"\r\n"]), lengths[0]


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._in_head = True
        self._head_bytes = 0
        self._heads = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._in_body = False
        self._body_bytes = 0
        self._body_since = 0.0
        self._body_timer: asyncio.TimerHandle | None = None
        # Of a body that continues after its response.
        self._unread_bytes = 0
        # Whether the parser has stopped at a head with an upgrade, and the data that it got.
        self._stopped = False
        self._data = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(CoalescingTransport(transport))
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._end_body()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        was_in_head, heads, self._data = self._in_head, self._heads, data
        super().data_received(data)
        if not self._in_head or self.transport.is_closing():
            if self._in_body and self._body_timer is None and not self.transport.is_closing():
                self._start_body_timer()
            return
        # A head that begins in the middle of `data` is counted from the next data on.
        if was_in_head and heads == self._heads:
            self._head_bytes += len(data)
        if self._head_bytes > MAX_HEAD_BYTES:
            self.transport.write(_HEAD_TOO_LARGE)
            self.transport.close()
        elif self._head_timer is None:
            self._start_head_timer()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes, self._body_bytes, self._unread_bytes = True, 0, 0, 0

    def on_headers_complete(self) -> None:
        self._heads += 1
        self._end_head()
        self._stopped = self.parser.should_upgrade()
        if not self._stopped:
            self._in_body = True
            super().on_headers_complete()
            # uvicorn has no option for the class of its cycles. The task of this one has not run yet.
            self.cycle.__class__ = CachedHeadCycle

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._body_bytes += len(body)
        if self.cycle.response_complete:
            self._unread_bytes += len(body)
            if self._unread_bytes > MAX_UNREAD_BYTES:
                self.transport.close()

    def on_message_complete(self) -> None:
        if not self._stopped:
            self._end_body()
            super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """uvicorn calls this while it handles the parser's exception, which has the position in the data."""
        stopped = sys.exception()
        assert isinstance(stopped, httptools.HttpParserUpgrade)
        if self.parser.get_method() == b"CONNECT":
            self.send_400_response("This is no proxy.")
            return
        head, self.parser = self._head_without_upgrade(), httptools.HttpRequestParser(self)
        # As uvicorn does.
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        super().data_received(head + self._data[stopped.args[0] :])

    def _head_without_upgrade(self) -> bytes:
        lines = [
            b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        ]
        for name, value in self.headers:
            if name == b"connection":
                tokens = [token.strip() for token in value.split(b",")]
                kept = b", ".join(token for token in tokens if token.lower() not in _UPGRADE_HEADERS)
                lines.append(b"connection: " + kept)
            elif name not in _UPGRADE_HEADERS:
                lines.append(b"%s: %s" % (name, value))
        return b"\r\n".join([*lines, b"", b""])

    def _start_body_timer(self) -> None:
        self._body_since = self.loop.time()
        self._body_timer = self.loop.call_later(_BODY_SEC, self._check_body_rate)

    def _check_body_rate(self) -> None:
        allowed_sec = _BODY_SEC + self._body_bytes / _MIN_BYTES_PER_SEC
        left_sec = self._body_since + allowed_sec - self.loop.time()
        if left_sec > 0:
            self._body_timer = self.loop.call_later(left_sec, self._check_body_rate)
            return
        self._body_timer = None
        # A pipelined request must not get its response before the earlier ones.
        if not self.cycle.response_started and not self.pipeline:
            self.transport.write(_BODY_TOO_SLOW)
        self.transport.close()

    def _end_body(self) -> None:
        self._in_body = False
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(_HEAD_SEC, self._on_head_timeout)

    def _end_head(self) -> None:
        self._in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_head_timeout(self) -> None:
        self._head_timer = None
        self.transport.close()


def _final_response(status: str, text: str) -> bytes:
    """A response after which the connection is closed."""
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nconnection: close\r\n"
        f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


_HEAD_TOO_LARGE: Final = _final_response(
    "431 Request Header Fields Too Large", f"The request's headers are larger than {MAX_HEAD_BYTES} bytes."
)
_BODY_TOO_SLOW: Final = _final_response(
    "408 Request Timeout",
    f"The body takes too long; expected within {_BODY_SEC:g} seconds, and one more for every "
    f"{_MIN_BYTES_PER_SEC} bytes.",
)


class _RecordingTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.data = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.data += data


def _probe(cycle_class: type[RequestResponseCycle]) -> object:
    """The bytes of one response by a cycle of this class, and the state of the cycle after it."""
    transport = _RecordingTransport()
    log = logging.getLogger(__name__)
    cycle = RequestResponseCycle(
        scope={"type": "http", "method": "GET"},  # type: ignore[typeddict-item]
        transport=transport,
        flow=FlowControl(transport),
        logger=log,
        access_logger=log,
        access_log=False,
        default_headers=[(b"date", b"now")],
        message_event=asyncio.Event(),
        expect_100_continue=True,
        keep_alive=True,
        on_response=lambda: None,
    )
    cycle.__class__ = cycle_class
    _complete(cycle.send({"type": "http.response.start", "status": 200, "headers": _PROBE_HEADERS}))
    _complete(cycle.send({"type": "http.response.body", "body": b"ok", "more_body": False}))
    ignored = {"flow", "transport", "message_event", "on_response"}
    return transport.data, {name: value for name, value in vars(cycle).items() if name not in ignored}


def _complete(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that awaits nothing."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise TypeError("sending a response awaits something")
