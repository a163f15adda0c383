"""Filters match the same runs in Python and in SQL."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyoco_server.runs.index.index_schema import SCHEMA
from pyoco_server.runs.index.index_writer import IndexWriter, RunWrite
from pyoco_server.runs.index.pagination import Sort, SortField, SortKey
from pyoco_server.runs.index.run_summary import RunSummary, summary_of
from pyoco_server.runs.index.search.run_filter import RunFilter, TimeRange
from pyoco_server.runs.index.search.run_search import Search
from pyoco_server.runs.index.sqlite.index_file import IndexFile

STATUSES = ("PENDING", "RUNNING", "COMPLETED", "FAILED")
WORDS = (
    "etl",
    "ETL-2",
    "report",
    "売上",
    "売上レポート",
    'a"b',
    "x\0y",
    "%_'",
    "straße",
    "İx",
    "ΟΔΟΣ",
    "οδοςα",
    "ﬁn",
    "ＥＴＬ",
    "cafe\u0301",
    "ｶﾞ",
)
SHA = "0" * 63

times = st.integers(0, 6).map(float)
words = st.sampled_from(WORDS)
tenants = st.sampled_from([None, "acme", "acme-2"])


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


snapshots = st.fixed_dictionaries(
    {
        "flow_name": words,
        "status": st.sampled_from(STATUSES),
        "updated_at": times,
        "params": st.dictionaries(words, words, max_size=2),
        "tag": words,
        "tags": st.lists(words, max_size=3),
        "submitted_at": maybe(times),
        "worker_id": maybe(words),
        "start_time": maybe(times),
        "end_time": maybe(times),
        "error": maybe(words),
        "origin_run_id": maybe(st.integers(0, 2).map(lambda number: str(UUID(int=number)))),
        "workflow_yaml_sha256": maybe(st.integers(0, 1).map(lambda number: f"{SHA}{number}")),
        "tenant_id": tenants,
    },
    optional={
        "cause": st.sampled_from([{"kind": "schedule", "id": "a"}, {"kind": "event"}, {"kind": "api"}])
    },
)
ranges = st.builds(TimeRange, after=maybe(times), before=maybe(times))
filters = st.builds(
    RunFilter,
    tenant=tenants,
    statuses=st.frozensets(st.sampled_from(STATUSES), max_size=3),
    flow=maybe(words),
    tag=maybe(words),
    worker=maybe(words),
    origin=maybe(st.just(str(UUID(int=1)))),
    cause=maybe(
        st.sampled_from(["api", "schedule", "schedule:a", "schedule:b", "rerun", f"rerun:{UUID(int=1)}"])
    ),
    workflow_yaml_sha256=maybe(st.just(f"{SHA}1")),
    updated=ranges,
    submitted=ranges,
    q=maybe(words | st.text(min_size=1, max_size=4) | st.sampled_from(["e", "tl", "port", '"', "ETL-2\n"])),
)
sorts = st.builds(Sort, st.sampled_from(SortField), st.booleans())
# The thresholds of the query planner.
plans = st.fixed_dictionaries(
    {
        "query_plan._FEW": st.sampled_from([0, 2, 4000]),
        "query_plan._SOME": st.sampled_from([0, 8000]),
        "query_plan._OFTEN": st.sampled_from([1, 4]),
        "query_plan._SEVERAL_GROUPS": st.sampled_from([0, 200]),
        "run_search._MANY_SOURCES": st.sampled_from([0, 8]),
        "run_search._LOOK_AHEAD": st.sampled_from([0.01, 3]),
        "run_search._FAR": st.sampled_from([0, 50_000]),
        "run_search._FAR_FOR_TEXT": st.sampled_from([0, 2, 8000]),
    }
)


class Index:
    """An index, and what it should contain."""

    def __init__(self, folder: Path) -> None:
        self._file = IndexFile(folder, SCHEMA)
        self.writer = IndexWriter(self._file.writer())
        self.writer.begin("a bucket")
        self.writer.complete()
        self.runs: dict[str, tuple[int, RunSummary]] = {}

    def write(self, run_id: str, fields: dict[str, Any] | None) -> None:
        revision = self.writer.revision + 1
        if fields is None:
            self.writer.apply([RunWrite(run_id, revision, None, deleted=True)], upto=revision)
            self.runs.pop(run_id, None)
            return
        summary = summary_of(json.dumps({"run_id": run_id, **fields}, ensure_ascii=False).encode())
        self.writer.apply([RunWrite(run_id, revision, b"", summary)], upto=revision)
        self.runs[run_id] = (revision, summary)

    def search(self, run_filter: RunFilter, sort: Sort | None = None) -> "Search":
        return Search(self.writer._db, run_filter, sort)

    def expected(self, run_filter: RunFilter, sort: Sort) -> list[SortKey]:
        found = [_key(revision, run, sort) for revision, run in self.runs.values() if run_filter.matches(run)]
        return sorted(found, reverse=sort.descending)

    def close(self) -> None:
        self.writer.close()
        self._file.release()


def _key(revision: int, run: RunSummary, sort: Sort) -> SortKey:
    item = run.item
    name = {SortField.FLOW_NAME: item.flow_name, SortField.STATUS: item.status}.get(sort.field, "")
    time = item.duration_sec if sort.field is SortField.DURATION else getattr(item, sort.field.time)
    return SortKey(name, -1.0 if time is None else time, revision)


@contextmanager
def made_index() -> Iterator[Index]:
    with TemporaryDirectory() as folder:
        index = Index(Path(folder))
        try:
            yield index
        finally:
            index.close()


def run_id(number: int) -> str:
    return str(UUID(int=number))


def force_plan(patch: pytest.MonkeyPatch, plan: dict[str, float]) -> None:
    for name, value in plan.items():
        patch.setattr(f"pyoco_server.runs.index.search.{name}", value)


writes = st.lists(st.tuples(st.integers(0, 9), maybe(snapshots)), max_size=25)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(writes=writes, queries=st.lists(st.tuples(filters, sorts, plans), min_size=1, max_size=8))
def test_the_index_matches_the_filter_in_sort_order(
    writes: list[tuple[int, dict[str, Any] | None]],
    queries: list[tuple[RunFilter, Sort, dict[str, float]]],
) -> None:
    with made_index() as index, pytest.MonkeyPatch.context() as patch:
        for number, fields in writes:
            index.write(run_id(number), fields)
        for run_filter, sort, plan in queries:
            force_plan(patch, plan)
            expected = index.expected(run_filter, sort)
            assert index.search(run_filter, sort).page(100) == expected
            assert index.search(run_filter, sort).count(100) == len(expected)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data(), sort=sorts, run_filter=filters, plan=plans)
def test_paging_returns_each_unchanged_run_once(
    data: st.DataObject, sort: Sort, run_filter: RunFilter, plan: dict[str, float]
) -> None:
    with made_index() as index, pytest.MonkeyPatch.context() as patch:
        force_plan(patch, plan)
        for number, fields in enumerate(data.draw(st.lists(snapshots, min_size=1, max_size=15))):
            index.write(run_id(number), fields)
        unchanged = set(index.expected(run_filter, sort))
        listed: list[SortKey] = []
        while page := index.search(run_filter, sort).page(2, listed[-1] if listed else None):
            listed += page
            changed, fields = data.draw(st.tuples(st.integers(0, 14), maybe(snapshots)))
            before = index.runs.get(run_id(changed))
            if before is not None and len(listed) < 40:
                unchanged.discard(_key(*before, sort))
                index.write(run_id(changed), fields)
        assert [key for key in listed if key in unchanged] == sorted(unchanged, reverse=sort.descending)


@pytest.mark.parametrize("few", [0, 4000])
def test_runs_are_found_by_their_other_tags_in_every_order(few: int) -> None:
    """The drawn filters rarely leave anything to find by such a tag."""
    with made_index() as index, pytest.MonkeyPatch.context() as patch:
        for number in range(6):
            fields = {
                "flow_name": "etl",
                "status": STATUSES[number % 2],
                "updated_at": float(number),
                "submitted_at": None if number == 3 else 6.0 - number,
                "tag": "gpu",
                "tags": ["gpu", "night"] if number < 4 else ["gpu"],
            }
            index.write(run_id(number), fields)
        force_plan(patch, {"query_plan._FEW": few})
        for sort in (Sort(field, descending) for field in SortField for descending in (True, False)):
            for statuses in (frozenset[str](), frozenset({"PENDING"})):
                run_filter = RunFilter(tag="night", statuses=statuses)
                expected = index.expected(run_filter, sort)
                assert len(expected) == (2 if statuses else 4)
                assert index.search(run_filter, sort).page(100) == expected
                assert index.search(run_filter, sort).count(100) == len(expected)
        submitted = RunFilter(submitted=TimeRange(after=0.0))
        assert len(index.search(submitted).page(100)) == 5 == len(index.expected(submitted, Sort()))


# What is known beside the runs themselves


def _count(table: str) -> Callable[[sqlite3.Connection], int]:
    return lambda db: int(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(writes=writes)
def test_deleted_runs_leave_no_rows(
    writes: list[tuple[int, dict[str, Any] | None]],
) -> None:
    with made_index() as index:
        for number, fields in writes:
            index.write(run_id(number), fields)
        assert index.writer.entries == len(index.runs)
        for number in range(10):
            index.write(run_id(number), None)
        db = index.writer._db
        assert [_count(table)(db) for table in ("runs", "docs", "labels")] == [0, 0, 0]
        assert db.execute("SELECT sum(runs) FROM groups").fetchone()[0] in (None, 0)
        assert db.execute("SELECT count(*) FROM words WHERE words MATCH 'etl'").fetchone()[0] == 0
        assert index.writer.markers.count == 10
