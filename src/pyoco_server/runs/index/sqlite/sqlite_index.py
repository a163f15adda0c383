"""A rebuildable SQLite index of a bucket, in a file of this gateway.

Whatever is wrong with the file, it is rebuilt from the bucket. SQLite runs in threads (one writer, a few
readers) and never in the event loop.
"""

import asyncio
import json
import logging
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

from pyoco_server.broker.jetstream.feed_history import Checkpoint, KnownKey
from pyoco_server.errors import ConfigError, IndexNotReady
from pyoco_server.runs.index.sqlite.index_file import FileSchema, IndexFile, is_busy, is_full

log = logging.getLogger(__name__)

T = TypeVar("T")

MARKERS_TABLE: Final = "CREATE TABLE markers (revision INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);"
UNREADABLE_TABLE: Final = (
    "CREATE TABLE unreadable (revision INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, problem TEXT NOT NULL);"
)
# What SQLite raises for a value that it cannot store: not the file is wrong, but a record.
_BAD_VALUE: Final = (sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError)


class BadValue(Exception):
    """SQLite cannot store a value of a record."""


class DeleteMarkers:
    """The deleted keys whose marker is still in the bucket."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        [(self.count,)] = db.execute("SELECT count(*) FROM markers")

    def store(self, written: Collection[str], deleted: Iterable[tuple[int, str]]) -> None:
        """Replace the markers of the written keys by those of the deleted ones (revision, key)."""
        if self.count:
            self.forget(written)
        rows = list(deleted)
        self._db.executemany("INSERT INTO markers VALUES (?, ?)", rows)
        self.count += len(rows)

    def forget(self, keys: Collection[str]) -> None:
        self.count -= self._db.execute(
            "DELETE FROM markers WHERE key IN (SELECT value FROM json_each(?))", [json.dumps(list(keys))]
        ).rowcount

    def keys(self) -> Iterator[str]:
        """All of them, in the order of deletion."""
        return (key for (key,) in self._db.execute("SELECT key FROM markers ORDER BY revision"))

    def first(self, *, after: int, limit: int) -> list[tuple[int, str]]:
        return self._db.execute(
            "SELECT revision, key FROM markers WHERE revision > ? ORDER BY revision LIMIT ?", [after, limit]
        ).fetchall()

    def newest_below(self, revision: int, *, limit: int) -> list[KnownKey]:
        rows = self._db.execute(
            "SELECT revision, key FROM markers WHERE revision < ? ORDER BY revision DESC LIMIT ?",
            [revision, limit],
        )
        return [KnownKey(at, key, deleted=True) for at, key in rows]


class FeedWrite(Protocol):
    """A message of a bucket, decoded."""

    @property
    def key(self) -> str: ...
    @property
    def revision(self) -> int: ...
    @property
    def problem(self) -> str | None:
        """Why its record cannot be read."""
        ...


class UnreadableKeys:
    """The keys whose record cannot be read, with the reason: known, but in no list."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        [(self.count,)] = db.execute("SELECT count(*) FROM unreadable")

    def store(self, written: Mapping[str, FeedWrite]) -> None:
        """The newest write of each written key."""
        if self.count:
            self.count -= self._db.execute(
                "DELETE FROM unreadable WHERE key IN (SELECT value FROM json_each(?))",
                [json.dumps(list(written))],
            ).rowcount
        rows = [(each.revision, key, each.problem) for key, each in written.items() if each.problem]
        if rows:
            self._db.executemany("INSERT INTO unreadable VALUES (?, ?, ?)", rows)
        self.count += len(rows)

    def drop(self, revisions: Sequence[int]) -> list[str]:
        """Forget the keys with these revisions; returns them."""
        if not self.count:
            return []
        rows = self._db.execute(
            "DELETE FROM unreadable WHERE revision IN (SELECT value FROM json_each(?)) RETURNING key",
            [json.dumps(list(revisions))],
        ).fetchall()
        self.count -= len(rows)
        return [key for (key,) in rows]

    def all(self) -> list[tuple[int, str, str]]:
        return self._db.execute("SELECT revision, key, problem FROM unreadable ORDER BY revision").fetchall()

    def between(
        self, after: int, upto: int, revisions: Sequence[int], *, limit: int
    ) -> list[tuple[int, str]]:
        """The first with a revision in (after, upto] that is not one of `revisions`."""
        return self._db.execute(
            "SELECT revision, key FROM unreadable WHERE revision > ? AND revision <= ? "
            "AND revision NOT IN (SELECT value FROM json_each(?)) ORDER BY revision LIMIT ?",
            [after, upto, json.dumps(revisions), limit],
        ).fetchall()

    def newest_below(self, revision: int, *, limit: int) -> list[KnownKey]:
        rows = self._db.execute(
            "SELECT revision, key FROM unreadable WHERE revision < ? ORDER BY revision DESC LIMIT ?",
            [revision, limit],
        )
        return [KnownKey(at, key) for at, key in rows]


