"""Background work gives way to urgent work, but not for ever."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partialmethod

import pytest

from pyoco_server.aio.parallel import for_each_item
from pyoco_server.aio.urgent_work import UrgentWork
from tests.support.waiting import NEVER_SEC


@pytest.fixture
def gives_way_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a stalled machine the 5 ms of users pass within a few turns of the loop."""
    monkeypatch.setattr(UrgentWork, "give_way", partialmethod(UrgentWork.give_way, NEVER_SEC))


async def test_it_waits_until_nothing_urgent_is_in_progress() -> None:
    urgent, order = UrgentWork(), list[str]()

    async def background() -> None:
        await urgent.give_way(longest_sec=60)
        order.append("background")

    with urgent:
        with urgent:
            waiting = asyncio.create_task(background())
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        order.append("urgent")
    await waiting
    assert order == ["urgent", "background"]


async def test_it_does_not_wait_for_ever() -> None:
    urgent = UrgentWork()
    with urgent:
        await urgent.give_way(longest_sec=0.001)
        # Whoever comes later waits for the same end.
        again = asyncio.create_task(urgent.give_way(longest_sec=60))
        await asyncio.sleep(0)
        assert not again.done()
    await again


async def test_no_item_begins_while_something_urgent_is_in_progress(gives_way_for_long: None) -> None:
    """A submit that comes while many runs wake has to wait only for what has begun."""
    urgent, begun = UrgentWork(), list[int]()
    came, may_end = asyncio.Event(), asyncio.Event()

    async def act(number: int) -> bool:
        begun.append(number)
        if number == 3:
            came.set()
        # Until the submit is in progress.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return True

    async def submit() -> None:
        await came.wait()
        with urgent:
            before = len(begun)
            # Enough turns for all of them, were they not held back.
            for _ in range(8):
                await asyncio.sleep(0)
            assert len(begun) == before
        may_end.set()

    submitting = asyncio.create_task(submit())
    await for_each_item(act, range(20), at_once=4, urgent=urgent)
    await submitting
    assert may_end.is_set()
    assert sorted(begun) == list(range(20))


async def test_the_first_items_give_way_as_well(gives_way_for_long: None) -> None:
    urgent, begun = UrgentWork(), list[int]()

    async def act(number: int) -> bool:
        begun.append(number)
        return True

    with urgent:
        working = asyncio.create_task(for_each_item(act, range(3), at_once=8, urgent=urgent))
        for _ in range(8):
            await asyncio.sleep(0)
        assert begun == []
    await working
    assert sorted(begun) == [0, 1, 2]


async def test_nothing_waits_after_the_last_item() -> None:
    """Events are matched one by one: each would wait for the submits that come meanwhile."""
    urgent, submitting = UrgentWork(), asyncio.Event()

    async def act(number: int) -> bool:
        submitting.set()
        await asyncio.sleep(0)
        return True

    async def submit() -> None:
        await submitting.wait()
        with urgent:
            await asyncio.Event().wait()

    submit_task = asyncio.create_task(submit())
    working = asyncio.create_task(for_each_item(act, [1], at_once=8, urgent=urgent))
    for _ in range(8):
        await asyncio.sleep(0)
    assert working.done()
    submit_task.cancel()


@asynccontextmanager
async def _burst(urgent: UrgentWork) -> AsyncIterator[None]:
    """Far more in each turn of the event loop than a burst needs."""

    async def submit() -> None:
        while True:
            for _ in range(100):
                with urgent:
                    pass
            await asyncio.sleep(0)

    submitting = asyncio.create_task(submit())
    yield
    submitting.cancel()


async def test_it_waits_for_the_end_of_a_burst() -> None:
    urgent = UrgentWork()
    async with _burst(urgent):
        waiting = asyncio.create_task(urgent.wait_for_burst_end(longest_sec=60))
        await asyncio.sleep(0.2)
        assert not waiting.done()
    async with asyncio.timeout(10):
        await waiting


async def test_a_burst_without_end_is_not_waited_for() -> None:
    urgent = UrgentWork()
    async with _burst(urgent), asyncio.timeout(10):
        await urgent.wait_for_burst_end(longest_sec=0.01)


async def test_few_submits_are_no_burst() -> None:
    urgent = UrgentWork()
    with urgent:
        async with asyncio.timeout(10):
            await urgent.wait_for_burst_end(longest_sec=60)
