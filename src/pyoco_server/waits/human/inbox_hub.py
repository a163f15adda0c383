"""The hub of the inbox: notifies followers of each wait that opens or closes.

The newest changes are held once for all followers, and each follower holds its position. One that is too far
behind reads all open waits again.
"""

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.waits.wait_models import WaitState
from pyoco_server.runs.lifecycle.tenancy import visible_to
from pyoco_server.runs.watch.followers import (
    CachedEncodings,
    Follower,
    FollowerSet,
    ResyncRequired,
    Subscriptions,
)
from pyoco_server.runs.watch.recent_changes import BucketPosition, bucket_name
from pyoco_server.waits.index.wait_items import WaitItem

MAX_CHANGES: Final = 2_000


@dataclass(frozen=True, slots=True)
class InboxChange(CachedEncodings):
    revision: int
    # None when the wait was deleted.
    item: WaitItem | None
    # The wait before this change; None when there was none.
    before: WaitItem | None

    @property
    def last_item(self) -> WaitItem | None:
        return self.item or self.before

    @property
    def is_visible(self) -> bool:
        """False for the deletion of a closed wait, a flush of its outbox, and waits that ask nobody."""
        last = self.last_item
        if self.item == self.before or last is None or last.kind is not WaitKind.HUMAN:
            return False
        was_open = self.before is not None and self.before.state is WaitState.OPEN
        return self.item is not None or was_open

    @property
    def opened(self) -> bool:
        return self.item is not None and self.item.state is WaitState.OPEN


class InboxFollower(Follower):
    """Follows the open waits of one tenant (None: of all)."""

    def __init__(self, hub: "InboxHub", tenant: str | None) -> None:
        super().__init__()
        self._hub = hub
        self._tenant = tenant
        # Everything up to here is known; None: nothing is.
        self.position: BucketPosition | None = None

    async def next(self, within: float) -> list[InboxChange]:
        """The changes after its position, as soon as there are any; empty after the timeout."""
        changes = self._changes()
        if not changes and await self._wait(within):
            changes = self._changes()
        return changes

    def _changes(self) -> list[InboxChange]:
        self._changed.clear()
        changes = self._hub.after(self.position)
        if changes:
            self.position = self._hub.position(changes[-1].revision)
        return [
            change
            for change in changes
            if change.last_item is not None and visible_to(self._tenant, change.last_item.tenant_id)
        ]


class InboxHub:
    def __init__(self, *, max_changes: int = MAX_CHANGES) -> None:
        self._recent: deque[InboxChange] = deque()
        self._max_changes = max_changes
        self._bucket = ""
        # Every change after this revision is in `_recent`.
        self._oldest = 0
        self._tenants: Subscriptions[str | None, FollowerSet[InboxFollower]] = Subscriptions()

    @property
    def ready(self) -> bool:
        """Whether the feed is up to date, so that the inbox can be followed."""
        return bool(self._bucket)

    @property
    def followers(self) -> int:
        return self._tenants.followers

    def position(self, revision: int) -> BucketPosition:
        return BucketPosition(self._bucket, revision)

    def follow(self, tenant: str | None) -> AbstractContextManager[InboxFollower]:
        return self._tenants.following(
            tenant, FollowerSet[InboxFollower], lambda _: InboxFollower(self, tenant)
        )

    def begin(self, created: str, revision: int) -> None:
        """Start again: all followers have to read the open waits."""
        self._bucket = bucket_name(created)
        self._recent.clear()
        self._oldest = revision
        for followers in self._tenants.values():
            for follower in followers:
                follower.position = None
            followers.wake_now()

    def publish(self, batch: Sequence[InboxChange]) -> None:
        """Called by the feed after the index has stored the batch."""
        relevant = [change for change in batch if change.is_visible]
        for change in relevant:
            self._recent.append(change)
            if len(self._recent) > self._max_changes:
                self._oldest = self._recent.popleft().revision
        owners = {change.last_item.tenant_id for change in relevant if change.last_item is not None}
        for tenant, followers in self._tenants.items():
            if owners and (tenant is None or tenant in owners):
                followers.wake()

    def after(self, position: BucketPosition | None) -> list[InboxChange]:
        """The changes after the position, oldest first; ResyncRequired when they are not known."""
        # A position newer than all changes comes from a list, or from a gateway that has read further.
        if position is None or position.bucket != self._bucket or position.revision < self._oldest:
            raise ResyncRequired
        newer = takewhile(lambda change: change.revision > position.revision, reversed(self._recent))
        return list(newer)[::-1]