class SqliteWriter(ABC):
    """Writes one index; used by one thread."""

    # The table with one row per key, and the column with the key.
    table: ClassVar[str]
    key_column: ClassVar[str]

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self.created: str = ""
        self.revision: int = 0
        # When the message of that revision was stored, in nanoseconds.
        self.stored_ns: int = 0
        for row in connection.execute("SELECT created, revision, stored_ns FROM held"):
            self.created, self.revision, self.stored_ns = row
        self.entries: int = 0
        self.markers = DeleteMarkers(connection)
        self.unreadable = UnreadableKeys(connection)

    @abstractmethod
    def _clear(self) -> None:
        """Delete all rows, within a transaction."""

    def begin(self, created: str) -> None:
        """Become the empty index of another bucket."""
        with self._transaction():
            self._clear()
            self._db.execute("DELETE FROM markers")
            self._db.execute("DELETE FROM unreadable")
            self._db.execute("DELETE FROM held")
            self._db.execute(
                "INSERT INTO held (one, created, revision, stored_ns) VALUES (1, ?, 0, 0)", [created]
            )
        self.created, self.revision, self.stored_ns, self.entries = created, 0, 0, 0
        self.markers.count = self.unreadable.count = 0

    def complete(self) -> None:  # noqa: B027
        """Called when the whole bucket has been read for the first time."""

    def others(self, after: int, upto: int, revisions: Sequence[int], *, limit: int) -> list[tuple[int, str]]:
        """The first entries with a revision in (after, upto] that is not one of `revisions`."""
        rows = self._db.execute(
            f"SELECT revision, {self.key_column} FROM {self.table} WHERE revision > ? AND revision <= ? "
            "AND revision NOT IN (SELECT value FROM json_each(?)) ORDER BY revision LIMIT ?",
            [after, upto, json.dumps(revisions), limit],
        )
        found = [(revision, self._key(stored)) for revision, stored in rows]
        found += self.unreadable.between(after, upto, revisions, limit=limit)
        return sorted(found)[:limit]

    def newest_below(self, revision: int, *, limit: int) -> list[KnownKey]:
        """The entries and markers with the highest revisions below this one, highest first."""
        rows = self._db.execute(
            f"SELECT revision, {self.key_column} FROM {self.table} "
            "WHERE revision < ? ORDER BY revision DESC LIMIT ?",
            [revision, limit],
        )
        known = [KnownKey(at, self._key(stored)) for at, stored in rows]
        known += self.markers.newest_below(revision, limit=limit)
        known += self.unreadable.newest_below(revision, limit=limit)
        return sorted(known, key=lambda each: each.revision, reverse=True)[:limit]

    def close(self) -> None:
        self._db.close()

    def _key(self, stored: Any) -> str:
        """The key of the bucket, from what `key_column` has."""
        return str(stored)

    def _rolled_back(self) -> None:  # noqa: B027
        """Called when a transaction failed."""

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        markers, unreadable = self.markers.count, self.unreadable.count
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self.markers.count, self.unreadable.count = markers, unreadable
            self._rolled_back()
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


