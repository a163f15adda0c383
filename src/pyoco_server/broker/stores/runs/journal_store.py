"""The journal of a run: the results of its finished tasks, and large documents that it was submitted with.

One subject per run, `<prefix>.<tag>.<run_id>`. Results may be pickles, so NATS lets a group of workers write
those of its own tags only (broker/permissions.py), and a journal is read and copied under one tag. An entry
that is too large for one message is stored in parts; an incomplete entry is ignored.

Earlier versions stored `<prefix>.<run_id>`, which every worker could write, and now none may. Gateways read
that: a document, which has a digest, and the results that were there when the runs were first signed.
Workers read it for a job of an earlier version, whose run may not be signed yet.
"""

import asyncio
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from uuid import uuid4

import msgspec
from msgspec import structs

from pyoco_server.broker.client.connection import Connection, NoResponders
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.kv import Entry
from pyoco_server.broker.jetstream.publishing import RevisionConflict, publish_acked
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, last_sequence, newest_message, read_to
from pyoco_server.errors import NatsForbidden
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.journal_order import valid_entries
from pyoco_server.records.unreadable_records import RecordKind

_PART_BYTES = 512 * 1024
_COPIES_IN_FLIGHT = 32
_KIND_HEADER = "Pyoco-Kind"
# A document. The name is of the time when only a flow.yaml was one.
_SOURCE = "source"
# `<entry> <index> <count>`
_PART_HEADER = "Pyoco-Part"
# The entry is from the run that this one repeats.
_COPIED_HEADER = "Pyoco-Copied"
_OWN_HEADERS = (_KIND_HEADER, _PART_HEADER, _COPIED_HEADER)
_PART = re.compile(r"(?P<record>\S{1,64}) (?P<index>\d{1,9}) (?P<count>\d{1,9})")
_BOM = "\ufeff"
# No stream has that many messages.
_NO_SEQUENCE = 2**53

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(JournalEntry).decode


