"""The index of runs: a copy of what lists need, in a file of this gateway's own.

It can be lost at any time: whatever is wrong with it, it is made anew from the bucket. SQLite works in
threads, one that writes and a few that read, and never in the event loop.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Raw

from pyoco_server.broker.run_feed import Held
from pyoco_server.errors import ConfigError, IndexNotReady
from pyoco_server.runs.index.file import IndexFile, is_busy
from pyoco_server.runs.index.reading import ReaderConnections
from pyoco_server.runs.index.schema import key_of, run_id_of
from pyoco_server.runs.index.search import Search
from pyoco_server.runs.index.sorting import Place, Sort, SortField
from pyoco_server.runs.index.writing import IndexWriter, SeenWrite
from pyoco_server.runs.recent_changes import Before
from pyoco_server.runs.run_filter import RunFilter
from pyoco_server.runs.run_summary import RunSummary

__all__ = ["ListedRun", "Page", "Place", "RunIndex", "SeenWrite", "Sort", "SortField"]

log = logging.getLogger(__name__)

T = TypeVar("T")

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


class RunIndex:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IndexFile | None = None
        self._writing = ThreadPoolExecutor(1, "index-write")
        self._reading = ThreadPoolExecutor(_READERS, "index-read")
        self._writer: IndexWriter | None = None
        self._connections = ReaderConnections()
        self._broken = False
        self.ready = False

    async def start(self) -> None:
        """Open the file; ConfigError when there can be none."""
        await self._in_writer(self._open)

    async def close(self) -> None:
        self.ready = False
        # Whoever reads ends first, without the event loop waiting for it.
        await asyncio.to_thread(self._reading.shutdown)
        await self._in_writer(self._close)
        self._writing.shutdown()

    # What is known

    @property
    def held(self) -> Held:
        writer = self._writer
        # A broken index knows nothing, so that it is filled anew.
        return Held("", 0) if writer is None or self._broken else Held(writer.created, writer.revision)

    @property
    def runs(self) -> int:
        return 0 if self._writer is None else self._writer.runs

    @property
    def marked(self) -> int:
        """How many removed runs it remembers."""
        return 0 if self._writer is None else self._writer.marked

    # Writing

    async def begin(self, created: str) -> None:
        """Become the empty index of another bucket."""
        self.ready = False
        await self._write(self._begin, created)

    async def complete(self) -> None:
        """All has been read: from here on there are answers."""
        await self._write(lambda: self._used().complete())
        self.ready = True

    async def apply(
        self, batch: Sequence[SeenWrite], *, upto: int, want_before: bool = False
    ) -> list[Before]:
        return await self._write(lambda: self._used().apply(batch, upto=upto, want_before=want_before))

    async def others(
        self, after: int, upto: int, revisions: list[int], *, limit: int
    ) -> list[tuple[int, str]]:
        """The first runs with a revision in between that is none of these: revision and id."""
        return await self._write(lambda: self._used().others(after, upto, revisions, limit=limit))

    async def drop(self, revisions: list[int]) -> list[tuple[int, RunSummary]]:
        """Remove the runs with these revisions; what was known of them."""
        return await self._write(lambda: self._used().drop(revisions))

    async def trim_markers(self, keep: int) -> None:
        await self._write(lambda: self._used().trim_markers(keep))

    async def look_after_file(self) -> None:
        """Find out whether somebody has deleted the file."""
        file = self._file
        if file is not None and not self._broken and not await self._write(file.is_there):
            self._is_broken("its file was deleted")

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
            runs = [_listed(db, place) for place in places[:limit]]
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

    async def of_tenant(self, run_ids: Iterable[str], tenant: str) -> frozenset[str]:
        """Which of these are the tenant's."""
        keys = [key_of(run_id) for run_id in run_ids]
        sql = "SELECT 1 FROM runs r JOIN groups g ON g.id = r.grp WHERE r.run_id = ? AND g.tenant = ?"
        return await self._read(
            lambda db: frozenset(run_id_of(key) for key in keys if db.execute(sql, [key, tenant]).fetchone())
        )

    async def open_states(self) -> list[tuple[str, int, bytes]]:
        """Of each run that has not ended: its id, its revision, and what the sweep wants to know."""
        return await self._write(lambda: self._used().open_states())

    async def markers(self) -> list[str]:
        """The removed runs of which the bucket still says so, the oldest first."""
        return await self._write(lambda: self._used().markers())

    # Threads

    async def _write(self, work: Callable[..., T], *args: object) -> T:
        """IndexNotReady when it cannot be done now: later it can, or all is made anew."""

        def guarded() -> T:
            try:
                return work(*args)
            except (OSError, ConfigError) as error:
                raise IndexNotReady(f"its file cannot be used: {error}") from error
            except sqlite3.Error as error:
                raise self._met(error) from error

        return await self._in_writer(guarded)

    async def _in_writer(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writing, work)

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do it with one state of the index, in a thread."""

        def guarded() -> T:
            file = self._file
            if file is None or not self.ready:
                raise IndexNotReady
            try:
                with self._connections.of(file) as db:
                    return work(db)
            except sqlite3.Error as error:
                raise self._met(error) from error

        return await asyncio.get_running_loop().run_in_executor(self._reading, guarded)

    def _met(self, error: sqlite3.Error) -> IndexNotReady:
        """What to answer; and unless the file is only in use, it is given up."""
        if is_busy(error):
            return IndexNotReady(f"another program uses its file: {error}")
        self._is_broken(str(error))
        return IndexNotReady(f"it cannot be used and is made anew: {error}")

    def _is_broken(self, why: str) -> None:
        log.warning("the index of runs is made anew: %s", why)
        self.ready = False
        self._broken = True

    def _open(self) -> None:
        if self._file is None:
            self._file = IndexFile(self._folder)
        self._writer = IndexWriter(self._file.writer())

    def _begin(self, created: str) -> None:
        if self._broken:
            if self._file is not None:
                self._give_up_file(self._file)
            self._open()
            self._broken = False
        self._used().begin(created)

    def _give_up_file(self, file: IndexFile) -> None:
        self._connections.renew()
        self._used().close()
        # If somebody deleted the whole folder, another gateway may have made this file since.
        if file.is_there():
            file.remove()
        file.release()
        self._file = None

    def _close(self) -> None:
        self._connections.close()
        if self._writer is not None:
            self._writer.close()
        if self._file is not None:
            self._file.release()

    def _used(self) -> IndexWriter:
        assert self._writer is not None, "the index was not started"
        return self._writer


def _listed(db: sqlite3.Connection, place: Place) -> ListedRun:
    [(run_id, item)] = db.execute(
        "SELECT r.run_id, d.item FROM runs r JOIN docs d USING (doc) WHERE r.revision = ?", [place.revision]
    )
    return ListedRun(run_id_of(run_id), Raw(item), place)


def _run_id(db: sqlite3.Connection, revision: int) -> str:
    [(run_id,)] = db.execute("SELECT run_id FROM runs WHERE revision = ?", [revision])
    return run_id_of(run_id)


def _revision(db: sqlite3.Connection) -> int:
    [(revision,)] = db.execute("SELECT revision FROM held")
    return int(revision)
