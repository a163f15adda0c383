"""The hub between the runs feed of a gateway and the followers of runs and lists.

A change of one run costs nothing for followers of others. Nothing is queued for a slow follower: it gets the
newest change of a run, or the changes of a list since its position.
"""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from pyoco_server.runs.index.run_summary import RunSummary
from pyoco_server.runs.index.search.run_filter import RunFilter
from pyoco_server.runs.watch.followers import (
    CachedEncodings,
    Follower,
    FollowerSet,
    ResyncRequired,
    Subscriptions,
)
from pyoco_server.runs.watch.recent_changes import (
    MAX_RUNS,
    UNFOLLOWED_RUNS,
    UNKNOWN,
    Before,
    BucketPosition,
    RecentChange,
    RecentChanges,
    bucket_name,
)

# The event loop gets a turn after this much work for followers of lists.
_TURN_SEC: Final = 0.005
# A follower that is back within this time finds the changes that it has missed.
_RECONNECT_SEC: Final = 60.0


@dataclass(frozen=True, slots=True)
class RunChange(CachedEncodings):
    """One write to the runs bucket."""

    run_id: str
    revision: int
    # The snapshot as JSON; None when the run was deleted.
    data: bytes | None
    # None when the run was deleted, or cannot be decoded.
    summary: RunSummary | None = None
    # The run before this change; None when there was none.
    before: Before = UNKNOWN


class RunFollowers(FollowerSet["RunFollower"]):
    """The followers of one run, with its newest change."""

    def __init__(self) -> None:
        super().__init__()
        self.newest: RunChange | None = None
        self.ended = False

    def publish(self, change: RunChange) -> None:
        # While an index is rebuilt, old changes are read again.
        if self.newest is None or change.revision > self.newest.revision:
            self.newest = change
            self.wake()

    def end(self) -> None:
        self.ended = True
        self.wake_now()


class RunFollower(Follower):
    def __init__(self, run: RunFollowers) -> None:
        super().__init__()
        self._run = run

    @property
    def ended(self) -> bool:
        """Whether no more changes will come."""
        return self._run.ended

    async def next(self, within: float) -> RunChange | None:
        """The newest change, as soon as there is one; None after the timeout or when `ended`."""
        if not await self._wait(within):
            return None
        self._changed.clear()
        return None if self.ended else self._run.newest


@dataclass(frozen=True, slots=True)
class ListedChange:
    change: RecentChange
    # Whether the list has the run now; if not, it may have had it.
    entered: bool


@dataclass(frozen=True, slots=True)
class ListChanges(CachedEncodings):
    """The changes of a list between two revisions: the newest of each run, oldest first."""

    changes: Sequence[ListedChange]
    up_to: BucketPosition


class ListFollowers(FollowerSet["ListFollower"]):
    """The followers of the list with one filter; its changes are computed once for all of them."""

    def __init__(self, run_filter: RunFilter, recent: RecentChanges) -> None:
        super().__init__()
        self.recent = recent
        # After this revision there are changes that the followers were not woken for yet.
        self._pending_after: int | None = None
        self._filter = run_filter
        # What was computed last, and after which revision: the next follower needs the same.
        self._cached: tuple[int, ListChanges] | None = None

    @property
    def notified_to(self) -> int:
        """The revision up to which a follower without a pending wake-up knows everything."""
        return self.recent.newest if self._pending_after is None else self._pending_after

    def announce(self, *, after: int) -> None:
        """There are changes after the revision, which are published next."""
        if self._pending_after is None:
            self._pending_after = after

    def publish(self, batch: Sequence[RecentChange], *, after: int) -> None:
        """Wake the followers if the batch changes their list."""
        if any(change.enters(self._filter) or change.leaves(self._filter, after) for change in batch):
            self.announce(after=after)
            self.wake()
        elif not self.wake_scheduled:
            self._pending_after = None

    def wake_now(self) -> None:
        super().wake_now()
        self._pending_after = None

    def require_resync(self) -> None:
        self._cached = None
        for follower in self:
            follower.require_resync()

    def changes(self, after: int) -> ListChanges:
        if not self.recent.covers(after):
            raise ResyncRequired
        up_to = BucketPosition(self.recent.bucket, self.recent.newest)
        if self._cached is not None and (self._cached[0], self._cached[1].up_to) == (after, up_to):
            return self._cached[1]
        listed = [
            ListedChange(change, entered)
            for change in self.recent.after(after)
            if (entered := change.enters(self._filter)) or change.leaves(self._filter, after)
        ]
        changes = ListChanges(listed, up_to)
        self._cached = (after, changes)
        return changes


class ListFollower(Follower):
    def __init__(self, followers: ListFollowers, *, after: int) -> None:
        super().__init__()
        self._list = followers
        self._revision = after
        self._resync = False
        if followers.recent.has_changes_after(after):
            self._changed.set()

    @property
    def position(self) -> BucketPosition:
        """Everything up to here was delivered, or did not concern the list."""
        revision = self._revision
        if not self._changed.is_set():
            revision = max(revision, self._list.notified_to)
        return BucketPosition(self._list.recent.bucket, revision)

    def wake(self) -> None:
        if not self._changed.is_set():
            self._revision = max(self._revision, self._list.notified_to)
            self._changed.set()

    def require_resync(self) -> None:
        self._resync = True
        self._changed.set()

    async def next(self, within: float) -> ListChanges | None:
        """The changes since the last call, as soon as there are any; None after the timeout."""
        if not await self._wait(within):
            return None
        if self._resync:
            raise ResyncRequired
        changes = self._list.changes(self._revision)
        self._revision = max(self._revision, changes.up_to.revision)
        self._changed.clear()
        return changes


