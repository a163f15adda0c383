"""Following a filtered list of runs: who enters it or changes in it, and who leaves it.

All who want the same list are one audience: what they are to be told is found once, and nobody is woken for
changes of other runs.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from pyoco_server.runs.index.run_filter import RunFilter
from pyoco_server.runs.watch.cached_encodings import MadeOnce
from pyoco_server.runs.watch.follower_set import Crowd
from pyoco_server.runs.watch.recent_changes import Position, RecentChange, RecentChanges


@dataclass(frozen=True, slots=True)
class ListedChange:
    change: RecentChange
    # Whether the list has the run now; else it had it, perhaps.
    entered: bool


@dataclass(frozen=True, slots=True)
class ListNews(MadeOnce):
    """What changed in a list between two revisions; the newest of each run, oldest first."""

    changes: Sequence[ListedChange]
    # Everything up to here has been told with it.
    up_to: Position


class LostTrack(Exception):
    """What changed since is not known any more: the list has to be read again."""


class Audience(Crowd["ListFollower"]):
    """All who follow the list with one filter."""

    def __init__(self, wanted: RunFilter, recent: RecentChanges) -> None:
        super().__init__()
        self.recent = recent
        # Behind this revision there is something that they have not been woken for yet.
        self.unheard: int | None = None
        self._wanted = wanted
        # What was found last, with the revision behind which it was: the next one asks for the same.
        self._found: tuple[int, ListNews] | None = None

    @property
    def heard_to(self) -> int:
        """The revision up to which those who have been told all they were woken for know everything."""
        return self.recent.newest if self.unheard is None else self.unheard

    def expect(self, *, after: int) -> None:
        """There are changes behind the revision, which it hears next."""
        if self.unheard is None:
            self.unheard = after

    def hear(self, batch: Sequence[RecentChange], *, after: int) -> None:
        """Wake the followers if anything in it concerns their list."""
        if any(change.enters(self._wanted) or change.leaves(self._wanted, after) for change in batch):
            self.expect(after=after)
            self.wake()
        elif not self.is_waking:
            self.unheard = None

    def wake_now(self) -> None:
        super().wake_now()
        self.unheard = None

    def lose_track(self) -> None:
        """What was found is not all any more: each of them has to read the list again."""
        self._found = None
        for follower in self:
            follower.lose_track()

    def news(self, after: int) -> ListNews:
        """What changed behind the revision."""
        if not self.recent.reaches_back_to(after):
            raise LostTrack
        up_to = Position(self.recent.bucket, self.recent.newest)
        if self._found is not None and (self._found[0], self._found[1].up_to) == (after, up_to):
            return self._found[1]
        listed = [
            ListedChange(change, entered)
            for change in self.recent.behind(after)
            if (entered := change.enters(self._wanted)) or change.leaves(self._wanted, after)
        ]
        news = ListNews(listed, up_to)
        self._found = (after, news)
        return news


class ListFollower:
    """One who follows. It holds a revision, and nothing that grows."""

    def __init__(self, audience: Audience, *, after: int) -> None:
        self._audience = audience
        self._told_to = after
        self._lost = False
        self._stirred = asyncio.Event()
        if audience.recent.is_news_behind(after):
            self._stirred.set()

    @property
    def position(self) -> Position:
        """Up to where everything was told: while nothing stirs, there was nothing to tell."""
        revision = self._told_to
        if not self._stirred.is_set():
            revision = max(revision, self._audience.heard_to)
        return Position(self._audience.recent.bucket, revision)

    def wake(self) -> None:
        if not self._stirred.is_set():
            self._told_to = max(self._told_to, self._audience.heard_to)
            self._stirred.set()

    def lose_track(self) -> None:
        self._lost = True
        self._stirred.set()

    async def next(self, within: float) -> ListNews | None:
        """What changed since the last call, as soon as anything has; None after a silence of that length."""
        try:
            async with asyncio.timeout(within):
                await self._stirred.wait()
        except TimeoutError:
            return None
        if self._lost:
            raise LostTrack
        news = self._audience.news(self._told_to)
        self._told_to = max(self._told_to, news.up_to.revision)
        self._stirred.clear()
        return news
