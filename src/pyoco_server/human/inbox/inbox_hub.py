"""The hub of the inbox: fans out the changes of open waits to the followers of event streams.

The recent changes are stored once for all followers; each follower has its position in them. One whose
position is too old has to list the open waits again.
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

MAX_CHANGES: Final = 2_000


class InboxPositionLost(Exception):
    """The changes since the position are not known: the open waits have to be listed again."""


@dataclass(frozen=True, slots=True)
class InboxChange(MadeOnce):
    """One write to the bucket of waits."""

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
    def is_visible(self) -> bool:
        """Whether it changes the inbox: removing a decided wait does not, nor does emptying an outbox."""
        if self.item == self.before:
            return False
        was_open = self.before is not None and self.before.state is WaitState.OPEN
        return self.item is not None or was_open

    @property
    def opened(self) -> bool:
        return self.item is not None and self.item.state is WaitState.OPEN


class InboxFollower:
    """Follows the open waits of one tenant (None: of all)."""

    def __init__(self, inbox: "Inbox", tenant: str | None) -> None:
        self._inbox = inbox
        self._tenant = tenant
        self._changed = asyncio.Event()
        # It has read everything up to here.
        self.position: Position | None = None

    def wake(self) -> None:
        self._changed.set()

    async def next(self, within: float) -> list[InboxChange]:
        """The changes after its position, as soon as there are any; empty after a timeout."""
        if not (changes := self._read()):
            try:
                async with asyncio.timeout(within):
                    await self._changed.wait()
            except TimeoutError:
                return []
            changes = self._read()
        return changes

    def _read(self) -> list[InboxChange]:
        self._changed.clear()
        changes = self._inbox.since(self.position)
        if changes:
            self.position = self._inbox.position(changes[-1].revision)
        return [
            change
            for change in changes
            if change.known is not None and visible_to(self._tenant, change.known.tenant_id)
        ]


class Inbox:
    def __init__(self, *, max_changes: int = MAX_CHANGES) -> None:
        self._recent: deque[InboxChange] = deque()
        self._max_changes = max_changes
        self._bucket = ""
        # All published changes after this revision are in `_recent`.
        self._oldest = 0
        self._crowds: dict[str | None, Crowd[InboxFollower]] = {}

    @property
    def begun(self) -> bool:
        """Whether the feed has caught up, so that it can be followed."""
        return bool(self._bucket)

    @property
    def followers(self) -> int:
        return sum(map(len, self._crowds.values()))

    def position(self, revision: int) -> Position:
        """The revision as clients know it."""
        return Position(self._bucket, revision)

    def begin(self, created: str, revision: int) -> None:
        """Start over: all followers have to list the open waits again."""
        self._bucket = bucket_name(created)
        self._recent.clear()
        self._oldest = revision
        for crowd in self._crowds.values():
            for follower in crowd:
                follower.position = None
            crowd.wake_now()

    def publish(self, batch: Sequence[InboxChange]) -> None:
        """Called by the feed after the index has stored the batch."""
        visible = [change for change in batch if change.is_visible]
        for change in visible:
            self._recent.append(change)
            if len(self._recent) > self._max_changes:
                self._oldest = self._recent.popleft().revision
        owners = {change.known.tenant_id for change in visible if change.known is not None}
        for tenant, crowd in self._crowds.items():
            if owners and (tenant is None or tenant in owners):
                crowd.wake()

    def since(self, position: Position | None) -> list[InboxChange]:
        """The changes after the position, oldest first; InboxPositionLost when they are not known."""
        # A later position than all of these is of a list, or of another gateway.
        if position is None or position.bucket != self._bucket or position.revision < self._oldest:
            raise InboxPositionLost
        newer = takewhile(lambda change: change.revision > position.revision, reversed(self._recent))
        return list(newer)[::-1]

    @contextmanager
    def following(self, tenant: str | None) -> Iterator[InboxFollower]:
        """Follow the changes that are published inside the block."""
        crowd = self._crowds.setdefault(tenant, Crowd())
        follower = InboxFollower(self, tenant)
        crowd.join(follower)
        try:
            yield follower
        finally:
            crowd.leave(follower)
            if not crowd:
                del self._crowds[tenant]
