"""The stdout and stderr pipes of an executor, read by the worker, which survives a crash of it."""

import fcntl
import os
import socket
import time
from contextlib import ExitStack, suppress

from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.worker.child.printed_lines import RunLogLimit, UnfinishedLine
from pyoco_server.worker.ipc.pipes import READ_BYTES, unread_bytes
from pyoco_server.worker.ipc.protocol import Printed, ReadOutput


class StdioPipes:
    """Reads the pipes when the executor asks for it, since that knows which task runs.

    Until the executor has reported the lines, a copy of the text stays here.
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
            self._reply_socket, self.replies = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            opened.pop_all()
        # Returned text that is not in a reported line yet.
        self._unconfirmed = b""
        self._request = ReadOutput(stream="stdout")
        self._unfinished: list[LogLine] = []
        self._pipe_of = dict(zip(("stdout", "stderr"), self.read_ends, strict=True))
        for pipe in self.read_ends:
            os.set_blocking(pipe, False)

    def close_executor_ends(self) -> None:
        """After the executor has inherited them."""
        self.replies.close()
        for descriptor in self.write_ends:
            os.close(descriptor)
        self.write_ends = []

    def begin_run(self) -> None:
        self._limit.begin_run()

    def on_message(self, message: ReadOutput | Printed) -> None:
        if isinstance(message, ReadOutput):
            self._read_for_executor(message)
            return
        self._limit.count(message.lines)
        self._unfinished = message.unfinished
        if message.confirms:
            self._unconfirmed = b""

    def end_run(self, attempt: int, *, exiting: bool) -> list[LogLine]:
        """Forget the run; returns what an exiting executor has not reported."""
        found = self.take_unreported(attempt) if exiting else []
        self._unfinished = []
        return found

    def _read_for_executor(self, request: ReadOutput) -> None:
        self._request = request
        self._unconfirmed = _read(self._pipe_of[request.stream], READ_BYTES)
        # If the executor has just died, the copy is its last output.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._reply_socket.send(self._unconfirmed, socket.MSG_DONTWAIT)

    def drain_full(self, attempt: int) -> list[LogLine]:
        """Read pipes that are nearly full without a request: the executor may be blocked on them.

        Native code that writes while it holds the GIL would block every thread of the executor.
        """
        found: list[LogLine] = []
        for stream, pipe in self._pipe_of.items():
            # A full pipe may contain only half of its size: a write that does not fit into the rest of a
            # page starts another.
            unread = unread_bytes(pipe)
            if unread * 2 >= fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ):
                text = _read(pipe, unread).decode("utf-8", "replace")
                found += self._lines(text, stream, None, attempt)
        return found

    def take_unreported(self, attempt: int) -> list[LogLine]:
        """What the executor will not report: the copy, and what is still in the pipes."""
        found: list[LogLine] = []
        for stream, pipe in self._pipe_of.items():
            incomplete = [line for line in self._unfinished if line.stream == stream]
            task = incomplete[-1].task if incomplete else None
            data = _read(pipe, unread_bytes(pipe))
            if self._unconfirmed and self._request.stream == stream:
                task, data = self._request.task, self._unconfirmed + data
            text = (incomplete.pop().text if incomplete else "") + data.decode("utf-8", "replace")
            found += incomplete + self._lines(text, stream, task, attempt)
        self._unconfirmed, self._unfinished = b"", []
        return found

    def _lines(self, text: str, stream: str, task: str | None, attempt: int) -> list[LogLine]:
        """Split and limited as the executor would have done."""
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
        self._reply_socket.close()
        for descriptor in self.read_ends:
            os.close(descriptor)
        self.read_ends = []
        self._pipe_of = {}


def _read(pipe: int, count: int) -> bytes:
    try:
        return os.read(pipe, count)
    except BlockingIOError:
        return b""
