"""A long list is processed in batches, and the event loop runs between them."""

import asyncio

from pyoco_server.aio.loop_batches import LOOP_BATCH, yielding_batches


async def test_other_tasks_run_between_two_batches() -> None:
    rounds = 0

    async def others() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await asyncio.sleep(0)
    items = list(range(3 * LOOP_BATCH + 1))
    seen, rounds_before = list[int](), list[int]()
    async for some in yielding_batches(items):
        assert len(some) <= LOOP_BATCH
        seen += some
        rounds_before.append(rounds)
    task.cancel()
    assert seen == items
    assert rounds_before == sorted(set(rounds_before))
