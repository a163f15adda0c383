"""Statements that take many rows at once.

To begin a statement takes SQLite longer than to write a row: there are a dozen indexes to open. And while it
works, the event loop goes on: with a statement for each row, the two would wait for each other all the time.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, Final

# So many rows in one go, as long as there are so many; few sizes, since each is a statement to be kept.
_SIZES: Final = (64, 8, 1)


class ManyRows:
    """A statement with `{}` in it, where what stands for one row is repeated for each of them."""

    def __init__(self, sql: str, row: str) -> None:
        self._by_size = [(size, sql.format(", ".join([row] * size))) for size in _SIZES]

    def run(self, db: sqlite3.Connection, rows: Sequence[Sequence[object]]) -> Iterator[tuple[Any, ...]]:
        """What it answers; it has been done by then as far as the answers were read."""
        done = 0
        for size, sql in self._by_size:
            while len(rows) - done >= size:
                values = tuple(chain.from_iterable(rows[done : done + size]))
                yield from db.execute(sql, values)
                done += size

    def do(self, db: sqlite3.Connection, rows: Sequence[Sequence[object]]) -> None:
        for _ in self.run(db, rows):
            pass
