"""The events of waits, in order: opened, extended, answered, refused and so on.

One subject per wait and kind of event: the events of one wait are read by themselves, and of many refused
attempts the newest are kept (the stream has a limit per subject). An event may be published more than once;
under its id it counts once.
"""

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import read_all, read_batch
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.waits.wait_models import WaitEvent, decode_wait_event, encode


class WaitEventLog:
    """The `PYOCO_WAIT_EVENTS` stream."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = connection.config.wait_event_stream
        self._prefix = connection.config.wait_event_subject_prefix
        self._reader = RecordReader(connection, RecordKind.WAIT_EVENT, decode_wait_event)

    async def publish(self, event: WaitEvent) -> None:
        """Store one event; a repetition within the deduplication window is not stored."""
        headers = {"Nats-Msg-Id": event.event_id}
        await publish_acked(self._connection, self._subject(event), encode(event), headers)

    async def has(self, event: WaitEvent) -> bool:
        """Whether it is stored, as any replica knows it."""
        messages = await read_batch(self._connection, self._stream, self._subject(event))
        stored = (self._reader.in_stream(event.wait_id, message) for message in messages)
        return any(each is not None and each.event_id == event.event_id for each in stored)

    async def of_wait(self, wait_id: str) -> list[WaitEvent]:
        """The events of the wait, each once, in the order in which they were stored."""
        return await self._read(f"{self._prefix}.{wait_id}.*")

    def _subject(self, event: WaitEvent) -> str:
        return f"{self._prefix}.{event.wait_id}.{event.kind}"

    async def _read(self, subject: str) -> list[WaitEvent]:
        found: dict[str, WaitEvent] = {}
        async for message in read_all(self._connection, self._stream, subject):
            wait_id = message.subject.removeprefix(f"{self._prefix}.").rpartition(".")[0]
            if (event := self._reader.in_stream(wait_id, message)) is not None:
                found.setdefault(event.event_id, event)
        return list(found.values())

    async def remove_run(self, run_id: str) -> None:
        await jetstream_api.purge(self._connection, self._stream, f"{self._prefix}.{run_id}.*.*")
