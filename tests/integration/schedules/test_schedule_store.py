"""The bucket of schedules: each write replaces what was read, and nothing else."""

import pytest
from msgspec import structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.schedules.schedule_store import ScheduleStore, StoredSchedule
from pyoco_server.broker.stores.unreadable_scan import UnreadableScan
from pyoco_server.errors import InvalidRequest, UnreadableRecord
from pyoco_server.records.unreadable_records import RecordKind
from tests.support.samples.schedules import a_schedule

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def connection(empty_connection: Connection) -> Connection:
    return empty_connection


async def test_a_schedule_is_read_as_it_was_written(connection: Connection) -> None:
    store = ScheduleStore(connection)
    record = a_schedule(tenant_id="acme", params={"day": 1})
    revision = await store.create(record)
    assert await store.get(record.key) == StoredSchedule(record, revision)
    assert await store.get_from_leader(record.key) == StoredSchedule(record, revision)
    assert await store.get(a_schedule(tenant_id="rival").key) is None


async def test_only_the_revision_that_was_read_is_replaced(connection: Connection) -> None:
    store = ScheduleStore(connection)
    record = a_schedule("replaced")
    first = await store.create(record)
    with pytest.raises(RevisionConflict):
        await store.create(record)
    paused = structs.replace(record, paused=True)
    second = await store.replace(paused, revision=first)
    with pytest.raises(RevisionConflict):
        await store.replace(record, revision=first)
    with pytest.raises(RevisionConflict):
        await store.delete(record.key, revision=first)
    assert await store.get_from_leader(record.key) == StoredSchedule(paused, second)


async def test_the_id_of_a_deleted_schedule_can_be_used_again(connection: Connection) -> None:
    store = ScheduleStore(connection)
    record = a_schedule("again")
    await store.delete(record.key, revision=await store.create(record))
    assert await store.get(record.key) is None
    newer = structs.replace(record, incarnation="i2")
    revision = await store.create(newer)
    assert await store.get(record.key) == StoredSchedule(newer, revision)


async def test_a_schedule_that_does_not_fit_is_refused(connection: Connection) -> None:
    record = a_schedule("large", params={"text": "x" * connection.max_record_bytes})
    with pytest.raises(InvalidRequest, match="max_payload") as caught:
        await ScheduleStore(connection).create(record)
    assert [problem.field for problem in caught.value.problems] == ["params"]
    with pytest.raises(InvalidRequest) as caught:
        await ScheduleStore(connection).create(a_schedule("large", note="x" * connection.max_record_bytes))
    assert [problem.field for problem in caught.value.problems] == ["note"]
    assert await ScheduleStore(connection).get(record.key) is None


async def test_an_unreadable_schedule_is_reported_and_can_be_removed(connection: Connection) -> None:
    bucket = Bucket(connection, connection.config.schedules_kv_bucket)
    key = a_schedule("broken").key
    await bucket.create(key, b'{"schedule_id": "broken"}')
    with pytest.raises(UnreadableRecord, match="schedule"):
        await ScheduleStore(connection).get(key)
    scan = UnreadableScan(connection)
    assert [(found.kind, found.key) async for found in scan.all()] == [(RecordKind.SCHEDULE, key)]
    assert await scan.remove(RecordKind.SCHEDULE, key)
    assert await ScheduleStore(connection).get(key) is None
