"""Splitting the output of tasks into lines, and its limits."""

import threading

import pytest

from pyoco_server.records.models import LogLine
from pyoco_server.worker.child.task_output import OutputStream, TaskOutput


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
