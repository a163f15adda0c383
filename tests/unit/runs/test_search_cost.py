"""The cost of a page of a long list: covering indexes and a warm cache."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest
from benchmarks.harness.seed import WORKERS, snapshots

from pyoco_server.records.runs.run_models import encode
from pyoco_server.runs.index.index_schema import SCHEMA
from pyoco_server.runs.index.index_writer import IndexWriter, RunWrite
from pyoco_server.runs.index.pagination import Sort, SortField
from pyoco_server.runs.index.run_summary import summary_of
from pyoco_server.runs.index.search.run_filter import RunFilter
from pyoco_server.runs.index.search.run_search import Search
from pyoco_server.runs.index.sqlite.index_file import IndexFile
from pyoco_server.runs.index.sqlite.sqlite_index import ReadConnections

FAILED = frozenset({"FAILED"})
LONGEST_FIRST = Sort(SortField.DURATION)
SHORTEST_FIRST = Sort(SortField.DURATION, descending=False)


@pytest.fixture(scope="module")
def file() -> Iterator[IndexFile]:
    """An index of runs of many groups."""
    with TemporaryDirectory() as folder:
        file = IndexFile(Path(folder), SCHEMA)
        writer = IndexWriter(file.writer())
        writer.begin("a bucket")
        seen = [
            RunWrite(run.run_id, revision, b"", summary_of(encode(run)))
            for revision, run in enumerate(snapshots(5000), start=1)
        ]
        writer.apply(seen, upto=len(seen))
        writer.complete()
        yield file
        writer.close()
        file.release()


@pytest.mark.parametrize(
    ("run_filter", "sort"),
    [
        (RunFilter(), Sort()),
        (RunFilter(statuses=FAILED), Sort()),
        (RunFilter(statuses=FAILED), LONGEST_FIRST),
        (RunFilter(tag="gpu"), Sort(SortField.END_TIME)),
        (RunFilter(tag="canary"), SHORTEST_FIRST),
        (RunFilter(worker=WORKERS[3]), Sort()),
        (RunFilter(worker=WORKERS[3], statuses=FAILED), LONGEST_FIRST),
    ],
    ids=str,
)
def test_no_row_of_a_run_is_read_to_find_the_page(
    file: IndexFile, run_filter: RunFilter, sort: Sort, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if there were many more: what makes the choice small here would be much there.
    monkeypatch.setattr("pyoco_server.runs.index.search.query_plan._FEW", 30)
    db = file.reader()
    asked: list[str] = []
    db.set_trace_callback(asked.append)
    assert len(Search(db, run_filter, sort).page(10)) == 10
    db.set_trace_callback(None)
    read = [step for sql in asked for step in plan(db, sql) if step.startswith(("SEARCH r ", "SCAN r "))]
    assert read
    assert [step for step in read if "COVERING INDEX" not in step] == []
    db.close()


def plan(db: sqlite3.Connection, sql: str) -> list[str]:
    return [step for *_, step in db.execute(f"EXPLAIN QUERY PLAN {sql}")]


# Connections


def test_the_connection_used_last_is_reused(file: IndexFile) -> None:
    connections = ReadConnections()
    used = []

    def read() -> None:
        with connections.transaction(file) as db:
            used.append(db)

    for _ in range(2):
        thread = Thread(target=read)
        thread.start()
        thread.join()
    assert used[0] is used[1]
    connections.close()


def test_concurrent_reads_have_their_own_connections(file: IndexFile) -> None:
    connections = ReadConnections()
    with connections.transaction(file) as first, connections.transaction(file) as second:
        assert first is not second
    connections.close()


def test_connections_to_a_discarded_file_are_closed(file: IndexFile) -> None:
    connections = ReadConnections()
    with connections.transaction(file) as old:
        connections.expire()
    with connections.transaction(file) as new:
        assert new is not old
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        old.execute("SELECT 1")
    connections.close()
