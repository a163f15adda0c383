"""Connections for reading the index: each with one state of the index at a time.

The one that was used last is used next: it has in its cache what is read over and over. One for each thread
would have to fill as many caches.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyoco_server.runs.index.index_file import IndexFile


class ReaderConnections:
    """Used by several threads."""

    def __init__(self) -> None:
        # Which nobody uses now, with the generation of each; the one used last is the last.
        self._idle: list[tuple[int, sqlite3.Connection]] = []
        # Which file they are of: another one has been made since, if it is not this.
        self._generation = 0
        self._taking = threading.Lock()

    def renew(self) -> None:
        """Have the file opened anew before it is read again."""
        self._generation += 1

    @contextmanager
    def of(self, file: IndexFile) -> Iterator[sqlite3.Connection]:
        """A connection for the caller alone, inside of a transaction."""
        generation, db = self._taken(file)
        try:
            db.execute("BEGIN")
            try:
                yield db
            finally:
                db.execute("ROLLBACK")
        except sqlite3.Error:
            # Whatever is wrong with it must not become the next one's trouble.
            db.close()
            raise
        except BaseException:
            self._idle.append((generation, db))
            raise
        else:
            self._idle.append((generation, db))

    def close(self) -> None:
        """Close all of them; nobody may read any more."""
        while self._idle:
            self._idle.pop()[1].close()

    def _taken(self, file: IndexFile) -> tuple[int, sqlite3.Connection]:
        generation = self._generation
        with self._taking:
            while self._idle:
                found = self._idle.pop()
                if found[0] == generation:
                    return found
                found[1].close()
        return generation, file.reader()
