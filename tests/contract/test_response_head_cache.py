"""Heads that are put into bytes once are, to the byte, those that uvicorn writes."""

import asyncio
import logging
import sys
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from pyoco_server.http_api.server import response_head_cache as known_heads
from pyoco_server.http_api.server.bounded_http import BoundedHttp
from pyoco_server.http_api.server.response_head_cache import KnownHeads

UVICORNS = KnownHeads.__mro__[1]
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


class Answer:
    """One answer, made by a class of cycles."""

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

    async def sent(self, status: int, headers: list[tuple[bytes, bytes]], *bodies: bytes) -> object:
        """What the client got, or why it could not be sent, and how the cycle is left."""
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


ANSWERS: dict[str, tuple[int, list[tuple[bytes, bytes]], list[bytes]]] = {
    "plain": (200, [(b"content-length", b"2"), JSON], [b"ok"]),
    "in pieces": (200, [(b"Content-Length", b"4"), JSON], [b"ok", b"", b"ok"]),
    "empty": (204, [(b"content-length", b"0")], [b""]),
    "of no length": (200, [JSON], [b"ok"]),
    "chunked": (200, [(b"content-length", b"2"), (b"transfer-encoding", b"chunked")], [b"ok"]),
    "the last one": (503, [(b"content-length", b"2"), (b"connection", b"close")], [b"ok"]),
    "too long": (200, [(b"content-length", b"1")], [b"ok"]),
    "too short": (200, [(b"content-length", b"3")], [b"ok"]),
    "two lengths": (200, [(b"content-length", b"2"), (b"content-length", b"2")], [b"ok"]),
    "a bad name": (200, [(b"content-length", b"2"), (b"a b", b"c")], [b"ok"]),
    "a bad value": (200, [(b"content-length", b"2"), (b"a", b"b\r\nc: d")], [b"ok"]),
}
CYCLES: dict[str, dict[str, Any]] = {
    "usual": {},
    "of a head": {"method": "HEAD"},
    "of a client that leaves": {"keep_alive": False},
    "of a client that waits for its turn": {"expect_100_continue": True},
    "of a log": {
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
@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_is_the_one_that_uvicorn_gives(name: str, cycle: str) -> None:
    status, headers, bodies = ANSWERS[name]
    if cycle == "of a head":
        bodies = [b""]
    expected = await Answer(UVICORNS, **CYCLES[cycle]).sent(status, headers, *bodies)
    # The second time it is known.
    for _ in range(2):
        assert await Answer(KnownHeads, **CYCLES[cycle]).sent(status, headers, *bodies) == expected


async def test_a_head_is_put_together_once() -> None:
    known_heads._known.cache_clear()
    status, headers, bodies = ANSWERS["plain"]
    for _ in range(3):
        await Answer(KnownHeads).sent(status, headers, *bodies)
    assert (known_heads._known.cache_info().misses, known_heads._known.cache_info().hits) == (1, 2)
    later = Answer(KnownHeads, default_headers=[(b"date", b"a second later")])
    await later.sent(status, headers, *bodies)
    assert b"date: a second later\r\n" in later.transport.data


async def test_who_has_left_is_sent_nothing_and_who_reads_slowly_is_waited_for() -> None:
    status, headers, bodies = ANSWERS["plain"]
    gone = Answer(KnownHeads)
    gone.cycle.disconnected = True
    await gone.sent(status, headers, *bodies)
    assert gone.transport.data == b""

    slow = Answer(KnownHeads)
    slow.cycle.flow.pause_writing()
    sending = asyncio.ensure_future(slow.sent(status, headers, *bodies))
    await asyncio.sleep(0)
    assert (slow.transport.data, sending.done()) == (b"", False)
    slow.cycle.flow.resume_writing()
    await sending
    assert slow.transport.data.endswith(b"\r\n\r\nok")


def test_our_protocol_answers_with_them() -> None:
    makes = vars(sys.modules[HttpToolsProtocol.__module__])
    assert issubclass(BoundedHttp, HttpToolsProtocol)
    assert makes["RequestResponseCycle"] is KnownHeads is not UVICORNS