class RunHub:
    """Callbacks are called in the event loop."""

    def __init__(self) -> None:
        self._recent = RecentChanges()
        self._runs: Subscriptions[str, RunFollowers] = Subscriptions(self._followers_changed)
        self._lists: Subscriptions[RunFilter, ListFollowers] = Subscriptions(self._followers_changed)
        self._had_followers = False
        # When a list was last followed, by the monotonic clock.
        self._followed_at = -math.inf
        self._on_followed: list[Callable[[bool], None]] = []
        self._on_begin: list[Callable[[], None]] = []
        self._on_changes: list[Callable[[Sequence[RunChange]], None]] = []

    @property
    def has_followers(self) -> bool:
        return bool(self._runs or self._lists)

    @property
    def has_list_followers(self) -> bool:
        """Only these need to know what a run was before its change."""
        return bool(self._lists)

    @property
    def followers(self) -> int:
        return self._runs.followers + self._lists.followers

    @property
    def ready(self) -> bool:
        """Whether the feed is up to date, so that lists can be followed."""
        return bool(self._recent.bucket)

    @property
    def newest(self) -> BucketPosition:
        return self.position(self._recent.newest)

    def position(self, revision: int) -> BucketPosition:
        return BucketPosition(self._recent.bucket, revision)

    def on_followed(self, callback: Callable[[bool], None]) -> None:
        """Register a callback: called when the first follower joins (True) or the last one leaves (False)."""
        self._on_followed.append(callback)

    def on_begin(self, callback: Callable[[], None]) -> None:
        """Register a callback: called when everything stored before the first published batch is known."""
        self._on_begin.append(callback)

    def on_changes(self, callback: Callable[[Sequence[RunChange]], None]) -> None:
        """Register a callback: called with every published batch; this does not count as a follower."""
        self._on_changes.append(callback)

    def follow_run(self, run_id: str) -> AbstractContextManager[RunFollower]:
        return self._runs.following(run_id, RunFollowers, RunFollower)

    def follow_list(
        self, run_filter: RunFilter, *, after: BucketPosition
    ) -> AbstractContextManager[ListFollower]:
        """Follow the changes of the list after the position."""

        def new_follower(followers: ListFollowers) -> ListFollower:
            follower = ListFollower(followers, after=after.revision)
            if after.bucket != self._recent.bucket:
                follower.require_resync()
            return follower

        self._followed_at = time.monotonic()
        return self._lists.following(
            run_filter, lambda: ListFollowers(run_filter, self._recent), new_follower
        )

    def begin(self, created: str, revision: int) -> None:
        """Every later change of the bucket created at that time will be published."""
        bucket, before = bucket_name(created), self._recent.bucket
        self._recent.begin(bucket, revision)
        for callback in self._on_begin:
            callback()
        if before not in ("", bucket):
            self._end_run_followers()
        self._require_resync()

    def stream_truncated(self) -> None:
        """The bucket lost its newest messages, and revisions that were reported are used again."""
        self._end_run_followers()
        self._require_resync()

    def publish_to_run_followers(self, batch: Sequence[RunChange]) -> None:
        for change in batch:
            if followers := self._runs.get(change.run_id):
                followers.publish(change)

    def publish_disappeared(self, revision: int, summary: RunSummary) -> None:
        """The run, last written with this revision, disappeared without a delete marker."""
        # The next revision, so that it is newer than the last change.
        self.publish_to_run_followers([RunChange(summary.item.run_id, revision + 1, None, before=summary)])
        if self.ready:
            self._recent.add_disappeared(summary)
        for run_filter, followers in self._lists.items():
            if run_filter.matches(summary):
                followers.require_resync()

    async def publish(self, batch: Sequence[RunChange]) -> None:
        """Called by the feed after the index has stored the batch; calls must not overlap."""
        self.publish_to_run_followers(batch)
        if not self.ready:
            return
        for callback in self._on_changes:
            callback(batch)
        if self._lists:
            self._followed_at = time.monotonic()
        is_followed = time.monotonic() - self._followed_at < _RECONNECT_SEC
        self._recent.max_runs = MAX_RUNS if is_followed else UNFOLLOWED_RUNS
        after = self._recent.newest
        recent = [
            self._recent.add(change.run_id, change.revision, change.summary, change.before)
            for change in batch
        ]
        lists = list(self._lists.values())
        for followers in lists:
            followers.announce(after=after)
        turn_started = time.monotonic()
        for followers in lists:
            followers.publish(recent, after=after)
            if time.monotonic() - turn_started > _TURN_SEC:
                # With many lists all this takes seconds.
                await asyncio.sleep(0)
                turn_started = time.monotonic()

    def _end_run_followers(self) -> None:
        for followers in self._runs.values():
            followers.end()

    def _require_resync(self) -> None:
        for followers in self._lists.values():
            followers.require_resync()

    def _followers_changed(self) -> None:
        if self._had_followers is not self.has_followers:
            self._had_followers = self.has_followers
            for callback in self._on_followed:
                callback(self.has_followers)
