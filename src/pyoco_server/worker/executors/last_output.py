"""What the worker itself reads of an executor's output: its pipes, which outlive the executor."""

import fcntl
import os
import socket
import time
from collections import deque
from contextlib import ExitStack, suppress

from pyoco_server.records.models import LogLine
from pyoco_server.worker.child.log_limits import RunLogLimit, UnfinishedLine
from pyoco_server.worker.ipc.pipe_reads import READ_BYTES, unread_bytes
from pyoco_server.worker.ipc.protocol import Printed, ReadOutput

_KEPT_CHARS = 4096


class LastOutput:
    """The last lines of the run under way."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque()
        self._size = 0

    def add(self, lines: list[LogLine]) -> None:
        for line in lines:
            self._lines.append(line.text)
            self._size += len(line.text)
        while self._size - len(self._lines[0] if self._lines else "") > _KEPT_CHARS:
            self._size -= len(self._lines.popleft())

    def clear(self) -> None:
        self._lines.clear()
        self._size = 0

    @property
    def text(self) -> str:
        return "\n".join(self._lines)[-_KEPT_CHARS:].strip()


class OutputPipes:
    """The pipes behind an executor's stdout and stderr.

    The executor asks for what is in them, since it knows which task wrote it. Until it has reported the
    lines, a copy of the text stays here.
    """

    def __init__(self, *, line_limit: int, run_limit: int) -> None:
        self._line_limit = line_limit
        self._limit = RunLogLimit(run_limit)
        self.read_ends: list[int] = []
        self.write_ends: list[int] = []
        with ExitStack() as opened:
            for _ in range(2):
                read_end, write_end = os.pipe()
                opened.callback(os.close, read_end)
                opened.callback(os.close, write_end)
                self.read_ends.append(read_end)
                self.write_ends.append(write_end)
            self._returning, self.returned = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            opened.pop_all()
        # What was returned, and is not in a line that the executor has reported.
        self._unconfirmed = b""
        self._request = ReadOutput(stream="stdout")
        self._unfinished: list[LogLine] = []
        self._pipe_of = dict(zip(("stdout", "stderr"), self.read_ends, strict=True))
        for pipe in self.read_ends:
            os.set_blocking(pipe, False)

    def close_executor_ends(self) -> None:
        """The executor has its own; the channel ends for it when this process does."""
        self.returned.close()
        for descriptor in self.write_ends:
            os.close(descriptor)
        self.write_ends = []

    def begin_run(self) -> None:
        self._limit.begin_run()

    def take(self, message: ReadOutput | Printed) -> None:
        if isinstance(message, ReadOutput):
            self._read_for_executor(message)
            return
        self._limit.count(message.lines)
        self._unfinished = message.unfinished
        if message.confirms:
            self._unconfirmed = b""

    def run_ended(self, attempt: int, *, leaves: bool) -> list[LogLine]:
        """Keep nothing of the run; what an executor that leaves has not reported is returned."""
        found = self.left_over(attempt) if leaves else []
        self._unfinished = []
        return found

    def _read_for_executor(self, request: ReadOutput) -> None:
        self._request = request
        self._unconfirmed = _read(self._pipe_of[request.stream], READ_BYTES)
        # An executor that has just died leaves the copy to be its last output.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._returning.send(self._unconfirmed, socket.MSG_DONTWAIT)

    def relieve(self, attempt: int) -> list[LogLine]:
        """Make room in a pipe that fills up: a writer that waits for room may keep the executor waiting.

        Native code that holds the GIL lets no thread of the executor ask, and would wait for ever.
        """
        found: list[LogLine] = []
        for stream, pipe in self._pipe_of.items():
            # A pipe that takes no more may be filled to half only: a write that does not fit into the rest
            # of a page begins another.
            unread = unread_bytes(pipe)
            if unread * 2 >= fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ):
                text = _read(pipe, unread).decode("utf-8", "replace")
                found += self._lines(text, stream, None, attempt)
        return found

    def left_over(self, attempt: int) -> list[LogLine]:
        """What the executor will not report any more: the copy, and what is still in the pipes.

        A grandchild that escaped and still writes is not waited for.
        """
        found: list[LogLine] = []
        for stream, pipe in self._pipe_of.items():
            begun = [line for line in self._unfinished if line.stream == stream]
            task = begun[-1].task if begun else None
            data = _read(pipe, unread_bytes(pipe))
            if self._unconfirmed and self._request.stream == stream:
                task, data = self._request.task, self._unconfirmed + data
            text = (begun.pop().text if begun else "") + data.decode("utf-8", "replace")
            found += begun + self._lines(text, stream, task, attempt)
        self._unconfirmed, self._unfinished = b"", []
        return found

    def _lines(self, text: str, stream: str, task: str | None, attempt: int) -> list[LogLine]:
        """As the executor would have cut and bounded them."""
        now = time.time()
        *complete, rest = text.split("\n")
        lines: list[LogLine] = []
        for part in [*complete, rest] if rest else complete:
            line = UnfinishedLine()
            line.add(part, self._line_limit)
            lines.append(LogLine(ts=now, stream=stream, text=line.line(), task=task, attempt=attempt))
        return self._limit.bounded(
            lines, lambda note: LogLine(ts=now, stream="note", text=note, task=None, attempt=attempt)
        )

    def close(self) -> None:
        self.close_executor_ends()
        self._returning.close()
        for descriptor in self.read_ends:
            os.close(descriptor)
        self.read_ends = []
        self._pipe_of = {}


def _read(pipe: int, count: int) -> bytes:
    try:
        return os.read(pipe, count)
    except BlockingIOError:
        return b""
