"""Stored API keys. Administrators and gateways write different entries.

`key.<key_id>` is the record of a key: only the admin commands write it. `used.<key_id>` is when a gateway saw
it last. So a gateway needs no right to create or change a key, and a use never overwrites a revocation.
`api_keys.<key_id>` is a key of the public package, which is read as it is. It becomes a record of ours when
it is revoked, rotated, or adopted.

A secret is never stored, only its keyed hash.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.broker.client.subscriptions import RenewableSubscription
from pyoco_server.broker.jetstream.kv import Bucket, Entry
from pyoco_server.broker.jetstream.publishing import RevisionConflict, publish_acked
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import (
    EVERYTHING,
    StreamMessage,
    StreamState,
    read_batch,
    require_end,
    stream_state,
)
from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.moments import Timestamp
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.records.value_types import Count

_KEY: Final = "key."
_USED: Final = "used."
_PUBLIC: Final = "api_keys."
_NEVER: Final = float("-inf")
# A record must not keep a gateway busy.
_MAX_ITERATIONS: Final = 2_000_000


class StoredSecret(Struct, kw_only=True, frozen=True):
    """The hash of one secret of a key; a key that is rotated has two for a while."""

    salt: str
    digest: str
    # Unix seconds; None: as long as the key itself.
    valid_until: Timestamp | None = None
    # Of PBKDF2, for a secret of the public package; salt and digest are base64 then. 0: one of ours.
    iterations: Count = 0


class ApiKeyRecord(Struct, kw_only=True, frozen=True):
    """One API key: bucket `pyoco_auth`, key `key.<key_id>`."""

    key_id: str
    tenant_id: str
    # For display.
    name: str = ""
    # Empty: everything that the tenant may do.
    scopes: tuple[str, ...] = ()
    # Of people who may answer for each other: `group:<name>` is an assignee.
    groups: tuple[str, ...] = ()
    secrets: tuple[StoredSecret, ...]
    # Whether the hashes were made with a PYOCO_AUTH_PEPPER.
    peppered: bool
    created_at: Timestamp
    expires_at: Timestamp | None = None
    revoked_at: Timestamp | None = None


class PublicKeyRecord(Struct, kw_only=True, frozen=True):
    """A key of the public package: bucket `pyoco_auth`, key `api_keys.<key_id>`."""

    key_id: str
    tenant_id: str
    kdf: Literal["pbkdf2_hmac_sha256"]
    iterations: Annotated[int, Meta(ge=1, le=_MAX_ITERATIONS)]
    salt_b64: str
    hash_b64: str
    created_at: Timestamp
    revoked_at: Timestamp | None = None

    @property
    def adopted(self) -> ApiKeyRecord:
        """The same key as a record of ours, with every scope, as it had before."""
        secret = StoredSecret(salt=self.salt_b64, digest=self.hash_b64, iterations=self.iterations)
        return ApiKeyRecord(
            key_id=self.key_id,
            tenant_id=self.tenant_id,
            name="of the public package",
            secrets=(secret,),
            # Unknown: the record does not tell.
            peppered=False,
            created_at=self.created_at,
            revoked_at=self.revoked_at,
        )


class KeyUse(Struct, frozen=True):
    """When a key was last seen: bucket `pyoco_auth`, key `used.<key_id>`."""

    last_used_at: Timestamp


class ApiKeyExists(Exception):
    """There is a key of this id."""


class ApiKeys:
    """The `pyoco_auth` bucket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._name = connection.config.auth_kv_bucket
        self._bucket = Bucket(connection, self._name)
        self._reader = RecordReader(connection, RecordKind.API_KEY, _decode_key, key_of=attrgetter("key_id"))
        self._public = _public_reader(connection)

    async def create(self, record: ApiKeyRecord) -> None:
        try:
            await self._bucket.create(_KEY + record.key_id, msgspec.json.encode(record))
        except RevisionConflict:
            raise ApiKeyExists(record.key_id) from None

    async def change(
        self, key_id: str, change: Callable[[ApiKeyRecord], ApiKeyRecord]
    ) -> ApiKeyRecord | None:
        """Apply `change` to the record as it is when it is written; None if there is none."""
        while True:
            entry = await self._bucket.get_from_leader(_KEY + key_id)
            if entry is None:
                return await self._change_public(key_id, change)
            changed = change(self._reader.read(key_id, entry))
            try:
                await self._write(key_id, changed, entry)
            except RevisionConflict:
                continue
            return changed

    async def _change_public(
        self, key_id: str, change: Callable[[ApiKeyRecord], ApiKeyRecord]
    ) -> ApiKeyRecord | None:
        """The same for a key of the public package, which becomes one of ours."""
        entry = await self._bucket.get_from_leader(_PUBLIC + key_id)
        if entry is None:
            return None
        changed = change(self._public.read(key_id, entry).adopted)
        try:
            await self.create(changed)
        except ApiKeyExists:
            return await self.change(key_id, change)
        # From here on ours applies; what remains must not come back when ours is deleted.
        with suppress(RevisionConflict):
            await self._bucket.delete(_PUBLIC + key_id, revision=entry.revision)
        return changed

    async def _write(self, key_id: str, record: ApiKeyRecord, replaced: Entry) -> None:
        value = msgspec.json.encode(record)
        if value != replaced.value:
            await self._bucket.update(_KEY + key_id, value, revision=replaced.revision)

    async def public_ids(self) -> list[str]:
        """The keys of the public package that are not adopted; also for a bucket without direct reads."""
        prefix = self._bucket.prefix + _PUBLIC
        state = await stream_state(self._connection, self._bucket.stream, subjects=f"{prefix}*")
        ids = [subject.removeprefix(prefix) for subject in sorted(state.subjects)]
        return [key_id for key_id in ids if await self._bucket.get_from_leader(_PUBLIC + key_id) is not None]

    async def note_use(self, key_id: str, at: float) -> None:
        """The last write wins: several gateways may see one key."""
        subject = f"$KV.{self._name}.{_USED}{key_id}"
        await publish_acked(self._connection, subject, msgspec.json.encode(KeyUse(at)))


