"""What runs print: one subject per run, each message a batch of lines.

Publishing does not wait for an answer: a line is worth less than the run that printed it.
"""

import msgspec

from pyoco_server.broker import jetstream_api
from pyoco_server.broker.connection import Connection
from pyoco_server.models import LogLine

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[LogLine]).decode


class RunLogs:
    """The `PYOCO_LOGS` stream."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stream = connection.config.run_log_stream

    async def publish(self, run_id: str, lines: list[LogLine]) -> None:
        """Send a batch; NatsUnavailable when the connection cannot take it."""
        if not self._connection.state.up:
            raise self._connection.unavailable()
        await self._connection.publish(self._subject(run_id), _encode(lines))

    async def remove(self, run_id: str) -> None:
        await jetstream_api.purge(self._connection, self._stream, self._subject(run_id))

    def _subject(self, run_id: str) -> str:
        return f"{self._connection.config.run_log_subject_prefix}.{run_id}"
