"""The SQLite index of a stream whose messages stay as they are until the stream removes them."""

import sqlite3
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

from pyoco_server.runs.index.sqlite.index_file import FileSchema
from pyoco_server.runs.index.sqlite.sqlite_index import FeedWrite, SqliteIndex, SqliteWriter

Write = TypeVar("Write", bound=FeedWrite)

_READERS: Final = 2
HELD_TABLE: Final = """
CREATE TABLE held (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    created TEXT NOT NULL,      -- of which stream this is the index
    revision INTEGER NOT NULL,  -- up to where it was read
    stored_ns INTEGER NOT NULL  -- when the message of that revision was stored
);
"""


class StreamWriter(SqliteWriter, Generic[Write]):
    key_column = "key"
    # The tables with the rows of messages.
    tables: ClassVar[Sequence[str]]

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        [(self.entries,)] = connection.execute(f"SELECT count(*) FROM {self.table}")

    def _clear(self) -> None:
        for table in self.tables:
            self._db.execute(f"DELETE FROM {table}")

    @abstractmethod
    def _insert(self, writes: Sequence[Write]) -> int:
        """Add those that could be read; returns how many."""

    @abstractmethod
    def _remove(self, column: str, values: list[Any]) -> int:
        """Remove the rows with one of these values; returns how many."""

    def apply(self, batch: Sequence[Write], *, upto: int, stored_ns: int) -> list[None]:
        newest = {write.key: write for write in batch}
        with self._transaction():
            removed = self._remove("key", list(newest))
            added = self._insert(list(newest.values()))
            self.markers.store(newest, ())
            self.unreadable.store(newest)
            self._db.execute("UPDATE held SET revision = ?, stored_ns = ?", [upto, stored_ns])
        self.revision, self.stored_ns = upto, stored_ns
        self.entries += added - removed
        return [None] * len(batch)

    def drop(self, revisions: Sequence[int]) -> None:
        """Remove the rows with these revisions: the stream has removed their messages."""
        with self._transaction():
            removed = self._remove("revision", list(revisions))
        self.entries -= removed


class StreamIndex(SqliteIndex[StreamWriter[Write]], Generic[Write]):
    """Queries raise IndexNotReady until the index has caught up once."""

    schema: ClassVar[FileSchema]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, self.schema, readers=_READERS)

    async def apply(self, batch: Sequence[Write], *, upto: int, stored_ns: int) -> list[None]:
        return await self._write(lambda: self._used().apply(batch, upto=upto, stored_ns=stored_ns))

    async def drop(self, revisions: list[int]) -> None:
        await self._write(lambda: self._used().drop(revisions))
