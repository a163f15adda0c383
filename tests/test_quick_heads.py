"""The head of an answer is the same, byte for byte, whether uvicorn writes it or we do."""

import asyncio
import logging
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from pyoco_server.cli import quick_heads
from pyoco_server.cli.quick_heads import hasten

Header = tuple[bytes, bytes]

JSON = (b"content-type", b"application/json")
TWO = (b"content-length", b"2")


class Wire(asyncio.Transport):
    """Notes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def cycle_on(wire: Wire, *, method: str = "GET", keep_alive: bool = True) -> RequestResponseCycle:
    logger = logging.getLogger(__name__)
    return RequestResponseCycle(
        scope={"type": "http", "method": method},  # type: ignore[typeddict-item]
        transport=wire,
        flow=FlowControl(wire),
        logger=logger,
        access_logger=logger,
        access_log=False,
        default_headers=[],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=lambda: None,
    )


async def answered(quickly: bool, status: int, headers: list[Header], body: bytes, **cycle: Any) -> Wire:
    wire = Wire()
    answer = cycle_on(wire, **cycle)
    if quickly:
        hasten(answer)
    await answer.send({"type": "http.response.start", "status": status, "headers": headers})
    await answer.send({"type": "http.response.body", "body": body})
    assert answer.response_complete
    return wire


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (200, [TWO, JSON], b"ok"),
        (404, [JSON, TWO], b"no"),
        (200, [(b"Content-Type", b"text/plain"), TWO, (b"X-Other", b"a, b")], b"ok"),
        # For uvicorn to see to.
        (200, [JSON], b"of any length"),
        (200, [TWO, (b"connection", b"close")], b"ok"),
        (200, [(b"transfer-encoding", b"chunked")], b"ok"),
        (204, [], b""),
        (200, [(b"Content-Length", b"2")], b"ok"),
    ],
)
@pytest.mark.parametrize("cycle", [{}, {"keep_alive": False}, {"method": "HEAD"}], ids=str)
async def test_the_bytes_are_those_of_uvicorn(
    status: int, headers: list[Header], body: bytes, cycle: dict[str, Any]
) -> None:
    expected = await answered(False, status, headers, body, **cycle)
    # A header that is known, and one that is not.
    for _ in range(2):
        quick = await answered(True, status, headers, body, **cycle)
        assert (quick.sent, quick.closed) == (expected.sent, expected.closed)


@pytest.mark.parametrize("header", [(b"x", b"a\r\nevil: b"), (b"x y", b"a"), (b"x\r\ny", b"a")])
async def test_what_is_no_header_is_refused_each_time(header: Header) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Invalid HTTP header"):
            await answered(True, 200, [TWO, header], b"ok")


@pytest.mark.parametrize("body", [b"too long", b"x"])
async def test_a_body_of_another_length_is_an_error_still(body: bytes) -> None:
    with pytest.raises(RuntimeError, match="Content-Length"):
        await answered(True, 200, [TWO], body)


async def test_headers_that_differ_each_time_are_not_all_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_heads, "_MOST_LINES", len(quick_heads._lines) + 3)
    for number in range(10):
        wire = await answered(True, 200, [TWO, (b"location", b"/%d" % number)], b"ok")
        assert b"location: /%d\r\n" % number in wire.sent
    assert len(quick_heads._lines) == quick_heads._MOST_LINES
