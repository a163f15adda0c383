"""Large objects in JetStream, in the layout of NATS' object store: chunks, and a record for each object.

nats-py reads and writes the same layout, but reads its source on the event loop and keeps objects in memory.
Here an object passes through a chunk at a time, and an upload survives a short outage.

The records of a store are read and written as one list with one revision: a publish names the revision of the
list that it was based on, and fails when another one came first.
"""

import asyncio
import hashlib
import logging
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import msgspec

from pyoco_server.broker.client.connection import Connection, PayloadTooLarge
from pyoco_server.broker.client.subscriptions import RenewableSubscription
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import Entry
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import (
    MessageInfo,
    StreamMessage,
    last_sequence,
    newest_info,
    newest_message,
    read_all,
    read_batch,
    stream_state,
)
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.value_types import Count

log = logging.getLogger(__name__)

# What NATS' own tools use.
CHUNK_BYTES: Final = 128 * 1024
# A megabyte at a time.
_READ_CHUNKS: Final = 8
# How long the write of a chunk, and the read of the list, are retried.
_RETRY_FOR_SEC: Final = 10.0
_RETRY_SEC: Final = 0.1
_DIGEST: Final = "SHA-256="


class _Options(msgspec.Struct, omit_defaults=True):
    max_chunk_size: Count = 0


