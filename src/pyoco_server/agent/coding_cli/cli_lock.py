"""A lock that a coding CLI inherits: as long as a process of it lives, the lock is held.

When an executor is killed, its CLI may go on editing. The next attempt tries the lock, ends whoever holds it,
and starts its own CLI only when it has the lock itself. Only executors that hold the lock of the repository
do this, so that no other CLI can be at work.
"""

import errno
import fcntl
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyoco_server.agent.agent_errors import AgentCode, AgentError

_POLL_SEC: Final = 0.05
_TERM_SEC: Final = 2.0
_KILL_SEC: Final = 10.0


class FileLock:
    """An exclusive lock of a file, held until `release` by this process and those that inherit it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = -1

    def try_acquire(self) -> bool:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
                return False
            raise
        self.descriptor = descriptor
        return True

    def acquire_within(self, seconds: float, is_cancelled: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + seconds
        while not self.try_acquire():
            if time.monotonic() > deadline or is_cancelled():
                return False
            time.sleep(_POLL_SEC)
        return True

    def release(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def holders(self) -> list[int]:
        """The processes that have the file open, apart from this one; Linux only."""
        try:
            wanted = os.stat(self.path)
        except FileNotFoundError:
            return []
        identity = (wanted.st_dev, wanted.st_ino)
        own = os.getpid()
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if pid != own and _has_open(pid, identity)]


def _has_open(pid: int, identity: tuple[int, int]) -> bool:
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        # It has ended, or is of another user.
        return False
    for name in names:
        with suppress(OSError):
            found = os.stat(f"/proc/{pid}/fd/{name}")
            if (found.st_dev, found.st_ino) == identity:
                return True
    return False


def take_over(lock: FileLock, is_cancelled: Callable[[], bool] = lambda: False) -> list[int]:
    """Acquire the lock, and end an orphaned CLI that holds it; returns the processes that were ended.

    AgentError LOCK_HELD if it is still held after that.
    """
    ended: set[int] = set()
    began = time.monotonic()
    while not lock.try_acquire():
        elapsed = time.monotonic() - began
        if elapsed > _KILL_SEC:
            raise AgentError(
                AgentCode.LOCK_HELD,
                f"{lock.path} is held by {lock.holders() or 'a process of another user'}.",
                hint="End that process, then run the request again.",
            )
        number = signal.SIGKILL if elapsed > _TERM_SEC or is_cancelled() else signal.SIGTERM
        for pid in lock.holders():
            if number == signal.SIGKILL or pid not in ended:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            ended.add(pid)
        time.sleep(_POLL_SEC)
    return sorted(ended)
