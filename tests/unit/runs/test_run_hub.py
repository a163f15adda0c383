"""The hub: who follows is told what concerns it, the newest of it, and nothing piles up."""

import asyncio
import gc
import itertools
import tracemalloc
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from pyoco_server.records.models import RunStatus, new_run_id
from pyoco_server.runs.index.run_filter import RunFilter
from pyoco_server.runs.watch import followers, run_hub
from pyoco_server.runs.watch.followers import ResyncRequired
from pyoco_server.runs.watch.recent_changes import MAX_RUNS, BucketPosition
from pyoco_server.runs.watch.run_hub import ListChanges, ListFollower, RunChange, RunHub
from tests.support.clocks import SetLoop
from tests.support.samples.summaries import changed, removed, summary
from tests.support.waiting import LIMIT_SEC

COMPLETED, FAILED, PENDING, RUNNING = (
    RunStatus.COMPLETED,
    RunStatus.FAILED,
    RunStatus.PENDING,
    RunStatus.RUNNING,
)
ALL = RunFilter()
ONLY_FAILED = RunFilter(statuses=frozenset({"FAILED"}))
ONLY_RUNNING = RunFilter(statuses=frozenset({"RUNNING"}))
SOON = 5.0
AT_ONCE = 0.0

ONE, TWO, THREE = new_run_id(), new_run_id(), new_run_id()


@pytest.fixture
def changes() -> RunHub:
    hub = RunHub()
    hub.begin("2026-01-01T00:00:00Z", 10)
    return hub


def told(news: ListChanges | None) -> list[tuple[str, int, bool]]:
    """Run, revision, and whether the list has it."""
    assert news is not None
    return [(listed.change.run_id, listed.change.revision, listed.entered) for listed in news.changes]


async def silent(follower: ListFollower) -> bool:
    return await follower.next(AT_ONCE) is None


async def test_a_follower_of_a_run_hears_of_it_and_of_no_other(changes: RunHub) -> None:
    with changes.follow_run(ONE) as one, changes.follow_run(TWO) as two:
        change = changed(ONE, 11)
        await changes.publish([change])
        assert await one.next(SOON) is change
        assert await two.next(AT_ONCE) is None
        assert await one.next(AT_ONCE) is None


async def test_all_who_follow_a_run_are_told_one_and_the_same(changes: RunHub) -> None:
    encoded = list[RunChange]()

    def encode(change: RunChange) -> bytes:
        encoded.append(change)
        return b"event"

    with ExitStack() as stack:
        followers = [stack.enter_context(changes.follow_run(ONE)) for _ in range(100)]
        await changes.publish([changed(ONE, 11)])
        for follower in followers:
            change = await follower.next(SOON)
            assert change is not None
            assert change.encoded(encode) == b"event"
    assert len(encoded) == 1


async def test_who_is_slow_gets_the_newest_change_of_its_run(changes: RunHub) -> None:
    with changes.follow_run(ONE) as follower:
        for revision in range(11, 1011):
            await changes.publish([changed(ONE, revision)])
        newest = await follower.next(SOON)
        assert newest is not None
        assert newest.revision == 1010
        assert await follower.next(AT_ONCE) is None


async def test_a_waiting_follower_is_woken(changes: RunHub) -> None:
    with changes.follow_run(ONE) as one, changes.follow_list(ALL, after=changes.newest) as all_runs:
        waiting = asyncio.gather(one.next(SOON), all_runs.next(SOON))
        await asyncio.sleep(0)
        await changes.publish([changed(ONE, 11)])
        async with asyncio.timeout(LIMIT_SEC):
            of_run, of_list = await waiting
        assert of_run is not None
        assert told(of_list) == [(ONE, 11, True)]


async def test_a_list_is_told_what_enters_it_and_what_leaves_it(changes: RunHub) -> None:
    with changes.follow_list(ONLY_RUNNING, after=changes.newest) as follower:
        await changes.publish([changed(ONE, 11, before=None)])
        assert await silent(follower)
        await changes.publish([changed(ONE, 12, RUNNING)])
        assert told(await follower.next(SOON)) == [(ONE, 12, True)]
        await changes.publish([changed(ONE, 13, RUNNING)])
        assert told(await follower.next(SOON)) == [(ONE, 13, True)]
        await changes.publish([changed(ONE, 14, COMPLETED)])
        assert told(await follower.next(SOON)) == [(ONE, 14, False)]
        await changes.publish([changed(ONE, 15, COMPLETED)])
        await changes.publish([removed(ONE, 16)])
        assert await silent(follower)


