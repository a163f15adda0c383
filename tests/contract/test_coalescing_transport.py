"""An answer's head leaves together with its body; and nothing that was written stays behind."""

import asyncio
from collections.abc import Iterable

import pytest

from pyoco_server.http_api.server.coalescing_transport import PairedWrites


class Wire(asyncio.Transport):
    """Notes what leaves in one go."""

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
async def paired(wire: Wire) -> PairedWrites:
    return PairedWrites(wire)


async def test_two_writes_leave_at_once_and_together(wire: Wire, paired: PairedWrites) -> None:
    paired.write(b"head")
    assert wire.sent == []
    assert paired.get_write_buffer_size() == 4
    paired.write(b"body")
    assert wire.sent == [b"headbody"]
    assert paired.get_write_buffer_size() == 0


async def test_a_head_without_a_body_leaves_with_the_turn(wire: Wire, paired: PairedWrites) -> None:
    paired.write(b"head")
    await asyncio.sleep(0)
    assert wire.sent == [b"head"]
    await asyncio.sleep(0)
    assert wire.sent == [b"head"]


async def test_a_long_answer_is_held_for_one_write_only(wire: Wire, paired: PairedWrites) -> None:
    for chunk in (b"1", b"2", b"3", b"4", b"5"):
        paired.write(chunk)
    assert wire.sent == [b"12", b"34"]
    await asyncio.sleep(0)
    assert wire.sent == [b"12", b"34", b"5"]


async def test_what_is_held_leaves_before_what_comes_as_lines(wire: Wire, paired: PairedWrites) -> None:
    paired.write(b"head")
    paired.writelines([b"a", b"b"])
    assert wire.sent == [b"head", b"ab"]


async def test_what_is_held_leaves_before_the_end(wire: Wire, paired: PairedWrites) -> None:
    paired.write(b"last words")
    paired.close()
    assert wire.sent == [b"last words"]
    assert paired.is_closing()


async def test_nothing_is_sent_to_who_has_left(wire: Wire, paired: PairedWrites) -> None:
    paired.write(b"head")
    wire.closed = True
    await asyncio.sleep(0)
    assert wire.sent == []
