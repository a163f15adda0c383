"""Kills the processes that have a mark in their environment, also those that left their group (setsid).

A process inherits the environment of the one that started it, whatever group, session and descriptors it has.
Linux only; elsewhere nothing is found. This file also runs as a script (worker/executors/task_processes.py),
so it imports nothing but the standard library.
"""

import contextlib
import os
import signal
import sys
from typing import Final

MARK_VARIABLE: Final = "PYOCO_EXECUTOR_MARK"

_PROCESSES: Final = "/proc"
# A process may fork between two passes.
_PASSES: Final = 10


def kill_marked(mark: str) -> int:
    """Kill the processes whose mark begins with this; returns how many there were."""
    prefix = f"{MARK_VARIABLE}={mark}".encode()
    killed: set[int] = set()
    for _ in range(_PASSES):
        found = [pid for pid in _marked(prefix) if pid not in killed]
        if not found:
            break
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed.update(found)
    return len(killed)


def _marked(prefix: bytes) -> list[int]:
    own = os.getpid()
    try:
        pids = [int(name) for name in os.listdir(_PROCESSES) if name.isdigit()]
    except OSError:
        return []
    return [pid for pid in pids if pid != own and _has_variable(pid, prefix)]


def _has_variable(pid: int, prefix: bytes) -> bool:
    try:
        with open(f"{_PROCESSES}/{pid}/environ", "rb") as environment:
            return any(variable.startswith(prefix) for variable in environment.read().split(b"\0"))
    except OSError:
        # It has ended, or is of another user.
        return False


if __name__ == "__main__":
    kill_marked(sys.argv[1])
