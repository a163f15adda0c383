"""Blocks share one timer, and each has its own deadline."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyoco_server.aio import deadlines
from pyoco_server.aio.deadlines import TimeBudget
from tests.support.clocks import FakeClockLoop

SECONDS = 0.2
STEP_SEC = 0.01


class Clock(FakeClockLoop):
    async def passes(self, seconds: float) -> None:
        """Advance the clock in steps, with turns of the event loop after each."""
        for _ in range(round(seconds / STEP_SEC)):
            self.advance(STEP_SEC)
            for _ in range(5):
                await asyncio.sleep(0)


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the budgets, independent of the machine."""
    clock = Clock()

    class AsyncioOfTheClock:
        def __getattr__(self, name: str) -> Any:
            return getattr(asyncio, name)

        def get_running_loop(self) -> Clock:
            return clock

    monkeypatch.setattr(deadlines, "asyncio", AsyncioOfTheClock())
    return clock


@pytest.fixture
async def budget() -> AsyncIterator[TimeBudget]:
    budget = TimeBudget(SECONDS)
    yield budget
    budget.close()


async def _seconds_until_it_is_up(budget: TimeBudget, clock: Clock) -> float:
    began = clock.time()
    with pytest.raises(TimeoutError), budget.block():
        await asyncio.Event().wait()
    # It was the block that was ended, not the task.
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
    return clock.time() - began


def _is_its_time(seconds: float) -> bool:
    rounding = STEP_SEC / 1000
    return SECONDS - rounding <= seconds <= SECONDS + STEP_SEC + rounding


async def test_each_block_times_out_at_its_own_deadline(budget: TimeBudget, clock: Clock) -> None:
    tasks = []
    for _ in range(5):
        tasks.append(asyncio.create_task(_seconds_until_it_is_up(budget, clock)))
        await asyncio.sleep(0)
        await clock.passes(0.03)
    await clock.passes(2 * SECONDS)
    assert all(task.done() for task in tasks)
    assert all(_is_its_time(task.result()) for task in tasks), [task.result() for task in tasks]


async def test_a_block_that_ends_in_time_does_not_hide_the_timeout_of_another(
    budget: TimeBudget, clock: Clock
) -> None:
    with budget.block():
        await asyncio.sleep(0)
    late = asyncio.create_task(_seconds_until_it_is_up(budget, clock))
    await asyncio.sleep(0)
    await clock.passes(SECONDS / 2)
    with budget.block():
        await asyncio.sleep(0)
    await clock.passes(SECONDS)
    assert late.done()
    assert _is_its_time(late.result())
    # The timer of a block that has ended cancels nothing.
    await clock.passes(SECONDS * 1.5)


async def test_another_cancellation_is_not_a_timeout(budget: TimeBudget) -> None:
    async def wait() -> None:
        with budget.block():
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_at_the_deadline_is_not_a_timeout() -> None:
    budget = TimeBudget(0)

    async def wait() -> None:
        with budget.block():
            # The deadline passes before the task runs again.
            asyncio.current_task().cancel()  # type: ignore[union-attr]
            budget._blocks._expire(asyncio.get_running_loop().time())
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    with pytest.raises(asyncio.CancelledError):
        await task
    budget.close()


async def test_an_error_of_the_block_passes_through(budget: TimeBudget) -> None:
    with pytest.raises(KeyError), budget.block():
        raise KeyError
