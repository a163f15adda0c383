"""Writing the index: a batch has the same effect and result as its single writes."""

import random
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyoco_server.errors import IndexNotReady
from pyoco_server.records.runs.run_models import (
    Job,
    RunSnapshot,
    RunStatus,
    encode,
    new_run_id,
    pending_snapshot,
)
from pyoco_server.runs.index import index_schema as schema
from pyoco_server.runs.index.index_writer import IndexWriter, RunWrite
from pyoco_server.runs.index.run_index import RunIndex
from pyoco_server.runs.index.run_summary import RunSummary, summary_of
from pyoco_server.runs.index.sqlite.batch_statement import BatchStatement
from pyoco_server.runs.index.sqlite.index_file import IndexFile
from pyoco_server.runs.open_runs import decode_state
from pyoco_server.runs.watch.recent_changes import UNKNOWN, Before

# Each table without its internal numbers.
_WRITTEN = (
    "SELECT r.revision, r.run_id, g.tenant, g.flow, g.tag, g.status, r.updated_at, r.submitted_at, "
    "r.end_time, r.worker, r.tenant, r.state, d.item, d.text FROM runs r JOIN groups g ON g.id = r.grp "
    "JOIN docs d USING (doc) ORDER BY 1",
    "SELECT tenant, flow, tag, status, runs FROM groups WHERE runs != 0 ORDER BY 1, 2, 3, 4",
    "SELECT * FROM labels ORDER BY 1, 2, 3",
    "SELECT * FROM markers ORDER BY 1",
    "SELECT created, revision, least_sec, most_sec FROM held",
    "SELECT count(*) FROM docs",
)


class Written:
    """An index, and what is in it."""

    def __init__(self, folder: Path) -> None:
        self._file = IndexFile(folder, schema.SCHEMA)
        self.db = self._file.writer()
        self.writer = IndexWriter(self.db)
        self.writer.begin("now")
        self.writer.complete()

    def close(self) -> None:
        self.writer.close()
        self._file.release()

    def tables(self) -> list[object]:
        return [self.db.execute(sql).fetchall() for sql in _WRITTEN]

    def found(self, text: str) -> set[int | None]:
        """The revisions of the runs whose words have these three characters; None for one that is gone."""
        rows = self.db.execute(
            "SELECT r.revision FROM words LEFT JOIN runs r ON r.doc = words.rowid WHERE words MATCH ?",
            [f'"{text}"'],
        )
        return {revision for (revision,) in rows}


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Callable[[], Written]]:
    made: list[Written] = []

    def make() -> Written:
        made.append(Written(tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.close()


def run(run_id: str, choose: random.Random) -> RunSnapshot:
    flow, tags = (
        choose.choice(["load", "report"]),
        choose.choice([["gpu"], ["gpu", "night"], ["day", "night"]]),
    )
    job = Job(run_id=run_id, flow_name=flow, tag="gpu", tags=tags, submitted_at=float(choose.randrange(100)))
    snapshot = pending_snapshot(job)
    snapshot.tenant_id = choose.choice([None, "acme"])
    snapshot.updated_at = float(choose.randrange(100, 200))
    snapshot.status = choose.choice([RunStatus.PENDING, RunStatus.COMPLETED, RunStatus.FAILED])
    if snapshot.status is RunStatus.FAILED:
        snapshot.error = f"broken {choose.randrange(3)}"
    return snapshot


def seen(run_id: str, revision: int, snapshot: RunSnapshot) -> RunWrite:
    data = encode(snapshot)
    state = None if snapshot.status.terminal else decode_state(data)
    return RunWrite(run_id, revision, data, summary_of(data), state)


def history(choose: random.Random, *, runs: int, writes: int) -> list[RunWrite]:
    """Runs that are written, deleted, made invalid and written again."""
    run_ids = [new_run_id() for _ in range(runs)]
    found = []
    for revision in range(1, writes + 1):
        run_id = choose.choice(run_ids)
        what = choose.random()
        if what < 0.1:
            found.append(RunWrite(run_id, revision, None, deleted=True))
        elif what < 0.15:
            found.append(RunWrite(run_id, revision, b"no run"))
        else:
            found.append(seen(run_id, revision, run(run_id, choose)))
    return found


@pytest.mark.parametrize("with_before", [True, False])
@pytest.mark.parametrize("size", [3, 73, 400])
def test_a_batch_equals_its_single_writes(
    written: Callable[[], Written], size: int, with_before: bool
) -> None:
    writes = history(random.Random(size), runs=150, writes=800)
    together, one_by_one = written(), written()
    for start in range(0, len(writes), size):
        batch = writes[start : start + size]
        said = together.writer.apply(batch, upto=batch[-1].revision, with_before=with_before)
        singly: list[Before] = []
        for write in batch:
            singly += one_by_one.writer.apply([write], upto=write.revision, with_before=with_before)
        assert said == singly
        assert together.tables() == one_by_one.tables()
    for text in ("loa", "rep", "nig", "n 1"):
        assert together.found(text) == one_by_one.found(text) != set()
    counted = [
        (index.writer.entries, index.writer.markers.count, index.writer.revision)
        for index in (together, one_by_one)
    ]
    assert counted[0] == counted[1]
    assert counted[0][0] == together.db.execute("SELECT count(*) FROM runs").fetchone()[0]


def test_a_second_write_in_a_batch_has_the_first_as_before(
    written: Callable[[], Written],
) -> None:
    index, run_id = written(), new_run_id()
    first, second = (seen(run_id, revision, run(run_id, random.Random(revision))) for revision in (1, 2))
    gone = RunWrite(run_id, 3, None, deleted=True)
    said = index.writer.apply([first, second, gone], upto=3, with_before=True)
    assert said == [None, first.summary, second.summary]
    # Without being asked it says whose the run was, and no more.
    again = seen(run_id, 4, run(run_id, random.Random(4)))
    assert index.writer.apply([again, RunWrite(run_id, 5, b"no run")], upto=5) == [UNKNOWN, again.summary]
    assert index.writer.entries == 0


def test_a_failed_batch_is_rolled_back(written: Callable[[], Written]) -> None:
    index = written()
    before = history(random.Random(1), runs=40, writes=60)
    index.writer.apply(before, upto=60)
    was = (index.tables(), index.writer.entries, index.writer.markers.count, index.writer.revision)
    taken = next(
        write for write in before if write.summary is not None and index.found("gpu") & {write.revision}
    )
    other = new_run_id()
    # The last of many: a revision that is another run's.
    batch = [
        *(seen(each, 100 + number, run(each, random.Random(2))) for number, each in enumerate(some_ids(80))),
        seen(other, taken.revision, run(other, random.Random(3))),
    ]
    with pytest.raises(sqlite3.IntegrityError):
        index.writer.apply([RunWrite(new_run_id(), 99, None, deleted=True), *batch], upto=200)
    assert (index.tables(), index.writer.entries, index.writer.markers.count, index.writer.revision) == was
    index.writer.apply(batch[:-1], upto=200)
    assert index.writer.entries == was[1] + 80


def test_dropped_runs_are_returned_and_removed(written: Callable[[], Written]) -> None:
    index = written()
    batch = [
        seen(each, number, run(each, random.Random(number))) for number, each in enumerate(some_ids(90), 1)
    ]
    index.writer.apply(batch, upto=90)
    dropped = dict(index.writer.drop([*range(1, 81), 1000]))
    assert dropped == {write.revision: write.summary for write in batch[:80]}
    assert all(isinstance(summary, RunSummary) for summary in dropped.values())
    assert index.writer.entries == 10
    assert index.found("gpu") == set(range(81, 91))


def some_ids(count: int) -> list[str]:
    return [new_run_id() for _ in range(count)]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 64, 65, 137])
