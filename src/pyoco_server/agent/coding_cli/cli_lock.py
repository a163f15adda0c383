"""Takes over the lock that a coding CLI inherits: as long as a process of it lives, the lock is held.

When an executor is killed, its CLI may go on editing. The next attempt tries the lock, ends whoever holds it,
and starts its own CLI only when it has the lock itself. Only executors that hold the lock of the repository
do this, so that no other CLI can be at work.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from pyoco_server.agent.agent_errors import AgentCode, AgentError
from pyoco_server.agent.file_lock import POLL_SEC, FileLock

_TERM_SEC: Final = 2.0
_KILL_SEC: Final = 10.0


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
        time.sleep(POLL_SEC)
    return sorted(ended)
