"""A 404 takes the same time for what another tenant has as for what does not exist.

The first is read and decoded before it is rejected, which takes time in proportion to its size. So both are
sent a whole number of steps after the request arrived. Timers of the event loop are accurate to a millisecond
only, which would reveal the rest; a thread sleeps more precisely.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from starlette.requests import HTTPConnection
from starlette.types import Scope

from pyoco_server.errors import (
    ActionNotFound,
    AlertNotFound,
    BulkNotFound,
    DeadLetterNotFound,
    DeliveryNotFound,
    HookNotFound,
    HookRefused,
    PyocoError,
    RunNotFound,
    ScheduleNotFound,
    TemplateNotFound,
    ViewNotFound,
    WaitNotFound,
)

# Many times the duration of reading a large run.
STEP_SEC: Final = 0.025
# The last part of the delay, in a thread. When all threads are busy, responses are late.
_THREAD_SEC: Final = 0.003
_THREADS: Final = 8

_ARRIVED: Final = "pyoco.arrived"
_TENANT_ERRORS: Final = (
    RunNotFound,
    WaitNotFound,
    DeadLetterNotFound,
    BulkNotFound,
    ScheduleNotFound,
    HookNotFound,
    # Of a hook that exists, the time depends on its kind and on how many tenants have one of this id.
    HookRefused,
    DeliveryNotFound,
    TemplateNotFound,
    ActionNotFound,
    ViewNotFound,
    AlertNotFound,
)


def note_arrival(scope: Scope) -> None:
    """Called before anything is looked up."""
    scope[_ARRIVED] = time.perf_counter()


class NotFoundDelay:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="not-found-delay")

    async def wait(self, request: HTTPConnection, error: PyocoError) -> None:
        """Delay this error, if it could reveal something and API keys are in use."""
        arrived = request.scope.get(_ARRIVED)
        if arrived is None or not isinstance(error, _TENANT_ERRORS):
            return
        taken = time.perf_counter() - arrived
        due = arrived + STEP_SEC * (taken // STEP_SEC + 1)
        await asyncio.sleep(max(0.0, due - time.perf_counter() - _THREAD_SEC))
        await asyncio.get_running_loop().run_in_executor(self._threads, _sleep_until, due)

    def close(self) -> None:
        self._threads.shutdown(wait=False)


def _sleep_until(due: float) -> None:
    time.sleep(max(0.0, due - time.perf_counter()))
