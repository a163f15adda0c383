"""A long list is worked through in pieces, with a turn of the event loop between them."""

import asyncio

from pyoco_server.aio.turns import PER_TURN, in_turns


async def test_others_have_a_turn_between_two_pieces() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await asyncio.sleep(0)
    items = list(range(3 * PER_TURN + 1))
    seen, turns_before = list[int](), list[int]()
    async for some in in_turns(items):
        assert len(some) <= PER_TURN
        seen += some
        turns_before.append(turns)
    task.cancel()
    assert seen == items
    assert turns_before == sorted(set(turns_before))
