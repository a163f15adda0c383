"""Does something for each of many items, some at a time, and leaves time for requests in between."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def in_groups(
    act: Callable[[T], Awaitable[R]], items: Iterable[T], *, size: int, pause_share: float = 0.0
) -> AsyncIterator[list[tuple[T, R | BaseException]]]:
    """Each group when it is done: its items, with what was returned or raised. A caller may stop there.

    Between two groups it pauses for this share of the time that the last one took: requests go first.
    """
    left = iter(items)
    group = list(islice(left, size))
    while group:
        began = time.monotonic()
        outcomes = await asyncio.gather(*map(act, group), return_exceptions=True)
        took_sec = time.monotonic() - began
        yield list(zip(group, outcomes, strict=True))
        group = list(islice(left, size))
        if group and pause_share:
            await asyncio.sleep(took_sec * pause_share)
