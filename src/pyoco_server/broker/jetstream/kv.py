"""A key-value bucket in which each write names the revision that it replaces.

Thin on purpose: the hot path of a run is three of these calls, and nats-py's KeyValue spends more time
around the request than in it.
"""

from base64 import b64decode
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from pyoco_server.broker.client.connection import Connection, NoResponders
from pyoco_server.broker.jetstream.publishing import RevisionConflict, publish_acked
from pyoco_server.broker.jetstream.stream_reads import (
    DELETED,
    StoredMessage,
    last_sequence,
    newest_messages,
    stored_message,
    unix_time,
)


@dataclass(frozen=True, slots=True)
class Entry:
    value: bytes
    revision: int
    # When it was written, by the server's clock, RFC 3339.
    timestamp: str = ""


class Bucket:
    """One KV bucket. Keys must be validated by the caller: they become a subject token."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection = connection
        self.stream = f"KV_{name}"
        # Of the subjects of its keys.
        self.prefix = f"$KV.{name}."

    async def get(self, key: str) -> Entry | None:
        """The latest value; a key that a replica does not have, or no longer, is read from the leader."""
        subject = f"$JS.API.DIRECT.GET.{self.stream}.{self.prefix}{key}"
        try:
            reply = await self._connection.request(subject)
        except NoResponders:
            # A bucket that was made without direct reads.
            return await self.get_from_leader(key)
        headers = reply.headers or {}
        if "Status" in headers or headers.get("KV-Operation") in DELETED:
            return await self.get_from_leader(key)
        return Entry(reply.data, int(headers["Nats-Sequence"]), headers.get("Nats-Time-Stamp", ""))

    async def get_from_leader(self, key: str) -> Entry | None:
        """The latest value as the leader knows it: never older than the last acknowledged write."""
        stored = await self._stored(key)
        if stored is None or stored.is_marker:
            return None
        return Entry(b64decode(stored.data), stored.seq, stored.time)

    async def get_many(self, keys: Sequence[str]) -> dict[str, Entry]:
        """The latest values as any replica knows them, without their times.

        A key is left out that was deleted, that the replica does not have, or that comes after a megabyte.
        """
        if not keys:
            return {}
        subjects = [self.prefix + key for key in keys]
        found = await newest_messages(self._connection, self.stream, subjects)
        return {
            message.subject.removeprefix(self.prefix): Entry(message.data, message.sequence)
            for message in found
            if not message.is_marker
        }

    async def marker(self, key: str) -> int | None:
        """The revision at which the key was deleted; None if it exists, or has left no marker."""
        stored = await self._stored(key)
        return stored.seq if stored is not None and stored.is_marker else None

    async def deleted_at(self, key: str) -> float | None:
        """When the key was deleted, by the server's clock; None if it exists, or has left no marker."""
        stored = await self._stored(key)
        return unix_time(stored.time) if stored is not None and stored.is_marker else None

    async def create(self, key: str, value: bytes) -> int:
        """Write a key that does not exist, or was deleted; RevisionConflict if it exists."""
        try:
            return await self.update(key, value, revision=0)
        except RevisionConflict:
            stored = await self._stored(key)
            if stored is None or not stored.is_marker:
                raise
            return await self.update(key, value, revision=stored.seq)

    def update(self, key: str, value: bytes, *, revision: int) -> Coroutine[Any, Any, int]:
        """Replace exactly the given revision; return the new one."""
        # Not a coroutine of its own: every run passes here.
        headers = {"Nats-Expected-Last-Subject-Sequence": str(revision)}
        return publish_acked(self._connection, self.prefix + key, value, headers)

    async def last_revision(self, pattern: str) -> int:
        """Of the newest write under these keys, a removal included, as the leader knows it; 0: none."""
        return await last_sequence(self._connection, self.stream, self.prefix + pattern)

    async def write_after(self, key: str, value: bytes, *, pattern: str, revision: int) -> int:
        """Write the key if `revision` is still the newest under all these keys; RevisionConflict if not."""
        headers = {
            "Nats-Expected-Last-Subject-Sequence": str(revision),
            "Nats-Expected-Last-Subject-Sequence-Subject": self.prefix + pattern,
        }
        return await publish_acked(self._connection, self.prefix + key, value, headers)

    async def delete(self, key: str, *, revision: int) -> None:
        """Delete the key if it is still at the given revision."""
        headers = {"Nats-Expected-Last-Subject-Sequence": str(revision), "KV-Operation": "DEL"}
        await publish_acked(self._connection, self.prefix + key, b"", headers)

    async def forbid(self, key: str) -> None:
        """Keep an unused key from being used; RevisionConflict if it has a value by now."""
        try:
            await self.delete(key, revision=0)
        except RevisionConflict:
            if await self.get_from_leader(key) is not None:
                raise

    async def _stored(self, key: str) -> StoredMessage | None:
        query: dict[str, object] = {"last_by_subj": f"{self.prefix}{key}"}
        return await stored_message(self._connection, self.stream, query)
