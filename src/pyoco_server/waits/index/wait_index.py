"""The SQLite index of waits for lists, the inbox and the maintenance: one table, one statement per query."""

import builtins
import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Raw

from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.records.runs.run_models import WaitKind
from pyoco_server.records.waits.wait_models import NO_DEADLINE, WaitState
from pyoco_server.runs.index.pagination import SortKey
from pyoco_server.runs.index.search.filter_sql import Condition, among, where
from pyoco_server.runs.index.sqlite.batch_statement import BatchStatement
from pyoco_server.runs.index.sqlite.index_feed import CatchUp
from pyoco_server.runs.index.sqlite.index_file import FileSchema
from pyoco_server.runs.index.sqlite.sqlite_index import (
    MARKERS_TABLE,
    UNREADABLE_TABLE,
    SqliteIndex,
    SqliteWriter,
)
from pyoco_server.waits.index.wait_items import OPEN, WaitFilter, WaitItem

_READERS: Final = 2
_TABLES: Final = f"""
CREATE TABLE held (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    created TEXT NOT NULL,      -- of which bucket this is the index
    revision INTEGER NOT NULL,  -- up to where it was read
    stored_ns INTEGER NOT NULL  -- when the message of that revision was stored
);
CREATE TABLE waits (
    revision INTEGER PRIMARY KEY,
    wait_id TEXT NOT NULL UNIQUE,
    run_id TEXT NOT NULL,
    tenant TEXT,                -- NULL: of none
    state TEXT NOT NULL,
    kind TEXT NOT NULL,
    topic TEXT,                 -- the name of the signal or event that it waits for
    match BLOB,                 -- what the data of the event must have, as JSON
    flow TEXT NOT NULL, tag TEXT NOT NULL, task TEXT NOT NULL,
    created_at REAL NOT NULL,
    deadline_at REAL NOT NULL,  -- NO_DEADLINE: none
    decided_at REAL,            -- NULL: it is open
    assignees TEXT NOT NULL,    -- as JSON
    has_outbox INTEGER NOT NULL,-- whether it has possibly unpublished events
    notice_at REAL,             -- when its next reminder or escalation is due
    item BLOB NOT NULL          -- the wait in a list, as JSON
);
-- Of deleted waits, while their marker is in the bucket.
{MARKERS_TABLE}
{UNREADABLE_TABLE}
CREATE INDEX by_state ON waits (kind, state, created_at, wait_id);
CREATE INDEX by_tenant ON waits (tenant, kind, state, created_at, wait_id);
CREATE INDEX by_decision ON waits (kind, decided_at, wait_id) WHERE decided_at IS NOT NULL;
CREATE INDEX by_deadline ON waits (deadline_at, wait_id) WHERE state = 'open';
CREATE INDEX by_topic ON waits (kind, topic, tenant, wait_id) WHERE state = 'open' AND topic IS NOT NULL;
CREATE INDEX by_topic_revision ON waits (revision) WHERE state = 'open' AND topic IS NOT NULL;
-- Also finds the open waits of a run: their ids begin with its id.
CREATE INDEX open_ids ON waits (wait_id) WHERE state = 'open';
CREATE INDEX by_notice ON waits (notice_at) WHERE notice_at IS NOT NULL;
CREATE INDEX by_outbox ON waits (revision) WHERE has_outbox;
"""
SCHEMA: Final = FileSchema(
    "waits",
    11,
    _TABLES,
    probes=("SELECT * FROM waits ORDER BY revision DESC LIMIT 1",),
    reader_cache=1024,
)

TOPIC_WAITS: Final = "SELECT revision, wait_id, run_id, tenant, kind, topic, match FROM waits"
# Asked for at every wake-up of the matching, at least every five seconds: without this index SQLite reads
# all waits that sleep or ask a person.
NEW_FOR_TOPICS: Final = (
    f"{TOPIC_WAITS} INDEXED BY by_topic_revision "
    "WHERE revision > ? AND state = 'open' AND topic IS NOT NULL ORDER BY revision LIMIT ?"
)
# However many waits there are for other events, this costs the same (`by_topic`).
OPEN_FOR_EVENT: Final = (
    "state = 'open' AND topic IS NOT NULL AND kind = ? AND topic = ? AND tenant IS ? AND revision <= ?"
)

# The id of a wait is that of its run, a dot and more; "/" is the next character after the dot.
OPEN_OF_RUNS: Final = (
    "SELECT DISTINCT run_id FROM json_each(?) AS runs CROSS JOIN waits INDEXED BY open_ids "
    "ON wait_id > runs.value || '.' AND wait_id < runs.value || '/' WHERE state = 'open'"
)

