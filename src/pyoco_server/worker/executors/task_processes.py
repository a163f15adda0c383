"""Kills the processes that tasks have started, also those that left their executor's process group (setsid).

Each executor has a mark in its environment, which every process that it starts inherits. When an executor has
exited, its worker kills all processes with the mark. When the worker itself was killed, its guard does: a
shell that waits until the worker's end of a pipe is closed, and then runs aio/marked_processes.py as a
script. It is a shell, because it exists as long as the worker, and needs a tenth of the memory of a Python
process.

A process without the mark survives: one that was started with an empty environment, as another user, or by a
service outside (a container daemon, systemd, cron). Linux only; elsewhere only process groups are killed.
"""

import logging
import os
import subprocess
import sys
from uuid import uuid4

from pyoco_server.aio import marked_processes

log = logging.getLogger(__name__)

# Starts a shell in the background that waits for the end of its input, and then becomes this script.
_GUARD = 'exec 3<&0; { read -r _ <&3; exec "$0" -I -S "$1" "$2"; } &'


class TaskProcesses:
    """The marks of the executors of this process, and the guard that kills them if it is killed."""

    def __init__(self) -> None:
        # Of the process that has started the guard; one that was forked from it has a guard of its own.
        self._pid = 0
        self._mark = ""
        # The write end of a pipe, which the kernel closes when this process ends.
        self._lifeline = -1

    def new_mark(self) -> str:
        """The mark of one executor."""
        if self._pid != os.getpid():
            self._pid, self._mark = os.getpid(), uuid4().hex
            self._start_guard()
        return f"{self._mark}-{uuid4().hex}"

    def _start_guard(self) -> None:
        waiting, self._lifeline = os.pipe()
        try:
            subprocess.run(
                ["/bin/sh", "-c", _GUARD, sys.executable, marked_processes.__file__, self._mark],
                stdin=waiting,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Ctrl-C in a terminal, and the end of a session, are for the worker.
                start_new_session=True,
                env={},
                check=True,
            )
        except (OSError, subprocess.CalledProcessError) as error:
            log.warning("no guard was started, so that processes of tasks may survive this worker: %s", error)
        finally:
            os.close(waiting)


TASK_PROCESSES = TaskProcesses()
