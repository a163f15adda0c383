"""One timer for all blocks: each has its own time, and a cancellation by somebody else stays one."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pyoco_server.runs.time_budget import TimeBudget

SECONDS = 0.2


@pytest.fixture
async def budget() -> AsyncIterator[TimeBudget]:
    budget = TimeBudget(SECONDS)
    yield budget
    budget.close()


async def _seconds_until_it_is_up(budget: TimeBudget) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TimeoutError), budget.block():
        await asyncio.Event().wait()
    # It was the block that was ended, not the task.
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
    return loop.time() - began


async def test_each_block_has_its_full_time_and_no_more(budget: TimeBudget) -> None:
    tasks = []
    for _ in range(5):
        tasks.append(asyncio.create_task(_seconds_until_it_is_up(budget)))
        await asyncio.sleep(0.03)
    for seconds in await asyncio.gather(*tasks):
        assert SECONDS - 0.01 <= seconds < SECONDS + 1


async def test_a_block_that_ends_in_time_is_left_alone_and_hides_no_other(budget: TimeBudget) -> None:
    with budget.block():
        await asyncio.sleep(0)
    late = asyncio.create_task(_seconds_until_it_is_up(budget))
    await asyncio.sleep(SECONDS / 2)
    with budget.block():
        await asyncio.sleep(0)
    assert await late < SECONDS + 1
    # The timer of a block that is long over ends nobody.
    await asyncio.sleep(SECONDS * 1.5)


async def test_a_cancellation_by_somebody_else_stays_one(budget: TimeBudget) -> None:
    async def wait() -> None:
        with budget.block():
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_in_the_moment_its_time_is_up_stays_one() -> None:
    budget = TimeBudget(0)

    async def wait() -> None:
        with budget.block():
            # The time is up while nobody else has a turn.
            asyncio.current_task().cancel()  # type: ignore[union-attr]
            budget._expire()
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    with pytest.raises(asyncio.CancelledError):
        await task
    budget.close()


async def test_an_error_of_the_block_passes_through(budget: TimeBudget) -> None:
    with pytest.raises(KeyError), budget.block():
        raise KeyError
