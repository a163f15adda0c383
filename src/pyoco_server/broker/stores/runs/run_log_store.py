"""The log lines of runs: one subject per run, each message a batch of lines."""

from dataclasses import dataclass

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import info_at, last_sequence, newest_message, read_batch
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.runs.log_models import LogLine
from pyoco_server.records.unreadable_records import RecordKind

_encode = msgspec.json.Encoder().encode
_decode = record_decoder(list[LogLine])


@dataclass(frozen=True, slots=True)
class LogBatch:
    sequence: int
    lines: list[LogLine]
    size: int
    # By the server's clock.
    stored_ns: int = 0


class RunLogs:
    """The `PYOCO_LOGS` stream."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = connection.config.run_log_stream
        self._reader = RecordReader(connection, RecordKind.LOG, _decode)

    @property
    def interruptions(self) -> int:
        """After each of them the stream may be truncated."""
        return self._connection.interruptions

    async def publish(self, run_id: str, lines: list[LogLine]) -> None:
        await publish_acked(self._connection, self._subject(run_id), _encode(lines))

    async def read(self, run_id: str, *, after: int, limit: int, max_bytes: int) -> list[LogBatch]:
        """The next batches after the sequence `after`; none when no more are stored yet.

        A batch that cannot be read has no lines.
        """
        subject = self._subject(run_id)
        messages = await read_batch(
            self._connection, self._stream, subject, after=after, limit=limit, max_bytes=max_bytes
        )
        return [
            LogBatch(
                message.sequence,
                self._reader.in_stream(run_id, message) or [],
                len(message.data),
                message.stored_ns,
            )
            for message in messages
        ]

    async def has_batch(self, run_id: str, sequence: int, stored_ns: int | None = None) -> bool:
        """Whether there is a batch of the run at this sequence, stored at that time."""
        info = await info_at(self._connection, self._stream, sequence)
        return (
            info is not None and info.subject == self._subject(run_id) and stored_ns in (None, info.stored_ns)
        )

    async def last_sequence(self, run_id: str) -> int:
        """The sequence of the newest batch as the leader knows it; 0 when there is none."""
        return await last_sequence(self._connection, self._stream, self._subject(run_id))

    async def last_timestamp(self, run_id: str) -> str | None:
        """When the newest batch was stored, by the server's clock (RFC 3339); None when there is none."""
        newest = await newest_message(self._connection, self._stream, self._subject(run_id))
        return None if newest is None else newest.timestamp

    async def remove(self, run_id: str) -> None:
        await jetstream_api.purge(self._connection, self._stream, self._subject(run_id))

    def _subject(self, run_id: str) -> str:
        return log_subject(self._connection.config, run_id)


def log_subject(config: NatsBackendConfig, run_id: str) -> str:
    return f"{config.run_log_subject_prefix}.{run_id}"
