"""The JSONL file of audit rows, written from their stream.

Each line has the sequence of its row: the file is continued after its last line, and a file that was deleted
is written again. Of several gateways with one working directory, the one that has the lock writes it.
"""

import asyncio
import fcntl
import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_cursor import StreamCursor
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, stream_state
from pyoco_server.errors import NatsUnavailable, UnreadableRecord
from pyoco_server.records.moments import iso_time
from pyoco_server.records.triggers.workflow_event_models import AuditRow, decode_audit_row

log = logging.getLogger(__name__)

OFF: Final = "off"
_BATCH: Final = 512
_BATCH_BYTES: Final = 4 * 1024 * 1024
# How often it is looked whether the file was deleted, or the lock is free.
_CHECK_SEC: Final = 5.0
_AFTER_ERROR_SEC: Final = 30.0
# Longer than a line.
_TAIL_BYTES: Final = 1024 * 1024


def line_of(row: AuditRow, sequence: int) -> bytes:
    fields: dict[str, Any] = {
        "ts": iso_time(row.at),
        "ym": row.ym,
        "year": row.year,
        "month": row.month,
        "event_type": row.event_type,
        "action": row.action,
        "status": row.status,
        "actor": {name: getattr(row.actor, name) for name in ("channel", "id", "ip", "user_agent")},
        "source": row.source,
        "run_id": row.run_id,
        "details": row.details,
        "id": row.id,
        "tenant_id": row.tenant_id,
        "sequence": sequence,
    }
    return msgspec.json.encode(fields) + b"\n"


class EventAuditFile:
    def __init__(self, connection: Connection) -> None:
        config = connection.config
        self._connection = connection
        self._stream = config.audit_stream
        self._cursor = StreamCursor(connection, self._stream)
        self._target = None if config.audit_file == OFF else _Target(Path(config.audit_file))
        self._loop = BackgroundLoop("audit file", self._step)
        self._reported = False
        self.wake = self._loop.wake

    async def start(self) -> None:
        if self._target is not None:
            self._loop.start()

    async def close(self) -> None:
        await self._loop.close()
        await self._cursor.close()
        if self._target is not None:
            self._target.close()

    async def _step(self) -> None:
        await self._loop.pause(_CHECK_SEC)
        await self._connection.wait_ready()
        try:
            await self._catch_up()
            self._reported = False
        except NatsUnavailable as error:
            log.debug("the audit file waits for NATS: %s", error)
            await asyncio.sleep(1.0)
        except OSError as error:
            if not self._reported:
                log.warning("the audit file cannot be written: %s; its rows are kept in NATS", error)
            self._reported = True
            await asyncio.sleep(_AFTER_ERROR_SEC)

    async def _catch_up(self) -> None:
        target = self._target
        assert target is not None
        state = await stream_state(self._connection, self._stream)
        # Nothing is created before the first row.
        if not state.messages or not await asyncio.to_thread(target.open, state.created):
            return
        if target.position > state.last_sequence:
            # The stream has lost its newest rows.
            target.position = 0
        while target.position < state.last_sequence:
            batch = await self._cursor.read(after=target.position, limit=_BATCH, max_bytes=_BATCH_BYTES)
            if not batch:
                return
            lines = b"".join(filter(None, map(_line, batch)))
            await asyncio.to_thread(target.append, lines, batch[-1].sequence)


class _Target:
    """The file, in threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: BinaryIO | None = None
        self._file: BinaryIO | None = None
        # The sequence of its last row.
        self.position = 0

    def open(self, created: str) -> bool:
        """Open or create it, for the stream that was created then; false if another gateway writes it."""
        if self._lock is None and not self._get_lock():
            return False
        if self._file is not None and self._is_same_file():
            return True
        self._close_file()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("ab+")
        self.position = _last_sequence(self._file) if self._is_of(created) else 0
        return True

    def append(self, lines: bytes, upto: int) -> None:
        assert self._file is not None
        try:
            self._file.write(lines)
            self._file.flush()
        except OSError:
            # A part of it may be written: `open` finds the last whole line again.
            self._close_file()
            raise
        self.position = upto

    def close(self) -> None:
        self._close_file()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _get_lock(self) -> bool:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lock = self._path.with_name(f".{self._path.name}.lock").open("ab+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        self._lock = lock
        return True

    def _is_of(self, created: str) -> bool:
        """Whether its lines are of this stream; the lock file says of which one they are."""
        assert self._lock is not None
        self._lock.seek(0)
        known = self._lock.read().decode(errors="replace")
        if known != created:
            self._lock.truncate(0)
            self._lock.write(created.encode())
            self._lock.flush()
        return known in ("", created)

    def _is_same_file(self) -> bool:
        assert self._file is not None
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._file.fileno()), self._path.stat())
        return False

    def _close_file(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            # What is left in its buffer is written from the stream again.
            with suppress(OSError):
                file.close()


def _last_sequence(file: BinaryIO) -> int:
    """Of its last line; a line that was not written to its end is removed."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL_BYTES))
    tail = file.read()
    whole = tail[: tail.rfind(b"\n") + 1]
    if len(whole) < len(tail):
        file.truncate(size - len(tail) + len(whole))
    if not whole:
        return 0
    try:
        return int(json.loads(whole.splitlines()[-1])["sequence"])
    except (ValueError, KeyError, TypeError):
        # Somebody has changed it: everything is appended.
        return 0


def _line(message: StreamMessage) -> bytes:
    try:
        return line_of(decode_audit_row(message.data), message.sequence)
    except UnreadableRecord:
        # The index reports it.
        return b""
