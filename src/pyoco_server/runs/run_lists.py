"""Lists of runs as of now: the index, after it has caught up with the bucket."""

import asyncio
from collections.abc import Iterable
from typing import Final

from pyoco_server.broker.run_feed import RunFeed
from pyoco_server.errors import IndexNotReady
from pyoco_server.runs.index import Page, Place, RunIndex, Sort
from pyoco_server.runs.run_filter import RunFilter

# Longer than a gateway needs that has kept its index.
_PATIENCE_SEC: Final = 1.0


class RunLists:
    """Every question waits until all is known that was stored before it was asked; but not for long."""

    def __init__(self, index: RunIndex, feed: RunFeed) -> None:
        self._index = index
        self._feed = feed

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
        await self._caught_up_if_made()
        return await self._index.counts(tenant)

    async def of_tenant(self, run_ids: Iterable[str], tenant: str) -> frozenset[str]:
        """Which of these runs are the tenant's; no waiting for an index that is being made."""
        await self._caught_up_if_made()
        return await self._index.of_tenant(run_ids, tenant)

    async def _caught_up_if_made(self) -> None:
        if not self.ready:
            raise IndexNotReady(self.progress)
        await self.caught_up()

    async def caught_up(self) -> None:
        """IndexNotReady while the index is being filled, which takes longer than a client should wait.

        One that is filled and cannot keep up answers as of the revision that it has.
        """
        try:
            async with asyncio.timeout(_PATIENCE_SEC):
                await self._feed.caught_up()
        except TimeoutError:
            self._feed.require_nats()
            if not self.ready:
                raise IndexNotReady(self.progress) from None
        except IndexNotReady:
            if not self.ready:
                raise

    @property
    def progress(self) -> str:
        return f"{self._index.runs} runs are read, at most {self._feed.behind} are to come"
