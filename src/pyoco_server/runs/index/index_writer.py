"""Writing the index of runs: batches read from the bucket, each in one transaction with its revision."""

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from pyoco_server.records.runs.artifact_models import ArtifactCounts
from pyoco_server.runs.index import index_schema as schema
from pyoco_server.runs.index.index_schema import MISSING, key_of, run_id_of
from pyoco_server.runs.index.run_summary import RunItem, RunSummary
from pyoco_server.runs.index.sqlite.batch_statement import BatchStatement
from pyoco_server.runs.index.sqlite.sqlite_index import SqliteWriter
from pyoco_server.runs.index.statistics.flow_rollups import EndedRun, FlowRollups, RollupChanges
from pyoco_server.runs.open_runs import RunState
from pyoco_server.runs.watch.recent_changes import UNKNOWN, Before

_CACHED_GROUP_IDS: Final = 20_000
# Longer than any two times are apart.
_EVER: Final = 1e12


_FIND: Final = BatchStatement(
    "SELECT r.run_id, r.revision, r.doc, r.grp, r.updated_at, r.state IS NULL, d.text, d.item "
    "FROM runs r JOIN docs d USING (doc) WHERE r.run_id IN ({})",
    "?",
)
_DELETE_RUNS: Final = BatchStatement("DELETE FROM runs WHERE revision IN ({})", "?")
_DELETE_DOCS: Final = BatchStatement("DELETE FROM docs WHERE doc IN ({})", "?")
_DELETE_WORDS: Final = BatchStatement("INSERT INTO words (words, rowid, text) VALUES {}", "('delete', ?, ?)")
_PUT_DOCS: Final = BatchStatement("INSERT OR REPLACE INTO docs VALUES {}", "(?, ?, ?)")
_PUT_WORDS: Final = BatchStatement("INSERT INTO words (rowid, text) VALUES {}", "(?, ?)")
_PUT_PARAMS: Final = BatchStatement("INSERT OR REPLACE INTO params VALUES {}", "(?, ?)")
_DELETE_PARAMS: Final = BatchStatement("DELETE FROM params WHERE doc IN ({})", "?")
_PUT_RUNS: Final = BatchStatement("INSERT INTO runs VALUES {}", f"({', '.join('?' * 16)})")
_ADD_ARTIFACTS: Final = (
    "INSERT INTO artifacts VALUES (?, ?, ?, ?) ON CONFLICT (tenant) DO UPDATE SET "
    "files = files + excluded.files, bytes = bytes + excluded.bytes, left_out = left_out + excluded.left_out"
)
_PUT_LABELS: Final = BatchStatement("INSERT INTO labels VALUES {}", "(?, ?, ?)")


class _Indexed(Struct):
    """What else is indexed of a run's item."""

    tag: str
    tags: list[str]
    tenant_id: str | None = None
    artifacts: ArtifactCounts | UnsetType = UNSET


_encode = msgspec.json.Encoder().encode
_decode_item = msgspec.json.Decoder(RunItem).decode
_decode_indexed = msgspec.json.Decoder(_Indexed).decode


class RunWrite(Struct, frozen=True, gc=False):
    """One message of the runs bucket, decoded."""

    run_id: str
    revision: int
    # None when the run was deleted.
    data: bytes | None
    # None also when it cannot be read.
    summary: RunSummary | None = None
    # Of a run that has not ended.
    state: RunState | None = None
    deleted: bool = False
    # Why it cannot be read.
    problem: str | None = None

    @property
    def key(self) -> str:
        return self.run_id


class IndexedRun(Struct, frozen=True, gc=False):
    """The rows of a run."""

    revision: int
    doc: int
    grp: int
    updated_at: float
    has_ended: int
    text: str
    item: bytes

    @property
    def summary(self) -> RunSummary:
        return RunSummary(item=_decode_item(self.item), text=self.text)

    def counted(self, rollups: RollupChanges) -> EndedRun | None:
        """What the roll-ups have of it."""
        return rollups.ended_run(self.grp, _decode_item(self.item)) if self.has_ended else None


def indexed_runs(db: sqlite3.Connection, keys: Iterable[bytes]) -> dict[bytes, IndexedRun]:
    return {row[0]: IndexedRun(*row[1:]) for row in _FIND.query(db, [(key,) for key in keys])}


