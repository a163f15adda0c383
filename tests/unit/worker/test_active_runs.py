"""One timer has the keepers of all runs begin, each in its time, and whoever is asked for is woken."""

import asyncio

import pytest

from pyoco_server.worker.session import active_runs as runs_under_way
from pyoco_server.worker.session.active_runs import RunsUnderWay
from tests.support.waiting import eventually

FIRST_LOOK_SEC = 0.05


class Keeper:
    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.began_at: float | None = None
        self.woken = 0

    def begin(self) -> None:
        if self.began_at is None:
            self.began_at = asyncio.get_running_loop().time()

    def wake(self) -> None:
        self.woken += 1


@pytest.fixture
def under_way(monkeypatch: pytest.MonkeyPatch) -> RunsUnderWay:
    monkeypatch.setattr(runs_under_way, "_FIRST_LOOK_SEC", FIRST_LOOK_SEC)
    return RunsUnderWay()


async def has_begun(*keepers: Keeper) -> bool:
    return all(keeper.began_at is not None for keeper in keepers)


async def test_each_begins_in_its_own_time_and_one_that_is_over_never(under_way: RunsUnderWay) -> None:
    loop = asyncio.get_running_loop()
    first, short, late = Keeper("first"), Keeper("short"), Keeper("late")
    under_way.add(first)
    under_way.add(short)
    under_way.remove(short)
    await eventually(lambda: has_begun(first), describe="the first one is looked after")
    added_at = loop.time()
    under_way.add(late)
    assert late.began_at is None
    await eventually(lambda: has_begun(late), describe="the late one is looked after")
    assert late.began_at is not None
    # The clock of the loop counts milliseconds.
    assert late.began_at - added_at >= FIRST_LOOK_SEC - 0.002
    assert short.began_at is None
    assert len(under_way) == 2


async def test_one_that_came_while_another_was_due_begins_too(under_way: RunsUnderWay) -> None:
    """The timer is set for the first; after it, for the next one that is still to begin."""
    keepers = [Keeper(str(number)) for number in range(3)]
    for keeper in keepers:
        under_way.add(keeper)
        # Apart in time, so that none is due with the one before it.
        await asyncio.sleep(FIRST_LOOK_SEC / 3)
    await eventually(lambda: has_begun(*keepers), describe="all are looked after")
    began_at = [keeper.began_at or 0.0 for keeper in keepers]
    assert began_at == sorted(began_at)


async def test_the_keepers_of_the_run_are_woken_and_no_others(under_way: RunsUnderWay) -> None:
    """Two slots may have the same run, one after it had lost it to the other."""
    loser, owner, other, gone = Keeper("run"), Keeper("run"), Keeper("other"), Keeper("run")
    for keeper in (loser, owner, other, gone):
        under_way.add(keeper)
    under_way.remove(gone)
    under_way.wake("run")
    under_way.wake("nobody's")
    assert [keeper.woken for keeper in (loser, owner, other, gone)] == [1, 1, 0, 0]


async def test_one_that_was_asked_for_before_it_came_is_woken_then(under_way: RunsUnderWay) -> None:
    """A cancel may be heard of in the same moment as the claim that makes the run this worker's."""
    for number in range(1000):
        under_way.wake(f"of long ago {number}")
    under_way.wake("run")
    late, other = Keeper("run"), Keeper("of long ago 1")
    under_way.add(late)
    under_way.add(other)
    assert (late.woken, other.woken) == (1, 0)
