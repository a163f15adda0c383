"""Writing the index: what was read from the bucket, batch by batch, together with how far it was read."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Struct

from pyoco_server.runs.index import schema
from pyoco_server.runs.index.schema import MISSING, key_of, run_id_of
from pyoco_server.runs.open_runs import RunState
from pyoco_server.runs.recent_changes import UNKNOWN, Before
from pyoco_server.runs.run_summary import RunItem, RunSummary

# Groups whose number is remembered; more of them are looked up.
_REMEMBERED_GROUPS: Final = 20_000
# Longer than any two times are apart.
_EVER: Final = 1e12


class _Tags(Struct):
    tags: list[str]


_encode = msgspec.json.Encoder().encode
_decode_item = msgspec.json.Decoder(RunItem).decode
_decode_tags = msgspec.json.Decoder(_Tags).decode

_INSERT_RUN: Final = f"INSERT INTO runs VALUES ({', '.join('?' * 14)})"


@dataclass(frozen=True, slots=True)
class SeenWrite:
    """One write to the runs bucket, as it was read."""

    run_id: str
    revision: int
    # None when the run was removed.
    data: bytes | None
    # None also when it cannot be read.
    summary: RunSummary | None = None
    # Of a run that has not ended.
    state: RunState | None = None
    removed: bool = False


@dataclass(slots=True)
class _Row:
    """What is there of a run before a write."""

    revision: int
    doc: int
    grp: int
    updated_at: float
    tags: list[str]
    text: str
    item: bytes

    @property
    def summary(self) -> RunSummary:
        return RunSummary(item=_decode_item(self.item), text=self.text)


class IndexWriter:
    """Used by one thread."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._group_ids: dict[tuple[str, ...], int] = {}
        self._counted: Counter[int] = Counter()
        self.created: str = ""
        self.revision: int = 0
        for self.created, self.revision in connection.execute("SELECT created, revision FROM held"):
            pass
        [(self.runs,)] = connection.execute("SELECT coalesce(sum(runs), 0) FROM groups")
        [(self.marked,)] = connection.execute("SELECT count(*) FROM markers")

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
        self.created, self.revision, self.runs, self.marked = created, 0, 0, 0

    def complete(self) -> None:
        """What was missing while the index was filled, if anything."""
        for name, columns in schema.INDEXES.items():
            self._db.execute(f"CREATE INDEX IF NOT EXISTS {name} ON runs {columns}")

    def apply(self, batch: Sequence[SeenWrite], *, upto: int, want_before: bool = False) -> list[Before]:
        """Store what was read up to that revision; what was known of each run before, if that is wanted.

        Of a run that cannot be read any more it is told in any case: else nobody knew whose it was.
        """
        before: list[Before] = []
        with self._transaction():
            for write in batch:
                row = self._row(write.run_id)
                if want_before or write.summary is None:
                    before.append(None if row is None else row.summary)
                else:
                    before.append(UNKNOWN)
                self._store(write, row)
            self._store_counts()
            self._store_held(batch, upto)
        self.revision = upto
        return before

    def others(self, after: int, upto: int, revisions: Sequence[int], *, limit: int) -> list[tuple[int, str]]:
        """The first runs with a revision in between that is none of these: revision and id."""
        known = self._db.execute(
            "SELECT revision, run_id FROM runs WHERE revision > ? AND revision <= ? "
            "AND revision NOT IN (SELECT value FROM json_each(?)) ORDER BY revision LIMIT ?",
            [after, upto, json.dumps(revisions), limit],
        )
        return [(revision, run_id_of(key)) for revision, key in known]

    def drop(self, revisions: Sequence[int]) -> list[tuple[int, RunSummary]]:
        """Remove the runs with these revisions; what was known of them."""
        keys = self._db.execute(
            "SELECT run_id FROM runs WHERE revision IN (SELECT value FROM json_each(?))",
            [json.dumps(revisions)],
        )
        run_ids = [run_id_of(key) for (key,) in keys]
        dropped = []
        with self._transaction():
            for run_id in run_ids:
                row = self._row(run_id)
                assert row is not None
                self._drop(row)
                dropped.append((row.revision, row.summary))
            self._store_counts()
        return dropped

    def open_states(self) -> list[tuple[str, int, bytes]]:
        rows = self._db.execute("SELECT run_id, revision, state FROM runs WHERE state IS NOT NULL")
        return [(run_id_of(key), revision, state) for key, revision, state in rows]

    def markers(self) -> list[str]:
        return [run_id for (run_id,) in self._db.execute("SELECT run_id FROM markers ORDER BY revision")]

    def close(self) -> None:
        self._db.close()

    def trim_markers(self, keep: int) -> None:
        """Keep the newest markers: the oldest are removed from the bucket first."""
        self._db.execute(
            "DELETE FROM markers WHERE revision IN "
            "(SELECT revision FROM markers ORDER BY revision DESC LIMIT -1 OFFSET ?)",
            [keep],
        )
        self.marked = min(self.marked, keep)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        marked = self.marked
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            self._group_ids.clear()
            self._counted.clear()
            self.marked = marked
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _row(self, run_id: str) -> _Row | None:
        found = self._db.execute(
            "SELECT r.revision, r.doc, r.grp, r.updated_at, d.text, d.item "
            "FROM runs r JOIN docs d USING (doc) WHERE r.run_id = ?",
            [key_of(run_id)],
        ).fetchone()
        if found is None:
            return None
        revision, doc, grp, updated_at, text, item = found
        return _Row(revision, doc, grp, updated_at, _decode_tags(item).tags, text, item)

    def _store(self, write: SeenWrite, row: _Row | None) -> None:
        if self.marked:
            self.marked -= self._db.execute("DELETE FROM markers WHERE run_id = ?", [write.run_id]).rowcount
        if write.removed:
            self._db.execute("INSERT INTO markers VALUES (?, ?)", [write.revision, write.run_id])
            self.marked += 1
        if write.summary is None:
            if row is not None:
                self._drop(row)
            return
        item, text = write.summary.item, write.summary.text
        if row is None:
            doc = self._db.execute("INSERT INTO docs VALUES (NULL, ?, ?)", [_encode(item), text]).lastrowid
            assert doc is not None
            self._db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", [doc, text])
        else:
            doc = row.doc
            self._drop_run(row)
            self._db.execute("UPDATE docs SET item = ?, text = ? WHERE doc = ?", [_encode(item), text, doc])
            if text != row.text:
                self._forget_words(row)
                self._db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", [doc, text])
        self._insert_run(write, item, doc)

    def _insert_run(self, write: SeenWrite, item: RunItem, doc: int) -> None:
        group = self._group(item.tenant_id or "", item.flow_name, item.tag, item.status)
        self._counted[group] += 1
        self._db.execute(
            _INSERT_RUN,
            (
                write.revision,
                key_of(item.run_id),
                doc,
                group,
                item.updated_at,
                MISSING if item.submitted_at is None else item.submitted_at,
                MISSING if item.start_time is None else item.start_time,
                MISSING if item.end_time is None else item.end_time,
                MISSING if item.duration_sec is None else item.duration_sec,
                item.worker_id,
                item.origin_run_id,
                item.workflow_yaml_sha256,
                item.tenant_id,
                None if write.state is None else _encode(write.state),
            ),
        )
        for label in set(item.tags) - {item.tag}:
            self._db.execute("INSERT INTO labels VALUES (?, ?, ?)", [label, item.updated_at, write.revision])

    def _drop(self, row: _Row) -> None:
        self._drop_run(row)
        self._forget_words(row)
        self._db.execute("DELETE FROM docs WHERE doc = ?", [row.doc])

    def _drop_run(self, row: _Row) -> None:
        self._db.execute("DELETE FROM runs WHERE revision = ?", [row.revision])
        self._counted[row.grp] -= 1
        for label in row.tags:
            self._db.execute(
                "DELETE FROM labels WHERE label = ? AND updated_at = ? AND revision = ?",
                [label, row.updated_at, row.revision],
            )

    def _forget_words(self, row: _Row) -> None:
        self._db.execute(
            "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", [row.doc, row.text]
        )

    def _group(self, *key: str) -> int:
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

    def _store_held(self, batch: Sequence[SeenWrite], upto: int) -> None:
        items = [write.summary.item for write in batch if write.summary is not None]
        # Where one time is missing, nothing is known of it by the other.
        spans = [
            (-_EVER, _EVER)
            if item.submitted_at is None
            else (item.updated_at - item.submitted_at, item.updated_at - item.submitted_at)
            for item in items
        ]
        least = min((span[0] for span in spans), default=0.0)
        most = max((span[1] for span in spans), default=0.0)
        self._db.execute(
            "UPDATE held SET revision = ?, least_sec = min(least_sec, ?), most_sec = max(most_sec, ?)",
            [upto, least, most],
        )

    def _store_counts(self) -> None:
        changed = [(count, group) for group, count in self._counted.items() if count]
        self._db.executemany("UPDATE groups SET runs = runs + ? WHERE id = ?", changed)
        self.runs += sum(self._counted.values())
        self._counted.clear()
