"""Lists of waits as of now: the index, after it has caught up with the bucket."""

from msgspec import Raw

from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.human.inbox.wait_index import OpenWaits, WaitIndex, WaitPage
from pyoco_server.human.inbox.wait_items import WaitFilter
from pyoco_server.runs.index.index_feed import CatchUp
from pyoco_server.runs.index.pagination import SortKey


class WaitLists:
    """Each read first waits, for a limited time, until the index has caught up."""

    def __init__(self, index: WaitIndex, feed: BucketFeed) -> None:
        self._index = index
        self._catch_up = CatchUp(
            index, feed, lambda: f"{index.entries} waits are read, at most {feed.behind} are to come"
        )

    async def caught_up(self) -> None:
        """IndexNotReady while the index is being filled."""
        await self._catch_up.wait()

    async def page(self, wanted: WaitFilter, *, limit: int, after: SortKey | None = None) -> WaitPage:
        await self.caught_up()
        return await self._index.list(wanted, limit=limit, after=after)

    async def all_open(self, tenant: str | None) -> tuple[list[Raw], int]:
        """The open waits, and as of which revision."""
        await self.caught_up()
        return await self._index.all_open(tenant)

    async def open_of(self, tenant: str | None) -> OpenWaits:
        """How many are open, and since when; IndexNotReady at once while the index is filled."""
        await self._catch_up.wait_if_ready()
        return await self._index.open_of(tenant)
