"""What happened to waits, in order: who answered, who was refused, what expired.

One subject per wait and kind of event: what happened to one wait is read by itself, and of many attempts that
were refused the newest are kept (the stream has a limit per subject). An event may be published more than
once, by whoever finds that it may be missing; under its id it counts once.
"""

import logging

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.stream_reads import read_batch
from pyoco_server.records.wait_models import WaitEvent, decode_wait_event, encode

log = logging.getLogger(__name__)

_BATCH = 512


class WaitEvents:
    """The `PYOCO_WAIT_EVENTS` stream."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = connection.config.wait_event_stream
        self._prefix = connection.config.wait_event_subject_prefix

    async def publish(self, event: WaitEvent) -> None:
        """Store one event; one that was stored a moment ago is not stored again."""
        headers = {"Nats-Msg-Id": event.event_id}
        await publish_acked(self._connection, self._subject(event), encode(event), headers)

    async def has(self, event: WaitEvent) -> bool:
        """Whether any replica knows that an event of this kind is published: a wait has one of each.

        Of attempts that were refused there are many; these are not asked about.
        """
        return bool(await read_batch(self._connection, self._stream, self._subject(event), limit=1))

    async def of_wait(self, wait_id: str) -> list[WaitEvent]:
        """The events of the wait, each once, in the order in which they were stored."""
        return await self._read(f"{self._prefix}.{wait_id}.*")

    async def of_run(self, run_id: str) -> list[WaitEvent]:
        """The same of all waits of the run."""
        return await self._read(f"{self._prefix}.{run_id}.*.*")

    def _subject(self, event: WaitEvent) -> str:
        return f"{self._prefix}.{event.wait_id}.{event.kind}"

    async def _read(self, subject: str) -> list[WaitEvent]:
        found: dict[str, WaitEvent] = {}
        after = 0
        while batch := await read_batch(self._connection, self._stream, subject, after=after, limit=_BATCH):
            for message in batch:
                try:
                    event = decode_wait_event(message.data)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    log.error("message %d is no event of a wait: %s", message.sequence, error)
                    continue
                found.setdefault(event.event_id, event)
            if len(batch) < _BATCH:
                break
            after = batch[-1].sequence
        return list(found.values())

    async def remove_run(self, run_id: str) -> None:
        await jetstream_api.purge(self._connection, self._stream, f"{self._prefix}.{run_id}.*.*")
