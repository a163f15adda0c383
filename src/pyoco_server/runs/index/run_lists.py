"""Lists of runs as of now: the index, after it has caught up with the bucket."""

from collections import Counter
from collections.abc import Iterable

from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.records.runs.artifact_models import ArtifactCounts
from pyoco_server.runs.index.pagination import Sort, SortKey
from pyoco_server.runs.index.rerun_outcomes import Rerun
from pyoco_server.runs.index.run_index import Page, RunIndex
from pyoco_server.runs.index.search.run_filter import RunFilter
from pyoco_server.runs.index.sqlite.index_feed import CatchUp
from pyoco_server.runs.index.statistics.activity import Activity, FailedRuns, QueuedRunCount, Span
from pyoco_server.runs.index.statistics.flow_statistics import FlowHistory, FlowStatistics
from pyoco_server.runs.index.statistics.period_statistics import PeriodStatistics


class RunLists:
    """Each read first waits, for a limited time, until the index has caught up."""

    def __init__(self, index: RunIndex, feed: BucketFeed) -> None:
        self._index = index
        self._feed = feed
        self._catch_up = CatchUp(index, feed, lambda: self.progress)

    @property
    def ready(self) -> bool:
        return self._index.ready

    @property
    def progress(self) -> str:
        return f"{self._index.entries} runs are read, at most {self._feed.behind} are to come"

    async def caught_up(self) -> None:
        """IndexNotReady while the index is being filled."""
        await self._catch_up.wait()

    async def page(
        self,
        run_filter: RunFilter,
        sort: Sort | None = None,
        *,
        limit: int,
        after: SortKey | None = None,
        total: bool = False,
        with_params: bool = False,
    ) -> Page:
        await self.caught_up()
        return await self._index.page(
            run_filter, sort, limit=limit, after=after, total=total, with_params=with_params
        )

    async def ids(self, run_filter: RunFilter, *, limit: int) -> list[str]:
        """The runs that were updated last."""
        await self.caught_up()
        return await self._index.ids(run_filter, limit=limit)

    async def counts(self, tenant: str | None = None) -> dict[tuple[str, str, str], int]:
        """The number of runs by flow, tag and status; IndexNotReady at once while the index is filled."""
        await self._catch_up.wait_if_ready()
        return await self._index.counts(tenant)

    async def artifacts(self) -> dict[str | None, ArtifactCounts]:
        """The artifacts of all runs of each tenant; IndexNotReady at once while the index is filled."""
        await self._catch_up.wait_if_ready()
        return await self._index.artifacts()

    async def activity(self, tenant: str | None, span: Span, *, flows: int) -> Activity:
        await self.caught_up()
        return await self._index.activity(tenant, span, flows=flows)

    async def failed_since(
        self, tenant: str | None, flows: str, *, since: float, after: int = 0, most: int, named: int
    ) -> FailedRuns:
        """Failed runs of the flows that match (`*` is any text), with revisions above `after`."""
        await self.caught_up()
        return await self._index.failed_since(tenant, flows, since=since, after=after, most=most, named=named)

    async def ended_since(self, tenant: str | None, flows: str, since: float) -> Counter[str]:
        """How many runs of the flows that match have failed and completed."""
        await self.caught_up()
        return await self._index.ended_since(tenant, flows, since)

    async def queued_runs(self, tenant: str | None, tag: str) -> QueuedRunCount:
        await self.caught_up()
        return await self._index.queued_runs(tenant, tag)

    async def statistics_by_flow(
        self, tenant: str | None, *, tag: str | None = None
    ) -> dict[str, FlowStatistics]:
        """The last 24 hours of each flow that has runs: a tenant's, or all."""
        await self.caught_up()
        return await self._index.statistics_by_flow(tenant, tag=tag)

    async def history_of_flow(
        self, flow: str, tenant: str | None, *, tag: str | None = None
    ) -> FlowHistory | None:
        """Of 24 hours, 7 days and 30 days; None if it has no runs."""
        await self.caught_up()
        return await self._index.history_of_flow(flow, tenant, tag=tag)

    async def period_statistics(
        self, period: str, tenant: str | None, *, flow: str | None, tag: str | None, most: int
    ) -> PeriodStatistics:
        """Of the runs that ended in the period: a tenant's, or all; with at most this many flows and tags."""
        await self.caught_up()
        return await self._index.period_statistics(period, tenant, flow=flow, tag=tag, most=most)

    async def of_tenant(self, run_ids: Iterable[str], tenant: str) -> frozenset[str]:
        """Which of these runs are the tenant's; IndexNotReady at once while the index is filled."""
        asked = set(run_ids)
        tenants = await self._index.tenants_of(asked) if asked and self._index.ready else {}
        if asked - tenants.keys():
            # Only unknown runs are worth a request to NATS.
            await self._catch_up.wait_if_ready()
            tenants = await self._index.tenants_of(asked)
        return frozenset(run_id for run_id, owner in tenants.items() if owner == tenant)

    async def decisive_reruns(self, run_ids: Iterable[str]) -> dict[str, Rerun]:
        """Of each of these runs that was rerun: the rerun that has completed, or else the newest."""
        await self.caught_up()
        return await self._index.decisive_reruns(run_ids)

    async def statuses_of(self, run_ids: Iterable[str]) -> dict[str, str]:
        """The status of each of these runs, as far as the index has it; it may lag."""
        return await self._index.statuses_of(run_ids) if self._index.ready else {}
