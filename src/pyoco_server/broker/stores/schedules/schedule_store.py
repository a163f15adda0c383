"""Stored schedules: every write is a compare-and-set.

The key of a schedule is its tenant and its id (`schedule_key`): each tenant has ids of its own.
"""

from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket, Entry
from pyoco_server.broker.jetstream.record_reader import RecordReader
from pyoco_server.errors import FieldProblem, InvalidRequest
from pyoco_server.records.runs.run_models import encode
from pyoco_server.records.schedules.schedule_models import ScheduleRecord, decode_schedule, encode_schedule
from pyoco_server.records.unreadable_records import RecordKind

# The fields of a schedule that have no short limit.
_GIVEN: Final = ("params", "workflow_yaml", "spec", "note", "tags")


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    record: ScheduleRecord
    # Of the bucket: it changes with each decision; `record.revision` with the changes of people only.
    revision: int


class ScheduleStore:
    """The `pyoco_schedules` bucket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._bucket = Bucket(connection, connection.config.schedules_kv_bucket)
        self._reader = RecordReader(
            connection, RecordKind.SCHEDULE, decode_schedule, key_of=attrgetter("key")
        )

    async def get(self, key: str) -> StoredSchedule | None:
        """UnreadableRecord if the value is not a schedule."""
        return self._stored(key, await self._bucket.get(key))

    async def get_from_leader(self, key: str) -> StoredSchedule | None:
        """The same for decisions: a replica may lag."""
        return self._stored(key, await self._bucket.get_from_leader(key))

    async def create(self, record: ScheduleRecord) -> int:
        """Write a new schedule, also under the id of a deleted one; RevisionConflict if it exists."""
        return await self._bucket.create(record.key, self._encoded(record))

    async def replace(self, record: ScheduleRecord, *, revision: int) -> int:
        """Replace exactly `revision`; RevisionConflict if it was written since."""
        return await self._bucket.update(record.key, self._encoded(record), revision=revision)

    async def delete(self, key: str, *, revision: int) -> None:
        """Delete exactly `revision`; RevisionConflict if it was written since."""
        await self._bucket.delete(key, revision=revision)

    def _stored(self, key: str, entry: Entry | None) -> StoredSchedule | None:
        return None if entry is None else StoredSchedule(self._reader.read(key, entry), entry.revision)

    def _encoded(self, record: ScheduleRecord) -> bytes:
        encoded = encode_schedule(record)
        room = self._connection.max_record_bytes
        if len(encoded) > room:
            message = (
                f"the schedule takes {len(encoded)} bytes, and the NATS server accepts {room}; shorten its "
                "largest field, or raise max_payload in the server's configuration"
            )
            raise InvalidRequest(problems=[FieldProblem(_largest_field(record), message)])
        return encoded


def _largest_field(record: ScheduleRecord) -> str:
    """Of those that people give."""
    return max(_GIVEN, key=lambda name: len(encode(getattr(record, name))))
