"""SQLite statements that handle many rows at once."""

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

# Rows per statement; few sizes, because each is a prepared statement.
_BATCH_SIZES: Final = (64, 8, 1)


class BatchStatement:
    """A statement with `{}` in it, where the placeholder of one row is repeated for many.

    Starting a statement takes SQLite longer than writing a row, and each start may wait for the event loop's
    thread.
    """

    def __init__(self, sql: str, row: str) -> None:
        self._by_size = [(size, sql.format(", ".join([row] * size))) for size in _BATCH_SIZES]

    def query(self, db: sqlite3.Connection, rows: Sequence[Sequence[object]]) -> Iterator[tuple[Any, ...]]:
        """The result rows; executed only as far as they are consumed."""
        done = 0
        for size, sql in self._by_size:
            while len(rows) - done >= size:
                values = tuple(chain.from_iterable(rows[done : done + size]))
                yield from db.execute(sql, values)
                done += size

    def execute(self, db: sqlite3.Connection, rows: Sequence[Sequence[object]]) -> None:
        for _ in self.query(db, rows):
            pass