async def test_a_run_that_was_in_the_list_before_leaves_it_by_its_first_change(changes: RunHub) -> None:
    with changes.follow_list(ONLY_RUNNING, after=changes.newest) as follower:
        await changes.publish([changed(ONE, 11, COMPLETED, before=summary(RUNNING))])
        await changes.publish([removed(TWO, 12, before=summary(RUNNING))])
        await changes.publish([changed(THREE, 13, COMPLETED, before=summary(PENDING))])
        assert told(await follower.next(SOON)) == [(ONE, 11, False), (TWO, 12, False)]


async def test_where_it_is_not_known_whether_a_run_was_in_the_list_it_leaves(changes: RunHub) -> None:
    with changes.follow_list(ONLY_RUNNING, after=changes.newest) as follower:
        await changes.publish([changed(ONE, 11, COMPLETED)])
        assert told(await follower.next(SOON)) == [(ONE, 11, False)]


async def test_a_tenant_is_not_told_that_anothers_run_may_have_left(changes: RunHub) -> None:
    """Where nothing is known of the time before, every run may have left a list; but not one of another's."""
    of_acme = changed(ONE, 11, COMPLETED, tenant="acme")
    lists = [RunFilter(tenant=tenant, statuses=frozenset({"RUNNING"})) for tenant in ("acme", "rival")]
    with (
        changes.follow_list(lists[0], after=changes.newest) as acme,
        changes.follow_list(lists[1], after=changes.newest) as rival,
    ):
        await changes.publish([of_acme])
        assert told(await acme.next(SOON)) == [(ONE, 11, False)]
        assert await silent(rival)


async def test_whose_a_run_was_is_known_as_long_as_anything_is(changes: RunHub) -> None:
    """It could not be read at first, and then it was removed: the last that was known was acme's."""
    before = changed(ONE, 1, tenant="acme").summary
    beginning = changes.newest
    await changes.publish([RunChange(ONE, 11, b"not a run", before=before)])
    await changes.publish([removed(ONE, 12)])
    with changes.follow_list(RunFilter(tenant="acme"), after=beginning) as acme:
        assert told(await acme.next(SOON)) == [(ONE, 12, False)]
    with changes.follow_list(RunFilter(tenant="rival"), after=beginning) as rival:
        assert told(await rival.next(SOON)) == []


async def test_who_is_slow_hears_that_a_run_left_the_list_though_it_came_and_went_meanwhile(
    changes: RunHub,
) -> None:
    """It was RUNNING when the client last looked; in between it was something else."""
    with changes.follow_list(ONLY_RUNNING, after=changes.newest) as follower:
        await changes.publish([changed(ONE, 11, RUNNING)])
        assert told(await follower.next(SOON)) == [(ONE, 11, True)]
        await changes.publish([changed(ONE, 12, FAILED)])
        await changes.publish([changed(ONE, 13, COMPLETED)])
        assert told(await follower.next(SOON)) == [(ONE, 13, False)]


async def test_a_list_that_falls_behind_gets_the_newest_of_each_run_in_order(changes: RunHub) -> None:
    with changes.follow_list(ALL, after=changes.newest) as follower:
        await changes.publish([changed(ONE, 11), changed(TWO, 12)])
        await changes.publish([changed(ONE, 13, RUNNING)])
        await changes.publish([changed(THREE, 14), changed(ONE, 15, COMPLETED)])
        assert told(await follower.next(SOON)) == [(TWO, 12, True), (THREE, 14, True), (ONE, 15, True)]
        assert await silent(follower)


async def test_a_list_that_falls_too_far_behind_is_told_so(changes: RunHub) -> None:
    with changes.follow_list(ALL, after=changes.newest) as follower:
        for number in range(MAX_RUNS):
            await changes.publish([changed(new_run_id(), 11 + number)])
        assert len(told(await follower.next(SOON))) == MAX_RUNS
        for number in range(MAX_RUNS + 1):
            await changes.publish([changed(new_run_id(), 11 + MAX_RUNS + number)])
        with pytest.raises(ResyncRequired):
            await follower.next(SOON)


