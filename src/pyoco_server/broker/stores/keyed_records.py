"""Stored records that name their own key: every write is a compare-and-set."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.broker.jetstream.stream_reads import read_all
from pyoco_server.errors import FieldProblem, InvalidRequest, NatsUnavailable
from pyoco_server.records.unreadable_records import RecordKind


class Keyed(Protocol):
    @property
    def key(self) -> str: ...


R = TypeVar("R", bound=Keyed)

# Of those who write a record at the same moment, one succeeds in each round.
_TRIES: Final = 20

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Stored(Generic[R]):
    record: R
    # Of the bucket.
    revision: int


class KeyedRecords(Generic[R]):
    """Some of the records of a bucket."""

    def __init__(
        self, connection: Connection, bucket: str, kind: RecordKind, decode: Callable[[bytes], R]
    ) -> None:
        self._connection = connection
        self._kind = kind
        self._bucket = Bucket(connection, bucket)
        self._reader = RecordReader(connection, kind, decode, key_of=attrgetter("key"))

    async def get_from_leader(self, key: str) -> Stored[R] | None:
        """UnreadableRecord if the value is not such a record."""
        entry = await self._bucket.get_from_leader(key)
        return None if entry is None else Stored(self._reader.read(key, entry), entry.revision)

    async def keys(self, prefix: str) -> list[str]:
        """The keys that begin with this prefix and a dot."""
        subjects = self._bucket.prefix
        messages = read_all(self._connection, self._bucket.stream, f"{subjects}{prefix}.>")
        return [each.subject.removeprefix(subjects) async for each in messages if not each.is_marker]

    async def create(self, record: R) -> Stored[R]:
        """Write a new one, also under the key of a deleted one; RevisionConflict if it exists."""
        return Stored(record, await self._bucket.create(record.key, self._encoded(record)))

    async def replace(self, stored: Stored[R], record: R) -> Stored[R]:
        """Replace exactly what was read; RevisionConflict if it was written since."""
        encoded = self._encoded(record)
        return Stored(record, await self._bucket.update(record.key, encoded, revision=stored.revision))

    async def change(self, key: str, make: Callable[[R | None], R]) -> Stored[R]:
        """Write what `make` returns for the current record; None: there is none.

        It is called again with the newer record if another write came between. The record that it was given
        is not written again.
        """
        for _ in range(_TRIES):
            stored = await self.get_from_leader(key)
            record = make(None if stored is None else stored.record)
            try:
                if stored is None:
                    return await self.create(record)
                return stored if record is stored.record else await self.replace(stored, record)
            except RevisionConflict:
                continue
        raise self._too_busy(key)

    async def remove(self, key: str, check: Callable[[R | None], None]) -> Stored[R] | None:
        """Delete the current record, unless `check` raises an error; what was deleted."""
        for _ in range(_TRIES):
            stored = await self.get_from_leader(key)
            check(None if stored is None else stored.record)
            if stored is None:
                return None
            try:
                await self.delete(stored)
            except RevisionConflict:
                continue
            return stored
        raise self._too_busy(key)

    async def last_revision(self, pattern: str) -> int:
        """Of the newest write under these keys, a removal included; 0: none."""
        return await self._bucket.last_revision(pattern)

    async def write_after(self, record: R, *, pattern: str, revision: int) -> Stored[R]:
        """Write it if `revision` is still the newest under all these keys; RevisionConflict if not."""
        encoded = self._encoded(record)
        written = await self._bucket.write_after(record.key, encoded, pattern=pattern, revision=revision)
        return Stored(record, written)

    async def delete(self, stored: Stored[R]) -> None:
        """Delete exactly what was read; RevisionConflict if it was written since."""
        await self._bucket.delete(stored.record.key, revision=stored.revision)

    def _encoded(self, record: R) -> bytes:
        encoded = _encode(record)
        room = self._connection.max_record_bytes
        if len(encoded) > room:
            message = f"the {self._kind} takes {len(encoded)} bytes, and the NATS server accepts {room}"
            raise InvalidRequest(problems=[FieldProblem("", f"{message}; pass a reference to large data")])
        return encoded

    def _too_busy(self, key: str) -> NatsUnavailable:
        return self._connection.unavailable(f"others write the {self._kind} {key} all the time; try again")
