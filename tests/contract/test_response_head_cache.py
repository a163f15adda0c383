"""A cached response head equals, to the byte, the one that uvicorn writes."""

import asyncio
import logging
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from pyoco_server.http_api.server.uvicorn_adapter import CachedHeadCycle, _cached_head

DATE = (b"date", b"Mon, 16 Nov 2026 00:00:00 GMT")
JSON = (b"content-type", b"application/json")


class Written(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.data = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.data += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


class Response:
    """One response, sent by a class of cycles."""

    def __init__(self, kind: type[RequestResponseCycle], *, method: str = "POST", **options: Any) -> None:
        self.transport = Written()
        log = logging.getLogger(__name__)
        self.cycle = kind(
            **{
                "scope": {"type": "http", "method": method},
                "transport": self.transport,
                "flow": FlowControl(self.transport),
                "logger": log,
                "access_logger": log,
                "access_log": False,
                "default_headers": [DATE],
                "message_event": asyncio.Event(),
                "expect_100_continue": False,
                "keep_alive": True,
                "on_response": lambda: None,
                **options,
            }
        )
        # The request is complete.
        self.cycle.more_body = False

    async def sent(self, status: int, headers: list[tuple[bytes, bytes]], *bodies: bytes) -> object:
        """The bytes sent and the state of the cycle, or the error."""
        try:
            await self.cycle.send({"type": "http.response.start", "status": status, "headers": headers})
            for number, body in enumerate(bodies, 1):
                goes_on = number < len(bodies)
                await self.cycle.send({"type": "http.response.body", "body": body, "more_body": goes_on})
        except RuntimeError as error:
            return str(error)
        cycle = self.cycle
        how = (cycle.response_started, cycle.response_complete, cycle.chunked_encoding, cycle.keep_alive)
        return self.transport.data, self.transport.closed, how, cycle.waiting_for_100_continue


RESPONSES: dict[str, tuple[int, list[tuple[bytes, bytes]], list[bytes]]] = {
    "plain": (200, [(b"content-length", b"2"), JSON], [b"ok"]),
    "several chunks": (200, [(b"Content-Length", b"4"), JSON], [b"ok", b"", b"ok"]),
    "empty": (204, [(b"content-length", b"0")], [b""]),
    "no length": (200, [JSON], [b"ok"]),
    "chunked": (200, [(b"content-length", b"2"), (b"transfer-encoding", b"chunked")], [b"ok"]),
    "connection close": (503, [(b"content-length", b"2"), (b"connection", b"close")], [b"ok"]),
    "too long": (200, [(b"content-length", b"1")], [b"ok"]),
    "too short": (200, [(b"content-length", b"3")], [b"ok"]),
    "two lengths": (200, [(b"content-length", b"2"), (b"content-length", b"2")], [b"ok"]),
    "invalid name": (200, [(b"content-length", b"2"), (b"a b", b"c")], [b"ok"]),
    "invalid value": (200, [(b"content-length", b"2"), (b"a", b"b\r\nc: d")], [b"ok"]),
}
CYCLES: dict[str, dict[str, Any]] = {
    "keep-alive": {},
    "HEAD": {"method": "HEAD"},
    "no keep-alive": {"keep_alive": False},
    "100-continue": {"expect_100_continue": True},
    "access log": {
        "access_log": True,
        "scope": {
            "type": "http",
            "method": "GET",
            "path": "/",
            "raw_path": b"/",
            "query_string": b"",
            "http_version": "1.1",
            "client": None,
        },
    },
}


@pytest.mark.parametrize("cycle", CYCLES)
async def test_the_response_is_the_one_of_uvicorn(cycle: str) -> None:
    for name, (status, headers, bodies) in RESPONSES.items():
        sent = [b""] if cycle == "HEAD" else bodies
        expected = await Response(RequestResponseCycle, **CYCLES[cycle]).sent(status, headers, *sent)
        # The second time from the cache.
        for _ in range(2):
            cached = await Response(CachedHeadCycle, **CYCLES[cycle]).sent(status, headers, *sent)
            assert cached == expected, name


async def test_a_head_is_built_once() -> None:
    _cached_head.cache_clear()
    status, headers, bodies = RESPONSES["plain"]
    for _ in range(3):
        await Response(CachedHeadCycle).sent(status, headers, *bodies)
    assert (_cached_head.cache_info().misses, _cached_head.cache_info().hits) == (1, 2)
    later = Response(CachedHeadCycle, default_headers=[(b"date", b"a second later")])
    await later.sent(status, headers, *bodies)
    assert b"date: a second later\r\n" in later.transport.data


async def test_backpressure_and_disconnects_are_respected() -> None:
    status, headers, bodies = RESPONSES["plain"]
    gone = Response(CachedHeadCycle)
    gone.cycle.disconnected = True
    await gone.sent(status, headers, *bodies)
    assert gone.transport.data == b""

    slow = Response(CachedHeadCycle)
    slow.cycle.flow.pause_writing()
    sending = asyncio.ensure_future(slow.sent(status, headers, *bodies))
    await asyncio.sleep(0)
    assert (slow.transport.data, sending.done()) == (b"", False)
    slow.cycle.flow.resume_writing()
    await sending
    assert slow.transport.data.endswith(b"\r\n\r\nok")
