"""An exclusive lock of a file, which ends with the processes that hold it."""

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pyoco_server.agent.atomic_files import writing

POLL_SEC: Final = 0.05


class FileLock:
    """Held until `release`, by this process and those that inherit its descriptor."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = -1

    def try_acquire(self) -> bool:
        return self._acquire(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def acquire_within(self, seconds: float, is_cancelled: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + seconds
        while not self.try_acquire():
            if time.monotonic() > deadline or is_cancelled():
                return False
            time.sleep(POLL_SEC)
        return True

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait for the lock, and hold it for the time of the block."""
        self._acquire(fcntl.LOCK_EX)
        try:
            yield
        finally:
            self.release()

    def release(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _acquire(self, operation: int) -> bool:
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, operation)
        except OSError as error:
            os.close(descriptor)
            if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
                return False
            raise
        self.descriptor = descriptor
        return True

    def holders(self) -> list[int]:
        """The processes that have the file open, apart from this one; Linux only."""
        try:
            on_disk = os.stat(self.path)
        except FileNotFoundError:
            return []
        identity = (on_disk.st_dev, on_disk.st_ino)
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