class _Info(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The record of one object, as NATS' own tools write it."""

    name: str
    bucket: str = ""
    nuid: str = ""
    size: Count = 0
    mtime: str = ""
    chunks: Count = 0
    digest: str = ""
    deleted: bool = False
    # The public package writes a text in place of a list.
    headers: dict[str, list[str] | str] = {}
    options: _Options | None = None


_decode_info = record_decoder(_Info)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChunks:
    """Bytes that are stored, and not published yet."""

    nuid: str
    size: int
    count: int
    sha256: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    name: str
    nuid: str
    size: int
    chunks: int
    chunk_bytes: int
    # None for an object that was written without a digest.
    sha256: bytes | None
    modified: float
    headers: Mapping[str, str]
    # Of its record.
    revision: int


@dataclass(frozen=True, slots=True)
class ObjectListing:
    """All objects of a store at one revision."""

    objects: list[StoredObject]
    revision: int

    def find(self, name: str) -> StoredObject | None:
        return next((each for each in self.objects if each.name == name), None)


class ObjectStore:
    """One object store."""

    def __init__(self, connection: Connection, bucket: str) -> None:
        self.bucket = bucket
        self._connection = connection
        self._stream = f"OBJ_{bucket}"
        self._infos = f"$O.{bucket}.M."
        self._chunks = f"$O.{bucket}.C."
        self._reader = RecordReader(connection, RecordKind.WHEEL, _decode_info)

    async def newest_record(self) -> MessageInfo | None:
        """Changes with each object that is published or deleted; a small request."""
        return await newest_info(self._connection, self._stream, f"{self._infos}>")

    async def on_change(self, hint: Callable[[], None]) -> None:
        """Call `hint` when a record may have been written; `newest_record` shows whether it is stored."""
        subscription = RenewableSubscription(self._connection, lambda _: hint(), f"{self._infos}>")

        async def resubscribe() -> None:
            await subscription.renew()
            # Messages may have been missed during the outage.
            hint()

        self._connection.on_connect(resubscribe)
        await subscription.renew()

    async def listing(self) -> ObjectListing:
        """All objects; a replica that lacks the newest record is read again."""
        revision = await last_sequence(self._connection, self._stream, f"{self._infos}>")
        give_up_at = time.monotonic() + _RETRY_FOR_SEC
        while True:
            infos = read_all(self._connection, self._stream, f"{self._infos}>")
            messages = [message async for message in infos]
            seen = messages[-1].sequence if messages else 0
            if seen >= revision:
                objects = [found for found in map(self._object, messages) if found is not None]
                return ObjectListing(objects, seen)
            if time.monotonic() > give_up_at:
                raise self._connection.unavailable(f"{self._stream}: a replica lags behind")
            await asyncio.sleep(_RETRY_SEC)

    async def store_chunks(self, blocks: AsyncIterator[bytes]) -> StoredChunks:
        """Store the bytes without an object: `publish` makes it, `drop_chunks` removes them."""
        nuid = uuid4().hex
        digest = hashlib.sha256()
        size = count = 0
        try:
            async for block in blocks:
                for begin in range(0, len(block), CHUNK_BYTES):
                    chunk = block[begin : begin + CHUNK_BYTES]
                    await self._store_chunk(nuid, count, chunk)
                    count += 1
                size += len(block)
                await asyncio.to_thread(digest.update, block)
        except BaseException:
            await self.drop_chunks(nuid)
            raise
        return StoredChunks(nuid=nuid, size=size, count=count, sha256=digest.digest())

    async def publish(
        self, name: str, chunks: StoredChunks, headers: Mapping[str, str], *, revision: int
    ) -> StoredObject:
        """Make the object visible; RevisionConflict when the store is not at this revision any more."""
        info = _Info(
            name=name,
            bucket=self.bucket,
            nuid=chunks.nuid,
            size=chunks.size,
            chunks=chunks.count,
            digest=_DIGEST + urlsafe_b64encode(chunks.sha256).decode(),
            headers={key: [value] for key, value in headers.items()},
            options=_Options(CHUNK_BYTES),
        )
        new_revision = await self._write_info(info, revision=revision)
        return _stored_object(info, modified=time.time(), revision=new_revision)

    async def delete(self, stored: StoredObject, *, revision: int) -> None:
        """Hide the object and remove its bytes; RevisionConflict as for `publish`."""
        deleted = _Info(name=stored.name, bucket=self.bucket, nuid=stored.nuid, deleted=True)
        await self._write_info(deleted, revision=revision)
        await self.drop_chunks(stored.nuid)

    async def drop_chunks(self, nuid: str) -> None:
        """Remove the bytes of an object that is not visible; what remains is found by `abandoned`."""
        try:
            await jetstream_api.purge(self._connection, self._stream, self._chunks + nuid)
        except NatsUnavailable as error:
            log.warning("cannot remove the chunks of %s now: %s", nuid, error)

    async def abandoned(self, older_than_sec: float) -> list[str]:
        """The chunks of uploads that were not finished for so long that they never will be."""
        # In this order: an object that is published in between is known.
        state = await stream_state(self._connection, self._stream, subjects=f"{self._chunks}*")
        known = {each.nuid for each in (await self.listing()).objects}
        unknown = {subject.removeprefix(self._chunks) for subject in state.subjects} - known
        oldest = state.server_time - older_than_sec
        return [nuid for nuid in sorted(unknown) if await self._stored_before(nuid, oldest)]

    async def read(self, stored: StoredObject, *, start: int = 0) -> AsyncIterator[bytes]:
        """The bytes from `start` to the end; NatsUnavailable when some are missing."""
        first = start // stored.chunk_bytes if stored.chunk_bytes else 0
        skip = start - first * stored.chunk_bytes
        left = stored.size - first * stored.chunk_bytes
        after = await self._before_chunk(stored, first)
        while left > 0:
            subject = self._chunks + stored.nuid
            batch = await read_batch(self._connection, self._stream, subject, after=after, limit=_READ_CHUNKS)
            if not batch:
                raise self._connection.unavailable(f"{stored.name} is incomplete: it was deleted, or damaged")
            for message in batch:
                left -= len(message.data)
                if skip < len(message.data):
                    yield message.data[skip:]
                skip = max(0, skip - len(message.data))
            after = batch[-1].sequence

    async def _before_chunk(self, stored: StoredObject, number: int) -> int:
        """A sequence after which the chunk of this number is the next one of its object.

        Concurrent uploads store their chunks in turns, so that only the earliest possible position of a chunk
        is known. The server counts how many follow the one that is found there.
        """
        after = 0
        while number > 0:
            subject = self._chunks + stored.nuid
            batch = await read_batch(self._connection, self._stream, subject, after=after, limit=1)
            if not batch:
                break
            found = stored.chunks - 1 - batch[0].num_pending
            if found >= number:
                return batch[0].sequence - 1
            after = batch[0].sequence - 1 + number - found
        return after

    async def _store_chunk(self, nuid: str, number: int, chunk: bytes) -> None:
        # With a message id, so that a chunk whose acknowledgement was lost is not stored twice.
        headers = {"Nats-Msg-Id": f"{nuid}.{number}"}
        give_up_at = time.monotonic() + _RETRY_FOR_SEC
        while True:
            try:
                await publish_acked(self._connection, self._chunks + nuid, chunk, headers)
            except PayloadTooLarge:
                raise
            except NatsUnavailable:
                if time.monotonic() > give_up_at:
                    raise
                await asyncio.sleep(_RETRY_SEC)
            else:
                return

    async def _write_info(self, info: _Info, *, revision: int) -> int:
        subject = self._infos + urlsafe_b64encode(info.name.encode()).decode()
        headers = {
            "Nats-Rollup": "sub",
            "Nats-Expected-Last-Subject-Sequence": str(revision),
            "Nats-Expected-Last-Subject-Sequence-Subject": f"{self._infos}>",
        }
        return await publish_acked(self._connection, subject, msgspec.json.encode(info), headers)

    async def _stored_before(self, nuid: str, moment: float) -> bool:
        newest = await newest_message(self._connection, self._stream, self._chunks + nuid)
        return newest is not None and newest.stored_at < moment

    def _object(self, message: StreamMessage) -> StoredObject | None:
        entry = Entry(message.data, message.sequence)
        info = self._reader.find(message.subject.removeprefix(self._infos), entry)
        if info is None or info.deleted:
            return None
        return _stored_object(info, modified=message.stored_at, revision=message.sequence)


def _stored_object(info: _Info, *, modified: float, revision: int) -> StoredObject:
    return StoredObject(
        name=info.name,
        nuid=info.nuid,
        size=info.size,
        chunks=info.chunks,
        chunk_bytes=0 if info.options is None else info.options.max_chunk_size,
        sha256=_sha256(info.digest),
        modified=modified,
        headers={
            key: values if isinstance(values, str) else values[0]
            for key, values in info.headers.items()
            if values
        },
        revision=revision,
    )


def _sha256(digest: str) -> bytes | None:
    if not digest.startswith(_DIGEST):
        return None
    try:
        return urlsafe_b64decode(digest.removeprefix(_DIGEST))
    except ValueError:
        return None
