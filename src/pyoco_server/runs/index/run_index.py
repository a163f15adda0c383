"""The index of runs: what lists need, in a file of this gateway."""

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Raw

from pyoco_server.records.runs.artifact_models import ArtifactCounts
from pyoco_server.runs.index import index_schema as schema
from pyoco_server.runs.index.index_schema import key_of, run_id_of
from pyoco_server.runs.index.index_writer import IndexWriter, RunWrite
from pyoco_server.runs.index.pagination import Sort, SortKey
from pyoco_server.runs.index.rerun_outcomes import Rerun, decisive_reruns
from pyoco_server.runs.index.run_summary import RunSummary
from pyoco_server.runs.index.search.run_filter import RunFilter
from pyoco_server.runs.index.search.run_search import Search
from pyoco_server.runs.index.sqlite.sqlite_index import SqliteIndex
from pyoco_server.runs.index.statistics.activity import (
    Activity,
    FailedRuns,
    QueuedRunCount,
    Span,
    activity_in,
    ended_since,
    failed_since,
    queued_runs,
)
from pyoco_server.runs.index.statistics.flow_statistics import (
    FlowHistory,
    FlowStatistics,
    history_of_flow,
    statistics_by_flow,
)
from pyoco_server.runs.index.statistics.period_statistics import PeriodStatistics, period_statistics
from pyoco_server.runs.watch.recent_changes import Before

_READERS: Final = 4
# Counting further than this would take longer than reading a page.
COUNTED: Final = 10_000


@dataclass(frozen=True, slots=True)
class FoundRun:
    run_id: str
    # As JSON.
    item: Raw
    key: SortKey


@dataclass(frozen=True, slots=True)
class Page:
    runs: list[FoundRun]
    has_more: bool
    # How many match, if that was asked for; at most COUNTED unless `total_exact`.
    total: int | None
    total_exact: bool
    # The revision of the bucket that this page shows.
    revision: int