class RowChanges:
    """Rows to delete and to insert, collected and then written together."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        # The change of the number of runs, by group.
        self.counts: Counter[int] = Counter()
        [(self._last_doc,)] = db.execute("SELECT coalesce(max(doc), 0) FROM docs")
        self._old_runs: list[tuple[int]] = []
        self._old_docs: list[tuple[int]] = []
        self._old_words: list[tuple[int, str]] = []
        self._old_labels: list[tuple[str, float, int]] = []
        self._runs: list[tuple[object, ...]] = []
        self._docs: list[tuple[int, bytes, str]] = []
        self._words: list[tuple[int, str]] = []
        self._params: list[tuple[int, str]] = []
        self._labels: list[tuple[str, float, int]] = []
        # What to add to the numbers of a tenant.
        self._artifacts: list[tuple[str | int, ...]] = []

    def delete(self, run: IndexedRun) -> None:
        self._delete_run(run)
        self._old_words.append((run.doc, run.text))
        self._old_docs.append((run.doc,))

    def put(
        self, write: RunWrite, summary: RunSummary, key: bytes, *, group: int, previous: IndexedRun | None
    ) -> None:
        item, text = summary.item, summary.text
        if previous is None:
            self._last_doc += 1
            doc = self._last_doc
            self._words.append((doc, text))
            if summary.params is not None:
                self._params.append((doc, summary.params))
        else:
            doc = previous.doc
            self._delete_run(previous)
            if text != previous.text:
                self._old_words.append((doc, previous.text))
                self._words.append((doc, text))
        self._docs.append((doc, _encode(item), text))
        self._runs.append(
            (
                write.revision,
                key,
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
                *item.indexed_cause,
                item.tenant_id,
                None if write.state is None else _encode(write.state),
            )
        )
        self.counts[group] += 1
        self._labels += _labels(item.tag, item.tags, item.updated_at, write.revision)
        self._add_artifacts(item, 1)

    def write(self) -> None:
        db = self._db
        _DELETE_RUNS.execute(db, self._old_runs)
        _DELETE_WORDS.execute(db, self._old_words)
        _DELETE_DOCS.execute(db, self._old_docs)
        _DELETE_PARAMS.execute(db, self._old_docs)
        db.executemany(
            "DELETE FROM labels WHERE label = ? AND updated_at = ? AND revision = ?", self._old_labels
        )
        _PUT_DOCS.execute(db, self._docs)
        _PUT_WORDS.execute(db, self._words)
        _PUT_PARAMS.execute(db, self._params)
        _PUT_RUNS.execute(db, self._runs)
        _PUT_LABELS.execute(db, self._labels)
        db.executemany(_ADD_ARTIFACTS, self._artifacts)
        changed = [(count, group) for group, count in self.counts.items() if count]
        db.executemany("UPDATE groups SET runs = runs + ? WHERE id = ?", changed)

    def _delete_run(self, run: IndexedRun) -> None:
        self._old_runs.append((run.revision,))
        self.counts[run.grp] -= 1
        of = _decode_indexed(run.item)
        self._old_labels += _labels(of.tag, of.tags, run.updated_at, run.revision)
        self._add_artifacts(of, -1)

    def _add_artifacts(self, of: "RunItem | _Indexed", sign: int) -> None:
        if of.artifacts is not UNSET:
            counts = of.artifacts.count, of.artifacts.bytes, of.artifacts.left_out_count
            self._artifacts.append((of.tenant_id or "", *(sign * count for count in counts)))


def _labels(tag: str, tags: list[str], updated_at: float, revision: int) -> list[tuple[str, float, int]]:
    """Rows for the tags other than the group's; most runs have none."""
    if tags == [tag]:
        return []
    return [(label, updated_at, revision) for label in {*tags} - {tag}]


