"""A lease: one of all gateways does the work, and another one takes over when it dies.

Clocks of different machines are not compared. A holder renews its lease by writing it again; a gateway that
has seen the same revision for longer than the lease's TTL, by its own clock, may take it. Taking and renewing
are compare-and-set, so that one of several takers succeeds.
"""

import logging
import os
import socket
import time
from uuid import uuid4

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket, Entry
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.errors import NatsUnavailable, UnreadableRecord
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.moments import Seconds

log = logging.getLogger(__name__)


class LeaseRecord(msgspec.Struct):
    """One lease: bucket `pyoco_leases`, key `<name>`."""

    holder: str
    # How long after a renewal it cannot be taken.
    ttl_sec: Seconds


_decode = record_decoder(LeaseRecord)
_encode = msgspec.json.Encoder().encode


class Lease:
    """A holder calls `hold` before each action."""

    def __init__(self, connection: Connection, name: str, *, ttl_sec: float, holder: str = "") -> None:
        self._connection = connection
        self._bucket = Bucket(connection, connection.config.lease_kv_bucket)
        self._name = name
        self.holder = holder or f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self._record = LeaseRecord(self.holder, ttl_sec)
        # Of this lease while it is held.
        self._revision: int | None = None
        self._renewed_at = 0.0
        # The last revision of another holder's lease, and since when it is seen.
        self._seen_revision = 0
        self._seen_at = 0.0

    @property
    def held(self) -> bool:
        return self._revision is not None

    async def hold(self) -> bool:
        """Take or renew the lease; False while another holder has it. Cheap when just renewed."""
        now = time.monotonic()
        if self._revision is not None and now - self._renewed_at < self._record.ttl_sec / 3:
            return True
        try:
            self._revision = await self._write()
        except RevisionConflict:
            self._revision = None
        if self._revision is not None:
            self._renewed_at = now
        return self.held

    async def release(self) -> None:
        """Release it, so that the next holder need not wait for its TTL."""
        revision, self._revision = self._revision, None
        if revision is not None:
            try:
                await self._bucket.delete(self._name, revision=revision)
            except RevisionConflict:
                log.info("another holder had taken the lease %s", self._name)

    async def close(self) -> None:
        """Release it if NATS is there; without it the lease expires."""
        if self._connection.ready:
            try:
                await self.release()
            except NatsUnavailable as error:
                log.info("the lease is not released; it expires by itself: %s", error)

    async def _write(self) -> int | None:
        """The revision of the renewed or new lease; None while another holder has it."""
        if self._revision is not None:
            try:
                return await self._bucket.update(self._name, _encode(self._record), revision=self._revision)
            except RevisionConflict:
                log.info("lost the lease %s: it was not renewed in time", self._name)
        entry = await self._bucket.get_from_leader(self._name)
        if entry is None:
            return await self._bucket.create(self._name, _encode(self._record))
        if self._may_take(entry):
            return await self._bucket.update(self._name, _encode(self._record), revision=entry.revision)
        return None

    def _may_take(self, entry: Entry) -> bool:
        try:
            stored = _decode(entry.value)
        except UnreadableRecord:
            log.warning("replacing the unreadable lease %s", self._name)
            return True
        if stored.holder == self.holder:
            # A write of this holder, whose acknowledgement was lost.
            return True
        # Not the time before the read: the holder may have renewed its lease during a slow read.
        now = time.monotonic()
        if entry.revision != self._seen_revision:
            self._seen_revision, self._seen_at = entry.revision, now
        return now - self._seen_at > stored.ttl_sec
