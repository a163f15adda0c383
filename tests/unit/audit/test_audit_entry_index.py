"""The index of the audit log: filters, pages, tenants, and the cost of a page in a long log."""

import sqlite3
from typing import Any

import msgspec
import pytest

from pyoco_server.audit.audit_entry_index import (
    SCHEMA,
    AuditEntryWrite,
    AuditEntryWriter,
    AuditFilter,
    read_page,
)
from pyoco_server.broker.stores.monitoring.audit_entry_store import entry_key
from pyoco_server.records.monitoring.audit_entry_models import AuditEntry, AuditOutcome, AuditTarget
from pyoco_server.records.waits.wait_models import Actor

RUN = "00000000-0000-4000-8000-00000000000{}"


@pytest.fixture
def db() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(SCHEMA.tables)
    return connection


@pytest.fixture
def writer(db: sqlite3.Connection) -> AuditEntryWriter:
    writer = AuditEntryWriter(db)
    writer.begin("now")
    return writer


def entry(number: int, action: str = "run.cancel", **fields: Any) -> AuditEntryWrite:
    known: dict[str, Any] = {
        "id": f"e{number}",
        "at": float(number),
        "actor": Actor(tenant_id="acme", api_key_id="k1", name="Ann", ip="10.0.0.1"),
        "tenant_id": "acme",
        "target": AuditTarget(kind=action.partition(".")[0], id=f"t{number}", name="etl"),
        "outcome": AuditOutcome.ACCEPTED,
        "status": 200,
        "request_id": f"e{number}",
    }
    made = AuditEntry(action=action, **{**known, **fields})
    return AuditEntryWrite(entry_key(made), number, made, msgspec.json.encode(made))


def apply(writer: AuditEntryWriter, *writes: AuditEntryWrite) -> None:
    writer.apply(writes, upto=writes[-1].revision, stored_ns=1)


def found(db: sqlite3.Connection, **selected: Any) -> list[str]:
    return [each.id for each in read_page(db, AuditFilter(**selected), limit=100, after=None).entries]


def test_each_filter_selects_its_entries_newest_first(
    db: sqlite3.Connection, writer: AuditEntryWriter
) -> None:
    nobody = Actor(ip="10.0.0.9")
    apply(
        writer,
        entry(1, run_id=RUN.format(1)),
        entry(2, "run.rerun", run_id=RUN.format(1)),
        entry(3, "wheel.upload", target=AuditTarget(kind="wheel", id="a-1.whl")),
        entry(4, tenant_id=None, actor=nobody, outcome=AuditOutcome.REFUSED, status=404),
    )
    assert found(db) == ["e4", "e3", "e2", "e1"]
    assert (
        found(db, actor="ann") == found(db, actor="K1") == found(db, actor="10.0.0.1") == ["e3", "e2", "e1"]
    )
    assert found(db, actor="anonymous") == found(db, actor="10.0.0.9") == ["e4"]
    assert found(db, action="run") == ["e4", "e2", "e1"]
    assert found(db, action="run.rerun") == ["e2"]
    assert found(db, target="a-1.whl") == found(db, target="wheel") == ["e3"]
    assert found(db, target="ETL") == ["e4", "e2", "e1"]
    assert found(db, run_id=RUN.format(1)) == ["e2", "e1"]
    assert found(db, outcome="refused") == ["e4"]
    assert found(db, since=2.0, until=4.0) == ["e3", "e2"]
    assert found(db, actor="Ann", action="run", target="etl", since=2.0) == ["e2"]
    assert found(db, actor="Ann", action="run.cancel", outcome="refused") == []


def test_a_tenant_sees_its_own_and_cannot_search_for_the_address_of_an_operator(
    db: sqlite3.Connection, writer: AuditEntryWriter
) -> None:
    operator = Actor(tenant_id="ops", api_key_id="k9", name="Olga", ip="10.9.9.9")
    apply(writer, entry(1), entry(2, tenant_id="rival"), entry(3, actor=operator))
    assert found(db, tenant="acme") == ["e3", "e1"]
    assert found(db, tenant="rival", run_id=RUN.format(1)) == []
    assert found(db, tenant="acme", actor="olga") == ["e3"]
    assert found(db, tenant="acme", actor="10.9.9.9") == found(db, tenant="acme", actor="k9") == []


def test_pages_continue_where_the_last_one_ended(db: sqlite3.Connection, writer: AuditEntryWriter) -> None:
    # Two at the same time: the order is by revision then.
    apply(writer, *(entry(number, at=float(number // 2)) for number in range(1, 8)))
    selected = AuditFilter(tenant="acme")
    first = read_page(db, selected, limit=3, after=None)
    second = read_page(db, selected, limit=4, after=first.next_after)
    assert [each.id for each in (*first.entries, *second.entries)] == [f"e{n}" for n in range(7, 0, -1)]
    assert second.next_after is None


def test_removed_entries_are_not_listed(db: sqlite3.Connection, writer: AuditEntryWriter) -> None:
    apply(writer, entry(1), entry(2), entry(3))
    writer.drop([1, 3])
    assert found(db) == found(db, actor="Ann") == ["e2"]
    assert writer.entries == 1


SELECTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"actor": "Ann"},
    {"action": "run.cancel"},
    {"actor": "Ann", "action": "wheel"},
    {"target": "t7"},
    {"tenant": "acme", "actor": "k1", "action": "run"},
    {"tenant": "acme", "until": 500.0},
)


def test_a_page_costs_the_same_however_many_entries_there_are(
    db: sqlite3.Connection, writer: AuditEntryWriter
) -> None:
    """By the steps of SQLite rather than by the clock, which depends on who else is at work."""

    def steps(selected: dict[str, Any]) -> int:
        count = 0

        def step() -> None:
            nonlocal count
            count += 1

        db.set_progress_handler(step, 10)
        read_page(db, AuditFilter(**selected), limit=20, after=None)
        db.set_progress_handler(None, 0)
        return count

    apply(
        writer,
        *(entry(number, "wheel.upload" if number % 50 == 0 else "run.cancel") for number in range(1, 1001)),
    )
    few = [steps(selected) for selected in SELECTIONS]
    apply(writer, *(entry(number) for number in range(1001, 10_001)))
    for selected, before in zip(SELECTIONS, few, strict=True):
        assert steps(selected) <= before * 2 + 5, selected