_TAKE_OUT: Final = BatchStatement("DELETE FROM waits WHERE wait_id IN ({}) RETURNING wait_id, item", "?")
_PUT: Final = BatchStatement("INSERT INTO waits VALUES {}", f"({', '.join('?' * 18)})")

_encode = msgspec.json.Encoder().encode
_decode_item = msgspec.json.Decoder(WaitItem).decode


@dataclass(frozen=True, slots=True)
class WaitWrite:
    wait_id: str
    revision: int
    # None when the wait was deleted, or cannot be read.
    item: WaitItem | None
    # Whether it has possibly unpublished events.
    has_outbox: bool = False
    # When its next reminder or escalation is due.
    notice_at: float | None = None
    # What the data of an event must have.
    match: Mapping[str, Any] = field(default_factory=dict)
    deleted: bool = False
    # Why it cannot be read.
    problem: str | None = None

    @property
    def key(self) -> str:
        return self.wait_id


@dataclass(frozen=True, slots=True, eq=False)
class TopicWait:
    """An open wait for a signal or an event."""

    revision: int
    wait_id: str
    run_id: str
    tenant_id: str | None
    kind: WaitKind
    topic: str
    match: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WaitIndexPage:
    # As JSON.
    items: list[Raw]
    # The last one's key, if there are more.
    next_after: SortKey | None
    total: int
    # The revision of the bucket that this page reflects.
    revision: int


@dataclass(frozen=True, slots=True)
class OpenWaits:
    count: int
    oldest_at: float | None


class WaitWriter(SqliteWriter):
    table = "waits"
    key_column = "wait_id"

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        [(self.entries,)] = connection.execute("SELECT count(*) FROM waits")

    def _clear(self) -> None:
        self._db.execute("DELETE FROM waits")

    def apply(self, batch: Sequence[WaitWrite], *, upto: int, stored_ns: int = 0) -> list[WaitItem | None]:
        """Store what was read up to that revision; what was known of each wait before."""
        # A wait may have been written twice while the batch was read.
        newest = {write.wait_id: write for write in batch}
        deleted = [(write.revision, write.wait_id) for write in newest.values() if write.deleted]
        rows = [_row(write, write.item) for write in newest.values() if write.item is not None]
        with self._transaction():
            stored = dict(_TAKE_OUT.query(self._db, [(wait_id,) for wait_id in newest]))
            _PUT.execute(self._db, rows)
            self.markers.store(newest, deleted)
            self.unreadable.store(newest)
            self._db.execute("UPDATE held SET revision = ?, stored_ns = ?", [upto, stored_ns])
        self.revision, self.stored_ns = upto, stored_ns
        self.entries += len(rows) - len(stored)
        return _before(batch, stored)

    def drop(self, revisions: Sequence[int]) -> list[WaitItem]:
        """Remove the waits with these revisions; what was known of them."""
        condition = among("revision", revisions)
        with self._transaction():
            dropped = self._db.execute(
                f"DELETE FROM waits WHERE {condition.sql} RETURNING item", condition.values
            ).fetchall()
        self.entries -= len(dropped)
        return [_decode_item(item) for (item,) in dropped]


def _before(batch: Sequence[WaitWrite], stored: Mapping[str, bytes]) -> list[WaitItem | None]:
    """Each wait as it was before its write."""
    known = {wait_id: _decode_item(item) for wait_id, item in stored.items()}
    before: list[WaitItem | None] = []
    for write in batch:
        before.append(known.pop(write.wait_id, None))
        if write.item is not None:
            known[write.wait_id] = write.item
    return before


def _row(write: WaitWrite, item: WaitItem) -> tuple[object, ...]:
    return (
        write.revision,
        item.wait_id,
        item.run_id,
        item.tenant_id,
        item.state,
        item.kind,
        item.topic,
        _encode(write.match) if write.match else None,
        item.flow_name,
        item.tag,
        item.task,
        item.created_at,
        NO_DEADLINE if item.deadline_at is None else item.deadline_at,
        None if item.state is WaitState.OPEN else item.decided_at or item.created_at,
        json.dumps(item.assignees) if item.assignees else "[]",
        write.has_outbox,
        write.notice_at,
        _encode(item),
    )


