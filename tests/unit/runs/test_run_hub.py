"""The hub of runs: followers get relevant changes only, and memory is bounded."""

import asyncio
import gc
import itertools
import tracemalloc
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from pyoco_server.records.runs.run_models import RunStatus, new_run_id
from pyoco_server.runs.index.search.run_filter import RunFilter
from pyoco_server.runs.watch import followers, run_hub
from pyoco_server.runs.watch.followers import ResyncRequired
from pyoco_server.runs.watch.recent_changes import MAX_RUNS, UNFOLLOWED_RUNS, BucketPosition
from pyoco_server.runs.watch.run_hub import ListChanges, ListFollower, RunChange, RunHub
from tests.support.clocks import FakeClockLoop
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


def entries(found: ListChanges | None) -> list[tuple[str, int, bool]]:
    """Run, revision, and whether the list has it."""
    assert found is not None
    return [(listed.change.run_id, listed.change.revision, listed.entered) for listed in found.changes]


async def silent(follower: ListFollower) -> bool:
    return await follower.next(AT_ONCE) is None


async def test_a_run_follower_gets_changes_of_its_run_only(changes: RunHub) -> None:
    with changes.follow_run(ONE) as one, changes.follow_run(TWO) as two:
        change = changed(ONE, 11)
        await changes.publish([change])
        assert await one.next(SOON) is change
        assert await two.next(AT_ONCE) is None
        assert await one.next(AT_ONCE) is None


async def test_all_followers_of_a_run_share_one_change(changes: RunHub) -> None:
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


async def test_a_slow_run_follower_gets_the_newest_change(changes: RunHub) -> None:
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
        assert entries(of_list) == [(ONE, 11, True)]


async def test_a_list_follower_gets_runs_that_enter_and_leave(changes: RunHub) -> None:
    with changes.follow_list(ONLY_RUNNING, after=changes.newest) as follower:
        await changes.publish([changed(ONE, 11, before=None)])
        assert await silent(follower)
        await changes.publish([changed(ONE, 12, RUNNING)])
        assert entries(await follower.next(SOON)) == [(ONE, 12, True)]
        await changes.publish([changed(ONE, 13, RUNNING)])
        assert entries(await follower.next(SOON)) == [(ONE, 13, True)]
        await changes.publish([changed(ONE, 14, COMPLETED)])
        assert entries(await follower.next(SOON)) == [(ONE, 14, False)]
        await changes.publish([changed(ONE, 15, COMPLETED)])
        await changes.publish([removed(ONE, 16)])
        assert await silent(follower)


async def test_a_listed_run_leaves_with_its_first_change(changes: RunHub) -> None:
    with changes.follow_list(ONLY_RUNNING, after=changes.newest) as follower:
        await changes.publish([changed(ONE, 11, COMPLETED, before=summary(RUNNING))])
        await changes.publish([removed(TWO, 12, before=summary(RUNNING))])
        await changes.publish([changed(THREE, 13, COMPLETED, before=summary(PENDING))])
        assert entries(await follower.next(SOON)) == [(ONE, 11, False), (TWO, 12, False)]


async def test_a_run_with_unknown_past_leaves(changes: RunHub) -> None:
    with changes.follow_list(ONLY_RUNNING, after=changes.newest) as follower:
        await changes.publish([changed(ONE, 11, COMPLETED)])
        assert entries(await follower.next(SOON)) == [(ONE, 11, False)]


async def test_runs_of_other_tenants_never_leave(changes: RunHub) -> None:
    """With an unknown past every run of the tenant may have left the list."""
    of_acme = changed(ONE, 11, COMPLETED, tenant="acme")
    lists = [RunFilter(tenant=tenant, statuses=frozenset({"RUNNING"})) for tenant in ("acme", "rival")]
    with (
        changes.follow_list(lists[0], after=changes.newest) as acme,
        changes.follow_list(lists[1], after=changes.newest) as rival,
    ):
        await changes.publish([of_acme])
        assert entries(await acme.next(SOON)) == [(ONE, 11, False)]
        assert await silent(rival)


async def test_the_tenant_of_a_removed_run_is_remembered(changes: RunHub) -> None:
    """It could not be decoded, then it was removed: the last known tenant was acme."""
    before = changed(ONE, 1, tenant="acme").summary
    beginning = changes.newest
    await changes.publish([RunChange(ONE, 11, b"not a run", before=before)])
    await changes.publish([removed(ONE, 12)])
    with changes.follow_list(RunFilter(tenant="acme"), after=beginning) as acme:
        assert entries(await acme.next(SOON)) == [(ONE, 12, False)]
    with changes.follow_list(RunFilter(tenant="rival"), after=beginning) as rival:
        assert entries(await rival.next(SOON)) == []


