"""The journal of a run: what its finished tasks left behind, and the flow.yaml it was submitted with.

One subject per run, so that one purge removes all of it. An entry that is too large for one message is
stored in parts; parts that never became a whole entry are as if they had not been written.
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
# How many messages of a copy are under way at once.
_COPIES_IN_FLIGHT = 32
_KIND_HEADER = "Pyoco-Kind"
_SOURCE = "source"
# `<entry> <index> <count>`
_PART_HEADER = "Pyoco-Part"
# The entry was made by the run that this one repeats.
_COPIED_HEADER = "Pyoco-Copied"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(JournalEntry).decode


class Journal:
    """The `PYOCO_JOURNAL` stream."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = connection.config.journal_stream

    async def append(self, run_id: str, entry: JournalEntry) -> None:
        """Store one entry; returns when the server has it."""
        await self._write(run_id, _encode(entry), {})

    async def keep_source(self, run_id: str, workflow_yaml: str) -> None:
        """Store the flow.yaml of a run, which its snapshot has no room for."""
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
                    # As if it had not been written: its task is executed again.
                    log.error("a journal has an entry that is none: %s", error, extra={"run_id": run_id})
                    continue
                if _COPIED_HEADER in headers:
                    entry.attempt = 0
                stored.append(entry)
        return valid_entries(stored)

    async def source(self, run_id: str) -> str | None:
        """The flow.yaml that was kept for the run, if it has one."""
        for headers, payload in await self._payloads(run_id):
            if headers.get(_KIND_HEADER) == _SOURCE:
                return payload.decode()
        return None

    async def last_finished(self, run_id: str) -> tuple[str | None, str] | None:
        """Which task of this run finished last, and when by the server's clock; None when none has.

        The task is not known when its entry takes several messages: they are not read for that.
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
        """Give a new run what another one has finished, and its flow.yaml.

        Entries that the other one had as a copy itself and did not make its own are left out: it did not
        use them.
        """
        source = await self.source(origin)
        if source is not None:
            await self.keep_source(to, source)
        own = (entry for entry in await self.entries(origin) if entry.attempt)
        # Counted anew, since entries that are left out would leave gaps.
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
        """Headers and content of each whole record."""
        found: list[tuple[Mapping[str, str], bytes]] = []
        begun: dict[str, dict[int, bytes]] = {}
        for message in await self._messages(run_id):
            if _PART_HEADER not in message.headers:
                found.append((message.headers, message.data))
                continue
            whole, index, count = message.headers[_PART_HEADER].split()
            parts = begun.setdefault(whole, {})
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
