"""What reaches this process's own stdout and stderr descriptors: output of subprocesses and C libraries.

Both are pipes whose other ends this process holds as well, and so does the worker: a thread reads them
here, where it is known which task runs; what a crash leaves in them, or native code that lets no thread of
this process move, the worker reads.
"""

import codecs
import os
import select
import threading

from pyoco_server.worker.task_calls import TaskCall
from pyoco_server.worker.task_output import TaskOutput

# What a pipe holds at most, so that one read empties it.
_READ_BYTES = 64 * 1024
STREAMS = ("stdout", "stderr")


class DescriptorOutput:
    """Reads the pipes behind stdout and stderr into a TaskOutput."""

    def __init__(self, output: TaskOutput, pipes: tuple[int, int]) -> None:
        self._output = output
        self._reading = threading.Lock()
        self._streams = dict(zip(pipes, STREAMS, strict=True))
        self._decoders = {pipe: codecs.getincrementaldecoder("utf-8")("replace") for pipe in pipes}
        self._poll = select.poll()
        for pipe in pipes:
            os.set_blocking(pipe, False)
            self._poll.register(pipe, select.POLLIN)

    def start(self) -> None:
        threading.Thread(target=self._listen, name="descriptor-output", daemon=True).start()

    def began(self, call: TaskCall) -> None:
        """Nothing to do before a task."""

    def ended(self, call: TaskCall) -> None:
        self.drain()

    def drain(self) -> None:
        """Hear what has been written until now, while it is known who wrote it."""
        with self._reading:
            for pipe, _ in self._poll.poll(0):
                self._read(pipe)

    def _listen(self) -> None:
        poll = select.poll()
        for pipe in self._streams:
            poll.register(pipe, select.POLLIN)
        while True:
            for pipe, _ in poll.poll():
                with self._reading:
                    self._read(pipe)

    def _read(self, pipe: int) -> None:
        try:
            data = os.read(pipe, _READ_BYTES)
        except BlockingIOError:
            return
        text = self._decoders[pipe].decode(data)
        if text:
            self._output.write_unowned(self._streams[pipe], text)
