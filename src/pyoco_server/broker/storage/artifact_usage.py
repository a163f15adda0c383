"""How many bytes of artifacts each tenant has stored: counted by gateways, read by workers."""

import logging
import time
from collections.abc import Mapping
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.ids import NO_TENANT

log = logging.getLogger(__name__)

# How long a worker uses a count that it has read.
_KNOWN_FOR_SEC: Final = 5.0


class ArtifactUsage:
    """The `pyoco_artifact_usage` bucket: a key per tenant, whose value is the number as text."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._bucket = Bucket(connection, connection.config.artifact_usage_kv_bucket)
        self._known: dict[str | None, tuple[float, int]] = {}
        self._published: dict[str | None, int] = {}
        self._failure_logged = False

    async def of(self, tenant: str | None) -> int:
        """What was counted last; 0 where that is unknown."""
        now = time.monotonic()
        read_at, known = self._known.get(tenant, (0.0, 0))
        if read_at and now - read_at < _KNOWN_FOR_SEC:
            return known
        try:
            entry = await self._bucket.get_from_leader(tenant or NO_TENANT)
            counted = 0 if entry is None else int(entry.value)
        except (NatsUnavailable, ValueError) as error:
            # The account of workers that an earlier version has made may not read it.
            if not self._failure_logged:
                log.warning("PYOCO_ARTIFACT_TENANT_MAX_BYTES cannot be checked: %s", error)
            self._failure_logged = True
            return known
        self._known[tenant] = now, counted
        return counted

    async def publish(self, counted: Mapping[str | None, int]) -> None:
        """Write what has changed since the last time; a tenant that is missing has nothing stored."""
        gone = {tenant: 0 for tenant in self._published if tenant not in counted}
        for tenant, size in {**counted, **gone}.items():
            if self._published.get(tenant) != size:
                subject = self._bucket.prefix + (tenant or NO_TENANT)
                await publish_acked(self._connection, subject, str(size).encode())
                self._published[tenant] = size