class WaitIndex(SqliteIndex[WaitWriter]):
    """Queries raise IndexNotReady until the index has caught up once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SCHEMA, readers=_READERS)

    def _new_writer(self, connection: sqlite3.Connection) -> WaitWriter:
        return WaitWriter(connection)

    async def apply(
        self, batch: Sequence[WaitWrite], *, upto: int, stored_ns: int = 0
    ) -> builtins.list[WaitItem | None]:
        return await self._write(lambda: self._used().apply(batch, upto=upto, stored_ns=stored_ns))

    async def drop(self, revisions: builtins.list[int]) -> builtins.list[WaitItem]:
        """Remove the waits with these revisions; what was known of them."""
        return await self._write(lambda: self._used().drop(revisions))

    # For lists and the inbox

    async def list(self, selected: WaitFilter, *, limit: int, after: SortKey | None = None) -> WaitIndexPage:
        """If all are open, the next deadline first; if none is, the last decision; else the newest."""
        time, way, beyond = _order(selected)

        def read(db: sqlite3.Connection) -> WaitIndexPage:
            sql, values = where(_conditions(selected))
            [(total,)] = db.execute(f"SELECT count(*) FROM waits WHERE {sql}", values)
            if after is not None:
                sql = f"{sql} AND ({time}, wait_id) {beyond} (?, ?)"
                values += [after.time, after.name]
            rows = db.execute(
                f"SELECT item, {time}, wait_id FROM waits WHERE {sql} "
                f"ORDER BY {time} {way}, wait_id {way} LIMIT ?",
                [*values, limit + 1],
            ).fetchall()
            last = SortKey(rows[limit - 1][2], rows[limit - 1][1], 0) if len(rows) > limit else None
            return WaitIndexPage([Raw(item) for item, _, _ in rows[:limit]], last, total, _revision(db))

        return await self._read(read)

    async def all_open(self, tenant: str | None) -> tuple[builtins.list[Raw], int]:
        """The open waits of the tenant (None: of all), the oldest first, and the revision."""
        sql, values = where(_conditions(WaitFilter(tenant=tenant, states=OPEN)))

        def read(db: sqlite3.Connection) -> tuple[builtins.list[Raw], int]:
            found = db.execute(f"SELECT item FROM waits WHERE {sql} ORDER BY created_at, wait_id", values)
            return [Raw(item) for (item,) in found], _revision(db)

        return await self._read(read)

    async def open_of(self, tenant: str | None) -> OpenWaits:
        sql, values = where(_conditions(WaitFilter(tenant=tenant, states=OPEN)))
        query = f"SELECT count(*), min(created_at) FROM waits WHERE {sql}"
        return await self._read(lambda db: OpenWaits(*db.execute(query, values).fetchone()))

    # For the maintenance

    async def due(self, now: float, limit: int) -> builtins.list[str]:
        """The open waits whose deadline has passed, the oldest deadline first."""
        query = (
            "SELECT wait_id FROM waits WHERE state = 'open' AND deadline_at <= ? ORDER BY deadline_at LIMIT ?"
        )
        return await self._read(lambda db: [wait_id for (wait_id,) in db.execute(query, [now, limit])])

    async def notices_due(self, now: float, limit: int) -> builtins.list[str]:
        """The open waits with a reminder or an escalation to send, the oldest first."""
        query = "SELECT wait_id FROM waits WHERE notice_at <= ? ORDER BY notice_at LIMIT ?"
        return await self._read(lambda db: [wait_id for (wait_id,) in db.execute(query, [now, limit])])

    async def next_deadline(self, after: float) -> float | None:
        """The first deadline, reminder or escalation of an open wait after this time."""
        queries = (
            "SELECT min(deadline_at) FROM waits WHERE state = 'open' AND deadline_at > ?",
            "SELECT min(notice_at) FROM waits WHERE notice_at > ?",
        )

        def read(db: sqlite3.Connection) -> float | None:
            found = [db.execute(query, [after]).fetchone()[0] for query in queries]
            return min((float(time) for time in found if time is not None), default=None)

        return await self._read(read)

    async def open_after(self, wait_id: str, limit: int) -> builtins.list[str]:
        """The ids of open waits after this one, in order: there may be very many."""
        query = "SELECT wait_id FROM waits WHERE state = 'open' AND wait_id > ? ORDER BY wait_id LIMIT ?"
        return await self._read(lambda db: [found for (found,) in db.execute(query, [wait_id, limit])])

    async def open_among(self, wait_ids: Sequence[str]) -> set[str]:
        """Which of these waits are open."""
        condition = among("wait_id", wait_ids)
        query = f"SELECT wait_id FROM waits WHERE state = 'open' AND {condition.sql}"
        return await self._read(lambda db: {found for (found,) in db.execute(query, condition.values)})

    async def asking_among(self, run_ids: Sequence[str]) -> set[str]:
        """Which of these runs have open waits."""
        given = [json.dumps(run_ids)]
        return await self._read(lambda db: {found for (found,) in db.execute(OPEN_OF_RUNS, given)})

    # For signals and events

    async def open_for_topics(self, *, after: int, limit: int) -> builtins.list[TopicWait]:
        """The open waits for signals and events after this revision, in the order of their revisions."""
        return await self._topic_waits(NEW_FOR_TOPICS, [after, limit])

    async def open_for_event(self, tenant: str | None, topic: str, *, upto: int) -> builtins.list[TopicWait]:
        """The open waits of the tenant for events of this name, up to this revision."""
        query = f"{TOPIC_WAITS} WHERE {OPEN_FOR_EVENT}"
        return await self._topic_waits(query, [WaitKind.EVENT, topic, tenant, upto])

    async def waiting_for_signals(self, run_ids: Collection[str]) -> set[str]:
        """Those of these runs that have an open wait for a signal."""
        query, values = f"{OPEN_OF_RUNS} AND kind = ?", [json.dumps(sorted(run_ids)), WaitKind.SIGNAL]
        return await self._read(lambda db: {run_id for (run_id,) in db.execute(query, values)})

    async def _topic_waits(self, query: str, values: Sequence[object]) -> builtins.list[TopicWait]:
        return await self._read(lambda db: [_topic_wait(row) for row in db.execute(query, values)])

    async def with_outbox(self, limit: int) -> builtins.list[tuple[str, int]]:
        """The waits with possibly unpublished events, with their revisions; the oldest first."""
        query = "SELECT wait_id, revision FROM waits WHERE has_outbox ORDER BY revision LIMIT ?"
        return await self._read(lambda db: db.execute(query, [limit]).fetchall())


class WaitLists:
    """Each read first waits, for a limited time, until the index has caught up."""

    def __init__(self, index: WaitIndex, feed: BucketFeed) -> None:
        self._index = index
        self._catch_up = CatchUp(
            index, feed, lambda: f"{index.entries} waits are read, at most {feed.behind} are left"
        )

    async def caught_up(self) -> None:
        """IndexNotReady while the index is being filled."""
        await self._catch_up.wait()

    async def page(self, selected: WaitFilter, *, limit: int, after: SortKey | None = None) -> WaitIndexPage:
        await self.caught_up()
        return await self._index.list(selected, limit=limit, after=after)

    async def all_open(self, tenant: str | None) -> tuple[list[Raw], int]:
        await self.caught_up()
        return await self._index.all_open(tenant)

    async def open_of(self, tenant: str | None) -> OpenWaits:
        """How many are open, and since when; IndexNotReady at once while the index is filled."""
        await self._catch_up.wait_if_ready()
        return await self._index.open_of(tenant)


def _conditions(selected: WaitFilter) -> Iterator[Condition]:
    # A run has few waits: with a "+" SQLite does not use an index that has all waits of a kind.
    plus = "" if selected.run_id is None else "+"
    if selected.tenant is not None:
        yield Condition(f"{plus}tenant = ?", (selected.tenant,))
    if selected.only_closed:
        # With this condition the index of decisions can be used.
        yield Condition("decided_at IS NOT NULL", ())
    for column, any_of in (("kind", selected.kinds), ("state", selected.states)):
        # A single value keeps the order of the index.
        if len(any_of) == 1:
            yield Condition(f"{plus}{column} = ?", tuple(any_of))
        elif any_of:
            yield among(f"{plus}{column}", sorted(any_of))
    if selected.run_id is not None:
        yield Condition("wait_id > ? AND wait_id < ?", (f"{selected.run_id}.", f"{selected.run_id}/"))
    given: dict[str, Any] = {
        "flow": selected.flow,
        "tag": selected.tag,
        "task": selected.task,
    }
    for column, value in given.items():
        if value is not None:
            yield Condition(f"{column} = ?", (value,))
    if selected.assignee is not None:
        yield Condition("EXISTS (SELECT 1 FROM json_each(assignees) WHERE value = ?)", (selected.assignee,))


def _order(selected: WaitFilter) -> tuple[str, str, str]:
    """The column, the direction, and how a later row compares with an earlier one."""
    if selected.only_open:
        return "deadline_at", "ASC", ">"
    return "decided_at" if selected.only_closed else "created_at", "DESC", "<"


def _revision(db: sqlite3.Connection) -> int:
    [(revision,)] = db.execute("SELECT revision FROM held")
    return int(revision)


def _topic_wait(row: tuple[Any, ...]) -> TopicWait:
    revision, wait_id, run_id, tenant, kind, topic, match = row
    must_have = msgspec.json.decode(match) if match else {}
    return TopicWait(revision, wait_id, run_id, tenant, WaitKind(kind), topic, must_have)
