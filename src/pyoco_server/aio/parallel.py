"""Processes many items with bounded concurrency.

The next item begins as soon as one is done. Items that begin together, as groups, send their requests in one
burst, and a submit that comes then waits behind all of them, in this process and in NATS.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from pyoco_server.aio.urgent_work import UrgentWork

T = TypeVar("T")

# How many items are read with one request before they are begun: the replies take half a millisecond.
READ_TOGETHER: Final = 32


async def for_each_item(
    act: Callable[[T], Awaitable[bool]], items: Iterable[T], *, at_once: int, urgent: UrgentWork
) -> None:
    """`act` returns whether to go on: after a False what has begun is completed, and no other begins.

    Each item gives way to urgent work before it begins, for a moment (urgent_work.py).
    """
    all_items = list(items)
    remaining = iter(all_items)
    should_continue = True

    async def work() -> None:
        nonlocal should_continue
        for item in remaining:
            await urgent.give_way()
            if not should_continue:
                return
            if not await act(item):
                should_continue = False
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(min(at_once, len(all_items))):
            group.create_task(work())
