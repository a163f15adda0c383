"""The index of runs: a copy of what lists need, in a file of this gateway's own."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec import Raw

from pyoco_server.broker.jetstream.feed_history import KnownKey
from pyoco_server.runs.index import index_schema as schema
from pyoco_server.runs.index.activity import Activity, Span, activity_in
from pyoco_server.runs.index.index_rows import SeenWrite
from pyoco_server.runs.index.index_schema import key_of, run_id_of
from pyoco_server.runs.index.index_writer import IndexWriter
from pyoco_server.runs.index.run_filter import RunFilter
from pyoco_server.runs.index.run_search import Search
from pyoco_server.runs.index.run_summary import RunSummary
from pyoco_server.runs.index.sorting import Place, Sort, SortField
from pyoco_server.runs.index.sqlite_index import KeptIndex
from pyoco_server.runs.watch.recent_changes import Before

__all__ = ["ListedRun", "Page", "Place", "RunIndex", "SeenWrite", "Sort", "SortField"]

_READERS: Final = 4
# Counting further than this would take longer than reading a page.
COUNTED: Final = 10_000


@dataclass(frozen=True, slots=True)
class ListedRun:
    run_id: str
    # As JSON.
    item: Raw
    place: Place


@dataclass(frozen=True, slots=True)
class Page:
    runs: list[ListedRun]
    # Whether there are more behind them.
    goes_on: bool
    # How many there are in all, if that was asked for, and whether that is all of them.
    total: int | None
    total_exact: bool
    # As of which revision of the bucket all this is.
    revision: int


class RunIndex(KeptIndex[IndexWriter]):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, schema.FORM, readers=_READERS)

    def _writer_of(self, connection: sqlite3.Connection) -> IndexWriter:
        return IndexWriter(connection)

    # What is known

    @property
    def runs(self) -> int:
        return 0 if self._writer is None else self._writer.runs

    @property
    def marked(self) -> int:
        """How many removed runs it remembers."""
        return 0 if self._writer is None else self._writer.markers.count

    # Writing

    async def apply(
        self, batch: Sequence[SeenWrite], *, upto: int, stored_ns: int = 0, want_before: bool = False
    ) -> list[Before]:
        return await self._write(
            lambda: self._used().apply(batch, upto=upto, stored_ns=stored_ns, want_before=want_before)
        )

    async def others(
        self, after: int, upto: int, revisions: list[int], *, limit: int
    ) -> list[tuple[int, str]]:
        """The first runs with a revision in between that is none of these: revision and id."""
        return await self._write(lambda: self._used().others(after, upto, revisions, limit=limit))

    async def newest_below(self, revision: int, *, limit: int) -> list[KnownKey]:
        """The runs and markers with the highest revisions below this one, the highest first."""
        return await self._write(lambda: self._used().newest_below(revision, limit=limit))

    async def drop(self, revisions: list[int]) -> list[tuple[int, RunSummary]]:
        """Remove the runs with these revisions; what was known of them."""
        return await self._write(lambda: self._used().drop(revisions))

    async def first_markers(self, *, after: int, limit: int) -> list[tuple[int, str]]:
        """The runs that were removed first behind this revision: revision and id."""
        return await self._write(lambda: self._used().markers.first(after=after, limit=limit))

    async def forget_markers(self, run_ids: list[str]) -> None:
        await self._write(lambda: self._used().markers.forget(run_ids))

    # Reading

    async def page(
        self,
        wanted: RunFilter,
        sort: Sort | None = None,
        *,
        limit: int,
        after: Place | None = None,
        total: bool = False,
    ) -> Page:
        def read(db: sqlite3.Connection) -> Page:
            search = Search(db, wanted, sort)
            places = search.page(limit + 1, after)
            runs = _listed(db, places[:limit])
            counted = search.count(COUNTED + 1) if total else None
            exact = counted is None or counted <= COUNTED or search.counts_freely
            return Page(runs, len(places) > limit, counted if exact else COUNTED, exact, _revision(db))

        return await self._read(read)

    async def ids(self, wanted: RunFilter, *, limit: int) -> list[str]:
        """The runs that were updated last."""
        return await self._read(
            lambda db: [_run_id(db, place.revision) for place in Search(db, wanted).page(limit)]
        )

    async def count(self, wanted: RunFilter, *, at_most: int) -> int:
        return await self._read(lambda db: min(at_most, Search(db, wanted).count(at_most)))

    async def counts(self, tenant: str | None = None) -> dict[tuple[str, str, str], int]:
        """How many runs a tenant has, or all of them, by flow, tag and status."""
        return await self._read(lambda db: Search(db, RunFilter(tenant=tenant)).counts())

    async def activity(self, tenant: str | None, span: Span, *, flows: int) -> Activity:
        """How the runs of a tenant, or all of them, ended lately."""
        return await self._read(lambda db: activity_in(db, tenant, span, flows=flows))

    async def tenants_of(self, run_ids: Iterable[str]) -> dict[str, str | None]:
        """Whose each of these is, as far as they are known here; that never changes."""
        keys = [key_of(run_id) for run_id in run_ids]
        sql = "SELECT g.tenant FROM runs r JOIN groups g ON g.id = r.grp WHERE r.run_id = ?"

        def found(db: sqlite3.Connection) -> dict[str, str | None]:
            rows = ((key, db.execute(sql, [key]).fetchone()) for key in keys)
            return {run_id_of(key): row[0] for key, row in rows if row is not None}

        return await self._read(found)

    async def open_states(self) -> list[tuple[str, int, bytes]]:
        """Of each run that has not ended: its id, its revision, and what the sweep wants to know."""
        return await self._write(lambda: self._used().open_states())

    async def markers(self) -> list[str]:
        """The removed runs of which the bucket still says so, the oldest first."""
        return await self._write(lambda: list(self._used().markers.keys()))


def _listed(db: sqlite3.Connection, places: list[Place]) -> list[ListedRun]:
    # Each statement, and each of its rows, is a moment in which this thread may have to wait for its turn.
    rows = db.execute(
        "SELECT r.run_id, d.item FROM json_each(?) AS wanted "
        "CROSS JOIN runs r ON r.revision = wanted.value CROSS JOIN docs d ON d.doc = r.doc "
        "ORDER BY wanted.key",
        [json.dumps([place.revision for place in places])],
    )
    return [
        ListedRun(run_id_of(key), Raw(item), place) for (key, item), place in zip(rows, places, strict=True)
    ]


def _run_id(db: sqlite3.Connection, revision: int) -> str:
    [(run_id,)] = db.execute("SELECT run_id FROM runs WHERE revision = ?", [revision])
    return run_id_of(run_id)


def _revision(db: sqlite3.Connection) -> int:
    [(revision,)] = db.execute("SELECT revision FROM held")
    return int(revision)
