"""The SQLite index of the audit log.

Each entry has several words: its actor, its action, its target, and pairs of actor and action. A list reads
the entries of one word in the order of their times, so its cost does not follow the size of the log.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyoco_server.records.monitoring.audit_entry_models import AuditEntry, decode_audit_entry
from pyoco_server.runs.index.pagination import SortKey
from pyoco_server.runs.index.search.filter_sql import Condition, among, where
from pyoco_server.runs.index.sqlite.index_file import FileSchema
from pyoco_server.runs.index.sqlite.sqlite_index import MARKERS_TABLE, UNREADABLE_TABLE
from pyoco_server.runs.index.sqlite.stream_index import HELD_TABLE, StreamIndex, StreamWriter

# The word of every entry.
_ANY: Final = ""
# The actor of requests without an API key.
ANONYMOUS: Final = "anonymous"
_TABLES: Final = f"""
{HELD_TABLE}
CREATE TABLE entries (
    revision INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    entry BLOB NOT NULL         -- as it is stored
);
CREATE TABLE words (
    revision INTEGER NOT NULL,
    word TEXT NOT NULL,
    tenant TEXT NOT NULL,       -- empty: none
    at REAL NOT NULL,
    PRIMARY KEY (revision, word)
) WITHOUT ROWID;
{MARKERS_TABLE}
{UNREADABLE_TABLE}
CREATE INDEX by_word ON words (word, at, revision);
CREATE INDEX by_tenant ON words (tenant, word, at, revision);
"""
SCHEMA: Final = FileSchema(
    "audit-log",
    1,
    _TABLES,
    probes=("SELECT * FROM entries ORDER BY revision DESC LIMIT 1", "SELECT * FROM words LIMIT 1"),
    reader_cache=1024,
)


@dataclass(frozen=True, slots=True)
class AuditEntryWrite:
    key: str
    revision: int
    # None when it cannot be read.
    entry: AuditEntry | None = None
    encoded: bytes = b""
    # Why it cannot be read.
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    # None: of all tenants.
    tenant: str | None = None
    # An API key's id or name, an address, or `anonymous`.
    actor: str | None = None
    # Such as `run.cancel`, or `run` for all of runs.
    action: str | None = None
    # The id or name of a target, or its kind.
    target: str | None = None
    run_id: str | None = None
    outcome: str | None = None
    since: float | None = None
    until: float | None = None

    @property
    def words(self) -> list[str]:
        """The words that an entry must have; the one that the fewest entries have comes first."""
        actor = None if self.actor is None else _word("actor", self.actor)
        action = None if self.action is None else _word("action", self.action)
        both = [f"{actor}\n{action}"] if actor and action else [each for each in (actor, action) if each]
        found = [_word("run", self.run_id)] if self.run_id else []
        found += [_word("target", self.target)] if self.target else []
        found += both
        found += [_word("outcome", self.outcome)] if self.outcome else []
        return found or [_ANY]


def words_of(entry: AuditEntry) -> set[str]:
    """What the entry is found by."""
    actor, target = entry.actor, entry.target
    names = [actor.name, actor.on_behalf_of]
    if actor.tenant_id == entry.tenant_id:
        # Those of an operator are not shown to the tenant, and a search would reveal them.
        names += [actor.api_key_id, actor.ip]
    if actor.api_key_id is None and actor.name is None:
        names.append(ANONYMOUS)
    actors = [_word("actor", name) for name in names if name]
    actions = [_word("action", entry.action), _word("action", entry.action.partition(".")[0])]
    targets = [_word("target", name) for name in (target.kind, target.id, target.name) if name]
    runs = [_word("run", entry.run_id)] if entry.run_id else []
    pairs = [f"{actor}\n{action}" for actor in actors for action in actions]
    return {_ANY, *actors, *actions, *targets, *runs, *pairs, _word("outcome", entry.outcome)}


def _word(kind: str, text: str) -> str:
    return f"{kind}:{text.casefold()}"


@dataclass(frozen=True, slots=True)
class EntryPage:
    # The newest first.
    entries: list[AuditEntry]
    # The last one's key, if there are more.
    next_after: SortKey | None


class AuditEntryWriter(StreamWriter[AuditEntryWrite]):
    table = "entries"
    tables = ("entries", "words")

    def _insert(self, writes: Sequence[AuditEntryWrite]) -> int:
        read = [(write, write.entry) for write in writes if write.entry is not None]
        self._db.executemany(
            "INSERT INTO entries VALUES (?, ?, ?)",
            [(write.revision, write.key, write.encoded) for write, _ in read],
        )
        self._db.executemany(
            "INSERT INTO words VALUES (?, ?, ?, ?)",
            [
                (write.revision, word, entry.tenant_id or "", entry.at)
                for write, entry in read
                for word in words_of(entry)
            ],
        )
        return len(read)

    def _remove(self, column: str, values: list[Any]) -> int:
        condition = among(column, values)
        found = self._db.execute(
            f"DELETE FROM entries WHERE {condition.sql} RETURNING revision", condition.values
        ).fetchall()
        revisions = among("revision", [revision for (revision,) in found])
        self._db.execute(f"DELETE FROM words WHERE {revisions.sql}", revisions.values)
        return len(found)


class AuditEntryIndex(StreamIndex[AuditEntryWrite]):
    schema = SCHEMA

    def _new_writer(self, connection: sqlite3.Connection) -> AuditEntryWriter:
        return AuditEntryWriter(connection)

    async def page(self, selected: AuditFilter, *, limit: int, after: SortKey | None) -> EntryPage:
        return await self._read(lambda db: read_page(db, selected, limit=limit, after=after))


def read_page(
    db: sqlite3.Connection, selected: AuditFilter, *, limit: int, after: SortKey | None
) -> EntryPage:
    sql, values = where(_conditions(selected, after))
    rows = db.execute(
        "SELECT e.entry, w.at, w.revision FROM words w JOIN entries e ON e.revision = w.revision "
        f"WHERE {sql} ORDER BY w.at DESC, w.revision DESC LIMIT ?",
        [*values, limit + 1],
    ).fetchall()
    entries = [decode_audit_entry(entry) for entry, _, _ in rows[:limit]]
    if len(rows) <= limit:
        return EntryPage(entries, None)
    _, at, revision = rows[limit - 1]
    return EntryPage(entries, SortKey("", at, revision))


def _conditions(selected: AuditFilter, after: SortKey | None) -> Iterator[Condition]:
    first, *others = selected.words
    yield Condition("w.word = ?", (first,))
    if selected.tenant is not None:
        yield Condition("w.tenant = ?", (selected.tenant,))
    if selected.since is not None:
        yield Condition("w.at >= ?", (selected.since,))
    if selected.until is not None:
        yield Condition("w.at < ?", (selected.until,))
    if after is not None:
        yield Condition("(w.at, w.revision) < (?, ?)", (after.time, after.revision))
    for word in others:
        yield Condition(
            "EXISTS (SELECT 1 FROM words o WHERE o.revision = w.revision AND o.word = ?)", (word,)
        )
