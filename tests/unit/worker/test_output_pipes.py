"""Output that the worker reads itself is split and limited as the executor would do it."""

import os
from collections.abc import Callable, Iterator

import pytest

from pyoco_server.records.models import LogLine
from pyoco_server.worker.executors.output_pipes import OutputPipes
from pyoco_server.worker.ipc.protocol import Printed, frame
from tests.support.running.executors import fake_child


@pytest.fixture
def pipes() -> Iterator[OutputPipes]:
    pipes = OutputPipes(line_limit=10, run_limit=100)
    yield pipes
    pipes.close()


def after_a_crash(pipes: OutputPipes) -> list[LogLine]:
    return pipes.take_unreported(1)


def while_the_executor_is_blocked(pipes: OutputPipes) -> list[LogLine]:
    # It is drained when it is half full.
    os.write(pipes.write_ends[0], b"x" * 40_000)
    return pipes.drain_full(1)


@pytest.mark.parametrize("read", [after_a_crash, while_the_executor_is_blocked])
def test_lines_are_split_as_by_the_executor(
    pipes: OutputPipes, read: Callable[[OutputPipes], list[LogLine]]
) -> None:
    os.write(pipes.write_ends[0], "one\r\na\x0bb\u2028c\n10%\r20%\n".encode())
    assert [line.text for line in read(pipes)][:3] == ["one", "a\x0bb\u2028c", "20%"]


@pytest.mark.parametrize("read", [after_a_crash, while_the_executor_is_blocked])
def test_long_lines_are_cut_and_lines_above_the_limit_are_dropped(
    pipes: OutputPipes, read: Callable[[OutputPipes], list[LogLine]]
) -> None:
    pipes.on_message(Printed(lines=[LogLine(ts=0.0, stream="stdout", text="y" * 90)]))
    os.write(pipes.write_ends[0], b"0123456789abc\nmore\n")
    note = "more than PYOCO_RUN_LOG_RUN_MAX_BYTES=100 was printed; the rest is dropped"
    assert [line.text for line in read(pipes)] == ["0123456789 ... (3 more characters)", note]
    pipes.begin_run()
    os.write(pipes.write_ends[0], b"next\n")
    assert read(pipes)[0].text == "next"


async def test_one_read_is_bounded_although_the_executor_keeps_sending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = frame(Printed(lines=[]))
    reads = 0

    def received(data: bytes) -> None:
        nonlocal reads
        reads += 1
        assert reads < 3
        theirs.sendall(message)

    with fake_child() as (child, theirs):
        monkeypatch.setattr(child, "data_received", received)
        theirs.sendall(message)
        assert child.read_waiting()
        assert reads == 1
