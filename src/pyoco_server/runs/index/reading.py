"""Connections for reading the index: one per thread, each with one state of the index at a time."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyoco_server.runs.index.file import IndexFile


class ReaderConnections:
    def __init__(self) -> None:
        self._of_thread = threading.local()
        self._all: list[sqlite3.Connection] = []
        # Which file they are of: another one has been made since, if it is not this.
        self._generation = 0

    def renew(self) -> None:
        """Have every thread open the file anew before it reads again."""
        self._generation += 1

    @contextmanager
    def of(self, file: IndexFile) -> Iterator[sqlite3.Connection]:
        """The connection of this thread, inside of a transaction."""
        db = self._connection(file)
        db.execute("BEGIN")
        try:
            yield db
        finally:
            db.execute("ROLLBACK")

    def close(self) -> None:
        """Close all of them; nobody may read any more."""
        while self._all:
            self._all.pop().close()

    def _connection(self, file: IndexFile) -> sqlite3.Connection:
        mine = self._of_thread
        generation = self._generation
        if getattr(mine, "generation", None) != generation:
            if old := getattr(mine, "db", None):
                self._all.remove(old)
                old.close()
            mine.db = file.reader()
            mine.generation = generation
            self._all.append(mine.db)
        db: sqlite3.Connection = mine.db
        return db
