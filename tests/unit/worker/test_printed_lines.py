"""Splitting the output of tasks into lines, and its limits: by the executor, and by the worker."""

import os
import threading
from collections.abc import Callable, Iterator

import pytest

from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.worker.child.printed_lines import OutputStream, TaskOutput
from pyoco_server.worker.executors.stdio_pipes import StdioPipes
from pyoco_server.worker.ipc.protocol import Printed, frame
from tests.support.running.executors import fake_child


class CapturedOutput:
    """A TaskOutput without a task, with its reported lines."""

    def __init__(self, *, line_limit: int = 1000, run_limit: int = 100_000) -> None:
        self.lines: list[LogLine] = []
        self.output = TaskOutput(self.lines.extend, line_limit=line_limit, run_limit=run_limit)
        self.output.begin_run(1)
        self.stream = OutputStream(self.output, "stdout")

    @property
    def texts(self) -> list[str]:
        return [line.text for line in self.lines if line.stream == "stdout"]


def test_empty_lines_count_toward_the_limit() -> None:
    captured = CapturedOutput(run_limit=1024)
    for _ in range(3000):
        print(file=captured.stream)
    captured.output.end_run()
    assert len(captured.texts) == 1024
    assert [line.text for line in captured.lines[1024:]] == [
        "more than PYOCO_RUN_LOG_RUN_MAX_BYTES=1024 was printed; the rest is dropped",
        "1976 lines were dropped in all (PYOCO_RUN_LOG_RUN_MAX_BYTES=1024)",
    ]


def test_the_limit_of_a_line_is_in_bytes() -> None:
    captured = CapturedOutput(line_limit=10)
    for text in ("日本語", "日本語で", "é" * 5, "é" * 6):
        print(text, file=captured.stream)
    captured.stream.write("日本")
    captured.stream.write("語で")
    # It would fit, but not in its place.
    print("x", file=captured.stream)
    assert captured.texts == [
        "日本語",
        "日本語 ... (1 more characters)",
        "ééééé",
        "ééééé ... (1 more characters)",
        "日本語 ... (2 more characters)",
    ]


def test_escapes_count_toward_the_limit_of_a_line() -> None:
    """A lone surrogate, as in a file name that is not UTF-8, is stored as its escape."""
    captured = CapturedOutput(line_limit=10)
    captured.stream.write("\udce9\udce9")
    captured.stream.write("x" * 1000)
    captured.output.end_run()
    assert captured.texts == ["\\udce9\\udc ... (1002 more characters)"]


def test_the_limit_of_a_run_is_in_bytes() -> None:
    captured = CapturedOutput(run_limit=100)
    for _ in range(4):
        print("日" * 20, file=captured.stream)
    captured.output.end_run()
    assert captured.texts == ["日" * 20] * 2
    assert captured.lines[-1].text == "2 lines were dropped in all (PYOCO_RUN_LOG_RUN_MAX_BYTES=100)"


@pytest.mark.parametrize("step", ["\r{}%", "{}%\r"])
def test_a_progress_bar_is_logged_in_its_last_state(step: str) -> None:
    captured = CapturedOutput(line_limit=100)
    for number in range(10_000):
        print(step.format(number), end="", file=captured.stream)
    captured.output.end_run()
    assert captured.texts == ["9999%"]


def test_a_carriage_return_before_a_newline_keeps_the_line() -> None:
    captured = CapturedOutput(line_limit=10)
    for part in ("one\r\ntwo\r", "\n", "x" * 20, "\rthree", "\r", "\r\n", "\n", "\r\n", "y" * 12, "\r\n"):
        captured.stream.write(part)
    assert captured.texts == ["one", "two", "three", "", "", "yyyyyyyyyy ... (2 more characters)"]


def test_a_character_in_two_writes_is_decoded_per_thread() -> None:
    captured = CapturedOutput()
    first, second = "é".encode()[:1], "é".encode()[1:]
    other = threading.Thread(target=captured.stream.buffer.write, args=("ü\n".encode(),))
    captured.stream.buffer.write(b"caf" + first)
    other.start()
    other.join()
    captured.stream.buffer.write(second + b"\n\xff\n")
    assert captured.texts == ["cafü", "é", "\N{REPLACEMENT CHARACTER}"]


# Read by the worker itself


@pytest.fixture
def pipes() -> Iterator[StdioPipes]:
    pipes = StdioPipes(line_limit=10, run_limit=100)
    yield pipes
    pipes.close()


def after_a_crash(pipes: StdioPipes) -> list[LogLine]:
    return pipes.take_unreported(1)


def while_the_executor_is_blocked(pipes: StdioPipes) -> list[LogLine]:
    # It is drained when it is half full.
    os.write(pipes.write_ends[0], b"x" * 40_000)
    return pipes.drain_full(1)


@pytest.mark.parametrize("read", [after_a_crash, while_the_executor_is_blocked])
def test_lines_are_split_as_by_the_executor(
    pipes: StdioPipes, read: Callable[[StdioPipes], list[LogLine]]
) -> None:
    os.write(pipes.write_ends[0], "one\r\na\x0bb\u2028c\n10%\r20%\n".encode())
    assert [line.text for line in read(pipes)][:3] == ["one", "a\x0bb\u2028c", "20%"]


@pytest.mark.parametrize("read", [after_a_crash, while_the_executor_is_blocked])
def test_long_lines_are_cut_and_lines_above_the_limit_are_dropped(
    pipes: StdioPipes, read: Callable[[StdioPipes], list[LogLine]]
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
