"""The table of deleted keys whose marker is still in the bucket, the same in every index."""

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from pyoco_server.broker.jetstream.feed_history import KnownKey

TABLE: Final = "CREATE TABLE markers (revision INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE);"


class MarkerTable:
    """Used by one thread."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        [(self.count,)] = db.execute("SELECT count(*) FROM markers")

    def clear(self) -> None:
        self._db.execute("DELETE FROM markers")

    def store(self, written: Collection[str], deleted: Iterable[tuple[int, str]]) -> None:
        """These keys were written; of those that were deleted, revision and key."""
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
        """All of them, in the order in which they were deleted."""
        return (key for (key,) in self._db.execute("SELECT key FROM markers ORDER BY revision"))

    def first(self, *, after: int, limit: int) -> list[tuple[int, str]]:
        """The oldest ones behind this revision: revision and key."""
        return self._db.execute(
            "SELECT revision, key FROM markers WHERE revision > ? ORDER BY revision LIMIT ?", [after, limit]
        ).fetchall()

    def newest_below(self, revision: int, stored: list[KnownKey], *, limit: int) -> list[KnownKey]:
        """The highest revisions below this one, of markers and of these keys, which are stored."""
        rows = self._db.execute(
            "SELECT revision, key FROM markers WHERE revision < ? ORDER BY revision DESC LIMIT ?",
            [revision, limit],
        )
        known = stored + [KnownKey(at, key, deleted=True) for at, key in rows]
        return sorted(known, key=lambda each: each.revision, reverse=True)[:limit]