class ApiKeyEntries:
    """The entries of the bucket, by the messages that were read."""

    def __init__(self, connection: Connection) -> None:
        self._prefix = f"$KV.{connection.config.auth_kv_bucket}."
        self._unreadable = connection.unreadable
        self._unreadable.clear(RecordKind.API_KEY)
        self._keys = RecordReader(connection, RecordKind.API_KEY, _decode_key, key_of=attrgetter("key_id"))
        self._uses = RecordReader(connection, RecordKind.API_KEY, _decode_use)
        self._public_keys = _public_reader(connection)
        self._own: dict[str, ApiKeyRecord | None] = {}
        # The keys of the public package that are not adopted.
        self.public: dict[str, ApiKeyRecord] = {}
        self.last_used: dict[str, float] = {}
        # Subjects with a message, markers included.
        self.subjects: set[str] = set()

    @property
    def records(self) -> dict[str, ApiKeyRecord]:
        """The keys by id. A record of ours applies before one of the public package."""
        records = {key_id: record for key_id, record in self.public.items() if key_id not in self._own}
        return records | {key_id: record for key_id, record in self._own.items() if record is not None}

    def take(self, batch: list[StreamMessage]) -> bool:
        """Apply these messages; return whether a key is among them."""
        keys = False
        for message in batch:
            self.subjects.add(message.subject)
            name = message.subject.removeprefix(self._prefix)
            entry = None if message.is_marker else Entry(message.data, message.sequence)
            if name.startswith(_KEY):
                keys = True
                self._take_key(name.removeprefix(_KEY), entry)
            elif name.startswith(_PUBLIC):
                keys = True
                self._take_public(name.removeprefix(_PUBLIC), entry)
            elif name.startswith(_USED) and entry is not None and (use := self._uses.find(name, entry)):
                self.last_used[name.removeprefix(_USED)] = use.last_used_at
        return keys

    def _take_key(self, key_id: str, entry: Entry | None) -> None:
        # Also None: an unreadable or deleted record must not leave an older one in force.
        self._own[key_id] = None if entry is None else self._keys.find(key_id, entry)
        if entry is None:
            self._unreadable.remove(RecordKind.API_KEY, key_id)

    def _take_public(self, key_id: str, entry: Entry | None) -> None:
        self.public.pop(key_id, None)
        if entry is not None and (record := self._public_keys.find(key_id, entry)) is not None:
            self.public[key_id] = record.adopted


def _public_reader(connection: Connection) -> RecordReader[PublicKeyRecord]:
    return RecordReader(connection, RecordKind.API_KEY, _decode_public, key_of=attrgetter("key_id"))


_decode_key = record_decoder(ApiKeyRecord)
_decode_public = record_decoder(PublicKeyRecord)
_decode_use = record_decoder(KeyUse)


class ApiKeyMirror:
    """A copy of the bucket, with the time as of which it is correct.

    `poll` asks the leader how far there is to read, and reads what is new; the copy is correct as of the time
    of that request. Writes are announced at once, but an announcement is only a hint to poll: the write may
    be refused, and the hint may be lost.

    After an interruption the whole bucket is read: its server may have lost the newest writes, and used their
    revisions for others since. There are few keys, and a missed revocation must not stay missed.
    """

    def __init__(self, connection: Connection, on_hint: Callable[[], None] | None = None) -> None:
        bucket = connection.config.auth_kv_bucket
        self._connection = connection
        self._stream = f"KV_{bucket}"
        self._on_hint = on_hint
        self._subscription = RenewableSubscription(connection, self._on_write, f"$KV.{bucket}.key.*")
        self._created = ""
        self._revision = 0
        # The connection's count of interruptions at the last `poll`; None after one that failed.
        self._polled_at: int | None = None
        self.entries = ApiKeyEntries(connection)
        # By the monotonic clock.
        self.correct_as_of = _NEVER

    async def poll(self) -> bool:
        """Read what was written since; return whether a key was. NatsUnavailable when that is unknown."""
        if self._on_hint is not None:
            await self._subscription.renew()
        began = time.monotonic()
        interruptions = self._connection.interruptions
        polled_at, self._polled_at = self._polled_at, None
        state = await stream_state(self._connection, self._stream)
        changed = False
        if polled_at != interruptions or self._is_replaced(state):
            self._forget(state)
            changed = True
        changed |= await self._read(state)
        if len(self.entries.subjects) != state.messages:
            # An entry was removed without a marker: only the whole bucket shows which.
            self._forget(state)
            await self._read(state)
            changed = True
        self._polled_at = interruptions
        self.correct_as_of = began
        return changed

    def _on_write(self, _: Message) -> None:
        assert self._on_hint is not None
        self._on_hint()

    def _is_replaced(self, state: StreamState) -> bool:
        return state.created != self._created or state.last_sequence < self._revision

    def _forget(self, state: StreamState) -> None:
        self._created = state.created
        self._revision = 0
        self.entries = ApiKeyEntries(self._connection)

    async def _read(self, state: StreamState) -> bool:
        changed = False
        while self._revision < state.last_sequence:
            batch = await read_batch(self._connection, self._stream, EVERYTHING, after=self._revision)
            if not batch:
                await require_end(self._connection, self._stream, after=self._revision)
                # The last messages were removed.
                self._revision = state.last_sequence
                break
            changed |= self.entries.take(batch)
            self._revision = batch[-1].sequence
        return changed
