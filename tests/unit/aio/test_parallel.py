"""Many items, a few at once: how many, when the next one begins, and what ends it."""

import asyncio

from pyoco_server.aio.parallel import for_each_item
from pyoco_server.aio.urgent_work import UrgentWork


async def test_so_many_are_in_progress_at_once() -> None:
    running: set[int] = set()
    together: list[int] = []
    done: list[int] = []

    async def act(number: int) -> bool:
        running.add(number)
        await asyncio.sleep(0)
        together.append(len(running))
        running.discard(number)
        done.append(number)
        return True

    await for_each_item(act, range(7), at_once=3, urgent=UrgentWork())
    assert sorted(done) == list(range(7))
    assert max(together) == 3


async def test_the_next_one_begins_as_soon_as_there_is_room() -> None:
    """A slow one holds up no other."""
    slow, begun = asyncio.Event(), list[int]()

    async def act(number: int) -> bool:
        begun.append(number)
        if number == 0:
            await slow.wait()
        elif number == 5:
            slow.set()
        return True

    await for_each_item(act, range(6), at_once=2, urgent=UrgentWork())
    assert begun == [0, 1, 2, 3, 4, 5]


async def test_after_a_false_nothing_else_begins() -> None:
    """What is in progress is completed."""
    begun, completed = list[int](), list[int]()

    async def act(number: int) -> bool:
        begun.append(number)
        await asyncio.sleep(0)
        completed.append(number)
        return number != 2

    await for_each_item(act, range(9), at_once=2, urgent=UrgentWork())
    assert 2 in begun
    assert begun == completed
    assert len(begun) <= 4