async def test_changes_of_other_runs_do_not_make_a_quiet_list_fall_behind(changes: RunHub) -> None:
    with changes.follow_list(ONLY_FAILED, after=changes.newest) as follower:
        last = 10
        for _ in range(2 * MAX_RUNS):
            last += 1
            await changes.publish([changed(new_run_id(), last, before=None)])
        assert follower.position == changes.newest
        await changes.publish([changed(ONE, last + 1, FAILED)])
        assert told(await follower.next(SOON)) == [(ONE, last + 1, True)]


async def test_a_client_that_comes_back_is_told_what_it_missed(changes: RunHub) -> None:
    with changes.follow_list(ALL, after=changes.newest) as first:
        await changes.publish([changed(ONE, 11), changed(TWO, 12)])
        await first.next(SOON)
        left_at = first.position
    await changes.publish([changed(TWO, 13), changed(THREE, 14)])
    with changes.follow_list(ALL, after=left_at) as again:
        assert told(await again.next(SOON)) == [(TWO, 13, True), (THREE, 14, True)]
        assert again.position == changes.position(14)


async def test_a_position_before_the_memory_of_this_gateway_is_lost(changes: RunHub) -> None:
    with (
        changes.follow_list(ALL, after=changes.position(9)) as follower,
        pytest.raises(ResyncRequired),
    ):
        await follower.next(SOON)


async def test_a_position_of_another_bucket_is_lost(changes: RunHub) -> None:
    with (
        changes.follow_list(ALL, after=BucketPosition("0badcafe", 10)) as follower,
        pytest.raises(ResyncRequired),
    ):
        await follower.next(SOON)


async def test_a_client_that_is_ahead_of_this_gateway_is_not_told_what_it_knows(changes: RunHub) -> None:
    """It listed at another gateway, which had read more of the bucket."""
    with changes.follow_list(ALL, after=changes.position(12)) as follower:
        await changes.publish([changed(ONE, 11), changed(TWO, 12)])
        await changes.publish([changed(THREE, 13)])
        assert told(await follower.next(SOON)) == [(THREE, 13, True)]


