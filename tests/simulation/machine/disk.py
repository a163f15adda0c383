"""The index files of gateways, in memory: they survive a crash of their gateway.

A world begins with the files of gateways that have run before, when there were no runs. At its end it undoes
what it has written, and the next world uses the same files: SQLite has prepared statements for them, which
takes longer than to execute these.
"""

import sqlite3
from pathlib import Path
from typing import Any, Final

from pyoco_server.runs.index.index_writer import IndexWriter
from pyoco_server.runs.index.sqlite.index_file import FileSchema
from pyoco_server.runs.index.sqlite.sqlite_index import SqliteWriter
from pyoco_server.triggers.workflow_events.event_audit_index import EventAuditIndexWriter
from pyoco_server.waits.index.wait_index import WaitWriter

_WRITERS: Final[dict[str, type[SqliteWriter]]] = {
    "runs": IndexWriter,
    "waits": WaitWriter,
    "audit": EventAuditIndexWriter,
}
# Inside the transaction of a world.
_NESTED: Final = {
    "BEGIN": ("SAVEPOINT step",),
    "BEGIN IMMEDIATE": ("SAVEPOINT step",),
    "COMMIT": ("RELEASE step",),
    "ROLLBACK": ("ROLLBACK TO step", "RELEASE step"),
}
_CACHED_STATEMENTS: Final = 512


class _Connection(sqlite3.Connection):
    """The only connection to a file, for its writer and its readers: never two at the same time."""

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        statements = _NESTED.get(sql)
        if statements is None:
            return super().execute(sql, values)
        for statement in statements:
            cursor = super().execute(statement)
        return cursor

    def close(self) -> None:
        """The file stays open for the next one."""

    def begin_world(self) -> None:
        super().execute("BEGIN")

    def end_world(self) -> None:
        super().execute("ROLLBACK")


# By name, and by when the indexed bucket was created; those that no world uses now.
_unused: dict[tuple[str, str], list[_Connection]] = {}


class Disk:
    """The disks of all machines of a world; its buckets were created at this time."""

    def __init__(self, created: str) -> None:
        self._created = created
        self._files: dict[tuple[Path, str], _Connection] = {}

    def open(self, folder: Path, schema: FileSchema) -> "MemoryIndexFile":
        """In place of an IndexFile."""
        file = self._files.get((folder, schema.name))
        if file is None:
            unused = _unused.setdefault((schema.name, self._created), [])
            file = unused.pop() if unused else _new_file(schema, self._created)
            file.begin_world()
            self._files[folder, schema.name] = file
        return MemoryIndexFile(file)

    def close(self) -> None:
        for (_, name), file in self._files.items():
            file.end_world()
            _unused[name, self._created].append(file)
        self._files.clear()


class MemoryIndexFile:
    """With the methods of IndexFile."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def writer(self) -> sqlite3.Connection:
        return self._connection

    def reader(self) -> sqlite3.Connection:
        return self._connection

    def set_cache(self, *, filling: bool) -> None:
        """It is in memory."""

    def exists(self) -> bool:
        return True

    def remove(self) -> None:
        raise AssertionError("an index of a simulation is never damaged")

    def flush(self) -> None:
        """It is in memory."""

    def release(self) -> None:
        """Each gateway has a folder of its own."""


def _new_file(schema: FileSchema, created: str) -> _Connection:
    """As it is when its gateway has read an empty bucket."""
    connection = sqlite3.connect(
        ":memory:", isolation_level=None, factory=_Connection, cached_statements=_CACHED_STATEMENTS
    )
    connection.executescript(f"BEGIN; {schema.tables} COMMIT")
    connection.begin_world()
    writer = _WRITERS[schema.name](connection)
    writer.begin(created)
    writer.complete()
    connection.commit()
    return connection
