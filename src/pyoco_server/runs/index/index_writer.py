"""Writing the index: what was read from the bucket, batch by batch, together with how far it was read."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from pyoco_server.broker.jetstream.feed_history import KnownKey
from pyoco_server.runs.index import index_schema as schema
from pyoco_server.runs.index.index_rows import KnownRun, RowChanges, SeenWrite, known_runs
from pyoco_server.runs.index.index_schema import key_of, run_id_of
from pyoco_server.runs.index.run_summary import RunItem, RunSummary
from pyoco_server.runs.index.tombstones import MarkerTable
from pyoco_server.runs.watch.recent_changes import UNKNOWN, Before

# Groups whose number is remembered; more of them are looked up.
_REMEMBERED_GROUPS: Final = 20_000
# Longer than any two times are apart.
_EVER: Final = 1e12


class IndexWriter:
    """Used by one thread."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._group_ids: dict[tuple[str, ...], int] = {}
        self.created: str = ""
        self.revision: int = 0
        self.stored_ns: int = 0
        for held in connection.execute("SELECT created, revision, stored_ns FROM held"):
            self.created, self.revision, self.stored_ns = held
        [(self.runs,)] = connection.execute("SELECT coalesce(sum(runs), 0) FROM groups")
        self.markers = MarkerTable(connection)

    def begin(self, created: str) -> None:
        """Forget all: this is the index of another bucket now."""
        tables = ("runs", "groups", "docs", "labels", "markers", "held")
        with self._transaction():
            for name in schema.INDEXES:
                self._db.execute(f"DROP INDEX IF EXISTS {name}")
            for table in tables:
                self._db.execute(f"DELETE FROM {table}")
            self._db.execute("INSERT INTO words (words) VALUES ('delete-all')")
            self._db.execute("INSERT INTO held (one, created, revision) VALUES (1, ?, 0)", [created])
        self._group_ids.clear()
        self.created, self.revision, self.stored_ns, self.runs, self.markers.count = created, 0, 0, 0, 0

    def complete(self) -> None:
        """What was missing while the index was filled, if anything."""
        for name, columns in schema.INDEXES.items():
            self._db.execute(f"CREATE INDEX IF NOT EXISTS {name} ON runs {columns}")

    def apply(
        self, batch: Sequence[SeenWrite], *, upto: int, stored_ns: int = 0, want_before: bool = False
    ) -> list[Before]:
        """Store what was read up to that revision; what was known of each run before, if that is wanted.

        Of a run that cannot be read any more it is told in any case: else nobody knew whose it was.
        """
        # A run may have been written twice while the batch was read.
        newest = {write.run_id: write for write in batch}
        keys = {run_id: key_of(run_id) for run_id in newest}
        with self._transaction():
            known = known_runs(self._db, keys.values())
            before = _before(batch, known, everything=want_before)
            deleted = [(write.revision, write.run_id) for write in newest.values() if write.removed]
            self.markers.store(newest, deleted)
            changes = RowChanges(self._db)
            for write in newest.values():
                key = keys[write.run_id]
                was = known.get(key)
                if write.summary is not None:
                    changes.put(write, write.summary, key, group=self._group(write.summary.item), known=was)
                elif was is not None:
                    changes.drop(was)
            changes.write()
            items = [write.summary.item for write in batch if write.summary is not None]
            self._store_held(items, upto, stored_ns)
        self.runs += changes.counted.total()
        self.revision, self.stored_ns = upto, stored_ns
        return before

    def others(self, after: int, upto: int, revisions: Sequence[int], *, limit: int) -> list[tuple[int, str]]:
        """The first runs with a revision in between that is none of these: revision and id."""
        known = self._db.execute(
            "SELECT revision, run_id FROM runs WHERE revision > ? AND revision <= ? "
            "AND revision NOT IN (SELECT value FROM json_each(?)) ORDER BY revision LIMIT ?",
            [after, upto, json.dumps(revisions), limit],
        )
        return [(revision, run_id_of(key)) for revision, key in known]

    def newest_below(self, revision: int, *, limit: int) -> list[KnownKey]:
        """The runs and markers with the highest revisions below this one, the highest first."""
        runs = self._db.execute(
            "SELECT revision, run_id FROM runs WHERE revision < ? ORDER BY revision DESC LIMIT ?",
            [revision, limit],
        )
        known = [KnownKey(at, run_id_of(key)) for at, key in runs]
        return self.markers.newest_below(revision, known, limit=limit)

    def drop(self, revisions: Sequence[int]) -> list[tuple[int, RunSummary]]:
        """Remove the runs with these revisions; what was known of them."""
        found = self._db.execute(
            "SELECT run_id FROM runs WHERE revision IN (SELECT value FROM json_each(?))",
            [json.dumps(revisions)],
        ).fetchall()
        with self._transaction():
            known = known_runs(self._db, [key for (key,) in found])
            changes = RowChanges(self._db)
            for run in known.values():
                changes.drop(run)
            changes.write()
        self.runs += changes.counted.total()
        return [(run.revision, run.summary) for run in known.values()]

    def open_states(self) -> list[tuple[str, int, bytes]]:
        rows = self._db.execute("SELECT run_id, revision, state FROM runs WHERE state IS NOT NULL")
        return [(run_id_of(key), revision, state) for key, revision, state in rows]

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        marked = self.markers.count
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self._group_ids.clear()
            self.markers.count = marked
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _group(self, item: RunItem) -> int:
        key = (item.tenant_id or "", item.flow_name, item.tag, item.status)
        known = self._group_ids.get(key)
        if known is not None:
            return known
        self._db.execute("INSERT OR IGNORE INTO groups (tenant, flow, tag, status) VALUES (?, ?, ?, ?)", key)
        found = self._db.execute(
            "SELECT id FROM groups WHERE tenant = ? AND flow = ? AND tag = ? AND status = ?", key
        )
        group: int = found.fetchone()[0]
        if len(self._group_ids) >= _REMEMBERED_GROUPS:
            self._group_ids.clear()
        self._group_ids[key] = group
        return group

    def _store_held(self, items: Sequence[RunItem], upto: int, stored_ns: int) -> None:
        spans = [item.updated_at - item.submitted_at for item in items if item.submitted_at is not None]
        if len(spans) < len(items):
            # Where one time is missing, nothing is known of it by the other.
            spans += (-_EVER, _EVER)
        self._db.execute(
            "UPDATE held SET revision = ?, stored_ns = ?, "
            "least_sec = min(least_sec, ?), most_sec = max(most_sec, ?)",
            [upto, stored_ns, min(spans, default=0.0), max(spans, default=0.0)],
        )


def _before(batch: Sequence[SeenWrite], known: dict[bytes, KnownRun], *, everything: bool) -> list[Before]:
    """What was known of each run before its write, as far as it is wanted."""
    if not everything and all(write.summary is not None for write in batch):
        return [UNKNOWN] * len(batch)
    before: list[Before] = []
    written: dict[str, RunSummary | None] = {}
    for write in batch:
        if not everything and write.summary is not None:
            before.append(UNKNOWN)
        elif write.run_id in written:
            before.append(written[write.run_id])
        else:
            row = known.get(key_of(write.run_id))
            before.append(None if row is None else row.summary)
        written[write.run_id] = write.summary
    return before
