"""The objects of a run: values and files that are too large for its snapshot.

An object is stored in parts, each with a subject of its own, and becomes visible with its record, which is
written last and replaces an earlier one of the same name:

    <prefix>.<tag>.<run_id>.<key>.record            the record; `key` is a digest of the name
    <prefix>.<tag>.<run_id>.<key>.<upload>.begun    the sweep checks this upload later
    <prefix>.<tag>.<run_id>.<key>.<upload>.<number> its bytes

Every message can be read by its subject alone. So NATS lets a group of workers read and write the objects of
its own tags only (broker/permissions.py), and a range is read without what comes before it.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from typing import Final
from uuid import uuid4

import msgspec
from msgspec import Struct, structs

from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import Entry
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import (
    StreamMessage,
    newest_from_leader,
    newest_message,
    read_batch,
    stream_state,
)
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.moments import Timestamp
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.value_types import Count

# What NATS' own tools use for the chunks of an object.
PART_BYTES: Final = 128 * 1024
BYTES_TYPE: Final = "application/octet-stream"
# How long an upload may take. One that began long before, and has no record, will not be finished.
_UPLOAD_SEC: Final = 1800.0
ABANDONED_SEC: Final = 2 * _UPLOAD_SEC
_MAX_NAME_BYTES: Final = 1024
# A megabyte at a time.
_IN_FLIGHT: Final = 8
# How long a write is retried that NATS does not accept.
_RETRY_FOR_SEC: Final = 30.0
_RETRY_SEC: Final = 0.1
# How often a message is looked for that a replica may not have yet.
_LAG_TRIES: Final = 20
_SWEPT_AT_ONCE: Final = 100


class RunObject(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """The record of a stored object."""

    name: str
    # Distinguishes its bytes from those of earlier objects with this name.
    upload: str
    bytes: Count
    # Hex.
    sha256: str
    part_bytes: Count = PART_BYTES
    content_type: str = BYTES_TYPE
    created_at: Timestamp = 0.0
    # What its writer wants to know later, such as the task.
    details: dict[str, str] = {}


class RunObjectTooLarge(Exception):
    """There are more bytes than the object may have."""


class RunObjectGone(Exception):
    """The bytes are not stored any more: the object was removed or replaced."""


_encode = msgspec.json.Encoder().encode
_decode = record_decoder(RunObject)


class RunObjects:
    """The stream `PYOCO_OBJECTS`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = connection.config.run_object_stream
        self._prefix = connection.config.run_object_subject_prefix
        self._reader = RecordReader(connection, RecordKind.RUN_OBJECT, _decode)

    async def put(
        self,
        tag: str,
        run_id: str,
        name: str,
        blocks: AsyncIterable[bytes],
        *,
        content_type: str = BYTES_TYPE,
        details: Mapping[str, str] | None = None,
        max_bytes: int | None = None,
    ) -> RunObject:
        """Store the bytes, then the record that makes them visible. An earlier object of this name stays
        visible until then. RunObjectTooLarge if there are more than `max_bytes`.
        """
        place = self._place(tag, run_id, name)
        try:
            async with asyncio.timeout(_UPLOAD_SEC):
                stored = await self._store(place, name, blocks, max_bytes)
                stored = structs.replace(
                    stored, content_type=content_type, created_at=time.time(), details=dict(details or {})
                )
                await self._make_visible(place, stored)
        except TimeoutError:
            raise self._connection.unavailable(f"{name} was not stored within {_UPLOAD_SEC:g} s") from None
        return stored

    async def _store(
        self, place: str, name: str, blocks: AsyncIterable[bytes], max_bytes: int | None
    ) -> RunObject:
        """Store the bytes; the object is not visible yet."""
        upload = uuid4().hex
        await self._write(f"{place}.{upload}.begun", b"")
        part_bytes = min(PART_BYTES, self._connection.max_record_bytes)
        digest = hashlib.sha256()
        size = number = 0
        async for group in _groups(blocks, part_bytes):
            size += sum(map(len, group))
            if max_bytes is not None and size > max_bytes:
                raise RunObjectTooLarge(f"more than {max_bytes} bytes")
            await asyncio.gather(
                asyncio.to_thread(_update, digest, group),
                *(
                    self._write(f"{place}.{upload}.{each}", part)
                    for each, part in enumerate(group, start=number)
                ),
            )
            number += len(group)
        return RunObject(
            name=name, upload=upload, bytes=size, sha256=digest.hexdigest(), part_bytes=part_bytes
        )

    async def find(self, tag: str, run_id: str, name: str) -> RunObject | None:
        """The object of this name, if it is complete.

        From the leader: a caller may know of it, and a replica may lag. Workers may read replicas only.
        """
        subject = f"{self._place(tag, run_id, name)}.record"
        message = await newest_from_leader(self._connection, self._stream, subject)
        return None if message is None else self._decoded(subject, Entry(message.data, message.sequence))

    async def entries(self, tag: str, run_id: str) -> list[RunObject]:
        """The complete objects of a run, by name."""
        # As the leader knows them; a replica may lag.
        subjects = f"{self._prefix}.{tag}.{run_id}.*.record"
        listed = sorted((await stream_state(self._connection, self._stream, subjects=subjects)).subjects)
        found: list[RunObject] = []
        for begin in range(0, len(listed), _SWEPT_AT_ONCE):
            group = listed[begin : begin + _SWEPT_AT_ONCE]
            records = await asyncio.gather(*(self._record(each, is_listed=True) for each in group))
            found += [each for each in records if each is not None]
        return sorted(found, key=lambda each: each.name)

    async def read(
        self, tag: str, run_id: str, stored: RunObject, start: int = 0, stop: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The bytes from `start` up to `stop`; RunObjectGone when some are not stored any more."""
        stop = stored.bytes if stop is None else min(stop, stored.bytes)
        place = f"{self._place(tag, run_id, stored.name)}.{stored.upload}"
        size = stored.part_bytes
        numbers = range(start // size, -(-stop // size)) if start < stop else range(0)
        for first in range(0, len(numbers), _IN_FLIGHT):
            group = numbers[first : first + _IN_FLIGHT]
            parts = await asyncio.gather(*(self._part(f"{place}.{each}", stored, each) for each in group))
            for number, part in zip(group, parts, strict=True):
                offset = number * size
                yield part[max(0, start - offset) : stop - offset]

    async def remove_run(self, run_id: str) -> None:
        """Remove every object of the run, also those of unfinished uploads."""
        await jetstream_api.purge(self._connection, self._stream, f"{self._prefix}.*.{run_id}.>")

    async def drop_abandoned(self, older_than_sec: float = ABANDONED_SEC) -> int:
        """Remove the bytes of old uploads that are not visible; returns how many uploads that were."""
        state = await stream_state(self._connection, self._stream)
        dropped = after = 0
        while True:
            begun = await read_batch(
                self._connection,
                self._stream,
                f"{self._prefix}.*.*.*.*.begun",
                after=after,
                limit=_SWEPT_AT_ONCE,
            )
            for message in begun:
                if message.stored_at > state.server_time - older_than_sec:
                    # Those that follow are younger.
                    return dropped
                dropped += await self._settle(message)
            if not begun:
                return dropped
            after = begun[-1].sequence

    async def _settle(self, begun: StreamMessage) -> bool:
        """Remove an upload without a record, and return True; of a visible one, remove only `.begun`."""
        upload = begun.subject.removesuffix(".begun")
        place, _, number = upload.rpartition(".")
        record = await newest_message(self._connection, self._stream, f"{place}.record")
        stored = None if record is None else self._reader.find(place, Entry(record.data, record.sequence))
        is_visible = stored is not None and stored.upload == number
        subject = begun.subject if is_visible else f"{upload}.>"
        await jetstream_api.purge(self._connection, self._stream, subject)
        return not is_visible

    async def _make_visible(self, place: str, stored: RunObject) -> None:
        replaced = await self._record(f"{place}.record")
        await self._write(f"{place}.record", _encode(stored))
        if replaced is not None:
            # The sweep removes its bytes: workers may not.
            await self._write(f"{place}.{replaced.upload}.begun", b"")

    async def _record(self, subject: str, *, is_listed: bool = False) -> RunObject | None:
        message = await self._message(subject) if is_listed else await self._newest(subject)
        return None if message is None else self._decoded(subject, Entry(message.data, message.sequence))

    def _decoded(self, subject: str, entry: Entry) -> RunObject | None:
        return self._reader.find(subject.removeprefix(self._prefix), entry)

    async def _part(self, subject: str, stored: RunObject, number: int) -> bytes:
        message = await self._message(subject)
        expected = min(stored.part_bytes, stored.bytes - number * stored.part_bytes)
        if message is None or len(message.data) != expected:
            raise RunObjectGone(f"part {number} of {stored.name} is not stored: it was removed")
        return message.data

    async def _message(self, subject: str) -> StreamMessage | None:
        """The message that must be there; None when no replica has it."""
        tries = _LAG_TRIES if self._connection.config.nats_replicas > 1 else 1
        for _ in range(tries - 1):
            if (message := await self._newest(subject)) is not None:
                return message
            await asyncio.sleep(_RETRY_SEC)
        return await self._newest(subject)

    async def _newest(self, subject: str) -> StreamMessage | None:
        return await newest_message(self._connection, self._stream, subject)

    async def _write(self, subject: str, payload: bytes) -> None:
        """A message that is stored twice replaces itself: the stream keeps one of each subject."""
        give_up_at = time.monotonic() + _RETRY_FOR_SEC
        while True:
            try:
                await publish_acked(self._connection, subject, payload)
            except PayloadTooLarge:
                raise
            except NatsUnavailable:
                if not self._connection.ready:
                    # An outage: the upload goes on after it.
                    await self._connection.wait_ready()
                    give_up_at = time.monotonic() + _RETRY_FOR_SEC
                elif time.monotonic() > give_up_at:
                    raise
                await asyncio.sleep(_RETRY_SEC)
            else:
                return

    def _place(self, tag: str, run_id: str, name: str) -> str:
        encoded = name.encode()
        if not 0 < len(encoded) <= _MAX_NAME_BYTES:
            raise ValueError(f"the name of an object has 1 to {_MAX_NAME_BYTES} bytes, not {len(encoded)}")
        key = hashlib.sha256(encoded).hexdigest()[:32]
        return f"{self._prefix}.{tag}.{run_id}.{key}"


async def _groups(blocks: AsyncIterable[bytes], part_bytes: int) -> AsyncIterator[list[bytes]]:
    """The bytes in parts of equal size, except the last; some parts at a time."""
    buffer = bytearray()
    most = part_bytes * _IN_FLIGHT
    async for block in blocks:
        view = memoryview(block)
        while view:
            taken = view[: most - len(buffer)]
            buffer += taken
            view = view[len(taken) :]
            if len(buffer) == most:
                yield _parts(buffer, part_bytes)
                buffer.clear()
    if buffer:
        yield _parts(buffer, part_bytes)


def _parts(buffer: bytearray, part_bytes: int) -> list[bytes]:
    return [bytes(buffer[begin : begin + part_bytes]) for begin in range(0, len(buffer), part_bytes)]


def _update(digest: "hashlib._Hash", parts: list[bytes]) -> None:
    for part in parts:
        digest.update(part)
