"""Waiting for a condition: the single place where a test polls, and the one limit of all waits."""

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

T = TypeVar("T")

POLL_INTERVAL_SEC = 0.02
# How long a test waits for what must happen. Whole machines were seen to stand still for 90 s, so a shorter
# limit fails by chance. How soon something happens is measured by the benchmarks, and not asserted here.
LIMIT_SEC = 150.0
# An interval or a timeout that does not elapse while a test waits for something else.
NEVER_SEC = 3600.0


@overload
async def eventually(probe: Callable[[], Coroutine[Any, Any, T | None]], *, describe: str) -> T: ...
@overload
async def eventually(probe: Callable[[], T | None], *, describe: str) -> T: ...
async def eventually(probe: Callable[[], Any], *, describe: str) -> Any:
    """Return the probe's first truthy answer; fail when there is none within LIMIT_SEC.

    An exception of the probe is a failure at once: "not yet" is said by a falsy answer.
    """
    answer = None
    try:
        async with asyncio.timeout(LIMIT_SEC) as limit:
            while True:
                answer = await _answer(probe)
                if answer:
                    return answer
                await asyncio.sleep(POLL_INTERVAL_SEC)
    except TimeoutError:
        if not limit.expired():  # the probe's own time-out
            raise
    raise AssertionError(_too_late(describe, answer))


async def eventually_equals(
    probe: Callable[[], Coroutine[Any, Any, T]], expected: T, *, describe: str
) -> None:
    """Wait until the probe's answer is the expected one."""
    answer: T | None = None

    async def is_equal() -> bool:
        nonlocal answer
        answer = await probe()
        return answer == expected

    try:
        await eventually(is_equal, describe=describe)
    except AssertionError as late:
        raise AssertionError(f"{late}: {answer!r} instead of {expected!r}") from None


def eventually_sync(probe: Callable[[], T | None], *, describe: str) -> T:
    """`eventually` for a test without an event loop."""
    deadline = time.monotonic() + LIMIT_SEC
    while not (answer := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(_too_late(describe, answer))
        time.sleep(POLL_INTERVAL_SEC)
    return answer


async def _answer(probe: Callable[[], Any]) -> Any:
    answer = probe()
    return await answer if inspect.isawaitable(answer) else answer


def _too_late(describe: str, answer: object) -> str:
    return f"not within {LIMIT_SEC:g} s: {describe} (last answer: {answer!r})"
