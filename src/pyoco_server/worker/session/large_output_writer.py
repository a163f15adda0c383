"""Stores the large outputs of a run's tasks while its executor sends them, a few parts at a time.

The record of a task names its stored output only when that is complete: after a crash on the way there is
nothing that refers to it. Each attempt has names of its own.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Raw

from pyoco_server.broker.stores.runs.run_object_store import BYTES_TYPE, RunObjects, RunObjectTooLarge
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.task_outputs import StoredOutput
from pyoco_server.worker.ipc.protocol import OutputPart

log = logging.getLogger(__name__)

_JSON_TYPE: Final = "application/json"
# While more than this waits to be stored, the executor waits too.
_WAITING_BYTES: Final = 1024 * 1024
_TASK_CHARS: Final = 200


class _Incomplete(Exception):
    """The run has ended before all parts of an output have come."""


class LargeOutputWriter:
    """The outputs of one attempt of a run."""

    def __init__(self, objects: RunObjects, tag: str, run_id: str, attempt: int, *, max_bytes: int) -> None:
        self._objects = objects
        self._tag = tag
        self._run_id = run_id
        self._attempt = attempt
        self._max_bytes = max_bytes
        # None after the last one.
        self._parts: asyncio.Queue[OutputPart | None] = asyncio.Queue()
        self._waiting = 0
        self._resume: Callable[[], None] | None = None
        self._storing: asyncio.Task[None] | None = None
        # Where an output is stored, or why it is not.
        self._stored: dict[str, StoredOutput | str] = {}

    def add(self, part: OutputPart, resume: Callable[[], None]) -> bool:
        """Take a part. False: the sender has to pause until `resume` is called."""
        if self._storing is None:
            self._storing = asyncio.create_task(self._store_all(), name=f"outputs:{self._run_id}")
        self._parts.put_nowait(part)
        self._waiting += len(part.data)
        if self._waiting <= _WAITING_BYTES:
            return True
        self._resume = resume
        return False

    async def finish(self, records: Mapping[str, bytes]) -> dict[str, bytes]:
        """The records of the tasks, with where their outputs are stored."""
        if self._storing is None:
            return dict(records)
        self._parts.put_nowait(None)
        await self._storing
        return {
            name: _with_output(record, self._stored[name]) if name in self._stored else record
            for name, record in records.items()
        }

    async def close(self) -> None:
        """Store nothing more; a part of an output is not visible."""
        if self._storing is not None:
            self._storing.cancel()
            with suppress(asyncio.CancelledError):
                await self._storing
        self._make_room(self._waiting)

    async def _store_all(self) -> None:
        while (first := await self._parts.get()) is not None:
            self._stored[first.task] = await self._store(first)

    async def _store(self, first: OutputPart) -> StoredOutput | str:
        parts = self._parts_from(first)
        try:
            stored = await self._objects.put(
                self._tag,
                self._run_id,
                _name(self._attempt, first.task),
                parts,
                content_type=BYTES_TYPE if first.is_bytes else _JSON_TYPE,
                details={"task": first.task[:_TASK_CHARS]},
                max_bytes=self._max_bytes,
            )
        except (NatsUnavailable, RunObjectTooLarge, _Incomplete) as error:
            log.warning(
                "the output of task %s is not stored: %s", first.task, error, extra={"run_id": self._run_id}
            )
            # The executor sends the rest all the same.
            with suppress(_Incomplete):
                async for _ in parts:
                    pass
            return f"it could not be stored: {error}"
        return StoredOutput(name=stored.name, bytes=stored.bytes, sha256=stored.sha256)

    async def _parts_from(self, first: OutputPart) -> AsyncIterator[bytes]:
        part: OutputPart | None = first
        while part is not None:
            yield part.data
            self._make_room(len(part.data))
            if part.is_last:
                return
            part = await self._parts.get()
        self._parts.put_nowait(None)
        raise _Incomplete("its executor has sent a part of it only")

    def _make_room(self, size: int) -> None:
        self._waiting -= size
        if self._resume is not None and self._waiting <= _WAITING_BYTES // 2:
            resume, self._resume = self._resume, None
            resume()


def _name(attempt: int, task: str) -> str:
    return f"output/{attempt}/{sha256(task.encode()).hexdigest()[:32]}"


def _with_output(record: bytes, stored: StoredOutput | str) -> bytes:
    fields: dict[str, Any] = msgspec.json.decode(record, type=dict[str, Raw])
    if isinstance(stored, str):
        fields["output_cut"] = stored
    else:
        fields["output_object"] = stored
    return msgspec.json.encode(fields)
