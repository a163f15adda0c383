"""Stored catalogues of flows, each once, under its digest: workers with the same code share one.

A worker writes its catalogue whenever it connects, so that one that was just removed as unused comes back.
"""

import asyncio
import zlib
from collections.abc import Collection

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.stream_reads import newest_message, read_all, stream_state
from pyoco_server.errors import UnreadableRecord
from pyoco_server.records.workers.flow_models import (
    MAX_CATALOGUE_BYTES,
    FlowCatalogue,
    catalogue_digest,
    decode_catalogue,
)
from pyoco_server.records.workers.worker_models import CatalogueReference

# Far below the smallest limit of a message that anybody sets.
_PART_BYTES = 128 * 1024


class FlowCatalogueStore:
    """The `pyoco_flows` bucket: keys `<digest>.<part>`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        bucket = connection.config.flows_kv_bucket
        self._stream = f"KV_{bucket}"
        self._prefix = f"$KV.{bucket}."

    async def store(self, encoded: bytes) -> CatalogueReference:
        """Write the catalogue; UnreadableRecord if it is not valid."""
        flows = decode_catalogue(encoded).flows
        digest, compressed = catalogue_digest(encoded), zlib.compress(encoded)
        for number, start in enumerate(range(0, len(compressed), _PART_BYTES)):
            part = compressed[start : start + _PART_BYTES]
            await publish_acked(self._connection, f"{self._prefix}{digest}.{number}", part)
        return CatalogueReference(digest=digest, flows=len(flows))

    async def load(self, digest: str) -> FlowCatalogue | None:
        """None if it is not there, or not all of it yet; UnreadableRecord if it is something else."""
        subject = f"{self._prefix}{digest}.*"
        parts: dict[int, bytes] = {}
        async for message in read_all(self._connection, self._stream, subject):
            number = message.subject.rpartition(".")[2]
            if number.isdecimal():
                parts[int(number)] = message.data
        if not parts:
            return None
        compressed = b"".join(parts[number] for number in sorted(parts))
        # Some milliseconds for a thousand flows.
        return await asyncio.to_thread(_catalogue, digest, compressed)

    async def remove_unused(self, used: Collection[str], *, older_than_sec: float) -> int:
        """Remove the catalogues that no worker refers to; returns how many parts."""
        state = await stream_state(self._connection, self._stream, subjects=f"{self._prefix}>")
        unused = [subject for subject in state.subjects if self._digest_in(subject) not in used]
        removed = 0
        for subject in unused:
            newest = await newest_message(self._connection, self._stream, subject)
            if newest is not None and newest.stored_at < state.server_time - older_than_sec:
                await jetstream_api.purge(self._connection, self._stream, subject, upto=newest.sequence)
                removed += 1
        return removed

    def _digest_in(self, subject: str) -> str:
        return subject.removeprefix(self._prefix).partition(".")[0]


def _catalogue(digest: str, compressed: bytes) -> FlowCatalogue | None:
    unpacking = zlib.decompressobj()
    try:
        encoded = unpacking.decompress(compressed, MAX_CATALOGUE_BYTES)
    except zlib.error as error:
        raise UnreadableRecord(f"the catalogue {digest} cannot be decompressed: {error}") from None
    if not unpacking.eof:
        if unpacking.unconsumed_tail:
            raise UnreadableRecord(f"the catalogue {digest} is larger than {MAX_CATALOGUE_BYTES} bytes")
        # A replica may not have received all parts.
        return None
    if catalogue_digest(encoded) != digest:
        raise UnreadableRecord(f"the catalogue {digest} has another content")
    return decode_catalogue(encoded)
