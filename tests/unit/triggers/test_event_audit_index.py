"""The index of audit rows: what a summary reads, and that its cost does not follow the number of rows."""

import sqlite3
from typing import Any

import pytest

from pyoco_server.records.triggers.workflow_event_models import (
    AuditRow,
    EventActor,
    EventDetails,
    EventReason,
    EventStatus,
    RetryAdvice,
    encode_record,
)
from pyoco_server.triggers.workflow_events.event_audit_index import (
    SCHEMA,
    EventAuditIndexWriter,
    EventAuditWrite,
    MonthSelection,
    read_month,
)

ALL = MonthSelection("workflow_event", "2026-01", sees_all=True)
OF_ACME = MonthSelection("workflow_event", "2026-01", sees_all=False, tenant="acme")
OF_NOBODY = MonthSelection("workflow_event", "2026-01", sees_all=False)


@pytest.fixture
def db() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(SCHEMA.tables)
    return connection


def row(number: int, **fields: Any) -> EventAuditWrite:
    known: dict[str, Any] = {
        "id": f"r{number}",
        "at": float(number),
        "year": 2026,
        "month": 1,
        "event_type": "workflow_event",
        "action": "workflow_event",
        "status": EventStatus.SUCCESS,
        "actor": EventActor(),
        "details": EventDetails(duplicate=False),
    }
    made = AuditRow(**{**known, **fields})
    return EventAuditWrite(f"workflow_event.=.{made.id}", number, made, encode_record(made))


def refused(number: int, count: int = 1, **fields: Any) -> EventAuditWrite:
    details = EventDetails(
        reason_class=EventReason.AUTH,
        reason_code="http_401",
        retry_advice=RetryAdvice.RETRY_AFTER_FIX,
        count=count,
    )
    return row(number, status=EventStatus.REJECTED, details=details, **fields)


def test_counts_first_and_last_times_and_the_newest_rows(db: sqlite3.Connection) -> None:
    writer = EventAuditIndexWriter(db)
    writer.begin("s")
    writer.apply(
        [row(1), row(2, tenant_id="acme"), refused(3), row(4, month=2), row(5, event_type="other")],
        upto=5,
        stored_ns=5,
    )
    month = read_month(db, ALL, recent=2)
    counts = month.counts
    assert (counts.total, counts.first_at, counts.last_at) == (3, 1.0, 3.0)
    assert counts.by_status == {"success": 2, "rejected": 1}
    assert counts.by_reason_class == {"auth": 1}
    assert (counts.by_reason_code, counts.by_retry_advice) == ({"http_401": 1}, {"retry_after_fix": 1})
    assert counts.by_duplicate == {"false": 2, "unknown": 1}
    assert [each.id for each in month.recent] == ["r3", "r2"]
    assert read_month(db, OF_ACME, recent=9).counts.total == 1
    assert read_month(db, OF_NOBODY, recent=9).counts.total == 2
    assert writer.entries == 5


def test_a_row_that_is_published_again_replaces_the_earlier_one(db: sqlite3.Connection) -> None:
    writer = EventAuditIndexWriter(db)
    writer.begin("s")
    writer.apply([refused(1)], upto=1, stored_ns=1)
    writer.apply([refused(2, id="r1", count=7)], upto=2, stored_ns=2)
    # Also within one batch.
    writer.apply([row(3), row(4, id="r3", status=EventStatus.FAILED)], upto=4, stored_ns=4)
    month = read_month(db, ALL, recent=9)
    assert (month.counts.total, writer.entries) == (2, 2)
    assert month.counts.by_status == {"rejected": 1, "failed": 1}
    assert {each.id: each.details.count for each in month.recent} == {"r1": 7, "r3": 1}


def test_removed_rows_are_not_counted(db: sqlite3.Connection) -> None:
    writer = EventAuditIndexWriter(db)
    writer.begin("s")
    writer.apply([row(n) for n in range(1, 5)], upto=4, stored_ns=4)
    writer.drop([1, 2])
    month = read_month(db, ALL, recent=9)
    assert (month.counts.total, month.counts.first_at, writer.entries) == (2, 3.0, 2)
    writer.drop([3, 4])
    assert db.execute("SELECT count(*) FROM counts").fetchone() == (0,)


@pytest.mark.parametrize("selected", [ALL, OF_ACME], ids=["all", "tenant"])
def test_no_query_of_a_summary_reads_all_rows_of_a_month(
    db: sqlite3.Connection, selected: MonthSelection
) -> None:
    """The counts are few; the first, the last and the newest rows are at the ends of an index."""
    asked: list[str] = []
    db.set_trace_callback(asked.append)
    read_month(db, selected, recent=20)
    db.set_trace_callback(None)
    assert len(asked) == 4
    for statement in asked:
        plan = " ".join(detail for *_, detail in db.execute(f"EXPLAIN QUERY PLAN {statement}"))
        assert "SCAN" not in plan, plan
        assert "TEMP B-TREE FOR ORDER BY" not in plan, plan
        assert "INDEX" in plan or "PRIMARY KEY" in plan, plan
