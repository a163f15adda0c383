"""The head of a response is sent together with its body, and every write is sent."""

import asyncio
from collections.abc import Iterable

import pytest

from pyoco_server.http_api.server.coalescing_transport import CoalescingTransport


class Wire(asyncio.Transport):
    """Records each write."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.sent.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0


@pytest.fixture
async def wire() -> Wire:
    return Wire()


@pytest.fixture
async def transport(wire: Wire) -> CoalescingTransport:
    return CoalescingTransport(wire)


async def test_two_writes_are_sent_together(wire: Wire, transport: CoalescingTransport) -> None:
    transport.write(b"head")
    assert wire.sent == []
    assert transport.get_write_buffer_size() == 4
    transport.write(b"body")
    assert wire.sent == [b"headbody"]
    assert transport.get_write_buffer_size() == 0


async def test_one_write_is_sent_with_the_iteration(wire: Wire, transport: CoalescingTransport) -> None:
    transport.write(b"head")
    await asyncio.sleep(0)
    assert wire.sent == [b"head"]
    await asyncio.sleep(0)
    assert wire.sent == [b"head"]


async def test_only_one_write_is_held_back(wire: Wire, transport: CoalescingTransport) -> None:
    for chunk in (b"1", b"2", b"3", b"4", b"5"):
        transport.write(chunk)
    assert wire.sent == [b"12", b"34"]
    await asyncio.sleep(0)
    assert wire.sent == [b"12", b"34", b"5"]


async def test_writelines_flushes_first(wire: Wire, transport: CoalescingTransport) -> None:
    transport.write(b"head")
    transport.writelines([b"a", b"b"])
    assert wire.sent == [b"head", b"ab"]


async def test_close_flushes_first(wire: Wire, transport: CoalescingTransport) -> None:
    transport.write(b"last words")
    transport.close()
    assert wire.sent == [b"last words"]
    assert transport.is_closing()


async def test_nothing_is_sent_after_a_disconnect(wire: Wire, transport: CoalescingTransport) -> None:
    transport.write(b"head")
    wire.closed = True
    await asyncio.sleep(0)
    assert wire.sent == []
