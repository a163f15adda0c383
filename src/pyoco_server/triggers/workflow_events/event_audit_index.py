"""The SQLite index of the audit rows of workflow events, with counts per month for the summaries."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from pyoco_server.records.triggers.workflow_event_models import AuditRow, decode_audit_row
from pyoco_server.runs.index.search.filter_sql import among
from pyoco_server.runs.index.sqlite.index_file import FileSchema
from pyoco_server.runs.index.sqlite.sqlite_index import MARKERS_TABLE, UNREADABLE_TABLE
from pyoco_server.runs.index.sqlite.stream_index import HELD_TABLE, StreamIndex, StreamWriter

_COUNTED: Final = "tenant, event_type, ym, status, reason_class, reason_code, retry_advice, duplicate"
_TABLES: Final = f"""
{HELD_TABLE}
CREATE TABLE rows (
    revision INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,       -- empty: none
    event_type TEXT NOT NULL,
    ym TEXT NOT NULL,
    at REAL NOT NULL,
    row BLOB NOT NULL           -- as it is stored
);
-- How many rows have the same of these; empty: none.
CREATE TABLE counts (
    tenant TEXT NOT NULL, event_type TEXT NOT NULL, ym TEXT NOT NULL,
    status TEXT NOT NULL, reason_class TEXT NOT NULL, reason_code TEXT NOT NULL,
    retry_advice TEXT NOT NULL, duplicate TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY ({_COUNTED})
) WITHOUT ROWID;
{MARKERS_TABLE}
{UNREADABLE_TABLE}
CREATE INDEX by_month ON rows (event_type, ym, at);
CREATE INDEX by_tenant ON rows (tenant, event_type, ym, at);
CREATE INDEX counts_by_month ON counts (event_type, ym);
"""
SCHEMA: Final = FileSchema(
    "audit",
    1,
    _TABLES,
    probes=("SELECT * FROM rows ORDER BY revision DESC LIMIT 1", "SELECT * FROM counts LIMIT 1"),
    reader_cache=1024,
)


@dataclass(frozen=True, slots=True)
class EventAuditWrite:
    key: str
    revision: int
    # None when it cannot be read.
    row: AuditRow | None = None
    encoded: bytes = b""
    # Why it cannot be read.
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class MonthSelection:
    """The rows of one kind and month, that one tenant may see."""

    event_type: str
    ym: str
    # Of everybody; else of this tenant, None for those without one.
    sees_all: bool
    tenant: str | None = None

    @property
    def sql(self) -> tuple[str, list[Any]]:
        month = ("event_type = ? AND ym = ?", [self.event_type, self.ym])
        if self.sees_all:
            return month
        return f"tenant = ? AND {month[0]}", [self.tenant or "", *month[1]]


@dataclass(slots=True)
class MonthCounts:
    total: int = 0
    first_at: float | None = None
    last_at: float | None = None
    by_status: Counter[str] = field(default_factory=Counter)
    by_reason_class: Counter[str] = field(default_factory=Counter)
    by_reason_code: Counter[str] = field(default_factory=Counter)
    by_retry_advice: Counter[str] = field(default_factory=Counter)
    # By `true`, `false` and `unknown`.
    by_duplicate: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Month:
    counts: MonthCounts
    # The newest first.
    recent: list[AuditRow]


class EventAuditIndexWriter(StreamWriter[EventAuditWrite]):
    table = "rows"
    tables = ("rows", "counts")

    def _insert(self, writes: Sequence[EventAuditWrite]) -> int:
        read = [(write, write.row) for write in writes if write.row is not None]
        self._db.executemany(
            "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(write.revision, write.key, *_place(row), row.at, write.encoded) for write, row in read],
        )
        self._count((row for _, row in read), 1)
        return len(read)

    def _remove(self, column: str, values: list[Any]) -> int:
        condition = among(column, values)
        found = self._db.execute(
            f"DELETE FROM rows WHERE {condition.sql} RETURNING row", condition.values
        ).fetchall()
        self._count((decode_audit_row(row) for (row,) in found), -1)
        return len(found)

    def _count(self, rows: Iterable[AuditRow], change: int) -> None:
        counted = Counter(map(_counted, rows))
        self._db.executemany(
            f"INSERT INTO counts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT ({_COUNTED}) "
            "DO UPDATE SET n = n + excluded.n",
            [(*counts, change * n) for counts, n in counted.items()],
        )
        if change < 0:
            self._db.execute("DELETE FROM counts WHERE n = 0")


class EventAuditIndex(StreamIndex[EventAuditWrite]):
    schema = SCHEMA

    def _new_writer(self, connection: sqlite3.Connection) -> EventAuditIndexWriter:
        return EventAuditIndexWriter(connection)

    async def month(self, selected: MonthSelection, *, recent: int) -> Month:
        return await self._read(lambda db: read_month(db, selected, recent=recent))


def read_month(db: sqlite3.Connection, selected: MonthSelection, *, recent: int) -> Month:
    """However many rows the month has, this reads its counts and the newest rows."""
    sql, values = selected.sql
    counts = MonthCounts()
    query = f"SELECT status, reason_class, reason_code, retry_advice, duplicate, n FROM counts WHERE {sql}"
    for status, reason_class, code, advice, duplicate, n in db.execute(query, values):
        counts.total += n
        counts.by_status[status] += n
        counts.by_duplicate[duplicate] += n
        for name, found in (
            (reason_class, counts.by_reason_class),
            (code, counts.by_reason_code),
            (advice, counts.by_retry_advice),
        ):
            if name:
                found[name] += n
    [(counts.first_at,)] = db.execute(f"SELECT min(at) FROM rows WHERE {sql}", values)
    [(counts.last_at,)] = db.execute(f"SELECT max(at) FROM rows WHERE {sql}", values)
    newest = f"SELECT row FROM rows WHERE {sql} ORDER BY at DESC, revision DESC LIMIT ?"
    rows = [decode_audit_row(row) for (row,) in db.execute(newest, [*values, recent])]
    return Month(counts, rows)


def _place(row: AuditRow) -> tuple[str, str, str]:
    return row.tenant_id or "", row.event_type, row.ym


def _counted(row: AuditRow) -> tuple[str, ...]:
    details = row.details
    duplicate = "unknown" if details.duplicate is None else msgspec.json.encode(details.duplicate).decode()
    reasons = (details.reason_class or "", details.reason_code or "", details.retry_advice or "")
    return (*_place(row), str(row.status), *map(str, reasons), duplicate)
