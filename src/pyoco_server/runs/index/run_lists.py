"""Lists of runs as of now: the index, after it has caught up with the bucket."""

from collections.abc import Iterable

from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.runs.index.activity import Activity, Span
from pyoco_server.runs.index.catch_up import Freshness
from pyoco_server.runs.index.run_filter import RunFilter
from pyoco_server.runs.index.run_index import Page, Place, RunIndex, Sort


class RunLists:
    """Every question waits until all is known that was stored before it was asked; but not for long."""

    def __init__(self, index: RunIndex, feed: BucketFeed) -> None:
        self._index = index
        self._feed = feed
        self._fresh = Freshness(index, feed, lambda: self.progress)

    @property
    def ready(self) -> bool:
        return self._index.ready

    async def page(
        self,
        wanted: RunFilter,
        sort: Sort | None = None,
        *,
        limit: int,
        after: Place | None = None,
        total: bool = False,
    ) -> Page:
        await self.caught_up()
        return await self._index.page(wanted, sort, limit=limit, after=after, total=total)

    async def ids(self, wanted: RunFilter, *, limit: int) -> list[str]:
        """The runs that were updated last."""
        await self.caught_up()
        return await self._index.ids(wanted, limit=limit)

    async def count(self, wanted: RunFilter, *, at_most: int) -> int:
        """How many there are, counted no further than that."""
        await self.caught_up()
        return await self._index.count(wanted, at_most=at_most)

    async def counts(self, tenant: str | None = None) -> dict[tuple[str, str, str], int]:
        """How many runs a tenant has, or all of them, by flow, tag and status.

        No waiting for an index that is being made.
        """
        await self._fresh.caught_up_if_made()
        return await self._index.counts(tenant)

    async def activity(self, tenant: str | None, span: Span, *, flows: int) -> Activity:
        """How the runs of a tenant, or all of them, ended lately."""
        await self.caught_up()
        return await self._index.activity(tenant, span, flows=flows)

    async def of_tenant(self, run_ids: Iterable[str], tenant: str) -> frozenset[str]:
        """Which of these runs are the tenant's; no waiting for an index that is being made."""
        asked = set(run_ids)
        tenants = await self._index.tenants_of(asked) if asked and self._index.ready else {}
        if asked - tenants.keys():
            # Only what is not known yet is worth a question to NATS.
            await self._fresh.caught_up_if_made()
            tenants = await self._index.tenants_of(asked)
        return frozenset(run_id for run_id, owner in tenants.items() if owner == tenant)

    async def caught_up(self) -> None:
        """Wait until all is known that was stored before; IndexNotReady while the index is being filled."""
        await self._fresh.caught_up()

    @property
    def progress(self) -> str:
        return f"{self._index.runs} runs are read, at most {self._feed.behind} are to come"
