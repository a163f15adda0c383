"""What the worker reads of an executor's output itself is cut and bounded as if the executor had read it."""

import os
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pyoco_server.records.models import LogLine
from pyoco_server.worker.executors.last_output import OutputPipes
from pyoco_server.worker.executors.process_link import ProcessLink
from pyoco_server.worker.ipc.prefetch_channel import AheadChannel
from pyoco_server.worker.ipc.protocol import Printed, frame


@pytest.fixture
def pipes() -> Iterator[OutputPipes]:
    pipes = OutputPipes(line_limit=10, run_limit=100)
    yield pipes
    pipes.close()


def after_a_crash(pipes: OutputPipes) -> list[LogLine]:
    return pipes.left_over(1)


def while_the_executor_is_busy(pipes: OutputPipes) -> list[LogLine]:
    # Relieved when it is half full; what is dropped here is not looked at.
    os.write(pipes.write_ends[0], b"x" * 40_000)
    return pipes.relieve(1)


@pytest.mark.parametrize("read", [after_a_crash, while_the_executor_is_busy])
def test_lines_end_where_the_executor_would_end_them(
    pipes: OutputPipes, read: Callable[[OutputPipes], list[LogLine]]
) -> None:
    os.write(pipes.write_ends[0], "one\r\na\x0bb\u2028c\n10%\r20%\n".encode())
    assert [line.text for line in read(pipes)][:3] == ["one", "a\x0bb\u2028c", "20%"]


@pytest.mark.parametrize("read", [after_a_crash, while_the_executor_is_busy])
def test_long_lines_are_cut_and_a_run_that_printed_too_much_is_heard_no_further(
    pipes: OutputPipes, read: Callable[[OutputPipes], list[LogLine]]
) -> None:
    pipes.take(Printed(lines=[LogLine(ts=0.0, stream="stdout", text="y" * 90)]))
    os.write(pipes.write_ends[0], b"0123456789abc\nmore\n")
    note = "more than PYOCO_RUN_LOG_RUN_MAX_BYTES=100 was printed; the rest is dropped"
    assert [line.text for line in read(pipes)] == ["0123456789 ... (3 more characters)", note]
    pipes.begin_run()
    os.write(pipes.write_ends[0], b"next\n")
    assert read(pipes)[0].text == "next"


async def test_an_executor_that_sends_without_end_is_not_read_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    channel = AheadChannel()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    link = ProcessLink(channel)
    link.connection_made(SimpleNamespace(get_extra_info=lambda _: ours))  # type: ignore[arg-type]
    message = frame(Printed(lines=[]))
    reads = 0

    def received(data: bytes) -> None:
        nonlocal reads
        reads += 1
        assert reads < 3
        theirs.sendall(message)

    monkeypatch.setattr(link, "data_received", received)
    try:
        theirs.sendall(message)
        found: Any = link.read_waiting()
        assert found
        assert reads == 1
    finally:
        ours.close()
        theirs.close()
        channel.close()
