"""Lists of waits from the index, after it has caught up with the bucket."""

from msgspec import Raw

from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.human.inbox.wait_index import OpenWaits, WaitIndex, WaitPage
from pyoco_server.human.inbox.wait_items import WaitFilter
from pyoco_server.runs.index.catch_up import Freshness
from pyoco_server.runs.index.sorting import Place


class WaitLists:
    """A wait that was decided before a request is not listed as open in its response."""

    def __init__(self, index: WaitIndex, feed: BucketFeed) -> None:
        self._index = index
        self._fresh = Freshness(
            index, feed, lambda: f"{index.waits} waits are read, at most {feed.behind} are left"
        )

    async def caught_up(self) -> None:
        """Wait until everything stored before is indexed; IndexNotReady while the index is being built."""
        await self._fresh.caught_up()

    async def page(self, wanted: WaitFilter, *, limit: int, after: Place | None = None) -> WaitPage:
        await self.caught_up()
        return await self._index.list(wanted, limit=limit, after=after)

    async def all_open(self, tenant: str | None) -> tuple[list[Raw], int]:
        """The open waits, and as of which revision."""
        await self.caught_up()
        return await self._index.all_open(tenant)

    async def open_of(self, tenant: str | None) -> OpenWaits:
        """How many are open, and since when; does not wait for an index that is being built."""
        await self._fresh.caught_up_if_made()
        return await self._index.open_of(tenant)
