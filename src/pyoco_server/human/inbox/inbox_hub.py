"""The hub behind the inbox: who follows the open waits is told of each that opens or closes, at once.

Nobody polls, and nothing is kept for anybody: a follower knows how far it has read, and the newest changes
are here once for all. Who was away for longer than these reach back reads all that is open once more.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from pyoco_server.human.inbox.wait_items import WaitItem
from pyoco_server.records.wait_models import WaitState
from pyoco_server.runs.lifecycle.tenancy import visible_to
from pyoco_server.runs.watch.cached_encodings import MadeOnce
from pyoco_server.runs.watch.follower_set import Crowd
from pyoco_server.runs.watch.recent_changes import Position, bucket_name

MOST_CHANGES: Final = 2_000


class LostTrack(Exception):
    """What changed since is not known any more: all that is open has to be read again."""


@dataclass(frozen=True, slots=True)
class InboxChange(MadeOnce):
    """One write to the bucket of waits, as it was stored."""

    revision: int
    # None when the wait was removed.
    item: WaitItem | None
    # The wait before this change; None when there was none.
    before: WaitItem | None

    @property
    def known(self) -> WaitItem | None:
        """The wait as it was last seen."""
        return self.item or self.before

    @property
    def tells(self) -> bool:
        """Whether it changes what is open: removing a decided wait does not, nor does emptying its outbox."""
        if self.item == self.before:
            return False
        was_open = self.before is not None and self.before.state is WaitState.OPEN
        return self.item is not None or was_open

    @property
    def opened(self) -> bool:
        return self.item is not None and self.item.state is WaitState.OPEN


class InboxFollower:
    """One who follows what one tenant (None: everybody) has open."""

    def __init__(self, inbox: "Inbox", tenant: str | None) -> None:
        self._inbox = inbox
        self._tenant = tenant
        self._stirred = asyncio.Event()
        # Everything up to here is known to it.
        self.position: Position | None = None

    def wake(self) -> None:
        self._stirred.set()

    async def next(self, within: float) -> list[InboxChange]:
        """What changed behind its position, as soon as there is something; nothing after such a silence.

        LostTrack when that cannot be told.
        """
        if not (news := self._news()):
            try:
                async with asyncio.timeout(within):
                    await self._stirred.wait()
            except TimeoutError:
                return []
            news = self._news()
        return news

    def _news(self) -> list[InboxChange]:
        self._stirred.clear()
        changes = self._inbox.behind(self.position)
        if changes:
            self.position = self._inbox.position(changes[-1].revision)
        return [
            change
            for change in changes
            if change.known is not None and visible_to(self._tenant, change.known.tenant_id)
        ]


class Inbox:
    """Passes changes on from the feed to those who follow."""

    def __init__(self, *, most_changes: int = MOST_CHANGES) -> None:
        self._recent: deque[InboxChange] = deque()
        self._most_changes = most_changes
        self._bucket = ""
        # Every change behind `oldest` that was published is here.
        self._oldest = 0
        self._crowds: dict[str | None, Crowd[InboxFollower]] = {}

    @property
    def begun(self) -> bool:
        """Whether the feed is up to date, so that it can be followed."""
        return bool(self._bucket)

    @property
    def followers(self) -> int:
        return sum(map(len, self._crowds.values()))

    def position(self, revision: int) -> Position:
        """The revision as clients know it."""
        return Position(self._bucket, revision)

    def begin(self, created: str, revision: int) -> None:
        """What was told before does not lead here: everybody has to read again what is open."""
        self._bucket = bucket_name(created)
        self._recent.clear()
        self._oldest = revision
        for crowd in self._crowds.values():
            for follower in crowd:
                follower.position = None
            crowd.wake_now()

    def publish(self, batch: Sequence[InboxChange]) -> None:
        """Called by the feed with what it has read and the index has stored."""
        telling = [change for change in batch if change.tells]
        for change in telling:
            self._recent.append(change)
            if len(self._recent) > self._most_changes:
                self._oldest = self._recent.popleft().revision
        owners = {change.known.tenant_id for change in telling if change.known is not None}
        for tenant, crowd in self._crowds.items():
            if owners and (tenant is None or tenant in owners):
                crowd.wake()

    def behind(self, position: Position | None) -> list[InboxChange]:
        """What changed behind the position, oldest first; LostTrack when that is not known."""
        # One that is further than all this is of a list, or of a gateway, that knows more than was told here.
        if position is None or position.bucket != self._bucket or position.revision < self._oldest:
            raise LostTrack
        newer = takewhile(lambda change: change.revision > position.revision, reversed(self._recent))
        return list(newer)[::-1]

    @contextmanager
    def following(self, tenant: str | None) -> Iterator[InboxFollower]:
        """Hear of every change that is published inside the block."""
        crowd = self._crowds.setdefault(tenant, Crowd())
        follower = InboxFollower(self, tenant)
        crowd.join(follower)
        try:
            yield follower
        finally:
            crowd.leave(follower)
            if not crowd:
                del self._crowds[tenant]
