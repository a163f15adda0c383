"""uvicorn's HTTP protocol with limits on heads and bodies, and with cached response heads.

The only module that uses internals of uvicorn; `mismatch` compares them with what it needs.

A head may have 64 KiB and take 30 seconds. A body may take 30 seconds, and one more for every 16 KiB
received. Of a body that continues after its response, 1 MiB is read, so that the client can read the
response; then the connection is closed. Trailers are dropped.

A request that is refused gets its response after those of the requests before it, and is the last one of the
connection.

A request for a WebSocket is handed to uvicorn's WebSocket protocol, where the app has one at that path. Any
other request for a protocol upgrade is served as plain HTTP. httptools stops after the head of such a request
and would lose its body: the head is parsed again, without the upgrade headers.
"""

import asyncio
import logging
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

from pyoco_server.api.endpoints.endpoint_table import ENDPOINTS
from pyoco_server.http_api.server.coalescing_transport import CoalescingTransport
from pyoco_server.http_api.server.request_head import (
    HEAD_TOO_LARGE,
    MAX_HEAD_BYTES,
    final_response,
    refusal,
)

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

log = logging.getLogger(__name__)

MAX_UNREAD_BYTES: Final = 1024 * 1024
_HEAD_SEC: Final = 30.0
_BODY_SEC: Final = 30.0
_MIN_BYTES_PER_SEC: Final = 16 * 1024
# Of a chunked body: the sizes and extensions of its chunks, and its trailers. A chunk of one byte has 5.
_FRAMING_PER_BYTE: Final = 8

_UPGRADE_HEADERS: Final = frozenset({b"upgrade", b"http2-settings"})

# What the paths of WebSockets begin with.
_SOCKETS: Final = tuple(each.path.partition("{")[0].encode() for each in ENDPOINTS if each.websocket)

# The date is part of every head: those of the last seconds are enough.
_MAX_CACHED_HEADS: Final = 256
# uvicorn changes its state by these headers, so it has to write such a head itself.
_STATEFUL_HEADERS: Final = frozenset({b"connection", b"transfer-encoding"})