async def test_what_a_list_is_told_is_found_once_for_all_who_follow_it(
    changes: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    matches, asked = RunFilter.matches, list[RunFilter]()

    def counted(self: RunFilter, *arguments: object) -> bool:
        asked.append(self)
        return matches(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(RunFilter, "matches", counted)
    with ExitStack() as stack:
        followers = [
            stack.enter_context(
                changes.follow_list(RunFilter(statuses=frozenset({"FAILED"})), after=changes.newest)
            )
            for _ in range(100)
        ]
        await changes.publish([changed(ONE, 11, FAILED)])
        news = [await follower.next(SOON) for follower in followers]
        assert told(news[0]) == [(ONE, 11, True)]
        assert all(each is news[0] for each in news)
    assert len(asked) == 2  # whether to wake them, and what to tell


async def test_when_the_bucket_was_replaced_everybody_begins_anew(changes: RunHub) -> None:
    with changes.follow_run(ONE) as one, changes.follow_list(ALL, after=changes.newest) as follower:
        changes.begin("2026-02-02T00:00:00Z", 0)
        assert await one.next(SOON) is None
        assert one.ended
        with pytest.raises(ResyncRequired):
            await follower.next(SOON)


async def test_who_follows_a_run_before_the_feed_has_begun_goes_on_when_it_begins() -> None:
    hub = RunHub()
    assert not hub.ready
    with hub.follow_run(ONE) as one:
        hub.begin("2026-01-01T00:00:00Z", 10)
        assert await one.next(AT_ONCE) is None
        assert not one.ended
        await hub.publish([changed(ONE, 11)])
        assert await one.next(SOON) is not None
    assert hub.ready


async def test_the_feed_hears_whether_anybody_follows(changes: RunHub) -> None:
    heard = list[bool]()
    changes.on_followed(heard.append)
    assert not changes.has_followers
    with changes.follow_run(ONE):
        assert (changes.has_followers, changes.has_list_followers, heard) == (True, False, [True])
        with changes.follow_run(ONE), changes.follow_list(ALL, after=changes.newest):
            assert (changes.has_list_followers, changes.followers) == (True, 3)
        assert (changes.has_list_followers, heard) == (False, [True])
    assert (changes.has_followers, changes.followers, heard) == (False, 0, [True, False])


async def test_a_crowd_is_woken_at_once_and_then_told_together_what_came_while_it_rested(
    changes: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = SetLoop()
    loop.advance(1)
    clock = SimpleNamespace(get_running_loop=lambda: loop, Event=asyncio.Event, timeout=asyncio.timeout)
    monkeypatch.setattr(followers, "asyncio", clock)
    with ExitStack() as stack:
        for _ in range(2000):
            of_run = stack.enter_context(changes.follow_run(ONE))
            of_list = stack.enter_context(changes.follow_list(ALL, after=changes.newest))
        await changes.publish([changed(ONE, 11)])
        first = await of_run.next(AT_ONCE)
        assert first is not None
        assert first.revision == 11
        assert told(await of_list.next(AT_ONCE)) == [(ONE, 11, True)]
        await changes.publish([changed(ONE, 12)])
        await changes.publish([changed(TWO, 13)])
        await changes.publish([changed(ONE, 14)])
        assert await of_run.next(AT_ONCE) is None
        assert await silent(of_list)
        # What nobody was told yet is not behind anybody.
        assert of_list.position == changes.position(11)
        loop.advance(2000 * followers._PAUSE_PER_FOLLOWER_SEC)
        newest = await of_run.next(SOON)
        assert newest is not None
        assert newest.revision == 14
        assert told(await of_list.next(SOON)) == [(TWO, 13, True), (ONE, 14, True)]
        assert of_list.position == changes.newest


async def test_memory_does_not_grow_behind_followers_that_never_read(changes: RunHub) -> None:
    runs = [new_run_id() for _ in range(50)]
    with ExitStack() as stack:
        for run_id in runs:
            stack.enter_context(changes.follow_run(run_id))
            stack.enter_context(changes.follow_list(ALL, after=changes.newest))

        async def publish_all(start: int) -> None:
            for revision in range(start, start + 2_000):
                await changes.publish([changed(runs[revision % 50], revision)])

        await publish_all(11)
        gc.collect()
        tracemalloc.start()
        await publish_all(2_011)
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    # The newest of each run replaced the one before; 2,000 changes with their data would be 2 MB and more.
    assert grown < 500_000


async def test_many_lists_leave_others_their_turn_and_nobody_is_said_to_know_what_it_has_not_heard(
    changes: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A millisecond for each look at the clock, however fast this machine is.
    ticks = itertools.count()
    monkeypatch.setattr(run_hub, "time", SimpleNamespace(monotonic=lambda: next(ticks) / 1000))
    last = RunFilter(q="at the end")
    with ExitStack() as stack:
        for number in range(300):
            wanted = RunFilter(q=f"nothing like {number}")
            stack.enter_context(changes.follow_list(wanted, after=changes.newest))
        follower = stack.enter_context(changes.follow_list(last, after=changes.newest))
        before = changes.newest
        batch = [changed(new_run_id(), 11 + n, flow="at the end", before=None) for n in range(300)]
        publishing = asyncio.create_task(changes.publish(batch))
        positions = []
        while not publishing.done():
            positions.append(follower.position)
            await asyncio.sleep(0)
        assert len(positions) > 10
        assert set(positions) == {before}
        assert len(told(await follower.next(SOON))) == 300
        assert follower.position == changes.newest
    assert changes.newest == changes.position(310)


async def test_a_run_that_vanished_ends_what_is_told_of_it_and_its_lists_are_read_again(
    changes: RunHub,
) -> None:
    known = changed(ONE, 11).summary
    assert known is not None
    with (
        changes.follow_run(ONE) as one,
        changes.follow_list(ALL, after=changes.newest) as of_all,
        changes.follow_list(RunFilter(flow="another"), after=changes.newest) as of_others,
    ):
        changes.publish_disappeared(11, known)
        gone = await one.next(SOON)
        assert gone is not None
        assert (gone.revision, gone.data) == (12, None)
        with pytest.raises(ResyncRequired):
            await of_all.next(SOON)
        assert await silent(of_others)


async def test_who_follows_a_run_is_not_told_what_is_older_than_what_it_heard(changes: RunHub) -> None:
    with changes.follow_run(ONE) as one:
        changes.publish_to_run_followers([changed(ONE, 12, COMPLETED), changed(ONE, 11, RUNNING)])
        newest = await one.next(SOON)
        assert newest is not None
        assert newest.revision == 12
