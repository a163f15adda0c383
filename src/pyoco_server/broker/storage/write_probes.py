"""Test writes: one message that readers ignore, for each stream that a gateway writes to.

Only a message that is stored shows that a stream can store: a server whose disk is full still answers a
publish that it rejects, such as one with a wrong revision.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import RevisionConflict, publish_acked
from pyoco_server.broker.jetstream.stream_reads import newest_info
from pyoco_server.config import NatsBackendConfig

# The id of a run that will never exist.
PROBE_ID: Final = "00000000-0000-4000-8000-0070726f6265"
# The marker of a deleted key: for readers, a run that was withdrawn.
_MARKER: Final = {"KV-Operation": "DEL"}
_FIRST_ON_SUBJECT: Final = {"Nats-Expected-Last-Subject-Sequence": "0"}


class _Removal(Enum):
    # The next one replaces it.
    REPLACED = auto()
    # What the permissions of a gateway allow differs by stream.
    PURGED = auto()
    DELETED = auto()


@dataclass(frozen=True, slots=True)
class WriteProbe:
    stream: str
    # What the subjects of the stream begin with.
    prefix: str
    subject: str
    removal: _Removal
    # Whether no run can be submitted without the stream.
    essential: bool = False

    async def write(self, connection: Connection) -> None:
        """NatsUnavailable unless the stream has stored it."""
        if self.removal is _Removal.REPLACED:
            await publish_acked(connection, self.subject, b"", _MARKER, probing=True)
            return
        try:
            sequence = await self._publish(connection)
        except RevisionConflict:
            # Left by a gateway that was killed, or stored after its timeout.
            left = await newest_info(connection, self.stream, self.subject)
            if left is not None:
                await self._remove(connection, left.sequence)
            try:
                sequence = await self._publish(connection)
            except RevisionConflict:
                # Another gateway has stored its own in between, and removes it.
                return
        await self._remove(connection, sequence)

    async def _publish(self, connection: Connection) -> int:
        return await publish_acked(connection, self.subject, b"", _FIRST_ON_SUBJECT, probing=True)

    async def _remove(self, connection: Connection, sequence: int) -> None:
        if self.removal is _Removal.PURGED:
            await jetstream_api.purge(connection, self.stream, self.subject)
        else:
            await jetstream_api.delete_message(connection, self.stream, sequence)


def write_probes(config: NatsBackendConfig) -> list[WriteProbe]:
    runs, work = config.runs_kv_bucket, config.work_subject_prefix
    journal, wheels = config.journal_subject_prefix, config.wheel_object_store_bucket
    others = (
        config.idempotency_kv_bucket,
        config.workers_kv_bucket,
        config.lease_kv_bucket,
        config.bulk_kv_bucket,
    )
    return [
        _of_bucket(runs, essential=True),
        # Two tokens: no tag has a dot, so no worker receives it.
        WriteProbe(
            config.work_stream,
            f"{work}.",
            f"{work}.probe.{PROBE_ID}",
            removal=_Removal.DELETED,
            essential=True,
        ),
        WriteProbe(
            config.journal_stream,
            f"{journal}.",
            f"{journal}.probe.{PROBE_ID}",
            removal=_Removal.PURGED,
            essential=True,
        ),
        *map(_of_bucket, others),
        _of_bucket(config.waits_kv_bucket, key=f"{PROBE_ID}.probe"),
        _of_bucket(config.schedules_kv_bucket, key=f"_.{PROBE_ID}"),
        _of_bucket(config.signals_kv_bucket),
        # A part of no file.
        WriteProbe(f"OBJ_{wheels}", f"$O.{wheels}.", f"$O.{wheels}.C.{PROBE_ID}", removal=_Removal.PURGED),
    ]


def _of_bucket(name: str, key: str = PROBE_ID, *, essential: bool = False) -> WriteProbe:
    prefix = f"$KV.{name}."
    return WriteProbe(f"KV_{name}", prefix, prefix + key, removal=_Removal.REPLACED, essential=essential)
