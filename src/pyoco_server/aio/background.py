"""Background loops that survive unexpected errors, and the delay between retries."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

_PAUSE_AFTER_ERROR_SEC = 1.0

Step = Callable[[], Awaitable[object]]


async def repeat(name: str, step: Step) -> None:
    """Call `step` until cancelled; an unexpected error is logged and followed by a pause."""
    while True:
        try:
            await step()
        except Exception:
            log.exception("%s: unexpected error, continuing", name)
            await asyncio.sleep(_PAUSE_AFTER_ERROR_SEC)


class BackgroundLoop:
    """Repeats `step` in a task from `start` to `close`. The step calls `pause`; `wake` ends the pause."""

    def __init__(self, name: str, step: Step) -> None:
        self._name = name
        self._step = step
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(repeat(self._name, self._step), name=self._name)

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    @property
    def running(self) -> bool:
        return self._task is not None

    def wake(self) -> None:
        self._woken.set()

    async def pause(self, seconds: float | None) -> bool:
        """Wait for `wake`, at most so long; return whether it was called since the last pause."""
        try:
            async with asyncio.timeout(seconds):
                return await self._woken.wait()
        except TimeoutError:
            return self._woken.is_set()
        finally:
            self._woken.clear()


class Backoff:
    """A delay that doubles with each failure in a row."""

    def __init__(self, first_sec: float, longest_sec: float) -> None:
        self._first_sec = first_sec
        self._longest_sec = longest_sec
        self._next_sec = first_sec

    def next_sec(self) -> float:
        """The delay after one more failure."""
        delay_sec = self._next_sec
        self._next_sec = min(2 * delay_sec, self._longest_sec)
        return delay_sec

    def reset(self) -> None:
        """Call after a success."""
        self._next_sec = self._first_sec