class RunIndex(SqliteIndex[IndexWriter]):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, schema.SCHEMA, readers=_READERS)

    def _new_writer(self, connection: sqlite3.Connection) -> IndexWriter:
        # Looked up here: as a default value it would be the real clock in a simulation.
        return IndexWriter(connection, clock=time.time)

    async def apply(
        self, batch: Sequence[RunWrite], *, upto: int, stored_ns: int = 0, with_before: bool = False
    ) -> list[Before]:
        return await self._write(
            lambda: self._used().apply(batch, upto=upto, stored_ns=stored_ns, with_before=with_before)
        )

    async def drop(self, revisions: list[int]) -> list[tuple[int, RunSummary]]:
        """Remove the runs with these revisions; returns them."""
        return await self._write(lambda: self._used().drop(revisions))

    async def open_states(self) -> list[tuple[str, int, bytes]]:
        """Id, revision and state for the sweep of each run that has not ended."""
        return await self._write(lambda: self._used().open_states())

    async def markers(self) -> list[str]:
        """The deleted runs whose marker is still in the bucket, oldest first."""
        return await self._write(lambda: list(self._used().markers.keys()))

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
        def read(db: sqlite3.Connection) -> Page:
            search = Search(db, run_filter, sort)
            keys = search.page(limit + 1, after)
            runs = _listed(db, keys[:limit], with_params=with_params)
            counted = search.count(COUNTED + 1) if total else None
            exact = counted is None or counted <= COUNTED or search.counts_freely
            [(revision,)] = db.execute("SELECT revision FROM held")
            return Page(runs, len(keys) > limit, counted if exact else COUNTED, exact, revision)

        return await self._read(read)

    async def ids(self, run_filter: RunFilter, *, limit: int) -> list[str]:
        """The runs that were updated last."""
        return await self._read(
            lambda db: [_run_id(db, key.revision) for key in Search(db, run_filter).page(limit)]
        )

    async def counts(self, tenant: str | None = None) -> dict[tuple[str, str, str], int]:
        """The number of runs of a tenant, or of all, by flow, tag and status."""
        return await self._read(lambda db: Search(db, RunFilter(tenant=tenant)).counts())

    async def artifacts(self) -> dict[str | None, ArtifactCounts]:
        """The artifacts of all runs of each tenant."""

        def found(db: sqlite3.Connection) -> dict[str | None, ArtifactCounts]:
            rows = db.execute("SELECT tenant, files, bytes, left_out FROM artifacts")
            return {
                tenant or None: ArtifactCounts(count=files, bytes=size, left_out_count=left_out)
                for tenant, files, size, left_out in rows
            }

        return await self._read(found)

    async def activity(self, tenant: str | None, span: Span, *, flows: int) -> Activity:
        return await self._read(lambda db: activity_in(db, tenant, span, flows=flows))

    async def failed_since(
        self, tenant: str | None, flows: str, *, since: float, after: int, most: int, named: int
    ) -> FailedRuns:
        return await self._read(
            lambda db: failed_since(db, tenant, flows, since=since, after=after, most=most, named=named)
        )

    async def ended_since(self, tenant: str | None, flows: str, since: float) -> Counter[str]:
        return await self._read(lambda db: ended_since(db, tenant, flows, since))

    async def queued_runs(self, tenant: str | None, tag: str) -> QueuedRunCount:
        return await self._read(lambda db: queued_runs(db, tenant, tag))

    async def statistics_by_flow(
        self, tenant: str | None, *, tag: str | None = None
    ) -> dict[str, FlowStatistics]:
        now = time.time()
        await self._write_rollups()
        return await self._read(lambda db: statistics_by_flow(db, now, tenant=tenant, tag=tag))

    async def history_of_flow(
        self, flow: str, tenant: str | None, *, tag: str | None = None
    ) -> FlowHistory | None:
        now = time.time()
        await self._write_rollups()
        return await self._read(lambda db: history_of_flow(db, flow, now, tenant=tenant, tag=tag))

    async def period_statistics(
        self, period: str, tenant: str | None, *, flow: str | None, tag: str | None, most: int
    ) -> PeriodStatistics:
        now = time.time()
        await self._write_rollups()
        return await self._read(
            lambda db: period_statistics(db, period, now, most=most, tenant=tenant, flow=flow, tag=tag)
        )

    async def tenants_of(self, run_ids: Iterable[str]) -> dict[str, str | None]:
        """The tenant of each of these runs that is indexed; it never changes."""
        keys = [key_of(run_id) for run_id in run_ids]
        sql = "SELECT g.tenant FROM runs r JOIN groups g ON g.id = r.grp WHERE r.run_id = ?"

        def found(db: sqlite3.Connection) -> dict[str, str | None]:
            rows = ((key, db.execute(sql, [key]).fetchone()) for key in keys)
            return {run_id_of(key): row[0] for key, row in rows if row is not None}

        return await self._read(found)

    async def statuses_of(self, run_ids: Iterable[str]) -> dict[str, str]:
        """The status of each of these runs that is indexed."""
        keys = [key_of(run_id) for run_id in run_ids]
        sql = "SELECT g.status FROM runs r JOIN groups g ON g.id = r.grp WHERE r.run_id = ?"

        def found(db: sqlite3.Connection) -> dict[str, str]:
            rows = ((key, db.execute(sql, [key]).fetchone()) for key in keys)
            return {run_id_of(key): row[0] for key, row in rows if row is not None}

        return await self._read(found)

    async def decisive_reruns(self, run_ids: Iterable[str]) -> dict[str, Rerun]:
        """Of each of these runs that was rerun: the rerun that has completed, or else the newest."""
        asked = set(run_ids)
        return await self._read(lambda db: decisive_reruns(db, asked)) if asked else {}

    async def _write_rollups(self) -> None:
        if self.ready and not self._used().rollups.are_written:
            await self._write(lambda: self._used().write_rollups())


def _listed(db: sqlite3.Connection, keys: list[SortKey], *, with_params: bool) -> list[FoundRun]:
    preview = "(SELECT preview FROM params p WHERE p.doc = r.doc)" if with_params else "NULL"
    # One statement for the page: this thread may have to wait for the GIL at each statement.
    rows = db.execute(
        f"SELECT r.run_id, d.item, {preview} FROM json_each(?) AS listed "
        "CROSS JOIN runs r ON r.revision = listed.value CROSS JOIN docs d ON d.doc = r.doc "
        "ORDER BY listed.key",
        [json.dumps([key.revision for key in keys])],
    )
    return [
        FoundRun(run_id_of(run), Raw(_with_params(item, params)), key)
        for (run, item, params), key in zip(rows, keys, strict=True)
    ]


def _with_params(item: bytes, params: str | None) -> bytes:
    """The item as JSON with one more field; decoding it would take longer."""
    return item if params is None else item[:-1] + b',"params_preview":' + msgspec.json.encode(params) + b"}"


def _run_id(db: sqlite3.Connection, revision: int) -> str:
    [(run_id,)] = db.execute("SELECT run_id FROM runs WHERE revision = ?", [revision])
    return run_id_of(run_id)
