"""Requests that a proxy and the gateway could read differently, as bytes on a socket."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from pyoco_server.http_api.server import uvicorn_adapter
from pyoco_server.http_api.server.request_head import MAX_HEAD_BYTES, MAX_HEADERS
from tests.support.raw_http import connected, refuse_at_once
from tests.support.waiting import eventually

HOST = b"Host: localhost\r\n"
LAST = b"GET /last HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\n" + HOST + b"\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: %s\r\n"


class Recorder:
    """An app that responds with what it received. `/slow` waits for `release`."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.disconnected: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await refuse_at_once(scope, receive, send)
            return
        body, message = b"", {"type": "", "more_body": scope["path"] != "/unread"}
        while message.get("more_body"):
            message = await receive()
            if message["type"] == "http.disconnect":
                self.disconnected.append(scope["path"])
                return
            body += message.get("body", b"")
        if scope["path"] == "/slow":
            await self.release.wait()
        if scope["path"] == "/stream":
            await receive()
            self.disconnected.append(scope["path"])
            return
        headers = [[name.decode(), value.decode("latin-1")[:50]] for name, value in scope["headers"]]
        received = {"path": scope["path"], "body": body.decode("latin-1"), "headers": headers}
        answer = json.dumps(received).encode()
        length = [(b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": length})
        await send({"type": "http.response.body", "body": answer})


def request(path: str, headers: bytes = b"\r\n", *, method: str = "POST", host: bytes = HOST) -> bytes:
    """With the rest of the head, its last line included, and the body."""
    return f"{method} {path} HTTP/1.1\r\n".encode() + host + headers


async def statuses(data: bytes, app: Any = None) -> list[tuple[int, Any]]:
    """Status and what the app received (None: it did not see the request) of all responses to `data`."""
    async with connected(app or Recorder()) as (reader, writer):
        writer.write(data)
        return _parsed(await reader.read())


def _parsed(data: bytes) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        status, _, lines = head.partition(b"\r\n")
        length = next(
            (int(line[15:]) for line in lines.lower().split(b"\r\n") if line.startswith(b"content-length")), 0
        )
        body, data = data[:length], data[length:]
        found.append((int(status.split()[1]), json.loads(body) if body[:1] == b"{" else None))
    return found


def seen(responses: Sequence[tuple[int, Any]]) -> list[tuple[int, str]]:
    return [(status, received["path"] if received else "") for status, received in responses]


REFUSED = {
    "length and chunks": request("/", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "chunks and length": request("/", b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    "length twice": request("/", b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    "two lengths": request("/", b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"),
    "list of lengths": request("/", b"Content-Length: 5, 5\r\n\r\nhello"),
    "length with plus": request("/", b"Content-Length: +5\r\n\r\nhello"),
    "negative length": request("/", b"Content-Length: -5\r\n\r\nhello"),
    "hexadecimal length": request("/", b"Content-Length: 0x5\r\n\r\nhello"),
    "length with underscore": request("/", b"Content-Length: 0_5\r\n\r\nhello"),
    "empty length": request("/", b"Content-Length:\r\n\r\n"),
    "huge length": request("/", b"Content-Length: 99999999999999999999999\r\n\r\nhello"),
    "folded length": request("/", b"Content-Length:\r\n 5\r\n\r\nhello"),
    "folded header": request("/", b"X: a\r\n X-API-Key: b\r\n\r\n"),
    "folded coding": request("/", b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"),
    "folded header of an upgrade": request("/", UPGRADE % b"h2c" + b"X: a\r\n X-API-Key: b\r\n\r\n"),
    "space before the colon": request("/", b"Content-Length : 5\r\n\r\nhello"),
    "space before the name": request("/", b" X: a\r\n\r\n"),
    "no name": request("/", b": a\r\n\r\n"),
    "line feed alone": b"GET / HTTP/1.1\nHost: localhost\n\n",
    "line feed in a value": request("/", b"X: a\nContent-Length: 5\r\n\r\nhello"),
    "carriage return in a value": request("/", b"X: a\rContent-Length: 5\r\n\r\nhello"),
    "NUL in a value": request("/", b"X: a\0b\r\n\r\n"),
    "NUL in a name": request("/", b"X\0: a\r\n\r\n"),
    "control character in the target": request("/a\x01b"),
    "chunk size with plus": request("/", CHUNKED + b"+5\r\nhello\r\n0\r\n\r\n"),
    "negative chunk": request("/", CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n"),
    "chunk size with 0x": request("/", CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n"),
    "chunk size with a space": request("/", CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n"),
    "huge chunk": request("/", CHUNKED + b"ffffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    "chunk without its end": request("/", CHUNKED + b"5\r\nhelloXX0\r\n\r\n"),
    "line feeds of chunks": request("/", CHUNKED + b"5\nhello\n0\n\n"),
    "line feed in a chunk extension": request("/", CHUNKED + b"5;a\nhello\r\n0\r\n\r\n"),
    "length in a trailer": request("/", CHUNKED + b"0\r\nContent-Length: 5\r\n\r\nhello"),
    "coding after chunked": request("/", b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
    "chunked twice": request("/", b"Transfer-Encoding: chunked\r\n" + CHUNKED + b"0\r\n\r\n"),
    "no host": request("/", host=b""),
    "two hosts": request("/", b"Host: another\r\n\r\n"),
    "another host in the target": request("http://another/"),
    "target without a path": request("http://localhost"),
    "CONNECT": request("localhost:1", method="CONNECT"),
    "unknown method": request("/", method="SMUGGLE"),
    "lower-case method": request("/", method="post"),
}
REFUSED_AS = {
    "one long header": (431, request("/", b"X: " + b"x" * 70_000 + b"\r\n\r\n")),
    "long headers together": (431, request("/", (b"X: " + b"x" * 1000 + b"\r\n") * 70 + b"\r\n")),
    "long target": (431, request("/" + "x" * MAX_HEAD_BYTES)),
    "many headers": (431, request("/", b"a:\r\n" * MAX_HEADERS + b"\r\n")),
    "long head of an upgrade": (431, request("/", UPGRADE % b"h2c" + b"X: " + b"x" * 70_000 + b"\r\n\r\n")),
    "other coding": (400, request("/", b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")),
    "two codings": (400, request("/", b"Transfer-Encoding: identity\r\n" + CHUNKED + b"0\r\n\r\n")),
    "coding like chunked": (400, request("/", b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n")),
    "HTTP/2.0": (400, b"GET / HTTP/2.0\r\n" + HOST + b"\r\n"),
    "HTTP/0.9": (400, b"GET /\r\n\r\n"),
    **{name: (400, data) for name, data in REFUSED.items()},
}


@pytest.mark.parametrize("name", REFUSED_AS)
async def test_an_ambiguous_request_is_refused_and_nothing_after_it_is_served(name: str) -> None:
    status, data = REFUSED_AS[name]
    assert seen(await statuses(data + SMUGGLED)) == [(status, "")]


@pytest.mark.parametrize("name", ["two lengths", "huge chunk", "no host", "CONNECT", "one long header"])
async def test_a_refusal_comes_after_the_responses_of_earlier_requests(name: str) -> None:
    app = Recorder()
    status, data = REFUSED_AS[name]
    async with connected(app) as (reader, writer):
        writer.write(request("/slow") + request("/second") + data + SMUGGLED)
        # The refused request is read before the first one is answered.
        asyncio.get_running_loop().call_later(0.1, app.release.set)
        assert seen(_parsed(await reader.read())) == [(200, "/slow"), (200, "/second"), (status, "")]


async def test_a_head_after_an_upgrade_is_refused_for_its_own_reason() -> None:
    data = request("/1", UPGRADE % b"h2c" + b"\r\n") + REFUSED_AS["one long header"][1]
    assert seen(await statuses(data + SMUGGLED)) == [(200, "/1"), (431, "")]


SERVED = {
    "two upgrades": (
        request("/1", UPGRADE % b"websocket" + b"\r\n") + request("/2", UPGRADE % b"h2c" + b"\r\n"),
        ["/1", "/2"],
    ),
    "an upgrade with a body between requests": (
        request("/1")
        + request("/2", UPGRADE % b"h2c" + b"Content-Length: 5\r\n\r\nhello")
        + request("/3", UPGRADE % b"websocket" + CHUNKED + b"5\r\nhello\r\n0\r\n\r\n")
        + request("/4"),
        ["/1", "/2", "/3", "/4"],
    ),
    "many upgrades": (request("/n", UPGRADE % b"websocket" + b"\r\n") * 1500, ["/n"] * 1500),
    "chunk extension": (request("/1", CHUNKED + b"5;a=b\r\nhello\r\n0\r\n\r\n"), ["/1"]),
    "chunks of one byte": (request("/1", CHUNKED + b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n"), ["/1"]),
    "absolute target": (request("http://localhost/1"), ["/1"]),
    "empty lines first": (b"\r\n\r\n" + request("/1"), ["/1"]),
    "a body of a GET": (
        request("/1", b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED, method="GET"),
        ["/1"],
    ),
}


@pytest.mark.parametrize("name", SERVED)
async def test_each_request_has_one_response(name: str) -> None:
    data, paths = SERVED[name]
    expected = [(200, path) for path in [*paths, "/last"]]
    assert seen(await statuses(data + LAST)) == expected


@pytest.mark.parametrize("upgrade", [b"", UPGRADE % b"websocket"], ids=["plain", "upgrade"])
async def test_trailers_are_not_headers(upgrade: bytes) -> None:
    trailers = b"X-API-Key: key\r\nHost: another\r\nOrigin: http://another\r\n"
    data = request("/1", upgrade + CHUNKED + b"5\r\nhello\r\n0\r\n" + trailers + b"\r\n")
    responses = await statuses(data + LAST)
    assert seen(responses) == [(200, "/1"), (200, "/last")]
    for _, received in responses:
        assert {name for name, _ in received["headers"]} <= {"host", "transfer-encoding", "connection"}
        assert ["host", "localhost"] in received["headers"]


async def test_a_long_head_that_begins_within_a_read_is_431() -> None:
    app = Recorder()
    async with connected(app) as (reader, writer):
        writer.write(request("/1") + request("/2", b"X: " + b"x" * 40_000))
        first = await reader.readuntil(b"\r\n\r\n")
        assert first.startswith(b"HTTP/1.1 200 ")
        writer.write(b"x" * 40_000 + b"\r\n\r\n" + SMUGGLED)
        assert seen(_parsed(first + await reader.read())) == [(200, "/1"), (431, "")]


async def test_a_head_of_the_largest_size_is_served() -> None:
    room = MAX_HEAD_BYTES - len(request("/1", b"X: \r\n\r\n"))
    headers = b"X: " + b"x" * (room - 100) + b"\r\n\r\n"
    assert seen(await statuses(request("/1", headers) + LAST)) == [(200, "/1"), (200, "/last")]


async def test_a_body_that_was_not_asked_for_is_not_the_next_request() -> None:
    """After a response instead of `100 Continue` a client may send its body, or another request."""
    expecting = request("/unread", b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    async with connected(Recorder()) as (reader, writer):
        writer.write(expecting)
        # Without this header the connection would end as well, but only after some seconds.
        assert b"connection: close" in await reader.readuntil(b"\r\n\r\n")
    assert seen(await statuses(expecting)) == [(200, "/unread")]
    assert seen(await statuses(expecting.replace(b"/unread", b"/read") + b"hello" + LAST)) == [
        (100, ""),
        (200, "/read"),
        (200, "/last"),
    ]


@pytest.mark.parametrize("endless", [b"5;" + b"a" * 60_000, b"0\r\n" + b"a: b\r\n" * 10_000])
async def test_endless_chunk_extensions_and_trailers_end_the_connection(endless: bytes) -> None:
    app = Recorder()
    async with connected(app) as (_, writer):
        writer.write(request("/", CHUNKED) + endless * 20)
        await eventually(lambda: app.disconnected == ["/"], describe="the request ends")


async def test_a_refused_body_ends_its_request() -> None:
    app = Recorder()
    assert seen(await statuses(request("/1", CHUNKED + b"5\r\nhello\r\nzz\r\n"), app)) == [(400, "")]
    await eventually(lambda: app.disconnected == ["/1"], describe="the app is told")


async def test_a_request_before_a_pipelined_one_learns_of_the_disconnect() -> None:
    app = Recorder()
    async with connected(app) as (_, writer):
        writer.write(request("/stream") + request("/2"))
        await writer.drain()
        writer.close()
        await eventually(lambda: app.disconnected == ["/stream"], describe="the stream ends")


async def test_a_slow_head_does_not_end_the_response_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn_adapter, "_HEAD_SEC", 0.1)
    app = Recorder()
    async with connected(app) as (reader, writer):
        writer.write(request("/slow") + b"GET /never")
        asyncio.get_running_loop().call_later(0.3, app.release.set)
        assert seen(_parsed(await reader.read())) == [(200, "/slow")]
