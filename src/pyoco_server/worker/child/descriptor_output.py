"""Captures output on the stdout and stderr descriptors: of subprocesses and C libraries.

Both are pipes that the worker reads, since it survives a crash of this process. It reads on request, keeps a
copy and returns the text, because this process knows which task runs. The copy is dropped when the lines are
reported. While native code blocks all threads of this process, the worker reads without a request.
"""

import codecs
import select
import socket
import threading
from collections.abc import Callable

from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.worker.child.printed_lines import TaskOutput
from pyoco_server.worker.engine.tasks.task_calls import TaskCall
from pyoco_server.worker.ipc.pipes import READ_BYTES, unread_bytes
from pyoco_server.worker.ipc.protocol import FromExecutor, Printed, ReadOutput

STREAMS = ("stdout", "stderr")


class DescriptorOutput:
    def __init__(
        self,
        output: TaskOutput,
        pipes: tuple[int, int],
        replies: socket.socket,
        send: Callable[[FromExecutor], None],
    ) -> None:
        self._output = output
        self._replies = replies
        self._send = send
        # One request at a time: the next packet is its reply.
        self._reading = threading.Lock()
        self._streams = dict(zip(pipes, STREAMS, strict=True))
        self._decoders = {pipe: codecs.getincrementaldecoder("utf-8")("replace") for pipe in pipes}
        self._poll = self._new_poll()

    def began(self, call: TaskCall) -> None: ...

    def ended(self, call: TaskCall) -> None:
        self.drain()

    def drain(self) -> None:
        """Report what has been written so far, while it is known which task wrote it."""
        with self._reading:
            for pipe, _ in self._poll.poll(0):
                # Not until it is empty: a background process may never stop writing.
                unread = unread_bytes(pipe)
                while unread > 0 and (count := self._read(pipe)):
                    unread -= count

    def _new_poll(self) -> select.poll:
        poll = select.poll()
        for pipe in self._streams:
            poll.register(pipe, select.POLLIN)
        return poll

    def listen(self) -> None:
        """Read while tasks run; for a thread of its own."""
        poll = self._new_poll()
        while True:
            for pipe, event in poll.poll():
                if not event & select.POLLIN:
                    # A task has closed the descriptor.
                    poll.unregister(pipe)
                with self._reading:
                    if unread_bytes(pipe):
                        self._read(pipe)

    def _read(self, pipe: int) -> int:
        stream = self._streams[pipe]
        self._send(ReadOutput(stream=stream, task=self._output.only_task))
        data = self._replies.recv(READ_BYTES)
        if data:
            self._output.write_unowned(stream, self._decoders[pipe].decode(data), self._report)
        return len(data)

    def _report(self, lines: list[LogLine]) -> None:
        self._send(Printed(lines=lines, unfinished=self._output.unfinished(), confirms=True))