class IndexWriter(SqliteWriter):
    table = "runs"
    key_column = "run_id"

    def __init__(self, connection: sqlite3.Connection, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(connection)
        self.rollups = FlowRollups(connection, clock)
        self._group_ids: dict[tuple[str, ...], int] = {}
        [(self.entries,)] = connection.execute("SELECT coalesce(sum(runs), 0) FROM groups")

    def _clear(self) -> None:
        for name in schema.INDEXES:
            self._db.execute(f"DROP INDEX IF EXISTS {name}")
        for table in ("runs", "groups", "docs", "params", "labels", "artifacts", "rollups", "totals"):
            self._db.execute(f"DELETE FROM {table}")
        self._db.execute("INSERT INTO words (words) VALUES ('delete-all')")
        self._group_ids.clear()
        self.rollups.reset()

    def complete(self) -> None:
        for name, columns in schema.INDEXES.items():
            self._db.execute(f"CREATE INDEX IF NOT EXISTS {name} ON runs {columns}")

    def apply(
        self, batch: Sequence[RunWrite], *, upto: int, stored_ns: int = 0, with_before: bool = False
    ) -> list[Before]:
        """Store what was read up to that revision; returns each run as it was before its write.

        Without `with_before` only for writes that cannot be decoded: their tenant would be unknown.
        """
        # A run may have been written twice while the batch was read.
        newest = {write.run_id: write for write in batch}
        keys = {run_id: key_of(run_id) for run_id in newest}
        with self._transaction():
            indexed = indexed_runs(self._db, keys.values())
            before = _before(batch, indexed, everything=with_before)
            deleted = [(write.revision, write.run_id) for write in newest.values() if write.deleted]
            self.markers.store(newest, deleted)
            self.unreadable.store(newest)
            changes, rollups = RowChanges(self._db), self.rollups.changes()
            for write in newest.values():
                key = keys[write.run_id]
                previous = indexed.get(key)
                if write.summary is not None:
                    group = self._group(write.summary.item)
                    changes.put(write, write.summary, key, group=group, previous=previous)
                    counted = None if previous is None else previous.counted(rollups)
                    rollups.replace(counted, rollups.ended_run(group, write.summary.item))
                elif previous is not None:
                    changes.delete(previous)
                    if write.deleted:
                        rollups.note_deleted(previous.counted(rollups))
                    else:
                        rollups.replace(previous.counted(rollups), None)
            changes.write()
            self.rollups.apply(rollups, upto)
            items = [write.summary.item for write in batch if write.summary is not None]
            self._store_held(items, upto, stored_ns)
        self.entries += changes.counts.total()
        self.revision, self.stored_ns = upto, stored_ns
        return before

    def drop(self, revisions: Sequence[int]) -> list[tuple[int, RunSummary]]:
        """Remove the runs with these revisions; returns them."""
        found = self._db.execute(
            "SELECT run_id FROM runs WHERE revision IN (SELECT value FROM json_each(?))",
            [json.dumps(revisions)],
        ).fetchall()
        with self._transaction():
            indexed = indexed_runs(self._db, [key for (key,) in found])
            changes, rollups = RowChanges(self._db), self.rollups.changes()
            for run in indexed.values():
                changes.delete(run)
                rollups.note_deleted(run.counted(rollups))
            changes.write()
            self.rollups.apply(rollups, self.revision)
        self.entries += changes.counts.total()
        return [(run.revision, run.summary) for run in indexed.values()]

    def write_rollups(self) -> None:
        """Make them complete up to the revision of the index."""
        if not self.rollups.are_written:
            with self._transaction():
                self.rollups.apply(self.rollups.changes(urgent=True), self.revision)

    def open_states(self) -> list[tuple[str, int, bytes]]:
        rows = self._db.execute("SELECT run_id, revision, state FROM runs WHERE state IS NOT NULL")
        return [(run_id_of(key), revision, state) for key, revision, state in rows]

    def _key(self, stored: bytes) -> str:
        return run_id_of(stored)

    def _rolled_back(self) -> None:
        self._group_ids.clear()
        self.rollups.reset()

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
        if len(self._group_ids) >= _CACHED_GROUP_IDS:
            self._group_ids.clear()
        self._group_ids[key] = group
        return group

    def _store_held(self, items: Sequence[RunItem], upto: int, stored_ns: int) -> None:
        spans = [item.updated_at - item.submitted_at for item in items if item.submitted_at is not None]
        if len(spans) < len(items):
            # A run without one of the times gives no bound.
            spans += (-_EVER, _EVER)
        self._db.execute(
            "UPDATE held SET revision = ?, stored_ns = ?, "
            "least_sec = min(least_sec, ?), most_sec = max(most_sec, ?)",
            [upto, stored_ns, min(spans, default=0.0), max(spans, default=0.0)],
        )


def _before(batch: Sequence[RunWrite], indexed: dict[bytes, IndexedRun], *, everything: bool) -> list[Before]:
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
            row = indexed.get(key_of(write.run_id))
            before.append(None if row is None else row.summary)
        written[write.run_id] = write.summary
    return before
