"""The index files of gateways, in memory: they survive a crash of their gateway."""

import sqlite3
from pathlib import Path
from typing import Any

from pyoco_server.runs.index.index_file import FileSchema


class Disk:
    """The disks of all machines of a world."""

    def __init__(self) -> None:
        self._files: dict[tuple[Path, str], _Connection] = {}

    def open(self, folder: Path, schema: FileSchema) -> "MemoryIndexFile":
        """In place of an IndexFile."""
        file = self._files.get((folder, schema.name))
        if file is None:
            file = self._files[folder, schema.name] = _new_file(schema)
        return MemoryIndexFile(file)

    def close(self) -> None:
        for file in self._files.values():
            file.close_really()
        self._files.clear()


class _Connection(sqlite3.Connection):
    """The only connection to a file, for its writer and its readers: never two at the same time."""

    def close(self) -> None:
        """The file stays open for the next one."""
        if self.in_transaction:
            self.execute("ROLLBACK")

    def close_really(self) -> None:
        super().close()


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


_templates: dict[str, bytes] = {}


def _new_file(schema: FileSchema) -> _Connection:
    connection: Any = sqlite3.connect(":memory:", isolation_level=None, factory=_Connection)
    template = _templates.get(schema.tables)
    if template is None:
        connection.executescript(f"BEGIN; {schema.tables} COMMIT")
        _templates[schema.tables] = connection.serialize()
    else:
        # Faster than to create the tables again.
        connection.deserialize(template)
    return connection  # type: ignore[no-any-return]
