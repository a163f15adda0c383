"""One timer begins the keepers of all runs, and a hint wakes the keeper of its run."""

import asyncio

import pytest

from pyoco_server.worker.session import active_runs as module
from pyoco_server.worker.session.active_runs import ActiveRuns
from tests.support.waiting import eventually

WATCH_AFTER_SEC = 0.05


class Keeper:
    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.began_at: float | None = None
        self.woken = 0

    def start_watching(self) -> None:
        if self.began_at is None:
            self.began_at = asyncio.get_running_loop().time()

    def wake(self) -> None:
        self.woken += 1


@pytest.fixture
def active_runs(monkeypatch: pytest.MonkeyPatch) -> ActiveRuns:
    monkeypatch.setattr(module, "_WATCH_AFTER_SEC", WATCH_AFTER_SEC)
    return ActiveRuns()


async def has_begun(*keepers: Keeper) -> bool:
    return all(keeper.began_at is not None for keeper in keepers)


async def test_each_keeper_begins_in_time_unless_its_run_has_ended(active_runs: ActiveRuns) -> None:
    loop = asyncio.get_running_loop()
    first, short, late = Keeper("first"), Keeper("short"), Keeper("late")
    active_runs.add(first)
    active_runs.add(short)
    active_runs.remove(short)
    await eventually(lambda: has_begun(first), describe="the first keeper has begun")
    added_at = loop.time()
    active_runs.add(late)
    assert late.began_at is None
    await eventually(lambda: has_begun(late), describe="the late keeper has begun")
    assert late.began_at is not None
    # The clock of the loop counts milliseconds.
    assert late.began_at - added_at >= WATCH_AFTER_SEC - 0.002
    assert short.began_at is None
    assert len(active_runs) == 2


async def test_a_keeper_that_is_added_while_another_is_due_begins_too(active_runs: ActiveRuns) -> None:
    """The timer is set for the first; after it, for the next one that is still to begin."""
    keepers = [Keeper(str(number)) for number in range(3)]
    for keeper in keepers:
        active_runs.add(keeper)
        # Apart in time, so that none is due with the one before it.
        await asyncio.sleep(WATCH_AFTER_SEC / 3)
    await eventually(lambda: has_begun(*keepers), describe="all keepers have begun")
    began_at = [keeper.began_at or 0.0 for keeper in keepers]
    assert began_at == sorted(began_at)


async def test_a_hint_wakes_only_the_keepers_of_its_run(active_runs: ActiveRuns) -> None:
    """Two slots may have the same run, one after it had lost it to the other."""
    loser, owner, other, gone = Keeper("run"), Keeper("run"), Keeper("other"), Keeper("run")
    for keeper in (loser, owner, other, gone):
        active_runs.add(keeper)
    active_runs.remove(gone)
    active_runs.wake("run")
    active_runs.wake("nobody's")
    assert [keeper.woken for keeper in (loser, owner, other, gone)] == [1, 1, 0, 0]


async def test_an_early_hint_wakes_a_keeper_that_is_added_later(active_runs: ActiveRuns) -> None:
    """The hint of a cancel may arrive while the run is being claimed."""
    for number in range(1000):
        active_runs.wake(f"of long ago {number}")
    active_runs.wake("run")
    late, other = Keeper("run"), Keeper("of long ago 1")
    active_runs.add(late)
    active_runs.add(other)
    assert (late.woken, other.woken) == (1, 0)
