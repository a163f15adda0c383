"""The hub between the one feed of a gateway and all who follow runs: each is told what was stored, at once.

A change of a run costs nothing for those who follow others. Nothing piles up behind a slow follower: of one
run it gets the newest change, of a list what it can catch up with.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyoco_server.runs.index.run_filter import RunFilter
from pyoco_server.runs.index.run_summary import RunSummary
from pyoco_server.runs.watch.cached_encodings import MadeOnce
from pyoco_server.runs.watch.follower_set import Crowd
from pyoco_server.runs.watch.list_following import Audience, ListFollower
from pyoco_server.runs.watch.recent_changes import UNKNOWN, Before, Position, RecentChanges, bucket_name

# After so much work for those who follow lists, everybody else gets a turn.
_TURN_SEC: Final = 0.005


@dataclass(frozen=True, slots=True)
class RunChange(MadeOnce):
    """One write to the runs bucket, as it was stored."""

    run_id: str
    revision: int
    # The snapshot as JSON; None when the run was removed.
    data: bytes | None
    # The same as a list has it; None when the run was removed, or cannot be read.
    summary: RunSummary | None = None
    # The run before this change, where that is known; None when there was none.
    before: Before = UNKNOWN


class RunAudience(Crowd["RunFollower"]):
    """All who follow one run. It holds the newest change; nothing else is kept for those who are slow."""

    def __init__(self) -> None:
        super().__init__()
        self.newest: RunChange | None = None
        # Nothing more will be told.
        self.over = False

    def hear(self, change: RunChange) -> None:
        # While an index is made anew, old changes are read once more.
        if self.newest is None or change.revision > self.newest.revision:
            self.newest = change
            self.wake()

    def end(self) -> None:
        self.over = True
        self.wake_now()


class RunFollower:
    """One who follows one run."""

    def __init__(self, audience: RunAudience) -> None:
        self._audience = audience
        self._stirred = asyncio.Event()

    @property
    def over(self) -> bool:
        return self._audience.over

    def wake(self) -> None:
        self._stirred.set()

    async def next(self, within: float) -> RunChange | None:
        """The newest change, as soon as there is one; None after a silence of that length, or when over."""
        try:
            async with asyncio.timeout(within):
                await self._stirred.wait()
        except TimeoutError:
            return None
        self._stirred.clear()
        return None if self.over else self._audience.newest


class RunChanges:
    """Passes changes on from the feed to those who follow."""

    def __init__(self) -> None:
        self._recent = RecentChanges()
        self._runs: dict[str, RunAudience] = {}
        self._lists: dict[RunFilter, Audience] = {}
        self._on_live: list[Callable[[bool], None]] = []
        self._on_begin: list[Callable[[], None]] = []
        self._on_changes: list[Callable[[Sequence[RunChange]], None]] = []

    @property
    def live(self) -> bool:
        """Whether anybody follows: only then the feed has to hear of a change at once."""
        return bool(self._runs or self._lists)

    @property
    def listening(self) -> bool:
        """Whether anybody follows a list, and so wants to know what a run was before it changed."""
        return bool(self._lists)

    @property
    def followers(self) -> int:
        return sum(map(len, self._lists.values())) + sum(map(len, self._runs.values()))

    @property
    def begun(self) -> bool:
        """Whether the feed is up to date, so that lists can be followed."""
        return bool(self._recent.bucket)

    @property
    def newest(self) -> Position:
        return self.position(self._recent.newest)

    def on_live(self, callback: Callable[[bool], None]) -> None:
        """Have it called, in the event loop, when the first follower comes and when the last one leaves."""
        self._on_live.append(callback)

    def on_begin(self, callback: Callable[[], None]) -> None:
        """Have it called, in the event loop, when all is known that was stored before the first batch."""
        self._on_begin.append(callback)

    def on_changes(self, callback: Callable[[Sequence[RunChange]], None]) -> None:
        """Have it called, in the event loop, with every batch; the feed need not hurry for its sake."""
        self._on_changes.append(callback)

    def begin(self, created: str, revision: int) -> None:
        """From here on every change behind this revision is published, of the bucket made at that time."""
        bucket, before = bucket_name(created), self._recent.bucket
        self._recent.begin(bucket, revision)
        for callback in self._on_begin:
            callback()
        if before not in ("", bucket):
            for watched in self._runs.values():
                watched.end()
        for audience in self._lists.values():
            audience.lose_track()

    def went_back(self) -> None:
        """The bucket lost its newest messages, and revisions that were reported are used again."""
        for watched in self._runs.values():
            watched.end()
        for audience in self._lists.values():
            audience.lose_track()

    def tell_runs(self, batch: Sequence[RunChange]) -> None:
        """Tell only those who follow one run; it may be old what they hear."""
        for change in batch:
            if watched := self._runs.get(change.run_id):
                watched.hear(change)

    def vanished(self, revision: int, summary: RunSummary) -> None:
        """The run, last written with this revision, is gone, and no write says so."""
        run_id = summary.item.run_id
        # Behind what was told of it last.
        self.tell_runs([RunChange(run_id, revision + 1, None, before=summary)])
        if self.begun:
            self._recent.add_vanished(summary)
        for wanted, audience in self._lists.items():
            if wanted.matches(summary):
                audience.lose_track()

    async def publish(self, batch: Sequence[RunChange]) -> None:
        """Called by the feed with what it has read and the index has stored; one call after the other."""
        self.tell_runs(batch)
        if not self.begun:
            return
        for callback in self._on_changes:
            callback(batch)
        after = self._recent.newest
        recent = [
            self._recent.add(change.run_id, change.revision, change.summary, change.before)
            for change in batch
        ]
        audiences = list(self._lists.values())
        for audience in audiences:
            audience.expect(after=after)
        began = time.monotonic()
        for audience in audiences:
            audience.hear(recent, after=after)
            if time.monotonic() - began > _TURN_SEC:
                # With many lists all this takes seconds.
                await asyncio.sleep(0)
                began = time.monotonic()

    def position(self, revision: int) -> Position:
        """The revision as clients know it."""
        return Position(self._recent.bucket, revision)

    @contextmanager
    def following_run(self, run_id: str) -> Iterator[RunFollower]:
        """Hear of every change of the run that is published inside the block."""
        was_live = self.live
        audience = self._runs.setdefault(run_id, RunAudience())
        follower = RunFollower(audience)
        audience.join(follower)
        self._tell_live(was_live)
        try:
            yield follower
        finally:
            audience.leave(follower)
            if not audience:
                del self._runs[run_id]
            self._tell_live(was_live=True)

    @contextmanager
    def following_list(self, wanted: RunFilter, *, after: Position) -> Iterator[ListFollower]:
        """Hear of every change in the list behind the position."""
        was_live = self.live
        audience = self._lists.setdefault(wanted, Audience(wanted, self._recent))
        follower = ListFollower(audience, after=after.revision)
        if after.bucket != self._recent.bucket:
            follower.lose_track()
        audience.join(follower)
        self._tell_live(was_live)
        try:
            yield follower
        finally:
            audience.leave(follower)
            if not audience:
                del self._lists[wanted]
            self._tell_live(was_live=True)

    def _tell_live(self, was_live: bool) -> None:
        if self.live is not was_live:
            for callback in self._on_live:
                callback(self.live)
