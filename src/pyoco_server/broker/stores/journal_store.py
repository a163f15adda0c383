"""The journal of a run: the results of its finished tasks, and the flow.yaml it was submitted with.

One subject per run, so that one purge removes everything. An entry that is too large for one message is
stored in parts; an incomplete entry is ignored.
"""

import asyncio
import itertools
import logging
from collections.abc import Mapping
from uuid import uuid4

import msgspec
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, last_sequence, newest_message, read_to
from pyoco_server.records.journal_order import valid_entries
from pyoco_server.records.models import JournalEntry

log = logging.getLogger(__name__)

_PART_BYTES = 512 * 1024
_COPIES_IN_FLIGHT = 32
_KIND_HEADER = "Pyoco-Kind"
_SOURCE = "source"
# `<entry> <index> <count>`
_PART_HEADER = "Pyoco-Part"
# The entry is from the run that this one repeats.
_COPIED_HEADER = "Pyoco-Copied"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(JournalEntry).decode


class Journal:
    """The `PYOCO_JOURNAL` stream."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = connection.config.journal_stream

    async def append(self, run_id: str, entry: JournalEntry) -> None:
        await self._write(run_id, _encode(entry), {})

    async def keep_source(self, run_id: str, workflow_yaml: str) -> None:
        """Store the flow.yaml of a run, which is too large for its snapshot."""
        await self._write(run_id, workflow_yaml.encode(), {_KIND_HEADER: _SOURCE})

    async def entries(self, run_id: str) -> list[JournalEntry]:
        """The valid entries in the order in which the tasks finished, one of each key.

        Entries of the run that this one repeats are of attempt 0.
        """
        stored: list[JournalEntry] = []
        for headers, payload in await self._payloads(run_id):
            if headers.get(_KIND_HEADER) != _SOURCE:
                try:
                    entry = _decode(payload)
                except msgspec.DecodeError as error:
                    # Ignored: its task is executed again.
                    log.error("unreadable journal entry: %s", error, extra={"run_id": run_id})
                    continue
                if _COPIED_HEADER in headers:
                    entry.attempt = 0
                stored.append(entry)
        return valid_entries(stored)

    async def source(self, run_id: str) -> str | None:
        """The stored flow.yaml of the run, if it has one."""
        for headers, payload in await self._payloads(run_id):
            if headers.get(_KIND_HEADER) == _SOURCE:
                return payload.decode()
        return None

    async def last_finished(self, run_id: str) -> tuple[str | None, str] | None:
        """The task of this run that finished last, and when by the server's clock; None when none has.

        The task is unknown when its entry has several parts: they are not read for that.
        """
        newest = await newest_message(self._connection, self._stream, self._subject(run_id))
        if newest is None or newest.headers.get(_KIND_HEADER) == _SOURCE or _COPIED_HEADER in newest.headers:
            return None
        if _PART_HEADER in newest.headers:
            return None, newest.timestamp
        try:
            entry = _decode(newest.data)
            return None if entry.why else entry.task, newest.timestamp
        except msgspec.DecodeError:
            return None, newest.timestamp

    async def copy(self, origin: str, to: str) -> None:
        """Copy the results of another run, and its flow.yaml, to a new run.

        Entries that are copies in the other run, too, and that it did not use, are left out.
        """
        source = await self.source(origin)
        if source is not None:
            await self.keep_source(to, source)
        own = (entry for entry in await self.entries(origin) if entry.attempt)
        # Numbered again: entries that are left out would leave gaps.
        numbered = (
            structs.replace(entry, number=number, base=0) for number, entry in enumerate(own, start=1)
        )
        while group := list(itertools.islice(numbered, _COPIES_IN_FLIGHT)):
            await asyncio.gather(
                *(self._write(to, _encode(entry), {_COPIED_HEADER: origin}) for entry in group)
            )

    async def remove(self, run_id: str) -> None:
        await jetstream_api.purge(self._connection, self._stream, self._subject(run_id))

    async def _write(self, run_id: str, payload: bytes, headers: Mapping[str, str]) -> None:
        size = min(_PART_BYTES, self._connection.max_record_bytes)
        if len(payload) <= size:
            await self._publish(run_id, payload, headers)
            return
        whole = uuid4().hex
        parts = [payload[start : start + size] for start in range(0, len(payload), size)]
        for index, part in enumerate(parts):
            await self._publish(run_id, part, {**headers, _PART_HEADER: f"{whole} {index} {len(parts)}"})

    async def _publish(self, run_id: str, payload: bytes, headers: Mapping[str, str]) -> None:
        await publish_acked(self._connection, self._subject(run_id), payload, headers or None)

    async def _payloads(self, run_id: str) -> list[tuple[Mapping[str, str], bytes]]:
        """Headers and content of each complete record."""
        found: list[tuple[Mapping[str, str], bytes]] = []
        incomplete: dict[str, dict[int, bytes]] = {}
        for message in await self._messages(run_id):
            if _PART_HEADER not in message.headers:
                found.append((message.headers, message.data))
                continue
            whole, index, count = message.headers[_PART_HEADER].split()
            parts = incomplete.setdefault(whole, {})
            parts[int(index)] = message.data
            if len(parts) == int(count):
                found.append((message.headers, b"".join(parts[each] for each in range(int(count)))))
        return found

    async def _messages(self, run_id: str) -> list[StreamMessage]:
        subject = self._subject(run_id)
        last = await last_sequence(self._connection, self._stream, subject)
        return [each async for each in read_to(self._connection, self._stream, subject, last)]

    def _subject(self, run_id: str) -> str:
        return f"{self._connection.config.journal_subject_prefix}.{run_id}"
