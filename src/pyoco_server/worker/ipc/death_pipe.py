"""A pipe on which nothing is ever sent: when the worker dies, the kernel kills its executor.

A thread of the executor cannot be relied upon for that: a task may hold the GIL for hours. The signal goes
to the process group, so that it ends what the tasks have started as well.
"""

import fcntl
import os
import signal


class DeathPipe:
    """The worker's side: the only process that has the writing end."""

    def __init__(self) -> None:
        self.read_end, self._write_end = os.pipe()

    def close_read_end(self) -> None:
        os.close(self.read_end)

    def close(self) -> None:
        """For an executor that has ended: one that has not is killed by this."""
        os.close(self._write_end)


def die_with_worker(read_end: int) -> None:
    """Have this process group killed as soon as the writing end is closed.

    A worker that is dead already is noticed on the link, before the first run.
    """
    os.set_inheritable(read_end, False)
    fcntl.fcntl(read_end, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(read_end, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(read_end, fcntl.F_SETFL, fcntl.fcntl(read_end, fcntl.F_GETFL) | os.O_ASYNC)