_NEEDED: Final = {
    HttpToolsProtocol.__init__: {"transport", "parser", "headers", "cycle", "pipeline", "loop"},
    HttpToolsProtocol.on_message_begin: {"url"},
    HttpToolsProtocol.data_received: {
        "_unset_keepalive_if_required",
        "feed_data",
        "HttpParserUpgrade",
        "_should_upgrade",
        "handle_websocket_upgrade",
    },
    HttpToolsProtocol.on_headers_complete: {
        "RequestResponseCycle",
        "_start_asgi_task",
        "appendleft",
        "cycle",
        "on_response_complete",
        "pipeline",
    },
    HttpToolsProtocol.on_response_complete: {"pipeline", "pop", "_start_asgi_task"},
    HttpToolsProtocol.connection_lost: {"cycle", "disconnected", "message_event"},
    RequestResponseCycle.run_asgi: {"send"},
    RequestResponseCycle.send: {"keep_alive", "response_complete", "waiting_for_100_continue"},
    RequestResponseCycle.receive: {"disconnected", "more_body"},
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
        if message["type"] == "http.response.start" and self.waiting_for_100_continue and self.more_body:
            # The client may leave the body out now: what follows could be a body or the next request.
            self.keep_alive = False
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
        # Of a head that is not complete: a lower and an upper bound of its size.
        self._head_bytes = self._head_reads = 0
        self._read_bytes = 0
        self._heads = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._in_body = False
        self._body_bytes = 0
        self._body_since = 0.0
        self._body_timer: asyncio.TimerHandle | None = None
        # Of a body that continues after its response.
        self._unread_bytes = 0
        # What was received of the body beside its content.
        self._framing_bytes = 0
        # Whether the parser has stopped at a head with an upgrade.
        self._stopped = False
        # The cycle whose response is next; later ones are in the pipeline.
        self._running: RequestResponseCycle | None = None
        # The response to a head that was parsed but is not served.
        self._head_refusal: bytes | None = None
        # The last response of the connection, when all earlier ones are sent; then it is closed.
        self._refusal: bytes | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(CoalescingTransport(transport))
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._end_body()
        # uvicorn notifies the newest request only.
        if self._running is not None and not self._running.response_complete:
            _disconnect(self._running)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        self._unset_keepalive_if_required()
        self._read_bytes = len(data)
        was_in_head, was_in_body = self._in_head, self._in_body
        heads, body_bytes = self._heads, self._body_bytes
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as stopped:
            if self._opens_socket():
                # From here on the connection belongs to that protocol.
                self.scope["method"] = "GET"
                self.handle_websocket_upgrade()
                return
            self._feed_again(memoryview(data)[stopped.args[0] :])
        except httptools.HttpParserError:
            self._refuse(self._head_refusal or _NOT_HTTP)
        if self._refusal is not None:
            return
        # A head or body that begins in the middle of `data` is counted from the next data on.
        same_request = heads == self._heads
        if self._in_body:
            framing = len(data) - (self._body_bytes - body_bytes)
            self._continue_body(framing if was_in_body and same_request else 0)
        elif self._in_head:
            self._continue_head(len(data) if was_in_head and same_request else 0)

    def _opens_socket(self) -> bool:
        """Not while an earlier request of the connection has no response yet."""
        is_idle = self._running is None or self._running.response_complete
        is_get = self.parser.get_method() == b"GET"
        return is_idle and is_get and self.url.startswith(_SOCKETS) and self._should_upgrade()

    def _feed_again(self, rest: memoryview) -> None:
        """The head with an upgrade, without the upgrade; then the rest, which may have others."""
        stopped_at: int | None = 0
        while stopped_at is not None:
            rest = rest[stopped_at:]
            head, self.parser = self._head_without_upgrade(), httptools.HttpRequestParser(self)
            # As uvicorn does.
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            try:
                self.parser.feed_data(head)
                self.parser.feed_data(rest)
                stopped_at = None
            except httptools.HttpParserUpgrade as stopped:
                # The position is in what was fed, which is `rest`.
                stopped_at = stopped.args[0]
            except httptools.HttpParserError:
                self._refuse(self._head_refusal or _NOT_HTTP)
                stopped_at = None

    def _continue_head(self, received: int) -> None:
        self._head_bytes += received
        self._head_reads += self._read_bytes
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(HEAD_TOO_LARGE)
        elif self._head_timer is None:
            self._start_head_timer()

    def _continue_body(self, framing_bytes: int) -> None:
        self._framing_bytes += framing_bytes
        if self._framing_bytes > MAX_HEAD_BYTES + _FRAMING_PER_BYTE * self._body_bytes:
            self._refuse(_FRAMING_TOO_LARGE)
        elif self._body_timer is None:
            self._start_body_timer()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._head_bytes, self._head_reads = True, 0, 0
        self._body_bytes = self._unread_bytes = self._framing_bytes = 0

    def on_headers_complete(self) -> None:
        self._heads += 1
        self._end_head()
        self._stopped = self.parser.should_upgrade()
        received = self._head_reads + self._read_bytes
        if refused := refusal(self.url, self.parser.get_http_version(), self.headers, received=received):
            self._head_refusal = refused
            raise _RefusedHead
        if self._stopped:
            if self.parser.get_method() == b"CONNECT":
                self._head_refusal = _NO_PROXY
                raise _RefusedHead
            return
        super().on_headers_complete()
        self._in_body = True
        if not self.pipeline:
            self._running = self.cycle
        # uvicorn has no option for the class of its cycles. The task of this one has not run yet.
        self.cycle.__class__ = CachedHeadCycle
        # The parser reports trailers as headers: they must not get into those of the request.
        self.headers = []

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

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._running = self.pipeline[-1][0]
        elif self._refusal is not None:
            self._close_with(self._refusal)
            return
        super().on_response_complete()

    def _refuse(self, response: bytes) -> None:
        """The last response of the connection, for the request that is being received."""
        in_body = self._in_body
        self._end_head()
        self._end_body()
        if self._refusal is not None:
            return
        self._refusal = response
        if response:
            status = response.partition(b"\r\n")[0].decode()
            log.info("refused a request of %s: %s", self.client and self.client[0], status)
        if in_body and self.pipeline:
            # The request itself; those before it are complete.
            self.pipeline.popleft()
        elif in_body:
            if self.cycle.response_started:
                self._refusal = b""
            _disconnect(self.cycle)
            self._close_with(self._refusal)
        elif self._running is None or self._running.response_complete:
            self._close_with(response)

    def _close_with(self, response: bytes) -> None:
        if response and not self.transport.is_closing():
            self.transport.write(response)
        self.transport.close()

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
        self._refuse(_BODY_TOO_SLOW)

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
        self._refuse(b"")


class _RefusedHead(Exception):
    """Raised in a callback of the parser, which stops there."""


def _disconnect(cycle: RequestResponseCycle) -> None:
    """The application receives `http.disconnect`, and what it sends is dropped."""
    cycle.disconnected = True
    cycle.message_event.set()


_NOT_HTTP: Final = final_response("400 Bad Request", "Invalid HTTP request received.")
_NO_PROXY: Final = final_response("400 Bad Request", "This server is not a proxy.")
_FRAMING_TOO_LARGE: Final = final_response(
    "400 Bad Request", "The body has more bytes of chunk sizes, chunk extensions and trailers than expected."
)
_BODY_TOO_SLOW: Final = final_response(
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
    cycle.more_body = False
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
