"""The pipes between a worker and its executor process."""

import fcntl
import os
import signal
import struct
import termios

# The worker returns what it has read to the executor as one packet.
READ_BYTES = 32 * 1024


def unread_bytes(descriptor: int) -> int:
    count = fcntl.ioctl(descriptor, termios.FIONREAD, struct.pack("i", 0))
    return int(struct.unpack("i", count)[0])


class DeathPipe:
    """A pipe on which nothing is sent: when the worker dies, the kernel kills its executor.

    A thread of the executor cannot do that reliably: a task may hold the GIL for hours. This is the worker's
    side, and the worker is the only process that has the write end.
    """

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe()

    def close_read_end(self) -> None:
        os.close(self.read_end)

    def close(self) -> None:
        """Kills the executor if it still runs."""
        os.close(self._write_end)


def die_with_worker(read_end: int) -> None:
    """Have the kernel kill this process group, with all subprocesses, when the write end is closed.

    If the worker is already dead, the link shows it before the first run.
    """
    os.set_inheritable(read_end, False)
    fcntl.fcntl(read_end, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(read_end, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(read_end, fcntl.F_SETFL, fcntl.fcntl(read_end, fcntl.F_GETFL) | os.O_ASYNC)