class Journal:
    """The `PYOCO_JOURNAL` stream."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = connection.config.journal_stream
        self._reader = RecordReader(connection, RecordKind.JOURNAL, _decode)

    async def append(self, tag: str, run_id: str, entry: JournalEntry) -> None:
        await self._write(tag, run_id, _encode(entry), {})

    async def keep_document(self, tag: str, run_id: str, document: bytes) -> None:
        """Store what is too large for the run's snapshot: its flow.yaml, or its params."""
        await self._write(tag, run_id, document, {_KIND_HEADER: _SOURCE})

    async def entries(self, tag: str, run_id: str, *, old_up_to: int = 0) -> list[JournalEntry]:
        """The valid entries in the order in which the tasks finished, one of each key.

        Entries of the run that this one repeats are of attempt 0. Those under the subject of earlier versions
        count up to the sequence `old_up_to`.
        """
        messages = await self._old_messages(run_id, old_up_to)
        messages += await self._messages(self._subject(tag, run_id))
        return self._entries_in(messages, run_id)

    async def document(self, tag: str, run_id: str, digest: str) -> str | None:
        """The stored document of the run with this SHA-256, if it has one."""
        for subject in (self._subject(tag, run_id), self._old_subject(run_id)):
            for message, payload in _records_in(await self._messages(subject)):
                if message.headers.get(_KIND_HEADER) == _SOURCE and _has_digest(payload, digest):
                    return payload.decode()
        return None

    async def last_finished(self, tag: str, run_id: str) -> tuple[str | None, str] | None:
        """The task of this run that finished last, and when by the server's clock; None when none has.

        The task is unknown when its entry has several parts: they are not read for that.
        """
        newest = await newest_message(self._connection, self._stream, self._subject(tag, run_id))
        if newest is None or newest.headers.get(_KIND_HEADER) == _SOURCE or _COPIED_HEADER in newest.headers:
            return None
        if _PART_HEADER in newest.headers:
            return None, newest.timestamp
        entry = self._reader.in_stream(run_id, newest)
        return None if entry is None or entry.why else entry.task, newest.timestamp

    async def copy(self, tag: str, origin: str, to: str, *, old_up_to: int = 0) -> None:
        """Copy the results of another run to a new run of the same tag.

        Entries that are copies in the other run, too, and that it did not use, are left out. Those under the
        subject of earlier versions are copied up to the sequence `old_up_to`.
        """
        own = (entry for entry in await self.entries(tag, origin, old_up_to=old_up_to) if entry.attempt)
        # Numbered again: entries that are left out would leave gaps.
        numbered = (
            structs.replace(entry, number=number, base=0) for number, entry in enumerate(own, start=1)
        )
        while group := list(itertools.islice(numbered, _COPIES_IN_FLIGHT)):
            await asyncio.gather(
                *(self._write(tag, to, _encode(entry), {_COPIED_HEADER: origin}) for entry in group)
            )

    async def adopt_old(self, tag: str, run_id: str, up_to: int) -> None:
        """Store what is under the subject of earlier versions, up to a sequence, under that of the tag."""
        for message in await self._old_messages(run_id, up_to):
            kept = {name: message.headers[name] for name in _OWN_HEADERS if name in message.headers}
            # An entry that is stored twice all the same is read once: it has the same key and attempt.
            headers = {**kept, "Nats-Msg-Id": f"{run_id}.{message.sequence}"}
            await self._publish(self._subject(tag, run_id), message.data, headers)

    async def check_writable(self, tags: Iterable[str]) -> None:
        """NatsForbidden when this NATS user may not write the journals of these tags."""
        # The stream refuses this sequence, so that nothing is stored.
        never = {"Nats-Expected-Last-Subject-Sequence": str(_NO_SEQUENCE)}
        for tag in tags:
            subject = self._subject(tag, "check")
            try:
                await publish_acked(self._connection, subject, b"", never)
            except RevisionConflict:
                continue
            except NoResponders as nobody:
                raise NatsForbidden(
                    f"this NATS user may not write journals of the tag {tag} ({subject}): write the accounts "
                    "again with `pyoco-server-admin nats-config`, and run `pyoco-server-admin nats-setup`"
                ) from nobody

    async def remove(self, run_id: str) -> None:
        subjects = (self._subject("*", run_id), self._old_subject(run_id))
        await asyncio.gather(
            *(jetstream_api.purge(self._connection, self._stream, each) for each in subjects)
        )

    async def _write(self, tag: str, run_id: str, payload: bytes, headers: Mapping[str, str]) -> None:
        subject = self._subject(tag, run_id)
        size = min(_PART_BYTES, self._connection.max_record_bytes)
        if len(payload) <= size:
            await self._publish(subject, payload, headers)
            return
        whole = uuid4().hex
        parts = [payload[start : start + size] for start in range(0, len(payload), size)]
        for index, part in enumerate(parts):
            place = f"{whole} {index} {len(parts)}"
            await self._publish(subject, part, {**headers, _PART_HEADER: place})

    async def _publish(self, subject: str, payload: bytes, headers: Mapping[str, str]) -> None:
        await publish_acked(self._connection, subject, payload, headers or None)

    def _entries_in(self, messages: Iterable[StreamMessage], run_id: str) -> list[JournalEntry]:
        stored: list[JournalEntry] = []
        for last, payload in _records_in(messages):
            if last.headers.get(_KIND_HEADER) == _SOURCE:
                continue
            # The task of an entry that cannot be read is executed again.
            entry = self._reader.find(f"{run_id}#{last.sequence}", Entry(payload, last.sequence))
            if entry is not None:
                if _COPIED_HEADER in last.headers:
                    entry.attempt = 0
                stored.append(entry)
        return valid_entries(stored)

    async def _messages(self, subject: str) -> list[StreamMessage]:
        last = await last_sequence(self._connection, self._stream, subject)
        return [each async for each in read_to(self._connection, self._stream, subject, last)]

    async def _old_messages(self, run_id: str, up_to: int) -> list[StreamMessage]:
        if not up_to:
            return []
        messages = await self._messages(self._old_subject(run_id))
        return [message for message in messages if message.sequence <= up_to]

    def _subject(self, tag: str, run_id: str) -> str:
        return f"{self._connection.config.journal_subject_prefix}.{tag}.{run_id}"

    def _old_subject(self, run_id: str) -> str:
        return f"{self._connection.config.journal_subject_prefix}.{run_id}"


def _records_in(messages: Iterable[StreamMessage]) -> Iterator[tuple[StreamMessage, bytes]]:
    """The last message of each complete record, and the content."""
    incomplete: dict[str, dict[int, bytes]] = {}
    for message in messages:
        if _PART_HEADER not in message.headers:
            yield message, message.data
            continue
        found = _PART.fullmatch(message.headers[_PART_HEADER])
        if found is None:
            continue
        parts = incomplete.setdefault(found["record"], {})
        parts[int(found["index"])] = message.data
        count = int(found["count"])
        if len(parts) == count and set(parts) == set(range(count)):
            yield message, b"".join(parts[each] for each in range(count))


def _has_digest(payload: bytes, digest: str) -> bool:
    """The digest is that of the uploaded file, which may have begun with a byte order mark."""
    return digest in (sha256(payload).hexdigest(), sha256(_BOM.encode() + payload).hexdigest())
