"""Waiting for a condition, with a limit: the single place where a test polls."""

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

T = TypeVar("T")

POLL_INTERVAL_SEC = 0.02


@overload
async def eventually(
    probe: Callable[[], Coroutine[Any, Any, T | None]], *, within: float, describe: str
) -> T: ...
@overload
async def eventually(probe: Callable[[], T | None], *, within: float, describe: str) -> T: ...
async def eventually(probe: Callable[[], Any], *, within: float, describe: str) -> Any:
    """Return the probe's first truthy answer; fail when there is none `within` seconds.

    An exception of the probe is a failure at once: "not yet" is said by a falsy answer.
    """
    answer = None
    left = within
    # Where the time is up while this process stands still, nobody has looked, and nothing in it has gone on:
    # what it stood still for behind the limit is added.
    while True:
        try:
            async with asyncio.timeout(left) as limit:
                while True:
                    answer = await _answer(probe)
                    if answer:
                        return answer
                    await asyncio.sleep(POLL_INTERVAL_SEC)
        except TimeoutError:
            if not limit.expired():  # the probe's own time-out
                raise
        left = asyncio.get_running_loop().time() - (limit.when() or 0.0)
        if left < POLL_INTERVAL_SEC:
            raise AssertionError(_too_late(within, describe, answer))


def eventually_sync(probe: Callable[[], T | None], *, within: float, describe: str) -> T:
    """`eventually` for a test without an event loop."""
    deadline = time.monotonic() + within
    while not (answer := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(_too_late(within, describe, answer))
        time.sleep(POLL_INTERVAL_SEC)
    return answer


async def _answer(probe: Callable[[], Any]) -> Any:
    answer = probe()
    return await answer if inspect.isawaitable(answer) else answer


def _too_late(within: float, describe: str, answer: object) -> str:
    return f"not within {within:g} s: {describe} (last answer: {answer!r})"