async def test_a_slow_follower_gets_the_leave_of_a_run_that_came_and_went(
    changes: RunHub,
) -> None:
    """It was RUNNING at the last read, and something else in between."""
    with changes.follow_list(ONLY_RUNNING, after=changes.newest) as follower:
        await changes.publish([changed(ONE, 11, RUNNING)])
        assert entries(await follower.next(SOON)) == [(ONE, 11, True)]
        await changes.publish([changed(ONE, 12, FAILED)])
        await changes.publish([changed(ONE, 13, COMPLETED)])
        assert entries(await follower.next(SOON)) == [(ONE, 13, False)]


async def test_a_lagging_follower_gets_the_newest_change_of_each_run(changes: RunHub) -> None:
    with changes.follow_list(ALL, after=changes.newest) as follower:
        await changes.publish([changed(ONE, 11), changed(TWO, 12)])
        await changes.publish([changed(ONE, 13, RUNNING)])
        await changes.publish([changed(THREE, 14), changed(ONE, 15, COMPLETED)])
        assert entries(await follower.next(SOON)) == [(TWO, 12, True), (THREE, 14, True), (ONE, 15, True)]
        assert await silent(follower)


async def test_a_follower_that_lags_too_far_has_to_resync(changes: RunHub) -> None:
    with changes.follow_list(ALL, after=changes.newest) as follower:
        for number in range(MAX_RUNS):
            await changes.publish([changed(new_run_id(), 11 + number)])
        assert len(entries(await follower.next(SOON))) == MAX_RUNS
        for number in range(MAX_RUNS + 1):
            await changes.publish([changed(new_run_id(), 11 + MAX_RUNS + number)])
        with pytest.raises(ResyncRequired):
            await follower.next(SOON)


async def test_fewer_changes_are_kept_while_no_list_is_followed(changes: RunHub) -> None:
    async def publish(count: int) -> BucketPosition:
        before = changes.newest
        for revision in range(before.revision + 1, before.revision + count + 1):
            await changes.publish([changed(new_run_id(), revision)])
        return before

    too_early, covered = await publish(UNFOLLOWED_RUNS), await publish(UNFOLLOWED_RUNS)
    with changes.follow_list(ALL, after=too_early) as late, pytest.raises(ResyncRequired):
        await late.next(SOON)
    with changes.follow_list(ALL, after=covered) as follower:
        assert len(entries(await follower.next(SOON))) == UNFOLLOWED_RUNS
        await publish(1)
    # It may come back.
    left_at = await publish(UNFOLLOWED_RUNS + 1)
    with changes.follow_list(ALL, after=left_at) as again:
        assert len(entries(await again.next(SOON))) == UNFOLLOWED_RUNS + 1


