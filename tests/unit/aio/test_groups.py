"""Many items, some at a time: the size of a group, what fails, and the pause for requests."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from pyoco_server.aio import groups
from pyoco_server.aio.groups import in_groups


async def test_a_group_is_done_before_the_next_one_begins() -> None:
    running: set[int] = set()
    together: list[int] = []

    async def act(number: int) -> None:
        running.add(number)
        await asyncio.sleep(0)
        together.append(len(running))
        await asyncio.sleep(0)
        running.discard(number)

    done = [[item for item, _ in group] async for group in in_groups(act, range(7), size=3)]
    assert done == [[0, 1, 2], [3, 4, 5], [6]]
    assert max(together) == 3


async def test_what_fails_is_reported_with_its_item_and_stops_no_other() -> None:
    failure = ValueError("two")

    async def act(number: int) -> str:
        if number == 2:
            raise failure
        return f"done {number}"

    found = [each async for group in in_groups(act, range(4), size=2) for each in group]
    assert found == [(0, "done 0"), (1, "done 1"), (2, failure), (3, "done 3")]


async def test_a_caller_that_stops_begins_no_other_group() -> None:
    begun: list[int] = []

    async def act(number: int) -> None:
        begun.append(number)

    async for _ in in_groups(act, range(9), size=2):
        break
    assert begun == [0, 1]


@pytest.mark.parametrize(("share", "expected"), [(0.0, []), (0.5, [1.0, 1.0]), (2.0, [4.0, 4.0])])
async def test_between_two_groups_requests_have_their_share(
    monkeypatch: pytest.MonkeyPatch, share: float, expected: list[float]
) -> None:
    """Each group takes 2 s by this clock; there is no pause after the last one."""
    paused: list[float] = []
    times = _times()

    async def sleep(seconds: float) -> None:
        paused.append(seconds)

    monkeypatch.setattr(groups, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(groups, "asyncio", SimpleNamespace(gather=asyncio.gather, sleep=sleep))

    async def act(_: int) -> None:
        pass

    async for _ in in_groups(act, range(5), size=2, pause_share=share):
        pass
    assert paused == expected


def _times() -> Iterator[float]:
    now = 0.0
    while True:
        yield now
        now += 2.0