def test_a_batch_statement_handles_each_row_once(count: int) -> None:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, a, b)")
    rows = [(number, str(number)) for number in range(count)]
    BatchStatement("INSERT INTO t (a, b) VALUES {}", "(?, ?)").execute(db, rows)
    assert db.execute("SELECT a, b FROM t ORDER BY number").fetchall() == rows
    found = BatchStatement("SELECT a FROM t WHERE b IN ({})", "?").query(db, [(text,) for _, text in rows])
    assert sorted(found) == [(number,) for number in range(count)]
    db.close()


def numbered(count: int) -> list[tuple[int, str]]:
    return [(number, new_run_id()) for number in range(1, count + 1)]


async def test_an_index_whose_disk_is_full_is_kept_and_continues(tmp_path: Path) -> None:
    index = RunIndex(tmp_path)
    await index.start()
    try:
        await index.begin("now")
        choose = random.Random(7)
        [first, *many] = [seen(run_id, number, run(run_id, choose)) for number, run_id in numbered(299)]
        await index.apply([first], upto=1, stored_ns=1)
        await index.complete()
        db = index._used()._db
        [(pages,)] = db.execute("PRAGMA page_count")
        # The limit of SQLite itself gives the same error as a full disk.
        db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(IndexNotReady, match="its disk is full"):
            await index.apply(many, upto=299, stored_ns=2)
        assert (index.ready, index.entries, index.checkpoint.revision) == (True, 1, 1)
        db.execute(f"PRAGMA max_page_count = {100 * pages}")
        await index.apply(many, upto=299, stored_ns=2)
        assert (index.ready, index.entries, index.checkpoint.revision) == (True, 299, 299)
    finally:
        await index.close()


async def test_freeing_the_caches_leaves_reads_as_they_were(tmp_path: Path) -> None:
    index = RunIndex(tmp_path)
    await index.start()
    try:
        await index.begin("now")
        choose = random.Random(7)
        writes = [seen(run_id, number, run(run_id, choose)) for number, run_id in numbered(20)]
        await index.apply(writes, upto=20, stored_ns=1)
        await index.complete()
        before = await index.counts()
        [(_, idle)] = index._connections._idle
        statements: list[str] = []
        idle.set_trace_callback(statements.append)
        await index.free_caches()
        assert statements == ["PRAGMA shrink_memory"]
        assert await index.counts() == before
    finally:
        await index.close()