async def test_changes_are_dropped_some_time_after_the_last_follower(
    changes: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with changes.follow_list(ALL, after=changes.newest):
        for revision in range(11, 11 + 2 * UNFOLLOWED_RUNS):
            await changes.publish([changed(new_run_id(), revision)])
    left_at = BucketPosition(changes.newest.bucket, 11)
    monkeypatch.setattr(run_hub, "_RECONNECT_SEC", 0.0)
    await changes.publish([changed(ONE, 11 + 2 * UNFOLLOWED_RUNS)])
    with changes.follow_list(ALL, after=left_at) as again, pytest.raises(ResyncRequired):
        await again.next(SOON)


async def test_changes_of_other_runs_do_not_outdate_a_quiet_list(changes: RunHub) -> None:
    with changes.follow_list(ONLY_FAILED, after=changes.newest) as follower:
        last = 10
        for _ in range(2 * MAX_RUNS):
            last += 1
            await changes.publish([changed(new_run_id(), last, before=None)])
        assert follower.position == changes.newest
        await changes.publish([changed(ONE, last + 1, FAILED)])
        assert entries(await follower.next(SOON)) == [(ONE, last + 1, True)]


async def test_a_reconnected_client_gets_missed_changes(changes: RunHub) -> None:
    with changes.follow_list(ALL, after=changes.newest) as first:
        await changes.publish([changed(ONE, 11), changed(TWO, 12)])
        await first.next(SOON)
        left_at = first.position
    await changes.publish([changed(TWO, 13), changed(THREE, 14)])
    with changes.follow_list(ALL, after=left_at) as again:
        assert entries(await again.next(SOON)) == [(TWO, 13, True), (THREE, 14, True)]
        assert again.position == changes.position(14)


@pytest.mark.parametrize("bucket", [None, "0badcafe"], ids=["before the recent changes", "another bucket"])
async def test_a_position_that_is_not_known_requires_resync(changes: RunHub, bucket: str | None) -> None:
    position = changes.position(9) if bucket is None else BucketPosition(bucket, 10)
    with changes.follow_list(ALL, after=position) as follower, pytest.raises(ResyncRequired):
        await follower.next(SOON)


async def test_a_client_ahead_of_this_gateway_gets_no_old_changes(changes: RunHub) -> None:
    """It listed at another gateway, which had read more of the bucket."""
    with changes.follow_list(ALL, after=changes.position(12)) as follower:
        await changes.publish([changed(ONE, 11), changed(TWO, 12)])
        await changes.publish([changed(THREE, 13)])
        assert entries(await follower.next(SOON)) == [(THREE, 13, True)]


async def test_list_changes_are_computed_once_for_all_followers(
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
        found = [await follower.next(SOON) for follower in followers]
        assert entries(found[0]) == [(ONE, 11, True)]
        assert all(each is found[0] for each in found)
    assert len(asked) == 2  # whether to wake them, and what to tell


async def test_a_replaced_bucket_ends_all_followers(changes: RunHub) -> None:
    with changes.follow_run(ONE) as one, changes.follow_list(ALL, after=changes.newest) as follower:
        changes.begin("2026-02-02T00:00:00Z", 0)
        assert await one.next(SOON) is None
        assert one.ended
        with pytest.raises(ResyncRequired):
            await follower.next(SOON)


async def test_a_run_follower_survives_the_start_of_the_feed() -> None:
    hub = RunHub()
    assert not hub.ready
    with hub.follow_run(ONE) as one:
        hub.begin("2026-01-01T00:00:00Z", 10)
        assert await one.next(AT_ONCE) is None
        assert not one.ended
        await hub.publish([changed(ONE, 11)])
        assert await one.next(SOON) is not None
    assert hub.ready


async def test_the_feed_is_notified_of_first_and_last_follower(changes: RunHub) -> None:
    heard = list[bool]()
    changes.on_followed(heard.append)
    assert not changes.has_followers
    with changes.follow_run(ONE):
        assert (changes.has_followers, changes.has_list_followers, heard) == (True, False, [True])
        with changes.follow_run(ONE), changes.follow_list(ALL, after=changes.newest):
            assert (changes.has_list_followers, changes.followers) == (True, 3)
        assert (changes.has_list_followers, heard) == (False, [True])
    assert (changes.has_followers, changes.followers, heard) == (False, 0, [True, False])


async def test_many_followers_are_woken_once_per_pause(
    changes: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = FakeClockLoop()
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
        assert entries(await of_list.next(AT_ONCE)) == [(ONE, 11, True)]
        await changes.publish([changed(ONE, 12)])
        await changes.publish([changed(TWO, 13)])
        await changes.publish([changed(ONE, 14)])
        assert await of_run.next(AT_ONCE) is None
        assert await silent(of_list)
        # The position does not pass changes that were not delivered.
        assert of_list.position == changes.position(11)
        loop.advance(2000 * followers._PAUSE_PER_FOLLOWER_SEC)
        newest = await of_run.next(SOON)
        assert newest is not None
        assert newest.revision == 14
        assert entries(await of_list.next(SOON)) == [(TWO, 13, True), (ONE, 14, True)]
        assert of_list.position == changes.newest


async def test_memory_is_bounded_with_followers_that_never_read(changes: RunHub) -> None:
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


async def test_publishing_to_many_lists_yields_without_advancing_positions(
    changes: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A millisecond for each look at the clock, however fast this machine is.
    ticks = itertools.count()
    monkeypatch.setattr(run_hub, "time", SimpleNamespace(monotonic=lambda: next(ticks) / 1000))
    last = RunFilter(q="at the end")
    with ExitStack() as stack:
        for number in range(300):
            other = RunFilter(q=f"nothing like {number}")
            stack.enter_context(changes.follow_list(other, after=changes.newest))
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
        assert len(entries(await follower.next(SOON))) == 300
        assert follower.position == changes.newest
    assert changes.newest == changes.position(310)


async def test_a_disappeared_run_ends_its_followers_and_resyncs_its_lists(
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


async def test_a_run_follower_gets_no_older_change(changes: RunHub) -> None:
    with changes.follow_run(ONE) as one:
        changes.publish_to_run_followers([changed(ONE, 12, COMPLETED), changed(ONE, 11, RUNNING)])
        newest = await one.next(SOON)
        assert newest is not None
        assert newest.revision == 12