class ReadConnections:
    """A pool of read connections, used by several threads.

    The connection used last is used next, because its cache is warm.
    """

    def __init__(self) -> None:
        # With the generation of each; the one used last is the last.
        self._idle: list[tuple[int, sqlite3.Connection]] = []
        self._generation = 0
        self._lock = threading.Lock()

    def expire(self) -> None:
        """Reopen the file before the next read."""
        self._generation += 1

    @contextmanager
    def transaction(self, file: IndexFile) -> Iterator[sqlite3.Connection]:
        """A connection for the caller alone, inside a transaction."""
        generation, db = self._acquire(file)
        try:
            db.execute("BEGIN")
            try:
                yield db
            finally:
                db.execute("ROLLBACK")
        except sqlite3.Error:
            db.close()
            raise
        except BaseException:
            self._idle.append((generation, db))
            raise
        else:
            self._idle.append((generation, db))

    def free_caches(self) -> None:
        """Free the unused pages of the connections: the system has them cached too."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, db in idle:
            db.execute("PRAGMA shrink_memory")
        self._idle[:0] = idle

    def close(self) -> None:
        """Close all connections; none may be in use."""
        while self._idle:
            self._idle.pop()[1].close()

    def _acquire(self, file: IndexFile) -> tuple[int, sqlite3.Connection]:
        generation = self._generation
        with self._lock:
            while self._idle:
                found = self._idle.pop()
                if found[0] == generation:
                    return found
                found[1].close()
        return generation, file.reader()


W = TypeVar("W", bound=SqliteWriter)


class SqliteIndex(ABC, Generic[W]):
    def __init__(self, folder: Path, schema: FileSchema, *, readers: int) -> None:
        self._folder = folder
        self._schema = schema
        self._file: IndexFile | None = None
        self._write_thread = ThreadPoolExecutor(1, f"{schema.name}-index-write")
        self._read_threads = ThreadPoolExecutor(readers, f"{schema.name}-index-read")
        self._writer: W | None = None
        self._connections = ReadConnections()
        self._broken = False
        self.ready = False

    @abstractmethod
    def _new_writer(self, connection: sqlite3.Connection) -> W: ...

    async def start(self) -> None:
        """Open the file; ConfigError when that is impossible."""
        await self._in_writer(self._open)

    async def close(self) -> None:
        self.ready = False
        # Reads end first, without blocking the event loop.
        await asyncio.to_thread(self._read_threads.shutdown)
        await self._in_writer(self._close)
        self._write_thread.shutdown()

    @property
    def checkpoint(self) -> Checkpoint:
        writer = self._writer
        # A broken index reports nothing, so that it is filled again.
        if writer is None or self._broken:
            return Checkpoint("", 0)
        return Checkpoint(writer.created, writer.revision, writer.stored_ns)

    @property
    def entries(self) -> int:
        return 0 if self._writer is None else self._writer.entries

    @property
    def marker_count(self) -> int:
        return 0 if self._writer is None else self._writer.markers.count

    @property
    def unreadable_count(self) -> int:
        return 0 if self._writer is None else self._writer.unreadable.count

    async def drop_unreadable(self, revisions: list[int]) -> list[str]:
        """Forget the unreadable keys with these revisions; returns them."""
        return await self._write(lambda: self._used().unreadable.drop(revisions))

    async def unreadable(self) -> list[tuple[int, str, str]]:
        """Revision, key and problem of each record that cannot be read."""
        return await self._write(self._used().unreadable.all)

    async def begin(self, created: str) -> None:
        """Become the empty index of another bucket."""
        self.ready = False
        await self._write(self._begin, created)

    async def complete(self) -> None:
        """The whole bucket has been read: accept reads."""
        await self._write(self._complete)
        self.ready = True

    async def others(
        self, after: int, upto: int, revisions: list[int], *, limit: int
    ) -> list[tuple[int, str]]:
        return await self._write(lambda: self._used().others(after, upto, revisions, limit=limit))

    async def newest_below(self, revision: int, *, limit: int) -> list[KnownKey]:
        return await self._write(lambda: self._used().newest_below(revision, limit=limit))

    async def first_markers(self, *, after: int, limit: int) -> list[tuple[int, str]]:
        return await self._write(lambda: self._used().markers.first(after=after, limit=limit))

    async def forget_markers(self, keys: list[str]) -> None:
        await self._write(lambda: self._used().markers.forget(keys))

    async def free_caches(self) -> None:
        """Free the memory that reads have filled; the next ones fill it with what they need."""
        await asyncio.get_running_loop().run_in_executor(self._read_threads, self._connections.free_caches)

    async def check_file(self) -> None:
        """Rebuild the index if its file was deleted."""
        file = self._file
        if file is not None and not self._broken and not await self._write(file.exists):
            self._mark_broken("its file was deleted")

    async def _write(self, work: Callable[..., T], *args: object) -> T:
        """Run it in the write thread; IndexNotReady when the file cannot be used now."""

        def guarded() -> T:
            try:
                return work(*args)
            except (OSError, ConfigError) as error:
                raise IndexNotReady(f"its file cannot be used: {error}") from error
            except _BAD_VALUE as error:
                raise BadValue(str(error)) from error
            except sqlite3.Error as error:
                raise self._not_ready(error) from error

        return await self._in_writer(guarded)

    async def _in_writer(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._write_thread, work)

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run it in a read thread, on one state of the index."""

        def guarded() -> T:
            file = self._file
            if file is None or not self.ready:
                raise IndexNotReady
            try:
                with self._connections.transaction(file) as db:
                    return work(db)
            except sqlite3.Error as error:
                raise self._not_ready(error) from error

        return await asyncio.get_running_loop().run_in_executor(self._read_threads, guarded)

    def _not_ready(self, error: sqlite3.Error) -> IndexNotReady:
        """The error to raise; the index is marked as broken, unless its file is only locked or full."""
        if is_busy(error):
            return IndexNotReady(f"another program uses its file: {error}")
        if is_full(error):
            return IndexNotReady(f"it is not up to date, because its disk is full: {error}")
        self._mark_broken(str(error))
        return IndexNotReady(f"it cannot be used and is rebuilt: {error}")

    def _mark_broken(self, why: str) -> None:
        log.warning("rebuilding the index of %s: %s", self._schema.name, why)
        self.ready = False
        self._broken = True

    def _open(self) -> None:
        if self._file is None:
            self._file = IndexFile(self._folder, self._schema)
        self._writer = self._new_writer(self._file.writer())

    def _begin(self, created: str) -> None:
        if self._broken:
            if self._file is not None:
                self._discard_file(self._file)
            self._open()
            self._broken = False
        self._opened_file().set_cache(filling=True)
        self._used().begin(created)

    def _complete(self) -> None:
        self._used().complete()
        self._opened_file().set_cache(filling=False)

    def _discard_file(self, file: IndexFile) -> None:
        self._connections.expire()
        self._used().close()
        # If the whole folder was deleted, another gateway may have created this file since.
        if file.exists():
            file.remove()
        file.release()
        self._file = None

    def _close(self) -> None:
        self._connections.close()
        if self._writer is not None:
            self._writer.close()
        if self._file is not None:
            try:
                if not self._broken:
                    self._file.flush()
            except (OSError, ConfigError) as error:
                log.warning("the index of %s may have to be rebuilt: %s", self._schema.name, error)
            finally:
                self._file.release()

    def _used(self) -> W:
        assert self._writer is not None, "the index was not started"
        return self._writer

    def _opened_file(self) -> IndexFile:
        assert self._file is not None, "the index was not started"
        return self._file
