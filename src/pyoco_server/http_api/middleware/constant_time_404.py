"""A 404 comes as late for what another tenant has as for what nobody has.

The first is read and decoded before it is refused, and that takes the longer, the larger it is. So both are
answered at one of few moments: a whole number of steps after the request has come in. The event loop's own
timers are right to a millisecond only, which would tell how much of it was left; a thread sleeps better.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from starlette.requests import HTTPConnection
from starlette.types import Scope

from pyoco_server.errors import BulkNotFound, DeadLetterNotFound, PyocoError, RunNotFound, WaitNotFound

# Many times what it takes to read a large run, so that it is enough on a busy machine too.
STEP_SEC: Final = 0.025
# How much of the wait is left to a thread, and how many of them there are. When all are busy, refusals are
# late, and none of them keeps a thread any longer.
_SLEPT_SEC: Final = 0.003
_THREADS: Final = 8

_SINCE: Final = "pyoco.since"
_OF_TENANTS: Final = (RunNotFound, WaitNotFound, DeadLetterNotFound, BulkNotFound)


def note_arrival(scope: Scope) -> None:
    """Done for each request that has to do with tenants, and with nothing looked up yet."""
    scope[_SINCE] = time.perf_counter()


class NotFoundDelay:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="even-times")

    async def wait(self, request: HTTPConnection, refusal: PyocoError) -> None:
        """Until this refusal may be told; at once, where it tells nothing or no keys are asked for."""
        since = request.scope.get(_SINCE)
        if since is None or not isinstance(refusal, _OF_TENANTS):
            return
        taken = time.perf_counter() - since
        due = since + STEP_SEC * (taken // STEP_SEC + 1)
        await asyncio.sleep(max(0.0, due - time.perf_counter() - _SLEPT_SEC))
        await asyncio.get_running_loop().run_in_executor(self._threads, _sleep_until, due)

    def close(self) -> None:
        self._threads.shutdown(wait=False)


def _sleep_until(due: float) -> None:
    time.sleep(max(0.0, due - time.perf_counter()))
