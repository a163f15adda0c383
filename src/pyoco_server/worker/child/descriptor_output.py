"""What reaches this process's own stdout and stderr descriptors: output of subprocesses and C libraries.

Both are pipes that the worker reads, since it survives a crash of this process. It reads when it is asked to,
keeps a copy and returns the text: here it is known which task runs. The copy is dropped when the lines have
been reported. While native code lets no thread of this process move, the worker reads without being asked.
"""

import codecs
import select
import socket
import threading
from collections.abc import Callable

from pyoco_server.records.models import LogLine
from pyoco_server.worker.child.task_output import TaskOutput
from pyoco_server.worker.engine.task_calls import TaskCall
from pyoco_server.worker.ipc.pipe_reads import READ_BYTES, unread_bytes
from pyoco_server.worker.ipc.protocol import FromExecutor, Printed, ReadOutput

STREAMS = ("stdout", "stderr")


class DescriptorOutput:
    """Has the pipes behind stdout and stderr read, and adds the text to a TaskOutput."""

    def __init__(
        self,
        output: TaskOutput,
        pipes: tuple[int, int],
        returned: socket.socket,
        send: Callable[[FromExecutor], None],
    ) -> None:
        self._output = output
        self._returned = returned
        self._send = send
        # One request at a time: the next thing that is returned answers it.
        self._reading = threading.Lock()
        self._streams = dict(zip(pipes, STREAMS, strict=True))
        self._decoders = {pipe: codecs.getincrementaldecoder("utf-8")("replace") for pipe in pipes}
        self._poll = self._new_poll()

    def began(self, call: TaskCall) -> None:
        """Nothing to do before a task."""

    def ended(self, call: TaskCall) -> None:
        self.drain()

    def drain(self) -> None:
        """Report what has been written until now, while it is known who wrote it."""
        with self._reading:
            for pipe, _ in self._poll.poll(0):
                # Not until it is empty: a process in the background may write without end.
                unread = unread_bytes(pipe)
                while unread > 0 and (count := self._read(pipe)):
                    unread -= count

    def _new_poll(self) -> select.poll:
        poll = select.poll()
        for pipe in self._streams:
            poll.register(pipe, select.POLLIN)
        return poll

    def listen(self) -> None:
        """Read while tasks run, without end; on a thread of its own."""
        poll = self._new_poll()
        while True:
            for pipe, event in poll.poll():
                if not event & select.POLLIN:
                    # A task has closed the descriptor: nothing will be written to it any more.
                    poll.unregister(pipe)
                with self._reading:
                    if unread_bytes(pipe):
                        self._read(pipe)

    def _read(self, pipe: int) -> int:
        stream = self._streams[pipe]
        self._send(ReadOutput(stream=stream, task=self._output.only_task))
        data = self._returned.recv(READ_BYTES)
        if data:
            self._output.write_unowned(stream, self._decoders[pipe].decode(data), self._report)
        return len(data)

    def _report(self, lines: list[LogLine]) -> None:
        self._send(Printed(lines=lines, unfinished=self._output.unfinished(), confirms=True))
